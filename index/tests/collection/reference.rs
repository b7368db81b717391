//! The formulas in f64, as plainly as they can be written.

use dehub_index::{Answer, Snapshot, Variant};
use dehub_vector::{Candidate, Metric, Vector, product_error};

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

pub(crate) fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|&x| f64::from(x)).collect()
}

pub(crate) fn unit(row: &[f32]) -> Vec<f64> {
    let row = wide(row);
    let norm = dot(&row, &row).sqrt();
    row.iter().map(|x| x / norm).collect()
}

/// The similarity of vectors as they are stored: under cosine both have length one.
pub(crate) fn similarity(metric: Metric, left: &[f32], right: &[f32]) -> f64 {
    let (left, right) = (wide(left), wide(right));
    match metric {
        Metric::Cosine | Metric::Dot => dot(&left, &right),
        Metric::Euclidean => -left.iter().zip(&right).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 2.0,
    }
}

/// How far a score in f32 may lie from that in f64.
pub(crate) fn score_error(metric: Metric, left: &[f32], right: &[f32], bias: f64) -> f64 {
    let (a, b) = (dot(&wide(left), &wide(left)), dot(&wide(right), &wide(right)));
    let error = |a: f64, b: f64| f64::from(product_error(left.len(), a.sqrt() as f32, b.sqrt() as f32));
    let halves = match metric {
        Metric::Cosine | Metric::Dot => 0.0,
        Metric::Euclidean => (error(a, a) + error(b, b)) / 2.0,
    };
    error(a, b) + halves + 4e-7 * ((a * b).sqrt() + a + b + bias.abs())
}

pub(crate) fn log_sum_exp(beta: f64, similarities: &[f64]) -> f64 {
    let max = similarities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + similarities.iter().map(|s| (beta * (s - max)).exp()).sum::<f64>().ln() / beta
}

pub(crate) fn top_mean(k: usize, similarities: &[f64]) -> f64 {
    let mut sorted = similarities.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(k);
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

/// Every live row, best first: a sort of what single pairs score.
pub(crate) fn full_sort(snapshot: &Snapshot, query: &Vector, variant: &Variant<'_>) -> Vec<Candidate> {
    let score = |row| Candidate::new(variant.score(snapshot.similarity(query, row), row), row);
    let mut all: Vec<Candidate> = snapshot.rows().map(score).collect();
    all.sort_by(|a, b| b.cmp(a));
    all
}

/// Rows and the bits of scores, which must not differ at all.
pub(crate) fn bits(candidates: &[Candidate]) -> Vec<(u32, u32)> {
    candidates.iter().map(|candidate| (candidate.row, candidate.score.to_bits())).collect()
}

/// The bits of an answer's best, and its ranks.
type AnswerBits = (Vec<(u32, u32)>, Vec<u32>);

pub(crate) fn answer_bits(answers: &[Vec<Answer>]) -> Vec<Vec<AnswerBits>> {
    let answer = |answer: &Answer| (bits(&answer.best), answer.ranks.clone());
    answers.iter().map(|variants| variants.iter().map(answer).collect()).collect()
}

/// The share of the best `wanted` that were found; one that scores as much as the last counts.
pub(crate) fn recall(found: &[Candidate], wanted: &[Candidate]) -> f64 {
    let Some(worst) = wanted.last() else { return 1.0 };
    let good = found.iter().filter(|candidate| candidate.score >= worst.score).count();
    good.min(wanted.len()) as f64 / wanted.len() as f64
}
