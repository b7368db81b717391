//! Parquet files of runs and judgements: a query, a document and a number a row, as ranx writes them.

use std::fs::File;
use std::path::Path;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::error::{FormatError, Place};
use crate::parquet_values::views_of;
use crate::table::{guarded, header_error};

const FORMAT: &str = "a Parquet file";

/// The columns that a file must have. It may have others.
const COLUMNS: [&str; 3] = ["q_id", "doc_id", "score"];

const TEXT_WANTED: &str = "strings or integers";
const NUMBER_WANTED: &str = "floats or integers of up to 64 bits";

/// A row of a run or of judgements.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredRow {
    /// The id of the query. Integers are written in decimal.
    pub query: String,
    /// The id of the document.
    pub document: String,
    /// Its score or relevance. May be NaN.
    pub score: f64,
}

/// Whether a file begins as Parquet files do.
pub fn is_parquet(first: &[u8]) -> bool {
    first.starts_with(b"PAR1")
}

/// Reads the columns `q_id`, `doc_id` and `score` of a Parquet file, row by row. Memory follows the rows.
///
/// # Errors
/// If the file cannot be read, a column is missing or of another type, or a value is null.
pub fn read_scored_rows(path: &Path) -> Result<Vec<ScoredRow>, FormatError> {
    let refused = |found| header_error(path, FORMAT, found);
    let file = || File::open(path).map_err(FormatError::io(path));
    let first = file()?;
    let plain = guarded(|| ParquetRecordBatchReaderBuilder::try_new(first)).map_err(refused)?;
    let schema = views_of(plain.schema());
    let found =
        || plain.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    for column in COLUMNS {
        let field = schema.field_with_name(column).map_err(|_| FormatError::MissingColumn {
            path: path.to_owned(),
            wanted: column.to_owned(),
            found: found(),
        })?;
        check_type(path, column, field.data_type())?;
    }
    let with_views = ArrowReaderOptions::new().with_schema(schema);
    let second = file()?;
    let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new_with_options(second, with_views));
    let builder = builder.map_err(refused)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
    let mut reader = guarded(|| builder.with_projection(mask).build()).map_err(refused)?;
    let mut rows = Vec::new();
    loop {
        let row = rows.len() as u64;
        let damaged = |reason| FormatError::Damaged { path: path.to_owned(), row, reason };
        match guarded(|| reader.next().transpose()).map_err(damaged)? {
            Some(record) => append(path, &record, &mut rows)?,
            None => return Ok(rows),
        }
    }
}

fn check_type(path: &Path, column: &str, found: &DataType) -> Result<(), FormatError> {
    let is_number = found.is_integer() && *found != DataType::UInt64;
    let (is_right, wanted) = match column {
        "score" => (is_number || matches!(found, DataType::Float32 | DataType::Float64), NUMBER_WANTED),
        _ => (is_number || *found == DataType::Utf8View, TEXT_WANTED),
    };
    if is_right {
        return Ok(());
    }
    Err(FormatError::ColumnType {
        path: path.to_owned(),
        column: column.to_owned(),
        wanted: wanted.to_owned(),
        found: found.to_string(),
    })
}

fn append(path: &Path, record: &RecordBatch, rows: &mut Vec<ScoredRow>) -> Result<(), FormatError> {
    let [queries, documents, scores] =
        COLUMNS.map(|name| record.column_by_name(name).expect("the file has it, and it was asked for"));
    for index in 0..record.num_rows() {
        let place = Place::Row(rows.len() as u64);
        let null = |field: &str| FormatError::Value {
            path: path.to_owned(),
            place,
            field: field.into(),
            coordinate: None,
            wanted: "a value".into(),
            found: "null".into(),
        };
        let id = |array: &dyn Array, name| text(array, index).ok_or_else(|| null(name));
        rows.push(ScoredRow {
            query: id(queries, COLUMNS[0])?,
            document: id(documents, COLUMNS[1])?,
            score: number(scores, index).ok_or_else(|| null(COLUMNS[2]))?,
        });
    }
    Ok(())
}

fn text(array: &dyn Array, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    let text = array.as_string_view_opt().map(|texts| texts.value(row).to_owned());
    text.or_else(|| integer(array, row).map(|number| number.to_string()))
}

#[expect(clippy::cast_precision_loss, reason = "a score is a float; relevances are small")]
fn number(array: &dyn Array, row: usize) -> Option<f64> {
    if array.is_null(row) {
        return None;
    }
    let wide = array.as_primitive_opt::<Float64Type>().map(|numbers| numbers.value(row));
    let float =
        wide.or_else(|| array.as_primitive_opt::<Float32Type>().map(|numbers| numbers.value(row).into()));
    float.or_else(|| integer(array, row).map(|number| number as f64))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "types were checked before a row was read")]
fn integer(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::arrow::ArrowWriter;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    fn write(columns: Vec<(&str, ArrayRef)>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let record =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, it)| (name, it, true)));
        let record = record.expect("columns of one length");
        let mut writer =
            ArrowWriter::try_new(file.reopen().expect("open"), record.schema(), None).expect("a writer");
        writer.write(&record).expect("written");
        writer.close().expect("closed");
        file
    }

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    #[test]
    fn rows_are_read_whatever_else_the_file_has_and_in_whatever_order() {
        let file = write(vec![
            ("score", Arc::new(Float64Array::from(vec![0.5, -1.0, f64::NAN]))),
            ("extra", texts(&["x", "y", "z"])),
            ("doc_id", Arc::new(Int64Array::from(vec![7, 8, -9]))),
            ("q_id", texts(&["q1", "q1", "07"])),
        ]);
        let rows = read_scored_rows(file.path()).expect("a run");
        let row = |row: &ScoredRow| format!("{} {} {}", row.query, row.document, row.score);
        assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), ["q1 7 0.5", "q1 8 -1", "07 -9 NaN"]);
    }

    #[test]
    fn what_is_refused_is_named_by_file_row_and_column() {
        let (queries, scores) = (texts(&["q"]), Arc::new(Int64Array::from(vec![1])) as ArrayRef);
        let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        for (columns, message) in [
            (
                vec![("q_id", queries.clone()), ("score", scores.clone())],
                ": wanted a column doc_id, found q_id, score",
            ),
            (
                vec![("q_id", queries.clone()), ("doc_id", queries.clone()), ("score", queries.clone())],
                ": column score: wanted floats or integers of up to 64 bits, found Utf8View",
            ),
            (
                vec![("q_id", queries.clone()), ("doc_id", nothing), ("score", scores.clone())],
                ": row 0, field doc_id: wanted a value, found null",
            ),
        ] {
            let file = write(columns);
            let error = read_scored_rows(file.path()).expect_err(message).to_string();
            assert_eq!(error, format!("{}{message}", file.path().display()));
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"PAR1 and no more").expect("written");
        let error = read_scored_rows(file.path()).expect_err("damaged").to_string();
        assert!(error.contains("wanted a Parquet file"), "{error}");
    }
}
