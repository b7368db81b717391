//! What rankings did with queries, wherever the similarities came from, and what is told of it.

use dehub_eval::{Measure, Ranks, aggregate, per_query};
use dehub_normalize::Occurrence;

use crate::evaluate::QueryTruth;
use crate::matrix::Answered;
use crate::tune::resample::{Draws, count, quantile};

/// Scores compared across queries: those of points that answer them and of a sample of others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pooled {
    /// The scores of relevant points, of all queries.
    pub relevant: Vec<f32>,
    /// The scores of the sample.
    pub others: Vec<f32>,
}

/// What one ranking did with each query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranked {
    /// The best points of each query, best first, numbered from 0 without gaps.
    pub lists: Vec<Vec<u32>>,
    /// The ranks of the points asked for, from 1, a list for each query.
    pub ranks: Vec<Vec<u32>>,
    /// Whether any gate was open for each query; empty for rankings without gates.
    pub gates: Vec<bool>,
    /// The scores of the points asked for, if the ranking's scores can be told.
    pub pooled: Option<Pooled>,
}

impl Ranked {
    /// Adds the next query.
    pub(crate) fn push(&mut self, answer: Answered) {
        self.lists.push(answer.best);
        self.ranks.push(answer.ranks);
        self.gates.extend(answer.gate_open);
        let pooled = self.pooled.get_or_insert_default();
        pooled.relevant.extend(answer.of_targets);
        pooled.others.extend(answer.of_sample);
    }

    /// The share of queries with an open gate, for a ranking with gates.
    pub fn active(&self) -> Option<f64> {
        let open = self.gates.iter().filter(|&&open| open).count();
        (!self.gates.is_empty()).then(|| count(open) / count(self.gates.len()))
    }

    /// How often each of `points` points is among the best `k`.
    pub fn occurrence(&self, points: usize, k: usize) -> Occurrence {
        Occurrence::count(points, k, self.lists.iter().map(Vec::as_slice))
    }
}

/// The points judged for each query of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Relevant {
    /// Whether a query is judged. One that is not counts for hubness alone.
    pub is_judged: Vec<bool>,
    /// The judged points of each query, as they are ranked: the relevant ones first.
    pub points: Vec<Vec<u32>>,
    /// What was judged of them.
    pub truths: Vec<QueryTruth>,
}

impl Relevant {
    /// The relevant points of each query.
    pub fn relevant(&self) -> impl Iterator<Item = &[u32]> {
        self.points.iter().zip(&self.truths).map(|(points, truth)| &points[..truth.gains.len()])
    }

    /// The judged queries' ranks, in the order of the queries.
    ///
    /// # Panics
    /// If `ranks` are not those of the judged points, in their order, among `points` points.
    pub fn ranks(&self, ranks: &[Vec<u32>], points: usize) -> Vec<Ranks> {
        let gallery = u32::try_from(points).expect("points are numbered by u32");
        let of_query = |query: usize| self.truths[query].ranks(&ranks[query], gallery);
        (0..self.points.len()).filter(|&query| self.is_judged[query]).map(of_query).collect()
    }

    /// For each judged query at most `most` points that are not judged for it, drawn by a seed with
    /// replacement; the same whatever is ranked.
    pub fn sample(&self, points: usize, most: usize, seed: u64) -> Vec<Vec<u32>> {
        let draw = |(query, relevant): (usize, &Vec<u32>)| {
            let others = points.saturating_sub(relevant.len());
            if others == 0 || relevant.is_empty() {
                return Vec::new();
            }
            let mut draws = Draws::new(seed, SAMPLE_USE, query);
            let mut sorted = relevant.clone();
            sorted.sort_unstable();
            // The drawn number counts the points that are not relevant.
            let place = |drawn: usize| {
                let passed = |place: usize| sorted.iter().take_while(|&&it| it as usize <= place).count();
                let mut place = drawn;
                while place != drawn + passed(place) {
                    place = drawn + passed(place);
                }
                u32::try_from(place).expect("points are numbered by u32")
            };
            (0..most.min(others)).map(|_| place(draws.below(others))).collect()
        };
        self.points.iter().enumerate().map(draw).collect()
    }
}

/// Uses of seeds that tuning does not have.
const SAMPLE_USE: u64 = 3;
const INTERVAL_USE: u64 = 4;
const BANK_USE: u64 = 5;

/// The values of a measure, one a judged query; none for queries it leaves out.
pub fn values(ranks: &[Ranks], measure: Measure) -> Vec<Option<f64>> {
    ranks.iter().map(|ranks| per_query(ranks, measure)).collect()
}

/// A measure over queries, and the 95 % interval that other queries would have had it in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// As measured.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The ends of the interval of the difference from the first ranking: what the same resampled queries
    /// have more.
    pub gain: (f64, f64),
}

/// A measure under several rankings of the same queries, each a list of their values. Intervals are percentiles
/// of queries drawn with replacement, in as many `rounds`; the draws are the same for all rankings. `None` where a
/// ranking has no value.
pub fn measured(
    rankings: &[Vec<Option<f64>>],
    measure: Measure,
    seed: u64,
    rounds: usize,
) -> Vec<Option<Measured>> {
    let queries = rankings.first().map_or(0, Vec::len);
    let sorted: Vec<Vec<(f64, u32)>> = rankings.iter().map(|values| ascending(values)).collect();
    let whole: Vec<Option<f64>> = rankings
        .iter()
        .map(|values| aggregate(values.iter().copied().flatten().collect(), measure))
        .collect();
    let is_median = measure.is_median();
    let mut resampled = vec![Vec::with_capacity(rounds); rankings.len()];
    let mut times = vec![0_u32; queries];
    for round in 0..rounds {
        times.fill(0);
        let mut draws = Draws::new(seed, INTERVAL_USE, round);
        (0..queries).for_each(|_| times[draws.below(queries)] += 1);
        for (values, resampled) in sorted.iter().zip(&mut resampled) {
            resampled.push(if is_median { median(values, &times) } else { mean(values, &times) });
        }
    }
    let ends = |mut list: Vec<f64>| {
        list.sort_unstable_by(f64::total_cmp);
        if list.is_empty() { None } else { Some((quantile(&list, 0.025), quantile(&list, 0.975))) }
    };
    let of_ranking = |(&value, list): (&Option<f64>, &Vec<f64>)| {
        let value = value?;
        let finite = |list: Vec<f64>| list.into_iter().filter(|it| it.is_finite()).collect();
        let gains = list.iter().zip(&resampled[0]).map(|(own, first)| own - first).collect();
        let (low, high) = ends(finite(list.clone())).unwrap_or((value, value));
        Some(Measured { value, low, high, gain: ends(finite(gains)).unwrap_or((0.0, 0.0)) })
    };
    whole.iter().zip(&resampled).map(of_ranking).collect()
}

/// Values with the numbers of their queries, ascending.
fn ascending(values: &[Option<f64>]) -> Vec<(f64, u32)> {
    let mut list: Vec<(f64, u32)> =
        (0..).zip(values).filter_map(|(query, value)| Some(((*value)?, query))).collect();
    list.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    list
}

fn mean(values: &[(f64, u32)], times: &[u32]) -> f64 {
    let (mut sum, mut number) = (0.0, 0_u32);
    for &(value, query) in values {
        sum += value * f64::from(times[query as usize]);
        number += times[query as usize];
    }
    sum / f64::from(number)
}

fn median(values: &[(f64, u32)], times: &[u32]) -> f64 {
    let number: u32 = values.iter().map(|&(_, query)| times[query as usize]).sum();
    let at = |place: u32| {
        let mut passed = 0;
        let reaches = |&&(_, query): &&(f64, u32)| {
            passed += times[query as usize];
            passed > place
        };
        values.iter().find(reaches).map_or(f64::NAN, |&(value, _)| value)
    };
    if number % 2 == 1 {
        at(number / 2)
    } else {
        f64::midpoint(at((number / 2).saturating_sub(1)), at(number / 2))
    }
}

/// The share of all occurrences that the least frequent points have: for each of `steps + 1` even shares of the
/// points, from none to all (Lorenz 1905). The diagonal is no hubness at all.
pub fn lorenz(occurrence: &Occurrence, steps: usize) -> Vec<f64> {
    let mut counts = occurrence.counts().to_vec();
    counts.sort_unstable();
    let total: f64 = counts.iter().map(|&it| f64::from(it)).sum();
    let mut sums = vec![0.0];
    sums.extend(counts.iter().scan(0.0, |sum, &it| {
        *sum += f64::from(it);
        Some(*sum)
    }));
    let share = |step: usize| if total > 0.0 { sums[step * counts.len() / steps] / total } else { 0.0 };
    (0..=steps).map(share).collect()
}

/// How well one threshold for all queries tells relevant points from others.
#[derive(Debug, Clone, PartialEq)]
pub struct Roc {
    /// The share of pairs in the right order, ties for half: the area under the curve.
    pub auc: f64,
    /// (share of others at or above a threshold, share of relevant points), both ascending from 0 to 1.
    pub points: Vec<(f64, f64)>,
}

/// The curve of pooled scores at about `steps` thresholds, denser where few others are above them; `None` where
/// one side has no scores.
pub fn roc(pooled: &Pooled, steps: usize) -> Option<Roc> {
    let (relevant, others) = (count(pooled.relevant.len()), count(pooled.others.len()));
    if pooled.relevant.is_empty() || pooled.others.is_empty() {
        return None;
    }
    let marked = |list: &[f32], is_relevant| list.iter().map(move |&it| (it + 0.0, is_relevant)).collect();
    let mut all: Vec<(f32, bool)> = marked(&pooled.relevant, true);
    all.extend::<Vec<_>>(marked(&pooled.others, false));
    all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut above_relevant, mut above_others, mut ordered) = (0.0, 0.0, 0.0);
    let (mut points, mut step) = (vec![(0.0, 0.0)], 1);
    for tied in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let of_relevant = count(tied.iter().filter(|(_, is_relevant)| *is_relevant).count());
        let of_others = count(tied.len()) - of_relevant;
        ordered += of_others * (above_relevant + of_relevant / 2.0);
        above_relevant += of_relevant;
        above_others += of_others;
        let share = above_others / others;
        // Cubes of even steps: most of the curve's bend is near 0.
        let wanted = |step: usize| (count(step) / count(steps)).powi(3);
        if step < steps && share >= wanted(step) {
            points.push((share, above_relevant / relevant));
            while step < steps && share >= wanted(step) {
                step += 1;
            }
        }
    }
    points.push((1.0, 1.0));
    Some(Roc { auc: ordered / (relevant * others), points })
}

/// The numbers below `entries` in an order drawn by a seed; draws are numbered.
pub fn bank_order(entries: usize, seed: u64, draw: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(entries).collect();
    Draws::new(seed, BANK_USE, draw).shuffle(&mut order, entries);
    order
}

/// The mean of some numbers and their standard deviation over draws (n − 1; 0 for one).
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let (number, &first) = (count(values.len()), values.first()?);
    // From the first, so that equal numbers have exactly that mean.
    let mean = first + values.iter().map(|value| value - first).sum::<f64>() / number;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if values.len() > 1 { (squares / (number - 1.0)).sqrt() } else { 0.0 };
    Some((mean, deviation))
}
