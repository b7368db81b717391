//! Banks: named reference vectors that corrections are fitted from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dehub_normalize::{Bank as FitBank, BankKind};
use dehub_vector::{Chunked, Metric, Numbers, PointId};

use crate::Name;
use crate::record::{BankRecord, id_key, vector_bytes};

/// Entries a bank can hold: a fit's time and an insert's time grow with it.
pub const BANK_ENTRIES_MAX: usize = 4_000_000;

/// The largest weight of a bank entry: beyond it, the others would be lost in the last digits.
pub const WEIGHT_MAX: f32 = 1e6;

/// A bank entry as it is given: its vector is not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryInput {
    /// Its id, unique in the bank. An entry of a gallery bank is left out of the statistics of the
    /// point of the same id: they are one and the same.
    pub id: Option<PointId>,
    /// Its vector's coordinates; those of several, where points have several.
    pub vector: Numbers,
    /// How many entries it counts as: above 0, at most [`WEIGHT_MAX`].
    pub weight: f32,
}

impl EntryInput {
    /// An entry that counts once.
    pub fn new(id: Option<PointId>, vector: impl Into<Numbers>) -> EntryInput {
        EntryInput { id, vector: vector.into(), weight: 1.0 }
    }
}

/// Entries to add to a bank, which is made if it does not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct BankUpdate {
    /// The bank.
    pub name: Name,
    /// What its entries stand for.
    pub kind: BankKind,
    /// The new entries.
    pub entries: Vec<EntryInput>,
    /// Store the entries now, and let corrections take them in later, with
    /// [`Collection::absorb`](crate::Collection::absorb).
    pub defer: bool,
}

/// Which entries of a bank are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntrySelector {
    /// Those with these ids.
    Ids(Vec<PointId>),
    /// Those with these numbers, which count up from 0 as entries are added. Numbers change when a bank
    /// is compacted, after more than half of its entries were removed.
    Numbers(Vec<u32>),
}

/// A bank as readers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct BankInfo {
    /// Its name.
    pub name: Name,
    /// What its entries stand for.
    pub kind: BankKind,
    /// How many entries it has.
    pub entries: usize,
    /// The sum of their weights.
    pub weight: f64,
    /// The BLAKE3 chain over its entries, in hexadecimal: equal for equal entries in equal order.
    pub hash: String,
}

/// A bank in memory. An entry's number is that of its slot; the slot of an entry that was removed is dead.
#[derive(Debug, Clone)]
pub(crate) struct Bank {
    pub(crate) number: u32,
    pub(crate) kind: BankKind,
    pub(crate) vectors: Chunked,
    /// A weight a slot, 0 for a dead one.
    weights: Chunked,
    /// Whether every slot has weight 1.
    is_plain: bool,
    /// Where the store has the weights that are not 1.
    pub(crate) table: Option<u32>,
    pub(crate) by_id: Arc<HashMap<PointId, u32>>,
    live: usize,
    total: f64,
    hash: blake3::Hash,
}

impl Bank {
    /// An empty bank, whose entries are to be rows of `vectors`.
    pub(crate) fn new(number: u32, kind: BankKind, vectors: Chunked) -> Bank {
        Bank {
            number,
            kind,
            vectors,
            weights: Chunked::new(1),
            is_plain: true,
            table: None,
            by_id: Arc::default(),
            live: 0,
            total: 0.0,
            hash: NO_HASH,
        }
    }

    /// How many slots there are, dead ones included.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.vectors.len()).expect("below BANK_ENTRIES_MAX")
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The sum of their weights.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    pub(crate) fn weight(&self, slot: u32) -> f32 {
        self.weights.at(slot as usize)
    }

    /// The slots of entries, from `first` on.
    pub(crate) fn live_from(&self, first: u32) -> impl Iterator<Item = u32> {
        (first..self.slots()).filter(|&slot| self.weight(slot) > 0.0)
    }

    /// The bank as fitting sees it.
    pub(crate) fn fit(&self, metric: Metric) -> FitBank<'_> {
        let weights = (!self.is_plain).then_some(&self.weights);
        FitBank { weights, ..FitBank::new(&self.vectors, metric) }
    }

    /// Appends an entry; the chain of hashes makes many small additions equal to one large one.
    pub(crate) fn push(&mut self, id: Option<&PointId>, vector: &[f32], weight: f32) {
        if let Some(id) = id {
            let entry = self.slots();
            Arc::make_mut(&mut self.by_id).insert(id.clone(), entry);
        }
        self.hash = self.chained(self.hash, id, vector, weight);
        self.vectors.push(vector);
        self.weights.push(&[weight]);
        self.is_plain &= weight == 1.0;
        self.live += 1;
        self.total += f64::from(weight);
    }

    /// Appends the slot of an entry that was removed.
    pub(crate) fn push_dead(&mut self) {
        self.vectors.push_zeros(1);
        self.weights.push(&[0.0]);
        self.is_plain = false;
    }

    /// The same bank with other weights, 0 for entries to remove; dead slots stay dead.
    pub(crate) fn reweighed(&self, weight_of: impl Fn(u32) -> f32) -> Bank {
        let mut bank = Bank { is_plain: true, live: 0, total: 0.0, hash: NO_HASH, ..self.clone() };
        bank.weights = Chunked::new(1);
        let ids = self.ids();
        for slot in 0..self.slots() {
            let weight = if self.weight(slot) > 0.0 { weight_of(slot) } else { 0.0 };
            bank.weights.push(&[weight]);
            bank.is_plain &= weight == 1.0;
            if weight > 0.0 {
                let id = ids.get(&slot).copied();
                bank.hash = self.chained(bank.hash, id, self.vectors.row(slot as usize), weight);
                bank.live += 1;
                bank.total += f64::from(weight);
            } else if let Some(&id) = ids.get(&slot) {
                Arc::make_mut(&mut bank.by_id).remove(id);
            }
        }
        bank
    }

    /// The id of each slot that has one.
    pub(crate) fn ids(&self) -> HashMap<u32, &PointId> {
        self.by_id.iter().map(|(id, &slot)| (slot, id)).collect()
    }

    /// The same bank without the entries in some slots; those that stay keep their order.
    pub(crate) fn without(&self, excluded: &HashSet<u32>) -> Bank {
        let ids = self.ids();
        let mut kept = Bank::new(self.number, self.kind, self.vectors.empty_like());
        for slot in self.live_from(0).filter(|slot| !excluded.contains(slot)) {
            kept.push(ids.get(&slot).copied(), self.vectors.row(slot as usize), self.weight(slot));
        }
        kept
    }

    /// The entry that is the point `id`, for a gallery bank.
    pub(crate) fn own_entry(&self, id: &PointId) -> Option<u32> {
        match self.kind {
            BankKind::Query => None,
            BankKind::Gallery => self.by_id.get(id).copied(),
        }
    }

    /// Row → entry, for the entries that are points; `row` gives the row of a point.
    pub(crate) fn own_entries<E>(
        &self,
        row: impl Fn(&PointId) -> Result<Option<u32>, E>,
    ) -> Result<HashMap<u32, u32>, E> {
        let mut own = HashMap::new();
        for (id, &entry) in self.by_id.iter() {
            if self.own_entry(id).is_some()
                && let Some(row) = row(id)?
            {
                own.insert(row, entry);
            }
        }
        Ok(own)
    }

    pub(crate) fn record(&self) -> BankRecord {
        BankRecord {
            number: self.number,
            gallery: self.kind == BankKind::Gallery,
            slots: self.slots(),
            entries: u32::try_from(self.live).expect("below BANK_ENTRIES_MAX"),
            table: self.table,
            hash: self.hash.to_hex().to_string(),
        }
    }

    /// Whether the first `slots` slots are those of a bank of this number and hash.
    pub(crate) fn starts_as(&self, number: u32, slots: u32, hash: &str) -> bool {
        if self.number != number || self.slots() < slots {
            return false;
        }
        if self.slots() == slots {
            return self.hash.to_hex().as_str() == hash;
        }
        let ids = self.ids();
        let entry = |start, slot| {
            let vector = self.vectors.row(slot as usize);
            self.chained(start, ids.get(&slot).copied(), vector, self.weight(slot))
        };
        let live = (0..slots).filter(|&slot| self.weight(slot) > 0.0);
        live.fold(NO_HASH, entry).to_hex().as_str() == hash
    }

    pub(crate) fn info(&self, name: &Name) -> BankInfo {
        BankInfo {
            name: name.clone(),
            kind: self.kind,
            entries: self.live,
            weight: self.total,
            hash: self.hash.to_hex().to_string(),
        }
    }

    /// The hash of a bank with one more entry.
    fn chained(&self, hash: blake3::Hash, id: Option<&PointId>, vector: &[f32], weight: f32) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(hash.as_bytes());
        if self.vectors.is_ragged() {
            // Or the end of the vectors and the start of the id would not be told.
            hasher.update(&(vector.len() as u64).to_le_bytes());
        }
        hasher.update(&vector_bytes(vector));
        if weight != 1.0 {
            // No id starts like this.
            hasher.update(&[2]);
            hasher.update(&weight.to_le_bytes());
        }
        hasher.update(&id.map(id_key).unwrap_or_default());
        hasher.finalize()
    }
}

const NO_HASH: blake3::Hash = blake3::Hash::from_bytes([0; 32]);
