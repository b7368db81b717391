//! Arrow IPC, as files and streams, and columns written as a stream.

use std::io::{Cursor, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use dehub_vector::{PointId, Rows};

use crate::arrow_file::{ArrowFile, MARK};
use crate::arrow_messages::{Broken, Messages, RECORD_BYTES_MAX, unpacked_bytes};
use crate::error::FormatError;
use crate::input::Input;
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::reader::{Batch, batch};
use crate::table::{Converted, Table, guarded, header_error};
use crate::write::Kind;

const FORMAT: &str = "an Arrow stream";
const FILE_FORMAT: &str = "an Arrow file or stream";

/// A cursor over the rows of a stream or a file.
pub(crate) struct ArrowRows {
    name: PathBuf,
    records: Records,
    table: Table,
    /// What is left of the record batch read last.
    rest: Option<RecordBatch>,
    batch_rows: usize,
    range: Range<u64>,
    next_row: u64,
}

/// Where record batches come from.
enum Records {
    Stream(Box<Messages>),
    File(Box<ArrowFile>),
}

impl Records {
    fn schema(&self) -> &Schema {
        match self {
            Records::Stream(stream) => stream.schema(),
            Records::File(file) => file.schema(),
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Broken> {
        match self {
            Records::Stream(stream) => stream.next_record(),
            Records::File(file) => file.next_record(),
        }
    }
}

impl ArrowRows {
    /// Opens a stream in memory, which need not have vectors. `name` stands for its path. What its buffers take when
    /// they are decompressed may not exceed `bytes_max`.
    pub(crate) fn in_memory(
        name: &Path,
        bytes: Vec<u8>,
        options: &ReadOptions,
        bytes_max: usize,
    ) -> Result<ArrowRows, FormatError> {
        let unpacked =
            unpacked_bytes(&bytes).map_err(|found| header_error(name, FORMAT, found.to_owned()))?;
        if unpacked > bytes_max as u64 {
            return Err(FormatError::TooLarge { path: name.to_owned(), row: 0, limit: bytes_max });
        }
        let messages = Messages::open(Box::new(Cursor::new(bytes)), bytes_max);
        let messages = messages.map_err(|broken| broken.at_start(name, FORMAT))?;
        let table = Table::new(name, messages.schema(), options, false, FORMAT)?.within(bytes_max);
        Ok(ArrowRows::new(name, Records::Stream(Box::new(messages)), table, options))
    }

    /// Opens a file, which must have vectors.
    pub(crate) fn open(input: &Input, options: &ReadOptions) -> Result<ArrowRows, FormatError> {
        let name = input.path();
        let mut start = Vec::new();
        let read = input.stream()?.take(MARK.len() as u64).read_to_end(&mut start);
        read.map_err(input.unreadable())?;
        let records = if start == MARK {
            ArrowFile::open(input.held()?, RECORD_BYTES_MAX).map(|file| Records::File(Box::new(file)))
        } else {
            Messages::open(input.stream()?, RECORD_BYTES_MAX).map(|stream| Records::Stream(Box::new(stream)))
        };
        let records = records.map_err(|broken| broken.at_start(name, FILE_FORMAT))?;
        let table = Table::new(name, records.schema(), options, true, FILE_FORMAT)?;
        Ok(ArrowRows::new(name, records, table, options))
    }

    fn new(name: &Path, records: Records, table: Table, options: &ReadOptions) -> ArrowRows {
        ArrowRows {
            name: name.to_owned(),
            records,
            table,
            rest: None,
            batch_rows: options.batch_rows(),
            range: options.range(),
            next_row: 0,
        }
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        self.table.dimension().get()
    }

    /// What was read so far counts no more.
    pub(crate) fn forget(&mut self) {
        self.table.forget();
    }

    /// The next rows with their vectors; `None` at the end.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, FormatError> {
        let Some((first_row, Converted { vectors, columns })) = self.rows()? else { return Ok(None) };
        let vectors = vectors.expect("a file on disk has vectors, and a batch of the reader a row");
        Ok(Some(batch(first_row, vectors, columns)))
    }

    /// The next rows, and the number of the first; `None` at the end.
    pub(crate) fn rows(&mut self) -> Result<Option<(u64, Converted)>, FormatError> {
        let Some(record) = self.record()? else { return Ok(None) };
        let left = usize::try_from(self.range.end - self.next_row).unwrap_or(usize::MAX);
        let row_bytes = self.dim().unwrap_or(1) * size_of::<f32>();
        let most = self.batch_rows.min((BATCH_BYTES_MAX / row_bytes).max(1)).min(left);
        let (taken, all) = (record.num_rows().min(most), record.num_rows());
        self.rest = (taken < all).then(|| record.slice(taken, all - taken));
        let first_row = self.next_row;
        let converted = self.table.convert(&record.slice(0, taken), first_row)?;
        self.next_row += taken as u64;
        Ok(Some((first_row, converted)))
    }

    /// The next record batch with rows of the range, from the first of these on.
    fn record(&mut self) -> Result<Option<RecordBatch>, FormatError> {
        while self.next_row < self.range.end {
            let record = match self.rest.take() {
                Some(record) => record,
                None => match self.records.next() {
                    Ok(Some(record)) => record,
                    Ok(None) => return Ok(None),
                    Err(broken) => return Err(broken.at_row(&self.name, self.next_row)),
                },
            };
            let before = self.range.start.saturating_sub(self.next_row);
            let passed = usize::try_from(before).unwrap_or(usize::MAX).min(record.num_rows());
            self.next_row += passed as u64;
            if passed < record.num_rows() {
                return Ok(Some(record.slice(passed, record.num_rows() - passed)));
            }
        }
        Ok(None)
    }
}

/// A column to be written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Column {
    /// 32-bit numbers from 0.
    Whole(Vec<u32>),
    /// 64-bit numbers from 0.
    Wide(Vec<u64>),
    /// Ids: `uint64` if all are numbers, else `utf8`, with numbers as digits.
    Ids(Vec<PointId>),
    /// 32-bit floats; what is not there is null.
    Numbers(Vec<Option<f32>>),
    /// Texts; what is not there is null.
    Texts(Vec<Option<String>>),
    /// JSON values as text, written as what they are where the format has objects; what is not there is null.
    Json(Vec<Option<String>>),
    /// Vectors, as fixed-size lists of 32-bit floats.
    Vectors(Rows),
    /// Lists of so many 32-bit numbers from 0, one after the other, such as row numbers of neighbours.
    WholeLists(Vec<u32>, usize),
}

impl Column {
    /// The same under a kind, which says of ids whether they are texts.
    pub(crate) fn array_of(self, kind: Kind) -> Result<ArrayRef, ArrowError> {
        match (self, kind) {
            (Column::Ids(ids), Kind::TextIds) => Ok(text_ids(&ids)),
            (column, _) => column.array(),
        }
    }

    fn array(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Whole(numbers) => Arc::new(UInt32Array::from(numbers)),
            Column::Wide(numbers) => Arc::new(UInt64Array::from(numbers)),
            Column::Numbers(numbers) => Arc::new(Float32Array::from(numbers)),
            Column::Texts(texts) | Column::Json(texts) => Arc::new(StringArray::from(texts)),
            Column::Ids(ids) => ids_array(&ids),
            Column::Vectors(rows) => {
                let dim = i32::try_from(rows.dim())
                    .map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
                let values = Float32Array::from(rows.as_slice().to_vec());
                Arc::new(FixedSizeListArray::try_new(item_field(), dim, Arc::new(values), None)?)
            }
            Column::WholeLists(numbers, len) => {
                let len = i32::try_from(len)
                    .map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
                let values = Arc::new(UInt32Array::from(numbers));
                Arc::new(FixedSizeListArray::try_new(whole_item_field(), len, values, None)?)
            }
        })
    }
}

/// The numbers of vectors.
pub(crate) fn item_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}

/// The numbers of lists of whole ones.
pub(crate) fn whole_item_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::UInt32, false))
}

fn ids_array(ids: &[PointId]) -> ArrayRef {
    let numbers: Option<Vec<u64>> = ids
        .iter()
        .map(|id| match id {
            PointId::Number(number) => Some(*number),
            PointId::Text(_) => None,
        })
        .collect();
    match numbers {
        Some(numbers) => Arc::new(UInt64Array::from(numbers)),
        None => text_ids(ids),
    }
}

fn text_ids(ids: &[PointId]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(ids.iter().map(PointId::to_string)))
}

/// Columns of one length as a stream of one record batch, with `metadata` in its schema.
///
/// # Errors
///
/// Columns that differ in length, or that are too long for Arrow (texts of more than 2 GiB together).
pub fn write_arrow(
    columns: Vec<(&str, Column)>,
    metadata: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<u8>, WriteArrowError> {
    let write = || -> Result<Vec<u8>, ArrowError> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays = Vec::with_capacity(columns.len());
        for (name, column) in columns {
            let is_nullable = matches!(column, Column::Numbers(_) | Column::Texts(_) | Column::Json(_));
            let array = column.array()?;
            fields.push(Field::new(name, array.data_type().clone(), is_nullable));
            arrays.push(array);
        }
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, metadata.into_iter().collect()));
        let record = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&record)?;
        writer.into_inner()
    };
    guarded(write).map_err(WriteArrowError)
}

/// Columns that cannot be written as an Arrow stream.
#[derive(Debug, thiserror::Error)]
#[error("the columns cannot be written as an Arrow stream: {0}")]
pub struct WriteArrowError(String);
