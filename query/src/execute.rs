//! Executing a plan.

use dehub_index::{Question, Snapshot, Variant};
use dehub_vector::{Candidate, Vector};
use rayon::prelude::*;

use crate::plan::{Engine, plan};
use crate::query::{BATCH_QUERIES_MAX, Prepared, Query, Settings};
use crate::ranking::{Ranked, Rankings, rank_exactly};
use crate::{Plan, QueryError};

/// A point found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its row in the snapshot.
    pub row: u32,
    /// What it was ranked by: `scale·raw_score − bias`, or the method's own score if that is no such
    /// difference. Points of equal scores of the latter kind are ordered by the similarity.
    pub score: f32,
    /// Its raw similarity.
    pub raw_score: f32,
    /// What the correction subtracted; `None` if its score is no difference.
    pub bias: Option<f32>,
    /// What the correction multiplied the similarity by, 1 for most methods; `None` as for the bias.
    pub scale: Option<f32>,
}

/// The answer to one query.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The hits, best first; ties by the lower row.
    pub hits: Vec<Hit>,
    /// How it was found.
    pub plan: Plan,
    /// For a gated correction, whether any of its gates was open for this query.
    pub gate_open: Option<bool>,
    /// The newest commit the answer takes into account.
    pub sequence: u64,
}

/// Answers queries, those with equal settings together.
pub fn run(snapshot: &Snapshot, queries: &[Query]) -> Result<Vec<Response>, QueryError> {
    if queries.len() > BATCH_QUERIES_MAX {
        return Err(QueryError::BatchTooLarge { found: queries.len() });
    }
    let mut responses: Vec<Option<Response>> = vec![None; queries.len()];
    let mut groups: Vec<(&Settings, Vec<usize>)> = Vec::new();
    for (place, query) in queries.iter().enumerate() {
        match groups.iter_mut().find(|(settings, _)| **settings == query.settings) {
            Some((_, places)) => places.push(place),
            None => groups.push((&query.settings, vec![place])),
        }
    }
    for (settings, places) in groups {
        let plan = plan(snapshot, settings, places.len())?;
        let prepared = places
            .iter()
            .map(|&place| queries[place].prepare(place, snapshot))
            .collect::<Result<Vec<_>, _>>()?;
        let answers = answer(snapshot, settings, &plan, &prepared)?;
        places.into_iter().zip(answers).for_each(|(place, response)| responses[place] = Some(response));
    }
    Ok(responses.into_iter().flatten().collect())
}

fn answer(
    snapshot: &Snapshot,
    settings: &Settings,
    plan: &Plan,
    prepared: &[Prepared],
) -> Result<Vec<Response>, QueryError> {
    let rankings = Rankings::new(settings.ranking.find(snapshot)?);
    let ranked = match plan.engine {
        Engine::Exact { .. } => scan(snapshot, &rankings, plan.limit, prepared),
        Engine::Graph { effort } => {
            prepared.par_iter().map(|query| walk(snapshot, &rankings, plan.limit, effort, query)).collect()
        }
    };
    let respond = |(query, ranked): (&Prepared, Ranked)| {
        let variant = ranked.variant.map(|variant| &rankings.variants[variant]);
        let hit = |candidate: Candidate| {
            let raw_score = snapshot.similarity(&query.vector, candidate.row);
            let bias = variant.map(|variant| variant.bias(candidate.row));
            let scale = variant.map(|variant| variant.scale(candidate.row));
            Hit { row: candidate.row, score: candidate.score, raw_score, bias, scale }
        };
        let others = ranked.best.into_iter().filter(|candidate| Some(candidate.row) != query.own_row);
        Response {
            hits: others.take(plan.limit).map(hit).collect(),
            plan: plan.clone(),
            gate_open: ranked.gate_open,
            sequence: snapshot.sequence(),
        }
    };
    Ok(prepared.iter().zip(ranked).map(respond).collect())
}

fn scan(snapshot: &Snapshot, rankings: &Rankings<'_>, limit: usize, prepared: &[Prepared]) -> Vec<Ranked> {
    let vectors: Vec<Vector> = prepared.iter().map(|query| query.vector.clone()).collect();
    let own: Vec<Option<u32>> = prepared.iter().map(|query| query.own_row).collect();
    let extra = usize::from(own.iter().any(Option::is_some));
    let question = Question { vectors: &vectors, limit: limit + extra, targets: &[] };
    rank_exactly(snapshot, &question, &own, std::slice::from_ref(rankings)).into_iter().flatten().collect()
}

fn walk(
    snapshot: &Snapshot,
    rankings: &Rankings<'_>,
    limit: usize,
    effort: usize,
    query: &Prepared,
) -> Ranked {
    let walk = |variant: &Variant<'_>, limit: usize| {
        snapshot.walk(&query.vector, variant, limit, effort).unwrap_or_default()
    };
    if let Some(correction) = rankings.scored {
        let found = snapshot.search_scored(correction, &query.vector, query.own_row, limit, &walk);
        return Ranked::scored(&found, Vec::new());
    }
    let limit = limit + usize::from(query.own_row.is_some());
    let raw_best =
        if rankings.is_gated() { walk(&rankings.variants[0], 1).first().map(|best| best.row) } else { None };
    let (variant, gate_open) = rankings.choose(raw_best);
    let best = walk(&rankings.variants[variant], limit);
    Ranked { variant: Some(variant), best, ranks: Vec::new(), gate_open }
}
