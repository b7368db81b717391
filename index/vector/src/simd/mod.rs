//! Inner products of codes (bf16, 8-bit), in instructions of their own where the machine has them.
//!
//! Each kernel has a scalar twin in plain Rust, which defines what it computes and serves machines
//! without the instructions; tests hold every kernel of the machine against it. What comes out is an
//! approximation of the product of the vectors that were coded, for finding candidates:
//! [`dot`](crate::dot) scores them.

mod bytes;
mod halves;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use half::bf16;

pub use bytes::{Coded, QuadPanels, Quads, code_row, int8_error};
use bytes::{QuadBlock, portable_code, portable_i8, portable_quads};
pub use halves::{Pair, Pairs, Panels, bf16_error, round_row};
use halves::{portable_bf16, portable_panels, portable_round};

/// Rows that lie side by side in a packed panel.
pub const PANEL_ROWS: usize = 16;

/// The kernels for one kind of machine.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// The instructions, for messages.
    pub name: &'static str,
    dot_bf16: fn(&[bf16], &[bf16]) -> f32,
    dot_i8: fn(&[i8], &[u8]) -> i32,
    panels: Option<PanelProduct>,
    quads: Option<QuadProduct>,
    interleave_pairs: fn(&[Pair], &mut [[Pair; PANEL_ROWS]]),
    interleave_quads: fn(&[[u8; 4]], &mut [QuadBlock], usize),
    round_row: fn(&[f32], &mut [bf16]) -> f32,
    code_row: fn(&[f32], &mut [u8]) -> Coded,
    within: fn(&[f32], &[f32], f32, f32) -> Places,
}

/// The most numbers of a line whose places are told.
pub const PLACES: usize = 256;

/// A bit for each place of a line, place 0 in the lowest of the first.
type Places = [u64; PLACES / 64];

/// Queries, panels, pairs of dimensions, and room for a line a query.
type PanelProduct = fn(&[Pair], &[[Pair; PANEL_ROWS]], usize, &mut [f32]);

/// Queries, panels, and room for a line a query.
type QuadProduct = fn(&Quads, &QuadPanels, &mut [f32]);

impl Kernels {
    /// The fastest that this machine runs.
    pub fn best() -> &'static Kernels {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        BEST.get_or_init(|| Kernels::all().pop().unwrap_or(PORTABLE))
    }

    /// All that this machine runs, the portable ones first and the fastest last.
    pub fn all() -> Vec<Kernels> {
        let mut all = vec![PORTABLE];
        #[cfg(target_arch = "x86_64")]
        all.extend(x86::kernels());
        all
    }

    /// The inner product of two rows of bf16. Products are exact; they are summed in 32 bits, in an
    /// order of the kernel's own, and numbers below the normal range may count as 0.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn dot_bf16(&self, left: &[bf16], right: &[bf16]) -> f32 {
        assert_eq!(left.len(), right.len(), "codes of one collection have one length");
        (self.dot_bf16)(left, right)
    }

    /// `Σ left · right`, exactly, for rows of at most 2¹⁶ numbers.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn dot_i8(&self, left: &[i8], right: &[u8]) -> i32 {
        assert_eq!(left.len(), right.len(), "codes of one collection have one length");
        (self.dot_i8)(left, right)
    }

    /// The places of a line whose `score − bias` is from `low` to `high`, as bits: place 0 is the lowest of
    /// the first number.
    ///
    /// # Panics
    /// If the line is longer than [`PLACES`], or has not as many biases as scores.
    pub fn within(&self, scores: &[f32], biases: &[f32], low: f32, high: f32) -> [u64; PLACES / 64] {
        assert!(scores.len() == biases.len() && scores.len() <= PLACES, "a bias a score, a bit a place");
        (self.within)(scores, biases, low, high)
    }

    /// Whether [`Kernels::panel_product`] beats a product in 32 bits.
    pub fn has_panels(&self) -> bool {
        self.panels.is_some()
    }

    /// Writes the inner product of each query with each row of `panels` to `out`, a line of
    /// `panels.rows()` numbers a query.
    ///
    /// # Panics
    /// If a length is not what the others ask for.
    pub fn panel_product(&self, queries: &Pairs, panels: &Panels, out: &mut [f32]) {
        assert_eq!(queries.pairs, panels.pairs, "queries and rows have one dimension");
        assert_eq!(out.len(), queries.len() * panels.rows(), "one number for each pair of rows");
        let product = self.panels.unwrap_or(portable_panels);
        product(&queries.numbers, &panels.numbers, queries.pairs, out);
    }

    /// Whether [`Kernels::quad_product`] beats a product in 32 bits.
    pub fn has_quads(&self) -> bool {
        self.quads.is_some()
    }

    /// Writes the inner product of the codes of each query with those of each row of `panels`, times both
    /// scales, to `out`, a line of `panels.rows()` numbers a query: the exact sum as a number of 32 bits,
    /// times the query's scale, times the row's.
    ///
    /// # Panics
    /// If a length is not what the others ask for.
    pub fn quad_product(&self, queries: &Quads, panels: &QuadPanels, out: &mut [f32]) {
        assert_eq!(queries.quads, panels.quads, "queries and rows have one dimension");
        assert_eq!(out.len(), queries.len() * panels.rows(), "one number for each pair of rows");
        if !out.is_empty() {
            self.quads.unwrap_or(portable_quads)(queries, panels, out);
        }
    }
}

fn portable_within(scores: &[f32], biases: &[f32], low: f32, high: f32) -> Places {
    let mut places = Places::default();
    for (place, (score, bias)) in scores.iter().zip(biases).enumerate() {
        let score = score - bias;
        places[place / 64] |= u64::from((score >= low) & (score <= high)) << (place % 64);
    }
    places
}

/// Puts the words of the 16 rows that follow each other side by side, as one of `N` panels of a block.
fn interleave<W: Copy, const N: usize>(rows: &[W], block: &mut [[[W; PANEL_ROWS]; N]], panel: usize) {
    interleave_from(0, rows, block, panel);
}

/// The same for the words from `first` on.
fn interleave_from<W: Copy, const N: usize>(
    first: usize,
    rows: &[W],
    block: &mut [[[W; PANEL_ROWS]; N]],
    panel: usize,
) {
    let words = block.len();
    for (place, together) in block.iter_mut().enumerate().skip(first) {
        for (word, line) in together[panel].iter_mut().zip(rows.chunks_exact(words)) {
            *word = line[place];
        }
    }
}

/// Asks for a row to be brought near while others are worked on.
#[inline]
pub fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    x86::prefetch(row);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

const PORTABLE: Kernels = Kernels {
    name: "portable",
    dot_bf16: portable_bf16,
    dot_i8: portable_i8,
    panels: None,
    quads: None,
    interleave_pairs: |rows, panel| interleave(rows, panel.as_chunks_mut::<1>().0, 0),
    interleave_quads: interleave,
    round_row: portable_round,
    code_row: portable_code,
    within: portable_within,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_kernel_of_bytes_is_exact(
            (left, right) in (0_usize..300)
                .prop_flat_map(|dim| (prop::collection::vec(any::<i8>(), dim), prop::collection::vec(any::<u8>(), dim)))
        ) {
            let wanted = portable_i8(&left, &right);
            Kernels::all().iter().for_each(|kernels| assert_eq!(kernels.dot_i8(&left, &right), wanted));
        }

        #[test]
        fn every_kernel_finds_the_same_places(
            line in prop::collection::vec((-4_i8..4, -2_i8..3), 0..=PLACES),
            (low, high) in (-6_i8..6, -6_i8..9),
        ) {
            // Small whole numbers meet the bounds exactly; a bias of 2 stands for a dead row.
            let bias = |bias| if bias == 2 { f32::INFINITY } else { f32::from(bias) };
            let (scores, biases): (Vec<f32>, Vec<f32>) =
                line.iter().map(|&(s, b)| (f32::from(s), bias(b))).unzip();
            let (low, high) = (f32::from(low), if high == 8 { f32::INFINITY } else { f32::from(high) });
            for kernels in Kernels::all() {
                let places = kernels.within(&scores, &biases, low, high);
                for place in 0..PLACES {
                    let wanted = place < line.len() && (low..=high).contains(&(scores[place] - biases[place]));
                    prop_assert_eq!(places[place / 64] >> (place % 64) & 1 == 1, wanted, "{}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn the_largest_bytes_do_not_overflow() {
        let (left, right) = (vec![i8::MIN; 65_536], vec![u8::MAX; 65_536]);
        for kernels in Kernels::all() {
            assert_eq!(kernels.dot_i8(&left, &right), -128 * 255 * 65_536, "{}", kernels.name);
        }
    }

    #[test]
    fn a_row_may_be_prefetched_whatever_its_length() {
        prefetch::<f32>(&[]);
        prefetch(&[1.0_f32; 100]);
    }
}
