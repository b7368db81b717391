//! What a search is held to: the points it may answer with, and the time it has.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::Snapshot;
use crate::row_set::RowSet;

/// The time a search has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// So long after `start`.
    pub fn after(start: Instant, limit: Duration) -> Deadline {
        Deadline { start, limit }
    }

    fn is_over(self) -> bool {
        self.start.elapsed() >= self.limit
    }
}

/// A search had not ended when its time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the search was stopped as it had not ended after the {limit:?} it was given")]
pub struct TimeUp {
    /// The time it had.
    pub limit: Duration,
}

/// The points of a snapshot that a search may answer with, and the time it has. A clone shares the points.
#[derive(Debug, Clone)]
pub struct Scope {
    // INVARIANT: rows that are live in the snapshot.
    rows: RowSet,
    deadline: Option<Deadline>,
}

impl Snapshot {
    /// All points, for as long as it takes.
    pub fn scope(&self) -> Scope {
        Scope { rows: self.live.clone(), deadline: None }
    }
}

impl Scope {
    /// Those of its points that are in `rows`.
    #[must_use]
    pub fn only(&self, rows: impl IntoIterator<Item = u32>) -> Scope {
        let rows = rows.into_iter().filter(|&row| self.contains(row)).collect();
        Scope { rows, deadline: self.deadline }
    }

    /// Those of its points that are not in `rows`.
    #[must_use]
    pub fn without(mut self, rows: impl IntoIterator<Item = u32>) -> Scope {
        rows.into_iter().for_each(|row| _ = self.rows.remove(row));
        self
    }

    /// Those of its points that are in a set of rows.
    #[must_use]
    pub fn keeping(mut self, rows: &RowSet) -> Scope {
        self.rows.keep(rows);
        self
    }

    /// The same points until a deadline, or without one.
    #[must_use]
    pub fn until(self, deadline: Option<Deadline>) -> Scope {
        Scope { deadline, ..self }
    }

    /// How many points it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no point.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the row's point is in it.
    pub fn contains(&self, row: u32) -> bool {
        self.rows.contains(row)
    }

    /// Whether it has no point with one of these rows.
    pub(crate) fn has_none(&self, rows: Range<u32>) -> bool {
        self.rows.has_none(rows)
    }

    /// The rows of its points as a set.
    pub fn row_set(&self) -> &RowSet {
        &self.rows
    }

    /// The rows of its points, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(Deadline::is_over)
    }

    /// What was found, if it was found in time.
    ///
    /// # Errors
    /// [`TimeUp`] if the time is up. A search that stops early stops because it is, so what passes is whole.
    pub fn in_time<T>(&self, found: T) -> Result<T, TimeUp> {
        match self.deadline.filter(|deadline| deadline.is_over()) {
            Some(Deadline { limit, .. }) => Err(TimeUp { limit }),
            None => Ok(found),
        }
    }
}
