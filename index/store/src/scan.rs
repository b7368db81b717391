//! Rows in ascending order of their keys.

use std::fmt;
use std::iter::FusedIterator;
use std::path::Path;

use crate::engine::Rows;
use crate::store::read_error;
use crate::{Faults, ReadError, faults};

/// A key and its value.
pub type Row = (Box<[u8]>, Box<[u8]>);

/// Rows in ascending order of their keys, as they were when the scan began.
///
/// It ends after the last row or after the first error: a failed read is an `Err`, never an early end.
pub struct Scan<'a> {
    path: &'a Path,
    faults: Option<&'a Faults>,
    /// Bytes of stored keys that come before the keys as they are seen.
    skipped: usize,
    state: State<'a>,
}

enum State<'a> {
    Open(Rows<'a>),
    /// The error to hand out, until it has been.
    Refused(Option<ReadError>),
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        path: &'a Path,
        faults: Option<&'a Faults>,
        rows: Result<(Rows<'a>, usize), ReadError>,
    ) -> Scan<'a> {
        let (skipped, state) = match rows {
            Ok((rows, skipped)) => (skipped, State::Open(rows)),
            Err(error) => (0, State::Refused(Some(error))),
        };
        Scan { path, faults, skipped, state }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Result<Row, ReadError>> {
        let row = match &mut self.state {
            State::Open(rows) => match faults::refusal(self.faults) {
                Some(trouble) => Err(trouble),
                None => rows.next()?,
            },
            State::Refused(error) => return error.take().map(Err),
        };
        let row = row.map_err(|trouble| read_error(self.path, trouble));
        let row = row.map(|(key, value)| match self.skipped {
            0 => (key, value),
            skipped => (key[skipped..].into(), value),
        });
        if row.is_err() {
            self.state = State::Refused(None);
        }
        Some(row)
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
