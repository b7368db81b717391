//! Rows that only grow, shared between the writer and every reader's snapshot.

use std::sync::Arc;

/// Rows in a chunk. A commit copies at most one chunk that readers still hold (384 KiB at 384
/// dimensions), and a chunk is the gallery side of one matrix product.
pub const CHUNK_ROWS: usize = 256;

/// An append-only matrix in chunks of [`CHUNK_ROWS`] rows. A clone shares every chunk; the first
/// append after a clone copies only the last, unfilled one. Chunks of rows that nobody asks for any more
/// can be cleared: they share one chunk of zeros.
#[derive(Debug, Clone)]
pub struct Chunked {
    width: usize,
    len: usize,
    chunks: Vec<Arc<Vec<f32>>>,
    /// What stands for every cleared chunk, once there is one.
    zeros: Option<Arc<Vec<f32>>>,
}

impl Chunked {
    /// No rows yet, of `width` numbers each.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(width: usize) -> Chunked {
        assert!(width > 0, "a row has at least one number");
        Chunked { width, len: 0, chunks: Vec::new(), zeros: None }
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

    /// Appends `rows` rows of zeros. Whole chunks of them take no memory of their own.
    pub fn push_zeros(&mut self, rows: usize) {
        let end = self.len + rows;
        while self.len < end {
            if self.len.is_multiple_of(CHUNK_ROWS) && end - self.len >= CHUNK_ROWS {
                let zeros = self.shared_zeros();
                self.chunks.push(zeros);
                self.len += CHUNK_ROWS;
            } else {
                self.push(&vec![0.0; self.width]);
            }
        }
    }

    /// Replaces the numbers of a row. Clones keep theirs: the chunk is copied if one holds it.
    ///
    /// # Panics
    /// If there is no such row, or the numbers are not `width`.
    pub fn set(&mut self, row: usize, numbers: &[f32]) {
        let chunk = Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS]);
        chunk[(row % CHUNK_ROWS) * self.width..][..self.width].copy_from_slice(numbers);
    }

    /// Makes all rows of a chunk zeros and gives its memory back once no clone holds it. The last chunk is
    /// left as it is while it is not full.
    pub fn clear_chunk(&mut self, chunk: usize) {
        if (chunk + 1) * CHUNK_ROWS <= self.len {
            self.chunks[chunk] = self.shared_zeros();
        }
    }

    fn shared_zeros(&mut self) -> Arc<Vec<f32>> {
        let zeros = || Arc::new(vec![0.0; CHUNK_ROWS * self.width]);
        Arc::clone(self.zeros.get_or_insert_with(zeros))
    }

    /// How many chunks take memory: all cleared ones together count as one.
    pub fn resident_chunks(&self) -> usize {
        let is_own = |chunk: &&Arc<Vec<f32>>| !self.zeros.as_ref().is_some_and(|it| Arc::ptr_eq(it, chunk));
        self.chunks.iter().filter(is_own).count() + usize::from(self.zeros.is_some())
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

    #[test]
    fn cleared_chunks_are_zeros_and_take_the_memory_of_one() {
        let mut matrix = Chunked::new(2);
        (0..1000_u16).for_each(|row| matrix.push(&[f32::from(row), 1.0]));
        let kept = matrix.clone();
        for (chunk, resident) in [(0, 4), (2, 3), (0, 3), (3, 3)] {
            matrix.clear_chunk(chunk);
            assert_eq!(matrix.resident_chunks(), resident, "chunk {chunk}");
        }
        // The last chunk is not full, and stays.
        assert_eq!((matrix.row(767), matrix.row(768)), (&[0.0, 0.0][..], &[768.0, 1.0][..]));
        assert_eq!(
            (matrix.row(0), matrix.row(256), kept.row(1)),
            (&[0.0; 2][..], &[256.0, 1.0][..], &[1.0; 2][..])
        );
        (0..24).for_each(|_| matrix.push(&[5.0, 5.0]));
        matrix.clear_chunk(3);
        matrix.push(&[6.0, 7.0]);
        assert_eq!((matrix.len(), matrix.resident_chunks()), (1025, 3));
        assert_eq!((matrix.row(1023), matrix.row(1024)), (&[0.0, 0.0][..], &[6.0, 7.0][..]));
    }

    #[test]
    fn a_row_is_replaced_and_clones_and_other_zeros_keep_theirs() {
        let mut matrix = Chunked::new(2);
        matrix.push_zeros(600);
        let kept = matrix.clone();
        matrix.set(300, &[1.0, 2.0]);
        matrix.set(599, &[3.0, 4.0]);
        assert_eq!((matrix.row(300), matrix.row(599)), (&[1.0, 2.0][..], &[3.0, 4.0][..]));
        assert!((0..600).all(|row| kept.row(row) == [0.0; 2]));
        assert!((0..600).filter(|row| ![300, 599].contains(row)).all(|row| matrix.row(row) == [0.0; 2]));
    }

    #[test]
    fn zeros_are_appended_by_whole_chunks_where_they_fit() {
        let mut matrix = Chunked::new(3);
        matrix.push(&[1.0; 3]);
        matrix.push_zeros(1000);
        matrix.push(&[2.0; 3]);
        assert_eq!((matrix.len(), matrix.chunk_count(), matrix.resident_chunks()), (1002, 4, 3));
        let ones: Vec<usize> = (0..1002).filter(|&row| matrix.row(row) != [0.0; 3]).collect();
        assert_eq!(ones, [0, 1001]);
        assert_eq!(matrix.chunk(3).len(), 3 * (1002 - 768));
    }
}
