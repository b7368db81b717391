//! Vectors as a walk compares them: rows of numbers of one kind, each on a cache line's border.

use dehub_vector::{Kernels, dot, gather_i8, prefetch, round_row};
use half::bf16;
use half::slice::HalfBitsSliceExt;

use crate::bytes::LINE;
use crate::insert::AHEAD;

/// How a segment keeps its vectors. What a walk finds is scored again, so a coarser code costs recall
/// only where it hides a near point behind many others; a wider beam brings it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CodeKind {
    /// As they are.
    F32,
    /// The upper half of each number, rounded: a product of unit vectors is right within 2⁻⁷, and
    /// typically within 2⁻⁹/√dim.
    #[default]
    Bf16,
    /// One byte a number, `round(127 x / max |x|)`, and a scale a vector. Each number of a vector is right
    /// within `max |x| / 254`, and so a product of unit vectors p, q within
    /// `(‖p‖₁ max|q| + ‖q‖₁ max|p|) / 254 + dim max|p| max|q| / 254²`.
    Int8,
}

impl CodeKind {
    /// Its number in a file.
    pub(crate) fn number(self) -> u32 {
        match self {
            CodeKind::F32 => 0,
            CodeKind::Bf16 => 1,
            CodeKind::Int8 => 2,
        }
    }

    pub(crate) fn numbered(number: u32) -> Option<CodeKind> {
        [CodeKind::F32, CodeKind::Bf16, CodeKind::Int8].into_iter().find(|kind| kind.number() == number)
    }

    fn bytes(self) -> usize {
        match self {
            CodeKind::F32 => size_of::<f32>(),
            CodeKind::Bf16 => size_of::<bf16>(),
            CodeKind::Int8 => size_of::<i8>(),
        }
    }

    /// The numbers in a row of `dim`, filled up with zeros to whole cache lines.
    pub(crate) fn padded(self, dim: usize) -> usize {
        dim.next_multiple_of(LINE / self.bytes())
    }

    /// The bytes of a row.
    pub(crate) fn row_bytes(self, dim: usize) -> usize {
        self.padded(dim) * self.bytes()
    }
}

/// Rows of bytes that are compared together.
const TOGETHER: usize = 32;

/// What a zero is as a byte of a row: bytes are unsigned on the side of the rows.
const OFFSET: i16 = 128;

/// Writes the code of `vector` to a row of zeros, and gives its scale.
pub(crate) fn encode(kind: CodeKind, vector: &[f32], row: &mut [u8]) -> f32 {
    match kind {
        CodeKind::F32 => {
            bytemuck::cast_slice_mut(row)[..vector.len()].copy_from_slice(vector);
            1.0
        }
        CodeKind::Bf16 => {
            let row = bytemuck::cast_slice_mut::<u8, u16>(row).reinterpret_cast_mut::<bf16>();
            round_row(vector, &mut row[..vector.len()]);
            1.0
        }
        CodeKind::Int8 => {
            let scale = byte_scale(vector);
            row.fill(OFFSET.to_le_bytes()[0]);
            for (byte, &number) in row.iter_mut().zip(vector) {
                *byte = to_byte(number, scale).cast_unsigned() ^ 0x80;
            }
            scale
        }
    }
}

/// The squared length of what a row codes.
pub(crate) fn coded_square(kind: CodeKind, row: &[u8], scale: f32) -> f32 {
    match kind {
        CodeKind::F32 => {
            let row = bytemuck::cast_slice(row);
            dot(row, row)
        }
        CodeKind::Bf16 => {
            let row = bytemuck::cast_slice::<u8, u16>(row).reinterpret_cast::<bf16>();
            Kernels::best().dot_bf16(row, row)
        }
        CodeKind::Int8 => {
            let signed: Vec<i8> = row.iter().map(|byte| (byte ^ 0x80).cast_signed()).collect();
            let sum: i64 = signed.iter().map(|&byte| i64::from(byte).pow(2)).sum();
            #[expect(
                clippy::cast_precision_loss,
                reason = "a rounding of 2⁻²⁴ is far below that of the code"
            )]
            let sum = sum as f32;
            scale * sum * scale
        }
    }
}

/// What one step of a byte stands for, so that the longest number becomes 127; 1 for zeros.
fn byte_scale(vector: &[f32]) -> f32 {
    let longest = vector.iter().fold(0.0_f32, |longest, number| longest.max(number.abs()));
    let scale = longest / f32::from(i8::MAX);
    if scale > 0.0 { scale } else { 1.0 }
}

#[expect(clippy::cast_possible_truncation, reason = "a quotient of at most 127, and the cast saturates")]
fn to_byte(number: f32, scale: f32) -> i8 {
    (number / scale).round_ties_even().max(-127.0) as i8
}

/// The rows of a segment, with what each row needs beside its numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes<'a> {
    pub(crate) kind: CodeKind,
    pub(crate) bytes: &'a [u8],
    /// One number a row under [`CodeKind::Int8`], else none.
    pub(crate) scales: &'a [f32],
    /// What is added to the product of each row; none where that is 0.
    pub(crate) terms: &'a [f32],
}

/// A similarity of one query with rows by number.
pub(crate) trait Similarity {
    /// Asks for a row to be brought near.
    fn fetch(&self, node: u32);
    /// The similarity with a row.
    fn of(&self, node: u32) -> f32;

    /// The similarities with rows that are next to be compared.
    fn of_all(&self, nodes: &[u32], out: &mut Vec<f32>) {
        nodes.iter().take(AHEAD).for_each(|&node| self.fetch(node));
        out.clear();
        out.extend(nodes.iter().enumerate().map(|(place, &node)| {
            if let Some(&ahead) = nodes.get(place + AHEAD) {
                self.fetch(ahead);
            }
            self.of(node)
        }));
    }
}

fn row<T>(numbers: &[T], width: usize, node: u32) -> &[T] {
    &numbers[node as usize * width..][..width]
}

fn term(terms: &[f32], node: u32) -> f32 {
    terms.get(node as usize).copied().unwrap_or(0.0)
}

/// Products with rows as they are.
pub(crate) struct Whole<'a> {
    query: Vec<f32>,
    /// What is added to every product.
    shift: f32,
    rows: &'a [f32],
    terms: &'a [f32],
}

impl<'a> Whole<'a> {
    pub(crate) fn new(query: &[f32], shift: f32, codes: Codes<'a>) -> Whole<'a> {
        let mut padded = query.to_vec();
        padded.resize(CodeKind::F32.padded(query.len()), 0.0);
        Whole { query: padded, shift, rows: bytemuck::cast_slice(codes.bytes), terms: codes.terms }
    }
}

impl Similarity for Whole<'_> {
    #[inline]
    fn fetch(&self, node: u32) {
        prefetch(row(self.rows, self.query.len(), node));
    }

    #[inline]
    fn of(&self, node: u32) -> f32 {
        dot(&self.query, row(self.rows, self.query.len(), node)) + term(self.terms, node) + self.shift
    }
}

/// Products with rows of halves.
pub(crate) struct Halves<'a> {
    kernels: &'static Kernels,
    query: Vec<bf16>,
    shift: f32,
    rows: &'a [bf16],
    terms: &'a [f32],
}

impl<'a> Halves<'a> {
    pub(crate) fn new(query: &[f32], shift: f32, codes: Codes<'a>) -> Halves<'a> {
        let mut rounded = vec![bf16::ZERO; CodeKind::Bf16.padded(query.len())];
        round_row(query, &mut rounded[..query.len()]);
        let rows = bytemuck::cast_slice::<u8, u16>(codes.bytes).reinterpret_cast::<bf16>();
        Halves { kernels: Kernels::best(), query: rounded, shift, rows, terms: codes.terms }
    }
}

impl Similarity for Halves<'_> {
    #[inline]
    fn fetch(&self, node: u32) {
        prefetch(row(self.rows, self.query.len(), node));
    }

    #[inline]
    fn of(&self, node: u32) -> f32 {
        let product = self.kernels.dot_bf16(&self.query, row(self.rows, self.query.len(), node));
        product + term(self.terms, node) + self.shift
    }
}

/// Products with rows of bytes: `Σ q (p + 128) − 128 Σ q`, exactly, times both scales.
pub(crate) struct Octets<'a> {
    kernels: &'static Kernels,
    query: Vec<i8>,
    /// `128 Σ q`.
    offset: i32,
    scale: f32,
    shift: f32,
    codes: Codes<'a>,
}

impl<'a> Octets<'a> {
    pub(crate) fn new(query: &[f32], shift: f32, codes: Codes<'a>) -> Octets<'a> {
        let scale = byte_scale(query);
        let mut bytes: Vec<i8> = query.iter().map(|&number| to_byte(number, scale)).collect();
        bytes.resize(CodeKind::Int8.padded(query.len()), 0);
        let offset = bytes.iter().map(|&byte| i32::from(byte)).sum::<i32>() * i32::from(OFFSET);
        Octets { kernels: Kernels::best(), query: bytes, offset, scale, shift, codes }
    }
}

impl Similarity for Octets<'_> {
    #[inline]
    fn fetch(&self, node: u32) {
        prefetch(row(self.codes.bytes, self.query.len(), node));
    }

    #[inline]
    fn of(&self, node: u32) -> f32 {
        self.from(self.kernels.dot_i8(&self.query, row(self.codes.bytes, self.query.len(), node)), node)
    }

    fn of_all(&self, nodes: &[u32], out: &mut Vec<f32>) {
        out.clear();
        let mut sums = [0; TOGETHER];
        for nodes in nodes.chunks(TOGETHER) {
            let sums = &mut sums[..nodes.len()];
            gather_i8(&self.query, self.codes.bytes, nodes, sums);
            out.extend(nodes.iter().zip(&*sums).map(|(&node, &sum)| self.from(sum, node)));
        }
    }
}

impl Octets<'_> {
    /// The similarity of a row, given the product of the bytes.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a rounding of 2⁻²⁴ is far below that of the code")]
    fn from(&self, sum: i32, node: u32) -> f32 {
        let product = (sum - self.offset) as f32 * (self.scale * self.codes.scales[node as usize]);
        product + term(self.codes.terms, node) + self.shift
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coded(kind: CodeKind, vector: &[f32]) -> (Vec<u8>, f32) {
        let mut row = vec![0; kind.row_bytes(vector.len())];
        let scale = encode(kind, vector, &mut row);
        (row, scale)
    }

    fn similarity(kind: CodeKind, query: &[f32], vector: &[f32]) -> f32 {
        let (row, scale) = coded(kind, vector);
        let aligned = crate::bytes::Bytes::from(row.as_slice());
        let scales = [scale];
        let codes = Codes { kind, bytes: aligned.as_slice(), scales: &scales, terms: &[] };
        match kind {
            CodeKind::F32 => Whole::new(query, 0.0, codes).of(0),
            CodeKind::Bf16 => Halves::new(query, 0.0, codes).of(0),
            CodeKind::Int8 => Octets::new(query, 0.0, codes).of(0),
        }
    }

    fn exact(left: &[f32], right: &[f32]) -> f64 {
        left.iter().zip(right).map(|(&l, &r)| f64::from(l) * f64::from(r)).sum()
    }

    fn longest(vector: &[f32]) -> f64 {
        vector.iter().fold(0.0, |longest, &number| f64::from(number).abs().max(longest))
    }

    fn sum(vector: &[f32]) -> f64 {
        vector.iter().map(|&number| f64::from(number).abs()).sum()
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "a small dimension")]
        fn products_of_codes_are_within_the_stated_error(
            (query, vector) in (1_usize..200).prop_flat_map(|dim| {
                let numbers = || prop::collection::vec(-3.0_f32..3.0, dim);
                (numbers(), numbers())
            })
        ) {
            let lengths = (exact(&query, &query) * exact(&vector, &vector)).sqrt();
            let (q, p) = (longest(&query), longest(&vector));
            let bytes = (sum(&vector) * q + sum(&query) * p) / 254.0 + query.len() as f64 * p * q / 254.0_f64.powi(2);
            let bounds = [(CodeKind::F32, 1e-5 * lengths), (CodeKind::Bf16, lengths / 128.0), (CodeKind::Int8, bytes)];
            for (kind, bound) in bounds {
                let found = f64::from(similarity(kind, &query, &vector));
                let slack = 1e-5 * lengths;
                prop_assert!((found - exact(&query, &vector)).abs() <= bound + slack, "{kind:?}: {found}");
                let (row, scale) = coded(kind, &vector);
                let aligned = crate::bytes::Bytes::from(row.as_slice());
                let square = f64::from(coded_square(kind, aligned.as_slice(), scale)).sqrt();
                let length = exact(&vector, &vector).sqrt();
                let lost = match kind {
                    CodeKind::Int8 => p / 254.0 * (query.len() as f64).sqrt(),
                    CodeKind::F32 | CodeKind::Bf16 => length / 256.0,
                };
                prop_assert!((square - length).abs() <= lost + 1e-4 * length, "{kind:?}: {square} {length}");
            }
        }
    }

    #[test]
    fn rows_of_zeros_are_similar_to_nothing() {
        for kind in [CodeKind::F32, CodeKind::Bf16, CodeKind::Int8] {
            assert_eq!(similarity(kind, &[0.5, -2.0, 1.0], &[0.0; 3]), 0.0, "{kind:?}");
            assert_eq!(similarity(kind, &[0.0; 3], &[0.5, -2.0, 1.0]), 0.0, "{kind:?}");
        }
    }
}
