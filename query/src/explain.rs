//! What a correction did to one query: raw and corrected side by side.

use dehub_index::{Question, Snapshot};

use crate::QueryError;
use crate::execute::{Hit, Response, run};
use crate::query::Query;
use crate::staleness::{Staleness, staleness};

/// One query answered with and without its correction.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The raw answer.
    pub raw: Response,
    /// The corrected answer.
    pub corrected: Response,
    /// The rank of each corrected hit in the exact raw ranking, from 1.
    pub raw_ranks: Vec<u32>,
    /// For a correction that is behind its banks, what it has not taken in can do to the answer.
    pub staleness: Option<Staleness>,
}

/// Answers a query raw and as it asks, and ranks what changed.
pub fn explain(snapshot: &Snapshot, query: &Query) -> Result<Explanation, QueryError> {
    let raw_query = Query { settings: query.settings.raw(), ..query.clone() };
    let prepared = query.prepare(0, snapshot)?;
    let mut responses = run(snapshot, &[raw_query, query.clone()])?;
    // Equal settings are grouped, but every query has its own response.
    let corrected = responses.remove(1);
    let raw = responses.remove(0);
    let targets = [corrected.hits.iter().map(|hit: &Hit| hit.row).collect::<Vec<_>>()];
    let question = Question { vectors: std::slice::from_ref(&prepared.vector), limit: 0, targets: &targets };
    let answer = snapshot.scan(&question, &[dehub_index::Variant::raw()]).swap_remove(0).swap_remove(0);
    // A point is left out of its own answer, so what it precedes moves up.
    let own = prepared.own_row;
    let own_rank = own.map(|row| {
        let question = Question { targets: &[vec![row]], ..question.clone() };
        snapshot.scan(&question, &[dehub_index::Variant::raw()]).swap_remove(0).swap_remove(0).ranks[0]
    });
    let without_own = |rank: u32| rank - u32::from(own_rank.is_some_and(|own| own < rank));
    let raw_ranks = answer.ranks.into_iter().map(without_own).collect();
    let found = query.settings.ranking.find(snapshot)?;
    let staleness = staleness(snapshot, &prepared, found, &corrected.hits)?;
    Ok(Explanation { raw, corrected, raw_ranks, staleness })
}
