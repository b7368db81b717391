//! Tables: Parquet, and Arrow files and streams.

use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{Kind, Unfinished};
use crate::arrow::{Column, item_field, whole_item_field};
use crate::error::FormatError;
use crate::table::guarded;

/// A row group is ended once it holds this much.
const GROUP_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The ending of streams of Arrow; files have the others.
const STREAM_ENDING: &str = "arrows";

pub(super) struct TableSink {
    schema: SchemaRef,
    writer: TableWriter,
}

enum TableWriter {
    Parquet(Box<ArrowWriter<Unfinished>>),
    File(Box<FileWriter<Unfinished>>),
    Stream(Box<StreamWriter<Unfinished>>),
}

impl TableSink {
    pub(super) fn parquet(
        path: &Path,
        file: Unfinished,
        columns: &[(String, Kind)],
    ) -> Result<TableSink, FormatError> {
        let schema = schema(path, columns)?;
        let zstd = ZstdLevel::try_new(1).expect("a level of zstd");
        let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(zstd));
        for (name, kind) in columns {
            if let Kind::Vectors(_) = kind {
                // Floats hardly repeat, and their bytes hardly get shorter.
                let path = ColumnPath::from(vec![name.clone(), "list".to_owned(), "item".to_owned()]);
                properties = properties.set_column_dictionary_enabled(path.clone(), false);
                properties = properties.set_column_compression(path, Compression::UNCOMPRESSED);
            }
        }
        let writer = guarded(|| ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties.build())));
        let writer = TableWriter::Parquet(Box::new(writer.map_err(|reason| unwritten(path, reason))?));
        Ok(TableSink { schema, writer })
    }

    pub(super) fn arrow(
        path: &Path,
        file: Unfinished,
        columns: &[(String, Kind)],
    ) -> Result<TableSink, FormatError> {
        let schema = schema(path, columns)?;
        let is_stream = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(STREAM_ENDING));
        let writer = guarded(|| {
            Ok::<_, arrow_schema::ArrowError>(if is_stream {
                TableWriter::Stream(Box::new(StreamWriter::try_new(file, &schema)?))
            } else {
                TableWriter::File(Box::new(FileWriter::try_new(file, &schema)?))
            })
        });
        Ok(TableSink { writer: writer.map_err(|reason| unwritten(path, reason))?, schema })
    }

    pub(super) fn write(
        &mut self,
        path: &Path,
        names: &[(String, Kind)],
        columns: Vec<Column>,
    ) -> Result<(), FormatError> {
        let write = || -> Result<(), String> {
            let arrays = names.iter().zip(columns).map(|((_, kind), column)| column.array_of(*kind));
            let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
            let record = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
            let record = record.map_err(|error| error.to_string())?;
            match &mut self.writer {
                TableWriter::Parquet(writer) => {
                    writer.write(&record).map_err(|error| error.to_string())?;
                    if writer.in_progress_size() >= GROUP_BYTES_MAX {
                        writer.flush().map_err(|error| error.to_string())?;
                    }
                    Ok(())
                }
                TableWriter::File(writer) => writer.write(&record).map_err(|error| error.to_string()),
                TableWriter::Stream(writer) => writer.write(&record).map_err(|error| error.to_string()),
            }
        };
        guarded(write).map_err(|reason| unwritten(path, reason))
    }

    pub(super) fn finish(self, path: &Path) -> Result<Unfinished, FormatError> {
        let finish = || -> Result<Unfinished, String> {
            match self.writer {
                TableWriter::Parquet(writer) => writer.into_inner().map_err(|error| error.to_string()),
                TableWriter::File(writer) => writer.into_inner().map_err(|error| error.to_string()),
                TableWriter::Stream(writer) => writer.into_inner().map_err(|error| error.to_string()),
            }
        };
        guarded(finish).map_err(|reason| unwritten(path, reason))
    }
}

fn schema(path: &Path, columns: &[(String, Kind)]) -> Result<SchemaRef, FormatError> {
    let mut fields = Vec::with_capacity(columns.len());
    for (name, kind) in columns {
        let (data_type, is_nullable) = match kind {
            Kind::Whole => (DataType::UInt32, false),
            Kind::Wide | Kind::NumberIds => (DataType::UInt64, false),
            Kind::TextIds => (DataType::Utf8, false),
            Kind::Numbers => (DataType::Float32, true),
            Kind::Texts | Kind::Json => (DataType::Utf8, true),
            Kind::Vectors(dim) => {
                let dim = i32::try_from(*dim).map_err(|error| unwritten(path, error.to_string()))?;
                (DataType::FixedSizeList(item_field(), dim), false)
            }
            Kind::WholeLists(len) => {
                let len = i32::try_from(*len).map_err(|error| unwritten(path, error.to_string()))?;
                (DataType::FixedSizeList(whole_item_field(), len), false)
            }
        };
        fields.push(Field::new(name, data_type, is_nullable));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn unwritten(path: &Path, reason: String) -> FormatError {
    FormatError::Options { path: path.to_owned(), reason: format!("cannot be written: {reason}") }
}
