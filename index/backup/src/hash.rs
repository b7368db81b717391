//! The hash that objects are called by.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::BackupError;
use crate::error::file;

/// Bytes read at a time.
pub(crate) const PIECE: usize = 1024 * 1024;

/// The length of a file and the hash of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: u64,
    pub(crate) hash: blake3::Hash,
}

/// Measures what passes by.
#[derive(Default)]
pub(crate) struct Meter {
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Meter {
    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.hasher.update(piece);
    }

    pub(crate) fn content(&self) -> Content {
        Content { bytes: self.bytes, hash: self.hasher.finalize() }
    }
}

/// Reads a file from its beginning to its end, a piece at a time.
pub(crate) fn read(
    path: &Path,
    mut sink: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let mut source = File::open(path).map_err(file(path))?;
    let mut buffer = vec![0; PIECE];
    loop {
        let filled = source.read(&mut buffer).map_err(file(path))?;
        if filled == 0 {
            return Ok(());
        }
        sink(&buffer[..filled])?;
    }
}
