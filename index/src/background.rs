//! Fits and absorptions: computed without the writer's lock, and brought up to date and installed under it.
//! Readers never wait for them, and writers only for the installation.

use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use dehub_store::{Batch, Durability, FailPoint};

use crate::collection::Collection;
use crate::pending::{Keeper, PendingRecord, StoredInput, locked};
use crate::record::{COUNTERS_KEY, META, POTENTIALS, STATES, pair_key, pending_key, to_json};
use crate::spaces::Locked;
use crate::state::{Set, State};
use crate::write::{Draft, FitInput, Prepared, banks_of};
use crate::{DefaultCorrection, DefaultEvidence, FitProgress, Fitted, Name, PendingFit, Receipt, WriteError};

/// Times a fit is brought up to date without the writer's lock. What is left after these is done under it, so
/// that a bank that never rests cannot keep a fit from its end.
const ROUNDS_MAX: usize = 3;

/// Rows that came meanwhile are fitted under the lock when they are at most this many.
const LATE_ROWS_MAX: usize = 1024;

/// Set numbers reserved for each statistic of a fit: one, and others for when its bank grows meanwhile.
const NUMBERS_EACH: usize = 4;

/// How often a fit that waits for another looks whether it was stopped.
const TURN_WAIT: Duration = Duration::from_millis(20);

impl Collection {
    /// Fits corrections, all or none. Each serves as soon as this returns, to those who ask for it.
    pub fn fit(&self, inputs: &[FitInput]) -> Result<Vec<Fitted>, WriteError> {
        self.fit_with(inputs, &FitProgress::new())
    }

    /// The same, with a progress that another thread can read, and stop it by. Points can be written and read
    /// meanwhile. One fit runs at a time, the next waits. The outcome is that of a fit at its end; but for
    /// Sinkhorn's potentials, when points come and go faster than they are balanced: these are then of a moment of
    /// the fit, and later points are served by them. A fit that the process did not live to see the end of is
    /// pending, and the same fit goes on from there.
    pub fn fit_with(&self, inputs: &[FitInput], progress: &FitProgress) -> Result<Vec<Fitted>, WriteError> {
        self.check_vectors()?;
        let _turn = self.turn(progress)?;
        let banks: Vec<Name> = banks_of(&self.lock(), inputs).into_iter().collect();
        let prepared = self.begin(inputs, progress)?;
        let (report, sequence) = self.in_background(prepared, progress, &banks, |draft| {
            Ok((draft.fit(inputs)?, draft.next.counters.sequence))
        })?;
        let snapshot = self.snapshot();
        let served = |input: &FitInput| {
            let info = snapshot.correction(input.name.as_str())?.info().clone();
            Some(Fitted { info, sequence, report: report.clone() })
        };
        Ok(inputs.iter().filter_map(served).collect())
    }

    /// Refuses what a fit would refuse; nothing is fitted.
    pub fn check_fit(&self, inputs: &[FitInput]) -> Result<(), WriteError> {
        self.check_vectors()?;
        let state = self.lock().clone();
        Draft::new(&self.store, &state).measure(inputs).map(drop)
    }

    /// Fits a correction and makes it the default, in one commit. `evidence` was found for a rehearsal
    /// of the same fit.
    pub fn fit_as_default(
        &self,
        input: &FitInput,
        evidence: Option<&DefaultEvidence>,
        forced: bool,
    ) -> Result<DefaultCorrection, WriteError> {
        self.check_vectors()?;
        let progress = FitProgress::new();
        let _turn = self.turn(&progress)?;
        let inputs = std::slice::from_ref(input);
        let banks: Vec<Name> = banks_of(&self.lock(), inputs).into_iter().collect();
        // It is no fit that could go on later: the evidence is not kept.
        let prepared = Prepared::new(&progress, None, 0)?;
        self.in_background(prepared, &progress, &banks, |draft| draft.fit_as_default(input, evidence, forced))
    }

    /// Lets every correction over a bank take in the entries whose absorption was deferred. The receipt
    /// says how many these were.
    pub fn absorb(&self, bank: &Name) -> Result<Receipt, WriteError> {
        self.absorb_with(bank, &FitProgress::new())
    }

    /// The same, with a progress as of [`Collection::fit_with`]. It takes its turn with fits. One that is stopped
    /// leaves the entries deferred, and starts over.
    pub fn absorb_with(&self, bank: &Name, progress: &FitProgress) -> Result<Receipt, WriteError> {
        self.check_vectors()?;
        let _turn = self.turn(progress)?;
        let state = self.lock().clone();
        let work = Draft::new(&self.store, &state).sets_to_absorb(bank) * state.vectors.len();
        let prepared = Prepared::new(progress, None, work as u64)?;
        self.in_background(prepared, progress, std::slice::from_ref(bank), |draft| {
            draft.absorb_deferred(bank)
        })
    }

    /// The fits that were begun and are not complete, the one under way included; those of named vectors one after the
    /// other.
    pub fn pending_fits(&self) -> Vec<PendingFit> {
        let own: Vec<PendingFit> = locked(&self.pending).values().map(PendingRecord::fit).collect();
        own.into_iter().chain(self.spaces.values().flat_map(|space| space.pending_fits())).collect()
    }

    /// Completes every pending fit, in the order they were begun.
    pub fn resume_fits(&self, progress: &FitProgress) -> Result<Vec<Fitted>, WriteError> {
        let mut fitted = Vec::new();
        for space in self.spaces.values() {
            fitted.extend(space.resume_fits(progress)?);
        }
        let own: Vec<PendingFit> = locked(&self.pending).values().map(PendingRecord::fit).collect();
        for fit in own {
            fitted.extend(self.fit_with(&fit.inputs, progress)?);
        }
        Ok(fitted)
    }

    /// Drops the pending fits of a correction, and what is kept for them; tells whether there was one. It waits
    /// for a fit under way.
    pub fn drop_pending(&self, correction: &Name) -> Result<bool, WriteError> {
        let _turn = self.fitting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |record: &PendingRecord| record.inputs.iter().any(|input| input.name == *correction);
        let found: Vec<u32> =
            locked(&self.pending).iter().filter(|(_, record)| is_it(record)).map(|(&key, _)| key).collect();
        found.iter().try_for_each(|&key| self.discard(key))?;
        Ok(!found.is_empty())
    }

    /// Waits until no other fit runs.
    fn turn(&self, progress: &FitProgress) -> Result<MutexGuard<'_, ()>, WriteError> {
        loop {
            progress.check()?;
            match self.fitting.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(TURN_WAIT),
            }
        }
    }

    /// Checks a fit, and makes it a pending one if it is large, or goes on with the pending one there is.
    fn begin(&self, inputs: &[FitInput], progress: &FitProgress) -> Result<Prepared, WriteError> {
        let mut state = self.lock();
        self.writer.check()?;
        let (total, statistics) = Draft::new(&self.store, &state).measure(inputs)?;
        let stored: Vec<StoredInput> = inputs.iter().map(StoredInput::new).collect();
        let earlier = locked(&self.pending)
            .iter()
            .find(|(_, record)| record.inputs == stored)
            .map(|(&key, record)| (key, record.clone()));
        let is_large = state.vectors.len() > progress.piece_rows() && statistics > 0;
        let keeper = match earlier {
            None if !is_large => None,
            earlier => {
                let first = state.counters.next_set;
                let empty = PendingRecord { inputs: stored, numbers: Vec::new(), columns: Vec::new(), total };
                let (key, mut record) = earlier.unwrap_or((first, empty));
                let numbers = u32::try_from(NUMBERS_EACH * statistics).expect("a method has few statistics");
                record.numbers.extend(first..first + numbers);
                record.total = total;
                self.reserve(&mut state, key, &record, numbers)?;
                Some(Keeper::new(&self.store, &self.pending, key, record))
            }
        };
        drop(state);
        self.writer.noting(Prepared::new(progress, keeper, total))
    }

    /// Commits the record of a pending fit with its newest `numbers` set numbers, whose places are empty.
    fn reserve(
        &self,
        state: &mut Locked<'_>,
        key: u32,
        record: &PendingRecord,
        numbers: u32,
    ) -> Result<(), WriteError> {
        let mut counters = state.counters;
        let mut batch = Batch::default();
        for family in [STATES, POTENTIALS] {
            let (first, end) = (counters.next_set, counters.next_set + numbers);
            batch.delete_range(family, &pair_key(first, 0), &pair_key(end, 0));
        }
        counters.next_set += numbers;
        counters.next_row = state.row_count();
        batch.put(META, COUNTERS_KEY, &to_json(&counters));
        batch.put(META, &pending_key(key), &to_json(record));
        self.writer.noting(self.store.commit(batch, Durability::Strict).map_err(WriteError::from))?;
        let next = State { counters, ..State::clone(state) };
        *state.whole = state.whole.with(next);
        locked(&self.pending).insert(key, record.clone());
        Ok(())
    }

    /// Makes a write whose work is done without the writer's lock, as long as the state does not change too much
    /// under it.
    fn in_background<T>(
        &self,
        mut prepared: Prepared,
        progress: &FitProgress,
        banks: &[Name],
        change: impl Fn(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let outcome = self.writer.noting(self.rounds(&mut prepared, banks, &change));
        let key = prepared.keeper.as_ref().map(|keeper| keeper.key);
        match (&outcome, key) {
            (Ok(_), Some(key)) => _ = locked(&self.pending).remove(&key),
            (Ok(_), None) | (Err(_), None) => {}
            // What is kept outlives the store's failure, and the process.
            (
                Err(
                    WriteError::Interrupted
                    | WriteError::Commit(_)
                    | WriteError::Read(_)
                    | WriteError::WriterFailed { .. }
                    | WriteError::DiskFull { .. },
                ),
                Some(_),
            ) => {}
            (Err(_), Some(key)) => self.discard(key)?,
        }
        if outcome.is_ok() {
            progress.end();
        }
        outcome
    }

    fn rounds<T>(
        &self,
        prepared: &mut Prepared,
        banks: &[Name],
        change: &impl Fn(&mut Draft<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let mut round = 0;
        loop {
            round += 1;
            let seen = self.lock().clone();
            change(&mut Draft::preparing(&self.store, &seen, prepared))?;
            let mut state = self.lock();
            if round < ROUNDS_MAX && !is_settled(&seen, &state, banks, prepared.is_balanced()) {
                continue;
            }
            prepared.is_last = true;
            let mut draft = Draft::prepared(&self.store, &state, prepared);
            let outcome = change(&mut draft)?;
            draft.end_pending();
            self.writer.check()?;
            FailPoint::FitPrepared.reach();
            *state.whole = self.writer.noting(draft.append(&state.whole))?;
            let number = self.writer.install(state.whole);
            self.writer.settle(number)?;
            return Ok(outcome);
        }
    }

    /// Takes a pending fit and what is kept for it out of the store.
    fn discard(&self, key: u32) -> Result<(), WriteError> {
        let state = self.lock();
        let Some(record) = locked(&self.pending).get(&key).cloned() else { return Ok(()) };
        let mut batch = Batch::default();
        record.delete(key, &mut batch, |number| state.sets.contains_key(&number));
        self.writer.noting(self.store.commit(batch, Durability::Strict).map_err(WriteError::from))?;
        locked(&self.pending).remove(&key);
        Ok(())
    }
}

/// Whether little is left to do for a fit from `banks` that saw an earlier state.
fn is_settled(seen: &State, now: &State, banks: &[Name], is_balanced: bool) -> bool {
    let is_same = |name: &Name| {
        let record = |state: &State| state.banks.get(name).map(|bank| bank.record());
        record(seen) == record(now)
    };
    let over =
        |set: &Set| banks.contains(&set.bank) || set.beside.as_ref().is_some_and(|it| banks.contains(it));
    let sets = |state: &State| -> Vec<u32> {
        state.sets.iter().filter(|(_, set)| over(set)).map(|(&number, _)| number).collect()
    };
    let rows = now.vectors.len() - seen.vectors.len();
    let are_points_the_same = rows == 0 && now.live.len() == seen.live.len();
    banks.iter().all(is_same)
        && sets(seen) == sets(now)
        && rows <= LATE_ROWS_MAX
        && (are_points_the_same || !is_balanced)
}
