//! The decoders of files by name: for fuzzing, and for a test of what fuzzing looks for.
//!
//! Whatever the bytes are, a decoder gives rows or a refusal, in bounded memory and without a panic.

use std::path::Path;

use crate::error::FormatError;
use crate::formats::Format;
use crate::options::ReadOptions;
use crate::reader::open_bytes;
use crate::truth::{TruthKind, open_truth_bytes};

/// A decoder of bytes; it gives the number of rows.
pub type FileDecoder = fn(&[u8]) -> Result<u64, FormatError>;

/// All decoders of files by name.
pub const FILE_DECODERS: [(&str, FileDecoder); 18] = [
    ("npy", |bytes| rows("a.npy", Format::Npy, bytes)),
    ("npz", |bytes| rows("a.npz", Format::Npz, bytes)),
    ("fvecs", |bytes| rows("a.fvecs", Format::Fvecs, bytes)),
    ("ivecs", |bytes| rows("a.ivecs", Format::Ivecs, bytes)),
    ("bvecs", |bytes| rows("a.bvecs", Format::Bvecs, bytes)),
    ("fbin", |bytes| rows("a.fbin", Format::Fbin, bytes)),
    ("ibin", |bytes| rows("a.ibin", Format::Ibin, bytes)),
    ("u8bin", |bytes| rows("a.u8bin", Format::U8bin, bytes)),
    ("i8bin", |bytes| rows("a.i8bin", Format::I8bin, bytes)),
    ("parquet", |bytes| rows("a.parquet", Format::Parquet, bytes)),
    ("arrow", |bytes| rows("a.arrow", Format::Arrow, bytes)),
    ("hdf5", |bytes| rows("a.hdf5", Format::Hdf5, bytes)),
    ("jsonl", |bytes| rows("a.jsonl", Format::Jsonl, bytes)),
    ("safetensors", |bytes| rows("a.safetensors", Format::Safetensors, bytes)),
    ("gzip", |bytes| rows("a.jsonl.gz", Format::Jsonl, bytes)),
    ("zstd", |bytes| rows("a.jsonl.zst", Format::Jsonl, bytes)),
    ("truth", |bytes| truth(TruthKind::Nearest, bytes)),
    ("range_truth", |bytes| truth(TruthKind::Range, bytes)),
];

/// Gives bytes to a decoder of [`FILE_DECODERS`].
///
/// # Panics
///
/// If there is none of the name, or the decoder does not keep to what it promises.
pub fn fuzz_file(name: &str, bytes: &[u8]) {
    let (_, decode) = FILE_DECODERS.iter().find(|(own, _)| *own == name).expect("a decoder of this name");
    if let Err(error) = decode(bytes) {
        let (message, path) = (error.to_string(), error.path().display().to_string());
        assert!(message.starts_with(&path) && message.len() > path.len(), "{message} does not name its file");
    }
}

/// As many rows as are read: a few bytes may stand for very many.
const ROWS_MAX: u64 = 10_000;

fn rows(name: &str, format: Format, bytes: &[u8]) -> Result<u64, FormatError> {
    let options = ReadOptions { format: Some(format), rows: Some(0..ROWS_MAX), ..ReadOptions::default() };
    let mut rows = 0;
    for batch in open_bytes(Path::new(name), bytes.to_vec(), options)? {
        let batch = batch?;
        assert_eq!(batch.first_row, rows, "batches follow each other");
        assert!(batch.ids.is_none_or(|ids| ids.len() == batch.vectors.len()), "an id for every row");
        rows += batch.vectors.len() as u64;
    }
    Ok(rows)
}

fn truth(kind: TruthKind, bytes: &[u8]) -> Result<u64, FormatError> {
    let reader = open_truth_bytes(Path::new("a.bin"), bytes.to_vec(), kind)?;
    for query in 0..reader.queries().min(ROWS_MAX) {
        let truth = reader.query(query)?.expect("a query there is");
        assert!(truth.distances.is_none_or(|distances| distances.len() == truth.rows.len()), "one for each");
    }
    Ok(reader.queries())
}
