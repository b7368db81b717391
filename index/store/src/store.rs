//! A directory of families: reading, committing, checkpoints.

use std::error::Error;
use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::engine::{Cause, Engine, Snapshot, Trouble};
use crate::namespace::{Keys, Namespace};
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
/// It is a handle: a clone is the same store, which is closed with the last of its handles and views. [`Store::within`]
/// gives a handle to a part of it.
#[derive(Clone)]
pub struct Store {
    core: Arc<Core>,
    namespace: Option<Namespace>,
}

/// What the handles of a store share.
pub(crate) struct Core {
    engine: Engine,
    path: PathBuf,
    families: Vec<Family>,
    /// Set for good by the first failed write. What the log holds from then on is unknown, so nothing may be put
    /// after it.
    poisoned: AtomicBool,
    commits: AtomicU64,
    syncs: AtomicU64,
    /// What a test makes fail.
    faults: OnceLock<Faults>,
    torn: Option<Torn>,
}

/// Tells whether a store is still open, and does not keep it so.
#[derive(Debug, Clone)]
pub struct Watch(Weak<Core>);

impl Watch {
    /// Whether somebody holds the store or a view of it.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Store {
    pub(crate) fn new(engine: Engine, path: PathBuf, families: &[Family], torn: Option<Torn>) -> Store {
        let core = Core {
            engine,
            path,
            families: families.to_vec(),
            poisoned: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            faults: OnceLock::new(),
            torn,
        };
        Store { core: Arc::new(core), namespace: None }
    }

    /// The same store, whose calls `faults` counts and makes fail, unless others do.
    pub fn with_faults(self, faults: &Faults) -> Store {
        self.core.faults.get_or_init(|| faults.clone());
        self
    }

    /// A part of the store that has all its families, empty unless it was written to, and knows of no other part. Its
    /// records are in the family `home` under keys that begin with `number`, so that the store as a whole has them too,
    /// and may use `home` for keys that do not begin so.
    pub fn within(&self, home: Family, number: u16) -> Store {
        Store { core: Arc::clone(&self.core), namespace: Some(Namespace::new(home, number)) }
    }

    /// The store as a whole.
    pub fn whole(&self) -> Store {
        Store { core: Arc::clone(&self.core), namespace: None }
    }

    /// Changes to this part as changes to the whole, to be committed there.
    pub fn as_of_whole(&self, batch: Batch) -> Batch {
        match self.namespace {
            Some(namespace) => namespace.batch(&self.core.families, &batch),
            None => batch,
        }
    }

    /// How many handles and views of the store there are.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.core)
    }

    /// Tells whether the store is still open after this handle is gone.
    pub fn watch(&self) -> Watch {
        Watch(Arc::downgrade(&self.core))
    }

    /// The directory, as an absolute path without links; `<memory>` for a store on a [`MemoryDisk`](crate::MemoryDisk).
    pub fn path(&self) -> &Path {
        &self.core.path
    }

    /// What was cut off when this store was opened; `None` if its log ended after a record.
    pub fn torn(&self) -> Option<&Torn> {
        self.core.torn.as_ref()
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.core.get_at(self.namespace, family, key, None)
    }

    /// The values of `keys`, in their order, all as of one moment.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.core.get_many_at(self.namespace, family, keys, None)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.core.scan_at(self.namespace, (family, from, to), None)
    }

    /// The rows whose keys start with `prefix`, ascending.
    pub fn scan_prefix(&self, family: Family, prefix: &[u8]) -> Scan<'_> {
        self.scan(family, prefix, prefix_end(prefix).as_deref())
    }

    /// The store as it is now, for as long as the view is held.
    pub fn view(&self) -> View<'_> {
        View::new(&self.core, self.namespace)
    }

    /// The store as it is now, in a view that keeps the store open.
    pub fn owned_view(&self) -> OwnedView {
        OwnedView::new(&self.core, self.namespace)
    }

    /// Applies all changes of `batch` or none. After `Ok` they are visible and as durable as `durability` says.
    ///
    /// A failed write poisons the store: reads go on, and every later commit is refused until it is reopened.
    pub fn commit(&self, batch: Batch, durability: Durability) -> Result<(), CommitError> {
        self.refuse_if_poisoned()?;
        let batch = self.as_of_whole(batch);
        if batch.bytes() > BATCH_BYTES_MAX {
            return Err(CommitError::TooLarge { bytes: batch.bytes(), limit: BATCH_BYTES_MAX });
        }
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(change) = batch.iter().find(|change| !self.core.families.contains(&change.family())) {
            return Err(CommitError::UnknownFamily { path: self.core.path.clone(), family: change.family() });
        }
        let synced = match durability {
            Durability::Strict => true,
            Durability::Relaxed => false,
        };
        FailPoint::BeforeCommit.reach();
        self.change(|| self.core.engine.write(batch, synced))?;
        self.core.commits.fetch_add(1, Ordering::Relaxed);
        FailPoint::AfterCommit.reach();
        if synced {
            self.core.syncs.fetch_add(1, Ordering::Relaxed);
            FailPoint::AfterSync.reach();
        }
        Ok(())
    }

    /// Makes every earlier commit survive a power cut. Fails, and poisons, as a commit does.
    pub fn sync(&self) -> Result<(), CommitError> {
        self.refuse_if_poisoned()?;
        self.change(|| self.core.engine.sync())?;
        self.core.syncs.fetch_add(1, Ordering::Relaxed);
        FailPoint::AfterSync.reach();
        Ok(())
    }

    /// How often this store has committed and synced since it was opened.
    pub fn counts(&self) -> Counts {
        Counts {
            commits: self.core.commits.load(Ordering::Relaxed),
            syncs: self.core.syncs.load(Ordering::Relaxed),
        }
    }

    /// Whether a write failed, so that commits are refused.
    pub fn is_poisoned(&self) -> bool {
        self.core.poisoned.load(Ordering::Acquire)
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
        if let Some(trouble) = faults::refusal(self.core.faults()) {
            return Err(failed(trouble.text));
        }
        match &self.core.engine {
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
        let copy = Store::create(&partial, &self.core.families)?;
        let snapshot = self.core.engine.snapshot();
        for &family in &self.core.families {
            let mut batch = Batch::default();
            let rows = self.core.engine.rows(family, b"", None, Some(&snapshot));
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
        match &self.core.engine {
            Engine::Rocks(_) => directory::bytes(&self.core.path).map_err(|error| ReadError::Failed {
                path: self.core.path.clone(),
                cause: error.to_string(),
            }),
            Engine::Memory(session) => {
                session.bytes().map_err(|trouble| read_error(&self.core.path, trouble))
            }
        }
    }

    /// What this process may still write where the store is, in bytes; `None` if the system does not tell, and in
    /// memory.
    pub fn free_bytes(&self) -> Option<u64> {
        match &self.core.engine {
            Engine::Rocks(_) => directory::free_bytes(&self.core.path),
            Engine::Memory(_) => None,
        }
    }

    /// Rewrites the table files without what was deleted or replaced. Blocks until done, which takes as long as
    /// reading and writing the whole store; reads and commits go on.
    pub fn compact(&self) -> Result<Compacted, CompactError> {
        let failed = |cause| CompactError::Failed { path: self.core.path.clone(), cause };
        let size = || self.bytes_on_disk().map_err(|error| failed(error.to_string()));
        if let Some(trouble) = faults::refusal(self.core.faults()) {
            return Err(failed(trouble.text));
        }
        let before = size()?;
        FailPoint::CompactBegun.reach();
        self.core.engine.compact(&self.core.families).map_err(|trouble| failed(trouble.text))?;
        FailPoint::CompactDone.reach();
        Ok(Compacted { before, after: size()? })
    }

    /// Writes, unless a test makes the call fail. What fails poisons the store.
    fn change(&self, write: impl FnOnce() -> Result<(), Trouble>) -> Result<(), CommitError> {
        let done = match self.core.faults().and_then(Faults::call) {
            None => write(),
            Some(Fault::Refused) => Err(faults::trouble()),
            Some(Fault::Unacknowledged) => write().and(Err(faults::trouble())),
        };
        done.map_err(|trouble| {
            self.core.poisoned.store(true, Ordering::Release);
            CommitError::Failed { path: self.core.path.clone(), cause: trouble.text }
        })
    }

    fn refuse_if_poisoned(&self) -> Result<(), CommitError> {
        if self.is_poisoned() { Err(CommitError::Poisoned { path: self.core.path.clone() }) } else { Ok(()) }
    }
}

impl Core {
    fn faults(&self) -> Option<&Faults> {
        self.faults.get()
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot<'_>, ReadError> {
        match faults::refusal(self.faults()) {
            Some(trouble) => Err(read_error(&self.path, trouble)),
            None => Ok(self.engine.snapshot()),
        }
    }

    pub(crate) fn get_at(
        &self,
        namespace: Option<Namespace>,
        family: Family,
        key: &[u8],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let keys = self.keys(namespace, family)?;
        self.read(|| self.engine.get(keys.family, &keys.stored(key), snapshot))
    }

    pub(crate) fn get_many_at<K: AsRef<[u8]>>(
        &self,
        namespace: Option<Namespace>,
        family: Family,
        keys: &[K],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        let own = self.keys(namespace, family)?;
        let stored: Vec<_> = keys.iter().map(|key| own.stored(key.as_ref())).collect();
        self.read(|| self.engine.get_many(own.family, &stored, snapshot))
    }

    pub(crate) fn scan_at(
        &self,
        namespace: Option<Namespace>,
        (family, from, to): (Family, &[u8], Option<&[u8]>),
        snapshot: Option<&Snapshot<'_>>,
    ) -> Scan<'_> {
        let rows = self.keys(namespace, family).and_then(|keys| {
            let (first, end) = (keys.stored(from), keys.stored_end(to));
            let rows = self.read(|| self.engine.rows(keys.family, &first, end.as_deref(), snapshot))?;
            Ok((rows, keys.skipped()))
        });
        Scan::new(&self.path, self.faults(), rows)
    }

    /// A scan that answers with an error.
    pub(crate) fn refused_scan(&self, error: ReadError) -> Scan<'_> {
        Scan::new(&self.path, self.faults(), Err(error))
    }

    fn keys(&self, namespace: Option<Namespace>, family: Family) -> Result<Keys, ReadError> {
        let unknown = || ReadError::UnknownFamily { path: self.path.clone(), family };
        Keys::of(namespace, &self.families, family).ok_or_else(unknown)
    }

    /// Reads, unless a test makes the call fail.
    fn read<T>(&self, read: impl FnOnce() -> Result<T, Trouble>) -> Result<T, ReadError> {
        let answer = match faults::refusal(self.faults()) {
            Some(trouble) => Err(trouble),
            None => read(),
        };
        answer.map_err(|trouble| read_error(&self.path, trouble))
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.core.path)
            .field("families", &self.core.families)
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
