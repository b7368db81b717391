//! Which points may be answers: a tree of conditions, in Qdrant's form. Evaluating it is apart: for single points in
//! `matcher.rs`, for sets of points in `sets.rs`.

mod geo;
mod lookup;
mod matcher;
mod parse;
mod print;
mod selectivity;
mod sets;
mod slice;
mod test;

use dehub_index::{PayloadPath, Scope, Snapshot};
use dehub_vector::PointId;

use crate::QueryError;

pub use geo::{Area, EARTH_RADIUS_METRES};
pub use matcher::Matcher;
pub use parse::FilterTextError;
pub use selectivity::Selectivity;
pub use slice::Slice;
pub use test::{Bounds, Exact, Match, OneOf, Test, Words};

/// A condition on the points that an answer may have: all of its parts must hold. An empty one allows every point.
///
/// What is known of a point stays what it is in the whole collection: its biases and whether it is activated.
/// What is known of a query is measured in the points that are allowed: a gate looks at the raw best of them,
/// the ratio margin takes the query's neighbours from them, and an explanation ranks among them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// Each must hold.
    pub must: Vec<Condition>,
    /// At least one must hold, if there are any.
    pub should: Vec<Condition>,
    /// None must hold.
    pub must_not: Vec<Condition>,
    /// At least so many must hold.
    pub min_should: Option<MinShould>,
}

/// Conditions of which some must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct MinShould {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// How many of them.
    pub least: usize,
}

/// What may hold of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A value that a path leads to passes a test; of an array, one of its entries.
    Field {
        /// The path.
        key: PayloadPath,
        /// The test.
        test: Test,
    },
    /// A path leads to an array of so many entries, or to another value where that is 1, or to nothing or null where
    /// it is 0.
    Count {
        /// The path.
        key: PayloadPath,
        /// How many.
        bounds: Bounds<u64>,
    },
    /// A path leads to nothing but nulls and empty arrays.
    IsEmpty(PayloadPath),
    /// A path leads to a null, or to an array with one.
    IsNull(PayloadPath),
    /// The point's id is in this list. An id that no point has matches none.
    HasId(Vec<PointId>),
    /// The point's id is in this part of all ids.
    Slice(Slice),
    /// The point has a vector of this name; the unnamed one has the empty name.
    HasVector(Box<str>),
    /// An object in an array passes a filter, whose paths begin in it. It has no id and no vector.
    Nested {
        /// The path to the array, with or without `[]`.
        key: PayloadPath,
        /// The filter.
        filter: Box<Filter>,
    },
    /// A filter holds.
    Filter(Box<Filter>),
    /// A condition does not hold.
    Not(Box<Condition>),
}

impl Filter {
    /// The filter that allows the points with these ids.
    pub fn only(ids: Vec<PointId>) -> Filter {
        Filter { must: vec![Condition::HasId(ids)], ..Filter::default() }
    }

    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        let Filter { must, should, must_not, min_should } = self;
        must.is_empty() && should.is_empty() && must_not.is_empty() && min_should.is_none()
    }

    /// The points of a scope that it allows.
    ///
    /// # Errors
    /// [`QueryError::TimeUp`] if they are not found by the deadline of the scope.
    pub fn within(&self, snapshot: &Snapshot, scope: &Scope) -> Result<Scope, QueryError> {
        self.matcher(snapshot)?.narrow(scope)
    }

    /// How many points of a snapshot it allows, as far as the indexes of payload fields tell at once.
    ///
    /// # Errors
    /// [`QueryError::Read`] if the ids that it names cannot be looked up.
    pub fn estimate(&self, snapshot: &Snapshot) -> Result<Selectivity, QueryError> {
        Ok(self.matcher(snapshot)?.estimate())
    }
}
