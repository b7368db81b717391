//! Why a loss has no value.

use crate::SCORE_MAX;

/// Why a batch is none, a parameter is refused, or a loss has no value on a batch. All are the caller's to mend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossError {
    /// The scores are not whole rows, or there are none.
    #[error("batch: wanted one or more whole rows of {columns} scores, found {scores} scores")]
    Ragged {
        /// How many there are.
        scores: usize,
        /// How many a row has.
        columns: usize,
    },
    /// What goes with the scores is more or less than they are.
    #[error("batch: wanted {wanted} {what}, one a score, found {found}")]
    Length {
        /// What was counted.
        what: &'static str,
        /// How many scores there are.
        wanted: usize,
        /// How many were given.
        found: usize,
    },
    /// A number is none, or too large.
    #[error(
        "batch, row {row}, column {column}: wanted a {what} from -{SCORE_MAX:e} to {SCORE_MAX:e}, found {found}"
    )]
    Number {
        /// What it should be.
        what: &'static str,
        /// Its row, from 0.
        row: usize,
        /// Its column, from 0.
        column: usize,
        /// The number.
        found: f64,
    },
    /// No candidate of the batch is an answer.
    #[error("{loss}: wanted a positive in the batch, found none")]
    NoPositive {
        /// The loss's name.
        loss: &'static str,
    },
    /// No candidate of the batch is known to be none.
    #[error("{loss}: wanted a negative in the batch, found none")]
    NoNegative {
        /// The loss's name.
        loss: &'static str,
    },
    /// There are positives and negatives, but nothing that the loss compares.
    #[error("{loss}: wanted {wanted}, found none")]
    NothingToCompare {
        /// The loss's name.
        loss: &'static str,
        /// What the loss compares.
        wanted: &'static str,
    },
    /// The loss learns from a teacher, and the batch has no scores of one.
    #[error("{loss}: wanted a batch with a teacher's scores, found one without")]
    NoTeacher {
        /// The loss's name.
        loss: &'static str,
    },
    /// The loss goes over columns, whose candidates differ from row to row.
    #[error("{loss}: wanted a batch whose rows share their candidates, found one whose rows have their own")]
    NotShared {
        /// The loss's name.
        loss: &'static str,
    },
    /// A parameter has a value that it cannot have.
    #[error("{loss}: wanted {parameter} to be {wanted}, found {found}")]
    Parameter {
        /// The loss's name.
        loss: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// The parameters give the negatives of a row no weights.
    #[error(
        "{loss}: wanted beta above alpha / {negatives}, as a row has {negatives} negatives, found alpha {alpha} and \
         beta {beta}"
    )]
    NoWeights {
        /// The loss's name.
        loss: &'static str,
        /// How many negatives the row has.
        negatives: usize,
        /// The parameter alpha.
        alpha: f64,
        /// The parameter beta.
        beta: f64,
    },
    /// A mixture has no part, or has a mixture as one.
    #[error("{loss}: wanted one or more losses that are no mixtures themselves, found {found}")]
    Mixture {
        /// The mixture's name.
        loss: &'static str,
        /// What it has.
        found: &'static str,
    },
}

/// The parameters of the loss of this name, as its check sees them.
#[derive(Clone, Copy)]
pub(crate) struct Checks(pub(crate) &'static str);

impl Checks {
    /// A temperature, a scale or another factor.
    pub(crate) fn factor(self, parameter: &'static str, value: f64) -> Result<(), LossError> {
        let fits = (1e-6..=1e6).contains(&value);
        self.check(parameter, value, fits, "a number from 0.000001 to 1000000")
    }

    /// How far scores are to be apart, or a weight.
    pub(crate) fn amount(self, parameter: &'static str, value: f64) -> Result<(), LossError> {
        let fits = (0.0..=1e6).contains(&value);
        self.check(parameter, value, fits, "a number from 0 to 1000000")
    }

    /// A probability that is neither sure nor impossible.
    pub(crate) fn probability(self, parameter: &'static str, value: f64) -> Result<(), LossError> {
        let fits = (1e-6..=1.0 - 1e-6).contains(&value);
        self.check(parameter, value, fits, "a number from 0.000001 to 0.999999")
    }

    /// How many.
    pub(crate) fn count(self, parameter: &'static str, value: usize) -> Result<(), LossError> {
        self.check(parameter, value, value > 0, "1 or more")
    }

    fn check(
        self,
        parameter: &'static str,
        value: impl ToString,
        fits: bool,
        wanted: &'static str,
    ) -> Result<(), LossError> {
        match fits {
            true => Ok(()),
            false => Err(LossError::Parameter { loss: self.0, parameter, wanted, found: value.to_string() }),
        }
    }
}
