//! Soft-InfoNCE: negatives weigh less the more they resemble an answer.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean, rows};
use super::stable::{LogSum, softplus_and_slope};
use crate::{Batch, Evaluation, LossError};

/// Soft-InfoNCE (Li et al., EMNLP 2023): the mean over a row's positives p of
/// −ln e^(s_p/τ) / (e^(s_p/τ) + Σ w_n e^(s_n/τ)), with n the row's negatives. The other positives are left out.
///
/// A weight is (β − α r_n) / (β − α/N), and at least 0.1, where r is the softmax of the similarities at the temperature
/// `weight_temperature` and N the number of the row's negatives; the weights of a row sum up to N unless one is raised
/// to 0.1. Similarities are those of the batch ([`Batch::with_similarities`]), or else the scores. Weights count as
/// constants in the gradient, as they come from another model or are to: a negative shall not become similar to weigh
/// less.
///
/// The value is the mean over the rows that have both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoftInfoNce {
    /// τ, in units of scores. The authors' code has none, which is 1; 0.05 by default, as in
    /// [`InfoNce`](crate::InfoNce), since scores are cosines more often than not.
    pub temperature: f64,
    /// α: how much likeness takes off a weight; 1 by default, as in the authors' code. At 0 all weights are 1.
    pub alpha: f64,
    /// β: how little it takes off; 1 by default, as in the authors' code. It must be above α/N for the N of every row,
    /// as there is no weight else: with α = β a row needs two negatives.
    pub beta: f64,
    /// The temperature of the similarities, in their units: 1 by default, as in the authors' code.
    pub weight_temperature: f64,
}

/// The least weight of a negative, as in the authors' code.
const WEIGHT_MIN: f64 = 0.1;

impl Default for SoftInfoNce {
    fn default() -> SoftInfoNce {
        SoftInfoNce { temperature: 0.05, alpha: 1.0, beta: 1.0, weight_temperature: 1.0 }
    }
}

impl SoftInfoNce {
    pub(crate) const NAME: &'static str = "soft_infonce";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        let checks = Checks(Self::NAME);
        checks.factor("temperature", self.temperature)?;
        checks.amount("alpha", self.alpha)?;
        checks.factor("beta", self.beta)?;
        checks.factor("weight_temperature", self.weight_temperature)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let scores = batch.scores();
        let similarities = batch.similarities().unwrap_or(scores);
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        mean.over(batch, rows(batch), |row, gradient| {
            if !row.is_comparable() {
                return Ok(None);
            }
            let weights = self.weights(row, similarities)?;
            Ok(Some(self.of_row(row, &weights, scores, gradient)))
        })
    }

    /// The weights of a row's negatives, in their order.
    fn weights(&self, row: &Line, similarities: &[f64]) -> Result<Vec<f64>, LossError> {
        let count = row.negatives.len();
        let (alpha, beta) = (self.alpha, self.beta);
        let mean = beta - alpha / count as f64;
        if mean <= 0.0 {
            return Err(LossError::NoWeights { loss: Self::NAME, negatives: count, alpha, beta });
        }
        let similarity = |&place: &usize| similarities[place];
        let Some(sum) = LogSum::of(row.negatives.iter().map(similarity), self.weight_temperature) else {
            return Ok(Vec::new());
        };
        let weight = |place: &usize| (beta - alpha * sum.share(similarity(place))) / mean;
        Ok(row.negatives.iter().map(|place| weight(place).max(WEIGHT_MIN)).collect())
    }

    fn of_row(&self, row: &Line, weights: &[f64], scores: &[f64], gradient: &mut [f64]) -> f64 {
        // A weight is so much of a score: w e^(s/τ) = e^((s + τ ln w)/τ).
        let weighted: Vec<f64> = (row.negatives.iter().zip(weights))
            .map(|(&place, weight)| scores[place] + self.temperature * weight.ln())
            .collect();
        let Some(sum) = LogSum::of(weighted.iter().copied(), self.temperature) else { return 0.0 };
        let part = 1.0 / row.positives.len() as f64;
        let (mut value, mut pull) = (0.0, 0.0);
        for &place in &row.positives {
            let (loss, slope) = softplus_and_slope(sum.above(scores[place]));
            value += part * loss;
            pull += part * slope / self.temperature;
            gradient[place] -= part * slope / self.temperature;
        }
        for (&place, &weighted) in row.negatives.iter().zip(&weighted) {
            gradient[place] += pull * sum.share(weighted);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(negatives: usize) -> Line {
        Line { positives: vec![0], negatives: (1..=negatives).collect() }
    }

    #[test]
    fn the_weights_of_a_row_sum_up_to_its_negatives_unless_one_is_raised() {
        let similarities = [0.0, 0.6, 0.1, 0.3];
        let loss = SoftInfoNce { alpha: 1.0, beta: 1.5, ..SoftInfoNce::default() };
        let weights = loss.weights(&row(3), &similarities).unwrap();
        for (found, wanted) in weights.iter().zip([0.920_561, 1.064_237, 1.015_202]) {
            assert!((found - wanted).abs() < 5e-7, "{weights:?}");
        }
        assert!((weights.iter().sum::<f64>() - 3.0).abs() < 1e-12);
        let sharp = SoftInfoNce { alpha: 1.0, beta: 1.0, weight_temperature: 0.01, ..loss };
        let weights = sharp.weights(&row(3), &similarities).unwrap();
        assert_eq!(weights[0], WEIGHT_MIN);
    }

    #[test]
    fn parameters_that_give_nothing_over_nothing_are_refused() {
        let loss = SoftInfoNce::default();
        assert!(loss.weights(&row(2), &[0.0, 0.6, 0.1]).is_ok());
        let refused = loss.weights(&row(1), &[0.0, 0.6]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "soft_infonce: wanted beta above alpha / 1, as a row has 1 negatives, found alpha 1 and beta 1"
        );
    }
}
