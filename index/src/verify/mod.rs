//! Whether everything derived is what it is derived from, and memory is what the store has.

mod graph;
mod points;
mod rebuild;
mod statistics;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;

use dehub_store::{Family, View};

use crate::open::{read_banks, read_choices, read_corrections, read_fields, read_sets};
use crate::orphans::{Orphans, find_orphans};
use crate::payload::PayloadColumns;
use crate::record::{CALIBRATION_KEY, COUNTERS_KEY, Counters, FAMILIES, META, from_json};
use crate::spaces::{Role, Whole};
use crate::state::State;
use crate::{Calibration, Collection, FieldKind, Name, OpenProgress, PayloadPath, ReadError};

pub use rebuild::Rebuilt;

/// As many differences of a check are told in full.
const FIRST: usize = 20;

/// What is checked, in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// Every record of the store can be read.
    Store,
    /// The numbers that only grow are beyond all that were given.
    Counters,
    /// Ids, points and vectors are one to one, and vectors and indexed payload fields are those in memory.
    Points,
    /// Points in quarantine have no row.
    Held,
    /// Entries give their bank's hash, and are those in memory.
    Banks,
    /// Every point has a state of each statistic, near one that is fitted now, and columns serve it bit for bit.
    Statistics,
    /// The lists of gates are those that are found now.
    Gates,
    /// Corrections have all their parts.
    Corrections,
    /// The default, the rule of the quarantine and the policy of the live bank name what there is, and the payload
    /// fields in memory are those with an index.
    Choices,
    /// Priors are those in memory, and of points that there are.
    Priors,
    /// Fits that are not complete have numbers of their own.
    Pending,
    /// Segments have every point of their rows once, under the code of its vector, and links lead to all.
    Graph,
    /// The index of texts is whole, and of the points that have some.
    Texts,
    /// What ways of searching were measured to find can be read.
    Calibration,
}

impl CheckKind {
    /// Every kind.
    pub const ALL: [CheckKind; 14] = [
        CheckKind::Store,
        CheckKind::Counters,
        CheckKind::Points,
        CheckKind::Held,
        CheckKind::Banks,
        CheckKind::Statistics,
        CheckKind::Gates,
        CheckKind::Corrections,
        CheckKind::Choices,
        CheckKind::Priors,
        CheckKind::Pending,
        CheckKind::Graph,
        CheckKind::Texts,
        CheckKind::Calibration,
    ];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            CheckKind::Store => "store",
            CheckKind::Counters => "counters",
            CheckKind::Points => "points",
            CheckKind::Held => "held",
            CheckKind::Banks => "banks",
            CheckKind::Statistics => "statistics",
            CheckKind::Gates => "gates",
            CheckKind::Corrections => "corrections",
            CheckKind::Choices => "choices",
            CheckKind::Priors => "priors",
            CheckKind::Pending => "pending",
            CheckKind::Graph => "graph",
            CheckKind::Texts => "texts",
            CheckKind::Calibration => "calibration",
        }
    }
}

/// A place where one thing is not as another says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The family of the store, or `graph`.
    pub family: &'static str,
    /// The id, row, name or file.
    pub place: String,
    /// What should be there.
    pub wanted: String,
    /// What is.
    pub found: String,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Which.
    pub kind: CheckKind,
    /// How many things were looked at.
    pub checked: u64,
    /// How many differences there are.
    pub differences: u64,
    /// The first of them, at most 20.
    pub first: Vec<Difference>,
}

/// What [`Collection::verify`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyReport {
    /// The commit that was checked.
    pub sequence: u64,
    /// Every check that was made. Where the store cannot be read, that is the only one.
    pub checks: Vec<Check>,
    /// What interrupted writes left; it is no difference.
    pub orphans: Orphans,
    /// Files of the graph that were set aside.
    pub set_aside: Vec<String>,
    /// Whether searches are to be calibrated again, as the graph or a correction is another.
    pub is_calibration_due: bool,
    /// What was found in each named vector of the collection.
    pub spaces: BTreeMap<Name, VerifyReport>,
    repairs: Repairs,
}

/// What can be derived again.
#[derive(Debug, Clone, PartialEq, Default)]
struct Repairs {
    /// Banks with sets that are not as their entries say.
    banks: BTreeSet<Name>,
    segments: Vec<Range<u32>>,
    /// Whether the index of texts is not as the points say.
    texts: bool,
}

impl VerifyReport {
    /// How many differences there are, in the named vectors too.
    pub fn differences(&self) -> u64 {
        self.own_differences() + self.spaces.values().map(VerifyReport::differences).sum::<u64>()
    }

    fn own_differences(&self) -> u64 {
        self.checks.iter().map(|check| check.differences).sum()
    }

    /// Whether there is none.
    pub fn is_whole(&self) -> bool {
        self.differences() == 0
    }

    fn differ(
        &mut self,
        family: &'static str,
        place: impl Display,
        wanted: impl Display,
        found: impl Display,
    ) {
        let Some(check) = self.checks.last_mut() else { return };
        check.differences += 1;
        if check.first.len() < FIRST {
            let (place, wanted, found) = (place.to_string(), wanted.to_string(), found.to_string());
            check.first.push(Difference { family, place, wanted, found });
        }
    }

    fn looked_at(&mut self, things: u64) {
        if let Some(check) = self.checks.last_mut() {
            check.checked += things;
        }
    }
}

impl Collection {
    /// Checks everything that is derived against what it is derived from, by deriving it again, and memory against
    /// the store: as of one commit, while reads and writes go on. Nothing is changed. `progress` is told which
    /// check begins.
    ///
    /// States are compared within what the order of 32-bit sums can make of them, everything else exactly. A
    /// Sinkhorn statistic is a balance of when it was made: its potentials must give the states. The centre of a
    /// column is the mean of then, and is only a number: it changes no order.
    ///
    /// Of a collection with named vectors, the points are checked and then each vector.
    pub fn verify(&self, progress: &mut dyn FnMut(CheckKind)) -> VerifyReport {
        let (whole, view) = {
            let state = self.lock();
            (state.whole.clone(), self.store.view())
        };
        let mut report = self.verify_state(&whole, &view, progress);
        for (name, space) in &self.spaces {
            let Role::Space(_, number) = space.role else { continue };
            let view = view.within(META, number);
            report.spaces.insert(name.clone(), space.verify_state(&whole, &view, progress));
        }
        report
    }

    fn verify_state(
        &self,
        whole: &Whole,
        view: &View<'_>,
        progress: &mut dyn FnMut(CheckKind),
    ) -> VerifyReport {
        let state = whole.state(self.role.name());
        let report = VerifyReport {
            sequence: state.counters.sequence,
            checks: Vec::new(),
            orphans: Orphans::default(),
            set_aside: Vec::new(),
            is_calibration_due: self.snapshot().is_calibration_due(),
            spaces: BTreeMap::new(),
            repairs: Repairs::default(),
        };
        let mut fresh = State::clone(state);
        fresh.banks.clear();
        fresh.sets.clear();
        fresh.corrections.clear();
        fresh.priors.clear();
        let mut verifier = Verifier { collection: self, state, points: &whole.base, fresh, view, report };
        verifier.section(CheckKind::Store, progress, Verifier::store);
        if verifier.report.is_whole() {
            verifier.section(CheckKind::Counters, progress, Verifier::counters);
            verifier.section(CheckKind::Points, progress, Verifier::points);
            verifier.section(CheckKind::Held, progress, Verifier::held);
            verifier.section(CheckKind::Banks, progress, Verifier::banks);
            verifier.section(CheckKind::Statistics, progress, Verifier::statistics);
            verifier.section(CheckKind::Gates, progress, Verifier::gates);
            verifier.section(CheckKind::Corrections, progress, Verifier::corrections);
            verifier.section(CheckKind::Choices, progress, Verifier::choices);
            verifier.section(CheckKind::Priors, progress, Verifier::priors);
            verifier.section(CheckKind::Pending, progress, Verifier::pending);
            verifier.section(CheckKind::Graph, progress, Verifier::graph);
            verifier.section(CheckKind::Texts, progress, Verifier::texts);
            verifier.section(CheckKind::Calibration, progress, Verifier::calibration);
        }
        verifier.report
    }
}

/// A state, and what the store has of the same moment.
struct Verifier<'a> {
    collection: &'a Collection,
    state: &'a State,
    /// The same, or that of the points with the named vector that it is of.
    points: &'a State,
    /// The state as far as it was read again.
    fresh: State,
    view: &'a View<'a>,
    report: VerifyReport,
}

impl Verifier<'_> {
    /// Makes a check. What cannot be read is a difference and ends it.
    fn section(
        &mut self,
        kind: CheckKind,
        progress: &mut dyn FnMut(CheckKind),
        check: impl FnOnce(&mut Self) -> Result<(), ReadError>,
    ) {
        progress(kind);
        self.report.checks.push(Check { kind, checked: 0, differences: 0, first: Vec::new() });
        match check(self) {
            Ok(()) => {}
            Err(ReadError::Damaged(error)) => {
                self.report.differ(error.family, "a record", "what was written", error.reason);
            }
            Err(error @ (ReadError::State(_) | ReadError::Store(_) | ReadError::Config(_))) => {
                self.report.differ("store", "a record", "what was written", error);
            }
        }
    }

    fn store(&mut self) -> Result<(), ReadError> {
        let count = |family: Family| {
            self.view.scan(family, &[], None).try_fold(0, |count: u64, item| item.map(|_| count + 1))
        };
        let counts = FAMILIES.into_iter().map(count).collect::<Result<Vec<u64>, _>>()?;
        self.report.looked_at(counts.into_iter().sum());
        self.report.orphans = find_orphans(self.view, self.state)?;
        Ok(())
    }

    fn counters(&mut self) -> Result<(), ReadError> {
        let stored = self.view.get(META, COUNTERS_KEY)?;
        let stored = stored.map_or(Ok(Counters::default()), |bytes| from_json(META, &bytes))?;
        let own = self.state.counters;
        // Commits are numbered for the points, and a named vector knows of those that changed it.
        let stored = match self.state.role {
            Role::Unnamed | Role::Points => stored,
            Role::Space(..) if stored.sequence <= own.sequence => {
                Counters { sequence: own.sequence, ..stored }
            }
            Role::Space(..) => stored,
        };
        self.report.looked_at(4);
        if stored != own {
            self.report.differ(META.name(), "counters", format!("{own:?}"), format!("{stored:?}"));
        }
        let numbers = self.state.banks.values().flat_map(|bank| [Some(bank.number), bank.table]);
        let last = |numbers: &mut dyn Iterator<Item = u32>| numbers.max().map_or(0, |last| last + 1);
        let banks = last(&mut numbers.flatten());
        let sets = last(&mut self.state.sets.keys().copied());
        for (what, least, found) in [
            ("next_row", self.state.row_count().max(self.points.row_count()), own.next_row),
            ("next_bank", banks, own.next_bank),
            ("next_set", sets, own.next_set),
        ] {
            if found < least {
                self.report.differ(META.name(), what, format!("at least {least}"), found);
            }
        }
        Ok(())
    }

    /// Reads banks again, which checks their hashes, and compares them with those in memory.
    fn banks(&mut self) -> Result<(), ReadError> {
        read_banks(&mut self.fresh, self.view, &OpenProgress::default())?;
        for (name, bank) in &self.state.banks {
            self.report.looked_at(bank.len() as u64);
            let is_same = self.fresh.banks.get(name).is_some_and(|fresh| {
                let same = |slot: u32| {
                    bank.weight(slot) == fresh.weight(slot)
                        && bank.vectors.row(slot as usize) == fresh.vectors.row(slot as usize)
                };
                bank.record() == fresh.record() && bank.by_id == fresh.by_id && bank.live_from(0).all(same)
            });
            if !is_same {
                self.report.differ("banks", name, "the entries in memory", "others");
            }
        }
        self.compare_names("banks", &self.state.banks, |fresh| &fresh.banks);
        Ok(())
    }

    /// Names the store has and memory has not.
    fn compare_names<T>(
        &mut self,
        family: &'static str,
        own: &BTreeMap<Name, T>,
        fresh: impl Fn(&State) -> &BTreeMap<Name, T>,
    ) {
        let more: Vec<Name> =
            fresh(&self.fresh).keys().filter(|name| !own.contains_key(*name)).cloned().collect();
        more.into_iter().for_each(|name| self.report.differ(family, name, "no record", "one"));
    }

    fn corrections(&mut self) -> Result<(), ReadError> {
        for (name, record) in &self.state.corrections {
            self.report.looked_at(1);
            let found = self.fresh.corrections.get(name);
            if found != Some(record) {
                self.report.differ("corrections", name, format!("{record:?}"), format!("{found:?}"));
            }
            if self.state.serve(name, record).is_none() {
                self.report.differ("corrections", name, "all its parts", "one is missing");
            }
            if record.sequence > self.state.counters.sequence
                || record.floors.iter().any(|it| !it.is_finite())
            {
                let wanted = "a version of a commit there is, with finite floors";
                self.report.differ("corrections", name, wanted, format!("{record:?}"));
            }
        }
        self.compare_names("corrections", &self.state.corrections, |fresh| &fresh.corrections);
        Ok(())
    }

    fn choices(&mut self) -> Result<(), ReadError> {
        let (own, fresh) = (self.state, &mut self.fresh);
        read_choices(fresh, self.view)?;
        let kinds = |columns: &PayloadColumns| -> Vec<(PayloadPath, FieldKind)> {
            columns.iter().map(|(path, column)| (path.clone(), column.kind())).collect()
        };
        let same = [
            ("payload indexes", kinds(&own.columns) == kinds(&read_fields(self.view)?)),
            ("default", own.default == fresh.default),
            ("quarantine", own.quarantine.rule == fresh.quarantine.rule),
            ("live", own.live_bank == fresh.live_bank),
        ];
        self.report.looked_at(same.len() as u64);
        for (what, _) in same.into_iter().filter(|(_, is_same)| !is_same) {
            self.report.differ(META.name(), what, "what memory has", "something else");
        }
        Ok(())
    }

    fn calibration(&mut self) -> Result<(), ReadError> {
        let stored = self.view.get(META, CALIBRATION_KEY)?;
        let read = stored.as_ref().map(|bytes| from_json::<Calibration>(META, bytes)).transpose()?;
        self.report.looked_at(u64::from(read.is_some()));
        if read != self.state.calibration.as_ref().map(|it| Calibration::clone(it)) {
            self.report.differ(META.name(), "calibration", "what memory has", "something else");
        }
        Ok(())
    }

    /// Reads sets again; those of memory and store with the same number.
    fn read_sets(&mut self) -> Result<(), ReadError> {
        read_corrections(&mut self.fresh, self.view)?;
        read_sets(&mut self.fresh, self.view, &OpenProgress::default())?;
        let own: BTreeSet<u32> = self.state.sets.keys().copied().collect();
        let fresh: BTreeSet<u32> = self.fresh.sets.keys().copied().collect();
        for number in own.symmetric_difference(&fresh) {
            let (wanted, found) =
                if own.contains(number) { ("a record", "none") } else { ("no record", "one") };
            self.report.differ("sets", number, wanted, found);
        }
        Ok(())
    }
}
