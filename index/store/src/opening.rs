//! How a store comes to be: made, completed, opened, refused.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::{self, Contents};
use crate::engine::{Cause, Engine, Trouble};
use crate::log_check::{self, CheckError};
use crate::rocks::{self, Mode};
use crate::{Family, Holder, MemoryDisk, OpenError, Store, Torn};

/// The path of every store in memory.
const IN_MEMORY: &str = "<memory>";

impl Store {
    /// Makes a new store with `families` at `path`, and missing directories above it. Refuses an existing store, except
    /// one whose creation was interrupted: it is completed.
    pub fn create(path: &Path, families: &[Family]) -> Result<Store, OpenError> {
        let mode = match contents(path)? {
            Contents::Nothing => Mode::Create,
            Contents::Store if is_half_created(path, families) => Mode::Complete,
            Contents::Store => return Err(OpenError::Exists { path: path.to_owned() }),
            Contents::Remains => return Err(headless(path)),
        };
        directory::make(path).map_err(|error| refused(path, &error))?;
        Store::open_as(path, families, mode)
    }

    /// Opens the store at `path`, which must have exactly these families. Refuses a missing one; never creates.
    pub fn open(path: &Path, families: &[Family]) -> Result<Store, OpenError> {
        match contents(path)? {
            Contents::Store => Store::open_as(path, families, Mode::Open),
            Contents::Nothing => Err(OpenError::Missing { path: path.to_owned() }),
            Contents::Remains => Err(headless(path)),
        }
    }

    fn open_as(path: &Path, families: &[Family], mode: Mode) -> Result<Store, OpenError> {
        // The lock is by spelling: one directory opened by two paths would be opened twice.
        let path = fs::canonicalize(path).map_err(|error| refused(path, &error))?;
        let torn = if mode == Mode::Create { None } else { check(&path)? };
        let database =
            rocks::open(&path, families, mode).map_err(|trouble| open_error(&path, families, trouble))?;
        Ok(Store::new(Engine::Rocks(database), path, families, torn))
    }

    /// Makes a new store with `families` on `disk`, which must have none.
    pub fn create_in(disk: &MemoryDisk, families: &[Family]) -> Result<Store, OpenError> {
        if disk.has_store() {
            return Err(OpenError::Exists { path: PathBuf::from(IN_MEMORY) });
        }
        disk.format(families);
        Store::open_in(disk, families)
    }

    /// Opens the store on `disk`, which must have exactly these families.
    pub fn open_in(disk: &MemoryDisk, families: &[Family]) -> Result<Store, OpenError> {
        let path = PathBuf::from(IN_MEMORY);
        if !disk.has_store() {
            return Err(OpenError::Missing { path });
        }
        let Some(session) = disk.take() else {
            return Err(OpenError::InUse { path, holder: Holder::ThisProcess });
        };
        let stored = disk.family_names();
        if let Some(error) = mismatch(&path, families, &stored) {
            return Err(error);
        }
        Ok(Store::new(Engine::Memory(session), path, families, None))
    }
}

fn contents(path: &Path) -> Result<Contents, OpenError> {
    directory::contents(path).map_err(|error| refused(path, &error))
}

/// Data files are there, and the file that refers to them is not.
fn headless(path: &Path) -> OpenError {
    let file = Some(path.join("CURRENT"));
    OpenError::Corrupt { path: path.to_owned(), file, offset: None, cause: "the file is missing".to_owned() }
}

/// Whether what is at `path` can be completed by creating the rest of `families`: some are missing, none is unknown,
/// and nothing was ever written. Anything that cannot be looked into is a store to be refused.
fn is_half_created(path: &Path, families: &[Family]) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    if check(&path).is_err() {
        return false;
    }
    let Ok(stored) = rocks::family_names(&path) else { return false };
    let wanted: BTreeSet<&str> = families.iter().map(|family| family.name()).collect();
    stored.len() < wanted.len()
        && stored.iter().all(|name| wanted.contains(name.as_str()))
        && rocks::is_blank(&path, &stored).unwrap_or(false)
}

/// Refuses a store whose logs are damaged, unless somebody has it open: then they change while they are read.
fn check(path: &Path) -> Result<Option<Torn>, OpenError> {
    let found = match log_check::check(path) {
        Ok(torn) => return Ok(torn),
        Err(found) => found,
    };
    if let Some(holder) = rocks::holder(path) {
        return Err(OpenError::InUse { path: path.to_owned(), holder });
    }
    Err(match found {
        CheckError::Damaged { file, offset, cause } => {
            OpenError::Corrupt { path: path.to_owned(), file: Some(file), offset, cause }
        }
        CheckError::Io { error } => refused(path, &error),
    })
}

fn open_error(directory: &Path, families: &[Family], trouble: Trouble) -> OpenError {
    let path = directory.to_owned();
    let Trouble { cause, text, file, offset } = trouble;
    match cause {
        Cause::InUse(holder) => OpenError::InUse { path, holder },
        Cause::Denied => OpenError::Denied { path, cause: text },
        // RocksDB blames the MANIFEST, which it was reading, for any file that this one names; it was checked.
        Cause::Corrupt if file.as_ref().is_some_and(|name| name.starts_with("MANIFEST-")) => {
            let cause = format!("a table file that {} names: {text}", file.unwrap_or_default());
            OpenError::Corrupt { path, file: None, offset: None, cause }
        }
        Cause::Corrupt | Cause::FileMissing => {
            OpenError::Corrupt { path, file: file.map(|name| directory.join(name)), offset, cause: text }
        }
        Cause::AlreadyExists => OpenError::Exists { path },
        Cause::Mismatch => {
            let Ok(stored) = rocks::family_names(directory) else {
                return OpenError::Failed { path, cause: text };
            };
            let stored = stored.iter().map(String::as_str).collect();
            mismatch(directory, families, &stored).unwrap_or(OpenError::Failed { path, cause: text })
        }
        Cause::Other => OpenError::Failed { path, cause: text },
    }
}

/// Names the family that keeps a store from being opened, if it is one.
fn mismatch(path: &Path, families: &[Family], stored: &BTreeSet<&str>) -> Option<OpenError> {
    let path = path.to_owned();
    let is_known = |name: &str| families.iter().any(|family| family.name() == name);
    if let Some(unknown) = stored.iter().find(|name| !is_known(name)) {
        return Some(OpenError::UnknownFamily { path, family: (*unknown).to_owned() });
    }
    let missing = families.iter().find(|family| !stored.contains(family.name()))?;
    Some(OpenError::MissingFamily { path, family: missing.name().to_owned() })
}

/// An error of the file system itself, before RocksDB is asked.
fn refused(path: &Path, error: &io::Error) -> OpenError {
    let cause = error.to_string();
    let path = path.to_owned();
    if error.kind() == io::ErrorKind::NotADirectory || path.is_file() {
        return OpenError::NotADirectory { path };
    }
    let is_denied =
        [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem].contains(&error.kind());
    if is_denied { OpenError::Denied { path, cause } } else { OpenError::Failed { path, cause } }
}
