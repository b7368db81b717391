//! Seeded vectors, the oracle in 64 bits, and graphs over them.

use std::path::Path;

use dehub_graph::{BuildOptions, CodeKind, Points, Ranking, Segment, Width, build};
use dehub_vector::Metric;

pub(crate) const CODES: [CodeKind; 3] = [CodeKind::F32, CodeKind::Bf16, CodeKind::Int8];
pub(crate) const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

/// A generator of the SplitMix64 family (Steele, Lea & Flood, OOPSLA 2014).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In [-1, 1).
    pub(crate) fn centred(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    /// Vectors around a common mean, of length one where the metric asks; else of lengths that differ.
    pub(crate) fn cone(&mut self, count: usize, dim: usize, metric: Metric) -> Vec<Vec<f32>> {
        let mut vector = || {
            let numbers = (0..dim).map(|place| self.centred() + if place < 4 { 0.8 } else { 0.0 });
            let numbers: Vec<f32> = numbers.collect();
            let stretch = 1.5 + self.centred();
            match metric {
                Metric::Cosine => unit(&numbers),
                Metric::Dot | Metric::Euclidean => numbers.iter().map(|x| x * stretch).collect(),
            }
        };
        (0..count).map(|_| vector()).collect()
    }
}

pub(crate) fn unit(numbers: &[f32]) -> Vec<f32> {
    let length = product(numbers, numbers).sqrt();
    numbers.iter().map(|&x| (f64::from(x) / length) as f32).collect()
}

pub(crate) fn product(left: &[f32], right: &[f32]) -> f64 {
    left.iter().zip(right).map(|(&l, &r)| f64::from(l) * f64::from(r)).sum()
}

/// The similarity of the metric, by its formula.
pub(crate) fn similarity(metric: Metric, query: &[f32], vector: &[f32]) -> f64 {
    match metric {
        Metric::Cosine | Metric::Dot => product(query, vector),
        Metric::Euclidean => {
            query.iter().zip(vector).map(|(&q, &v)| (f64::from(q) - f64::from(v)).powi(2)).sum::<f64>() / -2.0
        }
    }
}

/// Rows ranked by similarity less bias, some of them not live.
#[derive(Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) vectors: &'a [Vec<f32>],
    pub(crate) metric: Metric,
    pub(crate) biases: Vec<f32>,
    pub(crate) live: Vec<bool>,
}

impl Ranking for Rows<'_> {
    fn score(&self, row: u32, similarity: f32) -> f32 {
        similarity - self.biases[row as usize]
    }

    fn is_live(&self, row: u32) -> bool {
        self.live[row as usize]
    }
}

impl<'a> Rows<'a> {
    pub(crate) fn new(vectors: &'a [Vec<f32>], metric: Metric) -> Rows<'a> {
        Rows { vectors, metric, biases: vec![0.0; vectors.len()], live: vec![true; vectors.len()] }
    }

    pub(crate) fn exact(&self, query: &[f32], row: u32) -> f64 {
        similarity(self.metric, query, &self.vectors[row as usize]) - f64::from(self.biases[row as usize])
    }

    /// The best live rows by brute force.
    pub(crate) fn best(&self, query: &[f32], k: usize) -> Vec<u32> {
        let rows = (0..self.vectors.len() as u32).filter(|&row| self.live[row as usize]);
        let mut all: Vec<(f64, u32)> = rows.map(|row| (self.exact(query, row), row)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.iter().take(k).map(|&(_, row)| row).collect()
    }

    /// The best `k` a walk finds, scored again.
    pub(crate) fn found(&self, segment: &Segment, query: &[f32], k: usize, effort: usize) -> Vec<u32> {
        let found = segment.walk(query, self, Width { effort, keep: 4 * k });
        found.rescored(k, |row| self.exact(query, row) as f32).iter().map(|best| best.row).collect()
    }

    /// The part of the exact ten best that walks find.
    pub(crate) fn recall(&self, segment: &Segment, queries: &[Vec<f32>], effort: usize) -> f64 {
        let hits = queries.iter().map(|query| {
            let (best, found) = (self.best(query, 10), self.found(segment, query, 10, effort));
            best.iter().filter(|row| found.contains(row)).count() as f64 / best.len() as f64
        });
        hits.sum::<f64>() / queries.len() as f64
    }
}

/// A graph over vectors of which each has a node of its own.
pub(crate) fn graph(vectors: &[Vec<f32>], metric: Metric, options: BuildOptions) -> Segment {
    let groups: Vec<Vec<u32>> = (0..vectors.len() as u32).map(|row| vec![row]).collect();
    grouped(vectors, &groups, metric, options)
}

pub(crate) fn grouped(
    vectors: &[Vec<f32>],
    groups: &[Vec<u32>],
    metric: Metric,
    options: BuildOptions,
) -> Segment {
    let dim = vectors.first().map_or(3, Vec::len);
    let vector = |row: u32| vectors[row as usize].as_slice();
    let points = Points { metric, dim, groups, vector: &vector };
    build(&points, &BuildOptions { covered: vectors.len() as u32, ..options })
}

pub(crate) fn coded(code: CodeKind) -> BuildOptions {
    BuildOptions { code, ..BuildOptions::default() }
}

/// Vectors of the WordNet set, of 128 numbers each.
pub(crate) fn wordnet(name: &str) -> Vec<Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wordnet").join(name);
    let bytes = std::fs::read(path).expect("test data is committed");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    let numbers = bytes[header..].as_chunks::<4>().0.iter().map(|&number| f32::from_le_bytes(number));
    numbers.collect::<Vec<f32>>().chunks_exact(128).map(unit).collect()
}
