//! From scores to probabilities of relevance, and how true these are.

mod isotonic;
mod measures;
mod platt;

use serde::{Deserialize, Serialize};

pub use measures::{Bins, brier_score, expected_calibration_error, pooled_auc};

use crate::SCORE_MAX;
use crate::loss::sigmoid;

/// The largest weight of a sample: the square of a sum of weights stays far from what 64 bits hold.
const WEIGHT_MAX: f64 = 1e12;

/// A score whose truth is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The score, or the probability where a measure takes one.
    pub score: f64,
    /// Whether the candidate is an answer.
    pub relevant: bool,
    /// As how many it counts: above 0.
    pub weight: f64,
}

impl Judged {
    /// A score that counts once.
    pub fn new(score: f64, relevant: bool) -> Judged {
        Judged { score, relevant, weight: 1.0 }
    }
}

/// A map from scores to probabilities, which never falls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "Unchecked")]
#[non_exhaustive]
pub enum Calibration {
    /// 1 / (1 + e^−(a·score + b)) (Platt 1999).
    Platt {
        /// The slope, 0 or above.
        a: f64,
        /// The logarithm of the odds at a score of 0.
        b: f64,
    },
    /// Straight lines between points, and the outer ones' probabilities beyond them.
    Isotonic {
        /// Scores, ascending, no two the same.
        x: Vec<f64>,
        /// The probability at each score, ascending or the same.
        y: Vec<f64>,
    },
}

/// What is read of a file, before it is checked.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Unchecked {
    Platt { a: f64, b: f64 },
    Isotonic { x: Vec<f64>, y: Vec<f64> },
}

impl TryFrom<Unchecked> for Calibration {
    type Error = CalibrationError;

    fn try_from(read: Unchecked) -> Result<Calibration, CalibrationError> {
        let calibration = match read {
            Unchecked::Platt { a, b } => Calibration::Platt { a, b },
            Unchecked::Isotonic { x, y } => Calibration::Isotonic { x, y },
        };
        calibration.check()?;
        Ok(calibration)
    }
}

/// Why there is no calibration, or no measure of one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// A sample has a score that is none.
    #[error("sample {sample}: wanted a score from -{SCORE_MAX:e} to {SCORE_MAX:e}, found {found}")]
    Score {
        /// Its number, from 0.
        sample: usize,
        /// The score.
        found: f64,
    },
    /// A measure of probabilities was given something else.
    #[error("sample {sample}: wanted a probability from 0 to 1, found {found}")]
    Probability {
        /// Its number, from 0.
        sample: usize,
        /// What it has for one.
        found: f64,
    },
    /// A sample counts as nothing, or as too much.
    #[error("sample {sample}: wanted a weight above 0 and up to {WEIGHT_MAX:e}, found {found}")]
    Weight {
        /// Its number, from 0.
        sample: usize,
        /// The weight.
        found: f64,
    },
    /// There is nothing to measure.
    #[error("calibration: wanted one or more samples, found none")]
    NoSample,
    /// There is nothing to tell apart.
    #[error("calibration: wanted samples of both kinds, found {found} relevant of {samples}")]
    OneKind {
        /// How many are relevant.
        found: usize,
        /// How many there are.
        samples: usize,
    },
    /// A calibration is not a map that never falls.
    #[error("calibration, {what}: wanted {wanted}, found {found}")]
    Shape {
        /// What is wrong.
        what: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
}

impl Calibration {
    /// Platt scaling (Platt 1999) by Newton's method with a line search (Lin, Lin and Weng 2007). The truth of a sample
    /// is taken as (P + 1)/(P + 2) if it is relevant and 1/(N + 2) if not, with P and N the weights of both kinds, so
    /// that samples which a threshold tells apart give a finite slope. If larger scores are less relevant, the slope is
    /// 0: a calibration does not turn a ranking round.
    ///
    /// # Errors
    ///
    /// If samples are of one kind, or one has a score or a weight that it cannot have.
    pub fn platt(samples: &[Judged]) -> Result<Calibration, CalibrationError> {
        check_both_kinds(samples)?;
        Ok(platt::fitted(samples))
    }

    /// Isotonic regression by pooling adjacent violators (Ayer et al. 1955): of all maps that never fall, the one of
    /// the least squared error. Equal scores are one sample with their mean. Each pool is a point at its mean score,
    /// and between points lines are drawn, so that few scores which differ get the same probability.
    ///
    /// # Errors
    ///
    /// If samples are of one kind, or one has a score or a weight that it cannot have.
    pub fn isotonic(samples: &[Judged]) -> Result<Calibration, CalibrationError> {
        check_both_kinds(samples)?;
        Ok(isotonic::fitted(samples))
    }

    /// Refuses numbers that are no probabilities or a map that falls. A calibration that was fitted or read has been
    /// checked.
    ///
    /// # Errors
    ///
    /// [`CalibrationError::Shape`].
    pub fn check(&self) -> Result<(), CalibrationError> {
        let refused = |what, wanted, found: &dyn std::fmt::Debug| {
            Err(CalibrationError::Shape { what, wanted, found: format!("{found:?}") })
        };
        match self {
            Calibration::Platt { a, .. } if !(a.is_finite() && *a >= 0.0) => {
                refused("a", "a number from 0 up", a)
            }
            Calibration::Platt { b, .. } if !b.is_finite() => refused("b", "a number", b),
            Calibration::Platt { .. } => Ok(()),
            Calibration::Isotonic { x, y } => {
                if x.is_empty() || x.len() != y.len() {
                    let found = (x.len(), y.len());
                    return refused("numbers of x and y", "one or more, and as many of both", &found);
                }
                if let Some(bad) =
                    x.iter().find(|x| x.abs().partial_cmp(&SCORE_MAX).is_none_or(|it| it.is_gt()))
                {
                    return refused("x", "scores from -1e60 to 1e60", bad);
                }
                if let Some(bad) = y.iter().find(|y| !(0.0..=1.0).contains(*y)) {
                    return refused("y", "probabilities from 0 to 1", bad);
                }
                if let Some(bad) = x.windows(2).find(|pair| pair[0] >= pair[1]) {
                    return refused("x", "each above the one before", &bad);
                }
                match y.windows(2).find(|pair| pair[0] > pair[1]) {
                    Some(bad) => refused("y", "none below the one before", &bad),
                    None => Ok(()),
                }
            }
        }
    }

    /// The probability that a candidate of this score is an answer, from 0 to 1. A score that is no number is taken as
    /// the lowest.
    pub fn probability(&self, score: f64) -> f64 {
        // An infinite score times a slope of 0 would be no number.
        let score = if score.is_nan() { -SCORE_MAX } else { score.clamp(-SCORE_MAX, SCORE_MAX) };
        match self {
            Calibration::Platt { a, b } => sigmoid(a * score + b),
            Calibration::Isotonic { x, y } => isotonic::interpolated(x, y, score),
        }
    }
}

/// Refuses samples with numbers that are none.
fn check_samples(samples: &[Judged]) -> Result<(), CalibrationError> {
    if samples.is_empty() {
        return Err(CalibrationError::NoSample);
    }
    for (place, sample) in samples.iter().enumerate() {
        if !(-SCORE_MAX..=SCORE_MAX).contains(&sample.score) {
            return Err(CalibrationError::Score { sample: place, found: sample.score });
        }
        if !(sample.weight > 0.0 && sample.weight <= WEIGHT_MAX) {
            return Err(CalibrationError::Weight { sample: place, found: sample.weight });
        }
    }
    Ok(())
}

/// Refuses samples of one kind.
fn check_both_kinds(samples: &[Judged]) -> Result<(), CalibrationError> {
    check_samples(samples)?;
    let found = samples.iter().filter(|sample| sample.relevant).count();
    match found == 0 || found == samples.len() {
        true => Err(CalibrationError::OneKind { found, samples: samples.len() }),
        false => Ok(()),
    }
}
