//! Copies of folders of immutable files, in a directory or an object store.
