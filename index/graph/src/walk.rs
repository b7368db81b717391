//! The walk: best first over the links, in the order of the corrected score.

use std::collections::BinaryHeap;

use dehub_vector::{Candidate, TopK, prefetch};

use crate::CodeKind;
use crate::Segment;
use crate::beam::Beam;
use crate::codes::{Halves, Octets, Similarity, Whole};
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

impl<R: Ranking + ?Sized> Ranking for &R {
    #[inline]
    fn score(&self, row: u32, similarity: f32) -> f32 {
        (**self).score(row, similarity)
    }

    #[inline]
    fn is_live(&self, row: u32) -> bool {
        (**self).is_live(row)
    }
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// Nodes with live rows in the beam: a walk ends when it has followed the links of all of them. While
    /// the beam is not full every link is followed, so that at least `effort` live rows are found if there
    /// are as many, however few of all rows are live; that may take a walk of all nodes.
    pub effort: usize,
    /// The most rows to give back. For the best k by exact score ask for 2 to 4 times as many, and under
    /// reduced codes for 4 to 5 times.
    pub keep: usize,
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Live rows under their score by codes, best first.
    pub candidates: Vec<Candidate>,
    /// The live row most similar by codes among all that were compared, under its similarity.
    pub raw_best: Option<Candidate>,
    /// Nodes compared with the query on the ground, for all rankings of the walk together.
    pub compared: usize,
    /// Whether the walk was stopped before it was over; then better rows may have been ahead.
    pub is_cut_short: bool,
}

/// Rows that are brought near before they are scored again.
const FETCHED: usize = 6;

impl Found {
    /// The best `limit` candidates by the exact `score` of their rows, best first.
    pub fn rescored(&self, limit: usize, score: impl Fn(u32) -> f32) -> Vec<Candidate> {
        self.rescored_from(limit, |_| (), score)
    }

    /// The same; `fetch` is called for a row some rows before its score is asked for, to bring its vector
    /// near (see [`prefetch`]), which is most of what rescoring costs.
    pub fn rescored_from(
        &self,
        limit: usize,
        fetch: impl Fn(u32),
        score: impl Fn(u32) -> f32,
    ) -> Vec<Candidate> {
        self.candidates.iter().take(FETCHED).for_each(|candidate| fetch(candidate.row));
        let mut best = TopK::new(limit);
        for (place, candidate) in self.candidates.iter().enumerate() {
            if let Some(ahead) = self.candidates.get(place + FETCHED) {
                fetch(ahead.row);
            }
            best.push(Candidate::new(score(candidate.row), candidate.row));
        }
        best.into_sorted()
    }
}

/// Nodes compared, about, between two looks at whether to stop.
pub const LOOK_EVERY: usize = 64;

/// What a walk works with.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lanes: Vec<Places>,
    visited: Visited,
    /// Nodes whose links were followed; asked for where there are several lanes.
    followed: Visited,
    batch: Vec<u32>,
    similarities: Vec<f32>,
}

/// The nodes of one ranking.
#[derive(Debug, Default)]
struct Places {
    beam: Beam,
    /// Nodes without live rows that are still to be followed.
    roads: BinaryHeap<Candidate>,
    raw_best: Option<Candidate>,
}

impl Segment {
    /// Walks to the best rows for `query` by what `ranking` makes of each similarity: the inner product,
    /// or under Euclidean `−‖q − p‖²/2`.
    ///
    /// # Panics
    /// If the query does not have [`Segment::dim`] numbers.
    pub fn walk(&self, query: &[f32], ranking: &impl Ranking, width: Width) -> Found {
        let mut found = self.walk_all(query, &[(ranking, width)], || false);
        found.pop().expect("one is found for each ranking")
    }

    /// One walk for several rankings, each with a width of its own: a node is compared once and its links
    /// are followed once, if it is in the beam of any. `stop` is asked now and then; once it says true, the
    /// walk ends with what it has. One [`Found`] a ranking, in their order.
    ///
    /// # Panics
    /// If the query does not have [`Segment::dim`] numbers.
    pub fn walk_all<R: Ranking>(
        &self,
        query: &[f32],
        rankings: &[(R, Width)],
        stop: impl Fn() -> bool,
    ) -> Vec<Found> {
        let (query, shift) = self.prepare(query);
        let codes = self.parts().codes;
        self.with_scratch(|scratch| match codes.kind {
            CodeKind::F32 => self.walk_by(&Whole::new(&query, shift, codes), rankings, stop, scratch),
            CodeKind::Bf16 => self.walk_by(&Halves::new(&query, shift, codes), rankings, stop, scratch),
            CodeKind::Int8 => self.walk_by(&Octets::new(&query, shift, codes), rankings, stop, scratch),
        })
    }

    fn walk_by<S: Similarity, R: Ranking>(
        &self,
        similarity: &S,
        rankings: &[(R, Width)],
        stop: impl Fn() -> bool,
        scratch: &mut Scratch,
    ) -> Vec<Found> {
        let (header, parts) = (self.header(), self.parts());
        scratch.lanes.resize_with(rankings.len(), Places::default);
        for (lane, (_, width)) in scratch.lanes.iter_mut().zip(rankings) {
            lane.beam.start(width.effort.min(self.node_count()));
            lane.roads.clear();
            lane.raw_best = None;
        }
        scratch.visited.start(self.node_count());
        scratch.followed.start(self.node_count());
        let is_single = parts.rows.len() == self.node_count();
        let mut walk = Walk { parts, similarity, rankings, scratch, is_single, compared: 0 };
        let mut is_cut_short = false;
        if header.entry != NONE {
            let start = walk.descend(header.entry, header.m as usize);
            // From the entry every node can be reached; from elsewhere perhaps not.
            walk.scratch.batch.clear();
            for node in [start, header.entry] {
                if walk.scratch.visited.is_first(node) {
                    walk.scratch.batch.push(node);
                }
            }
            walk.meet_all();
            is_cut_short = walk.spread(2 * header.m as usize, stop);
        }
        let found = |(lane, (ranking, width)): (&Places, &(R, Width))| Found {
            candidates: walk.candidates(&lane.beam, ranking, width.keep),
            raw_best: lane.raw_best,
            compared: walk.compared,
            is_cut_short,
        };
        walk.scratch.lanes.iter().zip(rankings).map(found).collect()
    }
}

struct Walk<'a, S, R> {
    parts: Parts<'a>,
    similarity: &'a S,
    rankings: &'a [(R, Width)],
    scratch: &'a mut Scratch,
    /// Whether every node has just one row.
    is_single: bool,
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

    /// Follows links until no node in a beam is left to follow, or until it is stopped, which it tells.
    fn spread(&mut self, stride: usize, stop: impl Fn() -> bool) -> bool {
        let mut asked_at = 0;
        loop {
            let mut is_over = true;
            for lane in 0..self.rankings.len() {
                let Some(node) = self.scratch.lanes[lane].next() else { continue };
                is_over = false;
                if self.rankings.len() > 1 && !self.scratch.followed.is_first(node) {
                    continue;
                }
                if self.compared >= asked_at + LOOK_EVERY {
                    asked_at = self.compared;
                    if stop() {
                        return true;
                    }
                }
                let Scratch { batch, visited, lanes, .. } = &mut *self.scratch;
                let links = &self.parts.ground[node as usize * stride..][..stride];
                visited.first_of(links.iter().copied(), NONE, batch);
                if let Some((_, likely)) = lanes[lane].beam.peek() {
                    prefetch(&self.parts.ground[likely as usize * stride..][..stride]);
                }
                self.meet_all();
            }
            if is_over {
                return false;
            }
        }
    }

    /// Compares the batch with the query, and takes into each beam what is good enough.
    fn meet_all(&mut self) {
        let Scratch { batch, similarities, lanes, .. } = &mut *self.scratch;
        self.similarity.of_all(batch, similarities);
        self.compared += batch.len();
        for (lane, (ranking, _)) in lanes.iter_mut().zip(self.rankings) {
            let mut nearest = lane.raw_best.map_or(f32::NEG_INFINITY, |best| best.score);
            for (&node, &similarity) in batch.iter().zip(&*similarities) {
                if self.is_single {
                    let row = self.parts.rows[node as usize];
                    let score = ranking.score(row, similarity);
                    if score > lane.beam.floor() || similarity > nearest {
                        lane.meet(node, score, ranking.is_live(row).then_some(row), similarity);
                        nearest = lane.raw_best.map_or(f32::NEG_INFINITY, |best| best.score);
                    }
                } else {
                    let rows = self.parts.rows_of(node);
                    let (score, row) = best_of(ranking, rows, similarity);
                    lane.meet(node, score, row, similarity);
                }
            }
        }
    }

    /// The best live rows of the nodes in a beam.
    fn candidates(&self, beam: &Beam, ranking: &R, keep: usize) -> Vec<Candidate> {
        if self.is_single {
            // Equal scores are in the order of nodes there, here in that of rows.
            let row = |(score, node): (f32, u32)| Candidate::new(score, self.parts.rows[node as usize]);
            let mut candidates: Vec<Candidate> = beam.iter().map(row).collect();
            candidates.sort_by(|a, b| b.cmp(a));
            candidates.truncate(keep);
            return candidates;
        }
        let mut best = TopK::new(keep);
        for (score, node) in beam.iter() {
            if best.threshold().is_some_and(|worst| score < worst.score) {
                break;
            }
            let similarity = self.similarity.of(node);
            for &row in self.parts.rows_of(node).iter().filter(|&&row| ranking.is_live(row)) {
                best.push(Candidate::new(ranking.score(row, similarity), row));
            }
        }
        best.into_sorted()
    }
}

impl Places {
    /// The best node whose links were not followed: from the beam, or a road better than the beam's worst.
    fn next(&mut self) -> Option<u32> {
        match (self.beam.peek(), self.roads.peek()) {
            (Some((score, _)), Some(road)) if road.score > score => self.roads.pop().map(|road| road.row),
            (None, Some(road)) if road.score > self.beam.floor() => self.roads.pop().map(|road| road.row),
            _ => self.beam.next().map(|(_, node)| node),
        }
    }

    /// Takes a node of which `row` is a live row, if any is.
    fn meet(&mut self, node: u32, score: f32, row: Option<u32>, similarity: f32) {
        let Some(row) = row else {
            if score > self.beam.floor() {
                self.roads.push(Candidate::new(score, node));
            }
            return;
        };
        if self.raw_best.is_none_or(|best| similarity > best.score) {
            self.raw_best = Some(Candidate::new(similarity, row));
        }
        self.beam.offer(score, node);
    }
}

/// The best score of live rows and the first of them; without one, the best of all.
fn best_of(ranking: &impl Ranking, rows: &[u32], similarity: f32) -> (f32, Option<u32>) {
    let score = |&row: &u32| ranking.score(row, similarity);
    let live = || rows.iter().filter(|&&row| ranking.is_live(row));
    let best = live().map(score).reduce(f32::max).or_else(|| rows.iter().map(score).reduce(f32::max));
    (best.unwrap_or(f32::NEG_INFINITY), live().next().copied())
}
