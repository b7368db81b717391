//! Hubness of a collection under some queries, raw and corrected.

use std::collections::HashMap;

use dehub_index::{Correction, Question, Snapshot};
use dehub_normalize::Occurrence;
use dehub_vector::Vector;

use crate::QueryError;
use crate::query::Ranking;
use crate::ranking::{Rankings, rank_exactly};

/// Queries answered in one pass over the gallery; bounds memory.
pub(crate) const PASS_QUERIES: usize = 1024;

/// A ranking that was looked up: raw, or a correction with a factor on it. The correction need not be
/// installed in the snapshot it ranks, but it must be fitted for it.
pub(crate) type Found<'a> = Option<(&'a Correction, f32)>;

/// The hubness of one ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct HubnessRow {
    /// `raw`, or the method's label.
    pub label: String,
    /// `N_k` over the points, numbered in the order of their rows.
    pub occurrence: Occurrence,
    /// The most frequent points as (row, `N_k`).
    pub hubs: Vec<(u32, u32)>,
}

/// What a correction changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The share of queries whose best point is another one.
    pub top1_changed: f64,
    /// The raw ranking.
    pub before: HubnessRow,
    /// The corrected ranking.
    pub after: HubnessRow,
}

/// How often each point is among the best `k`, for each ranking, with the `most` largest hubs.
pub fn hubness(
    snapshot: &Snapshot,
    queries: &[Vector],
    rankings: &[Ranking],
    k: usize,
    most: usize,
) -> Result<Vec<HubnessRow>, QueryError> {
    let found = rankings.iter().map(|ranking| ranking.find(snapshot)).collect::<Result<Vec<_>, _>>()?;
    let lists = best_lists(snapshot, queries, &found, k)?;
    let counter = Counter::new(snapshot, k, most);
    Ok(found.iter().zip(&lists).map(|(&found, lists)| counter.count(label(found), lists)).collect())
}

/// What each correction changes on some queries, at the best `k`, or at all points if they are fewer.
pub fn compare(
    snapshot: &Snapshot,
    queries: &[Vector],
    corrections: &[&str],
    k: usize,
) -> Result<Vec<Comparison>, QueryError> {
    let k = k.min(snapshot.len());
    let mut found = vec![None];
    for correction in corrections {
        found.push(Ranking::corrected(correction).find(snapshot)?);
    }
    let lists = best_lists(snapshot, queries, &found, k)?;
    let counter = Counter::new(snapshot, k, 0);
    let before = counter.count("raw".to_owned(), &lists[0]);
    let compare = |(&found, after): (&Option<_>, &Vec<Vec<u32>>)| {
        let changed =
            lists[0].iter().zip(after).filter(|(raw, corrected)| raw.first() != corrected.first()).count();
        #[expect(clippy::cast_precision_loss, reason = "counts of queries are far below 2^53")]
        let top1_changed = changed as f64 / queries.len() as f64;
        Comparison { top1_changed, before: before.clone(), after: counter.count(label(found), after) }
    };
    Ok(found[1..].iter().zip(&lists[1..]).map(compare).collect())
}

/// Counts rows as points numbered without gaps.
struct Counter {
    rows: Vec<u32>,
    points: HashMap<u32, u32>,
    k: usize,
    most: usize,
}

impl Counter {
    fn new(snapshot: &Snapshot, k: usize, most: usize) -> Counter {
        let rows: Vec<u32> = snapshot.rows().collect();
        let points = rows.iter().copied().zip(0..).collect();
        Counter { rows, points, k, most }
    }

    fn count(&self, label: String, lists: &[Vec<u32>]) -> HubnessRow {
        let numbered: Vec<Vec<u32>> =
            lists.iter().map(|list| list.iter().map(|row| self.points[row]).collect()).collect();
        let occurrence = Occurrence::count(self.rows.len(), self.k, numbered.iter().map(Vec::as_slice));
        let hubs = occurrence.hubs(self.most);
        let hubs = hubs.into_iter().map(|(point, count)| (self.rows[point as usize], count)).collect();
        HubnessRow { label, occurrence, hubs }
    }
}

pub(crate) fn label(found: Found<'_>) -> String {
    match found {
        None => "raw".to_owned(),
        Some((correction, 1.0)) => correction.info().method.to_string(),
        Some((correction, weight)) => format!("{}*{weight}", correction.info().method),
    }
}

/// The rows of the best `k`, for each ranking and query.
pub(crate) fn best_lists(
    snapshot: &Snapshot,
    queries: &[Vector],
    found: &[Found<'_>],
    k: usize,
) -> Result<Vec<Vec<Vec<u32>>>, QueryError> {
    if snapshot.is_empty() {
        return Err(QueryError::NoPoints);
    }
    if queries.is_empty() {
        return Err(QueryError::NoQueries(""));
    }
    if k == 0 || k > snapshot.len() {
        return Err(QueryError::MoreThanPoints { wanted: k, found: snapshot.len() });
    }
    let rankings: Vec<Rankings<'_>> = found.iter().map(|&found| Rankings::new(found)).collect();
    let mut lists = vec![Vec::with_capacity(queries.len()); rankings.len()];
    for vectors in queries.chunks(PASS_QUERIES) {
        let question = Question { vectors, limit: k, targets: &[] };
        for ranked in rank_exactly(snapshot, &question, &[], &rankings) {
            for (lists, ranked) in lists.iter_mut().zip(ranked) {
                lists.push(ranked.best.iter().map(|candidate| candidate.row).collect());
            }
        }
    }
    Ok(lists)
}
