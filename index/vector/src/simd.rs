//! Inner products of codes (bf16, 8-bit), in instructions of their own where the machine has them.
//!
//! Each kernel has a scalar twin in plain Rust, which defines what it computes and serves machines
//! without the instructions; tests hold every kernel of the machine against it. What comes out is an
//! approximation of the product of the vectors that were coded, for finding candidates:
//! [`dot`](crate::dot) scores them.

use std::sync::OnceLock;

use half::bf16;
use multiversion::multiversion;

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
    interleave: fn(&[Pair], &mut [[Pair; PANEL_ROWS]]),
    round_row: fn(&[f32], &mut [bf16]) -> f32,
    within: fn(&[f32], &[f32], f32, f32) -> Places,
}

/// The most numbers of a line whose places are told.
pub const PLACES: usize = 256;

/// A bit for each place of a line, place 0 in the lowest of the first.
type Places = [u64; PLACES / 64];

/// Queries, panels, pairs of dimensions, and room for a line a query.
type PanelProduct = fn(&[Pair], &[[Pair; PANEL_ROWS]], usize, &mut [f32]);

/// Two dimensions that follow each other.
pub type Pair = [bf16; 2];

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
}

/// Rows of bf16, two dimensions at a time; an odd dimension is filled up with 0.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    pairs: usize,
    numbers: Vec<Pair>,
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
    pairs: usize,
    numbers: Vec<[Pair; PANEL_ROWS]>,
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
        let Kernels { interleave, round_row, .. } = *Kernels::best();
        let mut rounded = vec![bf16::ZERO; 2 * self.pairs * PANEL_ROWS];
        let panels = self.numbers.chunks_exact_mut(self.pairs);
        for (panel, rows) in panels.zip(rows.chunks(PANEL_ROWS * dim)) {
            rounded[2 * self.pairs * (rows.len() / dim)..].fill(bf16::ZERO);
            for (row, out) in rows.chunks_exact(dim).zip(rounded.chunks_exact_mut(2 * self.pairs)) {
                self.residual = self.residual.max(round_row(row, &mut out[..dim]));
            }
            interleave(rounded.as_chunks::<2>().0, panel);
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
fn round(number: f32) -> bf16 {
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
fn portable_round(row: &[f32], out: &mut [bf16]) -> f32 {
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
fn length_of_lost(squares: f32) -> f32 {
    const VANISHED: f32 = 1.0e-20;
    squares.sqrt() * 1.0001 + VANISHED
}

fn portable_within(scores: &[f32], biases: &[f32], low: f32, high: f32) -> Places {
    let mut places = Places::default();
    for (place, (score, bias)) in scores.iter().zip(biases).enumerate() {
        let score = score - bias;
        places[place / 64] |= u64::from((score >= low) & (score <= high)) << (place % 64);
    }
    places
}

/// Puts the pairs of the 16 rows that follow each other side by side.
fn interleave(rows: &[Pair], panel: &mut [[Pair; PANEL_ROWS]]) {
    interleave_from(0, rows, panel);
}

/// The same for the pairs from `first` on.
fn interleave_from(first: usize, rows: &[Pair], panel: &mut [[Pair; PANEL_ROWS]]) {
    let pairs = panel.len();
    for (place, together) in panel.iter_mut().enumerate().skip(first) {
        for (two, line) in together.iter_mut().zip(rows.chunks_exact(pairs)) {
            *two = line[place];
        }
    }
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
    interleave,
    round_row: portable_round,
    within: portable_within,
};

fn portable_bf16(left: &[bf16], right: &[bf16]) -> f32 {
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

fn portable_i8(left: &[i8], right: &[u8]) -> i32 {
    left.iter().zip(right).map(|(&l, &r)| i32::from(l) * i32::from(r)).sum()
}

fn portable_panels(queries: &[Pair], panels: &[[Pair; PANEL_ROWS]], pairs: usize, out: &mut [f32]) {
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

/// The one place with instructions of a machine. Intrinsics are safe where the functions that use them
/// say which instructions they need; what is left unsafe is reading through pointers, which are taken
/// from arrays of just the length that is read, and calling such functions, which is done only after
/// asking the machine.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loads through pointers, and calls of functions that need instructions")]
mod x86 {
    use std::arch::x86_64::*;

    use half::bf16;

    use super::{
        Kernels, PANEL_ROWS, PORTABLE, Pair, Places, interleave_from, length_of_lost, portable_i8, round,
    };

    /// Numbers in a register of 512 bits.
    const WIDE: usize = 32;
    const BYTES: usize = 64;
    /// A block of the panel product: with its 24 sums, 4 panels and a query it fills the registers.
    const QUERIES: usize = 6;
    const PANELS: usize = 4;

    /// Those that this machine runs, the fastest last.
    pub(super) fn kernels() -> Vec<Kernels> {
        let mut kernels = Vec::new();
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the machine has AVX2 and FMA.
            let dot_bf16 = |left: &[bf16], right: &[bf16]| unsafe { bf16_avx2(left, right) };
            kernels.push(Kernels { name: "AVX2", dot_bf16, ..PORTABLE });
        }
        let has_wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if has_wide && is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the machine has AVX-512 with BF16 and VNNI.
            let dot_bf16 = |left: &[bf16], right: &[bf16]| unsafe { bf16_avx512(left, right) };
            // SAFETY: as above.
            let dot_i8 = |left: &[i8], right: &[u8]| unsafe { i8_avx512(left, right) };
            let panels = |queries: &[Pair], panels: &[[Pair; PANEL_ROWS]], pairs: usize, out: &mut [f32]| {
                // SAFETY: as above.
                unsafe { panels_avx512(queries, panels, pairs, out) }
            };
            let interleave = |rows: &[Pair], panel: &mut [[Pair; PANEL_ROWS]]| {
                // SAFETY: as above.
                unsafe { interleave_avx512(rows, panel) }
            };
            // SAFETY: as above.
            let round_row = |row: &[f32], out: &mut [bf16]| unsafe { round_avx512(row, out) };
            let within = |scores: &[f32], biases: &[f32], low: f32, high: f32| {
                // SAFETY: as above.
                unsafe { within_avx512(scores, biases, low, high) }
            };
            kernels.push(Kernels {
                name: "AVX-512",
                dot_bf16,
                dot_i8,
                panels: Some(panels),
                interleave,
                round_row,
                within,
            });
        }
        kernels
    }

    #[inline]
    pub(super) fn prefetch<T>(row: &[T]) {
        let bytes = size_of_val(row);
        for offset in (0..bytes).step_by(BYTES) {
            // SAFETY: a prefetch reads nothing, and the address is inside the row.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().add(offset)) };
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn load_bf16(numbers: &[bf16; WIDE]) -> __m512bh {
        // SAFETY: the array is 64 bytes long, and the load needs no alignment; both types are 512 bits
        // of which every pattern is a value.
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(numbers.as_ptr().cast())) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn bf16_avx512(left: &[bf16], right: &[bf16]) -> f32 {
        let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<WIDE>(), right.as_chunks::<WIDE>());
        let mut sums = [_mm512_setzero_ps(); 4];
        let (left_fours, left_ones) = left.as_chunks::<4>();
        let (right_fours, right_ones) = right.as_chunks::<4>();
        for (left, right) in left_fours.iter().zip(right_fours) {
            for ((sum, l), r) in sums.iter_mut().zip(left).zip(right) {
                *sum = _mm512_dpbf16_ps(*sum, load_bf16(l), load_bf16(r));
            }
        }
        for ((sum, l), r) in sums.iter_mut().zip(left_ones).zip(right_ones) {
            *sum = _mm512_dpbf16_ps(*sum, load_bf16(l), load_bf16(r));
        }
        if !left_rest.is_empty() {
            let (mut l, mut r) = ([bf16::ZERO; WIDE], [bf16::ZERO; WIDE]);
            l[..left_rest.len()].copy_from_slice(left_rest);
            r[..right_rest.len()].copy_from_slice(right_rest);
            sums[3] = _mm512_dpbf16_ps(sums[3], load_bf16(&l), load_bf16(&r));
        }
        let [a, b, c, d] = sums;
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
    }

    #[target_feature(enable = "avx2,fma")]
    fn bf16_avx2(left: &[bf16], right: &[bf16]) -> f32 {
        const HALF: usize = 16;
        let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<HALF>(), right.as_chunks::<HALF>());
        // SAFETY: the array is 32 bytes long, and the load needs no alignment.
        let load = |numbers: &[bf16; HALF]| unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
        // A number of bf16 is the upper half of one of 32 bits.
        let odd = |pairs| _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
        let even = |pairs| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs));
        let (mut evens, mut odds) = (_mm256_setzero_ps(), _mm256_setzero_ps());
        for (l, r) in left.iter().zip(right) {
            let (l, r) = (load(l), load(r));
            evens = _mm256_fmadd_ps(even(l), even(r), evens);
            odds = _mm256_fmadd_ps(odd(l), odd(r), odds);
        }
        let mut lanes = [0.0_f32; 8];
        // SAFETY: the array is 32 bytes long, and the store needs no alignment.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_add_ps(evens, odds)) };
        let rest = left_rest.iter().zip(right_rest).map(|(l, r)| l.to_f32_const() * r.to_f32_const());
        lanes.iter().copied().chain(rest).sum()
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn i8_avx512(left: &[i8], right: &[u8]) -> i32 {
        let ((left, left_rest), (right, right_rest)) =
            (left.as_chunks::<BYTES>(), right.as_chunks::<BYTES>());
        let mut sums = [_mm512_setzero_si512(); 4];
        for (place, (l, r)) in left.iter().zip(right).enumerate() {
            // SAFETY: the array is 64 bytes long, and the load needs no alignment.
            let l = unsafe { _mm512_loadu_si512(l.as_ptr().cast()) };
            // SAFETY: as above.
            let r = unsafe { _mm512_loadu_si512(r.as_ptr().cast()) };
            sums[place % 4] = _mm512_dpbusd_epi32(sums[place % 4], r, l);
        }
        let [a, b, c, d] = sums;
        let all = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        _mm512_reduce_add_epi32(all) + portable_i8(left_rest, right_rest)
    }

    #[target_feature(enable = "avx512f")]
    fn round_avx512(row: &[f32], out: &mut [bf16]) -> f32 {
        let ((blocks, rest), (outs, out_rest)) =
            (row.as_chunks::<PANEL_ROWS>(), out.as_chunks_mut::<PANEL_ROWS>());
        let mut squares = _mm512_setzero_ps();
        for (numbers, out) in blocks.iter().zip(outs) {
            // SAFETY: the array is 64 bytes long, and the load needs no alignment.
            let bits = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            let codes = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(up));
            let kept = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(-65536)));
            let lost = _mm512_sub_ps(_mm512_castsi512_ps(bits), kept);
            squares = _mm512_fmadd_ps(lost, lost, squares);
            // SAFETY: the array is 32 bytes long, and the store needs no alignment.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), codes) };
        }
        let mut sum = _mm512_reduce_add_ps(squares);
        for (&number, out) in rest.iter().zip(out_rest) {
            *out = round(number);
            let lost = number - f32::from_bits(u32::from(out.to_bits()) << 16);
            sum += lost * lost;
        }
        length_of_lost(sum)
    }

    #[target_feature(enable = "avx512f")]
    fn within_avx512(scores: &[f32], biases: &[f32], low: f32, high: f32) -> Places {
        let (low, high) = (_mm512_set1_ps(low), _mm512_set1_ps(high));
        let mut places = Places::default();
        let lines = scores.chunks(PANEL_ROWS).zip(biases.chunks(PANEL_ROWS));
        for (block, (scores, biases)) in lines.enumerate() {
            let taken = u16::MAX >> (PANEL_ROWS - scores.len());
            // SAFETY: each slice is as long as the bits that are taken, and no other number is read.
            let (scores, biases) = unsafe {
                (_mm512_maskz_loadu_ps(taken, scores.as_ptr()), _mm512_maskz_loadu_ps(taken, biases.as_ptr()))
            };
            let score = _mm512_sub_ps(scores, biases);
            let reach = _mm512_mask_cmp_ps_mask::<_CMP_GE_OQ>(taken, score, low);
            let within = _mm512_mask_cmp_ps_mask::<_CMP_LE_OQ>(reach, score, high);
            places[block / 4] |= u64::from(within) << (block % 4 * PANEL_ROWS);
        }
        places
    }

    /// Squares of 16 rows by 16 pairs, each transposed in registers.
    #[target_feature(enable = "avx512f")]
    fn interleave_avx512(rows: &[Pair], panel: &mut [[Pair; PANEL_ROWS]]) {
        let pairs = panel.len();
        let (squares, _) = panel.as_chunks_mut::<PANEL_ROWS>();
        let whole = squares.len() * PANEL_ROWS;
        for (square, first) in squares.iter_mut().zip((0..).step_by(PANEL_ROWS)) {
            let lines = std::array::from_fn(|row| {
                let line: &[Pair] = &rows[row * pairs + first..][..PANEL_ROWS];
                // SAFETY: the slice is 64 bytes long, and the load needs no alignment.
                unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
            });
            for (together, column) in square.iter_mut().zip(transpose(lines)) {
                // SAFETY: the array is 64 bytes long, and the store needs no alignment.
                unsafe { _mm512_storeu_si512(together.as_mut_ptr().cast(), column) };
            }
        }
        interleave_from(whole, rows, panel);
    }

    /// The columns of 16 lines of 16 numbers of 32 bits: twos, then fours side by side, then the quarters
    /// of the registers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn transpose(lines: [__m512i; PANEL_ROWS]) -> [__m512i; PANEL_ROWS] {
        let (mut twos, mut fours, mut columns) = (lines, lines, lines);
        for (two, line) in twos.as_chunks_mut::<2>().0.iter_mut().zip(lines.as_chunks::<2>().0) {
            let [a, b] = *line;
            *two = [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
        }
        for (four, two) in fours.as_chunks_mut::<4>().0.iter_mut().zip(twos.as_chunks::<4>().0) {
            let [a_low, a_high, b_low, b_high] = *two;
            *four = [
                _mm512_unpacklo_epi64(a_low, b_low),
                _mm512_unpackhi_epi64(a_low, b_low),
                _mm512_unpacklo_epi64(a_high, b_high),
                _mm512_unpackhi_epi64(a_high, b_high),
            ];
        }
        for place in 0..4 {
            let [a, b, c, d] = [0, 4, 8, 12].map(|four| fours[four + place]);
            let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
            let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
            columns[place] = _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even);
            columns[4 + place] = _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd);
            columns[8 + place] = _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even);
            columns[12 + place] = _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd);
        }
        columns
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn panels_avx512(queries: &[Pair], panels: &[[Pair; PANEL_ROWS]], pairs: usize, out: &mut [f32]) {
        let count = panels.len() / pairs;
        let width = count * PANEL_ROWS;
        let mut first_panel = 0;
        while first_panel < count {
            let taken = if count - first_panel >= PANELS { PANELS } else { 1 };
            let block = &panels[first_panel * pairs..][..taken * pairs];
            let lines = queries.chunks(QUERIES * pairs).zip(out.chunks_mut(QUERIES * width));
            for (queries, out) in lines {
                let out = &mut out[first_panel * PANEL_ROWS..];
                match (queries.len() / pairs, taken) {
                    (QUERIES, PANELS) => tile::<QUERIES, PANELS>(queries, block, pairs, out, width),
                    (_, PANELS) => rest::<PANELS>(queries, block, pairs, out, width),
                    (_, _) => rest::<1>(queries, block, pairs, out, width),
                }
            }
            first_panel += taken;
        }
    }

    /// One query at a time, for what is left at the edges.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn rest<const P: usize>(
        queries: &[Pair],
        panels: &[[Pair; PANEL_ROWS]],
        pairs: usize,
        out: &mut [f32],
        width: usize,
    ) {
        for (query, line) in queries.chunks_exact(pairs).zip(out.chunks_mut(width)) {
            tile::<1, P>(query, panels, pairs, line, width);
        }
    }

    /// `Q` queries by `P` panels; each line of `out` starts `width` after the one before.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn tile<const Q: usize, const P: usize>(
        queries: &[Pair],
        panels: &[[Pair; PANEL_ROWS]],
        pairs: usize,
        out: &mut [f32],
        width: usize,
    ) {
        let query: [&[Pair]; Q] = std::array::from_fn(|q| &queries[q * pairs..][..pairs]);
        let panel: [&[[Pair; PANEL_ROWS]]; P] = std::array::from_fn(|p| &panels[p * pairs..][..pairs]);
        let mut sums = [[_mm512_setzero_ps(); P]; Q];
        for pair in 0..pairs {
            let mut rows = [_mm512_setzero_si512(); P];
            for (row, panel) in rows.iter_mut().zip(panel) {
                // SAFETY: the array is 64 bytes long, and the load needs no alignment.
                *row = unsafe { _mm512_loadu_si512(panel[pair].as_ptr().cast()) };
            }
            for (sums, query) in sums.iter_mut().zip(query) {
                let [[a, b], [c, d]] = query[pair].map(bf16::to_ne_bytes);
                let both = _mm512_set1_epi32(i32::from_ne_bytes([a, b, c, d]));
                for (sum, &row) in sums.iter_mut().zip(&rows) {
                    // SAFETY: both types are 512 bits of which every pattern is a value.
                    let (both, row) = unsafe {
                        (
                            std::mem::transmute::<__m512i, __m512bh>(both),
                            std::mem::transmute::<__m512i, __m512bh>(row),
                        )
                    };
                    *sum = _mm512_dpbf16_ps(*sum, both, row);
                }
            }
        }
        for (q, sums) in sums.iter().enumerate() {
            for (p, &sum) in sums.iter().enumerate() {
                let line: &mut [f32] = &mut out[q * width + p * PANEL_ROWS..][..PANEL_ROWS];
                // SAFETY: the slice is 64 bytes long, and the store needs no alignment.
                unsafe { _mm512_storeu_ps(line.as_mut_ptr(), sum) };
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

        #[test]
        fn every_kernel_of_bytes_is_exact(
            (left, right) in (0_usize..300)
                .prop_flat_map(|dim| (prop::collection::vec(any::<i8>(), dim), prop::collection::vec(any::<u8>(), dim)))
        ) {
            let wanted = portable_i8(&left, &right);
            Kernels::all().iter().for_each(|kernels| assert_eq!(kernels.dot_i8(&left, &right), wanted));
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
                (kernels.interleave)(rows, &mut panel);
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
