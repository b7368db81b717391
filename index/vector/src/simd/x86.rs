//! The one place with instructions of a machine. Intrinsics are safe where the functions that use them
//! say which instructions they need; what is left unsafe is reading through pointers, which are taken
//! from arrays of just the length that is read, and calling such functions, which is done only after
//! asking the machine.

#![expect(unsafe_code, reason = "loads through pointers, and calls of functions that need instructions")]

use std::arch::x86_64::*;

use half::bf16;

use super::halves::{Pair, length_of_lost, round};
use super::{Kernels, PANEL_ROWS, PORTABLE, Places, interleave_from, portable_i8};

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
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<BYTES>(), right.as_chunks::<BYTES>());
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
