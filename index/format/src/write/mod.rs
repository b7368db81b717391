//! Rows written as files, for other tools to read: one batch after the other, in bounded memory.
//!
//! A [`Writer`] is told its columns first, and is then given batches of them. What it writes has no name until
//! [`Writer::finish`] gives it the one that was asked for; so nobody finds half a file, and one that is not finished is
//! gone.

mod ann;
mod flat;
mod lines;
mod tables;

use std::fs::Permissions;
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use dehub_vector::{Metric, PointId, Rows};
use tempfile::NamedTempFile;

use crate::arrow::Column;
use crate::error::FormatError;
use crate::formats::{Format, Told};
use crate::numbers::NumberType;

pub use ann::{AnnBenchmark, HDF5_WRITE_BYTES_MAX, write_ann_benchmark};

/// What is written at once.
const BUFFER_BYTES: usize = 1024 * 1024;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// [`Column::Whole`].
    Whole,
    /// [`Column::Wide`].
    Wide,
    /// [`Column::Ids`], all of them numbers.
    NumberIds,
    /// [`Column::Ids`], as texts: numbers as digits.
    TextIds,
    /// [`Column::Numbers`].
    Numbers,
    /// [`Column::Texts`].
    Texts,
    /// [`Column::Json`].
    Json,
    /// [`Column::Vectors`], of this dimension.
    Vectors(usize),
    /// [`Column::WholeLists`], of this length, at least 1.
    WholeLists(usize),
}

/// What a file is to be.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// The format; otherwise the one of the name.
    pub format: Option<Format>,
    /// What an HDF5 file says its vectors are for; needed for one, and no other has a place for it.
    pub metric: Option<Metric>,
}

/// A file that is being written. Dropped before it is finished, it leaves nothing.
///
/// Memory: a batch, and for Parquet what was given of a row group, of at most 64 MiB. HDF5 is laid out before it is
/// written, so all of its vectors are held, of at most [`HDF5_WRITE_BYTES_MAX`] bytes.
pub struct Writer {
    path: PathBuf,
    columns: Vec<(String, Kind)>,
    sink: Sink,
    rows: u64,
}

enum Sink {
    Flat(flat::FlatSink),
    Lines(lines::LinesSink),
    Table(tables::TableSink),
    Ann(ann::AnnSink),
}

/// The file, under another name in the same folder.
type Unfinished = BufWriter<NamedTempFile>;

impl Writer {
    /// Begins a file of these columns, in this order. The name tells the format, as it does for reading, but that a
    /// file of Arrow is a stream if it ends in `.arrows`; it is not compressed as a whole. Files of one matrix (npy,
    /// fvecs, ivecs, bvecs, fbin, ibin, u8bin, i8bin, HDF5) take one column, of vectors; npy, ivecs and ibin one of
    /// whole lists too, as 32-bit integers. npz and safetensors are not written.
    ///
    /// # Errors
    ///
    /// A name or columns that cannot be written so, and whatever keeps the file from being made.
    pub fn create(
        path: &Path,
        columns: Vec<(String, Kind)>,
        options: &WriteOptions,
    ) -> Result<Writer, FormatError> {
        let refused = |reason: String| FormatError::Options { path: path.to_owned(), reason };
        let format = format_of(path, options)?;
        let twice = columns
            .iter()
            .enumerate()
            .find(|(place, (name, _))| columns[..*place].iter().any(|(other, _)| other == name));
        if let Some((_, (name, _))) = twice {
            return Err(refused(format!("two columns named {name}")));
        }
        if options.metric.is_some() && format != Format::Hdf5 {
            return Err(refused(format!("a file of {format} has no place for a metric")));
        }
        let matrix = || match columns.as_slice() {
            [(_, Kind::Vectors(dim))] => Ok(*dim),
            _ => Err(refused(format!("a file of {format} takes one column, of vectors, and no other"))),
        };
        if columns.iter().any(|(_, kind)| *kind == Kind::WholeLists(0)) {
            return Err(refused("a column of lists without numbers".to_owned()));
        }
        let lists = match columns.as_slice() {
            [(_, Kind::WholeLists(len))] => Some(*len),
            _ => None,
        };
        let sink = match (format, lists) {
            (Format::Npy, Some(len)) => {
                Sink::Flat(flat::FlatSink::npy(unfinished(path)?, len, NumberType::I32))
            }
            (Format::Ivecs, Some(len)) => Sink::Flat(flat::FlatSink::vecs(unfinished(path)?, len, format)),
            (Format::Ibin, Some(len)) => Sink::Flat(flat::FlatSink::bin(unfinished(path)?, len, format)),
            (Format::Npy, None) => {
                Sink::Flat(flat::FlatSink::npy(unfinished(path)?, matrix()?, NumberType::F32))
            }
            (Format::Fvecs | Format::Ivecs | Format::Bvecs, _) => {
                Sink::Flat(flat::FlatSink::vecs(unfinished(path)?, matrix()?, format))
            }
            (Format::Fbin | Format::Ibin | Format::U8bin | Format::I8bin, _) => {
                Sink::Flat(flat::FlatSink::bin(unfinished(path)?, matrix()?, format))
            }
            (Format::Jsonl, _) => Sink::Lines(lines::LinesSink::new(unfinished(path)?)),
            (Format::Parquet, _) => {
                Sink::Table(tables::TableSink::parquet(path, unfinished(path)?, &columns)?)
            }
            (Format::Arrow, _) => Sink::Table(tables::TableSink::arrow(path, unfinished(path)?, &columns)?),
            (Format::Hdf5, _) => {
                let metric =
                    options.metric.ok_or_else(|| refused("an HDF5 file names a metric".to_owned()))?;
                Sink::Ann(ann::AnnSink::new(unfinished(path)?, matrix()?, metric))
            }
            (Format::Npz | Format::Safetensors, _) => {
                return Err(refused(format!("files of {format} are read and not written")));
            }
        };
        Ok(Writer { path: path.to_owned(), columns, sink, rows: 0 })
    }

    /// Adds rows: the columns that were told, in their order and all of one length.
    ///
    /// # Errors
    ///
    /// Columns other than those told, a number that the format cannot hold, by row and coordinate, and whatever keeps
    /// the file from being written. After an error the file cannot be finished.
    pub fn write(&mut self, columns: Vec<Column>) -> Result<(), FormatError> {
        let rows = columns.first().map_or(0, Column::len);
        self.check(&columns, rows)?;
        match &mut self.sink {
            Sink::Flat(sink) => match columns.as_slice() {
                [Column::WholeLists(numbers, _)] => sink.write_whole(&self.path, self.rows, numbers),
                _ => sink.write(&self.path, self.rows, vectors(&columns)),
            },
            Sink::Lines(sink) => sink.write(&self.path, &self.columns, &columns, rows),
            Sink::Table(sink) => sink.write(&self.path, &self.columns, columns),
            Sink::Ann(sink) => sink.write(&self.path, self.rows, vectors(&columns)),
        }?;
        self.rows += rows as u64;
        Ok(())
    }

    fn check(&self, columns: &[Column], rows: usize) -> Result<(), FormatError> {
        let refused = |reason: String| Err(FormatError::Options { path: self.path.clone(), reason });
        if columns.len() != self.columns.len() {
            return refused(format!("{} columns instead of {}", columns.len(), self.columns.len()));
        }
        for ((name, kind), column) in self.columns.iter().zip(columns) {
            if !column.is(*kind) {
                return refused(format!("column {name} is no column of {kind:?}"));
            }
            if column.len() != rows {
                return refused(format!("column {name} has {} rows, another {rows}", column.len()));
            }
        }
        Ok(())
    }

    /// Ends the file and gives it its name; one of that name is replaced. The answer is how many rows it has.
    pub fn finish(self) -> Result<u64, FormatError> {
        let Writer { path, sink, rows, .. } = self;
        let file = match sink {
            Sink::Flat(sink) => sink.finish(&path, rows)?,
            Sink::Lines(sink) => sink.finish(),
            Sink::Table(sink) => sink.finish(&path)?,
            Sink::Ann(sink) => sink.finish(&path)?,
        };
        let file = file.into_inner().map_err(|error| FormatError::io(&path)(error.into_error()))?;
        file.as_file().sync_all().map_err(FormatError::io(&path))?;
        file.persist(&path).map_err(|error| FormatError::io(&path)(error.error))?;
        Ok(rows)
    }
}

fn format_of(path: &Path, options: &WriteOptions) -> Result<Format, FormatError> {
    let unknown = |found: String| FormatError::UnknownExtension { path: path.to_owned(), found };
    let told = Told::by(path);
    if told.packing.is_some() {
        let reason = "files are not compressed as a whole when they are written".to_owned();
        return Err(FormatError::Options { path: path.to_owned(), reason });
    }
    match (options.format, told.format) {
        (Some(format), _) | (None, Some(Ok(format))) => Ok(format),
        (None, Some(Err(ending))) => Err(unknown(format!(".{ending}"))),
        (None, None) => Err(unknown("no ending".to_owned())),
    }
}

fn unfinished(path: &Path) -> Result<Unfinished, FormatError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // What a new file may be is left to the mask of the process, as for any other.
    builder.prefix(".writing-").permissions(Permissions::from_mode(0o666));
    let file = builder.tempfile_in(folder).map_err(FormatError::io(path))?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
}

fn vectors(columns: &[Column]) -> &Rows {
    match columns {
        [Column::Vectors(rows)] => rows,
        _ => unreachable!("a file of one matrix has one column, which was checked to be of vectors"),
    }
}

impl Column {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Column::Whole(numbers) => numbers.len(),
            Column::Wide(numbers) => numbers.len(),
            Column::Ids(ids) => ids.len(),
            Column::Numbers(numbers) => numbers.len(),
            Column::Texts(texts) | Column::Json(texts) => texts.len(),
            Column::Vectors(rows) => rows.len(),
            Column::WholeLists(numbers, len) => numbers.len() / (*len).max(1),
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is(&self, kind: Kind) -> bool {
        match (self, kind) {
            (Column::Ids(ids), Kind::NumberIds) => ids.iter().all(|id| matches!(id, PointId::Number(_))),
            (Column::Vectors(rows), Kind::Vectors(dim)) => rows.dim() == dim,
            (Column::WholeLists(numbers, len), Kind::WholeLists(told)) => {
                *len == told && numbers.len().is_multiple_of(told)
            }
            (Column::Whole(_), Kind::Whole)
            | (Column::Wide(_), Kind::Wide)
            | (Column::Ids(_), Kind::TextIds)
            | (Column::Numbers(_), Kind::Numbers)
            | (Column::Texts(_), Kind::Texts)
            | (Column::Json(_), Kind::Json) => true,
            (
                Column::Whole(_)
                | Column::Wide(_)
                | Column::Ids(_)
                | Column::Numbers(_)
                | Column::Texts(_)
                | Column::Json(_)
                | Column::Vectors(_)
                | Column::WholeLists(..),
                _,
            ) => false,
        }
    }
}

/// Writes `rows` as an npy file of version 1: little-endian float32 in C order. A file of that name is
/// replaced.
pub fn write_npy(path: &Path, rows: &Rows) -> Result<(), FormatError> {
    let options = WriteOptions { format: Some(Format::Npy), metric: None };
    let mut writer = Writer::create(path, vec![("vector".to_owned(), Kind::Vectors(rows.dim()))], &options)?;
    writer.write(vec![Column::Vectors(rows.clone())])?;
    writer.finish().map(drop)
}
