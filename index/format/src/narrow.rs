//! Numbers of other widths as 32-bit floats, without losing one to infinity.

use dehub_vector::DIM_MAX;

use crate::error::Flaw;

/// `number` rounded to 32 bits; `None` if it is finite and would become infinite.
/// NaN and the infinities pass: whether they are allowed is the collection's decision.
pub(crate) fn narrow(number: f64) -> Option<f32> {
    let narrowed = number as f32;
    (narrowed.is_finite() || !number.is_finite()).then_some(narrowed)
}

/// The dimension of a file's vectors: that of its first row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dimension(Option<usize>);

impl Dimension {
    pub(crate) fn known(dim: usize) -> Dimension {
        Dimension(Some(dim))
    }

    pub(crate) fn get(self) -> Option<usize> {
        self.0
    }

    /// Takes the first row's length as the dimension, and holds every later row to it.
    pub(crate) fn check(&mut self, field: &str, found: usize) -> Result<(), Flaw> {
        match self.0 {
            Some(wanted) if wanted == found => Ok(()),
            Some(wanted) => Err(Flaw::Ragged { field: field.to_owned(), wanted, found }),
            None if found == 0 || found > DIM_MAX => Err(Flaw::Dimension { found: found as u64 }),
            None => {
                self.0 = Some(found);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_finite_number_that_would_become_infinite_is_refused() {
        assert_eq!(narrow(0.1), Some(0.1f32));
        assert_eq!(narrow(1e-50), Some(0.0));
        assert_eq!(narrow(f64::from(f32::MAX)), Some(f32::MAX));
        assert_eq!(narrow(1e39), None);
        assert_eq!(narrow(-1e39), None);
        assert_eq!(narrow(f64::INFINITY), Some(f32::INFINITY));
        assert!(narrow(f64::NAN).is_some_and(f32::is_nan));
    }

    #[test]
    fn the_first_row_decides_the_dimension() {
        let mut dimension = Dimension::default();
        assert!(dimension.check("vector", 0).is_err());
        assert!(dimension.check("vector", DIM_MAX + 1).is_err());
        assert!(dimension.check("vector", 3).is_ok());
        assert!(dimension.check("vector", 4).is_err());
        assert_eq!(dimension.get(), Some(3));
    }
}
