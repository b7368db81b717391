//! Fitting: the similarities of points to a bank, block by block, folded into states.
//! The matrix of all similarities is never stored.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use dehub_vector::{
    CHUNK_ROWS, Candidate, Chunked, Metric, TopK, dot, matrix_product, max_sim, max_sim_block, product_error,
};
use rayon::prelude::*;

use crate::exact::ExactPairs;
use crate::{Activation, Block, State, Statistic};

/// A bank as fitting sees it.
#[derive(Debug, Clone, Copy)]
pub struct Bank<'a> {
    /// One vector an entry.
    pub vectors: &'a Chunked,
    /// How entries and points are compared.
    pub metric: Metric,
    /// For [`Statistic::Sinkhorn`], one number an entry.
    pub potentials: Option<&'a [f32]>,
    /// A column of how many entries each counts as, 0 for one that was removed; `None` when all are 1.
    pub weights: Option<&'a Chunked>,
}

impl<'a> Bank<'a> {
    /// A bank without potentials, whose entries all have weight 1.
    pub fn new(vectors: &'a Chunked, metric: Metric) -> Bank<'a> {
        Bank { vectors, metric, potentials: None, weights: None }
    }

    /// The weights of entries of one chunk; none when all are 1.
    fn weights_of(&self, entries: &Span) -> &'a [f32] {
        let weights = self.weights.map_or(&[][..], |weights| weights.within_chunk(entries));
        if weights.iter().all(|&weight| weight == 1.0) { &[] } else { weights }
    }
}

/// Points as fitting sees them.
pub struct Points<'a> {
    /// One vector a row.
    pub vectors: &'a Chunked,
    /// Whether the point of a row exists. Rows of deleted points are in no activation set, and nobody may ask
    /// for their states: where a whole chunk is of them, they are empty.
    pub live: &'a (dyn Fn(u32) -> bool + Sync),
    /// The bank entry that *is* the point of a row, and is left out of its statistics.
    pub own_entry: &'a (dyn Fn(u32) -> Option<u32> + Sync),
}

impl Points<'_> {
    /// Whether a row of the span is that of a point.
    fn has_live(&self, span: &Span) -> bool {
        span.clone().any(|row| (self.live)(row_number(row)))
    }
}

/// The state of each row from `first_row` on, over the entries from `first_entry` on: one list of
/// states for each of `statistics`, in their order.
pub fn fit_states(
    points: &Points<'_>,
    first_row: usize,
    bank: Bank<'_>,
    first_entry: usize,
    statistics: &[Statistic],
) -> Vec<Vec<State>> {
    fit_entries(points, first_row, bank, first_entry..bank.vectors.len(), statistics)
}

/// The same over a range of entries.
pub fn fit_entries(
    points: &Points<'_>,
    first_row: usize,
    bank: Bank<'_>,
    entries: Span,
    statistics: &[Statistic],
) -> Vec<Vec<State>> {
    fit_rows(points, first_row..points.vectors.len(), bank, entries, statistics)
}

/// The same for a range of rows. The states of rows that are not live mean nothing. Cut at multiples of
/// [`CHUNK_ROWS`], the parts are bit for bit the whole.
pub fn fit_rows(
    points: &Points<'_>,
    rows: Span,
    bank: Bank<'_>,
    entries: Span,
    statistics: &[Statistic],
) -> Vec<Vec<State>> {
    if statistics.is_empty() {
        return Vec::new();
    }
    pass(points, rows, bank, entries, statistics, &|_, _, _| {})
}

/// The states of a range of rows over the whole bank, and for each of `gates` the raw best live points of
/// each entry among them, that many. Whatever is asked for, each similarity is computed once.
pub fn fit_together(
    points: &Points<'_>,
    rows: Span,
    bank: Bank<'_>,
    statistics: &[Statistic],
    gates: &[usize],
) -> (Vec<Vec<State>>, Vec<Activation>) {
    let all = 0..bank.vectors.len();
    let Some(&most) = gates.iter().max() else {
        return (fit_rows(points, rows, bank, all, statistics), Vec::new());
    };
    let longest = longest_of(points, &spans(rows.clone()));
    // Lists for each thread: it holds its own for as long as a block takes.
    let lists: Vec<Mutex<Lists<'_>>> = (0..=rayon::current_num_threads())
        .map(|_| Mutex::new(Lists::new(bank.vectors, bank.metric, most, longest)))
        .collect();
    let offer_block = |span: &Span, entries: &Span, block: &[f32]| {
        let thread = rayon::current_thread_index().unwrap_or(lists.len() - 1).min(lists.len() - 1);
        let mut lists = lists[thread].lock().unwrap_or_else(PoisonError::into_inner);
        for (row, line) in span.clone().zip(block.chunks_exact(entries.len())) {
            if (points.live)(row_number(row)) {
                let own = (points.own_entry)(row_number(row)).map(|own| own as usize);
                lists.offer(row, points.vectors.row(row), own, entries, line);
            }
        }
    };
    let states = pass(points, rows, bank, all, statistics, &offer_block);
    let lists =
        lists.into_iter().map(|lists| lists.into_inner().unwrap_or_else(PoisonError::into_inner).tops);
    let mut joined = vec![TopK::new(most); bank.vectors.len()];
    for other in lists {
        for (list, other) in joined.iter_mut().zip(other) {
            other.into_sorted().into_iter().for_each(|candidate| _ = list.push(candidate));
        }
    }
    let is_there = |entry: usize| bank.weights.is_none_or(|weights| weights.at(entry) > 0.0);
    let sorted =
        (0..).zip(joined).map(|(entry, list)| if is_there(entry) { list.into_sorted() } else { Vec::new() });
    let sorted: Vec<Vec<Candidate>> = sorted.collect();
    let gate = |&k: &usize| {
        Activation::from_lists(k, sorted.iter().map(|list| list[..list.len().min(k)].to_vec()).collect())
    };
    (states, gates.iter().map(gate).collect())
}

/// Computes every similarity, block by block, folds it into states and shows it to `look`.
fn pass(
    points: &Points<'_>,
    rows: Span,
    bank: Bank<'_>,
    entries: Span,
    statistics: &[Statistic],
    look: &(dyn Fn(&Span, &Span, &[f32]) + Sync),
) -> Vec<Vec<State>> {
    let blocks: Vec<_> = spans(rows)
        .into_par_iter()
        .map(|span| {
            let mut states: Vec<Vec<State>> =
                statistics.iter().map(|statistic| vec![statistic.empty(); span.len()]).collect();
            let mut block = Vec::new();
            let entries = if points.has_live(&span) { entries.clone() } else { 0..0 };
            for entries in spans(entries) {
                similarities(&span, points.vectors, &entries, bank, &mut block);
                absorb(points, &span, &entries, &block, bank, statistics, &mut states);
                look(&span, &entries, &block);
            }
            states
        })
        .collect();
    let mut joined: Vec<Vec<State>> = vec![Vec::new(); statistics.len()];
    for block in blocks {
        for (list, states) in joined.iter_mut().zip(block) {
            list.extend(states);
        }
    }
    joined
}

/// The raw `k` best live points, among rows from `first_row` on, of each of `entries`.
///
/// A matrix product finds the pairs worth asking about and [`dot`] scores them, so the lists are the
/// same however points and entries came, and equal vectors tie as they do in a search.
pub fn fit_activation(
    points: &Points<'_>,
    first_row: usize,
    bank: Bank<'_>,
    entries: &[u32],
    k: usize,
) -> Activation {
    let mut rows = spans(first_row..points.vectors.len());
    rows.retain(|span| points.has_live(span));
    let longest = longest_of(points, &rows);
    let lists = entries.par_chunks(CHUNK_ROWS).map(|entries| {
        let mut gathered = bank.vectors.empty_like();
        entries.iter().for_each(|&entry| gathered.push(bank.vectors.row(entry as usize)));
        let mut lists = Lists::new(&gathered, bank.metric, k, longest);
        let mut block = Vec::new();
        let gathered_bank = Bank::new(&gathered, bank.metric);
        for span in rows.iter().cloned() {
            let all = 0..entries.len();
            similarities(&span, points.vectors, &all, gathered_bank, &mut block);
            for (row, line) in (span.start..).zip(block.chunks_exact(entries.len())) {
                if (points.live)(row_number(row)) {
                    let own = (points.own_entry)(row_number(row));
                    let own = own.and_then(|own| entries.iter().position(|&it| it == own));
                    lists.offer(row, points.vectors.row(row), own, &all, line);
                }
            }
        }
        lists.tops.into_iter().map(TopK::into_sorted).collect::<Vec<_>>()
    });
    Activation::from_lists(k, lists.flatten_iter().collect())
}

/// The rows whose state may keep one of the `removed` entries, and must be fitted anew without them: those
/// with such an entry as near as the least they keep, as far as 32 bits can tell.
pub fn rows_holding(points: &Points<'_>, bank: Bank<'_>, removed: &[u32], states: &[State]) -> Vec<u32> {
    let mut gathered = bank.vectors.empty_like();
    removed.iter().for_each(|&entry| gathered.push(bank.vectors.row(entry as usize)));
    let longest = (0..gathered.len()).map(|place| gathered.square(place)).fold(0.0, f32::max);
    let everyone = Points { vectors: points.vectors, live: points.live, own_entry: &|_| None };
    let nearest = Statistic::TopMean { k: 1 };
    let nearest = fit_states(&everyone, 0, Bank::new(&gathered, bank.metric), 0, &[nearest]);
    let may_hold = |(row, (nearest, state)): (u32, (&State, &State))| {
        let State::KLargest(nearest) = nearest else { return None };
        let square = points.vectors.square(row as usize);
        let reach = nearest.least()? + 2.0 * slack(points.vectors.width(), square, longest);
        state.may_hold(reach).then_some(row)
    };
    (0..).zip(nearest.iter().flatten().zip(states)).filter_map(may_hold).collect()
}

/// The largest squared length of a point's vector.
fn longest_of(points: &Points<'_>, rows: &[Span]) -> f32 {
    let rows = rows.iter().filter(|span| points.has_live(span)).flat_map(Range::clone);
    rows.map(|row| points.vectors.square(row)).fold(0.0, f32::max)
}

pub(crate) type Span = Range<usize>;

/// Cuts a range where chunks end, so that each span lies in one chunk.
pub(crate) fn spans(range: Span) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min((start / CHUNK_ROWS + 1) * CHUNK_ROWS);
        spans.push(start..end);
        start = end;
    }
    spans
}

/// The similarity of each point of `span` to each of `entries`, a line a point.
pub(crate) fn similarities(
    span: &Span,
    points: &Chunked,
    entries: &Span,
    bank: Bank<'_>,
    block: &mut Vec<f32>,
) {
    let dim = points.width();
    block.clear();
    block.resize(span.len() * entries.len(), 0.0);
    if points.is_ragged() {
        return max_sim_block(bank.vectors, entries, points, span, block);
    }
    let (left, right) = (points.within_chunk(span), bank.vectors.within_chunk(entries));
    matrix_product(left, right, dim, block);
    match bank.metric {
        Metric::Cosine | Metric::Dot => {}
        Metric::Euclidean => {
            let half_norms =
                |rows: &[f32]| -> Vec<f32> { rows.chunks_exact(dim).map(|row| square(row) / 2.0).collect() };
            let (left, right) = (half_norms(left), half_norms(right));
            for (line, &point) in block.chunks_exact_mut(entries.len()).zip(&left) {
                line.iter_mut().zip(&right).for_each(|(product, &entry)| *product -= point + entry);
            }
        }
    }
}

fn absorb(
    points: &Points<'_>,
    span: &Span,
    entries: &Span,
    block: &[f32],
    bank: Bank<'_>,
    statistics: &[Statistic],
    states: &mut [Vec<State>],
) {
    let exact = ExactPairs::new(bank, entries, statistics);
    let weights = bank.weights_of(entries);
    let block_of = |line, first: u32, weights| {
        let potentials = bank.potentials.map_or(&[][..], |potentials| &potentials[first as usize..]);
        Block::new(line, first).with(potentials).weighted(weights)
    };
    for (place, line) in block.chunks_exact(entries.len()).enumerate() {
        let own = (points.own_entry)(row_number(span.start + place)).map(|entry| entry as usize);
        let cut = own.filter(|own| entries.contains(own)).map(|own| own - entries.start);
        let first = row_number(entries.start);
        let (before, after) = match cut {
            None => (block_of(line, first, weights), block_of(&[], first, &[])),
            Some(cut) => {
                let rest = first + row_number(cut) + 1;
                let (before, after) = match weights {
                    [] => (weights, weights),
                    weights => (&weights[..cut], &weights[cut + 1..]),
                };
                (block_of(&line[..cut], first, before), block_of(&line[cut + 1..], rest, after))
            }
        };
        let point = points.vectors.row(span.start + place);
        for (statistic, states) in statistics.iter().zip(&mut *states) {
            for block in [before, after].into_iter().filter(|block| !block.similarities.is_empty()) {
                if let Statistic::Largest { k } = *statistic {
                    let exact = exact.largest(point, block, k, states[place].largest());
                    states[place].absorb(*statistic, Block::new(&exact, block.first_entry));
                } else {
                    states[place].absorb(*statistic, block);
                }
            }
        }
    }
}

/// The best points of each entry of a bank, in the making.
struct Lists<'a> {
    bank: &'a Chunked,
    metric: Metric,
    /// A bound on the squared length of every point.
    longest: f32,
    tops: Vec<TopK>,
    /// A product below this cannot be that of one of the entry's best.
    floors: Vec<f32>,
}

/// Products tested against the floors at once.
const LANES: usize = 32;

impl<'a> Lists<'a> {
    fn new(bank: &'a Chunked, metric: Metric, k: usize, longest: f32) -> Lists<'a> {
        let (tops, floors) = (vec![TopK::new(k); bank.len()], vec![f32::MIN; bank.len()]);
        Lists { bank, metric, longest, tops, floors }
    }

    /// Offers a point to the lists of some entries, but not to its own. `line` has its similarities to
    /// them as products.
    fn offer(&mut self, row: usize, point: &[f32], own: Option<usize>, entries: &Span, line: &[f32]) {
        for (group, products) in line.chunks(LANES).enumerate() {
            let first = entries.start + group * LANES;
            let floors = &self.floors[first..first + products.len()];
            if !products.iter().zip(floors).fold(false, |any, (product, floor)| any | (product >= floor)) {
                continue;
            }
            for (entry, &product) in (first..).zip(products) {
                if own != Some(entry) && product >= self.floors[entry] {
                    self.score(row, point, entry);
                }
            }
        }
    }

    fn score(&mut self, row: usize, point: &[f32], entry: usize) {
        let similarity = pair(self.bank, entry, point, self.metric);
        let top = &mut self.tops[entry];
        if top.push(Candidate::new(similarity, row_number(row)))
            && let Some(worst) = top.threshold()
        {
            let slack = slack(self.bank.width(), self.longest, self.bank.square(entry));
            self.floors[entry] = worst.score - slack;
        }
    }
}

/// The similarity of an entry and a point, as a search with the entry scores it.
pub(crate) fn pair(bank: &Chunked, entry: usize, point: &[f32], metric: Metric) -> f32 {
    if bank.is_ragged() {
        return max_sim(bank.row(entry), point, bank.width());
    }
    let product = dot(point, bank.row(entry));
    match metric {
        Metric::Cosine | Metric::Dot => product,
        Metric::Euclidean => product - (square(point) / 2.0 + square(bank.row(entry)) / 2.0),
    }
}

pub(crate) fn square(row: &[f32]) -> f32 {
    dot(row, row)
}

/// Bounds the difference of a pair's similarity as a product and as it is scored: the two sums'
/// error, and the rounding of the Euclidean halves.
pub(crate) fn slack(dim: usize, left_square: f32, right_square: f32) -> f32 {
    product_error(dim, left_square.sqrt(), right_square.sqrt())
        + 2.0 * f32::EPSILON * (left_square + right_square)
}

fn row_number(row: usize) -> u32 {
    u32::try_from(row).expect("rows are numbered by u32; the writer refuses more")
}
