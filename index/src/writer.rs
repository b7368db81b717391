//! How the writes of a collection fare.

use std::time::SystemTime;

use crate::Collection;

/// Why a collection takes no writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterFailure {
    /// The error of the commit that failed.
    pub cause: String,
    /// When it did.
    pub since: SystemTime,
}

/// How the writes of a collection fare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterInfo {
    /// Writes that are made or wait to become durable.
    pub waiting: usize,
    /// As many may; one more is refused.
    pub waiting_max: usize,
    /// Commits since the collection was opened.
    pub commits: u64,
    /// Syncs since then: fewer, if writes waited for one together.
    pub syncs: u64,
    /// Set when a commit failed: writes are refused until the collection is opened again, and reads go on.
    pub failure: Option<WriterFailure>,
}

impl Collection {
    /// How writes fare.
    pub fn writer(&self) -> WriterInfo {
        let counts = self.store.counts();
        let failure = || WriterFailure {
            cause: "an earlier write to the store failed".to_owned(),
            since: SystemTime::now(),
        };
        WriterInfo {
            waiting: 0,
            waiting_max: 1,
            commits: counts.commits,
            syncs: counts.syncs,
            failure: self.store.is_poisoned().then(failure),
        }
    }
}
