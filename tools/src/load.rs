//! Files as points, bank entries and queries.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use dehub_format::{ReadOptions, Reader};
use dehub_index::{CollectionConfig, Payload, PointInput};
use dehub_query::LabelledQuery;
use dehub_vector::{Metric, Numbers, PointId, Vector};

use crate::cli::VectorFile;
pub(crate) use crate::judged::qrels;
use crate::load_multi;

/// Rows read and stored at once.
pub(crate) const BATCH_ROWS: usize = 1024;

/// One row of a file.
pub(crate) struct Row {
    /// Its number in the file, from 0.
    pub number: u64,
    /// Its id, if the file has ids.
    pub id: Option<PointId>,
    /// Its vector, or vectors, unchecked.
    pub vector: Numbers,
    /// Its text.
    pub text: Option<String>,
    /// Its other fields, as a JSON object.
    pub payload: Option<Payload>,
}

impl Row {
    /// The row as a point; without an id it gets its number.
    pub(crate) fn into_point(self) -> PointInput {
        let id = self.id.unwrap_or(PointId::Number(self.number));
        PointInput { id, vector: self.vector, named: Vec::new(), payload: self.payload, text: self.text }
    }

    /// The row as a query.
    pub(crate) fn query(&self, file: &Path, config: &CollectionConfig) -> anyhow::Result<Vector> {
        config.vector(&self.vector).with_context(|| format!("{}: row {}", file.display(), self.number))
    }
}

/// Opens a file of vectors, for a collection of `metric` if they matter. A file that says it is for another metric is
/// refused, unless that is passed over.
pub(crate) fn open(file: &Path, format: &VectorFile, metric: Option<Metric>) -> anyhow::Result<Reader> {
    let reader = dehub_format::open(file, read_options(format))?;
    if let (Some(metric), false) = (metric, format.any_distance) {
        check_metric(file, &reader, metric)?;
    }
    Ok(reader)
}

/// How a file is to be read.
pub(crate) fn read_options(format: &VectorFile) -> ReadOptions {
    ReadOptions {
        batch_rows: BATCH_ROWS,
        id_field: format.id_field.clone(),
        vector_field: format.vector_field.clone(),
        text_field: format.text_field.clone(),
        leave_out: format.leave_out.clone(),
        format: format.format,
        dataset: format.dataset.clone(),
        metadata: format.meta.clone(),
        rows: format.limit.map(|limit| 0..limit),
    }
}

fn check_metric(file: &Path, reader: &Reader, metric: Metric) -> anyhow::Result<()> {
    match reader.metric() {
        Some(found) if found != metric => bail!(
            "{}: wanted vectors for {metric}, as the collection has, found an attribute distance that says {found}; \
             --any-distance passes over it",
            file.display()
        ),
        Some(_) | None => Ok(()),
    }
}

/// The rows of a batch.
pub(crate) fn rows(file: &Path, batch: dehub_format::Batch) -> anyhow::Result<Vec<Row>> {
    let count = batch.vectors.len();
    let mut ids = optional(batch.ids, count);
    let mut texts = optional(batch.texts, count).map(Option::flatten);
    let mut payloads = optional(batch.payloads, count).map(Option::flatten);
    let mut rows = Vec::with_capacity(count);
    for (number, vector) in (batch.first_row..).zip(batch.vectors.iter()) {
        let fields = payloads.next().flatten().filter(|fields| !fields.is_empty());
        let payload = fields.map(|fields| Payload::parse(&serde_json::Value::Object(fields).to_string()));
        let payload = payload.transpose().with_context(|| format!("{}: row {number}", file.display()))?;
        rows.push(Row {
            number,
            id: ids.next().flatten(),
            vector: vector.to_vec().into(),
            text: texts.next().flatten(),
            payload,
        });
    }
    Ok(rows)
}

fn optional<T>(column: Option<Vec<T>>, count: usize) -> impl Iterator<Item = Option<T>> {
    let missing = if column.is_none() { count } else { 0 };
    column.into_iter().flatten().map(Some).chain(std::iter::repeat_with(|| None).take(missing))
}

/// The rows of a file, some at a time.
pub(crate) struct Batches {
    /// How many there are, if the file tells.
    pub rows_total: Option<u64>,
    batches: Box<dyn Iterator<Item = anyhow::Result<Vec<Row>>>>,
}

impl Iterator for Batches {
    type Item = anyhow::Result<Vec<Row>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

/// Opens a file for a collection of this kind: of a vector a row, or where its points have several vectors of a list
/// of vectors a row. As in [`open`], `metric` is what the file is to be for.
pub(crate) fn batches(
    file: &Path,
    format: &VectorFile,
    config: &CollectionConfig,
    metric: Option<Metric>,
) -> anyhow::Result<Batches> {
    if config.multi {
        return load_multi::open(file, format);
    }
    let reader = open(file, format, metric)?;
    let (rows_total, file) = (reader.rows_total(), file.to_owned());
    Ok(Batches { rows_total, batches: Box::new(reader.map(move |batch| rows(&file, batch?))) })
}

impl Batches {
    /// Of a file that does not tell how many rows it has.
    pub(crate) fn new(batches: impl Iterator<Item = anyhow::Result<Vec<Row>>> + 'static) -> Batches {
        Batches { rows_total: None, batches: Box::new(batches) }
    }
}

/// Every row of a file as a query of a collection.
pub(crate) fn queries(file: &Path, config: &CollectionConfig) -> anyhow::Result<Vec<Vector>> {
    chosen_queries(file, &VectorFile::default(), config)
}

/// The rows of a file that the options take, as queries of a collection.
pub(crate) fn chosen_queries(
    file: &Path,
    format: &VectorFile,
    config: &CollectionConfig,
) -> anyhow::Result<Vec<Vector>> {
    all(batches(file, format, config, Some(config.metric))?, |row| row.query(file, config))
}

/// The vectors of a file, unchecked.
pub(crate) fn vectors(file: &Path, format: &VectorFile) -> anyhow::Result<Vec<Vec<f32>>> {
    let file = file.to_owned();
    let reader = open(&file, format, None)?;
    all(Batches::new(reader.map(move |batch| rows(&file, batch?))), |row| Ok(row.vector.to_vec()))
}

/// The rows of a file as queries with the ids their judgements are under.
pub(crate) fn labelled_queries(
    file: &Path,
    format: &VectorFile,
    config: &CollectionConfig,
) -> anyhow::Result<Vec<LabelledQuery>> {
    all(batches(file, format, config, Some(config.metric))?, |row| {
        let Some(id) = &row.id else {
            bail!(
                "{}: the queries have no ids, so no judgement can be found: name a .jsonl file with --meta",
                file.display()
            );
        };
        Ok(LabelledQuery { id: id.to_string(), vector: row.query(file, config)?, text: row.text.clone() })
    })
}

/// Reads a file of ids, one a line; `-` is standard input. Empty lines are passed over.
pub(crate) fn ids(file: &Path) -> anyhow::Result<Vec<PointId>> {
    let (name, text) = if file == Path::new("-") {
        ("standard input".to_owned(), io::read_to_string(io::stdin()))
    } else {
        (file.display().to_string(), fs::read_to_string(file))
    };
    let text = text.with_context(|| name.clone())?;
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    lines
        .map(|(line, number)| PointId::parse(line).with_context(|| format!("{name}: line {number}")))
        .collect()
}

fn all<T>(batches: Batches, read: impl Fn(&Row) -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
    let mut found = Vec::new();
    for batch in batches {
        for row in batch? {
            found.push(read(&row)?);
        }
    }
    Ok(found)
}
