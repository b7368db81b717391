//! Decoupled softmax: each positive against the negatives alone.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean};
use super::stable::{LogSum, softplus_and_slope};
use crate::{Batch, Evaluation, LossError};

/// Decoupled softmax (DEXML, Gupta et al., ICLR 2024): the mean over a row's positives p of
/// −ln e^(s_p/τ) / (e^(s_p/τ) + Σ e^(s_n/τ)), with n the row's negatives. The other positives are left out of the
/// sum, so that answers do not push each other away, as they do in [`InfoNce`](crate::InfoNce).
///
/// The value is the mean over the rows that have both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecoupledSoftmax {
    /// τ, in units of scores. The authors take 0.05 for cosines, which is the default, and 1 for other scores.
    pub temperature: f64,
}

impl Default for DecoupledSoftmax {
    fn default() -> DecoupledSoftmax {
        DecoupledSoftmax { temperature: 0.05 }
    }
}

impl DecoupledSoftmax {
    pub(crate) const NAME: &'static str = "decoupled";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        Checks(Self::NAME).factor("temperature", self.temperature)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        mean.over_rows(batch, |row, gradient| {
            against_negatives(row, batch.scores(), self.temperature, 0.0, gradient)
        })
    }
}

/// The mean over the positives of a line with both kinds, each less `margin`, of −ln of its part in the sum of itself
/// and the negatives.
pub(crate) fn against_negatives(
    line: &Line,
    scores: &[f64],
    temperature: f64,
    margin: f64,
    gradient: &mut [f64],
) -> f64 {
    let negatives = line.negatives.iter().map(|&place| scores[place]);
    let Some(sum) = LogSum::of(negatives, temperature) else { return 0.0 };
    let part = 1.0 / line.positives.len() as f64;
    let (mut value, mut pull) = (0.0, 0.0);
    for &place in &line.positives {
        let (loss, slope) = softplus_and_slope(sum.above(scores[place] - margin));
        value += part * loss;
        pull += part * slope / temperature;
        gradient[place] -= part * slope / temperature;
    }
    for &place in &line.negatives {
        gradient[place] += pull * sum.share(scores[place]);
    }
    value
}
