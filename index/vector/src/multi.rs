//! MaxSim of many queries and points at once.

use std::ops::Range;

use crate::{Chunked, matrix_product};

/// Numbers of a side of a product, so that what is multiplied and the products stay in a core's cache.
const SIDE_NUMBERS: usize = 1 << 16;

/// Writes [`max_sim`](crate::max_sim) of each of `asked`, rows of `queries`, with each of `span`, rows of `points`: a
/// line a point. A number may differ from that of the pair alone as [`product_error`](crate::product_error) says of
/// the longest vectors of both.
///
/// # Panics
/// If a range is not of rows of one chunk, or `block` has not a number for each pair.
pub fn max_sim_block(
    queries: &Chunked,
    asked: &Range<usize>,
    points: &Chunked,
    span: &Range<usize>,
    block: &mut [f32],
) {
    let width = asked.len();
    assert_eq!(block.len(), width * span.len(), "a number a pair");
    let mut products = Vec::new();
    for rows in runs(points, span) {
        for slots in runs(queries, asked) {
            products.clear();
            let (left, right) = (queries.within_chunk(&slots), points.within_chunk(&rows));
            let (dim, across) = (points.width(), right.len() / points.width());
            products.resize(left.len() / dim * across, 0.0);
            matrix_product(left, right, dim, &mut products);
            let mut rest = &products[..];
            for slot in slots {
                let (own, after) = rest.split_at(queries.row(slot).len() / dim * across);
                rest = after;
                let mut first = 0;
                for row in rows.clone() {
                    let columns = first..first + points.row(row).len() / dim;
                    first = columns.end;
                    let place = (row - span.start) * width + (slot - asked.start);
                    block[place] = mean_of_best(own, across, columns);
                }
            }
        }
    }
}

/// The mean over lines of the largest number in some columns; 0 without any.
#[expect(clippy::cast_possible_truncation, reason = "similarities are kept in 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "a count of vectors is far below 2^53")]
fn mean_of_best(lines: &[f32], across: usize, columns: Range<usize>) -> f32 {
    if lines.is_empty() || columns.is_empty() {
        return 0.0;
    }
    let best = |line: &[f32]| line[columns.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = lines.chunks_exact(across).map(|line| f64::from(best(line))).sum();
    (sum / (lines.len() / across) as f64) as f32
}

/// Cuts a range of rows where their numbers grow too many; a row is never cut.
fn runs(matrix: &Chunked, rows: &Range<usize>) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut numbers) = (rows.start, 0);
    for row in rows.clone() {
        numbers += matrix.row(row).len();
        if numbers >= SIDE_NUMBERS {
            runs.push(start..row + 1);
            (start, numbers) = (row + 1, 0);
        }
    }
    if start < rows.end {
        runs.push(start..rows.end);
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::max_sim;

    /// Rows of vectors of 3 numbers.
    fn matrix(rows: usize) -> impl Strategy<Value = Chunked> {
        let row = prop::collection::vec(prop::array::uniform3(-1.0_f32..1.0), 0..5);
        prop::collection::vec(row, rows).prop_map(|rows| {
            let mut matrix = Chunked::ragged(3);
            rows.iter().for_each(|row| matrix.push(&row.concat()));
            matrix
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn blocks_are_max_sim_of_every_pair((points, queries) in (matrix(300), matrix(280))) {
            for (span, asked) in [(0..256, 256..280), (256..300, 0..256), (3..4, 5..6), (7..7, 0..9)] {
                let mut block = vec![f32::NAN; span.len() * asked.len()];
                max_sim_block(&queries, &asked, &points, &span, &mut block);
                for (row, line) in span.zip(block.chunks_exact(asked.len())) {
                    for (query, &found) in asked.clone().zip(line) {
                        let wanted = max_sim(queries.row(query), points.row(row), 3);
                        prop_assert!((found - wanted).abs() < 1e-6, "{} {}: {} for {}", row, query, found, wanted);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_cut_into_runs_that_fit_a_cache() {
        let mut matrix = Chunked::ragged(1);
        let lengths = [1, SIDE_NUMBERS, 5, 0, SIDE_NUMBERS - 1, 3];
        lengths.iter().for_each(|&length| matrix.push(&vec![0.0; length]));
        assert_eq!(runs(&matrix, &(0..6)), [0..2, 2..5, 5..6]);
        assert_eq!(runs(&matrix, &(2..2)), []);
    }
}
