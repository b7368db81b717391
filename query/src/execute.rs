//! Executing a plan.

use dehub_index::{Answer, Correction, Question, Snapshot, Variant};
use dehub_vector::{Candidate, Vector};
use rayon::prelude::*;

use crate::plan::{Engine, plan};
use crate::query::{BATCH_QUERIES_MAX, Prepared, Query, Settings};
use crate::{Plan, QueryError};

/// A point found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its row in the snapshot.
    pub row: u32,
    /// What it was ranked by: `scale·raw_score − bias`.
    pub score: f32,
    /// Its raw similarity.
    pub raw_score: f32,
    /// What the correction subtracted.
    pub bias: f32,
    /// What the correction multiplied the similarity by; 1 for most methods.
    pub scale: f32,
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

/// The rankings a query may turn out to need. Without a gate there is one. With gates the first is
/// the raw one, to look at the gates with, and there is one more for each way of being open that
/// differs from raw.
pub(crate) struct Rankings<'a> {
    pub(crate) variants: Vec<Variant<'a>>,
    /// For gated corrections.
    gated: Option<Gated<'a>>,
}

struct Gated<'a> {
    correction: &'a Correction,
    /// The variant of each way of being open, gate 0 in the lowest bit.
    variant_of: Vec<usize>,
}

impl<'a> Rankings<'a> {
    pub(crate) fn new(found: Option<(&'a Correction, f32)>) -> Rankings<'a> {
        let Some((correction, weight)) = found else {
            return Rankings { variants: vec![Variant::raw()], gated: None };
        };
        let openings = correction.openings().into_iter().map(|open| correction.variant(&open, weight));
        if !correction.is_gated() {
            return Rankings { variants: openings.collect(), gated: None };
        }
        let mut variants = vec![Variant::raw()];
        let mut variant_of = Vec::new();
        for variant in openings {
            if variant.is_raw() {
                variant_of.push(0);
            } else {
                variant_of.push(variants.len());
                variants.push(variant);
            }
        }
        Rankings { variants, gated: Some(Gated { correction, variant_of }) }
    }

    /// Which of the variants a query is ranked by, given its best point under the first of them, and
    /// whether any gate is open, if there are gates.
    pub(crate) fn choose(&self, first_best: Option<u32>) -> (usize, Option<bool>) {
        let Some(Gated { correction, variant_of }) = &self.gated else { return (0, None) };
        let open = correction.open(first_best);
        let bits = open.iter().enumerate().map(|(gate, &open)| usize::from(open) << gate).sum::<usize>();
        (variant_of[bits], Some(open.contains(&true)))
    }

    fn is_gated(&self) -> bool {
        self.gated.is_some()
    }
}

fn answer(
    snapshot: &Snapshot,
    settings: &Settings,
    plan: &Plan,
    prepared: &[Prepared],
) -> Result<Vec<Response>, QueryError> {
    let rankings = Rankings::new(settings.ranking.find(snapshot)?);
    let found = match plan.engine {
        Engine::Exact { .. } => scan(snapshot, &rankings, plan.limit, prepared),
        Engine::Graph { effort } => {
            prepared.par_iter().map(|query| walk(snapshot, &rankings, plan.limit, effort, query)).collect()
        }
    };
    let respond = |(query, found): (&Prepared, Found)| {
        let variant = &rankings.variants[found.variant];
        let hit = |candidate: Candidate| {
            let raw_score = snapshot.similarity(&query.vector, candidate.row);
            let bias = variant.bias(candidate.row);
            let scale = variant.scale(candidate.row);
            Hit { row: candidate.row, score: candidate.score, raw_score, bias, scale }
        };
        let others = found.best.into_iter().filter(|candidate| Some(candidate.row) != query.own_row);
        Response {
            hits: others.take(plan.limit).map(hit).collect(),
            plan: plan.clone(),
            gate_open: found.gate_open,
            sequence: snapshot.sequence(),
        }
    };
    Ok(prepared.iter().zip(found).map(respond).collect())
}

struct Found {
    variant: usize,
    best: Vec<Candidate>,
    gate_open: Option<bool>,
}

fn scan(snapshot: &Snapshot, rankings: &Rankings<'_>, limit: usize, prepared: &[Prepared]) -> Vec<Found> {
    let vectors: Vec<Vector> = prepared.iter().map(|query| query.vector.clone()).collect();
    let extra = usize::from(prepared.iter().any(|query| query.own_row.is_some()));
    let question = Question { vectors: &vectors, limit: limit + extra, targets: &[] };
    let answers = snapshot.scan(&question, &rankings.variants);
    let choose = |mut answers: Vec<Answer>| {
        let first_best = answers[0].best.first().map(|best| best.row);
        let (variant, gate_open) = rankings.choose(first_best);
        Found { variant, best: answers.swap_remove(variant).best, gate_open }
    };
    answers.into_iter().map(choose).collect()
}

fn walk(
    snapshot: &Snapshot,
    rankings: &Rankings<'_>,
    limit: usize,
    effort: usize,
    query: &Prepared,
) -> Found {
    let limit = limit + usize::from(query.own_row.is_some());
    let walk = |variant, limit| snapshot.walk(&query.vector, variant, limit, effort).unwrap_or_default();
    let raw_best =
        if rankings.is_gated() { walk(&rankings.variants[0], 1).first().map(|best| best.row) } else { None };
    let (variant, gate_open) = rankings.choose(raw_best);
    Found { variant, best: walk(&rankings.variants[variant], limit), gate_open }
}
