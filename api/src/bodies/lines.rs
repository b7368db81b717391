//! Lines as they arrive, put together to batches.

use dehub_index::BATCH_POINTS_MAX;

use crate::errors::BODY_TOO_LARGE;
use crate::problem::Problem;

/// Cuts what arrives into batches of whole lines.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where the lines in `bytes` end, their line ends included.
    ends: Vec<usize>,
    /// The number of the first line in `bytes`, from 0.
    first: u64,
    /// The most bytes of a batch.
    bytes_max: usize,
}

/// Whole lines that follow each other.
#[derive(Debug, PartialEq)]
pub(crate) struct LineBatch {
    bytes: Vec<u8>,
    /// The number of the first line, from 0.
    pub(crate) first: u64,
}

impl Lines {
    pub(crate) fn new(bytes_max: usize) -> Lines {
        Lines { bytes: Vec::new(), ends: Vec::new(), first: 0, bytes_max }
    }

    /// What arrived and is in no batch yet; more is appended to it, and then looked at by [`Lines::look`].
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Finds the lines that end in what was appended after the first `known` bytes.
    pub(crate) fn look(&mut self, known: usize) {
        let new = self.bytes.iter().enumerate().skip(known);
        self.ends.extend(new.filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place + 1));
    }

    /// A batch, if there is more than one of lines or of bytes.
    pub(crate) fn full_batch(&mut self) -> Result<Option<LineBatch>, Problem> {
        let fitting = self.ends.partition_point(|&end| end <= self.bytes_max).min(BATCH_POINTS_MAX);
        let end = fitting.checked_sub(1).map_or(0, |last| self.ends[last]);
        // White space at the end of a body is no row that makes its batch one too many.
        let is_more = || !self.bytes[end..].iter().all(u8::is_ascii_whitespace);
        let has_too_many = self.ends.len() > BATCH_POINTS_MAX + 1;
        let is_full = fitting == BATCH_POINTS_MAX && (has_too_many || is_more());
        if !is_full && self.bytes.len() <= self.bytes_max {
            return Ok(None);
        }
        if fitting == 0 {
            let (line, limit) = (self.first + 1, self.bytes_max);
            let detail = format!("line {line} has more than {limit} bytes, the limit of a line and a batch");
            let problem = Problem::new(BODY_TOO_LARGE, detail).wanted(format_args!("at most {limit} bytes"));
            return Err(problem.at(format_args!("/rows/{}", self.first)).line(line));
        }
        let rest = self.bytes.split_off(end);
        let later = self.ends.split_off(fitting);
        let batch = LineBatch { bytes: std::mem::replace(&mut self.bytes, rest), first: self.first };
        self.ends = later.into_iter().map(|later| later - end).collect();
        self.first += fitting as u64;
        Ok(Some(batch))
    }

    /// What is left at the end; the last line need not have a line end.
    pub(crate) fn into_rest(self) -> LineBatch {
        LineBatch { bytes: self.bytes, first: self.first }
    }
}

impl LineBatch {
    /// The lines of a text that is there as a whole.
    pub(crate) fn of(bytes: Vec<u8>) -> LineBatch {
        LineBatch { bytes, first: 0 }
    }

    /// The lines with their numbers from 0; blank ones are passed over.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let lines = self.bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        (self.first..).zip(lines).filter(|(_, line)| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of at most `bytes_max` bytes of a text that arrives in steps.
    fn batches(text: &str, step: usize, bytes_max: usize) -> Result<Vec<Vec<(u64, String)>>, Problem> {
        let mut lines = Lines::new(bytes_max);
        let mut all = Vec::new();
        let owned = |batch: &LineBatch| -> Vec<(u64, String)> {
            batch.iter().map(|(at, line)| (at, String::from_utf8_lossy(line).into_owned())).collect()
        };
        for chunk in text.as_bytes().chunks(step) {
            let known = lines.bytes_mut().len();
            lines.bytes_mut().extend_from_slice(chunk);
            lines.look(known);
            while let Some(batch) = lines.full_batch()? {
                all.push(owned(&batch));
            }
        }
        all.push(owned(&lines.into_rest()));
        Ok(all)
    }

    #[test]
    fn lines_are_whole_and_numbered_however_they_arrive() {
        let text = "{\"a\":1}\r\n\n  \n{\"b\":2}\n{\"c\":3}";
        let line = |at: u64, text: &str| (at, text.to_owned());
        for step in 1..=text.len() {
            let all = batches(text, step, 1000).expect("short lines").concat();
            assert_eq!(all, [line(0, "{\"a\":1}"), line(3, "{\"b\":2}"), line(4, "{\"c\":3}")], "{step}");
            let all = batches(text, step, 12).expect("short lines");
            assert_eq!(all.concat().len(), 3, "{step}");
            assert!(all.len() > 1, "{step}");
            assert!(batches(text, step, 5).is_err(), "{step}");
        }
    }

    #[test]
    fn a_batch_more_begins_with_the_first_line_that_is_too_many() {
        let text = "1\n".repeat(BATCH_POINTS_MAX);
        for (text, wanted) in [
            (text.clone(), vec![BATCH_POINTS_MAX]),
            (format!("{text}\n"), vec![BATCH_POINTS_MAX]),
            (format!("{text}1"), vec![BATCH_POINTS_MAX, 1]),
            (format!("{text}{text}1\n"), vec![BATCH_POINTS_MAX, BATCH_POINTS_MAX, 1]),
        ] {
            for step in [1000, usize::MAX] {
                let all = batches(&text, step, usize::MAX).expect("short lines");
                assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), wanted);
            }
        }
    }
}
