//! Why no choice could be made.

use dehub_index::{Blame, Name, WriteError};

use super::{QUERIES_MIN, ROUNDS_MAX, ROUNDS_MIN};
use crate::QueryError;

/// Why tuning was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// Too few queries for any choice.
    #[error(
        "{found} queries are too few to choose by: wanted at least {QUERIES_MIN}, and often some thousand"
    )]
    TooFewQueries {
        /// Queries given, or judged and given.
        found: usize,
    },
    /// Nothing to choose from.
    #[error("there are no corrections to choose from")]
    NoCorrections,
    /// A number of rounds out of range.
    #[error("{found} rounds of resampling, wanted {ROUNDS_MIN} to {ROUNDS_MAX}")]
    Rounds {
        /// The rounds.
        found: usize,
    },
    /// Too few pairs for a choice by them.
    #[error(
        "bank `{bank}` has {found} entries whose ids are judged, wanted at least {QUERIES_MIN}: a pair is the id \
         of an entry and that of a point"
    )]
    TooFewPairs {
        /// The bank.
        bank: Name,
        /// Its judged entries.
        found: usize,
    },
    /// The corrections cannot be fitted.
    #[error(transparent)]
    Fit(#[from] WriteError),
    /// The queries cannot be answered.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl TuneError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            TuneError::Query(error) => error.blame(),
            TuneError::Fit(error) => error.blame(),
            TuneError::TooFewPairs { .. }
            | TuneError::TooFewQueries { .. }
            | TuneError::NoCorrections
            | TuneError::Rounds { .. } => Blame::Caller,
        }
    }
}
