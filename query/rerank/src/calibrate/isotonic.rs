//! Isotonic regression: pools of scores, each with the share of answers in it.

use super::{Calibration, Judged};

/// A run of samples in the order of their scores.
struct Pool {
    first: f64,
    last: f64,
    weight: f64,
    /// Σ weight · score, less `first`: so that a mean is within the pool to the last bits.
    moment: f64,
    /// Σ weight of what is relevant.
    relevant: f64,
}

impl Pool {
    fn share(&self) -> f64 {
        self.relevant / self.weight
    }

    fn score(&self) -> f64 {
        (self.first + self.moment / self.weight).clamp(self.first, self.last)
    }

    fn merge(&mut self, next: &Pool) {
        self.moment += next.moment + next.weight * (next.first - self.first);
        self.weight += next.weight;
        self.relevant += next.relevant;
        self.last = next.last;
    }
}

/// The points of the map of least squared error.
pub(super) fn fitted(samples: &[Judged]) -> Calibration {
    let mut samples = samples.to_vec();
    samples.sort_unstable_by(|a, b| a.score.total_cmp(&b.score));
    let mut pools: Vec<Pool> = Vec::new();
    for ties in samples.chunk_by(|a, b| a.score == b.score) {
        let weight = ties.iter().map(|sample| sample.weight).sum();
        let relevant = ties.iter().filter(|sample| sample.relevant).map(|sample| sample.weight).sum();
        let score = ties[0].score;
        let mut pool = Pool { first: score, last: score, weight, moment: 0.0, relevant };
        while let Some(before) = pools.pop_if(|before| before.share() >= pool.share()) {
            let next = std::mem::replace(&mut pool, before);
            pool.merge(&next);
        }
        pools.push(pool);
    }
    Calibration::Isotonic {
        x: pools.iter().map(Pool::score).collect(),
        // Sums of the same weights in another order may be a bit above the whole.
        y: pools.iter().map(|pool| pool.share().min(1.0)).collect(),
    }
}

/// The probability at a score. Without points, which no check lets through, it is 0.
pub(super) fn interpolated(x: &[f64], y: &[f64], score: f64) -> f64 {
    let after = x.partition_point(|&x| x <= score);
    let point = |place: usize| Some((*x.get(place)?, *y.get(place)?));
    let before = after.checked_sub(1).and_then(point);
    match (before, point(after)) {
        (Some(low), Some(high)) => {
            let part = (score - low.0) / (high.0 - low.0);
            low.1 + part * (high.1 - low.1)
        }
        (Some(only), None) | (None, Some(only)) => only.1,
        (None, None) => 0.0,
    }
}
