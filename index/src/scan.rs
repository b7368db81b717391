//! The exact scan: every live point against a batch of queries, several rankings in one pass.
//!
//! A matrix product finds the rows worth asking about and [`dot`] scores them, so a batch answers
//! bit for bit what single queries would.

use dehub_vector::{CHUNK_ROWS, Candidate, Metric, TopK, Vector, dot, matrix_product, product_error};
use rayon::prelude::*;

use crate::{Column, Snapshot};

/// Queries scanned together: 64 lines of scores and one chunk of the gallery stay in cache.
const QUERY_BLOCK: usize = 64;

/// Lanes tested against the threshold at once.
const LANES: usize = 32;

/// A ranking: `score = scale·sim − Σ weight·column`. Without terms and scale it is the raw ranking.
#[derive(Debug, Clone, Default)]
pub struct Variant<'a> {
    terms: Vec<(&'a Column, f32)>,
    /// A column of factors, and how far each is taken from 1: 0 not at all, 1 whole.
    scale: Option<(&'a Column, f32)>,
    /// A column of lists, and the place in each of what is subtracted.
    level: Option<(&'a Column, usize)>,
}

impl<'a> Variant<'a> {
    /// The raw ranking.
    pub fn raw() -> Variant<'a> {
        Variant::default()
    }

    /// A corrected ranking. Terms of weight 0 are left out, so all weights 0 is the raw ranking.
    pub fn new(terms: impl IntoIterator<Item = (&'a Column, f32)>) -> Variant<'a> {
        let terms = terms.into_iter().filter(|&(_, weight)| weight != 0.0).collect();
        Variant { terms, ..Variant::default() }
    }

    /// Ranks by the similarity less the number at `place` of each row's list. It is 0 or more where the
    /// list has at most `place` larger numbers.
    ///
    /// # Panics
    /// If the column's lists are not longer than `place`.
    pub fn level(lists: &'a Column, place: usize) -> Variant<'a> {
        assert!(place < lists.list_len(), "a place within the lists");
        Variant { level: Some((lists, place)), ..Variant::default() }
    }

    /// The same ranking with similarities multiplied by `1 + strength·(factor − 1)` first.
    #[must_use]
    pub fn scaled(self, factors: &'a Column, strength: f32) -> Variant<'a> {
        Variant { scale: (strength != 0.0).then_some((factors, strength)), ..self }
    }

    /// Whether the score is the similarity.
    pub fn is_raw(&self) -> bool {
        self.is_unbiased() && self.scale.is_none()
    }

    fn is_unbiased(&self) -> bool {
        self.terms.is_empty() && self.level.is_none()
    }

    /// What the similarity of a row is multiplied by; 1 for most methods.
    pub fn scale(&self, row: u32) -> f32 {
        self.scale.map_or(1.0, |(factors, strength)| taken_part(factors.value(row), strength))
    }

    /// `Σ weight·column` of a row, and its number at the level.
    pub fn bias(&self, row: u32) -> f32 {
        let level = self.level.map_or(0.0, |(lists, place)| lists.list(row)[place]);
        self.terms.iter().fold(level, |bias, &(column, weight)| bias + weight * column.at(row))
    }

    /// The score of a row whose similarity is known. Similarities are 32-bit sums, and so is this.
    pub fn score(&self, similarity: f32, row: u32) -> f32 {
        let scaled = if self.scale.is_some() { similarity * self.scale(row) } else { similarity };
        if self.is_unbiased() { scaled } else { scaled - self.bias(row) }
    }

    /// A bound on the size of every factor.
    fn scale_bound(&self) -> f32 {
        self.scale.map_or(1.0, |(factors, strength)| 1.0 + strength.abs() * (factors.value_bound() + 1.0))
    }

    /// Multiplies a chunk's similarities, as [`Variant::score`] does.
    fn scale_line(&self, chunk: usize, line: &mut [f32]) {
        if let Some((factors, strength)) = self.scale {
            let parts = factors.chunk(chunk).iter().map(|&part| taken_part(factors.restored(part), strength));
            line.iter_mut().zip(parts).for_each(|(similarity, factor)| *similarity *= factor);
        }
    }

    fn bias_bound(&self) -> f32 {
        let level = self.level.map_or(0.0, |(lists, _)| lists.list_bound());
        self.terms.iter().map(|&(column, weight)| weight.abs() * column.abs_max()).sum::<f32>() + level
    }

    /// The biases of a chunk, summed in the order of [`Variant::bias`]; infinite where `dead`.
    fn chunk_biases(&self, chunk: usize, len: usize, dead: impl Fn(u32) -> bool) -> Vec<f32> {
        let mut biases = vec![0.0; len];
        if let Some((lists, place)) = self.level {
            let levels = (first_row(chunk)..).map(|row| lists.list(row)[place]);
            biases.iter_mut().zip(levels).for_each(|(bias, level)| *bias = level);
        }
        for &(column, weight) in &self.terms {
            let values = column.chunk(chunk).iter().map(|&value| column.guarded(value));
            biases.iter_mut().zip(values).for_each(|(bias, value)| *bias += weight * value);
        }
        for (row, bias) in (first_row(chunk)..).zip(&mut biases) {
            if dead(row) {
                *bias = f32::INFINITY;
            }
        }
        biases
    }
}

/// A factor taken in part.
fn taken_part(factor: f32, strength: f32) -> f32 {
    1.0 + strength * (factor - 1.0)
}

/// What a scan is asked.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The queries.
    pub vectors: &'a [Vector],
    /// How many points each answer lists; it may be 0.
    pub limit: usize,
    /// Rows whose rank is wanted, a list for each query; or empty.
    pub targets: &'a [Vec<u32>],
}

/// What a scan finds for one query and one variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The best points, best first; ties by the lower row.
    pub best: Vec<Candidate>,
    /// The rank of each target among all live points, from 1.
    pub ranks: Vec<u32>,
}

impl Snapshot {
    /// Scores every live point: for each query, one answer for each variant.
    ///
    /// # Panics
    /// If `targets` is neither empty nor as long as `vectors`, or names a row that is not live.
    pub fn scan(&self, question: &Question<'_>, variants: &[Variant<'_>]) -> Vec<Vec<Answer>> {
        let Question { vectors, limit, targets } = *question;
        assert!(targets.is_empty() || targets.len() == vectors.len(), "a list of targets for each query");
        assert!(targets.iter().flatten().all(|&row| self.is_live(row)), "targets are live rows");
        let blocks = vectors.par_chunks(QUERY_BLOCK).enumerate().map(|(block, vectors)| {
            let targets = targets.chunks(QUERY_BLOCK).nth(block).unwrap_or_default();
            Block::new(self, vectors, limit, targets, variants).scan()
        });
        blocks.flatten_iter().collect()
    }
}

/// A block of queries on its way through the gallery.
struct Block<'a> {
    snapshot: &'a Snapshot,
    queries: &'a [Vector],
    variants: &'a [Variant<'a>],
    limit: usize,
    half_norms: Vec<f32>,
    /// For each query and variant, query by query.
    states: Vec<Running>,
}

struct Running {
    top: TopK,
    targets: Vec<(Candidate, u32)>,
    /// How far a matrix product's score may lie from the exact one.
    slack: f32,
}

impl<'a> Block<'a> {
    fn new(
        snapshot: &'a Snapshot,
        queries: &'a [Vector],
        limit: usize,
        targets: &[Vec<u32>],
        variants: &'a [Variant<'a>],
    ) -> Block<'a> {
        let half_norms = queries.iter().map(Vector::half_squared_norm).collect();
        let mut states = Vec::with_capacity(queries.len() * variants.len());
        for (place, query) in queries.iter().enumerate() {
            for variant in variants {
                let rows = targets.get(place).map_or(&[][..], Vec::as_slice);
                let score = |row| Candidate::new(variant.score(snapshot.similarity(query, row), row), row);
                let targets = rows.iter().map(|&row| (score(row), 1)).collect();
                states.push(Running {
                    top: TopK::new(limit),
                    targets,
                    slack: slack(snapshot, query, variant),
                });
            }
        }
        Block { snapshot, queries, variants, limit, half_norms, states }
    }

    fn scan(mut self) -> Vec<Vec<Answer>> {
        let packed: Vec<f32> = self.queries.iter().flat_map(|query| query.as_slice()).copied().collect();
        let mut products = Vec::new();
        for chunk in 0..self.snapshot.vectors.chunk_count() {
            self.fill(chunk, &packed, &mut products);
            self.visit(chunk, &products);
        }
        let variants = self.variants.len();
        let mut answers = self.states.into_iter().map(|state| Answer {
            best: state.top.into_sorted(),
            ranks: state.targets.into_iter().map(|(_, rank)| rank).collect(),
        });
        (0..self.queries.len()).map(|_| answers.by_ref().take(variants).collect()).collect()
    }

    /// The similarity of each query to each row of a chunk, a line a query.
    fn fill(&self, chunk: usize, packed: &[f32], products: &mut Vec<f32>) {
        let dim = self.snapshot.vectors.width();
        let rows = self.snapshot.vectors.chunk(chunk);
        let len = rows.len() / dim;
        products.resize(self.queries.len() * len, 0.0);
        match self.queries {
            [one] => {
                let lines = products.iter_mut().zip(rows.chunks_exact(dim));
                lines.for_each(|(product, row)| *product = dot(one.as_slice(), row));
            }
            _ => matrix_product(packed, rows, dim, products),
        }
        if let Some(halves) = &self.snapshot.half_norms {
            for (line, &query) in products.chunks_exact_mut(len).zip(&self.half_norms) {
                line.iter_mut()
                    .zip(halves.chunk(chunk))
                    .for_each(|(product, &point)| *product -= point + query);
            }
        }
    }

    fn visit(&mut self, chunk: usize, products: &[f32]) {
        let first = first_row(chunk);
        let len = products.len() / self.queries.len();
        let (snapshot, limit, variants) = (self.snapshot, self.limit, self.variants);
        let mut scaled = Vec::new();
        for (place, variant) in variants.iter().enumerate() {
            let biases = variant.chunk_biases(chunk, len, |row| !snapshot.is_live(row));
            let lines = self.queries.iter().zip(products.chunks_exact(len));
            for ((query, mut line), states) in lines.zip(self.states.chunks_exact_mut(variants.len())) {
                if variant.scale.is_some() {
                    scaled.clear();
                    scaled.extend_from_slice(line);
                    variant.scale_line(chunk, &mut scaled);
                    line = &scaled;
                }
                let exact = |row| Candidate::new(variant.score(snapshot.similarity(query, row), row), row);
                if limit > 0 {
                    states[place].select(line, &biases, first, exact);
                }
                states[place].rank(line, &biases, first, exact);
            }
        }
    }
}

impl Running {
    fn select(&mut self, line: &[f32], biases: &[f32], first: u32, exact: impl Fn(u32) -> Candidate) {
        // A dead row's score is −∞, below any floor.
        let floor_of = |top: &TopK, slack| top.threshold().map_or(f32::MIN, |worst| worst.score - slack);
        let mut floor = floor_of(&self.top, self.slack);
        for (group, (line, biases)) in line.chunks(LANES).zip(biases.chunks(LANES)).enumerate() {
            if !line.iter().zip(biases).fold(false, |any, (s, b)| any | (s - b >= floor)) {
                continue;
            }
            for (lane, (similarity, bias)) in line.iter().zip(biases).enumerate() {
                if similarity - bias >= floor && self.top.push(exact(first + offset(group * LANES + lane))) {
                    floor = floor_of(&self.top, self.slack);
                }
            }
        }
    }

    fn rank(&mut self, line: &[f32], biases: &[f32], first: u32, exact: impl Fn(u32) -> Candidate) {
        let at_least = |floor: f32| {
            let scores = line.iter().zip(biases).map(|(similarity, bias)| similarity - bias);
            scores.fold(0_u32, |count, score| count + u32::from(score >= floor))
        };
        for (target, rank) in &mut self.targets {
            let (above, below) = (target.score + self.slack, target.score - self.slack);
            let (better, close) = (at_least(above.next_up()), at_least(below));
            *rank += better;
            if close == better {
                continue;
            }
            for (place, (similarity, bias)) in line.iter().zip(biases).enumerate() {
                let score = similarity - bias;
                let is_close = score >= below && score <= above;
                *rank += u32::from(is_close && exact(first + offset(place)) > *target);
            }
        }
    }
}

/// Bounds the difference of a product's score and the exact one: the two sums' error, and the
/// rounding of what is added to them, which is relative to the largest number involved.
fn slack(snapshot: &Snapshot, query: &Vector, variant: &Variant<'_>) -> f32 {
    let norm = dot(query.as_slice(), query.as_slice()).sqrt();
    let sums = product_error(snapshot.vectors.width(), norm, snapshot.norm_max);
    let halves = match snapshot.config.metric {
        Metric::Cosine | Metric::Dot => 0.0,
        Metric::Euclidean => (norm * norm + snapshot.norm_max * snapshot.norm_max) / 2.0,
    };
    let scale = variant.scale_bound();
    scale * sums + 4.0 * f32::EPSILON * (scale * (norm * snapshot.norm_max + halves) + variant.bias_bound())
}

fn first_row(chunk: usize) -> u32 {
    offset(chunk * CHUNK_ROWS)
}

fn offset(row: usize) -> u32 {
    u32::try_from(row).expect("rows are numbered by u32; the writer refuses more")
}
