//! InfoNCE: each positive against all candidates of its row, and perhaps against all rows of its column.

use serde::{Deserialize, Serialize};

use super::adaptive;
use super::decoupled::against_negatives;
use super::error::Checks;
use super::lines::{BOTH_KINDS, Line, Mean, columns};
use super::stable::LogSum;
use crate::{Batch, Evaluation, LossError};

/// InfoNCE (van den Oord et al. 2018): the mean over a row's positives p of −ln e^(s_p/τ) / Σ e^(s_c/τ), with c all
/// candidates of the row. With several positives in a row the others stay in the sum;
/// [`DecoupledSoftmax`](crate::DecoupledSoftmax) leaves them out.
///
/// The value is the mean over the rows that have both kinds. A constant added to a row changes nothing: it orders the
/// candidates of a query and knows no threshold for all queries, as [`MannWhitney`](crate::MannWhitney) does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InfoNce {
    /// τ, in units of scores: 0.01 to 0.07 are usual for cosines; 0.05 by default (SimCSE, Gao et al. 2021).
    pub temperature: f64,
    /// Whether the value is the mean of that over rows and that over columns, as in CLIP (Radford et al. 2021); false
    /// by default. In a column, a positive stands against the negatives of the column alone. The batch must share its
    /// candidates.
    pub both_ways: bool,
    /// How much of a positive's score is taken off before it is compared, as in CosFace (Wang et al., CVPR 2018); in
    /// units of scores, 0 by default.
    pub margin: f64,
    /// If given, temperature and margin follow the batch, and this is the probability that its median positive is to
    /// have: CFCD's MadaCos (Zhu et al., ICCV 2023), whose authors take 0.02 to 0.1. The temperature then is at most
    /// `temperature` (theirs is 1/32), and the margin at least `margin` (theirs is 0). It is meant for cosines. Both
    /// numbers count as constants in the gradient.
    pub adaptive: Option<f64>,
}

impl Default for InfoNce {
    fn default() -> InfoNce {
        InfoNce { temperature: 0.05, both_ways: false, margin: 0.0, adaptive: None }
    }
}

impl InfoNce {
    pub(crate) const NAME: &'static str = "infonce";

    pub(crate) fn check(&self) -> Result<(), LossError> {
        let checks = Checks(Self::NAME);
        checks.factor("temperature", self.temperature)?;
        checks.amount("margin", self.margin)?;
        self.adaptive.map_or(Ok(()), |probability| checks.probability("adaptive", probability))
    }

    pub(crate) fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        if self.both_ways && !batch.is_shared() {
            return Err(LossError::NotShared { loss: Self::NAME });
        }
        let (temperature, margin) = match self.adaptive {
            None => (self.temperature, self.margin),
            Some(probability) => adaptive::fitted(batch, probability, self.temperature, self.margin),
        };
        let scores = batch.scores();
        let mean = Mean { loss: Self::NAME, wanted: BOTH_KINDS };
        let over_rows =
            mean.over_rows(batch, |row, gradient| against_all(row, scores, temperature, margin, gradient))?;
        if !self.both_ways {
            return Ok(over_rows);
        }
        let mean = Mean { loss: Self::NAME, wanted: "a column with a positive and a negative" };
        let over_columns = mean.over(batch, columns(batch), |column, gradient| {
            let value = || against_negatives(column, scores, temperature, margin, gradient);
            Ok(column.is_comparable().then(value))
        })?;
        Ok(Evaluation::weighted(&[(0.5, over_rows), (0.5, over_columns)]))
    }
}

/// The mean over the positives of a line, each less `margin`, of −ln of its part in the sum of all that is in the line.
pub(crate) fn against_all(
    line: &Line,
    scores: &[f64],
    temperature: f64,
    margin: f64,
    gradient: &mut [f64],
) -> f64 {
    let positive = |&place: &usize| scores[place] - margin;
    let negative = |&place: &usize| scores[place];
    let all = line.positives.iter().map(positive).chain(line.negatives.iter().map(negative));
    let Some(sum) = LogSum::of(all, temperature) else { return 0.0 };
    let part = 1.0 / line.positives.len() as f64;
    let mut value = 0.0;
    for place in &line.positives {
        value += part * sum.above(positive(place));
        gradient[*place] += (sum.share(positive(place)) - part) / temperature;
    }
    for place in &line.negatives {
        gradient[*place] += sum.share(negative(place)) / temperature;
    }
    value
}
