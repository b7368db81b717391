//! Finding the rows worth asking about. A matrix product says within a proven error what each row
//! scores, and [`dot`] scores those that could matter, so a batch answers bit for bit what single
//! queries would.

use dehub_vector::{
    CHUNK_ROWS, Candidate, Kernels, Metric, PLACES, Pairs, Panels, QuadPanels, Quads, TopK, Vector,
    bf16_error, dot, int8_error, matrix_product, prefetch, product_error,
};
use rayon::prelude::*;

use crate::row_set::chunk_rows;
use crate::scan::{Answer, Question, Variant, first_row, offset};
use crate::{Scope, Snapshot};

/// Queries multiplied together: their lines of scores and one chunk of the gallery stay in cache.
const BLOCK: usize = 96;

/// Queries that a thread takes through the gallery together, so that a chunk is read and packed once for
/// all of them.
const BATCH: usize = 4096;

/// Chunks that are packed together, and blocks of queries that are taken through them in turn: what was
/// found of so many queries stays in cache.
const TOGETHER: usize = 32;
const NEAR: usize = 5;

/// A batch of fewer queries does not repay the packing of a chunk.
const PACKED_MIN: usize = 5;

/// Up to as many queries are faster multiplied one by one than as a matrix.
const SINGLE_MAX: usize = 8;

/// Rows that wait for their exact score, for each that is asked for, and beside.
const WAITING: usize = 4;
const WAITING_BESIDE: usize = 256;

/// Rows fetched ahead of the one that is scored.
const AHEAD: usize = 4;

/// Chunks that are worth a thread of their own.
const SPAN_MIN: usize = 16;

/// The numbers that a screen multiplies. Answers are the same by either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// Those of 32 bits that are stored.
    Wide,
    /// Those rounded to bf16: more rows are close enough to be asked about, and each costs less.
    Narrow,
    /// Those rounded to 8 bits and a scale a vector: the same, once more.
    Bytes,
}

impl Screen {
    /// The fastest one on this machine. Around a target that may be anywhere in the ranking lie many rows, so
    /// that with targets the coarsest is not.
    pub fn best(has_targets: bool) -> Screen {
        let kernels = Kernels::best();
        match (kernels.has_quads() && !has_targets, kernels.has_panels()) {
            (true, _) => Screen::Bytes,
            (false, true) => Screen::Narrow,
            (false, false) => Screen::Wide,
        }
    }
}

/// Answers `question`: batches of queries, and if those are fewer than threads, runs of chunks, side by
/// side.
pub(crate) fn scan(
    snapshot: &Snapshot,
    question: &Question<'_>,
    variants: &[Variant<'_>],
    screen: Screen,
    scope: &Scope,
) -> Vec<Vec<Answer>> {
    let (count, threads) = (question.vectors.len(), rayon::current_num_threads());
    if count == 0 {
        return Vec::new();
    }
    let batches = count.div_ceil(BATCH).next_multiple_of(threads).min(count.div_ceil(BLOCK));
    let size = count.div_ceil(batches);
    // What nothing of may be an answer is not read.
    let all = 0..snapshot.vectors.chunk_count();
    let chunks: Vec<usize> = all.filter(|&chunk| !scope.has_none(chunk_rows(chunk))).collect();
    let spans = threads.div_ceil(batches).min(chunks.len().div_ceil(SPAN_MIN)).max(1);
    let answers = question.vectors.par_chunks(size).enumerate().map(|(place, vectors)| {
        let targets = question.targets.chunks(size).nth(place).unwrap_or_default();
        let question = Question { vectors, targets, ..*question };
        let batch = Batch::new(snapshot, &question, variants, screen, scope);
        let found = (0..spans)
            .into_par_iter()
            .map(|span| batch.scan(&chunks[chunks.len() * span / spans..chunks.len() * (span + 1) / spans]));
        batch.answers(found.reduce_with(merge).unwrap_or_default())
    });
    answers.flatten_iter().collect()
}

/// Queries on their way through the gallery.
struct Batch<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    variants: &'a [Variant<'a>],
    limit: usize,
    queries: Vec<Asked<'a>>,
    coded: Coded,
}

struct Asked<'a> {
    vector: &'a Vector,
    /// Its length, not less than it is.
    length: f32,
    half_norm: f32,
    /// For each variant, what it ranks the targets by.
    targets: Vec<Vec<Candidate>>,
}

/// The queries as they are multiplied, in blocks.
enum Coded {
    Wide(Vec<f32>),
    Narrow(Vec<Pairs>),
    Bytes(Vec<Quads>),
}

/// What was found of one query by one variant.
struct Running {
    limit: usize,
    /// The least score that a row among the best has, as far as is known: kept here so that most lines are
    /// done without a look at what lies elsewhere in memory.
    floor: f32,
    top: TopK,
    /// The best of what rows score at least.
    floors: TopK,
    /// Rows that may be among the best, under what they score at most.
    waiting: Vec<Candidate>,
    /// The rank of each target among the rows seen, from 1.
    ranks: Vec<u32>,
}

/// A chunk as it is multiplied.
#[derive(Default)]
struct Packed {
    panels: Panels,
    quads: QuadPanels,
    /// A line for each variant.
    biases: Vec<Vec<f32>>,
}

/// Room for what is made of a chunk and a block of queries.
struct Work {
    products: Vec<f32>,
    scaled: Vec<f32>,
    known: [f32; CHUNK_ROWS],
}

impl<'a> Batch<'a> {
    fn new(
        snapshot: &'a Snapshot,
        question: &Question<'a>,
        variants: &'a [Variant<'a>],
        screen: Screen,
        scope: &'a Scope,
    ) -> Batch<'a> {
        let Question { vectors, limit, targets } = *question;
        let asked = |(place, vector): (usize, &'a Vector)| {
            let rows = targets.get(place).map_or(&[][..], Vec::as_slice);
            let similarities: Vec<f32> = rows.iter().map(|&row| snapshot.similarity(vector, row)).collect();
            let targets = variants.iter().map(|variant| {
                let scores = rows.iter().zip(&similarities);
                scores
                    .map(|(&row, &similarity)| Candidate::new(variant.score(similarity, row), row))
                    .collect()
            });
            let half_norm = vector.half_squared_norm();
            Asked { vector, length: length(vector.as_slice()), half_norm, targets: targets.collect() }
        };
        let dim = snapshot.vectors.width();
        let packed: Vec<f32> = vectors.iter().flat_map(|query| query.as_slice()).copied().collect();
        let blocks = packed.chunks(BLOCK * dim);
        let coded = match screen {
            Screen::Narrow if vectors.len() >= PACKED_MIN => {
                Coded::Narrow(blocks.map(|block| Pairs::new(block, dim)).collect())
            }
            Screen::Bytes if vectors.len() >= PACKED_MIN => {
                Coded::Bytes(blocks.map(|block| Quads::new(block, dim)).collect())
            }
            Screen::Bytes | Screen::Narrow | Screen::Wide => Coded::Wide(packed),
        };
        let queries = vectors.iter().enumerate().map(asked).collect();
        Batch { snapshot, scope, variants, limit, queries, coded }
    }

    /// The rows of some chunks.
    fn scan(&self, chunks: &[usize]) -> Vec<Running> {
        let mut states: Vec<Running> = self
            .queries
            .iter()
            .flat_map(|asked| &asked.targets)
            .map(|targets| Running::new(self.limit, targets.len()))
            .collect();
        let mut work = Work { products: Vec::new(), scaled: Vec::new(), known: [f32::NAN; CHUNK_ROWS] };
        let mut packed: Vec<Packed> = Vec::new();
        packed.resize_with(TOGETHER.min(chunks.len()), Packed::default);
        for some in chunks.chunks(TOGETHER).take_while(|_| !self.scope.is_over()) {
            some.iter().zip(&mut packed).for_each(|(&chunk, packed)| self.pack(chunk, packed));
            let parts = states.chunks_mut(NEAR * BLOCK * self.variants.len());
            for (part, states) in parts.enumerate() {
                for (&chunk, packed) in some.iter().zip(&packed) {
                    let blocks = states.chunks_mut(BLOCK * self.variants.len());
                    for (block, states) in (part * NEAR..).zip(blocks) {
                        let queries = &self.queries[block * BLOCK..];
                        let queries = &queries[..queries.len().min(BLOCK)];
                        let errors = self.multiply((chunk, packed), block, queries, &mut work);
                        self.visit((chunk, packed), queries, &errors, &mut work, states);
                    }
                }
            }
        }
        for (asked, states) in self.queries.iter().zip(states.chunks_mut(self.variants.len())) {
            let ranked = self.variants.iter().zip(states);
            ranked.for_each(|(variant, state)| state.settle(self.snapshot, asked.vector, variant));
        }
        states
    }

    fn pack(&self, chunk: usize, packed: &mut Packed) {
        let (rows, dim) = (self.snapshot.vectors.chunk(chunk), self.snapshot.vectors.width());
        let dead = |row| !self.scope.contains(row);
        let biases = |variant: &Variant<'_>| variant.chunk_biases(chunk, rows.len() / dim, dead);
        packed.biases = self.variants.iter().map(biases).collect();
        match self.coded {
            Coded::Wide(_) => {}
            Coded::Narrow(_) => packed.panels.fill(rows, dim),
            Coded::Bytes(_) => packed.quads.fill(rows, dim),
        }
    }

    /// The similarity of each query of a block to each row of a chunk, a line a query, and how far each
    /// query's may lie from what [`dot`] says.
    fn multiply(
        &self,
        (chunk, packed): (usize, &Packed),
        block: usize,
        queries: &[Asked<'_>],
        work: &mut Work,
    ) -> Vec<f32> {
        let (dim, longest) = (self.snapshot.vectors.width(), self.snapshot.norm_max);
        let rows = self.snapshot.vectors.chunk(chunk);
        let (len, width) = (rows.len() / dim, self.width(packed, rows.len() / dim));
        work.products.resize(queries.len() * width, 0.0);
        let errors = match &self.coded {
            Coded::Narrow(blocks) => {
                let pairs = &blocks[block];
                Kernels::best().panel_product(pairs, &packed.panels, &mut work.products);
                let lost = packed.panels.residual();
                let error =
                    |(asked, &own): (&Asked<'_>, &f32)| bf16_error(dim, (asked.length, own), (longest, lost));
                queries.iter().zip(pairs.residuals()).map(error).collect()
            }
            Coded::Bytes(blocks) => {
                let coded = &blocks[block];
                Kernels::best().quad_product(coded, &packed.quads, &mut work.products);
                let lost = packed.quads.residual();
                let error =
                    |(asked, &own): (&Asked<'_>, &f32)| int8_error(dim, (asked.length, own), (longest, lost));
                queries.iter().zip(coded.residuals()).map(error).collect()
            }
            Coded::Wide(numbers) => {
                let numbers = &numbers[block * BLOCK * dim..][..queries.len() * dim];
                if queries.len() <= SINGLE_MAX {
                    for (place, row) in rows.chunks_exact(dim).enumerate() {
                        let column = work.products.iter_mut().skip(place).step_by(width);
                        let products = numbers.chunks_exact(dim).map(|query| dot(query, row));
                        column.zip(products).for_each(|(out, product)| *out = product);
                    }
                } else {
                    matrix_product(numbers, rows, dim, &mut work.products);
                }
                queries.iter().map(|asked| product_error(dim, asked.length, longest)).collect()
            }
        };
        if let Some(halves) = &self.snapshot.half_norms {
            for (line, query) in work.products.chunks_exact_mut(width).zip(queries) {
                let points = line[..len].iter_mut().zip(halves.chunk(chunk));
                points.for_each(|(product, &point)| *product -= point + query.half_norm);
            }
        }
        errors
    }

    /// The numbers of a line of products, those that fill up a panel included.
    fn width(&self, packed: &Packed, rows: usize) -> usize {
        match self.coded {
            Coded::Wide(_) => rows,
            Coded::Narrow(_) => packed.panels.rows(),
            Coded::Bytes(_) => packed.quads.rows(),
        }
    }

    fn visit(
        &self,
        (chunk, packed): (usize, &Packed),
        queries: &[Asked<'_>],
        errors: &[f32],
        work: &mut Work,
        states: &mut [Running],
    ) {
        let len = self.snapshot.vectors.chunk(chunk).len() / self.snapshot.vectors.width();
        let width = self.width(packed, len);
        let Work { products, scaled, known, .. } = work;
        let lines = products.chunks_exact(width).zip(errors);
        let states = states.chunks_exact_mut(self.variants.len());
        for ((asked, states), (line, &error)) in queries.iter().zip(states).zip(lines) {
            for (place, (variant, state)) in self.variants.iter().zip(states).enumerate() {
                let mut scores = &line[..len];
                if !variant.is_unscaled() {
                    scaled.clear();
                    scaled.extend_from_slice(scores);
                    variant.scale_line(chunk, scaled);
                    scores = scaled;
                }
                let line =
                    Line { scores, biases: &packed.biases[place], slack: self.slack(asked, variant, error) };
                state.select(&line, first_row(chunk));
                if state.waiting.len() > WAITING * self.limit + WAITING_BESIDE {
                    state.settle(self.snapshot, asked.vector, variant);
                }
                if !state.ranks.is_empty() {
                    let mut known = Known::new(self.snapshot, asked.vector, chunk, known, place == 0);
                    state.rank(&line, &asked.targets[place], |place| known.score(variant, place));
                }
            }
        }
    }

    /// Bounds the difference of a screened score and the exact one: that of the products, and the rounding
    /// of what is added to them, which is relative to the largest number involved.
    fn slack(&self, asked: &Asked<'_>, variant: &Variant<'_>, error: f32) -> f32 {
        let (length, longest) = (asked.length, self.snapshot.norm_max);
        let halves = match self.snapshot.config.metric {
            Metric::Cosine | Metric::Dot => 0.0,
            Metric::Euclidean => (length * length + longest * longest) / 2.0,
        };
        let scale = variant.scale_bound();
        scale * error + 4.0 * f32::EPSILON * (scale * (length * longest + halves) + variant.bias_bound())
    }

    fn answers(&self, found: Vec<Running>) -> Vec<Vec<Answer>> {
        let mut answers =
            found.into_iter().map(|Running { top, ranks, .. }| Answer { best: top.into_sorted(), ranks });
        self.queries.iter().map(|_| answers.by_ref().take(self.variants.len()).collect()).collect()
    }
}

/// What two runs of chunks found.
fn merge(mut left: Vec<Running>, right: Vec<Running>) -> Vec<Running> {
    for (left, right) in left.iter_mut().zip(right) {
        right.top.into_sorted().into_iter().for_each(|candidate| _ = left.top.push(candidate));
        left.ranks.iter_mut().zip(right.ranks).for_each(|(rank, other)| *rank += other - 1);
    }
    left
}

/// The screened scores of a chunk's rows, but for their biases, which are infinite where a row is dead.
struct Line<'a> {
    scores: &'a [f32],
    biases: &'a [f32],
    /// How far a screened score may lie from the exact one.
    slack: f32,
}

impl Line<'_> {
    fn score(&self, place: usize) -> f32 {
        self.scores[place] - self.biases[place]
    }

    fn within(&self, low: f32, high: f32) -> [u64; PLACES / 64] {
        Kernels::best().within(self.scores, self.biases, low, high)
    }
}

impl Running {
    fn new(limit: usize, targets: usize) -> Running {
        let (top, floors) = (TopK::new(limit), TopK::new(limit));
        Running { limit, floor: f32::MIN, top, floors, waiting: Vec::new(), ranks: vec![1; targets] }
    }

    /// Brings the floor up to date.
    fn rise(&mut self) {
        for top in [&self.top, &self.floors] {
            self.floor = top.threshold().map_or(self.floor, |worst| self.floor.max(worst.score));
        }
    }

    /// Takes note of the rows that may be among the best.
    fn select(&mut self, line: &Line<'_>, first: u32) {
        if self.limit == 0 {
            return;
        }
        // A dead row's score is −∞, below any floor.
        let mut floor = self.floor - line.slack;
        for place in places(line.within(floor.max(f32::MIN), f32::INFINITY)) {
            let score = line.score(place);
            if score >= floor {
                let row = first + offset(place);
                self.waiting.push(Candidate::new(score + line.slack, row));
                if self.floors.push(Candidate::new(score - line.slack, row)) {
                    self.rise();
                    floor = self.floor - line.slack;
                }
            }
        }
    }

    /// Scores the rows that wait, the most likely first, as far as they may be among the best.
    fn settle(&mut self, snapshot: &Snapshot, query: &Vector, variant: &Variant<'_>) {
        let floor = self.floor;
        self.waiting.retain(|candidate| candidate.score >= floor);
        self.waiting.sort_unstable_by(|a, b| b.cmp(a));
        for (place, candidate) in self.waiting.iter().enumerate() {
            if self.top.threshold().is_some_and(|worst| candidate.score < worst.score) {
                break;
            }
            if let Some(ahead) = self.waiting.get(place + AHEAD) {
                prefetch(snapshot.vectors.row(ahead.row as usize));
            }
            let similarity = snapshot.similarity(query, candidate.row);
            self.top.push(Candidate::new(variant.score(similarity, candidate.row), candidate.row));
        }
        self.waiting.clear();
        self.rise();
    }

    /// Counts the rows above each target.
    fn rank(&mut self, line: &Line<'_>, targets: &[Candidate], mut exact: impl FnMut(usize) -> Candidate) {
        for (target, rank) in targets.iter().zip(&mut self.ranks) {
            let (above, below) = (target.score + line.slack, target.score - line.slack);
            let better = line.within(above.next_up(), f32::INFINITY);
            *rank += better.iter().map(|bits| bits.count_ones()).sum::<u32>();
            for place in places(line.within(below, above)) {
                *rank += u32::from(exact(place) > *target);
            }
        }
    }
}

/// The places that bits stand for, in their order.
fn places(bits: [u64; PLACES / 64]) -> impl Iterator<Item = usize> {
    bits.into_iter().zip((0..).step_by(64)).flat_map(|(mut bits, first)| {
        std::iter::from_fn(move || {
            let place = first + bits.trailing_zeros() as usize;
            (bits != 0).then(|| {
                bits &= bits - 1;
                place
            })
        })
    })
}

/// The exact similarities of one query to the rows of a chunk, each computed once for all variants.
struct Known<'a> {
    snapshot: &'a Snapshot,
    query: &'a Vector,
    first: u32,
    /// NaN where it is not known yet.
    similarities: &'a mut [f32; CHUNK_ROWS],
}

impl<'a> Known<'a> {
    fn new(
        snapshot: &'a Snapshot,
        query: &'a Vector,
        chunk: usize,
        similarities: &'a mut [f32; CHUNK_ROWS],
        is_new: bool,
    ) -> Known<'a> {
        if is_new {
            similarities.fill(f32::NAN);
        }
        Known { snapshot, query, first: first_row(chunk), similarities }
    }

    fn score(&mut self, variant: &Variant<'_>, place: usize) -> Candidate {
        let row = self.first + offset(place);
        let similarity = &mut self.similarities[place];
        if similarity.is_nan() {
            *similarity = self.snapshot.similarity(self.query, row);
        }
        Candidate::new(variant.score(*similarity, row), row)
    }
}

/// The length of a vector, not less than it is.
#[expect(clippy::cast_possible_truncation, reason = "a bound in 32 bits, rounded up")]
fn length(vector: &[f32]) -> f32 {
    let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (square.sqrt() as f32).next_up()
}

const _: () = assert!(CHUNK_ROWS <= PLACES, "a bit for each row of a chunk");
