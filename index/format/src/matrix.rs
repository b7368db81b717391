//! Matrices of every format: rows of numbers by number, and what goes with the rows in a file beside.

use std::ops::Range;
use std::path::{Path, PathBuf};

use dehub_vector::{Metric, Rows};

use crate::error::{FormatError, Place};
use crate::fields::Columns;
use crate::flat::Flat;
use crate::formats::Format;
use crate::hdf5::Hdf5;
use crate::input::Input;
use crate::jsonl::Jsonl;
use crate::lines::Lines;
use crate::numbers::{NumberType, decode, vector_dim};
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::reader::{Batch, batch, no_datasets};
use crate::{archive, tensors};

/// The most columns of a matrix that is read by rows: one row of it takes 192 MiB at most.
pub const MATRIX_COLUMNS_MAX: u64 = 1 << 24;

/// A matrix in a file, whatever the file is.
pub(crate) struct Matrix {
    path: PathBuf,
    source: Source,
}

enum Source {
    Flat(Flat),
    Hdf5(Hdf5),
}

impl Matrix {
    /// Opens the matrix of a file, of which nothing but the shape and the type was looked at.
    pub(crate) fn open(input: &Input, format: Format, options: &ReadOptions) -> Result<Matrix, FormatError> {
        let path = input.path();
        if options.dataset.is_some() && !format.has_datasets() {
            return Err(no_datasets(path));
        }
        let dataset = options.dataset.as_deref();
        let number = || format.number().expect("the formats whose names tell the type of their numbers");
        let source = match format {
            Format::Npy => Source::Flat(Flat::npy(path, input.held()?)?),
            Format::Npz => Source::Flat(archive::open(path, input.held()?, dataset)?),
            Format::Safetensors => Source::Flat(tensors::open(path, input.held()?, dataset)?),
            Format::Hdf5 => Source::Hdf5(Hdf5::open(path, input.held()?, dataset)?),
            Format::Fvecs | Format::Ivecs | Format::Bvecs => {
                Source::Flat(Flat::vecs(path, input.held()?, format, number())?)
            }
            Format::Fbin | Format::Ibin | Format::U8bin | Format::I8bin => {
                Source::Flat(Flat::bin(path, input.held()?, format, number())?)
            }
            Format::Parquet | Format::Arrow | Format::Jsonl => {
                let reason = format!("a file of {format} is a table and no matrix");
                return Err(FormatError::Options { path: path.to_owned(), reason });
            }
        };
        let matrix = Matrix { path: path.to_owned(), source };
        if matrix.columns() > MATRIX_COLUMNS_MAX {
            return Err(FormatError::Header {
                path: path.to_owned(),
                wanted: format!("a matrix of at most {MATRIX_COLUMNS_MAX} columns"),
                found: format!("{} columns", matrix.columns()),
            });
        }
        Ok(matrix)
    }

    fn number(&self) -> (NumberType, bool) {
        match &self.source {
            Source::Flat(flat) => (flat.layout().number, flat.layout().big_endian),
            Source::Hdf5(hdf5) => hdf5.number(),
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        match &self.source {
            Source::Flat(flat) => flat.layout().rows,
            Source::Hdf5(hdf5) => hdf5.rows(),
        }
    }

    pub(crate) fn columns(&self) -> u64 {
        match &self.source {
            Source::Flat(flat) => flat.layout().columns,
            Source::Hdf5(hdf5) => hdf5.columns(),
        }
    }

    /// The metric that the file says its vectors are for.
    pub(crate) fn metric(&self) -> Option<Metric> {
        match &self.source {
            Source::Flat(_) => None,
            Source::Hdf5(hdf5) => hdf5.metric(),
        }
    }

    /// How many rows take no more than [`BATCH_BYTES_MAX`], as they are stored and as floats; one at least.
    fn rows_within_limit(&self) -> usize {
        let row_bytes = self.columns().max(1) * (self.number().0.bytes() + size_of::<f32>()) as u64;
        usize::try_from(BATCH_BYTES_MAX as u64 / row_bytes).unwrap_or(usize::MAX).max(1)
    }

    /// The numbers of `rows` rows from `first` on, row after row. There must be as many.
    fn numbers(&self, first: u64, rows: usize) -> Result<Vec<f32>, FormatError> {
        assert!(first + rows as u64 <= self.rows(), "rows of the matrix");
        let columns = usize::try_from(self.columns()).expect("at most MATRIX_COLUMNS_MAX");
        let mut numbers = vec![0.0; rows * columns];
        if numbers.is_empty() {
            return Ok(numbers);
        }
        let bytes = match &self.source {
            Source::Flat(flat) => flat.bytes(first, rows)?,
            Source::Hdf5(hdf5) => hdf5.bytes(first, rows)?,
        };
        let (number, big_endian) = self.number();
        decode(&bytes, number, big_endian, &mut numbers).map_err(|(index, misfit)| {
            let row = Place::Row(first + (index / columns) as u64);
            misfit.flaw("vector", index % columns).at(&self.path, row)
        })?;
        Ok(numbers)
    }
}

/// The rows of a matrix as vectors, in order, with the lines of a metadata file.
pub(crate) struct MatrixRows {
    matrix: Matrix,
    dim: usize,
    batch_rows: usize,
    range: Range<u64>,
    next_row: u64,
    metadata: Option<Jsonl>,
}

impl MatrixRows {
    pub(crate) fn open(
        input: &Input,
        format: Format,
        options: ReadOptions,
    ) -> Result<MatrixRows, FormatError> {
        let path = input.path();
        let matrix = Matrix::open(input, format, &options)?;
        let dim = vector_dim(path, matrix.columns())?;
        let range = options.range_of(matrix.rows());
        let metadata = open_metadata(path, format, matrix.rows(), &options)?;
        let batch_rows = options.batch_rows().min(matrix.rows_within_limit());
        Ok(MatrixRows { matrix, dim, batch_rows, next_row: range.start, range, metadata })
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn metric(&self) -> Option<Metric> {
        self.matrix.metric()
    }

    pub(crate) fn rows_total(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next rows; `None` at the end.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, FormatError> {
        let left = self.range.end - self.next_row;
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(self.batch_rows);
        if rows == 0 {
            return Ok(None);
        }
        let first_row = self.next_row;
        let columns = self.fields(rows)?;
        let numbers = self.matrix.numbers(first_row, columns.len())?;
        self.next_row += columns.len() as u64;
        let vectors = Rows::new(self.dim, numbers).expect("as many numbers as asked for");
        Ok(Some(batch(first_row, vectors, columns)))
    }

    /// The other fields of the next rows, of fewer if the lines are long.
    fn fields(&mut self, rows: usize) -> Result<Columns, FormatError> {
        let Some(metadata) = &mut self.metadata else {
            return Ok(Columns::empty(rows));
        };
        let (first_row, columns) = metadata.collect(rows, &mut Vec::new())?;
        if columns.len() == 0 {
            // The lines were counted when the file was opened; it has been written to since.
            return Err(row_counts(&self.matrix.path, self.matrix.rows(), metadata.path(), first_row));
        }
        assert_eq!(first_row, self.next_row, "vectors and metadata move together");
        Ok(columns)
    }
}

fn open_metadata(
    path: &Path,
    format: Format,
    rows: u64,
    options: &ReadOptions,
) -> Result<Option<Jsonl>, FormatError> {
    let refused = |reason| Err(FormatError::Options { path: path.to_owned(), reason });
    if let Some(field) = &options.vector_field {
        return refused(format!("a file of {format} is all vector, it has no field {field}"));
    }
    let Some(metadata) = &options.metadata else {
        return match options.id_field.as_ref().or(options.text_field.as_ref()) {
            Some(field) => {
                refused(format!("a file of {format} has no field {field}: name a metadata file that has"))
            }
            None => Ok(None),
        };
    };
    let lines = Lines::count(metadata)?;
    if lines != rows {
        return Err(row_counts(path, rows, metadata, lines));
    }
    Jsonl::open(metadata, options.clone(), false).map(Some)
}

fn row_counts(vectors: &Path, rows: u64, metadata: &Path, lines: u64) -> FormatError {
    FormatError::RowCounts { path: metadata.to_owned(), vectors: vectors.to_owned(), rows, lines }
}

/// A matrix that is read by blocks of rows: similarities of queries × gallery, for one.
///
/// Memory: what a block takes, as it is stored and as 32-bit floats; of a chunked HDF5 file the chunks that it meets
/// as well.
pub struct MatrixReader {
    matrix: Matrix,
}

/// Opens a matrix: a file of any format but tables, of at most [`MATRIX_COLUMNS_MAX`] columns. Of `options` the format
/// and the name of the dataset count; without a name HDF5 gives `train`, or its only dataset.
///
/// # Errors
///
/// A file that is no matrix of numbers, or does not hold the rows that it says.
pub fn open_matrix(path: &Path, options: &ReadOptions) -> Result<MatrixReader, FormatError> {
    let input = Input::open(path)?;
    let format = input.format(options.format)?;
    Ok(MatrixReader { matrix: Matrix::open(&input, format, options)? })
}

impl MatrixReader {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.matrix.rows()
    }

    /// How many columns there are; there may be none.
    pub fn columns(&self) -> u64 {
        self.matrix.columns()
    }

    /// How many rows a block may have to take no more than [`BATCH_BYTES_MAX`]; one at least.
    pub fn rows_within_limit(&self) -> usize {
        self.matrix.rows_within_limit()
    }

    /// The numbers of at most `rows` rows from `first` on, row after row, rounded to 32 bits; fewer rows, or none, at
    /// the end. NaN and the infinities pass.
    ///
    /// # Errors
    ///
    /// A number that 32 bits cannot hold, by row and column, and whatever keeps the file from being read.
    pub fn block(&self, first: u64, rows: usize) -> Result<Vec<f32>, FormatError> {
        let left = self.rows().saturating_sub(first);
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(rows);
        self.matrix.numbers(first.min(self.rows()), rows)
    }
}
