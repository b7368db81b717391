//! Why a question has no answer.

use dehub_index::{Blame, Name, ReadError, TextSearchError, TimeUp, UnknownSpace};
use dehub_vector::{PointId, VectorError};

use crate::query::{BATCH_QUERIES_MAX, LIMIT_MAX, PRIOR_WEIGHT_MAX};

/// Why a query was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query vector cannot be compared with the points.
    #[error("query {place}: {source}")]
    Vector {
        /// The query's place in the batch, from 0.
        place: usize,
        /// What is wrong with it.
        source: VectorError,
    },
    /// A kind of query that is not for points of several vectors each.
    #[error("a query of the kind `{what}` is not for multi-vectors: search by one, or by the id of a point")]
    MultiVectors {
        /// The kind.
        what: &'static str,
    },
    /// The point to search by does not exist.
    #[error("query {place}: there is no point with the id {id}")]
    UnknownPoint {
        /// The query's place in the batch, from 0.
        place: usize,
        /// The id.
        id: PointId,
    },
    /// The point to search by has no vector of the name that is searched by.
    #[error("query {place}: the point {id} has no vector `{name}`")]
    NoVector {
        /// The query's place in the batch, from 0.
        place: usize,
        /// The id.
        id: PointId,
        /// The name of the vector.
        name: Name,
    },
    /// No such correction.
    #[error("there is no correction `{correction}`; the collection has: {found}")]
    UnknownCorrection {
        /// What was asked for.
        correction: String,
        /// The corrections there are.
        found: String,
    },
    /// More neighbours of each query are to be measured than there are points.
    #[error("k is {wanted}, but the collection has {found} points")]
    MoreThanPoints {
        /// How many neighbours.
        wanted: usize,
        /// The points there are.
        found: usize,
    },
    /// A limit out of range.
    #[error("the limit is {found}, wanted 1 to {LIMIT_MAX}")]
    Limit {
        /// The limit.
        found: usize,
    },
    /// An effort of 0.
    #[error("the effort (hnsw_ef) is 0, wanted at least 1")]
    Effort,
    /// No candidates.
    #[error("the number of candidates is 0, wanted at least 1")]
    Candidates,
    /// A recall that is no share.
    #[error("the recall is {found}, wanted a number above 0, at most 1")]
    Recall {
        /// What was given.
        found: f64,
    },
    /// A weight that is no factor.
    #[error("alpha, the weight of the correction's bias, is {found}, wanted a number from 0 to 100")]
    Weight {
        /// What was given.
        found: f32,
    },
    /// A weight other than 0 or 1 for a method without biases.
    #[error(
        "{method} ranks by a score of its own, not by a bias that could be taken in part: its alpha is \
         {found}, wanted 1, or 0 for the raw ranking"
    )]
    NoStrength {
        /// The method.
        method: String,
        /// What was given.
        found: f32,
    },
    /// No such prior.
    #[error("there is no prior `{prior}`; the collection has: {found}")]
    UnknownPrior {
        /// What was asked for.
        prior: String,
        /// The priors there are.
        found: String,
    },
    /// A weight of a prior that is out of range.
    #[error(
        "the weight of the prior `{prior}` is {found}, wanted a number from -{PRIOR_WEIGHT_MAX:e} to \
         {PRIOR_WEIGHT_MAX:e}"
    )]
    PriorWeight {
        /// The prior.
        prior: String,
        /// What was given.
        found: f32,
    },
    /// Priors for a method whose score is no sum that they could be added to.
    #[error(
        "{method} ranks by a score of its own, which priors cannot be added to: wanted the raw ranking or a method \
         that subtracts a bias"
    )]
    NoPriors {
        /// The method.
        method: String,
    },
    /// Too many queries at once.
    #[error("the batch has {found} queries, wanted at most {BATCH_QUERIES_MAX}")]
    BatchTooLarge {
        /// How many.
        found: usize,
    },
    /// The collection has no points, so nothing can be measured.
    #[error("the collection has no points")]
    NoPoints,
    /// There are no queries, so nothing can be measured.
    #[error("there are no queries{0}")]
    NoQueries(&'static str),
    /// No such bank.
    #[error("there is no bank `{bank}`; the collection has: {found}")]
    UnknownBank {
        /// What was asked for.
        bank: String,
        /// The banks there are.
        found: String,
    },
    /// Too few vectors to tell their likeness from chance.
    #[error("there are {found} {what}, wanted at least {least} to compare")]
    TooFewToCompare {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many it takes.
        least: usize,
    },
    /// What was asked about a correction has no answer for its method.
    #[error("{method}: {reason}")]
    Unsuited {
        /// The method.
        method: String,
        /// What does not fit.
        reason: &'static str,
    },
    /// A request that asks for nothing that could be answered.
    #[error("{reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It took longer than the time it was given.
    #[error(transparent)]
    TimeUp(#[from] TimeUp),
    /// The vectors of the collection have names, and the question is about none of them.
    #[error(transparent)]
    Space(#[from] UnknownSpace),
    /// Points cannot be found by words.
    #[error(transparent)]
    Text(Box<TextSearchError>),
    /// A point could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<TextSearchError> for QueryError {
    fn from(error: TextSearchError) -> QueryError {
        match error {
            TextSearchError::TimeUp(error) => error.into(),
            TextSearchError::Read(error) => error.into(),
            TextSearchError::NoFields | TextSearchError::NotReady | TextSearchError::Text(_) | _ => {
                QueryError::Text(Box::new(error))
            }
        }
    }
}

impl QueryError {
    /// Takes out which of several vectors it is about: the first one is left.
    pub(crate) fn take_place(&mut self) -> Option<usize> {
        if let QueryError::Vector { place, .. }
        | QueryError::UnknownPoint { place, .. }
        | QueryError::NoVector { place, .. } = self
        {
            return Some(std::mem::take(place));
        }
        None
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            QueryError::Read(error) => error.blame(),
            QueryError::Text(error) => error.blame(),
            QueryError::Vector { .. }
            | QueryError::MultiVectors { .. }
            | QueryError::UnknownPoint { .. }
            | QueryError::NoVector { .. }
            | QueryError::UnknownCorrection { .. }
            | QueryError::UnknownBank { .. }
            | QueryError::MoreThanPoints { .. }
            | QueryError::Limit { .. }
            | QueryError::Effort
            | QueryError::Recall { .. }
            | QueryError::Candidates
            | QueryError::Weight { .. }
            | QueryError::NoStrength { .. }
            | QueryError::UnknownPrior { .. }
            | QueryError::PriorWeight { .. }
            | QueryError::NoPriors { .. }
            | QueryError::BatchTooLarge { .. }
            | QueryError::NoPoints
            | QueryError::TooFewToCompare { .. }
            | QueryError::Unsuited { .. }
            | QueryError::Malformed { .. }
            | QueryError::TimeUp(_)
            | QueryError::Space(_)
            | QueryError::NoQueries(_) => Blame::Caller,
        }
    }
}
