//! What answers are compared with.

use dehub_vector::{Candidate, TopK, matrix_product};
use rayon::prelude::*;

use super::TrainError;
use super::dataset::Dataset;
use crate::Label;

/// What answers are compared with in a step, beside the answers of the step's other queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negatives {
    /// Nothing.
    InBatch,
    /// So many points a query, drawn anew each step.
    Random {
        /// How many.
        each: usize,
    },
    /// So many a query of those that are found first and are no answers, searched anew every few epochs as the queries
    /// move (AR2, Zhang et al. 2022).
    Mined {
        /// How many of each query's list in a step, drawn from it.
        each: usize,
        /// How many are found for each query.
        depth: usize,
        /// Epochs between two searches.
        every: u32,
    },
}

/// Finds points that queries find first. Whoever serves the collection can search by its graph.
pub trait Miner {
    /// The best `depth` points of each of some queries, which are given one after the other as they are now.
    ///
    /// # Errors
    /// A search that fails, in words.
    fn mine(&mut self, queries: &[f32], depth: usize) -> Result<Vec<Vec<u32>>, String>;
}

/// Compares every query with every point.
#[derive(Debug)]
pub struct ExactMiner<'a> {
    dataset: &'a Dataset,
}

impl<'a> ExactMiner<'a> {
    /// Over the points of a dataset.
    pub fn new(dataset: &'a Dataset) -> ExactMiner<'a> {
        ExactMiner { dataset }
    }
}

/// Queries and points that are multiplied together.
const QUERIES: usize = 64;
const POINTS: usize = 2048;

impl Miner for ExactMiner<'_> {
    fn mine(&mut self, queries: &[f32], depth: usize) -> Result<Vec<Vec<u32>>, String> {
        let dim = self.dataset.dim();
        let blocks = queries.par_chunks(QUERIES * dim).flat_map_iter(|queries| {
            let rows = queries.len() / dim;
            let mut best = vec![TopK::new(depth); rows];
            let mut products = Vec::new();
            let mut first = 0_u32;
            for points in self.dataset.points().chunks(POINTS * dim) {
                let across = points.len() / dim;
                products.clear();
                products.resize(rows * across, 0.0);
                matrix_product(queries, points, dim, &mut products);
                for (best, line) in best.iter_mut().zip(products.chunks_exact(across)) {
                    for (row, &score) in (first..).zip(line) {
                        if best.threshold().is_none_or(|worst| score >= worst.score) {
                            best.push(Candidate::new(score, row));
                        }
                    }
                }
                first += u32::try_from(across).unwrap_or(u32::MAX);
            }
            best.into_iter().map(|best| best.into_sorted().into_iter().map(|it| it.row).collect::<Vec<_>>())
        });
        Ok(blocks.collect())
    }
}

/// The candidates of a step, which all its queries share.
pub(crate) struct Drawn {
    pub(crate) rows: Vec<u32>,
    /// Of each query and candidate.
    pub(crate) labels: Vec<Label>,
}

/// Draws candidates: an answer of each query, and more. What is the same as an answer and is not judged one counts
/// nowhere.
pub(crate) fn draw(
    dataset: &Dataset,
    queries: &[usize],
    negatives: Negatives,
    mined: &[Vec<u32>],
    draws: &mut fastrand::Rng,
) -> Result<Drawn, TrainError> {
    let mut rows: Vec<u32> = Vec::new();
    for &query in queries {
        let answers = dataset.answers(query);
        rows.push(answers[draws.usize(0..answers.len())]);
    }
    let points = u32::try_from(dataset.points_len()).unwrap_or(u32::MAX);
    match negatives {
        Negatives::InBatch => {}
        Negatives::Random { each } => rows.extend((0..each * queries.len()).map(|_| draws.u32(0..points))),
        Negatives::Mined { each, .. } => {
            for &query in queries {
                let found = mined.get(query).filter(|found| !found.is_empty());
                let found =
                    found.ok_or_else(|| TrainError::Mining(format!("none are known of query {query}")))?;
                rows.extend((0..each).map(|_| found[draws.usize(0..found.len())]));
            }
        }
    }
    // A point that comes twice would count twice.
    let mut seen = std::collections::HashSet::new();
    rows.retain(|row| seen.insert(*row));
    let label = |&query: &usize| {
        let rows = rows.clone();
        rows.into_iter().map(move |row| match dataset.is_answer(query, row) {
            true => Label::Positive,
            false if dataset.is_like_an_answer(query, row) => Label::Ignored,
            false => Label::Negative,
        })
    };
    let labels = queries.iter().flat_map(label).collect();
    Ok(Drawn { rows, labels })
}
