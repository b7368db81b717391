//! A collection: one writer, any number of readers.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use dehub_graph::Segment;
use dehub_store::{Batch, Durability as Synced, Family, Store, Torn};
use dehub_vector::PointId;

use crate::alarm::PointAlarm;
use crate::config::StoredConfig;
use crate::pending::{self, PendingFits};
use crate::record::{CALIBRATION_KEY, CONFIG_KEY, FAMILIES, META, to_json};
use crate::state::State;
use crate::write::{Draft, FitInput, unknown_bank};
use crate::writer::Writer;
use crate::{
    BankUpdate, Calibration, CollectionConfig, Correction, DefaultCorrection, Durability, EntryInput,
    EntrySelector, FormatInfo, HubRule, LiveBank, Name, OpenError, OpenPhase, OpenProgress, PointInput,
    Receipt, Snapshot, Upserted, WriteError, WriterInfo, open, upgrade,
};

/// What is logged of the end of a store's log that was cut off.
const CUT_OFF: &str = "a record at the end of the log was not written whole and was cut off; unless the file was \
    damaged, it had not been synced, and so not been acknowledged by a collection with strict durability";

/// A durable, searchable collection.
pub struct Collection {
    pub(crate) store: Arc<Store>,
    pub(crate) folder: PathBuf,
    pub(crate) writer: Writer,
    /// Held while points are frozen, so that only one at a time changes the segments.
    pub(crate) freezing: Mutex<()>,
    /// Whether nothing is frozen any more.
    pub(crate) is_freezing_stopped: AtomicBool,
    /// Held by a fit from its beginning to its end.
    pub(crate) fitting: Mutex<()>,
    pub(crate) pending: PendingFits,
}

impl Collection {
    /// Makes a collection in the new folder `path`.
    pub(crate) fn create(path: &Path, config: CollectionConfig) -> Result<Collection, OpenError> {
        // The standard library keys its hashers at random; that is random enough for a name.
        let identity = RandomState::new().build_hasher().finish();
        // A store's folder is its own: one that readers of a deleted collection of this name still
        // hold cannot be in its way.
        let store = Store::create(&path.join(format!("{STORE}{identity:016x}")), &FAMILIES)?;
        Collection::found(path, store, config, identity)
    }

    /// Makes a collection in an empty store, which has the families [`Collection::families`], with its other files
    /// in the folder `path`.
    pub fn create_with(path: &Path, store: Store, config: CollectionConfig) -> Result<Collection, OpenError> {
        Collection::found(path, store, config, RandomState::new().build_hasher().finish())
    }

    fn found(
        path: &Path,
        store: Store,
        config: CollectionConfig,
        identity: u64,
    ) -> Result<Collection, OpenError> {
        let mut batch = Batch::default();
        let format = FormatInfo::new();
        batch.put(META, CONFIG_KEY, &to_json(&StoredConfig::new(&config, identity, &format.made_by)));
        let wrap = |source| OpenError::Create { path: path.to_owned(), source };
        store.commit(batch, Synced::Strict).map_err(wrap)?;
        Ok(Collection::serve(path, store, State::new(config, identity, format), PendingFits::default()))
    }

    /// Opens the collection in `path` as its last acknowledged write left it.
    pub(crate) fn open(path: &Path, progress: &OpenProgress) -> Result<Collection, OpenError> {
        progress.begin(OpenPhase::Store, 0);
        Collection::read(path, Store::open(&store_path(path), &FAMILIES)?, progress)
    }

    /// Opens the collection in a store, with its other files in the folder `path`. One of an older format is brought
    /// to the present one.
    pub fn open_with(path: &Path, store: Store) -> Result<Collection, OpenError> {
        Collection::read(path, store, &OpenProgress::default())
    }

    fn read(path: &Path, store: Store, progress: &OpenProgress) -> Result<Collection, OpenError> {
        if let Some(Torn { file, offset, bytes }) = store.torn() {
            let file = file.display();
            tracing::warn!(%file, offset, bytes, "{CUT_OFF}");
        }
        upgrade::run(path, &store)?;
        let state = open::load(path, &store, progress)?;
        let pending = pending::read_all(&store);
        let pending = pending.map_err(|source| OpenError::Read { path: path.to_owned(), source })?;
        Ok(Collection::serve(path, store, state, pending))
    }

    /// The families that the store of a collection has.
    pub fn families() -> &'static [Family] {
        &FAMILIES
    }

    fn serve(path: &Path, store: Store, state: State, pending: PendingFits) -> Collection {
        let store = Arc::new(store);
        Collection {
            writer: Writer::new(&store, state),
            store,
            folder: path.to_owned(),
            freezing: Mutex::new(()),
            is_freezing_stopped: AtomicBool::new(false),
            fitting: Mutex::new(()),
            pending,
        }
    }

    /// The newest published state. It holds every acknowledged write.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.writer.published()
    }

    /// How writes fare.
    pub fn writer(&self) -> WriterInfo {
        self.writer.info()
    }

    /// Makes every acknowledged write durable, those of a relaxed collection too.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.writer.sync()
    }

    /// Acknowledges writes by this promise from now on. Everything before is durable when it returns.
    pub fn set_durability(&self, durability: Durability) -> Result<(), WriteError> {
        self.write(|draft| {
            draft.set_durability(durability);
            Ok(())
        })?;
        self.writer.sync()
    }

    /// Adds points, or replaces those whose id exists: all of them or, on an error, none. Those that the
    /// rule of the quarantine finds are held there instead.
    pub fn upsert(&self, points: &[PointInput]) -> Result<Receipt, WriteError> {
        Ok(self.upsert_watched(points, None)?.receipt)
    }

    /// The same, and tells which points are hubs by the rule `watch` and which are held. Both are found
    /// in the commit itself, against the points that are served and not new.
    pub fn upsert_watched(
        &self,
        points: &[PointInput],
        watch: Option<&HubRule>,
    ) -> Result<Upserted, WriteError> {
        let (receipt, alarms, held) = self.writer.write(|state| {
            let mut draft = Draft::new(&self.store, state);
            let mut receipt = draft.upsert(points)?;
            let alarms = watch.map_or(Ok(Vec::new()), |rule| draft.alarms(points.len(), rule))?;
            let mut held = Vec::new();
            if let Some(rule) = &state.quarantine.rule {
                held = draft.alarms(points.len(), rule)?;
                if !held.is_empty() {
                    // Nothing of the first draft is stored: what it fitted was the test.
                    draft = Draft::new(&self.store, state);
                    receipt = draft.upsert_and_hold(points, &held, rule)?;
                }
            }
            Ok((draft.append()?, (receipt, alarms, held)))
        })?;
        Ok(Upserted { receipt, alarms: PointAlarm::of(points, alarms), held: PointAlarm::of(points, held) })
    }

    /// Tests every new point by this rule from now on, and holds those that raise an alarm; with `None`,
    /// tests no more. Points that are held stay so.
    pub fn set_quarantine(&self, rule: Option<&HubRule>) -> Result<(), WriteError> {
        self.write(|draft| draft.set_quarantine(rule))
    }

    /// Makes points of the quarantine ordinary ones, untested: all of them or, on an error, none.
    pub fn release(&self, ids: &[PointId]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.release(ids))
    }

    /// Removes the points with these ids, held ones included; an id that does not exist is no error.
    pub fn delete(&self, ids: &[PointId]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.delete(ids))
    }

    /// Gives points a value of a prior, which is made if it does not exist: all of them or, on an error, none. A
    /// point that is replaced keeps its value, and one that is deleted loses it; a point without one has 0.
    pub fn set_prior(&self, name: &Name, values: &[(PointId, f32)]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.set_prior(name, values))
    }

    /// Takes a prior's value from the points with these ids; one that has none is no error.
    pub fn unset_prior(&self, name: &Name, ids: &[PointId]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.unset_prior(name, ids))
    }

    /// Drops a prior with all its values.
    pub fn drop_prior(&self, name: &Name) -> Result<(), WriteError> {
        self.write(|draft| draft.drop_prior(name))
    }

    /// Adds entries to a bank, which is made if it does not exist. Corrections fitted from it take
    /// the entries in with the same commit.
    pub fn add_to_bank(&self, update: &BankUpdate) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.add_to_bank(update))
    }

    /// Removes entries from a bank; one that does not exist is no error. They leave no trace: every
    /// correction is in the same commit what a fit without them gives.
    pub fn remove_from_bank(&self, name: &Name, entries: &EntrySelector) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.remove_from_bank(name, entries))
    }

    /// Removes the entries with these ids from a bank, of those that are there, and adds others, in one
    /// commit. Corrections follow in it.
    pub fn exchange_in_bank(
        &self,
        name: &Name,
        removed: &[PointId],
        added: Vec<EntryInput>,
    ) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.exchange_in_bank(name, removed, added))
    }

    /// Keeps queries by this policy from now on, in a bank that is made if it does not exist; with `None`,
    /// keeps no more. What the bank has stays. Whoever serves queries does the keeping.
    pub fn set_live_bank(&self, policy: Option<&LiveBank>) -> Result<(), WriteError> {
        self.write(|draft| draft.set_live_bank(policy))
    }

    /// Multiplies every weight of a bank by `factor`, above 0 and at most 1, and removes the entries whose
    /// weight falls below `drop_below`. Corrections follow in the same commit. Done every night, it lets a
    /// bank forget exponentially. A method that looks at the `k` nearest keeps more of them for each point the
    /// lighter they are; `drop_below` bounds that.
    pub fn scale_bank(&self, name: &Name, factor: f32, drop_below: f32) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.scale_bank(name, factor, drop_below))
    }

    /// Makes a gallery bank of every point there is now, or adds them to an empty one.
    pub fn bank_from_gallery(&self, name: &Name) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.bank_from_gallery(name))
    }

    /// Drops a bank that no correction is fitted from.
    pub fn drop_bank(&self, name: &Name) -> Result<(), WriteError> {
        self.write(|draft| draft.drop_bank(name))
    }

    /// Fits corrections and gives them without installing them: nothing is stored, and no query can ask
    /// for them. They serve the snapshot taken at the same time.
    pub fn rehearse(&self, inputs: &[FitInput]) -> Result<(Arc<Snapshot>, Vec<Correction>), WriteError> {
        let (state, seen) = self.writer.newest()?;
        let mut draft = Draft::rehearsal(&self.store, &state);
        draft.fit(inputs)?;
        let served = |input: &FitInput| {
            let record = draft.next.corrections.get(&input.name)?;
            draft.next.serve(&input.name, record)
        };
        Ok((seen, inputs.iter().filter_map(served).collect()))
    }

    /// For each list of entries, fits corrections as if the bank did not have them. What is fitted
    /// already has seen them, so everything is fitted anew.
    pub fn rehearse_without(
        &self,
        inputs: &[FitInput],
        bank: &Name,
        lists: &[HashSet<u32>],
    ) -> Result<(Arc<Snapshot>, Vec<Vec<Correction>>), WriteError> {
        let (state, seen) = self.writer.newest()?;
        let Some(whole) = state.banks.get(bank) else { return Err(unknown_bank(&state, bank)) };
        let fitted = |excluded: &HashSet<u32>| {
            let mut draft = Draft::rehearsal(&self.store, &state);
            draft.next.sets.clear();
            draft.next.corrections.clear();
            draft.next.banks.insert(bank.clone(), whole.without(excluded));
            draft.fit(inputs)?;
            let served =
                |input: &FitInput| draft.next.serve(&input.name, draft.next.corrections.get(&input.name)?);
            Ok(inputs.iter().filter_map(served).collect())
        };
        Ok((seen, lists.iter().map(fitted).collect::<Result<_, WriteError>>()?))
    }

    /// Ranks queries that name no correction by this one. It must be as it was judged, and the verdict
    /// was yes or it is forced.
    pub fn set_default(&self, default: &DefaultCorrection) -> Result<(), WriteError> {
        self.write(|draft| draft.set_default(default))
    }

    /// Ranks queries that name no correction by raw similarity again; tells whether there was a default.
    pub fn clear_default(&self) -> Result<bool, WriteError> {
        self.write(|draft| Ok(draft.clear_default()))
    }

    /// Drops a correction, unless it is the default or the quarantine tests by it.
    pub fn drop_correction(&self, name: &Name) -> Result<(), WriteError> {
        self.write(|draft| draft.drop_correction(name))
    }

    /// Keeps what the ways of searching were measured to find and to cost. No answer changes, and no sequence.
    pub fn set_calibration(&self, calibration: Calibration) -> Result<(), WriteError> {
        self.writer.change(|state| {
            let mut batch = Batch::default();
            batch.put(META, CALIBRATION_KEY, &to_json(&calibration));
            self.store.commit(batch, Synced::Relaxed)?;
            Ok((State { calibration: Some(Arc::new(calibration)), ..state.clone() }, ()))
        })
    }

    /// The bytes of the collection's files.
    pub fn bytes_on_disk(&self) -> u64 {
        let graph: usize = self.snapshot().segments().map(Segment::byte_len).sum();
        self.store.bytes_on_disk().unwrap_or(0) + graph as u64
    }

    /// Append, apply, sync, publish; the caller acknowledges.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        self.writer.write(|state| {
            let mut draft = Draft::new(&self.store, state);
            let outcome = change(&mut draft)?;
            Ok((draft.append()?, outcome))
        })
    }

    /// Where in `folder` the store is to be when the collection is restored there: a name that none had before.
    pub(crate) fn restored_store(&self, folder: &Path) -> PathBuf {
        let number = RandomState::new().build_hasher().finish();
        folder.join(format!("{STORE}{:016x}-{number:016x}", self.lock().identity))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.writer.lock()
    }
}

/// How the folder of a collection's store starts.
const STORE: &str = "store-";

/// The store of a collection; where there is none, a path that does not exist.
pub(crate) fn store_path(collection: &Path) -> PathBuf {
    let folders = fs::read_dir(collection).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_store = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(STORE))
    };
    folders.filter(is_store).min().unwrap_or_else(|| collection.join(STORE))
}
