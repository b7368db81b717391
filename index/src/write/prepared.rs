//! What a fit computes before it takes the writer's lock, and how that is brought up to date.
//!
//! The write of a fit is made twice: first beside a state that is soon an old one, without the lock and for the
//! sake of what it computes, and then under the lock, where only what happened meanwhile is left to compute.
//! Rows and bank entries that are new are added. A bank that is anything but longer is fitted from anew.

use std::ops::Range;
use std::sync::Arc;

use dehub_normalize::{
    Activation, Bank as FitBank, Points, State as PointState, Statistic, fit_activation, fit_entries,
    fit_potentials, fit_potentials_while, fit_rows, fit_states, fit_together,
};
use dehub_vector::Chunked;

use super::refit::fit_lists;
use crate::bank::Bank;
use crate::pending::{Keeper, PendingColumn};
use crate::record::{BankRecord, SetKind};
use crate::row_set::RowSet;
use crate::{FitProgress, WriteError};

/// Bank entries a gate is fitted for between two looks at the word to stop.
const GATE_PIECE_SLOTS: u32 = 4096;

/// The states of all rows for a statistic, and the set number under which the first rows have theirs in the store.
pub(super) struct Made {
    pub(super) states: Arc<Vec<PointState>>,
    pub(super) kept: Option<(u32, usize)>,
}

impl Made {
    pub(super) fn new(states: Vec<PointState>) -> Made {
        Made { states: Arc::new(states), kept: None }
    }
}

/// What a balance is fitted from.
#[derive(Clone, Copy)]
pub(super) struct BalanceOf<'a> {
    pub(super) statistic: Statistic,
    pub(super) bank: &'a Bank,
    /// The bank beside the points, and its entries that are no points.
    pub(super) beside: Option<(&'a Bank, &'a Chunked)>,
    pub(super) start: Option<&'a [f32]>,
}

struct PreparedColumn {
    statistic: Statistic,
    bank: u32,
    /// The bank's slots the states are over.
    slots: Range<u32>,
    /// The bank's hash when it had that many slots.
    hash: String,
    states: Arc<Vec<PointState>>,
    /// The number they are kept under while the fit is pending.
    number: Option<u32>,
}

struct PreparedBalance {
    statistic: Statistic,
    bank: BankRecord,
    beside: Option<BankRecord>,
    start: Option<Vec<f32>>,
    rows: usize,
    live: usize,
    potentials: Vec<f32>,
    states: Arc<Vec<PointState>>,
}

struct PreparedGate {
    bank: u32,
    slots: Range<u32>,
    hash: String,
    rows: usize,
    activation: Activation,
}

/// What a fit has computed so far.
pub(crate) struct Prepared {
    progress: FitProgress,
    pub(crate) keeper: Option<Keeper>,
    /// Whether the writer's lock is held, and the fit must end.
    pub(crate) is_last: bool,
    columns: Vec<PreparedColumn>,
    balances: Vec<PreparedBalance>,
    gates: Vec<PreparedGate>,
}

impl Prepared {
    /// Begins with what `keeper` has, of work that is `total` in all.
    pub(crate) fn new(
        progress: &FitProgress,
        keeper: Option<Keeper>,
        total: u64,
    ) -> Result<Prepared, WriteError> {
        let mut columns = Vec::new();
        for column in keeper.iter().flat_map(|keeper| &keeper.record.columns) {
            let read = keeper.as_ref().map(|keeper| keeper.read(column)).transpose()?.flatten();
            let Some((statistic, states)) = read else { continue };
            columns.push(PreparedColumn {
                statistic,
                bank: column.bank,
                slots: 0..column.slots,
                hash: column.hash.clone(),
                states: Arc::new(states),
                number: Some(column.number),
            });
        }
        progress.begin(columns.iter().map(|column| column.states.len() as u64).sum(), total);
        let progress = progress.clone();
        Ok(Prepared { progress, keeper, is_last: false, columns, balances: Vec::new(), gates: Vec::new() })
    }

    /// Whether a balance was made.
    pub(crate) fn is_balanced(&self) -> bool {
        !self.balances.is_empty()
    }

    /// The states of all rows over the slots of a bank from `first` on. When no row has any, the lists of
    /// `gates` are made in the same pass.
    pub(super) fn states(
        &mut self,
        points: &Points<'_>,
        live: &RowSet,
        (bank, fit_bank): (&Bank, FitBank<'_>),
        first: u32,
        (statistics, gates): (&[Statistic], &[usize]),
    ) -> Result<Vec<Made>, WriteError> {
        self.drop_outdated(bank)?;
        for &statistic in statistics {
            if self.place(bank, first, statistic).is_none() {
                let number = if first == 0 { self.keep_column(bank, statistic)? } else { None };
                self.columns.push(PreparedColumn {
                    statistic,
                    bank: bank.number,
                    slots: first..bank.slots(),
                    hash: bank.record().hash,
                    states: Arc::default(),
                    number,
                });
            }
        }
        let places = statistics.iter().filter_map(|&statistic| self.place(bank, first, statistic));
        let mut places: Vec<usize> = places.collect();
        let is_fresh = |place: &usize| {
            self.columns[*place].states.is_empty() && self.columns[*place].slots == (0..bank.slots())
        };
        let has_gates = self.gates.iter().any(|gate| gate.bank == bank.number);
        if !gates.is_empty() && !places.is_empty() && !has_gates && places.iter().all(is_fresh) {
            self.add_all(&places, points, live, (bank, fit_bank), gates)?;
        }
        self.add_rows(&places, points, live, fit_bank)?;
        self.add_entries(&places, points, live, bank, fit_bank)?;
        let made = |place: usize| {
            let column = &self.columns[place];
            let kept = column.number.map(|number| (number, self.kept_rows(number)));
            Made { states: Arc::clone(&column.states), kept }
        };
        Ok(places.drain(..).map(made).collect())
    }

    fn place(&self, bank: &Bank, first: u32, statistic: Statistic) -> Option<usize> {
        let is_it = |column: &PreparedColumn| {
            column.bank == bank.number && column.slots.start == first && column.statistic == statistic
        };
        self.columns.iter().position(is_it)
    }

    /// Forgets what was fitted from the bank when it was no beginning of what it is now.
    fn drop_outdated(&mut self, bank: &Bank) -> Result<(), WriteError> {
        let mut kept = Vec::new();
        for column in std::mem::take(&mut self.columns) {
            let is_outdated =
                column.bank == bank.number && !bank.starts_as(bank.number, column.slots.end, &column.hash);
            if is_outdated {
                self.progress.repeat(column.states.len() as u64);
                self.forget(column.number)?;
            } else {
                kept.push(column);
            }
        }
        self.columns = kept;
        Ok(())
    }

    /// Fits all rows, and the lists of gates with them.
    fn add_all(
        &mut self,
        places: &[usize],
        points: &Points<'_>,
        live: &RowSet,
        (bank, fit_bank): (&Bank, FitBank<'_>),
        gates: &[usize],
    ) -> Result<(), WriteError> {
        let (rows, piece) = (points.vectors.len(), self.progress.piece_rows());
        let statistics: Vec<Statistic> = places.iter().map(|&place| self.columns[place].statistic).collect();
        let none = vec![Vec::new(); bank.slots() as usize];
        let mut activations: Vec<Activation> =
            gates.iter().map(|&k| Activation::from_lists(k, none.clone())).collect();
        for first in (0..rows).step_by(piece) {
            self.progress.check()?;
            let span = first..(first + piece).min(rows);
            let (fitted, lists) = fit_together(points, span.clone(), fit_bank, &statistics, gates);
            for (&place, states) in places.iter().zip(fitted) {
                Arc::make_mut(&mut self.columns[place].states).extend(states);
                self.keep(place, first, live)?;
            }
            activations.iter_mut().zip(&lists).for_each(|(all, lists)| _ = all.merge(lists));
            self.advance(span.len() * (places.len() + gates.len()));
        }
        let (number, slots, hash) = (bank.number, 0..bank.slots(), bank.record().hash);
        let gate = |activation| PreparedGate {
            bank: number,
            slots: slots.clone(),
            hash: hash.clone(),
            rows,
            activation,
        };
        self.gates.extend(activations.into_iter().map(gate));
        Ok(())
    }

    /// Fits the rows that columns do not have yet, those with equally many together.
    fn add_rows(
        &mut self,
        places: &[usize],
        points: &Points<'_>,
        live: &RowSet,
        bank: FitBank<'_>,
    ) -> Result<(), WriteError> {
        let rows = points.vectors.len();
        loop {
            let state =
                |&place: &usize| (self.columns[place].states.len(), self.columns[place].slots.clone());
            let Some((first, slots)) = places.iter().map(state).min_by_key(|(first, _)| *first) else {
                break;
            };
            if first >= rows {
                break;
            }
            self.progress.check()?;
            let piece = self.progress.piece_rows();
            let next = places.iter().map(|place| state(place).0).filter(|&later| later > first).min();
            let end = ((first / piece + 1) * piece).min(next.unwrap_or(rows)).min(rows);
            let here: Vec<usize> =
                places.iter().copied().filter(|place| state(place) == (first, slots.clone())).collect();
            let statistics: Vec<Statistic> =
                here.iter().map(|&place| self.columns[place].statistic).collect();
            let entries = slots.start as usize..slots.end as usize;
            let fitted = fit_rows(points, first..end, bank, entries, &statistics);
            for (&place, states) in here.iter().zip(fitted) {
                Arc::make_mut(&mut self.columns[place].states).extend(states);
                self.keep(place, first, live)?;
            }
            self.advance((end - first) * here.len());
        }
        Ok(())
    }

    /// Merges the entries that columns have not seen yet into all rows.
    fn add_entries(
        &mut self,
        places: &[usize],
        points: &Points<'_>,
        live: &RowSet,
        bank: &Bank,
        fit_bank: FitBank<'_>,
    ) -> Result<(), WriteError> {
        let (rows, piece) = (points.vectors.len(), self.progress.piece_rows());
        for &place in places {
            let PreparedColumn { statistic, slots: Range { start, end: seen }, number, .. } =
                self.columns[place];
            if seen == bank.slots() {
                continue;
            }
            let mut later = Vec::with_capacity(rows);
            for first in (0..rows).step_by(piece) {
                self.progress.check()?;
                let (span, new) = (first..(first + piece).min(rows), seen as usize..bank.slots() as usize);
                later.extend(fit_rows(points, span, fit_bank, new, &[statistic]).pop().unwrap_or_default());
                self.show();
            }
            let states = Arc::make_mut(&mut self.columns[place].states);
            states.iter_mut().zip(&later).for_each(|(state, later)| state.merge(later));
            self.columns[place].slots = start..bank.slots();
            self.columns[place].hash = bank.record().hash;
            if number.is_some() {
                // Those that are kept are over fewer entries, so these go under another number.
                self.forget(number)?;
                self.columns[place].number = self.keep_column(bank, statistic)?;
                self.keep(place, 0, live)?;
            }
        }
        Ok(())
    }

    fn keep_column(&mut self, bank: &Bank, statistic: Statistic) -> Result<Option<u32>, WriteError> {
        let Some(keeper) = self.keeper.as_mut().filter(|_| !self.is_last) else { return Ok(None) };
        let Some(number) = keeper.free_number() else { return Ok(None) };
        let BankRecord { number: bank, slots, hash, .. } = bank.record();
        keeper.add(PendingColumn { number, kind: SetKind::of(statistic), bank, slots, hash, rows: 0 });
        Ok(Some(number))
    }

    fn keep(&mut self, place: usize, first: usize, live: &RowSet) -> Result<(), WriteError> {
        let PreparedColumn { states, number, .. } = &self.columns[place];
        match (self.keeper.as_mut().filter(|_| !self.is_last), *number) {
            (Some(keeper), Some(number)) => keeper.keep(number, first, states, live),
            (_, _) => Ok(()),
        }
    }

    fn kept_rows(&self, number: u32) -> usize {
        let columns = self.keeper.iter().flat_map(|keeper| &keeper.record.columns);
        columns.filter(|column| column.number == number).map(|column| column.rows as usize).sum()
    }

    fn forget(&mut self, number: Option<u32>) -> Result<(), WriteError> {
        match (&mut self.keeper, number) {
            (Some(keeper), Some(number)) => keeper.forget(number),
            (_, _) => Ok(()),
        }
    }

    /// The potentials of a bank's entries, and the states of all rows with them. Potentials of other points are made
    /// anew, but under the lock: points that came or went since are served by the balance there is.
    pub(super) fn balanced(
        &mut self,
        points: &Points<'_>,
        live: usize,
        fit_bank: FitBank<'_>,
        of: BalanceOf<'_>,
    ) -> Result<(Vec<f32>, Made), WriteError> {
        let (bank, beside) = (of.bank.record(), of.beside.map(|(bank, _)| bank.record()));
        let rows = points.vectors.len();
        let is_it = |made: &PreparedBalance| {
            made.statistic == of.statistic
                && made.bank.number == bank.number
                && made.start.as_deref() == of.start
        };
        let place = self.balances.iter().position(is_it);
        let is_current = |made: &PreparedBalance| {
            let is_same = made.rows == rows && made.live == live;
            made.bank == bank && made.beside == beside && (is_same || self.is_last)
        };
        if let Some(place) = place.filter(|&place| is_current(&self.balances[place])) {
            let made = &mut self.balances[place];
            let with = FitBank { potentials: Some(&made.potentials), ..fit_bank };
            let entries = 0..of.bank.vectors.len();
            let later = fit_rows(points, made.rows..rows, with, entries, &[of.statistic]);
            Arc::make_mut(&mut made.states).extend(later.into_iter().flatten());
            made.rows = rows;
            let states = Made { states: Arc::clone(&made.states), kept: None };
            return Ok((made.potentials.clone(), states));
        }
        if let Some(place) = place {
            let made = self.balances.swap_remove(place);
            self.progress.repeat(made.states.len() as u64 * iterations(of.statistic));
        }
        let (potentials, states) = self.balance(points, fit_bank, of)?;
        let states = Arc::new(states);
        self.balances.push(PreparedBalance {
            statistic: of.statistic,
            bank,
            beside,
            start: of.start.map(<[f32]>::to_vec),
            rows,
            live,
            potentials: potentials.clone(),
            states: Arc::clone(&states),
        });
        Ok((potentials, Made { states, kept: None }))
    }

    fn balance(
        &self,
        points: &Points<'_>,
        fit_bank: FitBank<'_>,
        of: BalanceOf<'_>,
    ) -> Result<(Vec<f32>, Vec<PointState>), WriteError> {
        let Statistic::Sinkhorn { tau, iterations, .. } = of.statistic else { return Ok(Default::default()) };
        let rows = points.vectors.len();
        let mut stopped = Ok(());
        let mut is_first = true;
        let mut go_on = || {
            if !std::mem::replace(&mut is_first, false) {
                self.advance(rows);
            }
            stopped = self.progress.check();
            stopped.is_ok()
        };
        let beside = of.beside.map(|(_, entries)| entries);
        let potentials =
            fit_potentials_while(points, beside, fit_bank, (tau, iterations), of.start, &mut go_on);
        stopped?;
        let potentials = potentials.unwrap_or_default();
        let with = FitBank { potentials: Some(&potentials), ..fit_bank };
        let states = fit_states(points, 0, with, 0, &[of.statistic]).pop().unwrap_or_default();
        self.advance(rows);
        Ok((potentials, states))
    }

    /// The raw `k` best points of each of a bank's `slots`.
    pub(super) fn lists(
        &mut self,
        points: &Points<'_>,
        (bank, fit_bank): (&Bank, FitBank<'_>),
        slots: Range<u32>,
        k: usize,
    ) -> Result<Activation, WriteError> {
        let rows = points.vectors.len();
        let is_valid = |gate: &PreparedGate| {
            gate.bank != bank.number || bank.starts_as(gate.bank, gate.slots.end, &gate.hash)
        };
        let before = self.gates.len();
        self.gates.retain(is_valid);
        self.progress.repeat(((before - self.gates.len()) * rows) as u64);
        let is_it = |gate: &PreparedGate| {
            gate.bank == bank.number && gate.slots.start == slots.start && gate.activation.k() == k
        };
        let place = self.gates.iter().position(is_it);
        let mut gate = match place.map(|place| self.gates.swap_remove(place)) {
            Some(gate) => gate,
            None => PreparedGate {
                bank: bank.number,
                slots: slots.start..slots.start,
                hash: String::new(),
                rows,
                activation: Activation::from_lists(k, Vec::new()),
            },
        };
        update_lists(&mut gate, points, (bank, fit_bank));
        while gate.slots.end < slots.end {
            self.progress.check()?;
            let new = gate.slots.end..slots.end.min(gate.slots.end + GATE_PIECE_SLOTS);
            let part = new.len() * rows / slots.len();
            gate.slots.end = new.end;
            gate.activation.extend(fit_lists(points, 0, bank, fit_bank, new, k));
            self.advance(part);
        }
        gate.hash = bank.record().hash;
        let activation = gate.activation.clone();
        self.gates.push(gate);
        Ok(activation)
    }

    fn advance(&self, units: usize) {
        self.progress.advance(units as u64);
        self.show();
    }

    fn show(&self) {
        if !self.is_last {
            self.progress.show();
        }
    }
}

/// The iterations of a balance, and the pass that gives every row its state.
pub(super) fn iterations(statistic: Statistic) -> u64 {
    if let Statistic::Sinkhorn { iterations, .. } = statistic { iterations.max(1) as u64 } else { 1 }
}

/// Adds the rows that came since the lists were made, and fits those anew that hold one that went.
fn update_lists(gate: &mut PreparedGate, points: &Points<'_>, (bank, fit_bank): (&Bank, FitBank<'_>)) {
    let (k, rows) = (gate.activation.k(), points.vectors.len());
    if gate.rows < rows {
        let later = fit_lists(points, gate.rows, bank, fit_bank, gate.slots.clone(), k);
        gate.activation.merge(&later);
        gate.rows = rows;
    }
    let holding = gate.activation.holding(|row| !(points.live)(row));
    let slot = |&place: &usize| gate.slots.start + u32::try_from(place).expect("below BANK_ENTRIES_MAX");
    let slots: Vec<u32> = holding.iter().map(slot).collect();
    let lists = fit_activation(points, 0, fit_bank, &slots, k);
    for (&place, list) in holding.iter().zip(lists.lists()) {
        gate.activation.replace(place, list.clone());
    }
}

/// The states of all rows over the slots of a bank from `first` on, and the lists of gates if those are all
/// slots, of a write that prepared nothing.
pub(super) fn states_now(
    points: &Points<'_>,
    bank: FitBank<'_>,
    first: u32,
    statistics: &[Statistic],
    gates: &[usize],
) -> (Vec<Made>, Vec<Activation>) {
    let entries = first as usize..bank.vectors.len();
    let (states, activations) = if first == 0 {
        fit_together(points, 0..points.vectors.len(), bank, statistics, gates)
    } else {
        (fit_entries(points, 0, bank, entries, statistics), Vec::new())
    };
    (states.into_iter().map(Made::new).collect(), activations)
}

/// The balance of a write that prepared nothing.
pub(super) fn balance_now(points: &Points<'_>, fit_bank: FitBank<'_>, of: BalanceOf<'_>) -> (Vec<f32>, Made) {
    let Statistic::Sinkhorn { tau, iterations, .. } = of.statistic else {
        return (Vec::new(), Made::new(Vec::new()));
    };
    let beside = of.beside.map(|(_, entries)| entries);
    let potentials = fit_potentials(points, beside, fit_bank, tau, iterations, of.start);
    let with = FitBank { potentials: Some(&potentials), ..fit_bank };
    let states = fit_states(points, 0, with, 0, &[of.statistic]).pop().unwrap_or_default();
    (potentials, Made::new(states))
}
