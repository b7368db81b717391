//! Fewer dimensions that keep most of each inner product: both sides are projected on the directions in
//! which points and queries are long.
//!
//! The directions are the leading eigenvectors of the sum of the second moments of points and of queries,
//! each scaled to trace 1 (LeanVec's eigenvector search: Tepper, Bhati, Aguerrebere, Hildebrand & Willke,
//! *LeanVec: Searching vectors faster by making them fit*, TMLR 2024, §3).

use crate::{dot, matrix_product};

/// Numbers of a projected vector come in runs of this many: bytes fill whole cache lines.
pub const WIDTH_STEP: usize = 64;

/// Rows that are transposed and multiplied together.
const BLOCK: usize = 256;

/// Multiplications by the moments: each separates directions further.
const ROUNDS: usize = 24;

/// Orthonormal directions, the longest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    dim: usize,
    directions: Vec<f32>,
    /// The share of both moments that lies in the first so many directions.
    shares: Vec<f32>,
}

impl Projection {
    /// The directions of rows of `dim` numbers: as few, in steps of [`WIDTH_STEP`], as hold `share` of the
    /// squares of both; `None` where that takes more than `most`. `queries` may be empty.
    ///
    /// # Panics
    /// If `dim` is 0 or a last row is not whole.
    pub fn fit(points: &[f32], queries: &[f32], dim: usize, share: f32, most: usize) -> Option<Projection> {
        let mut moments = vec![0.0; dim * dim];
        for rows in [points, queries] {
            let own = second_moments(rows, dim);
            let trace: f32 = own.iter().step_by(dim + 1).sum();
            if trace > 0.0 {
                moments.iter_mut().zip(&own).for_each(|(sum, own)| *sum += own / trace);
            }
        }
        let total: f32 = moments.iter().step_by(dim + 1).sum();
        let width = most.min(dim) / WIDTH_STEP * WIDTH_STEP;
        if total <= 0.0 || width == 0 {
            return None;
        }
        let mut directions = leading(&moments, dim, width);
        let mut image = vec![0.0; width * dim];
        matrix_product(&directions, &moments, dim, &mut image);
        let lines = directions.chunks_exact(dim).zip(image.chunks_exact(dim));
        let mut held = 0.0;
        let held = lines.map(|(direction, image)| {
            held += dot(direction, image) / total;
            held
        });
        let mut shares: Vec<f32> = held.collect();
        let wanted = (WIDTH_STEP..=width).step_by(WIDTH_STEP).find(|&width| shares[width - 1] >= share)?;
        directions.truncate(wanted * dim);
        shares.truncate(wanted);
        Some(Projection { dim, directions, shares })
    }

    /// The projection on these directions, `dim` numbers each, which are taken to be orthonormal.
    ///
    /// # Panics
    /// If the last one is not whole.
    pub fn from_directions(directions: Vec<f32>, dim: usize) -> Projection {
        assert!(dim > 0 && directions.len().is_multiple_of(dim), "whole directions");
        Projection { dim, directions, shares: Vec::new() }
    }

    /// The dimension of what is projected.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The dimension of what it becomes.
    pub fn width(&self) -> usize {
        self.directions.len() / self.dim
    }

    /// One direction after the other, `dim` numbers each.
    pub fn directions(&self) -> &[f32] {
        &self.directions
    }

    /// The share of the squares of points and queries that is kept; `None` if that was not measured.
    pub fn share(&self) -> Option<f32> {
        self.shares.last().copied()
    }

    /// Projects rows of `dim` numbers to rows of `width`.
    ///
    /// # Panics
    /// If the last row is not whole.
    pub fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; rows.len() / self.dim * self.width()];
        match rows.len() / self.dim {
            1 => {
                let lines = out.iter_mut().zip(self.directions.chunks_exact(self.dim));
                lines.for_each(|(number, direction)| *number = dot(rows, direction));
            }
            _ => matrix_product(rows, &self.directions, self.dim, &mut out),
        }
        out
    }
}

/// `Σ x xᵀ` over rows of `dim` numbers.
fn second_moments(rows: &[f32], dim: usize) -> Vec<f32> {
    let mut sums = vec![0.0; dim * dim];
    let mut product = vec![0.0; dim * dim];
    let mut columns = Vec::new();
    for block in rows.chunks(BLOCK * dim) {
        let count = block.len() / dim;
        columns.clear();
        columns.extend((0..dim).flat_map(|column| block.iter().skip(column).step_by(dim).copied()));
        matrix_product(&columns, &columns, count, &mut product);
        sums.iter_mut().zip(&product).for_each(|(sum, number)| *sum += number);
    }
    sums
}

/// The `width` leading eigenvectors of a symmetric matrix, by orthogonal iteration (Golub & Van Loan,
/// *Matrix Computations*, §8.2.4): good as a subspace long before it is good one by one, which is all that
/// is asked of it.
fn leading(matrix: &[f32], dim: usize, width: usize) -> Vec<f32> {
    // Any start that is not orthogonal to what is sought: numbers without a pattern.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut number = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        let unit = (state >> 40) as f32 / 16_777_216.0;
        unit - 0.5
    };
    let mut vectors: Vec<f32> = (0..width * dim).map(|_| number()).collect();
    orthonormalise(&mut vectors, dim);
    let mut image = vec![0.0; width * dim];
    for _ in 0..ROUNDS {
        matrix_product(&vectors, matrix, dim, &mut image);
        std::mem::swap(&mut vectors, &mut image);
        orthonormalise(&mut vectors, dim);
    }
    vectors
}

/// Gram and Schmidt's process, each vector twice. One that depends on those before it becomes a unit
/// vector that does not.
fn orthonormalise(vectors: &mut [f32], dim: usize) {
    for place in 0..vectors.len() / dim {
        let (before, rest) = vectors.split_at_mut(place * dim);
        let own = &mut rest[..dim];
        let mut axis = 0..dim;
        loop {
            let length = dot(own, own).sqrt();
            if length > 0.0 {
                own.iter_mut().for_each(|number| *number /= length);
            }
            for _ in 0..2 {
                for other in before.chunks_exact(dim) {
                    let product = dot(own, other);
                    own.iter_mut().zip(other).for_each(|(number, other)| *number -= product * other);
                }
            }
            let left = dot(own, own).sqrt();
            if left > 1e-3 {
                own.iter_mut().for_each(|number| *number /= left);
                break;
            }
            let Some(axis) = axis.next() else { break };
            own.fill(0.0);
            own[axis] = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows that are long in the first `long` axes, mixed by a rotation of neighbours.
    fn rows(count: usize, dim: usize, long: usize, numbers: &[f32]) -> Vec<f32> {
        let mut rows: Vec<f32> = (0..count * dim)
            .map(|place| {
                let scale = if place % dim < long { 1.0 } else { 0.05 };
                scale * numbers[place * 7 % numbers.len()]
            })
            .collect();
        for row in rows.chunks_exact_mut(dim) {
            for place in 1..dim {
                let (a, b) = (row[place - 1], row[place]);
                (row[place - 1], row[place]) = (0.6 * a + 0.8 * b, 0.8 * a - 0.6 * b);
            }
        }
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_directions_are_orthonormal_and_hold_the_share_they_say(
            numbers in prop::collection::vec(-1.0_f32..1.0, 997), long in 3_usize..60
        ) {
            let dim = 96;
            let rows = rows(300, dim, long, &numbers);
            let fitted = Projection::fit(&rows, &[], dim, 0.9, dim).expect("all directions hold all");
            prop_assert!(fitted.width() <= long.next_multiple_of(WIDTH_STEP), "{long}: {}", fitted.width());
            for (place, left) in fitted.directions().chunks_exact(dim).enumerate() {
                for (other, right) in fitted.directions().chunks_exact(dim).enumerate() {
                    let wanted = f32::from(u8::from(place == other));
                    prop_assert!((dot(left, right) - wanted).abs() < 1e-4);
                }
            }
            let square = |rows: &[f32]| rows.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            let kept = square(&fitted.apply(&rows)) / square(&rows);
            prop_assert!((kept - f64::from(fitted.share().expect("it was fitted"))).abs() < 1e-3);
            prop_assert!(kept >= 0.899);
            let one = fitted.apply(&rows[..dim]);
            let all = fitted.apply(&rows);
            prop_assert!(one.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }

    #[test]
    fn queries_count_as_much_as_points() {
        let dim = 128;
        let axis = |axis: usize, count: usize| -> Vec<f32> {
            (0..count)
                .flat_map(|row| (0..dim).map(move |x| if x == axis + row % 64 { 1.0 } else { 0.0 }))
                .collect()
        };
        let (points, queries) = (axis(0, 960), axis(64, 64));
        let alone = Projection::fit(&points, &[], dim, 0.99, dim).expect("64 axes hold all points");
        assert_eq!(alone.width(), 64);
        let both = Projection::fit(&points, &queries, dim, 0.99, dim).expect("128 axes hold both");
        assert_eq!(both.width(), 128);
        assert_eq!(Projection::fit(&points, &queries, dim, 0.99, 64), None, "half the axes hold half");
    }

    #[test]
    fn rows_without_a_direction_have_no_projection() {
        assert_eq!(Projection::fit(&[0.0; 640], &[], 64, 0.9, 64), None);
        assert_eq!(Projection::fit(&[], &[], 64, 0.9, 64), None);
        assert_eq!(Projection::fit(&[1.0; 16], &[], 16, 0.9, 16), None, "a step is wider");
    }

    #[test]
    fn equal_rows_have_one_direction_and_the_rest_is_filled_up() {
        let fitted = Projection::fit(&[0.5; 640], &[], 64, 0.99, 64).expect("one direction holds all");
        assert_eq!(fitted.width(), WIDTH_STEP);
        let projected = fitted.apply(&[0.5; 64]);
        assert!((dot(&projected, &projected) - 16.0).abs() < 1e-3);
    }
}
