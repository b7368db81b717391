//! Paths into payloads, as Qdrant writes them: `name`, `address.city`, `"odd key"`, `parts[].size`, `parts[0]`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// The longest path, in bytes; it bounds how deep one can lead.
pub const PATH_BYTES_MAX: usize = 512;

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathStep {
    /// To a field of an object.
    Key(Box<str>),
    /// To an entry of an array, from 0.
    Index(usize),
    /// To every entry of an array.
    Each,
}

/// A path from a payload to values in it. It begins with a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PayloadPath(Box<[PathStep]>);

/// Text that is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path:?} is no path into a payload: {reason}. Wanted keys joined by dots, each with [] or [number] after it; a \
     key of other characters than letters, digits, _ and - stands in double quotes"
)]
pub struct PathError {
    /// What was given, its beginning if it is too long.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl PayloadPath {
    /// Its steps.
    pub fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// The path to an array rather than to its entries: without a `[]` at the end.
    #[must_use]
    pub fn to_array(&self) -> PayloadPath {
        match self.0.split_last() {
            Some((PathStep::Each, rest)) if !rest.is_empty() => PayloadPath(rest.into()),
            _ => self.clone(),
        }
    }

    /// The values that it leads to, arrays as they are.
    pub fn find<'a>(&self, payload: &'a Value) -> Vec<&'a Value> {
        let mut found = Vec::new();
        follow(&self.0, payload, &mut |value| found.push(value));
        found
    }

    /// Shows the values that it leads to, the entries of an array in place of the array.
    pub fn each<'a>(&self, payload: &'a Value, mut show: impl FnMut(&'a Value)) {
        follow(&self.0, payload, &mut |value| match value {
            Value::Array(entries) => entries.iter().for_each(&mut show),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                show(value);
            }
        });
    }
}

fn follow<'a>(steps: &[PathStep], value: &'a Value, found: &mut impl FnMut(&'a Value)) {
    let Some((step, rest)) = steps.split_first() else { return found(value) };
    match (step, value) {
        (PathStep::Key(key), Value::Object(map)) => {
            if let Some(value) = map.get(&**key) {
                follow(rest, value, found);
            }
        }
        (PathStep::Index(index), Value::Array(entries)) => {
            if let Some(value) = entries.get(*index) {
                follow(rest, value, found);
            }
        }
        (PathStep::Each, Value::Array(entries)) => {
            entries.iter().for_each(|value| follow(rest, value, found));
        }
        (PathStep::Key(_) | PathStep::Index(_) | PathStep::Each, _) => {}
    }
}

/// Whether a key may stand without quotes.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '-'
}

impl FromStr for PayloadPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<PayloadPath, PathError> {
        if text.len() > PATH_BYTES_MAX {
            let path = text.chars().take(40).collect();
            return Err(PathError { path, reason: "it has more than 512 bytes" });
        }
        let refused = |reason| PathError { path: text.to_owned(), reason };
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let key;
            (key, rest) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(|| refused("a quote is not closed"))?,
                None => rest.split_at(rest.find(|it| !is_plain(it)).unwrap_or(rest.len())),
            };
            if key.is_empty() && !text.contains('"') {
                return Err(refused("a key is empty"));
            }
            steps.push(PathStep::Key(key.into()));
            while let Some(bracket) = rest.strip_prefix('[') {
                let inside;
                (inside, rest) = bracket.split_once(']').ok_or_else(|| refused("a bracket is not closed"))?;
                let is_number = !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit());
                steps.push(match inside.parse() {
                    _ if inside.is_empty() => PathStep::Each,
                    Ok(index) if is_number => PathStep::Index(index),
                    Ok(_) | Err(_) => {
                        return Err(refused("in brackets there may be a whole number or nothing"));
                    }
                });
            }
            if rest.is_empty() {
                return Ok(PayloadPath(steps.into()));
            }
            rest = rest.strip_prefix('.').ok_or_else(|| refused("after a key there is neither . nor ["))?;
            if rest.is_empty() {
                return Err(refused("it ends with a dot"));
            }
        }
    }
}

impl fmt::Display for PayloadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) => {
                    f.write_str(if place == 0 { "" } else { "." })?;
                    let quote = if !key.is_empty() && key.chars().all(is_plain) { "" } else { "\"" };
                    write!(f, "{quote}{key}{quote}")?;
                }
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Each => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> PayloadPath {
        text.parse().expect("a path")
    }

    #[test]
    fn a_path_prints_as_it_is_read() {
        for text in ["a", "a.b", "a[].b", "a[0][1].b[]", "\"a.b\"", "a.\"x y\"[3]", "é-1_b", "\"\"", "0"] {
            assert_eq!(path(text).to_string(), text);
        }
        assert_eq!(path("\"plain\".x"), path("plain.x"));
    }

    #[test]
    fn text_that_leads_nowhere_is_refused() {
        let overlong = "a".repeat(PATH_BYTES_MAX + 1);
        for text in [
            "", ".", "a.", ".a", "a..b", "a b", "a[", "a[x]", "a[-1]", "a[+1]", "[0]", "\"a", "a]", &overlong,
        ] {
            assert!(text.parse::<PayloadPath>().is_err(), "{text}");
        }
        assert!("a[99999999999999999999999]".parse::<PayloadPath>().is_err());
    }

    #[test]
    fn a_path_leads_to_what_it_names() {
        let payload =
            json!({"a": {"b": [1, [2, 3], {"c": null}]}, "a.b": 4, "d": [{"e": 5}, {"e": [6, 7]}, 8]});
        for (text, values) in [
            ("a.b", json!([[1, [2, 3], {"c": null}]])),
            ("a.b[]", json!([1, [2, 3], {"c": null}])),
            ("a.b[1]", json!([[2, 3]])),
            ("a.b[].c", json!([null])),
            ("\"a.b\"", json!([4])),
            ("d[].e", json!([5, [6, 7]])),
            ("d.e", json!([])),
            ("d[9]", json!([])),
        ] {
            assert_eq!(json!(path(text).find(&payload)), values, "{text}");
        }
        let mut entries = Vec::new();
        path("d[].e").each(&payload, |value| entries.push(value));
        assert_eq!(json!(entries), json!([5, 6, 7]));
        assert_eq!(path("d[]").to_array(), path("d"));
        assert_eq!(path("d[0]").to_array(), path("d[0]"));
    }
}
