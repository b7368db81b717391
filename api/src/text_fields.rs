//! Fields of texts: set and told.

use std::collections::BTreeMap;

use dehub_index::{Collection, Snapshot, TextField, TextFields};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::decode::{self, Fields, Place};
use crate::errors::{self, Written};
use crate::problem::Problem;

/// By which texts points are found by words.
#[derive(Serialize, ToSchema)]
#[schema(as = Texts)]
pub(crate) struct TextsReply {
    /// By name: `text`, or a path into payloads.
    fields: BTreeMap<String, TextFieldReply>,
    /// The number of the newest commit that can be found by words.
    sequence: u64,
    /// The bytes of the index of texts.
    bytes: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TextField)]
struct TextFieldReply {
    analyzer: String,
    /// BM25's.
    k1: f32,
    /// BM25's.
    b: f32,
    /// Points with a text in the field.
    texts: u64,
    /// The terms of all of them.
    terms: u64,
}

impl TextsReply {
    /// Of a collection; `None` if points are not found by words.
    pub(crate) fn of(snapshot: &Snapshot) -> Option<TextsReply> {
        let statistics = snapshot.text_statistics();
        let field = |(place, (name, field)): (usize, (&String, &TextField))| {
            let counts = statistics.get(place).copied().unwrap_or_default();
            let TextField { analyzer, k1, b } = *field;
            let analyzer = analyzer.to_string();
            (name.clone(), TextFieldReply { analyzer, k1, b, texts: counts.texts, terms: counts.terms })
        };
        Some(TextsReply {
            fields: snapshot.text_fields()?.iter().enumerate().map(field).collect(),
            sequence: snapshot.text_sequence().unwrap_or_default(),
            bytes: snapshot.text_bytes().unwrap_or_default(),
        })
    }
}

/// Reads `text_fields`: all that there are to be.
pub(crate) fn text_fields(value: Value, place: Place<'_>) -> Result<TextFields, Problem> {
    let Value::Object(map) = value else {
        return Err(decode::wrong(place, &value, "an object of text fields by name"));
    };
    let read = |(name, value): (String, Value)| {
        let field = field(value, place.field(&name))?;
        Ok((name, field))
    };
    map.into_iter().map(read).collect()
}

fn field(value: Value, place: Place<'_>) -> Result<TextField, Problem> {
    let mut fields = Fields::new(value, place)?;
    let analyzer = fields.optional("analyzer", |value, place| {
        let name = decode::string(value, place)?;
        let wanted = "standard, cjk, raw, ngram(least,most) or a language";
        name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), wanted))
    })?;
    let default = TextField::default();
    let found = TextField {
        analyzer: analyzer.unwrap_or_default(),
        k1: fields.optional("k1", decode::number_32)?.unwrap_or(default.k1),
        b: fields.optional("b", decode::number_32)?.unwrap_or(default.b),
    };
    fields.finish()?;
    let wanted = |most: f32| format!("0 to {most}");
    found.check().map_err(|error| {
        decode::out_of_range(place.field(error.parameter), error.found, &wanted(error.most))
    })?;
    Ok(found)
}

/// Sets the fields, and waits for their index.
pub(crate) fn set(collection: &Collection, fields: &TextFields) -> Result<(), Problem> {
    collection.set_text_fields(fields).map_err(|error| errors::write(&error, &Written::Path))?;
    Ok(())
}
