//! The area under the ROC curve of all queries together, by ranks.

use super::lines::check_both_kinds;
use crate::{Batch, Label, LossError};

/// The share of pairs of a positive and a negative, of whatever rows, in which the positive scores higher; equal scores
/// count half (Mann and Whitney 1947). It is what [`MannWhitney`](crate::MannWhitney) is a smooth bound of.
///
/// # Errors
///
/// If the batch has no positive or no negative.
pub fn auc(batch: &Batch<'_>) -> Result<f64, LossError> {
    check_both_kinds("auc", batch)?;
    let scored = batch.scores().iter().zip(batch.labels());
    let counted = scored.filter_map(|(&score, label)| match label {
        Label::Positive => Some((score, true, 1.0)),
        Label::Negative => Some((score, false, 1.0)),
        Label::Ignored => None,
    });
    Ok(area(counted.collect()))
}

/// The same of scores, whether they are of positives, and how many samples each counts as. There are some of both
/// kinds. Whole weights are summed without rounding.
pub(crate) fn area(mut samples: Vec<(f64, bool, f64)>) -> f64 {
    samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut positives, mut ordered) = (0.0, 0.0, 0.0);
    for ties in samples.chunk_by(|a, b| a.0 == b.0) {
        let of_kind = |kind| ties.iter().filter(|tie| tie.1 == kind).map(|tie| tie.2).sum::<f64>();
        let (positive, negative): (f64, f64) = (of_kind(true), of_kind(false));
        ordered += positive * (below + negative / 2.0);
        below += negative;
        positives += positive;
    }
    ordered / (positives * below)
}
