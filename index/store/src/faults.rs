//! Calls that fail when a test wants them to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::engine::{Cause, Trouble};

/// How a call of a store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing happened.
    Refused,
    /// A commit or a sync took effect and is reported failed, as when the system fails between the two. Any other call
    /// is refused.
    Unacknowledged,
}

/// Counts the calls of a store and makes one of them fail. Clones share the count.
///
/// These are calls: a lookup of one key or of many, the start of a scan and each row asked of it (the end included), a
/// view, a commit, a sync, a checkpoint, a compaction. The first one is number 1. A view that fails answers every read
/// with the error, and a commit or sync that fails poisons the store, as the real ones do.
#[derive(Clone, Default)]
pub struct Faults(Arc<Plan>);

#[derive(Default)]
struct Plan {
    calls: AtomicU64,
    /// The call that fails, and how; none if it is 0.
    failing: u64,
    fault: Option<Fault>,
    disarmed: AtomicBool,
}

impl Faults {
    /// Counts only.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Makes the `call`-th call fail, the first being number 1.
    pub fn at(call: u64, fault: Fault) -> Faults {
        Faults(Arc::new(Plan { failing: call, fault: Some(fault), ..Plan::default() }))
    }

    /// The calls so far.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// From now on no call is made to fail.
    pub fn disarm(&self) {
        self.0.disarmed.store(true, Ordering::SeqCst);
    }

    /// Counts a call; how it is to fail, if it is.
    pub(crate) fn call(&self) -> Option<Fault> {
        let call = self.0.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let is_due = call == self.0.failing && !self.0.disarmed.load(Ordering::SeqCst);
        self.0.fault.filter(|_| is_due)
    }
}

/// Counts a call that changes nothing; its error, if it is to fail.
pub(crate) fn refusal(faults: Option<&Faults>) -> Option<Trouble> {
    faults.and_then(Faults::call).map(|_| trouble())
}

/// The error of a call that fails.
pub(crate) fn trouble() -> Trouble {
    Trouble::new(Cause::Other, "a test made this call fail")
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("calls", &self.calls())
            .field("failing", &self.0.failing)
            .field("fault", &self.0.fault)
            .finish_non_exhaustive()
    }
}
