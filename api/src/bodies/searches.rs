//! Queries in other forms than JSON, and their answers as an Arrow stream.

use dehub_format::{Column, TableFormat, write_arrow};
use dehub_query::{BATCH_QUERIES_MAX, Source};
use dehub_vector::PointId;
use serde_json::{Map, Value};

use crate::bodies::sinks::{no_named_vectors, no_others, no_texts};
use crate::bodies::{LEAVE_OUT, LineBatch, open, refused};
use crate::call::Task;
use crate::decode;
use crate::errors::{BATCH_TOO_LARGE, INTERNAL, INVALID_ID, MISSING_FIELD, UNKNOWN_PARAMETER};
use crate::problem::Problem;

/// The parameter with what the queries of a table have in common, as JSON: the fields of a query beside `query`.
pub(crate) const SETTINGS: &str = "settings";

/// The queries of a table.
pub(crate) struct Questions {
    /// What to search for: the vector of a row, or the stored point of its `id`.
    pub(crate) sources: Vec<Source>,
    /// The column `query_id`, if there is one.
    pub(crate) labels: Option<Vec<PointId>>,
    /// What they have in common.
    pub(crate) settings: Map<String, Value>,
}

/// Reads the queries of a table: a column `vector`, or `id` of stored points, and perhaps `query_id`.
pub(crate) fn of_table(
    task: &Task,
    format: TableFormat,
    bytes: Vec<u8>,
    bytes_max: usize,
) -> Result<Questions, Problem> {
    let settings = settings(task)?;
    let (mut sources, mut labels) = (Vec::new(), Vec::new());
    for batch in open(format, bytes, bytes_max, task.parameters.text(LEAVE_OUT))? {
        let batch = batch.map_err(|error| refused(&error))?;
        let first = batch.first_row;
        no_texts(batch.texts.as_deref(), first)?;
        for (row, others) in (first..).zip(batch.payloads.into_iter().flatten()) {
            let mut others = others.unwrap_or_default();
            let label = others.shift_remove("query_id");
            no_named_vectors(row, &others)?;
            no_others(row, &others, "vector or id, and query_id")?;
            labels.push(label.map(|label| label_of(row, label)).transpose()?);
        }
        match (batch.vectors, batch.ids) {
            (Some(vectors), None) => {
                sources.extend(vectors.iter().map(|vector| Source::vector(vector.to_vec())));
            }
            (None, Some(ids)) => sources.extend(ids.into_iter().map(Source::Point)),
            (Some(_), Some(_)) => {
                let detail = "the body has columns of vectors and of ids, wanted one of them to search by";
                return Err(Problem::new(MISSING_FIELD, detail).at("/columns"));
            }
            (None, None) => {
                let detail = "the body has neither a column of vectors nor one of ids to search by";
                return Err(Problem::new(MISSING_FIELD, detail).at("/columns").wanted("vector or id"));
            }
        }
        if sources.len() > BATCH_QUERIES_MAX {
            let detail = format!("the body has more queries than {BATCH_QUERIES_MAX}, the most of a batch");
            let problem = Problem::new(BATCH_TOO_LARGE, detail).at(format_args!("/rows/{BATCH_QUERIES_MAX}"));
            return Err(problem.wanted(format_args!("at most {BATCH_QUERIES_MAX} queries")));
        }
        labels.resize(sources.len(), None);
    }
    Ok(Questions { labels: complete(labels)?, sources, settings })
}

/// Labels of all rows or of none.
fn complete(labels: Vec<Option<PointId>>) -> Result<Option<Vec<PointId>>, Problem> {
    if labels.iter().all(Option::is_none) {
        return Ok(None);
    }
    let of_row = |(row, label): (usize, Option<PointId>)| {
        let missing = || Problem::new(INVALID_ID, format!("row {row} has no `query_id`, others have one"));
        label.ok_or_else(|| missing().at(format_args!("/rows/{row}/query_id")))
    };
    labels.into_iter().enumerate().map(of_row).collect::<Result<_, _>>().map(Some)
}

fn label_of(row: u64, value: Value) -> Result<PointId, Problem> {
    let body = decode::Place::Body;
    let rows = body.field("rows");
    let row = rows.entry(usize::try_from(row).unwrap_or(usize::MAX));
    decode::id(value, row.field("query_id"))
}

/// The fields of the parameter [`SETTINGS`].
fn settings(task: &Task) -> Result<Map<String, Value>, Problem> {
    let Some(text) = task.parameters.text(SETTINGS) else { return Ok(Map::new()) };
    let value = decode::body(text.as_bytes()).map_err(|problem| problem.in_parameter(SETTINGS))?;
    match value {
        Value::Object(map) if !map.contains_key("query") => Ok(map),
        Value::Object(_) => {
            Err(task.parameters.refused(SETTINGS, text, "the fields of a query other than `query`"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(task.parameters.refused(SETTINGS, text, "a JSON object"))
        }
    }
}

/// Refuses the parameters of tables where every query has its own settings, and no columns.
pub(crate) fn no_settings(task: &Task) -> Result<(), Problem> {
    let given = |name: &&str| task.parameters.text(name).is_some();
    let Some(name) = [SETTINGS, LEAVE_OUT].into_iter().find(given) else { return Ok(()) };
    let detail =
        format!("the parameter `{name}` goes with tables: a query of JSON has its settings beside it");
    Err(Problem::new(UNKNOWN_PARAMETER, detail).in_parameter(name))
}

/// Every line as a query, read by `read` with its number from 0.
pub(crate) fn of_lines<T>(
    lines: &LineBatch,
    mut read: impl FnMut(Value, decode::Place<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    for (row, line) in lines.iter() {
        if all.len() == BATCH_QUERIES_MAX {
            let detail = format!("the body has more queries than {BATCH_QUERIES_MAX}, the most of a batch");
            let problem = Problem::new(BATCH_TOO_LARGE, detail).at(format_args!("/rows/{row}"));
            return Err(problem.wanted(format_args!("at most {BATCH_QUERIES_MAX} queries")).line(row + 1));
        }
        all.push(crate::bodies::rows::decode_line(row, line, &mut read)?);
    }
    Ok(all)
}

/// A hit in a table of answers.
pub(crate) struct HitRow {
    pub(crate) id: PointId,
    pub(crate) score: f32,
    pub(crate) raw_score: Option<f32>,
    pub(crate) bias: Option<f32>,
    pub(crate) payload: Option<String>,
}

/// The hits of queries as an Arrow stream, a row for each: `query` (the number of the query, from 0), `rank` (from 1),
/// `id`, `score`, `raw_score`, `bias`, and `query_id` and `payload` (JSON) if they were asked for.
pub(crate) fn to_arrow(
    answers: &[Vec<HitRow>],
    labels: Option<&[PointId]>,
    has_payloads: bool,
) -> Result<Vec<u8>, Problem> {
    let hits = || answers.iter().flatten();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let each = |(query, answer): (usize, &Vec<HitRow>)| std::iter::repeat_n(count(query), answer.len());
    let queries = answers.iter().enumerate().flat_map(each).collect();
    let ranks = answers.iter().flat_map(|answer| 1..=count(answer.len())).collect();
    let mut columns = vec![
        ("query", Column::Whole(queries)),
        ("rank", Column::Whole(ranks)),
        ("id", Column::Ids(hits().map(|hit| hit.id.clone()).collect())),
        ("score", Column::Numbers(hits().map(|hit| Some(hit.score)).collect())),
        ("raw_score", Column::Numbers(hits().map(|hit| hit.raw_score).collect())),
        ("bias", Column::Numbers(hits().map(|hit| hit.bias).collect())),
    ];
    if let Some(labels) = labels {
        let of = |(label, answer): (&PointId, &Vec<HitRow>)| std::iter::repeat_n(label.clone(), answer.len());
        let labels = labels.iter().zip(answers).flat_map(of).collect();
        columns.push(("query_id", Column::Ids(labels)));
    }
    if has_payloads {
        columns.push(("payload", Column::Texts(hits().map(|hit| hit.payload.clone()).collect())));
    }
    write_arrow(columns, []).map_err(|error| Problem::new(INTERNAL, error.to_string()))
}
