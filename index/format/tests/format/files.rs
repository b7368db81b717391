//! Files made in the test, and what a reader gives for them as plain values.

use std::path::{Path, PathBuf};

use dehub_format::{Batch, FormatError, ReadOptions, open};
use dehub_vector::PointId;
use serde_json::Value;
use tempfile::TempDir;

/// A folder that is removed with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        // A new file is written to memory; an old one overwritten is written to the disk, which takes long.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

/// All of a file's rows, put together from its batches.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) struct Table {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) ids: Vec<PointId>,
    pub(crate) texts: Vec<Option<String>>,
    pub(crate) payloads: Vec<Value>,
}

pub(crate) fn read(path: &Path, options: ReadOptions) -> Result<Table, FormatError> {
    let mut table = Table::default();
    let first_row = options.rows.as_ref().map_or(0, |rows| rows.start);
    for batch in open(path, options)? {
        let batch = batch?;
        assert_eq!(batch.first_row, first_row + table.vectors.len() as u64, "batches follow each other");
        table.append(batch);
    }
    Ok(table)
}

pub(crate) fn message(path: &Path, options: ReadOptions) -> String {
    let error = read(path, options).expect_err("refused");
    let message = error.to_string();
    assert!(message.starts_with(&error.path().display().to_string()), "{message} does not name its file");
    message
}

impl Table {
    fn append(&mut self, batch: Batch) {
        let rows = batch.vectors.len();
        assert!(rows > 0, "no batch is empty");
        self.vectors.extend(batch.vectors.iter().map(<[f32]>::to_vec));
        let ids = batch.ids.unwrap_or_default();
        assert!(ids.is_empty() || ids.len() == rows);
        self.ids.extend(ids);
        let texts = batch.texts.unwrap_or_else(|| vec![None; rows]);
        assert_eq!(texts.len(), rows);
        self.texts.extend(texts);
        let payloads = batch.payloads.unwrap_or_else(|| vec![None; rows]);
        assert_eq!(payloads.len(), rows);
        self.payloads.extend(payloads.into_iter().map(|payload| payload.map_or(Value::Null, Value::Object)));
    }
}

pub(crate) fn batches_of(batch_rows: usize) -> ReadOptions {
    ReadOptions { batch_rows, ..ReadOptions::default() }
}

pub(crate) fn number(id: u64) -> PointId {
    PointId::Number(id)
}

pub(crate) fn text(id: &str) -> PointId {
    PointId::text(id).expect("a valid id")
}

/// An npy file of version 1 with the given header entries and bytes.
pub(crate) fn npy(descr: &str, fortran_order: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_of_version(1, descr, fortran_order, shape, data)
}

pub(crate) fn npy_of_version(
    version: u8,
    descr: &str,
    fortran_order: bool,
    shape: &str,
    data: &[u8],
) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = header.len().to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..4] };
    [b"\x93NUMPY", &[version, 0][..], length, header.as_bytes(), data].concat()
}

pub(crate) fn bytes_of<const N: usize>(numbers: &[f32], encode: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| encode(number)).collect()
}
