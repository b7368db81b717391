//! Reading JSON by hand, so that every refusal names the place, what was wanted and what was found.
//!
//! A field that no one reads is refused by name: nothing is parsed and then ignored.

use std::fmt;

use dehub_index::{Name, Payload, PayloadError};
use dehub_vector::{ID_BYTES_MAX, Numbers, PointId};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

use crate::errors::{
    BAD_JSON, DIMENSION_MISMATCH, DUPLICATE_FIELD, INVALID_ID, INVALID_NAME, INVALID_VALUE, MISSING_FIELD,
    NOT_FINITE, NOT_SUPPORTED, PAYLOAD_TOO_LARGE, TOO_DEEP, UNKNOWN_FIELD, WRONG_TYPE,
};
use crate::problem::Problem;

/// Characters of a string that a message quotes.
const QUOTED_CHARS_MAX: usize = 40;

/// How deep arrays and objects may nest: the decoder's limit, so that no body ends the thread.
const DEPTH_MAX: usize = 127;

/// What some editors write before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Fields of Qdrant's bodies that mean something we do not do.
const NOT_SUPPORTED_YET: &[&str] = &[
    "acorn",
    "consistency",
    "context",
    "datatype",
    "discover",
    "formula",
    "fusion",
    "idf",
    "indexed_only",
    "indices",
    "key",
    "lookup_from",
    "mmr",
    "multivector_config",
    "on_disk",
    "on_disk_payload",
    "optimizers_config",
    "prefetch",
    "quantization",
    "quantization_config",
    "recommend",
    "relevance_feedback",
    "replication_factor",
    "rrf",
    "sample",
    "shard_key",
    "shard_number",
    "sparse_vectors",
    "text",
    "update_filter",
    "update_mode",
    "using",
    "values",
    "wal_config",
];

/// A place in a body; prints as a JSON pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    Body,
    Field(&'a Place<'a>, &'a str),
    Entry(&'a Place<'a>, usize),
}

impl<'a> Place<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> Place<'a> {
        Place::Field(self, name)
    }

    pub(crate) fn entry(&'a self, place: usize) -> Place<'a> {
        Place::Entry(self, place)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Body => Ok(()),
            Place::Field(parent, name) => {
                write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            Place::Entry(parent, place) => write!(f, "{parent}/{place}"),
        }
    }
}

/// The place in a sentence: a pointer, or the body itself.
struct Spoken<'a>(Place<'a>);

impl fmt::Display for Spoken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Body => f.write_str("the body"),
            Place::Field(..) | Place::Entry(..) => write!(f, "`{}`", self.0),
        }
    }
}

/// The JSON of a whole body.
pub(crate) fn body(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Err(Problem::new(BAD_JSON, "the body is empty, wanted a JSON object").at(Place::Body));
    }
    parse(bytes, "the body", |error| error.to_string()).map_err(|problem| problem.at(Place::Body))
}

/// The JSON of a line, which is at `place`.
pub(crate) fn line(bytes: &[u8], place: Place<'_>) -> Result<Value, Problem> {
    let told = |error: &serde_json::Error| {
        // The decoder counts lines within this one; its place is the column.
        let message = error.to_string();
        let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
        format!("{reason} at column {}", error.column())
    };
    parse(bytes, "the line", told).map_err(|problem| problem.at(place))
}

fn parse(bytes: &[u8], what: &str, told: impl Fn(&serde_json::Error) -> String) -> Result<Value, Problem> {
    let error = match serde_json::from_slice::<Strict>(bytes) {
        Ok(Strict(value)) => return Ok(value),
        Err(error) => error,
    };
    if bytes.starts_with(BYTE_ORDER_MARK) {
        let detail = format!("{what} begins with a byte order mark, which JSON has not: leave it out");
        return Err(Problem::new(BAD_JSON, detail));
    }
    let told = told(&error);
    Err(match error.classify() {
        Category::Data => Problem::new(DUPLICATE_FIELD, told),
        Category::Syntax | Category::Eof | Category::Io if told.starts_with("recursion limit") => {
            let place = told.split_once(" at ").map_or("", |(_, place)| place);
            let detail = format!("{what} nests deeper than {DEPTH_MAX} arrays and objects, at {place}");
            Problem::new(TOO_DEEP, detail).wanted(format_args!("at most {DEPTH_MAX} levels"))
        }
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(BAD_JSON, format!("{what} is not JSON: {told}"))
        }
    })
}

/// A value in which no object has the same key twice.
struct Strict(Value);

struct StrictVisitor;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Strict, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("JSON has finite numbers only"))?;
        Ok(Strict(Value::Number(number)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(Value::String(value.to_owned())))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Strict, E> {
        Ok(Strict(Value::String(value)))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Strict, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = entries.next_element()? {
            values.push(value);
        }
        Ok(Strict(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Strict, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = fields.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!("an object has the field `{key}` twice")));
            }
            map.insert(key, value);
        }
        Ok(Strict(Value::Object(map)))
    }
}

/// An object whose fields are read one by one, and refused if any is left.
pub(crate) struct Fields<'a> {
    map: Map<String, Value>,
    place: Place<'a>,
    known: Vec<&'static str>,
    /// A bit for each of the first known ones: whether it was there.
    present: u64,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(value: Value, place: Place<'a>) -> Result<Fields<'a>, Problem> {
        match value {
            Value::Object(map) => Ok(Fields { map, place, known: Vec::new(), present: 0 }),
            other
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                Err(wrong(place, &other, "an object"))
            }
        }
    }

    /// Whether a field is there; `null` counts.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// A field that need not be there; `null` is the same as leaving it out.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value, Place<'_>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value, self.place.field(name)).map(Some),
        }
    }

    /// A field that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value, Place<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match self.take(name) {
            None => Err(self.missing(&format!("the field `{name}`"))),
            Some(value) => read(value, self.place.field(name)),
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        let value = self.map.remove(name);
        if value.is_some() && self.known.len() < 64 {
            self.present |= 1 << self.known.len();
        }
        self.known.push(name);
        value
    }

    /// The refusal of an object that lacks what `wanted` describes.
    pub(crate) fn missing(&self, wanted: &str) -> Problem {
        let read =
            self.known.iter().take(64).enumerate().filter(|(place, _)| (self.present >> place) & 1 == 1);
        let left = self.map.keys().map(String::as_str);
        let names: Vec<&str> = read.map(|(_, name)| *name).chain(left).take(20).collect();
        let found = if names.is_empty() { "no fields".to_owned() } else { names.join(", ") };
        let detail = format!("{} lacks {wanted}; found {found}", Spoken(self.place));
        Problem::new(MISSING_FIELD, detail).at(self.place).wanted(wanted).found(found)
    }

    /// Refuses what was not read.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        let Some(name) = self.map.keys().next() else { return Ok(()) };
        let place = self.place.field(name);
        if NOT_SUPPORTED_YET.contains(&name.as_str()) {
            return Err(Problem::new(NOT_SUPPORTED, format!("`{place}` is not supported yet")).at(place));
        }
        let wanted = self.known.join(", ");
        let detail = format!("`{place}` is no field of this body, wanted {wanted}");
        Err(Problem::new(UNKNOWN_FIELD, detail).at(place).wanted(wanted).found(name))
    }
}

/// A value of the wrong type.
pub(crate) fn wrong(place: Place<'_>, value: &Value, wanted: &str) -> Problem {
    let found = described(value);
    let detail = format!("{} is {found}, wanted {wanted}", Spoken(place));
    Problem::new(WRONG_TYPE, detail).at(place).wanted(wanted).found(found)
}

/// A value of the right type that is out of range.
pub(crate) fn out_of_range(place: Place<'_>, found: impl fmt::Display, wanted: &str) -> Problem {
    let detail = format!("{} is {found}, wanted {wanted}", Spoken(place));
    Problem::new(INVALID_VALUE, detail).at(place).wanted(wanted).found(found)
}

/// A value in a message: short, whatever it is.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() > QUOTED_CHARS_MAX => {
            let start: String = text.chars().take(QUOTED_CHARS_MAX).collect();
            format!("a string that starts with {start:?}")
        }
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(values) => format!("an array of {}", values.len()),
        Value::Object(map) => format!("an object of {} fields", map.len()),
    }
}

/// A list, each entry read by `read`.
pub(crate) fn list<T>(
    value: Value,
    place: Place<'_>,
    mut read: impl FnMut(Value, Place<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    match value {
        Value::Array(values) => {
            values.into_iter().enumerate().map(|(index, value)| read(value, place.entry(index))).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Err(wrong(place, &other, "an array"))
        }
    }
}

/// A whole number from 0.
pub(crate) fn whole(value: Value, place: Place<'_>) -> Result<usize, Problem> {
    whole_or(value, place, "a whole number from 0")
}

/// The same where the engine refuses 0 as well, and has an error of its own for that.
pub(crate) fn count(value: Value, place: Place<'_>) -> Result<usize, Problem> {
    whole_or(value, place, "a whole number from 1")
}

fn whole_or(value: Value, place: Place<'_>, wanted: &str) -> Result<usize, Problem> {
    match &value {
        Value::Number(number) => {
            let found = number.as_u64().and_then(|number| usize::try_from(number).ok());
            found.ok_or_else(|| out_of_range(place, number, wanted))
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong(place, &value, wanted))
        }
    }
}

/// A number.
pub(crate) fn number(value: Value, place: Place<'_>) -> Result<f64, Problem> {
    value.as_f64().ok_or_else(|| wrong(place, &value, "a number"))
}

/// A number that 32 bits can hold.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to 32 bits is the point; an infinity is refused"
)]
pub(crate) fn number_32(value: Value, place: Place<'_>) -> Result<f32, Problem> {
    const WANTED: &str = "a finite 32-bit number";
    let narrow = value.as_f64().ok_or_else(|| wrong(place, &value, WANTED))? as f32;
    if narrow.is_finite() {
        return Ok(narrow);
    }
    let found = described(&value);
    let detail = format!("{} is {found}, wanted {WANTED}", Spoken(place));
    Err(Problem::new(NOT_FINITE, detail).at(place).wanted(WANTED).found(found))
}

/// `true` or `false`.
pub(crate) fn flag(value: Value, place: Place<'_>) -> Result<bool, Problem> {
    value.as_bool().ok_or_else(|| wrong(place, &value, "true or false"))
}

/// A string.
pub(crate) fn string(value: Value, place: Place<'_>) -> Result<String, Problem> {
    match value {
        Value::String(text) => Ok(text),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(wrong(place, &other, "a string"))
        }
    }
}

/// The name of a bank or a correction.
pub(crate) fn name(value: Value, place: Place<'_>) -> Result<Name, Problem> {
    string(value, place)?.parse().map_err(|error| Problem::new(INVALID_NAME, format!("{error}")).at(place))
}

/// An id: a number stays a number, a string a string.
pub(crate) fn id(value: Value, place: Place<'_>) -> Result<PointId, Problem> {
    const WANTED: &str = "a whole number from 0 to 18446744073709551615 or a string";
    let refused = |found: &dyn fmt::Display| {
        let detail = format!("{} is {found}, wanted {WANTED}", Spoken(place));
        Problem::new(INVALID_ID, detail).at(place).wanted(WANTED).found(found)
    };
    match &value {
        Value::Number(number) => number.as_u64().map(PointId::Number).ok_or_else(|| refused(number)),
        Value::String(text) => {
            let wanted = format_args!("1 to {ID_BYTES_MAX} bytes");
            let told = |problem: Problem| problem.at(place).wanted(wanted).found(text.len());
            PointId::text(text).map_err(|error| told(Problem::new(INVALID_ID, error.to_string())))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(refused(&described(&value))),
    }
}

/// The coordinates of a vector; its length and its norm are the engine's to check.
fn vector(value: Value, place: Place<'_>) -> Result<Vec<f32>, Problem> {
    match value {
        Value::Array(_) => list(value, place, number_32),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(wrong(place, &value, "an array of numbers"))
        }
    }
}

/// The numbers of a vector, or of each vector of a multi-vector.
pub(crate) fn numbers(value: Value, place: Place<'_>) -> Result<Numbers, Problem> {
    let is_multi = matches!(&value, Value::Array(list) if matches!(list.first(), Some(Value::Array(_))));
    if !is_multi {
        return vector(value, place).map(Numbers::from);
    }
    let vectors = list(value, place, vector)?;
    Numbers::multi(&vectors).map_err(|error| {
        let at = place.entry(error.place).to_string();
        let problem = Problem::new(DIMENSION_MISMATCH, format!("`{at}`: {error}")).at(at);
        problem.wanted(error.wanted).found(error.found)
    })
}

/// A payload: a JSON object.
pub(crate) fn payload(value: Value, place: Place<'_>) -> Result<Payload, Problem> {
    match &value {
        Value::Object(_) => Payload::parse(&value.to_string()).map_err(|error| {
            let code = match error {
                PayloadError::TooLarge { .. } => PAYLOAD_TOO_LARGE,
                PayloadError::NotAnObject { .. } => WRONG_TYPE,
                _ => INVALID_VALUE,
            };
            Problem::new(code, error.to_string()).at(place)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(wrong(place, &value, "an object"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_prints_as_a_pointer() {
        let body = Place::Body;
        let points = body.field("points");
        let point = points.entry(17);
        assert_eq!(body.to_string(), "");
        assert_eq!(point.field("a/b~c").to_string(), "/points/17/a~1b~0c");
    }

    #[test]
    fn numbers_and_strings_stay_apart_as_ids() {
        let read = |value| id(value, Place::Body);
        assert_eq!(read(json!(7)), Ok(PointId::Number(7)));
        assert_eq!(read(json!(u64::MAX)), Ok(PointId::Number(u64::MAX)));
        assert_eq!(read(json!("7")), Ok(PointId::Text("7".into())));
        for bad in [json!(-1), json!(1.5), json!(1.8446744073709552e19), json!(true), json!(null), json!("")]
        {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_coordinate_that_32_bits_cannot_hold_is_refused() {
        assert_eq!(number_32(json!(1e38), Place::Body), Ok(1e38));
        assert!(number_32(json!(1e39), Place::Body).is_err());
        assert!(number_32(json!(-1e39), Place::Body).is_err());
        assert!(number_32(json!("1"), Place::Body).is_err());
    }

    #[test]
    fn the_same_field_twice_is_refused() {
        assert!(body(br#"{"limit": 1, "limit": 2}"#).is_err());
        assert!(body(br#"{"a": {"limit": 1}, "limit": 2}"#).is_ok());
    }
}
