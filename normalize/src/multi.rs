//! Similarities of points of several vectors each.

use std::ops::Range;

use dehub_vector::{Chunked, matrix_product};

/// Numbers of a side of a product, so that what is multiplied and the products stay in a core's cache.
const SIDE_NUMBERS: usize = 1 << 16;

/// Writes MaxSim of each of `entries`, as a query, with each point of `span`, a line a point. Both are rows of one
/// chunk.
pub(crate) fn similarities(
    span: &Range<usize>,
    points: &Chunked,
    entries: &Range<usize>,
    bank: &Chunked,
    block: &mut [f32],
) {
    let width = entries.len();
    let mut products = Vec::new();
    for rows in runs(points, span) {
        for slots in runs(bank, entries) {
            products.clear();
            let (left, right) = (bank.within_chunk(&slots), points.within_chunk(&rows));
            let (dim, across) = (points.width(), right.len() / points.width());
            products.resize(left.len() / dim * across, 0.0);
            matrix_product(left, right, dim, &mut products);
            let mut rest = &products[..];
            for slot in slots {
                let (own, after) = rest.split_at(bank.row(slot).len() / dim * across);
                rest = after;
                let mut first = 0;
                for row in rows.clone() {
                    let columns = first..first + points.row(row).len() / dim;
                    first = columns.end;
                    let place = (row - span.start) * width + (slot - entries.start);
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
    use dehub_vector::max_sim;

    use super::*;

    /// Rows of 0 to 40 vectors of 24 numbers.
    fn matrix(rows: usize, seed: u64) -> Chunked {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut matrix = Chunked::ragged(24);
        for _ in 0..rows {
            let count = random.usize(0..=40);
            matrix.push(&(0..24 * count).map(|_| random.f32() - 0.5).collect::<Vec<_>>());
        }
        matrix
    }

    #[test]
    fn blocks_are_max_sim_of_every_pair() {
        let (points, bank) = (matrix(300, 1), matrix(600, 2));
        for (span, entries) in [(0..256, 256..512), (256..300, 512..600), (3..4, 5..6), (7..7, 0..9)] {
            let mut block = vec![f32::NAN; span.len() * entries.len()];
            similarities(&span, &points, &entries, &bank, &mut block);
            for (row, line) in span.zip(block.chunks_exact(entries.len())) {
                for (slot, &found) in entries.clone().zip(line) {
                    let wanted = max_sim(bank.row(slot), points.row(row), 24);
                    assert!((found - wanted).abs() < 1e-6, "{row} {slot}: {found} for {wanted}");
                }
            }
        }
    }
}
