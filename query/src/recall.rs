//! How much of the exact answers each way of searching finds, on the queries and the filter that are asked about.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use dehub_index::{Scope, Snapshot};
use dehub_normalize::Occurrence;

use crate::hubness::label;
use crate::query::{Query, Ranking, Search, Settings, Source};
use crate::{Filter, Hit, QueryError, Response, run_within};

/// Queries asked together; bounds memory, and how long it takes to stop.
const PASS_QUERIES: usize = 256;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecallOptions {
    /// Hits of each query; as [`Settings::limit`].
    pub limit: Option<usize>,
    /// The rankings.
    pub rankings: Vec<Ranking>,
    /// The ways of searching.
    pub searches: Vec<Search>,
    /// Added to every ranking.
    pub priors: Vec<(String, f32)>,
    /// The points that may be answers.
    pub filter: Option<Arc<Filter>>,
}

/// What one way of searching finds of one ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallRow {
    /// The way that was asked for.
    pub search: Search,
    /// The plan it came to.
    pub plan: String,
    /// The share of the exact hits that it finds, over all queries. A hit that scores as much as the last exact one
    /// counts as one of them.
    pub recall: f64,
    /// That share of the query it serves worst.
    pub least: f64,
    /// What a query takes among those asked together, in microseconds. It says nothing of another machine.
    pub micros: f64,
}

/// One ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingRecall {
    /// `raw`, or the method's label.
    pub method: String,
    /// The correction as `name@version`; `None` for raw.
    pub correction: Option<String>,
    /// How often each point is among the exact hits, numbered in the order of the rows that may be answers.
    pub occurrence: Occurrence,
    /// What a query takes that is scanned exactly, in microseconds.
    pub exact_micros: f64,
    /// One a way of searching.
    pub rows: Vec<RecallRow>,
}

/// What was compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The points that may be answers.
    pub points: usize,
    /// The queries.
    pub queries: usize,
    /// Hits of each.
    pub limit: usize,
    /// One a ranking.
    pub rankings: Vec<RankingRecall>,
}

/// How far a comparison is: queries asked, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkDone {
    /// Asked so far, each once for each ranking and way.
    pub done: usize,
    /// In all.
    pub total: usize,
}

/// Asks every query by each of the rankings, exactly and in each of the ways, and compares. `watch` is told how far it
/// is, and may end it: there is nothing to tell then.
pub fn recall(
    snapshot: &Snapshot,
    sources: &[Source],
    options: &RecallOptions,
    watch: &mut dyn FnMut(WorkDone) -> ControlFlow<()>,
) -> Result<Option<Compared>, QueryError> {
    if sources.is_empty() {
        return Err(QueryError::NoQueries(""));
    }
    let RecallOptions { limit, rankings, searches, priors, filter } = options;
    let settings = Settings { limit: *limit, priors: priors.clone(), ..Settings::default() };
    // Made once for all.
    let scope = Settings { filter: filter.clone(), ..settings.clone() }.scope(snapshot, &snapshot.scope())?;
    if scope.is_empty() {
        return Err(QueryError::NoPoints);
    }
    let total = sources.len() * rankings.len() * (searches.len() + 1);
    let mut comparison = Comparison { snapshot, scope: &scope, sources, watch, done: 0, total };
    let mut compared = Vec::new();
    for ranking in rankings {
        let settings = Settings { ranking: ranking.clone(), ..settings.clone() };
        match comparison.ranking(&settings, searches)? {
            Some(found) => compared.push(found),
            None => return Ok(None),
        }
    }
    let (points, queries) = (scope.len(), sources.len());
    Ok(Some(Compared { points, queries, limit: settings.limit_on(snapshot), rankings: compared }))
}

struct Comparison<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    sources: &'a [Source],
    watch: &'a mut dyn FnMut(WorkDone) -> ControlFlow<()>,
    done: usize,
    total: usize,
}

/// The answers to all queries, and the seconds they took.
type Answers = (Vec<Response>, f64);

impl Comparison<'_> {
    fn ranking(
        &mut self,
        settings: &Settings,
        searches: &[Search],
    ) -> Result<Option<RankingRecall>, QueryError> {
        let found = settings.ranking.find(self.snapshot)?;
        let info = found.map(|(correction, _)| correction.info());
        let exactly = Settings { search: Search::Exact, ..settings.clone() };
        let Some((exact, seconds)) = self.ask(&exactly)? else { return Ok(None) };
        let mut rows = Vec::new();
        for &search in searches {
            let Some((found, seconds)) = self.ask(&Settings { search, ..settings.clone() })? else {
                return Ok(None);
            };
            rows.push(row(search, &exact, &found, seconds));
        }
        Ok(Some(RankingRecall {
            method: label(found),
            correction: info.map(|info| format!("{}@{}", info.name, info.version)),
            occurrence: self.occurrence(&exact),
            exact_micros: micros(seconds, exact.len()),
            rows,
        }))
    }

    /// Asks all queries; `None` if it was ended.
    fn ask(&mut self, settings: &Settings) -> Result<Option<Answers>, QueryError> {
        let (mut responses, mut seconds) = (Vec::with_capacity(self.sources.len()), 0.0);
        for sources in self.sources.chunks(PASS_QUERIES) {
            if (self.watch)(WorkDone { done: self.done, total: self.total }).is_break() {
                return Ok(None);
            }
            let query = |source: &Source| Query { source: source.clone(), settings: settings.clone() };
            let queries: Vec<Query> = sources.iter().map(query).collect();
            let start = Instant::now();
            responses.extend(run_within(self.snapshot, self.scope, &queries)?);
            seconds += start.elapsed().as_secs_f64();
            self.done += sources.len();
        }
        Ok(Some((responses, seconds)))
    }

    fn occurrence(&self, exact: &[Response]) -> Occurrence {
        let dense: HashMap<u32, u32> = self.scope.rows().zip(0..).collect();
        let list = |response: &Response| response.hits.iter().map(|hit| dense[&hit.row]).collect();
        let lists: Vec<Vec<u32>> = exact.iter().map(list).collect();
        let k = lists.iter().map(Vec::len).max().unwrap_or(0);
        Occurrence::count(self.scope.len(), k, lists.iter().map(Vec::as_slice))
    }
}

/// The share of the exact hits that others find, over all queries, and that of the query they serve worst. A hit that
/// scores as much as the last exact one counts as one of them, and none counts twice; so no share is above 1.
pub fn found_share(exact: &[Response], found: &[Response]) -> (f64, f64) {
    let (mut hits, mut wanted, mut least) = (0, 0, 1.0_f64);
    for (exact, found) in exact.iter().zip(found) {
        let Some(last) = exact.hits.last() else { continue };
        let is_good = |hit: &&Hit| hit.score >= last.score;
        let good = found.hits.iter().filter(is_good).count().min(exact.hits.len());
        hits += good;
        wanted += exact.hits.len();
        least = least.min(share(good, exact.hits.len()));
    }
    (share(hits, wanted), least)
}

fn row(search: Search, exact: &[Response], found: &[Response], seconds: f64) -> RecallRow {
    let (recall, least) = found_share(exact, found);
    let plan = found.first().map_or(String::new(), |response| response.plan.to_string());
    RecallRow { search, plan, recall, least, micros: micros(seconds, found.len()) }
}

/// 1 where nothing was to be found.
#[expect(clippy::cast_precision_loss, reason = "counts of hits are far below 2^53")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
fn micros(seconds: f64, queries: usize) -> f64 {
    1e6 * seconds / queries.max(1) as f64
}
