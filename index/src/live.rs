//! The live bank: a sample of the queries of late, kept in a bank of its own.

use serde::{Deserialize, Serialize};

use crate::{Name, WriteError};

/// The largest capacity of a live bank: what is kept is in memory and in the bank.
pub const LIVE_CAPACITY_MAX: usize = 1_000_000;

/// How the ids of the entries start that are queries which were served.
pub const LIVE_ID_PREFIX: &str = "live-";

/// The longest that a query can be kept, in seconds: ten years.
pub const LIVE_RETENTION_MAX: u64 = 10 * 366 * 86_400;

/// Which of the queries served are kept, where, and for how long. Kept are a query's vector and the time it
/// was asked at; not its text, and nothing of who asked. Without a policy nothing is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveBank {
    /// The query bank they are kept in, made if it does not exist; one that has entries must have kept queries
    /// before. Entries that were put there by others stay, and do not count.
    pub bank: Name,
    /// The share of the queries that are looked at: above 0, at most 1.
    pub rate: f64,
    /// Queries kept at most, from 1 to [`LIVE_CAPACITY_MAX`].
    pub capacity: usize,
    /// Seconds after which a query is removed, from 1 to [`LIVE_RETENTION_MAX`].
    pub retention_seconds: u64,
    /// Queries kept at most of one client, from 1. Clients are told apart by who serves, as long as it runs:
    /// whose the queries of before are is not known.
    pub per_client: usize,
}

impl LiveBank {
    /// Whether every number is in its range.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        let range = |parameter, found: f64, fits, wanted| {
            if fits { Ok(()) } else { Err(WriteError::Live { parameter, found, wanted }) }
        };
        let LiveBank { bank: _, rate, capacity, retention_seconds, per_client } = *self;
        range("rate", rate, rate > 0.0 && rate <= 1.0, "a number above 0, at most 1")?;
        let fits = (1..=LIVE_CAPACITY_MAX).contains(&capacity);
        range("capacity", number(capacity as u64), fits, "a whole number from 1 to 1000000")?;
        let fits = (1..=LIVE_RETENTION_MAX).contains(&retention_seconds);
        let wanted = "1 to 316224000 seconds, which is ten years";
        range("retention_seconds", number(retention_seconds), fits, wanted)?;
        range("per_client", number(per_client as u64), per_client > 0, "a whole number from 1")
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a message")]
fn number(whole: u64) -> f64 {
    whole as f64
}
