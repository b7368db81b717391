//! The rows and columns of a batch, and the mean of a loss over them.

use crate::{Batch, Evaluation, Label, LossError};

/// What is compared with each other: the candidates of a query, or the queries of a candidate. Places are those of
/// [`Batch::scores`], ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line {
    pub(crate) positives: Vec<usize>,
    pub(crate) negatives: Vec<usize>,
}

impl Line {
    fn new(labels: &[Label], places: impl Iterator<Item = usize>) -> Line {
        let mut line = Line::default();
        for place in places {
            match labels[place] {
                Label::Positive => line.positives.push(place),
                Label::Negative => line.negatives.push(place),
                Label::Ignored => {}
            }
        }
        line
    }

    /// Whether it has both kinds.
    pub(crate) fn is_comparable(&self) -> bool {
        !self.positives.is_empty() && !self.negatives.is_empty()
    }

    /// The places of both kinds, positives first.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.positives.iter().chain(&self.negatives).copied()
    }
}

/// The rows of a batch, in order.
pub(crate) fn rows<'a>(batch: &Batch<'a>) -> impl Iterator<Item = Line> + use<'a> {
    let (labels, columns) = (batch.labels(), batch.columns());
    (0..batch.rows()).map(move |row| Line::new(labels, row * columns..(row + 1) * columns))
}

/// The columns of a batch, in order.
pub(crate) fn columns<'a>(batch: &Batch<'a>) -> impl Iterator<Item = Line> + use<'a> {
    let (labels, columns) = (batch.labels(), batch.columns());
    (0..columns).map(move |column| Line::new(labels, (column..labels.len()).step_by(columns)))
}

/// Refuses a batch without a positive or without a negative.
pub(crate) fn check_both_kinds(loss: &'static str, batch: &Batch<'_>) -> Result<(), LossError> {
    if batch.places(Label::Positive).next().is_none() {
        return Err(LossError::NoPositive { loss });
    }
    if batch.places(Label::Negative).next().is_none() {
        return Err(LossError::NoNegative { loss });
    }
    Ok(())
}

/// What a mean is over.
pub(crate) struct Mean {
    pub(crate) loss: &'static str,
    /// What a line has that counts, for the error if none does.
    pub(crate) wanted: &'static str,
}

impl Mean {
    /// The mean of a loss over the lines that count: those of which it has a value. `of_line` adds the gradient of its
    /// value to what it is given.
    pub(crate) fn over(
        &self,
        batch: &Batch<'_>,
        lines: impl Iterator<Item = Line>,
        mut of_line: impl FnMut(&Line, &mut [f64]) -> Result<Option<f64>, LossError>,
    ) -> Result<Evaluation, LossError> {
        check_both_kinds(self.loss, batch)?;
        let mut gradient = vec![0.0; batch.scores().len()];
        let (mut sum, mut count) = (0.0, 0.0);
        for line in lines {
            if let Some(value) = of_line(&line, &mut gradient)? {
                sum += value;
                count += 1.0;
            }
        }
        if count == 0.0 {
            return Err(LossError::NothingToCompare { loss: self.loss, wanted: self.wanted });
        }
        for slope in &mut gradient {
            *slope /= count;
        }
        Ok(Evaluation { value: sum / count, gradient })
    }

    /// The same over rows that have both kinds: the others hold nothing to be compared and are passed over.
    pub(crate) fn over_rows(
        &self,
        batch: &Batch<'_>,
        mut of_row: impl FnMut(&Line, &mut [f64]) -> f64,
    ) -> Result<Evaluation, LossError> {
        self.over(batch, rows(batch), |row, gradient| Ok(row.is_comparable().then(|| of_row(row, gradient))))
    }
}

/// What a row needs for most losses.
pub(crate) const BOTH_KINDS: &str = "a row with a positive and a negative";
