//! Growing and dropping banks. Every statistic fitted from a bank absorbs its new entries in the
//! commit that adds them; the graph is never touched.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_normalize::{Bank as FitBank, BankKind, Points, Statistic, fit_activation, fit_states};
use dehub_vector::{PointId, Vector};

use super::Draft;
use crate::bank::Bank;
use crate::record::{BANKS, ENTRIES, id_key, pair_key, to_json, vector_bytes};
use crate::state::{Fitting, Set, State};
use crate::{BANK_ENTRIES_MAX, BankUpdate, EntryInput, Name, Receipt, WriteError};

impl Draft<'_> {
    /// Adds entries to a bank, which is made if it does not exist.
    pub(crate) fn add_to_bank(&mut self, update: &BankUpdate) -> Result<Receipt, WriteError> {
        let name = &update.name;
        let mut bank = match self.next.banks.get(name) {
            Some(bank) => bank.clone(),
            None => self.new_bank(update.kind),
        };
        let vectors = check(&self.next, &bank, update)?;
        let first_entry = bank.vectors.len();
        for (entry, vector) in update.entries.iter().zip(&vectors) {
            let mut value = vector_bytes(vector.as_slice());
            value.extend(entry.id.as_ref().map(id_key).unwrap_or_default());
            self.put_hidden(ENTRIES, &pair_key(bank.number, bank.entries()), &value)?;
            bank.push(entry.id.as_ref(), vector.as_slice());
        }
        self.visible.put(BANKS, name.as_str().as_bytes(), &to_json(&bank.record()));
        self.next.banks.insert(name.clone(), bank);
        if !vectors.is_empty() {
            self.absorb(name, first_entry)?;
        }
        let added = vectors.len();
        Ok(Receipt { sequence: self.next.counters.sequence, added, replaced: 0, deleted: 0 })
    }

    /// Makes a gallery bank of every point there is, each entry under the id of its point.
    pub(crate) fn bank_from_gallery(&mut self, name: &Name) -> Result<Receipt, WriteError> {
        let rows: Vec<u32> = self.next.live.iter().collect();
        if rows.is_empty() {
            return Err(WriteError::EmptyGallery { bank: name.clone() });
        }
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            let key = crate::record::row_key(row);
            let record = self.store.get(crate::record::POINTS, &key)?;
            let bytes = record.ok_or_else(|| {
                crate::record::damaged(crate::record::POINTS, format!("row {row} has no record"))
            })?;
            let id = crate::record::read_point(&bytes)?.id;
            entries.push(EntryInput { id: Some(id), vector: self.next.vectors.row(row as usize).to_vec() });
        }
        self.add_to_bank(&BankUpdate { name: name.clone(), kind: BankKind::Gallery, entries })
    }

    /// Drops a bank that no correction is fitted from.
    pub(crate) fn drop_bank(&mut self, name: &Name) -> Result<(), WriteError> {
        let Some(bank) = self.next.banks.get(name) else { return Err(unknown_bank(&self.next, name)) };
        let uses = |record: &crate::record::CorrectionRecord| {
            [&record.query_bank, &record.gallery_bank].into_iter().flatten().any(|bank| bank == name)
        };
        let used_by: Vec<_> = self
            .next
            .corrections
            .iter()
            .filter(|(_, record)| uses(record))
            .map(|(own, _)| own.as_str())
            .collect();
        if !used_by.is_empty() {
            return Err(WriteError::BankInUse { bank: name.clone(), used_by: used_by.join(", ") });
        }
        self.visible.delete(BANKS, name.as_str().as_bytes());
        self.visible.delete_range(ENTRIES, &pair_key(bank.number, 0), &pair_key(bank.number, u32::MAX));
        self.next.banks.remove(name);
        Ok(())
    }

    fn new_bank(&mut self, kind: BankKind) -> Bank {
        let number = self.next.counters.next_bank;
        self.next.counters.next_bank += 1;
        Bank::new(number, kind, self.next.config.dim.get())
    }

    /// Brings every set over a bank up to its entries from `first_entry` on.
    fn absorb(&mut self, name: &Name, first_entry: usize) -> Result<(), WriteError> {
        let sets = self.sets_over(name);
        let Some(bank) = self.next.banks.get(name).filter(|_| !sets.is_empty()).cloned() else {
            return Ok(());
        };
        let own = self.own_entries(&bank)?;
        let state = self.next.clone();
        let points = Points {
            vectors: &state.vectors,
            live: &|row| state.live.contains(row),
            own_entry: &|row| own.get(&row).copied(),
        };
        let fit_bank = FitBank::new(&bank.vectors, state.config.metric);
        let (plain, with_potentials) = self.columns_over(name);
        let statistics: Vec<Statistic> = plain.iter().map(|&(_, statistic)| statistic).collect();
        let later = fit_states(&points, 0, fit_bank, first_entry, &statistics);
        for ((number, statistic), mut states) in plain.into_iter().zip(later) {
            self.merge_stored(number, statistic, &mut states)?;
            self.remove_set(number);
            self.install_column(name, statistic, &states, None)?;
        }
        for (number, statistic, potentials) in with_potentials {
            self.remove_set(number);
            self.install_balanced(name, &points, fit_bank, statistic, Some(&potentials))?;
        }
        let entries: Vec<u32> = (0..bank.entries()).skip(first_entry).collect();
        for number in sets {
            let Some(Fitting::Gate { activation, .. }) = state.sets.get(&number).map(|set| &set.fitted)
            else {
                continue;
            };
            let lists = fit_activation(&points, 0, fit_bank, &entries, activation.k());
            let places = entries.iter().zip(lists.lists());
            places.for_each(|(&entry, list)| self.put_list(number, entry as usize, list));
            let mut grown = Arc::clone(activation);
            Arc::make_mut(&mut grown).extend(lists);
            self.install(number, Set::gate(name.clone(), Arc::unwrap_or_clone(grown)));
        }
        self.raise_versions(name);
        Ok(())
    }

    fn raise_versions(&mut self, bank: &Name) {
        let sequence = self.next.counters.sequence;
        for (name, mut record) in self.next.corrections.clone() {
            if record.query_bank.as_ref() == Some(bank) || record.gallery_bank.as_ref() == Some(bank) {
                record.version += 1;
                record.sequence = sequence;
                self.put_correction(&name, record);
            }
        }
    }
}

pub(crate) fn unknown_bank(state: &State, name: &Name) -> WriteError {
    let found: Vec<_> = state.banks.keys().map(Name::as_str).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    WriteError::UnknownBank { bank: name.clone(), found }
}

fn check(state: &State, bank: &Bank, update: &BankUpdate) -> Result<Vec<Vector>, WriteError> {
    if bank.kind != update.kind {
        let (bank, found, wanted) = (update.name.clone(), bank.kind, update.kind);
        return Err(WriteError::BankKind { bank, wanted, found });
    }
    let entries = bank.vectors.len() + update.entries.len();
    if entries > BANK_ENTRIES_MAX {
        let bank = update.name.clone();
        return Err(WriteError::BankTooLarge { bank, found: entries, most: BANK_ENTRIES_MAX });
    }
    let mut seen: HashMap<&PointId, usize> = HashMap::new();
    let check = |(place, entry): (usize, &EntryInput)| {
        if let Some(id) = entry.id.as_ref().filter(|id| bank.by_id.contains_key(id)) {
            return Err(WriteError::EntryExists { place, id: id.clone(), bank: update.name.clone() });
        }
        Vector::new(&entry.vector, state.config.dim, state.config.metric)
            .map_err(|source| WriteError::Vector { item: "bank entry", place, id: entry.id.clone(), source })
    };
    let vectors = update.entries.iter().enumerate().map(check).collect::<Result<Vec<_>, _>>()?;
    for (place, entry) in update.entries.iter().enumerate() {
        let Some(id) = &entry.id else { continue };
        if let Some(first) = seen.insert(id, place) {
            return Err(WriteError::DuplicateId { item: "bank entry", place, first, id: id.clone() });
        }
    }
    Ok(vectors)
}
