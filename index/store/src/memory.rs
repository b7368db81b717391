//! A disk in memory: a store without files, for tests of what is built on one.
//!
//! It keeps every version of a value that somebody may still ask for: a view, a scan, or a power cut, which takes back
//! the commits that were written and not synced. A commit's number is its place in the order of all commits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::batch::ChangeRef;
use crate::engine::{Cause, Trouble};
use crate::{Batch, Family, Row};

/// A disk in memory that holds one store, as a directory does. Clones are the same disk.
///
/// A relaxed commit is *written*; a strict one, and a sync, make all that is written *synced*. Dropping the store
/// leaves what is written, as the death of a process does; a [power cut](MemoryDisk::power_cut) does not.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<RwLock<Content>>);

#[derive(Default)]
struct Content {
    /// `None` before a store was created.
    families: Option<BTreeMap<&'static str, Map>>,
    /// The number of the newest commit; 0 before the first one.
    newest: u64,
    /// The newest commit that a power cut leaves.
    synced: u64,
    /// The commits that somebody still reads as of, and how many do.
    moments: BTreeMap<u64, usize>,
    /// Who has the disk: the number of the opening.
    holder: Option<u64>,
    openings: u64,
}

type Map = BTreeMap<Vec<u8>, Vec<Version>>;

/// What a commit made of a key; `None` if it deleted it. A key's versions ascend.
struct Version {
    commit: u64,
    value: Option<Arc<[u8]>>,
}

impl MemoryDisk {
    /// A disk with nothing on it.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Takes the power away: of the commits that were written and not synced only the first `keep` remain. A store that
    /// is open fails at every call from then on, and another one can be opened.
    pub fn power_cut(&self, keep: usize) {
        let mut content = self.write();
        let keep = u64::try_from(keep).unwrap_or(u64::MAX);
        let newest = content.synced.saturating_add(keep).min(content.newest);
        for map in content.families.iter_mut().flat_map(BTreeMap::values_mut) {
            map.retain(|_, versions| {
                versions.retain(|version| version.commit <= newest);
                !versions.is_empty()
            });
        }
        content.newest = newest;
        content.synced = newest;
        content.moments.clear();
        content.holder = None;
    }

    /// The commits that a power cut would take.
    pub fn unsynced(&self) -> usize {
        let content = self.read();
        usize::try_from(content.newest - content.synced).unwrap_or(usize::MAX)
    }

    /// Whether there is a store on it.
    pub(crate) fn has_store(&self) -> bool {
        self.read().families.is_some()
    }

    /// The families of the store on it.
    pub(crate) fn family_names(&self) -> BTreeSet<&'static str> {
        self.read().families.iter().flat_map(BTreeMap::keys).copied().collect()
    }

    /// Puts an empty store on it.
    pub(crate) fn format(&self, families: &[Family]) {
        let maps = families.iter().map(|family| (family.name(), Map::new()));
        self.write().families = Some(maps.collect());
    }

    /// Takes the disk for one opening; `None` while another one has it.
    pub(crate) fn take(&self) -> Option<Session> {
        let mut content = self.write();
        if content.holder.is_some() {
            return None;
        }
        content.openings += 1;
        content.holder = Some(content.openings);
        Some(Session { disk: self.clone(), opening: content.openings })
    }

    // A panic while the lock is held leaves maps that are whole, so it is no reason to refuse.
    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = self.read();
        f.debug_struct("MemoryDisk")
            .field("newest", &content.newest)
            .field("synced", &content.synced)
            .finish_non_exhaustive()
    }
}

/// A disk in use. Letting go of it frees the disk.
pub(crate) struct Session {
    disk: MemoryDisk,
    opening: u64,
}

/// The state after a commit, kept as long as this is.
pub(crate) struct Moment {
    disk: MemoryDisk,
    opening: u64,
    commit: u64,
}

impl Session {
    pub(crate) fn moment(&self) -> Moment {
        let mut content = self.disk.write();
        let commit = content.newest;
        *content.moments.entry(commit).or_default() += 1;
        Moment { disk: self.disk.clone(), opening: self.opening, commit }
    }

    pub(crate) fn get(
        &self,
        family: Family,
        key: &[u8],
        moment: Option<&Moment>,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(self.get_many(family, &[key], moment)?.pop().flatten())
    }

    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
        moment: Option<&Moment>,
    ) -> Result<Vec<Option<Vec<u8>>>, Trouble> {
        let content = self.disk.read();
        let map = content.map(self.opening, family)?;
        let commit = moment.map_or(content.newest, |moment| moment.commit);
        let value = |key: &K| map.get(key.as_ref()).and_then(|versions| visible(versions, commit));
        Ok(keys.iter().map(|key| value(key).map(<[u8]>::to_vec)).collect())
    }

    pub(crate) fn rows(
        &self,
        family: Family,
        from: &[u8],
        to: Option<&[u8]>,
        moment: Option<&Moment>,
    ) -> Rows {
        let moment = moment.map_or_else(|| self.moment(), Moment::clone);
        Rows { moment, family, from: Bound::Included(from.to_vec()), to: to.map(<[u8]>::to_vec) }
    }

    pub(crate) fn write(&self, batch: &Batch, synced: bool) -> Result<(), Trouble> {
        let mut content = self.disk.write();
        content.check(self.opening)?;
        let commit = content.newest + 1;
        // Readers and power cuts ask for nothing older than this.
        let horizon = content.horizon();
        for change in batch.iter() {
            let map = content.map_mut(change.family())?;
            match change {
                ChangeRef::Put { key, value, .. } => {
                    put(map.entry(key.to_vec()).or_default(), commit, Some(value.into()), horizon);
                }
                ChangeRef::Delete { key, .. } => {
                    if let Some(versions) = map.get_mut(key) {
                        put(versions, commit, None, horizon);
                    }
                }
                ChangeRef::DeleteRange { from, to, .. } => {
                    let range = (Bound::Included(from), Bound::Excluded(to));
                    for (_, versions) in map.range_mut::<[u8], _>(range) {
                        put(versions, commit, None, horizon);
                    }
                }
            }
        }
        content.newest = commit;
        if synced {
            content.synced = commit;
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), Trouble> {
        let mut content = self.disk.write();
        content.check(self.opening)?;
        content.synced = content.newest;
        Ok(())
    }

    /// Forgets what nobody can ask for.
    pub(crate) fn compact(&self) -> Result<(), Trouble> {
        let mut content = self.disk.write();
        content.check(self.opening)?;
        let horizon = content.horizon();
        for map in content.families.iter_mut().flat_map(BTreeMap::values_mut) {
            map.retain(|_, versions| {
                forget(versions, horizon);
                let is_gone = |version: &Version| version.commit <= horizon && version.value.is_none();
                !versions.iter().all(is_gone)
            });
        }
        Ok(())
    }

    /// The length of all keys and of all values that are kept.
    pub(crate) fn bytes(&self) -> Result<u64, Trouble> {
        let content = self.disk.read();
        content.check(self.opening)?;
        let length = |value: &Option<Arc<[u8]>>| value.as_ref().map_or(0, |value| value.len());
        let row = |(key, versions): (&Vec<u8>, &Vec<Version>)| {
            key.len() + versions.iter().map(|version| length(&version.value)).sum::<usize>()
        };
        let total: usize = content.families.iter().flat_map(BTreeMap::values).flatten().map(row).sum();
        Ok(u64::try_from(total).unwrap_or(u64::MAX))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut content = self.disk.write();
        if content.holder == Some(self.opening) {
            content.holder = None;
        }
    }
}

impl Clone for Moment {
    fn clone(&self) -> Moment {
        let mut content = self.disk.write();
        if content.holder == Some(self.opening) {
            *content.moments.entry(self.commit).or_default() += 1;
        }
        Moment { disk: self.disk.clone(), opening: self.opening, commit: self.commit }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let mut content = self.disk.write();
        if content.holder != Some(self.opening) {
            return;
        }
        if let Some(holders) = content.moments.get_mut(&self.commit) {
            *holders -= 1;
            if *holders == 0 {
                content.moments.remove(&self.commit);
            }
        }
    }
}

impl Content {
    /// Fails if the power was cut since that opening.
    fn check(&self, opening: u64) -> Result<(), Trouble> {
        if self.holder == Some(opening) {
            return Ok(());
        }
        Err(Trouble::new(Cause::Other, "the power was cut since it was opened"))
    }

    fn map(&self, opening: u64, family: Family) -> Result<&Map, Trouble> {
        self.check(opening)?;
        let map = self.families.as_ref().and_then(|maps| maps.get(family.name()));
        map.ok_or_else(|| no_family(family))
    }

    fn map_mut(&mut self, family: Family) -> Result<&mut Map, Trouble> {
        let map = self.families.as_mut().and_then(|maps| maps.get_mut(family.name()));
        map.ok_or_else(|| no_family(family))
    }

    /// The oldest commit as of which anybody may still read.
    fn horizon(&self) -> u64 {
        let oldest = self.moments.keys().next().copied().unwrap_or(u64::MAX);
        oldest.min(self.synced)
    }
}

fn no_family(family: Family) -> Trouble {
    Trouble::new(Cause::Mismatch, format!("there is no family {family}"))
}

/// The value as of `commit`.
fn visible(versions: &[Version], commit: u64) -> Option<&[u8]> {
    versions.iter().rev().find(|version| version.commit <= commit)?.value.as_deref()
}

fn put(versions: &mut Vec<Version>, commit: u64, value: Option<Arc<[u8]>>, horizon: u64) {
    match versions.last_mut() {
        Some(newest) if newest.commit == commit => newest.value = value,
        _ => {
            forget(versions, horizon);
            versions.push(Version { commit, value });
        }
    }
}

/// Drops the versions that were replaced before `horizon`.
fn forget(versions: &mut Vec<Version>, horizon: u64) {
    let upto = versions.iter().rposition(|version| version.commit <= horizon).unwrap_or(0);
    versions.drain(..upto);
}

/// Rows of one moment, ascending.
pub(crate) struct Rows {
    moment: Moment,
    family: Family,
    /// Where to go on.
    from: Bound<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Rows {
    fn advance(&mut self) -> Result<Option<Row>, Trouble> {
        let content = self.moment.disk.read();
        let map = content.map(self.moment.opening, self.family)?;
        if let (Bound::Included(from) | Bound::Excluded(from), Some(to)) = (&self.from, &self.to)
            && from >= to
        {
            return Ok(None);
        }
        let from = self.from.as_ref().map(Vec::as_slice);
        let to = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = map.range::<[u8], _>((from, to));
        let row = rows.find_map(|(key, versions)| Some((key, visible(versions, self.moment.commit)?)));
        let row = row.map(|(key, value)| (key.as_slice().into(), value.into()));
        drop(content);
        Ok(row)
    }
}

impl Iterator for Rows {
    type Item = Result<Row, Trouble>;

    fn next(&mut self) -> Option<Result<Row, Trouble>> {
        let row: Option<Result<Row, Trouble>> = self.advance().transpose();
        if let Some(Ok((key, _))) = &row {
            self.from = Bound::Excluded(key.to_vec());
        }
        row
    }
}
