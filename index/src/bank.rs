//! Banks: named reference vectors that corrections are fitted from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dehub_normalize::BankKind;
use dehub_vector::{Chunked, PointId};

use crate::Name;
use crate::record::{BankRecord, id_key, vector_bytes};

/// Entries a bank can hold: a fit's time and an insert's time grow with it.
pub const BANK_ENTRIES_MAX: usize = 4_000_000;

/// A bank entry as it is given: its vector is not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryInput {
    /// Its id, unique in the bank. An entry of a gallery bank is left out of the statistics of the
    /// point of the same id: they are one and the same.
    pub id: Option<PointId>,
    /// Its vector's coordinates.
    pub vector: Vec<f32>,
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
}

/// A bank as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankInfo {
    /// Its name.
    pub name: Name,
    /// What its entries stand for.
    pub kind: BankKind,
    /// How many entries it has.
    pub entries: usize,
    /// The BLAKE3 chain over its entries, in hexadecimal: equal for equal entries in equal order.
    pub hash: String,
}

/// A bank in memory.
#[derive(Debug, Clone)]
pub(crate) struct Bank {
    pub(crate) number: u32,
    pub(crate) kind: BankKind,
    pub(crate) vectors: Chunked,
    pub(crate) by_id: Arc<HashMap<PointId, u32>>,
    pub(crate) hash: blake3::Hash,
}

impl Bank {
    pub(crate) fn new(number: u32, kind: BankKind, dim: usize) -> Bank {
        let hash = blake3::Hash::from_bytes([0; 32]);
        Bank { number, kind, vectors: Chunked::new(dim), by_id: Arc::default(), hash }
    }

    pub(crate) fn entries(&self) -> u32 {
        u32::try_from(self.vectors.len()).expect("below BANK_ENTRIES_MAX")
    }

    /// Appends an entry; the chain of hashes makes many small additions equal to one large one.
    pub(crate) fn push(&mut self, id: Option<&PointId>, vector: &[f32]) {
        if let Some(id) = id {
            let entry = self.entries();
            Arc::make_mut(&mut self.by_id).insert(id.clone(), entry);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.hash.as_bytes());
        hasher.update(&vector_bytes(vector));
        hasher.update(&id.map(id_key).unwrap_or_default());
        self.hash = hasher.finalize();
        self.vectors.push(vector);
    }

    /// The same bank without some of its entries; those that stay keep their order.
    pub(crate) fn without(&self, excluded: &HashSet<u32>) -> Bank {
        let ids: HashMap<u32, &PointId> = self.by_id.iter().map(|(id, &entry)| (entry, id)).collect();
        let mut kept = Bank::new(self.number, self.kind, self.vectors.width());
        for entry in (0..self.entries()).filter(|entry| !excluded.contains(entry)) {
            kept.push(ids.get(&entry).copied(), self.vectors.row(entry as usize));
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

    pub(crate) fn record(&self) -> BankRecord {
        BankRecord {
            number: self.number,
            gallery: self.kind == BankKind::Gallery,
            entries: self.entries(),
            hash: self.hash.to_hex().to_string(),
        }
    }

    pub(crate) fn info(&self, name: &Name) -> BankInfo {
        BankInfo {
            name: name.clone(),
            kind: self.kind,
            entries: self.vectors.len(),
            hash: self.hash.to_hex().to_string(),
        }
    }
}
