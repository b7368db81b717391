//! The approximate search: a best-first walk of the graph, ordered by the corrected score itself.
//!
//! The graph knows only the raw geometry. Hubs stay useful as roads and are demoted as answers.

use std::collections::BinaryHeap;

use dehub_vector::{Candidate, TopK, Vector};

use crate::Snapshot;
use crate::graph::Graph;
use crate::scan::Variant;

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
        let graph = self.graph.as_deref()?;
        let mut walk = Walk { snapshot: self, graph, query, variant, found: TopK::new(limit) };
        if let Some(entry) = graph.entry() {
            let start = walk.descend(entry);
            walk.spread(start, effort.max(limit));
        }
        let mut best = walk.found;
        let recent = graph.covered()..self.row_count();
        for row in recent.filter(|&row| self.is_live(row)) {
            best.push(Candidate::new(variant.score(self.similarity(query, row), row), row));
        }
        Some(best.into_sorted())
    }
}

struct Walk<'a> {
    snapshot: &'a Snapshot,
    graph: &'a Graph,
    query: &'a Vector,
    variant: &'a Variant<'a>,
    found: TopK,
}

/// What is known of a node once it is seen.
struct Visit {
    /// The node, under the score it is walked by.
    candidate: Candidate,
    similarity: f32,
    is_live: bool,
}

impl Walk<'_> {
    /// A node on the way. Rows of a node share one vector, so they share the similarity; their biases
    /// may differ, and the best live one counts. A node without live rows is still a road.
    fn visit(&self, node: u32) -> Visit {
        let rows = self.graph.rows(node);
        let similarity = self.snapshot.similarity(self.query, rows[0]);
        let best = |rows: &mut dyn Iterator<Item = u32>| {
            rows.map(|row| self.variant.score(similarity, row)).max_by(f32::total_cmp)
        };
        let live = best(&mut rows.iter().copied().filter(|&row| self.snapshot.is_live(row)));
        let score = live.or_else(|| best(&mut rows.iter().copied())).unwrap_or(f32::MIN);
        Visit { candidate: Candidate::new(score, node), similarity, is_live: live.is_some() }
    }

    /// From the entry down the upper layers, each time to the best neighbour until none is better.
    fn descend(&self, entry: u32) -> Candidate {
        let mut here = self.visit(entry).candidate;
        for layer in self.graph.upper_layers() {
            loop {
                let neighbours = layer.links(here.row).iter();
                let best = neighbours.map(|&node| self.visit(node).candidate).max();
                match best {
                    Some(better) if better.score > here.score => here = better,
                    _ => break,
                }
            }
        }
        here
    }

    /// The beam on the ground layer, `effort` nodes wide, however many rows a node has.
    fn spread(&mut self, start: Candidate, effort: usize) {
        let mut visited = vec![0_u64; self.graph.len().div_ceil(64)];
        let mut first_visit = |node: u32| {
            let (word, bit) = (&mut visited[node as usize / 64], 1 << (node % 64));
            let first = *word & bit == 0;
            *word |= bit;
            first
        };
        first_visit(start.row);
        let mut ahead = BinaryHeap::from([start]);
        let mut beam = TopK::new(effort);
        self.offer(&self.visit(start.row), &mut beam);
        while let Some(nearest) = ahead.pop() {
            if beam.threshold().is_some_and(|worst| nearest.score < worst.score) {
                break;
            }
            for &node in self.graph.ground().links(nearest.row) {
                if !first_visit(node) {
                    continue;
                }
                let visit = self.visit(node);
                if beam.threshold().is_none_or(|worst| visit.candidate.score > worst.score) {
                    ahead.push(visit.candidate);
                    self.offer(&visit, &mut beam);
                }
            }
        }
    }

    /// Takes a node with live rows into the beam, and those rows into the answer.
    fn offer(&mut self, visit: &Visit, beam: &mut TopK) {
        if !visit.is_live {
            return;
        }
        beam.push(visit.candidate);
        let rows = self.graph.rows(visit.candidate.row).iter();
        for &row in rows.filter(|&&row| self.snapshot.is_live(row)) {
            self.found.push(Candidate::new(self.variant.score(visit.similarity, row), row));
        }
    }
}
