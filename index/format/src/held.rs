//! Bytes that are read at any place: a file, a part of one, or memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;
use hdf5_pure::{FormatError as Hdf5Error, Source};

/// Bytes with a place to read on from. A clone reads on from the same place by itself.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    store: Store,
    start: u64,
    length: u64,
    position: u64,
}

#[derive(Debug, Clone)]
enum Store {
    File(Arc<File>),
    Memory(Bytes),
}

impl Held {
    /// A whole file, of the length it has now.
    pub(crate) fn file(file: File) -> io::Result<Held> {
        let length = file.metadata()?.len();
        Ok(Held { store: Store::File(Arc::new(file)), start: 0, length, position: 0 })
    }

    pub(crate) fn memory(bytes: impl Into<Bytes>) -> Held {
        let bytes = bytes.into();
        Held { start: 0, length: bytes.len() as u64, position: 0, store: Store::Memory(bytes) }
    }

    /// All of `reader`, in a file without a name in the folder for temporary files; it goes when the last clone does.
    pub(crate) fn spooled(reader: &mut dyn Read) -> io::Result<Held> {
        let mut file = tempfile::tempfile()?;
        io::copy(reader, &mut file)?;
        Held::file(file)
    }

    /// The `length` bytes from `start` on, if there are as many.
    pub(crate) fn part(&self, start: u64, length: u64) -> Option<Held> {
        start.checked_add(length).filter(|&end| end <= self.length)?;
        Some(Held { store: self.store.clone(), start: self.start + start, length, position: 0 })
    }

    pub(crate) fn size(&self) -> u64 {
        self.length
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= self.length);
        end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        match &self.store {
            Store::File(file) => file.read_exact_at(bytes, self.start + offset),
            Store::Memory(memory) => {
                let start = usize::try_from(self.start + offset).expect("within what is in memory");
                bytes.copy_from_slice(&memory[start..start + bytes.len()]);
                Ok(())
            }
        }
    }

    /// At most the first `count` bytes.
    pub(crate) fn beginning(&self, count: usize) -> io::Result<Vec<u8>> {
        let count = usize::try_from(self.length).unwrap_or(usize::MAX).min(count);
        let mut bytes = vec![0; count];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

impl Read for Held {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.read_exact_at(&mut bytes[..count], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Held {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

impl Length for Held {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Held {
    type T = io::BufReader<Held>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::BufReader::new(Held { position: start, ..self.clone() }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let part = self.part(start, length as u64).ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} of a file of {}", self.length))
        })?;
        if let Store::Memory(memory) = &self.store {
            let start = usize::try_from(part.start).expect("within what is in memory");
            return Ok(memory.slice(start..start + length));
        }
        let mut bytes = vec![0; length];
        part.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.into())
    }
}

impl Source for Held {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Hdf5Error> {
        self.read_exact_at(bytes, offset).map_err(|error| Hdf5Error::Source(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_the_whole_is_and_ends_where_it_ends() {
        let spooled = Held::spooled(&mut &b"0123456789"[..]).expect("spooled");
        for whole in [spooled, Held::memory(&b"0123456789"[..])] {
            let mut part = whole.part(2, 5).and_then(|part| part.part(1, 3)).expect("inside");
            let mut text = String::new();
            part.read_to_string(&mut text).expect("read");
            assert_eq!(text, "345");
            part.seek(SeekFrom::End(-1)).expect("sought");
            let mut last = Vec::new();
            part.read_to_end(&mut last).expect("read");
            assert_eq!(last, b"5");
            assert!(whole.part(8, 3).is_none() && whole.part(u64::MAX, 2).is_none());
            assert!(whole.read_exact_at(&mut [0; 3], 8).is_err());
            assert_eq!(whole.get_bytes(7, 3).expect("inside"), Bytes::from_static(b"789"));
            assert!(whole.get_bytes(8, 3).is_err());
        }
    }
}
