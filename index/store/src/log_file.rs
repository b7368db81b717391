//! The format of RocksDB's logs, which its MANIFEST has too: records in pieces, each with a checksum.
//!
//! A file is a row of blocks of 32 KiB. A piece is in one block: the masked CRC-32C of all but itself and the length
//! (4 bytes), the length of the payload (2), the type (1), for recycled files the log's number (4), the payload. Less
//! than a header at the end of a block is filler. A header of zeros is space that was never written (RocksDB,
//! `db/log_format.h`).

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

const BLOCK: usize = 32 * 1024;
const HEADER: usize = 7;
const RECYCLED_HEADER: usize = 11;
/// The system writes files by pages; after a power cut, one that was not synced may be there as zeros.
const PAGE: u64 = 4096;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// How far the type of a piece in a recycled file is from that of another.
const RECYCLED: u8 = 4;
/// Compression, sizes of timestamps, the predecessor of a log; the last two also for recycled files.
const REMARKS: [u8; 3] = [9, 10, 130];
const RECYCLED_REMARKS: [u8; 2] = [11, 131];

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// After a record.
    Whole,
    /// In a record that was not written to its end, which begins there. Nobody was told that it was.
    Torn(u64),
}

/// Why a log cannot be read.
#[derive(Debug)]
pub(crate) enum LogError {
    /// What is there was not written so.
    Damaged {
        offset: u64,
        cause: String,
    },
    Io(io::Error),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> LogError {
        LogError::Io(error)
    }
}

fn damaged<T>(offset: u64, cause: &str) -> Result<T, LogError> {
    Err(LogError::Damaged { offset, cause: cause.to_owned() })
}

/// Reads the log `number` from `file`, and hands out each record, or its first `kept` bytes, with where it begins.
pub(crate) fn read(
    file: File,
    number: u64,
    kept: usize,
    mut take: impl FnMut(&[u8], u64) -> Result<(), LogError>,
) -> Result<End, LogError> {
    let mut blocks = Blocks::new(file, number);
    let mut record = Vec::new();
    let mut begun = None;
    while let Some(piece) = blocks.next()? {
        let piece = match piece {
            Ok(piece) => piece,
            Err(breach) => return blocks.judge(&breach, begun),
        };
        let offset = piece.offset;
        match (piece.kind, begun) {
            (FULL | FIRST, Some(_)) => return damaged(offset, "a record begins inside another one"),
            (MIDDLE | LAST, None) => return damaged(offset, "a record goes on that did not begin"),
            (FULL | FIRST, None) => {
                record.clear();
                begun = Some(offset);
            }
            (MIDDLE | LAST, Some(_)) => {}
            _ => continue,
        }
        let room = kept.saturating_sub(record.len());
        record.extend_from_slice(&piece.payload[..piece.payload.len().min(room)]);
        if let (FULL | LAST, Some(offset)) = (piece.kind, begun) {
            begun = None;
            take(&record, offset)?;
        }
    }
    Ok(match begun.or(blocks.torn_header()) {
        Some(offset) => End::Torn(offset),
        None => End::Whole,
    })
}

/// A piece whose checksum fits.
struct Piece<'a> {
    /// As in a file that is not recycled.
    kind: u8,
    payload: &'a [u8],
    offset: u64,
    /// With its header.
    size: usize,
}

/// Where reading stops.
struct Breach {
    /// From the start of the block.
    at: usize,
    kind: BreachKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BreachKind {
    /// A header of zeros.
    Blank,
    /// The piece goes on after the end of the block or of the file.
    Overlong,
    /// The piece is all there, of this size with its header, and its checksum does not fit.
    Checksum(usize),
}

/// The blocks of a log, one at a time.
struct Blocks {
    file: File,
    number: u64,
    bytes: Vec<u8>,
    is_begun: bool,
    /// Where the block is in the file.
    start: u64,
    /// How much of the block was read.
    position: usize,
}

impl Blocks {
    fn new(file: File, number: u64) -> Blocks {
        Blocks { file, number, bytes: Vec::with_capacity(BLOCK), is_begun: false, start: 0, position: 0 }
    }

    /// Moves to the next block; breaks at the end of the file.
    fn advance(&mut self) -> io::Result<ControlFlow<()>> {
        self.start += self.bytes.len() as u64;
        self.is_begun = true;
        self.position = 0;
        self.bytes.clear();
        self.file.by_ref().take(BLOCK as u64).read_to_end(&mut self.bytes)?;
        Ok(if self.bytes.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Whether nothing comes after this block.
    fn is_last(&self) -> bool {
        self.bytes.len() < BLOCK
    }

    fn next(&mut self) -> Result<Option<Result<Piece<'_>, Breach>>, LogError> {
        while self.bytes.len() - self.position < HEADER {
            if self.is_begun && self.is_last() || self.advance()?.is_break() {
                return Ok(None);
            }
        }
        let at = self.position;
        Ok(Some(match piece(&self.bytes[at..], self.start + at as u64, self.number) {
            Ok(piece) => {
                self.position += piece.size;
                Ok(piece)
            }
            Err(kind) => Err(Breach { at, kind }),
        }))
    }

    /// Where the file ends inside a header.
    fn torn_header(&self) -> Option<u64> {
        let is_torn = self.is_last() && self.bytes[self.position..].iter().any(|&byte| byte != 0);
        is_torn.then_some(self.start + self.position as u64)
    }

    /// Tells what was never written whole from what was written and is damaged.
    fn judge(&mut self, breach: &Breach, begun: Option<u64>) -> Result<End, LogError> {
        let broken = self.start + breach.at as u64;
        let torn = End::Torn(begun.unwrap_or(broken));
        let rest = &self.bytes[breach.at..];
        match breach.kind {
            BreachKind::Overlong if !self.is_last() => {
                return damaged(broken, "a length leads out of its block");
            }
            BreachKind::Overlong if fits_shorter(rest) => {
                return damaged(broken, "a length is not that of its record");
            }
            BreachKind::Blank | BreachKind::Overlong | BreachKind::Checksum(_) => {}
        }
        let mut zeros_from = broken;
        let (mut from, mut searched_from) = (breach.at, breach.at + 1);
        loop {
            let mut later = searched_from..self.bytes.len();
            let later = later.find(|&at| piece(&self.bytes[at..], 0, self.number).is_ok());
            if let Some(at) = later {
                let next = self.start + at as u64;
                return damaged(broken, &format!("it cannot be read, and a record at byte {next} can"));
            }
            if let Some(last) = self.bytes[from..].iter().rposition(|&byte| byte != 0) {
                zeros_from = self.start + (from + last) as u64 + 1;
            }
            if self.advance()?.is_break() {
                break;
            }
            (from, searched_from) = (0, 0);
        }
        match breach.kind {
            BreachKind::Blank if zeros_from == broken && begun.is_none() => Ok(End::Whole),
            BreachKind::Blank | BreachKind::Overlong => Ok(torn),
            // The file got its length and this piece's last pages did not arrive: the power was cut before a sync.
            BreachKind::Checksum(size) if zeros_from.next_multiple_of(PAGE) < broken + size as u64 => {
                Ok(torn)
            }
            BreachKind::Checksum(_) => damaged(broken, "a record does not match its checksum"),
        }
    }
}

/// The piece at the start of `bytes`, which go to the end of the block or of the file.
fn piece(bytes: &[u8], offset: u64, number: u64) -> Result<Piece<'_>, BreachKind> {
    let Some((&[a, b, c, d, low, high, kind], _)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(BreachKind::Overlong);
    };
    let (checksum, length) = (u32::from_le_bytes([a, b, c, d]), usize::from(u16::from_le_bytes([low, high])));
    if (checksum, length, kind) == (0, 0, 0) {
        return Err(BreachKind::Blank);
    }
    let is_recycled = (FULL + RECYCLED..=LAST + RECYCLED).contains(&kind) || RECYCLED_REMARKS.contains(&kind);
    let header = if is_recycled { RECYCLED_HEADER } else { HEADER };
    let size = header + length;
    if bytes.len() < size {
        return Err(BreachKind::Overlong);
    }
    let known = (FULL..=LAST).contains(&kind) || REMARKS.contains(&kind) || is_recycled;
    // The last four bytes of a recycled header are the low half of the log's number.
    let is_own = !is_recycled || bytes[HEADER..header] == number.to_le_bytes()[..4];
    if !known || !is_own || mask(crc32c::crc32c(&bytes[HEADER - 1..size])) != checksum {
        return Err(BreachKind::Checksum(size));
    }
    let kind = if is_recycled && kind <= LAST + RECYCLED { kind - RECYCLED } else { kind };
    Ok(Piece { kind, payload: &bytes[header..size], offset, size })
}

/// Whether the checksum at the start of `bytes` fits another length than the one after it.
fn fits_shorter(bytes: &[u8]) -> bool {
    let Some((&[a, b, c, d, _, _, kind], payload)) = bytes.split_first_chunk::<HEADER>() else {
        return false;
    };
    let checksum = u32::from_le_bytes([a, b, c, d]);
    let mut crc = crc32c::crc32c(&[kind]);
    let mut fits = mask(crc) == checksum;
    for byte in payload.chunks(1) {
        crc = crc32c::crc32c_append(crc, byte);
        fits |= mask(crc) == checksum;
    }
    fits
}

/// A checksum as it is stored: a checksum of bytes that hold checksums would be weak.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
