//! Hits as they are served: with Qdrant's scores where it has them.

use dehub_index::Snapshot;
use dehub_vector::{Metric, Vector};

use crate::execute::{Hit, Response};
use crate::query::Query;
use crate::{OrderValue, QueryError};

/// A point of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Its row in the snapshot.
    pub row: u32,
    /// What it is ranked by. Larger is better, but for a raw ranking under [`Metric::Euclidean`]: that is served
    /// as the distance, smaller is better.
    pub score: f32,
    /// The parts of the score; `None` if it is not of one query.
    pub hit: Option<Hit>,
    /// What it was listed by.
    pub order_value: Option<OrderValue>,
}

impl Found {
    /// A point with a score that is not of one query.
    pub(crate) fn scored(row: u32, score: f32) -> Found {
        Found { row, score, hit: None, order_value: None }
    }

    fn hit(hit: Hit) -> Found {
        Found { hit: Some(hit), ..Found::scored(hit.row, hit.score) }
    }
}

/// The hits of a query as they are served: those of a raw ranking under [`Metric::Euclidean`] with the distance as
/// their score. A corrected score is no distance and stays `scale·similarity − bias`.
pub fn serve(snapshot: &Snapshot, query: &Query, response: &Response) -> Result<Vec<Found>, QueryError> {
    let hits = response.hits.iter().copied().map(Found::hit);
    if !is_distance(snapshot, response) {
        return Ok(hits.collect());
    }
    let vector = query.prepare(0, snapshot)?.vector;
    let measured = |found: Found| Found { score: distance(&vector, snapshot.vector(found.row)), ..found };
    Ok(hits.map(measured).collect())
}

/// Whether scores are served as distances.
pub(crate) fn is_distance(snapshot: &Snapshot, response: &Response) -> bool {
    let is_raw = response.plan.correction.is_none() && response.hits.iter().all(|hit| hit.boost.is_none());
    snapshot.config().metric == Metric::Euclidean && is_raw
}

/// The distance of a query and a point. The similarity is made of half squared norms, which for points that are
/// near to each other leaves too few digits to take a root of.
#[expect(clippy::cast_possible_truncation, reason = "rounding to 32 bits is the point")]
fn distance(query: &Vector, point: &[f32]) -> f32 {
    squared_distance(query.as_slice(), point).sqrt() as f32
}

/// `‖q − p‖²`
pub(crate) fn squared_distance(query: &[f32], point: &[f32]) -> f64 {
    let difference = |(&left, &right): (&f32, &f32)| f64::from(left) - f64::from(right);
    query.iter().zip(point).map(difference).map(|difference| difference * difference).sum()
}
