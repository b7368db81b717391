//! Objects as files of a directory.
//!
//! A file is written under a temporary name, synced and renamed; so there is never a part of one under its name.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::process;

use crate::BackupError;
use crate::claim::{Claim, Purpose};
use crate::error::file;
use crate::hash::{self, Content, Meter};
use crate::place::{Found, Moved, Place, Sink, Watch};

/// How the names of unfinished files start.
pub(crate) const TEMPORARY: &str = ".new-";

/// The file in a collection's folder whose lock is the claim.
const LOCK: &str = ".lock";

pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// The directory `root`, which need not exist yet.
    pub(crate) fn new(root: PathBuf) -> Directory {
        Directory { root }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// The folder that `path` is in, made if need be, and a free name in it.
    fn beside(path: &Path) -> Result<PathBuf, BackupError> {
        let folder = path.parent().unwrap_or(path);
        make(folder)?;
        Ok(folder.join(format!("{TEMPORARY}{:016x}", random())))
    }
}

impl Place for Directory {
    fn present(&self, key: &str, source: &Path, may_link: bool) -> Result<Option<u64>, BackupError> {
        let path = self.path(key);
        let Some(found) = metadata(&path)? else { return Ok(None) };
        let is_source = || -> Result<bool, BackupError> {
            let source = fs::metadata(source).map_err(file(source))?;
            Ok((source.dev(), source.ino()) == (found.dev(), found.ino()))
        };
        Ok(if !may_link && is_source()? { None } else { Some(found.len()) })
    }

    fn is_near(&self) -> bool {
        true
    }

    fn store(
        &self,
        key: &str,
        source: &Path,
        content: Content,
        may_link: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Moved, BackupError> {
        let path = self.path(key);
        let temporary = Directory::beside(&path)?;
        if may_link && link(source, &temporary)? {
            watch(content.bytes).inspect_err(|_| _ = fs::remove_file(&temporary))?;
            place(&temporary, &path)?;
            return Ok(Moved::Linked);
        }
        let copied = copy(source, &temporary, content, watch);
        copied.and_then(|()| place(&temporary, &path)).inspect_err(|_| _ = fs::remove_file(&temporary))?;
        Ok(Moved::Copied)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, BackupError> {
        let path = self.path(key);
        let temporary = Directory::beside(&path)?;
        let made =
            write(&temporary, bytes).map_err(file(&temporary)).and_then(|()| exclusive(&temporary, &path));
        _ = fs::remove_file(&temporary);
        let made = made?;
        if made {
            sync(path.parent().unwrap_or(&self.root))?;
        }
        Ok(made)
    }

    fn settle(&self, folder: &str) -> Result<(), BackupError> {
        let folder = self.path(folder);
        if folder.is_dir() { sync(&folder) } else { Ok(()) }
    }

    fn read(&self, key: &str, _bytes: u64, sink: &mut Sink<'_>) -> Result<bool, BackupError> {
        let path = self.path(key);
        match metadata(&path)? {
            Some(_) => hash::read(&path, sink).map(|()| true),
            None => Ok(false),
        }
    }

    fn length(&self, key: &str) -> Result<Option<u64>, BackupError> {
        Ok(metadata(&self.path(key))?.map(|found| found.len()))
    }

    fn list(&self, folder: &str) -> Result<Vec<Found>, BackupError> {
        let folder = self.path(folder);
        let mut found = Vec::new();
        for entry in entries(&folder)? {
            let entry = entry.map_err(file(&folder))?;
            // A file that was removed meanwhile is not there.
            let Some(kind) = metadata(&entry.path())? else { continue };
            if let (true, Ok(name)) = (kind.is_file(), entry.file_name().into_string()) {
                found.push(Found { name, bytes: kind.len() });
            }
        }
        Ok(found)
    }

    fn folders(&self) -> Result<Vec<String>, BackupError> {
        let mut found = Vec::new();
        for entry in entries(&self.root)? {
            let entry = entry.map_err(file(&self.root))?;
            if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
                found.push(name);
            }
        }
        Ok(found)
    }

    fn remove(&self, key: &str) -> Result<(), BackupError> {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file(&path)(error)),
            _ => Ok(()),
        }
    }

    fn claim(&self, collection: &str, purpose: Purpose) -> Result<Claim, BackupError> {
        let folder = self.path(collection);
        make(&folder)?;
        let path = folder.join(LOCK);
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(file(&path))?;
        let locked = match purpose {
            // A sweep does not take long.
            Purpose::Use => lock.lock_shared(),
            Purpose::Sweep => match lock.try_lock() {
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(BackupError::Busy {
                        repository: self.root.display().to_string(),
                        collection: collection.to_owned(),
                        holder: "a backup or a sweep",
                    });
                }
                Err(fs::TryLockError::Error(error)) => Err(error),
                Ok(()) => Ok(()),
            },
        };
        match locked {
            Ok(()) => Ok(Claim::Locked { _lock: lock }),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let path = path.display();
                tracing::warn!(%path, "the file system knows no locks: make no backup while another is pruned");
                Ok(Claim::Unheld)
            }
            Err(error) => Err(file(&path)(error)),
        }
    }
}

/// What there is at `path`, if there is anything.
fn metadata(path: &Path) -> Result<Option<fs::Metadata>, BackupError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file(path)(error)),
    }
}

/// The entries of a folder; none if it is not there.
fn entries(folder: &Path) -> Result<Vec<io::Result<fs::DirEntry>>, BackupError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(file(folder)(error)),
    }
}

/// Makes a folder and those above it, each to survive a power cut.
fn make(folder: &Path) -> Result<(), BackupError> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if above != folder {
        make(above)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(file(folder)(error)),
        _ => sync(above),
    }
}

/// Another name for the same file, if the file system can; what it holds is synced.
fn link(source: &Path, temporary: &Path) -> Result<bool, BackupError> {
    File::open(source).and_then(|opened| opened.sync_all()).map_err(file(source))?;
    // Across file systems, on one that has no links, or when a file has too many: it is copied.
    Ok(fs::hard_link(source, temporary).is_ok())
}

fn copy(source: &Path, temporary: &Path, content: Content, watch: &mut Watch<'_>) -> Result<(), BackupError> {
    let mut target = File::create_new(temporary).map_err(file(temporary))?;
    let mut meter = Meter::default();
    hash::read(source, |piece| {
        meter.take(piece);
        target.write_all(piece).map_err(file(temporary))?;
        watch(piece.len() as u64)
    })?;
    if meter.content() != content {
        return Err(BackupError::Changed { path: source.to_owned() });
    }
    target.sync_all().map_err(file(temporary))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut target = File::create_new(path)?;
    target.write_all(bytes)?;
    target.sync_all()
}

/// Gives a file its name, in the place of any other.
fn place(temporary: &Path, path: &Path) -> Result<(), BackupError> {
    fs::rename(temporary, path).map_err(file(path))?;
    // Two names of one file are left as they are by a rename.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(file(temporary)(error)),
        _ => Ok(()),
    }
}

/// Gives a file a name that no other has; tells whether it was free.
fn exclusive(temporary: &Path, path: &Path) -> Result<bool, BackupError> {
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        // No links here: another backup of the same second and sequence would hold the same.
        Err(_) if path.exists() => Ok(false),
        Err(_) => fs::rename(temporary, path).map(|()| true).map_err(file(path)),
    }
}

/// Makes new names in a folder survive a power cut.
pub(crate) fn sync(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(file(folder))
}

/// The standard library keys its hashers at random; that is random enough for a name.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Tries to write into a directory, or where it would be made, and leaves nothing.
pub fn try_folder(folder: &Path) -> io::Result<()> {
    let absolute = path::absolute(folder)?;
    let existing = absolute.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    if !existing.is_dir() {
        return Err(io::Error::new(ErrorKind::NotADirectory, format!("{} is a file", existing.display())));
    }
    let probe = existing.join(format!(".dehub-check-{}", process::id()));
    match File::create_new(&probe) {
        // Another thread of this process tries the same.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|_| fs::remove_file(probe)),
    }
}
