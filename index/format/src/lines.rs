//! The lines of a text file, one at a time, never more than a bounded one in memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{FormatError, Place};
use crate::input::Input;

/// The longest line that is read. A row of 65,535 numbers takes 1.6 MB; a line that reaches this
/// limit is a file without line ends, and would be read into memory whole.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A cursor over the lines of a file.
pub(crate) struct Lines {
    path: PathBuf,
    is_packed: bool,
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    number: u64,
    bytes_max: usize,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Lines, FormatError> {
        Lines::of(&Input::open(path)?)
    }

    pub(crate) fn of(input: &Input) -> Result<Lines, FormatError> {
        Ok(Lines {
            path: input.path().to_owned(),
            is_packed: input.is_packed(),
            reader: BufReader::with_capacity(256 * 1024, input.stream()?),
            line: Vec::new(),
            number: 0,
            bytes_max: LINE_BYTES_MAX,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves to the next line; false at the end of the file. A blank line is allowed as the last only.
    pub(crate) fn advance(&mut self) -> Result<bool, FormatError> {
        self.line.clear();
        let limit = self.bytes_max as u64 + 1;
        let mut limited = self.reader.by_ref().take(limit);
        let read = limited.read_until(b'\n', &mut self.line).map_err(|error| self.unreadable(error))?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if read as u64 == limit && self.line.last() != Some(&b'\n') {
            return Err(self.flaw("a line within the limit", format!("more than {} bytes", self.bytes_max)));
        }
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        if !self.line.iter().all(u8::is_ascii_whitespace) {
            return Ok(true);
        }
        let is_last = match self.reader.fill_buf() {
            Ok(rest) => rest.is_empty(),
            Err(error) => return Err(self.unreadable(error)),
        };
        if is_last { Ok(false) } else { Err(self.flaw("a JSON object", "a blank line".to_owned())) }
    }

    fn unreadable(&self, reason: io::Error) -> FormatError {
        let path = self.path.clone();
        if !self.is_packed || reason.raw_os_error().is_some() {
            return FormatError::Io { path, reason };
        }
        let place = Place::Line(self.number + 1);
        FormatError::Line {
            path,
            place,
            wanted: "compressed bytes that can be unpacked",
            found: reason.to_string(),
        }
    }

    /// The line moved to last. Its end, if any, is white space that JSON allows.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// Where that line is.
    pub(crate) fn place(&self) -> Place {
        Place::Line(self.number)
    }

    pub(crate) fn flaw(&self, wanted: &'static str, found: String) -> FormatError {
        FormatError::Line { path: self.path.clone(), place: self.place(), wanted, found }
    }

    /// How many lines a file has, not counting a blank last one.
    pub(crate) fn count(path: &Path) -> Result<u64, FormatError> {
        let mut lines = Lines::open(path)?;
        let mut count = 0;
        while lines.advance()? {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], bytes_max: usize) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines.jsonl");
        std::fs::write(&path, bytes).expect("written");
        let mut lines = Lines::open(&path).expect("opened");
        lines.bytes_max = bytes_max;
        let mut found = Vec::new();
        while lines.advance().map_err(|error| error.to_string())? {
            found.push(String::from_utf8_lossy(lines.bytes()).trim().to_owned());
        }
        Ok(found)
    }

    #[test]
    fn line_ends_and_marks_of_other_systems_are_accepted() {
        for bytes in ["a\nb", "a\nb\n", "a\r\nb\r\n", "\u{feff}a\nb\n", "a\nb\n\n", "a\nb\n \t\r\n"] {
            assert_eq!(read(bytes.as_bytes(), 10), Ok(vec!["a".to_owned(), "b".to_owned()]), "{bytes:?}");
        }
        for bytes in ["", "\n", "\u{feff}"] {
            assert_eq!(read(bytes.as_bytes(), 10), Ok(Vec::new()), "{bytes:?}");
        }
    }

    #[test]
    fn a_blank_line_is_refused_unless_it_is_the_last() {
        for bytes in ["a\n\nb\n", "\na\n", "a\n\n\n"] {
            let message = read(bytes.as_bytes(), 10).expect_err(bytes);
            assert!(message.contains("wanted a JSON object, found a blank line"), "{message}");
        }
    }

    #[test]
    fn a_line_past_the_limit_is_refused_and_one_at_the_limit_is_not() {
        assert_eq!(read(b"12345678", 8), Ok(vec!["12345678".to_owned()]));
        assert_eq!(read(b"12345678\n1\n", 8), Ok(vec!["12345678".to_owned(), "1".to_owned()]));
        let message = read(b"1\n123456789", 8).expect_err("too long");
        assert!(
            message.ends_with("line 2: wanted a line within the limit, found more than 8 bytes"),
            "{message}"
        );
    }
}
