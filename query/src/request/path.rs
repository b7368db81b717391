//! Where in a payload a value is.

use dehub_index::Point;
use serde_json::Value;

/// The longest path, in steps.
const STEPS_MAX: usize = 32;

/// A path as Qdrant has them: keys with dots between, `[3]` for a place in an array and `[]` for all of it, quotes
/// around a key with other characters than letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    At(usize),
    Each,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no path into a payload, wanted keys with dots between, as `a.b[].c` or `\"a b\".c`")]
pub struct PathError {
    /// The text.
    pub found: String,
}

impl std::str::FromStr for PayloadPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<PayloadPath, PathError> {
        let refused = || PathError { found: text.to_owned() };
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let (key, after) = key(rest).ok_or_else(refused)?;
            steps.push(Step::Key(key.to_owned()));
            rest = after;
            while let Some(inside) = rest.strip_prefix('[') {
                let (place, after) = inside.split_once(']').ok_or_else(refused)?;
                let is_whole = place.bytes().all(|byte| byte.is_ascii_digit());
                steps.push(match place {
                    "" => Step::Each,
                    place => Step::At(place.parse().ok().filter(|_| is_whole).ok_or_else(refused)?),
                });
                rest = after;
            }
            if steps.len() > STEPS_MAX {
                return Err(refused());
            }
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => return Ok(PayloadPath(steps)),
                None => return Err(refused()),
            }
        }
    }
}

/// The first key of a text, and what is after it.
fn key(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.split_once('"');
    }
    let is_plain = |character: char| character.is_alphanumeric() || "_-".contains(character);
    let end = text.find(|character| !is_plain(character)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

impl PayloadPath {
    /// The values at the path; of an array, its entries.
    pub(crate) fn of(&self, point: &Point) -> Vec<Value> {
        let payload = point.payload.as_ref();
        let payload = payload.and_then(|payload| serde_json::from_str(payload.as_json()).ok());
        let mut values: Vec<Value> = payload.into_iter().collect();
        for step in &self.0 {
            values = values.into_iter().flat_map(|value| step.of(value)).collect();
        }
        let entries = |value| match value {
            Value::Array(entries) => entries,
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => {
                vec![other]
            }
        };
        values.into_iter().flat_map(entries).collect()
    }
}

impl Step {
    fn of(&self, value: Value) -> Vec<Value> {
        match (self, value) {
            (Step::Key(key), Value::Object(mut map)) => map.remove(key).into_iter().collect(),
            (Step::At(place), Value::Array(entries)) => entries.into_iter().skip(*place).take(1).collect(),
            (Step::Each, Value::Array(entries)) => entries,
            (Step::Key(_) | Step::At(_) | Step::Each, _) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use dehub_index::Payload;
    use dehub_vector::PointId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_values_and_into_arrays() {
        let payload = json!({"a": 1, "b": {"c": [2, [3]], "d e": "x"}, "l": [{"k": 4}, {"k": [5, 6]}, 7]});
        let payload = Payload::parse(&payload.to_string()).expect("an object");
        let point = Point { id: PointId::Number(1), payload: Some(payload), text: None };
        let cases = [
            ("a", json!([1])),
            ("b.c", json!([2, [3]])),
            ("b.c[1]", json!([3])),
            ("b.\"d e\"", json!(["x"])),
            ("l[].k", json!([4, 5, 6])),
            ("l[1].k[0]", json!([5])),
            ("l.k", json!([])),
            ("b.c[9]", json!([])),
            ("z", json!([])),
        ];
        for (path, wanted) in cases {
            let path: PayloadPath = path.parse().expect(path);
            assert_eq!(Value::from(path.of(&point)), wanted, "{path:?}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "a[+1]", "a[1", "[0]", "a b", "\"a", "a[0]b"]
        {
            assert_eq!(text.parse::<PayloadPath>(), Err(PathError { found: text.to_owned() }), "{text}");
        }
    }
}
