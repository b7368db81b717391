//! The command line as a user meets it: every command is its own process.

mod backups;
mod bad_input;
mod banks;
mod bench;
mod choices;
mod compat;
mod evaluating;
mod expected;
mod export;
mod filters;
mod fitting;
mod freezing;
mod live;
mod measuring;
mod mending;
mod multi;
mod named;
mod observing;
mod operating;
mod preparing;
mod priors;
mod serving;
mod settings;
mod texts;
mod training;
mod tuning;
mod verifying;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A data directory of its own, and commands that use it.
pub(crate) struct Dehub {
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A file of the repository's test data.
pub(crate) fn testdata(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace");
    root.join("testdata").join(name).to_str().expect("the path is UTF-8").to_owned()
}

impl Dehub {
    pub(crate) fn new() -> Dehub {
        Dehub { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file for a command to read; gives its path.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("the temporary folder is writable");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
        command.current_dir(self.folder.path()).arg("--data-dir").arg(self.path("data")).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).output().expect("the binary runs"))
    }

    /// Runs a command that must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        ended
    }

    /// What `info` tells of the collection `x`, but for the size of the store's files: opening them
    /// writes to its log.
    pub(crate) fn state(&self) -> Value {
        let mut info = self.json(&["info", "x"]);
        info.as_object_mut().expect("an object").remove("bytes_on_disk").expect("the size is shown");
        info
    }

    /// Runs a command with `--json`; its output must be one JSON object and no more.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&ended.stdout).expect("one JSON object on standard output")
    }
}

pub(crate) fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ended {
        code: output.status.code().expect("the command was not killed"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// An `.npy` file of 32-bit numbers.
pub(crate) fn npy(rows: &[&[f32]]) -> Vec<u8> {
    let dim = rows.first().map_or(3, |row| row.len());
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {dim}), }}", rows.len());
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    let body = rows.iter().flat_map(|row| row.iter()).flat_map(|number| number.to_le_bytes());
    b"\x93NUMPY\x01\x00".iter().copied().chain(length).chain(header.into_bytes()).chain(body).collect()
}
