//! Which parts of points an answer has, and which points a request is about.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_index::{PathStep, PayloadPath, Point, Scope, Snapshot};
use dehub_query::Filter;
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::decode::{self, Fields, Place};
use crate::errors::{self, INTERNAL, INVALID_VALUE};
use crate::filter;
use crate::points;
use crate::problem::Problem;
use crate::vectors::{VectorReply, VectorSelector};

/// Points that are read from the store at once, with their payloads.
const READ_POINTS: usize = 1024;

/// The parts of a point that an answer has only if they were asked for.
#[derive(Serialize, Default, ToSchema)]
pub(crate) struct Parts {
    /// What was asked for of the payload; of a point without one, nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<Map<String, Value>>,
    /// With the payload, unless only some fields of it were asked for, if the point has a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// As stored: of length one under cosine.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<VectorReply>,
}

/// Which parts of a point to answer with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub(crate) payload: PayloadSelector,
    pub(crate) vector: VectorSelector,
}

/// What of a payload to answer with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PayloadSelector {
    Nothing,
    Everything,
    /// What paths lead to.
    Include(Arc<Tree>),
    /// All but what paths lead to.
    Exclude(Arc<Tree>),
}

/// Paths that begin alike in one: the next steps of all.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Tree {
    keys: HashMap<Box<str>, Branch>,
    /// For `[]`.
    each: Option<Box<Branch>>,
}

/// Where a step of a path leads.
#[derive(Debug, PartialEq)]
enum Branch {
    /// It is the last.
    End,
    Further(Tree),
}

impl Tree {
    fn of(paths: &[PayloadPath]) -> Arc<Tree> {
        let mut tree = Tree::default();
        paths.iter().for_each(|path| tree.insert(path.steps()));
        Arc::new(tree)
    }

    fn insert(&mut self, steps: &[PathStep]) {
        let Some((step, rest)) = steps.split_first() else { return };
        let further = || Branch::Further(Tree::default());
        let branch = match step {
            PathStep::Key(key) => self.keys.entry(key.clone()).or_insert_with(further),
            PathStep::Each => self.each.get_or_insert_with(|| Box::new(further())),
            // An entry by its number selects nothing, as in Qdrant.
            PathStep::Index(_) => return,
        };
        match branch {
            Branch::End => {}
            Branch::Further(_) if rest.is_empty() => *branch = Branch::End,
            Branch::Further(tree) => tree.insert(rest),
        }
    }

    /// The fields that the paths lead to.
    fn include(&self, map: Map<String, Value>) -> Map<String, Value> {
        let kept = |(key, value): (String, Value)| {
            let value = match self.keys.get(&*key)? {
                Branch::End => value,
                Branch::Further(tree) => tree.include_value(value),
            };
            Some((key, value))
        };
        map.into_iter().filter_map(kept).collect()
    }

    fn include_value(&self, value: Value) -> Value {
        match (value, self.each.as_deref()) {
            (Value::Object(map), _) => Value::Object(self.include(map)),
            (Value::Array(_), None) => Value::Array(Vec::new()),
            (whole @ Value::Array(_), Some(Branch::End)) => whole,
            (Value::Array(entries), Some(Branch::Further(tree))) => {
                entries.into_iter().map(|entry| tree.include_value(entry)).collect()
            }
            (single @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)), _) => single,
        }
    }

    /// The fields without what the paths lead to.
    fn exclude(&self, map: Map<String, Value>) -> Map<String, Value> {
        let kept = |(key, value): (String, Value)| match self.keys.get(&*key) {
            None => Some((key, value)),
            Some(Branch::End) => None,
            Some(Branch::Further(tree)) => Some((key, tree.exclude_value(value))),
        };
        map.into_iter().filter_map(kept).collect()
    }

    fn exclude_value(&self, value: Value) -> Value {
        match (value, self.each.as_deref()) {
            (Value::Object(map), _) => Value::Object(self.exclude(map)),
            (Value::Array(_), Some(Branch::End)) => Value::Array(Vec::new()),
            (Value::Array(entries), Some(Branch::Further(tree))) => {
                entries.into_iter().map(|entry| tree.exclude_value(entry)).collect()
            }
            (whole @ Value::Array(_), None)
            | (whole @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)), _) => whole,
        }
    }
}

impl Parts {
    /// The payload as JSON, if there is one and it was asked for.
    pub(crate) fn payload_json(&self) -> Option<String> {
        self.payload.as_ref().map(|payload| Value::Object(payload.clone()).to_string())
    }
}

impl Selection {
    /// Whether anything of payloads was asked for.
    pub(crate) fn has_payload(&self) -> bool {
        self.payload != PayloadSelector::Nothing
    }

    /// Whether vectors were asked for.
    pub(crate) fn has_vectors(&self) -> bool {
        self.vector != VectorSelector::Nothing
    }

    /// Everything.
    pub(crate) const ALL: Selection =
        Selection { payload: PayloadSelector::Everything, vector: VectorSelector::Everything };

    /// Reads `with_payload` and `with_vector`; the latter is false unless given.
    pub(crate) fn read(fields: &mut Fields<'_>, payload: bool) -> Result<Selection, Problem> {
        let default = if payload { PayloadSelector::Everything } else { PayloadSelector::Nothing };
        Ok(Selection {
            payload: fields.optional("with_payload", payload_selector)?.unwrap_or(default),
            vector: fields.optional("with_vector", VectorSelector::read)?.unwrap_or(VectorSelector::Nothing),
        })
    }

    /// The parts of a point that are asked for.
    pub(crate) fn parts(&self, snapshot: &Snapshot, row: u32, point: &mut Point) -> Result<Parts, Problem> {
        let stored = || {
            let unreadable = |error| Problem::new(INTERNAL, format!("a stored payload is not JSON: {error}"));
            let json = point.payload.as_ref().map(|payload| serde_json::from_str(payload.as_json()));
            Ok(json.transpose().map_err(unreadable)?.unwrap_or_else(Map::new))
        };
        let payload = match &self.payload {
            PayloadSelector::Nothing => None,
            PayloadSelector::Everything => Some(stored()?),
            PayloadSelector::Include(tree) => Some(tree.include(stored()?)),
            PayloadSelector::Exclude(tree) => Some(tree.exclude(stored()?)),
        };
        let text = match self.payload {
            PayloadSelector::Nothing | PayloadSelector::Include(_) => None,
            PayloadSelector::Everything | PayloadSelector::Exclude(_) => point.text.take(),
        };
        let vector = self.vector.of(snapshot, row)?;
        Ok(Parts { payload, text, vector })
    }
}

/// `true`, `false`, `[path]`, `{"include": [path]}` or `{"exclude": [path]}`.
fn payload_selector(value: Value, place: Place<'_>) -> Result<PayloadSelector, Problem> {
    match value {
        Value::Bool(true) => Ok(PayloadSelector::Everything),
        Value::Bool(false) => Ok(PayloadSelector::Nothing),
        Value::Array(_) => Ok(PayloadSelector::Include(paths(value, place)?)),
        Value::Object(_) => {
            let mut fields = Fields::new(value, place)?;
            let include = fields.optional("include", paths)?;
            let exclude = fields.optional("exclude", paths)?;
            let missing = fields.missing("`include` or `exclude`, a list of paths");
            fields.finish()?;
            match (include, exclude) {
                (Some(tree), None) => Ok(PayloadSelector::Include(tree)),
                (None, Some(tree)) => Ok(PayloadSelector::Exclude(tree)),
                (None, None) => Err(missing),
                (Some(_), Some(_)) => {
                    let detail = format!("`{place}` has both `include` and `exclude`, wanted one of them");
                    Err(Problem::new(INVALID_VALUE, detail).at(place))
                }
            }
        }
        Value::Null | Value::Number(_) | Value::String(_) => {
            Err(decode::wrong(place, &value, "true, false, a list of paths, or an object with one"))
        }
    }
}

fn paths(value: Value, place: Place<'_>) -> Result<Arc<Tree>, Problem> {
    Ok(Tree::of(&decode::list(value, place, filter::path)?))
}

/// The points that a write is about.
pub(crate) enum Chosen {
    Ids(Vec<PointId>),
    /// Those that it allows when the write begins.
    Filter(Filter),
}

impl Chosen {
    /// Reads `points` or `filter`.
    pub(crate) fn read(fields: &mut Fields<'_>, place: Place<'_>) -> Result<Chosen, Problem> {
        let ids = fields.optional("points", points::ids)?;
        let filter = fields.optional("filter", filter::whole)?;
        match (ids, filter) {
            (Some(ids), None) => Ok(Chosen::Ids(ids)),
            (None, Some(filter)) => Ok(Chosen::Filter(filter)),
            (None, None) => Err(fields.missing("`points`, a list of ids, or a `filter`")),
            (Some(_), Some(_)) => {
                let place = place.field("filter");
                let detail = format!("`{place}` has no meaning beside `points`: give one of the two");
                Err(Problem::new(INVALID_VALUE, detail).at(place))
            }
        }
    }
}

/// The ids of the points that a filter allows.
pub(crate) fn ids_of(snapshot: &Snapshot, scope: &Scope, filter: &Filter) -> Result<Vec<PointId>, Problem> {
    let allowed = filter.within(snapshot, scope).map_err(|error| errors::listing(&error))?;
    let rows: Vec<u32> = allowed.rows().collect();
    let mut ids = Vec::with_capacity(rows.len());
    for block in rows.chunks(READ_POINTS) {
        let read = snapshot.points(block).map_err(|error| errors::read(&error))?;
        ids.extend(read.into_iter().map(|point| point.id));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selected(with_payload: Value, payload: &Value) -> Value {
        let Value::Object(map) = payload.clone() else { panic!("{payload} is an object") };
        let kept = match payload_selector(with_payload, Place::Body).expect("a selector") {
            PayloadSelector::Nothing => return Value::Null,
            PayloadSelector::Everything => map,
            PayloadSelector::Include(tree) => tree.include(map),
            PayloadSelector::Exclude(tree) => tree.exclude(map),
        };
        Value::Object(kept)
    }

    /// Answers of qdrant-client 1.20.0 in its local mode.
    #[test]
    fn paths_select_what_qdrant_selects() {
        let payload = json!({
            "a": {"b": 1, "c": 2}, "aa": {"b": 3}, "a.b": 4, "l": [{"b": 5, "c": 6}, 7, [{"b": 8}]]
        });
        for (with_payload, wanted) in [
            (json!(true), payload.clone()),
            (json!(false), json!(null)),
            (json!([]), json!({})),
            (json!(["a.b"]), json!({"a": {"b": 1}})),
            (json!(["\"a.b\"", "l[].c"]), json!({"a.b": 4, "l": [{"c": 6}, 7, []]})),
            (json!({"include": ["a.b", "a", "aa.b.c"]}), json!({"a": {"b": 1, "c": 2}, "aa": {"b": 3}})),
            (json!(["l"]), json!({"l": payload["l"]})),
            (json!(["l[]"]), json!({"l": payload["l"]})),
            (json!(["l[0]"]), json!({"l": []})),
            (json!(["l.b", "a.x"]), json!({"a": {}, "l": []})),
            (
                json!({"exclude": ["a", "l[].b"]}),
                json!({"aa": {"b": 3}, "a.b": 4, "l": [{"c": 6}, 7, [{"b": 8}]]}),
            ),
            (
                json!({"exclude": ["a.b", "l[]", "aa.x", "a[0]"]}),
                json!({"a": {"c": 2}, "aa": {"b": 3}, "a.b": 4, "l": []}),
            ),
            (json!({"exclude": ["l[0]"]}), payload.clone()),
        ] {
            assert_eq!(selected(with_payload.clone(), &payload), wanted, "{with_payload}");
        }
    }
}
