//! Copies of folders of immutable files, in a directory or an object store.
//!
//! A [`Repository`] keeps backups of any number of collections. What a file holds is stored once, under the
//! BLAKE3 hash of it, however many backups have it:
//!
//! ```text
//! COLLECTION/objects/<hash>       what files hold; never changed
//! COLLECTION/backups/<id>.json    the manifest of a backup, written after all of its objects
//! COLLECTION/claims/<name>        who works on the objects at the moment (a directory has a lock instead)
//! ```
//!
//! A backup is there once its manifest is. Whatever an interrupted one leaves is named by no manifest, and
//! [`Repository::prune`] removes it.

mod claim;
mod directory;
mod error;
mod hash;
mod id;
mod manifest;
mod objects;
mod place;
mod repository;
mod sweep;

pub use directory::try_folder;
pub use error::BackupError;
pub use id::{BackupId, utc};
pub use manifest::{About, FORMAT};
pub use repository::{BackupInfo, Checked, Listing, Progress, Repository, Step, StoreOptions, Stored};
pub use sweep::Swept;
