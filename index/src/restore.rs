//! Restoring: a folder that is a whole collection takes its place among the others.
//!
//! A collection that is replaced is renamed first, and its new self is renamed to its name after. Between the
//! two there is none of that name, so whoever finds it so renames the old one back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dehub_store::{FailPoint, Store};

use crate::beside::{self, Beside};
use crate::collection::store_path;
use crate::record::FAMILIES;
use crate::{Blame, Catalogue, CatalogueError, Collection, Name, OpenError, OpenProgress};

/// How the name of a folder starts whose collection is being replaced.
const REPLACED: &str = ".replaced-";

/// Why nothing was restored. The collections are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The name is taken, or its collection is in use.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// What was fetched is no collection that can be served.
    #[error("what was fetched does not open, and is not used: {0}")]
    Unfit(#[source] OpenError),
    /// A file or folder could not be changed.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RestoreError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            RestoreError::Catalogue(error) => error.blame(),
            RestoreError::Unfit(error) => error.blame(),
            RestoreError::File { .. } => Blame::Environment,
        }
    }
}

/// An empty folder of the data directory to fetch a collection to; removed when dropped.
#[derive(Debug)]
pub struct Incoming {
    name: Name,
    replaces: bool,
    folder: Beside,
}

impl Incoming {
    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A collection that was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// The number of its newest commit.
    pub sequence: u64,
    /// Its points.
    pub points: usize,
    /// Whether there was one of its name, which is gone.
    pub replaced: bool,
}

impl Catalogue {
    /// Makes room for a collection that is to have the name `name`. Only if it `replaces` one may the name be
    /// taken.
    pub fn receive(&self, name: &Name, replaces: bool) -> Result<Incoming, RestoreError> {
        let collections = self.folder().join("collections");
        recover(&collections);
        beside::sweep(&collections);
        if !replaces && collections.join(name.as_str()).exists() {
            return Err(self.taken(name));
        }
        self.refuse_alias(name)?;
        let folder = Beside::make(&collections, beside::RESTORING, name).map_err(file(&collections))?;
        Ok(Incoming { name: name.clone(), replaces, folder })
    }

    /// Lets what was fetched take the place it was fetched for. It is opened first, which reads all of its
    /// records and finds whether they fit together. A crash leaves the old collection or the new one.
    ///
    /// The caller must hold neither the collection nor a snapshot of it that it replaces.
    pub fn adopt(&self, incoming: Incoming) -> Result<Adopted, RestoreError> {
        let Incoming { name, replaces, folder } = incoming;
        FailPoint::RestoreFetched.reach();
        let opened =
            Collection::open(folder.path(), &OpenProgress::default()).map_err(RestoreError::Unfit)?;
        let snapshot = opened.snapshot();
        let (sequence, points) = (snapshot.sequence(), snapshot.len());
        // INVARIANT: the store's folder has a name that no other had, so that the store of the one that is replaced,
        // as long as anybody has it open, can neither be in its way nor remove its files, which have names alike.
        let (store, renamed) = (opened.store.path().to_owned(), opened.restored_store(folder.path()));
        drop((snapshot, opened));
        fs::rename(&store, &renamed).map_err(file(&store))?;
        beside::sync_all(folder.path()).map_err(file(folder.path()))?;
        let replaced = self.with_closed(&name, |path| {
            let exists = path.exists();
            if exists && !replaces {
                return Err(self.taken(&name));
            }
            // So that the name does not become an alias meanwhile.
            let turn = self.aliases.turn();
            if !exists {
                self.refuse_alias(&name)?;
                self.forget_aliases(&name)?;
            }
            // Taking the store's lock, so that a collection that another process has open stays. One that is
            // damaged does not open, and may go all the same.
            let held = match Store::open(&store_path(path), &FAMILIES) {
                Err(error @ dehub_store::OpenError::InUse { .. }) => {
                    return Err(CatalogueError::from(OpenError::from(error)).into());
                }
                held => held.ok(),
            };
            let old = swap(path, folder.path(), &name, exists).map_err(file(path))?;
            drop((held, turn));
            if let Err(error) = remove(&old) {
                tracing::warn!(path = %old.display(), %error, "what was replaced is not removed yet");
            }
            Ok(exists)
        })??;
        Ok(Adopted { sequence, points, replaced })
    }

    fn taken(&self, name: &Name) -> RestoreError {
        CatalogueError::Exists { name: name.clone(), folder: self.folder().to_owned() }.into()
    }
}

/// Puts the folder `new` in the place of `path`; gives where the old one is now, if there was one.
fn swap(path: &Path, new: &Path, name: &Name, exists: bool) -> io::Result<PathBuf> {
    let collections = path.parent().unwrap_or(path);
    let old = collections.join(format!("{REPLACED}{name}"));
    if !exists {
        fs::rename(new, path)?;
        beside::sync(collections)?;
        FailPoint::RestoreRenamed.reach();
        return Ok(old);
    }
    // Held over both renames, so that nobody takes what they see between them for a leftover.
    let lock = beside::lock(path)?;
    remove(&old)?;
    fs::rename(path, &old)?;
    if let Err(error) = fs::rename(new, path) {
        fs::rename(&old, path)?;
        return Err(error);
    }
    beside::sync(collections)?;
    FailPoint::RestoreRenamed.reach();
    drop(lock);
    Ok(old)
}

/// Ends what a crash left of a replacement: brings a collection back whose new self did not get its name, and
/// removes one whose new self did.
pub(crate) fn recover(collections: &Path) {
    for entry in fs::read_dir(collections).into_iter().flatten().flatten() {
        let old = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(REPLACED)) else { continue };
        // Whoever replaces it just now has it locked.
        let Ok(Some(_lock)) = beside::lock(&old) else { continue };
        let path = collections.join(name);
        let ended = if path.exists() {
            remove(&old)
        } else {
            fs::rename(&old, &path).and_then(|()| beside::sync(collections))
        };
        match ended {
            Ok(()) => tracing::info!(name, "ended a replacement that was interrupted"),
            Err(error) => tracing::error!(path = %old.display(), %error, "a replacement was interrupted"),
        }
    }
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn file(path: &Path) -> impl Fn(io::Error) -> RestoreError {
    move |source| RestoreError::File { path: path.to_owned(), source }
}
