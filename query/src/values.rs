//! Values of one payload field of many points: counted, and points in their order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use dehub_index::{FieldKind, PayloadPath, ReadError, Scalar, Scope, Snapshot, moment};
use dehub_vector::PointId;

use crate::filter::Exact;
use crate::{Filter, QueryError};

/// Points that are looked at between two looks at the clock.
const BLOCK: usize = 256;

/// A value of a field, and how many points have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetCount {
    /// The value. A string that is a UUID is written as UUIDs are.
    pub value: Exact,
    /// Points that have it, at least once.
    pub count: usize,
}

/// What points can be ordered by: a number, or a moment in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub enum OrderValue {
    /// A whole number, or a moment.
    Integer(i64),
    /// Any other number.
    Float(f64),
}

/// Points in the order of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderBy {
    /// The field.
    pub key: PayloadPath,
    /// Whether the largest come first.
    pub descending: bool,
    /// Where to begin.
    pub start_from: Option<OrderValue>,
}

/// Points in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Their rows.
    pub rows: Vec<u32>,
    /// The id that the next page begins with; none if there is none.
    pub next: Option<PointId>,
}

/// The values of a field that most points of a scope have, at most `limit`; of those that equally many have the
/// smaller first, `false` before `true` before whole numbers before strings. Other values are not counted.
pub fn facets(
    snapshot: &Snapshot,
    scope: &Scope,
    key: &PayloadPath,
    limit: usize,
) -> Result<Vec<FacetCount>, QueryError> {
    let mut counts: BTreeMap<Exact, usize> = BTreeMap::new();
    let rows: Vec<u32> = scope.rows().collect();
    for block in rows.chunks(BLOCK) {
        scope.in_time(())?;
        let mut seen: BTreeSet<(u32, Exact)> = BTreeSet::new();
        each_value(snapshot, key, block, false, |row, value| {
            let value = match value {
                Scalar::Bool(flag) => Exact::Bool(flag),
                Scalar::Integer(number) => Exact::Integer(number),
                Scalar::Text(text) => Exact::Text(uuid(text).unwrap_or_else(|| text.into())),
                Scalar::Null | Scalar::Float(_) | Scalar::Moment(_) | Scalar::Geo(_) | Scalar::Other => {
                    return;
                }
            };
            seen.insert((row, value));
        })?;
        seen.into_iter().for_each(|(_, value)| *counts.entry(value).or_default() += 1);
    }
    let mut found: Vec<FacetCount> =
        counts.into_iter().map(|(value, count)| FacetCount { value, count }).collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.count));
    found.truncate(limit);
    Ok(scope.in_time(found)?)
}

/// The first `limit` of the points of a scope in the order of a field, with the value that puts each there; a point
/// comes once for each of its values, and points of one value in the order of their ids.
pub fn ordered(
    snapshot: &Snapshot,
    scope: &Scope,
    order: &OrderBy,
    limit: usize,
) -> Result<Vec<(u32, OrderValue)>, QueryError> {
    let mut found: Vec<(OrderValue, u32)> = Vec::new();
    let rows: Vec<u32> = scope.rows().collect();
    let begins = |value: OrderValue| {
        order.start_from.is_none_or(|start| match value.cmp(&start) {
            Ordering::Less => order.descending,
            Ordering::Equal => true,
            Ordering::Greater => !order.descending,
        })
    };
    for block in rows.chunks(BLOCK) {
        scope.in_time(())?;
        each_value(snapshot, &order.key, block, true, |row, value| {
            found.extend(OrderValue::of(value).filter(|&value| begins(value)).map(|value| (value, row)));
        })?;
    }
    let by_value = |a: &(OrderValue, u32), b: &(OrderValue, u32)| {
        if order.descending { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) }
    };
    found.sort_by(|a, b| by_value(a, b).then(a.1.cmp(&b.1)));
    found.dedup();
    // Ids are read only of the points that may be among the first.
    let end = match limit.checked_sub(1).and_then(|last| found.get(last)) {
        Some(last) => found.partition_point(|it| by_value(it, last) != Ordering::Greater),
        None => {
            if limit == 0 {
                0
            } else {
                found.len()
            }
        }
    };
    found.truncate(end);
    let rows: Vec<u32> = found.iter().map(|&(_, row)| row).collect();
    let ids = snapshot.points(&rows)?.into_iter().map(|point| point.id);
    let mut with_ids: Vec<((OrderValue, u32), PointId)> = found.into_iter().zip(ids).collect();
    with_ids.sort_by(|(a, id), (b, other)| by_value(a, b).then_with(|| id.cmp(other)));
    with_ids.truncate(limit);
    Ok(scope.in_time(with_ids.into_iter().map(|((value, row), _)| (row, value)).collect())?)
}

/// The first `limit` points that a filter allows in the order of ids, from `first` on.
pub fn page(
    snapshot: &Snapshot,
    scope: &Scope,
    filter: &Filter,
    first: Option<&PointId>,
    limit: usize,
) -> Result<Page, QueryError> {
    let matcher = filter.matcher(snapshot)?;
    let mut ids = snapshot.ids_from(first);
    let mut rows = Vec::new();
    loop {
        scope.in_time(())?;
        let block = ids.by_ref().take(BLOCK.max(limit.saturating_add(1).min(4 * BLOCK)));
        let block: Vec<(PointId, u32)> = block.collect::<Result<_, _>>()?;
        let (last, candidates) = (block.is_empty(), block.iter().map(|&(_, row)| row));
        let candidates: Vec<u32> = candidates.filter(|&row| scope.contains(row)).collect();
        for row in matcher.keep(&candidates)? {
            if rows.len() == limit {
                let next = block.into_iter().find(|&(_, own)| own == row).map(|(id, _)| id);
                return Ok(Page { rows, next });
            }
            rows.push(row);
        }
        if last {
            return Ok(Page { rows, next: None });
        }
    }
}

/// Shows the values of a field, by its index where that tells them. One of datetimes tells moments, and no strings.
fn each_value(
    snapshot: &Snapshot,
    key: &PayloadPath,
    rows: &[u32],
    takes_moments: bool,
    mut show: impl FnMut(u32, Scalar<'_>),
) -> Result<(), ReadError> {
    let column = snapshot.payload_column(key);
    let column = column.filter(|column| takes_moments || column.kind() != FieldKind::Datetime);
    let mut open = Vec::new();
    for &row in rows {
        match column.and_then(|column| column.values(row)) {
            Some(values) => values.iter().for_each(|value| show(row, value.scalar())),
            None => open.push(row),
        }
    }
    for (&row, (_, payload)) in open.iter().zip(&snapshot.payloads(&open)?) {
        key.each(payload, |value| show(row, Scalar::of(value)));
    }
    Ok(())
}

/// The usual form of a UUID that is written without hyphens, in braces, in upper case, or as an URN.
fn uuid(text: &str) -> Option<Box<str>> {
    let plain = text.replace("urn:", "").replace("uuid:", "");
    let digits: String = plain.trim_matches(['{', '}']).replace('-', "").to_lowercase();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_uuid.then(|| {
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        parts.join("-").into()
    })
}

impl OrderValue {
    /// What a value orders by: a number as it is, a string if it names a moment.
    pub fn of(value: Scalar<'_>) -> Option<OrderValue> {
        match value {
            Scalar::Integer(number) | Scalar::Moment(number) => Some(OrderValue::Integer(number)),
            Scalar::Float(number) => Some(OrderValue::Float(number)),
            Scalar::Text(text) => moment(text).map(OrderValue::Integer),
            Scalar::Null | Scalar::Bool(_) | Scalar::Geo(_) | Scalar::Other => None,
        }
    }
}

impl Ord for OrderValue {
    /// By the numbers they are, without rounding.
    fn cmp(&self, other: &OrderValue) -> Ordering {
        match (*self, *other) {
            (OrderValue::Integer(a), OrderValue::Integer(b)) => a.cmp(&b),
            (OrderValue::Float(a), OrderValue::Float(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (OrderValue::Integer(a), OrderValue::Float(b)) => against(a, b),
            (OrderValue::Float(a), OrderValue::Integer(b)) => against(b, a).reverse(),
        }
    }
}

/// A whole number against another one.
#[expect(clippy::cast_possible_truncation, reason = "numbers beyond 64 bits are told before")]
fn against(whole: i64, number: f64) -> Ordering {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if number >= BEYOND {
        Ordering::Less
    } else if number < -BEYOND {
        Ordering::Greater
    } else {
        let floor = number.floor();
        whole.cmp(&(floor as i64)).then(if number > floor { Ordering::Less } else { Ordering::Equal })
    }
}

impl PartialOrd for OrderValue {
    fn partial_cmp(&self, other: &OrderValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderValue {
    fn eq(&self, other: &OrderValue) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderValue {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_others_have_one_order() {
        use OrderValue::{Float, Integer};
        let sorted = [
            Float(f64::MIN),
            Integer(i64::MIN),
            Float(-1.5),
            Integer(-1),
            Integer(0),
            Float(0.5),
            Integer((1 << 53) - 1),
            Integer(1 << 53),
            Integer((1 << 53) + 1),
            Integer(i64::MAX),
            Float(9_223_372_036_854_775_808.0),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b));
        for (a, b) in [(Integer(2), Float(2.0)), (Float(-0.0), Integer(0)), (Float(0.0), Float(-0.0))] {
            assert_eq!(a, b);
        }
    }

    #[test]
    fn a_uuid_is_written_as_uuids_are() {
        let wanted = Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8".into());
        for text in ["6BA7B8109DAD11D180B400C04FD430C8", "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"] {
            assert_eq!(uuid(text), wanted);
        }
        assert_eq!(uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c"), None);
        assert_eq!(uuid("é"), None);
    }
}
