//! Record batches, of Parquet or of an Arrow stream, as columns of checked shape.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use dehub_vector::{DIM_MAX, Rows};
use serde_json::Value;

use crate::error::{Flaw, FormatError, Place};
use crate::fields::{Columns, PAYLOAD_NAME, Payload, Roles, UniqueFields, VECTOR_NAMES};
use crate::narrow::Dimension;
use crate::options::ReadOptions;
use crate::parquet_values::{
    Budget, ID_TYPES, PAYLOAD_TYPES, TEXT_TYPES, VECTOR_TYPES, append_vectors, cell, is_id, is_payload,
    is_text, vector_dim,
};

const OBJECT_TYPES: &str = "a struct, or strings that are JSON objects \
     (name the column in `leave_out` to read the file without it)";

/// How the record batches of one schema become columns. Names and types were checked.
pub(crate) struct Table {
    path: PathBuf,
    roles: Roles,
    dimension: Dimension,
    /// What the values read may take, vectors aside.
    budget: Budget,
}

/// The rows of a record batch: what is not there has no column.
pub(crate) struct Converted {
    pub(crate) vectors: Option<Rows>,
    pub(crate) columns: Columns,
}

impl Table {
    /// Decides which column is what, and checks their types. `format` names the format in messages.
    pub(crate) fn new(
        path: &Path,
        schema: &Schema,
        options: &ReadOptions,
        needs_vectors: bool,
        format: &'static str,
    ) -> Result<Table, FormatError> {
        let roles = Roles::new(options, true, |name| schema.column_with_name(name).is_some());
        let dimension = Checked { path, schema, roles: &roles, format }.check(options, needs_vectors)?;
        Ok(Table { path: path.to_owned(), roles, dimension, budget: Budget::new(usize::MAX) })
    }

    /// The same, with a limit on the bytes that the values read may take.
    pub(crate) fn within(self, bytes_max: usize) -> Table {
        Table { budget: Budget::new(bytes_max), ..self }
    }

    /// What was read so far counts no more.
    pub(crate) fn forget(&mut self) {
        self.budget.refill();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The dimension of the vectors, if the type has one or a row was read.
    pub(crate) fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// The rows of a record batch, of which the first has the number `first_row`.
    pub(crate) fn convert(&mut self, record: &RecordBatch, first_row: u64) -> Result<Converted, FormatError> {
        let at = |(row, flaw): (usize, Flaw)| flaw.at(&self.path, Place::Row(first_row + row as u64));
        let vectors = match &self.roles.vector {
            Some(name) => {
                let array = record.column_by_name(name).expect("the column is part of the projection");
                let mut numbers = Vec::new();
                append_vectors(array, name, &mut self.dimension, &mut numbers).map_err(at)?;
                let rows =
                    self.dimension.get().filter(|_| !numbers.is_empty()).map(|dim| Rows::new(dim, numbers));
                rows.map(|rows| rows.expect("every row was checked to have `dim` numbers"))
            }
            None => None,
        };
        let mut columns = Columns::default();
        for row in 0..record.num_rows() {
            let fields = fields(record, row, &self.roles, &mut self.budget);
            columns.push(fields.and_then(|fields| self.roles.row(fields)).map_err(|flaw| at((row, flaw)))?);
        }
        Ok(Converted { vectors, columns })
    }
}

/// The values of a row other than its vector. A null is a field that is not there, except for an id:
/// that must be in every row.
fn fields(record: &RecordBatch, row: usize, roles: &Roles, budget: &mut Budget) -> Result<Payload, Flaw> {
    let mut fields = Payload::new();
    for (field, column) in record.schema_ref().fields().iter().zip(record.columns()) {
        let name = field.name();
        if roles.vector.as_ref() == Some(name) {
            continue;
        }
        match cell(column, row, name, budget)? {
            Some(Value::String(json)) if name == PAYLOAD_NAME => {
                fields.insert(name.clone(), payload_of_json(&json)?)
            }
            Some(value) => fields.insert(name.clone(), value),
            None if roles.is_id(name) || roles.is_text(name) => fields.insert(name.clone(), Value::Null),
            None => None,
        };
    }
    Ok(fields)
}

/// A payload that is written as JSON.
fn payload_of_json(json: &str) -> Result<Value, Flaw> {
    serde_json::from_str(json)
        .map(|UniqueFields(fields)| Value::Object(fields))
        .map_err(|error| Flaw::value(PAYLOAD_NAME, "a JSON object", format!("text that is none ({error})")))
}

/// What is checked of the columns before a row is read.
struct Checked<'a> {
    path: &'a Path,
    schema: &'a Schema,
    roles: &'a Roles,
    format: &'static str,
}

impl Checked<'_> {
    /// The dimension, if the type of the vectors has one.
    fn check(&self, options: &ReadOptions, needs_vectors: bool) -> Result<Dimension, FormatError> {
        if let Some(missing) = self.roles.asked().find(|name| self.schema.column_with_name(name).is_none()) {
            return Err(self.missing(missing.clone()));
        }
        if self.roles.vector.is_none() && needs_vectors {
            return Err(self.missing(format!("of vectors: one of {}", VECTOR_NAMES.join(", "))));
        }
        let mut dimension = Dimension::default();
        let mut names: Vec<&str> = Vec::new();
        for index in kept(self.schema, options) {
            let field = self.schema.field(index);
            let (name, data_type) = (field.name(), field.data_type());
            if names.contains(&name.as_str()) {
                return Err(header_error(self.path, self.format, format!("two columns named {name}")));
            }
            names.push(name);
            if self.roles.vector.as_ref() == Some(name) {
                let dim =
                    vector_dim(data_type).ok_or_else(|| self.wrong_type(name, VECTOR_TYPES, data_type))?;
                dimension = self.dimension(dim)?;
            } else if let Some(wanted) = self.wanted_type(name, data_type) {
                return Err(self.wrong_type(name, wanted, data_type));
            }
        }
        Ok(dimension)
    }

    /// What a column other than the vectors should be, if it is not.
    fn wanted_type(&self, name: &str, data_type: &DataType) -> Option<&'static str> {
        let is_object = |data_type: &DataType| {
            data_type.is_null() || is_text(data_type) || matches!(data_type, DataType::Struct(_))
        };
        let (good, wanted) = if self.roles.is_id(name) {
            (is_id(data_type), ID_TYPES)
        } else if self.roles.is_text(name) {
            (is_text(data_type), TEXT_TYPES)
        } else if name == PAYLOAD_NAME && !is_object(data_type) {
            (false, OBJECT_TYPES)
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

/// The columns that are read.
pub(crate) fn kept(schema: &Schema, options: &ReadOptions) -> impl Iterator<Item = usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| !options.leave_out.contains(field.name())).map(|(index, _)| index)
}

pub(crate) fn header_error(path: &Path, format: &str, found: String) -> FormatError {
    FormatError::Header { path: path.to_owned(), wanted: format.to_owned(), found }
}

/// What a decoder that is not ours makes of bytes. It may assert on some that are damaged where it should return
/// an error; whoever was interrupted so is not used again.
pub(crate) fn guarded<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
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
