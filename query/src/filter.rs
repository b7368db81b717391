//! Which points may be answers.

use dehub_index::{Scope, Snapshot};
use dehub_vector::PointId;

use crate::QueryError;

/// A condition on the points that an answer may have. An id that no point has matches none.
///
/// What is known of a point stays what it is in the whole collection: its biases and whether it is activated.
/// What is known of a query is measured in the points that are allowed: a gate looks at the raw best of them,
/// the ratio margin takes the query's neighbours from them, and an explanation ranks among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Lists of ids: a point's id must be in each.
    pub must: Vec<Vec<PointId>>,
    /// Lists of ids: a point's id must be in none.
    pub must_not: Vec<Vec<PointId>>,
}

impl Filter {
    /// The points of a scope that it allows.
    pub(crate) fn within(&self, snapshot: &Snapshot, scope: &Scope) -> Result<Scope, QueryError> {
        let mut scope = scope.clone();
        for ids in &self.must {
            scope = scope.only(snapshot.find_all(ids)?);
        }
        for ids in &self.must_not {
            scope = scope.without(snapshot.find_all(ids)?);
        }
        Ok(scope)
    }
}
