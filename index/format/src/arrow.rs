//! Arrow's streaming format, from bytes in memory and to them.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{MessageHeader, RecordBatch as BatchHeader, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use dehub_vector::{PointId, Rows};

use crate::error::FormatError;
use crate::options::ReadOptions;
use crate::table::{Converted, Table, guarded, header_error};

const FORMAT: &str = "an Arrow stream";

/// What begins a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// A cursor over the rows of a stream.
pub(crate) struct ArrowStream {
    name: PathBuf,
    reader: StreamReader<Cursor<Vec<u8>>>,
    table: Table,
    /// What is left of the record batch read last.
    rest: Option<RecordBatch>,
    batch_rows: usize,
    next_row: u64,
}

impl ArrowStream {
    /// Opens a stream in memory. `name` stands for its path. What its buffers take when they are decompressed may not
    /// exceed `bytes_max`.
    pub(crate) fn in_memory(
        name: &Path,
        bytes: Vec<u8>,
        options: &ReadOptions,
        bytes_max: usize,
    ) -> Result<ArrowStream, FormatError> {
        let refused = |found| header_error(name, FORMAT, found);
        let unpacked = unpacked_bytes(&bytes).map_err(|found| refused(found.to_owned()))?;
        if unpacked > bytes_max as u64 {
            return Err(FormatError::TooLarge { path: name.to_owned(), row: 0, limit: bytes_max });
        }
        let reader = guarded(|| StreamReader::try_new(Cursor::new(bytes), None)).map_err(refused)?;
        let table = Table::new(name, &reader.schema(), options, false, FORMAT)?.within(bytes_max);
        let batch_rows = options.batch_rows();
        Ok(ArrowStream { name: name.to_owned(), reader, table, rest: None, batch_rows, next_row: 0 })
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        self.table.dimension().get()
    }

    /// What was read so far counts no more.
    pub(crate) fn forget(&mut self) {
        self.table.forget();
    }

    /// The next rows, and the number of the first; `None` at the end.
    pub(crate) fn rows(&mut self) -> Result<Option<(u64, Converted)>, FormatError> {
        let record = loop {
            let record = match self.rest.take() {
                Some(record) => record,
                None => match guarded(|| self.reader.next().transpose()) {
                    Ok(Some(record)) => record,
                    Ok(None) => return Ok(None),
                    Err(reason) => {
                        let (path, row) = (self.name.clone(), self.next_row);
                        return Err(FormatError::Damaged { path, row, reason });
                    }
                },
            };
            if record.num_rows() > 0 {
                break record;
            }
        };
        let (taken, all) = (record.num_rows().min(self.batch_rows), record.num_rows());
        self.rest = (taken < all).then(|| record.slice(taken, all - taken));
        let first_row = self.next_row;
        let converted = self.table.convert(&record.slice(0, taken), first_row)?;
        self.next_row += taken as u64;
        Ok(Some((first_row, converted)))
    }
}

/// The bytes that all buffers take decompressed. Every length is checked before the decoder sees it: it sets aside as
/// much memory as a message says, whatever the bytes there are.
fn unpacked_bytes(mut bytes: &[u8]) -> Result<u64, &'static str> {
    const CUT: &str = "a message that is cut off";
    let mut sum = 0u64;
    loop {
        let Some((mut length, mut rest)) = bytes.split_first_chunk::<4>() else {
            return if bytes.is_empty() { Ok(sum) } else { Err(CUT) };
        };
        if *length == CONTINUATION {
            (length, rest) = rest.split_first_chunk().ok_or(CUT)?;
        }
        let length = i32::from_le_bytes(*length);
        if length == 0 {
            return if rest.is_empty() { Ok(sum) } else { Err("bytes after the end of the stream") };
        }
        let length = usize::try_from(length).map_err(|_| "a message of negative length")?;
        let (head, rest) = rest.split_at_checked(length).ok_or(CUT)?;
        let message = root_as_message(head).map_err(|_| "a message that cannot be read")?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| "a body of negative length")?;
        let (body, rest) = rest.split_at_checked(body).ok_or(CUT)?;
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
            }
            _ => None,
        };
        if let Some(batch) = batch {
            sum = sum.saturating_add(batch_bytes(&batch, body)?);
        }
        bytes = rest;
    }
}

fn batch_bytes(batch: &BatchHeader<'_>, body: &[u8]) -> Result<u64, &'static str> {
    const OUTSIDE: &str = "a buffer outside its message";
    let is_compressed = batch.compression().is_some();
    let mut sum = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).map_err(|_| OUTSIDE)?;
        let length = usize::try_from(buffer.length()).map_err(|_| OUTSIDE)?;
        let end = start.checked_add(length).ok_or(OUTSIDE)?;
        let stored = body.get(start..end).ok_or(OUTSIDE)?;
        let unpacked = match stored.first_chunk::<8>() {
            // -1 stands for a buffer that is stored as it is.
            Some(prefix) if is_compressed => match i64::from_le_bytes(*prefix) {
                -1 => length as u64,
                unpacked => {
                    u64::try_from(unpacked).map_err(|_| "a buffer of negative length once decompressed")?
                }
            },
            None if is_compressed && length > 0 => return Err("a compressed buffer without its length"),
            Some(_) | None => length as u64,
        };
        sum = sum.saturating_add(unpacked);
    }
    Ok(sum)
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
    /// Vectors, as fixed-size lists of 32-bit floats.
    Vectors(Rows),
}

impl Column {
    fn array(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Whole(numbers) => Arc::new(UInt32Array::from(numbers)),
            Column::Wide(numbers) => Arc::new(UInt64Array::from(numbers)),
            Column::Numbers(numbers) => Arc::new(Float32Array::from(numbers)),
            Column::Texts(texts) => Arc::new(StringArray::from(texts)),
            Column::Ids(ids) => ids_array(&ids),
            Column::Vectors(rows) => {
                let dim = i32::try_from(rows.dim())
                    .map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
                let values = Float32Array::from(rows.as_slice().to_vec());
                let item = Arc::new(Field::new("item", DataType::Float32, false));
                Arc::new(FixedSizeListArray::try_new(item, dim, Arc::new(values), None)?)
            }
        })
    }
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
        None => {
            let text = |id: &PointId| match id {
                PointId::Number(number) => number.to_string(),
                PointId::Text(text) => text.to_string(),
            };
            Arc::new(StringArray::from_iter_values(ids.iter().map(text)))
        }
    }
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
            let is_nullable = matches!(column, Column::Numbers(_) | Column::Texts(_));
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
