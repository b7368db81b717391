//! The Mann–Whitney loss: logistic loss of the difference of every positive and every negative score, whichever
//! queries they are of.

use serde::{Deserialize, Serialize};

use super::far_field::{Points, pooled};
use super::{Evaluation, TEMPERATURE, log1p_exp, sigmoid};
use crate::batch::{Batch, LossError, Row};

/// Pairs up to which each is looked at.
const PAIRS_MAX: usize = 1 << 16;

/// `mean over p, n of softplus(−(s_p − s_n)/τ)`, over all positives and negatives of the batch, pooled across queries
/// (arXiv 2510.00137). `1 − AUC` is at most the loss over `ln 2`. It sees what differs between queries, which losses
/// that compare within a query cannot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MannWhitney {
    /// What differences are divided by, above 0. The paper's is not known to us; .05 suits cosines.
    pub temperature: f64,
    /// Only so many negatives of each row, those of the highest scores; 0 for all.
    pub hardest: usize,
    /// Whether each row's negatives count as one, however many they are.
    pub per_query: bool,
}

impl Default for MannWhitney {
    fn default() -> MannWhitney {
        MannWhitney { temperature: TEMPERATURE, hardest: 0, per_query: false }
    }
}

impl MannWhitney {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let (positives, negatives) = self.pools(batch)?;
        if positives.cells.len().saturating_mul(negatives.cells.len()) <= PAIRS_MAX {
            Ok(self.pairwise(batch, &positives, &negatives))
        } else {
            Ok(self.fast(batch, &positives, &negatives))
        }
    }

    fn pools(&self, batch: &Batch) -> Result<(Pool, Pool), LossError> {
        let rows = batch.rows();
        let (mut positives, mut negatives) = (Pool::default(), Pool::default());
        for row in &rows {
            for &cell in &row.positives {
                positives.push(cell, 1.0);
            }
            let taken = self.taken(batch, row);
            let weight = if self.per_query { 1.0 / count(taken.len()) } else { 1.0 };
            taken.into_iter().for_each(|cell| negatives.push(cell, weight));
        }
        if positives.cells.is_empty() || negatives.cells.is_empty() {
            return Err(LossError::NoPairs { loss: "mw" });
        }
        positives.normalise();
        negatives.normalise();
        Ok((positives, negatives))
    }

    fn taken(&self, batch: &Batch, row: &Row) -> Vec<usize> {
        let mut cells = row.negatives.clone();
        if self.hardest > 0 && cells.len() > self.hardest {
            let harder =
                |&a: &usize, &b: &usize| batch.scores()[b].total_cmp(&batch.scores()[a]).then(a.cmp(&b));
            cells.select_nth_unstable_by(self.hardest - 1, harder);
            cells.truncate(self.hardest);
        }
        cells
    }

    /// Every pair.
    fn pairwise(&self, batch: &Batch, positives: &Pool, negatives: &Pool) -> Evaluation {
        let mut evaluation = Evaluation::zero(batch);
        for (&p, &of_p) in positives.cells.iter().zip(&positives.weights) {
            let mut slope = 0.0;
            for (&n, &of_n) in negatives.cells.iter().zip(&negatives.weights) {
                let x = (batch.scores()[n] - batch.scores()[p]) / self.temperature;
                let weight = of_p * of_n;
                evaluation.value += weight * log1p_exp(x);
                let part = weight * sigmoid(x) / self.temperature;
                evaluation.gradient[n] += part;
                slope += part;
            }
            evaluation.gradient[p] -= slope;
        }
        evaluation
    }

    /// The same by [`pooled`], in time that grows with the number of scores and not of pairs.
    fn fast(&self, batch: &Batch, positives: &Pool, negatives: &Pool) -> Evaluation {
        let points = |pool: &Pool| {
            let scaled = pool.cells.iter().map(|&cell| batch.scores()[cell] / self.temperature);
            Points::new(scaled.collect(), pool.weights.clone())
        };
        let sums = pooled(&points(positives), &points(negatives));
        let mut evaluation = Evaluation::zero(batch);
        evaluation.value = sums.value;
        for (&cell, slope) in positives.cells.iter().zip(sums.below) {
            evaluation.gradient[cell] -= slope / self.temperature;
        }
        for (&cell, slope) in negatives.cells.iter().zip(sums.above) {
            evaluation.gradient[cell] += slope / self.temperature;
        }
        evaluation
    }
}

/// Scores that are compared with all of another pool, each with its share.
#[derive(Default)]
struct Pool {
    cells: Vec<usize>,
    weights: Vec<f64>,
}

impl Pool {
    fn push(&mut self, cell: usize, weight: f64) {
        self.cells.push(cell);
        self.weights.push(weight);
    }

    fn normalise(&mut self) {
        let sum: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

/// The area under the curve of all scores together: the share of pairs of a positive and a negative, whichever rows
/// they are of, in the right order; equal ones count half. `None` without a pair.
pub fn pooled_auc(batch: &Batch) -> Option<f64> {
    let cells = |of: fn(&Row) -> &Vec<usize>| -> Vec<f64> {
        batch.rows().iter().flat_map(|row| of(row).iter().map(|&cell| batch.scores()[cell])).collect()
    };
    let (positives, mut negatives) = (cells(|row| &row.positives), cells(|row| &row.negatives));
    if positives.is_empty() || negatives.is_empty() {
        return None;
    }
    negatives.sort_unstable_by(f64::total_cmp);
    let below = |&score: &f64| {
        let less = negatives.partition_point(|&negative| negative < score);
        let at_most = negatives.partition_point(|&negative| negative <= score);
        (count(less) + count(at_most)) / 2.0
    };
    let pairs = count(positives.len()) * count(negatives.len());
    Some(positives.iter().map(below).sum::<f64>() / pairs)
}

#[expect(clippy::cast_precision_loss, reason = "a count of scores is far below 2^53")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::Label;

    /// Scores of some scale around a few centres, with ties, and labels.
    fn batches() -> impl Strategy<Value = Batch> {
        let score = prop_oneof![
            3 => -1.0_f64..1.0,
            1 => prop::sample::select(vec![0.0, 0.5, -0.25]),
            1 => -60.0_f64..60.0,
            1 => prop::sample::select(vec![1000.0, -1000.0, 1e6]),
        ];
        let label =
            prop::sample::select(vec![Label::Positive, Label::Negative, Label::Negative, Label::Ignored]);
        prop::collection::vec((score, label), 12..120).prop_map(|mut cells| {
            cells.truncate(cells.len() / 4 * 4);
            let (scores, labels) = cells.into_iter().unzip();
            Batch::new(scores, 4, labels, false).expect("finite")
        })
    }

    proptest! {
        #[test]
        fn the_fast_way_is_that_of_every_pair(batch in batches(), temperature in 0.02_f64..2.0, per_query: bool) {
            let loss = MannWhitney { temperature, per_query, hardest: 0 };
            let Ok((positives, negatives)) = loss.pools(&batch) else { return Ok(()) };
            let (slow, fast) =
                (loss.pairwise(&batch, &positives, &negatives), loss.fast(&batch, &positives, &negatives));
            let is_near = (slow.value - fast.value).abs() <= 1e-9 * (1.0 + slow.value.abs());
            prop_assert!(is_near, "{} {}", slow.value, fast.value);
            for (slow, fast) in slow.gradient.iter().zip(&fast.gradient) {
                prop_assert!((slow - fast).abs() <= 1e-8 / temperature, "{} {}", slow, fast);
            }
        }

        #[test]
        fn what_a_perfect_auc_has_more_is_at_most_the_loss_over_ln_2(
            batch in batches(),
            temperature in 0.02_f64..2.0,
        ) {
            let loss = MannWhitney { temperature, ..MannWhitney::default() };
            if let Some(auc) = pooled_auc(&batch) {
                let value = loss.evaluate(&batch).expect("pairs").value;
                prop_assert!(1.0 - auc <= value / std::f64::consts::LN_2 + 1e-12);
            }
        }
    }

    #[test]
    fn ties_count_half_in_the_auc() {
        let labels = vec![Label::Positive, Label::Negative, Label::Negative, Label::Ignored];
        let batch = Batch::new(vec![1.0, 1.0, 0.0, 9.0], 4, labels, false).expect("finite");
        assert_eq!(pooled_auc(&batch), Some(0.75));
    }
}
