//! The bytes of a segment, in memory or mapped from its file, on a cache line's border.

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap};

/// The border that sections and rows of codes lie on.
pub(crate) const LINE: usize = 64;

/// Bytes that start on a [`LINE`].
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Words of which the bytes begin at one on a line's border.
    Owned { words: Vec<u64>, first: usize, len: usize },
    /// A file.
    Mapped(Mmap),
}

impl Bytes {
    /// Zeros, for writing.
    pub(crate) fn zeros(len: usize) -> Bytes {
        let words = vec![0_u64; len.div_ceil(size_of::<u64>()) + LINE / size_of::<u64>()];
        let first = words.as_ptr().align_offset(LINE).min(LINE / size_of::<u64>());
        Bytes::Owned { words, first, len }
    }

    /// The whole of a file, read page by page as it is needed.
    ///
    /// The file must stay as it is: whoever replaces it moves another into its place.
    #[expect(unsafe_code, reason = "a mapping is only as constant as its file")]
    pub(crate) fn map(file: &File) -> io::Result<Bytes> {
        // SAFETY: the slice is read-only. Segments are written beside their place and moved there, never
        // written to or cut short in place; `Segment::open` asks the same of its caller.
        let map = unsafe { Mmap::map(file)? };
        // A hint; a system without it reads the same bytes.
        let _ = map.advise(Advice::WillNeed);
        Ok(Bytes::Mapped(map))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Owned { words, first, len } => &bytemuck::cast_slice(&words[*first..])[..*len],
            Bytes::Mapped(map) => map,
        }
    }

    /// The bytes for writing; those of a file are not written to.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Bytes::Owned { words, first, len } => &mut bytemuck::cast_slice_mut(&mut words[*first..])[..*len],
            Bytes::Mapped(_) => &mut [],
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(slice: &[u8]) -> Bytes {
        let mut bytes = Bytes::zeros(slice.len());
        bytes.as_mut_slice().copy_from_slice(slice);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn mapped_bytes_are_those_that_were_written() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let written: Vec<u8> = (0..=255).cycle().take(10_001).collect();
        file.write_all(&written).expect("writable");
        let mapped = Bytes::map(&file).expect("mappable");
        let owned = Bytes::from(written.as_slice());
        assert_eq!(mapped.as_slice(), written);
        assert_eq!(owned.as_slice(), written);
        for bytes in [mapped, owned] {
            assert_eq!(bytes.as_slice().as_ptr().addr() % LINE, 0);
        }
    }
}
