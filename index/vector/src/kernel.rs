//! The inner product, one pair at a time (simsimd) and many at once (gemm).
//!
//! The score of a pair is always what [`dot`] says. A matrix product only finds the pairs worth
//! asking about: it sums in another order, so it may differ by up to [`product_error`].

use gemm::{Parallelism, gemm};
use simsimd::SpatialSimilarity;

/// The inner product of two vectors of one length, in 32-bit arithmetic.
///
/// # Panics
/// If the lengths differ.
#[expect(clippy::cast_possible_truncation, reason = "the kernel sums in f32 and only returns it as f64")]
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len(), "vectors of one collection have one dimension");
    f32::dot(left, right).unwrap_or_default() as f32
}

/// *MaxSim*: of each vector of `query` the largest inner product with a vector of `point`, and of these the mean.
/// Both are of whole vectors of `dim` numbers. Of one vector each it is [`dot`]; without a vector on a side it is 0.
///
/// Late interaction (Khattab and Zaharia 2020, equation 3) takes the sum, which ranks points alike; the mean keeps
/// similarities of queries of any length in one range, so that statistics over a bank can be of all of them.
///
/// # Panics
/// If a length is no multiple of `dim`.
#[expect(clippy::cast_possible_truncation, reason = "similarities are kept in 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "a count of vectors is far below 2^53")]
pub fn max_sim(query: &[f32], point: &[f32], dim: usize) -> f32 {
    assert!(query.len().is_multiple_of(dim) && point.len().is_multiple_of(dim), "whole vectors");
    if query.is_empty() || point.is_empty() {
        return 0.0;
    }
    let best = |vector| {
        let products = point.chunks_exact(dim).map(|other| dot(vector, other));
        f64::from(products.fold(f32::NEG_INFINITY, f32::max))
    };
    let sum: f64 = query.chunks_exact(dim).map(best).sum();
    (sum / (query.len() / dim) as f64) as f32
}

/// `‖left − right‖²` of two vectors of one length, in 32-bit arithmetic.
///
/// # Panics
/// If the lengths differ.
#[expect(clippy::cast_possible_truncation, reason = "the kernel sums in f32 and only returns it as f64")]
pub fn squared_distance(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len(), "vectors of one collection have one dimension");
    f32::sqeuclidean(left, right).unwrap_or_default() as f32
}

/// Writes `left · rightᵀ` to `out`: the inner product of each row of `left` with each of `right`,
/// both of `dim` numbers a row; `out` has a row for each row of `left`.
///
/// # Panics
/// If a length is not what the others ask for.
#[expect(unsafe_code, reason = "the one call into gemm, whose interface is raw pointers")]
pub fn matrix_product(left: &[f32], right: &[f32], dim: usize, out: &mut [f32]) {
    assert!(dim > 0 && left.len().is_multiple_of(dim) && right.len().is_multiple_of(dim), "whole rows");
    let (rows, columns) = (left.len() / dim, right.len() / dim);
    assert_eq!(out.len(), rows * columns, "one number for each pair of rows");
    if out.is_empty() {
        return;
    }
    let stride = |length: usize| isize::try_from(length).expect("no slice is longer than isize::MAX");
    // SAFETY: the asserts above make `left` rows×dim, `right` columns×dim and `out` rows×columns
    // numbers long, and the strides walk each row-major: every address lies inside its slice.
    // `out` is borrowed mutably, so it overlaps neither input.
    unsafe {
        gemm(
            rows,
            columns,
            dim,
            out.as_mut_ptr(),
            1,
            stride(columns),
            false,
            left.as_ptr(),
            1,
            stride(dim),
            right.as_ptr(),
            stride(dim),
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// How far two 32-bit sums of the same `dim` products can lie apart, for vectors of the given
/// lengths: twice the classical bound `dim · 2⁻²⁴ · ‖left‖ · ‖right‖` on each sum's rounding
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, §3.1), with a margin of a quarter, and
/// what products too small for a normal number lose.
#[expect(clippy::cast_precision_loss, reason = "a dimension is below 2^24")]
pub fn product_error(dim: usize, left_norm: f32, right_norm: f32) -> f32 {
    2.5 * (dim as f32 + 2.0) * (f32::EPSILON / 2.0) * left_norm * right_norm + f32::MIN_POSITIVE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(count: usize, dim: usize) -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(-2.0_f32..2.0, count * dim)
    }

    proptest! {
        #[test]
        fn both_kernels_agree_with_f64_within_the_stated_error(
            (dim, left, right) in (1_usize..70).prop_flat_map(|dim| (Just(dim), rows(5, dim), rows(7, dim)))
        ) {
            let mut out = vec![f32::NAN; 35];
            matrix_product(&left, &right, dim, &mut out);
            for (i, l) in left.chunks_exact(dim).enumerate() {
                for (j, r) in right.chunks_exact(dim).enumerate() {
                    let exact: f64 = l.iter().zip(r).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                    let error = f64::from(product_error(dim, dot(l, l).sqrt(), dot(r, r).sqrt()));
                    prop_assert!((f64::from(dot(l, r)) - exact).abs() <= error / 2.0);
                    prop_assert!((f64::from(out[i * 7 + j]) - exact).abs() <= error / 2.0);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn max_sim_is_the_mean_of_the_best_products(
            (dim, query, point) in (1_usize..20, 1_usize..6, 1_usize..6)
                .prop_flat_map(|(dim, m, n)| (Just(dim), rows(m, dim), rows(n, dim)))
        ) {
            let product = |l: &[f32], r: &[f32]| -> f64 {
                l.iter().zip(r).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
            };
            let mut sum = 0.0;
            for vector in query.chunks_exact(dim) {
                sum += point.chunks_exact(dim).map(|other| product(vector, other)).fold(f64::MIN, f64::max);
            }
            let count = u32::try_from(query.len() / dim).expect("few");
            let wanted = sum / f64::from(count);
            prop_assert!((f64::from(max_sim(&query, &point, dim)) - wanted).abs() < 1e-4);
            if query.len() == dim && point.len() == dim {
                prop_assert_eq!(max_sim(&query, &point, dim), dot(&query, &point));
            }
        }
    }

    #[test]
    fn max_sim_without_a_vector_is_0() {
        assert_eq!((max_sim(&[], &[1.0, 2.0], 2), max_sim(&[1.0, 2.0], &[], 2)), (0.0, 0.0));
    }

    #[test]
    fn a_product_with_no_rows_is_empty() {
        matrix_product(&[], &[1.0, 2.0], 2, &mut []);
    }

    #[test]
    #[should_panic(expected = "one dimension")]
    fn vectors_of_different_lengths_are_a_bug() {
        dot(&[1.0], &[1.0, 2.0]);
    }
}
