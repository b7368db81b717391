//! Rows in ascending order of their keys.

use std::fmt;
use std::iter::FusedIterator;
use std::path::Path;

use crate::ReadError;
use crate::rocks::{EngineError, Rows};
use crate::store::read_error;

/// A key and its value.
pub type Row = (Box<[u8]>, Box<[u8]>);

/// Rows in ascending order of their keys, as they were when the scan began.
///
/// It ends after the last row or after the first error: a failed read is an `Err`, never an early end.
pub struct Scan<'a> {
    path: &'a Path,
    state: State<'a>,
}

enum State<'a> {
    Open(Rows<'a>),
    /// The error to hand out, until it has been.
    Refused(Option<ReadError>),
}

impl<'a> Scan<'a> {
    pub(crate) fn new(path: &'a Path, rows: Result<Rows<'a>, ReadError>) -> Scan<'a> {
        let state = match rows {
            Ok(rows) => State::Open(rows),
            Err(error) => State::Refused(Some(error)),
        };
        Scan { path, state }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Result<Row, ReadError>> {
        match &mut self.state {
            State::Open(rows) => {
                let row: Option<Result<Row, EngineError>> = rows.next();
                Some(row?.map_err(|error| read_error(self.path, error)))
            }
            State::Refused(error) => error.take().map(Err),
        }
    }
}

impl FusedIterator for Scan<'_> {}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The smallest key greater than every key that starts with `prefix`; `None` if there is no such key, which is so for
/// the empty prefix and for one made of `0xff` alone.
///
/// ```
/// use dehub_store::prefix_end;
/// assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_end(b"\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
