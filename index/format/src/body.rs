//! Rows from bytes in memory: Arrow's streaming format and Parquet.

use std::path::Path;

use dehub_vector::{PointId, Rows};
use serde_json::{Map, Value};

use crate::arrow::ArrowRows;
use crate::error::FormatError;
use crate::input::Input;
use crate::options::ReadOptions;
use crate::parquet::Parquet;
use crate::reader::no_datasets;
use crate::table::Converted;

/// What bytes in memory are called in messages.
const NAME: &str = "the body";

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableFormat {
    /// Arrow's streaming format.
    ArrowStream,
    /// Parquet.
    Parquet,
}

/// One run of rows. Every present column has `rows` entries.
#[derive(Debug, Clone, PartialEq)]
pub struct TableBatch {
    /// The first row's number, from 0.
    pub first_row: u64,
    /// How many rows there are; at least one.
    pub rows: usize,
    /// The vectors, if there is a column of them: all of one dimension, their values unchecked.
    pub vectors: Option<Rows>,
    /// The ids, if there is a column of them. They may repeat.
    pub ids: Option<Vec<PointId>>,
    /// The other columns, if any row of the batch has a value in one.
    pub payloads: Option<Vec<Option<Map<String, Value>>>>,
    /// The texts, if any row of the batch has one.
    pub texts: Option<Vec<Option<String>>>,
}

/// The rows of a table, in order. After an error there is nothing more.
pub struct TableReader {
    source: Source,
    done: bool,
}

enum Source {
    Arrow(Box<ArrowRows>),
    Parquet(Box<Parquet>),
}

/// Opens a table in memory. Columns have the names and types that [`open`](crate::open) takes from a Parquet file, but
/// vectors need not be there. A table is refused as soon as what was read of it would take more than `bytes_max` once
/// decompressed and decoded; of what one buffer or page stands for, that is known before it is unfolded.
///
/// What is wrong with the table as a whole is reported here, what is wrong with a row by the reader.
pub fn open_table(
    format: TableFormat,
    bytes: Vec<u8>,
    options: &ReadOptions,
    bytes_max: usize,
) -> Result<TableReader, FormatError> {
    let name = Path::new(NAME);
    options.check(name)?;
    let source = match format {
        TableFormat::ArrowStream => {
            Source::Arrow(Box::new(ArrowRows::in_memory(name, bytes, options, bytes_max)?))
        }
        TableFormat::Parquet => {
            Source::Parquet(Box::new(Parquet::in_memory(name, bytes, options, bytes_max)?))
        }
    };
    Ok(TableReader { source, done: false })
}

/// Opens a Parquet file on disk that need not have a column of vectors: their names may be no usual ones, or they may
/// be in several columns, which are then read as other columns are.
///
/// What is wrong with the file as a whole is reported here, what is wrong with a row by the reader.
pub fn open_parquet(path: &Path, options: &ReadOptions) -> Result<TableReader, FormatError> {
    options.check(path)?;
    if options.dataset.is_some() {
        return Err(no_datasets(path));
    }
    let input = Input::open(path)?;
    let parquet = Parquet::open(input.path(), input.held()?, options, false)?;
    Ok(TableReader { source: Source::Parquet(Box::new(parquet)), done: false })
}

impl TableReader {
    /// The dimension of the vectors, if it is known yet: from the start for fixed-size lists, from the first batch on
    /// for other lists.
    pub fn dim(&self) -> Option<usize> {
        match &self.source {
            Source::Arrow(arrow) => arrow.dim(),
            Source::Parquet(parquet) => parquet.dim(),
        }
    }
}

impl TableReader {
    /// Says that the batches read so far are not held any more: what they take counts no more towards the limit.
    pub fn forget(&mut self) {
        match &mut self.source {
            Source::Arrow(arrow) => arrow.forget(),
            Source::Parquet(parquet) => parquet.forget(),
        }
    }
}

impl Iterator for TableReader {
    type Item = Result<TableBatch, FormatError>;

    fn next(&mut self) -> Option<Result<TableBatch, FormatError>> {
        if self.done {
            return None;
        }
        let rows = match &mut self.source {
            Source::Arrow(arrow) => arrow.rows(),
            Source::Parquet(parquet) => parquet.rows(),
        };
        self.done = !matches!(rows, Ok(Some(_)));
        rows.map(|rows| rows.map(batch)).transpose()
    }
}

impl std::iter::FusedIterator for TableReader {}

fn batch((first_row, converted): (u64, Converted)) -> TableBatch {
    let Converted { vectors, mut columns } = converted;
    let rows = columns.len();
    assert!(vectors.as_ref().is_none_or(|vectors| vectors.len() == rows), "the columns have a row each");
    let (ids, payloads, texts) = (columns.ids(), columns.payloads(), columns.texts());
    TableBatch { first_row, rows, vectors, ids, payloads, texts }
}
