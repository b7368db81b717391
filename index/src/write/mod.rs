//! Writes: each makes the next state beside the present one, and a batch that leads to it.
//!
//! Data too large for one batch is put first under numbers that no record names yet. It becomes
//! visible with the last batch, which names it, or never.

mod banks;
mod corrections;
mod defaults;
mod live;
mod payloads;
mod points;
mod prepared;
mod priors;
mod quarantine;
mod rebuilt;
mod refit;
mod sets;
mod settings;
mod texts;
mod vectors;

use std::collections::HashMap;
use std::sync::Arc;

use dehub_normalize::{Activation, Bank as FitBank, Points, State as PointState, Statistic};
use dehub_store::{Batch, Durability, FailPoint, Store};
use dehub_vector::PointId;

use crate::bank::Bank;
use crate::open::row_of;
use crate::record::{
    CORRECTIONS, COUNTERS_KEY, Counters, META, POTENTIALS, SETS, STATES, id_key, list_bytes, pair_key,
    row_key, to_json,
};
use crate::spaces::{Role, Spaces, Whole, part};
use crate::state::{Set, State};
use crate::{Name, WriteError};
use prepared::Made;
use settings::sign_for_space;

pub(crate) use banks::unknown_bank;
pub use corrections::FitInput;
pub(crate) use corrections::banks_of;
pub(crate) use prepared::Prepared;
pub(crate) use refit::fit_lists;

/// Hidden data is committed in pieces of this size, a small part of the store's limit.
pub(crate) const PIECE_BYTES: usize = 32 * 1024 * 1024;

/// A write in the making.
pub(crate) struct Draft<'a> {
    store: &'a Store,
    /// The state after this write.
    pub(crate) next: State,
    /// The named spaces after this write, if it is one of points.
    spaces: Spaces,
    visible: Batch,
    hidden: Batch,
    /// A rehearsal keeps its data out of the store.
    is_rehearsal: bool,
    /// For a fit that computes without the writer's lock, what it has computed.
    prepared: Option<&'a mut Prepared>,
    /// Ids this write gives a row or takes it from.
    ids: HashMap<PointId, Option<u32>>,
}

impl<'a> Draft<'a> {
    /// Refuses what is only for points of one vector each.
    fn check_single(&self, what: &str, reason: &'static str) -> Result<(), WriteError> {
        if self.next.config.multi {
            return Err(WriteError::MultiVectors { what: what.to_owned(), reason });
        }
        Ok(())
    }

    pub(crate) fn new(store: &'a Store, state: &State) -> Draft<'a> {
        let mut next = state.clone();
        next.counters.sequence += 1;
        Draft {
            store,
            next,
            spaces: Spaces::new(),
            visible: Batch::default(),
            hidden: Batch::default(),
            is_rehearsal: false,
            prepared: None,
            ids: HashMap::new(),
        }
    }

    /// A write of points, which have vectors in all spaces.
    pub(crate) fn of_points(store: &'a Store, whole: &Whole) -> Draft<'a> {
        Draft { spaces: whole.spaces.clone(), ..Draft::new(store, &whole.base) }
    }

    /// A write that will not be committed: only its next state is of interest.
    pub(crate) fn rehearsal(store: &'a Store, state: &State) -> Draft<'a> {
        let mut draft = Draft { is_rehearsal: true, ..Draft::new(store, state) };
        // Nothing comes of it, so it may replace even what is the default.
        draft.next.default = None;
        draft
    }

    /// A write made for the sake of what it computes, which `prepared` takes. It will not be committed.
    pub(crate) fn preparing(store: &'a Store, state: &State, prepared: &'a mut Prepared) -> Draft<'a> {
        Draft { is_rehearsal: true, ..Draft::prepared(store, state, prepared) }
    }

    /// A write that computes only what `prepared` has not.
    pub(crate) fn prepared(store: &'a Store, state: &State, prepared: &'a mut Prepared) -> Draft<'a> {
        Draft { prepared: Some(prepared), ..Draft::new(store, state) }
    }

    /// Takes the record of a fit that this write completes, and what is kept for it in vain.
    pub(crate) fn end_pending(&mut self) {
        if let Some(keeper) = self.prepared.as_ref().and_then(|prepared| prepared.keeper.as_ref()) {
            let sets = &self.next.sets;
            keeper.record.delete(keeper.key, &mut self.visible, |number| sets.contains_key(&number));
        }
    }

    /// The states of all rows over the slots of a bank from `first` on; and the lists of `gates`, unless
    /// [`Draft::lists`] has them.
    fn states(
        &mut self,
        points: &Points<'_>,
        bank: (&Bank, FitBank<'_>),
        first: u32,
        statistics: &[Statistic],
        gates: &[usize],
    ) -> Result<(Vec<Made>, Vec<Activation>), WriteError> {
        match &mut self.prepared {
            Some(prepared) => {
                Ok((prepared.states(points, &self.next.live, bank, first, (statistics, gates))?, Vec::new()))
            }
            None => Ok(prepared::states_now(points, bank.1, first, statistics, gates)),
        }
    }

    /// The raw `k` best points of each of a bank's `slots`.
    fn lists(
        &mut self,
        points: &Points<'_>,
        bank: (&Bank, FitBank<'_>),
        slots: std::ops::Range<u32>,
        k: usize,
    ) -> Result<Activation, WriteError> {
        match &mut self.prepared {
            Some(prepared) => prepared.lists(points, bank, slots, k),
            None => Ok(fit_lists(points, 0, bank.0, bank.1, slots, k)),
        }
    }

    /// Appends the write to the store, durable with its next sync, and gives the state that is then true. It was made
    /// of `whole`, or of a space of it.
    pub(crate) fn append(mut self, whole: &Whole) -> Result<Whole, WriteError> {
        self.count();
        if !self.hidden.is_empty() {
            self.store.commit(std::mem::take(&mut self.hidden), Durability::Relaxed)?;
            FailPoint::BetweenPieces.reach();
        }
        let sequence = self.next.counters.sequence;
        let (next, changes) = match self.next.role {
            Role::Unnamed | Role::Points => {
                (Whole { base: self.next.into(), spaces: self.spaces }, self.visible)
            }
            Role::Space(..) => {
                let mut changes = self.store.as_of_whole(self.visible);
                let mut next = whole.with(self.next);
                sign_for_space(&mut next, &mut changes);
                changes.put(META, COUNTERS_KEY, &to_json(&Counters { sequence, ..whole.base.counters }));
                (next, changes)
            }
        };
        // Later in the log than what is hidden, so never durable without it.
        self.store.whole().commit(changes, Durability::Relaxed)?;
        Ok(next.at(sequence))
    }

    fn count(&mut self) {
        self.next.counters.next_row = self.next.row_count();
        self.sign();
        self.visible.put(META, COUNTERS_KEY, &to_json(&self.next.counters));
    }

    /// Makes a change of a named space, which is part of this write.
    fn in_space<T>(
        &mut self,
        name: &Name,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<Option<T>, WriteError> {
        let Some(state) = self.spaces.get(name).cloned() else { return Ok(None) };
        let Role::Space(_, number) = state.role else { return Ok(None) };
        let store = part(self.store, number);
        let mut space = Draft { ids: std::mem::take(&mut self.ids), ..Draft::new(&store, &state) };
        let outcome = change(&mut space)?;
        space.count();
        debug_assert!(space.hidden.is_empty(), "points are written in one batch");
        self.visible.append(store.as_of_whole(space.visible));
        self.ids = space.ids;
        self.spaces.insert(name.clone(), Arc::new(space.next));
        Ok(Some(outcome))
    }

    /// Puts data that no record names before this write is committed.
    fn put_hidden(
        &mut self,
        family: dehub_store::Family,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), WriteError> {
        if self.is_rehearsal {
            return Ok(());
        }
        self.hidden.put(family, key, value);
        if self.hidden.bytes() >= PIECE_BYTES {
            self.store.commit(std::mem::take(&mut self.hidden), Durability::Relaxed)?;
            FailPoint::BetweenPieces.reach();
        }
        Ok(())
    }

    /// The row of an id as this write leaves it.
    fn row(&self, id: &PointId) -> Result<Option<u32>, WriteError> {
        match self.ids.get(id) {
            Some(row) => Ok(*row),
            None => Ok(row_of(self.store, &id_key(id))?),
        }
    }

    /// Row → entry, for the entries of a bank that are points of this collection.
    fn own_entries(&self, bank: &Bank) -> Result<HashMap<u32, u32>, WriteError> {
        bank.own_entries(|id| self.row(id))
    }

    /// A number for a new set, whose place in the store is empty.
    fn new_set(&mut self) -> u32 {
        let number = self.next.counters.next_set;
        self.next.counters.next_set += 1;
        // An interrupted write may have left states under this number.
        for family in [STATES, POTENTIALS] {
            self.hidden.delete_range(family, &pair_key(number, 0), &pair_key(number, u32::MAX));
        }
        number
    }

    fn put_state(&mut self, set: u32, row: u32, state: &PointState) {
        self.visible.put(STATES, &pair_key(set, row), &state.encode());
    }

    fn put_list(&mut self, set: u32, entry: usize, list: &[dehub_vector::Candidate]) {
        let entry = u32::try_from(entry).expect("below BANK_ENTRIES_MAX");
        self.visible.put(STATES, &pair_key(set, entry), &list_bytes(list));
    }

    /// Makes a set known under its number.
    fn install(&mut self, number: u32, set: Set) {
        self.visible.put(SETS, &row_key(number), &to_json(&set.record()));
        self.next.sets.insert(number, set);
    }

    fn remove_set(&mut self, number: u32) {
        self.visible.delete(SETS, &row_key(number));
        for family in [STATES, POTENTIALS] {
            self.visible.delete_range(family, &pair_key(number, 0), &pair_key(number, u32::MAX));
        }
        self.next.sets.remove(&number);
    }

    /// Puts a correction with the floors that its columns now give.
    fn put_correction(&mut self, name: &Name, record: crate::record::CorrectionRecord) {
        let record = crate::record::CorrectionRecord { floors: self.next.floors(&record), ..record };
        self.visible.put(CORRECTIONS, name.as_str().as_bytes(), &to_json(&record));
        self.next.corrections.insert(name.clone(), record);
    }
}
