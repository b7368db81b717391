//! How true probabilities are, and how well scores tell answers from others.

use std::num::NonZeroUsize;

use super::{CalibrationError, Judged, check_both_kinds, check_samples};
use crate::loss::area;

/// How probabilities are put into bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bins {
    /// Of about equal weight: a sample goes to the bin that its place among the sorted probabilities falls into. Equal
    /// probabilities are all in the bin of the first of them. Every bin says as much as any other.
    EqualMass,
    /// Of equal width between 0 and 1; a border belongs to the bin above it, and 1 to the last. Most of the weight may
    /// be in one bin, within which errors cancel.
    EqualWidth,
}

/// The expected calibration error (Naeini et al. 2015): the mean over `count` bins, by their weight, of how far the
/// mean probability is from the share of relevant samples. Smaller is better; 0 is the least.
///
/// # Errors
///
/// If there is no sample, a score is no probability, or a weight is not above 0.
pub fn expected_calibration_error(
    samples: &[Judged],
    bins: Bins,
    count: NonZeroUsize,
) -> Result<f64, CalibrationError> {
    check_probabilities(samples)?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.score.total_cmp(&b.score));
    let all: f64 = sorted.iter().map(|sample| sample.weight).sum();
    let width = 1.0 / count.get() as f64;
    let mut before = 0.0;
    // The bin that is being filled, what its probabilities exceed its truths by, and the sum of all bins before.
    let (mut bin, mut excess, mut error) = (0.0, 0.0, 0.0);
    for ties in sorted.chunk_by(|a, b| a.score == b.score) {
        let place = match bins {
            Bins::EqualMass => before / all,
            Bins::EqualWidth => ties[0].score,
        };
        let own = (place / width).floor().min(count.get() as f64 - 1.0);
        if own > bin {
            error += f64::abs(excess);
            (bin, excess) = (own, 0.0);
        }
        for sample in ties {
            let truth = if sample.relevant { 1.0 } else { 0.0 };
            excess += sample.weight * (sample.score - truth);
            before += sample.weight;
        }
    }
    Ok((error + excess.abs()) / all)
}

/// The Brier score (Brier 1950): the mean squared difference between probability and truth. Smaller is better.
///
/// # Errors
///
/// If there is no sample, a score is no probability, or a weight is not above 0.
pub fn brier_score(samples: &[Judged]) -> Result<f64, CalibrationError> {
    check_probabilities(samples)?;
    let all: f64 = samples.iter().map(|sample| sample.weight).sum();
    let squared = |sample: &Judged| {
        let truth = if sample.relevant { 1.0 } else { 0.0 };
        sample.weight * (sample.score - truth).powi(2)
    };
    Ok(samples.iter().map(squared).sum::<f64>() / all)
}

/// The area under the ROC curve of all samples: the share, by weight, of pairs of a relevant sample and another in
/// which the relevant one scores higher; equal scores count half. No map that rises changes it.
///
/// # Errors
///
/// If samples are of one kind, or one has a score or a weight that it cannot have.
pub fn pooled_auc(samples: &[Judged]) -> Result<f64, CalibrationError> {
    check_both_kinds(samples)?;
    Ok(area(samples.iter().map(|sample| (sample.score, sample.relevant, sample.weight)).collect()))
}

fn check_probabilities(samples: &[Judged]) -> Result<(), CalibrationError> {
    check_samples(samples)?;
    match samples.iter().position(|sample| !(0.0..=1.0).contains(&sample.score)) {
        Some(sample) => Err(CalibrationError::Probability { sample, found: samples[sample].score }),
        None => Ok(()),
    }
}
