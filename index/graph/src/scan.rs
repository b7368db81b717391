//! The scan of codes: every node against a batch of queries, with nothing left to the links.

use std::ops::Range;

use dehub_vector::{Candidate, Kernels, PLACES, QuadPanels, Quads, dot};

use crate::codes::{Octets, Similarity};
use crate::geometry::less;
use crate::segment::{NONE, Parts};
use crate::{CodeKind, Segment};

/// Rows that are scored together.
const CHUNK: usize = PLACES;

/// Queries multiplied together, whose lines of scores stay in cache.
const BLOCK: usize = 48;

/// A batch of fewer queries does not repay the packing of codes.
const PACKED_MIN: usize = 5;

/// Rows that wait to be compared with the best so far, beside as many as are kept.
const WAITING_MIN: usize = 64;

/// A ranking by `scale·similarity − bias`.
pub trait Affine {
    /// Whether every scale is 1.
    fn is_unscaled(&self) -> bool;

    /// What the similarity of a row is multiplied by.
    fn scale(&self, row: u32) -> f32;

    /// What is subtracted for a row; infinite for one that may not be an answer.
    fn bias(&self, row: u32) -> f32;
}

impl<A: Affine + ?Sized> Affine for &A {
    fn is_unscaled(&self) -> bool {
        (**self).is_unscaled()
    }

    fn scale(&self, row: u32) -> f32 {
        (**self).scale(row)
    }

    fn bias(&self, row: u32) -> f32 {
        (**self).bias(row)
    }
}

impl Segment {
    /// Whether the segment has codes that [`Segment::scan`] reads, on a machine that reads them fast.
    pub fn can_scan(&self) -> bool {
        self.code() == CodeKind::Int8 && Kernels::best().has_quads()
    }

    /// The best rows of all by codes: for each query and, within it, each ranking, as many as the ranking is
    /// given with, in no order. Scores are those of a walk but for their rounding; ties go to the lower row.
    /// What is found for a batch is kept in memory while the codes pass by, so that some hundred queries
    /// at once are best.
    ///
    /// `stop` is asked every few hundred rows; if it says so, the rows so far are all there are.
    ///
    /// # Panics
    /// If the codes are not [`CodeKind::Int8`], or a query does not have [`Segment::dim`] numbers.
    pub fn scan<A: Affine>(
        &self,
        queries: &[&[f32]],
        rankings: &[(A, usize)],
        stop: impl Fn() -> bool,
    ) -> Vec<Vec<Candidate>> {
        let parts = self.parts();
        self.scan_chunks(queries, rankings, parts.rows.len(), stop, |chunk, places| {
            chunk.place(parts, places);
        })
    }

    /// The same among those of `rows` that the segment has; no other code is read.
    ///
    /// # Panics
    /// As [`Segment::scan`] does.
    pub fn scan_rows<A: Affine>(
        &self,
        queries: &[&[f32]],
        rankings: &[(A, usize)],
        rows: &[u32],
        stop: impl Fn() -> bool,
    ) -> Vec<Vec<Candidate>> {
        let nodes = self.nodes_of_rows();
        self.scan_chunks(queries, rankings, rows.len(), stop, |chunk, places| {
            let found = rows[places].iter().map(|&row| (row, nodes.of(row)));
            chunk.set(found.filter_map(|(row, node)| Some((row, node?))));
        })
    }

    /// Scans `count` rows, a chunk after the other as `fill` puts it together.
    fn scan_chunks<A: Affine>(
        &self,
        queries: &[&[f32]],
        rankings: &[(A, usize)],
        count: usize,
        stop: impl Fn() -> bool,
        fill: impl Fn(&mut Chunk, Range<usize>),
    ) -> Vec<Vec<Candidate>> {
        assert_eq!(self.code(), CodeKind::Int8, "a scan reads bytes");
        let parts = self.parts();
        let asked = Asked::new(self, queries);
        let keeps = rankings.iter().map(|&(_, keep)| keep.min(parts.rows.len()));
        let mut best: Vec<Best> = queries.iter().flat_map(|_| keeps.clone().map(Best::new)).collect();
        let (mut chunk, mut packed, mut work) = (Chunk::default(), Packed::default(), Work::default());
        let end = if best.is_empty() { 0 } else { count };
        for first in (0..end).step_by(CHUNK).take_while(|_| !stop()) {
            fill(&mut chunk, first..count.min(first + CHUNK));
            if !chunk.rows.is_empty() {
                chunk.rank(rankings);
                asked.visit(parts, &chunk, &mut packed, &mut work, &mut best);
            }
        }
        best.into_iter().map(Best::into_candidates).collect()
    }
}

/// The node of each row of a segment.
#[derive(Debug)]
pub(crate) struct NodesOfRows {
    first: u32,
    /// From the row `first` on; [`NONE`] for rows that are not in the segment.
    nodes: Vec<u32>,
}

impl NodesOfRows {
    pub(crate) fn new(parts: Parts<'_>) -> NodesOfRows {
        let first = parts.rows.iter().min().copied().unwrap_or(0);
        let end = parts.rows.iter().max().map_or(first, |&last| last + 1);
        let mut nodes = vec![NONE; (end - first) as usize];
        for (node, starts) in (0..).zip(parts.row_starts.windows(2)) {
            for &row in &parts.rows[starts[0] as usize..starts[1] as usize] {
                nodes[(row - first) as usize] = node;
            }
        }
        NodesOfRows { first, nodes }
    }

    fn of(&self, row: u32) -> Option<u32> {
        let node = self.nodes.get(row.checked_sub(self.first)? as usize).copied()?;
        (node != NONE).then_some(node)
    }
}

/// The queries as they are multiplied.
enum Asked<'a> {
    Few(Vec<Octets<'a>>),
    /// Blocks of queries, and what is added to the products of each query.
    Many(Vec<Quads>, Vec<f32>),
}

impl<'a> Asked<'a> {
    fn new(segment: &'a Segment, queries: &[&[f32]]) -> Asked<'a> {
        let codes = segment.parts().codes;
        if queries.len() < PACKED_MIN {
            let octets = |query: &&[f32]| {
                let (prepared, shift) = segment.prepare(query);
                Octets::new(&prepared, shift, codes)
            };
            return Asked::Few(queries.iter().map(octets).collect());
        }
        let (width, padded) = (segment.width(), CodeKind::Int8.padded(segment.width()));
        let (prepared, shifts) = segment.prepare_all(queries);
        let mut block = Vec::new();
        let coded = prepared.chunks(BLOCK * width).map(|queries| {
            block.clear();
            for query in queries.chunks_exact(width) {
                block.extend_from_slice(query);
                block.resize(block.len() + padded - width, 0.0);
            }
            Quads::new(&block, padded)
        });
        Asked::Many(coded.collect(), shifts)
    }

    /// Compares all queries with the rows of a chunk.
    fn visit(
        &self,
        parts: Parts<'_>,
        chunk: &Chunk,
        packed: &mut Packed,
        Work { products, scaled }: &mut Work,
        best: &mut [Best],
    ) {
        let rankings = chunk.lines.len();
        match self {
            Asked::Few(queries) => {
                for (query, best) in queries.iter().zip(best.chunks_exact_mut(rankings)) {
                    query.of_all(&chunk.nodes, products);
                    chunk.select(products, scaled, best);
                }
            }
            Asked::Many(blocks, shifts) => {
                packed.fill(parts, &chunk.nodes);
                let width = packed.panels.rows();
                let best = best.chunks_mut(BLOCK * rankings).zip(shifts.chunks(BLOCK));
                for (block, (best, shifts)) in blocks.iter().zip(best) {
                    products.resize(block.len() * width, 0.0);
                    Kernels::best().quad_product(block, &packed.panels, products);
                    let lines = products.chunks_exact_mut(width).zip(shifts);
                    for ((line, shift), best) in lines.zip(best.chunks_exact_mut(rankings)) {
                        let line = &mut line[..chunk.rows.len()];
                        line.iter_mut().zip(&packed.terms).for_each(|(sum, term)| *sum += term + shift);
                        chunk.select(line, scaled, best);
                    }
                }
            }
        }
    }
}

impl Segment {
    /// The queries one after the other as they are compared with codes, and what is added to the products of
    /// each.
    fn prepare_all(&self, queries: &[&[f32]]) -> (Vec<f32>, Vec<f32>) {
        assert!(
            queries.iter().all(|query| query.len() == self.dim()),
            "queries have the segment's dimension"
        );
        let (moved, shifts) = match self.parts().center {
            [] => (queries.concat(), vec![0.0; queries.len()]),
            center => {
                let moved: Vec<Vec<f32>> = queries.iter().map(|query| less(query, center)).collect();
                let shifts = moved.iter().map(|query| -dot(query, query) / 2.0).collect();
                (moved.concat(), shifts)
            }
        };
        let prepared = match self.projection() {
            Some(projection) => projection.apply(&moved),
            None => moved,
        };
        (prepared, shifts)
    }
}

/// Room for what is made of a chunk and a block of queries.
#[derive(Default)]
struct Work {
    products: Vec<f32>,
    scaled: Vec<f32>,
}

/// Rows that are scored together. Copies of a vector are rows like any others.
#[derive(Default)]
struct Chunk {
    rows: Vec<u32>,
    /// The node of each row, whose code it has.
    nodes: Vec<u32>,
    /// One for each ranking.
    lines: Vec<Line>,
}

/// What a ranking makes of similarities.
#[derive(Default)]
struct Line {
    /// None where they are 1.
    scales: Vec<f32>,
    biases: Vec<f32>,
}

impl Chunk {
    /// Replaces the content by the rows of these places, which come after those that were in it.
    fn place(&mut self, parts: Parts<'_>, places: Range<usize>) {
        let mut node = self.nodes.last().copied().unwrap_or(0);
        self.set(places.map(|place| {
            while parts.row_starts[node as usize + 1] as usize <= place {
                node += 1;
            }
            (parts.rows[place], node)
        }));
    }

    /// Replaces the content by rows and their nodes.
    fn set(&mut self, pairs: impl Iterator<Item = (u32, u32)>) {
        self.rows.clear();
        self.nodes.clear();
        for (row, node) in pairs {
            self.rows.push(row);
            self.nodes.push(node);
        }
    }

    /// Looks up what the rankings make of the rows.
    fn rank<A: Affine>(&mut self, rankings: &[(A, usize)]) {
        self.lines.resize_with(rankings.len(), Line::default);
        for (line, (ranking, _)) in self.lines.iter_mut().zip(rankings) {
            line.biases.clear();
            line.biases.extend(self.rows.iter().map(|&row| ranking.bias(row)));
            line.scales.clear();
            if !ranking.is_unscaled() {
                line.scales.extend(self.rows.iter().map(|&row| ranking.scale(row)));
            }
        }
    }

    /// Takes note of the rows that may be among a query's best, by each ranking.
    fn select(&self, similarities: &[f32], scaled: &mut Vec<f32>, best: &mut [Best]) {
        for (line, best) in self.lines.iter().zip(best) {
            if line.scales.is_empty() {
                best.take(similarities, &line.biases, &self.rows);
            } else {
                scaled.clear();
                scaled.extend(
                    similarities.iter().zip(&line.scales).map(|(similarity, scale)| similarity * scale),
                );
                best.take(scaled, &line.biases, &self.rows);
            }
        }
    }
}

/// The codes of a chunk as they are multiplied.
#[derive(Default)]
struct Packed {
    panels: QuadPanels,
    /// What is added to the products of each row; none where that is 0.
    terms: Vec<f32>,
    codes: Vec<u8>,
    scales: Vec<f32>,
}

impl Packed {
    /// Replaces the content by the codes of these nodes, some perhaps more than once.
    fn fill(&mut self, parts: Parts<'_>, nodes: &[u32]) {
        let codes = parts.codes;
        let width = codes.bytes.len() / codes.scales.len();
        let of = |node: u32| &codes.bytes[node as usize * width..][..width];
        let follow = nodes.windows(2).all(|two| two[0] + 1 == two[1]);
        self.terms.clear();
        if follow {
            let (first, last) = (nodes[0] as usize, nodes[nodes.len() - 1] as usize);
            let bytes = &codes.bytes[first * width..(last + 1) * width];
            self.panels.fill_coded(bytes, width, &codes.scales[first..=last]);
        } else {
            self.codes.clear();
            nodes.iter().for_each(|&node| self.codes.extend_from_slice(of(node)));
            self.scales.clear();
            self.scales.extend(nodes.iter().map(|&node| codes.scales[node as usize]));
            self.panels.fill_coded(&self.codes, width, &self.scales);
        }
        if !codes.terms.is_empty() {
            self.terms.extend(nodes.iter().map(|&node| codes.terms[node as usize]));
        }
    }
}

/// The best rows of one query by one ranking so far.
struct Best {
    keep: usize,
    /// A score that as many rows as are kept have at least.
    floor: f32,
    // INVARIANT: the best rows seen are among these.
    waiting: Vec<u64>,
}

impl Best {
    fn new(keep: usize) -> Best {
        Best { keep, floor: f32::MIN, waiting: Vec::new() }
    }

    /// Takes note of the rows that may be among the best.
    fn take(&mut self, scores: &[f32], biases: &[f32], rows: &[u32]) {
        if self.keep == 0 {
            return;
        }
        // The score of a row that may not be an answer is −∞, below any floor.
        let within = Kernels::best().within(scores, biases, self.floor, f32::INFINITY);
        for (mut bits, first) in within.into_iter().zip((0..).step_by(64)) {
            while bits != 0 {
                let place = first + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let score = scores[place] - biases[place];
                if score >= self.floor {
                    self.waiting.push(key(score, rows[place]));
                    if self.waiting.len() >= self.keep + self.keep.max(WAITING_MIN) {
                        self.cut();
                    }
                }
            }
        }
    }

    /// Leaves only the best.
    fn cut(&mut self) {
        if self.waiting.len() > self.keep {
            let (_, &mut worst, _) = self.waiting.select_nth_unstable(self.keep - 1);
            self.floor = candidate(worst).score;
            self.waiting.truncate(self.keep);
        }
    }

    fn into_candidates(mut self) -> Vec<Candidate> {
        self.cut();
        self.waiting.into_iter().map(candidate).collect()
    }
}

/// A number that is smaller for a better candidate: its upper half descends with the score, the lower is the
/// row.
fn key(score: f32, row: u32) -> u64 {
    let bits = (score + 0.0).to_bits();
    let descending = if bits >> 31 == 0 { !bits ^ SIGN } else { bits };
    u64::from(descending) << 32 | u64::from(row)
}

/// The candidate of a [`key`].
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
fn candidate(key: u64) -> Candidate {
    let (descending, row) = ((key >> 32) as u32, key as u32);
    let bits = if descending >> 31 == 0 { !(descending ^ SIGN) } else { descending };
    Candidate::new(f32::from_bits(bits), row)
}

const SIGN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_ascend_from_the_best_candidate_to_the_worst(
            (left, right) in (any::<(i16, u32)>(), any::<(i16, u32)>()),
            unit in prop::sample::select(vec![1e-40_f32, 0.5, 1e30]),
        ) {
            let [left, right] = [left, right].map(|(score, row)| Candidate::new(f32::from(score / 8000) * unit, row));
            let keys = [left, right].map(|it| key(it.score, it.row));
            prop_assert_eq!(keys[0].cmp(&keys[1]), right.cmp(&left));
            prop_assert_eq!(keys.map(candidate), [left, right]);
            prop_assert_eq!(key(-0.0, 3), key(0.0, 3));
        }
    }
}
