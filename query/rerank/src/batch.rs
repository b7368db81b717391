//! Scores of queries against candidates, with what is known of them: what a loss is computed from.

use crate::LossError;

/// The largest absolute score, similarity or teacher's score that is taken. It is far beyond what 32 bits hold, and
/// no loss overflows within it, at whatever parameters its check lets through.
pub const SCORE_MAX: f64 = 1e60;

/// What a candidate is to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// An answer.
    Positive,
    /// None.
    Negative,
    /// Not known, or padding: it counts nowhere, and its gradient is 0.
    Ignored,
}

/// Scores of queries (rows) against candidates (columns), row by row. Larger scores are better.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    scores: &'a [f64],
    columns: usize,
    labels: &'a [Label],
    teacher: Option<&'a [f64]>,
    similarities: Option<&'a [f64]>,
    shared: bool,
}

impl<'a> Batch<'a> {
    /// A batch of rows of `columns` scores, and what each candidate is. A row's candidates are its own, until
    /// [`Batch::sharing`] says otherwise.
    ///
    /// # Errors
    ///
    /// If there is no score, the last row is short, there are more or fewer labels than scores, or a score is not a
    /// number within [`SCORE_MAX`]. The score of an ignored candidate must be a number too.
    pub fn new(scores: &'a [f64], columns: usize, labels: &'a [Label]) -> Result<Batch<'a>, LossError> {
        if scores.is_empty() || columns == 0 || !scores.len().is_multiple_of(columns) {
            return Err(LossError::Ragged { scores: scores.len(), columns });
        }
        let batch = Batch { scores, columns, labels, teacher: None, similarities: None, shared: false };
        batch.check_length("labels", labels.len())?;
        batch.check_numbers("score", scores, None)?;
        Ok(batch)
    }

    /// The same batch with the scores that a teacher gives the same cells; minus infinity where it gives none.
    ///
    /// # Errors
    ///
    /// If there are more or fewer than scores, or one is neither minus infinity nor a number within [`SCORE_MAX`].
    pub fn with_teacher(self, teacher: &'a [f64]) -> Result<Batch<'a>, LossError> {
        self.check_length("scores of the teacher", teacher.len())?;
        self.check_numbers("score of the teacher", teacher, Some(f64::NEG_INFINITY))?;
        Ok(Batch { teacher: Some(teacher), ..self })
    }

    /// The same batch with the cosine similarities of each row's candidates to the row's positive, which tell false
    /// negatives: Soft-InfoNCE weighs by them.
    ///
    /// # Errors
    ///
    /// If there are more or fewer than scores, or one is not a number within [`SCORE_MAX`].
    pub fn with_similarities(self, similarities: &'a [f64]) -> Result<Batch<'a>, LossError> {
        self.check_length("similarities", similarities.len())?;
        self.check_numbers("similarity", similarities, None)?;
        Ok(Batch { similarities: Some(similarities), ..self })
    }

    /// The same batch, told whether a column is the same candidate in every row, as it is where the answers of some
    /// queries are candidates of the others. Losses over columns need it.
    pub fn sharing(self, shared: bool) -> Batch<'a> {
        Batch { shared, ..self }
    }

    /// All scores, row by row.
    pub fn scores(&self) -> &'a [f64] {
        self.scores
    }

    /// How many candidates a row has, the ignored ones among them.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many queries there are.
    pub fn rows(&self) -> usize {
        self.scores.len() / self.columns
    }

    /// What each candidate is, row by row.
    pub fn labels(&self) -> &'a [Label] {
        self.labels
    }

    /// The teacher's scores, row by row.
    pub fn teacher(&self) -> Option<&'a [f64]> {
        self.teacher
    }

    /// The similarities of candidates to their row's positive, row by row.
    pub fn similarities(&self) -> Option<&'a [f64]> {
        self.similarities
    }

    /// Whether a column is the same candidate in every row.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The places in [`Batch::scores`] of what is labelled so.
    pub(crate) fn places(&self, label: Label) -> impl Iterator<Item = usize> + use<'a> {
        self.labels.iter().enumerate().filter(move |&(_, &found)| found == label).map(|(place, _)| place)
    }

    fn check_length(&self, what: &'static str, found: usize) -> Result<(), LossError> {
        let wanted = self.scores.len();
        if found == wanted { Ok(()) } else { Err(LossError::Length { what, wanted, found }) }
    }

    fn check_numbers(
        &self,
        what: &'static str,
        numbers: &[f64],
        besides: Option<f64>,
    ) -> Result<(), LossError> {
        let fits = |&number: &f64| number.abs() <= SCORE_MAX || Some(number) == besides;
        match numbers.iter().position(|number| !fits(number)) {
            None => Ok(()),
            Some(place) => Err(LossError::Number {
                what,
                row: place / self.columns,
                column: place % self.columns,
                found: numbers[place],
            }),
        }
    }
}
