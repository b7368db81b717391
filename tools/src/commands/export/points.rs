//! Points and their vectors, with ids.

use std::path::PathBuf;

use dehub_format::{Column, Format, Kind, WriteOptions, Writer};
use dehub_index::{Point, Snapshot};
use dehub_query::Filter;
use dehub_vector::PointId;
use serde_json::json;

use super::destination::Destination;
use super::{Context, Matrix, batches, lines, matrix_writer};
use crate::cli::ExportFile;

/// Writes ids, vectors, texts and payloads.
pub(super) fn run(
    context: &Context,
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    file: &ExportFile,
) -> anyhow::Result<()> {
    let config = snapshot.config();
    if config.multi {
        anyhow::bail!("points of several vectors cannot be exported to a table yet: the REST API lists them");
    }
    let scope = snapshot.scope();
    let scope = filter.map_or(Ok(scope.clone()), |filter| filter.within(snapshot, &scope))?;
    let (rows, destination) = (scope.rows().collect::<Vec<u32>>(), Destination::new(context, file)?);
    let name = snapshot.space_name().map_or("vector".to_owned(), |name| format!("vector.{name}"));
    let matrix = Matrix { name, dim: config.dim.get(), metric: config.metric };
    let of = |row: u32, line: &mut Vec<f32>| line.extend(snapshot.vector(row));
    let files = write_vectors(context, snapshot, &destination, &rows, &matrix, &of)?;
    let told = json!({ "what": "points", "rows": rows.len(), "dim": matrix.dim });
    destination.tell(context, snapshot, told, &files)
}

/// Writes vectors with ids, texts and payloads: in one table, or beside the matrix.
pub(super) fn write_vectors(
    context: &Context,
    snapshot: &Snapshot,
    destination: &Destination,
    rows: &[u32],
    matrix: &Matrix,
    of: &dyn Fn(u32, &mut Vec<f32>),
) -> anyhow::Result<Vec<PathBuf>> {
    if destination.form.is_matrix() {
        return write_matrix(context, snapshot, destination, rows, matrix, of);
    }
    let kinds = vec![
        ("id".to_owned(), id_kind(context, snapshot, destination, rows)?),
        (matrix.name.clone(), Kind::Vectors(matrix.dim)),
        ("text".to_owned(), Kind::Texts),
        ("payload".to_owned(), Kind::Json),
    ];
    let mut writer = Writer::create(destination.path(), kinds, &destination.options()?)?;
    batches(context, rows, |batch| {
        let points = snapshot.points(batch)?;
        let vectors = Column::Vectors(lines(batch, matrix.dim, of)?);
        let (texts, payloads) = rest(&points);
        Ok(writer.write(vec![ids(destination, &points), vectors, texts, payloads])?)
    })?;
    writer.finish()?;
    Ok(vec![destination.path().to_owned()])
}

/// Writes a matrix, and beside it the ids, texts and payloads of its rows.
pub(super) fn write_matrix(
    context: &Context,
    snapshot: &Snapshot,
    destination: &Destination,
    rows: &[u32],
    matrix: &Matrix,
    of: &dyn Fn(u32, &mut Vec<f32>),
) -> anyhow::Result<Vec<PathBuf>> {
    let (mut beside, path) = ids_writer(destination)?;
    let mut writer = matrix_writer(destination, matrix)?;
    batches(context, rows, |batch| {
        writer.write(vec![Column::Vectors(lines(batch, matrix.dim, of)?)])?;
        let points = snapshot.points(batch)?;
        let (texts, payloads) = rest(&points);
        Ok(beside.write(vec![json_ids(points.iter().map(|point| &point.id)), texts, payloads])?)
    })?;
    beside.finish()?;
    writer.finish()?;
    Ok(vec![destination.path().to_owned(), path])
}

/// A writer of FILE.ids.jsonl, as `--meta` reads it.
pub(super) fn ids_writer(destination: &Destination) -> anyhow::Result<(Writer, PathBuf)> {
    let path = destination.beside(".ids.jsonl")?;
    let options = WriteOptions { format: Some(Format::Jsonl), metric: None };
    let kinds = [("id", Kind::Json), ("text", Kind::Texts), ("payload", Kind::Json)];
    let kinds = kinds.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
    Ok((Writer::create(&path, kinds, &options)?, path))
}

/// How ids are written. A table has them all as numbers or all as texts; JSON tells them apart.
pub(super) fn id_kind(
    context: &Context,
    snapshot: &Snapshot,
    destination: &Destination,
    rows: &[u32],
) -> anyhow::Result<Kind> {
    if destination.is_json() {
        return Ok(Kind::Json);
    }
    let mut numbers = 0;
    for batch in rows.chunks(crate::load::BATCH_ROWS) {
        let points = snapshot.points(batch)?;
        numbers += points.iter().filter(|point| matches!(point.id, PointId::Number(_))).count();
    }
    if numbers == rows.len() {
        return Ok(Kind::NumberIds);
    }
    if numbers > 0 {
        context.output.note(format!("{numbers} ids are numbers and others texts: all are written as texts"));
    }
    Ok(Kind::TextIds)
}

/// The ids of points, as [`id_kind`] says.
pub(super) fn ids(destination: &Destination, points: &[Point]) -> Column {
    if destination.is_json() {
        return json_ids(points.iter().map(|point| &point.id));
    }
    Column::Ids(points.iter().map(|point| point.id.clone()).collect())
}

/// Ids as JSON.
pub(super) fn json_ids<'a>(ids: impl Iterator<Item = &'a PointId>) -> Column {
    Column::Json(ids.map(|id| Some(json!(id).to_string())).collect())
}

/// Texts and payloads.
pub(super) fn rest(points: &[Point]) -> (Column, Column) {
    let payload = |point: &Point| point.payload.as_ref().map(|payload| payload.as_json().to_owned());
    (
        Column::Texts(points.iter().map(|point| point.text.clone()).collect()),
        Column::Json(points.iter().map(payload).collect()),
    )
}
