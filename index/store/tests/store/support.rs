//! What the tests share: two families, rows as plain vectors, and this test binary run again as a child.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dehub_store::{Batch, Durability, Family, MemoryDisk, OpenError, ReadError, Scan, Store};
use tempfile::TempDir;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) const POINTS: Family = Family::new("points");
pub(crate) const PAYLOADS: Family = Family::new("payloads");
pub(crate) const FAMILIES: [Family; 2] = [POINTS, PAYLOADS];

/// Tells a test that it is the child, and which store to use.
const CHILD_STORE: &str = "DEHUB_STORE_TEST_CHILD";

pub(crate) fn rows(scan: Scan<'_>) -> Result<Rows, ReadError> {
    scan.map(|row| row.map(|(key, value)| (key.into_vec(), value.into_vec()))).collect()
}

/// `"a=1 b=2"` as rows.
pub(crate) fn table(text: &str) -> Rows {
    let row = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("a row is key=value");
        (key.as_bytes().to_vec(), value.as_bytes().to_vec())
    };
    text.split_whitespace().map(row).collect()
}

/// A batch that puts `"a=1 b=2"` into the points.
pub(crate) fn puts(text: &str) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in table(text) {
        batch.put(POINTS, &key, &value);
    }
    batch
}

pub(crate) fn store_with(path: &Path, text: &str) -> Result<Store, Box<dyn Error>> {
    let store = Store::create(path, &FAMILIES)?;
    store.commit(puts(text), Durability::Strict)?;
    Ok(store)
}

/// Where a store can be: what is promised of the one holds of the other.
#[derive(Debug)]
pub(crate) enum Medium {
    Files(TempDir),
    Memory(MemoryDisk),
}

/// One of each, empty.
pub(crate) fn media() -> io::Result<[Medium; 2]> {
    Ok([Medium::Files(tempfile::tempdir()?), Medium::Memory(MemoryDisk::new())])
}

impl Medium {
    pub(crate) fn create(&self) -> Result<Store, OpenError> {
        match self {
            Medium::Files(directory) => Store::create(&directory.path().join("store"), &FAMILIES),
            Medium::Memory(disk) => Store::create_in(disk, &FAMILIES),
        }
    }

    pub(crate) fn open(&self) -> Result<Store, OpenError> {
        match self {
            Medium::Files(directory) => Store::open(&directory.path().join("store"), &FAMILIES),
            Medium::Memory(disk) => Store::open_in(disk, &FAMILIES),
        }
    }

    pub(crate) fn store_with(&self, text: &str) -> Result<Store, Box<dyn Error>> {
        let store = self.create()?;
        store.commit(puts(text), Durability::Strict)?;
        Ok(store)
    }
}

/// The files of a store that is closed whose names end with `suffix`, in order of their names.
pub(crate) fn files(store: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The store a child is to use; `None` in the parent.
pub(crate) fn child_store() -> Option<PathBuf> {
    env::var_os(CHILD_STORE).map(PathBuf::from)
}

/// This binary again, running only `test`, which finds `store` by [`child_store`].
pub(crate) fn child(test: &str, store: &Path) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    give_task(&mut command, test, store);
    Ok(command)
}

/// The same, but no file the child writes may grow past `limit` blocks (of 512 or 1024 bytes, as the shell has it).
pub(crate) fn child_with_file_limit(test: &str, store: &Path, limit: u32) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new("sh");
    // With the signal ignored, a write past the limit is an error instead of the end of the process.
    command.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\""));
    command.arg(env::current_exe()?);
    give_task(&mut command, test, store);
    Ok(command)
}

fn give_task(command: &mut Command, test: &str, store: &Path) {
    command.args([OsStr::new(test), OsStr::new("--exact"), OsStr::new("--nocapture")]);
    command.env(CHILD_STORE, store).stdin(Stdio::null()).stdout(Stdio::piped());
}
