//! What a model is trained from.

use std::collections::HashMap;

/// Queries with their answers among points.
#[derive(Debug, Clone)]
pub struct Dataset {
    dim: usize,
    queries: Vec<f32>,
    points: Vec<f32>,
    /// Of each query: rows of its answers.
    answers: Vec<Vec<u32>>,
    /// Of each point: points of one number are the same, and never negatives of each other's queries.
    group: Vec<u32>,
}

/// Why numbers are no dataset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// No whole rows.
    #[error("the {what} are {found} numbers, which is not a multiple of {dim} dimensions")]
    Rows {
        /// Which.
        what: &'static str,
        /// How many numbers.
        found: usize,
        /// The dimension.
        dim: usize,
    },
    /// Not one list of answers a query.
    #[error("there are answers of {found} queries, wanted {wanted}")]
    Answers {
        /// How many lists.
        found: usize,
        /// How many queries.
        wanted: usize,
    },
    /// An answer that is no point.
    #[error("query {query}: the answer {found} is no point, there are {points}")]
    Answer {
        /// Which query, from 0.
        query: usize,
        /// The row.
        found: u32,
        /// How many points.
        points: usize,
    },
    /// Too few queries with an answer to train and to measure with.
    #[error("{found} queries have an answer, wanted at least {least}")]
    TooFew {
        /// How many have.
        found: usize,
        /// How many are needed.
        least: usize,
    },
}

/// The least queries with answers: some to train with, and some to measure with.
const QUERIES_MIN: usize = 20;

impl Dataset {
    /// Of queries and points, one row of `dim` numbers after the other, and the rows of each query's answers. Points
    /// with equal vectors are the same.
    pub fn new(
        dim: usize,
        queries: Vec<f32>,
        points: Vec<f32>,
        answers: Vec<Vec<u32>>,
    ) -> Result<Dataset, DatasetError> {
        for (what, numbers) in [("queries", &queries), ("points", &points)] {
            if dim == 0 || !numbers.len().is_multiple_of(dim) {
                return Err(DatasetError::Rows { what, found: numbers.len(), dim });
            }
        }
        let (wanted, rows) = (queries.len() / dim, points.len() / dim);
        if answers.len() != wanted {
            return Err(DatasetError::Answers { found: answers.len(), wanted });
        }
        for (query, answers) in answers.iter().enumerate() {
            if let Some(&found) = answers.iter().find(|&&row| row as usize >= rows) {
                return Err(DatasetError::Answer { query, found, points: rows });
            }
        }
        let found = answers.iter().filter(|answers| !answers.is_empty()).count();
        if found < QUERIES_MIN {
            return Err(DatasetError::TooFew { found, least: QUERIES_MIN });
        }
        let group = groups(&points, dim);
        Ok(Dataset { dim, queries, points, answers, group })
    }

    /// The dimension of all vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many points there are.
    pub fn points_len(&self) -> usize {
        self.points.len() / self.dim
    }

    /// A query.
    pub fn query(&self, query: usize) -> &[f32] {
        &self.queries[query * self.dim..][..self.dim]
    }

    /// A point.
    pub fn point(&self, row: u32) -> &[f32] {
        &self.points[row as usize * self.dim..][..self.dim]
    }

    /// All points, one after the other.
    pub fn points(&self) -> &[f32] {
        &self.points
    }

    /// The rows of a query's answers.
    pub fn answers(&self, query: usize) -> &[u32] {
        &self.answers[query]
    }

    /// The queries that have an answer.
    pub fn answered(&self) -> Vec<usize> {
        (0..self.answers.len()).filter(|&query| !self.answers[query].is_empty()).collect()
    }

    /// Whether a point is an answer of a query.
    pub fn is_answer(&self, query: usize, row: u32) -> bool {
        self.answers[query].contains(&row)
    }

    /// Whether a point is the same as an answer of a query.
    pub fn is_like_an_answer(&self, query: usize, row: u32) -> bool {
        self.answers[query].iter().any(|&answer| self.group[answer as usize] == self.group[row as usize])
    }
}

/// A number for each point, the same for those of equal vectors.
fn groups(points: &[f32], dim: usize) -> Vec<u32> {
    let mut known: HashMap<&[u8], u32> = HashMap::new();
    let bytes: &[u8] = bytemuck::cast_slice(points);
    let group = |(row, vector)| *known.entry(vector).or_insert(row);
    (0_u32..).zip(bytes.chunks_exact(4 * dim)).map(group).collect()
}
