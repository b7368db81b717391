//! Fitted corrections as readers see them.

use dehub_normalize::{BankKind, Method, Scorer, Statistic};
use dehub_vector::{CHUNK_ROWS, Chunked};

use crate::Name;
use crate::row_set::RowSet;
use crate::scan::Variant;

/// One number a point: a statistic over a bank, less its mean when it was fitted, if it is kept centred.
#[derive(Debug, Clone)]
pub struct Column {
    values: Chunked,
    center: f64,
    abs_max: f32,
    /// What is left of a centred value after shrinking: 1 unless there is a guard.
    keep: f32,
    /// No value is served below this.
    floor: f32,
    /// For a statistic that is a list, the list of each row.
    lists: Option<Lists>,
}

/// A list a row, all equally long.
#[derive(Debug, Clone)]
struct Lists {
    values: Chunked,
    abs_max: f32,
}

/// Stands in a list for a number its row has not got.
const MISSING: f32 = f32::MIN;

impl Column {
    /// A column of a statistic over a bank with some number of entries.
    pub(crate) fn new(statistic: Statistic, center: f64, entries: usize) -> Column {
        let lists = statistic.list_len().map(|k| {
            let values = Chunked::new(k.min(entries).max(1));
            Lists { values, abs_max: 0.0 }
        });
        Column { values: Chunked::new(1), center, abs_max: 0.0, keep: 1.0, floor: f32::NEG_INFINITY, lists }
    }

    /// A column of numbers that are served as they are: 0 for each of `rows` rows.
    pub(crate) fn plain(rows: usize) -> Column {
        let mut values = Chunked::new(1);
        values.push_zeros(rows);
        Column { values, center: 0.0, abs_max: 0.0, keep: 1.0, floor: f32::NEG_INFINITY, lists: None }
    }

    /// Replaces the number of a row of such a column.
    pub(crate) fn set_plain(&mut self, row: u32, value: f32) {
        self.abs_max = self.abs_max.max(value.abs());
        self.values.set(row as usize, &[value]);
    }

    /// Appends the number of the next row to such a column.
    pub(crate) fn push_plain(&mut self, value: f32) {
        self.abs_max = self.abs_max.max(value.abs());
        self.values.push(&[value]);
    }

    /// Appends the statistic of the next row, and for a statistic that is a list, the list.
    pub(crate) fn push(&mut self, statistic: f64, list: &[f32]) {
        self.push_value(statistic);
        if let Some(lists) = &mut self.lists {
            let width = lists.values.width();
            let mut row = list[..list.len().min(width)].to_vec();
            lists.abs_max = row.iter().fold(lists.abs_max, |max, value| max.max(value.abs()));
            row.resize(width, MISSING);
            lists.values.push(&row);
        }
    }

    /// Appends rows without points. Their numbers are zeros, which nothing reads.
    pub(crate) fn push_gone(&mut self, rows: usize) {
        self.values.push_zeros(rows);
        self.lists.iter_mut().for_each(|lists| lists.values.push_zeros(rows));
    }

    /// Gives back the memory of a chunk whose points are all gone.
    pub(crate) fn clear_chunk(&mut self, chunk: usize) {
        self.values.clear_chunk(chunk);
        self.lists.iter_mut().for_each(|lists| lists.values.clear_chunk(chunk));
    }

    /// Whether two columns have the same numbers of a row, bit for bit.
    pub(crate) fn is_same(&self, other: &Column, row: u32) -> bool {
        let value = |column: &Column| column.values.at(row as usize).to_bits();
        self.center.to_bits() == other.center.to_bits()
            && value(self) == value(other)
            && self.list(row) == other.list(row)
    }

    /// How many chunks of it take memory.
    pub(crate) fn resident_chunks(&self) -> usize {
        self.values.resident_chunks() + self.lists.as_ref().map_or(0, |lists| lists.values.resident_chunks())
    }

    #[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
    fn push_value(&mut self, statistic: f64) {
        let centred = (statistic - self.center) as f32;
        self.abs_max = self.abs_max.max(centred.abs());
        self.values.push(&[centred]);
    }

    /// How long the list of each row is; 0 for a statistic that is no list. Memory is four bytes a number.
    pub fn list_len(&self) -> usize {
        self.lists.as_ref().map_or(0, |lists| lists.values.width())
    }

    /// The list of a row, largest first; empty for a statistic that is no list. Where a row has too few
    /// numbers the lowest 32-bit number stands for each.
    pub fn list(&self, row: u32) -> &[f32] {
        self.lists.as_ref().map_or(&[], |lists| lists.values.row(row as usize))
    }

    /// A bound on the size of every number of the lists.
    pub(crate) fn list_bound(&self) -> f32 {
        self.lists.as_ref().map_or(0.0, |lists| lists.abs_max)
    }

    /// The statistic of a row in 64 bits, without any guard.
    pub(crate) fn wide(&self, row: u32) -> f64 {
        f64::from(self.values.at(row as usize)) + self.center
    }

    /// The value of a row, centred and guarded.
    pub fn at(&self, row: u32) -> f32 {
        self.guarded(self.values.at(row as usize))
    }

    /// A centred value as it is served.
    pub(crate) fn guarded(&self, centred: f32) -> f32 {
        (centred * self.keep).max(self.floor)
    }

    /// The same column with values shrunk to the part `keep`, and none below `floor`.
    pub(crate) fn with_guard(&self, keep: f32, floor: f32) -> Column {
        Column { keep, floor, ..self.clone() }
    }

    /// The statistic of a row.
    pub fn value(&self, row: u32) -> f32 {
        self.restored(self.at(row))
    }

    /// A centred value with its centre.
    #[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
    pub(crate) fn restored(&self, centred: f32) -> f32 {
        centred + self.center as f32
    }

    /// A bound on the size of [`Column::value`].
    #[expect(clippy::cast_possible_truncation, reason = "a bound needs no digits")]
    pub(crate) fn value_bound(&self) -> f32 {
        self.abs_max + self.center.abs() as f32
    }

    /// What was subtracted from every value. It changes no ranking.
    pub fn center(&self) -> f64 {
        self.center
    }

    /// A bound on the values' size.
    pub(crate) fn abs_max(&self) -> f32 {
        self.abs_max
    }

    pub(crate) fn chunk(&self, chunk: usize) -> &[f32] {
        debug_assert!(self.values.len().div_ceil(CHUNK_ROWS) > chunk);
        self.values.chunk(chunk)
    }
}

/// A fitted correction, ready to serve.
#[derive(Debug, Clone)]
pub struct Correction {
    pub(crate) info: CorrectionInfo,
    pub(crate) columns: Vec<Column>,
    /// What similarities are multiplied by, for methods that scale.
    pub(crate) scale: Option<Column>,
    /// For a gated method, the activation set of each column's bank.
    pub(crate) gates: Vec<RowSet>,
    /// Where each column, and the scale after them, comes from.
    pub(crate) sources: Vec<Source>,
}

/// The set a column is served from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) set: u32,
    pub(crate) bank: Name,
    /// The bank's slots it has taken in.
    pub(crate) absorbed: u32,
    pub(crate) statistic: Statistic,
}

/// What a correction was fitted from.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrectionInfo {
    /// Its name.
    pub name: Name,
    /// Counts up with every fit and every change of a bank.
    pub version: u32,
    /// The method and its parameters.
    pub method: Method,
    /// The query bank, for methods that use one.
    pub query_bank: Option<Name>,
    /// The gallery bank, for methods that use one.
    pub gallery_bank: Option<Name>,
    /// The commit that made this version.
    pub sequence: u64,
    /// The points in each activation set, for gated methods.
    pub activated: Vec<usize>,
    /// Entries of its banks it has not taken in yet; the most of any of them.
    pub stale: usize,
}

/// A fit's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The correction as it now is.
    pub info: CorrectionInfo,
    /// The commit.
    pub sequence: u64,
    /// How the work was shared.
    pub report: FitReport,
}

/// What a fit computed and what it found ready.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FitReport {
    /// Statistics computed now.
    pub computed: Vec<Statistic>,
    /// Statistics another correction over the same bank had already.
    pub shared: Vec<Statistic>,
}

impl Correction {
    /// What it was fitted from.
    pub fn info(&self) -> &CorrectionInfo {
        &self.info
    }

    /// How it scores, if its score is no weighted sum of its columns. [`Correction::variant`] then ranks the
    /// candidates of a walk.
    pub fn scorer(&self) -> Option<Scorer> {
        self.info.method.scorer()
    }

    /// The bank it takes for a kind.
    pub(crate) fn bank(&self, kind: BankKind) -> Option<&Name> {
        match kind {
            BankKind::Query => self.info.query_bank.as_ref(),
            BankKind::Gallery => self.info.gallery_bank.as_ref(),
        }
    }

    /// Its columns, in the order of the method's terms.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What similarities are multiplied by, for a method that scales.
    pub fn scale(&self) -> Option<&Column> {
        self.scale.as_ref()
    }

    /// Whether the method looks at a query's raw best point first.
    pub fn is_gated(&self) -> bool {
        !self.gates.is_empty()
    }

    /// For each column, whether its gate is open for a query with this raw best point.
    /// Without a gate all are.
    pub fn open(&self, raw_best: Option<u32>) -> Vec<bool> {
        if self.gates.is_empty() {
            return vec![true; self.columns.len()];
        }
        self.gates.iter().map(|gate| raw_best.is_some_and(|best| gate.contains(best))).collect()
    }

    /// Every combination of open gates a query can meet; one when there is no gate.
    pub fn openings(&self) -> Vec<Vec<bool>> {
        if self.gates.is_empty() {
            return vec![vec![true; self.columns.len()]];
        }
        let combinations = 1_u32 << self.gates.len();
        (0..combinations)
            .map(|bits| (0..self.gates.len()).map(|gate| bits >> gate & 1 == 1).collect())
            .collect()
    }

    /// The score to rank by when the gates are `open`, with every weight times `strength`.
    #[expect(clippy::cast_possible_truncation, reason = "weights are served in 32 bits")]
    pub fn variant(&self, open: &[bool], strength: f32) -> Variant<'_> {
        let weights = self.info.method.weights(open);
        let terms =
            self.columns.iter().zip(weights).map(|(column, weight)| (column, weight as f32 * strength));
        let variant = Variant::new(terms);
        match &self.scale {
            Some(factors) => variant.scaled(factors, strength),
            None => variant,
        }
    }
}
