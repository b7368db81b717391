//! The approximate search: a walk of the graph in the order of the corrected score, by codes, and what it
//! finds scored again.
//!
//! The graph knows only the raw geometry. Hubs stay useful as roads and are demoted as answers.

use std::cell::Cell;

use dehub_graph::{LOOK_EVERY, Ranking, Width};
use dehub_vector::{Candidate, TopK, Vector, prefetch};

use crate::scan::Variant;
use crate::{Scope, Snapshot};

/// Rows scored again for each that is asked for: codes misplace few by more.
const RESCORED: usize = 4;

/// The fewest rows scored again after a walk by reduced codes, which misplace more: with 48 for ten of them
/// the exact order loses a thousandth of what the whole beam holds, and each row costs ten comparisons by codes.
const REDUCED_MIN: usize = 48;

/// Rows that are fetched before they are scored.
const AHEAD: usize = 6;

/// Nodes compared, at most about, for each of a beam.
const LINKS_EACH: usize = 32;

impl Snapshot {
    /// The best `limit` points a walk with a beam of `effort` finds, best first, together with an
    /// exact scan of the points added since the graph was built. `None` when there is no graph.
    pub fn walk(
        &self,
        query: &Vector,
        variant: &Variant<'_>,
        limit: usize,
        effort: usize,
    ) -> Option<Vec<Candidate>> {
        self.walk_seeing(&self.scope(), query, variant, limit, effort).map(|walked| walked.best)
    }

    /// The same among the points of a scope, all others being roads and no answers, with the raw best of those that
    /// the walk compared with the query. A deadline ends it early.
    pub fn walk_seeing(
        &self,
        scope: &Scope,
        query: &Vector,
        variant: &Variant<'_>,
        limit: usize,
        effort: usize,
    ) -> Option<Walked> {
        if !self.has_graph() {
            return None;
        }
        let effort = effort.max(limit);
        let looks = Cell::new(0);
        let stop = || {
            looks.set(looks.get() + 1);
            scope.is_over() || looks.get() > looks_max(scope, self, effort)
        };
        let (mut rows, mut nearest, mut is_whole) = (Vec::new(), Vec::new(), true);
        for graph in self.segments() {
            let least = if graph.projection().is_some() { REDUCED_MIN } else { 0 };
            let width = Width { effort, keep: limit.saturating_mul(RESCORED).max(least) };
            let found = if variant.is_raw() {
                graph.walk_all(query.as_slice(), &[(RawRows(scope), width)], stop).pop()
            } else {
                graph.walk_all(query.as_slice(), &[(CorrectedRows { scope, variant }, width)], stop).pop()
            };
            let found = found.expect("one is found for each ranking");
            rows.extend(found.candidates.iter().map(|candidate| candidate.row));
            nearest.extend(found.raw_best.map(|candidate| candidate.row));
            is_whole &= !found.is_cut_short;
        }
        rows.extend(self.delta_rows().filter(|&row| scope.contains(row)));
        let (mut best, mut raw_best) = (TopK::new(limit), TopK::new(1));
        for (place, &row) in rows.iter().enumerate() {
            if let Some(&ahead) = rows.get(place + AHEAD) {
                prefetch(self.vector(ahead));
            }
            let similarity = self.similarity(query, row);
            best.push(Candidate::new(variant.score(similarity, row), row));
            raw_best.push(Candidate::new(similarity, row));
        }
        // The best by its code need not be among the candidates.
        nearest.iter().for_each(|&row| _ = raw_best.push(Candidate::new(self.similarity(query, row), row)));
        let raw_best = raw_best.into_sorted().first().copied();
        Some(Walked { best: best.into_sorted(), raw_best, is_whole })
    }
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walked {
    /// The best points, best first.
    pub best: Vec<Candidate>,
    /// The most similar point among those the walk met, under its similarity.
    pub raw_best: Option<Candidate>,
    /// Whether it went on to its end: it is given up when the time is up, and in a scope of some points when
    /// scoring each of them would have cost less.
    pub is_whole: bool,
}

/// How often a walk may look whether to stop. Where only some points may be answers, it is given up after what it
/// takes without a filter and as many comparisons by codes as cost what scoring those points does, about two for one.
fn looks_max(scope: &Scope, snapshot: &Snapshot, effort: usize) -> usize {
    if scope.len() == snapshot.len() {
        return usize::MAX;
    }
    effort.saturating_mul(LINKS_EACH).saturating_add(2 * scope.len()) / LOOK_EVERY
}

/// The rows of a scope by their similarity.
struct RawRows<'a>(&'a Scope);

impl Ranking for RawRows<'_> {
    fn score(&self, _row: u32, similarity: f32) -> f32 {
        similarity
    }

    fn is_live(&self, row: u32) -> bool {
        self.0.contains(row)
    }
}

/// The same by their corrected score.
struct CorrectedRows<'a> {
    scope: &'a Scope,
    variant: &'a Variant<'a>,
}

impl Ranking for CorrectedRows<'_> {
    fn score(&self, row: u32, similarity: f32) -> f32 {
        self.variant.score(similarity, row)
    }

    fn is_live(&self, row: u32) -> bool {
        self.scope.contains(row)
    }
}
