//! What losses are computed from: scores of queries against candidates, and what each candidate is to its query.

/// What a candidate is to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// An answer.
    Positive,
    /// No answer.
    Negative,
    /// It is not known, and counts nowhere.
    Ignored,
}

/// Scores of queries, a row each, against candidates.
#[derive(Debug, Clone)]
pub struct Batch {
    scores: Vec<f64>,
    columns: usize,
    labels: Vec<Label>,
    shared: bool,
    teacher: Option<Vec<f64>>,
    likeness: Option<Vec<f64>>,
}

/// Why numbers are no batch, or a batch has no loss.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossError {
    /// Lists that are not of one length, or no whole rows.
    #[error("{what} has {found} entries, wanted {wanted}")]
    Shape {
        /// Which list.
        what: &'static str,
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// A score that is no finite number.
    #[error("row {row}, column {column}: the {what} is {found}, wanted a finite number")]
    NotFinite {
        /// Of which list.
        what: &'static str,
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
        /// The number.
        found: f64,
    },
    /// No pair to learn from.
    #[error("{loss}: the batch has no row with a positive and a negative candidate")]
    NoPairs {
        /// The loss.
        loss: &'static str,
    },
    /// Something the loss needs and the batch has not.
    #[error("{loss} needs {what}")]
    Missing {
        /// The loss.
        loss: &'static str,
        /// What.
        what: &'static str,
    },
    /// Parameters that have no meaning for this batch.
    #[error("{loss}: {reason}")]
    Unsuited {
        /// The loss.
        loss: &'static str,
        /// Why.
        reason: String,
    },
}

/// The candidates of a row that count.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Cells of positives.
    pub(crate) positives: Vec<usize>,
    /// Cells of negatives.
    pub(crate) negatives: Vec<usize>,
}

impl Batch {
    /// A batch of whole rows of `columns` scores. With `shared`, a column is one candidate in all rows, as in-batch
    /// negatives are, so that losses over columns have a meaning.
    pub fn new(
        scores: Vec<f64>,
        columns: usize,
        labels: Vec<Label>,
        shared: bool,
    ) -> Result<Batch, LossError> {
        let shape = |what, found, wanted| {
            if found == wanted { Ok(()) } else { Err(LossError::Shape { what, found, wanted }) }
        };
        let rows = scores.len().checked_div(columns).unwrap_or_default();
        shape("the list of scores", scores.len(), rows * columns)?;
        shape("the list of labels", labels.len(), scores.len())?;
        let batch = Batch { scores, columns, labels, shared, teacher: None, likeness: None };
        batch.check_finite("score", &batch.scores, |_| false)?;
        Ok(batch)
    }

    /// The same with the scores that a teacher gives; −∞ where it says nothing.
    pub fn with_teacher(self, teacher: Vec<f64>) -> Result<Batch, LossError> {
        self.check_len("the list of teacher scores", &teacher)?;
        self.check_finite("teacher score", &teacher, |score| score == f64::NEG_INFINITY)?;
        Ok(Batch { teacher: Some(teacher), ..self })
    }

    /// The same with how alike each candidate is to the positives of its row, for weights of negatives.
    pub fn with_likeness(self, likeness: Vec<f64>) -> Result<Batch, LossError> {
        self.check_len("the list of likenesses", &likeness)?;
        self.check_finite("likeness", &likeness, |_| false)?;
        Ok(Batch { likeness: Some(likeness), ..self })
    }

    /// The same with the teacher's scores and the likenesses of another batch of this shape; `None` if it has another.
    pub fn like(self, other: &Batch) -> Option<Batch> {
        let is_alike = self.scores.len() == other.scores.len() && self.columns == other.columns;
        is_alike.then(|| Batch { teacher: other.teacher.clone(), likeness: other.likeness.clone(), ..self })
    }

    fn check_len(&self, what: &'static str, list: &[f64]) -> Result<(), LossError> {
        let (found, wanted) = (list.len(), self.scores.len());
        if found == wanted { Ok(()) } else { Err(LossError::Shape { what, found, wanted }) }
    }

    fn check_finite(
        &self,
        what: &'static str,
        list: &[f64],
        is_allowed: impl Fn(f64) -> bool,
    ) -> Result<(), LossError> {
        let bad = list.iter().position(|&number| !number.is_finite() && !is_allowed(number));
        bad.map_or(Ok(()), |place| {
            let (row, column) = (place / self.columns, place % self.columns);
            Err(LossError::NotFinite { what, row, column, found: list[place] })
        })
    }

    /// All scores, row by row.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// What each candidate is.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Candidates of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether a column is one candidate.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    pub(crate) fn teacher(&self) -> Option<&[f64]> {
        self.teacher.as_deref()
    }

    pub(crate) fn likeness(&self) -> Option<&[f64]> {
        self.likeness.as_deref()
    }

    /// Every row.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |(row, labels): (usize, &[Label])| {
            let start = row * self.columns;
            let cells = |wanted| {
                let is_it = |&(_, &label): &(usize, &Label)| label == wanted;
                (start..).zip(labels).filter(is_it).map(|(cell, _)| cell).collect()
            };
            Row { positives: cells(Label::Positive), negatives: cells(Label::Negative) }
        };
        self.labels.chunks(self.columns.max(1)).enumerate().map(row).collect()
    }

    /// The rows with a positive and a negative, of which there is at least one.
    pub(crate) fn paired(&self, loss: &'static str) -> Result<Vec<Row>, LossError> {
        let mut rows = self.rows();
        rows.retain(|row| !row.positives.is_empty() && !row.negatives.is_empty());
        if rows.is_empty() { Err(LossError::NoPairs { loss }) } else { Ok(rows) }
    }

    /// Columns for rows, with the cell of each in this batch.
    pub(crate) fn transposed(&self) -> (Batch, Vec<usize>) {
        let rows = self.scores.len() / self.columns.max(1);
        let cells: Vec<usize> = (0..self.columns)
            .flat_map(|column| (0..rows).map(move |row| row * self.columns + column))
            .collect();
        let scores = cells.iter().map(|&cell| self.scores[cell]).collect();
        let labels = cells.iter().map(|&cell| self.labels[cell]).collect();
        let batch = Batch { scores, columns: rows, labels, shared: true, teacher: None, likeness: None };
        (batch, cells)
    }
}
