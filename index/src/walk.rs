//! The approximate search: a best-first walk of the graph, ordered by the corrected score itself.
//!
//! The graph knows only the raw geometry. Hubs stay useful as roads and are demoted as answers.

use std::collections::BinaryHeap;

use dehub_vector::{Candidate, TopK, Vector};

use crate::graph::Graph;
use crate::scan::Variant;
use crate::Snapshot;

impl Snapshot {
    /// The best `limit` points a walk with a beam of `effort` finds, best first, together with an
    /// exact scan of the points added since the graph was built. `None` when there is no graph.
    pub fn walk(&self, query: &Vector, variant: &Variant<'_>, limit: usize, effort: usize) -> Option<Vec<Candidate>> {
        let graph = self.graph.as_deref()?;
        let mut walk = Walk { snapshot: self, graph, query, variant, found: TopK::new(effort.max(limit)) };
        if let Some(entry) = graph.entry() {
            let start = walk.descend(entry);
            walk.spread(start);
        }
        let mut best = TopK::new(limit);
        walk.found.into_sorted().into_iter().for_each(|candidate| _ = best.push(candidate));
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

impl Walk<'_> {
    /// The similarity of a node and the score it is walked by, that of its best row. Rows of a node
    /// share one vector, so they share the similarity; their biases may differ.
    fn score(&self, node: u32) -> (f32, Candidate) {
        let rows = self.graph.rows(node);
        let similarity = self.snapshot.similarity(self.query, rows[0]);
        let best = rows.iter().map(|&row| self.variant.score(similarity, row)).fold(f32::MIN, f32::max);
        (similarity, Candidate::new(best, node))
    }

    /// From the entry down the upper layers, each time to the best neighbour until none is better.
    fn descend(&self, entry: u32) -> Candidate {
        let mut here = self.score(entry).1;
        for layer in self.graph.upper_layers() {
            loop {
                let neighbours = layer.links(here.row).iter();
                let best = neighbours.map(|&node| self.score(node).1).max();
                match best {
                    Some(better) if better.score > here.score => here = better,
                    _ => break,
                }
            }
        }
        here
    }

    /// The beam on the ground layer.
    fn spread(&mut self, start: Candidate) {
        let mut visited = vec![0_u64; self.graph.len().div_ceil(64)];
        let mut first_visit = |node: u32| {
            let (word, bit) = (&mut visited[node as usize / 64], 1 << (node % 64));
            let first = *word & bit == 0;
            *word |= bit;
            first
        };
        first_visit(start.row);
        let mut ahead = BinaryHeap::from([start]);
        let (similarity, _) = self.score(start.row);
        self.offer(start.row, similarity);
        while let Some(nearest) = ahead.pop() {
            if self.found.threshold().is_some_and(|worst| nearest.score < worst.score) {
                break;
            }
            for &node in self.graph.ground().links(nearest.row) {
                if !first_visit(node) {
                    continue;
                }
                let (similarity, candidate) = self.score(node);
                if self.found.threshold().is_none_or(|worst| candidate.score > worst.score) {
                    ahead.push(candidate);
                    self.offer(node, similarity);
                }
            }
        }
    }

    /// Takes the live rows of a node into the answer.
    fn offer(&mut self, node: u32, similarity: f32) {
        for &row in self.graph.rows(node).iter().filter(|&&row| self.snapshot.is_live(row)) {
            self.found.push(Candidate::new(self.variant.score(similarity, row), row));
        }
    }
}
