//! Points in an order that no query gives.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use dehub_index::{Point, Scope, Snapshot};
use dehub_vector::PointId;
use serde_json::{Number, Value};

use super::{Found, PayloadPath};
use crate::QueryError;

/// Points read from the store at a time.
const READ_AT_ONCE: usize = 4096;

/// The score of a point that has been listed.
const LISTED: f32 = 1.0;

/// By which values of the payload points are listed. A point without any is left out; one with several is there
/// once for each.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderBy {
    /// Where the values are: numbers, or dates as text.
    pub key: PayloadPath,
    /// In which direction.
    pub direction: Direction,
    /// Values before this one are left out.
    pub start_from: Option<OrderValue>,
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The least first.
    #[default]
    Ascending,
    /// The greatest first.
    Descending,
}

/// What a point is listed by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OrderValue {
    /// A whole number; for a date, the microseconds since 1970.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

impl OrderValue {
    /// The value to list by that a payload's value is; `None` for what is neither number nor date.
    pub fn of(value: &Value) -> Option<OrderValue> {
        match value {
            Value::Number(number) => OrderValue::of_number(number),
            Value::String(text) => microseconds(text).map(OrderValue::Whole),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn of_number(number: &Number) -> Option<OrderValue> {
        let whole = number.as_i64().map(OrderValue::Whole);
        whole.or_else(|| number.as_f64().map(OrderValue::Real))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a whole number is compared with a real one as a real one"
    )]
    fn compare(self, other: OrderValue) -> Ordering {
        let real = |value| match value {
            OrderValue::Whole(whole) => whole as f64,
            OrderValue::Real(real) => real,
        };
        match (self, other) {
            (OrderValue::Whole(left), OrderValue::Whole(right)) => left.cmp(&right),
            (left, right) => real(left).total_cmp(&real(right)),
        }
    }
}

/// A date as RFC 3339 has it, or a part of one, which is UTC.
fn microseconds(text: &str) -> Option<i64> {
    const FORMATS: [&str; 4] =
        ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
    if let Ok(date) = DateTime::parse_from_rfc3339(text) {
        return Some(date.timestamp_micros());
    }
    let naive = FORMATS.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    naive.or_else(day).map(|date| date.and_utc().timestamp_micros())
}

/// Reads every point of a scope, a part of them at a time.
fn each_point(
    snapshot: &Snapshot,
    scope: &Scope,
    mut show: impl FnMut(u32, Point),
) -> Result<(), QueryError> {
    let rows: Vec<u32> = scope.rows().collect();
    for rows in rows.chunks(READ_AT_ONCE) {
        scope.in_time(())?;
        for (point, &row) in snapshot.points(rows)?.into_iter().zip(rows) {
            show(row, point);
        }
    }
    Ok(())
}

/// The `limit` points of a scope with the least ids: numbers before strings.
pub(crate) fn by_id(snapshot: &Snapshot, scope: &Scope, limit: usize) -> Result<Vec<Found>, QueryError> {
    let mut least: BinaryHeap<(PointId, u32)> = BinaryHeap::new();
    each_point(snapshot, scope, |row, point| {
        if least.len() < limit || least.peek().is_some_and(|last| point.id < last.0) {
            least.push((point.id, row));
        }
        if least.len() > limit {
            least.pop();
        }
    })?;
    Ok(least.into_sorted_vec().into_iter().map(|(_, row)| Found::scored(row, LISTED)).collect())
}

/// The first `limit` values of a scope's points; equal ones in the order of rows.
pub(crate) fn by_value(
    snapshot: &Snapshot,
    scope: &Scope,
    order: &OrderBy,
    limit: usize,
) -> Result<Vec<Found>, QueryError> {
    let compare = |left: OrderValue, right: OrderValue| match order.direction {
        Direction::Ascending => left.compare(right),
        Direction::Descending => right.compare(left),
    };
    let mut all: Vec<(OrderValue, u32)> = Vec::new();
    each_point(snapshot, scope, |row, point| {
        let first = all.len();
        for value in order.key.of(&point).iter().filter_map(OrderValue::of) {
            let is_before = order.start_from.is_some_and(|start| compare(value, start) == Ordering::Less);
            let is_known = all[first..].iter().any(|(known, _)| known.compare(value) == Ordering::Equal);
            if !is_before && !is_known {
                all.push((value, row));
            }
        }
    })?;
    all.sort_by(|left, right| compare(left.0, right.0));
    all.truncate(limit);
    let found = |(value, row)| Found { order_value: Some(value), ..Found::scored(row, LISTED) };
    Ok(all.into_iter().map(found).collect())
}

/// `limit` points of a scope that a seed picks, in an order of its own.
pub(crate) fn at_random(scope: &Scope, seed: u64, limit: usize) -> Vec<Found> {
    let rows = sample(scope.rows().collect(), seed, limit);
    rows.into_iter().map(|row| Found::scored(row, LISTED)).collect()
}

/// The first of a shuffle (Fisher and Yates) by SplitMix64.
pub(crate) fn sample(mut rows: Vec<u32>, seed: u64, limit: usize) -> Vec<u32> {
    let limit = limit.min(rows.len());
    let mut state = seed;
    for place in 0..limit {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let left = (rows.len() - place) as u64;
        // The high half of the product is uniform below `left` but for a part in 2^64 / left.
        let drawn = (u128::from(mixed ^ (mixed >> 31)) * u128::from(left)) >> 64;
        rows.swap(place, place + usize::try_from(drawn).unwrap_or_default());
    }
    rows.truncate(limit);
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_dates_have_an_order_and_nothing_else_has() {
        let of = |value: Value| OrderValue::of(&value);
        assert_eq!(of(json!(7)), Some(OrderValue::Whole(7)));
        assert_eq!(of(json!(-1.5)), Some(OrderValue::Real(-1.5)));
        assert_eq!(of(json!("1970-01-01")), Some(OrderValue::Whole(0)));
        assert_eq!(of(json!("1970-01-01T01:00:00.5+01:00")), Some(OrderValue::Whole(500_000)));
        assert_eq!(of(json!("1970-01-02 00:00:01")), Some(OrderValue::Whole(86_401_000_000)));
        for other in [json!(true), json!("soon"), json!(null), json!([1]), json!({})] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
        assert_eq!(OrderValue::Whole(2).compare(OrderValue::Real(2.5)), Ordering::Less);
    }

    #[test]
    fn a_sample_has_every_row_equally_often_and_none_twice() {
        let mut counts = [0_u32; 10];
        for seed in 0..4000 {
            let mut drawn = sample((0..10).collect(), seed, 3);
            drawn.iter().for_each(|&row| counts[row as usize] += 1);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 3);
        }
        // The mean is 1200 and the deviation 29.
        assert!(counts.iter().all(|count| count.abs_diff(1200) < 150), "{counts:?}");
        assert_eq!(sample(vec![4, 5], 1, 9).len(), 2);
        assert!(sample(Vec::new(), 1, 9).is_empty());
    }
}
