//! Models as they are served: weights in plain numbers, and how they are applied. Nothing here knows how they were
//! trained.

mod adapter;

pub use adapter::{Adapter, AdapterSize};

/// Why numbers are no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A list of weights of another length than the sizes say.
    #[error("the weights `{tensor}` are {found} numbers, wanted {wanted}")]
    Shape {
        /// Which.
        tensor: &'static str,
        /// How many there are.
        found: usize,
        /// How many the sizes say.
        wanted: usize,
    },
    /// A weight that is no finite number.
    #[error("the weights `{tensor}` have {found} at place {place}, wanted a finite number")]
    NotFinite {
        /// Which.
        tensor: &'static str,
        /// Where.
        place: usize,
        /// The number.
        found: f32,
    },
    /// A size out of range.
    #[error("{what} is {found}, wanted {wanted}")]
    Size {
        /// Which.
        what: &'static str,
        /// What was given.
        found: String,
        /// What it may be.
        wanted: &'static str,
    },
}

/// Checks a list of weights.
fn check(tensor: &'static str, weights: &[f32], wanted: usize) -> Result<(), ModelError> {
    if weights.len() != wanted {
        return Err(ModelError::Shape { tensor, found: weights.len(), wanted });
    }
    match weights.iter().position(|weight| !weight.is_finite()) {
        Some(place) => Err(ModelError::NotFinite { tensor, place, found: weights[place] }),
        None => Ok(()),
    }
}
