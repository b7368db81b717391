//! What a store is made of: RocksDB's files, or a disk in memory. One face for both.

use crate::{Batch, Family, Holder, Row, memory, rocks};

pub(crate) enum Engine {
    Rocks(rocks::Database),
    Memory(memory::Session),
}

/// One moment of the engine it was taken from.
pub(crate) enum Snapshot<'a> {
    Rocks(rocks::Snapshot<'a>),
    Memory(memory::Moment),
}

/// Rows, ascending, until the last one or the first error.
pub(crate) enum Rows<'a> {
    Rocks(rocks::Rows<'a>),
    Memory(memory::Rows),
}

/// What an error of an engine means to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    InUse(Holder),
    Denied,
    Corrupt,
    /// A file that should be there is not.
    FileMissing,
    AlreadyExists,
    /// What was asked does not fit what is stored.
    Mismatch,
    Other,
}

/// An error of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) cause: Cause,
    /// The engine's words.
    pub(crate) text: String,
    /// The name of the file it is about, if that is known.
    pub(crate) file: Option<String>,
    /// Where in the file.
    pub(crate) offset: Option<u64>,
}

impl Trouble {
    pub(crate) fn new(cause: Cause, text: impl Into<String>) -> Trouble {
        Trouble { cause, text: text.into(), file: None, offset: None }
    }
}

// INVARIANT: a snapshot is read only by the engine it was taken from, as a view holds its store.
impl Engine {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        match self {
            Engine::Rocks(database) => Snapshot::Rocks(database.snapshot()),
            Engine::Memory(session) => Snapshot::Memory(session.moment()),
        }
    }

    /// The value of `key`, newest or as of the snapshot.
    pub(crate) fn get(
        &self,
        family: Family,
        key: &[u8],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        match self {
            Engine::Rocks(database) => rocks::get(database, family, key, snapshot.and_then(Snapshot::rocks)),
            Engine::Memory(session) => session.get(family, key, snapshot.and_then(Snapshot::memory)),
        }
    }

    /// The values of `keys`, in their order, all of one moment.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Vec<Option<Vec<u8>>>, Trouble> {
        match self {
            Engine::Rocks(database) => {
                rocks::get_many(database, family, keys, snapshot.and_then(Snapshot::rocks))
            }
            Engine::Memory(session) => session.get_many(family, keys, snapshot.and_then(Snapshot::memory)),
        }
    }

    pub(crate) fn rows(
        &self,
        family: Family,
        from: &[u8],
        to: Option<&[u8]>,
        snapshot: Option<&Snapshot<'_>>,
    ) -> Result<Rows<'_>, Trouble> {
        Ok(match self {
            Engine::Rocks(database) => {
                Rows::Rocks(rocks::rows(database, family, from, to, snapshot.and_then(Snapshot::rocks))?)
            }
            Engine::Memory(session) => {
                Rows::Memory(session.rows(family, from, to, snapshot.and_then(Snapshot::memory)))
            }
        })
    }

    /// Writes all of `batch` or nothing, and syncs the log if `synced`.
    pub(crate) fn write(&self, batch: Batch, synced: bool) -> Result<(), Trouble> {
        match self {
            Engine::Rocks(database) => rocks::write(database, batch, synced),
            Engine::Memory(session) => session.write(&batch, synced),
        }
    }

    pub(crate) fn sync(&self) -> Result<(), Trouble> {
        match self {
            Engine::Rocks(database) => rocks::sync_log(database),
            Engine::Memory(session) => session.sync(),
        }
    }

    /// Rewrites `families` without what was deleted or replaced.
    pub(crate) fn compact(&self, families: &[Family]) -> Result<(), Trouble> {
        match self {
            Engine::Rocks(database) => rocks::compact(database, families),
            Engine::Memory(session) => session.compact(),
        }
    }
}

impl<'a> Snapshot<'a> {
    fn rocks(&self) -> Option<&rocks::Snapshot<'a>> {
        match self {
            Snapshot::Rocks(snapshot) => Some(snapshot),
            Snapshot::Memory(_) => None,
        }
    }

    fn memory(&self) -> Option<&memory::Moment> {
        match self {
            Snapshot::Rocks(_) => None,
            Snapshot::Memory(moment) => Some(moment),
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Trouble>;

    fn next(&mut self) -> Option<Result<Row, Trouble>> {
        match self {
            Rows::Rocks(rows) => rocks::next_row(rows),
            Rows::Memory(rows) => rows.next(),
        }
    }
}
