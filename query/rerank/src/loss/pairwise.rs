//! Losses over the pairs of a row: the baselines.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean};
use super::stable::softplus_and_slope;
use crate::{Batch, Evaluation, LossError};

/// The mean over the pairs of a positive and a negative of the same row of f((margin − (s_p − s_n)) / τ), with f a
/// [`Surrogate`].
///
/// The value is the mean over the rows that have both kinds. [`MannWhitney`](crate::MannWhitney) goes over the pairs of
/// different rows too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pairwise {
    /// f; [`Surrogate::Logistic`] by default.
    pub surrogate: Surrogate,
    /// How far a positive is to be above a negative, in units of scores: 0 by default, as in RankNet. A hinge wants
    /// more than that; 0.2 is usual for cosines.
    pub margin: f64,
    /// τ, in units of scores: 0.05 by default, as for [`MannWhitney`](crate::MannWhitney).
    pub temperature: f64,
}

/// What a pair costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Surrogate {
    /// max(0, z): the margin ranking loss. Its slope at 0 is 0.
    Hinge,
    /// ln(1 + e^z): RankNet (Burges et al., ICML 2005).
    Logistic,
}

impl Default for Pairwise {
    fn default() -> Pairwise {
        Pairwise { surrogate: Surrogate::Logistic, margin: 0.0, temperature: 0.05 }
    }
}

impl Pairwise {
    pub(crate) const NAME: &'static str = "pairwise";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        Checks(Self::NAME).amount("margin", self.margin)?;
        Checks(Self::NAME).factor("temperature", self.temperature)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        mean.over_rows(batch, |row, gradient| self.of_row(row, batch.scores(), gradient))
    }

    fn of_row(&self, row: &Line, scores: &[f64], gradient: &mut [f64]) -> f64 {
        let part = 1.0 / (row.positives.len() as f64 * row.negatives.len() as f64);
        let mut value = 0.0;
        for &positive in &row.positives {
            for &negative in &row.negatives {
                let z = (self.margin - (scores[positive] - scores[negative])) / self.temperature;
                let (loss, slope) = match self.surrogate {
                    Surrogate::Hinge => (z.max(0.0), if z > 0.0 { 1.0 } else { 0.0 }),
                    Surrogate::Logistic => softplus_and_slope(z),
                };
                value += part * loss;
                gradient[positive] -= part * slope / self.temperature;
                gradient[negative] += part * slope / self.temperature;
            }
        }
        value
    }
}
