//! Vectors past the border: finite, of the right dimension, of length one where the metric asks.

use crate::{MULTI_MAX, Metric, Numbers, dot};

/// The longest vector a collection can hold.
pub const DIM_MAX: usize = 65_535;

/// The number of coordinates of every vector in a collection, 1 to [`DIM_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim(u16);

/// A dimension that no collection can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a vector can have 1 to {DIM_MAX} dimensions, found {found}")]
pub struct DimError {
    /// What was given.
    pub found: usize,
}

impl Dim {
    /// The smallest.
    pub const ONE: Dim = Dim(1);

    /// A dimension in the range 1 to [`DIM_MAX`].
    pub fn new(dim: usize) -> Result<Dim, DimError> {
        match u16::try_from(dim) {
            Ok(small) if small > 0 => Ok(Dim(small)),
            _ => Err(DimError { found: dim }),
        }
    }

    /// The dimension as a count.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// Why numbers cannot be a vector of a collection.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VectorError {
    /// Too few or too many coordinates.
    #[error("the vector has {found} dimensions, wanted {wanted}")]
    Dimension {
        /// The collection's dimension.
        wanted: usize,
        /// The coordinates given.
        found: usize,
    },
    /// NaN, an infinity, or a number too large for 32 bits.
    #[error("coordinate {coordinate} is {found}, wanted a finite 32-bit number")]
    NotFinite {
        /// Its place in the vector, from 0.
        coordinate: usize,
        /// The value as read.
        found: f32,
    },
    /// Cosine similarity has no meaning for a vector of length 0.
    #[error("the vector has length 0, which has no direction: wanted a nonzero vector under cosine")]
    Zero,
    /// The squared length is more than 32 bits can hold, so a score would be infinite.
    #[error("the vector's squared length is more than a 32-bit number can hold")]
    TooLong,
    /// A list of vectors for a point that has one.
    #[error("a list of {found} vectors, wanted one vector: only a multi-vector is a list of vectors")]
    List {
        /// The vectors in it.
        found: usize,
    },
    /// A multi-vector of none or too many.
    #[error("a multi-vector of {found} vectors, wanted 1 to {MULTI_MAX}")]
    Count {
        /// The vectors in it.
        found: usize,
    },
    /// One of the vectors of a multi-vector.
    #[error("vector {place} of the multi-vector: {source}")]
    OfList {
        /// Which, from 0.
        place: usize,
        /// What is wrong with it.
        source: Box<VectorError>,
    },
}

/// A vector that is safe to compare: its dimension was checked, every coordinate is finite, and
/// under [`Metric::Cosine`] it has length one. Or several such, one after the other: a multi-vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Box<[f32]>);

impl Vector {
    /// Checks `numbers` and, under cosine, scales them to length one (in f64, then rounded).
    ///
    /// Under dot and Euclidean the squared length must fit 32 bits, so that no score is infinite.
    pub fn new(numbers: &[f32], dim: Dim, metric: Metric) -> Result<Vector, VectorError> {
        if numbers.len() != dim.get() {
            return Err(VectorError::Dimension { wanted: dim.get(), found: numbers.len() });
        }
        if let Some(coordinate) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(VectorError::NotFinite { coordinate, found: numbers[coordinate] });
        }
        let squared: f64 = numbers.iter().map(|&number| f64::from(number).powi(2)).sum();
        match metric {
            Metric::Cosine if squared == 0.0 => Err(VectorError::Zero),
            Metric::Cosine => Ok(Vector(scaled(numbers, squared.sqrt().recip()))),
            // A quarter of the largest number: the product of two such vectors, doubled, is finite.
            Metric::Dot | Metric::Euclidean if squared > f64::from(f32::MAX) / 4.0 => {
                Err(VectorError::TooLong)
            }
            Metric::Dot | Metric::Euclidean => Ok(Vector(numbers.into())),
        }
    }

    /// Checks numbers that are one vector, and only that.
    pub fn single(numbers: &Numbers, dim: Dim, metric: Metric) -> Result<Vector, VectorError> {
        match numbers.vectors() {
            Some(found) => Err(VectorError::List { found }),
            None => Vector::new(numbers, dim, metric),
        }
    }

    /// Checks each vector of a multi-vector as [`Vector::new`] does. One that is not in a list is a
    /// multi-vector of one.
    pub fn multi(numbers: &Numbers, dim: Dim, metric: Metric) -> Result<Vector, VectorError> {
        let Some(found) = numbers.vectors() else { return Vector::new(numbers, dim, metric) };
        if found == 0 || found > MULTI_MAX {
            return Err(VectorError::Count { found });
        }
        let width = numbers.len() / found;
        let mut whole = Vec::with_capacity(numbers.len());
        for place in 0..found {
            let vector = Vector::new(&numbers[place * width..][..width], dim, metric);
            let wrap = |source| VectorError::OfList { place, source: Box::new(source) };
            whole.extend_from_slice(vector.map_err(wrap)?.as_slice());
        }
        Ok(Vector(whole.into()))
    }

    /// A vector that passed [`Vector::new`] when it was stored, bit for bit.
    pub fn stored(numbers: &[f32]) -> Vector {
        debug_assert!(numbers.iter().all(|number| number.is_finite()), "only valid vectors are stored");
        Vector(numbers.into())
    }

    /// The coordinates.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// `‖v‖²/2`: what the Euclidean metric subtracts from the inner product.
    pub fn half_squared_norm(&self) -> f32 {
        dot(&self.0, &self.0) / 2.0
    }
}

fn scaled(numbers: &[f32], factor: f64) -> Box<[f32]> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the stored precision is the point")]
    numbers.iter().map(|&number| (f64::from(number) * factor) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Dim {
        Dim::new(3).expect("in range")
    }

    #[test]
    fn a_vector_under_cosine_has_length_one() {
        let vector = Vector::new(&[3.0, 0.0, 4.0], three(), Metric::Cosine).expect("valid");
        assert_eq!(vector.as_slice(), &[0.6, 0.0, 0.8]);
        let huge = Vector::new(&[3e38, 0.0, 3e38], three(), Metric::Cosine).expect("scaled in f64");
        assert!((dot(huge.as_slice(), huge.as_slice()) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn bad_numbers_are_named_by_place() {
        let check = |numbers: &[f32], metric| Vector::new(numbers, three(), metric).expect_err("bad");
        assert_eq!(check(&[1.0], Metric::Dot), VectorError::Dimension { wanted: 3, found: 1 });
        assert!(matches!(
            check(&[1.0, f32::NAN, 0.0], Metric::Dot),
            VectorError::NotFinite { coordinate: 1, .. }
        ));
        assert!(matches!(
            check(&[1.0, 0.0, f32::INFINITY], Metric::Cosine),
            VectorError::NotFinite { coordinate: 2, .. }
        ));
        assert_eq!(check(&[0.0, -0.0, 0.0], Metric::Cosine), VectorError::Zero);
        assert_eq!(check(&[2e19, 0.0, 0.0], Metric::Euclidean), VectorError::TooLong);
    }

    #[test]
    fn a_multi_vector_is_checked_vector_by_vector() {
        let check = |lists: &[Vec<f32>]| {
            Vector::multi(&Numbers::multi(lists).expect("even"), three(), Metric::Cosine)
        };
        let good = check(&[vec![3.0, 0.0, 4.0], vec![0.0, 2.0, 0.0]]).expect("valid");
        assert_eq!(good.as_slice(), &[0.6, 0.0, 0.8, 0.0, 1.0, 0.0]);
        assert_eq!(check(&[]), Err(VectorError::Count { found: 0 }));
        assert_eq!(check(&vec![vec![1.0; 3]; 4097]), Err(VectorError::Count { found: 4097 }));
        let of = |place, source| Err(VectorError::OfList { place, source: Box::new(source) });
        assert_eq!(check(&[vec![1.0; 3], vec![0.0; 3]]), of(1, VectorError::Zero));
        // Two vectors of three numbers are no three of two.
        let wrong = VectorError::Dimension { wanted: 3, found: 2 };
        assert_eq!(check(&[vec![1.0; 2], vec![1.0; 2], vec![1.0; 2]]), of(0, wrong));
        assert_eq!(check(&[vec![], vec![]]), of(0, VectorError::Dimension { wanted: 3, found: 0 }));
        let uneven = Numbers::multi(&[vec![1.0; 3], vec![1.0; 2]]).expect_err("uneven");
        assert_eq!((uneven.place, uneven.found, uneven.wanted), (1, 2, 3));
        let one = Vector::multi(&vec![0.0, 5.0, 0.0].into(), three(), Metric::Cosine).expect("one");
        assert_eq!(one.as_slice(), &[0.0, 1.0, 0.0]);
        let list = Numbers::multi(&[[1.0; 3]]).expect("even");
        assert_eq!(Vector::single(&list, three(), Metric::Dot), Err(VectorError::List { found: 1 }));
    }

    #[test]
    fn a_zero_vector_is_allowed_where_it_has_a_meaning() {
        assert!(Vector::new(&[0.0; 3], three(), Metric::Dot).is_ok());
        assert!(Vector::new(&[0.0; 3], three(), Metric::Euclidean).is_ok());
    }
}
