//! `dehub prior`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use dehub_format::{Format, ReadOptions};
use dehub_index::{BATCH_POINTS_MAX, Collection, Name, Prior, PriorInfo};
use dehub_vector::PointId;
use serde_json::{Map, Value, json};

use super::{Context, Outcome};
use crate::cli::VectorFile;
use crate::load;

/// Rows of a file without vectors that are read at once.
const BATCH_ROWS: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct PriorArgs {
    /// The collection.
    pub collection: String,
    /// The prior.
    pub prior: String,
    /// A file with an id and a value in each row: a .jsonl file, or a file of vectors as `import` reads it. Without one
    /// the prior is shown.
    #[arg(conflicts_with_all = ["remove", "drop"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    /// The field or column of the values [default: the prior's name].
    #[arg(long, value_name = "NAME", requires = "file")]
    pub field: Option<String>,
    /// Take the value from the point with this id; may be repeated.
    #[arg(long, value_name = "ID", allow_hyphen_values = true, conflicts_with = "drop")]
    pub remove: Vec<String>,
    /// Drop the prior with all its values.
    #[arg(long)]
    pub drop: bool,
}

/// Gives points a value of a prior, takes values away, or shows the prior.
pub(crate) fn run(context: &Context, command: &PriorArgs) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    let name: Name = command.prior.parse()?;
    if command.drop {
        collection.drop_prior(&name)?;
        let result = json!({ "collection": command.collection, "prior": name.as_str(), "dropped": true });
        context.output.result(&result, || format!("dropped prior `{name}`"))?;
        return Ok(Outcome::Done);
    }
    let (given, removed) = match &command.file {
        Some(file) => (give(context, command, file, &collection, &name)?, 0),
        None => (0, remove(command, &collection, &name)?),
    };
    let snapshot = collection.snapshot();
    let Some(prior) = snapshot.prior(name.as_str()) else {
        let names: Vec<&str> = snapshot.priors().map(|(name, _)| name.as_str()).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("there is no prior `{name}`; the collection has: {found}");
    };
    let info = prior.info();
    let result = json!({
        "collection": command.collection,
        "prior": name.as_str(),
        "given": given,
        "removed": removed,
        "count": prior.given(),
        "points": snapshot.len(),
        "min": info.map(|info| info.min),
        "mean": info.map(|info| info.mean),
        "max": info.map(|info| info.max),
    });
    context.output.result(&result, || describe(&name, prior, info, snapshot.len()))?;
    Ok(Outcome::Done)
}

fn describe(name: &Name, prior: &Prior, info: Option<PriorInfo>, points: usize) -> String {
    let given = prior.given();
    let range = info.map_or(String::new(), |PriorInfo { min, mean, max, .. }| {
        format!(": {min} to {max}, {mean:.4} on average")
    });
    format!("prior `{name}`: {given} of {points} points have a value{range}\n")
}

fn remove(command: &PriorArgs, collection: &Collection, name: &Name) -> anyhow::Result<usize> {
    if command.remove.is_empty() {
        return Ok(0);
    }
    let ids = command.remove.iter().map(|id| PointId::parse(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(collection.unset_prior(name, &ids)?.deleted)
}

/// Gives the values of a file, which is read as a whole first.
fn give(
    context: &Context,
    command: &PriorArgs,
    file: &Path,
    collection: &Collection,
    name: &Name,
) -> anyhow::Result<usize> {
    let field = command.field.as_deref().unwrap_or(name.as_str());
    let bar = context.output.progress("reading", None);
    let is_lines = dehub_format::format_of(file, command.format.format)? == Format::Jsonl;
    let values = if is_lines { lines(command, file, field)? } else { rows(command, file, field)? };
    bar.finish_and_clear();
    for values in values.chunks(BATCH_POINTS_MAX) {
        collection.set_prior(name, values)?;
    }
    Ok(values.len())
}

/// Of a JSON lines file, which need not have vectors.
fn lines(command: &PriorArgs, file: &Path, field: &str) -> anyhow::Result<Vec<(PointId, f32)>> {
    let VectorFile { id_field, text_field, dataset, limit, .. } = &command.format;
    let options = ReadOptions {
        batch_rows: BATCH_ROWS,
        id_field: id_field.clone(),
        text_field: text_field.clone(),
        dataset: dataset.clone(),
        rows: limit.map(|limit| 0..limit),
        ..ReadOptions::default()
    };
    let mut values = Vec::new();
    for batch in dehub_format::open_fields(file, options)? {
        let batch = batch?;
        let ids = batch.ids.into_iter().flatten().map(Some);
        let payloads = batch.payloads.into_iter().flatten();
        let mut ids = ids.chain(std::iter::repeat(None));
        let mut payloads = payloads.chain(std::iter::repeat(None));
        for number in (batch.first_row..).take(batch.rows) {
            let (id, payload) = (ids.next().flatten(), payloads.next().flatten());
            values.push(value(file, number, id, payload.as_ref(), field)?);
        }
    }
    Ok(values)
}

/// Of a file with vectors, which are passed over.
fn rows(command: &PriorArgs, file: &Path, field: &str) -> anyhow::Result<Vec<(PointId, f32)>> {
    let mut values = Vec::new();
    for batch in load::open(file, &command.format, None)? {
        for row in load::rows(file, batch?)? {
            let payload = row.payload.as_ref().map(|payload| serde_json::from_str(payload.as_json()));
            let payload: Option<Map<String, Value>> = payload.transpose()?;
            values.push(value(file, row.number, row.id, payload.as_ref(), field)?);
        }
    }
    Ok(values)
}

#[expect(clippy::cast_possible_truncation, reason = "values are kept in 32 bits, and checked as such")]
fn value(
    file: &Path,
    number: u64,
    id: Option<PointId>,
    fields: Option<&Map<String, Value>>,
    field: &str,
) -> anyhow::Result<(PointId, f32)> {
    let place = || format!("{}: row {number}", file.display());
    let id = id.with_context(|| format!("{}: it has no id", place()))?;
    let found = fields.and_then(|fields| fields.get(field));
    match found.and_then(Value::as_f64) {
        Some(value) => Ok((id, value as f32)),
        None => {
            let found = found.map_or_else(|| "no such field".to_owned(), Value::to_string);
            bail!("{}: field {field}: wanted a number, found {found}", place())
        }
    }
}

/// Reads `NAME=WEIGHT` of a search. A name may have `=` in it, and a weight has none.
pub(crate) fn weight(text: &str) -> anyhow::Result<(String, f32)> {
    let wanted = || format!("wanted NAME=WEIGHT, such as popularity=0.2, found {text:?}");
    let (name, weight) = text.rsplit_once('=').with_context(wanted)?;
    let weight = weight.parse::<f32>().ok().filter(|weight| weight.is_finite()).with_context(wanted)?;
    Ok((name.to_owned(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_what_follows_the_last_equals_sign() {
        assert_eq!(weight("popularity=0.2").expect("good"), ("popularity".to_owned(), 0.2));
        assert_eq!(weight("IS(beta=20)=-1").expect("good"), ("IS(beta=20)".to_owned(), -1.0));
        for bad in ["popularity", "popularity=", "p=inf", "p=NaN", "p=x"] {
            assert!(weight(bad).expect_err(bad).to_string().contains("NAME=WEIGHT"));
        }
    }
}
