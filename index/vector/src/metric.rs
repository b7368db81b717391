//! The three similarities a collection can be made with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How two vectors are compared. Larger is better for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The inner product of vectors scaled to length one, in [-1, 1].
    Cosine,
    /// The inner product of the vectors as given.
    Dot,
    /// `-‖q - p‖²/2`, served as `q·p - ‖p‖²/2 - ‖q‖²/2`: 0 for equal vectors, negative otherwise.
    Euclidean,
}

/// A metric's name that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric `{found}`: wanted cosine, dot or euclidean")]
pub struct UnknownMetric {
    /// What was given.
    pub found: String,
}

impl Metric {
    /// The name in commands, bodies and messages.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Cosine => "cosine",
            Metric::Dot => "dot",
            Metric::Euclidean => "euclidean",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Accepts the names other engines use as well, in any case: `ip`, `angular`, `euclid`, `l2`.
    fn from_str(text: &str) -> Result<Metric, UnknownMetric> {
        match text.to_ascii_lowercase().as_str() {
            "cosine" | "angular" => Ok(Metric::Cosine),
            "dot" | "ip" => Ok(Metric::Dot),
            "euclidean" | "euclid" | "l2" => Ok(Metric::Euclidean),
            _ => Err(UnknownMetric { found: text.to_owned() }),
        }
    }
}
