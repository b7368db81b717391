//! What was begun and what was acknowledged, outside of the data directory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::operation::Stream;

/// The journal of one stream. Only the process is killed, so what was written is there.
pub(crate) struct Journal(File);

/// How far a stream came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reached {
    /// Operations begun.
    pub(crate) begun: u64,
    /// Operations acknowledged: all that were begun, or all but the last.
    pub(crate) acknowledged: u64,
}

impl Journal {
    pub(crate) fn open(folder: &Path, stream: Stream) -> Journal {
        let file = OpenOptions::new().create(true).append(true).open(path(folder, stream));
        Journal(file.expect("a journal"))
    }

    pub(crate) fn begin(&mut self, number: u64) {
        writeln!(self.0, "begin {number}").expect("room for a line");
    }

    pub(crate) fn acknowledge(&mut self, number: u64) {
        writeln!(self.0, "end {number}").expect("room for a line");
    }
}

fn path(folder: &Path, stream: Stream) -> PathBuf {
    folder.join(format!("{}.journal", stream.name()))
}

/// Reads how far a stream came, and starts its journal anew.
pub(crate) fn take(folder: &Path, stream: Stream, from: u64) -> Reached {
    let path = path(folder, stream);
    let mut text = String::new();
    if let Ok(mut file) = File::open(&path) {
        file.read_to_string(&mut text).expect("a journal is text");
        std::fs::remove_file(&path).expect("it is ours");
    }
    let mut reached = Reached { begun: from, acknowledged: from };
    // A line that the kill cut off is of no operation that the engine ended.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let (what, number) = line.split_once(' ').expect("two words");
        let next = number.parse::<u64>().expect("a number") + 1;
        match what {
            "begin" => reached.begun = next,
            "end" => reached.acknowledged = next,
            other => panic!("{other} is no word of a journal"),
        }
    }
    assert!(reached.begun - reached.acknowledged <= 1, "{reached:?}");
    reached
}
