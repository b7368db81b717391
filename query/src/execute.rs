//! Executing a plan.

use std::cell::Cell;
use std::sync::Arc;

use dehub_index::{Answer, Question, Scope, Snapshot, Sought, TimeUp, Variant};
use dehub_vector::{Candidate, Vector};
use rayon::prelude::*;

use crate::plan::{Engine, Stage, plan_within};
use crate::query::{BATCH_QUERIES_MAX, Prepared, Query, Settings};
use crate::ranking::{Beam, Ranked, Rankings, rank_within};
use crate::{Filter, Plan, QueryError};

/// The part of the effort that a first look at a gate takes. In the bench `filters` one of 16 is right about
/// the gate for 97 of 100 queries, at a seventh of the time of a corrected walk of 128.
const GATE_PART: usize = 8;

/// The least effort of such a look.
const GATE_EFFORT_MIN: usize = 8;

/// A point found. Where points have several vectors, its similarity is the sum of [`dehub_vector::max_sim`], and all
/// parts of its score are as many times those of one vector as the query has vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its row in the snapshot.
    pub row: u32,
    /// What it was ranked by: `scale·raw_score − bias + boost`, or the method's own score if that is no such
    /// sum. Points of equal scores of the latter kind are ordered by the similarity.
    pub score: f32,
    /// Its raw similarity.
    pub raw_score: f32,
    /// What the correction subtracted; `None` if its score is no difference.
    pub bias: Option<f32>,
    /// What the correction multiplied the similarity by, 1 for most methods; `None` as for the bias.
    pub scale: Option<f32>,
    /// What priors added; `None` if none were asked for.
    pub boost: Option<f32>,
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
    run_within(snapshot, &snapshot.scope(), queries)
}

/// Answers queries with points of a scope of this snapshot, those that the queries' own filters allow, and
/// until its deadline. The clock is looked at between queries, and by an exact scan every few hundred points.
///
/// # Errors
/// As for every query; [`QueryError::TimeUp`] if the answers are not whole by the deadline.
pub fn run_within(
    snapshot: &Snapshot,
    scope: &Scope,
    queries: &[Query],
) -> Result<Vec<Response>, QueryError> {
    snapshot.check_vectors()?;
    if queries.len() > BATCH_QUERIES_MAX {
        return Err(QueryError::BatchTooLarge { found: queries.len() });
    }
    queries.iter().try_for_each(|query| query.settings.check(snapshot))?;
    run_unlimited(snapshot, scope, queries)
}

/// The same for queries whose settings are checked, or have a limit beyond what is asked from outside.
pub(crate) fn run_unlimited(
    snapshot: &Snapshot,
    scope: &Scope,
    queries: &[Query],
) -> Result<Vec<Response>, QueryError> {
    let mut responses: Vec<Option<Response>> = vec![None; queries.len()];
    // What is made of a filter is as large as the gallery, so there is one at a time.
    let mut by_filter: Vec<(&Option<Arc<Filter>>, Vec<Group<'_>>)> = Vec::new();
    for (place, query) in queries.iter().enumerate() {
        let by_settings = list_of(&mut by_filter, &query.settings.filter);
        list_of(by_settings, &query.settings).push(place);
    }
    for (_, groups) in by_filter {
        let Some((settings, _)) = groups.first() else { continue };
        let scope = &settings.scope(snapshot, scope)?;
        for (settings, places) in groups {
            let plan = plan_within(snapshot, scope, settings, places.len())?;
            let prepared = places
                .iter()
                .map(|&place| queries[place].prepare(place, snapshot))
                .collect::<Result<Vec<_>, _>>()?;
            let rankings = settings.rankings(snapshot)?;
            let group = Asked { snapshot, scope, rankings, plan };
            let answers = group.answers(&prepared)?;
            places.into_iter().zip(answers).for_each(|(place, response)| responses[place] = Some(response));
        }
    }
    Ok(responses.into_iter().flatten().collect())
}

/// The places of the queries with these settings.
type Group<'a> = (&'a Settings, Vec<usize>);

/// The list that goes with a key, at first an empty one.
fn list_of<K: PartialEq, T>(lists: &mut Vec<(K, Vec<T>)>, key: K) -> &mut Vec<T> {
    let place = lists.iter().position(|(own, _)| *own == key).unwrap_or(lists.len());
    if place == lists.len() {
        lists.push((key, Vec::new()));
    }
    &mut lists[place].1
}

/// What queries with the same settings have in common.
struct Asked<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    rankings: Rankings<'a>,
    plan: Plan,
}

impl Asked<'_> {
    fn answers(&self, prepared: &[Prepared]) -> Result<Vec<Response>, TimeUp> {
        match self.plan.engine {
            Engine::Exact { .. } => {
                let ranked = self.scan(prepared)?;
                let respond = |(query, ranked)| self.response(query, ranked, &self.plan);
                Ok(prepared.iter().zip(ranked).map(respond).collect())
            }
            Engine::Codes { candidates } => self.answer_by_codes(candidates, prepared),
            Engine::Graph { effort } => {
                prepared.par_iter().map(|query| self.answer_by_walk(effort, query)).collect()
            }
        }
    }

    /// By a walk; by a scan if that finds fewer points than there are, or costs more than scoring the allowed.
    fn answer_by_walk(&self, effort: usize, query: &Prepared) -> Result<Response, TimeUp> {
        let (ranked, is_whole) = self.scope.in_time(self.walk(effort, query))?;
        if is_whole && self.is_full(query, &ranked) {
            return Ok(self.response(query, ranked, &self.plan));
        }
        self.answer_by_scan(query)
    }

    /// Whether an answer has as many points as there are, up to the limit.
    fn is_full(&self, query: &Prepared, ranked: &Ranked) -> bool {
        let own = query.own_row.filter(|&row| self.scope.contains(row));
        let others = self.scope.len() - usize::from(own.is_some());
        let found = ranked.best.iter().filter(|candidate| Some(candidate.row) != own).count();
        found >= self.plan.limit.min(others)
    }

    /// What another way has not found.
    fn answer_by_scan(&self, query: &Prepared) -> Result<Response, TimeUp> {
        let engine = Engine::Exact { reason: "another way found too few, or took too long" };
        let plan = Plan { engine, stage: self.plan.stage.map(|_| Stage::All), ..self.plan.clone() };
        let mut ranked = self.scan(std::slice::from_ref(query))?;
        Ok(self.response(query, ranked.swap_remove(0), &plan))
    }

    /// By a scan of codes; by one of the points themselves for queries whose answer that leaves short.
    fn answer_by_codes(&self, candidates: usize, prepared: &[Prepared]) -> Result<Vec<Response>, TimeUp> {
        let vectors: Vec<Vector> = prepared.iter().map(|query| query.vector.clone()).collect();
        let extra = usize::from(prepared.iter().any(|query| query.own_row.is_some()));
        let limit = self.plan.limit + extra;
        let sought = |variant| Sought { variant, limit, candidates: candidates + extra };
        let sought: Vec<Sought<'_>> = self.rankings.variants.iter().map(sought).collect();
        let found = self.snapshot.scan_codes(self.scope, &vectors, &sought)?;
        let respond = |(query, answers): (&Prepared, Vec<Answer>)| {
            let ranked = self.rankings.of_answers(answers);
            if self.is_full(query, &ranked) {
                return Ok(self.response(query, ranked, &self.plan));
            }
            self.answer_by_scan(query)
        };
        prepared.iter().zip(found).map(respond).collect()
    }

    fn scan(&self, prepared: &[Prepared]) -> Result<Vec<Ranked>, TimeUp> {
        let vectors: Vec<Vector> = prepared.iter().map(|query| query.vector.clone()).collect();
        let own: Vec<Option<u32>> = prepared.iter().map(|query| query.own_row).collect();
        let extra = usize::from(own.iter().any(Option::is_some));
        let question = Question { vectors: &vectors, limit: self.plan.limit + extra, targets: &[] };
        let tables = std::slice::from_ref(&self.rankings);
        let ranked = rank_within(self.snapshot, self.scope, &question, &own, tables)?;
        Ok(ranked.into_iter().flatten().collect())
    }

    /// What a walk finds, and whether it was not given up.
    fn walk(&self, effort: usize, query: &Prepared) -> (Ranked, bool) {
        let Asked { snapshot, scope, rankings, plan: Plan { limit, .. } } = self;
        let is_whole = Cell::new(true);
        let walk = |variant: &Variant<'_>, limit: usize, effort: usize| {
            let walked = match scope.in_time(()) {
                Ok(()) => snapshot.walk_seeing(scope, &query.vector, variant, limit, effort),
                Err(TimeUp { .. }) => None,
            };
            let walked = walked.unwrap_or_default();
            is_whole.set(is_whole.get() && walked.is_whole);
            walked
        };
        if let Some(correction) = rankings.scored {
            let walk = |variant: &Variant<'_>, limit| walk(variant, limit, effort).best;
            let found = snapshot.search_scored(correction, &query.vector, query.own_row, *limit, &walk);
            return (Ranked::scored(&found, Vec::new()), is_whole.get());
        }
        let limit = limit + usize::from(query.own_row.is_some());
        let ranked = rankings.walk(|variant, beam| match beam {
            Beam::Narrow => walk(variant, 1, (effort / GATE_PART).max(GATE_EFFORT_MIN)),
            Beam::Whole => walk(variant, limit, effort),
        });
        (ranked, is_whole.get())
    }

    /// What scores are multiplied by: 1, or for a multi-vector the number of its vectors. MaxSim is a sum over them,
    /// and points are ranked by its mean.
    #[expect(clippy::cast_precision_loss, reason = "at most MULTI_MAX")]
    fn times(&self, query: &Prepared) -> f32 {
        let config = self.snapshot.config();
        if config.multi { (query.vector.as_slice().len() / config.dim.get()) as f32 } else { 1.0 }
    }

    fn response(&self, query: &Prepared, ranked: Ranked, plan: &Plan) -> Response {
        let variant = ranked.variant.map(|variant| &self.rankings.variants[variant]);
        let times = self.times(query);
        let hit = |candidate: Candidate| {
            let raw_score = times * self.snapshot.similarity(&query.vector, candidate.row);
            let bias = variant.map(|variant| times * variant.correction_bias(candidate.row));
            let scale = variant.map(|variant| variant.scale(candidate.row));
            let boosted = variant.filter(|_| !plan.priors.is_empty());
            let boost = boosted.map(|variant| times * variant.boost(candidate.row));
            Hit { row: candidate.row, score: times * candidate.score, raw_score, bias, scale, boost }
        };
        let others = ranked.best.into_iter().filter(|candidate| Some(candidate.row) != query.own_row);
        Response {
            hits: others.take(plan.limit).map(hit).collect(),
            plan: plan.clone(),
            gate_open: ranked.gate_open,
            sequence: self.snapshot.sequence(),
        }
    }
}
