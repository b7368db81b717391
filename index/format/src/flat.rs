//! Matrices whose numbers lie in a file one after the other: npy arrays, tensors, `.fvecs` and `.fbin` files.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{FormatError, Place};
use crate::formats::Format;
use crate::held::Held;
use crate::npy_header::{HeaderError, NpyHeader};
use crate::numbers::{NumberType, vector_dim};

/// Where the numbers of a matrix lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) number: NumberType,
    pub(crate) big_endian: bool,
    /// Whether the numbers of a column lie together, and not those of a row.
    pub(crate) fortran_order: bool,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Where the first row starts.
    pub(crate) start: u64,
    /// The bytes before the numbers of each row: its length, which is `columns`.
    pub(crate) row_head: usize,
}

/// A matrix in a file.
///
/// INVARIANT: all of its rows are in the file, so lengths may be computed from the layout.
pub(crate) struct Flat {
    path: PathBuf,
    held: Held,
    layout: Layout,
}

impl Layout {
    fn row_bytes(&self) -> u128 {
        self.row_head as u128 + u128::from(self.columns) * self.number.bytes() as u128
    }
}

impl Flat {
    /// A matrix that ends where the file does.
    pub(crate) fn new(path: &Path, held: Held, layout: Layout) -> Result<Flat, FormatError> {
        let bytes_wanted = u128::from(layout.rows) * layout.row_bytes();
        let bytes_found = held.size().saturating_sub(layout.start);
        if bytes_wanted != u128::from(bytes_found) {
            let rows_found = u128::from(bytes_found).checked_div(layout.row_bytes()).unwrap_or(0);
            return Err(FormatError::Size {
                path: path.to_owned(),
                rows_wanted: layout.rows,
                bytes_wanted,
                rows_found: u64::try_from(rows_found).unwrap_or(u64::MAX),
                bytes_found,
            });
        }
        Ok(Flat { path: path.to_owned(), held, layout })
    }

    /// An npy file, or an array of an archive.
    pub(crate) fn npy(path: &Path, held: Held) -> Result<Flat, FormatError> {
        let header = NpyHeader::read(&mut held.clone()).map_err(|error| match error {
            HeaderError::Io(reason) => FormatError::Io { path: path.to_owned(), reason },
            HeaderError::Bad { wanted, found } => {
                FormatError::Header { path: path.to_owned(), wanted, found }
            }
        })?;
        let NpyHeader { number, big_endian, fortran_order, rows, dim, data_start } = header;
        let layout =
            Layout { number, big_endian, fortran_order, rows, columns: dim, start: data_start, row_head: 0 };
        Flat::new(path, held, layout)
    }

    /// A file of two 32-bit lengths, of rows and columns, and the numbers.
    pub(crate) fn bin(
        path: &Path,
        held: Held,
        format: Format,
        number: NumberType,
    ) -> Result<Flat, FormatError> {
        let start = held.beginning(8).map_err(FormatError::io(path))?;
        let ([lengths @ .., _], _) = start.as_chunks::<4>() else { return Err(cut(path, format, &start)) };
        let [rows] = lengths else { return Err(cut(path, format, &start)) };
        let columns = u32::from_le_bytes([start[4], start[5], start[6], start[7]]);
        let layout = Layout {
            number,
            big_endian: false,
            fortran_order: false,
            rows: u32::from_le_bytes(*rows).into(),
            columns: columns.into(),
            start: 8,
            row_head: 0,
        };
        Flat::new(path, held, layout)
    }

    /// A file of rows, each after its length in 32 bits, which is the same in all. An empty file has no rows.
    pub(crate) fn vecs(
        path: &Path,
        held: Held,
        format: Format,
        number: NumberType,
    ) -> Result<Flat, FormatError> {
        let size = held.size();
        let start = held.beginning(4).map_err(FormatError::io(path))?;
        let Some(&columns) = start.first_chunk::<4>() else { return Err(cut(path, format, &start)) };
        let columns = vector_dim(path, u32::from_le_bytes(columns).into())? as u64;
        let mut layout = Layout {
            number,
            big_endian: false,
            fortran_order: false,
            rows: 0,
            columns,
            start: 0,
            row_head: 4,
        };
        let row_bytes = 4 + columns * number.bytes() as u64;
        layout.rows = size / row_bytes;
        let whole = Flat { path: path.to_owned(), held, layout };
        if size.is_multiple_of(row_bytes) {
            return Ok(whole);
        }
        // Which row is of another length, or the last one is cut off.
        for row in 0..whole.layout.rows {
            whole.bytes(row, 1)?;
        }
        if size - whole.layout.rows * row_bytes >= 4 {
            whole.check_head(whole.layout.rows)?;
        }
        let reason = "the file ends within the row".to_owned();
        Err(FormatError::Damaged { path: path.to_owned(), row: whole.layout.rows, reason })
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The numbers of `rows` rows from `first` on as they are stored, row after row.
    pub(crate) fn bytes(&self, first: u64, rows: usize) -> Result<Vec<u8>, FormatError> {
        let bytes =
            if self.layout.fortran_order { self.gathered(first, rows) } else { self.stored(first, rows) };
        let mut bytes = bytes.map_err(FormatError::io(&self.path))?;
        let head = self.layout.row_head;
        if head > 0 {
            let row_bytes = bytes.len() / rows.max(1);
            for row in 0..rows {
                let start = row * row_bytes;
                self.check_length(first + row as u64, &bytes[start..start + head])?;
                bytes.copy_within(start + head..start + row_bytes, row * (row_bytes - head));
            }
            bytes.truncate(rows * (row_bytes - head));
        }
        Ok(bytes)
    }

    fn row_bytes(&self) -> usize {
        usize::try_from(self.layout.row_bytes()).expect("a row fits memory, as its length was checked")
    }

    fn stored(&self, first: u64, rows: usize) -> io::Result<Vec<u8>> {
        let row_bytes = self.row_bytes();
        let mut bytes = vec![0; rows * row_bytes];
        self.held.read_exact_at(&mut bytes, self.layout.start + first * row_bytes as u64)?;
        Ok(bytes)
    }

    /// The same from Fortran order, where each coordinate of all rows lies together.
    fn gathered(&self, first: u64, rows: usize) -> io::Result<Vec<u8>> {
        let (width, row_bytes) = (self.layout.number.bytes(), self.row_bytes());
        let mut bytes = vec![0; rows * row_bytes];
        let mut column = vec![0; rows * width];
        for coordinate in 0..row_bytes / width {
            let number = coordinate as u64 * self.layout.rows + first;
            self.held.read_exact_at(&mut column, self.layout.start + number * width as u64)?;
            for (row, value) in column.chunks_exact(width).enumerate() {
                bytes[row * row_bytes + coordinate * width..][..width].copy_from_slice(value);
            }
        }
        Ok(bytes)
    }

    fn check_head(&self, row: u64) -> Result<(), FormatError> {
        let mut head = [0; 4];
        let offset = row * self.row_bytes() as u64;
        self.held.read_exact_at(&mut head, offset).map_err(FormatError::io(&self.path))?;
        self.check_length(row, &head)
    }

    fn check_length(&self, row: u64, head: &[u8]) -> Result<(), FormatError> {
        let found = head.first_chunk::<4>().map_or(0, |&head| u32::from_le_bytes(head));
        if u64::from(found) == self.layout.columns {
            return Ok(());
        }
        Err(FormatError::Ragged {
            path: self.path.clone(),
            place: Place::Row(row),
            field: "vector".to_owned(),
            wanted: usize::try_from(self.layout.columns).unwrap_or(usize::MAX),
            found: usize::try_from(found).unwrap_or(usize::MAX),
        })
    }
}

fn cut(path: &Path, format: Format, start: &[u8]) -> FormatError {
    FormatError::Header {
        path: path.to_owned(),
        wanted: format!("a whole header of {format}"),
        found: format!("a file of {} bytes", start.len()),
    }
}
