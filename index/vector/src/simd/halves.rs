//! Rows of bf16, two dimensions at a time.

use half::bf16;
use multiversion::multiversion;

use super::{Kernels, PANEL_ROWS};

/// Two dimensions that follow each other.
pub type Pair = [bf16; 2];

/// Rows of bf16, two dimensions at a time; an odd dimension is filled up with 0.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    pub(super) pairs: usize,
    pub(super) numbers: Vec<Pair>,
    residuals: Vec<f32>,
}

impl Pairs {
    /// Rounds rows of `dim` numbers, nearest even.
    ///
    /// # Panics
    /// If the last row is not whole.
    pub fn new(rows: &[f32], dim: usize) -> Pairs {
        assert!(dim > 0 && rows.len().is_multiple_of(dim), "whole rows");
        let mut pairs = Pairs { pairs: dim.div_ceil(2), numbers: Vec::new(), residuals: Vec::new() };
        let mut rounded = vec![bf16::ZERO; 2 * pairs.pairs];
        for row in rows.chunks_exact(dim) {
            pairs.residuals.push(round_row(row, &mut rounded[..dim]));
            pairs.numbers.extend(rounded.as_chunks::<2>().0);
        }
        pairs
    }

    /// The length of what rounding took from each row.
    pub fn residuals(&self) -> &[f32] {
        &self.residuals
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.numbers.len() / self.pairs.max(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Rows of bf16 in panels of [`PANEL_ROWS`]: a panel has one pair of dimensions of all its rows side by
/// side, then the next. The last panel is filled up with rows of 0.
#[derive(Debug, Clone, Default)]
pub struct Panels {
    pub(super) pairs: usize,
    pub(super) numbers: Vec<[Pair; PANEL_ROWS]>,
    residual: f32,
}

impl Panels {
    /// Replaces the content by rows of `dim` numbers, rounded to nearest even.
    ///
    /// # Panics
    /// If the last row is not whole.
    pub fn fill(&mut self, rows: &[f32], dim: usize) {
        assert!(dim > 0 && rows.len().is_multiple_of(dim), "whole rows");
        self.pairs = dim.div_ceil(2);
        self.numbers.clear();
        self.numbers
            .resize((rows.len() / dim).div_ceil(PANEL_ROWS) * self.pairs, [[bf16::ZERO; 2]; PANEL_ROWS]);
        self.residual = 0.0;
        let Kernels { interleave_pairs, round_row, .. } = *Kernels::best();
        let mut rounded = vec![bf16::ZERO; 2 * self.pairs * PANEL_ROWS];
        let panels = self.numbers.chunks_exact_mut(self.pairs);
        for (panel, rows) in panels.zip(rows.chunks(PANEL_ROWS * dim)) {
            rounded[2 * self.pairs * (rows.len() / dim)..].fill(bf16::ZERO);
            for (row, out) in rows.chunks_exact(dim).zip(rounded.chunks_exact_mut(2 * self.pairs)) {
                self.residual = self.residual.max(round_row(row, &mut out[..dim]));
            }
            interleave_pairs(rounded.as_chunks::<2>().0, panel);
        }
    }

    /// The largest length of what rounding took from a row.
    pub fn residual(&self) -> f32 {
        self.residual
    }

    /// How many rows there are, those that fill up the last panel included.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.pairs.max(1) * PANEL_ROWS
    }
}

/// A number as bf16, to nearest even. No NaN passes the border, and lengths are bounded far below what
/// would round to infinity.
#[inline(always)]
pub(super) fn round(number: f32) -> bf16 {
    let bits = number.to_bits();
    let upper = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    bf16::from_bits(upper)
}

/// Rounds a row, and gives the length of what that took from it, a little more than less.
///
/// # Panics
/// If the lengths differ.
pub fn round_row(row: &[f32], out: &mut [bf16]) -> f32 {
    assert_eq!(row.len(), out.len(), "a code a number");
    (Kernels::best().round_row)(row, out)
}

#[multiversion(targets("x86_64+avx2+fma"))]
pub(super) fn portable_round(row: &[f32], out: &mut [bf16]) -> f32 {
    const LANES: usize = 32;
    let mut squares = [0.0_f32; LANES];
    for (row, out) in row.chunks(LANES).zip(out.chunks_mut(LANES)) {
        for ((&number, out), square) in row.iter().zip(out).zip(&mut squares) {
            *out = round(number);
            let lost = number - f32::from_bits(u32::from(out.to_bits()) << 16);
            *square += lost * lost;
        }
    }
    length_of_lost(squares.iter().sum())
}

/// The length of what rounding took, given the sum of the squares in 32 bits, where each of up to 2¹⁶
/// squares may have lost 2⁻¹⁴⁹.
pub(super) fn length_of_lost(squares: f32) -> f32 {
    const VANISHED: f32 = 1.0e-20;
    squares.sqrt() * 1.0001 + VANISHED
}

/// How far a product of bf16 codes may lie from the 32-bit product of the vectors they code, given each
/// vector's length and the length of what rounding took from it: `|⟨l, r⟩ − ⟨l̂, r̂⟩| ≤ ‖l‖‖r − r̂‖ +
/// ‖l − l̂‖‖r̂‖`, and what [`product_error`](crate::product_error) says of the sums. Codes, products and
/// sums below the normal range may count as 0, each of which takes less than the least normal number.
#[expect(clippy::cast_precision_loss, reason = "a dimension is below 2^24")]
pub fn bf16_error(dim: usize, (left, left_lost): (f32, f32), (right, right_lost): (f32, f32)) -> f32 {
    let (left_coded, right_coded) = (left + left_lost, right + right_lost);
    let rounding = left * right_lost + left_lost * right_coded;
    let dim_f32 = dim as f32;
    let vanished = f32::MIN_POSITIVE * (4.0 * dim_f32 + 1.01 * dim_f32.sqrt() * (left_coded + right_coded));
    rounding * 1.0001 + 2.0 * crate::product_error(dim, left_coded, right_coded) + vanished
}

pub(super) fn portable_bf16(left: &[bf16], right: &[bf16]) -> f32 {
    const LANES: usize = 16;
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    let mut sums = [0.0_f32; LANES];
    for (left, right) in left.iter().zip(right) {
        for ((sum, l), r) in sums.iter_mut().zip(left).zip(right) {
            *sum += l.to_f32_const() * r.to_f32_const();
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(l, r)| l.to_f32_const() * r.to_f32_const());
    sums.iter().copied().chain(rest).sum()
}

pub(super) fn portable_panels(
    queries: &[Pair],
    panels: &[[Pair; PANEL_ROWS]],
    pairs: usize,
    out: &mut [f32],
) {
    let rows = panels.len() / pairs * PANEL_ROWS;
    for (query, line) in queries.chunks_exact(pairs).zip(out.chunks_exact_mut(rows)) {
        for (panel, line) in panels.chunks_exact(pairs).zip(line.as_chunks_mut::<PANEL_ROWS>().0) {
            *line = [0.0; PANEL_ROWS];
            for ([a, b], row_pairs) in query.iter().zip(panel) {
                for (sum, [c, d]) in line.iter_mut().zip(row_pairs) {
                    *sum += a.to_f32_const() * c.to_f32_const() + b.to_f32_const() * d.to_f32_const();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dot;

    fn rows(count: usize, dim: usize) -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(-2.0_f32..2.0, count * dim)
    }

    fn coded(row: &[f32]) -> Vec<bf16> {
        row.iter().map(|&number| bf16::from_f32(number)).collect()
    }

    fn exact(left: &[bf16], right: &[bf16]) -> f64 {
        left.iter().zip(right).map(|(l, r)| l.to_f64() * r.to_f64()).sum()
    }

    proptest! {
        #[test]
        fn every_kernel_of_bf16_is_the_sum_of_the_products(
            (dim, left, right) in (1_usize..300).prop_flat_map(|dim| (Just(dim), rows(7, dim), rows(37, dim)))
        ) {
            let (queries, mut panels) = (Pairs::new(&left, dim), Panels::default());
            panels.fill(&right, dim);
            let error = |l: &[f32], r: &[f32]| {
                f64::from(crate::product_error(dim, 1.01 * dot(l, l).sqrt(), 1.01 * dot(r, r).sqrt()))
            };
            for kernels in Kernels::all() {
                let mut out = vec![f32::NAN; 7 * panels.rows()];
                kernels.panel_product(&queries, &panels, &mut out);
                for (l, line) in left.chunks_exact(dim).zip(out.chunks_exact(panels.rows())) {
                    for (r, &found) in right.chunks_exact(dim).zip(line) {
                        let wanted = exact(&coded(l), &coded(r));
                        let alone = kernels.dot_bf16(&coded(l), &coded(r));
                        prop_assert!((f64::from(alone) - wanted).abs() <= error(l, r), "{}", kernels.name);
                        prop_assert!((f64::from(found) - wanted).abs() <= error(l, r), "{}", kernels.name);
                        let left = (dot(l, l).sqrt(), round_row(l, &mut coded(l)));
                        let bound = bf16_error(dim, left, (dot(r, r).sqrt(), panels.residual()));
                        prop_assert!((found - dot(l, r)).abs() <= bound, "{}", kernels.name);
                    }
                    prop_assert!(line[37..].iter().all(|&filled_up| filled_up == 0.0));
                }
            }
        }
    }

    #[test]
    fn every_kernel_puts_the_same_pairs_side_by_side() {
        for pairs in [1, 15, 16, 17, 48, 50] {
            #[expect(clippy::cast_possible_truncation, reason = "up to 1600 numbers")]
            let numbers = (0..2 * pairs * PANEL_ROWS).map(|bits| bf16::from_bits(bits as u16));
            let rows = numbers.collect::<Vec<_>>();
            let rows = rows.as_chunks::<2>().0;
            for kernels in Kernels::all() {
                let mut panel = vec![[[bf16::ZERO; 2]; PANEL_ROWS]; pairs];
                (kernels.interleave_pairs)(rows, &mut panel);
                for (place, together) in panel.iter().enumerate() {
                    let wanted = std::array::from_fn(|row| rows[row * pairs + place].map(bf16::to_bits));
                    assert_eq!(together.map(|two| two.map(bf16::to_bits)), wanted, "{}", kernels.name);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_kernel_rounds_to_the_same_codes_and_says_what_that_took(
            row in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL, 0..100)
                .prop_map(|row| row.into_iter().map(|x| x.clamp(-1e19, 1e19)).collect::<Vec<_>>())
        ) {
            let wanted = coded(&row);
            let lost = row.iter().zip(&wanted).map(|(&x, code)| (f64::from(x) - code.to_f64()).powi(2));
            let lost = lost.sum::<f64>().sqrt();
            for kernels in Kernels::all() {
                let mut out = vec![bf16::ZERO; row.len()];
                let found = f64::from((kernels.round_row)(&row, &mut out));
                prop_assert!(out.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()));
                prop_assert!(found >= lost && found <= 1.0003 * lost + 1e-18, "{}: {found} {lost}", kernels.name);
            }
        }
    }

    /// Numbers whose products, and codes that themselves, are below the normal range.
    #[test]
    fn what_vanishes_stays_within_the_stated_error() {
        for (dim, left, right) in [(1000, 3.0e-20, 3.0e-20), (384, 1.0e-38, 1.0e17), (65_535, 9.0e-39, 1.0)] {
            let (left, right) = (vec![left; dim], vec![right; dim]);
            let norm = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            #[expect(clippy::cast_possible_truncation, reason = "a bound in 32 bits, rounded up")]
            let lengths = |row: &[f32]| ((norm(row) as f32).next_up(), round_row(row, &mut coded(row)));
            let bound = bf16_error(dim, lengths(&left), lengths(&right));
            let (queries, mut panels) = (Pairs::new(&left, dim), Panels::default());
            panels.fill(&right, dim);
            for kernels in Kernels::all() {
                let mut out = vec![f32::NAN; panels.rows()];
                kernels.panel_product(&queries, &panels, &mut out);
                for found in [out[0], kernels.dot_bf16(&coded(&left), &coded(&right))] {
                    assert!((found - dot(&left, &right)).abs() <= bound, "{}: {found}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        for number in [0.0, -0.0, 1.0, -1.003_906_2, 1.011_718_8, 3.5e-15, 1.0e19, -0.126_360_73] {
            let mut rounded = [bf16::ZERO];
            let lost = round_row(&[number], &mut rounded);
            assert_eq!(rounded[0].to_bits(), bf16::from_f32(number).to_bits(), "{number}");
            assert!(lost >= (number - rounded[0].to_f32()).abs());
        }
    }
}
