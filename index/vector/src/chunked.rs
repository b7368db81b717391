//! Rows that only grow, shared between the writer and every reader's snapshot.

use std::sync::Arc;

use crate::{dot, max_sim};

/// Rows in a chunk. A commit copies at most one chunk that readers still hold (384 KiB at 384
/// dimensions), and a chunk is the gallery side of one matrix product.
pub const CHUNK_ROWS: usize = 256;

/// An append-only matrix in chunks of [`CHUNK_ROWS`] rows. A clone shares every chunk; the first
/// append after a clone copies only the last, unfilled one. Chunks of rows that nobody asks for any more
/// can be cleared: they share one chunk of zeros.
///
/// A *ragged* one has any number of vectors of one width in a row, one after the other; rows without any take
/// the place of zeros.
#[derive(Debug, Clone)]
pub struct Chunked {
    width: usize,
    len: usize,
    is_ragged: bool,
    chunks: Vec<Arc<Chunk>>,
    /// What stands for every cleared chunk, once there is one.
    zeros: Option<Arc<Chunk>>,
}

#[derive(Debug, Clone, Default)]
struct Chunk {
    numbers: Vec<f32>,
    /// Of a ragged matrix: how many numbers there are up to the end of each row.
    ends: Vec<usize>,
}

impl Chunk {
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        row.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[row]
    }
}

impl Chunked {
    /// No rows yet, of `width` numbers each.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(width: usize) -> Chunked {
        assert!(width > 0, "a row has at least one number");
        Chunked { width, len: 0, is_ragged: false, chunks: Vec::new(), zeros: None }
    }

    /// No rows yet, each to be of any number of vectors of `width` numbers.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn ragged(width: usize) -> Chunked {
        Chunked { is_ragged: true, ..Chunked::new(width) }
    }

    /// No rows yet, of the same kind as those of this one.
    #[must_use]
    pub fn empty_like(&self) -> Chunked {
        Chunked { is_ragged: self.is_ragged, ..Chunked::new(self.width) }
    }

    /// A column of one number a row.
    pub fn column(numbers: impl IntoIterator<Item = f32>) -> Chunked {
        let mut column = Chunked::new(1);
        for number in numbers {
            column.push(&[number]);
        }
        column
    }

    /// The numbers in a row, or in each vector of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether a row can have any number of vectors.
    pub fn is_ragged(&self) -> bool {
        self.is_ragged
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
    /// If the row is not `width` numbers long, or of a ragged matrix not a multiple of it.
    pub fn push(&mut self, row: &[f32]) {
        self.check(row);
        if self.len.is_multiple_of(CHUNK_ROWS) {
            let room = if self.is_ragged { 0 } else { CHUNK_ROWS * self.width };
            let numbers = Vec::with_capacity(room);
            self.chunks.push(Arc::new(Chunk { numbers, ends: Vec::new() }));
        }
        if let Some(last) = self.chunks.last_mut() {
            let last = Arc::make_mut(last);
            last.numbers.extend_from_slice(row);
            if self.is_ragged {
                last.ends.push(last.numbers.len());
            }
        }
        self.len += 1;
    }

    fn check(&self, row: &[f32]) {
        if self.is_ragged {
            assert!(row.len().is_multiple_of(self.width), "a row is of whole vectors");
        } else {
            assert_eq!(row.len(), self.width, "a row has the width of its matrix");
        }
    }

    /// What a row without a point has.
    fn blank(&self) -> Vec<f32> {
        vec![0.0; if self.is_ragged { 0 } else { self.width }]
    }

    /// Appends `rows` rows of zeros, ragged ones without a vector. Whole chunks of them take no memory of their
    /// own.
    pub fn push_zeros(&mut self, rows: usize) {
        let end = self.len + rows;
        while self.len < end {
            if self.len.is_multiple_of(CHUNK_ROWS) && end - self.len >= CHUNK_ROWS {
                let zeros = self.shared_zeros();
                self.chunks.push(zeros);
                self.len += CHUNK_ROWS;
            } else {
                self.push(&self.blank());
            }
        }
    }

    /// Replaces the numbers of a row. Clones keep theirs: the chunk is copied if one holds it.
    ///
    /// # Panics
    /// If there is no such row, or the numbers are no row.
    pub fn set(&mut self, row: usize, numbers: &[f32]) {
        self.check(numbers);
        let (place, is_ragged, width) = (row % CHUNK_ROWS, self.is_ragged, self.width);
        let chunk = Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS]);
        if !is_ragged {
            chunk.numbers[place * width..][..width].copy_from_slice(numbers);
            return;
        }
        let old = chunk.range(place);
        for end in &mut chunk.ends[place..] {
            *end = *end - old.len() + numbers.len();
        }
        chunk.numbers.splice(old, numbers.iter().copied());
    }

    /// Makes all rows of a chunk zeros and gives its memory back once no clone holds it. The last chunk is
    /// left as it is while it is not full.
    pub fn clear_chunk(&mut self, chunk: usize) {
        if (chunk + 1) * CHUNK_ROWS <= self.len {
            self.chunks[chunk] = self.shared_zeros();
        }
    }

    fn shared_zeros(&mut self) -> Arc<Chunk> {
        let zeros = || {
            Arc::new(if self.is_ragged {
                Chunk { numbers: Vec::new(), ends: vec![0; CHUNK_ROWS] }
            } else {
                Chunk { numbers: vec![0.0; CHUNK_ROWS * self.width], ends: Vec::new() }
            })
        };
        Arc::clone(self.zeros.get_or_insert_with(zeros))
    }

    /// How many chunks take memory: all cleared ones together count as one.
    pub fn resident_chunks(&self) -> usize {
        let is_own = |chunk: &&Arc<Chunk>| !self.zeros.as_ref().is_some_and(|it| Arc::ptr_eq(it, chunk));
        self.chunks.iter().filter(is_own).count() + usize::from(self.zeros.is_some())
    }

    /// Row `row`, counted from 0.
    pub fn row(&self, row: usize) -> &[f32] {
        let (chunk, place) = (&self.chunks[row / CHUNK_ROWS], row % CHUNK_ROWS);
        if self.is_ragged {
            return &chunk.numbers[chunk.range(place)];
        }
        &chunk.numbers[place * self.width..][..self.width]
    }

    /// The single number of row `row`, for a column.
    pub fn at(&self, row: usize) -> f32 {
        debug_assert_eq!(self.width, 1, "only a column has one number a row");
        self.chunks[row / CHUNK_ROWS].numbers[row % CHUNK_ROWS]
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The rows of chunk `chunk`, one after the other; the first is row `chunk * CHUNK_ROWS`.
    pub fn chunk(&self, chunk: usize) -> &[f32] {
        &self.chunks[chunk].numbers
    }

    /// The numbers of some rows of one chunk, one row after the other.
    ///
    /// # Panics
    /// If the rows are not all of one chunk.
    pub fn within_chunk(&self, rows: &std::ops::Range<usize>) -> &[f32] {
        let (Some(last), first) = (rows.len().checked_sub(1), rows.start % CHUNK_ROWS) else { return &[] };
        let chunk = &self.chunks[rows.start / CHUNK_ROWS];
        if self.is_ragged {
            return &chunk.numbers[chunk.range(first).start..chunk.range(first + last).end];
        }
        &chunk.numbers[first * self.width..][..rows.len() * self.width]
    }

    /// The inner product of a query and row `row`; of several vectors each, [`max_sim`].
    pub fn product(&self, query: &[f32], row: usize) -> f32 {
        if self.is_ragged { max_sim(query, self.row(row), self.width) } else { dot(query, self.row(row)) }
    }

    /// The largest squared length of a vector of row `row`.
    pub fn square(&self, row: usize) -> f32 {
        longest_square(self.row(row), self.width)
    }
}

/// The largest squared length of vectors of `width` numbers, one after the other; 0 of none.
pub fn longest_square(vectors: &[f32], width: usize) -> f32 {
    vectors.chunks_exact(width).map(|vector| dot(vector, vector)).fold(0.0, f32::max)
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

    #[test]
    fn ragged_rows_are_of_any_number_of_vectors() {
        let mut matrix = Chunked::ragged(2);
        let row = |row: u16| vec![f32::from(row); 2 * usize::from(row % 4)];
        (0..600).for_each(|number| matrix.push(&row(number)));
        let kept = matrix.clone();
        assert!((0..600).all(|number| matrix.row(usize::from(number)) == row(number)));
        for (number, vectors) in [(0, 3), (257, 0), (258, 7), (599, 1)] {
            matrix.set(number, &vec![-1.0; 2 * vectors]);
            assert_eq!(matrix.row(number), vec![-1.0; 2 * vectors]);
        }
        let mut others = (0..600).filter(|number| ![0, 257, 258, 599].contains(number));
        assert!(others.all(|number| matrix.row(usize::from(number)) == row(number)));
        assert!((0..600).all(|number| kept.row(usize::from(number)) == row(number)));
        matrix.clear_chunk(1);
        assert!((256..512).all(|number| matrix.row(number).is_empty()));
        assert_eq!((matrix.row(3), matrix.row(514)), (&[3.0; 6][..], &[514.0; 4][..]));
        assert_eq!(matrix.within_chunk(&(512..515)), [&[513.0; 2][..], &[514.0; 4]].concat());
        matrix.push_zeros(500);
        matrix.push(&[1.0; 2]);
        assert_eq!((matrix.len(), matrix.row(1000), matrix.row(1100)), (1101, &[][..], &[1.0; 2][..]));
        assert!(matrix.empty_like().is_ragged());
    }
}
