//! The walk: best first over the links, in the order of the corrected score.

use dehub_vector::{Candidate, TopK, prefetch};

use crate::CodeKind;
use crate::Segment;
use crate::beam::Beam;
use crate::codes::{Halves, Octets, Similarity, Whole};
use crate::insert::AHEAD;
use crate::segment::{NONE, Parts};
use crate::visited::Visited;

/// What a walk ranks rows by.
pub trait Ranking {
    /// The score of a row of which this is the similarity, as far as codes can tell; larger is better.
    fn score(&self, row: u32, similarity: f32) -> f32;

    /// Whether the row may be an answer. One that may not is still walked over.
    fn is_live(&self, row: u32) -> bool;
}

/// The similarity itself, every row live.
#[derive(Debug, Clone, Copy)]
pub struct Raw;

impl Ranking for Raw {
    #[inline]
    fn score(&self, _row: u32, similarity: f32) -> f32 {
        similarity
    }

    #[inline]
    fn is_live(&self, _row: u32) -> bool {
        true
    }
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// Nodes in the beam: it ends when it has followed the links of all of them. With as many as the
    /// graph has, every live row is found.
    pub effort: usize,
    /// The most rows to give back. For the best k by exact score ask for 2 to 4 times as many.
    pub keep: usize,
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Live rows under their score by codes, best first.
    pub candidates: Vec<Candidate>,
    /// The live row most similar by codes among all that were compared, under its similarity.
    pub raw_best: Option<Candidate>,
    /// Nodes compared with the query on the ground.
    pub compared: usize,
}

impl Found {
    /// The best `limit` candidates by the exact `score` of their rows, best first.
    pub fn rescored(&self, limit: usize, score: impl Fn(u32) -> f32) -> Vec<Candidate> {
        let mut best = TopK::new(limit);
        for candidate in &self.candidates {
            best.push(Candidate::new(score(candidate.row), candidate.row));
        }
        best.into_sorted()
    }
}

/// What a walk works with.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    beam: Beam,
    /// Nodes without live rows that are still to be followed.
    roads: std::collections::BinaryHeap<Candidate>,
    visited: Visited,
    batch: Vec<u32>,
}

impl Segment {
    /// Walks to the best rows for `query` by what `ranking` makes of each similarity: the inner product,
    /// or under Euclidean `−‖q − p‖²/2`.
    ///
    /// # Panics
    /// If the query does not have [`Segment::dim`] numbers.
    pub fn walk(&self, query: &[f32], ranking: &impl Ranking, width: Width) -> Found {
        let (query, shift) = self.prepare(query);
        let codes = self.parts().codes;
        self.with_scratch(|scratch| match codes.kind {
            CodeKind::F32 => self.walk_by(&Whole::new(&query, shift, codes), ranking, width, scratch),
            CodeKind::Bf16 => self.walk_by(&Halves::new(&query, shift, codes), ranking, width, scratch),
            CodeKind::Int8 => self.walk_by(&Octets::new(&query, shift, codes), ranking, width, scratch),
        })
    }

    fn walk_by<S: Similarity>(
        &self,
        similarity: &S,
        ranking: &impl Ranking,
        width: Width,
        scratch: &mut Scratch,
    ) -> Found {
        let header = self.header();
        scratch.beam.start(width.effort.min(self.node_count()));
        scratch.roads.clear();
        scratch.visited.start(self.node_count());
        let parts = self.parts();
        let mut walk = Walk { parts, similarity, ranking, scratch, raw_best: None, compared: 0 };
        if header.entry != NONE {
            let start = walk.descend(header.entry, header.m as usize);
            // From the entry every node can be reached; from elsewhere perhaps not.
            for node in [start, header.entry] {
                if walk.scratch.visited.is_first(node) {
                    walk.meet(node);
                }
            }
            walk.spread(2 * header.m as usize);
        }
        Found { candidates: walk.candidates(width.keep), raw_best: walk.raw_best, compared: walk.compared }
    }
}

struct Walk<'a, S, R> {
    parts: Parts<'a>,
    similarity: &'a S,
    ranking: &'a R,
    scratch: &'a mut Scratch,
    raw_best: Option<Candidate>,
    compared: usize,
}

impl<S: Similarity, R: Ranking> Walk<'_, S, R> {
    /// From the entry down the layers above the ground, on each to ever more similar nodes until none is.
    fn descend(&self, entry: u32, m: usize) -> u32 {
        let mut here = entry;
        let mut best = self.similarity.of(entry);
        for layer in (0..self.parts.layer_count()).rev() {
            let (nodes, links) = self.parts.layer(layer);
            let Ok(mut place) = nodes.binary_search(&here) else { continue };
            loop {
                let from = place;
                let linked = || {
                    links[from * m..][..m]
                        .iter()
                        .map(|&next| next as usize)
                        .take_while(|&next| next < nodes.len())
                };
                linked().for_each(|next| self.similarity.fetch(nodes[next]));
                for next in linked() {
                    let similarity = self.similarity.of(nodes[next]);
                    if similarity > best {
                        (best, place) = (similarity, next);
                    }
                }
                if place == from {
                    break;
                }
            }
            here = nodes[place];
        }
        here
    }

    /// Follows links until no node in the beam is left to follow.
    fn spread(&mut self, stride: usize) {
        while let Some(node) = self.next() {
            let Scratch { batch, visited, beam, .. } = &mut *self.scratch;
            let links = &self.parts.ground[node as usize * stride..][..stride];
            visited.first_of(links.iter().copied(), NONE, batch);
            batch.iter().take(AHEAD).for_each(|&next| self.similarity.fetch(next));
            if let Some((_, likely)) = beam.peek() {
                prefetch(&self.parts.ground[likely as usize * stride..][..stride]);
            }
            for place in 0..self.scratch.batch.len() {
                if let Some(&ahead) = self.scratch.batch.get(place + AHEAD) {
                    self.similarity.fetch(ahead);
                }
                self.meet(self.scratch.batch[place]);
            }
        }
    }

    /// The best node whose links were not followed: from the beam, or a road better than the beam's worst.
    fn next(&mut self) -> Option<u32> {
        let Scratch { beam, roads, .. } = &mut *self.scratch;
        match (beam.peek(), roads.peek()) {
            (Some((score, _)), Some(road)) if road.score > score => roads.pop().map(|road| road.row),
            (None, Some(road)) if road.score > beam.floor() => roads.pop().map(|road| road.row),
            _ => beam.next().map(|(_, node)| node),
        }
    }

    fn rows(&self, node: u32) -> &[u32] {
        self.parts.rows_of(node)
    }

    /// Compares a node with the query and takes it into the beam if it is good enough. Rows of a node
    /// share the similarity; their scores may differ, and the best live one counts.
    #[inline]
    fn meet(&mut self, node: u32) {
        self.compared += 1;
        let similarity = self.similarity.of(node);
        let is_nearest = self.raw_best.is_none_or(|best| similarity > best.score);
        let (score, is_live) = match *self.rows(node) {
            [row] => {
                let score = self.ranking.score(row, similarity);
                let matters = is_nearest || score > self.scratch.beam.floor();
                (score, matters && self.ranking.is_live(row))
            }
            ref rows => self.best_of(rows, similarity),
        };
        if is_live && is_nearest {
            let row = self.rows(node).iter().copied().find(|&row| self.ranking.is_live(row));
            self.raw_best = row.map(|row| Candidate::new(similarity, row));
        }
        if is_live {
            self.scratch.beam.offer(score, node);
        } else if score > self.scratch.beam.floor() {
            self.scratch.roads.push(Candidate::new(score, node));
        }
    }

    /// The best score of live rows; without one, of all.
    fn best_of(&self, rows: &[u32], similarity: f32) -> (f32, bool) {
        let score = |&row: &u32| self.ranking.score(row, similarity);
        let live = rows.iter().filter(|&&row| self.ranking.is_live(row)).map(score).reduce(f32::max);
        let best = live.or_else(|| rows.iter().map(score).reduce(f32::max));
        (best.unwrap_or(f32::NEG_INFINITY), live.is_some())
    }

    /// The best live rows of the nodes in the beam.
    fn candidates(&self, keep: usize) -> Vec<Candidate> {
        let mut best = TopK::new(keep);
        for (score, node) in self.scratch.beam.iter() {
            if best.threshold().is_some_and(|worst| score < worst.score) {
                break;
            }
            match *self.rows(node) {
                [row] => _ = best.push(Candidate::new(score, row)),
                ref rows => {
                    let similarity = self.similarity.of(node);
                    for &row in rows.iter().filter(|&&row| self.ranking.is_live(row)) {
                        best.push(Candidate::new(self.ranking.score(row, similarity), row));
                    }
                }
            }
        }
        best.into_sorted()
    }
}
