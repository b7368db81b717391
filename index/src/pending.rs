//! Fits that are not complete: what each is for, and the states it has put into the store so far. No record of
//! a set names these, so nothing serves them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dehub_normalize::{Method, State as PointState, Statistic};
use dehub_store::{Batch, Durability, FailPoint, Store};
use serde::{Deserialize, Serialize};

use crate::record::{
    META, PENDING_PREFIX, STATES, SetKind, damaged, from_json, pair_key, pending_key, read_pair, read_u32,
    to_json,
};
use crate::row_set::RowSet;
use crate::write::{FitInput, PIECE_BYTES};
use crate::{Name, ReadError, WriteError};

/// A fit that was begun and is not complete.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingFit {
    /// What is fitted.
    pub inputs: Vec<FitInput>,
    /// The part that is kept, 0 to 1.
    pub share: f64,
}

/// A fit as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingRecord {
    pub inputs: Vec<StoredInput>,
    /// The set numbers reserved for it.
    pub numbers: Vec<u32>,
    pub columns: Vec<PendingColumn>,
    /// The work in all, as its progress counts.
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredInput {
    pub name: Name,
    pub method: String,
    pub query_bank: Option<Name>,
    pub gallery_bank: Option<Name>,
}

/// The states of the first rows for a statistic over the first slots of a bank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingColumn {
    /// Their set number.
    pub number: u32,
    pub kind: SetKind,
    /// The bank's number.
    pub bank: u32,
    pub slots: u32,
    /// The bank's hash over these slots.
    pub hash: String,
    pub rows: u32,
}

/// The fits of a collection that are not complete, by their first set number.
pub(crate) type PendingFits = Arc<Mutex<BTreeMap<u32, PendingRecord>>>;

pub(crate) fn locked(fits: &PendingFits) -> MutexGuard<'_, BTreeMap<u32, PendingRecord>> {
    fits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoredInput {
    pub(crate) fn new(input: &FitInput) -> StoredInput {
        StoredInput {
            name: input.name.clone(),
            method: input.method.to_string(),
            query_bank: input.query_bank.clone(),
            gallery_bank: input.gallery_bank.clone(),
        }
    }

    fn read(&self) -> Option<FitInput> {
        let method: Method = self.method.parse().ok()?;
        let (name, query_bank) = (self.name.clone(), self.query_bank.clone());
        Some(FitInput { name, method, query_bank, gallery_bank: self.gallery_bank.clone() })
    }
}

impl PendingRecord {
    pub(crate) fn inputs(&self) -> Vec<FitInput> {
        self.inputs.iter().filter_map(StoredInput::read).collect()
    }

    /// The work that is done.
    pub(crate) fn done(&self) -> u64 {
        self.columns.iter().map(|column| u64::from(column.rows)).sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    pub(crate) fn fit(&self) -> PendingFit {
        let share = self.done() as f64 / self.total.max(self.done()).max(1) as f64;
        PendingFit { inputs: self.inputs(), share }
    }

    /// Takes the record, and all states under its numbers that no set has, out of the store.
    pub(crate) fn delete(&self, key: u32, batch: &mut Batch, is_set: impl Fn(u32) -> bool) {
        batch.delete(META, &pending_key(key));
        for &number in self.numbers.iter().filter(|&&number| !is_set(number)) {
            batch.delete_range(STATES, &pair_key(number, 0), &pair_key(number, u32::MAX));
        }
    }
}

/// Reads the fits of a store that are not complete.
pub(crate) fn read_all(store: &Store) -> Result<PendingFits, ReadError> {
    let mut fits = BTreeMap::new();
    for item in store.scan_prefix(META, PENDING_PREFIX) {
        let (key, value) = item?;
        let record: PendingRecord = from_json(META, &value)?;
        if record.inputs().len() != record.inputs.len() {
            return Err(damaged(META, "a fit that is not complete names an unknown method").into());
        }
        fits.insert(read_u32(META, &key[PENDING_PREFIX.len()..])?, record);
    }
    Ok(Arc::new(Mutex::new(fits)))
}

/// A fit that keeps what it has done.
pub(crate) struct Keeper {
    store: Arc<Store>,
    fits: PendingFits,
    pub(crate) key: u32,
    pub(crate) record: PendingRecord,
}

impl Keeper {
    pub(crate) fn new(store: &Arc<Store>, fits: &PendingFits, key: u32, record: PendingRecord) -> Keeper {
        Keeper { store: Arc::clone(store), fits: Arc::clone(fits), key, record }
    }

    /// A reserved number that has no states.
    pub(crate) fn free_number(&self) -> Option<u32> {
        let is_free = |number: &u32| self.record.columns.iter().all(|column| column.number != *number);
        self.record.numbers.iter().copied().find(is_free)
    }

    /// Begins to keep a column.
    pub(crate) fn add(&mut self, column: PendingColumn) {
        self.record.columns.push(column);
    }

    /// Puts the states of the rows from `first` on under a number, and says in the same commit that they are there.
    pub(crate) fn keep(
        &mut self,
        number: u32,
        first: usize,
        states: &[PointState],
        live: &RowSet,
    ) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        let rows = (0_u32..).zip(states).skip(first).filter(|&(row, _)| live.contains(row));
        for (row, state) in rows {
            batch.put(STATES, &pair_key(number, row), &state.encode());
            if batch.bytes() >= PIECE_BYTES {
                self.store.commit(std::mem::take(&mut batch), Durability::Relaxed)?;
            }
        }
        let rows = u32::try_from(states.len()).expect("rows are numbered by u32; a write beyond is refused");
        let column = self.record.columns.iter_mut().find(|column| column.number == number);
        column.into_iter().for_each(|column| column.rows = rows);
        self.put(batch)
    }

    /// Forgets a column, and frees its number.
    pub(crate) fn forget(&mut self, number: u32) -> Result<(), WriteError> {
        self.record.columns.retain(|column| column.number != number);
        let mut batch = Batch::default();
        batch.delete_range(STATES, &pair_key(number, 0), &pair_key(number, u32::MAX));
        self.put(batch)
    }

    fn put(&self, mut batch: Batch) -> Result<(), WriteError> {
        batch.put(META, &pending_key(self.key), &to_json(&self.record));
        self.store.commit(batch, Durability::Relaxed)?;
        FailPoint::FitPieceKept.reach();
        locked(&self.fits).insert(self.key, self.record.clone());
        Ok(())
    }

    /// The states of a column, one for each of its rows.
    pub(crate) fn read(
        &self,
        column: &PendingColumn,
    ) -> Result<Option<(Statistic, Vec<PointState>)>, WriteError> {
        let Some(statistic) = column.kind.statistic() else { return Ok(None) };
        let mut states = vec![statistic.empty(); column.rows as usize];
        let (first, end) = (pair_key(column.number, 0), pair_key(column.number, column.rows));
        for item in self.store.scan(STATES, &first, Some(&end)) {
            let (key, value) = item?;
            let (_, row) = read_pair(STATES, &key)?;
            let state = statistic.decode(&value)?;
            if !state.is_within(column.slots as usize) {
                return Err(
                    damaged(STATES, "a fit that is not complete names an entry beyond its bank").into()
                );
            }
            states[row as usize] = state;
        }
        Ok(Some((statistic, states)))
    }
}
