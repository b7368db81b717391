//! The directory a store lives in: whether there is a store, how large it is, and names that survive a power cut.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file that names the current manifest. RocksDB writes it last when it creates a database.
const CURRENT: &str = "CURRENT";

/// What a directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A store, sound or not.
    Store,
    /// Data files that nothing refers to. RocksDB would start a new database among them, and delete or replay them.
    Remains,
    /// No store, or no directory at all.
    Nothing,
}

/// Looks without opening any file.
pub(crate) fn contents(path: &Path) -> io::Result<Contents> {
    match fs::metadata(path.join(CURRENT)) {
        Ok(_) => return Ok(Contents::Store),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Contents::Nothing),
        entries => entries?,
    };
    for entry in entries {
        if is_data_file(Path::new(&entry?.file_name())) {
            return Ok(Contents::Remains);
        }
    }
    Ok(Contents::Nothing)
}

fn is_data_file(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "sst" || extension == "log")
}

/// Whether a store has a file of this name: a table, a log, or one of those that say what belongs to it.
pub(crate) fn is_store_file(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = name.strip_suffix(".sst").or_else(|| name.strip_suffix(".log")) {
        return is_number(number);
    }
    match name.split_once('-') {
        Some(("MANIFEST" | "OPTIONS", number)) => is_number(number),
        Some(_) => false,
        None => [CURRENT, "IDENTITY", "LOCK", "LOG"].contains(&name),
    }
}

/// The lengths of all files directly in `path`. A file that goes away meanwhile does not count.
pub(crate) fn bytes(path: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        match entry?.metadata() {
            Ok(file) if file.is_file() => total += file.len(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

/// What an ordinary process may still write to the file system of `path`, in bytes.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Makes `path` and what is missing above it, so that they are there after a power cut.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = named_parent(path) {
        make(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync_parent(path)
}

/// Writes the name of `path` through to the disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(named_parent(path).unwrap_or(Path::new(".")))?.sync_all()
}

/// The parent as a path that can be opened; `None` for a bare name and for the root.
pub(crate) fn named_parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}
