//! The one door: a path and options in, batches of rows out.

use std::io::Read;
use std::path::Path;

use dehub_vector::{Metric, PointId, Rows};
use serde_json::{Map, Value};

use crate::arrow::ArrowRows;
use crate::error::FormatError;
use crate::fields::Columns;
use crate::formats::{Format, Told};
use crate::input::Input;
use crate::jsonl::Jsonl;
use crate::matrix::MatrixRows;
use crate::options::ReadOptions;
use crate::parquet::Parquet;

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
    Matrix(Box<MatrixRows>),
    Parquet(Box<Parquet>),
    Arrow(Box<ArrowRows>),
    Jsonl(Box<Jsonl>),
}

/// Opens a file with vectors; `-` is standard input, which is kept in a temporary file so that it can be opened twice.
/// The ending of the name decides how it is read, in any case of letters: `.npy`, `.npz`, `.fvecs`, `.ivecs`,
/// `.bvecs`, `.fbin`, `.ibin`, `.u8bin`, `.i8bin`, `.parquet` or `.pq`, `.arrow`, `.arrows`, `.feather` or `.ipc`,
/// `.hdf5` or `.h5`, `.jsonl` or `.ndjson`, `.safetensors`, each perhaps with `.gz`, `.zst` or `.zstd` after it. A name
/// without an ending leaves it to the first bytes.
///
/// Memory: a batch of at most [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) beside what the format needs. Those are a
/// page of each column for Parquet, of at most [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX), one record batch of at most
/// [`RECORD_BYTES_MAX`](crate::RECORD_BYTES_MAX) for Arrow, a chunk for HDF5, a header for safetensors and a line of at
/// most [`LINE_BYTES_MAX`](crate::LINE_BYTES_MAX) for JSON lines. What is compressed as a whole is unpacked to a
/// temporary file, but for Arrow streams and JSON lines, which are unpacked as they are read.
///
/// What is wrong with the file as a whole is reported here, what is wrong with a row by the reader.
pub fn open(path: &Path, options: ReadOptions) -> Result<Reader, FormatError> {
    read(&Input::open(path)?, options)
}

/// The same from bytes in memory, under a name that tells their format, or that is silent.
pub fn open_bytes(name: &Path, bytes: Vec<u8>, options: ReadOptions) -> Result<Reader, FormatError> {
    read(&Input::memory(name, bytes), options)
}

/// The bytes of a file of whatever kind, unpacked as they are read; `-` stands for standard input.
///
/// # Errors
/// A file that cannot be opened. One that is packed badly ends the reading.
pub fn open_unpacked(path: &Path) -> Result<Box<dyn Read + Send>, FormatError> {
    Input::open(path)?.stream()
}

/// How a file is written: as `asked`, or as its name or else its first bytes say. It is opened only for these.
pub fn format_of(path: &Path, asked: Option<Format>) -> Result<Format, FormatError> {
    match asked.or(Told::by(path).format.and_then(Result::ok)) {
        Some(format) => Ok(format),
        None => Input::open(path)?.format(None),
    }
}

fn read(input: &Input, options: ReadOptions) -> Result<Reader, FormatError> {
    let path = input.path();
    options.check(path)?;
    let format = input.format(options.format)?;
    if options.metadata.is_some() && !format.is_matrix() {
        let reason =
            "a metadata file goes with a file that is all vectors, and this one has fields of its own";
        return Err(FormatError::Options { path: path.to_owned(), reason: reason.to_owned() });
    }
    if options.dataset.is_some() && !format.has_datasets() {
        return Err(no_datasets(path));
    }
    let source = match format {
        Format::Parquet => Source::Parquet(Box::new(Parquet::open(path, input.held()?, &options, true)?)),
        Format::Arrow => Source::Arrow(Box::new(ArrowRows::open(input, &options)?)),
        Format::Jsonl => Source::Jsonl(Box::new(Jsonl::of(input, options, true)?)),
        Format::Npy | Format::Npz | Format::Hdf5 | Format::Safetensors => matrix(input, format, options)?,
        Format::Fvecs | Format::Ivecs | Format::Bvecs => matrix(input, format, options)?,
        Format::Fbin | Format::Ibin | Format::U8bin | Format::I8bin => matrix(input, format, options)?,
    };
    Ok(Reader { source, done: false })
}

pub(crate) fn no_datasets(path: &Path) -> FormatError {
    let reason = "a dataset is chosen from .npz, .safetensors and HDF5 files, and this is another".to_owned();
    FormatError::Options { path: path.to_owned(), reason }
}

fn matrix(input: &Input, format: Format, options: ReadOptions) -> Result<Source, FormatError> {
    Ok(Source::Matrix(Box::new(MatrixRows::open(input, format, options)?)))
}

impl Reader {
    /// The dimension of the vectors, if it is known yet: from the start for matrices and for fixed-size
    /// lists in Parquet and Arrow, from the first batch on for the others.
    pub fn dim(&self) -> Option<usize> {
        match &self.source {
            Source::Matrix(matrix) => Some(matrix.dim()),
            Source::Arrow(arrow) => arrow.dim(),
            Source::Parquet(parquet) => parquet.dim(),
            Source::Jsonl(jsonl) => jsonl.dim(),
        }
    }

    /// How many rows the reader gives in all, if the file says so: those in the range asked for.
    pub fn rows_total(&self) -> Option<u64> {
        match &self.source {
            Source::Matrix(matrix) => Some(matrix.rows_total()),
            Source::Parquet(parquet) => Some(parquet.rows_total()),
            Source::Arrow(_) | Source::Jsonl(_) => None,
        }
    }

    /// The metric that the file says its vectors are for: the attribute `distance` of HDF5.
    pub fn metric(&self) -> Option<Metric> {
        match &self.source {
            Source::Matrix(matrix) => matrix.metric(),
            Source::Parquet(_) | Source::Arrow(_) | Source::Jsonl(_) => None,
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
            Source::Matrix(matrix) => matrix.batch(),
            Source::Arrow(arrow) => arrow.batch(),
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
    if options.dataset.is_some() {
        return Err(no_datasets(path));
    }
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
