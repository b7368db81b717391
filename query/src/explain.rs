//! What a correction did to one query: raw and corrected side by side.

use dehub_index::{Question, Scope, Snapshot, Variant};

use crate::QueryError;
use crate::execute::{Hit, Response, run_within};
use crate::query::Query;
use crate::staleness::{Staleness, staleness};

/// One query answered with and without its correction.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The raw answer.
    pub raw: Response,
    /// The corrected answer.
    pub corrected: Response,
    /// The rank of each corrected hit in the exact raw ranking of the points that may be answers, from 1.
    pub raw_ranks: Vec<u32>,
    /// For each corrected hit, what each of the query's priors added, in their order.
    pub boosts: Vec<Vec<f32>>,
    /// For a correction that is behind its banks, what it has not taken in can do to the answer.
    pub staleness: Option<Staleness>,
}

/// Answers a query raw and as it asks, and ranks what changed.
pub fn explain(snapshot: &Snapshot, query: &Query) -> Result<Explanation, QueryError> {
    explain_within(snapshot, &snapshot.scope(), query)
}

/// The same among the points of a scope of this snapshot.
pub fn explain_within(snapshot: &Snapshot, scope: &Scope, query: &Query) -> Result<Explanation, QueryError> {
    let raw_query = Query { settings: query.settings.raw(), ..query.clone() };
    let prepared = query.prepare(0, snapshot)?;
    let mut responses = run_within(snapshot, scope, &[raw_query, query.clone()])?;
    // Equal settings are grouped, but every query has its own response.
    let corrected = responses.remove(1);
    let raw = responses.remove(0);
    let allowed = query.settings.scope(snapshot, scope)?;
    let ranks = |rows: Vec<u32>| {
        let vectors = std::slice::from_ref(&prepared.vector);
        let question = Question { vectors, limit: 0, targets: &[rows] };
        snapshot.scan_within(&allowed, &question, &[Variant::raw()]).map(|mut answers| {
            let answer = answers.swap_remove(0).swap_remove(0);
            answer.ranks
        })
    };
    let hit_ranks = ranks(corrected.hits.iter().map(|hit: &Hit| hit.row).collect())?;
    // A point is left out of its own answer, so what it precedes moves up.
    let own = prepared.own_row.filter(|&row| allowed.contains(row));
    let own_rank = own.map(|row| ranks(vec![row])).transpose()?.map(|ranks| ranks[0]);
    let without_own = |rank: u32| rank - u32::from(own_rank.is_some_and(|own| own < rank));
    let raw_ranks = hit_ranks.into_iter().map(without_own).collect();
    let found = query.settings.ranking.find(snapshot)?;
    let priors = query.settings.boosts(snapshot, found)?;
    let parts = |hit: &Hit| priors.iter().map(|(prior, weight)| weight * prior.at(hit.row)).collect();
    let boosts = corrected.hits.iter().map(parts).collect();
    let staleness = staleness(snapshot, &allowed, &prepared, found, &priors, &corrected.hits)?;
    Ok(Explanation { raw, corrected, raw_ranks, boosts, staleness })
}
