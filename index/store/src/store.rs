//! A directory of families: opening, reading, committing, checkpoints.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::directory::{self, Contents};
use crate::rocks::{self, Database, EngineError, FamilyHandle, Fault, Mode, Snapshot};
use crate::{
    BATCH_BYTES_MAX, Batch, CheckpointError, CommitError, CompactError, FailPoint, Family, OpenError,
    OwnedView, ReadError, Scan, View, prefix_end,
};

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A power cut: the log is `fdatasync`ed before the commit returns. Concurrent commits share one sync.
    Strict,
    /// The death of the process. A power cut may take the newest such commits, in reverse order, until the next
    /// strict commit or [`Store::sync`].
    Relaxed,
}

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches that were written.
    pub commits: u64,
    /// Times the log was synced for a caller: strict commits, and calls of [`Store::sync`].
    pub syncs: u64,
}

/// Durable ordered bytes in a directory that this process holds alone.
///
/// Shared by reference between threads: reads never wait for commits, and concurrent commits are ordered by the store.
pub struct Store {
    database: Database,
    path: PathBuf,
    families: Vec<Family>,
    /// Set for good by the first failed write. What the log holds from then on is unknown, so nothing may be put
    /// after it.
    poisoned: AtomicBool,
    commits: AtomicU64,
    syncs: AtomicU64,
}

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
        let database =
            rocks::open(&path, families, mode).map_err(|error| open_error(&path, families, error))?;
        Ok(Store {
            database,
            path,
            families: families.to_vec(),
            poisoned: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        })
    }

    /// The directory, as an absolute path without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.get_at(family, key, None)
    }

    /// The values of `keys`, in their order, all as of one moment.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.get_many_at(family, keys, None)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.scan_at(family, from, to, None)
    }

    /// The rows whose keys start with `prefix`, ascending.
    pub fn scan_prefix(&self, family: Family, prefix: &[u8]) -> Scan<'_> {
        self.scan(family, prefix, prefix_end(prefix).as_deref())
    }

    /// The store as it is now, for as long as the view is held.
    pub fn view(&self) -> View<'_> {
        View::new(self, self.database.snapshot())
    }

    /// The store as it is now, in a view that keeps the store open.
    pub fn owned_view(self: &Arc<Store>) -> OwnedView {
        OwnedView::new(self)
    }

    /// Applies all changes of `batch` or none. After `Ok` they are visible and as durable as `durability` says.
    ///
    /// A failed write poisons the store: reads go on, and every later commit is refused until it is reopened.
    pub fn commit(&self, batch: Batch, durability: Durability) -> Result<(), CommitError> {
        self.refuse_if_poisoned()?;
        if batch.bytes() > BATCH_BYTES_MAX {
            return Err(CommitError::TooLarge { bytes: batch.bytes(), limit: BATCH_BYTES_MAX });
        }
        if batch.is_empty() {
            return Ok(());
        }
        let writes = rocks::write_batch(&self.database, &batch)
            .map_err(|family| CommitError::UnknownFamily { path: self.path.clone(), family })?;
        drop(batch);
        let synced = match durability {
            Durability::Strict => true,
            Durability::Relaxed => false,
        };
        FailPoint::BeforeCommit.reach();
        rocks::write(&self.database, writes, synced).map_err(|error| self.poison(error))?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        FailPoint::AfterCommit.reach();
        if synced {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            FailPoint::AfterSync.reach();
        }
        Ok(())
    }

    /// Makes every earlier commit survive a power cut. Fails, and poisons, as a commit does.
    pub fn sync(&self) -> Result<(), CommitError> {
        self.refuse_if_poisoned()?;
        rocks::sync_log(&self.database).map_err(|error| self.poison(error))?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        FailPoint::AfterSync.reach();
        Ok(())
    }

    /// How often this store has committed and synced since it was opened.
    pub fn counts(&self) -> Counts {
        Counts { commits: self.commits.load(Ordering::Relaxed), syncs: self.syncs.load(Ordering::Relaxed) }
    }

    /// Whether a write failed, so that commits are refused.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Writes a copy of the store as it is now to the new directory `into`, which then opens like any store.
    /// Table files are shared by hard links where the file system allows it. The directory above `into` must
    /// exist.
    pub fn checkpoint(&self, into: &Path) -> Result<(), CheckpointError> {
        let failed = |cause: String| CheckpointError::Failed { into: into.to_owned(), cause };
        if fs::symlink_metadata(into).is_ok() {
            return Err(CheckpointError::Exists { into: into.to_owned() });
        }
        if directory::named_parent(into).is_some_and(|parent| !parent.is_dir()) {
            return Err(CheckpointError::ParentMissing { into: into.to_owned() });
        }
        rocks::checkpoint(&self.database, into).map_err(|error| match rocks::fault(&error) {
            Fault::AlreadyExists => CheckpointError::Exists { into: into.to_owned() },
            Fault::InUse(_)
            | Fault::Denied
            | Fault::Corrupt
            | Fault::FileMissing
            | Fault::Mismatch
            | Fault::Other => failed(error.into_string()),
        })?;
        directory::sync_parent(into).map_err(|error| failed(error.to_string()))?;
        FailPoint::CheckpointMade.reach();
        Ok(())
    }

    /// The length of all files of the store, its log included.
    pub fn bytes_on_disk(&self) -> Result<u64, ReadError> {
        directory::bytes(&self.path)
            .map_err(|error| ReadError::Failed { path: self.path.clone(), cause: error.to_string() })
    }

    /// Rewrites the table files without what was deleted or replaced. Blocks until done, which takes as long as
    /// reading and writing the whole store; reads and commits go on.
    pub fn compact(&self) -> Result<(), CompactError> {
        FailPoint::CompactBegun.reach();
        rocks::compact(&self.database, &self.families)
            .map_err(|error| CompactError::Failed { path: self.path.clone(), cause: error.into_string() })?;
        FailPoint::CompactDone.reach();
        Ok(())
    }

    pub(crate) fn get_at(
        &self,
        family: Family,
        key: &[u8],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        rocks::get(&self.database, self.handle(family)?, key, snapshot)
            .map_err(|error| read_error(&self.path, error))
    }

    pub(crate) fn get_many_at<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        rocks::get_many(&self.database, self.handle(family)?, keys, snapshot)
            .map_err(|error| read_error(&self.path, error))
    }

    pub(crate) fn scan_at(
        &self,
        family: Family,
        from: &[u8],
        to: Option<&[u8]>,
        snapshot: Option<&Snapshot<'_>>,
    ) -> Scan<'_> {
        let handle = self.handle(family);
        Scan::new(&self.path, handle.map(|handle| rocks::rows(&self.database, handle, from, to, snapshot)))
    }

    fn handle(&self, family: Family) -> Result<&FamilyHandle, ReadError> {
        self.database
            .cf_handle(family.name())
            .ok_or_else(|| ReadError::UnknownFamily { path: self.path.clone(), family })
    }

    fn refuse_if_poisoned(&self) -> Result<(), CommitError> {
        if self.is_poisoned() { Err(CommitError::Poisoned { path: self.path.clone() }) } else { Ok(()) }
    }

    fn poison(&self, error: EngineError) -> CommitError {
        self.poisoned.store(true, Ordering::Release);
        CommitError::Failed { path: self.path.clone(), cause: error.into_string() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .field("families", &self.families)
            .field("poisoned", &self.is_poisoned())
            .finish_non_exhaustive()
    }
}

fn contents(path: &Path) -> Result<Contents, OpenError> {
    directory::contents(path).map_err(|error| refused(path, &error))
}

/// Data files are there, and the file that refers to them is not.
fn headless(path: &Path) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), cause: "its file CURRENT is missing".to_owned() }
}

/// Whether what is at `path` can be completed by creating the rest of `families`: some are missing, none is unknown,
/// and nothing was ever written. Anything that cannot be looked into is a store to be refused.
fn is_half_created(path: &Path, families: &[Family]) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    let Ok(stored) = rocks::family_names(&path) else { return false };
    let wanted: BTreeSet<&str> = families.iter().map(|family| family.name()).collect();
    stored.len() < wanted.len()
        && stored.iter().all(|name| wanted.contains(name.as_str()))
        && rocks::is_blank(&path, &stored).unwrap_or(false)
}

fn open_error(path: &Path, families: &[Family], error: EngineError) -> OpenError {
    let path = path.to_owned();
    match rocks::fault(&error) {
        Fault::InUse(holder) => OpenError::InUse { path, holder },
        Fault::Denied => OpenError::Denied { path, cause: error.into_string() },
        Fault::Corrupt | Fault::FileMissing => OpenError::Corrupt { path, cause: error.into_string() },
        Fault::AlreadyExists => OpenError::Exists { path },
        Fault::Mismatch => mismatch(path, families, error),
        Fault::Other => OpenError::Failed { path, cause: error.into_string() },
    }
}

/// Names the family that keeps a store from being opened, if it is one.
fn mismatch(path: PathBuf, families: &[Family], error: EngineError) -> OpenError {
    let Ok(stored) = rocks::family_names(&path) else {
        return OpenError::Failed { path, cause: error.into_string() };
    };
    let is_known = |name: &String| families.iter().any(|family| family.name() == name);
    let is_stored = |family: &&Family| stored.iter().any(|name| family.name() == name);
    if let Some(unknown) = stored.iter().find(|name| !is_known(name)) {
        return OpenError::UnknownFamily { path, family: unknown.clone() };
    }
    match families.iter().find(|family| !is_stored(family)) {
        Some(missing) => OpenError::MissingFamily { path, family: missing.name().to_owned() },
        None => OpenError::Failed { path, cause: error.into_string() },
    }
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

pub(crate) fn read_error(path: &Path, error: EngineError) -> ReadError {
    let path = path.to_owned();
    match rocks::fault(&error) {
        Fault::Corrupt | Fault::FileMissing => ReadError::Corrupt { path, cause: error.into_string() },
        Fault::InUse(_) | Fault::Denied | Fault::AlreadyExists | Fault::Mismatch | Fault::Other => {
            ReadError::Failed { path, cause: error.into_string() }
        }
    }
}
