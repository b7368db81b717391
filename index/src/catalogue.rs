//! The collections of one data directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use dehub_store::{Blame, Store};

use crate::restore::recover;
use crate::{Collection, CollectionConfig, Name, OpenError};

/// How long [`Catalogue::with_closed`] waits for others to let go of a collection: longer than requests take, and
/// shorter than people wait.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// How often it looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// References to its store that a collection has which nobody uses: its own, and its newest snapshot's.
const OWN_STORE_REFERENCES: usize = 2;

/// The collections of a data directory, opened when they are first asked for.
pub struct Catalogue {
    folder: PathBuf,
    open: Mutex<BTreeMap<Name, Arc<Collection>>>,
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
    /// It did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Others did not let go of it in time.
    #[error("collection `{name}` is in use by requests or jobs, and was not let go of in {} s", within.as_secs())]
    Busy {
        /// The collection.
        name: Name,
        /// How long they had.
        within: Duration,
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
            CatalogueError::Unknown { .. } | CatalogueError::Exists { .. } => Blame::Caller,
            CatalogueError::Open(error) => error.blame(),
            CatalogueError::Busy { .. } | CatalogueError::Folder { .. } => Blame::Environment,
        }
    }
}

impl Catalogue {
    /// The collections in `folder`, which need not exist yet.
    pub fn new(folder: &Path) -> Catalogue {
        Catalogue { folder: folder.to_owned(), open: Mutex::new(BTreeMap::new()) }
    }

    /// The data directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of all collections, in order.
    pub fn names(&self) -> Result<Vec<Name>, CatalogueError> {
        let folder = self.folder.join("collections");
        let fault = |source| CatalogueError::Folder { path: folder.clone(), source };
        recover(&folder);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fault)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fault)?;
            // A folder whose name is no collection's is being deleted, or is not ours.
            names.extend(entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes a collection.
    pub fn create(&self, name: &Name, config: CollectionConfig) -> Result<Arc<Collection>, CatalogueError> {
        let mut open = self.lock();
        recover(&self.folder.join("collections"));
        let path = self.path(name);
        if path.exists() {
            return Err(CatalogueError::Exists { name: name.clone(), folder: self.folder.clone() });
        }
        // Made whole under another name first: a crash half-way leaves no collection, not a broken one.
        let beside = path.with_file_name(format!(".new-{name}"));
        let fault = |source| CatalogueError::Folder { path: path.clone(), source };
        remove(&beside).and_then(|()| fs::create_dir_all(&beside)).map_err(fault)?;
        Collection::create(&beside, config).map(drop).inspect_err(|_| _ = remove(&beside))?;
        fs::rename(&beside, &path).and_then(|()| sync(&self.folder.join("collections"))).map_err(fault)?;
        let collection = Arc::new(Collection::open(&path).inspect_err(|_| _ = remove(&path))?);
        open.insert(name.clone(), Arc::clone(&collection));
        Ok(collection)
    }

    /// The collection of this name.
    pub fn get(&self, name: &Name) -> Result<Arc<Collection>, CatalogueError> {
        let mut open = self.lock();
        if let Some(collection) = open.get(name) {
            return Ok(Arc::clone(collection));
        }
        let path = self.path(name);
        if !path.is_dir() {
            recover(&self.folder.join("collections"));
        }
        if !path.is_dir() {
            let names = self.names()?;
            let names: Vec<_> = names.iter().map(Name::as_str).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(CatalogueError::Unknown { name: name.clone(), folder: self.folder.clone(), found });
        }
        let collection = Arc::new(Collection::open(&path)?);
        open.insert(name.clone(), Arc::clone(&collection));
        Ok(collection)
    }

    /// Deletes a collection and its files. Readers that hold a snapshot keep it until they let go.
    pub fn delete(&self, name: &Name) -> Result<(), CatalogueError> {
        recover(&self.folder.join("collections"));
        // Opening takes the store's lock, so a collection that another process serves stays.
        // One that is damaged does not open, and may go all the same.
        match self.get(name) {
            Ok(collection) => drop(collection),
            Err(CatalogueError::Open(error)) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
        let mut open = self.lock();
        open.remove(name);
        let path = self.path(name);
        // Renamed first: a crash half-way leaves no collection rather than a broken one.
        let fault = |source| CatalogueError::Folder { path: path.clone(), source };
        let doomed = path.with_file_name(format!(".deleted-{name}"));
        remove(&doomed).and_then(|()| fs::rename(&path, &doomed)).map_err(fault)?;
        remove(&doomed).map_err(fault)
    }

    /// Closes a collection, whether it opens or not, calls `work` with its folder, and lets it be opened again. Who
    /// asks for it meanwhile waits. Others are given [`CLOSE_WITHIN`] to let go of it; the caller must not hold it.
    pub fn with_closed<T>(&self, name: &Name, work: impl FnOnce(&Path) -> T) -> Result<T, CatalogueError> {
        let until = Instant::now() + CLOSE_WITHIN;
        let mut open = self.lock();
        if let Some(collection) = open.remove(name) {
            let busy = || CatalogueError::Busy { name: name.clone(), within: CLOSE_WITHIN };
            match close(collection, until) {
                Ok(()) => {}
                Err(Held::Open(collection)) => {
                    open.insert(name.clone(), collection);
                    return Err(busy());
                }
                Err(Held::Store) => return Err(busy()),
            }
        }
        Ok(work(&self.path(name)))
    }

    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.folder.join("collections").join(name.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Collection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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
        if Arc::strong_count(&collection.store) <= OWN_STORE_REFERENCES {
            match Arc::try_unwrap(collection) {
                Ok(collection) => {
                    let store = Arc::downgrade(&collection.store);
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
fn gone(store: &Weak<Store>, until: Instant) -> Result<(), Held> {
    while store.strong_count() > 0 {
        if Instant::now() >= until {
            return Err(Held::Store);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
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
