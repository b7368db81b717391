//! Groups: the best points for each value of the payload.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_index::{PayloadPath, Scope, Snapshot};
use serde_json::Value;

use super::execute::{Answered, Fault, RequestError};
use super::{Found, Request};
use crate::QueryError;
use crate::query::Settings;

/// Points read from the store at a time.
const READ_AT_ONCE: usize = 1024;

/// How many times as many points are asked for first as are wanted, and then each time they were too few.
const WIDER: usize = 4;

/// How points are grouped.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// Where the values are that points are grouped by: whole numbers and texts. A point with several is in the
    /// group of each; one with a value of another type is in none.
    pub key: PayloadPath,
    /// How many groups.
    pub groups: usize,
    /// How many points of each.
    pub size: usize,
}

/// A value that points are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupKey {
    /// A whole number.
    Number(i128),
    /// A text.
    Text(String),
}

/// The points with one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The value.
    pub key: GroupKey,
    /// The best of its points, best first.
    pub hits: Vec<Found>,
}

/// The first groups of the ranking of all points that a request makes, in the order of their best points, and how
/// they were found. The request's limit and those of its prefetches do not count, as a group may be far down.
///
/// # Errors
/// As for [`super::answer`].
pub fn group(
    base: &Arc<Snapshot>,
    scope: &Scope,
    request: &Request,
    grouping: &Grouping,
) -> Result<(Vec<Group>, Answered), RequestError> {
    request.check(base).and_then(|()| widen(base, scope, request, grouping)).map_err(|fault| fault.of(0))
}

fn widen(
    base: &Arc<Snapshot>,
    scope: &Scope,
    request: &Request,
    grouping: &Grouping,
) -> Result<(Vec<Group>, Answered), Fault> {
    let most = base.len();
    // What is fused depends on all of the lists, so these are whole.
    let is_whole = !request.prefetch.is_empty();
    let first = grouping.groups.saturating_mul(grouping.size).saturating_mul(WIDER);
    let mut limit = if is_whole { most } else { first.min(most) };
    loop {
        let answered = request.limited(limit).answer(base, scope)?;
        let groups = grouping.of(base, scope, &answered.hits)?;
        if limit == most || answered.hits.len() < limit || grouping.is_full(&groups) {
            return Ok((groups, answered));
        }
        limit = limit.saturating_mul(WIDER).min(most);
    }
}

impl Request {
    /// The same with another limit, in prefetches too.
    fn limited(&self, limit: usize) -> Request {
        Request {
            prefetch: self.prefetch.iter().map(|prefetch| prefetch.limited(limit)).collect(),
            settings: Settings { limit: Some(limit), ..self.settings.clone() },
            ..self.clone()
        }
    }
}

impl Grouping {
    /// Whether points after those that were looked at could change nothing.
    fn is_full(&self, groups: &[Group]) -> bool {
        groups.len() >= self.groups && groups.iter().all(|group| group.hits.len() >= self.size)
    }

    /// The groups of a ranking.
    fn of(&self, base: &Snapshot, scope: &Scope, hits: &[Found]) -> Result<Vec<Group>, QueryError> {
        let mut groups: Vec<Group> = Vec::new();
        let mut place_of: HashMap<GroupKey, usize> = HashMap::new();
        for hits in hits.chunks(READ_AT_ONCE) {
            if self.is_full(&groups) {
                break;
            }
            scope.in_time(())?;
            let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
            for ((_, payload), hit) in base.payloads(&rows)?.iter().zip(hits) {
                for key in keys(&self.key, payload) {
                    let place = *place_of.entry(key.clone()).or_insert(groups.len());
                    if place == groups.len() && place < self.groups {
                        groups.push(Group { key, hits: Vec::new() });
                    }
                    if let Some(group) = groups.get_mut(place).filter(|group| group.hits.len() < self.size) {
                        group.hits.push(*hit);
                    }
                }
            }
        }
        Ok(groups)
    }
}

/// The values to group by, each once; none if one of them is of another type.
fn keys(path: &PayloadPath, payload: &Value) -> Vec<GroupKey> {
    let mut values = Vec::new();
    path.each(payload, |value| values.push(value));
    let mut keys = Vec::new();
    for value in values {
        match GroupKey::of(value) {
            None => return Vec::new(),
            Some(key) if keys.contains(&key) => {}
            Some(key) => keys.push(key),
        }
    }
    keys
}

impl GroupKey {
    fn of(value: &Value) -> Option<GroupKey> {
        match value {
            Value::Number(number) => {
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                whole.map(GroupKey::Number)
            }
            Value::String(text) => Some(GroupKey::Text(text.clone())),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
