//! The correction that queries are ranked by when they name none.

use serde::{Deserialize, Serialize};

use crate::Name;

/// The correction that ranks queries which name none, and what it was made the default by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefaultCorrection {
    /// Its name.
    pub correction: Name,
    /// The version that was judged. A bank that grows raises the version and keeps the default.
    pub version: u32,
    /// What it was judged by; `None` if it was forced without a look.
    pub evidence: Option<DefaultEvidence>,
    /// Whether it is the default against the verdict, or without one.
    pub forced: bool,
}

/// What a correction does to some queries, and what that came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefaultEvidence {
    /// Whether the verdict was yes.
    pub approved: bool,
    /// The part of the hubness beyond chance that it removes; `None` if there was none to remove.
    pub share: Option<Interval>,
    /// What it gains in nDCG, when queries were judged.
    pub gain: Option<Interval>,
    /// The queries asked.
    pub queries: usize,
    /// The judged ones among them, when there were judgements.
    pub judged: Option<usize>,
    /// Decided the draws of the resampling.
    pub seed: u64,
    /// Rounds of resampling.
    pub rounds: usize,
    /// The verdict's reason, in words.
    pub reason: String,
}

/// A measured number and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// As measured.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}
