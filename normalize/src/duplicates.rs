//! Copies and near-copies among the entries of a bank. A question that is asked a thousand times makes a
//! bank that answers it and little else.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use dehub_vector::{CHUNK_ROWS, Chunked, dot, matrix_product, product_error};
use rayon::prelude::*;

/// When two vectors are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sameness {
    /// When every coordinate is.
    Copies,
    /// When their inner product is at least this; for vectors of length one it is their cosine.
    Within(f32),
}

/// Which vector stands for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Representative {
    /// A row of the bank.
    Bank(usize),
    /// A row of the new ones.
    New(usize),
}

/// A vector and those that are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The earliest of them.
    pub representative: Representative,
    /// The others, as rows of the new ones, in order.
    pub members: Vec<usize>,
}

/// New rows sorted into those to keep and those that are the same as one that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Duplicates {
    /// The rows that are like none before them.
    pub kept: Vec<usize>,
    /// The groups of more than one, by their representatives.
    pub groups: Vec<Group>,
}

impl Duplicates {
    /// How many rows are the same as an earlier one.
    pub fn dropped(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }
}

/// Sorts `new` rows, in order: each joins the earliest row of the bank, or new row kept so far, that it is a
/// copy of; else the most similar one it is the same as, the earlier if several are; else it is kept. Rows of
/// the bank stay as they are.
///
/// Copies are found by a hash, in one pass. Similarities are computed in blocks: a matrix product finds the
/// pairs worth asking about and [`dot`] decides.
///
/// # Panics
/// If the two have different widths.
pub fn group_duplicates(bank: &Chunked, new: &Chunked, sameness: Sameness) -> Duplicates {
    assert_eq!(bank.width(), new.width(), "vectors of one collection have one dimension");
    let mut seen = Seen::new(bank);
    let mut joined: Vec<(Representative, usize)> = Vec::new();
    let mut kept = Vec::new();
    for first in (0..new.len()).step_by(CHUNK_ROWS) {
        let rows = first..new.len().min(first + CHUNK_ROWS);
        let nearest = match sameness {
            Sameness::Copies => vec![None; rows.len()],
            Sameness::Within(least) => seen.nearest(new.chunk(first / CHUNK_ROWS), least),
        };
        let before = seen.vectors.len();
        for (row, nearest) in rows.zip(nearest) {
            let vector = new.row(row);
            let same = seen.copy(vector).or_else(|| match sameness {
                Sameness::Copies => None,
                Sameness::Within(least) => seen.nearest_from(before, vector, least, nearest),
            });
            if let Some(place) = same {
                joined.push((seen.names[place], row));
            } else {
                kept.push(row);
                seen.push(Representative::New(row), vector);
            }
        }
    }
    joined.sort_unstable();
    let groups = joined.chunk_by(|a, b| a.0 == b.0).map(|group| Group {
        representative: group[0].0,
        members: group.iter().map(|&(_, row)| row).collect(),
    });
    Duplicates { kept, groups: groups.collect() }
}

/// Every vector that stands for a group, in order.
struct Seen {
    vectors: Chunked,
    names: Vec<Representative>,
    norm_max: f32,
    /// Hash → the first place of each of its vectors.
    places: HashMap<u64, Vec<usize>>,
}

/// The score and the place of the most similar vector.
type Nearest = Option<(f32, usize)>;

impl Seen {
    fn new(bank: &Chunked) -> Seen {
        let mut seen = Seen {
            vectors: Chunked::new(bank.width()),
            names: Vec::new(),
            norm_max: 0.0,
            places: HashMap::new(),
        };
        (0..bank.len()).for_each(|row| seen.push(Representative::Bank(row), bank.row(row)));
        seen
    }

    fn push(&mut self, name: Representative, vector: &[f32]) {
        self.norm_max = self.norm_max.max(dot(vector, vector).sqrt());
        if self.copy(vector).is_none() {
            self.places.entry(hash(vector)).or_default().push(self.vectors.len());
        }
        self.vectors.push(vector);
        self.names.push(name);
    }

    /// The first place of a copy.
    fn copy(&self, vector: &[f32]) -> Option<usize> {
        let places = self.places.get(&hash(vector))?;
        places.iter().copied().find(|&place| self.vectors.row(place) == vector)
    }

    /// For each row of a block, the most similar vector there is so far, if one is similar enough.
    fn nearest(&self, block: &[f32], least: f32) -> Vec<Nearest> {
        let dim = self.vectors.width();
        let norms: Vec<f32> = block.chunks_exact(dim).map(|row| dot(row, row).sqrt()).collect();
        let of_chunk = |chunk: usize| {
            let right = self.vectors.chunk(chunk);
            let columns = right.len() / dim;
            let mut products = vec![0.0; norms.len() * columns];
            matrix_product(block, right, dim, &mut products);
            let of_row = |(row, line): (usize, &[f32])| {
                let floor = least - product_error(dim, norms[row], self.norm_max);
                let worth = line.iter().enumerate().filter(|&(_, &product)| product >= floor);
                let score = |(column, _): (usize, &f32)| {
                    let vector = &right[column * dim..][..dim];
                    (dot(&block[row * dim..][..dim], vector), chunk * CHUNK_ROWS + column)
                };
                worth.map(score).filter(|&(score, _)| score >= least).fold(None, nearer)
            };
            products.chunks_exact(columns).enumerate().map(of_row).collect::<Vec<Nearest>>()
        };
        let chunks: Vec<Vec<Nearest>> =
            (0..self.vectors.chunk_count()).into_par_iter().map(of_chunk).collect();
        let best = |row: usize| chunks.iter().filter_map(|chunk| chunk[row]).fold(None, nearer);
        (0..norms.len()).map(best).collect()
    }

    /// The place of the nearest of what is known and the vectors from `first` on.
    fn nearest_from(&self, first: usize, vector: &[f32], least: f32, known: Nearest) -> Option<usize> {
        let scores = (first..self.vectors.len()).map(|place| (dot(vector, self.vectors.row(place)), place));
        scores.filter(|&(score, _)| score >= least).fold(known, nearer).map(|(_, place)| place)
    }
}

/// The better of two; the first if they are equal.
fn nearer(best: Nearest, next: (f32, usize)) -> Nearest {
    Some(best.filter(|best| best.0 >= next.0).unwrap_or(next))
}

/// A hash that two equal vectors share: −0 is 0.
fn hash(vector: &[f32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    vector.iter().for_each(|&number| (number + 0.0).to_bits().hash(&mut hasher));
    hasher.finish()
}
