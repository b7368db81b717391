//! The Mann-Whitney loss: every positive of the batch against every negative of the batch.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{Line, check_both_kinds, rows};
use super::{buckets, pairs};
use crate::{Batch, Evaluation, LossError};

/// The Mann-Whitney loss (Sheikholeslami et al. 2025, arXiv 2510.00137): the mean of ln(1 + e^(−(s_p − s_n)/τ)) over
/// all pairs of a positive p and a negative n of the batch, of whatever rows.
///
/// It bounds what the area under the ROC curve lacks of 1: 1 − AUC ≤ value / ln 2, for every τ, with the AUC of
/// [`auc`](crate::auc), if all pairs count alike and all negatives count. So it is for scores that one threshold is
/// laid across, and it sees a query whose scores are all too high, which [`InfoNce`](crate::InfoNce) does not.
///
/// Few pairs are summed one by one; more are summed by ranges of scores in n log n, to a relative error below 1e-11.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MannWhitney {
    /// τ, in units of scores: 0.05 by default, our choice for cosines.
    pub temperature: f64,
    /// How many negatives of a row count, those that score highest; of equal scores, those that come first. All by
    /// default. Most negatives are far from every positive and would weigh down the mean.
    pub hardest: Option<usize>,
    /// What counts alike; [`Weighting::Pairs`] by default, as in the paper.
    pub weighting: Weighting,
}

/// What counts alike in a mean over pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// Every pair.
    Pairs,
    /// Every query: the positives of each count as one together, and so do its negatives.
    Queries,
}

impl Default for MannWhitney {
    fn default() -> MannWhitney {
        MannWhitney { temperature: 0.05, hardest: None, weighting: Weighting::Pairs }
    }
}

/// Scores of one kind, and what each counts; the weights sum up to 1.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) scores: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}

/// Sums over weighted pairs of z = (s_n − s_p) / τ.
pub(crate) struct Sums {
    /// Σ Σ u_p v_n ln(1 + e^z).
    pub(crate) value: f64,
    /// For each positive, Σ v_n σ(z).
    pub(crate) of_positives: Vec<f64>,
    /// For each negative, Σ u_p σ(z).
    pub(crate) of_negatives: Vec<f64>,
}

/// The most pairs that are summed one by one. Both ways take the same time at about this many.
const PAIRS_MAX: usize = 1 << 14;

impl MannWhitney {
    pub(crate) const NAME: &'static str = "mw";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        let checks = Checks(Self::NAME);
        checks.factor("temperature", self.temperature)?;
        self.hardest.map_or(Ok(()), |hardest| checks.count("hardest", hardest))
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        check_both_kinds(Self::NAME, batch)?;
        let rows: Vec<Line> = rows(batch).map(|row| self.selected(row, batch.scores())).collect();
        let positives: Vec<&[usize]> = rows.iter().map(|row| row.positives.as_slice()).collect();
        let negatives: Vec<&[usize]> = rows.iter().map(|row| row.negatives.as_slice()).collect();
        let of_positives = self.side(&positives, batch.scores());
        let of_negatives = self.side(&negatives, batch.scores());
        let pairs = of_positives.scores.len().saturating_mul(of_negatives.scores.len());
        let sums = match pairs <= PAIRS_MAX {
            true => pairs::sums(&of_positives, &of_negatives, self.temperature),
            false => buckets::sums(&of_positives, &of_negatives, self.temperature),
        };
        let mut gradient = vec![0.0; batch.scores().len()];
        let slopes = of_positives.weights.iter().zip(&sums.of_positives);
        for (&place, (weight, slope)) in positives.concat().iter().zip(slopes) {
            gradient[place] = -weight * slope / self.temperature;
        }
        let slopes = of_negatives.weights.iter().zip(&sums.of_negatives);
        for (&place, (weight, slope)) in negatives.concat().iter().zip(slopes) {
            gradient[place] = weight * slope / self.temperature;
        }
        Ok(Evaluation { value: sums.value, gradient })
    }

    /// The row with those of its negatives that count.
    fn selected(&self, mut row: Line, scores: &[f64]) -> Line {
        if let Some(hardest) = self.hardest {
            row.negatives.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            row.negatives.truncate(hardest);
        }
        row
    }

    /// What stands at these places, row by row.
    fn side(&self, rows: &[&[usize]], scores: &[f64]) -> Side {
        let all = rows.iter().map(|row| row.len()).sum::<usize>();
        let filled = rows.iter().filter(|row| !row.is_empty()).count();
        let mut side = Side::default();
        for row in rows {
            let weight = match self.weighting {
                Weighting::Pairs => 1.0 / all as f64,
                Weighting::Queries => 1.0 / (filled * row.len()) as f64,
            };
            side.scores.extend(row.iter().map(|&place| scores[place]));
            side.weights.extend(row.iter().map(|_| weight));
        }
        side
    }
}
