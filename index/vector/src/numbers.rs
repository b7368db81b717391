//! Vectors as they are given, before anything is known of the collection that they are for.

use std::ops::Deref;

/// The most vectors of a multi-vector.
pub const MULTI_MAX: usize = 4096;

/// Coordinates as they are given: of one vector, or of the vectors of a multi-vector, one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Numbers {
    numbers: Vec<f32>,
    /// How many vectors they were given as; `None` for one that was not in a list.
    vectors: Option<usize>,
}

/// Vectors of a multi-vector that are not all of one length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("vector {place} of the multi-vector has {found} dimensions, and the first has {wanted}")]
pub struct UnevenLists {
    /// Which, from 0.
    pub place: usize,
    /// Its length.
    pub found: usize,
    /// That of the first.
    pub wanted: usize,
}

impl Numbers {
    /// The vectors of a multi-vector.
    pub fn multi<V: AsRef<[f32]>>(vectors: &[V]) -> Result<Numbers, UnevenLists> {
        let wanted = vectors.first().map_or(0, |first| first.as_ref().len());
        let lengths = vectors.iter().map(|vector| vector.as_ref().len()).enumerate();
        if let Some((place, found)) = lengths.into_iter().find(|&(_, found)| found != wanted) {
            return Err(UnevenLists { place, found, wanted });
        }
        let numbers = vectors.iter().flat_map(|vector| vector.as_ref()).copied().collect();
        Ok(Numbers { numbers, vectors: Some(vectors.len()) })
    }

    /// Numbers of a multi-vector of `dim` dimensions, one vector after the other.
    pub fn of_rows(numbers: Vec<f32>, dim: usize) -> Numbers {
        let vectors = Some(numbers.len() / dim);
        Numbers { numbers, vectors }
    }

    /// How many vectors they were given as; `None` for one that was not in a list.
    pub fn vectors(&self) -> Option<usize> {
        self.vectors
    }

    /// All numbers, one vector after the other.
    pub fn into_vec(self) -> Vec<f32> {
        self.numbers
    }
}

impl From<Vec<f32>> for Numbers {
    fn from(numbers: Vec<f32>) -> Numbers {
        Numbers { numbers, vectors: None }
    }
}

impl Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers
    }
}
