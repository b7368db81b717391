//! Priors: named columns of one number a point that whoever owns the points gives, such as popularity or freshness.

use crate::correction::Column;
use crate::record::{DamagedRecord, META, damaged, read_vector};
use crate::row_set::RowSet;

/// The most priors of a collection: each takes four bytes a point in memory.
pub const PRIORS_MAX: usize = 16;

/// The largest value of a prior, and the least is its negative: times any weight it is a finite 32-bit number.
pub const PRIOR_ABS_MAX: f32 = 1e15;

/// One number a point: 0 where none is given.
#[derive(Debug, Clone)]
pub struct Prior {
    column: Column,
    /// The rows of points that have a value.
    given: RowSet,
}

/// A prior in numbers, over the points that have a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorInfo {
    /// How many these are.
    pub points: usize,
    /// The least value.
    pub min: f32,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f32,
}

impl Prior {
    /// One without values, for so many rows.
    pub(crate) fn new(rows: u32) -> Prior {
        Prior { column: Column::plain(rows as usize), given: RowSet::default() }
    }

    /// The value of every point, ready to rank by: see [`Variant::boosted`](crate::Variant::boosted). It is served as
    /// it is, and not less its mean as the columns of corrections are, so that a point without a value has 0.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// How many points have a value.
    pub fn given(&self) -> usize {
        self.given.len()
    }

    /// The value of a row; `None` if none was given.
    pub fn value(&self, row: u32) -> Option<f32> {
        self.given.contains(row).then(|| self.column.at(row))
    }

    /// It in numbers; `None` if no point has a value.
    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    pub fn info(&self) -> Option<PriorInfo> {
        let values = || self.given.iter().map(|row| self.column.at(row));
        let sum: f64 = values().map(f64::from).sum();
        Some(PriorInfo {
            points: self.given(),
            min: values().min_by(f32::total_cmp)?,
            mean: sum / self.given() as f64,
            max: values().max_by(f32::total_cmp)?,
        })
    }

    /// Gives a row a value; says whether it had none.
    pub(crate) fn set(&mut self, row: u32, value: f32) -> bool {
        self.column.set_plain(row, value);
        self.given.insert(row)
    }

    /// Takes the value of a row; says whether there was one.
    pub(crate) fn remove(&mut self, row: u32) -> bool {
        let had = self.given.remove(row);
        if had {
            self.column.set_plain(row, 0.0);
        }
        had
    }

    /// Appends the row `row`, with the value of the row it replaces, if that has one.
    pub(crate) fn push(&mut self, row: u32, replaced: Option<u32>) {
        let value = replaced.and_then(|replaced| self.value(replaced));
        self.column.push_plain(value.unwrap_or(0.0));
        if value.is_some() {
            self.given.insert(row);
        }
    }

    /// Gives back the memory of a chunk whose points are all gone.
    pub(crate) fn clear_chunk(&mut self, chunk: usize) {
        self.column.clear_chunk(chunk);
    }
}

/// The bytes of a value.
pub(crate) fn prior_bytes(value: f32) -> [u8; 4] {
    value.to_le_bytes()
}

/// Reads a value.
pub(crate) fn read_prior(bytes: &[u8]) -> Result<f32, DamagedRecord> {
    let value = read_vector(META, bytes, 1)?[0];
    if value.abs() <= PRIOR_ABS_MAX {
        return Ok(value);
    }
    Err(damaged(META, format!("the value of a prior is {value}")))
}
