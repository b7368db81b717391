//! Rows that only grow, shared between the writer and every reader's snapshot.

use std::sync::Arc;

/// Rows in a chunk. A commit copies at most one chunk that readers still hold (384 KiB at 384
/// dimensions), and a chunk is the gallery side of one matrix product.
pub const CHUNK_ROWS: usize = 256;

/// An append-only matrix in chunks of [`CHUNK_ROWS`] rows. A clone shares every chunk; the first
/// append after a clone copies only the last, unfilled one.
#[derive(Debug, Clone)]
pub struct Chunked {
    width: usize,
    len: usize,
    chunks: Vec<Arc<Vec<f32>>>,
}

impl Chunked {
    /// No rows yet, of `width` numbers each.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(width: usize) -> Chunked {
        assert!(width > 0, "a row has at least one number");
        Chunked { width, len: 0, chunks: Vec::new() }
    }

    /// A column of one number a row.
    pub fn column(numbers: impl IntoIterator<Item = f32>) -> Chunked {
        let mut column = Chunked::new(1);
        for number in numbers {
            column.push(&[number]);
        }
        column
    }

    /// The numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends one row.
    ///
    /// # Panics
    /// If the row is not `width` numbers long.
    pub fn push(&mut self, row: &[f32]) {
        assert_eq!(row.len(), self.width, "a row has the width of its matrix");
        if self.len.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK_ROWS * self.width)));
        }
        if let Some(last) = self.chunks.last_mut() {
            Arc::make_mut(last).extend_from_slice(row);
        }
        self.len += 1;
    }

    /// Row `row`, counted from 0.
    pub fn row(&self, row: usize) -> &[f32] {
        let chunk = &self.chunks[row / CHUNK_ROWS];
        &chunk[(row % CHUNK_ROWS) * self.width..][..self.width]
    }

    /// The single number of row `row`, for a column.
    pub fn at(&self, row: usize) -> f32 {
        debug_assert_eq!(self.width, 1, "only a column has one number a row");
        self.chunks[row / CHUNK_ROWS][row % CHUNK_ROWS]
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The rows of chunk `chunk`, one after the other; the first is row `chunk * CHUNK_ROWS`.
    pub fn chunk(&self, chunk: usize) -> &[f32] {
        &self.chunks[chunk]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_its_rows_while_the_original_grows() {
        let mut grown = Chunked::new(2);
        for row in 0..300_u16 {
            grown.push(&[f32::from(row), 0.5]);
        }
        let kept = grown.clone();
        grown.push(&[-1.0, -2.0]);
        assert_eq!((kept.len(), grown.len()), (300, 301));
        assert_eq!(kept.chunk(1).len(), 2 * (300 - CHUNK_ROWS));
        assert_eq!(grown.row(300), &[-1.0, -2.0]);
        assert_eq!(grown.row(257), &[257.0, 0.5]);
        assert!(Arc::ptr_eq(&kept.chunks[0], &grown.chunks[0]));
    }
}
