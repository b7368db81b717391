//! A directory of families: reading, committing, checkpoints.

use std::error::Error;
use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::engine::{Cause, Engine, Rows, Snapshot, Trouble};
use crate::{
    BATCH_BYTES_MAX, Batch, CheckpointError, CommitError, CompactError, FailPoint, Family, Fault, Faults,
    OwnedView, ReadError, Scan, View, directory, faults, prefix_end, rocks,
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

/// What was cut off from the end of a log when a store was opened: a record that a crash kept from being written whole.
/// It had not been synced, so no strict commit was lost with it, unless the file was damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The log.
    pub file: PathBuf,
    /// Where in it the record begins, in bytes.
    pub offset: u64,
    /// How much there was from there to the last byte that is not zero.
    pub bytes: u64,
}

/// What a compaction did: the length of all files of the store before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// In bytes, before.
    pub before: u64,
    /// In bytes, after.
    pub after: u64,
}

/// How much of a store in memory is copied by one commit.
const COPIED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Durable ordered bytes in a directory that this process holds alone.
///
/// Shared by reference between threads: reads never wait for commits, and concurrent commits are ordered by the store.
pub struct Store {
    engine: Engine,
    path: PathBuf,
    families: Vec<Family>,
    /// Set for good by the first failed write. What the log holds from then on is unknown, so nothing may be put
    /// after it.
    poisoned: AtomicBool,
    commits: AtomicU64,
    syncs: AtomicU64,
    /// What a test makes fail.
    faults: Option<Faults>,
    torn: Option<Torn>,
}

impl Store {
    pub(crate) fn new(engine: Engine, path: PathBuf, families: &[Family]) -> Store {
        Store {
            engine,
            path,
            families: families.to_vec(),
            poisoned: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            faults: None,
            torn: None,
        }
    }

    pub(crate) fn with_torn(self, torn: Option<Torn>) -> Store {
        Store { torn, ..self }
    }

    /// The same store, whose calls `faults` counts and makes fail.
    pub fn with_faults(self, faults: &Faults) -> Store {
        Store { faults: Some(faults.clone()), ..self }
    }

    /// The directory, as an absolute path without links; `<memory>` for a store on a [`MemoryDisk`](crate::MemoryDisk).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was cut off when this store was opened; `None` if its log ended after a record.
    pub fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
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
        let snapshot = match faults::refusal(self.faults.as_ref()) {
            Some(trouble) => Err(read_error(&self.path, trouble)),
            None => Ok(self.engine.snapshot()),
        };
        View::new(self, snapshot)
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
        if let Some(change) = batch.iter().find(|change| !self.families.contains(&change.family())) {
            return Err(CommitError::UnknownFamily { path: self.path.clone(), family: change.family() });
        }
        let synced = match durability {
            Durability::Strict => true,
            Durability::Relaxed => false,
        };
        FailPoint::BeforeCommit.reach();
        self.change(|| self.engine.write(batch, synced))?;
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
        self.change(|| self.engine.sync())?;
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
        if let Some(trouble) = faults::refusal(self.faults.as_ref()) {
            return Err(failed(trouble.text));
        }
        match &self.engine {
            Engine::Rocks(database) => {
                rocks::checkpoint(database, into).map_err(|trouble| match trouble.cause {
                    Cause::AlreadyExists => CheckpointError::Exists { into: into.to_owned() },
                    Cause::InUse(_)
                    | Cause::Denied
                    | Cause::Corrupt
                    | Cause::FileMissing
                    | Cause::Mismatch
                    | Cause::Other => failed(trouble.text),
                })?;
            }
            Engine::Memory(_) => self.copy_to(into).map_err(|error| failed(error.to_string()))?,
        }
        directory::sync_parent(into).map_err(|error| failed(error.to_string()))?;
        FailPoint::CheckpointMade.reach();
        Ok(())
    }

    /// Writes the rows to a new store in the directory `into`.
    fn copy_to(&self, into: &Path) -> Result<(), Box<dyn Error>> {
        let mut partial = into.as_os_str().to_owned();
        partial.push(".tmp");
        let partial = PathBuf::from(partial);
        let copy = Store::create(&partial, &self.families)?;
        let snapshot = self.engine.snapshot();
        for &family in &self.families {
            let mut batch = Batch::default();
            let rows = self.engine.rows(family, b"", None, Some(&snapshot));
            for row in rows.map_err(|trouble| trouble.text)? {
                let (key, value) = row.map_err(|trouble| trouble.text)?;
                batch.put(family, &key, &value);
                if batch.bytes() > COPIED_BYTES_MAX {
                    copy.commit(mem::take(&mut batch), Durability::Relaxed)?;
                }
            }
            copy.commit(batch, Durability::Relaxed)?;
        }
        copy.sync()?;
        drop(copy);
        Ok(fs::rename(partial, into)?)
    }

    /// The length of all files of the store, its log included.
    pub fn bytes_on_disk(&self) -> Result<u64, ReadError> {
        match &self.engine {
            Engine::Rocks(_) => directory::bytes(&self.path)
                .map_err(|error| ReadError::Failed { path: self.path.clone(), cause: error.to_string() }),
            Engine::Memory(session) => session.bytes().map_err(|trouble| read_error(&self.path, trouble)),
        }
    }

    /// What this process may still write where the store is, in bytes; `None` if the system does not tell, and in
    /// memory.
    pub fn free_bytes(&self) -> Option<u64> {
        match &self.engine {
            Engine::Rocks(_) => directory::free_bytes(&self.path),
            Engine::Memory(_) => None,
        }
    }

    /// Rewrites the table files without what was deleted or replaced. Blocks until done, which takes as long as
    /// reading and writing the whole store; reads and commits go on.
    pub fn compact(&self) -> Result<Compacted, CompactError> {
        let failed = |cause| CompactError::Failed { path: self.path.clone(), cause };
        let size = || self.bytes_on_disk().map_err(|error| failed(error.to_string()));
        if let Some(trouble) = faults::refusal(self.faults.as_ref()) {
            return Err(failed(trouble.text));
        }
        let before = size()?;
        FailPoint::CompactBegun.reach();
        self.engine.compact(&self.families).map_err(|trouble| failed(trouble.text))?;
        FailPoint::CompactDone.reach();
        Ok(Compacted { before, after: size()? })
    }

    pub(crate) fn get_at(
        &self,
        family: Family,
        key: &[u8],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(family, || self.engine.get(family, key, snapshot))
    }

    pub(crate) fn get_many_at<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.read(family, || self.engine.get_many(family, keys, snapshot))
    }

    pub(crate) fn scan_at(
        &self,
        family: Family,
        from: &[u8],
        to: Option<&[u8]>,
        snapshot: Option<&Snapshot<'_>>,
    ) -> Scan<'_> {
        self.scan_of(self.read(family, || self.engine.rows(family, from, to, snapshot)))
    }

    /// A scan that answers with an error.
    pub(crate) fn refused_scan(&self, error: ReadError) -> Scan<'_> {
        self.scan_of(Err(error))
    }

    fn scan_of<'a>(&'a self, rows: Result<Rows<'a>, ReadError>) -> Scan<'a> {
        Scan::new(&self.path, self.faults.as_ref(), rows)
    }

    /// Reads, unless a test makes the call fail or the family is unknown.
    fn read<T>(&self, family: Family, read: impl FnOnce() -> Result<T, Trouble>) -> Result<T, ReadError> {
        if !self.families.contains(&family) {
            return Err(ReadError::UnknownFamily { path: self.path.clone(), family });
        }
        let answer = match faults::refusal(self.faults.as_ref()) {
            Some(trouble) => Err(trouble),
            None => read(),
        };
        answer.map_err(|trouble| read_error(&self.path, trouble))
    }

    /// Writes, unless a test makes the call fail. What fails poisons the store.
    fn change(&self, write: impl FnOnce() -> Result<(), Trouble>) -> Result<(), CommitError> {
        let done = match self.faults.as_ref().and_then(Faults::call) {
            None => write(),
            Some(Fault::Refused) => Err(faults::trouble()),
            Some(Fault::Unacknowledged) => write().and(Err(faults::trouble())),
        };
        done.map_err(|trouble| {
            self.poisoned.store(true, Ordering::Release);
            CommitError::Failed { path: self.path.clone(), cause: trouble.text }
        })
    }

    fn refuse_if_poisoned(&self) -> Result<(), CommitError> {
        if self.is_poisoned() { Err(CommitError::Poisoned { path: self.path.clone() }) } else { Ok(()) }
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

pub(crate) fn read_error(directory: &Path, trouble: Trouble) -> ReadError {
    let path = directory.to_owned();
    let Trouble { cause, text, file, offset } = trouble;
    match cause {
        Cause::Corrupt | Cause::FileMissing => {
            ReadError::Corrupt { path, file: file.map(|name| directory.join(name)), offset, cause: text }
        }
        Cause::InUse(_) | Cause::Denied | Cause::AlreadyExists | Cause::Mismatch | Cause::Other => {
            ReadError::Failed { path, cause: text }
        }
    }
}
