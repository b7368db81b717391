//! Resampling queries: how far an estimate would have come out otherwise with other queries.

use std::collections::HashMap;

use rayon::prelude::*;

/// The part of the rounds left out on either side of an interval: 95 % stay.
const TAIL: f64 = 0.025;

/// A number measured on some queries, and the 95 % interval other queries would have it in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// As measured, on all queries.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// From the values of resampled queries: their spread, moved to be about `value`. What resampling does
    /// to all of them alike (half the queries make every count sparser) is no part of the error.
    pub(super) fn about(value: f64, mut resampled: Vec<f64>) -> Estimate {
        let mean = resampled.iter().sum::<f64>() / count(resampled.len());
        resampled.sort_unstable_by(f64::total_cmp);
        let end = |part| quantile(&resampled, part) - mean + value;
        Estimate { value, low: end(TAIL), high: end(1.0 - TAIL) }
    }
}

/// Between the two nearest of sorted numbers, of which there is at least one.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * count(sorted.len() - 1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the slice")]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below])
}

#[expect(clippy::cast_precision_loss, reason = "counts of points, queries and rounds are far below 2^53")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

/// Whole numbers from a seed (SplitMix64, Steele et al. 2014).
pub(crate) struct Draws(u64);

impl Draws {
    /// The draws of one round of one use; uses and rounds do not share draws.
    pub(crate) fn new(seed: u64, usage: u64, round: usize) -> Draws {
        let mut draws = Draws(seed);
        let mixed = draws.next() ^ usage.rotate_left(32) ^ round as u64;
        Draws(mixed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high half of the product; the bias is below bound/2^64.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Moves a random `taken` of the numbers to the front, in random order.
    pub(crate) fn shuffle(&mut self, numbers: &mut [u32], taken: usize) {
        for place in 0..taken {
            let other = place + self.below(numbers.len() - place);
            numbers.swap(place, other);
        }
    }
}

/// The answers of one ranking, to count with: the points that occur at all, numbered without gaps.
pub(super) struct Lists {
    k: usize,
    places: Vec<u32>,
    distinct: usize,
}

impl Lists {
    /// From the best `k` rows of each query.
    pub(super) fn new(k: usize, lists: &[Vec<u32>]) -> Lists {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut places = Vec::with_capacity(k * lists.len());
        for list in lists {
            debug_assert!(list.len() >= k, "every query lists k points");
            for row in &list[..k] {
                let next = u32::try_from(numbers.len()).expect("no more than rows");
                places.push(*numbers.entry(*row).or_insert(next));
            }
        }
        Lists { k, places, distinct: numbers.len() }
    }

    /// The Robin Hood index of `N_k` over `points` points, on some of the queries.
    pub(super) fn robin_hood(&self, points: usize, queries: &[u32], counts: &mut Vec<u32>) -> f64 {
        counts.clear();
        counts.resize(self.distinct, 0);
        for &query in queries {
            let first = query as usize * self.k;
            self.places[first..first + self.k].iter().for_each(|&place| counts[place as usize] += 1);
        }
        // What is above the mean must move, and as much is missing below: points that never occur, which
        // are most of a large gallery, need no look.
        let sum = count(queries.len() * self.k);
        let mean = sum / count(points);
        let above: f64 = counts.iter().map(|&it| (f64::from(it) - mean).max(0.0)).sum();
        above / sum
    }
}

/// The Robin Hood index of each ranking, on all queries and on halves of them.
pub(super) struct Indices {
    /// A value a ranking.
    pub(super) whole: Vec<f64>,
    /// A line a round, in it a value a ranking.
    pub(super) halves: Vec<Vec<f64>>,
}

/// Counts `rounds` random halves of the queries, drawn without replacement and the same for all rankings.
///
/// Drawing with replacement would count some queries twice and so make hubs of what they return: the
/// index of a hubless gallery would rise, and more so than that of one with hubs. A half has no query
/// twice, and the spread of a mean over halves is that over whole samples (McCarthy 1969): half the
/// queries double a variance, and being drawn from the same ones halves it.
pub(super) fn indices(lists: &[Lists], points: usize, queries: usize, seed: u64, rounds: usize) -> Indices {
    let all: Vec<u32> = (0..).take(queries).collect();
    let whole = lists.par_iter().map(|lists| lists.robin_hood(points, &all, &mut Vec::new())).collect();
    let half = queries / 2;
    let round = |(order, counts): &mut (Vec<u32>, Vec<u32>), round| {
        order.clone_from(&all);
        Draws::new(seed, 1, round).shuffle(order, half);
        lists.iter().map(|lists| lists.robin_hood(points, &order[..half], counts)).collect()
    };
    let halves = (0..rounds).into_par_iter().map_init(|| (Vec::new(), Vec::new()), round).collect();
    Indices { whole, halves }
}

/// The mean of each list of differences, a number a query, with its interval over queries drawn with
/// replacement; the same draws for all lists, as they are paired.
pub(super) fn means(differences: &[Vec<f64>], seed: u64, rounds: usize) -> Vec<Estimate> {
    let queries = differences.first().map_or(0, Vec::len);
    let draw = |round| {
        let mut draws = Draws::new(seed, 2, round);
        let drawn: Vec<usize> = (0..queries).map(|_| draws.below(queries)).collect();
        let mean = |list: &Vec<f64>| drawn.iter().map(|&query| list[query]).sum::<f64>() / count(queries);
        differences.iter().map(mean).collect()
    };
    let lines: Vec<Vec<f64>> = (0..rounds).into_par_iter().map(draw).collect();
    let estimate = |(place, list): (usize, &Vec<f64>)| {
        let mean = list.iter().sum::<f64>() / count(queries);
        Estimate::about(mean, lines.iter().map(|line| line[place]).collect())
    };
    differences.iter().enumerate().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_that_of_its_standard_error() {
        let mut draws = Draws::new(5, 9, 0);
        let list: Vec<f64> = (0..400).map(|_| count(draws.below(1000)) / 1000.0).collect();
        let [estimate] = means(std::slice::from_ref(&list), 3, 2000)[..] else { panic!("one list") };
        let mean = list.iter().sum::<f64>() / 400.0;
        let error = (list.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 400.0 / 400.0).sqrt();
        assert!((estimate.value - mean).abs() < 1e-12);
        for (end, side) in [(estimate.low, -1.96), (estimate.high, 1.96)] {
            assert!((end - (mean + side * error)).abs() < 0.2 * error, "{estimate:?}");
        }
    }

    #[test]
    fn a_half_has_no_query_twice_and_every_query_its_turn() {
        let mut turns = [0; 31];
        for round in 0..400 {
            let mut order: Vec<u32> = (0..31).collect();
            Draws::new(4, 1, round).shuffle(&mut order, 15);
            let mut half = order[..15].to_vec();
            half.iter().for_each(|&query| turns[query as usize] += 1);
            half.sort_unstable();
            half.dedup();
            assert_eq!(half.len(), 15);
        }
        assert!(turns.iter().all(|turn| (150..240).contains(turn)), "{turns:?}");
    }
}
