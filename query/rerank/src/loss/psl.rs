//! Pairwise softmax loss: softmax over differences of scores, with other functions in place of the exponential.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean};
use super::stable::{LogSum, sigmoid, softplus};
use crate::{Batch, Evaluation, LossError};

/// The pairwise softmax loss (PSL, Yang et al., NeurIPS 2024): the mean over a row's positives p of
/// ln Σ e^(φ((s_n − s_p)/τ)/τ*), with n the row's negatives and φ an [`Activation`]. The positive itself is not in the
/// sum, so that the value has no lower bound; its slope has.
///
/// The value is the mean over the rows that have both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Psl {
    /// φ; [`Activation::Tanh`] by default, which alone is smooth and defined everywhere.
    pub activation: Activation,
    /// τ, in units of scores: 1 by default, as in the authors' code.
    pub temperature: f64,
    /// τ*, in units of φ: 0.1 by default, from within the 0.005 to 0.25 that the authors try.
    pub outer_temperature: f64,
}

/// φ, as a function of x = (s_n − s_p) / τ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// ln(1 + tanh x).
    Tanh,
    /// ln(1 + atan x), which has no value from −tan 1 = −1.557 down: see [`Activation::Relu`].
    Atan,
    /// ln(1 + x), which has no value from −1 down. Where what the logarithm is taken of would be below 0.001, it is
    /// 0.001: such a pair is as far apart as it can get, and has no gradient.
    Relu,
    /// x: the softmax loss that PSL departs from.
    Linear,
}

/// What the logarithm of [`Activation::Atan`] and [`Activation::Relu`] is taken of is at least this. It bounds the
/// slope by 1,000 over both temperatures.
const LEAST: f64 = 1e-3;

impl Activation {
    /// φ and its slope.
    fn value_and_slope(self, x: f64) -> (f64, f64) {
        match self {
            // 1 + tanh x = 2 / (1 + e^−2x), which is above 0 for every x.
            Activation::Tanh => (std::f64::consts::LN_2 - softplus(-2.0 * x), 2.0 * sigmoid(-2.0 * x)),
            Activation::Atan => bounded_logarithm(1.0 + x.atan(), 1.0 / (1.0 + x * x)),
            Activation::Relu => bounded_logarithm(1.0 + x, 1.0),
            Activation::Linear => (x, 1.0),
        }
    }
}

/// ln y and its slope, given y's, or that of [`LEAST`].
fn bounded_logarithm(y: f64, slope: f64) -> (f64, f64) {
    if y > LEAST { (y.ln(), slope / y) } else { (LEAST.ln(), 0.0) }
}

impl Default for Psl {
    fn default() -> Psl {
        Psl { activation: Activation::Tanh, temperature: 1.0, outer_temperature: 0.1 }
    }
}

impl Psl {
    pub(crate) const NAME: &'static str = "psl";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        Checks(Self::NAME).factor("temperature", self.temperature)?;
        Checks(Self::NAME).factor("outer_temperature", self.outer_temperature)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        mean.over_rows(batch, |row, gradient| self.of_row(row, batch.scores(), gradient))
    }

    fn of_row(&self, row: &Line, scores: &[f64], gradient: &mut [f64]) -> f64 {
        let part = 1.0 / row.positives.len() as f64;
        let mut value = 0.0;
        for &positive in &row.positives {
            let of_pair = |&negative: &usize| {
                self.activation.value_and_slope((scores[negative] - scores[positive]) / self.temperature)
            };
            let pairs: Vec<(f64, f64)> = row.negatives.iter().map(of_pair).collect();
            let activations = pairs.iter().map(|pair| pair.0);
            let Some(sum) = LogSum::of(activations, self.outer_temperature) else { continue };
            value += part * sum.above(0.0);
            for (&negative, &(activation, slope)) in row.negatives.iter().zip(&pairs) {
                let both = self.temperature * self.outer_temperature;
                let push = part * sum.share(activation) * slope / both;
                gradient[negative] += push;
                gradient[positive] -= push;
            }
        }
        value
    }
}
