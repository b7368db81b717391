//! Growing, weakening, shrinking and dropping banks. Every statistic fitted from a bank follows its
//! entries in the commit that changes them, unless that is deferred; the graph is never touched.

use std::collections::{BTreeSet, HashMap};

use dehub_normalize::BankKind;
use dehub_vector::{PointId, Vector};

use super::Draft;
use crate::bank::Bank;
use crate::record::{BANKS, ENTRIES, WEIGHTS, entry_bytes, pair_key, to_json};
use crate::state::State;
use crate::{BANK_ENTRIES_MAX, BankUpdate, EntryInput, EntrySelector, Name, Receipt, WEIGHT_MAX, WriteError};

impl Draft<'_> {
    /// Adds entries to a bank, which is made if it does not exist.
    pub(crate) fn add_to_bank(&mut self, update: &BankUpdate) -> Result<Receipt, WriteError> {
        let name = &update.name;
        let mut bank = match self.next.banks.get(name) {
            Some(bank) => bank.clone(),
            None => self.new_bank(update.kind),
        };
        let vectors = check(&self.next, &bank, update)?;
        self.put_weights(&mut bank, update.entries.iter().map(|entry| entry.weight))?;
        for (entry, vector) in update.entries.iter().zip(&vectors) {
            let value = entry_bytes(entry.id.as_ref(), vector.as_slice(), &self.next.config);
            self.put_hidden(ENTRIES, &pair_key(bank.number, bank.slots()), &value)?;
            bank.push(entry.id.as_ref(), vector.as_slice(), entry.weight);
        }
        self.put_bank(name, bank);
        if update.defer {
            // Nothing over another bank can lag behind this one, so balances beside it are not deferred.
            self.balance_beside(name)?;
        } else if !vectors.is_empty() {
            self.update_sets(name, &[])?;
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
            let record = self.store.whole().get(crate::record::POINTS, &key)?;
            let bytes = record.ok_or_else(|| {
                crate::record::damaged(crate::record::POINTS, format!("row {row} has no record"))
            })?;
            let id = crate::record::read_point(&bytes)?.id;
            let vector = self.next.config.numbers(self.next.vectors.row(row as usize));
            entries.push(EntryInput::new(Some(id), vector));
        }
        self.add_to_bank(&BankUpdate { name: name.clone(), kind: BankKind::Gallery, entries, defer: false })
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
        self.check_not_live(name)?;
        self.visible.delete(BANKS, name.as_str().as_bytes());
        let bank = bank.clone();
        self.delete_entries(&bank);
        self.next.banks.remove(name);
        Ok(())
    }

    /// Removes the entries meant from a bank and from everything fitted over it.
    pub(crate) fn remove_from_bank(
        &mut self,
        name: &Name,
        entries: &EntrySelector,
    ) -> Result<Receipt, WriteError> {
        let bank = self.bank(name)?;
        let is_live = |slot: &u32| *slot < bank.slots() && bank.weight(*slot) > 0.0;
        let meant: Vec<u32> = match entries {
            EntrySelector::Ids(ids) => ids.iter().filter_map(|id| bank.by_id.get(id).copied()).collect(),
            EntrySelector::Numbers(numbers) => numbers.clone(),
        };
        let removed: BTreeSet<u32> = meant.into_iter().filter(is_live).collect();
        let deleted = removed.len();
        if deleted > 0 {
            let weight = |slot| if removed.contains(&slot) { 0.0 } else { bank.weight(slot) };
            let left = bank.reweighed(weight);
            if is_mostly_dead(&left) {
                self.compact(name, &left)?;
            } else {
                self.delete_slots(&left, removed.iter().copied());
                self.put_bank(name, left);
                self.update_sets(name, &removed.into_iter().collect::<Vec<_>>())?;
            }
        }
        Ok(Receipt { sequence: self.next.counters.sequence, added: 0, replaced: 0, deleted })
    }

    /// Removes entries and adds others. Everything fitted over the bank follows once for both.
    pub(crate) fn exchange_in_bank(
        &mut self,
        name: &Name,
        removed: &[PointId],
        added: Vec<EntryInput>,
    ) -> Result<Receipt, WriteError> {
        let bank = self.bank(name)?;
        let removed = self.slots_of(name, removed)?;
        let weight = |slot| if removed.contains(&slot) { 0.0 } else { bank.weight(slot) };
        let mut left = if removed.is_empty() { bank.clone() } else { bank.reweighed(weight) };
        let update = BankUpdate { name: name.clone(), kind: bank.kind, entries: added, defer: false };
        let vectors = check(&self.next, &left, &update)?;
        let (deleted, added, first) = (removed.len(), vectors.len(), left.slots());
        let receipt = Receipt { sequence: self.next.counters.sequence, added, replaced: 0, deleted };
        let entries = || update.entries.iter().zip(&vectors);
        if 2 * (left.len() + added) < left.slots() as usize + added {
            entries().for_each(|(it, vector)| left.push(it.id.as_ref(), vector.as_slice(), it.weight));
            self.compact(name, &left)?;
            return Ok(receipt);
        }
        self.put_weights(&mut left, update.entries.iter().map(|entry| entry.weight))?;
        for (slot, (entry, vector)) in (first..).zip(entries()) {
            let value = entry_bytes(entry.id.as_ref(), vector.as_slice(), &self.next.config);
            self.put_hidden(ENTRIES, &pair_key(bank.number, slot), &value)?;
            left.push(entry.id.as_ref(), vector.as_slice(), entry.weight);
        }
        self.delete_slots(&left, removed.iter().copied());
        self.put_bank(name, left);
        if added + deleted > 0 {
            self.update_sets(name, &removed.into_iter().collect::<Vec<_>>())?;
        }
        Ok(receipt)
    }

    /// Multiplies the weights of a bank, removes entries that fall below a limit, and fits everything over
    /// the bank anew: with other weights, other entries are the nearest.
    pub(crate) fn scale_bank(
        &mut self,
        name: &Name,
        factor: f32,
        drop_below: f32,
    ) -> Result<Receipt, WriteError> {
        let range = |parameter, found, fits, wanted| {
            if fits { Ok(()) } else { Err(WriteError::Decay { parameter, found, wanted }) }
        };
        range("factor", factor, factor > 0.0 && factor <= 1.0, "a number above 0, at most 1")?;
        let fits = (0.0..=WEIGHT_MAX).contains(&drop_below);
        range("drop_below", drop_below, fits, "a number from 0 to 1000000")?;
        let bank = self.bank(name)?;
        let scaled = |slot| {
            let weight = bank.weight(slot) * factor;
            // Below this a number in 32 bits loses its digits.
            if weight < drop_below.max(f32::MIN_POSITIVE) { 0.0 } else { weight }
        };
        let mut left = bank.reweighed(scaled);
        let deleted = bank.len() - left.len();
        if is_mostly_dead(&left) {
            self.compact(name, &left)?;
        } else if factor < 1.0 || deleted > 0 {
            let gone: Vec<u32> = bank.live_from(0).filter(|&slot| left.weight(slot) == 0.0).collect();
            self.delete_slots(&left, gone.into_iter());
            self.replace_weights(&mut left)?;
            let places: Vec<u32> = (0..left.slots()).collect();
            self.put_bank(name, left);
            self.refit(name, &places)?;
        }
        Ok(Receipt { sequence: self.next.counters.sequence, added: 0, replaced: 0, deleted })
    }

    /// Brings every set over a bank up to date.
    pub(crate) fn absorb_deferred(&mut self, name: &Name) -> Result<Receipt, WriteError> {
        let bank = self.bank(name)?;
        let absorbed = self.absorbed(name);
        let added = absorbed.map_or(0, |absorbed| bank.live_from(absorbed).count());
        if absorbed.is_some_and(|absorbed| absorbed < bank.slots()) {
            self.update_sets(name, &[])?;
        }
        Ok(Receipt { sequence: self.next.counters.sequence, added, replaced: 0, deleted: 0 })
    }

    pub(super) fn bank(&self, name: &Name) -> Result<Bank, WriteError> {
        self.next.banks.get(name).cloned().ok_or_else(|| unknown_bank(&self.next, name))
    }

    fn put_bank(&mut self, name: &Name, bank: Bank) {
        self.visible.put(BANKS, name.as_str().as_bytes(), &to_json(&bank.record()));
        self.next.banks.insert(name.clone(), bank);
    }

    /// Takes all records of a bank's entries out of the store.
    fn delete_entries(&mut self, bank: &Bank) {
        self.visible.delete_range(ENTRIES, &pair_key(bank.number, 0), &pair_key(bank.number, u32::MAX));
        if let Some(table) = bank.table {
            self.visible.delete_range(WEIGHTS, &pair_key(table, 0), &pair_key(table, u32::MAX));
        }
    }

    fn delete_slots(&mut self, bank: &Bank, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            self.visible.delete(ENTRIES, &pair_key(bank.number, slot));
            if let Some(table) = bank.table {
                self.visible.delete(WEIGHTS, &pair_key(table, slot));
            }
        }
    }

    /// Puts the weights of the slots a bank is about to get, those that are not 1; the first such weight
    /// gives it a table.
    fn put_weights(
        &mut self,
        bank: &mut Bank,
        weights: impl Iterator<Item = f32> + Clone,
    ) -> Result<(), WriteError> {
        if bank.table.is_none() && weights.clone().all(|weight| weight == 1.0) {
            return Ok(());
        }
        let table = match bank.table {
            Some(table) => table,
            None => self.new_bank_number(),
        };
        bank.table = Some(table);
        let first = bank.slots();
        // An interrupted write may have left weights here.
        self.hidden.delete_range(WEIGHTS, &pair_key(table, first), &pair_key(table, u32::MAX));
        for (slot, weight) in (first..).zip(weights).filter(|&(_, weight)| weight != 1.0) {
            self.put_hidden(WEIGHTS, &pair_key(table, slot), &weight.to_le_bytes())?;
        }
        Ok(())
    }

    /// Puts all weights of a bank into a new table: the old one is read until the bank's record names it.
    fn replace_weights(&mut self, bank: &mut Bank) -> Result<(), WriteError> {
        if let Some(table) = bank.table.take() {
            self.visible.delete_range(WEIGHTS, &pair_key(table, 0), &pair_key(table, u32::MAX));
        }
        let table = self.new_bank_number();
        bank.table = Some(table);
        self.hidden.delete_range(WEIGHTS, &pair_key(table, 0), &pair_key(table, u32::MAX));
        for slot in bank.live_from(0) {
            let weight = bank.weight(slot);
            if weight != 1.0 {
                self.put_hidden(WEIGHTS, &pair_key(table, slot), &weight.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Numbers the entries of a bank anew, without gaps, and fits everything over it anew.
    fn compact(&mut self, name: &Name, old: &Bank) -> Result<(), WriteError> {
        let mut bank = self.new_bank(old.kind);
        let places: Vec<u32> = old.live_from(0).collect();
        let ids = old.ids();
        self.put_weights(&mut bank, places.iter().map(|&slot| old.weight(slot)))?;
        for &slot in &places {
            let (id, vector) = (ids.get(&slot).copied(), old.vectors.row(slot as usize));
            let value = entry_bytes(id, vector, &self.next.config);
            self.put_hidden(ENTRIES, &pair_key(bank.number, bank.slots()), &value)?;
            bank.push(id, vector, old.weight(slot));
        }
        self.delete_entries(old);
        self.put_bank(name, bank);
        self.refit(name, &places)
    }

    fn new_bank_number(&mut self) -> u32 {
        let number = self.next.counters.next_bank;
        self.next.counters.next_bank += 1;
        number
    }

    fn new_bank(&mut self, kind: BankKind) -> Bank {
        let number = self.new_bank_number();
        Bank::new(number, kind, self.next.config.rows())
    }

    pub(super) fn raise_versions(&mut self, bank: &Name) {
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

/// Whether a bank has more dead slots than entries.
fn is_mostly_dead(bank: &Bank) -> bool {
    2 * bank.len() < bank.slots() as usize
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
        if !(entry.weight > 0.0 && entry.weight <= WEIGHT_MAX) {
            return Err(WriteError::Weight { place, found: entry.weight });
        }
        let vector = state.config.vector(&entry.vector);
        vector.map_err(|source| WriteError::Vector {
            item: "bank entry",
            place,
            id: entry.id.clone(),
            source,
        })
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
