//! Pick-some-label: a softmax over a pool of sampled positives and hard negatives.

use serde::{Deserialize, Serialize};

use super::error::Checks;
use super::info_nce::against_all;
use super::lines::{Line, Mean, rows};
use crate::{Batch, Evaluation, Label, LossError};

/// UniDEC's reduction of many labels to one pool (Kharbanda et al. 2024): of each row at most `positives` of its
/// positives are drawn. They and all candidates that are positives of no row, the hard negatives, are the *pool*. A
/// row's value is the mean over all its positives p in the pool, whoever drew them, of
/// −ln e^(s_p/τ) / Σ e^(s_c/τ), with c the row's candidates in the pool, the other positives among them (SupCon, Khosla
/// et al. 2020).
///
/// In a batch that does not share its candidates a row's pool is what it drew and its negatives. The value is the mean
/// over the rows that have both kinds in the pool. Positives of other rows are negatives unless they are labelled
/// ignored, as they should be where they could be answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PickSomeLabel {
    /// τ, in units of scores: 0.05 by default, as for [`InfoNce`](crate::InfoNce).
    pub temperature: f64,
    /// How many positives of a row are drawn: 2 by default, the fewest that are several.
    pub positives: usize,
    /// What is drawn depends on this and on the number of the row, and on nothing else. [`Loss::at_step`] changes it.
    ///
    /// [`Loss::at_step`]: crate::Loss::at_step
    pub seed: u64,
}

impl Default for PickSomeLabel {
    fn default() -> PickSomeLabel {
        PickSomeLabel { temperature: 0.05, positives: 2, seed: 0 }
    }
}

/// An odd number whose multiples are spread over 64 bits (the golden ratio): neighbouring rows and steps draw apart.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl PickSomeLabel {
    pub(crate) const NAME: &'static str = "pick_some_label";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        Checks(Self::NAME).factor("temperature", self.temperature)?;
        Checks(Self::NAME).count("positives", self.positives)
    }

    pub(crate) fn at_step(self, step: u64) -> PickSomeLabel {
        PickSomeLabel { seed: self.seed ^ step.wrapping_mul(SPREAD), ..self }
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        let drawn: Vec<Vec<usize>> = (0..).zip(rows(batch)).map(|(at, row)| self.draw(at, row)).collect();
        let is_pooled = batch.is_shared().then(|| pooled_columns(batch, &drawn));
        let pool = |(row, mut drawn): (Line, Vec<usize>)| match &is_pooled {
            None => {
                drawn.sort_unstable();
                Line { positives: drawn, negatives: row.negatives }
            }
            Some(is_pooled) => {
                let is_in = |place: &usize| is_pooled[place % batch.columns()];
                let Line { mut positives, mut negatives } = row;
                positives.retain(is_in);
                negatives.retain(is_in);
                Line { positives, negatives }
            }
        };
        let pools = rows(batch).zip(drawn.iter().cloned()).map(pool);
        let mean = Mean { loss: Self::NAME, wanted: "a row with a positive and a negative in the pool" };
        mean.over(batch, pools, |row, gradient| {
            let value = || against_all(row, batch.scores(), self.temperature, 0.0, gradient);
            Ok(row.is_comparable().then(value))
        })
    }

    /// The positives that the row of this number draws.
    fn draw(&self, row: u64, line: Line) -> Vec<usize> {
        let mut positives = line.positives;
        if positives.len() > self.positives {
            let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(row.wrapping_mul(SPREAD)));
            random.shuffle(&mut positives);
            positives.truncate(self.positives);
        }
        positives
    }
}

/// Which columns are in the pool: those drawn, and those that are positives of no row.
fn pooled_columns(batch: &Batch<'_>, drawn: &[Vec<usize>]) -> Vec<bool> {
    let mut is_pooled = vec![true; batch.columns()];
    for place in batch.places(Label::Positive) {
        is_pooled[place % batch.columns()] = false;
    }
    for place in drawn.iter().flatten() {
        is_pooled[place % batch.columns()] = true;
    }
    is_pooled
}
