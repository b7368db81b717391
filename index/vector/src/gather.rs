//! Products of one query with rows that lie anywhere: those a walk meets.
//!
//! Nothing in the loop over rows depends on the row before or branches on what a product is, so the
//! machine waits for many rows at once.

use crate::Kernels;

/// Bytes of a cache line, and of a register.
const LINE: usize = 64;

/// Writes `Σ query · row`, exactly, for each of the rows of `query.len()` bytes that `numbers` names.
///
/// # Panics
/// If there is no such row, or not one place in `out` a number.
pub fn gather_i8(query: &[i8], rows: &[u8], numbers: &[u32], out: &mut [i32]) {
    assert_eq!(numbers.len(), out.len(), "a product a row");
    #[cfg(target_arch = "x86_64")]
    if x86::gather(query, rows, numbers, out) {
        return;
    }
    one_by_one(query, rows, numbers, out);
}

fn one_by_one(query: &[i8], rows: &[u8], numbers: &[u32], out: &mut [i32]) {
    let kernels = Kernels::best();
    for (&number, out) in numbers.iter().zip(out) {
        *out = kernels.dot_i8(query, &rows[number as usize * query.len()..][..query.len()]);
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loads through pointers, and calls of functions that need instructions")]
mod x86 {
    use std::arch::x86_64::*;

    use super::LINE;

    /// Whether the machine has the instructions and the query is of 1 to 4 whole lines.
    #[inline]
    pub(super) fn gather(query: &[i8], rows: &[u8], numbers: &[u32], out: &mut [i32]) -> bool {
        let (query, rest) = query.as_chunks::<LINE>();
        let has_wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        if !rest.is_empty() || !has_wide {
            return false;
        }
        let rows = rows.as_chunks::<LINE>().0;
        // SAFETY: the machine has AVX-512 with VNNI.
        unsafe {
            match *query {
                [a] => lines([&a], rows, numbers, out),
                [a, b] => lines([&a, &b], rows, numbers, out),
                [a, b, c] => lines([&a, &b, &c], rows, numbers, out),
                [a, b, c, d] => lines([&a, &b, &c, &d], rows, numbers, out),
                _ => return false,
            }
        }
        true
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn lines<const LINES: usize>(
        query: [&[i8; LINE]; LINES],
        rows: &[[u8; LINE]],
        numbers: &[u32],
        out: &mut [i32],
    ) {
        // SAFETY: the array is 64 bytes long, and the load needs no alignment.
        let query = query.map(|line| unsafe { _mm512_loadu_si512(line.as_ptr().cast()) });
        for (&number, out) in numbers.iter().zip(out) {
            let row = &rows[number as usize * LINES..][..LINES];
            let mut sum = _mm512_setzero_si512();
            for (line, query) in row.iter().zip(query) {
                // SAFETY: as above.
                let line = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
                sum = _mm512_dpbusd_epi32(sum, line, query);
            }
            *out = _mm512_reduce_add_epi32(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gathered_products_are_those_of_the_rows(
            (query, rows, numbers) in prop_oneof![(1_usize..7).prop_map(|lines| lines * LINE), 0_usize..300]
                .prop_flat_map(|width| (
                    prop::collection::vec(any::<i8>(), width),
                    prop::collection::vec(any::<u8>(), 9 * width),
                    prop::collection::vec(0_u32..9, 0..40),
                ))
        ) {
            let mut out = vec![0; numbers.len()];
            gather_i8(&query, &rows, &numbers, &mut out);
            for (&number, &found) in numbers.iter().zip(&out) {
                let row = &rows[number as usize * query.len()..][..query.len()];
                let wanted: i32 = query.iter().zip(row).map(|(&q, &r)| i32::from(q) * i32::from(r)).sum();
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_row_that_is_not_there_is_refused() {
        gather_i8(&[1; 128], &[1; 256], &[0, 2], &mut [0; 2]);
    }
}
