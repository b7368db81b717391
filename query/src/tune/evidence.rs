//! Hubness and gains as estimates.

use dehub_normalize::robin_hood_at_random;

use super::resample::{Draws, Estimate, Lists, count, indices, means};
use super::{QUERIES_MIN, TuneError, TuneOptions};

/// Parts the judged queries are cut in; each is measured with the choice the others make.
const FOLDS: usize = 5;

/// Hubness of all rankings, raw first.
pub(super) struct Hubness {
    pub(super) robin_hood: Vec<f64>,
    pub(super) at_random: f64,
    /// Of raw, beyond chance.
    pub(super) excess: Estimate,
    /// The part of the excess each correction removes; `None` if the excess may be nothing.
    pub(super) shares: Option<Vec<Estimate>>,
}

impl Hubness {
    pub(super) fn new(lists: &[Lists], points: usize, queries: usize, options: &TuneOptions) -> Hubness {
        let found = indices(lists, points, queries, options.seed, options.rounds);
        let k = options.k.min(points);
        let at_random = |queries: usize| robin_hood_at_random(count(queries * k) / count(points));
        // A half has fewer places a point, and its own baseline.
        let (whole, half) = (at_random(queries), at_random(queries / 2));
        let in_halves: Vec<f64> = found.halves.iter().map(|line| line[0] - half).collect();
        let excess = excess(found.whole[0] - whole, &in_halves);
        let share = |ranking: usize| {
            let removed: Vec<f64> = found.halves.iter().map(|line| line[0] - line[ranking]).collect();
            share((found.whole[0] - found.whole[ranking]) / excess.value, &removed, &in_halves)
        };
        let is_beyond_chance = excess.low > 0.0 && mean(&in_halves) > 0.0;
        let shares = is_beyond_chance.then(|| (1..lists.len()).map(share).collect());
        Hubness { robin_hood: found.whole, at_random: whole, excess, shares }
    }
}

/// How much more excess all queries may show than half of them: where few points occur twice, repeats
/// come from pairs of queries, and half the queries make a quarter of the pairs.
const GROWTH_MAX: f64 = 4.0;

/// The excess of all queries, from its value and those of halves. The error grows with the queries as
/// the excess itself does.
fn excess(value: f64, in_halves: &[f64]) -> Estimate {
    let of_half = mean(in_halves);
    let growth = if of_half > 0.0 { (value / of_half).clamp(1.0, GROWTH_MAX) } else { 1.0 };
    Estimate::about(value, in_halves.iter().map(|it| growth * it).collect())
}

/// A part of the excess, from its value and what halves have removed and in excess. The error is that of
/// a half's ratio to first order: the ratios themselves have no mean when an excess may be near 0.
fn share(value: f64, removed: &[f64], in_halves: &[f64]) -> Estimate {
    let of_half = mean(in_halves);
    let ratio = mean(removed) / of_half;
    let error = |(removed, excess): (&f64, &f64)| (removed - ratio * excess) / of_half;
    Estimate::about(value, removed.iter().zip(in_halves).map(error).collect())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / count(numbers.len())
}

/// The nDCG of all rankings, raw first, and what corrections gain.
pub(super) struct Gains {
    /// How many queries are judged.
    pub(super) judged: usize,
    pub(super) ndcg: Vec<f64>,
    /// Of each correction over raw.
    pub(super) gains: Vec<Estimate>,
    /// What choosing by nDCG, with raw among the choices, gains on queries it was not made with.
    pub(super) held_out: Estimate,
}

impl Gains {
    /// From the nDCG of each judged query under each ranking.
    pub(super) fn new(values: &[Vec<f64>], options: &TuneOptions) -> Result<Gains, TuneError> {
        let judged = values[0].len();
        if judged < QUERIES_MIN {
            return Err(TuneError::TooFewQueries { found: judged });
        }
        let over_raw = |list: &Vec<f64>| list.iter().zip(&values[0]).map(|(it, raw)| it - raw).collect();
        let mut differences: Vec<Vec<f64>> = values[1..].iter().map(over_raw).collect();
        differences.push(held_out(values, options.seed));
        let mut gains = means(&differences, options.seed, options.rounds);
        let held_out = gains.pop().expect("pushed above");
        let ndcg = values.iter().map(|list| list.iter().sum::<f64>() / count(judged)).collect();
        Ok(Gains { judged, ndcg, gains, held_out })
    }
}

/// The gain over raw of each query under the ranking that is best on the folds it is not in.
fn held_out(values: &[Vec<f64>], seed: u64) -> Vec<f64> {
    let mut order: Vec<u32> = (0..).take(values[0].len()).collect();
    let all = order.len();
    Draws::new(seed, 3, 0).shuffle(&mut order, all);
    let mut gains = vec![0.0; order.len()];
    for fold in 0..FOLDS {
        let is_out = |&(place, _): &(usize, &u32)| place % FOLDS == fold;
        let rest: Vec<usize> =
            order.iter().enumerate().filter(|it| !is_out(it)).map(|(_, &it)| it as usize).collect();
        let sum = |list: &[f64]| rest.iter().map(|&query| list[query]).sum::<f64>();
        let sums = values.iter().map(|list| sum(list));
        // Ties go to the earlier ranking, raw first of all.
        let best = sums.enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (best, _) = best.expect("raw is always there");
        for (_, &query) in order.iter().enumerate().filter(is_out) {
            let query = query as usize;
            gains[query] = values[best][query] - values[0][query];
        }
    }
    gains
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: usize = 800;

    /// Answers of queries that draw points alike (`tilt` 1) or the more often the lower (2, 3 …).
    fn answers(draws: &mut Draws, queries: usize, tilt: usize) -> Vec<Vec<u32>> {
        let mut answer = || {
            let mut answer: Vec<u32> = Vec::new();
            while answer.len() < 10 {
                let point = (0..tilt).map(|_| draws.below(POINTS)).min().expect("drawn");
                let point = u32::try_from(point).expect("small");
                if !answer.contains(&point) {
                    answer.push(point);
                }
            }
            answer
        };
        (0..queries).map(|_| answer()).collect()
    }

    /// Mean claimed error, and the spread of the values, of 60 samples of queries.
    fn claimed_and_found(estimates: &[Estimate]) -> (f64, f64) {
        let values: Vec<f64> = estimates.iter().map(|it| it.value).collect();
        let squares: Vec<f64> = values.iter().map(|it| (it - mean(&values)).powi(2)).collect();
        let widths: Vec<f64> = estimates.iter().map(|it| (it.high - it.low) / (2.0 * 1.96)).collect();
        (mean(&widths), mean(&squares).sqrt())
    }

    fn samples(queries: usize, tilts: [usize; 2]) -> Vec<Hubness> {
        let sample = |seed| {
            let mut draws = Draws::new(seed, 9, 0);
            let lists = tilts.map(|tilt| Lists::new(10, &answers(&mut draws, queries, tilt)));
            Hubness::new(
                &lists,
                POINTS,
                queries,
                &TuneOptions { seed, rounds: 200, ..TuneOptions::default() },
            )
        };
        (0..60).map(sample).collect()
    }

    #[test]
    fn intervals_are_as_wide_as_samples_differ_or_somewhat_wider() {
        for queries in [100, 240, 800] {
            let found = samples(queries, [3, 2]);
            let excesses: Vec<Estimate> = found.iter().map(|it| it.excess).collect();
            let shares: Vec<Estimate> =
                found.iter().map(|it| it.shares.as_ref().expect("beyond chance")[0]).collect();
            for estimates in [excesses, shares] {
                let (claimed, found) = claimed_and_found(&estimates);
                assert!((0.8..2.5).contains(&(claimed / found)), "{queries}: {claimed} {found}");
            }
        }
    }

    #[test]
    fn answers_drawn_at_random_seldom_look_like_hubs() {
        for queries in [100, 240, 800] {
            let found = samples(queries, [1, 1]);
            let hubs = found.iter().filter(|it| it.shares.is_some()).count();
            assert!(hubs <= 5, "{queries} queries: {hubs} of 60");
        }
    }
}
