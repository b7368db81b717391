//! Where objects are kept, as a repository sees it. Keys are paths with `/` between parts, all of them safe.

use std::path::Path;

use crate::BackupError;
use crate::claim::{Claim, Purpose};
use crate::hash::Content;

/// Told of bytes as they are moved; an error ends the work.
pub(crate) type Watch<'a> = dyn FnMut(u64) -> Result<(), BackupError> + 'a;

/// Takes what an object holds, a piece at a time.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), BackupError> + 'a;

/// How a file got to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Copied,
    Linked,
}

/// What is found under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The last part of its key.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

pub(crate) trait Place: Send + Sync {
    /// The length of an object that is there, unless it has to be stored anew all the same: `source` must not be
    /// shared, and it is.
    fn present(&self, key: &str, source: &Path, may_link: bool) -> Result<Option<u64>, BackupError>;

    /// Whether reading an object costs about as much as reading the file it is of.
    fn is_near(&self) -> bool;

    /// Stores what the file `source` holds, which is `content`; whole or, on an error, not at all.
    fn store(
        &self,
        key: &str,
        source: &Path,
        content: Content,
        may_link: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Moved, BackupError>;

    /// Stores a small object whose key is free; gives `false` if it is not.
    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, BackupError>;

    /// Makes what was stored below `folder` survive a power cut.
    fn settle(&self, folder: &str) -> Result<(), BackupError>;

    /// Reads an object that should have `bytes` bytes; gives `false` if there is none. What it holds if it is
    /// longer or shorter is for the reader to find out.
    fn read(&self, key: &str, bytes: u64, sink: &mut Sink<'_>) -> Result<bool, BackupError>;

    /// The length of an object.
    fn length(&self, key: &str) -> Result<Option<u64>, BackupError>;

    /// The objects directly below `folder`, leftovers of interrupted work included, in any order.
    fn list(&self, folder: &str) -> Result<Vec<Found>, BackupError>;

    /// The folders directly below the repository.
    fn folders(&self) -> Result<Vec<String>, BackupError>;

    /// Removes an object, if it is there.
    fn remove(&self, key: &str) -> Result<(), BackupError>;

    /// Keeps objects of a collection from being swept, or from being used, while the claim is held.
    fn claim(&self, collection: &str, purpose: Purpose) -> Result<Claim, BackupError>;
}
