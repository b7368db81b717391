//! The one place with instructions of a machine. Intrinsics are safe where the functions that use them
//! say which instructions they need; what is left unsafe is reading through pointers, which are taken
//! from arrays of just the length that is read, and calling such functions, which is done only after
//! asking the machine.

#![expect(unsafe_code, reason = "loads through pointers, and calls of functions that need instructions")]

use std::arch::x86_64::*;

use half::bf16;

use super::bytes::{self, Coded, GROUP, Quad, QuadBlock, QuadPanels, QuadRows, Quads, ZERO, portable_i8};
use super::halves::{Pair, length_of_lost, round};
use super::{Kernels, PANEL_ROWS, PORTABLE, Places, interleave_from};

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
        let quads = |queries: &Quads, panels: &QuadPanels, out: &mut [f32]| {
            // SAFETY: as above.
            unsafe { quads_avx2(queries, panels, out) }
        };
        kernels.push(Kernels { name: "AVX2", dot_bf16, quads: Some(quads), ..PORTABLE });
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
        let quads = |queries: &Quads, panels: &QuadPanels, out: &mut [f32]| {
            // SAFETY: as above.
            unsafe { quads_avx512(queries, panels, out) }
        };
        let interleave_pairs = |rows: &[Pair], panel: &mut [[Pair; PANEL_ROWS]]| {
            // SAFETY: as above.
            unsafe { interleave_avx512(rows, panel.as_chunks_mut::<1>().0, 0) }
        };
        let interleave_quads = |rows: &[[u8; 4]], block: &mut [QuadBlock], place: usize| {
            // SAFETY: as above.
            unsafe { interleave_avx512(rows, block, place) }
        };
        // SAFETY: as above.
        let code_row = |row: &[f32], out: &mut [u8]| unsafe { code_avx512(row, out) };
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
            quads: Some(quads),
            interleave_pairs,
            interleave_quads,
            round_row,
            code_row,
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

/// Squares of 16 rows by 16 words of 32 bits, each transposed in registers.
#[target_feature(enable = "avx512f")]
fn interleave_avx512<W: Copy, const N: usize>(rows: &[W], block: &mut [[[W; PANEL_ROWS]; N]], panel: usize) {
    const { assert!(size_of::<W>() == 4, "words of 32 bits") };
    let words = block.len();
    let (squares, _) = block.as_chunks_mut::<PANEL_ROWS>();
    let whole = squares.len() * PANEL_ROWS;
    for (square, first) in squares.iter_mut().zip((0..).step_by(PANEL_ROWS)) {
        let lines = std::array::from_fn(|row| {
            let line: &[W] = &rows[row * words + first..][..PANEL_ROWS];
            // SAFETY: the slice is 64 bytes long, and the load needs no alignment.
            unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
        });
        for (together, column) in square.iter_mut().zip(transpose(lines)) {
            // SAFETY: the array is 64 bytes long, and the store needs no alignment.
            unsafe { _mm512_storeu_si512(together[panel].as_mut_ptr().cast(), column) };
        }
    }
    interleave_from(whole, rows, block, panel);
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

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn code_avx512(row: &[f32], out: &mut [u8]) -> Coded {
    let ((blocks, rest), (outs, out_rest)) =
        (row.as_chunks::<PANEL_ROWS>(), out.as_chunks_mut::<PANEL_ROWS>());
    // SAFETY: the array is 64 bytes long, and the load needs no alignment.
    let load = |numbers: &[f32; PANEL_ROWS]| unsafe { _mm512_loadu_ps(numbers.as_ptr()) };
    let mut longest = _mm512_setzero_ps();
    for numbers in blocks {
        longest = _mm512_max_ps(longest, _mm512_abs_ps(load(numbers)));
    }
    let longest = rest.iter().fold(_mm512_reduce_max_ps(longest), |longest, x| longest.max(x.abs()));
    let scales = bytes::scales(longest);
    let (scale, inverse) = (_mm512_set1_ps(scales.0), _mm512_set1_ps(scales.1));
    let mut squares = _mm512_setzero_ps();
    for (numbers, out) in blocks.iter().zip(outs) {
        let numbers = load(numbers);
        let codes = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, inverse));
        let lost = _mm512_sub_ps(numbers, _mm512_mul_ps(_mm512_cvtepi32_ps(codes), scale));
        squares = _mm512_fmadd_ps(lost, lost, squares);
        let bytes = _mm_xor_si128(_mm512_cvtepi32_epi8(codes), _mm_set1_epi8(ZERO.cast_signed()));
        // SAFETY: the array is 16 bytes long, and the store needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) };
    }
    let mut sum = _mm512_reduce_add_ps(squares);
    for (&number, out) in rest.iter().zip(out_rest) {
        let (byte, lost) = bytes::code(number, scales);
        *out = byte;
        sum += lost * lost;
    }
    bytes::coded(row.len(), scales.0, sum)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn quads_avx512(queries: &Quads, panels: &QuadPanels, out: &mut [f32]) {
    let width = panels.rows();
    for (place, (block, scales)) in panels.blocks().enumerate() {
        for (first, size, group) in queries.groups() {
            let from = Side { queries, first, out: first * width + place * scales.len(), width };
            match size {
                1 => quad_tile::<1>(&from, group, block, scales, out),
                2 => quad_tile::<2>(&from, group, block, scales, out),
                3 => quad_tile::<3>(&from, group, block, scales, out),
                4 => quad_tile::<4>(&from, group, block, scales, out),
                5 => quad_tile::<5>(&from, group, block, scales, out),
                _ => quad_tile::<GROUP>(&from, group, block, scales, out),
            }
        }
    }
}

/// Where the sums of a group of queries come from and go to.
struct Side<'a> {
    queries: &'a Quads,
    /// The first query of the group.
    first: usize,
    /// The place of its first number; each line is `width` long.
    out: usize,
    width: usize,
}

/// `Q` queries by a block of panels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn quad_tile<const Q: usize>(
    side: &Side<'_>,
    group: &[Quad],
    block: &[QuadBlock],
    row_scales: &[f32],
    out: &mut [f32],
) {
    let Side { queries, first, .. } = *side;
    let mut sums: [[__m512i; bytes::PANELS]; Q] =
        std::array::from_fn(|q| [_mm512_set1_epi32(queries.starts[first + q]); bytes::PANELS]);
    for (fours, panels) in group.as_chunks::<Q>().0.iter().zip(block) {
        // SAFETY: the array is 64 bytes long, and the load needs no alignment.
        let load = |rows: &QuadRows| unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) };
        let rows = panels.each_ref().map(load);
        for (sums, four) in sums.iter_mut().zip(fours) {
            let four = _mm512_set1_epi32(i32::from_ne_bytes(four.map(i8::cast_unsigned)));
            for (sum, &row) in sums.iter_mut().zip(&rows) {
                *sum = _mm512_dpbusd_epi32(*sum, row, four);
            }
        }
    }
    for (q, sums) in sums.iter().enumerate() {
        let scale = _mm512_set1_ps(queries.scales[first + q]);
        let line = &mut out[side.out + q * side.width..][..row_scales.len()];
        let lines =
            line.as_chunks_mut::<PANEL_ROWS>().0.iter_mut().zip(row_scales.as_chunks::<PANEL_ROWS>().0);
        for (&sum, (line, scales)) in sums.iter().zip(lines) {
            // SAFETY: the array is 64 bytes long, and the load needs no alignment.
            let scales = unsafe { _mm512_loadu_ps(scales.as_ptr()) };
            let product = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), scales);
            // SAFETY: the array is 64 bytes long, and the store needs no alignment.
            unsafe { _mm512_storeu_ps(line.as_mut_ptr(), product) };
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn quads_avx2(queries: &Quads, panels: &QuadPanels, out: &mut [f32]) {
    const HALF: usize = PANEL_ROWS / 2;
    let width = panels.rows();
    for (place, (block, scales)) in panels.blocks().enumerate() {
        for (first, size, group) in queries.groups() {
            let from = Side { queries, first, out: first * width + place * scales.len(), width };
            for (half, scales) in scales.as_chunks::<HALF>().0.iter().enumerate() {
                match size {
                    1 => quad_tile_avx2::<1>(&from, group, (block, half), scales, out),
                    2 => quad_tile_avx2::<2>(&from, group, (block, half), scales, out),
                    3 => quad_tile_avx2::<3>(&from, group, (block, half), scales, out),
                    4 => quad_tile_avx2::<4>(&from, group, (block, half), scales, out),
                    5 => quad_tile_avx2::<5>(&from, group, (block, half), scales, out),
                    _ => quad_tile_avx2::<GROUP>(&from, group, (block, half), scales, out),
                }
            }
        }
    }
}

/// `Q` queries by one half of a panel. The sum of two products of 16 bits saturates beyond 32,767; codes
/// of size 127 by 128 at most are below that, with the signs of rows on the side of the queries.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn quad_tile_avx2<const Q: usize>(
    side: &Side<'_>,
    group: &[Quad],
    (block, half): (&[QuadBlock], usize),
    row_scales: &[f32; PANEL_ROWS / 2],
    out: &mut [f32],
) {
    let (zero, ones) = (_mm256_set1_epi8(ZERO.cast_signed()), _mm256_set1_epi16(1));
    let mut sums = [_mm256_setzero_si256(); Q];
    for (fours, panels) in group.as_chunks::<Q>().0.iter().zip(block) {
        let rows = &panels.as_flattened().as_chunks::<{ PANEL_ROWS / 2 }>().0[half];
        // SAFETY: the array is 32 bytes long, and the load needs no alignment.
        let rows = _mm256_xor_si256(unsafe { _mm256_loadu_si256(rows.as_ptr().cast()) }, zero);
        let sizes = _mm256_abs_epi8(rows);
        for (sum, four) in sums.iter_mut().zip(fours) {
            let four = _mm256_set1_epi32(i32::from_ne_bytes(four.map(i8::cast_unsigned)));
            let twos = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(four, rows));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(twos, ones));
        }
    }
    // SAFETY: the array is 32 bytes long, and the load needs no alignment.
    let row_scales = unsafe { _mm256_loadu_ps(row_scales.as_ptr()) };
    for (q, &sum) in sums.iter().enumerate() {
        let scale = _mm256_set1_ps(side.queries.scales[side.first + q]);
        let product = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale), row_scales);
        let line: &mut [f32] =
            &mut out[side.out + q * side.width + half * (PANEL_ROWS / 2)..][..PANEL_ROWS / 2];
        // SAFETY: the slice is 32 bytes long, and the store needs no alignment.
        unsafe { _mm256_storeu_ps(line.as_mut_ptr(), product) };
    }
}
