//! What a change of a bank does to the sets over it.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_normalize::{
    Activation, Bank as FitBank, Points, State as PointState, Statistic, fit_activation, fit_entries,
    fit_states, rows_holding, shard_entries, shard_of,
};

use super::Draft;
use super::prepared::Made;
use super::sets::{Balance, Potent};
use crate::bank::Bank;
use crate::state::{Fitting, Set, State};
use crate::{Name, WriteError};

/// A column's set, its statistic and the states of all rows.
type Column = (u32, Statistic, Vec<PointState>);

/// Everything fitting over a bank needs, as it was before the write touched the sets.
struct Fit<'a> {
    bank: &'a Bank,
    state: &'a State,
    own: &'a HashMap<u32, u32>,
}

impl Fit<'_> {
    fn over<T>(&self, fit: impl FnOnce(&Points<'_>, FitBank<'_>) -> T) -> T {
        let points = Points {
            vectors: &self.state.vectors,
            live: &|row| self.state.live.contains(row),
            own_entry: &|row| self.own.get(&row).copied(),
        };
        fit(&points, self.bank.fit(self.state.config.metric))
    }

    /// The states of all rows over the bank without `removed`, from those with them: shards that lose an
    /// entry are summed again, and rows that kept one are fitted again.
    fn without(&self, removed: &[u32], columns: &mut [Column]) {
        let mut shards: Vec<usize> = removed.iter().map(|&slot| shard_of(slot)).collect();
        shards.dedup();
        let statistics: Vec<Statistic> = columns.iter().map(|column| column.1).collect();
        for shard in shards {
            let sums = statistics.iter().copied().filter(|statistic| statistic.is_sum());
            let sums: Vec<Statistic> = sums.collect();
            let mut entries = shard_entries(shard);
            entries.end = entries.end.min(self.bank.vectors.len());
            let anew = self.over(|points, bank| fit_entries(points, 0, bank, entries, &sums));
            let changed = columns.iter_mut().filter(|column| column.1.is_sum());
            for ((_, _, states), anew) in changed.zip(&anew) {
                states.iter_mut().zip(anew).for_each(|(state, anew)| state.replace_shard(shard, anew));
            }
        }
        for (_, statistic, states) in columns.iter_mut().filter(|column| !column.1.is_sum()) {
            let rows = self.over(|points, bank| rows_holding(points, bank, removed, states));
            let rows: Vec<u32> = rows.into_iter().filter(|&row| self.state.live.contains(row)).collect();
            for (row, state) in rows.iter().zip(self.fit_some(&rows, *statistic)) {
                states[*row as usize] = state;
            }
        }
    }

    /// The states of some rows.
    fn fit_some(&self, rows: &[u32], statistic: Statistic) -> Vec<PointState> {
        let mut vectors = self.state.vectors.empty_like();
        rows.iter().for_each(|&row| vectors.push(self.state.vectors.row(row as usize)));
        let own_entry = |place: u32| self.own.get(&rows[place as usize]).copied();
        let points = Points { vectors: &vectors, live: &|_| true, own_entry: &own_entry };
        let bank = self.bank.fit(self.state.config.metric);
        fit_states(&points, 0, bank, 0, &[statistic]).pop().unwrap_or_default()
    }
}

/// The raw `k` best points of each of a bank's `slots`; none for a dead one.
pub(crate) fn fit_lists(
    points: &Points<'_>,
    first_row: usize,
    bank: &Bank,
    fit_bank: FitBank<'_>,
    slots: std::ops::Range<u32>,
    k: usize,
) -> Activation {
    let live: Vec<u32> = slots.clone().filter(|&slot| bank.weight(slot) > 0.0).collect();
    let fitted = fit_activation(points, first_row, fit_bank, &live, k);
    if live.len() == slots.len() {
        return fitted;
    }
    let mut lists = vec![Vec::new(); slots.len()];
    for (slot, list) in live.iter().zip(fitted.lists()) {
        lists[(slot - slots.start) as usize].clone_from(list);
    }
    Activation::from_lists(k, lists)
}

impl Draft<'_> {
    /// The slots of a bank its sets have taken in; `None` if there is no set.
    pub(super) fn absorbed(&self, bank: &Name) -> Option<u32> {
        self.next.sets.values().filter(|set| set.bank == *bank).map(|set| set.absorbed).min()
    }

    /// Brings every set over a bank up to all its entries, and to the loss of those that were `removed`,
    /// ascending.
    pub(super) fn update_sets(&mut self, name: &Name, removed: &[u32]) -> Result<(), WriteError> {
        self.balance_beside(name)?;
        let (Some(absorbed), Some(bank)) = (self.absorbed(name), self.next.banks.get(name).cloned()) else {
            self.raise_versions(name);
            return Ok(());
        };
        let (own, state) = (self.own_entries(&bank)?, self.next.clone());
        let fit = Fit { bank: &bank, state: &state, own: &own };
        let removed = &removed[..removed.partition_point(|&slot| slot < absorbed)];
        let (plain, with_potentials) = self.columns_over(name);
        let statistics: Vec<Statistic> = plain.iter().map(|&(_, statistic)| statistic).collect();
        let later = fit
            .over(|points, fit_bank| self.states(points, (&bank, fit_bank), absorbed, &statistics, &[]))?
            .0;
        let mut columns: Vec<Column> = Vec::new();
        for ((number, statistic), later) in plain.into_iter().zip(later) {
            let mut states = Arc::unwrap_or_clone(later.states);
            self.merge_stored(number, statistic, &mut states)?;
            columns.push((number, statistic, states));
        }
        if !removed.is_empty() {
            fit.without(removed, &mut columns);
        }
        for (number, statistic, states) in columns {
            self.remove_set(number);
            self.install_column(Balance::of(name), statistic, &Made::new(states), None)?;
        }
        let places: Vec<u32> = (0..bank.slots()).collect();
        self.balance_anew(name, &fit, with_potentials, &places)?;
        for (number, activation) in gates(&state, name) {
            self.update_gate(name, &fit, number, activation, removed)?;
        }
        self.raise_versions(name);
        Ok(())
    }

    fn update_gate(
        &mut self,
        name: &Name,
        fit: &Fit<'_>,
        number: u32,
        activation: &Arc<Activation>,
        removed: &[u32],
    ) -> Result<(), WriteError> {
        let (k, slots) = (activation.k(), fit.bank.slots());
        let absorbed = u32::try_from(activation.lists().len()).expect("below BANK_ENTRIES_MAX");
        let later = fit.over(|points, bank| self.lists(points, (fit.bank, bank), absorbed..slots, k))?;
        let mut grown = Arc::unwrap_or_clone(Arc::clone(activation));
        grown.extend(later);
        removed.iter().for_each(|&slot| grown.replace(slot as usize, Vec::new()));
        for slot in removed.iter().copied().chain(absorbed..slots) {
            self.put_list(number, slot as usize, &grown.lists()[slot as usize]);
        }
        self.install(number, Set::gate(name.clone(), grown));
        Ok(())
    }

    /// Fits every set over a bank anew. Slot `i` of the bank was slot `places[i]` when the sets were
    /// fitted; the lists of gates do not depend on weights and move along.
    pub(super) fn refit(&mut self, name: &Name, places: &[u32]) -> Result<(), WriteError> {
        self.balance_beside(name)?;
        let Some(bank) = self.next.banks.get(name).cloned() else { return Ok(()) };
        let (own, state) = (self.own_entries(&bank)?, self.next.clone());
        let fit = Fit { bank: &bank, state: &state, own: &own };
        let (plain, with_potentials) = self.columns_over(name);
        let statistics: Vec<Statistic> = plain.iter().map(|&(_, statistic)| statistic).collect();
        let states = fit.over(|points, bank| fit_states(points, 0, bank, 0, &statistics));
        for ((number, statistic), states) in plain.into_iter().zip(states) {
            self.remove_set(number);
            self.install_column(Balance::of(name), statistic, &Made::new(states), None)?;
        }
        self.balance_anew(name, &fit, with_potentials, places)?;
        for (number, activation) in gates(&state, name) {
            let absorbed = activation.lists().len();
            let known = places.partition_point(|&place| (place as usize) < absorbed);
            let slots = u32::try_from(known).expect("below BANK_ENTRIES_MAX")..bank.slots();
            let k = activation.k();
            let list = |(slot, &place): (u32, &u32)| {
                let is_live = bank.weight(slot) > 0.0;
                if is_live { activation.lists()[place as usize].clone() } else { Vec::new() }
            };
            let mut moved = Activation::from_lists(k, (0..).zip(&places[..known]).map(list).collect());
            moved.extend(fit.over(|points, fit_bank| fit_lists(points, 0, &bank, fit_bank, slots, k)));
            self.remove_set(number);
            self.install_gate(name, moved)?;
        }
        self.raise_versions(name);
        Ok(())
    }

    /// Balances Sinkhorn statistics anew, each from its potentials of before.
    fn balance_anew(
        &mut self,
        name: &Name,
        fit: &Fit<'_>,
        sets: Vec<Potent>,
        places: &[u32],
    ) -> Result<(), WriteError> {
        for (number, statistic, potentials) in sets {
            self.remove_set(number);
            let known: Vec<Option<f32>> =
                places.iter().map(|&place| potentials.get(place as usize).copied()).collect();
            let start = extended(&known, fit.bank);
            let beside = fit.state.sets.get(&number).and_then(|set| set.beside.as_ref());
            let balance = Balance { bank: name, beside };
            fit.over(|points, bank| {
                self.install_balanced(balance, points, (fit.bank, bank), statistic, Some(&start))
            })?;
        }
        Ok(())
    }
}

fn gates<'a>(state: &'a State, bank: &Name) -> Vec<(u32, &'a Arc<Activation>)> {
    let gate = |(&number, set): (&u32, &'a Set)| match &set.fitted {
        Fitting::Gate { activation, .. } if set.bank == *bank => Some((number, activation)),
        Fitting::Column { .. } | Fitting::Gate { .. } => None,
    };
    state.sets.iter().filter_map(gate).collect()
}

/// Potentials with the missing ones at the mean of those of entries.
#[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^24")]
fn extended(known: &[Option<f32>], bank: &Bank) -> Vec<f32> {
    let of_entries = (0..).zip(known).filter(|&(slot, _)| bank.weight(slot) > 0.0);
    let of_entries: Vec<f32> = of_entries.filter_map(|(_, potential)| *potential).collect();
    let mean = of_entries.iter().sum::<f32>() / of_entries.len().max(1) as f32;
    known.iter().map(|potential| potential.unwrap_or(mean)).collect()
}
