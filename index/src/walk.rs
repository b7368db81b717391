//! The approximate search: a walk of the graph in the order of the corrected score, by codes, and what it
//! finds scored again.
//!
//! The graph knows only the raw geometry. Hubs stay useful as roads and are demoted as answers.

use dehub_graph::{Ranking, Width};
use dehub_vector::{Candidate, TopK, Vector, prefetch};

use crate::scan::Variant;
use crate::{Scope, Snapshot};

/// Rows scored again for each that is asked for: codes misplace few by more.
const RESCORED: usize = 4;

/// Rows that are fetched before they are scored.
const AHEAD: usize = 4;

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
        self.walk_within(&self.scope(), query, variant, limit, effort)
    }

    /// The same among the points of a scope: all others are roads and no answers. It does not look at the
    /// clock.
    pub fn walk_within(
        &self,
        scope: &Scope,
        query: &Vector,
        variant: &Variant<'_>,
        limit: usize,
        effort: usize,
    ) -> Option<Vec<Candidate>> {
        self.walk_seeing(scope, query, variant, limit, effort).map(|walked| walked.best)
    }

    /// The same, with the raw best of all points that the walk compared with the query.
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
        let (mut rows, mut nearest) = (Vec::new(), Vec::new());
        for graph in self.segments() {
            // Codes of fewer numbers misplace more.
            let least = if graph.projection().is_some() { effort } else { 0 };
            let width = Width { effort, keep: limit.saturating_mul(RESCORED).max(least) };
            let found = if variant.is_raw() {
                graph.walk(query.as_slice(), &RawRows(scope), width)
            } else {
                graph.walk(query.as_slice(), &CorrectedRows { scope, variant }, width)
            };
            rows.extend(found.candidates.iter().map(|candidate| candidate.row));
            nearest.extend(found.raw_best.map(|candidate| candidate.row));
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
        Some(Walked { best: best.into_sorted(), raw_best: raw_best.into_sorted().first().copied() })
    }
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walked {
    /// The best points, best first.
    pub best: Vec<Candidate>,
    /// The most similar point among those the walk met, under its similarity.
    pub raw_best: Option<Candidate>,
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
