//! Ordered changes that are applied together or not at all.

use crate::Family;

/// The most bytes of keys and values one commit takes.
///
/// A batch is in memory three times while it is committed (here, in RocksDB's form, in the write buffer), and RocksDB
/// drops without an error a key or value whose length does not fit 32 bits; this limit keeps both far away.
pub const BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Ordered changes, applied all or none by [`Store::commit`](crate::Store::commit). A later change wins over an
/// earlier one to the same key.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    changes: Vec<Change>,
    /// Keys and values of all changes, one after the other.
    payload: Vec<u8>,
}

/// What happens to a family; the bytes it takes are the next `first + second` of the payload.
#[derive(Debug, Clone)]
struct Change {
    family: Family,
    action: Action,
    first: usize,
    second: usize,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Put,
    Delete,
    DeleteRange,
}

/// One change with its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangeRef<'a> {
    Put { family: Family, key: &'a [u8], value: &'a [u8] },
    Delete { family: Family, key: &'a [u8] },
    DeleteRange { family: Family, from: &'a [u8], to: &'a [u8] },
}

impl Batch {
    /// Sets the value of `key`.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.push(family, Action::Put, key, value);
    }

    /// Removes `key`; a key that is not there is no error.
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        self.push(family, Action::Delete, key, &[]);
    }

    /// Removes every key from `from` up to, not including, `to`. An empty range changes nothing.
    pub fn delete_range(&mut self, family: Family, from: &[u8], to: &[u8]) {
        if from < to {
            self.push(family, Action::DeleteRange, from, to);
        }
    }

    /// Adds the changes of another batch after these.
    pub fn append(&mut self, later: Batch) {
        self.changes.extend(later.changes);
        self.payload.extend(later.payload);
    }

    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// The sum of the lengths of all keys and values, to hold against a limit such as [`BATCH_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ChangeRef<'_>> {
        let mut rest = self.payload.as_slice();
        self.changes.iter().map(move |change| {
            let (first, tail) = rest.split_at(change.first);
            let (second, tail) = tail.split_at(change.second);
            rest = tail;
            match change.action {
                Action::Put => ChangeRef::Put { family: change.family, key: first, value: second },
                Action::Delete => ChangeRef::Delete { family: change.family, key: first },
                Action::DeleteRange => {
                    ChangeRef::DeleteRange { family: change.family, from: first, to: second }
                }
            }
        })
    }

    // INVARIANT: the lengths in `changes` add up to the length of `payload`. `iter` relies on it.
    fn push(&mut self, family: Family, action: Action, first: &[u8], second: &[u8]) {
        self.changes.push(Change { family, action, first: first.len(), second: second.len() });
        self.payload.extend_from_slice(first);
        self.payload.extend_from_slice(second);
    }
}

impl ChangeRef<'_> {
    pub(crate) fn family(&self) -> Family {
        match *self {
            ChangeRef::Put { family, .. }
            | ChangeRef::Delete { family, .. }
            | ChangeRef::DeleteRange { family, .. } => family,
        }
    }
}
