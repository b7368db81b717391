//! Parquet: a column of vectors, and optionally ids, texts and payload columns.

use std::fmt::Display;
use std::fs::File;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::file::metadata::ParquetMetaData;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use dehub_vector::{DIM_MAX, Rows};
use serde_json::Value;

use crate::error::{Flaw, FormatError, Place};
use crate::fields::{Columns, PAYLOAD_NAME, Payload, Roles, VECTOR_NAMES};
use crate::narrow::Dimension;
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::parquet_values::{
    ID_TYPES, PAYLOAD_TYPES, TEXT_TYPES, VECTOR_TYPES, append_vectors, cell, is_id, is_payload, is_text,
    vector_dim,
};
use crate::reader::{Batch, batch};

type Builder = ParquetRecordBatchReaderBuilder<File>;

/// A cursor over the rows of a file. Names and types of its columns were checked.
pub(crate) struct Parquet {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    roles: Roles,
    /// The name of the vector column.
    vector: String,
    dimension: Dimension,
    range: Range<u64>,
    next_row: u64,
}

impl Parquet {
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Parquet, FormatError> {
        let file = File::open(path).map_err(FormatError::io(path))?;
        let size = file.metadata().map_err(FormatError::io(path))?.len();
        let builder = guarded(|| Builder::try_new(file)).map_err(|found| header_error(path, found))?;
        let total =
            checked_rows(builder.metadata(), size).map_err(|found| header_error(path, found.to_owned()))?;
        let schema = builder.schema().clone();
        let roles = Roles::new(options, true, |name| schema.column_with_name(name).is_some());
        let columns = Checked { path, schema: &schema, roles: &roles };
        let (vector, dimension) = columns.check(options)?;
        let kept: Vec<usize> = columns.kept(options).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), kept);
        let range = options.range_of(total);
        let batch_rows = options.batch_rows().min(rows_within_limit(builder.metadata(), dimension));
        let builder = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .with_offset(to_usize(range.start))
            .with_limit(to_usize(range.end - range.start));
        let reader = guarded(|| builder.build()).map_err(|found| header_error(path, found))?;
        Ok(Parquet { path: path.to_owned(), reader, roles, vector, dimension, next_row: range.start, range })
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        self.dimension.get()
    }

    pub(crate) fn rows_total(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next rows; `None` at the end.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, FormatError> {
        let left = self.range.end - self.next_row;
        let record = guarded(|| self.reader.next().transpose()).map_err(|reason| self.damaged(reason))?;
        match record {
            None if left == 0 => Ok(None),
            None => Err(self.damaged(format!("{left} rows fewer than the footer says"))),
            Some(record) if record.num_rows() as u64 > left => {
                Err(self.damaged("more rows than the footer says".to_owned()))
            }
            Some(record) => self.convert(&record).map(Some),
        }
    }

    fn damaged(&self, reason: String) -> FormatError {
        FormatError::Damaged { path: self.path.clone(), row: self.next_row, reason }
    }

    fn convert(&mut self, record: &RecordBatch) -> Result<Batch, FormatError> {
        let first_row = self.next_row;
        let at = |(row, flaw): (usize, Flaw)| flaw.at(&self.path, Place::Row(first_row + row as u64));
        let array = record.column_by_name(&self.vector).expect("the column is part of the projection");
        let mut numbers = Vec::new();
        append_vectors(array, &self.vector, &mut self.dimension, &mut numbers).map_err(at)?;
        let mut columns = Columns::default();
        for row in 0..record.num_rows() {
            let fields = fields(record, row, &self.vector, &self.roles);
            columns.push(fields.and_then(|fields| self.roles.row(fields)).map_err(|flaw| at((row, flaw)))?);
        }
        let dim = self.dimension.get().expect("a batch of the reader has a row, which decided the dimension");
        let vectors = Rows::new(dim, numbers).expect("every row was checked to have `dim` numbers");
        self.next_row += record.num_rows() as u64;
        Ok(batch(first_row, vectors, columns))
    }
}

/// The values of a row other than its vector. A null is a field that is not there, except for an id:
/// that must be in every row.
fn fields(record: &RecordBatch, row: usize, vector: &str, roles: &Roles) -> Result<Payload, Flaw> {
    let mut fields = Payload::new();
    for (field, column) in record.schema_ref().fields().iter().zip(record.columns()) {
        let name = field.name();
        if name == vector {
            continue;
        }
        match cell(column, row, name)? {
            Some(value) => fields.insert(name.clone(), value),
            None if roles.is_id(name) || roles.is_text(name) => fields.insert(name.clone(), Value::Null),
            None => None,
        };
    }
    Ok(fields)
}

/// What is checked of the columns before a row is read.
struct Checked<'a> {
    path: &'a Path,
    schema: &'a Schema,
    roles: &'a Roles,
}

impl Checked<'_> {
    /// The name of the vector column and the dimension, if its type has one.
    fn check(&self, options: &ReadOptions) -> Result<(String, Dimension), FormatError> {
        if let Some(missing) = self.roles.asked().find(|name| self.schema.column_with_name(name).is_none()) {
            return Err(self.missing(missing.clone()));
        }
        let Some(vector) = &self.roles.vector else {
            return Err(self.missing(format!("of vectors: one of {}", VECTOR_NAMES.join(", "))));
        };
        let mut dimension = Dimension::default();
        let mut names: Vec<&str> = Vec::new();
        for index in self.kept(options) {
            let field = self.schema.field(index);
            let (name, data_type) = (field.name(), field.data_type());
            if names.contains(&name.as_str()) {
                return Err(header_error(self.path, format!("two columns named {name}")));
            }
            names.push(name);
            if name == vector {
                let dim =
                    vector_dim(data_type).ok_or_else(|| self.wrong_type(name, VECTOR_TYPES, data_type))?;
                dimension = self.dimension(dim)?;
            } else if let Some(wanted) = self.wanted_type(name, data_type) {
                return Err(self.wrong_type(name, wanted, data_type));
            }
        }
        Ok((vector.clone(), dimension))
    }

    /// What a column other than the vectors should be, if it is not.
    fn wanted_type(&self, name: &str, data_type: &DataType) -> Option<&'static str> {
        let (good, wanted) = if self.roles.is_id(name) {
            (is_id(data_type), ID_TYPES)
        } else if self.roles.is_text(name) {
            (is_text(data_type), TEXT_TYPES)
        } else if name == PAYLOAD_NAME && !data_type.is_null() && !matches!(data_type, DataType::Struct(_)) {
            (false, "a struct (name the column in `leave_out` to read the file without it)")
        } else {
            (is_payload(data_type), PAYLOAD_TYPES)
        };
        (!good).then_some(wanted)
    }

    fn dimension(&self, dim: Option<i32>) -> Result<Dimension, FormatError> {
        let Some(dim) = dim else {
            return Ok(Dimension::default());
        };
        match usize::try_from(dim) {
            Ok(dim @ 1..=DIM_MAX) => Ok(Dimension::known(dim)),
            _ => Err(FormatError::Dimension {
                path: self.path.to_owned(),
                found: u64::try_from(dim).unwrap_or(0),
            }),
        }
    }

    /// The columns that are read.
    fn kept(&self, options: &ReadOptions) -> impl Iterator<Item = usize> {
        let fields = self.schema.fields().iter().enumerate();
        fields.filter(|(_, field)| !options.leave_out.contains(field.name())).map(|(index, _)| index)
    }

    fn missing(&self, wanted: String) -> FormatError {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        FormatError::MissingColumn { path: self.path.to_owned(), wanted, found: names.join(", ") }
    }

    fn wrong_type(&self, column: &str, wanted: &str, found: &DataType) -> FormatError {
        FormatError::ColumnType {
            path: self.path.to_owned(),
            column: column.to_owned(),
            wanted: wanted.to_owned(),
            found: found.to_string(),
        }
    }
}

fn header_error(path: &Path, found: String) -> FormatError {
    FormatError::Header { path: path.to_owned(), wanted: "a Parquet file".to_owned(), found }
}

/// What the parquet crate makes of a file. It asserts on some damaged files where it should return an
/// error; whoever was interrupted so is not used again.
fn guarded<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match panic::catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(cause) => {
            let message = cause.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| cause.downcast_ref::<&str>().copied());
            let message = message.and_then(|message| message.lines().next()).unwrap_or("no message");
            Err(format!("bytes the decoder gave up on ({message})"))
        }
    }
}

/// The rows of a file whose footer agrees with itself and with the size of the file.
fn checked_rows(metadata: &ParquetMetaData, size: u64) -> Result<u64, &'static str> {
    let mut rows = 0i64;
    for group in metadata.row_groups() {
        let sum = rows.checked_add(group.num_rows()).filter(|_| group.num_rows() >= 0);
        rows = sum.ok_or("a row group with a negative number of rows")?;
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let end = start.checked_add(column.compressed_size()).and_then(|end| u64::try_from(end).ok());
            let inside = start >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end <= size);
            if !inside || column.num_values() < 0 {
                return Err("a column outside the file");
            }
        }
    }
    let agreed = u64::try_from(rows).ok().filter(|_| rows == metadata.file_metadata().num_rows());
    agreed.ok_or("row counts that contradict each other")
}

/// How many rows a batch may have to stay within [`BATCH_BYTES_MAX`]: by the dimension if it is known,
/// and by the mean size of a row in the row group with the largest ones.
fn rows_within_limit(metadata: &ParquetMetaData, dimension: Dimension) -> usize {
    let mean = |group: &::parquet::file::metadata::RowGroupMetaData| {
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
        bytes.checked_div(u64::try_from(group.num_rows()).unwrap_or(0)).unwrap_or(0)
    };
    let stored = metadata.row_groups().iter().map(mean).max().unwrap_or(0);
    let row_bytes = to_usize(stored).max(dimension.get().unwrap_or(1) * size_of::<f32>());
    (BATCH_BYTES_MAX / row_bytes).max(1)
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
