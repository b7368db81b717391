//! What the tests share: the formulas in f64, straight from the papers, and numbers from a seed.

use dehub_normalize::{Bank, Method, Points, State, Statistic, fit_states};
use dehub_vector::{Candidate, Chunked, Metric, TopK, product_error};
use proptest::test_runner::{Config, RngSeed};

/// The same cases in every run.
pub(crate) fn cases(cases: u32, seed: u64) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() }
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() % end as u64).expect("below a usize")
    }

    /// A number from −1 to 1.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `0..len` in some order.
    pub(crate) fn order(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        (1..len).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

/// A matrix as rows of plain numbers.
pub(crate) type Matrix = Vec<Vec<f32>>;

pub(crate) fn chunked(width: usize, rows: &[Vec<f32>]) -> Chunked {
    let mut chunked = Chunked::new(width);
    rows.iter().for_each(|row| chunked.push(row));
    chunked
}

/// Each row at length one.
pub(crate) fn unit(rows: &Matrix) -> Matrix {
    let scaled = |row: &Vec<f32>| {
        let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        row.iter().map(|&x| (f64::from(x) / norm) as f32).collect()
    };
    rows.iter().map(scaled).collect()
}

pub(crate) fn similarity(metric: Metric, left: &[f32], right: &[f32]) -> f64 {
    let pairs = || left.iter().zip(right).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    match metric {
        Metric::Cosine | Metric::Dot => pairs().map(|(a, b)| a * b).sum(),
        Metric::Euclidean => -pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 2.0,
    }
}

/// How far a similarity in f32 may lie from that in f64.
pub(crate) fn similarity_error(metric: Metric, left: &[f32], right: &[f32]) -> f64 {
    let squared = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let (a, b) = (squared(left), squared(right));
    let error = |a: f64, b: f64| f64::from(product_error(left.len(), a.sqrt() as f32, b.sqrt() as f32));
    match metric {
        Metric::Cosine | Metric::Dot => error(a, b),
        Metric::Euclidean => error(a, b) + (error(a, a) + error(b, b)) / 2.0 + 4e-7 * (a + b),
    }
}

/// `ln Σ e^{beta·s} / beta`.
pub(crate) fn log_sum_exp(beta: f64, similarities: &[f64]) -> f64 {
    let max = similarities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + similarities.iter().map(|s| (beta * (s - max)).exp()).sum::<f64>().ln() / beta
}

/// How far a sum of exponentials may be off, as a part of itself: they are taken in 32 bits.
pub(crate) const EXP_ERROR: f64 = 3e-7;

/// The mean of the `k` largest, or of all when there are fewer.
pub(crate) fn top_mean(k: usize, similarities: &[f64]) -> f64 {
    let mut sorted = similarities.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(k);
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

pub(crate) fn statistic(statistic: Statistic, similarities: &[f64]) -> f64 {
    match (statistic, similarities) {
        (_, []) => 0.0,
        (Statistic::LogSumExp { beta }, some) => log_sum_exp(beta, some),
        (Statistic::TopMean { k }, some) => top_mean(k, some),
        (other, _) => panic!("{other} has its oracle in family.rs"),
    }
}

/// A statistic that does not look at the bank's vectors.
pub(crate) fn value(statistic: Statistic, state: &State) -> f64 {
    statistic.value(state, &Chunked::new(1))
}

pub(crate) fn method(label: &str) -> Method {
    label.parse().expect("a method")
}

/// The best rows of a table row, best first, ties by the lower row.
pub(crate) fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order
}

/// The head of a full sort of 32-bit scores that are exact.
pub(crate) fn best(k: usize, scores: impl IntoIterator<Item = (u32, f64)>) -> Vec<Candidate> {
    let mut top = TopK::new(k);
    scores.into_iter().for_each(|(row, score)| _ = top.push(Candidate::new(score as f32, row)));
    top.into_sorted()
}

/// Everything lives and nothing is its own entry.
pub(crate) fn plain(vectors: &Chunked) -> Points<'_> {
    Points { vectors, live: &|_| true, own_entry: &|_| None }
}

/// The state of each row over a whole bank, for one statistic.
pub(crate) fn fit_one(points: &Points<'_>, bank: Bank<'_>, statistic: Statistic) -> Vec<State> {
    fit_states(points, 0, bank, 0, &[statistic]).remove(0)
}

/// A bank of unit vectors and points with the columns of `matrix` (bank × points) as coordinates:
/// under dot their similarities are the matrix, exactly.
pub(crate) fn with_similarities(matrix: &[Vec<f32>]) -> (Chunked, Chunked) {
    let entries = matrix.len();
    let unit = |entry: usize| (0..entries).map(|at| f32::from(u8::from(at == entry))).collect();
    let bank: Matrix = (0..entries).map(unit).collect();
    let points: Matrix =
        (0..matrix[0].len()).map(|point| matrix.iter().map(|line| line[point]).collect()).collect();
    (chunked(entries, &bank), chunked(entries, &points))
}
