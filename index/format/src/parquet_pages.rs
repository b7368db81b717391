//! The headers of a Parquet file's pages, read before any page is: what the values take once decoded.
//!
//! A footer may claim what it likes, and a page of a few bytes may stand for a billion values. What the decoder goes
//! by are the headers of pages, which are in Thrift's compact protocol.

use ::parquet::basic::Type;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::held::Held;

/// What a value takes beside its bytes: its levels, and its place in a list.
const LEVEL_BYTES: u64 = 4;

/// How deep structs nest in a header that is skipped over.
const DEPTH_MAX: usize = 8;

/// What a file takes once decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// All pages decompressed, and all values decoded.
    pub(crate) all: u64,
    /// The page that takes most.
    pub(crate) largest_page: u64,
}

/// What the pages of a file say of themselves.
pub(crate) fn decoded(file: &Held, metadata: &ParquetMetaData) -> Result<Decoded, String> {
    let mut decoded = Decoded { all: 0, largest_page: 0 };
    for group in metadata.row_groups() {
        for column in group.columns() {
            add_column(file, column, &mut decoded).ok_or("a header of a page that cannot be read")?;
        }
    }
    Ok(decoded)
}

/// What most headers of pages are within, and what all are: they may hold the least and the greatest value.
const HEADER_BYTES: [u64; 2] = [256, 1024 * 1024];

fn add_column(file: &Held, column: &ColumnChunkMetaData, decoded: &mut Decoded) -> Option<()> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let mut start = u64::try_from(start).ok()?;
    let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    let width = value_bytes(column) + LEVEL_BYTES;
    while start < end {
        let read = |most: u64| {
            let bytes = file.part(start, most.min(end - start))?.beginning(usize::MAX).ok()?;
            let mut rest = Compact { bytes: &bytes };
            let page = rest.header()?;
            Some((page, (bytes.len() - rest.bytes.len()) as u64))
        };
        let (Page { stored, unpacked, values }, header) = HEADER_BYTES.into_iter().find_map(read)?;
        start = start.checked_add(header)?.checked_add(stored as u64).filter(|&next| next <= end)?;
        let page = unpacked.saturating_add(values.saturating_mul(width));
        decoded.all = decoded.all.saturating_add(page);
        decoded.largest_page = decoded.largest_page.max(page);
    }
    Some(())
}

/// What a value takes in memory; texts are views of their page.
fn value_bytes(column: &ColumnChunkMetaData) -> u64 {
    let description = column.column_descr();
    match description.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => 16,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(description.type_length()).unwrap_or(0),
    }
}

/// What the header of a page says.
#[derive(Debug, PartialEq)]
struct Page {
    /// Its bytes after the header.
    stored: usize,
    /// Its bytes once decompressed.
    unpacked: u64,
    /// Its values; those of a dictionary too.
    values: u64,
}

/// Bytes in Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
}

/// The types of fields that are told apart.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INT_32: u8 = 5;
const INT_64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

impl Compact<'_> {
    /// Reads a `PageHeader`: field 2 is `uncompressed_page_size`, 3 `compressed_page_size`, and 5, 7 and 8 are the
    /// headers of a data page, a dictionary and a data page of version 2, whose field 1 is `num_values`.
    fn header(&mut self) -> Option<Page> {
        let (mut stored, mut unpacked, mut values) = (None, None, 0);
        let mut id = 0;
        loop {
            let kind = self.field(&mut id)?;
            match (id, kind) {
                (_, STOP) => break,
                (2, INT_32) => unpacked = u64::try_from(self.zigzag()?).ok(),
                (3, INT_32) => stored = usize::try_from(self.zigzag()?).ok(),
                (5 | 7 | 8, STRUCT) => values = self.num_values()?,
                (_, kind) => self.skip(kind, DEPTH_MAX)?,
            }
        }
        Some(Page { stored: stored?, unpacked: unpacked?, values })
    }

    fn num_values(&mut self) -> Option<u64> {
        let mut values = None;
        let mut id = 0;
        loop {
            let kind = self.field(&mut id)?;
            match (id, kind) {
                (_, STOP) => return values,
                (1, INT_32) => values = u64::try_from(self.zigzag()?).ok(),
                (_, kind) => self.skip(kind, DEPTH_MAX)?,
            }
        }
    }

    /// The type of the next field, whose number `id` becomes.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let byte = self.byte()?;
        let (delta, kind) = (byte >> 4, byte & 15);
        if kind != STOP {
            *id = if delta == 0 { self.zigzag()? } else { id.checked_add(i64::from(delta))? };
        }
        Some(kind)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            4 | INT_32 | INT_64 => drop(self.varint()?),
            DOUBLE => self.pass(8)?,
            BINARY => {
                let length = self.varint()?;
                self.pass(usize::try_from(length).ok()?)?;
            }
            LIST | SET => {
                let head = self.byte()?;
                let long = head >> 4 == 15;
                let length = if long { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..length {
                    // A flag in a list is a byte of its own.
                    let kind = if head & 15 <= FALSE { BYTE } else { head & 15 };
                    self.skip(kind, below)?;
                }
            }
            STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        STOP => break,
                        kind => self.skip(kind, below)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn pass(&mut self, length: usize) -> Option<()> {
        self.bytes = self.bytes.get(length..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_thrift_writes_it() {
        // 1: i32 0, 2: i32 300, 3: i32 5, 4: i32 -1, 5: {1: i32 1000, 2: i32 0, 5: {1: binary "ab"}}
        let bytes = [
            0x15, 0, 0x15, 0xd8, 0x04, 0x15, 10, 0x15, 1, 0x1c, 0x15, 0xd0, 0x0f, 0x15, 0, 0x3c, 0x18, 2,
            b'a', b'b', 0, 0, 0, 99,
        ];
        let mut compact = Compact { bytes: &bytes };
        assert_eq!(compact.header(), Some(Page { stored: 5, unpacked: 300, values: 1000 }));
        assert_eq!(compact.bytes, [99]);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(Compact { bytes: &bytes[..cut] }.header(), None, "{cut} bytes");
        }
        assert_eq!(Compact { bytes: &[0x15, 0, 0x15, 1, 0x15, 2, 0] }.header(), None, "a negative size");
    }
}
