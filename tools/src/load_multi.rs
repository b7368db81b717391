//! Files of points, bank entries and queries that have several vectors each: a row has a list of vectors.

use std::path::Path;

use anyhow::{Context as _, bail};
use dehub_format::{Format, open_fields, open_parquet};
use dehub_index::Payload;
use dehub_vector::{Numbers, PointId};
use serde_json::{Map, Value};

use crate::cli::VectorFile;
use crate::load::{Batches, Row, read_options};

/// The field of vectors, if no other is asked for.
const VECTOR: &str = "vector";

/// Rows of a file in the columns they have, vectors among the other fields.
struct Fields {
    first_row: u64,
    rows: usize,
    ids: Option<Vec<PointId>>,
    payloads: Option<Vec<Option<Map<String, Value>>>>,
    texts: Option<Vec<Option<String>>>,
}

/// Opens a file of rows with lists of vectors.
pub(crate) fn open(file: &Path, format: &VectorFile) -> anyhow::Result<Batches> {
    let path = file.to_owned();
    if format.meta.is_some() {
        bail!("{}: --meta goes with a file that has one vector in each row", file.display());
    }
    let vector = format.vector_field.clone().unwrap_or_else(|| VECTOR.to_owned());
    // Vectors are read as any other field is.
    let options = dehub_format::ReadOptions { vector_field: None, ..read_options(format) };
    let found = dehub_format::format_of(file, format.format)?;
    if found == Format::Jsonl {
        return Ok(Batches::new(open_fields(file, options)?.map(move |batch| {
            let batch = batch?;
            let (first_row, rows) = (batch.first_row, batch.rows);
            let (ids, payloads, texts) = (batch.ids, batch.payloads, batch.texts);
            Fields { first_row, rows, ids, payloads, texts }.rows(&path, &vector)
        })));
    }
    if found == Format::Parquet {
        return Ok(Batches::new(open_parquet(file, &options)?.map(move |batch| {
            let batch = batch?;
            if batch.vectors.is_some() {
                bail!("{}: a row has one vector, wanted a column of lists of vectors", path.display());
            }
            let (first_row, rows) = (batch.first_row, batch.rows);
            let (ids, payloads, texts) = (batch.ids, batch.payloads, batch.texts);
            Fields { first_row, rows, ids, payloads, texts }.rows(&path, &vector)
        })));
    }
    let file = file.display();
    bail!("{file}: wanted a .jsonl or .parquet file, as points have several vectors, found {found}")
}

impl Fields {
    fn rows(self, file: &Path, field: &str) -> anyhow::Result<Vec<Row>> {
        let Fields { first_row, rows, ids, payloads, texts } = self;
        let mut ids = ids.unwrap_or_default().into_iter();
        let mut payloads = payloads.unwrap_or_default().into_iter();
        let mut texts = texts.unwrap_or_default().into_iter();
        let mut row = |number: u64| {
            let mut fields = payloads.next().flatten().unwrap_or_default();
            let place = || format!("{}: row {number}, field {field}", file.display());
            let vector = fields.shift_remove(field).unwrap_or_default();
            let vector = numbers(&vector).with_context(place)?;
            let payload = (!fields.is_empty()).then(|| Payload::parse(&Value::Object(fields).to_string()));
            let payload = payload.transpose().with_context(|| format!("{}: row {number}", file.display()))?;
            Ok(Row { number, id: ids.next(), vector, text: texts.next().flatten(), payload })
        };
        (first_row..).take(rows).map(&mut row).collect()
    }
}

/// Reads a vector, or the vectors of a multi-vector.
pub(crate) fn numbers(value: &Value) -> anyhow::Result<Numbers> {
    let wrong = |found: &Value| {
        anyhow::anyhow!("wanted an array of numbers, or of such arrays, found {}", shown(found))
    };
    let Value::Array(values) = value else { return Err(wrong(value)) };
    let number = |(coordinate, value): (usize, &Value)| {
        let number = value.as_f64().ok_or_else(|| wrong(value))?;
        #[expect(clippy::cast_possible_truncation, reason = "checked to stay finite")]
        let narrowed = number as f32;
        if !narrowed.is_finite() {
            bail!("coordinate {coordinate}: wanted a number that fits 32 bits, found {number:?}");
        }
        Ok(narrowed)
    };
    if !matches!(values.first(), Some(Value::Array(_))) {
        return Ok(values.iter().enumerate().map(number).collect::<anyhow::Result<Vec<_>>>()?.into());
    }
    let one = |value: &Value| {
        let Value::Array(values) = value else { return Err(wrong(value)) };
        values.iter().enumerate().map(number).collect::<anyhow::Result<Vec<_>>>()
    };
    Ok(Numbers::multi(&values.iter().map(one).collect::<anyhow::Result<Vec<_>>>()?)?)
}

/// A value as a message shows it: short.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(values) => format!("an array of {}", values.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}
