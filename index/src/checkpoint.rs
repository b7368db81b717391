//! Checkpoints: a folder that is a whole collection as it was after some commit, while it goes on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dehub_store::FailPoint;
use dehub_vector::Metric;

use crate::beside::{self, Beside};
use crate::state::State;
use crate::{Blame, Catalogue, CatalogueError, Collection, Name, graph_file};

/// What a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// The number of the newest commit it has. It has all before.
    pub sequence: u64,
    /// The collection's own number.
    pub identity: u64,
    /// Points in it.
    pub points: usize,
    /// Dimensions of its vectors.
    pub dim: usize,
    /// How they are compared.
    pub metric: Metric,
}

/// Why no checkpoint was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// There is no such collection, or it did not open.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The store made none.
    #[error(transparent)]
    Store(#[from] dehub_store::CheckpointError),
    /// A file could not be linked, copied or removed.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl CheckpointError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CheckpointError::Catalogue(error) => error.blame(),
            CheckpointError::Store(_) | CheckpointError::File { .. } => Blame::Environment,
        }
    }
}

/// A folder with a checkpoint, in the data directory; removed when dropped.
#[derive(Debug)]
pub struct Checkpoint {
    folder: Beside,
    info: CheckpointInfo,
}

impl Checkpoint {
    /// The folder. Its files are not to be changed: they may be those of the collection.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it holds.
    pub fn info(&self) -> &CheckpointInfo {
        &self.info
    }
}

impl Catalogue {
    /// Makes a checkpoint of a collection, beside it.
    pub fn checkpoint(&self, name: &Name) -> Result<Checkpoint, CheckpointError> {
        let collection = self.get(name)?;
        let collections = self.folder().join("collections");
        beside::sweep(&collections);
        let folder = Beside::make(&collections, beside::CHECKPOINT, name).map_err(file(&collections))?;
        let info = collection.checkpoint(folder.path())?;
        FailPoint::CheckpointMade.reach();
        Ok(Checkpoint { folder, info })
    }
}

impl Collection {
    /// Makes a whole collection of the empty folder `into`, on the same file system: this one at one sequence,
    /// every acknowledged write included, with the graph it has. Table and graph files are shared by hard links
    /// where the file system has them. Writes wait for a moment, reads, fits and freezes do not.
    pub fn checkpoint(&self, into: &Path) -> Result<CheckpointInfo, CheckpointError> {
        let store = into.join(self.store.path().file_name().unwrap_or_default());
        // What is in memory is written before the writer has to wait, so that it waits for little.
        self.store.checkpoint(&store)?;
        fs::remove_dir_all(&store).map_err(file(&store))?;
        // INVARIANT: the state is the one the store holds, and each of its segments has its file: a freeze
        // removes a file only after the state was given what replaces it.
        let state = self.lock();
        self.store.checkpoint(&store)?;
        share_all(&state, &self.folder, into)?;
        for (name, space) in &self.spaces {
            let state = state.whole.state(Some(name));
            let into = into.join(space.folder.file_name().unwrap_or_default());
            if !state.segments.is_empty() {
                fs::create_dir(&into).map_err(file(&into))?;
                share_all(state, &space.folder, &into)?;
            }
        }
        Ok(CheckpointInfo {
            sequence: state.counters.sequence,
            identity: state.identity,
            points: state.live.len(),
            dim: state.config.dim.get(),
            metric: state.config.metric,
        })
    }
}

/// Gives the graph files of a state other names.
fn share_all(state: &State, from: &Path, into: &Path) -> Result<(), CheckpointError> {
    for frozen in state.segments.iter() {
        let path = |folder| graph_file::path(folder, &frozen.rows, frozen.quantization);
        share(&path(from), &path(into))?;
    }
    Ok(())
}

/// Gives a graph file another name, or copies it where that cannot be.
fn share(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    match fs::copy(from, to) {
        Ok(_) => Ok(()),
        // Derived: its points are frozen again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!(path = %from.display(), "a graph file was removed, and is in no checkpoint");
            Ok(())
        }
        Err(error) => Err(file(to)(error)),
    }
}

fn file(path: &Path) -> impl Fn(io::Error) -> CheckpointError {
    move |source| CheckpointError::File { path: path.to_owned(), source }
}
