//! A dense block of vectors as it comes from a file or a request: checked in shape, not in value.

/// `len` rows of `dim` numbers each, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    dim: usize,
    numbers: Vec<f32>,
}

/// Numbers that do not make whole rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found} numbers do not make rows of {dim}")]
pub struct RowsError {
    /// The numbers in a row.
    pub dim: usize,
    /// The numbers there are.
    pub found: usize,
}

impl Rows {
    /// Rows of `dim` numbers; refused when `dim` is 0 or the last row is not whole.
    pub fn new(dim: usize, numbers: Vec<f32>) -> Result<Rows, RowsError> {
        if dim == 0 || !numbers.len().is_multiple_of(dim) {
            return Err(RowsError { dim, found: numbers.len() });
        }
        Ok(Rows { dim, numbers })
    }

    /// The numbers in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.numbers.len() / self.dim
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Row `row`, counted from 0.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.dim..][..self.dim]
    }

    /// Every row in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.dim)
    }

    /// All numbers, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.numbers
    }
}
