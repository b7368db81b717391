//! Untrusted files to plain columns of checked shape, and back.
//!
//! [`open`] reads vectors with their ids, texts and payloads in batches, from files of every [`Format`]. Whatever the
//! file holds, the result is a [`Batch`]
//! whose columns have one length and whose vectors have one dimension, or a [`FormatError`] that names
//! the file and the place. Nothing is filled in, skipped or cut to fit. Values are not judged here:
//! NaN and zero vectors pass, and are refused by the collection that knows its metric.
//!
//! [`open_matrix`] reads a matrix by blocks of rows, [`open_truth`] files of true neighbours. [`open_table`] reads
//! tables from bytes in memory, as an Arrow stream or Parquet, with a limit on what they unfold to. [`Writer`] writes
//! files batch by batch, and [`write_arrow`] columns as an Arrow stream.
//!
//! [`read_scored_rows`] reads Parquet files of runs and judgements.
//!
//! No type of Arrow, Parquet, HDF5, zip or safetensors leaves this package.

mod ann_results;
mod archive;
mod arrow;
mod arrow_file;
mod arrow_messages;
mod body;
mod error;
mod fields;
mod flat;
mod formats;
mod fuzzing;
mod hdf5;
mod held;
mod input;
mod jsonl;
mod lines;
mod matrix;
mod narrow;
mod npy_header;
mod numbers;
mod options;
mod parquet;
mod parquet_pages;
mod parquet_values;
mod reader;
mod scored_rows;
mod table;
mod tensors;
mod truth;
mod write;

pub use ann_results::{AnnResult, write_ann_result};
pub use arrow::{Column, WriteArrowError, write_arrow};
pub use arrow_messages::RECORD_BYTES_MAX;
pub use body::{TableBatch, TableFormat, TableReader, open_parquet, open_table};
pub use error::{FormatError, Place};
pub use formats::{Format, UnknownFormat};
pub use fuzzing::{FILE_DECODERS, FileDecoder, fuzz_file};
pub use hdf5::HDF5_CHUNK_BYTES_MAX;
pub use lines::LINE_BYTES_MAX;
pub use matrix::{MATRIX_COLUMNS_MAX, MatrixReader, open_matrix};
pub use npy_header::NPY_HEADER_BYTES_MAX;
pub use options::{BATCH_BYTES_MAX, BATCH_ROWS_DEFAULT, ReadOptions};
pub use parquet::PAGE_BYTES_MAX;
pub use reader::{
    Batch, FieldBatch, FieldReader, Reader, format_of, open, open_bytes, open_fields, open_unpacked,
};
pub use scored_rows::{ScoredRow, is_parquet, read_scored_rows};
pub use tensors::TENSORS_HEADER_BYTES_MAX;
pub use truth::{Truth, TruthKind, TruthReader, open_truth, open_truth_bytes};
pub use write::{
    AnnBenchmark, HDF5_WRITE_BYTES_MAX, Kind, WriteOptions, Writer, write_ann_benchmark, write_npy,
};
