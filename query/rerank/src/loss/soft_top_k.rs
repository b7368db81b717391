//! Soft top-k: each positive is to be among the k first of its row.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{Line, Mean, rows};
use super::stable::{LogSum, sigmoid, softplus, softplus_and_slope};
use crate::{Batch, Evaluation, LossError};

/// The soft top-k loss (DEXML, Gupta et al., ICLR 2024): the mean over a row's positives p of −ln σ(α (s_p + t)), where
/// t is such that Σ σ(α (s_c + t)) = k over all candidates c of the row. The gradient follows t too.
///
/// The value is the mean over the rows that have both kinds. A row of no more than k candidates counts as 0, since all
/// of them are among the first k whatever they score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoftTopK {
    /// How many are the first: 5 by default, as in the authors' code.
    pub k: usize,
    /// How sharp the border is, in 1 / units of scores: 2 by default, as in the authors' code. Their scores are not of
    /// unit vectors; cosines want ten times that and more.
    pub alpha: f64,
}

impl Default for SoftTopK {
    fn default() -> SoftTopK {
        SoftTopK { k: 5, alpha: 2.0 }
    }
}

/// The most steps towards a threshold. Newton's method takes about five; halving a bracket of the largest scores to
/// the last bit takes 250.
const STEPS_MAX: usize = 400;

impl SoftTopK {
    pub(crate) const NAME: &'static str = "soft_topk";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        Checks(Self::NAME).count("k", self.k)?;
        Checks(Self::NAME).factor("alpha", self.alpha)
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let wanted = "a row with a positive, a negative and more candidates than k";
        let is_open = |row: &Line| row.is_comparable() && row.all().count() > self.k;
        if !rows(batch).any(|row| is_open(&row)) {
            super::lines::check_both_kinds(Self::NAME, batch)?;
            return Err(LossError::NothingToCompare { loss: Self::NAME, wanted });
        }
        let mean = Mean { loss: Self::NAME, wanted };
        mean.over_rows(batch, |row, gradient| match is_open(row) {
            true => self.of_row(row, batch.scores(), gradient),
            false => 0.0,
        })
    }

    fn of_row(&self, row: &Line, scores: &[f64], gradient: &mut [f64]) -> f64 {
        let border = Border::between(row.all().map(|place| scores[place]).collect(), self.k, self.alpha);
        let part = 1.0 / row.positives.len() as f64;
        let (mut value, mut pull) = (0.0, 0.0);
        for &place in &row.positives {
            let (loss, slope) = softplus_and_slope(-border.above(scores[place]));
            value += part * loss;
            pull += part * slope * self.alpha;
            gradient[place] -= part * slope * self.alpha;
        }
        // t falls as a score rises: dt/ds_c = −v_c / Σ v, with v = σ (1 − σ). Far from the border every v is 0 in 64
        // bits, so shares are taken of their logarithms.
        let logarithm = |place: usize| {
            let above = border.above(scores[place]);
            -softplus(above) - softplus(-above)
        };
        if let Some(sum) = LogSum::of(row.all().map(logarithm), 1.0) {
            for place in row.all() {
                gradient[place] += pull * sum.share(logarithm(place));
            }
        }
        value
    }
}

/// The soft border between the first k scores and the others.
struct Border {
    /// The middle between the k-th score and the next.
    middle: f64,
    /// t, counted from the middle.
    shift: f64,
    alpha: f64,
}

impl Border {
    /// `scores` are more than `k`.
    ///
    /// Σ σ = k says that what the first k lack of 1 is what the others have: Σ σ(−a) over the first = Σ σ(a) over the
    /// others. The difference of the logarithms of both sides is solved for t: it rises everywhere, and steeply where
    /// all σ are 0 or 1 and their plain sum is flat.
    fn between(mut scores: Vec<f64>, k: usize, alpha: f64) -> Border {
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        let middle = scores[k - 1] / 2.0 + scores[k] / 2.0;
        for score in &mut scores {
            *score -= middle;
        }
        let (first, others) = scores.split_at(k);
        // At the ends of this bracket the sum is below e^−10, or within e^−10 of the number of scores.
        let margin = (10.0 + (scores.len() as f64).ln()) / alpha;
        let (mut low, mut high) = (-first[0] - margin, -others[others.len() - 1] + margin);
        let mut shift = 0.0f64.clamp(low, high);
        for _ in 0..STEPS_MAX {
            let (excess, slope) = excess(first, others, shift, alpha);
            if excess > 0.0 {
                high = shift;
            } else {
                low = shift;
            }
            let newton = shift - excess / slope;
            let next = if (low..=high).contains(&newton) { newton } else { low / 2.0 + high / 2.0 };
            let is_settled = (next - shift).abs() <= f64::EPSILON * (shift.abs() + 1.0 / alpha);
            shift = next;
            if is_settled {
                break;
            }
        }
        Border { middle, shift, alpha }
    }

    /// How far a score is above the border, in units of its softness: the argument of σ.
    fn above(&self, score: f64) -> f64 {
        self.alpha * ((score - self.middle) + self.shift)
    }
}

/// ln Σ σ(a) over the others less ln Σ σ(−a) over the first, with a = α (s + t), and its slope in t, which is above 0.
fn excess(first: &[f64], others: &[f64], shift: f64, alpha: f64) -> (f64, f64) {
    let side = |scores: &[f64], sign: f64| {
        let logarithm = move |score: &f64| -softplus(-sign * alpha * (score + shift));
        let Some(sum) = LogSum::of(scores.iter().map(logarithm), 1.0) else { return (0.0, 0.0) };
        let slope = |score: &f64| sum.share(logarithm(score)) * sigmoid(-sign * alpha * (score + shift));
        (sum.above(0.0), alpha * scores.iter().map(slope).sum::<f64>())
    };
    let (of_first, of_others) = (side(first, -1.0), side(others, 1.0));
    (of_others.0 - of_first.0, of_others.1 + of_first.1)
}
