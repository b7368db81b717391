//! Rows of bytes, four dimensions at a time.
//!
//! A row `x` is kept as `round(127 x / max |x|)`, a whole number of 8 bits for each of its numbers, and the
//! scale `max |x| / 127`. So sums of products are exact, and what is lost is what coding took from a row,
//! which is measured as the row is coded.

use multiversion::multiversion;

use super::{Kernels, PANEL_ROWS};

/// The largest code.
const CODE_MAX: f32 = 127.0;

/// A code of 0 on the side of the panels, whose bytes have no sign.
pub(super) const ZERO: u8 = 128;

/// Four dimensions that follow each other, as a query has them.
pub(super) type Quad = [i8; 4];

/// Four dimensions of each row of a panel.
pub(super) type QuadRows = [[u8; 4]; PANEL_ROWS];

/// Panels that lie side by side, and queries that do: with their 24 sums, the panels and one query they
/// fill the registers.
pub(super) const PANELS: usize = 4;
pub(super) const GROUP: usize = 6;

/// Four dimensions of each row of a block.
pub(super) type QuadBlock = [QuadRows; PANELS];

const BLOCK_ROWS: usize = PANELS * PANEL_ROWS;

/// What coding made of a row beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coded {
    /// What a step of a byte stands for; 0 for a row that is kept as zeros.
    pub scale: f32,
    /// The length of what coding took from the row, a little more than less.
    pub residual: f32,
}

/// Codes a row in bytes without a sign: code 0 is 128, and each code is from −127 to 127. A row whose
/// numbers are all below 10⁻³⁵ is kept as zeros.
///
/// # Panics
/// If the lengths differ.
pub fn code_row(row: &[f32], out: &mut [u8]) -> Coded {
    assert_eq!(row.len(), out.len(), "a code a number");
    (Kernels::best().code_row)(row, out)
}

/// Queries in signed bytes, four dimensions at a time; what is missing to four is 0. Groups of queries have
/// four dimensions of each side by side, then the next; the last group may be a smaller one.
#[derive(Debug, Clone, Default)]
pub struct Quads {
    pub(super) quads: usize,
    pub(super) numbers: Vec<Quad>,
    pub(super) scales: Vec<f32>,
    /// `−128 Σ` of each query's codes: panels have 128 more in each byte.
    pub(super) starts: Vec<i32>,
    residuals: Vec<f32>,
}

impl Quads {
    /// Codes rows of `dim` numbers.
    ///
    /// # Panics
    /// If the last row is not whole.
    pub fn new(rows: &[f32], dim: usize) -> Quads {
        assert!(dim > 0 && rows.len().is_multiple_of(dim), "whole rows");
        let mut queries = Quads { quads: dim.div_ceil(4), ..Quads::default() };
        let mut coded = vec![ZERO; GROUP * 4 * queries.quads];
        for group in rows.chunks(GROUP * dim) {
            let lines = group.chunks_exact(dim).zip(coded.chunks_exact_mut(4 * queries.quads));
            for (row, line) in lines {
                let Coded { scale, residual } = code_row(row, &mut line[..dim]);
                let sum: i32 = line.iter().map(|&code| i32::from(signed(code))).sum();
                queries.starts.push(-i32::from(ZERO) * sum);
                queries.scales.push(scale);
                queries.residuals.push(residual);
            }
            let size = group.len() / dim;
            let fours = &coded.as_chunks::<4>().0[..size * queries.quads];
            for place in 0..queries.quads {
                let together = fours.iter().skip(place).step_by(queries.quads);
                queries.numbers.extend(together.map(|four| four.map(signed)));
            }
        }
        queries
    }

    /// The groups of queries: the first of each, their number, and their codes.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, usize, &[Quad])> {
        let groups = self.numbers.chunks(GROUP * self.quads.max(1)).zip((0..).step_by(GROUP));
        groups.map(|(numbers, first)| (first, numbers.len() / self.quads, numbers))
    }

    /// The length of what coding took from each query.
    pub fn residuals(&self) -> &[f32] {
        &self.residuals
    }

    /// How many queries there are.
    pub fn len(&self) -> usize {
        self.scales.len()
    }

    /// Whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.scales.is_empty()
    }
}

fn signed(code: u8) -> i8 {
    (code ^ ZERO).cast_signed()
}

/// Rows in bytes without a sign, in panels of [`PANEL_ROWS`] and blocks of 4 panels: a block has four
/// dimensions of all its rows side by side, then the next. The last is filled up with rows of scale 0.
#[derive(Debug, Clone, Default)]
pub struct QuadPanels {
    pub(super) quads: usize,
    pub(super) numbers: Vec<QuadBlock>,
    pub(super) scales: Vec<f32>,
    residual: f32,
}

impl QuadPanels {
    /// Replaces the content by rows of `dim` numbers, coded.
    ///
    /// # Panics
    /// If the last row is not whole.
    pub fn fill(&mut self, rows: &[f32], dim: usize) {
        assert!(dim > 0 && rows.len().is_multiple_of(dim), "whole rows");
        self.start(rows.len() / dim, dim);
        let code_row = Kernels::best().code_row;
        let width = 4 * self.quads;
        let mut coded = vec![ZERO; width * PANEL_ROWS];
        for (place, rows) in rows.chunks(PANEL_ROWS * dim).enumerate() {
            coded[width * (rows.len() / dim)..].fill(ZERO);
            let scales = &mut self.scales[place * PANEL_ROWS..];
            for ((row, out), scale) in rows.chunks_exact(dim).zip(coded.chunks_exact_mut(width)).zip(scales) {
                let coded = code_row(row, &mut out[..dim]);
                *scale = coded.scale;
                self.residual = self.residual.max(coded.residual);
            }
            self.set_panel(place, coded.as_chunks().0);
        }
    }

    /// Replaces the content by rows that are codes already, of `width` bytes as [`code_row`] writes them, and
    /// their scales. What coding took from them is not known here.
    ///
    /// # Panics
    /// If `width` is no multiple of 4, or there are not as many rows as scales.
    pub fn fill_coded(&mut self, codes: &[u8], width: usize, scales: &[f32]) {
        assert!(width > 0 && width.is_multiple_of(4), "whole fours");
        assert_eq!(codes.len(), scales.len() * width, "a scale a row");
        self.start(scales.len(), width);
        self.scales[..scales.len()].copy_from_slice(scales);
        for (place, codes) in codes.chunks(PANEL_ROWS * width).enumerate() {
            if codes.len() == PANEL_ROWS * width {
                self.set_panel(place, codes.as_chunks().0);
            } else {
                let mut filled_up = codes.to_vec();
                filled_up.resize(PANEL_ROWS * width, ZERO);
                self.set_panel(place, filled_up.as_chunks().0);
            }
        }
    }

    fn set_panel(&mut self, place: usize, rows: &[[u8; 4]]) {
        let block = &mut self.numbers[place / PANELS * self.quads..][..self.quads];
        (Kernels::best().interleave_quads)(rows, block, place % PANELS);
    }

    /// Room for rows, all of scale 0.
    fn start(&mut self, rows: usize, dim: usize) {
        let blocks = rows.div_ceil(BLOCK_ROWS);
        self.quads = dim.div_ceil(4);
        self.numbers.clear();
        self.numbers.resize(blocks * self.quads, [[[ZERO; 4]; PANEL_ROWS]; PANELS]);
        self.scales.clear();
        self.scales.resize(blocks * BLOCK_ROWS, 0.0);
        self.residual = 0.0;
    }

    /// The blocks and the scales of their rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&[QuadBlock], &[f32; BLOCK_ROWS])> {
        self.numbers.chunks_exact(self.quads.max(1)).zip(self.scales.as_chunks().0)
    }

    /// The largest length of what coding took from a row.
    pub fn residual(&self) -> f32 {
        self.residual
    }

    /// How many rows there are, those that fill up the last panel included.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }
}

/// How far a product of codes may lie from the 32-bit product of the vectors they code, given each vector's
/// length and the length of what coding took from it: `|⟨l, r⟩ − ⟨l̂, r̂⟩| ≤ ‖l‖‖r − r̂‖ + ‖l − l̂‖‖r̂‖`, and
/// what [`product_error`](crate::product_error) says of the other sum. That of the codes is exact; it is
/// rounded once to 32 bits and once by each scale, which is less than the sum of the vectors is given.
pub fn int8_error(dim: usize, (left, left_lost): (f32, f32), (right, right_lost): (f32, f32)) -> f32 {
    let (left_coded, right_coded) = (left + left_lost, right + right_lost);
    let coding = left * right_lost + left_lost * right_coded;
    coding * 1.0001 + 2.0 * crate::product_error(dim, left_coded, right_coded)
}

/// The scale of a row by its longest number, and what numbers are multiplied by to be codes; both 0 where
/// that is too small to be divided by.
#[inline(always)]
pub(super) fn scales(longest: f32) -> (f32, f32) {
    const LEAST: f32 = 2.0 * CODE_MAX * f32::MIN_POSITIVE;
    if longest < LEAST { (0.0, 0.0) } else { (longest / CODE_MAX, CODE_MAX / longest) }
}

/// A code and what it takes from a number.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a number of size 127 at most, but for its rounding")]
pub(super) fn code(number: f32, (scale, inverse): (f32, f32)) -> (u8, f32) {
    let whole = (number * inverse).round_ties_even();
    let lost = number - whole * scale;
    ((whole as i8).cast_unsigned() ^ ZERO, lost)
}

#[multiversion(targets("x86_64+avx2+fma"))]
pub(super) fn portable_code(row: &[f32], out: &mut [u8]) -> Coded {
    const LANES: usize = 32;
    let mut longest = [0.0_f32; LANES];
    for row in row.chunks(LANES) {
        row.iter().zip(&mut longest).for_each(|(number, longest)| *longest = longest.max(number.abs()));
    }
    let scales = scales(longest.into_iter().fold(0.0, f32::max));
    let mut squares = [0.0_f32; LANES];
    for (row, out) in row.chunks(LANES).zip(out.chunks_mut(LANES)) {
        for ((&number, out), square) in row.iter().zip(out).zip(&mut squares) {
            let (byte, lost) = code(number, scales);
            *out = byte;
            *square += lost * lost;
        }
    }
    coded(row.len(), scales.0, squares.iter().sum())
}

/// What coding took, given the sum of the squares in 32 bits. Each loss has the rounding of a code times
/// the scale, and each of up to 2¹⁶ squares may have lost 2⁻¹⁴⁹.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "a dimension is below 2^24")]
pub(super) fn coded(dim: usize, scale: f32, squares: f32) -> Coded {
    const VANISHED: f32 = 1.0e-20;
    let rounding = scale * CODE_MAX * f32::EPSILON * (dim as f32).sqrt();
    Coded { scale, residual: squares.sqrt() * 1.0003 + rounding + VANISHED }
}

pub(super) fn portable_i8(left: &[i8], right: &[u8]) -> i32 {
    left.iter().zip(right).map(|(&l, &r)| i32::from(l) * i32::from(r)).sum()
}

pub(super) fn portable_quads(queries: &Quads, panels: &QuadPanels, out: &mut [f32]) {
    for (first, size, group) in queries.groups() {
        for (q, line) in out.chunks_exact_mut(panels.rows()).skip(first).take(size).enumerate() {
            let (start, scale) = (queries.starts[first + q], queries.scales[first + q]);
            let blocks = line.as_chunks_mut::<BLOCK_ROWS>().0.iter_mut().zip(panels.blocks());
            for (line, (block, scales)) in blocks {
                let mut sums = [start; BLOCK_ROWS];
                for (four, rows) in group.iter().skip(q).step_by(size).zip(block) {
                    let products = rows.iter().flatten().map(|row| portable_i8(four, row));
                    sums.iter_mut().zip(products).for_each(|(sum, product)| *sum = sum.wrapping_add(product));
                }
                for ((out, sum), row_scale) in line.iter_mut().zip(sums).zip(scales) {
                    *out = scaled(sum, scale, *row_scale);
                }
            }
        }
    }
}

/// An exact sum of codes as a product of vectors.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "the error of the rounding is stated")]
fn scaled(sum: i32, query: f32, row: f32) -> f32 {
    sum as f32 * query * row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dot;

    /// Rows as they come, and such as are hard to code: one number above all others, numbers between two
    /// codes, very small and very large ones, zeros.
    fn rows(count: usize, dim: usize) -> impl Strategy<Value = Vec<f32>> {
        let row = (prop::collection::vec(-1.0_f32..1.0, dim), 0_u8..8, 0..dim).prop_map(
            |(mut row, kind, place)| {
                match kind {
                    0 => row[place] = 300.0,
                    1 => row.iter_mut().for_each(|x| *x = ((*x * 100.0).round() + 0.5) / 127.0),
                    2 => row.iter_mut().for_each(|x| *x *= 1e-36),
                    3 => row.iter_mut().for_each(|x| *x *= 1e15),
                    4 => row.fill(0.0),
                    5 => row.iter_mut().for_each(|x| *x = 1e-41 * x.signum()),
                    _ => {}
                }
                row
            },
        );
        prop::collection::vec(row, count).prop_map(|rows| rows.concat())
    }

    fn wide_length(row: impl Iterator<Item = f64>) -> f64 {
        row.map(|x| x * x).sum::<f64>().sqrt()
    }

    /// Not less than it is.
    #[expect(clippy::cast_possible_truncation, reason = "a bound in 32 bits, rounded up")]
    fn length(row: &[f32]) -> f32 {
        (wide_length(row.iter().map(|&x| f64::from(x))) as f32).next_up()
    }

    proptest! {
        #[test]
        fn every_kernel_codes_the_same_and_says_what_that_took(
            row in (1_usize..200).prop_flat_map(|dim| rows(1, dim))
        ) {
            let mut wanted = vec![0; row.len()];
            let Coded { scale, .. } = portable_code(&row, &mut wanted);
            let lost = row.iter().zip(&wanted).map(|(&x, &code)| {
                f64::from(x) - f64::from(signed(code)) * f64::from(scale)
            });
            let lost = wide_length(lost);
            let longest = row.iter().fold(0.0_f32, |longest, x| longest.max(x.abs()));
            prop_assert!(wanted.iter().all(|&code| code > 0), "codes are from -127 to 127");
            prop_assert!(lost <= 1.001 * f64::from(longest) * (row.len() as f64).sqrt());
            if longest > 1e-35 {
                let largest = wanted.iter().any(|&code| signed(code).abs() == 127);
                prop_assert!(largest, "the longest number has the largest code");
            }
            for kernels in Kernels::all() {
                let mut out = vec![0; row.len()];
                let found = (kernels.code_row)(&row, &mut out);
                prop_assert_eq!(&out, &wanted, "{}", kernels.name);
                prop_assert_eq!(found.scale.to_bits(), scale.to_bits(), "{}", kernels.name);
                let most = 1.001 * lost + f64::from(scale) * 1e-3 + 1e-19;
                prop_assert!((lost..=most).contains(&f64::from(found.residual)), "{}: {lost} {found:?}", kernels.name);
            }
        }

        #[test]
        fn every_product_of_codes_is_the_same_and_within_the_stated_error(
            (dim, left, right) in (1_usize..150, 1_usize..15, 1_usize..80)
                .prop_flat_map(|(dim, queries, count)| (Just(dim), rows(queries, dim), rows(count, dim)))
        ) {
            let (queries, mut panels) = (Quads::new(&left, dim), QuadPanels::default());
            panels.fill(&right, dim);
            let mut wanted = vec![f32::NAN; queries.len() * panels.rows()];
            portable_quads(&queries, &panels, &mut wanted);
            for kernels in Kernels::all() {
                let mut out = vec![f32::NAN; wanted.len()];
                kernels.quad_product(&queries, &panels, &mut out);
                let same = out.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits());
                prop_assert!(same, "{}", kernels.name);
            }
            let lines = wanted.chunks_exact(panels.rows()).zip(queries.residuals());
            for (l, (line, &own)) in left.chunks_exact(dim).zip(lines) {
                for (r, &found) in right.chunks_exact(dim).zip(line) {
                    let mut codes = (vec![0; dim], vec![0; dim]);
                    let (lost, own_again) = (code_row(r, &mut codes.1).residual, code_row(l, &mut codes.0));
                    prop_assert_eq!(own, own_again.residual);
                    prop_assert!(lost <= panels.residual());
                    let bound = int8_error(dim, (length(l), own), (length(r), lost));
                    prop_assert!((found - dot(l, r)).abs() <= bound, "{found} {} {bound}", dot(l, r));
                    let exact: i32 = codes.0.iter().zip(&codes.1).map(|(&l, &r)| {
                        i32::from(signed(l)) * i32::from(signed(r))
                    }).sum();
                    let scale = code_row(r, &mut codes.1).scale;
                    prop_assert_eq!(found, scaled(exact, own_again.scale, scale));
                }
                prop_assert!(line[right.len() / dim..].iter().all(|&filled_up| filled_up == 0.0));
            }
        }

        #[test]
        fn rows_that_are_coded_already_lie_as_those_coded_on_the_way(
            (dim, numbers) in (1_usize..40, 0_usize..80)
                .prop_flat_map(|(quads, count)| (Just(4 * quads), rows(count, 4 * quads)))
        ) {
            let (mut wanted, mut found) = (QuadPanels::default(), QuadPanels::default());
            // What was there before is replaced.
            found.fill(&vec![1.0; 90 * dim], dim);
            wanted.fill(&numbers, dim);
            let mut codes = vec![0; numbers.len()];
            let rows = numbers.chunks_exact(dim).zip(codes.chunks_exact_mut(dim));
            let scales: Vec<f32> = rows.map(|(row, out)| code_row(row, out).scale).collect();
            found.fill_coded(&codes, dim, &scales);
            prop_assert_eq!((&found.numbers, &found.scales), (&wanted.numbers, &wanted.scales));
        }
    }

    #[test]
    fn the_largest_products_do_not_overflow() {
        for dim in [65_535, 65_536] {
            let row = vec![-1.0; dim];
            let (queries, mut panels) = (Quads::new(&row, dim), QuadPanels::default());
            panels.fill(&[row.clone(), vec![1.0; dim]].concat(), dim);
            #[expect(clippy::cast_precision_loss, reason = "a dimension is below 2^24")]
            let size = dim as f32;
            for kernels in Kernels::all() {
                let mut out = vec![f32::NAN; panels.rows()];
                kernels.quad_product(&queries, &panels, &mut out);
                assert!((out[0] - size).abs() <= 0.01, "{}: {}", kernels.name, out[0]);
                assert!((out[1] + size).abs() <= 0.01, "{}: {}", kernels.name, out[1]);
            }
        }
    }

    #[test]
    fn what_vanishes_stays_within_the_stated_error_of_bytes() {
        for (dim, left, right) in [(1000, 3.0e-20, 3.0e-20), (384, 1.0e-38, 1.0e17), (65_535, 9.0e-39, 1.0)] {
            let (left, right) = (vec![left; dim], vec![right; dim]);
            let (queries, mut panels) = (Quads::new(&left, dim), QuadPanels::default());
            panels.fill(&right, dim);
            let bound =
                int8_error(dim, (length(&left), queries.residuals()[0]), (length(&right), panels.residual()));
            let mut out = vec![f32::NAN; panels.rows()];
            Kernels::best().quad_product(&queries, &panels, &mut out);
            assert!((out[0] - dot(&left, &right)).abs() <= bound, "{dim}: {}", out[0]);
        }
    }
}
