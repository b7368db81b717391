//! Indexes of payload fields: made, dropped, listed.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use dehub_index::{FieldKind, FieldKindError, Snapshot};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, INVALID_VALUE, NOT_SUPPORTED, Written};
use crate::filter::path;
use crate::points::WriteReply;
use crate::problem::Problem;

/// Parameters of an index in Qdrant that say how it is kept or what it can do, each with the one value that is true of
/// all indexes here, if there is one.
const PARAMETERS: [(&str, Option<bool>); 17] = [
    ("ascii_folding", Some(false)),
    ("enable_hnsw", None),
    ("is_principal", None),
    ("is_tenant", None),
    ("lookup", Some(true)),
    ("lowercase", Some(true)),
    ("max_token_len", None),
    ("memory", None),
    ("min_token_len", None),
    ("nested", None),
    ("on_disk", Some(false)),
    ("phrase_matching", Some(true)),
    ("prefix", Some(true)),
    ("range", Some(true)),
    ("scoring", None),
    ("stemmer", None),
    ("stopwords", None),
];

/// The schemas of the fields of a body that are parameters of an index.
pub(crate) fn fixed_schemas() -> impl Iterator<Item = (&'static str, &'static str, Value)> {
    PARAMETERS.into_iter().map(|(field, only)| {
        let schema = match only {
            None => json!({ "type": "null" }),
            Some(flag) => json!({ "type": ["boolean", "null"], "enum": [flag, null] }),
        };
        ("FieldParams", field, schema)
    })
}

/// An index of a payload field.
#[derive(Serialize, ToSchema)]
#[schema(as = PayloadIndex)]
pub(crate) struct PayloadIndexReply {
    data_type: &'static str,
    /// Points with a value of this type.
    points: usize,
}

/// The indexes of a collection, by field.
pub(crate) fn schema(snapshot: &Snapshot) -> BTreeMap<String, PayloadIndexReply> {
    let reply = |(path, column): (&dehub_index::PayloadPath, &dehub_index::PayloadColumn)| {
        (path.to_string(), PayloadIndexReply { data_type: column.kind().name(), points: column.points() })
    };
    snapshot.payload_columns().map(reply).collect()
}

/// `PUT /collections/{collection}/index`
pub(crate) async fn create(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let field = fields.required("field_name", path)?;
        let kind = fields.required("field_schema", field_schema)?;
        fields.finish()?;
        let receipt = collection.index_payload(&field, kind);
        let receipt = receipt.map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&WriteReply::done(receipt.sequence))
    })
    .await
}

/// `DELETE /collections/{collection}/index/{field}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer(&["wait"], |task| {
        let collection = task.collection()?;
        let refused =
            |error: dehub_index::PathError| Problem::new(INVALID_VALUE, format!("the path: {error}"));
        let field = task.segment("field").parse().map_err(refused)?;
        let receipt = collection.drop_payload_index(&field);
        let receipt = receipt.map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&WriteReply::done(receipt.sequence))
    })
    .await
}

/// A kind, or `{"type": kind}`.
fn field_schema(value: Value, place: Place<'_>) -> Result<FieldKind, Problem> {
    if !value.is_object() {
        return kind(value, place);
    }
    let mut fields = Fields::new(value, place)?;
    let found = fields.required("type", kind)?;
    for (name, only) in PARAMETERS {
        fields.optional(name, |value, place| {
            if only.is_some() && value.as_bool() == only {
                return Ok(());
            }
            let wanted = only.map_or("nothing".to_owned(), |only| format!("{only} or nothing"));
            let detail = format!("`{place}` is {value}, which is not supported: wanted {wanted}");
            Err(Problem::new(NOT_SUPPORTED, detail).at(place).wanted(wanted).found(value))
        })?;
    }
    fields.optional("tokenizer", |value, place| match &*decode::string(value, place)? {
        "word" => Ok(()),
        other => {
            let detail = format!("`{place}` is {other:?}, which is not supported: wanted \"word\"");
            Err(Problem::new(NOT_SUPPORTED, detail).at(place).wanted("word").found(other))
        }
    })?;
    fields.finish()?;
    Ok(found)
}

fn kind(value: Value, place: Place<'_>) -> Result<FieldKind, Problem> {
    let text = decode::string(value, place)?;
    text.parse().map_err(|error: FieldKindError| {
        decode::out_of_range(place, format_args!("{:?}", error.found), FieldKind::NAMES)
    })
}
