//! Losses that compare candidates within a query by a softmax.

use serde::{Deserialize, Serialize};

use super::mann_whitney::count;
use super::{Evaluation, TEMPERATURE};
use crate::batch::{Batch, LossError, Row};

/// `−log e^{s⁺/τ} / Σ e^{s/τ}`, the mean over rows and over each row's positives (van den Oord et al. 2018). All
/// candidates are in the denominator, other positives too: [`DecoupledSoftmax`] leaves these out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InfoNce {
    /// What scores are divided by, above 0.
    pub temperature: f64,
    /// The mean with the same over columns, of which each is then one candidate: queries compete for it, as CLIP has it
    /// (Radford et al. 2021).
    pub both_ways: bool,
    /// What positives are less by before they are compared, as CosFace has it (Wang et al. 2018); from 0.
    pub margin: f64,
    /// Whether the temperature is found from the batch instead: AdaCos (Zhang et al. 2019), whose scale is `ln B / cos
    /// π/4` with `B` the mean sum of a row's negatives `e^{s}` at the scale `√2·ln(C − 1)`, for C candidates. It is
    /// taken for a constant by the gradient.
    pub adaptive: bool,
}

impl Default for InfoNce {
    fn default() -> InfoNce {
        InfoNce { temperature: TEMPERATURE, both_ways: false, margin: 0.0, adaptive: false }
    }
}

impl InfoNce {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let temperature = if self.adaptive { adaptive(batch)? } else { self.temperature };
        let rows = one_way(batch, temperature, self.margin)?;
        if !self.both_ways {
            return Ok(rows);
        }
        if !batch.is_shared() {
            return Err(LossError::Missing { loss: "infonce both ways", what: "candidates that rows share" });
        }
        let (turned, cells) = batch.transposed();
        let columns = one_way(&turned, temperature, self.margin)?;
        let mut both = Evaluation { value: (rows.value + columns.value) / 2.0, gradient: rows.gradient };
        both.gradient.iter_mut().for_each(|slope| *slope /= 2.0);
        for (cell, slope) in cells.into_iter().zip(columns.gradient) {
            both.gradient[cell] += slope / 2.0;
        }
        Ok(both)
    }
}

fn one_way(batch: &Batch, temperature: f64, margin: f64) -> Result<Evaluation, LossError> {
    let rows = batch.paired("infonce")?;
    let mut evaluation = Evaluation::zero(batch);
    let share = 1.0 / count(rows.len());
    for row in &rows {
        let each = share / count(row.positives.len());
        let others: Vec<usize> = row.positives.iter().chain(&row.negatives).copied().collect();
        for &positive in &row.positives {
            let of = |cell: usize| {
                if cell == positive { batch.scores()[cell] - margin } else { batch.scores()[cell] }
            };
            softmax(&mut evaluation, &others, positive, each, |cell| {
                (of(cell) / temperature, 1.0 / temperature)
            });
        }
    }
    Ok(evaluation)
}

/// Adds `weight · −log softmax` of one of some cells, whose logits and their slopes `logit` gives.
fn softmax(
    evaluation: &mut Evaluation,
    cells: &[usize],
    positive: usize,
    weight: f64,
    logit: impl Fn(usize) -> (f64, f64),
) {
    let logits: Vec<(f64, f64)> = cells.iter().map(|&cell| logit(cell)).collect();
    let most = logits.iter().map(|it| it.0).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|it| (it.0 - most).exp()).sum();
    let (own, own_slope) = logit(positive);
    evaluation.value += weight * (most + sum.ln() - own);
    for (&cell, (logit, slope)) in cells.iter().zip(logits) {
        evaluation.gradient[cell] += weight * slope * (logit - most).exp() / sum;
    }
    evaluation.gradient[positive] -= weight * own_slope;
}

fn adaptive(batch: &Batch) -> Result<f64, LossError> {
    let rows = batch.paired("infonce")?;
    let most = rows.iter().map(|row| row.positives.len() + row.negatives.len()).max().unwrap_or(0);
    let fixed = std::f64::consts::SQRT_2 * count(most.saturating_sub(1)).max(2.0).ln();
    let sum = |row: &Row| row.negatives.iter().map(|&cell| (fixed * batch.scores()[cell]).exp()).sum::<f64>();
    let mean = rows.iter().map(sum).sum::<f64>() / count(rows.len());
    let scale = mean.ln() / std::f64::consts::FRAC_PI_4.cos();
    if scale.is_finite() && scale > 0.0 {
        return Ok(1.0 / scale);
    }
    let reason = format!(
        "the adaptive scale of this batch is {scale}, wanted a positive number: scores are to be cosines"
    );
    Err(LossError::Unsuited { loss: "infonce", reason })
}

/// `−(1/|P|) Σ_p log e^{s_p/τ} / (e^{s_p/τ} + Σ over negatives e^{s/τ})`, the mean over rows (DEXML, ICLR 2024):
/// positives do not compete with each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecoupledSoftmax {
    /// What scores are divided by: .05 for cosines, 1 for logits.
    pub temperature: f64,
}

impl Default for DecoupledSoftmax {
    fn default() -> DecoupledSoftmax {
        DecoupledSoftmax { temperature: TEMPERATURE }
    }
}

impl DecoupledSoftmax {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("decoupled")?;
        let mut evaluation = Evaluation::zero(batch);
        let logit = |cell: usize| (batch.scores()[cell] / self.temperature, 1.0 / self.temperature);
        for row in &rows {
            let each = 1.0 / count(rows.len()) / count(row.positives.len());
            for &positive in &row.positives {
                let cells: Vec<usize> = row.negatives.iter().copied().chain([positive]).collect();
                softmax(&mut evaluation, &cells, positive, each, logit);
            }
        }
        Ok(evaluation)
    }
}

/// InfoNCE whose negatives have weights that are less for those more like the positive, which may be unlabelled
/// answers: `w = max(.1, (β − α·p)/(β − α/N))` with `p` the softmax of likenesses over the `N` negatives (Li et al.,
/// EMNLP 2023).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SoftInfoNce {
    /// What scores are divided by.
    pub temperature: f64,
    /// How much likeness counts, from 0.
    pub alpha: f64,
    /// Above `alpha / N` for the weights to have a meaning. The authors take 1; with two negatives and an `alpha` of 1
    /// that is the least that is left.
    pub beta: f64,
    /// The temperature of the softmax of likenesses.
    pub likeness_temperature: f64,
}

/// The least weight of a negative.
const LEAST_WEIGHT: f64 = 0.1;

impl Default for SoftInfoNce {
    fn default() -> SoftInfoNce {
        SoftInfoNce { temperature: TEMPERATURE, alpha: 1.0, beta: 1.5, likeness_temperature: 1.0 }
    }
}

impl SoftInfoNce {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("soft-infonce")?;
        let likeness = batch.likeness().unwrap_or_else(|| batch.scores());
        let mut evaluation = Evaluation::zero(batch);
        for row in &rows {
            let weights = self.weights(row, likeness)?;
            let each = 1.0 / count(rows.len()) / count(row.positives.len());
            for &positive in &row.positives {
                let cells: Vec<usize> = row.negatives.iter().copied().chain([positive]).collect();
                let logit = |cell: usize| {
                    let place = row.negatives.binary_search(&cell);
                    let weight = place.map_or(1.0, |place| weights[place]);
                    (batch.scores()[cell] / self.temperature + weight.ln(), 1.0 / self.temperature)
                };
                softmax(&mut evaluation, &cells, positive, each, logit);
            }
        }
        Ok(evaluation)
    }

    fn weights(&self, row: &Row, likeness: &[f64]) -> Result<Vec<f64>, LossError> {
        let mean = self.beta - self.alpha / count(row.negatives.len());
        if mean <= 0.0 {
            let (alpha, beta, n) = (self.alpha, self.beta, row.negatives.len());
            let reason = format!("beta is {beta}, wanted more than alpha / N = {alpha} / {n}");
            return Err(LossError::Unsuited { loss: "soft-infonce", reason });
        }
        let scaled = |&cell: &usize| likeness[cell] / self.likeness_temperature;
        let most = row.negatives.iter().map(scaled).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.negatives.iter().map(|cell| (scaled(cell) - most).exp()).sum();
        let weight =
            |cell| ((self.beta - self.alpha * (scaled(cell) - most).exp() / sum) / mean).max(LEAST_WEIGHT);
        Ok(row.negatives.iter().map(weight).collect())
    }
}

/// `−log softmax` averaged over at most `positives` of a row's positives, drawn by the seed, over all candidates of the
/// pool (UniDEC's pick-some-labels; with all of them SupCon's form, Khosla et al. 2020).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PickSomeLabel {
    /// What scores are divided by.
    pub temperature: f64,
    /// Positives that are drawn of each row, at least 1.
    pub positives: usize,
    /// Of the draws.
    pub seed: u64,
}

impl Default for PickSomeLabel {
    fn default() -> PickSomeLabel {
        PickSomeLabel { temperature: TEMPERATURE, positives: 3, seed: 0 }
    }
}

impl PickSomeLabel {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let rows = batch.paired("pick-some")?;
        let mut evaluation = Evaluation::zero(batch);
        let mut draws = fastrand::Rng::with_seed(self.seed);
        let logit = |cell: usize| (batch.scores()[cell] / self.temperature, 1.0 / self.temperature);
        for row in &rows {
            let mut drawn = row.positives.clone();
            draws.shuffle(&mut drawn);
            drawn.truncate(self.positives);
            let cells: Vec<usize> = row.positives.iter().chain(&row.negatives).copied().collect();
            let each = 1.0 / count(rows.len()) / count(drawn.len());
            for positive in drawn {
                softmax(&mut evaluation, &cells, positive, each, logit);
            }
        }
        Ok(evaluation)
    }
}

/// Partial-ranking distillation (CPRD, CVPR 2024): among hard negatives that the teacher ranks below the positive, the
/// student is to have the teacher's order; easy ones are only to be below. With `r` the hard ones by falling teacher
/// score:
///
/// ```text
/// −Σ_i log e^{s_{r_i}/τ} / (Σ_{j ≥ i} e^{s_{r_j}/τ} + Σ over easy e^{s/τ})
/// ```
///
/// The mean over the hard ones and over rows. Of candidates whose teacher scores differ by less than `tie`, none is
/// told to be above the other: the lower is left out of the sum of the higher.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartialRanking {
    /// What scores are divided by.
    pub temperature: f64,
    /// Negatives of each row that are ordered, of those with a teacher score the ones of the highest scores of the
    /// student.
    pub hard: usize,
    /// Teacher scores that differ by less are equal.
    pub tie: f64,
}

impl Default for PartialRanking {
    fn default() -> PartialRanking {
        PartialRanking { temperature: TEMPERATURE, hard: 8, tie: 1e-6 }
    }
}

impl PartialRanking {
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        let teacher =
            batch.teacher().ok_or(LossError::Missing { loss: "cprd", what: "scores of a teacher" })?;
        let mut ranked: Vec<(Row, Vec<usize>)> = Vec::new();
        for row in batch.paired("cprd")? {
            let hard = self.hard_of(batch, teacher, &row);
            if !hard.is_empty() {
                ranked.push((row, hard));
            }
        }
        if ranked.is_empty() {
            return Err(LossError::NoPairs { loss: "cprd" });
        }
        let mut evaluation = Evaluation::zero(batch);
        let logit = |cell: usize| (batch.scores()[cell] / self.temperature, 1.0 / self.temperature);
        for (row, hard) in &ranked {
            let easy: Vec<usize> =
                row.negatives.iter().copied().filter(|cell| !hard.contains(cell)).collect();
            let each = 1.0 / count(ranked.len()) / count(hard.len());
            for (place, &cell) in hard.iter().enumerate() {
                let below =
                    hard[place + 1..].iter().filter(|&&other| teacher[cell] - teacher[other] >= self.tie);
                let cells: Vec<usize> = below.chain(&easy).copied().chain([cell]).collect();
                softmax(&mut evaluation, &cells, cell, each, logit);
            }
        }
        Ok(evaluation)
    }

    /// The valid hard negatives by falling teacher score. Without a teacher score of a positive all are valid.
    fn hard_of(&self, batch: &Batch, teacher: &[f64], row: &Row) -> Vec<usize> {
        let of_positives = row.positives.iter().map(|&cell| teacher[cell]).filter(|score| score.is_finite());
        let bound = of_positives.fold(f64::INFINITY, f64::min);
        let is_valid = |&cell: &usize| teacher[cell].is_finite() && teacher[cell] < bound;
        let mut hard: Vec<usize> = row.negatives.iter().copied().filter(is_valid).collect();
        hard.sort_unstable_by(|&a, &b| batch.scores()[b].total_cmp(&batch.scores()[a]).then(a.cmp(&b)));
        hard.truncate(self.hard);
        hard.sort_unstable_by(|&a, &b| teacher[b].total_cmp(&teacher[a]).then(a.cmp(&b)));
        hard
    }
}
