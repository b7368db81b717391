//! Partial ranking distillation: the order that a teacher sees among hard negatives.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::lines::{Line, Mean, rows};
use super::stable::{LogSum, softplus_and_slope};
use crate::{Batch, Evaluation, LossError};

/// Contrastive partial ranking distillation (CPRD, Chen et al., CVPR 2024): among the hard negatives of a row, each is
/// to score above those that the teacher ranks below it, and all are to score above the easy ones:
/// −ln e^(s_i/τ) / (e^(s_i/τ) + Σ e^(s_j/τ)), with j the hard negatives below i and the easy ones.
///
/// *Hard* are the negatives that the teacher has a score for, the rest is *easy*; positives are in no sum. Only *valid*
/// hard negatives are ordered, those that the teacher puts below every positive of the row that it knows, by more than
/// `margin`: the others may be answers that nobody labelled, and count nowhere. Of two hard negatives within `margin`
/// of each other the teacher says nothing: going down from the best, those within `margin` of the first of a group are
/// in that group, and no two of a group are compared. No order is learnt among easy ones.
///
/// A row's value is the mean over the hard negatives that have something below them; the value is the mean over the
/// rows with such a one. It says nothing of positives, so it is to be mixed with a loss that does, as the authors do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartialRanking {
    /// τ, in units of scores: 0.05 by default, as for [`InfoNce`](crate::InfoNce), which the authors want it to agree
    /// with.
    pub temperature: f64,
    /// What the teacher's scores must differ by to tell an order, in their units: 0 by default.
    pub margin: f64,
    /// How many valid hard negatives are ordered, those that score highest in the batch; the others are easy then. All
    /// by default.
    pub hardest: Option<usize>,
}

impl Default for PartialRanking {
    fn default() -> PartialRanking {
        PartialRanking { temperature: 0.05, margin: 0.0, hardest: None }
    }
}

impl PartialRanking {
    pub(crate) const NAME: &'static str = "partial_ranking";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        let checks = Checks(Self::NAME);
        checks.factor("temperature", self.temperature)?;
        checks.amount("margin", self.margin)?;
        self.hardest.map_or(Ok(()), |hardest| checks.count("hardest", hardest))
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let teacher = batch.teacher().ok_or(LossError::NoTeacher { loss: Self::NAME })?;
        let wanted = "a row where the teacher knows a positive and a negative below it that is above another";
        let mean = Mean { loss: Self::NAME, wanted };
        mean.over(batch, rows(batch), |row, gradient| {
            let order = self.order(row, batch.scores(), teacher);
            Ok(order.and_then(|order| self.of_order(&order, batch.scores(), gradient)))
        })
    }

    /// What a row is ordered by, or `None` if the teacher knows none of its positives.
    fn order(&self, row: &Line, scores: &[f64], teacher: &[f64]) -> Option<Order> {
        let is_known = |place: &usize| teacher[*place] > f64::NEG_INFINITY;
        let known = row.positives.iter().filter(|place| is_known(place)).map(|&place| teacher[place]);
        let least = known.reduce(f64::min)?;
        let (hard, mut below): (Vec<usize>, Vec<usize>) =
            row.negatives.iter().partition(|place| is_known(place));
        let mut valid: Vec<usize> =
            hard.into_iter().filter(|&place| teacher[place] + self.margin < least).collect();
        if let Some(hardest) = self.hardest.filter(|&hardest| hardest < valid.len()) {
            valid.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            below.extend(valid.drain(hardest..));
        }
        valid.sort_by(|&a, &b| teacher[b].total_cmp(&teacher[a]));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut first = f64::INFINITY;
        for place in valid {
            match groups.last_mut() {
                Some(group) if first - teacher[place] <= self.margin => group.push(place),
                Some(_) | None => {
                    first = teacher[place];
                    groups.push(vec![place]);
                }
            }
        }
        Some(Order { groups, below })
    }

    /// The mean over what has something below it; `None` if nothing has.
    fn of_order(&self, order: &Order, scores: &[f64], gradient: &mut [f64]) -> Option<f64> {
        let mut below = order.below.clone();
        // From the last group upwards, so that what is below a group is all that was met before.
        let mut terms = Vec::new();
        for group in order.groups.iter().rev() {
            if let Some(sum) = LogSum::of(below.iter().map(|&place| scores[place]), self.temperature) {
                terms.push((group, sum, below.len()));
            }
            below.extend(group);
        }
        let part = 1.0 / terms.iter().map(|(group, ..)| group.len()).sum::<usize>().max(1) as f64;
        let mut value = 0.0;
        for (group, sum, count) in &terms {
            let mut pull = 0.0;
            for &place in *group {
                let (loss, slope) = softplus_and_slope(sum.above(scores[place]));
                value += part * loss;
                pull += part * slope / self.temperature;
                gradient[place] -= part * slope / self.temperature;
            }
            for &place in &below[..*count] {
                gradient[place] += pull * sum.share(scores[place]);
            }
        }
        (!terms.is_empty()).then_some(value)
    }
}

/// What the teacher says of a row's negatives.
struct Order {
    /// Valid hard negatives of one rank each, the best first.
    groups: Vec<Vec<usize>>,
    /// What is below all of them.
    below: Vec<usize>,
}
