//! SL@K: the softmax loss, weighted by how near to the first k a positive is.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean};
use super::stable::{LogSum, sigmoid};
use crate::{Batch, Evaluation, LossError};

/// SL@K (Yang et al., KDD 2025): the mean over a row's positives p of σ((s_p − β)/τ_w) · ln Σ e^((s_n − s_p)/τ), with n
/// the row's negatives and β its k-th highest score, of both kinds.
///
/// β is that of the batch, at every step: of few sampled candidates it is lower than that of all there are, which a
/// smaller `k` makes up for. In a row of fewer than `k` candidates it is the lowest score. The weight, and β in it,
/// counts as a constant in the gradient: a slope of the weight would push a positive that is behind down, away from
/// where it weighs. The positive itself is not in the sum, so that the value has no lower bound; its slope has.
///
/// The value is the mean over the rows that have both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlAtK {
    /// Whose score β is: 20 by default, as in the paper.
    pub k: usize,
    /// τ, in units of scores: 0.2 by default, as in the authors' code.
    pub temperature: f64,
    /// τ_w, in units of scores: 2.25 by default, as in the authors' code, which tries 0.5 to 3.
    pub weight_temperature: f64,
}

impl Default for SlAtK {
    fn default() -> SlAtK {
        SlAtK { k: 20, temperature: 0.2, weight_temperature: 2.25 }
    }
}

impl SlAtK {
    pub(crate) const NAME: &'static str = "sl_at_k";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        let checks = Checks(Self::NAME);
        checks.count("k", self.k)?;
        checks.factor("temperature", self.temperature)?;
        checks.factor("weight_temperature", self.weight_temperature)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        let scores = batch.scores();
        mean.over_rows(batch, |row, gradient| self.of_row(row, scores, self.quantile(row, scores), gradient))
    }

    /// β of a row.
    fn quantile(&self, row: &Line, scores: &[f64]) -> f64 {
        let mut all: Vec<f64> = row.all().map(|place| scores[place]).collect();
        let place = self.k.min(all.len()) - 1;
        *all.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1
    }

    fn of_row(&self, row: &Line, scores: &[f64], quantile: f64, gradient: &mut [f64]) -> f64 {
        let negatives = row.negatives.iter().map(|&place| scores[place]);
        let Some(sum) = LogSum::of(negatives, self.temperature) else { return 0.0 };
        let part = 1.0 / row.positives.len() as f64;
        let (mut value, mut pull) = (0.0, 0.0);
        for &place in &row.positives {
            let weight = part * sigmoid((scores[place] - quantile) / self.weight_temperature);
            value += weight * sum.above(scores[place]);
            pull += weight / self.temperature;
            gradient[place] -= weight / self.temperature;
        }
        for &place in &row.negatives {
            gradient[place] += pull * sum.share(scores[place]);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quantile of .6 is between two scores, which no k gives.
    #[test]
    fn a_given_quantile_gives_the_weight_worked_out_by_hand() {
        let row = Line { positives: vec![0], negatives: vec![1, 2, 3] };
        let loss = SlAtK { k: 20, temperature: 0.1, weight_temperature: 1.0 };
        let value = loss.of_row(&row, &[0.9, 0.7, 0.5, -0.2], 0.6, &mut [0.0; 4]);
        assert!((value - -1.075_910).abs() < 5e-7, "{value}");
        assert!((sigmoid(0.9 - 0.6) - 0.574_443).abs() < 5e-7);
    }

    #[test]
    fn the_quantile_is_the_kth_highest_or_the_lowest_of_fewer() {
        let row = Line { positives: vec![1], negatives: vec![0, 2, 3] };
        let scores = [0.7, 0.9, -0.2, 0.5];
        for (k, wanted) in [(1, 0.9), (2, 0.7), (3, 0.5), (4, -0.2), (20, -0.2)] {
            assert_eq!(SlAtK { k, ..SlAtK::default() }.quantile(&row, &scores), wanted, "k = {k}");
        }
    }
}
