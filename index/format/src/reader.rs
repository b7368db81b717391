//! The one door: a path and options in, batches of rows out.

use std::path::Path;

use dehub_vector::{PointId, Rows};
use serde_json::{Map, Value};

use crate::error::FormatError;
use crate::fields::Columns;
use crate::jsonl::Jsonl;
use crate::npy::Npy;
use crate::options::ReadOptions;
use crate::parquet::Parquet;

pub(crate) const READABLE: &str = ".npy, .parquet, .pq, .jsonl or .ndjson";

/// One run of rows, as read. Every present column has `vectors.len()` entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The first row's number in the file, from 0.
    pub first_row: u64,
    /// The vectors: all of the file's dimension, their values unchecked (NaN and zeros pass).
    pub vectors: Rows,
    /// The ids, if the file has any: then every row has one. They may repeat.
    pub ids: Option<Vec<PointId>>,
    /// The other fields, if any row of the batch has one.
    pub payloads: Option<Vec<Option<Map<String, Value>>>>,
    /// The texts, if any row of the batch has one.
    pub texts: Option<Vec<Option<String>>>,
}

/// One run of rows of a file that is read without vectors. Every present column has `rows` entries.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldBatch {
    /// The first row's number in the file, from 0.
    pub first_row: u64,
    /// How many rows there are.
    pub rows: usize,
    /// The ids, if the file has any: then every row has one. They may repeat.
    pub ids: Option<Vec<PointId>>,
    /// The other fields, if any row of the batch has one.
    pub payloads: Option<Vec<Option<Map<String, Value>>>>,
    /// The texts, if any row of the batch has one.
    pub texts: Option<Vec<Option<String>>>,
}

pub(crate) fn batch(first_row: u64, vectors: Rows, mut columns: Columns) -> Batch {
    assert_eq!(vectors.len(), columns.len(), "the columns of a batch have a row each");
    Batch { first_row, vectors, ids: columns.ids(), payloads: columns.payloads(), texts: columns.texts() }
}

/// The rows of a file with vectors, in order. After an error there is nothing more.
pub struct Reader {
    source: Source,
    done: bool,
}

enum Source {
    Npy(Box<Npy>),
    Parquet(Box<Parquet>),
    Jsonl(Box<Jsonl>),
}

/// Opens a file with vectors. The extension decides how it is read: `.npy`, `.parquet` or `.pq`,
/// `.jsonl` or `.ndjson`, in any case.
///
/// What is wrong with the file as a whole is reported here, what is wrong with a row by the reader.
pub fn open(path: &Path, options: ReadOptions) -> Result<Reader, FormatError> {
    options.check(path)?;
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    if options.metadata.is_some() && extension.as_deref() != Some("npy") {
        let reason = "a metadata file goes with a .npy file only, other formats hold their own".to_owned();
        return Err(FormatError::Options { path: path.to_owned(), reason });
    }
    let source = match extension.as_deref() {
        Some("npy") => Source::Npy(Box::new(Npy::open(path, options)?)),
        Some("parquet" | "pq") => Source::Parquet(Box::new(Parquet::open(path, &options, true)?)),
        Some("jsonl" | "ndjson") => Source::Jsonl(Box::new(Jsonl::open(path, options, true)?)),
        Some(other) => {
            return Err(FormatError::UnknownExtension { path: path.to_owned(), found: format!(".{other}") });
        }
        None => {
            return Err(FormatError::UnknownExtension {
                path: path.to_owned(),
                found: "no ending".to_owned(),
            });
        }
    };
    Ok(Reader { source, done: false })
}

impl Reader {
    /// The dimension of the vectors, if it is known yet: from the start for `.npy` and for fixed-size
    /// lists in Parquet, from the first batch on for the others.
    pub fn dim(&self) -> Option<usize> {
        match &self.source {
            Source::Npy(npy) => Some(npy.dim()),
            Source::Parquet(parquet) => parquet.dim(),
            Source::Jsonl(jsonl) => jsonl.dim(),
        }
    }

    /// How many rows the reader gives in all, if the file says so: those in the range asked for.
    pub fn rows_total(&self) -> Option<u64> {
        match &self.source {
            Source::Npy(npy) => Some(npy.rows_total()),
            Source::Parquet(parquet) => Some(parquet.rows_total()),
            Source::Jsonl(_) => None,
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Batch, FormatError>;

    fn next(&mut self) -> Option<Result<Batch, FormatError>> {
        if self.done {
            return None;
        }
        let batch = match &mut self.source {
            Source::Npy(npy) => npy.batch(),
            Source::Parquet(parquet) => parquet.batch(),
            Source::Jsonl(jsonl) => jsonl.batch(),
        };
        self.done = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }
}

impl std::iter::FusedIterator for Reader {}

/// The rows of a JSON lines file read without vectors. After an error there is nothing more.
pub struct FieldReader {
    jsonl: Jsonl,
    done: bool,
}

/// Opens a JSON lines file for its ids, texts and other fields: queries' ids, for one. A field that
/// looks like a vector is a field like any other.
pub fn open_fields(path: &Path, options: ReadOptions) -> Result<FieldReader, FormatError> {
    options.check(path)?;
    Ok(FieldReader { jsonl: Jsonl::open(path, options, false)?, done: false })
}

impl Iterator for FieldReader {
    type Item = Result<FieldBatch, FormatError>;

    fn next(&mut self) -> Option<Result<FieldBatch, FormatError>> {
        if self.done {
            return None;
        }
        let batch = self.jsonl.field_batch();
        self.done = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }
}

impl std::iter::FusedIterator for FieldReader {}
