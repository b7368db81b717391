//! Changes of payloads.

use serde_json::{Map, Value};

use super::{PathStep, Payload, PayloadError, PayloadPath};
use crate::Receipt;
use dehub_vector::PointId;

/// What to do to the payload of a point. To do it twice is to do it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadChange {
    /// Sets these fields and leaves the others; one that is null is taken away.
    Set {
        /// The fields.
        fields: Payload,
        /// The object they are fields of, which is made if need be; without it, the payload itself.
        key: Option<PayloadPath>,
    },
    /// Puts this in the place of the payload.
    Overwrite(Payload),
    /// Takes away what these paths lead to. A `[]` at the end of one empties the array; an entry of an array by its
    /// number stays, as the others would get other numbers.
    Delete(Vec<PayloadPath>),
    /// Takes away everything.
    Clear,
}

/// What a change of payloads did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadChanged {
    /// `replaced` counts the points whose payload was changed, those in quarantine included.
    pub receipt: Receipt,
    /// The ids that no point has. The others were changed.
    pub missing: Vec<PointId>,
}

impl PayloadChange {
    /// What becomes of a payload; none if nothing is left.
    pub(crate) fn apply(&self, payload: Map<String, Value>) -> Result<Option<Payload>, PayloadError> {
        let next = match self {
            PayloadChange::Set { fields, key } => set(payload, fields, key.as_ref())?,
            PayloadChange::Overwrite(payload) => return Ok(Some(payload.clone())),
            PayloadChange::Delete(paths) => {
                let mut root = Value::Object(payload);
                paths.iter().for_each(|path| delete(&mut root, path.steps()));
                fields_of(root)
            }
            PayloadChange::Clear => Map::new(),
        };
        if next.is_empty() { Ok(None) } else { Payload::of(next).map(Some) }
    }
}

fn fields_of(root: Value) -> Map<String, Value> {
    match root {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn set(
    mut payload: Map<String, Value>,
    fields: &Payload,
    key: Option<&PayloadPath>,
) -> Result<Map<String, Value>, PayloadError> {
    let not_read = |error: crate::DamagedRecord| PayloadError::NotAnObject { reason: error.reason };
    let fields = fields.read().map_err(not_read)?;
    let Some(path) = key else {
        merge(&mut payload, &fields);
        return Ok(payload);
    };
    let mut root = Value::Object(payload);
    set_at(&mut root, path.steps(), &fields);
    Ok(fields_of(root))
}

fn merge(map: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (key, value) in fields {
        if value.is_null() {
            map.shift_remove(key);
        } else {
            map.insert(key.clone(), value.clone());
        }
    }
}

/// Sets fields of the objects that the steps lead to. A value that a step cannot be taken from becomes one that it can.
fn set_at(value: &mut Value, steps: &[PathStep], fields: &Map<String, Value>) {
    let Some((step, rest)) = steps.split_first() else {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().into_iter().for_each(|map| merge(map, fields));
        return;
    };
    match step {
        PathStep::Key(key) => {
            if !value.is_object() {
                *value = Value::Object(Map::new());
            }
            if let Some(map) = value.as_object_mut() {
                let empty = || Value::Object(Map::new());
                set_at(map.entry(&**key).or_insert_with(empty), rest, fields);
            }
        }
        PathStep::Index(_) | PathStep::Each => {
            let Some(entries) = value.as_array_mut() else {
                *value = Value::Array(Vec::new());
                return;
            };
            let range = match step {
                PathStep::Index(index) => *index..index.saturating_add(1),
                PathStep::Key(_) | PathStep::Each => 0..entries.len(),
            };
            entries.get_mut(range).into_iter().flatten().for_each(|entry| set_at(entry, rest, fields));
        }
    }
}

fn delete(value: &mut Value, steps: &[PathStep]) {
    match (steps, value) {
        ([PathStep::Key(key)], Value::Object(map)) => _ = map.shift_remove(&**key),
        ([PathStep::Each], Value::Array(entries)) => entries.clear(),
        ([PathStep::Key(key), rest @ ..], Value::Object(map)) => {
            map.get_mut(&**key).into_iter().for_each(|value| delete(value, rest));
        }
        ([PathStep::Index(index), rest @ ..], Value::Array(entries)) => {
            entries.get_mut(*index).into_iter().for_each(|value| delete(value, rest));
        }
        ([PathStep::Each, rest @ ..], Value::Array(entries)) => {
            entries.iter_mut().for_each(|value| delete(value, rest));
        }
        ([PathStep::Key(_) | PathStep::Index(_) | PathStep::Each, ..] | [], _) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changed(payload: &Value, change: &PayloadChange) -> Value {
        let next = change.apply(fields_of(payload.clone())).expect("small");
        next.map_or(Value::Null, |payload| serde_json::from_str(payload.as_json()).expect("JSON"))
    }

    fn path(text: &str) -> PayloadPath {
        text.parse().expect("a path")
    }

    /// What qdrant-client 1.20.0 makes of the same in its local mode.
    #[test]
    fn fields_are_set_where_a_path_leads() {
        let payload = json!({"a": {"x": 1}, "l": [{"x": 1}, 2, {"y": 3}], "s": "text"});
        for (key, fields, wanted) in [
            (None, json!({"a": 7, "s": null, "n": [1]}), json!({"a": 7, "l": payload["l"], "n": [1]})),
            (Some("a"), json!({"y": 2}), json!({"a": {"x": 1, "y": 2}, "l": payload["l"], "s": "text"})),
            (Some("s"), json!({"y": 2}), json!({"a": {"x": 1}, "l": payload["l"], "s": {"y": 2}})),
            (
                Some("l[]"),
                json!({"z": 0}),
                json!({"a": {"x": 1}, "l": [{"x": 1, "z": 0}, {"z": 0}, {"y": 3, "z": 0}], "s": "text"}),
            ),
            (Some("l[0]"), json!({"x": null}), json!({"a": {"x": 1}, "l": [{}, 2, {"y": 3}], "s": "text"})),
            (Some("l[7]"), json!({"x": 1}), payload.clone()),
            (Some("s[0].t"), json!({"x": 1}), json!({"a": {"x": 1}, "l": payload["l"], "s": []})),
            (
                Some("n.m"),
                json!({"x": 1}),
                json!({"a": {"x": 1}, "l": payload["l"], "s": "text", "n": {"m": {"x": 1}}}),
            ),
        ] {
            let fields = Payload::parse(&fields.to_string()).expect("an object");
            let change = PayloadChange::Set { fields, key: key.map(path) };
            assert_eq!(changed(&payload, &change), wanted, "{key:?}");
        }
    }

    #[test]
    fn what_paths_lead_to_is_taken_away() {
        let payload = json!({"a": {"x": 1, "y": 2}, "a.x": 3, "l": [{"x": 1}, {"x": 2, "y": 3}]});
        for (paths, wanted) in [
            (vec!["a.x"], json!({"a": {"y": 2}, "a.x": 3, "l": payload["l"]})),
            (vec!["\"a.x\"", "l"], json!({"a": {"x": 1, "y": 2}})),
            (vec!["l[].x"], json!({"a": payload["a"], "a.x": 3, "l": [{}, {"y": 3}]})),
            (vec!["l[1].x"], json!({"a": payload["a"], "a.x": 3, "l": [{"x": 1}, {"y": 3}]})),
            (vec!["l[]"], json!({"a": payload["a"], "a.x": 3, "l": []})),
            (vec!["l[0]", "none", "a.x.z"], payload.clone()),
            (vec!["a", "\"a.x\"", "l"], Value::Null),
        ] {
            let change = PayloadChange::Delete(paths.iter().copied().map(path).collect());
            assert_eq!(changed(&payload, &change), wanted, "{paths:?}");
        }
        assert_eq!(changed(&payload, &PayloadChange::Clear), Value::Null);
    }
}
