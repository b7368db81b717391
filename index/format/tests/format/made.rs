//! Parquet files made in the test.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};

/// A file with these columns, its rows in groups of `group_rows`.
pub(crate) fn parquet_in_groups(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> Vec<u8> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let record = RecordBatch::try_new(schema.clone(), arrays).expect("columns of one length");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties)).expect("a writer");
    writer.write(&record).expect("written");
    writer.close().expect("closed");
    bytes
}

pub(crate) fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    parquet_in_groups(columns, WriterProperties::builder().set_max_row_group_row_count(Some(2)).build())
}
