//! Untrusted files to plain columns of checked shape, and back.
//!
//! [`open`] reads vectors with their ids, texts and payloads in batches: `.npy` (with a `.jsonl` of
//! metadata beside it), Parquet and JSON lines. Whatever the file holds, the result is a [`Batch`]
//! whose columns have one length and whose vectors have one dimension, or a [`FormatError`] that names
//! the file and the place. Nothing is filled in, skipped or cut to fit. Values are not judged here:
//! NaN and zero vectors pass, and are refused by the collection that knows its metric.
//!
//! [`open_table`] reads the same from bytes in memory, as an Arrow stream or Parquet, with a limit on what they unfold
//! to; [`write_arrow`] writes columns as an Arrow stream.
//!
//! [`read_scored_rows`] reads Parquet files of runs and judgements.
//!
//! No type of Arrow, Parquet or npy leaves this package.

mod ann_results;
mod arrow;
mod body;
mod error;
mod fields;
mod jsonl;
mod lines;
mod narrow;
mod npy;
mod npy_header;
mod options;
mod parquet;
mod parquet_pages;
mod parquet_values;
mod reader;
mod scored_rows;
mod table;
mod write;

pub use ann_results::{AnnResult, write_ann_result};
pub use arrow::{Column, WriteArrowError, write_arrow};
pub use body::{TableBatch, TableFormat, TableReader, open_parquet, open_table};
pub use error::{FormatError, Place};
pub use lines::LINE_BYTES_MAX;
pub use npy_header::NPY_HEADER_BYTES_MAX;
pub use options::{BATCH_BYTES_MAX, BATCH_ROWS_DEFAULT, ReadOptions};
pub use reader::{Batch, FieldBatch, FieldReader, Reader, open, open_fields};
pub use scored_rows::{ScoredRow, is_parquet, read_scored_rows};
pub use write::write_npy;
