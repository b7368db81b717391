//! How far a statistic can move when its bank grows by entries nobody has compared yet.

use crate::{State, Statistic};

/// Entries of a bank that a state has not taken in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unseen {
    /// The sum of their weights.
    pub weight: f64,
    /// No similarity of the point to one of them is larger: 1 under cosine, 0 under Euclidean, and the
    /// product of the lengths under the inner product.
    pub most: f64,
    /// None is smaller.
    pub least: f64,
}

/// How far a number can move at most.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Growth {
    /// Upwards, at least 0.
    pub rise: f64,
    /// Downwards, at least 0.
    pub fall: f64,
}

impl Statistic {
    /// How far the statistic of a point in this state can move when the unseen entries are taken in,
    /// whatever they are. `None`: there is no simple bound, or nothing was seen yet.
    ///
    /// With `m` the unseen weight: a log-sum-exp `b` rises by at most `ln(1 + m·e^{beta·(most − b)})/beta`
    /// and never falls; in a mean of the largest, each unit of unseen weight can replace the least that is
    /// kept; the mean of `n` moves by at most `m/(n + m)` of its distance to `most` and `least`.
    pub fn growth(self, state: &State, unseen: &Unseen) -> Option<Growth> {
        if unseen.weight == 0.0 {
            return Some(Growth::default());
        }
        match (self, state) {
            (Statistic::LogSumExp { beta }, State::LogSumExp(_)) => {
                let exponent = beta * unseen.most - state.ln_sum()?;
                Some(Growth { rise: ln_of_one_more(exponent + unseen.weight.ln()) / beta, fall: 0.0 })
            }
            (Statistic::TopMean { k }, State::KLargest(_)) => {
                let (least, mean, most) = mean_of_largest(k, state, unseen)?;
                Some(Growth { rise: (most - mean).max(0.0), fall: (mean - least).max(0.0) })
            }
            (Statistic::TopMeanPower { k, gamma }, State::KLargest(_)) => {
                let power = |mean: f64| mean.abs().powf(gamma) * mean.signum();
                let (least, mean, most) = mean_of_largest(k, state, unseen)?;
                let (least, mean, most) = (power(least), power(mean), power(most));
                Some(Growth { rise: (most - mean).max(0.0), fall: (mean - least).max(0.0) })
            }
            (Statistic::Mean, State::Moments(moments)) => {
                let moments = moments.fold();
                let share = unseen.weight / (moments.count() + unseen.weight);
                let (rise, fall) = (unseen.most - moments.mean(), moments.mean() - unseen.least);
                (moments.count() > 0.0)
                    .then(|| Growth { rise: share * rise.max(0.0), fall: share * fall.max(0.0) })
            }
            (
                Statistic::LogSumExp { .. }
                | Statistic::TopMean { .. }
                | Statistic::TopMeanPower { .. }
                | Statistic::KthUnit { .. }
                | Statistic::MeanUnit { .. }
                | Statistic::Mean
                | Statistic::MeanByDeviation
                | Statistic::InverseDeviation
                | Statistic::Sinkhorn { .. }
                | Statistic::CentroidPull { .. }
                | Statistic::Largest { .. },
                State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_),
            ) => None,
        }
    }

    /// The same bound for any point whatever its state, where there is one that needs none: whether the
    /// statistic can only rise, or how far it can fall when `seen` is the weight taken in.
    pub fn fall_of_any(self, seen: f64, unseen: &Unseen) -> Option<f64> {
        if unseen.weight == 0.0 {
            return Some(0.0);
        }
        match self {
            Statistic::LogSumExp { .. } if seen > 0.0 => Some(0.0),
            #[expect(clippy::cast_precision_loss, reason = "k is far below 2^53")]
            Statistic::TopMean { k } if seen >= k as f64 => Some(0.0),
            #[expect(clippy::cast_precision_loss, reason = "k is far below 2^53")]
            Statistic::TopMeanPower { k, .. } if seen >= k as f64 => Some(0.0),
            Statistic::Mean if seen > 0.0 => {
                Some(unseen.weight / (seen + unseen.weight) * (unseen.most - unseen.least))
            }
            Statistic::LogSumExp { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Sinkhorn { .. }
            | Statistic::CentroidPull { .. }
            | Statistic::Largest { .. } => None,
        }
    }
}

/// `ln(1 + e^x)`, which does not overflow.
fn ln_of_one_more(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The least a mean of the `k` largest can become, what it is, and the most it can become.
#[expect(clippy::cast_precision_loss, reason = "k is far below 2^53")]
fn mean_of_largest(k: usize, state: &State, unseen: &Unseen) -> Option<(f64, f64, f64)> {
    let State::KLargest(kept) = state else { return None };
    let (mean, seen) = (kept.mean()?, kept.count());
    let new = unseen.weight.min(k as f64);
    // Fewer than k seen: the missing ones are filled by whatever comes.
    let filled = new.min(k as f64 - seen);
    let least = (seen * mean + filled * unseen.least.min(mean)) / (seen + filled);
    let total = seen + filled;
    let mut stays = total - new;
    let mut sum = new * unseen.most;
    for (value, counted) in kept.counted() {
        let part = counted.min(stays.max(0.0));
        sum += part * value;
        stays -= part;
    }
    Some((least, mean, (sum / total).max(mean)))
}
