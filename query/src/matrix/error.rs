//! Why similarities cannot be ranked.

use dehub_index::Blame;
use dehub_normalize::BankKind;

/// Whatever reading a source failed with.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why similarities cannot be fitted from or ranked.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// A source could not be read.
    #[error("{name}: {reason}")]
    Read {
        /// The source.
        name: String,
        /// Why.
        reason: SourceError,
    },
    /// A similarity is no finite number.
    #[error("{name}: row {row}, column {column}: wanted a finite similarity, found {found}")]
    NotFinite {
        /// The source.
        name: String,
        /// The row, from 0.
        row: u32,
        /// The column, from 0.
        column: usize,
        /// The number.
        found: f32,
    },
    /// Two sources are not over the same points.
    #[error("{name}: wanted {wanted} columns, one for each point as {other} has, found {found}")]
    Columns {
        /// The source.
        name: String,
        /// The columns of the other.
        wanted: usize,
        /// The other.
        other: String,
        /// Its own.
        found: usize,
    },
    /// A source has no rows or no columns, or more than can be numbered.
    #[error("{name}: wanted 1 to {} rows and columns, found {rows} × {columns}", u32::MAX)]
    Shape {
        /// The source.
        name: String,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
    },
    /// A method needs a bank that was not given.
    #[error("{method} needs the similarities of a {kind} bank, and none is given")]
    NoBank {
        /// The method.
        method: String,
        /// Which.
        kind: BankKind,
    },
    /// A bank is too small for a method.
    #[error("{method} needs a {kind} bank of at least {wanted} entries, found {found}")]
    SmallBank {
        /// The method.
        method: String,
        /// Which.
        kind: BankKind,
        /// The entries wanted.
        wanted: usize,
        /// The entries there are.
        found: usize,
    },
    /// A method needs more than similarities of banks to points.
    #[error("{method} {reason}: evaluate it over a collection")]
    NeedsVectors {
        /// The method.
        method: String,
        /// What it needs.
        reason: &'static str,
    },
    /// A method has no meaning under the metric.
    #[error("{method}: {reason}")]
    Refused {
        /// The method.
        method: String,
        /// Why.
        reason: &'static str,
    },
}

impl MatrixError {
    /// Whose fault it is: always of whoever gave the similarities and the methods.
    pub fn blame(&self) -> Blame {
        Blame::Caller
    }
}
