//! Which rankings are shown where there is no room for all.

use super::look::Look;
use crate::commands::eval::is_rank;
use crate::commands::eval::schema::{Direction, HubnessAt, Row};

/// How many rankings are shown beside raw.
const BESIDE_RAW: usize = 3;

/// Of how many answers hubness is shown.
const DEPTH: usize = 10;

/// A ranking and how it looks in every plot of its direction.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) row: &'a Row,
    pub(super) look: Look,
}

impl<'a> Shown<'a> {
    /// Hubness at [`DEPTH`], or as near to it as there is.
    pub(super) fn hubness(&self) -> Option<&'a HubnessAt> {
        self.row.hubness.iter().min_by_key(|at| at.k.abs_diff(DEPTH))
    }
}

/// The measure that rankings are compared by: the first that was asked for.
pub(super) fn main_measure(direction: &Direction) -> Option<&str> {
    direction.rows.first()?.intervals.0.first().map(|(name, _)| name.as_str())
}

/// All rankings, the best first; of equals in their order.
pub(super) fn ordered<'a>(direction: &'a Direction, measure: &str) -> Vec<&'a Row> {
    let sign = if is_rank(measure) { 1.0 } else { -1.0 };
    let worth = |row: &Row| row.measures.get(measure).map_or(f64::INFINITY, |value| sign * value);
    let mut rows: Vec<&Row> = direction.rows.iter().collect();
    rows.sort_by(|one, other| worth(one).total_cmp(&worth(other)));
    rows
}

/// Raw, and after it the best of the others.
pub(super) fn shown(direction: &Direction) -> Vec<Shown<'_>> {
    let Some((raw, others)) = direction.rows.split_first() else { return Vec::new() };
    let others: Vec<&Row> = match main_measure(direction) {
        Some(measure) => {
            ordered(direction, measure).into_iter().filter(|row| !std::ptr::eq(*row, raw)).collect()
        }
        None => others.iter().collect(),
    };
    let others = others.into_iter().take(BESIDE_RAW).zip(1..);
    let others = others.map(|(row, place)| Shown { row, look: Look::of(place) });
    std::iter::once(Shown { row: raw, look: Look::raw() }).chain(others).collect()
}
