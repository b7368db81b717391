//! The approximate search: a walk of the graph in the order of the corrected score, by codes, and what it
//! finds scored again.
//!
//! The graph knows only the raw geometry. Hubs stay useful as roads and are demoted as answers.

use dehub_graph::{Ranking, Width};
use dehub_vector::{Candidate, TopK, Vector};

use crate::Snapshot;
use crate::scan::Variant;

/// Rows scored again for each that is asked for: codes misplace few by more.
const RESCORED: usize = 4;

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
        if !self.has_graph() {
            return None;
        }
        let width = Width { effort: effort.max(limit), keep: limit.saturating_mul(RESCORED) };
        let found = self.segments().flat_map(|graph| {
            let found = if variant.is_raw() {
                graph.walk(query.as_slice(), &RawRows(self), width)
            } else {
                graph.walk(query.as_slice(), &CorrectedRows { snapshot: self, variant }, width)
            };
            found.candidates.into_iter().map(|candidate| candidate.row)
        });
        let mut best = TopK::new(limit);
        for row in found.chain(self.delta_rows()) {
            best.push(Candidate::new(variant.score(self.similarity(query, row), row), row));
        }
        Some(best.into_sorted())
    }
}

/// Live rows by their similarity.
struct RawRows<'a>(&'a Snapshot);

impl Ranking for RawRows<'_> {
    fn score(&self, _row: u32, similarity: f32) -> f32 {
        similarity
    }

    fn is_live(&self, row: u32) -> bool {
        self.0.is_live(row)
    }
}

/// Live rows by their corrected score.
struct CorrectedRows<'a> {
    snapshot: &'a Snapshot,
    variant: &'a Variant<'a>,
}

impl Ranking for CorrectedRows<'_> {
    fn score(&self, row: u32, similarity: f32) -> f32 {
        self.variant.score(similarity, row)
    }

    fn is_live(&self, row: u32) -> bool {
        self.snapshot.is_live(row)
    }
}
