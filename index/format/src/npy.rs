//! `.npy`: one matrix of numbers, and optionally a `.jsonl` with the other fields of its rows.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use dehub_vector::{DIM_MAX, Rows};
use half::f16;

use crate::error::{Flaw, FormatError, Place};
use crate::fields::Columns;
use crate::jsonl::Jsonl;
use crate::lines::Lines;
use crate::narrow::narrow;
use crate::npy_header::{HeaderError, NpyHeader, NumberType};
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::reader::{Batch, batch};

/// A cursor over the rows of a file. The header was checked against the size of the file.
pub(crate) struct Npy {
    path: PathBuf,
    file: File,
    header: NpyHeader,
    dim: usize,
    batch_rows: usize,
    range: Range<u64>,
    next_row: u64,
    metadata: Option<Jsonl>,
}

impl Npy {
    pub(crate) fn open(path: &Path, options: ReadOptions) -> Result<Npy, FormatError> {
        let mut file = File::open(path).map_err(FormatError::io(path))?;
        let header = NpyHeader::read(&mut file).map_err(|error| match error {
            HeaderError::Io(reason) => FormatError::Io { path: path.to_owned(), reason },
            HeaderError::Bad { wanted, found } => {
                FormatError::Header { path: path.to_owned(), wanted, found }
            }
        })?;
        let dim = usize::try_from(header.dim)
            .ok()
            .filter(|dim| (1..=DIM_MAX).contains(dim))
            .ok_or_else(|| FormatError::Dimension { path: path.to_owned(), found: header.dim })?;
        let size = file.metadata().map_err(FormatError::io(path))?.len();
        check_size(path, &header, size)?;
        let range = options.range_of(header.rows);
        let metadata = open_metadata(path, header.rows, &options)?;
        let row_bytes = dim * (header.number.bytes() + size_of::<f32>());
        Ok(Npy {
            path: path.to_owned(),
            file,
            header,
            dim,
            batch_rows: options.batch_rows().min((BATCH_BYTES_MAX / row_bytes).max(1)),
            next_row: range.start,
            range,
            metadata,
        })
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
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
        let numbers = self.numbers(columns.len())?;
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
            return Err(row_counts(&self.path, self.header.rows, metadata.path(), first_row));
        }
        assert_eq!(first_row, self.next_row, "vectors and metadata move together");
        Ok(columns)
    }

    fn numbers(&mut self, rows: usize) -> Result<Vec<f32>, FormatError> {
        let mut numbers = vec![0.0; rows * self.dim];
        let bytes = if self.header.fortran_order { self.gather(rows) } else { self.read_rows(rows) };
        let bytes = bytes.map_err(FormatError::io(&self.path))?;
        let decoded = decode(&bytes, self.header.number, self.header.big_endian, &mut numbers);
        decoded.map_err(|(index, found)| {
            let flaw = Flaw::overflow("vector", index % self.dim, found);
            flaw.at(&self.path, Place::Row(self.next_row + (index / self.dim) as u64))
        })?;
        Ok(numbers)
    }

    fn read_rows(&mut self, rows: usize) -> io::Result<Vec<u8>> {
        let row_bytes = self.dim * self.header.number.bytes();
        let mut bytes = vec![0; rows * row_bytes];
        self.file.seek(SeekFrom::Start(self.header.data_start + self.next_row * row_bytes as u64))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The same from Fortran order, where each coordinate of all rows lies together.
    fn gather(&mut self, rows: usize) -> io::Result<Vec<u8>> {
        let width = self.header.number.bytes();
        let mut bytes = vec![0; rows * self.dim * width];
        let mut column = vec![0; rows * width];
        for coordinate in 0..self.dim {
            let number = coordinate as u64 * self.header.rows + self.next_row;
            self.file.seek(SeekFrom::Start(self.header.data_start + number * width as u64))?;
            self.file.read_exact(&mut column)?;
            for (row, value) in column.chunks_exact(width).enumerate() {
                bytes[(row * self.dim + coordinate) * width..][..width].copy_from_slice(value);
            }
        }
        Ok(bytes)
    }
}

/// INVARIANT: afterwards every row of the header is in the file, so lengths may be computed from it.
fn check_size(path: &Path, header: &NpyHeader, size: u64) -> Result<(), FormatError> {
    let row_bytes = u128::from(header.dim) * header.number.bytes() as u128;
    let bytes_wanted = u128::from(header.rows) * row_bytes;
    let bytes_found = size.saturating_sub(header.data_start);
    if bytes_wanted == u128::from(bytes_found) {
        return Ok(());
    }
    let rows_found = u64::try_from(u128::from(bytes_found) / row_bytes).unwrap_or(u64::MAX);
    Err(FormatError::Size {
        path: path.to_owned(),
        rows_wanted: header.rows,
        bytes_wanted,
        rows_found,
        bytes_found,
    })
}

fn open_metadata(path: &Path, rows: u64, options: &ReadOptions) -> Result<Option<Jsonl>, FormatError> {
    let refused = |reason| Err(FormatError::Options { path: path.to_owned(), reason });
    if let Some(field) = &options.vector_field {
        return refused(format!("an npy file is all vector, it has no field {field}"));
    }
    let Some(metadata) = &options.metadata else {
        return match options.id_field.as_ref().or(options.text_field.as_ref()) {
            Some(field) => {
                refused(format!("an npy file has no field {field}: name a metadata file that has"))
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

/// Decodes as many numbers as `numbers` has. The error is the index and value of one that does not fit.
fn decode(
    bytes: &[u8],
    number: NumberType,
    big_endian: bool,
    numbers: &mut [f32],
) -> Result<(), (usize, f64)> {
    match number {
        NumberType::I8 => each(bytes, numbers, |[byte]| f32::from(i8::from_le_bytes([byte]))),
        NumberType::U8 => each(bytes, numbers, |[byte]| f32::from(byte)),
        NumberType::F16 if big_endian => each(bytes, numbers, |bytes| f16::from_be_bytes(bytes).to_f32()),
        NumberType::F16 => each(bytes, numbers, |bytes| f16::from_le_bytes(bytes).to_f32()),
        NumberType::F32 if big_endian => each(bytes, numbers, f32::from_be_bytes),
        NumberType::F32 => each(bytes, numbers, f32::from_le_bytes),
        NumberType::F64 if big_endian => return each_narrowed(bytes, numbers, f64::from_be_bytes),
        NumberType::F64 => return each_narrowed(bytes, numbers, f64::from_le_bytes),
    }
    Ok(())
}

fn each<const N: usize>(bytes: &[u8], numbers: &mut [f32], decode: impl Fn([u8; N]) -> f32) {
    let (values, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && values.len() == numbers.len(), "the bytes of exactly these numbers");
    for (number, &value) in numbers.iter_mut().zip(values) {
        *number = decode(value);
    }
}

fn each_narrowed(
    bytes: &[u8],
    numbers: &mut [f32],
    decode: impl Fn([u8; 8]) -> f64,
) -> Result<(), (usize, f64)> {
    let (values, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty() && values.len() == numbers.len(), "the bytes of exactly these numbers");
    for (index, (number, &value)) in numbers.iter_mut().zip(values).enumerate() {
        let value = decode(value);
        *number = narrow(value).ok_or((index, value))?;
    }
    Ok(())
}
