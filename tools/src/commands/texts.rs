//! `dehub text`.

use dehub_index::{Collection, Snapshot, TextFields};
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::TextArgs;
use crate::output::table;

/// Shows or changes by which fields points are found by words.
pub(crate) fn run(context: &Context, command: &TextArgs) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    let mut fields = collection.snapshot().text_fields().cloned().unwrap_or_default();
    for name in &command.drop {
        if fields.remove(name).is_none() {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            anyhow::bail!("--drop: there is no text field `{name}`; there are: {}", names.join(", "));
        }
    }
    fields.extend(command.field.iter().cloned());
    if !command.field.is_empty() || !command.drop.is_empty() {
        set(context, &collection, &fields)?;
    }
    let snapshot = collection.snapshot();
    let value = json!({ "collection": command.collection, "text": to_json(&snapshot) });
    context.output.result(&value, || match describe(&snapshot) {
        text if text.is_empty() => "points are not found by words: name a field by --field".to_owned(),
        text => text,
    })?;
    Ok(Outcome::Done)
}

fn set(context: &Context, collection: &Collection, fields: &TextFields) -> anyhow::Result<()> {
    let bar = context.output.progress("indexing texts", None);
    let set = collection.set_text_fields(fields);
    bar.finish_and_clear();
    set?;
    Ok(())
}

/// The fields of texts with what their scores are made from; null where there are none.
pub(super) fn to_json(snapshot: &Snapshot) -> Value {
    let Some(fields) = snapshot.text_fields() else { return Value::Null };
    let statistics = snapshot.text_statistics();
    let field = |(place, (name, field)): (usize, (&String, _))| {
        let mut value = serde_json::to_value(field).unwrap_or_default();
        let counts = statistics.get(place);
        value["texts"] = json!(counts.map(|counts| counts.texts));
        value["terms"] = json!(counts.map(|counts| counts.terms));
        (name.clone(), value)
    };
    let fields: serde_json::Map<String, Value> = fields.iter().enumerate().map(field).collect();
    json!({ "fields": fields, "sequence": snapshot.text_sequence(), "bytes": snapshot.text_bytes() })
}

/// A table of the fields; empty where there are none.
pub(super) fn describe(snapshot: &Snapshot) -> String {
    let Some(fields) = snapshot.text_fields() else { return String::new() };
    let statistics = snapshot.text_statistics();
    let rows = fields.iter().enumerate().map(|(place, (name, field))| {
        let counts = statistics.get(place).copied().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a mean is shown with one digit")]
        let mean = counts.terms as f64 / counts.texts.max(1) as f64;
        vec![
            name.clone(),
            field.analyzer.to_string(),
            field.k1.to_string(),
            field.b.to_string(),
            counts.texts.to_string(),
            format!("{mean:.1}"),
        ]
    });
    table(&["text field", "analyzer", "k1", "b", "texts", "mean terms"], 2, rows)
}
