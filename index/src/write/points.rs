//! Writing and deleting points. Every fitted statistic is ready for a point in its own commit.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_normalize::{Bank as FitBank, Points, State as PointState, Statistic, fit_activation, fit_entries};
use dehub_vector::{CHUNK_ROWS, PointId, Vector};

use super::Draft;
use super::refit::fit_lists;
use crate::point::TEXT_BYTES_MAX;
use crate::record::{IDS, POINTS, STATES, VECTORS, id_key, pair_key, point_bytes, row_key, vector_bytes};
use crate::state::{Fitting, State};
use crate::{BATCH_POINTS_MAX, Name, PointInput, Receipt, WriteError};

/// Row numbers are kept below this, so that the last ones can mark the end of a range.
const ROWS_MAX: usize = u32::MAX as usize - 1;

impl Draft<'_> {
    /// Adds points, or replaces those whose id exists.
    pub(crate) fn upsert(&mut self, points: &[PointInput]) -> Result<Receipt, WriteError> {
        let vectors = check(&self.next, points)?;
        let first_row = self.next.row_count();
        let mut gone = Vec::new();
        for (point, vector) in points.iter().zip(&vectors) {
            self.unhold(&point.id);
            let replaced = self.row(&point.id)?;
            gone.extend(replaced);
            let row = self.next.row_count();
            self.next.push_row(vector);
            self.carry_priors(&point.id, replaced);
            self.next.live.insert(row);
            self.ids.insert(point.id.clone(), Some(row));
            let record = point_bytes(&point.id, point.text.as_deref(), point.payload.as_ref());
            self.next.columns.set(row, point.payload.as_ref())?;
            self.visible.put(IDS, &id_key(&point.id), &row_key(row));
            self.visible.put(POINTS, &row_key(row), &record);
            self.visible.put(VECTORS, &row_key(row), &vector_bytes(vector.as_slice()));
        }
        self.forget(&gone);
        let ids: Vec<&PointId> = points.iter().map(|point| &point.id).collect();
        self.fit_rows(first_row, &ids)?;
        self.repair_gates(&gone)?;
        let (added, replaced) = (points.len() - gone.len(), gone.len());
        Ok(Receipt { sequence: self.next.counters.sequence, added, replaced, deleted: 0 })
    }

    /// Removes the points with these ids, held ones included; an id that does not exist is no error.
    pub(crate) fn delete(&mut self, ids: &[PointId]) -> Result<Receipt, WriteError> {
        let mut gone = Vec::new();
        let mut unheld = 0;
        for id in ids {
            unheld += usize::from(self.unhold(id));
            if let Some(row) = self.row(id)? {
                gone.push(row);
                self.lose_priors(id);
                self.ids.insert(id.clone(), None);
                self.visible.delete(IDS, &id_key(id));
            }
        }
        self.forget(&gone);
        self.repair_gates(&gone)?;
        let deleted = gone.len() + unheld;
        Ok(Receipt { sequence: self.next.counters.sequence, added: 0, replaced: 0, deleted })
    }

    /// Takes rows out of the gallery and out of the store. Walks go over them by the codes in the graph.
    fn forget(&mut self, gone: &[u32]) {
        for &row in gone {
            self.next.live.remove(row);
            self.next.columns.forget(row);
            self.next.priors.values_mut().for_each(|prior| _ = prior.remove(row));
            self.visible.delete(POINTS, &row_key(row));
            self.visible.delete(VECTORS, &row_key(row));
            for (&number, set) in &self.next.sets {
                match set.fitted {
                    Fitting::Column { .. } => self.visible.delete(STATES, &pair_key(number, row)),
                    Fitting::Gate { .. } => {}
                }
            }
        }
        let mut chunks: Vec<usize> = gone.iter().map(|&row| row as usize / CHUNK_ROWS).collect();
        chunks.sort_unstable();
        chunks.dedup();
        self.next.clear_dead_chunks(chunks);
    }

    /// Extends every set to the rows from `first_row` on, which hold the points `ids`.
    fn fit_rows(&mut self, first_row: u32, ids: &[&PointId]) -> Result<(), WriteError> {
        let mut banks: Vec<Name> = self.next.sets.values().map(|set| set.bank.clone()).collect();
        banks.sort_unstable();
        banks.dedup();
        for name in banks {
            let own: Vec<Option<u32>> = ids.iter().map(|id| self.next.own_entry(&name, id)).collect();
            self.fit_rows_to(&name, first_row, &own);
        }
        Ok(())
    }

    fn fit_rows_to(&mut self, name: &Name, first_row: u32, own: &[Option<u32>]) {
        let (Some(bank), Some(absorbed)) = (self.next.banks.get(name).cloned(), self.absorbed(name)) else {
            return;
        };
        let vectors = self.next.vectors.clone();
        let live = self.next.live.clone();
        let points = Points {
            vectors: &vectors,
            live: &|row| live.contains(row),
            own_entry: &|row| own.get((row - first_row) as usize).copied().flatten(),
        };
        let fit_bank = bank.fit(self.next.config.metric);
        // Only over what the sets have taken in, so that all rows agree.
        let seen = 0..absorbed as usize;
        let (plain, with_potentials) = self.columns_over(name);
        let statistics: Vec<Statistic> = plain.iter().map(|&(_, statistic)| statistic).collect();
        let mut fitted: Vec<(u32, Statistic, Vec<PointState>)> = Vec::new();
        let states = fit_entries(&points, first_row as usize, fit_bank, seen.clone(), &statistics);
        fitted.extend(
            plain.into_iter().zip(states).map(|((number, statistic), states)| (number, statistic, states)),
        );
        for (number, statistic, potentials) in with_potentials {
            let bank = FitBank { potentials: Some(&potentials), ..fit_bank };
            let states = fit_entries(&points, first_row as usize, bank, seen.clone(), &[statistic]);
            fitted.extend(states.into_iter().map(|states| (number, statistic, states)));
        }
        for (number, statistic, states) in fitted {
            for (row, state) in (first_row..).zip(&states) {
                self.put_state(number, row, state);
                let set = self.next.sets.get_mut(&number);
                if let Some(Fitting::Column { column, .. }) = set.map(|set| &mut set.fitted) {
                    column.push(statistic.value(state, &bank.vectors), state.largest());
                }
            }
        }
        for (number, k) in self.gates_over(name) {
            let lists = fit_lists(&points, first_row as usize, &bank, fit_bank, 0..absorbed, k);
            self.change_gate(number, |activation| activation.merge(&lists));
        }
    }

    /// Refits the lists that held a row that is gone.
    fn repair_gates(&mut self, gone: &[u32]) -> Result<(), WriteError> {
        if gone.is_empty() {
            return Ok(());
        }
        let gates: Vec<(u32, Name)> = self.next.sets.iter().map(|(&n, set)| (n, set.bank.clone())).collect();
        for (number, name) in gates {
            let Some(Fitting::Gate { activation, .. }) = self.next.sets.get(&number).map(|set| &set.fitted)
            else {
                continue;
            };
            let holding = activation.holding(|row| gone.contains(&row));
            let k = activation.k();
            let Some(bank) = self.next.banks.get(&name).filter(|_| !holding.is_empty()) else { continue };
            let own = self.own_entries(bank)?;
            let (vectors, live) = (&self.next.vectors, &self.next.live);
            let points =
                Points { vectors, live: &|row| live.contains(row), own_entry: &|row| own.get(&row).copied() };
            let fit_bank = bank.fit(self.next.config.metric);
            let entries: Vec<u32> =
                holding.iter().map(|&entry| u32::try_from(entry).expect("below BANK_ENTRIES_MAX")).collect();
            let lists = fit_activation(&points, 0, fit_bank, &entries, k);
            self.change_gate(number, |activation| {
                let new = holding.iter().zip(lists.lists());
                new.for_each(|(&entry, list)| activation.replace(entry, list.clone()));
                holding.clone()
            });
        }
        Ok(())
    }

    /// Applies a change to a gate and puts the lists it names.
    fn change_gate(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut dehub_normalize::Activation) -> Vec<usize>,
    ) {
        let Some(set) = self.next.sets.get_mut(&number) else { return };
        let Fitting::Gate { activation, rows } = &mut set.fitted else { return };
        let changed = change(Arc::make_mut(activation));
        if changed.is_empty() {
            return;
        }
        *rows = activation.rows().into_iter().collect();
        let activation = Arc::clone(activation);
        changed.into_iter().for_each(|entry| self.put_list(number, entry, &activation.lists()[entry]));
    }

    fn gates_over(&self, bank: &Name) -> Vec<(u32, usize)> {
        let gate = |(&number, set): (&u32, &crate::state::Set)| match &set.fitted {
            Fitting::Gate { activation, .. } if set.bank == *bank => Some((number, activation.k())),
            Fitting::Column { .. } | Fitting::Gate { .. } => None,
        };
        self.next.sets.iter().filter_map(gate).collect()
    }
}

fn check(state: &State, points: &[PointInput]) -> Result<Vec<Vector>, WriteError> {
    if points.len() > BATCH_POINTS_MAX {
        return Err(WriteError::BatchTooLarge { found: points.len() });
    }
    if state.vectors.len() + points.len() > ROWS_MAX {
        return Err(WriteError::TooManyPoints { found: state.vectors.len() });
    }
    let mut places = HashMap::new();
    let check = |(place, point): (usize, &PointInput)| {
        if let Some(first) = places.insert(point.id.clone(), place) {
            return Err(WriteError::DuplicateId { item: "point", place, first, id: point.id.clone() });
        }
        if let Some(found) = point.text.as_ref().map(String::len).filter(|&found| found > TEXT_BYTES_MAX) {
            return Err(WriteError::TextTooLong { place, id: point.id.clone(), found });
        }
        Vector::new(&point.vector, state.config.dim, state.config.metric)
            .map_err(|source| WriteError::Vector { item: "point", place, id: Some(point.id.clone()), source })
    };
    points.iter().enumerate().map(check).collect()
}
