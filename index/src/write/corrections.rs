//! Fitting and dropping corrections.

use std::collections::{BTreeMap, BTreeSet};

use dehub_normalize::{BankKind, Method, Points, Statistic, Term};

use super::Draft;
use super::banks::unknown_bank;
use super::prepared::iterations;
use super::sets::Balance;
use crate::bank::Bank;
use crate::record::{CORRECTIONS, CorrectionRecord, SetKind};
use crate::state::State;
use crate::{FitReport, Name, WriteError};

/// For each bank and the bank beside it, what to fit.
type Wanted = BTreeMap<(Name, Option<Name>), Vec<SetKind>>;

/// A correction to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitInput {
    /// Its name; an existing correction of this name is replaced, under the next version.
    pub name: Name,
    /// The method and its parameters.
    pub method: Method,
    /// The query bank.
    pub query_bank: Option<Name>,
    /// The gallery bank, for methods that use one.
    pub gallery_bank: Option<Name>,
}

impl Draft<'_> {
    /// Fits corrections together: each bank is passed over once, whatever is computed from it.
    pub(crate) fn fit(&mut self, inputs: &[FitInput]) -> Result<FitReport, WriteError> {
        inputs.iter().try_for_each(|input| check(&self.next, input))?;
        inputs.iter().try_for_each(|input| self.check_kept(input))?;
        self.absorb_for(inputs)?;
        let (wanted, report) = self.wanted(inputs);
        for ((bank, beside), kinds) in wanted.into_iter().filter(|(_, kinds)| !kinds.is_empty()) {
            self.fit_sets(Balance { bank: &bank, beside: beside.as_ref() }, &kinds)?;
        }
        for input in inputs {
            let version = self.next.corrections.get(&input.name).map_or(1, |record| record.version + 1);
            let record = CorrectionRecord {
                method: input.method.to_string(),
                version,
                query_bank: input.query_bank.clone().filter(|_| input.method.uses(BankKind::Query)),
                gallery_bank: input.gallery_bank.clone().filter(|_| input.method.uses(BankKind::Gallery)),
                sequence: self.next.counters.sequence,
                floors: Vec::new(),
            };
            self.put_correction(&input.name, record);
        }
        self.remove_unused_sets();
        Ok(report)
    }

    /// Checks a fit, and measures its work: in all, as its progress counts, and the statistics that can be kept
    /// while it is pending.
    pub(crate) fn measure(mut self, inputs: &[FitInput]) -> Result<(u64, usize), WriteError> {
        inputs.iter().try_for_each(|input| check(&self.next, input))?;
        inputs.iter().try_for_each(|input| self.check_kept(input))?;
        let stale: usize = banks_of(&self.next, inputs).iter().map(|bank| self.sets_to_absorb(bank)).sum();
        let kinds: Vec<SetKind> = self.wanted(inputs).0.into_values().flatten().collect();
        let passes = |kind: &SetKind| kind.statistic().map_or(1, iterations);
        let is_plain =
            |kind: &&SetKind| kind.statistic().is_some_and(|statistic| !statistic.has_potentials());
        let plain = kinds.iter().filter(is_plain).count();
        let passes = kinds.iter().map(passes).sum::<u64>() + stale as u64;
        Ok((passes * self.next.vectors.len() as u64, plain))
    }

    /// How many sets an absorption changes.
    pub(crate) fn sets_to_absorb(&self, bank: &Name) -> usize {
        let slots = self.next.banks.get(bank).map_or(0, Bank::slots);
        self.next.sets.values().filter(|set| set.bank == *bank && set.absorbed < slots).count()
    }

    /// The sets that corrections need and the collection has not.
    fn wanted(&mut self, inputs: &[FitInput]) -> (Wanted, FitReport) {
        let metric = self.next.config.metric;
        let mut report = FitReport::default();
        let mut wanted = Wanted::new();
        for input in inputs {
            for Term { bank, statistic } in input.method.statistics(metric) {
                let Some(name) = bank_of(input, bank) else { continue };
                let beside = statistic.beside().and_then(|kind| bank_of(input, kind));
                let kinds = wanted.entry((name.clone(), beside.cloned())).or_default();
                let find = |state: &State, kind| state.find_set_beside(name, beside, kind);
                let gate = input.method.gate().map(|k| SetKind::Activation { k });
                for kind in std::iter::once(SetKind::of(statistic)).chain(gate) {
                    // Potentials are balanced between the points there are: a new fit means new ones.
                    if statistic.has_potentials() && !kinds.contains(&kind) {
                        find(&self.next, kind).into_iter().for_each(|old| self.remove_set(old));
                    }
                    let ready = find(&self.next, kind).is_some() || kinds.contains(&kind);
                    if !ready {
                        kinds.push(kind);
                    }
                    if kind == SetKind::of(statistic) {
                        (if ready { &mut report.shared } else { &mut report.computed }).push(statistic);
                    }
                }
            }
        }
        (wanted, report)
    }

    /// A fit takes in every entry of its banks: what is ready is shared, so it is brought up to date first.
    fn absorb_for(&mut self, inputs: &[FitInput]) -> Result<(), WriteError> {
        let banks = banks_of(&self.next, inputs);
        banks.iter().try_for_each(|bank| self.absorb_deferred(bank).map(drop))
    }

    /// Drops a correction, and what only it was served from.
    pub(crate) fn drop_correction(&mut self, name: &Name) -> Result<(), WriteError> {
        self.check_unused(name)?;
        if self.next.corrections.remove(name).is_none() {
            return Err(unknown_correction(&self.next, name));
        }
        self.visible.delete(CORRECTIONS, name.as_str().as_bytes());
        self.remove_unused_sets();
        Ok(())
    }

    fn remove_unused_sets(&mut self) {
        let used: Vec<u32> =
            self.next.corrections.values().flat_map(|record| self.next.sets_of(record)).collect();
        let unused: Vec<u32> =
            self.next.sets.keys().copied().filter(|number| !used.contains(number)).collect();
        unused.into_iter().for_each(|number| self.remove_set(number));
    }

    fn fit_sets(&mut self, balance: Balance<'_>, kinds: &[SetKind]) -> Result<(), WriteError> {
        let name = balance.bank;
        let Some(bank) = self.next.banks.get(name).cloned() else {
            return Err(unknown_bank(&self.next, name));
        };
        let own = self.own_entries(&bank)?;
        let state = self.next.clone();
        let points = Points {
            vectors: &state.vectors,
            live: &|row| state.live.contains(row),
            own_entry: &|row| own.get(&row).copied(),
        };
        let fit_bank = bank.fit(state.config.metric);
        let all = kinds.iter().copied().filter_map(SetKind::statistic);
        let (balanced, plain): (Vec<Statistic>, Vec<Statistic>) = all.partition(Statistic::has_potentials);
        let gates: Vec<usize> = kinds.iter().copied().filter_map(SetKind::gate).collect();
        let (states, activations) = self.states(&points, (&bank, fit_bank), 0, &plain, &gates)?;
        for (statistic, states) in plain.into_iter().zip(&states) {
            self.install_column(Balance::of(name), statistic, states, None)?;
        }
        for statistic in balanced {
            self.install_balanced(balance, &points, (&bank, fit_bank), statistic, None)?;
        }
        let mut activations = activations.into_iter();
        for k in gates {
            let activation = match activations.next() {
                Some(activation) => activation,
                None => self.lists(&points, (&bank, fit_bank), 0..bank.slots(), k)?,
            };
            self.install_gate(name, activation)?;
        }
        Ok(())
    }
}

/// The refusal of a correction that is not there.
pub(super) fn unknown_correction(state: &State, name: &Name) -> WriteError {
    let found: Vec<_> = state.corrections.keys().map(Name::as_str).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    WriteError::UnknownCorrection { correction: name.clone(), found }
}

/// The banks whose entries corrections count.
pub(crate) fn banks_of(state: &State, inputs: &[FitInput]) -> BTreeSet<Name> {
    let terms = |input: &FitInput| {
        let terms = input.method.statistics(state.config.metric);
        terms.iter().filter_map(|term| bank_of(input, term.bank).cloned()).collect::<Vec<_>>()
    };
    inputs.iter().flat_map(terms).collect()
}

fn bank_of(input: &FitInput, kind: BankKind) -> Option<&Name> {
    match kind {
        BankKind::Query => input.query_bank.as_ref(),
        BankKind::Gallery => input.gallery_bank.as_ref(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a neighbour count is far below 2^53")]
fn check(state: &State, input: &FitInput) -> Result<(), WriteError> {
    let method = input.method.to_string();
    if ["none", "raw"].iter().any(|reserved| input.name.as_str().eq_ignore_ascii_case(reserved)) {
        return Err(WriteError::ReservedName { name: input.name.clone() });
    }
    if let Some(reason) = input.method.refuses(state.config.metric) {
        return Err(WriteError::Metric { method, metric: state.config.metric, reason });
    }
    if let Some(reason) = input.method.refuses_multi(state.config.metric).filter(|_| state.config.multi) {
        return Err(WriteError::MultiVectors { what: method, reason });
    }
    for (kind, wanted) in input.method.banks(state.config.metric) {
        let Some(name) = bank_of(input, kind) else {
            return Err(WriteError::NoBank { method, kind });
        };
        let bank = state.banks.get(name).ok_or_else(|| unknown_bank(state, name))?;
        if bank.kind != kind {
            return Err(WriteError::BankKind { bank: name.clone(), wanted: kind, found: bank.kind });
        }
        let found = bank.len();
        if found == 0 {
            return Err(WriteError::EmptyBank { bank: name.clone() });
        }
        // Entries count by weight, but a bank that was weakened has no fewer of them.
        if wanted > found && wanted as f64 > bank.total() {
            return Err(WriteError::MoreThanBank { method, wanted, bank: name.clone(), found });
        }
    }
    match input.method.gate() {
        Some(wanted) if wanted > state.live.len() => {
            Err(WriteError::MoreThanPoints { method, wanted, found: state.live.len() })
        }
        _ => Ok(()),
    }
}
