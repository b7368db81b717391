//! Tables: Arrow streams and Parquet.

use dehub_format::{FormatError, Place, ReadOptions, TableFormat, TableReader, open_table};

use crate::errors::{
    BAD_TABLE, BODY_TOO_LARGE, DIMENSION_MISMATCH, INTERNAL, INVALID_ID, INVALID_VALUE, MISSING_FIELD,
    NOT_FINITE, WRONG_TYPE,
};
use crate::problem::Problem;

/// The parameter for columns of a table that are not read.
pub(crate) const LEAVE_OUT: &str = "leave_out";

/// Opens a table, whose values may take `bytes_max` once they are decoded. The columns `leave_out`, with commas
/// between, are not read.
pub(crate) fn open(
    format: TableFormat,
    bytes: Vec<u8>,
    bytes_max: usize,
    leave_out: Option<&str>,
) -> Result<TableReader, Problem> {
    if bytes.is_empty() {
        return Err(Problem::new(BAD_TABLE, "the body is empty, wanted a table").at(""));
    }
    let leave_out = leave_out.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
    let options = ReadOptions { leave_out, ..ReadOptions::default() };
    open_table(format, bytes, &options, bytes_max).map_err(|error| refused(&error))
}

/// An error of a table: a cell is at `/rows/{row}/{column}`, a column at `/columns/{column}`.
pub(crate) fn refused(error: &FormatError) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    match error {
        FormatError::Value { place, field, coordinate, wanted, found, .. } => {
            let pointer = pointer(*place, field, *coordinate);
            let code = match (coordinate, &**field) {
                (Some(_), _) if wanted.contains("32 bits") => NOT_FINITE,
                (None, "id" | "_id") => INVALID_ID,
                (Some(_) | None, _) => WRONG_TYPE,
            };
            new(code).at(pointer).wanted(wanted).found(found)
        }
        FormatError::Ragged { place, field, wanted, found, .. } => {
            let problem = new(DIMENSION_MISMATCH).at(pointer(*place, field, None));
            problem.wanted(format_args!("{wanted} numbers")).found(format_args!("{found} numbers"))
        }
        FormatError::MissingColumn { wanted, found, .. } => {
            new(MISSING_FIELD).at("/columns").wanted(wanted).found(found)
        }
        FormatError::ColumnType { column, wanted, found, .. } => {
            new(WRONG_TYPE).at(format_args!("/columns/{}", escaped(column))).wanted(wanted).found(found)
        }
        FormatError::Dimension { found, .. } => {
            new(DIMENSION_MISMATCH).at("/columns/vector").found(format_args!("{found} numbers"))
        }
        FormatError::TooLarge { row, limit, .. } => {
            new(BODY_TOO_LARGE).at(format_args!("/rows/{row}")).wanted(format_args!("at most {limit} bytes"))
        }
        FormatError::Damaged { row, .. } => new(BAD_TABLE).at(format_args!("/rows/{row}")),
        FormatError::Header { wanted, found, .. } => new(BAD_TABLE).at("").wanted(wanted).found(found),
        FormatError::Line { .. } | FormatError::Size { .. } | FormatError::RowCounts { .. } => {
            new(INVALID_VALUE).at("")
        }
        // A body has no name and no path, and no options that contradict each other.
        FormatError::Io { .. } | FormatError::UnknownExtension { .. } | FormatError::Options { .. } => {
            new(INTERNAL)
        }
        _ => new(BAD_TABLE).at(""),
    }
}

fn pointer(place: Place, field: &str, coordinate: Option<usize>) -> String {
    let row = match place {
        Place::Row(row) => row,
        Place::Line(line) => line - 1,
    };
    let field = escaped(field);
    coordinate.map_or_else(
        || format!("/rows/{row}/{field}"),
        |coordinate| format!("/rows/{row}/{field}/{coordinate}"),
    )
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
