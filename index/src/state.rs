//! The writer's state: everything a commit changes, in memory. The next state is made beside the
//! present one and takes its place only after its batch is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use dehub_normalize::{Activation, BankKind, Method, Statistic, Term};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric, PointId, Vector, longest_square};

use crate::bank::Bank;
use crate::correction::{Column, Correction, CorrectionInfo, Source};
use crate::payload::PayloadColumns;
use crate::priors::Prior;
use crate::quarantine::Quarantine;
use crate::record::{CorrectionRecord, Counters, SetKind, SetRecord};
use crate::row_set::{RowSet, chunk_rows};
use crate::segments::Segments;
use crate::spaces::Role;
use crate::texts::Texts;
use crate::{Calibration, CollectionConfig, DefaultCorrection, FormatInfo, LiveBank, Name};

/// Everything the store holds that answers depend on, but for ids, texts and payloads without an index.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) role: Role,
    pub(crate) config: CollectionConfig,
    /// Tells the collection from every other.
    pub(crate) identity: u64,
    /// In what it is stored; not the present version until this one has written.
    pub(crate) format: Arc<FormatInfo>,
    pub(crate) counters: Counters,
    pub(crate) vectors: Chunked,
    pub(crate) half_norms: Option<Chunked>,
    pub(crate) norm_max: f32,
    pub(crate) live: RowSet,
    /// The values of the payload fields that have an index.
    pub(crate) columns: PayloadColumns,
    pub(crate) banks: BTreeMap<Name, Bank>,
    pub(crate) sets: BTreeMap<u32, Set>,
    pub(crate) corrections: BTreeMap<Name, CorrectionRecord>,
    pub(crate) default: Option<DefaultCorrection>,
    pub(crate) quarantine: Quarantine,
    pub(crate) live_bank: Option<LiveBank>,
    pub(crate) priors: BTreeMap<Name, Prior>,
    /// Of the points, if they are found by words.
    pub(crate) texts: Option<Arc<Texts>>,
    pub(crate) segments: Segments,
    pub(crate) calibration: Option<Arc<Calibration>>,
}

/// What one fitted statistic or gate serves.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) bank: Name,
    /// The bank's slots it has taken in. Every row is fitted over these, and all sets of a bank have
    /// taken in the same.
    pub(crate) absorbed: u32,
    /// A second bank that the potentials depend on.
    pub(crate) beside: Option<Name>,
    pub(crate) fitted: Fitting,
}

#[derive(Debug, Clone)]
pub(crate) enum Fitting {
    Column {
        statistic: Statistic,
        column: Column,
        /// Of the bank's entries, for a statistic that has them.
        potentials: Option<Arc<Vec<f32>>>,
    },
    Gate {
        activation: Arc<Activation>,
        rows: RowSet,
    },
}

impl Set {
    pub(crate) fn gate(bank: Name, activation: Activation) -> Set {
        let rows = activation.rows().into_iter().collect();
        let absorbed = u32::try_from(activation.lists().len()).expect("below BANK_ENTRIES_MAX");
        let fitted = Fitting::Gate { activation: Arc::new(activation), rows };
        Set { bank, absorbed, beside: None, fitted }
    }

    pub(crate) fn kind(&self) -> SetKind {
        match &self.fitted {
            Fitting::Column { statistic, .. } => SetKind::of(*statistic),
            Fitting::Gate { activation, .. } => SetKind::Activation { k: activation.k() },
        }
    }

    pub(crate) fn record(&self) -> SetRecord {
        let center = match &self.fitted {
            Fitting::Column { column, .. } => column.center(),
            Fitting::Gate { .. } => 0.0,
        };
        SetRecord {
            bank: self.bank.clone(),
            beside: self.beside.clone(),
            kind: self.kind(),
            center,
            absorbed: self.absorbed,
        }
    }
}

impl State {
    pub(crate) fn new(role: Role, config: CollectionConfig, identity: u64, format: Arc<FormatInfo>) -> State {
        let half_norms = match config.metric {
            Metric::Cosine | Metric::Dot => None,
            Metric::Euclidean => Some(Chunked::new(1)),
        };
        State {
            role,
            config,
            identity,
            format,
            counters: Counters::default(),
            vectors: config.rows(),
            half_norms,
            norm_max: 0.0,
            live: RowSet::default(),
            columns: PayloadColumns::default(),
            banks: BTreeMap::new(),
            sets: BTreeMap::new(),
            corrections: BTreeMap::new(),
            default: None,
            quarantine: Quarantine::default(),
            live_bank: None,
            priors: BTreeMap::new(),
            texts: None,
            segments: Segments::default(),
            calibration: None,
        }
    }

    /// Appends a row; it is not live yet.
    pub(crate) fn push_row(&mut self, vector: &Vector) {
        self.push_stored(vector.as_slice());
    }

    /// Appends rows without points.
    pub(crate) fn push_gone(&mut self, rows: usize) {
        self.vectors.push_zeros(rows);
        self.half_norms.iter_mut().for_each(|halves| halves.push_zeros(rows));
    }

    /// Gives back the memory of those of `chunks` whose points are all gone.
    pub(crate) fn clear_dead_chunks(&mut self, chunks: impl IntoIterator<Item = usize>) {
        for chunk in chunks {
            let is_full = (chunk + 1) * CHUNK_ROWS <= self.vectors.len();
            if !is_full || !self.live.has_none(chunk_rows(chunk)) {
                continue;
            }
            self.vectors.clear_chunk(chunk);
            self.half_norms.iter_mut().for_each(|halves| halves.clear_chunk(chunk));
            self.priors.values_mut().for_each(|prior| prior.clear_chunk(chunk));
            for set in self.sets.values_mut() {
                match &mut set.fitted {
                    Fitting::Column { column, .. } => column.clear_chunk(chunk),
                    Fitting::Gate { .. } => {}
                }
            }
        }
    }

    /// Appends a row with a vector that was valid when it was stored.
    pub(crate) fn push_stored(&mut self, vector: &[f32]) {
        let square = longest_square(vector, self.config.dim.get());
        let half = square / 2.0;
        self.norm_max = self.norm_max.max(square.sqrt());
        if let Some(halves) = &mut self.half_norms {
            halves.push(&[half]);
        }
        self.vectors.push(vector);
    }

    pub(crate) fn row_count(&self) -> u32 {
        u32::try_from(self.vectors.len()).expect("rows are numbered by u32; a write beyond is refused")
    }

    pub(crate) fn find_set(&self, bank: &Name, kind: SetKind) -> Option<u32> {
        self.find_set_beside(bank, None, kind)
    }

    /// A set whose potentials depend on a second bank, if `beside` names one.
    pub(crate) fn find_set_beside(&self, bank: &Name, beside: Option<&Name>, kind: SetKind) -> Option<u32> {
        let is_it = |set: &Set| set.bank == *bank && set.beside.as_ref() == beside && set.kind() == kind;
        self.sets.iter().find(|(_, set)| is_it(set)).map(|(&number, _)| number)
    }

    /// The set of a term's states for a correction.
    fn set_for(&self, record: &CorrectionRecord, term: &Term) -> Option<u32> {
        let bank = State::bank_for(record, term.bank)?;
        let beside = match term.statistic.beside() {
            Some(kind) => Some(State::bank_for(record, kind)?),
            None => None,
        };
        self.find_set_beside(bank, beside, SetKind::of(term.statistic))
    }

    /// The bank a correction takes for a kind.
    pub(crate) fn bank_for(record: &CorrectionRecord, kind: BankKind) -> Option<&Name> {
        match kind {
            BankKind::Query => record.query_bank.as_ref(),
            BankKind::Gallery => record.gallery_bank.as_ref(),
        }
    }

    /// The set of a term, its number and its column; `None` if it is not fitted.
    fn column_set(&self, record: &CorrectionRecord, term: &Term) -> Option<(u32, &Set, &Column)> {
        let number = self.set_for(record, term)?;
        let set = self.sets.get(&number)?;
        match &set.fitted {
            Fitting::Column { column, .. } => Some((number, set, column)),
            Fitting::Gate { .. } => None,
        }
    }

    /// The column of a term; `None` if it is not fitted.
    fn column(&self, record: &CorrectionRecord, term: &Term) -> Option<&Column> {
        self.column_set(record, term).map(|(_, _, column)| column)
    }

    /// Where the column of a term comes from.
    fn source(&self, record: &CorrectionRecord, term: &Term) -> Option<Source> {
        let (set, found, _) = self.column_set(record, term)?;
        let (bank, absorbed) = (found.bank.clone(), found.absorbed);
        Some(Source { set, bank, absorbed, statistic: term.statistic })
    }

    /// The correction as readers get it; `None` if a part is missing.
    pub(crate) fn serve(&self, name: &Name, record: &CorrectionRecord) -> Option<Correction> {
        let method: Method = record.method.parse().ok()?;
        let metric = self.config.metric;
        let mut columns = Vec::new();
        let mut gates = Vec::new();
        for (place, term) in method.terms(metric).into_iter().enumerate() {
            let column = self.column(record, &term)?;
            let least = || statistic_min(&method, column).unwrap_or(f32::NEG_INFINITY);
            let floor = record.floors.get(place).copied().unwrap_or_else(least);
            columns.push(column.with_guard(kept(&method), floor));
            if let Some(k) = method.gate() {
                let bank = State::bank_for(record, term.bank)?;
                match &self.sets.get(&self.find_set(bank, SetKind::Activation { k })?)?.fitted {
                    Fitting::Gate { rows, .. } => gates.push(rows.clone()),
                    Fitting::Column { .. } => return None,
                }
            }
        }
        let scale = match method.scale(metric) {
            Some(term) => Some(self.column(record, &term)?.clone()),
            None => None,
        };
        let terms = method.statistics(metric);
        let sources: Vec<Source> =
            terms.iter().map(|term| self.source(record, term)).collect::<Option<_>>()?;
        let unseen = |source: &Source| {
            self.banks.get(&source.bank).map_or(0, |bank| bank.live_from(source.absorbed).count())
        };
        let info = CorrectionInfo {
            name: name.clone(),
            version: record.version,
            method,
            query_bank: record.query_bank.clone(),
            gallery_bank: record.gallery_bank.clone(),
            sequence: record.sequence,
            activated: gates.iter().map(RowSet::len).collect(),
            stale: sources.iter().map(unseen).max().unwrap_or(0),
        };
        Some(Correction { info, columns, scale, gates, sources })
    }

    /// The floors of a correction's guard as the columns now are; none if it has no floor.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    pub(crate) fn floors(&self, record: &CorrectionRecord) -> Vec<f32> {
        let Ok(method) = record.method.parse::<Method>() else { return Vec::new() };
        let floor = method.guard().floor;
        if floor == 0.0 || self.live.is_empty() {
            return Vec::new();
        }
        let quantile = |term: Term| {
            let column = self.column(record, &term)?.with_guard(kept(&method), f32::NEG_INFINITY);
            let mut values: Vec<f32> = self.live.iter().map(|row| column.at(row)).collect();
            let place = (floor * values.len() as f64) as usize;
            Some(*values.select_nth_unstable_by(place, f32::total_cmp).1)
        };
        method.terms(self.config.metric).into_iter().filter_map(quantile).collect()
    }

    /// The sets a correction serves from.
    pub(crate) fn sets_of(&self, record: &CorrectionRecord) -> Vec<u32> {
        let Ok(method) = record.method.parse::<Method>() else { return Vec::new() };
        let gate = method.gate().map(|k| SetKind::Activation { k });
        let find = |term: &Term| {
            let bank = State::bank_for(record, term.bank);
            let gate = gate.and_then(|kind| self.find_set(bank?, kind));
            self.set_for(record, term).into_iter().chain(gate).collect::<Vec<_>>()
        };
        method.statistics(self.config.metric).iter().flat_map(find).collect()
    }

    /// For each bank with sets, the entry that is the point `id`, if any.
    pub(crate) fn own_entry(&self, bank: &Name, id: &PointId) -> Option<u32> {
        self.banks.get(bank).and_then(|bank| bank.own_entry(id))
    }
}

/// The part of a bias's distance from its mean that a guard leaves.
#[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
fn kept(method: &Method) -> f32 {
    (1.0 - method.guard().shrink) as f32
}

/// The least value, centred, that a method's own score takes a column at.
#[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
fn statistic_min(method: &Method, column: &Column) -> Option<f32> {
    let least = method.scorer()?.statistic_min()?;
    Some((least - column.center()) as f32)
}
