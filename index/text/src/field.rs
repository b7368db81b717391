//! How the texts of a field are taken in and ranked.

use serde::{Deserialize, Serialize};

use crate::Analyzer;

/// A field of texts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextField {
    /// How a text becomes terms.
    #[serde(default)]
    pub analyzer: Analyzer,
    /// How soon more of the same term stops counting: BM25's `k1`, 0 to 100.
    #[serde(default = "TextField::k1_default")]
    pub k1: f32,
    /// How much longer texts are held to account for their length: BM25's `b`, 0 to 1.
    #[serde(default = "TextField::b_default")]
    pub b: f32,
}

/// A parameter out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{parameter} of BM25 is {found}, wanted 0 to {most}")]
pub struct FieldError {
    /// Which.
    pub parameter: &'static str,
    /// What was given.
    pub found: f32,
    /// The largest value taken.
    pub most: f32,
}

impl TextField {
    /// A field with the usual parameters, Lucene's: `k1 = 1.2` and `b = 0.75`. Anserini's are 0.9 and 0.4.
    pub fn new(analyzer: Analyzer) -> TextField {
        TextField { analyzer, k1: TextField::k1_default(), b: TextField::b_default() }
    }

    fn k1_default() -> f32 {
        1.2
    }

    fn b_default() -> f32 {
        0.75
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<(), FieldError> {
        let within = |parameter, found: f32, most: f32| {
            if (0.0..=most).contains(&found) { Ok(()) } else { Err(FieldError { parameter, found, most }) }
        };
        within("k1", self.k1, 100.0)?;
        within("b", self.b, 1.0)
    }
}

impl Default for TextField {
    fn default() -> TextField {
        TextField::new(Analyzer::default())
    }
}
