//! What interrupted writes left: records under numbers that nothing names.

use std::collections::BTreeSet;

use dehub_store::{Batch, Durability, Family, View};

use crate::pending::PendingRecord;
use crate::record::{
    ENTRIES, META, PENDING_PREFIX, POTENTIALS, STATES, WEIGHTS, damaged, from_json, pair_key, read_u32,
};
use crate::state::State;
use crate::{Collection, ReadError, WriteError};

/// Records that nothing names, as an interrupted write leaves them. Nothing is served from them, and their numbers are
/// not given again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orphans {
    /// How many.
    pub records: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    numbers: BTreeSet<(usize, u32)>,
}

impl Orphans {
    /// Counts those of another space too.
    pub(crate) fn add(&mut self, other: &Orphans) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

/// The families whose keys begin with a number that a record of another family names.
const NUMBERED: [Family; 4] = [STATES, POTENTIALS, ENTRIES, WEIGHTS];

/// Finds them.
pub(crate) fn find_orphans(view: &View<'_>, state: &State) -> Result<Orphans, ReadError> {
    let mut sets: BTreeSet<u32> = state.sets.keys().copied().collect();
    for item in view.scan_prefix(META, PENDING_PREFIX) {
        sets.extend(from_json::<PendingRecord>(META, &item?.1)?.numbers);
    }
    let banks: BTreeSet<u32> = state.banks.values().map(|bank| bank.number).collect();
    let tables: BTreeSet<u32> = state.banks.values().filter_map(|bank| bank.table).collect();
    let mut orphans = Orphans::default();
    for (place, (family, named)) in NUMBERED.into_iter().zip([&sets, &sets, &banks, &tables]).enumerate() {
        let mut next = Some(0);
        while let Some(from) = next {
            let Some(item) = view.scan(family, &pair_key(from, 0), None).next() else { break };
            let (key, _) = item?;
            let first = key.get(..4).ok_or_else(|| damaged(family, "a key without a number"))?;
            let number = read_u32(family, first)?;
            next = number.checked_add(1);
            if named.contains(&number) {
                continue;
            }
            let end = next.map(|next| pair_key(next, 0));
            for item in view.scan(family, &pair_key(number, 0), end.as_ref().map(<[u8; 8]>::as_slice)) {
                let (key, value) = item?;
                orphans.records += 1;
                orphans.bytes += (key.len() + value.len()) as u64;
            }
            orphans.numbers.insert((place, number));
        }
    }
    Ok(orphans)
}

impl Collection {
    /// Takes out of the store what no record names.
    pub(crate) fn drop_orphans(&self) -> Result<Orphans, WriteError> {
        // With the lock held no write is in the making, whose data would look the same.
        let state = self.lock();
        let orphans = find_orphans(&self.store.view(), &state)?;
        let mut batch = Batch::default();
        for &(place, number) in &orphans.numbers {
            batch.delete_range(NUMBERED[place], &pair_key(number, 0), &pair_key(number, u32::MAX));
        }
        if orphans.records > 0 {
            self.store.commit(batch, Durability::Strict)?;
        }
        Ok(orphans)
    }
}
