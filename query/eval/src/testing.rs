//! How sure a value is, and whether two systems differ: resampling of queries.

use std::num::NonZeroU32;

use crate::Measure;
use crate::evaluate::median;
use crate::measure::Kind;

/// How values are resampled. The same numbers come out of the same values and the same seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// How often.
    pub rounds: NonZeroU32,
    /// What the draws depend on.
    pub seed: u64,
    /// The part of the rounds that an interval holds, above 0 and below 1.
    pub confidence: f64,
}

impl Default for Resampling {
    /// 10,000 rounds, and intervals of 95 %.
    fn default() -> Resampling {
        const ROUNDS: NonZeroU32 = NonZeroU32::new(10_000).expect("not 0");
        Resampling { rounds: ROUNDS, seed: 0, confidence: 0.95 }
    }
}

/// What is asked of two systems that answered the same queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Whether with other queries the difference could have been of the other sign: queries are drawn with
    /// replacement, and p is twice the share of rounds on the other side of 0 (Efron and Tibshirani 1993, the
    /// percentile interval turned around).
    Bootstrap,
    /// Whether a difference as large could come of labels alone: each query's two values are swapped or not (Fisher
    /// 1935; Smucker et al. 2007). All 2^n ways are taken where they are no more than the rounds.
    Randomisation,
}

/// A value, and the interval other queries would have it in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The value over all queries.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A system beside a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Its value less the baseline's, over the queries for which both have one, with its interval.
    pub difference: Interval,
    /// How likely so large a difference is if there is none, on either side.
    pub p: f64,
}

impl Resampling {
    /// The value over queries, with the percentile interval over queries drawn with replacement (Efron 1979).
    /// `None` without a value.
    pub fn interval(&self, values: &[f64], measure: Measure) -> Option<Interval> {
        let mut sample = Vec::with_capacity(values.len());
        let value = |draws: Option<&mut Draws>| {
            drawn(draws, values.len(), &mut sample, |place| values[place]);
            middle(&mut sample, measure)
        };
        (!values.is_empty()).then(|| self.spread(value).0)
    }

    /// Compares a system with a baseline, value by value of the same queries. `None` where one of the two has no value;
    /// such pairs are passed over. `None` altogether without a pair.
    pub fn compare(
        &self,
        baseline: &[Option<f64>],
        other: &[Option<f64>],
        measure: Measure,
        test: Test,
    ) -> Option<Comparison> {
        let pairs: Vec<(f64, f64)> = baseline.iter().zip(other).filter_map(|(&a, &b)| a.zip(b)).collect();
        if pairs.is_empty() {
            return None;
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (difference, rounds) = self.spread(|draws| {
            let mut places = Vec::with_capacity(pairs.len());
            drawn(draws, pairs.len(), &mut places, |place| pairs[place]);
            left.clear();
            right.clear();
            left.extend(places.iter().map(|pair| pair.0));
            right.extend(places.iter().map(|pair| pair.1));
            middle(&mut right, measure) - middle(&mut left, measure)
        });
        let p = match test {
            Test::Bootstrap => two_sided(&rounds),
            Test::Randomisation => self.randomisation(&pairs, measure, difference.value),
        };
        Some(Comparison { difference, p })
    }

    /// The value of all queries with its interval, and the values of the rounds, sorted.
    fn spread(&self, mut value: impl FnMut(Option<&mut Draws>) -> f64) -> (Interval, Vec<f64>) {
        let whole = value(None);
        let mut draws = Draws(self.seed);
        let mut rounds: Vec<f64> = (0..self.rounds.get()).map(|_| value(Some(&mut draws))).collect();
        rounds.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        let (low, high) = (quantile(&rounds, tail), quantile(&rounds, 1.0 - tail));
        (Interval { value: whole, low, high }, rounds)
    }

    /// The share of ways to swap values that give a difference at least as large.
    fn randomisation(&self, pairs: &[(f64, f64)], measure: Measure, observed: f64) -> f64 {
        // Sums in another order differ in their last bits.
        let least = observed.abs() * (1.0 - 1e-12);
        let (mut left, mut right) = (vec![0.0; pairs.len()], vec![0.0; pairs.len()]);
        let mut is_as_large = |mut swaps: Box<dyn FnMut(usize) -> bool + '_>| {
            for (place, &(a, b)) in pairs.iter().enumerate() {
                (left[place], right[place]) = if swaps(place) { (b, a) } else { (a, b) };
            }
            (middle(&mut right, measure) - middle(&mut left, measure)).abs() >= least
        };
        let all = u32::try_from(pairs.len()).ok().and_then(|pairs| 1u64.checked_shl(pairs));
        if let Some(all) = all.filter(|&all| all <= u64::from(self.rounds.get())) {
            let as_large =
                (0..all).filter(|way| is_as_large(Box::new(|place| way >> place & 1 == 1))).count();
            return as_large as f64 / all as f64;
        }
        let mut draws = Draws(self.seed);
        let rounds = self.rounds.get();
        let as_large = (0..rounds).filter(|_| is_as_large(Box::new(|_| draws.next() >> 63 == 1))).count();
        // The labels as they are count as one of the ways (Phipson and Smyth 2010).
        (as_large as f64 + 1.0) / (f64::from(rounds) + 1.0)
    }
}

/// Probabilities of several tests, corrected so that the chance of a single wrong one among those below a level is
/// that level (Holm 1979), in the order given.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut least: f64 = 0.0;
    for (done, &place) in order.iter().enumerate() {
        let left = (probabilities.len() - done) as f64;
        least = least.max((probabilities[place] * left).min(1.0));
        corrected[place] = least;
    }
    corrected
}

/// Fills a sample: as many as there are, drawn with replacement, or all of them in order.
fn drawn<T>(draws: Option<&mut Draws>, count: usize, sample: &mut Vec<T>, at: impl Fn(usize) -> T) {
    sample.clear();
    match draws {
        None => sample.extend((0..count).map(at)),
        Some(draws) => sample.extend((0..count).map(|_| at(draws.below(count)))),
    }
}

/// The number that a measure makes of values, of which there is at least one. The order of a median's changes.
fn middle(values: &mut [f64], measure: Measure) -> f64 {
    match measure.kind() {
        Kind::MedianRank => {
            values.sort_unstable_by(f64::total_cmp);
            median(values)
        }
        Kind::Ndcg(_)
        | Kind::Ap
        | Kind::Rr
        | Kind::Recall
        | Kind::Precision
        | Kind::Success
        | Kind::Judged
        | Kind::Rbp(_)
        | Kind::Err
        | Kind::InfAp
        | Kind::Bpref
        | Kind::MeanRank
        | Kind::Auc
        | Kind::AnnRecall => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// Twice the smaller share of differences on either side of 0, which belongs to both; a round more on each, as the
/// measured difference is one of those that can be.
fn two_sided(rounds: &[f64]) -> f64 {
    let below = rounds.iter().filter(|&&difference| difference <= 0.0).count();
    let above = rounds.iter().filter(|&&difference| difference >= 0.0).count();
    (2.0 * (below.min(above) + 1) as f64 / (rounds.len() + 1) as f64).min(1.0)
}

/// Between the two nearest of sorted numbers, of which there is at least one.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the slice")]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below])
}

/// Whole numbers from a seed (SplitMix64, Steele et al. 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize {
        // The high half of the product; the bias is below bound/2^64.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
