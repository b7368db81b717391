//! Answering requests.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_index::{Scope, Snapshot};

use super::examples::{average, rank};
use super::serve::{is_distance, serve};
use super::{Found, Fused, Kind, Request, Strategy, listing, texts};
use crate::execute::{Response, run_unlimited};
use crate::explain::{Explanation, explain_within};
use crate::plan::Plan;
use crate::query::{Query, Settings, Source};
use crate::{OrderValue, QueryError};

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The points, best first.
    pub hits: Vec<Found>,
    /// How they were found, if that was by one query.
    pub plan: Option<Plan>,
    /// What the scores of a fusion are made of.
    pub fused: Option<Fused>,
    /// For a gated correction, whether any of its gates was open for this query.
    pub gate_open: Option<bool>,
    /// Whether every point was looked at, in prefetches too.
    pub is_exact: bool,
    /// Whether scores are distances: smaller is better.
    pub is_distance: bool,
    /// The newest commit the answer takes into account.
    pub sequence: u64,
}

/// Why one of several requests has no answer.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct RequestError {
    /// The request's place in the batch, from 0.
    pub request: usize,
    /// From the request to the prefetch in question: the place of each among its siblings.
    pub trail: Vec<usize>,
    /// What is wrong. Where it has a place, that is the number of an example: see [`Kind::examples`].
    pub source: QueryError,
}

/// What is wrong, and with which prefetch.
#[derive(Debug)]
pub(crate) struct Fault {
    trail: Vec<usize>,
    source: QueryError,
}

impl<E: Into<QueryError>> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault { trail: Vec::new(), source: error.into() }
    }
}

impl Fault {
    /// Seen from one level above.
    pub(crate) fn within(mut self, prefetch: usize) -> Fault {
        self.trail.insert(0, prefetch);
        self
    }

    pub(crate) fn of(self, request: usize) -> RequestError {
        RequestError { request, trail: self.trail, source: self.source }
    }
}

/// The snapshot to search by a vector of this name in; `None` is the unnamed one. Its rows are those of the base.
pub(crate) fn space(base: &Arc<Snapshot>, name: Option<&str>) -> Result<Arc<Snapshot>, QueryError> {
    Ok(base.space(name)?)
}

/// Those points of a scope of the base that have a vector in a space.
pub(crate) fn scope_in(base: &Arc<Snapshot>, space: &Arc<Snapshot>, scope: &Scope) -> Scope {
    if Arc::ptr_eq(base, space) { scope.clone() } else { scope.only(space.rows()) }
}

/// Answers requests with points of a scope of this snapshot, until its deadline. Queries for nearest points
/// without prefetches are answered together.
///
/// # Errors
/// The first that has no answer. [`QueryError::TimeUp`] is nobody's in particular: it names the first request.
pub fn answer(
    base: &Arc<Snapshot>,
    scope: &Scope,
    requests: &[Request],
) -> Result<Vec<Answered>, RequestError> {
    for (place, request) in requests.iter().enumerate() {
        request.check(base).map_err(|fault| fault.of(place))?;
    }
    let mut answers: Vec<Option<Answered>> = vec![None; requests.len()];
    let (together, alone): (Vec<usize>, Vec<usize>) =
        (0..requests.len()).partition(|&place| requests[place].is_plain());
    let queries: Vec<Query> = together.iter().filter_map(|&place| requests[place].plain()).collect();
    let responses = run_unlimited(base, scope, &queries).map_err(|error| batch_fault(error, &together))?;
    for ((&place, query), response) in together.iter().zip(&queries).zip(responses) {
        let answered = Answered::of(base, query, response);
        let cut = answered.map(|answered| requests[place].cut(answered));
        answers[place] = Some(cut.map_err(|error| Fault::from(error).of(place))?);
    }
    for place in alone {
        let answered = requests[place].answer(base, scope).map_err(|fault| fault.of(place))?;
        answers[place] = Some(answered);
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The fault of a batch: its place is that of a query among the requests, each of which has one example.
fn batch_fault(mut error: QueryError, places: &[usize]) -> RequestError {
    let place = error.take_place().unwrap_or_default();
    Fault::from(error).of(places.get(place).copied().unwrap_or_default())
}

/// Answers a request that asks for points nearest to one query raw and corrected, and gives the hits of the raw
/// answer as they are served. Both answers have what is to be skipped too.
///
/// # Errors
/// [`QueryError::Malformed`] for one that asks for anything else.
pub fn explain_request(
    base: &Arc<Snapshot>,
    scope: &Scope,
    request: &Request,
) -> Result<(Explanation, Vec<Found>), RequestError> {
    let explain = || {
        request.check(base)?;
        let space = &space(base, request.using.as_deref())?;
        let scope = if request.prefetch.is_empty() {
            request.settings.scope(base, scope)?
        } else {
            let (scope, lists) = request.prefetched(base, scope)?;
            scope.only(rows_of(&lists))
        };
        let scope = scope_in(base, space, &scope.without(request.example_rows(base)?));
        let Some(query) = request.query(space, &scope)? else {
            let reason =
                "only a query for nearest points, an average of examples, or a feedback can be explained";
            return Err(QueryError::Malformed { reason }.into());
        };
        let explanation = explain_within(space, &scope, &query)?;
        let raw = serve(space, &query, &explanation.raw)?;
        Ok((explanation, raw))
    };
    explain().map_err(|fault: Fault| fault.of(0))
}

/// The best of a fusion. What a point was listed by stays with it.
fn best_of(fused: &Fused, lists: &[Answered], limit: usize) -> Vec<Found> {
    let mut order_of: HashMap<u32, Option<OrderValue>> = HashMap::new();
    for hit in lists.iter().flat_map(|list| &list.hits) {
        order_of.entry(hit.row).or_insert(hit.order_value);
    }
    #[expect(clippy::cast_possible_truncation, reason = "scores have 32 bits")]
    let found = |(row, score): (u32, f64)| Found {
        order_value: order_of.get(&row).copied().flatten(),
        ..Found::scored(row, score as f32)
    };
    fused.best(limit).into_iter().map(found).collect()
}

/// All rows of several lists.
fn rows_of(lists: &[Answered]) -> Vec<u32> {
    lists.iter().flat_map(|list| list.hits.iter().map(|hit| hit.row)).collect()
}

impl Answered {
    fn of(space: &Snapshot, query: &Query, response: Response) -> Result<Answered, QueryError> {
        Ok(Answered {
            hits: serve(space, query, &response)?,
            is_distance: is_distance(space, &response),
            is_exact: response.plan.is_exact(),
            gate_open: response.gate_open,
            sequence: response.sequence,
            plan: Some(response.plan),
            fused: None,
        })
    }

    pub(crate) fn listed(base: &Snapshot, hits: Vec<Found>) -> Answered {
        let sequence = base.sequence();
        let (plan, fused, gate_open) = (None, None, None);
        Answered { hits, plan, fused, gate_open, is_exact: true, is_distance: false, sequence }
    }

    /// The correction it was ranked by, as `name@version`.
    pub fn correction(&self) -> Option<&str> {
        let (versioned, ..) = self.plan.as_ref()?.correction.as_ref()?;
        Some(versioned)
    }
}

impl Request {
    /// Whether it is one query and nothing else.
    fn is_plain(&self) -> bool {
        let is_nearest = match self.kind {
            Kind::Nearest(_) => true,
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => false,
        };
        is_nearest && self.prefetch.is_empty() && self.using.is_none() && self.left_out.is_empty()
    }

    /// That query, with its filter.
    fn plain(&self) -> Option<Query> {
        match &self.kind {
            Kind::Nearest(source) => {
                let settings = Settings { limit: Some(self.end()), ..self.settings.clone() };
                Some(Query { source: source.clone(), settings })
            }
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => None,
        }
    }

    /// The query it comes to, without its filter; `None` if it is not about one.
    fn query(&self, space: &Snapshot, scope: &Scope) -> Result<Option<Query>, QueryError> {
        let source = match &self.kind {
            Kind::Nearest(source) => source.clone(),
            Kind::Recommend { positive, negative, strategy: Strategy::AverageVector } => {
                Source::vector(average(space, positive, negative)?)
            }
            Kind::Feedback(feedback) => Source::vector(feedback.moved(space, scope, &self.settings)?),
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => return Ok(None),
        };
        let settings = Settings { limit: Some(self.end()), filter: None, ..self.settings.clone() };
        Ok(Some(Query { source, settings }))
    }

    /// Answers it with points of a scope.
    pub(crate) fn answer(&self, base: &Arc<Snapshot>, scope: &Scope) -> Result<Answered, Fault> {
        if self.prefetch.is_empty() {
            let scope = self.settings.scope(base, scope)?;
            // A query by a point leaves that out itself, at less cost.
            let scope = if self.is_plain() { scope } else { scope.without(self.example_rows(base)?) };
            return self.ranked(base, &scope);
        }
        let (scope, lists) = self.prefetched(base, scope)?;
        let is_exact = lists.iter().all(|list| list.is_exact);
        let sequence = lists.iter().map(|list| list.sequence).min().unwrap_or_else(|| base.sequence());
        if let Kind::Fusion(fusion) = &self.kind {
            let fused = Fused::new(fusion, &self.prefetch, &lists);
            let hits = best_of(&fused, &lists, self.end());
            let fused = Some(fused);
            return Ok(self.cut(Answered { is_exact, fused, sequence, ..Answered::listed(base, hits) }));
        }
        let answered = self.ranked(base, &scope.only(rows_of(&lists)))?;
        let (is_exact, sequence) = (is_exact && answered.is_exact, sequence.min(answered.sequence));
        Ok(Answered { is_exact, sequence, ..answered })
    }

    /// The points its filter allows but for the examples, and what its prefetches find among them.
    fn prefetched(&self, base: &Arc<Snapshot>, scope: &Scope) -> Result<(Scope, Vec<Answered>), Fault> {
        let scope = self.settings.scope(base, scope)?;
        let scope = scope.without(self.example_rows(base)?);
        let mut lists = Vec::with_capacity(self.prefetch.len());
        for (place, prefetch) in self.prefetch.iter().enumerate() {
            lists.push(prefetch.answer(base, &scope).map_err(|fault| fault.within(place))?);
        }
        Ok((scope, lists))
    }

    /// The rows of the points that it and its prefetches name as examples: none of them is an answer.
    fn example_rows(&self, base: &Snapshot) -> Result<Vec<u32>, Fault> {
        let mut rows = Vec::new();
        for (place, source) in self.kind.examples().into_iter().enumerate() {
            if let Source::Point(id) = source {
                let row = base.find(id)?;
                rows.push(row.ok_or_else(|| QueryError::UnknownPoint { place, id: id.clone() })?);
            }
        }
        for id in &self.left_out {
            rows.extend(base.find(id)?);
        }
        for (place, prefetch) in self.prefetch.iter().enumerate() {
            rows.extend(prefetch.example_rows(base).map_err(|fault| fault.within(place))?);
        }
        Ok(rows)
    }

    /// The points of a scope, ranked or listed.
    fn ranked(&self, base: &Arc<Snapshot>, scope: &Scope) -> Result<Answered, Fault> {
        scope.in_time(())?;
        let end = self.end();
        let hits = match &self.kind {
            Kind::ById => listing::by_id(base, scope, end)?,
            Kind::OrderBy(order) => listing::by_value(base, scope, order, end)?,
            Kind::Sample { seed } => listing::at_random(scope, *seed, end),
            Kind::Text(words) => return Ok(self.cut(texts::by_words(base, scope, words, end)?)),
            Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Fusion(_) => {
                let space = &space(base, self.using.as_deref())?;
                let scope = &scope_in(base, space, scope);
                match self.query(space, scope)? {
                    Some(query) => {
                        let mut responses = run_unlimited(space, scope, std::slice::from_ref(&query))?;
                        return Ok(self.cut(Answered::of(space, &query, responses.swap_remove(0))?));
                    }
                    None => rank(space, scope, &self.kind, &self.settings, end)?,
                }
            }
        };
        Ok(self.cut(Answered::listed(base, hits)))
    }

    /// What passes the threshold, and is not skipped.
    fn cut(&self, answered: Answered) -> Answered {
        let Answered { hits, is_distance, .. } = answered;
        let limit = self.end() - self.offset.min(self.end());
        let passing = hits.into_iter().filter(|hit| self.passes(hit.score, is_distance));
        let hits = passing.skip(self.offset).take(limit).collect();
        Answered { hits, ..answered }
    }

    fn passes(&self, score: f32, is_distance: bool) -> bool {
        let Some(threshold) = self.score_threshold else { return true };
        match &self.kind {
            Kind::Fusion(_) => score >= threshold,
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Text(_) => {
                if is_distance {
                    score < threshold
                } else {
                    score > threshold
                }
            }
        }
    }
}
