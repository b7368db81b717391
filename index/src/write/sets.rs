//! Sets: the states of every point for one statistic, and the columns they give.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use dehub_normalize::{Activation, Bank as FitBank, Points, State as PointState, Statistic};
use dehub_vector::Chunked;

use super::Draft;
use super::banks::unknown_bank;
use super::prepared::{BalanceOf, Made, balance_now};
use crate::bank::Bank;
use crate::correction::Column;
use crate::record::{POTENTIALS, STATES, list_bytes, pair_key, read_pair, vector_bytes};
use crate::state::{Fitting, Set};
use crate::{Name, WriteError};

/// A column's set, its statistic and the potentials it is fitted with.
pub(super) type Potent = (u32, Statistic, Arc<Vec<f32>>);

/// What a balance is between: the query bank, and perhaps a gallery bank beside the points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Balance<'a> {
    pub(super) bank: &'a Name,
    pub(super) beside: Option<&'a Name>,
}

impl<'a> Balance<'a> {
    /// Of one bank, as of every statistic but one.
    pub(super) fn of(bank: &'a Name) -> Balance<'a> {
        Balance { bank, beside: None }
    }
}

impl Draft<'_> {
    /// The columns over a bank: those that need its vectors alone, and those that need potentials.
    pub(super) fn columns_over(&self, bank: &Name) -> (Vec<(u32, Statistic)>, Vec<Potent>) {
        let (mut plain, mut with_potentials) = (Vec::new(), Vec::new());
        for (&number, set) in self.next.sets.iter().filter(|(_, set)| set.bank == *bank) {
            match &set.fitted {
                Fitting::Column { statistic, potentials: None, .. } => plain.push((number, *statistic)),
                Fitting::Column { statistic, potentials: Some(potentials), .. } => {
                    with_potentials.push((number, *statistic, Arc::clone(potentials)));
                }
                Fitting::Gate { .. } => {}
            }
        }
        (plain, with_potentials)
    }

    /// Balances anew what depends on a gallery bank that has changed.
    pub(super) fn balance_beside(&mut self, changed: &Name) -> Result<(), WriteError> {
        let beside = self.next.sets.values().filter(|set| set.beside.as_ref() == Some(changed));
        let banks: BTreeSet<Name> = beside.map(|set| set.bank.clone()).collect();
        for name in banks {
            let Some(bank) = self.next.banks.get(&name).cloned() else { continue };
            if self.absorbed(&name).is_some_and(|absorbed| absorbed < bank.slots()) {
                // All sets of a bank take in its entries together, and are balanced with it.
                self.update_sets(&name, &[])?;
                continue;
            }
            let state = self.next.clone();
            // No entry of a query bank is a point.
            let points = Points {
                vectors: &state.vectors,
                live: &|row| state.live.contains(row),
                own_entry: &|_| None,
            };
            let sets = state.sets.iter().filter(|(_, set)| set.bank == name);
            for (&number, set) in sets.filter(|(_, set)| set.beside.as_ref() == Some(changed)) {
                let Fitting::Column { statistic, potentials, .. } = &set.fitted else { continue };
                let balance = Balance { bank: &name, beside: Some(changed) };
                let start = potentials.as_ref().map(|potentials| potentials.as_slice());
                self.remove_set(number);
                self.install_balanced(
                    balance,
                    &points,
                    (&bank, bank.fit(state.config.metric)),
                    *statistic,
                    start,
                )?;
            }
        }
        Ok(())
    }

    /// The entries of a bank that are no points of the collection.
    fn entries_beside(&self, name: &Name) -> Result<Chunked, WriteError> {
        let bank = self.next.banks.get(name).ok_or_else(|| unknown_bank(&self.next, name))?;
        let own = self.own_entries(bank)?;
        let points: HashSet<u32> = own
            .into_iter()
            .filter(|&(row, _)| self.next.live.contains(row))
            .map(|(_, entry)| entry)
            .collect();
        let mut others = bank.vectors.empty_like();
        let entries = bank.live_from(0).filter(|entry| !points.contains(entry));
        entries.for_each(|entry| others.push(bank.vectors.row(entry as usize)));
        Ok(others)
    }

    /// Fits and installs a Sinkhorn statistic, from earlier potentials if there are some.
    pub(super) fn install_balanced(
        &mut self,
        balance: Balance<'_>,
        points: &Points<'_>,
        (bank, fit_bank): (&Bank, FitBank<'_>),
        statistic: Statistic,
        start: Option<&[f32]>,
    ) -> Result<(), WriteError> {
        let entries = balance.beside.map(|name| self.entries_beside(name)).transpose()?;
        let beside = balance.beside.and_then(|name| self.next.banks.get(name)).cloned();
        let of = BalanceOf { statistic, bank, beside: beside.as_ref().zip(entries.as_ref()), start };
        let (potentials, states) = match &mut self.prepared {
            Some(prepared) => prepared.balanced(points, self.next.live.len(), fit_bank, of)?,
            None => balance_now(points, fit_bank, of),
        };
        self.install_column(balance, statistic, &states, Some(potentials))
    }

    /// Merges the states a set has in the store into `states`, a state a row.
    pub(super) fn merge_stored(
        &self,
        set: u32,
        statistic: Statistic,
        states: &mut [PointState],
    ) -> Result<(), WriteError> {
        for item in self.store.scan(STATES, &pair_key(set, 0), Some(&pair_key(set, u32::MAX))) {
            let (key, value) = item?;
            let (_, row) = read_pair(STATES, &key)?;
            let earlier = statistic.decode(&value)?;
            if let Some(state) = states.get_mut(row as usize) {
                let later = std::mem::replace(state, earlier);
                state.merge(&later);
            }
        }
        Ok(())
    }

    /// Installs a set with the given states, a state a row, and its column.
    pub(super) fn install_column(
        &mut self,
        Balance { bank, beside }: Balance<'_>,
        statistic: Statistic,
        Made { states, kept }: &Made,
        potentials: Option<Vec<f32>>,
    ) -> Result<(), WriteError> {
        let kept = kept.filter(|_| !self.is_rehearsal);
        let (number, kept_rows) = match kept {
            Some((number, rows)) => (number, rows),
            None => (self.new_set(), 0),
        };
        for (entry, &potential) in (0..).zip(potentials.iter().flatten()) {
            self.put_hidden(POTENTIALS, &pair_key(number, entry), &vector_bytes(&[potential]))?;
        }
        let Some((vectors, absorbed)) =
            self.next.banks.get(bank).map(|bank| (bank.vectors.clone(), bank.slots()))
        else {
            return Err(unknown_bank(&self.next, bank));
        };
        let values: Vec<f64> = states.iter().map(|state| statistic.value(state, &vectors)).collect();
        let center = if statistic.is_centred() { self.mean_over_live(&values) } else { 0.0 };
        let mut column = Column::new(statistic, center, vectors.len());
        let mut gone = 0;
        for (row, state) in (0..).zip(states.iter()) {
            let (live, is_kept) = (self.next.live.contains(row), (row as usize) < kept_rows);
            if !live && is_kept {
                self.hidden.delete(STATES, &pair_key(number, row));
            }
            if live {
                if !is_kept {
                    self.put_hidden(STATES, &pair_key(number, row), &state.encode())?;
                }
                column.push_gone(std::mem::take(&mut gone));
                column.push(values[row as usize], state.largest());
            } else {
                gone += 1;
            }
        }
        column.push_gone(gone);
        let fitted = Fitting::Column { statistic, column, potentials: potentials.map(Arc::new) };
        self.install(number, Set { bank: bank.clone(), absorbed, beside: beside.cloned(), fitted });
        Ok(())
    }

    /// Installs a new gate with these lists.
    pub(super) fn install_gate(&mut self, bank: &Name, activation: Activation) -> Result<(), WriteError> {
        let number = self.new_set();
        for (slot, list) in (0..).zip(activation.lists()) {
            self.put_hidden(STATES, &pair_key(number, slot), &list_bytes(list))?;
        }
        self.install(number, Set::gate(bank.clone(), activation));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    fn mean_over_live(&self, values: &[f64]) -> f64 {
        let live = self.next.live.iter().map(|row| values[row as usize]);
        let count = self.next.live.len();
        if count == 0 { 0.0 } else { live.sum::<f64>() / count as f64 }
    }
}
