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
const PAGE: usize = 4096;
/// One changed byte can make one zero, but not two.
const ZEROS_MIN: u64 = 2;

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
    ///
    /// What was not synced before a power cut is there by pages, in any order; a page that did not arrive is zeros,
    /// and so is what was appended to one that arrived before. So a record is torn if it cannot be read where there
    /// are such zeros, and nothing that begins after it can be read: then it is the last one, and nobody was told
    /// that it was written. If it can, the record is a hole between others. Zeros shorter than a page may be its own,
    /// so they do not excuse what a single changed byte explains.
    fn judge(&mut self, breach: &Breach, begun: Option<u64>) -> Result<End, LogError> {
        let broken = self.start + breach.at as u64;
        let torn = End::Torn(begun.unwrap_or(broken));
        let rest = &self.bytes[breach.at..];
        match breach.kind {
            BreachKind::Overlong if !self.is_last() => {
                return damaged(broken, "a length leads out of its block");
            }
            BreachKind::Overlong | BreachKind::Checksum(_) if fits_otherwise(rest) => {
                return damaged(broken, "a length or a type is not that of its record");
            }
            BreachKind::Blank | BreachKind::Overlong | BreachKind::Checksum(_) => {}
        }
        let one_byte = match breach.kind {
            BreachKind::Checksum(size) => differs_by_a_byte(&rest[..size]),
            BreachKind::Blank | BreachKind::Overlong => false,
        };
        let is_known_to_end = matches!(rest.get(HEADER - 1), Some(&(FULL | LAST)));
        let rest = self.scan_rest(breach.at)?;
        if let Some(next) = rest.record {
            return damaged(broken, &format!("it cannot be read, and a record at byte {next} can"));
        }
        let end = match breach.kind {
            BreachKind::Blank if rest.data_end == broken && begun.is_none() => return Ok(End::Whole),
            BreachKind::Blank | BreachKind::Overlong if rest.fragment.is_none() => return Ok(torn),
            BreachKind::Checksum(size) if is_known_to_end => broken + size as u64,
            BreachKind::Checksum(size) => rest.data_end.max(broken + size as u64),
            BreachKind::Blank | BreachKind::Overlong => rest.data_end,
        };
        let is_page_missing = rest.page.is_some_and(|page| page + PAGE as u64 <= end);
        let zeros_from = rest.page.map_or(rest.data_end, |page| page.min(rest.data_end));
        let is_part_missing = rest.is_begin_missing || zeros_from + ZEROS_MIN <= end;
        match (is_page_missing || is_part_missing && !one_byte, rest.fragment) {
            (true, _) => Ok(torn),
            (false, None) => damaged(broken, "a record does not match its checksum"),
            (false, Some(next)) => {
                damaged(broken, &format!("it cannot be read, and its continuation at byte {next} can"))
            }
        }
    }

    /// Reads to the end of the file, from a breach at `at` of this block on.
    fn scan_rest(&mut self, at: usize) -> io::Result<Rest> {
        let broken = self.start + at as u64;
        let mut rest =
            Rest { record: None, fragment: None, page: None, is_begin_missing: false, data_end: broken };
        let (mut from, mut searched_from) = (at, at + 1);
        loop {
            for at in searched_from..self.bytes.len() {
                let Ok(found) = piece(&self.bytes[at..], 0, self.number) else { continue };
                let offset = self.start + at as u64;
                // A record goes on at the start of a block and nowhere else.
                if at == 0 && [MIDDLE, LAST].contains(&found.kind) {
                    rest.fragment.get_or_insert(offset);
                } else {
                    rest.record = Some(offset);
                    return Ok(rest);
                }
            }
            if let Some(last) = self.bytes[from..].iter().rposition(|&byte| byte != 0) {
                rest.data_end = self.start + (from + last) as u64 + 1;
            }
            for (index, page) in self.bytes.chunks(PAGE).enumerate().skip(from / PAGE) {
                let page_start = index * PAGE;
                // What is before the breach in its page was written earlier, by itself.
                let own = &page[from.saturating_sub(page_start)..];
                if own.iter().any(|&byte| byte != 0) {
                    continue;
                }
                if page_start >= from {
                    rest.page.get_or_insert(self.start + page_start as u64);
                } else {
                    rest.is_begin_missing = own.len() as u64 >= ZEROS_MIN;
                }
            }
            if self.advance()?.is_break() {
                return Ok(rest);
            }
            (from, searched_from) = (0, 0);
        }
    }
}

/// What there is from a breach to the end of a file.
struct Rest {
    /// The first record that can be read; nothing after it was looked at.
    record: Option<u64>,
    /// The first piece that can be read and continues a record.
    fragment: Option<u64>,
    /// The first page of zeros; the last page of the file may be a shorter one.
    page: Option<u64>,
    /// Whether there are but zeros from the breach to the end of its page.
    is_begin_missing: bool,
    /// After the last byte that is not zero.
    data_end: u64,
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

/// Whether the checksum at the start of `bytes` fits another length than the one after it, or another type.
fn fits_otherwise(bytes: &[u8]) -> bool {
    let Some((&[a, b, c, d, low, high, kind], payload)) = bytes.split_first_chunk::<HEADER>() else {
        return false;
    };
    let checksum = u32::from_le_bytes([a, b, c, d]);
    let mut crc = crc32c::crc32c(&[kind]);
    let mut fits = mask(crc) == checksum;
    for byte in payload.chunks(1) {
        crc = crc32c::crc32c_append(crc, byte);
        fits |= mask(crc) == checksum;
    }
    let Some(own) = payload.get(..usize::from(u16::from_le_bytes([low, high]))) else { return fits };
    fits || (FULL..=LAST).any(|kind| mask(crc32c::crc32c_append(crc32c::crc32c(&[kind]), own)) == checksum)
}

/// Whether there is one byte, of the checksum at the start of `piece` or of the type and the payload after it, with
/// whose change they fit each other.
fn differs_by_a_byte(piece: &[u8]) -> bool {
    let Some((&[a, b, c, d, _, _, _], _)) = piece.split_first_chunk::<HEADER>() else { return false };
    let (stored, crc) = (u32::from_le_bytes([a, b, c, d]), crc32c::crc32c(&piece[HEADER - 1..]));
    let is_one_byte =
        |difference: u32| difference.to_le_bytes().iter().filter(|&&byte| byte != 0).count() <= 1;
    if is_one_byte(stored ^ mask(crc)) {
        return true;
    }
    // A checksum is linear: what a changed byte does to it does not depend on the other bytes, and each byte after it
    // moves that on by a step, which can be taken back.
    let steps: [u32; 256] = std::array::from_fn(|byte| (0..8).fold(byte as u32, |crc, _| shifted(crc)));
    let mut back = [0_u8; 256];
    for (byte, step) in (0..=u8::MAX).zip(steps) {
        back[(step >> 24) as usize] = byte;
    }
    let mut difference = unmask(stored) ^ crc;
    for _ in &piece[HEADER - 1..] {
        let byte = usize::from(back[(difference >> 24) as usize]);
        if steps[byte] == difference {
            return true;
        }
        difference = (difference ^ steps[byte]) << 8 | byte as u32;
    }
    false
}

/// A reflected CRC-32C after one more bit.
fn shifted(crc: u32) -> u32 {
    if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
}

/// A checksum as it is stored: a checksum of bytes that hold checksums would be weak.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn unmask(checksum: u32) -> u32 {
    checksum.wrapping_sub(0xa282_ead8).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.push(FULL);
        bytes.extend(payload);
        let checksum = mask(crc32c::crc32c(&bytes[HEADER - 1..]));
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn each_changed_byte_is_told_from_many() {
        let bytes = sealed(&std::array::from_fn::<u8, 300, _>(|n| (n * 37 + 1) as u8));
        for at in (0..4).chain(HEADER - 1..bytes.len()) {
            for by in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= by;
                assert!(differs_by_a_byte(&changed), "{at} {by}");
            }
        }
        for zeros in 2..200 {
            let mut changed = bytes.clone();
            changed[bytes.len() - zeros..].fill(0);
            assert!(!differs_by_a_byte(&changed), "{zeros}");
        }
    }
}
