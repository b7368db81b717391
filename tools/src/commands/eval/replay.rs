//! Results made again, from the same data, and compared number by number.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::files::hash;
use super::schema::{Results, SCHEMA};
use super::{Context, Outcome, evaluate};

/// Differences that are named; the rest are counted.
const NAMED_MAX: usize = 10;

pub(super) fn run(context: &Context, file: &Path) -> anyhow::Result<Outcome> {
    let name = file.display();
    let (before, results) = read(file)?;
    check_files(&results)?;
    let mut again = context.with_output(context.output);
    again.using.clone_from(&results.using);
    check_collection(&again, &results)?;
    // As text and back, so that both have been through the same.
    let after: Value = serde_json::from_str(&serde_json::to_string(&evaluate(&again, &results.request)?)?)?;
    let mut differences = Vec::new();
    for (field, value) in after.as_object().into_iter().flatten() {
        // Another version may come to the same numbers.
        if field != "dehub" {
            compare(field, before.get(field).unwrap_or(&Value::Null), value, &mut differences);
        }
    }
    let (was, is) = (&results.dehub, env!("CARGO_PKG_VERSION"));
    let result = json!({
        "from": file,
        "equal": differences.is_empty(),
        "made_by": was,
        "made_again_by": is,
        "differences": differences.iter().map(Difference::to_json).collect::<Vec<_>>(),
    });
    context.output.result(&result, || {
        if differences.is_empty() {
            return format!("{name}: every number is equal (made by dehub {was}, again by {is})");
        }
        let named = differences.iter().take(NAMED_MAX).map(|it| {
            let Difference { field, before, after } = it;
            format!("{field}: was {before}, is {after}\n")
        });
        let named: String = named.collect();
        let count = differences.len();
        let rest = if count > NAMED_MAX { "…\n" } else { "" };
        format!("{name}: {count} values differ (made by dehub {was}, again by {is})\n{named}{rest}")
    })?;
    Ok(if differences.is_empty() { Outcome::Done } else { Outcome::NotWhole })
}

/// Reads results, as they are in the file and as they are meant.
pub(crate) fn read(file: &Path) -> anyhow::Result<(Value, Results)> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| name.to_string())?;
    let value: Value = serde_json::from_str(&text).with_context(|| name.to_string())?;
    if value["schema"] != json!(SCHEMA) {
        bail!("{name}: field schema: wanted {SCHEMA}, found {}", value["schema"]);
    }
    let results = serde_json::from_value(value.clone()).with_context(|| name.to_string())?;
    Ok((value, results))
}

fn check_files(results: &Results) -> anyhow::Result<()> {
    for input in &results.inputs {
        let found = hash(&input.path)?;
        if found != input.blake3 {
            let (path, wanted) = (input.path.display(), &input.blake3);
            bail!("{path}: is not the file it was: wanted the BLAKE3 hash {wanted}, found {found}");
        }
    }
    Ok(())
}

fn check_collection(context: &Context, results: &Results) -> anyhow::Result<()> {
    let Some(wanted) = &results.collection else { return Ok(()) };
    let found = context.space(&wanted.name)?.snapshot().sequence();
    if found != wanted.sequence {
        let (name, wanted) = (&wanted.name, wanted.sequence);
        bail!("collection `{name}`: is not as it was: wanted its commit {wanted}, found {found}");
    }
    Ok(())
}

/// A value that is another one now.
struct Difference {
    field: String,
    before: Value,
    after: Value,
}

impl Difference {
    fn to_json(&self) -> Value {
        json!({ "field": self.field, "before": self.before, "after": self.after })
    }
}

fn compare(field: &str, before: &Value, after: &Value, differences: &mut Vec<Difference>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) if old.len() == new.len() => {
            for (name, value) in new {
                let old = old.get(name).unwrap_or(&Value::Null);
                compare(&format!("{field}.{name}"), old, value, differences);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (place, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{field}[{place}]"), old, new, differences);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            let (before, after) = (before.clone(), after.clone());
            differences.push(Difference { field: field.to_owned(), before, after });
        }
    }
}
