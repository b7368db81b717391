//! The collections of one data directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dehub_store::{Blame, FailPoint, Store, Watch};

use crate::aliases::Aliases;
use crate::beside;
use crate::collection::{Vectors, store_path};
use crate::data_lock::{DataHolder, DataLock, Refused};
use crate::record::FAMILIES;
use crate::restore::recover;
use crate::slots::{Claim, Denied, Slot, Slots, Turn};
use crate::{Collection, CollectionConfig, Durability, Name, OpenError, OpenPhase, SPACES_MAX};

/// How long [`Catalogue::with_closed`] waits for others to let go of a collection: longer than requests take, and
/// shorter than people wait.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// How often it looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How folders start that are being made or deleted. Whatever is left of them when nobody is at work can go.
const NEW: &str = ".new-";
const DELETED: &str = ".deleted-";

/// The collections of a data directory, opened when they are first asked for.
///
/// Collections are opened and closed side by side: who asks for one waits for those who open or close that one, and
/// for no others. The data directory is locked at the first use of a collection, for this process alone if
/// [`Catalogue::lock_exclusively`] was called.
pub struct Catalogue {
    folder: PathBuf,
    lock: DataLock,
    slots: Arc<Slots>,
    pub(crate) aliases: Aliases,
}

/// What a collection is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CollectionState {
    /// Nobody has asked for it yet.
    Closed,
    /// It is being opened.
    Opening {
        /// What is being read.
        phase: OpenPhase,
        /// About which part of the whole is read, 0 to 1.
        share: f64,
    },
    /// It serves.
    Open,
    /// It is closed for something that needs it closed, and opens again after that.
    Closing,
    /// It did not open.
    Failed {
        /// Why.
        error: Arc<OpenError>,
    },
}

impl CollectionState {
    /// In a word, as it is shown.
    pub fn name(&self) -> &'static str {
        match self {
            CollectionState::Closed => "closed",
            CollectionState::Opening { .. } => "opening",
            CollectionState::Open => "open",
            CollectionState::Closing => "closing",
            CollectionState::Failed { .. } => "failed",
        }
    }

    /// About which part of it is read, 0 to 1.
    pub fn share(&self) -> f64 {
        match self {
            CollectionState::Closed | CollectionState::Closing | CollectionState::Failed { .. } => 0.0,
            CollectionState::Opening { share, .. } => *share,
            CollectionState::Open => 1.0,
        }
    }

    fn new(slot: Option<&Slot>) -> CollectionState {
        match slot {
            None => CollectionState::Closed,
            Some(Slot::Opening(progress)) => {
                CollectionState::Opening { phase: progress.phase(), share: progress.share() }
            }
            Some(Slot::Open(_)) => CollectionState::Open,
            Some(Slot::Closing) => CollectionState::Closing,
            Some(Slot::Failed { error, .. }) => CollectionState::Failed { error: Arc::clone(error) },
        }
    }
}

/// What can go wrong with a collection as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// There is no collection of this name.
    #[error("there is no collection `{name}` in {folder}; it has: {found}")]
    Unknown {
        /// What was asked for.
        name: Name,
        /// The data directory.
        folder: PathBuf,
        /// The collections there are.
        found: String,
    },
    /// The name is taken.
    #[error("there is a collection `{name}` in {folder} already")]
    Exists {
        /// The name.
        name: Name,
        /// The data directory.
        folder: PathBuf,
    },
    /// The name is an alias, which a collection must not hide.
    #[error("`{name}` is an alias of the collection `{collection}`")]
    IsAlias {
        /// The name.
        name: Name,
        /// Its collection.
        collection: Name,
    },
    /// Named vectors that no collection can have: none, or too many.
    #[error("a collection with named vectors has 1 to {SPACES_MAX} of them, found {found}")]
    Spaces {
        /// How many.
        found: usize,
    },
    /// It did not open. Those who waited for the same attempt have the same error.
    #[error(transparent)]
    Open(Arc<OpenError>),
    /// It was not open in time.
    #[error("collection `{name}` is {} ({:.0} % so far): ask again", state.name(), 100.0 * state.share())]
    Late {
        /// The collection.
        name: Name,
        /// What it is doing.
        state: CollectionState,
    },
    /// Others did not let go of it in time.
    #[error("collection `{name}` is in use by requests or jobs, and was not let go of in {} s", within.as_secs())]
    Busy {
        /// The collection.
        name: Name,
        /// How long they had.
        within: Duration,
    },
    /// Other processes have the data directory.
    #[error(
        "the data directory {folder} is in use by {}: {}", list(holders),
        if *wanted_alone { "a server needs it alone, so end that first or serve another --data-dir" }
        else { "a server has it alone, so stop it first or ask it over HTTP" }
    )]
    InUse {
        /// The data directory.
        folder: PathBuf,
        /// Who; none where the system does not tell.
        holders: Vec<DataHolder>,
        /// Whether it was wanted by a server.
        wanted_alone: bool,
    },
    /// The data directory could not be read or changed.
    #[error("{path}: {source}")]
    Folder {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl CatalogueError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CatalogueError::Unknown { .. }
            | CatalogueError::Exists { .. }
            | CatalogueError::IsAlias { .. }
            | CatalogueError::Spaces { .. } => Blame::Caller,
            CatalogueError::Open(error) => error.blame(),
            CatalogueError::Late { .. }
            | CatalogueError::Busy { .. }
            | CatalogueError::InUse { .. }
            | CatalogueError::Folder { .. } => Blame::Environment,
        }
    }
}

impl From<OpenError> for CatalogueError {
    fn from(error: OpenError) -> CatalogueError {
        CatalogueError::Open(Arc::new(error))
    }
}

impl Catalogue {
    /// The collections in `folder`, which need not exist yet.
    pub fn new(folder: &Path) -> Catalogue {
        Catalogue {
            folder: folder.to_owned(),
            lock: DataLock::default(),
            slots: Arc::default(),
            aliases: Aliases::default(),
        }
    }

    /// The data directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the data directory, if it is not there, and locks it for this process alone until the catalogue is
    /// dropped. Removes what crashes left there.
    pub fn lock_exclusively(&self) -> Result<(), CatalogueError> {
        make(&self.folder).map_err(|source| CatalogueError::Folder { path: self.folder.clone(), source })?;
        self.lock.exclude(&self.folder, || self.sweep()).map_err(|refused| self.refused(refused, true))
    }

    /// Whether [`Catalogue::lock_exclusively`] would find nobody else there. Makes and keeps nothing.
    pub fn check_free(&self) -> Result<(), CatalogueError> {
        self.lock.check_free(&self.folder).map_err(|refused| self.refused(refused, true))
    }

    /// The names of all collections, in order.
    pub fn names(&self) -> Result<Vec<Name>, CatalogueError> {
        let folder = self.collections();
        let fault = |source| CatalogueError::Folder { path: folder.clone(), source };
        recover(&folder);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fault)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fault)?;
            // A folder whose name is no collection's is being deleted, or is not ours; nor is a file.
            if !entry.path().is_dir() {
                continue;
            }
            names.extend(entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What every collection is doing.
    pub fn states(&self) -> Result<BTreeMap<Name, CollectionState>, CatalogueError> {
        let names = self.names()?;
        let slots = self.slots.all();
        let state = |name: Name| {
            let state = CollectionState::new(slots.get(&name));
            (name, state)
        };
        Ok(names.into_iter().map(state).collect())
    }

    /// What one collection is doing; [`CollectionState::Closed`] if it is not there either.
    pub fn state(&self, name: &Name) -> CollectionState {
        CollectionState::new(self.slots.get(name).as_ref())
    }

    /// The collections that are open.
    pub fn open_ones(&self) -> BTreeMap<Name, Arc<Collection>> {
        let open = |(name, slot): (Name, Slot)| match slot {
            Slot::Open(collection) => Some((name, collection)),
            Slot::Opening(_) | Slot::Closing | Slot::Failed { .. } => None,
        };
        self.slots.all().into_iter().filter_map(open).collect()
    }

    /// Makes a collection.
    pub fn create(&self, name: &Name, config: CollectionConfig) -> Result<Arc<Collection>, CatalogueError> {
        self.make(name, &Vectors::Unnamed(config))
    }

    /// Makes a collection whose points have vectors of these names, each any of them; at most [`SPACES_MAX`].
    pub fn create_with_spaces(
        &self,
        name: &Name,
        spaces: &BTreeMap<Name, CollectionConfig>,
        durability: Durability,
    ) -> Result<Arc<Collection>, CatalogueError> {
        if !(1..=SPACES_MAX).contains(&spaces.len()) {
            return Err(CatalogueError::Spaces { found: spaces.len() });
        }
        self.make(name, &Vectors::Named(spaces.clone(), durability))
    }

    fn make(&self, name: &Name, vectors: &Vectors) -> Result<Arc<Collection>, CatalogueError> {
        let exists = || CatalogueError::Exists { name: name.clone(), folder: self.folder.clone() };
        let path = self.path(name);
        recover(&self.collections());
        if path.exists() {
            return Err(exists());
        }
        self.refuse_alias(name)?;
        let fault = |source| CatalogueError::Folder { path: path.clone(), source };
        if !self.lock.is_in_place(&self.folder) {
            let gone = "it was removed or replaced, or its LOCK was, while it was in use";
            return Err(CatalogueError::Folder { path: self.folder.clone(), source: io::Error::other(gone) });
        }
        make(&self.collections()).map_err(fault)?;
        self.share()?;
        let claim = match self.slots.ask(name, None) {
            Ok(Turn::Open(claim)) if !path.exists() => claim,
            Ok(Turn::Open(_) | Turn::There(_)) | Err(Denied::Failed(_) | Denied::Late(_)) => {
                return Err(exists());
            }
        };
        // Made whole under another name first: a crash half-way leaves no collection, not a broken one.
        let beside = self.beside(NEW, name);
        remove(&beside).and_then(|()| fs::create_dir(&beside)).map_err(fault)?;
        Collection::create(&beside, vectors).map(drop).inspect_err(|_| _ = remove(&beside))?;
        FailPoint::CreateMade.reach();
        // So that the name does not become an alias meanwhile.
        let turn = self.aliases.turn();
        // Those of an earlier collection of this name, if its deletion was interrupted, are not for this one.
        let is_free = self.refuse_alias(name).and_then(|()| self.forget_aliases(name));
        is_free.inspect_err(|_| _ = remove(&beside))?;
        match fs::rename(&beside, &path) {
            // Another process was quicker.
            Err(error) if path.exists() => {
                tracing::debug!(%error, "the name was taken meanwhile");
                _ = remove(&beside);
                return Err(exists());
            }
            renamed => renamed.inspect_err(|_| _ = remove(&beside)).map_err(fault)?,
        }
        sync(&self.collections()).map_err(fault)?;
        drop(turn);
        FailPoint::CreateRenamed.reach();
        open(&path, claim)
    }

    /// The collection of this name. Opens it if nobody has, and waits for whoever does.
    pub fn get(&self, name: &Name) -> Result<Arc<Collection>, CatalogueError> {
        self.share()?;
        match self.slots.ask(name, None).map_err(|denied| self.denied(name, denied))? {
            Turn::There(collection) => Ok(collection),
            Turn::Open(claim) => open(&self.known(name)?, claim),
        }
    }

    /// The same, but waits no longer than `limit`; what is being opened then goes on by itself.
    pub fn get_within(&self, name: &Name, limit: Duration) -> Result<Arc<Collection>, CatalogueError> {
        let until = Instant::now().checked_add(limit);
        self.begin(name)?;
        match self.slots.ask(name, until).map_err(|denied| self.denied(name, denied))? {
            Turn::There(collection) => Ok(collection),
            // Whoever began to open it panicked.
            Turn::Open(claim) => open(&self.known(name)?, claim),
        }
    }

    /// Lets a collection be opened by a thread of its own, if it is closed; waits for nothing. Gives what it is doing.
    pub fn begin(&self, name: &Name) -> Result<CollectionState, CatalogueError> {
        let state = self.state(name);
        match state {
            CollectionState::Opening { .. } | CollectionState::Open | CollectionState::Closing => Ok(state),
            CollectionState::Closed | CollectionState::Failed { .. } => {
                self.share()?;
                let path = self.known(name)?;
                // An asker that may not wait gets a claim, or else somebody else is at it.
                if let Ok(Turn::Open(claim)) = self.slots.ask(name, Some(Instant::now())) {
                    let work = move || drop(open(&path, claim));
                    let thread = thread::Builder::new().name("open".to_owned()).spawn(work);
                    thread.map_err(|source| CatalogueError::Folder { path: self.path(name), source })?;
                }
                Ok(self.state(name))
            }
        }
    }

    /// Closes a collection, whether it opens or not, calls `work` with its folder, and lets it be opened again. Who
    /// asks for it meanwhile waits. Others are given [`CLOSE_WITHIN`] to let go of it; the caller must not hold it.
    pub fn with_closed<T>(&self, name: &Name, work: impl FnOnce(&Path) -> T) -> Result<T, CatalogueError> {
        self.with_closed_within(name, CLOSE_WITHIN, work)
    }

    pub(crate) fn with_closed_within<T>(
        &self,
        name: &Name,
        within: Duration,
        work: impl FnOnce(&Path) -> T,
    ) -> Result<T, CatalogueError> {
        self.share()?;
        let until = Instant::now() + within;
        let (claim, open) =
            self.slots.close(name, Some(until)).map_err(|denied| self.denied(name, denied))?;
        if let Some(open) = open {
            match close(open, until) {
                Ok(()) => {}
                Err(Held::Open(collection)) => {
                    claim.open(&collection);
                    return Err(CatalogueError::Busy { name: name.clone(), within });
                }
                Err(Held::Store) => return Err(CatalogueError::Busy { name: name.clone(), within }),
            }
        }
        let outcome = work(&self.path(name));
        drop(claim);
        Ok(outcome)
    }

    /// Deletes a collection, its files and its aliases. Readers that hold a snapshot keep it until they let go.
    pub fn delete(&self, name: &Name) -> Result<(), CatalogueError> {
        // Or what it was to replace would be found in its place.
        recover(&self.collections());
        let path = self.known(name)?;
        self.share()?;
        let (claim, open) = self.slots.close(name, None).map_err(|denied| self.denied(name, denied))?;
        let path = if path.is_dir() { path } else { self.known(name)? };
        let store = match open {
            Some(_) => None,
            // Taking the store's lock, so that a collection that another process has open stays. One that is damaged
            // does not open, and may go all the same.
            None => match Store::open(&store_path(&path), &FAMILIES) {
                Ok(store) => Some(store),
                Err(error) if error.is_damage() => None,
                Err(error) => return Err(OpenError::from(error).into()),
            },
        };
        // Renamed first: a crash half-way leaves no collection rather than a broken one.
        let fault = |source| CatalogueError::Folder { path: path.clone(), source };
        let doomed = self.beside(DELETED, name);
        let renamed = remove(&doomed).and_then(|()| fs::rename(&path, &doomed));
        if let (Err(_), Some(collection)) = (&renamed, &open) {
            claim.open(collection);
            return renamed.map_err(fault);
        }
        renamed.and_then(|()| sync(&self.collections())).map_err(fault)?;
        FailPoint::DeleteRenamed.reach();
        drop((store, open));
        let turn = self.aliases.turn();
        let forgotten = self.forget_aliases(name);
        drop(turn);
        let removed = remove(&doomed).map_err(fault);
        drop(claim);
        forgotten.and(removed)
    }

    /// Takes the lock of the data directory, unless it is held or there is no such directory.
    pub(crate) fn share(&self) -> Result<(), CatalogueError> {
        if self.lock.is_held() || !self.folder.is_dir() {
            return Ok(());
        }
        let shared = self.lock.share(&self.folder, !self.litter().is_empty(), || self.sweep());
        shared.map_err(|refused| self.refused(refused, false))
    }

    /// What crashes left.
    fn litter(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.collections()).into_iter().flatten().flatten();
        let is_litter = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with(NEW) || name.starts_with(DELETED))
        };
        entries.filter(is_litter).map(|entry| entry.path()).collect()
    }

    /// Removes what crashes left; nobody may be at work.
    fn sweep(&self) {
        beside::sweep(&self.collections());
        for path in self.litter() {
            match remove(&path) {
                Ok(()) => tracing::info!(path = %path.display(), "removed what an interruption left"),
                Err(error) => tracing::warn!(path = %path.display(), %error, "not removed"),
            }
        }
    }

    /// The folder of a collection that is there.
    pub(crate) fn known(&self, name: &Name) -> Result<PathBuf, CatalogueError> {
        let path = self.path(name);
        if !path.is_dir() {
            // A restore that was interrupted has its folder elsewhere.
            recover(&self.collections());
        }
        if path.is_dir() {
            return Ok(path);
        }
        let names = self.names()?;
        let names: Vec<_> = names.iter().map(Name::as_str).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(CatalogueError::Unknown { name: name.clone(), folder: self.folder.clone(), found })
    }

    fn denied(&self, name: &Name, denied: Denied) -> CatalogueError {
        match denied {
            Denied::Failed(error) => CatalogueError::Open(error),
            Denied::Late(slot) => {
                CatalogueError::Late { name: name.clone(), state: CollectionState::new(Some(&slot)) }
            }
        }
    }

    fn refused(&self, refused: Refused, wanted_alone: bool) -> CatalogueError {
        match refused {
            Refused::Held(holders) => {
                CatalogueError::InUse { folder: self.folder.clone(), holders, wanted_alone }
            }
            Refused::File(path, source) => CatalogueError::Folder { path, source },
        }
    }

    fn collections(&self) -> PathBuf {
        self.folder.join("collections")
    }

    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.collections().join(name.as_str())
    }

    /// A folder for a collection that is being made or deleted by this process.
    fn beside(&self, prefix: &str, name: &Name) -> PathBuf {
        self.collections().join(format!("{prefix}{name}.{}", std::process::id()))
    }
}

impl Drop for Catalogue {
    /// Waits for the threads that open collections: a store that is open while the process ends aborts it.
    fn drop(&mut self) {
        self.slots.wait_for_openers();
    }
}

/// Opens the collection at `path`, for all who wait for it.
fn open(path: &Path, claim: Claim) -> Result<Arc<Collection>, CatalogueError> {
    match Collection::open(path, &claim.progress) {
        Ok(collection) => {
            let collection = Arc::new(collection);
            claim.open(&collection);
            Ok(collection)
        }
        Err(error) => {
            let error = Arc::new(error);
            claim.fail(&error);
            Err(CatalogueError::Open(error))
        }
    }
}

/// Why a collection is not closed.
enum Held {
    /// Somebody uses it; it goes on to serve.
    Open(Arc<Collection>),
    /// Somebody reads its store, although it seemed that nobody did.
    Store,
}

/// Closes a collection as soon as nobody else has it or reads from it.
fn close(mut collection: Arc<Collection>, until: Instant) -> Result<(), Held> {
    loop {
        if !collection.writer.is_read() && !collection.is_a_space_held() {
            match Arc::try_unwrap(collection) {
                Ok(collection) => {
                    let store = collection.store.watch();
                    drop(collection);
                    return gone(&store, until);
                }
                Err(held) => collection = held,
            }
        }
        if Instant::now() >= until {
            return Err(Held::Open(collection));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Waits for whoever took a snapshot at the last moment.
fn gone(store: &Watch, until: Instant) -> Result<(), Held> {
    while store.is_open() {
        if Instant::now() >= until {
            return Err(Held::Store);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn list(holders: &[DataHolder]) -> String {
    let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
    if holders.is_empty() { "another process".to_owned() } else { holders.join(", ") }
}

/// Makes a folder and what is missing above it, so that they are there after a power cut.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make(parent)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    sync(parent.unwrap_or(Path::new(".")))
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a rename in `folder` last.
fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
