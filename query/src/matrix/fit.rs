//! Corrections of points that are known by their similarities alone.

use dehub_normalize::{BankKind, Block, Method, Scorer, State, Statistic, Term};
use dehub_vector::{CHUNK_ROWS, Candidate, Chunked, Metric, TopK};
use rayon::prelude::*;

use super::sinkhorn::{balanced_columns, potentials};
use super::{MatrixError, Similarities, each_block};

/// The similarities of a bank to the points.
#[derive(Clone, Copy)]
pub struct MatrixBank<'a> {
    /// A row an entry.
    pub similarities: &'a dyn Similarities,
    /// For each point the entry that is that point, and is left out of its statistics; empty if none is, as it
    /// has to be for a bank of which parts are taken.
    pub own_entries: &'a [Option<u32>],
}

/// The banks there are, and what their similarities stand for.
#[derive(Clone, Copy)]
pub struct MatrixBanks<'a> {
    /// Reference queries.
    pub query: Option<MatrixBank<'a>>,
    /// Reference points.
    pub gallery: Option<MatrixBank<'a>>,
    /// Cosine, inner product or `−d²/2`. It matters to methods that know distances.
    pub metric: Metric,
}

impl<'a> MatrixBanks<'a> {
    fn get(&self, kind: BankKind) -> Option<MatrixBank<'a>> {
        match kind {
            BankKind::Query => self.query,
            BankKind::Gallery => self.gallery,
        }
    }
}

/// One number a point, less the mean of all if the statistic is kept so, in the 32 bits that are served.
#[derive(Debug, Clone)]
pub(super) struct MatrixColumn {
    pub(super) values: Vec<f32>,
    pub(super) center: f64,
    /// For a statistic that is a list, the lists, each as long; largest first.
    pub(super) lists: Option<Chunked>,
}

/// A correction of points that are in no collection.
#[derive(Debug, Clone)]
pub struct MatrixCorrection {
    pub(super) method: Method,
    pub(super) terms: Vec<MatrixColumn>,
    pub(super) scale: Option<MatrixColumn>,
    /// For a gated method, which points are in the activation set of each term's bank.
    pub(super) gates: Vec<Vec<bool>>,
}

impl MatrixCorrection {
    /// The method it was fitted by.
    pub fn method(&self) -> Method {
        self.method
    }
}

/// Parts of the query bank, each within the next: the first so many of its entries in some order.
#[derive(Debug, Clone, Copy)]
pub struct NestedSizes<'a> {
    /// Entries, each at most once.
    pub order: &'a [u32],
    /// How many of them, ascending, at least 1 and at most all.
    pub sizes: &'a [usize],
}

/// Fits methods from whole banks, each of which is read once, and by Sinkhorn methods once more in each of two
/// directions an iteration.
pub fn fit_matrix(banks: &MatrixBanks<'_>, methods: &[Method]) -> Result<Vec<MatrixCorrection>, MatrixError> {
    let entries = banks.query.map_or(0, |bank| bank.similarities.rows());
    let order: Vec<u32> = (0..).take(entries).collect();
    for method in methods {
        check(banks, *method, usize::MAX)?;
    }
    let nested = NestedSizes { order: &order, sizes: &[entries] };
    let fitted = fit_nested(banks, methods, nested)?.pop().unwrap_or_default();
    Ok(fitted.into_iter().flatten().collect())
}

/// Fits methods from parts of the query bank: a list for each size, in it a correction for each method, or none
/// where a method looks at more entries than there are. Gallery banks are taken whole.
pub fn fit_nested(
    banks: &MatrixBanks<'_>,
    methods: &[Method],
    nested: NestedSizes<'_>,
) -> Result<Vec<Vec<Option<MatrixCorrection>>>, MatrixError> {
    for &method in methods {
        check_whole(banks, method)?;
    }
    let (of_query, of_gallery) = (wanted(BankKind::Query, banks.metric, methods), {
        wanted(BankKind::Gallery, banks.metric, methods)
    });
    let gallery = match banks.gallery.filter(|_| !of_gallery.is_empty()) {
        Some(bank) => {
            let order: Vec<u32> = (0..).take(bank.similarities.rows()).collect();
            let sizes = [order.len()];
            fit_bank(bank, &of_gallery, NestedSizes { order: &order, sizes: &sizes })?.pop()
        }
        None => None,
    };
    let query = match banks.query.filter(|_| !of_query.is_empty()) {
        Some(bank) => fit_bank(bank, &of_query, nested)?.into_iter().map(Some).collect(),
        None => vec![None; nested.sizes.len()],
    };
    let of_size = |(query, &size): (&Option<BankFit>, &usize)| {
        let of_method = |&method: &Method| {
            check(banks, method, size).is_ok().then(|| assemble(banks.metric, method, query, &gallery))
        };
        methods.iter().map(of_method).collect()
    };
    Ok(query.iter().zip(nested.sizes).map(of_size).collect())
}

/// What is asked of a bank.
#[derive(Default)]
struct Wanted {
    statistics: Vec<Statistic>,
    /// The largest `k` of the activation sets; 0 for none.
    gate: usize,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.statistics.is_empty()
    }
}

fn wanted(kind: BankKind, metric: Metric, methods: &[Method]) -> Wanted {
    let mut wanted = Wanted::default();
    for method in methods {
        for term in method.statistics(metric).into_iter().filter(|term| term.bank == kind) {
            wanted.gate = wanted.gate.max(method.gate().unwrap_or(0));
            if !wanted.statistics.contains(&term.statistic) {
                wanted.statistics.push(term.statistic);
            }
        }
    }
    wanted
}

/// What was taken from a bank, or from a part of it.
#[derive(Clone)]
struct BankFit {
    columns: Vec<(Statistic, MatrixColumn)>,
    /// The raw best points of each entry, best first.
    best: Vec<Vec<u32>>,
    points: usize,
}

impl BankFit {
    fn column(&self, statistic: Statistic) -> MatrixColumn {
        let found = self.columns.iter().find(|(own, _)| *own == statistic);
        found.expect("every statistic of every method was asked for").1.clone()
    }

    fn gate(&self, k: usize) -> Vec<bool> {
        let mut gate = vec![false; self.points];
        self.best.iter().flat_map(|list| list.iter().take(k)).for_each(|&point| gate[point as usize] = true);
        gate
    }
}

fn assemble(
    metric: Metric,
    method: Method,
    query: &Option<BankFit>,
    gallery: &Option<BankFit>,
) -> MatrixCorrection {
    let fit = |term: &Term| match term.bank {
        BankKind::Query => query.as_ref().expect("checked to be given"),
        BankKind::Gallery => gallery.as_ref().expect("checked to be given"),
    };
    let terms = method.terms(metric);
    MatrixCorrection {
        method,
        terms: terms.iter().map(|term| guarded(method, fit(term).column(term.statistic))).collect(),
        scale: method.scale(metric).map(|term| fit(&term).column(term.statistic)),
        gates: method.gate().map_or(Vec::new(), |k| terms.iter().map(|term| fit(term).gate(k)).collect()),
    }
}

/// The column with the method's guard on it: drawn towards the mean, then none below the floor.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
#[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
fn guarded(method: Method, mut column: MatrixColumn) -> MatrixColumn {
    let guard = method.guard();
    let keep = (1.0 - guard.shrink) as f32;
    column.values.iter_mut().for_each(|value| *value *= keep);
    if guard.floor > 0.0 {
        let mut sorted = column.values.clone();
        let place = (guard.floor * sorted.len() as f64) as usize;
        let floor = *sorted.select_nth_unstable_by(place, f32::total_cmp).1;
        column.values.iter_mut().for_each(|value| *value = value.max(floor));
    }
    column
}

/// Whether the banks have what a method needs, whatever their size.
fn check_whole(banks: &MatrixBanks<'_>, method: Method) -> Result<(), MatrixError> {
    let refused = |reason| Err(MatrixError::NeedsVectors { method: method.to_string(), reason });
    if let Some(reason) = method.refuses(banks.metric) {
        return Err(MatrixError::Refused { method: method.to_string(), reason });
    }
    if method.scorer().and_then(Scorer::query_bank).is_some() {
        return refused("compares queries with a gallery bank");
    }
    for term in method.statistics(banks.metric) {
        match term.statistic {
            Statistic::CentroidPull { .. } => return refused("takes means of the bank's vectors"),
            Statistic::Sinkhorn { with_gallery: true, .. } => {
                return refused("balances the two banks with each other");
            }
            Statistic::Sinkhorn { .. }
            | Statistic::LogSumExp { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Largest { .. } => {}
        }
        if banks.get(term.bank).is_none() {
            return Err(MatrixError::NoBank { method: method.to_string(), kind: term.bank });
        }
    }
    Ok(())
}

/// The same, with at most `most` entries of the query bank.
fn check(banks: &MatrixBanks<'_>, method: Method, most: usize) -> Result<(), MatrixError> {
    check_whole(banks, method)?;
    for (kind, wanted) in method.banks(banks.metric) {
        let entries = banks.get(kind).map_or(0, |bank| bank.similarities.rows());
        let found = if kind == BankKind::Query { entries.min(most) } else { entries };
        if found < wanted {
            return Err(MatrixError::SmallBank { method: method.to_string(), kind, wanted, found });
        }
    }
    Ok(())
}

/// A fit for each size.
fn fit_bank(
    bank: MatrixBank<'_>,
    wanted: &Wanted,
    nested: NestedSizes<'_>,
) -> Result<Vec<BankFit>, MatrixError> {
    let (balanced, plain): (Vec<_>, Vec<_>) =
        wanted.statistics.iter().partition(|statistic| statistic.has_potentials());
    let source = bank.similarities;
    let points = source.columns();
    let mut states = PointStates::new(points, plain);
    let mut best: Vec<Vec<u32>> = Vec::new();
    let mut fits = Vec::new();
    let last = nested.sizes.last().copied().unwrap_or(0);
    each_block(source, &nested.order[..last], nested.sizes, &mut |first, block| {
        let rows = block.len() / points;
        let entries = &nested.order[first..first + rows];
        states.absorb(first, block, &[], &|point| {
            let own = bank.own_entries.get(point).copied().flatten()? as usize;
            (first..first + rows).contains(&own).then(|| own - first)
        });
        if wanted.gate > 0 {
            let lists = block.par_chunks_exact(points).zip(entries).map(|(line, &entry)| {
                let is_own = |point: usize| bank.own_entries.get(point).copied().flatten() == Some(entry);
                best_points(line, wanted.gate, &is_own)
            });
            best.extend(lists.collect::<Vec<_>>());
        }
        if nested.sizes.contains(&(first + rows)) {
            fits.push(BankFit { columns: states.columns(), best: best.clone(), points });
        }
    })?;
    for (fit, &size) in fits.iter_mut().zip(nested.sizes) {
        for &statistic in &balanced {
            let Statistic::Sinkhorn { iterations, .. } = statistic else { continue };
            let order = &nested.order[..size];
            let of_entries = potentials(source, order, statistic, iterations)?;
            let states = balanced_columns(source, order, statistic, &of_entries)?;
            fit.columns.extend(states.columns());
        }
    }
    Ok(fits)
}

/// The raw `k` best points of an entry, best first.
fn best_points(line: &[f32], k: usize, is_own: &dyn Fn(usize) -> bool) -> Vec<u32> {
    let mut top = TopK::new(k);
    let mut floor = f32::NEG_INFINITY;
    for (group, numbers) in line.chunks(CHUNK_ROWS).enumerate() {
        if dehub_vector::largest(numbers) < floor {
            continue;
        }
        for (point, &similarity) in (group * CHUNK_ROWS..).zip(numbers) {
            if similarity >= floor && !is_own(point) && top.push(Candidate::new(similarity, number(point))) {
                floor = top.threshold().map_or(f32::NEG_INFINITY, |worst| worst.score);
            }
        }
    }
    top.into_sorted().into_iter().map(|candidate| candidate.row).collect()
}

pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).expect("rows and columns are checked to be numbered by u32")
}

/// The states of all points, those of one point together.
pub(super) struct PointStates {
    statistics: Vec<Statistic>,
    states: Vec<State>,
}

impl PointStates {
    pub(super) fn new(points: usize, statistics: Vec<Statistic>) -> PointStates {
        let of_point = statistics.iter().map(|statistic| statistic.empty()).collect::<Vec<_>>();
        let states = std::iter::repeat_n(of_point, points).flatten().collect();
        PointStates { statistics, states }
    }

    /// Adds a block of entries, the first of them at a place in the bank; `own` gives the row of the block that is
    /// a point itself. With potentials, one an entry.
    pub(super) fn absorb(
        &mut self,
        first: usize,
        block: &[f32],
        potentials: &[f32],
        own: &(dyn Fn(usize) -> Option<usize> + Sync),
    ) {
        let width = self.statistics.len();
        if width == 0 {
            return;
        }
        let points = self.states.len() / width;
        let rows = block.len() / points;
        let statistics = &self.statistics;
        self.states.par_chunks_mut(width * CHUNK_ROWS).enumerate().for_each_init(
            Vec::new,
            |tile, (span, states)| {
                let start = span * CHUNK_ROWS;
                transpose(block, points, start, states.len() / width, tile);
                for (place, states) in states.chunks_exact_mut(width).enumerate() {
                    let line = &tile[place * rows..][..rows];
                    let (before, after) = match own(start + place) {
                        None => (line, &line[rows..]),
                        Some(own) => (&line[..own], &line[own + 1..]),
                    };
                    let parts = [(before, 0), (after, rows - after.len())];
                    for (part, skipped) in parts.into_iter().filter(|(part, _)| !part.is_empty()) {
                        let potentials = potentials.get(skipped..).unwrap_or(&[]);
                        let block = Block::new(part, number(first + skipped)).with(potentials);
                        states.iter_mut().zip(statistics).for_each(|(state, &it)| state.absorb(it, block));
                    }
                }
            },
        );
    }

    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// The column of each statistic.
    #[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    pub(super) fn columns(&self) -> Vec<(Statistic, MatrixColumn)> {
        let width = self.statistics.len();
        let none = Chunked::new(1);
        let column = |(place, &statistic): (usize, &Statistic)| {
            let states = || self.states.iter().skip(place).step_by(width);
            let wide: Vec<f64> = states().map(|state| statistic.value(state, &none)).collect();
            let mean = wide.iter().sum::<f64>() / wide.len().max(1) as f64;
            let center = if statistic.is_centred() { mean } else { 0.0 };
            let lists = statistic.list_len().map(|_| {
                let longest = states().map(|state| state.largest().len()).max().unwrap_or(0);
                let mut lists = Chunked::new(longest.max(1));
                for state in states() {
                    let mut list = state.largest().to_vec();
                    list.resize(longest.max(1), f32::MIN);
                    lists.push(&list);
                }
                lists
            });
            let values = wide.iter().map(|value| (value - center) as f32).collect();
            (statistic, MatrixColumn { values, center, lists })
        };
        self.statistics.iter().enumerate().map(column).collect()
    }
}

/// Writes `width` columns of a block from `start` on to `tile`, a line a column.
fn transpose(block: &[f32], columns: usize, start: usize, width: usize, tile: &mut Vec<f32>) {
    /// Numbers of a cache line: a square of as many lines is turned at once.
    const SIDE: usize = 16;
    let rows = block.len() / columns;
    tile.resize(rows * width, 0.0);
    for first_row in (0..rows).step_by(SIDE) {
        let last_row = rows.min(first_row + SIDE);
        for first in (0..width).step_by(SIDE) {
            let last = width.min(first + SIDE);
            for row in first_row..last_row {
                let line = &block[row * columns + start..][first..last];
                line.iter().zip(first..).for_each(|(&number, column)| tile[column * rows + row] = number);
            }
        }
    }
}
