//! Parquet: a column of vectors, and optionally ids, texts and payload columns.

use std::ops::Range;
use std::path::Path;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::ParquetMetaData;

use crate::error::FormatError;
use crate::held::Held;
use crate::narrow::Dimension;
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::parquet_pages::decoded;
use crate::parquet_values::views_of;
use crate::reader::{Batch, batch};
use crate::table::{Converted, Table, guarded, header_error, kept};

type Builder<T> = ParquetRecordBatchReaderBuilder<T>;

const FORMAT: &str = "a Parquet file";

/// The most that a page of a file may take once decoded: writers make them of about 1 MiB.
pub const PAGE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A cursor over the rows of a file.
pub(crate) struct Parquet {
    reader: ParquetRecordBatchReader,
    table: Table,
    range: Range<u64>,
    next_row: u64,
}

impl Parquet {
    /// Opens a file on disk, which must have vectors if they are needed.
    pub(crate) fn open(
        path: &Path,
        file: Held,
        options: &ReadOptions,
        needs_vectors: bool,
    ) -> Result<Parquet, FormatError> {
        let size = file.size();
        let refused = |found| header_error(path, FORMAT, found);
        let builder = guarded(|| Builder::try_new(file.clone())).map_err(refused)?;
        let table = Table::new(path, builder.schema(), options, needs_vectors, FORMAT)?;
        checked_rows(builder.metadata(), size).map_err(|found| refused(found.to_owned()))?;
        let largest = decoded(&file, builder.metadata()).map_err(refused)?.largest_page;
        if largest > PAGE_BYTES_MAX {
            return Err(refused(format!(
                "a page of {largest} bytes once decoded, more than {PAGE_BYTES_MAX}"
            )));
        }
        Parquet::new(builder, size, table, options)
    }

    /// Opens a file in memory, which need not have vectors. `name` stands for its path. What its values take when
    /// they are decoded may not exceed `bytes_max`.
    pub(crate) fn in_memory(
        name: &Path,
        bytes: Vec<u8>,
        options: &ReadOptions,
        bytes_max: usize,
    ) -> Result<Parquet, FormatError> {
        let refused = |found| header_error(name, FORMAT, found);
        let bytes = Held::memory(bytes);
        let first = guarded(|| Builder::try_new(bytes.clone())).map_err(refused)?;
        checked_rows(first.metadata(), bytes.size()).map_err(|found| refused(found.to_owned()))?;
        let decoded = decoded(&bytes, first.metadata()).map_err(refused)?.all;
        if decoded > bytes_max as u64 {
            return Err(FormatError::TooLarge { path: name.to_owned(), row: 0, limit: bytes_max });
        }
        // One long text that all rows share takes its place once if rows only look at it.
        let views = views_of(first.schema());
        let with_views = ArrowReaderOptions::new().with_schema(views);
        let builder =
            guarded(|| Builder::try_new_with_options(bytes.clone(), with_views)).map_err(refused)?;
        let table = Table::new(name, builder.schema(), options, false, FORMAT)?.within(bytes_max);
        Parquet::new(builder, bytes.size(), table, options)
    }

    fn new(
        builder: Builder<Held>,
        size: u64,
        table: Table,
        options: &ReadOptions,
    ) -> Result<Parquet, FormatError> {
        let refused = |found| header_error(table.path(), FORMAT, found);
        let total = checked_rows(builder.metadata(), size).map_err(|found| refused(found.to_owned()))?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), kept(builder.schema(), options));
        let range = options.range_of(total);
        let batch_rows = options.batch_rows().min(rows_within_limit(builder.metadata(), table.dimension()));
        let builder = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .with_offset(to_usize(range.start))
            .with_limit(to_usize(range.end - range.start));
        let reader = guarded(|| builder.build()).map_err(refused)?;
        Ok(Parquet { reader, table, next_row: range.start, range })
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        self.table.dimension().get()
    }

    /// What was read so far counts no more.
    pub(crate) fn forget(&mut self) {
        self.table.forget();
    }

    pub(crate) fn rows_total(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next rows with their vectors; `None` at the end.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, FormatError> {
        let Some((first_row, Converted { vectors, columns })) = self.rows()? else { return Ok(None) };
        let vectors =
            vectors.expect("the file was opened for its vectors, and a batch of the reader has a row");
        Ok(Some(batch(first_row, vectors, columns)))
    }

    /// The next rows, and the number of the first; `None` at the end.
    pub(crate) fn rows(&mut self) -> Result<Option<(u64, Converted)>, FormatError> {
        let left = self.range.end - self.next_row;
        let record = guarded(|| self.reader.next().transpose()).map_err(|reason| self.damaged(reason))?;
        match record {
            None if left == 0 => Ok(None),
            None => Err(self.damaged(format!("{left} rows fewer than the footer says"))),
            Some(record) if record.num_rows() as u64 > left => {
                Err(self.damaged("more rows than the footer says".to_owned()))
            }
            Some(record) => {
                let first_row = self.next_row;
                let converted = self.table.convert(&record, first_row)?;
                self.next_row += record.num_rows() as u64;
                Ok(Some((first_row, converted)))
            }
        }
    }

    fn damaged(&self, reason: String) -> FormatError {
        FormatError::Damaged { path: self.table.path().to_owned(), row: self.next_row, reason }
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
