//! A collection: one writer, any number of readers.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use dehub_graph::Segment;
use dehub_store::{Batch, Durability as Synced, Family, Store, Torn};
use dehub_vector::PointId;

use crate::alarm::PointAlarm;
use crate::config::StoredConfig;
use crate::pending::{self, PendingFits};
use crate::record::{CALIBRATION_KEY, CONFIG_KEY, FAMILIES, META, to_json};
use crate::spaces::{Locked, Role, Whole, numbers, part};
use crate::state::State;
use crate::write::{Draft, FitInput, unknown_bank};
use crate::writer::Writer;
use crate::{
    BankUpdate, Calibration, CollectionConfig, Correction, DefaultCorrection, Durability, EntryInput,
    EntrySelector, FormatInfo, HubRule, LiveBank, Name, OpenError, OpenPhase, OpenProgress, PointInput,
    Receipt, Snapshot, UnknownSpace, Upserted, VectorsInput, WriteError, WriterInfo, open, upgrade,
};

/// What is logged of the end of a store's log that was cut off.
const CUT_OFF: &str = "a record at the end of the log was not written whole and was cut off; unless the file was \
    damaged, it had not been synced, and so not been acknowledged by a collection with strict durability";

/// A durable, searchable collection; or one of its named vectors, whose banks, corrections and graph are then meant.
/// Points are written by either with all their vectors.
pub struct Collection {
    /// The records of the space.
    pub(crate) store: Arc<Store>,
    /// Where the files of its graph are.
    pub(crate) folder: PathBuf,
    pub(crate) writer: Arc<Writer>,
    pub(crate) role: Role,
    /// Of a collection with named vectors, each of these.
    pub(crate) spaces: BTreeMap<Name, Arc<Collection>>,
    /// Held while points are frozen, so that only one at a time changes the segments.
    pub(crate) freezing: Mutex<()>,
    /// Whether nothing is frozen any more.
    pub(crate) is_freezing_stopped: AtomicBool,
    /// Held by a fit from its beginning to its end.
    pub(crate) fitting: Mutex<()>,
    pub(crate) pending: PendingFits,
}

/// What a new collection is made with: one unnamed vector, or named ones.
#[derive(Debug, Clone)]
pub(crate) enum Vectors {
    Unnamed(CollectionConfig),
    Named(BTreeMap<Name, CollectionConfig>, Durability),
}

impl Collection {
    /// Makes a collection in the new folder `path`.
    pub(crate) fn create(path: &Path, vectors: &Vectors) -> Result<Collection, OpenError> {
        // The standard library keys its hashers at random; that is random enough for a name.
        let identity = RandomState::new().build_hasher().finish();
        // A store's folder is its own: one that readers of a deleted collection of this name still
        // hold cannot be in its way.
        let store = Store::create(&path.join(format!("{STORE}{identity:016x}")), &FAMILIES)?;
        Collection::found(path, store, vectors, identity)
    }

    /// Makes a collection in an empty store, which has the families [`Collection::families`], with its other files
    /// in the folder `path`.
    pub fn create_with(path: &Path, store: Store, config: CollectionConfig) -> Result<Collection, OpenError> {
        let identity = RandomState::new().build_hasher().finish();
        Collection::found(path, store, &Vectors::Unnamed(config), identity)
    }

    /// The same with named vectors; see [`Catalogue::create_with_spaces`](crate::Catalogue::create_with_spaces).
    pub fn create_with_spaces(
        path: &Path,
        store: Store,
        spaces: &BTreeMap<Name, CollectionConfig>,
        durability: Durability,
    ) -> Result<Collection, OpenError> {
        let identity = RandomState::new().build_hasher().finish();
        Collection::found(path, store, &Vectors::Named(spaces.clone(), durability), identity)
    }

    fn found(path: &Path, store: Store, vectors: &Vectors, identity: u64) -> Result<Collection, OpenError> {
        let format = Arc::new(FormatInfo::new());
        let state = |role, config| State::new(role, config, identity, Arc::clone(&format));
        let whole = match vectors {
            Vectors::Unnamed(config) => Whole::of(state(Role::Unnamed, *config)),
            Vectors::Named(spaces, durability) => {
                let mut whole = Whole::of(state(Role::Points, CollectionConfig::of_points(*durability)));
                for (number, (name, config)) in (1..).zip(spaces) {
                    let role = Role::Space(name.clone(), number);
                    let config = CollectionConfig { durability: *durability, ..*config };
                    let space = State { identity: space_identity(identity, number), ..state(role, config) };
                    whole.spaces.insert(name.clone(), Arc::new(space));
                }
                whole
            }
        };
        let stored = |state: &State, spaces| {
            let mut batch = Batch::default();
            let stored = StoredConfig::new(&state.config, state.identity, &format.made_by, spaces);
            batch.put(META, CONFIG_KEY, &to_json(&stored));
            batch
        };
        let mut batch = stored(&whole.base, numbers(&whole.spaces));
        for (name, number) in numbers(&whole.spaces) {
            batch.append(part(&store, number).as_of_whole(stored(whole.state(Some(&name)), BTreeMap::new())));
        }
        let wrap = |source| OpenError::Create { path: path.to_owned(), source };
        store.commit(batch, Synced::Strict).map_err(wrap)?;
        Collection::serve(path, store, whole, |_| Ok(PendingFits::default()))
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
        let whole = open::load(path, &store, progress)?;
        let collection = Collection::serve(path, store, whole, |store| {
            pending::read_all(store).map_err(|source| OpenError::Read { path: path.to_owned(), source })
        })?;
        progress.begin(OpenPhase::Texts, 0);
        if let Err(error) = collection.refresh_text() {
            tracing::error!(path = %path.display(), %error, "points are not found by words until this is mended");
        }
        Ok(collection)
    }

    /// The families that the store of a collection has.
    pub fn families() -> &'static [Family] {
        &FAMILIES
    }

    fn serve(
        path: &Path,
        store: Store,
        whole: Whole,
        pending: impl Fn(&Store) -> Result<PendingFits, OpenError>,
    ) -> Result<Collection, OpenError> {
        let store = Arc::new(store);
        let numbers = numbers(&whole.spaces);
        let role = whole.base.role.clone();
        let writer = Arc::new(Writer::new(&store, whole));
        let new = |store: Arc<Store>, role, folder, spaces| {
            Ok::<_, OpenError>(Collection {
                pending: pending(&store)?,
                store,
                folder,
                writer: Arc::clone(&writer),
                role,
                spaces,
                freezing: Mutex::new(()),
                is_freezing_stopped: AtomicBool::new(false),
                fitting: Mutex::new(()),
            })
        };
        let mut spaces = BTreeMap::new();
        for (name, number) in numbers {
            let (role, folder) = (Role::Space(name.clone(), number), space_folder(path, number));
            let space = new(Arc::new(part(&store, number)), role, folder, BTreeMap::new())?;
            spaces.insert(name, Arc::new(space));
        }
        new(store, role, path.to_owned(), spaces)
    }

    /// One of the collection's vectors, with its banks, corrections and graph; `None` and the empty name mean the
    /// unnamed one.
    ///
    /// # Errors
    /// [`UnknownSpace`] if the collection has no such vector.
    pub fn space(self: &Arc<Collection>, name: Option<&str>) -> Result<Arc<Collection>, UnknownSpace> {
        let asked = name.filter(|name| !name.is_empty());
        let found = match asked {
            None => (self.role != Role::Points).then_some(self),
            Some(name) => self.spaces.iter().find(|(own, _)| own.as_str() == name).map(|(_, space)| space),
        };
        found.cloned().ok_or_else(|| self.unknown_space(asked))
    }

    /// All of the collection's vectors: itself, or each named one.
    pub fn all_spaces(self: &Arc<Collection>) -> Vec<Arc<Collection>> {
        if self.role == Role::Points {
            self.spaces.values().cloned().collect()
        } else {
            vec![Arc::clone(self)]
        }
    }

    /// The named vectors, if this is a collection with such.
    pub fn spaces(&self) -> impl ExactSizeIterator<Item = &Arc<Collection>> {
        self.spaces.values()
    }

    /// The name of the vector that this is, if it has one.
    pub fn space_name(&self) -> Option<&Name> {
        self.role.name()
    }

    /// Whether points have vectors here, and there can be banks, corrections and a graph: not in a collection with
    /// named vectors as a whole.
    pub fn has_vectors(&self) -> bool {
        self.role != Role::Points
    }

    fn unknown_space(&self, asked: Option<&str>) -> UnknownSpace {
        UnknownSpace { asked: asked.map(str::to_owned), found: self.spaces.keys().cloned().collect() }
    }

    /// Refuses what is about vectors where points have none.
    pub(crate) fn check_vectors(&self) -> Result<(), WriteError> {
        if self.has_vectors() { Ok(()) } else { Err(self.unknown_space(None).into()) }
    }

    /// Whether anybody has one of the named vectors.
    pub(crate) fn is_a_space_held(&self) -> bool {
        self.spaces.values().any(|space| Arc::strong_count(space) > 1)
    }

    /// The newest published state. It holds every acknowledged write.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot_of(self.writer.published())
    }

    fn snapshot_of(&self, whole: Arc<Snapshot>) -> Arc<Snapshot> {
        let space = self.role.name().and_then(|name| whole.spaces.get(name)).cloned();
        space.unwrap_or(whole)
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
        if watch.is_some() && !self.is_unnamed() {
            return Err(WriteError::NamedVectors { what: "telling hubs among new points" });
        }
        let store = self.store.whole();
        let (receipt, alarms, held) = self.writer.write(|whole| {
            let state = &whole.base;
            let mut draft = Draft::of_points(&store, whole);
            let mut receipt = draft.upsert(points)?;
            let alarms = watch.map_or(Ok(Vec::new()), |rule| draft.alarms(points.len(), rule))?;
            let mut held = Vec::new();
            if let Some(rule) = &state.quarantine.rule {
                held = draft.alarms(points.len(), rule)?;
                if !held.is_empty() {
                    // Nothing of the first draft is stored: what it fitted was the test.
                    draft = Draft::of_points(&store, whole);
                    receipt = draft.upsert_and_hold(points, &held, rule)?;
                }
            }
            Ok((draft.append(whole)?, (receipt, alarms, held)))
        })?;
        Ok(Upserted { receipt, alarms: PointAlarm::of(points, alarms), held: PointAlarm::of(points, held) })
    }

    /// Tests every new point by this rule from now on, and holds those that raise an alarm; with `None`,
    /// tests no more. Points that are held stay so.
    pub fn set_quarantine(&self, rule: Option<&HubRule>) -> Result<(), WriteError> {
        if !self.is_unnamed() {
            return Err(WriteError::NamedVectors { what: "a quarantine" });
        }
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

    /// Gives points that are there some of their vectors anew: all of them or, on an error, none. Their payloads, their
    /// texts and their other vectors stay.
    pub fn update_vectors(&self, points: &[VectorsInput]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.update_vectors(points))
    }

    /// Takes the vectors of these names from points, which keep all else; an id that does not exist is no error. The
    /// receipt says in `replaced` how many points had one.
    pub fn delete_vectors(&self, ids: &[PointId], names: &[Name]) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.delete_vectors(ids, names))
    }

    /// Adds entries to a bank, which is made if it does not exist. Corrections fitted from it take
    /// the entries in with the same commit.
    pub fn add_to_bank(&self, update: &BankUpdate) -> Result<Receipt, WriteError> {
        self.write_space(|draft| draft.add_to_bank(update))
    }

    /// Removes entries from a bank; one that does not exist is no error. They leave no trace: every
    /// correction is in the same commit what a fit without them gives.
    pub fn remove_from_bank(&self, name: &Name, entries: &EntrySelector) -> Result<Receipt, WriteError> {
        self.write_space(|draft| draft.remove_from_bank(name, entries))
    }

    /// Removes the entries with these ids from a bank, of those that are there, and adds others, in one
    /// commit. Corrections follow in it.
    pub fn exchange_in_bank(
        &self,
        name: &Name,
        removed: &[PointId],
        added: Vec<EntryInput>,
    ) -> Result<Receipt, WriteError> {
        self.write_space(|draft| draft.exchange_in_bank(name, removed, added))
    }

    /// Keeps queries by this policy from now on, in a bank that is made if it does not exist; with `None`,
    /// keeps no more. What the bank has stays. Whoever serves queries does the keeping.
    pub fn set_live_bank(&self, policy: Option<&LiveBank>) -> Result<(), WriteError> {
        self.write_space(|draft| draft.set_live_bank(policy))
    }

    /// Multiplies every weight of a bank by `factor`, above 0 and at most 1, and removes the entries whose
    /// weight falls below `drop_below`. Corrections follow in the same commit. Done every night, it lets a
    /// bank forget exponentially. A method that looks at the `k` nearest keeps more of them for each point the
    /// lighter they are; `drop_below` bounds that.
    pub fn scale_bank(&self, name: &Name, factor: f32, drop_below: f32) -> Result<Receipt, WriteError> {
        self.write_space(|draft| draft.scale_bank(name, factor, drop_below))
    }

    /// Makes a gallery bank of every point there is now, or adds them to an empty one.
    pub fn bank_from_gallery(&self, name: &Name) -> Result<Receipt, WriteError> {
        self.write_space(|draft| draft.bank_from_gallery(name))
    }

    /// Drops a bank that no correction is fitted from.
    pub fn drop_bank(&self, name: &Name) -> Result<(), WriteError> {
        self.write_space(|draft| draft.drop_bank(name))
    }

    /// Fits corrections and gives them without installing them: nothing is stored, and no query can ask
    /// for them. They serve the snapshot taken at the same time.
    pub fn rehearse(&self, inputs: &[FitInput]) -> Result<(Arc<Snapshot>, Vec<Correction>), WriteError> {
        self.check_vectors()?;
        let (whole, seen) = self.writer.newest()?;
        let (state, seen) = (whole.state(self.role.name()), self.snapshot_of(seen));
        let mut draft = Draft::rehearsal(&self.store, state);
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
        self.check_vectors()?;
        let (whole, seen) = self.writer.newest()?;
        let (state, seen) = (whole.state(self.role.name()), self.snapshot_of(seen));
        let Some(whole) = state.banks.get(bank) else { return Err(unknown_bank(state, bank)) };
        let fitted = |excluded: &HashSet<u32>| {
            let mut draft = Draft::rehearsal(&self.store, state);
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
        self.write_space(|draft| draft.set_default(default))
    }

    /// Ranks queries that name no correction by raw similarity again; tells whether there was a default.
    pub fn clear_default(&self) -> Result<bool, WriteError> {
        self.write_space(|draft| Ok(draft.clear_default()))
    }

    /// Drops a correction, unless it is the default or the quarantine tests by it.
    pub fn drop_correction(&self, name: &Name) -> Result<(), WriteError> {
        self.write_space(|draft| draft.drop_correction(name))
    }

    /// Keeps what the ways of searching were measured to find and to cost. No answer changes, and no sequence.
    pub fn set_calibration(&self, calibration: Calibration) -> Result<(), WriteError> {
        self.check_vectors()?;
        self.writer.change(|whole| {
            let mut batch = Batch::default();
            batch.put(META, CALIBRATION_KEY, &to_json(&calibration));
            self.store.commit(batch, Synced::Relaxed)?;
            let state = State::clone(whole.state(self.role.name()));
            Ok((whole.with(State { calibration: Some(Arc::new(calibration)), ..state }), ()))
        })
    }

    /// The bytes of the collection's files.
    pub fn bytes_on_disk(&self) -> u64 {
        let texts = self.snapshot().text_bytes().unwrap_or(0);
        self.store.bytes_on_disk().unwrap_or(0) + self.graph_bytes() + texts
    }

    /// Those of the files of its graphs.
    pub(crate) fn graph_bytes(&self) -> u64 {
        let own: usize = self.snapshot().segments().map(Segment::byte_len).sum();
        own as u64 + self.spaces.values().map(|space| space.graph_bytes()).sum::<u64>()
    }

    /// Makes a write of points, or of what is no vector: append, apply, sync, publish; the caller acknowledges.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let store = self.store.whole();
        self.writer.write(|whole| {
            let mut draft = Draft::of_points(&store, whole);
            let outcome = change(&mut draft)?;
            Ok((draft.append(whole)?, outcome))
        })
    }

    /// The same of what is derived from the vectors of one space.
    pub(crate) fn write_space<T>(
        &self,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        self.check_vectors()?;
        self.writer.write(|whole| {
            let mut draft = Draft::new(&self.store, whole.state(self.role.name()));
            let outcome = change(&mut draft)?;
            Ok((draft.append(whole)?, outcome))
        })
    }

    /// Whether each point has one vector, without a name.
    fn is_unnamed(&self) -> bool {
        self.role == Role::Unnamed
    }

    /// Where in `folder` the store is to be when the collection is restored there: a name that none had before.
    pub(crate) fn restored_store(&self, folder: &Path) -> PathBuf {
        let number = RandomState::new().build_hasher().finish();
        folder.join(format!("{STORE}{:016x}-{number:016x}", self.lock().identity))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked::new(self.writer.lock(), self.role.name())
    }
}

/// How the folder of a collection's store starts.
const STORE: &str = "store-";

/// The folder of the graph files of a named vector.
pub(crate) fn space_folder(collection: &Path, number: u16) -> PathBuf {
    collection.join(format!("vectors-{number}"))
}

/// What tells the graph of a named vector from every other.
pub(crate) fn space_identity(collection: u64, number: u16) -> u64 {
    collection.wrapping_add(u64::from(number))
}

/// The store of a collection; where there is none, a path that does not exist.
pub(crate) fn store_path(collection: &Path) -> PathBuf {
    let folders = fs::read_dir(collection).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_store = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(STORE))
    };
    folders.filter(is_store).min().unwrap_or_else(|| collection.join(STORE))
}
