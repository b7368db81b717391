//! What can be wrong with a file, said so that the place can be found and mended.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dehub_vector::DIM_MAX;

/// Why a file, or a row of it, was refused. Every variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system could not open, read or write the file.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The name ends in nothing this package reads.
    #[error("{}: wanted a name that ends in {}, found {found}", path.display(), crate::formats::READABLE)]
    UnknownExtension {
        /// The file.
        path: PathBuf,
        /// The ending it has.
        found: String,
    },
    /// The options ask for something this file cannot give.
    #[error("{}: {reason}", path.display())]
    Options {
        /// The file.
        path: PathBuf,
        /// Which option, and why not.
        reason: String,
    },
    /// The file as a whole is not what its name says: the first bytes, the header or the footer.
    #[error("{}: wanted {wanted}, found {found}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What could have been read.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A number of coordinates that no collection can have.
    #[error("{}: wanted vectors of 1 to {DIM_MAX} numbers, found {found}", path.display())]
    Dimension {
        /// The file.
        path: PathBuf,
        /// The numbers in a vector.
        found: u64,
    },
    /// The file does not hold the rows its header promises: it was cut off, or something was added.
    #[error(
        "{}: the header says {rows_wanted} rows ({bytes_wanted} bytes), \
         the file holds {rows_found} rows ({bytes_found} bytes)", path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// The rows in the header.
        rows_wanted: u64,
        /// The bytes these rows take.
        bytes_wanted: u128,
        /// The whole rows after the header.
        rows_found: u64,
        /// The bytes after the header.
        bytes_found: u64,
    },
    /// The metadata beside a file of vectors has more or fewer lines than that file has rows.
    #[error("{}: wanted {rows} lines, one for each row of {}, found {lines}", path.display(), vectors.display())]
    RowCounts {
        /// The metadata.
        path: PathBuf,
        /// The file of vectors.
        vectors: PathBuf,
        /// Its rows.
        rows: u64,
        /// The lines of the metadata.
        lines: u64,
    },
    /// The file has no column of the name that was asked for, or none of the usual names.
    #[error("{}: wanted a column {wanted}, found {found}", path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The name, or the names, looked for.
        wanted: String,
        /// The columns there are.
        found: String,
    },
    /// A column is of a type that cannot be read.
    #[error("{}: column {column}: wanted {wanted}, found {found}", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The types that can be read, and what to do.
        wanted: String,
        /// Its type.
        found: String,
    },
    /// A line is no JSON object, is blank, or is too long.
    #[error("{}: {place}: wanted {wanted}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        place: Place,
        /// What could have been read.
        wanted: &'static str,
        /// What is there.
        found: String,
    },
    /// A value of one row cannot be taken as it is.
    #[error("{}: {place}, field {field}{}: wanted {wanted}, found {found}", path.display(), Coordinate(*coordinate))]
    Value {
        /// The file.
        path: PathBuf,
        /// The row or the line.
        place: Place,
        /// The field or column.
        field: Box<str>,
        /// The place in the vector, from 0.
        coordinate: Option<usize>,
        /// What could have been read.
        wanted: Box<str>,
        /// What is there.
        found: Box<str>,
    },
    /// A vector is shorter or longer than the vectors before it.
    #[error("{}: {place}: {field} has {found} numbers, the rows before have {wanted}", path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The row or the line.
        place: Place,
        /// The field or column of the vector.
        field: String,
        /// The numbers in the vectors before.
        wanted: usize,
        /// The numbers in this one.
        found: usize,
    },
    /// The values would take more memory than they may: a few bytes can stand for very many.
    #[error("{}: from row {row} on, the values take more than {limit} bytes once decoded", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The row that would be too much, or the first of those looked at together.
        row: u64,
        /// The most bytes.
        limit: usize,
    },
    /// The bytes cannot be decoded: the file is damaged, or uses what this build cannot read.
    #[error("{}: not readable from row {row} on: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first row that was not read, from 0.
        row: u64,
        /// What the decoder said.
        reason: String,
    },
}

impl FormatError {
    /// The file that was refused.
    pub fn path(&self) -> &Path {
        match self {
            FormatError::Io { path, .. }
            | FormatError::UnknownExtension { path, .. }
            | FormatError::Options { path, .. }
            | FormatError::Header { path, .. }
            | FormatError::Dimension { path, .. }
            | FormatError::Size { path, .. }
            | FormatError::RowCounts { path, .. }
            | FormatError::MissingColumn { path, .. }
            | FormatError::ColumnType { path, .. }
            | FormatError::Line { path, .. }
            | FormatError::Value { path, .. }
            | FormatError::Ragged { path, .. }
            | FormatError::TooLarge { path, .. }
            | FormatError::Damaged { path, .. } => path,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> FormatError {
        move |reason| FormatError::Io { path: path.to_owned(), reason }
    }
}

/// Where in a file a value stands, counted as people count there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A row of a binary file, from 0.
    Row(u64),
    /// A line of a text file, from 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Row(row) => write!(f, "row {row}"),
            Place::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// `[3]` after the name of a vector, or nothing.
struct Coordinate(Option<usize>);

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(coordinate) => write!(f, "[{coordinate}]"),
            None => Ok(()),
        }
    }
}

/// What is wrong with one row, before the file and the place are known.
#[derive(Debug)]
pub(crate) enum Flaw {
    Value { field: String, coordinate: Option<usize>, wanted: String, found: String },
    Ragged { field: String, wanted: usize, found: usize },
    Dimension { found: u64 },
    TooLarge { limit: usize },
}

impl Flaw {
    pub(crate) fn value(field: &str, wanted: impl Into<String>, found: impl Into<String>) -> Flaw {
        Flaw::Value { field: field.to_owned(), coordinate: None, wanted: wanted.into(), found: found.into() }
    }

    /// A number that 32 bits cannot hold: it would become infinite.
    pub(crate) fn overflow(field: &str, coordinate: usize, found: f64) -> Flaw {
        Flaw::coordinate(field, coordinate, "a number that fits 32 bits", format!("{found:e}"))
    }

    pub(crate) fn coordinate(field: &str, coordinate: usize, wanted: &str, found: String) -> Flaw {
        Flaw::Value {
            field: field.to_owned(),
            coordinate: Some(coordinate),
            wanted: wanted.to_owned(),
            found,
        }
    }

    pub(crate) fn at(self, path: &Path, place: Place) -> FormatError {
        let path = path.to_owned();
        match self {
            Flaw::Value { field, coordinate, wanted, found } => {
                let (field, wanted, found) = (field.into(), wanted.into(), found.into());
                FormatError::Value { path, place, field, coordinate, wanted, found }
            }
            Flaw::Ragged { field, wanted, found } => {
                FormatError::Ragged { path, place, field, wanted, found }
            }
            Flaw::Dimension { found } => FormatError::Dimension { path, found },
            Flaw::TooLarge { limit } => {
                let (Place::Row(row) | Place::Line(row)) = place;
                FormatError::TooLarge { path, row, limit }
            }
        }
    }
}

/// The start of a text from a file, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
