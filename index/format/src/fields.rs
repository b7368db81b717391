//! One row's fields taken apart into id, vector, text and payload: the same rules for every format.

use std::fmt;

use dehub_vector::PointId;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{Flaw, excerpt};
use crate::narrow::{Dimension, narrow};
use crate::options::ReadOptions;

const ID_NAMES: &[&str] = &["id", "_id"];
pub(crate) const VECTOR_NAMES: &[&str] = &["vector", "embedding", "emb", "values"];
pub(crate) const TEXT_NAMES: &[&str] = &["text"];
pub(crate) const PAYLOAD_NAME: &str = "payload";

/// The fields of a row that go with its vector, under their names.
pub(crate) type Payload = Map<String, Value>;

/// The names of the fields with a use of their own, decided once for a file.
#[derive(Debug)]
pub(crate) struct Roles {
    pub(crate) id: Option<String>,
    pub(crate) vector: Option<String>,
    text: Option<String>,
    text_required: bool,
    leave_out: Vec<String>,
}

/// A row without its vector.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) id: Option<PointId>,
    pub(crate) text: Option<String>,
    pub(crate) payload: Option<Payload>,
}

impl Roles {
    /// Decides the names from the fields of a file, or of its first row.
    pub(crate) fn new(options: &ReadOptions, with_vectors: bool, has: impl Fn(&str) -> bool) -> Roles {
        let mut taken = options.leave_out.clone();
        taken.extend(
            [&options.id_field, &options.vector_field, &options.text_field].into_iter().flatten().cloned(),
        );
        let mut choose = |asked: &Option<String>, usual: &[&str]| {
            let found = || usual.iter().find(|name| has(name) && !taken.iter().any(|t| t == *name));
            let chosen = asked.clone().or_else(|| found().map(|&name| name.to_owned()));
            taken.extend(chosen.clone());
            chosen
        };
        Roles {
            id: choose(&options.id_field, ID_NAMES),
            vector: if with_vectors { choose(&options.vector_field, VECTOR_NAMES) } else { None },
            text: choose(&options.text_field, TEXT_NAMES),
            text_required: options.text_field.is_some(),
            leave_out: options.leave_out.clone(),
        }
    }

    /// Whether `name` is the field of ids or of texts.
    pub(crate) fn is_text(&self, name: &str) -> bool {
        self.text.as_deref() == Some(name)
    }

    pub(crate) fn is_id(&self, name: &str) -> bool {
        self.id.as_deref() == Some(name)
    }

    /// The names, of those asked for, that a file with fixed columns must have.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &String> {
        [&self.id, &self.vector, &self.text].into_iter().flatten().chain(&self.leave_out)
    }

    /// Takes the vector out of `fields` and appends its numbers.
    pub(crate) fn vector(
        &self,
        fields: &mut Payload,
        dimension: &mut Dimension,
        numbers: &mut Vec<f32>,
    ) -> Result<(), Flaw> {
        let Some(name) = &self.vector else {
            let wanted = format!("an array of numbers under one of {}", VECTOR_NAMES.join(", "));
            return Err(Flaw::value(VECTOR_NAMES[0], wanted, "none of them"));
        };
        match fields.remove(name) {
            Some(Value::Array(values)) => {
                append_numbers(name, &values, numbers)?;
                dimension.check(name, values.len())
            }
            Some(other) => Err(Flaw::value(name, "an array of numbers", shown(&other))),
            None => Err(Flaw::value(name, "an array of numbers", "no such field")),
        }
    }

    /// Takes what is left of a row apart. A file has an id in every row or in none.
    pub(crate) fn row(&self, mut fields: Payload) -> Result<Row, Flaw> {
        for name in &self.leave_out {
            fields.remove(name);
        }
        let id = match &self.id {
            Some(name) => Some(id_of(name, fields.remove(name))?),
            None => None,
        };
        if let (None, Some(name)) = (&id, ID_NAMES.iter().find(|name| self.is_late_id(name, &fields))) {
            return Err(Flaw::value(name, "no id, as in the first row", "an id"));
        }
        let text = match &self.text {
            Some(name) => text_of(name, fields.remove(name), self.text_required)?,
            None => None,
        };
        Ok(Row { id, text, payload: payload_of(fields)? })
    }

    /// Whether `fields` has an id although the first row had none.
    fn is_late_id(&self, name: &str, fields: &Payload) -> bool {
        fields.contains_key(name) && !self.is_text(name)
    }
}

/// An id from a string or an unsigned integer.
fn id_of(field: &str, value: Option<Value>) -> Result<PointId, Flaw> {
    const WANTED: &str = "a string or an integer of 0 or more";
    match value {
        Some(Value::String(text)) => PointId::text(&text)
            .map_err(|error| Flaw::value(field, WANTED, format!("{} ({error})", quoted(&text)))),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(id) => Ok(PointId::Number(id)),
            None => Err(Flaw::value(field, WANTED, number.to_string())),
        },
        Some(other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))) => {
            Err(Flaw::value(field, WANTED, shown(&other)))
        }
        None => Err(Flaw::value(field, WANTED, "no such field")),
    }
}

fn text_of(field: &str, value: Option<Value>, required: bool) -> Result<Option<String>, Flaw> {
    match value {
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Null) => Ok(None),
        None if !required => Ok(None),
        None => Err(Flaw::value(field, "a string or null", "no such field")),
        Some(other) => Err(Flaw::value(field, "a string or null", shown(&other))),
    }
}

/// All other fields, with those of the object `payload` among them.
fn payload_of(mut fields: Payload) -> Result<Option<Payload>, Flaw> {
    match fields.remove(PAYLOAD_NAME) {
        None | Some(Value::Null) => {}
        Some(Value::Object(inner)) if fields.is_empty() => fields = inner,
        Some(Value::Object(inner)) => {
            for (name, value) in inner {
                if fields.insert(name.clone(), value).is_some() {
                    return Err(Flaw::value(&name, "one value", "two, one of them inside payload"));
                }
            }
        }
        Some(other) => return Err(Flaw::value(PAYLOAD_NAME, "an object or null", shown(&other))),
    }
    Ok(if fields.is_empty() { None } else { Some(fields) })
}

fn append_numbers(field: &str, values: &[Value], numbers: &mut Vec<f32>) -> Result<(), Flaw> {
    numbers.reserve(values.len());
    for (coordinate, value) in values.iter().enumerate() {
        let Some(number) = value.as_f64() else {
            return Err(Flaw::coordinate(field, coordinate, "a number", shown(value)));
        };
        let narrowed = narrow(number).ok_or_else(|| Flaw::overflow(field, coordinate, number))?;
        numbers.push(narrowed);
    }
    Ok(())
}

/// A value as a message shows it: short, and told from other types.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(values) => format!("an array of {}", values.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("the string {:?}", excerpt(text))
}

/// A JSON object that has no name twice: the later value would silently replace the earlier one.
pub(crate) struct UniqueFields(pub(crate) Payload);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueFields, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = UniqueFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueFields, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("field {:?} twice", excerpt(&name))));
                    }
                    fields.insert(name, value);
                }
                Ok(UniqueFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The rows of a batch, column by column.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    ids: Vec<PointId>,
    texts: Vec<Option<String>>,
    payloads: Vec<Option<Payload>>,
}

impl Columns {
    /// Rows that have a vector and nothing else.
    pub(crate) fn empty(rows: usize) -> Columns {
        Columns { ids: Vec::new(), texts: vec![None; rows], payloads: vec![None; rows] }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.ids.extend(row.id);
        self.texts.push(row.text);
        self.payloads.push(row.payload);
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The ids, if the rows have any.
    pub(crate) fn ids(&mut self) -> Option<Vec<PointId>> {
        // INVARIANT: `Roles` gives an id to every row of a file or to none.
        assert!(self.ids.is_empty() || self.ids.len() == self.len(), "an id for every row or for none");
        if self.ids.is_empty() { None } else { Some(std::mem::take(&mut self.ids)) }
    }

    /// The payloads, if any row has one.
    pub(crate) fn payloads(&mut self) -> Option<Vec<Option<Payload>>> {
        self.payloads.iter().any(Option::is_some).then(|| std::mem::take(&mut self.payloads))
    }

    /// The texts, if any row has one.
    pub(crate) fn texts(&mut self) -> Option<Vec<Option<String>>> {
        self.texts.iter().any(Option::is_some).then(|| std::mem::take(&mut self.texts))
    }
}
