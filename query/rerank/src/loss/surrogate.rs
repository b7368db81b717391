//! Losses made for the top of a ranking, and pairwise baselines.

use serde::{Deserialize, Serialize};

use super::mann_whitney::count;
use super::{Evaluation, TEMPERATURE, log1p_exp, sigmoid};
use crate::batch::{Batch, LossError};

/// `−(1/|P|) Σ_p log σ(α(s_p/τ + t))` with `t` such that `Σ σ(α(s/τ + t)) = K`: a soft indicator of the top K (DEXML,
/// ICLR 2024). The gradient goes through `t`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SoftTopK {
    /// How many are to be at the top; less than the candidates of a row.
    pub k: usize,
    /// How sharp the indicator is.
    pub alpha: f64,
    /// What scores are divided by first: .05 for cosines, 1 for logits.
    pub temperature: f64,
}

impl Default for SoftTopK {
    fn default() -> SoftTopK {
        SoftTopK { k: 5, alpha: 2.0, temperature: TEMPERATURE }
    }
}

/// Halvings of the bracket of `t`: it is then known to the last bit.
const HALVINGS: usize = 200;

impl SoftTopK {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("soft-top-k")?;
        let mut evaluation = Evaluation::zero(batch);
        for row in &rows {
            let cells: Vec<usize> = row.positives.iter().chain(&row.negatives).copied().collect();
            if self.k >= cells.len() {
                let reason =
                    format!("k is {}, wanted less than the {} candidates of a row", self.k, cells.len());
                return Err(LossError::Unsuited { loss: "soft-top-k", reason });
            }
            let scaled: Vec<f64> =
                cells.iter().map(|&cell| self.alpha * batch.scores()[cell] / self.temperature).collect();
            let shift = self.shift(&scaled);
            let slopes: Vec<f64> =
                scaled.iter().map(|x| sigmoid(x + shift) * sigmoid(-(x + shift))).collect();
            let all: f64 = slopes.iter().sum();
            let weight = 1.0 / count(rows.len()) / count(row.positives.len());
            let factor = self.alpha / self.temperature;
            // Positives come first.
            for place in 0..row.positives.len() {
                let x = scaled[place] + shift;
                evaluation.value += weight * log1p_exp(-x);
                let miss = weight * factor * sigmoid(-x);
                evaluation.gradient[cells[place]] -= miss;
                if all > 0.0 {
                    for (&cell, slope) in cells.iter().zip(&slopes) {
                        evaluation.gradient[cell] += miss * slope / all;
                    }
                }
            }
        }
        Ok(evaluation)
    }

    /// `αt`, in a bracket that holds it whatever the scores: with n candidates every σ is at most K/n below it, and at
    /// least K/n above.
    fn shift(&self, scaled: &[f64]) -> f64 {
        let (least, most) = scaled.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
        let part = count(self.k) / count(scaled.len());
        let middle = (part / (1.0 - part)).ln();
        let (mut low, mut high) = (middle - most, middle - least);
        for _ in 0..HALVINGS {
            let shift = f64::midpoint(low, high);
            let sum: f64 = scaled.iter().map(|x| sigmoid(x + shift)).sum();
            if sum < count(self.k) { low = shift } else { high = shift }
        }
        f64::midpoint(low, high)
    }
}

/// The function of PSL that takes the place of the exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `log(tanh d + 1)`, for all differences.
    Tanh,
    /// `log(atan d + 1)`, for `d > −tan 1`; linear with its slope there below −1.5.
    Atan,
    /// `log(relu(d + 1))`, for `d > −1`; linear with its slope there below −.99.
    Relu,
}

/// `log Σ_j e^{φ(d_j)/τ*}` with `d_j = (s_j − s⁺)/τ` over negatives and φ of [`Activation`] (PSL, NeurIPS 2024), the
/// mean over rows and positives. Where φ has no value it is continued by its tangent, so it never is NaN and always has
/// a slope.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Psl {
    /// Which function.
    pub activation: Activation,
    /// τ: what differences are divided by.
    pub temperature: f64,
    /// τ*: what the function is divided by.
    pub outer: f64,
}

impl Default for Psl {
    fn default() -> Psl {
        Psl { activation: Activation::Tanh, temperature: 1.0, outer: 0.1 }
    }
}

impl Activation {
    /// φ and its slope.
    fn at(self, d: f64) -> (f64, f64) {
        let inside = |d: f64| match self {
            // tanh d + 1 = 2σ(2d), whose logarithm loses nothing.
            Activation::Tanh => (std::f64::consts::LN_2 - log1p_exp(-2.0 * d), 2.0 * sigmoid(-2.0 * d)),
            Activation::Atan => (d.atan().ln_1p(), 1.0 / ((1.0 + d * d) * (1.0 + d.atan()))),
            Activation::Relu => (d.ln_1p(), 1.0 / (1.0 + d)),
        };
        let least = match self {
            Activation::Tanh => f64::NEG_INFINITY,
            Activation::Atan => -1.5,
            Activation::Relu => -0.99,
        };
        if d >= least {
            return inside(d);
        }
        let (value, slope) = inside(least);
        (value + slope * (d - least), slope)
    }
}

impl Psl {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("psl")?;
        let mut evaluation = Evaluation::zero(batch);
        for row in &rows {
            let weight = 1.0 / count(rows.len()) / count(row.positives.len());
            for &positive in &row.positives {
                let of = |cell: usize| {
                    let d = (batch.scores()[cell] - batch.scores()[positive]) / self.temperature;
                    let (value, slope) = self.activation.at(d);
                    (value / self.outer, slope / self.outer / self.temperature)
                };
                log_sum(&mut evaluation, &row.negatives, positive, weight, of);
            }
        }
        Ok(evaluation)
    }
}

/// Adds `weight · log Σ e^x` over negatives, of which `of` gives x and its slope in the difference to the positive.
fn log_sum(
    evaluation: &mut Evaluation,
    negatives: &[usize],
    positive: usize,
    weight: f64,
    of: impl Fn(usize) -> (f64, f64),
) {
    let terms: Vec<(f64, f64)> = negatives.iter().map(|&cell| of(cell)).collect();
    let most = terms.iter().map(|it| it.0).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = terms.iter().map(|it| (it.0 - most).exp()).sum();
    evaluation.value += weight * (most + sum.ln());
    for (&cell, (x, slope)) in negatives.iter().zip(terms) {
        let part = weight * slope * (x - most).exp() / sum;
        evaluation.gradient[cell] += part;
        evaluation.gradient[positive] -= part;
    }
}

/// SL@K (KDD 2025): `σ((s⁺ − β)/τ_w) · log Σ_j e^{(s_j − s⁺)/τ}`, where β is the K-th largest score of the row, so that
/// positives near the top count more. β and the weight are taken for constants by the gradient, as the authors do
/// between refreshes. The positive is not in the sum, so the loss has no lower bound: stop by a measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlAtK {
    /// K.
    pub k: usize,
    /// τ.
    pub temperature: f64,
    /// τ_w.
    pub weight_temperature: f64,
}

impl Default for SlAtK {
    fn default() -> SlAtK {
        SlAtK { k: 20, temperature: 0.2, weight_temperature: 2.25 }
    }
}

impl SlAtK {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("sl@k")?;
        let mut evaluation = Evaluation::zero(batch);
        for row in &rows {
            let mut scores: Vec<f64> =
                row.positives.iter().chain(&row.negatives).map(|&cell| batch.scores()[cell]).collect();
            let place = self.k.min(scores.len()) - 1;
            let quantile = *scores.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1;
            self.add(&mut evaluation, batch, row, quantile, 1.0 / count(rows.len()));
        }
        Ok(evaluation)
    }

    fn add(
        &self,
        evaluation: &mut Evaluation,
        batch: &Batch,
        row: &crate::batch::Row,
        quantile: f64,
        share: f64,
    ) {
        for &positive in &row.positives {
            let own = batch.scores()[positive];
            let weight =
                share / count(row.positives.len()) * sigmoid((own - quantile) / self.weight_temperature);
            let of = |cell: usize| ((batch.scores()[cell] - own) / self.temperature, 1.0 / self.temperature);
            log_sum(evaluation, &row.negatives, positive, weight, of);
        }
    }
}

/// A function of a pair's difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairKind {
    /// `max(0, margin − d)`
    Hinge,
    /// `softplus(margin − d)`
    Logistic,
}

/// A baseline: the mean over a row's pairs of a function of `d = (s⁺ − s⁻)/τ`, and over rows (RankNet, Burges et al.
/// 2005; the hinge, Joachims 2002).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pairwise {
    /// Which function.
    pub kind: PairKind,
    /// What a positive is to be above by, in units of the temperature.
    pub margin: f64,
    /// What differences are divided by.
    pub temperature: f64,
}

impl Default for Pairwise {
    fn default() -> Pairwise {
        Pairwise { kind: PairKind::Logistic, margin: 0.0, temperature: TEMPERATURE }
    }
}

impl Pairwise {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("pairwise")?;
        let mut evaluation = Evaluation::zero(batch);
        for row in &rows {
            let weight = 1.0 / count(rows.len()) / (count(row.positives.len()) * count(row.negatives.len()));
            for &p in &row.positives {
                for &n in &row.negatives {
                    let x = self.margin - (batch.scores()[p] - batch.scores()[n]) / self.temperature;
                    let (value, slope) = match self.kind {
                        PairKind::Hinge if x > 0.0 => (x, 1.0),
                        PairKind::Hinge => (0.0, 0.0),
                        PairKind::Logistic => (log1p_exp(x), sigmoid(x)),
                    };
                    evaluation.value += weight * value;
                    evaluation.gradient[n] += weight * slope / self.temperature;
                    evaluation.gradient[p] -= weight * slope / self.temperature;
                }
            }
        }
        Ok(evaluation)
    }
}
