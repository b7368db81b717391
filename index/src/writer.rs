//! How writes become durable and visible: made one after the other, synced together.
//!
//! A write is made and appended to the store under the lock, and then waits for a sync without it. One of those
//! that wait syncs for all that were appended before it began (group commit), while the next are made. A state is
//! published only after the sync that covers it, so no reader sees what a power cut could take back, unless the
//! collection is relaxed.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use dehub_store::{CommitError, FailPoint, Store};

use crate::settling::Settling;
use crate::spaces::Whole;
use crate::{Durability, Snapshot, WriteError};

/// Writes that are made or wait at a time; one more is refused. Each holds a thread and its data, and one that waits
/// behind so many others waits longer than its client does.
pub const WRITERS_MAX: usize = 64;

/// How long a relaxed collection goes on with commits that a power cut could take back.
const RELAXED_SYNC: Duration = Duration::from_secs(1);

/// Space that a write leaves on the disk. The store's log and the merges of its files need some, and a store that
/// runs out of it has to be opened again.
const DISK_RESERVE_BYTES: u64 = 64 * 1024 * 1024;

/// The state that writes change, and the one that readers see.
pub(crate) struct Writer {
    store: Arc<Store>,
    /// Held while a write is made, and not while it waits to become durable.
    state: Mutex<Whole>,
    /// The state after each write, installed while `state` is locked.
    settling: Settling<Arc<Snapshot>, WriterFailure>,
    /// When the store was last synced for a write. Locked last, and for a moment.
    synced_at: Mutex<Instant>,
    /// Whether a relaxed write was published that no sync covers.
    is_behind: AtomicBool,
    published: ArcSwap<Snapshot>,
    writers: AtomicUsize,
    /// The folder of the store, by device and number; none of a store in memory.
    folder: Option<(u64, u64)>,
}

/// Why a collection takes no writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterFailure {
    /// The error of the commit that failed.
    pub cause: String,
    /// When it did.
    pub since: SystemTime,
}

/// How the writes of a collection fare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterInfo {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Writes that are made or wait to become durable.
    pub waiting: usize,
    /// As many may; one more is refused.
    pub waiting_max: usize,
    /// Commits since the collection was opened.
    pub commits: u64,
    /// Syncs since then: fewer, if writes waited for one together.
    pub syncs: u64,
    /// Set when a commit failed: writes are refused until the collection is opened again, and reads go on.
    pub failure: Option<WriterFailure>,
}

/// A place among the writers, given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writer {
    pub(crate) fn new(store: &Arc<Store>, state: Whole) -> Writer {
        let first = Arc::new(Snapshot::of(store, &state));
        Writer {
            store: Arc::clone(store),
            state: Mutex::new(state),
            settling: Settling::new(Arc::clone(&first)),
            synced_at: Mutex::new(Instant::now()),
            is_behind: AtomicBool::new(false),
            published: ArcSwap::new(first),
            writers: AtomicUsize::new(0),
            folder: identity(store.path()),
        }
    }

    /// What readers see.
    pub(crate) fn published(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// The state after the newest write, which may not be durable yet. While it is held, none is made.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Whole> {
        // A panic in a write leaves the state as it was: it is replaced whole, after it was appended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after the newest write, as the writer and as readers have it. Refused once a commit has failed, as it
    /// may hold what never becomes durable.
    pub(crate) fn newest(&self) -> Result<(Whole, Arc<Snapshot>), WriteError> {
        let state = self.lock();
        match self.settling.failure() {
            Some(failure) => Err(failed(failure)),
            None => Ok((state.clone(), self.settling.newest())),
        }
    }

    /// Makes a write: `make` appends it to the store and gives the next state. Returns when that is durable and
    /// published. One too many is refused.
    pub(crate) fn write<T>(
        &self,
        make: impl FnOnce(&Whole) -> Result<(Whole, T), WriteError>,
    ) -> Result<T, WriteError> {
        let _place = self.enter()?;
        self.change(make)
    }

    /// A write that is not refused for there being others, as it is the engine's own.
    pub(crate) fn change<T>(
        &self,
        make: impl FnOnce(&Whole) -> Result<(Whole, T), WriteError>,
    ) -> Result<T, WriteError> {
        let mut state = self.lock();
        self.check()?;
        let (next, outcome) = self.noting(make(&state))?;
        *state = next;
        let number = self.install(state);
        self.settle(number)?;
        Ok(outcome)
    }

    /// Lets readers see what `state` has become, once it is durable. Gives the number to wait for by
    /// [`Writer::settle`].
    pub(crate) fn install(&self, state: MutexGuard<'_, Whole>) -> u64 {
        self.settling.install(Arc::new(Snapshot::of(&self.store, &state)))
    }

    /// Waits until the write of this number is durable and published, and syncs for all if nobody does.
    pub(crate) fn settle(&self, number: u64) -> Result<(), WriteError> {
        let is_due = Cell::new(true);
        let sync = |newest: &Arc<Snapshot>| {
            is_due.set(match newest.config.durability {
                Durability::Strict => true,
                Durability::Relaxed => self.synced_at().elapsed() >= RELAXED_SYNC,
            });
            let outcome = if is_due.get() { self.store.sync() } else { Ok(()) };
            FailPoint::BeforePublish.reach();
            outcome.map_err(|error| failure_of(&error))
        };
        let publish = |newest| {
            if is_due.get() {
                *self.synced_at() = Instant::now();
            }
            self.is_behind.store(!is_due.get(), Ordering::Relaxed);
            self.published.store(newest);
        };
        self.settling.settle(number, sync, publish).map_err(failed)
    }

    /// Makes everything that readers see durable, under a relaxed collection too.
    pub(crate) fn sync(&self) -> Result<(), WriteError> {
        if !self.is_behind.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.noting(self.store.sync().map_err(WriteError::from))
    }

    /// Refuses a write that cannot succeed.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if self.store.is_poisoned() {
            return Err(failed(self.settling.fail(unnoted)));
        }
        if self.folder.is_some() && identity(self.store.path()) != self.folder {
            // The files that are open go on to take writes, and nobody would ever find them.
            let path = self.store.path().display();
            let cause = format!("the folder {path} was removed or replaced while it was in use");
            return Err(failed(self.settling.fail(|| WriterFailure { cause, since: SystemTime::now() })));
        }
        match self.store.free_bytes() {
            Some(free) if free < DISK_RESERVE_BYTES => {
                let path = self.store.path().to_owned();
                Err(WriteError::DiskFull { path, free, wanted: DISK_RESERVE_BYTES })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Remembers why the store takes no more writes, if that is how `outcome` failed.
    pub(crate) fn noting<T>(&self, outcome: Result<T, WriteError>) -> Result<T, WriteError> {
        if let Err(WriteError::Commit(error @ CommitError::Failed { .. })) = &outcome {
            self.settling.fail(|| failure_of(error));
        }
        outcome
    }

    pub(crate) fn info(&self) -> WriterInfo {
        let counts = self.store.counts();
        if self.store.is_poisoned() {
            self.settling.fail(unnoted);
        }
        WriterInfo {
            durability: self.settling.newest().config.durability,
            waiting: self.writers.load(Ordering::Relaxed),
            waiting_max: WRITERS_MAX,
            commits: counts.commits,
            syncs: counts.syncs,
            failure: self.settling.failure(),
        }
    }

    /// Whether anybody has a snapshot, or reads from the store, but the writer and the collection it is of.
    pub(crate) fn is_read(&self) -> bool {
        let published = self.published();
        self.settling.look(|newest| {
            // The writer's own, the one in hand, and the newest if it is published.
            let (own, views) = if Arc::ptr_eq(newest, &published) { (3, 1) } else { (2, 2) };
            let newest_is_read = views == 2 && Arc::strong_count(newest) > 1;
            // Those of the collection, which shares its own with the writer, and of its spaces.
            let handles = 1 + published.spaces.len() + views;
            newest_is_read
                || Arc::strong_count(&published) > own
                || [newest, &published].into_iter().any(|it| it.is_a_space_read())
                || self.store.handles() > handles
        })
    }

    fn enter(&self) -> Result<Place<'_>, WriteError> {
        let place = Place(&self.writers);
        if self.writers.fetch_add(1, Ordering::Relaxed) >= WRITERS_MAX {
            return Err(WriteError::QueueFull { waiting: WRITERS_MAX });
        }
        Ok(place)
    }

    fn synced_at(&self) -> MutexGuard<'_, Instant> {
        self.synced_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever closes a relaxed collection in good order loses nothing to a later power cut.
        if let Err(error) = self.sync() {
            tracing::error!(%error, "the newest relaxed writes were not synced");
        }
    }
}

fn failure_of(error: &CommitError) -> WriterFailure {
    WriterFailure { cause: error.to_string(), since: SystemTime::now() }
}

/// The device and the number of a folder.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|found| (found.dev(), found.ino()))
}

/// The store failed where nobody could say why.
fn unnoted() -> WriterFailure {
    WriterFailure { cause: "an earlier write to the store failed".to_owned(), since: SystemTime::now() }
}

fn failed(failure: WriterFailure) -> WriteError {
    WriteError::WriterFailed { cause: failure.cause }
}
