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
        let at_random =
            |queries: usize| robin_hood_at_random(count(queries * options.k.min(points)) / count(points));
        // A half has fewer places a point, and its own baseline.
        let (whole, half) = (at_random(queries), at_random(queries / 2));
        let in_halves = found.halves.iter().map(|line| line[0] - half).collect();
        let excess = Estimate::about(found.whole[0] - whole, in_halves);
        let share = |ranking: usize| {
            let of = |line: &[f64], at_random: f64| (line[0] - line[ranking]) / (line[0] - at_random);
            Estimate::about(of(&found.whole, whole), found.halves.iter().map(|line| of(line, half)).collect())
        };
        let shares = (excess.low > 0.0).then(|| (1..lists.len()).map(share).collect());
        Hubness { robin_hood: found.whole, at_random: whole, excess, shares }
    }
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
