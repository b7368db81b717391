//! Folders beside the collections, in which a process works on a copy of one.
//!
//! Such a folder is locked while its process lives. Whoever finds one that is not may remove it.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Name;

/// How the names of folders with checkpoints start.
pub(crate) const CHECKPOINT: &str = ".checkpoint-";

/// How the names of folders start to which a backup is fetched.
pub(crate) const RESTORING: &str = ".restoring-";

/// A folder that is removed when dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    path: PathBuf,
    /// Locked, so that others know that somebody is at work.
    _lock: File,
}

impl Beside {
    /// Makes an empty folder in `collections`, and the folders above it if need be.
    pub(crate) fn make(collections: &Path, prefix: &str, name: &Name) -> io::Result<Beside> {
        fs::create_dir_all(collections)?;
        loop {
            // The standard library keys its hashers at random; that is random enough for a name.
            let number = RandomState::new().build_hasher().finish();
            let path = collections.join(format!("{prefix}{name}.{number:016x}"));
            fs::create_dir(&path)?;
            // Until it is locked, whoever sweeps may take it for a leftover.
            if let Some(lock) = lock(&path)? {
                return Ok(Beside { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary folder was not removed");
        }
    }
}

/// Removes the folders of processes that died.
pub(crate) fn sweep(collections: &Path) {
    for entry in fs::read_dir(collections).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours =
            name.to_str().is_some_and(|name| name.starts_with(CHECKPOINT) || name.starts_with(RESTORING));
        let path = entry.path();
        if !is_ours || !matches!(lock(&path), Ok(Some(_))) {
            continue;
        }
        match fs::remove_dir_all(&path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed what an interruption left"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "not removed"),
        }
    }
}

/// Locks a folder, unless somebody else has or it is gone meanwhile.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match opened.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks: nobody is told, and nothing is swept that is in use elsewhere.
        Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    let (mine, there) = (opened.metadata()?, fs::metadata(path));
    Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (mine.dev(), mine.ino())).then_some(opened))
}

/// Makes new names in a folder survive a power cut.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes all that is below a folder survive a power cut.
pub(crate) fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { sync_all(&entry.path())? } else { sync(&entry.path())? }
    }
    sync(folder)
}
