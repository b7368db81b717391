//! Giving back what deleted and replaced data takes on disk.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use dehub_store::CompactError;

use crate::orphans::Orphans;
use crate::{Blame, Collection, Snapshot, WriteError, graph_file};

/// A segment is frozen anew when more than one in so many of its rows are of deleted points.
const DEAD_SHARE: usize = 20;

/// The bytes of a collection by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUse {
    /// The store.
    pub store: u64,
    /// Files of the graph.
    pub graph: u64,
    /// Files of the graph that were set aside.
    pub set_aside: u64,
}

impl DiskUse {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.store + self.graph + self.set_aside
    }
}

/// What [`Collection::compact`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The bytes before.
    pub before: DiskUse,
    /// The bytes after. Those that readers of earlier snapshots hold are given back when they let go.
    pub after: DiskUse,
    /// Segments that were frozen anew, or dropped as no point was left in them.
    pub frozen: usize,
    /// What no record named and is gone.
    pub orphans: Orphans,
}

/// Why a collection was not compacted, or not wholly. Nothing that it serves has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// Points could not be frozen anew, or records not be removed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The store was not compacted.
    #[error(transparent)]
    Store(#[from] CompactError),
}

impl CompactionError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CompactionError::Write(error) => error.blame(),
            CompactionError::Store(error) => error.blame(),
        }
    }
}

impl Collection {
    /// Drops what no record names, removes files of the graph that were set aside, freezes segments with deleted
    /// points anew, and lets the store write its files without what was deleted and replaced. Reads and writes go
    /// on meanwhile; no answer changes but for those of walks, which have fewer roads.
    pub fn compact(&self) -> Result<Compacted, CompactionError> {
        let before = self.disk_use();
        let (mut orphans, mut frozen) = (self.drop_orphans()?, 0);
        for space in std::iter::once(self).chain(self.spaces.values().map(Arc::as_ref)) {
            if !std::ptr::eq(space, self) {
                orphans.add(&space.drop_orphans()?);
            }
            graph_file::remove_broken(&space.folder, 0);
            frozen += space.freeze_away_the_dead()?;
        }
        self.store.compact()?;
        Ok(Compacted { before, after: self.disk_use(), frozen, orphans })
    }

    fn freeze_away_the_dead(&self) -> Result<usize, WriteError> {
        let _one_at_a_time = self.freezing.lock().unwrap_or_else(PoisonError::into_inner);
        let dead = runs_of_the_dead(&self.snapshot());
        dead.iter().try_for_each(|rows| self.freeze_rows(&self.snapshot(), rows))?;
        Ok(dead.len())
    }

    /// The bytes of its files.
    pub fn disk_use(&self) -> DiskUse {
        let others = self.spaces.values().map(|space| graph_file::broken_bytes(&space.folder));
        DiskUse {
            store: self.store.bytes_on_disk().unwrap_or(0),
            graph: self.graph_bytes(),
            set_aside: graph_file::broken_bytes(&self.folder) + others.sum::<u64>(),
        }
    }
}

fn runs_of_the_dead(snapshot: &Snapshot) -> Vec<Range<u32>> {
    let infos = snapshot.segment_infos().into_iter();
    infos.filter(|info| info.dead * DEAD_SHARE > info.points + info.dead).map(|info| info.rows).collect()
}
