//! Collections whose writer failed, opened anew once their folder takes writes again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::{Catalogue, CatalogueError, CollectionState, Name};

/// How long others have to let go of a collection that is to be opened anew. While it is waited for, who asks for
/// the collection waits as well; so it is short, and tried again.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);

/// What is written to learn whether a folder takes writes: as much as a few commits.
const PROBE_BYTES: usize = 1024 * 1024;

/// The file it is written to.
const PROBE: &str = ".probe";

/// A collection that needed mending.
#[derive(Debug)]
pub struct Mended {
    /// Which.
    pub name: Name,
    /// What became of it.
    pub outcome: MendOutcome,
}

/// What became of a collection that needed mending.
#[derive(Debug)]
#[non_exhaustive]
pub enum MendOutcome {
    /// It is open, and takes writes.
    Reopened,
    /// Its folder does not take writes yet: it serves readers as before.
    Unwritable(io::Error),
    /// Its folder takes writes, but it was not opened anew: requests did not let go of it, or it does not open.
    Refused(CatalogueError),
}

impl Catalogue {
    /// Opens those open collections anew whose writer failed, if their folders take writes again; tries those again
    /// that did not open for another reason than damage. Every acknowledged write is in what is opened, as after the
    /// end of a process. Readers go on with the snapshots they have, and others wait while a collection is opened.
    ///
    /// Gives each collection that needed it. Meant to be called again and again while the collections are served.
    pub fn mend(&self) -> Vec<Mended> {
        let failed =
            self.open_ones().into_iter().filter(|(_, collection)| collection.writer().failure.is_some());
        let failed: Vec<Name> = failed.map(|(name, _)| name).collect();
        let closed = self.states().unwrap_or_default().into_iter().filter(|(_, state)| match state {
            CollectionState::Failed { error } => !error.is_damage(),
            CollectionState::Closed
            | CollectionState::Opening { .. }
            | CollectionState::Open
            | CollectionState::Closing => false,
        });
        let closed: Vec<Name> = closed.map(|(name, _)| name).collect();
        let reopened = failed.into_iter().map(|name| {
            let outcome = self.mend_one(&name);
            Mended { name, outcome }
        });
        let opened = closed.into_iter().map(|name| {
            let outcome = self.get(&name).map_or_else(MendOutcome::Refused, |_| MendOutcome::Reopened);
            Mended { name, outcome }
        });
        reopened.chain(opened).collect()
    }

    fn mend_one(&self, name: &Name) -> MendOutcome {
        if let Err(error) = probe(&self.path(name)) {
            return MendOutcome::Unwritable(error);
        }
        let reopened = self.with_closed_within(name, LET_GO_WITHIN, |_| ()).and_then(|()| self.get(name));
        reopened.map_or_else(MendOutcome::Refused, |_| MendOutcome::Reopened)
    }
}

/// Writes to a folder and takes it back.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(PROBE);
    // Not zeros, which some file systems need no room for.
    let bytes: Vec<u8> = (0..PROBE_BYTES).map(|place| (place % 251) as u8).collect();
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}
