//! `dehub import` of points whose vectors have names.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use dehub_format::{Format, ReadOptions, open_fields, open_parquet};
use dehub_index::{Collection, NamedVector, Payload, PointInput, Snapshot};
use dehub_vector::{Numbers, PointId};
use serde_json::{Map, Value};

use super::import::{Checked, Stored, refusal, report};
use super::{Context, Outcome};
use crate::cli::Import;
use crate::load::BATCH_ROWS;
use crate::load_multi::{numbers, shown};

/// The field of vectors, and what comes before their names, if no other is asked for.
const VECTOR: &str = "vector";

/// Rows by their numbers in the file, from 0: points, or what is wrong with them.
type Points = Vec<(u64, anyhow::Result<PointInput>)>;

/// Rows of a file in the columns they have beside vectors.
struct Fields {
    first_row: u64,
    rows: usize,
    ids: Option<Vec<PointId>>,
    payloads: Option<Vec<Option<Map<String, Value>>>>,
    texts: Option<Vec<Option<String>>>,
}

/// Adds the points of a file.
pub(super) fn run(context: &Context, command: &Import, collection: &Collection) -> anyhow::Result<Outcome> {
    if command.alarm.is_some() {
        bail!("--alarm is about points with one vector, and those of `{}` have names", command.collection);
    }
    let checked = check(context, command, collection)?;
    if !checked.refused.is_empty() && !command.skip_bad {
        bail!(refusal(&checked));
    }
    let mut stored = Stored::default();
    if !command.dry_run {
        store(context, command, collection, &checked, &mut stored)?;
        context.tend(collection)?;
    }
    report(context, command, collection, &checked, &stored)?;
    Ok(if checked.refused.is_empty() { Outcome::Done } else { Outcome::SomeRefused })
}

fn check(context: &Context, command: &Import, collection: &Collection) -> anyhow::Result<Checked> {
    let bar = context.output.progress("checking", None);
    let (file, snapshot) = (command.file.display(), collection.snapshot());
    let mut checked = Checked::default();
    let mut seen: HashMap<PointId, u64> = HashMap::new();
    for batch in open(command)? {
        for (number, point) in batch? {
            checked.rows += 1;
            let good = point
                .and_then(|point| check_vectors(&command.file, number, &point, &snapshot).map(|()| point.id));
            match good {
                Err(error) => checked.refused.push((number, format!("{error:#}"))),
                Ok(id) => {
                    if let Some(&first) = seen.get(&id) {
                        let found = format!("found {id}, which row {first} has");
                        let reason = format!("{file}: row {number}, field id: wanted each id once, {found}");
                        checked.refused.push((number, reason));
                    } else {
                        seen.insert(id, number);
                    }
                }
            }
        }
        bar.set_position(checked.rows);
    }
    bar.finish_and_clear();
    Ok(checked)
}

fn check_vectors(file: &Path, number: u64, point: &PointInput, snapshot: &Snapshot) -> anyhow::Result<()> {
    let file = file.display();
    for NamedVector { name, vector } in &point.named {
        let Some((_, space)) = snapshot.spaces().find(|(own, _)| *own == name) else {
            let names: Vec<&str> = snapshot.spaces().map(|(name, _)| name.as_str()).collect();
            bail!(
                "{file}: row {number}: there is no vector `{name}`; the collection has: {}",
                names.join(", ")
            );
        };
        let config = space.config();
        config.vector(vector).with_context(|| format!("{file}: row {number}, vector `{name}`"))?;
    }
    Ok(())
}

fn store(
    context: &Context,
    command: &Import,
    collection: &Collection,
    checked: &Checked,
    stored: &mut Stored,
) -> anyhow::Result<()> {
    let bar = context.output.progress("storing", Some(checked.rows));
    let mut refused = checked.refused.iter().map(|&(number, _)| number).peekable();
    for batch in open(command)? {
        let rows = batch?;
        let last = rows.last().map_or(0, |&(number, _)| number);
        let good = rows.into_iter().filter(|&(number, _)| refused.next_if_eq(&number).is_none());
        let points = good.map(|(_, point)| point).collect::<anyhow::Result<Vec<_>>>()?;
        let receipt = collection.upsert(&points).with_context(|| {
            format!("{}: the rows up to {last} of which earlier batches are stored", command.file.display())
        })?;
        stored.added += receipt.added;
        stored.replaced += receipt.replaced;
        bar.set_position(last + 1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Opens the file that a command names.
fn open(command: &Import) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<Points>> + '_>> {
    let (path, format) = (&command.file, &command.format);
    let file = path.display();
    if format.meta.is_some() {
        bail!("{file}: --meta goes with a file that has one vector in each row");
    }
    let options = ReadOptions {
        batch_rows: BATCH_ROWS,
        id_field: format.id_field.clone(),
        text_field: format.text_field.clone(),
        leave_out: format.leave_out.clone(),
        dataset: format.dataset.clone(),
        rows: format.limit.map(|limit| 0..limit),
        ..ReadOptions::default()
    };
    let vector = format.vector_field.as_deref().unwrap_or(VECTOR);
    let found = dehub_format::format_of(path, format.format)?;
    if found == Format::Jsonl {
        return Ok(Box::new(open_fields(path, options)?.map(move |batch| {
            let batch = batch?;
            let (first_row, rows) = (batch.first_row, batch.rows);
            let fields =
                Fields { first_row, rows, ids: batch.ids, payloads: batch.payloads, texts: batch.texts };
            Ok(fields.points(path, vector))
        })));
    }
    if found == Format::Parquet {
        return Ok(Box::new(open_parquet(path, &options)?.map(move |batch| {
            let batch = batch?;
            if batch.vectors.is_some() {
                bail!(
                    "{}: a column has vectors without a name, wanted columns {vector}.NAME",
                    path.display()
                );
            }
            let (first_row, rows) = (batch.first_row, batch.rows);
            let fields =
                Fields { first_row, rows, ids: batch.ids, payloads: batch.payloads, texts: batch.texts };
            Ok(fields.points(path, vector))
        })));
    }
    bail!(
        "{file}: wanted a .parquet, .pq, .jsonl or .ndjson file, as the vectors of `{}` have names, found {found}",
        command.collection
    )
}

impl Fields {
    fn points(self, file: &Path, vector: &str) -> Points {
        let Fields { first_row, rows, ids, payloads, texts } = self;
        let mut ids = ids.unwrap_or_default().into_iter();
        let mut payloads = payloads.unwrap_or_default().into_iter();
        let mut texts = texts.unwrap_or_default().into_iter();
        let point = |number: u64| {
            let (id, text) = (ids.next(), texts.next().flatten());
            let mut fields = payloads.next().flatten().unwrap_or_default();
            let point = named_vectors(vector, &mut fields).and_then(|named| {
                let payload =
                    (!fields.is_empty()).then(|| Payload::parse(&Value::Object(fields).to_string()));
                let (id, payload) = (id.unwrap_or(PointId::Number(number)), payload.transpose()?);
                Ok(PointInput { id, vector: Numbers::default(), named, payload, text })
            });
            (number, point.map_err(|error| anyhow::anyhow!("{}: row {number}, {error:#}", file.display())))
        };
        (first_row..).take(rows).map(point).collect()
    }
}

/// Takes the vectors out of a row: those in the object `field`, and those in fields `field.NAME`, where null is none.
fn named_vectors(field: &str, fields: &mut Map<String, Value>) -> anyhow::Result<Vec<NamedVector>> {
    let mut found = match fields.shift_remove(field) {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(vectors)) => vectors,
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_))) => {
            bail!("field {field}: wanted an object of vectors under their names, found {}", shown(&other))
        }
    };
    let name = |column: &String| Some(column.strip_prefix(field)?.strip_prefix('.')?.to_owned());
    let columns: Vec<(String, String)> =
        fields.keys().filter_map(|column| Some((column.clone(), name(column)?))).collect();
    for (column, name) in columns {
        let value = fields.shift_remove(&column);
        if found.insert(name, value.unwrap_or_default()).is_some() {
            bail!("field {column}: wanted one vector, found two");
        }
    }
    let given = found.into_iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| named_vector(field, &name, &value)).collect()
}

fn named_vector(field: &str, name: &str, value: &Value) -> anyhow::Result<NamedVector> {
    let vector = numbers(value).with_context(|| format!("field {field}.{name}"))?;
    let name = name.parse().with_context(|| format!("field {field}.{name}"))?;
    Ok(NamedVector { name, vector })
}
