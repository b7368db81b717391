//! Where similarities come from.

use dehub_vector::{Chunked, Metric, dot, matrix_product};
use rayon::prelude::*;

use super::SourceError;

/// Rows of one side whose similarities are made while a chunk of the other is at hand.
const GROUP_ROWS: usize = 16;

/// The similarities of some rows, queries or bank entries, to points: larger is better.
pub trait Similarities: Sync {
    /// What it is called in messages: a file, as a rule.
    fn name(&self) -> String;

    /// How many rows.
    fn rows(&self) -> usize;

    /// How many points.
    fn columns(&self) -> usize;

    /// Writes the rows named to `out`, one after the other, each of as many numbers as there are columns.
    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError>;
}

/// The similarities of vectors, made as they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct VectorSimilarities<'a> {
    /// What the rows are called in messages.
    pub name: &'a str,
    /// The vectors of the rows, as [`dehub_vector::Vector`] makes them under the metric.
    pub rows: &'a Chunked,
    /// The vectors of the points, of the same dimension.
    pub points: &'a Chunked,
    /// How they are compared.
    pub metric: Metric,
    /// Whether each pair is scored as a search scores it. A matrix product, the other way, differs in the
    /// last digits and takes a fraction of the time; corrections are fitted from it in a collection too.
    pub is_exact: bool,
}

impl Similarities for VectorSimilarities<'_> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.points.len()
    }

    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError> {
        let groups = rows.par_chunks(GROUP_ROWS).zip(out.par_chunks_mut(GROUP_ROWS * self.points.len()));
        groups.for_each(
            |(rows, out)| if self.is_exact { self.pairs(rows, out) } else { self.product(rows, out) },
        );
        Ok(())
    }
}

impl VectorSimilarities<'_> {
    /// One pair at a time.
    fn pairs(&self, rows: &[u32], out: &mut [f32]) {
        let (dim, columns) = (self.points.width(), self.points.len());
        let mut first = 0;
        for chunk in 0..self.points.chunk_count() {
            let points = self.points.chunk(chunk);
            let halves: Vec<f32> = match self.metric {
                Metric::Cosine | Metric::Dot => Vec::new(),
                Metric::Euclidean => points.chunks_exact(dim).map(half_square).collect(),
            };
            for (&row, line) in rows.iter().zip(out.chunks_exact_mut(columns)) {
                let vector = self.rows.row(row as usize);
                let line = &mut line[first..][..points.len() / dim];
                let products = points.chunks_exact(dim).map(|point| dot(vector, point));
                line.iter_mut().zip(products).for_each(|(similarity, product)| *similarity = product);
                self.make_similar(line, vector, &halves);
            }
            first += points.len() / dim;
        }
    }

    /// Many at once.
    fn product(&self, rows: &[u32], out: &mut [f32]) {
        let (dim, columns) = (self.points.width(), self.points.len());
        let gathered: Vec<f32> = rows.iter().flat_map(|&row| self.rows.row(row as usize)).copied().collect();
        let mut block = Vec::new();
        let mut first = 0;
        for chunk in 0..self.points.chunk_count() {
            let points = self.points.chunk(chunk);
            let width = points.len() / dim;
            block.resize(rows.len() * width, 0.0);
            matrix_product(&gathered, points, dim, &mut block);
            let halves: Vec<f32> = match self.metric {
                Metric::Cosine | Metric::Dot => Vec::new(),
                Metric::Euclidean => points.chunks_exact(dim).map(half_square).collect(),
            };
            for (place, line) in out.chunks_exact_mut(columns).enumerate() {
                let line = &mut line[first..][..width];
                line.copy_from_slice(&block[place * width..][..width]);
                self.make_similar(line, &gathered[place * dim..][..dim], &halves);
            }
            first += width;
        }
    }

    fn make_similar(&self, line: &mut [f32], vector: &[f32], halves: &[f32]) {
        match self.metric {
            Metric::Cosine | Metric::Dot => {}
            Metric::Euclidean => {
                let own = half_square(vector);
                line.iter_mut().zip(halves).for_each(|(product, half)| *product -= half + own);
            }
        }
    }
}

fn half_square(vector: &[f32]) -> f32 {
    dot(vector, vector) / 2.0
}
