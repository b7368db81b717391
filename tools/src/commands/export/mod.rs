//! `dehub export`.

mod answers;
mod destination;
mod points;

use std::num::NonZeroUsize;

use anyhow::bail;
use dehub_format::{Column, Kind, WriteOptions, Writer};
use dehub_index::{Correction, Snapshot, Variant};
use dehub_vector::{Metric, Rows};
use serde_json::{Value, json};

use self::destination::{Destination, Form};
use super::{Context, Outcome};
use crate::cli::{Export, ExportFile, Exported};
use crate::load::BATCH_ROWS;

/// The most dimensions that files of vectors are read with.
const DIM_MAX: usize = 65_535;

/// Writes what a collection has to a file.
pub(crate) fn run(context: &Context, command: &Export) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let snapshot = collection.snapshot();
    match &command.what {
        Exported::Points { filter, file } => points::run(context, &snapshot, filter.as_ref(), file)?,
        Exported::Columns { correction, file } => columns(context, &snapshot, correction, file)?,
        Exported::Augmented { correction, pad, file } => {
            augmented(context, &snapshot, correction, *pad, file)?;
        }
        Exported::Run(asked) => answers::run(context, &snapshot, asked)?,
        Exported::Neighbours(asked) => answers::neighbours(context, &snapshot, asked)?,
    }
    Ok(Outcome::Done)
}

/// The rows of all points, by batches, with progress.
fn batches(
    context: &Context,
    rows: &[u32],
    mut each: impl FnMut(&[u32]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let bar = context.output.progress("writing", Some(rows.len() as u64));
    for batch in rows.chunks(BATCH_ROWS) {
        each(batch)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The correction of a name; otherwise told with those there are.
fn named<'a>(snapshot: &'a Snapshot, name: &str) -> anyhow::Result<&'a Correction> {
    let Some(correction) = snapshot.correction(name) else {
        let names: Vec<&str> = snapshot.corrections().map(|it| it.info().name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("--correction {name}: wanted one of the collection's, found {names}");
    };
    Ok(correction)
}

/// Refuses a correction whose score has no scale and bias.
fn check_sum(correction: &Correction) -> anyhow::Result<()> {
    if correction.scorer().is_some() {
        let info = correction.info();
        bail!(
            "--correction {}: wanted a score that is a weighted sum, found {}, which has no bias",
            info.name,
            info.method
        );
    }
    Ok(())
}

/// A number of each point under a name.
struct Quantity<'a> {
    name: String,
    of: Box<dyn Fn(u32) -> Option<f32> + 'a>,
}

/// What a correction makes of points. With two gates the bias is that of both open, of the first and of the second.
fn quantities(correction: &Correction) -> Vec<Quantity<'_>> {
    let name = &correction.info().name;
    let mut found = Vec::new();
    let whole = correction.variant(&vec![true; correction.columns().len()], 1.0);
    found.push(Quantity { name: format!("{name}.scale"), of: Box::new(move |row| Some(whole.scale(row))) });
    for open in correction.openings() {
        let suffix = match open.as_slice() {
            _ if open.iter().all(|&open| open) => String::new(),
            [true, false] => ".1".to_owned(),
            [false, true] => ".2".to_owned(),
            _ => continue,
        };
        let variant = correction.variant(&open, 1.0);
        let of = Box::new(move |row| Some(variant.bias(row)));
        found.push(Quantity { name: format!("{name}.bias{suffix}"), of });
    }
    let gates = if correction.is_gated() { correction.columns().len() } else { 0 };
    for gate in 0..gates {
        let suffix = if gates > 1 { format!(".{}", gate + 1) } else { String::new() };
        let of = Box::new(move |row| Some(if correction.open(Some(row))[gate] { 1.0 } else { 0.0 }));
        found.push(Quantity { name: format!("{name}.gate{suffix}"), of });
    }
    found
}

fn columns(
    context: &Context,
    snapshot: &Snapshot,
    asked: &[String],
    file: &ExportFile,
) -> anyhow::Result<()> {
    let mut corrections = Vec::new();
    for name in asked {
        let correction = named(snapshot, name)?;
        check_sum(correction)?;
        corrections.push(correction);
    }
    if asked.is_empty() {
        for correction in snapshot.corrections() {
            if correction.scorer().is_some() {
                context.output.note(format!("{} has no scale and bias: left out", correction.info().name));
            } else {
                corrections.push(correction);
            }
        }
    }
    let mut found: Vec<Quantity<'_>> = corrections.into_iter().flat_map(quantities).collect();
    for (name, prior) in snapshot.priors() {
        found.push(Quantity { name: format!("prior.{name}"), of: Box::new(move |row| prior.value(row)) });
    }
    if found.is_empty() {
        bail!("the collection has no correction with a bias and no prior, so there are no columns");
    }
    let (rows, destination) = (snapshot.rows().collect::<Vec<u32>>(), Destination::new(context, file)?);
    let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
    let files = if destination.form.is_matrix() {
        let matrix =
            Matrix { name: "columns".to_owned(), dim: found.len(), metric: snapshot.config().metric };
        let of = |row: u32, line: &mut Vec<f32>| {
            line.extend(found.iter().map(|quantity| (quantity.of)(row).unwrap_or(f32::NAN)));
        };
        points::write_matrix(context, snapshot, &destination, &rows, &matrix, &of)?
    } else {
        let mut kinds = vec![("id".to_owned(), points::id_kind(context, snapshot, &destination, &rows)?)];
        kinds.extend(found.iter().map(|quantity| (quantity.name.clone(), Kind::Numbers)));
        let mut writer = Writer::create(destination.path(), kinds, &destination.options()?)?;
        batches(context, &rows, |batch| {
            let points = snapshot.points(batch)?;
            let mut columns = vec![points::ids(&destination, &points)];
            for quantity in &found {
                columns.push(Column::Numbers(batch.iter().map(|&row| (quantity.of)(row)).collect()));
            }
            Ok(writer.write(columns)?)
        })?;
        writer.finish()?;
        vec![destination.path().to_owned()]
    };
    let told = json!({ "what": "columns", "rows": rows.len(), "columns": names });
    destination.tell(context, snapshot, told, &files)
}

/// What a matrix of points is called, how wide it is, and what metric a file that says one has.
struct Matrix {
    name: String,
    dim: usize,
    metric: Metric,
}

fn augmented(
    context: &Context,
    snapshot: &Snapshot,
    name: &str,
    pad: Option<NonZeroUsize>,
    file: &ExportFile,
) -> anyhow::Result<()> {
    let correction = named(snapshot, name)?;
    check_sum(correction)?;
    if correction.is_gated() && correction.columns().len() > 1 {
        bail!(
            "--correction {name}: wanted one gate at most, found two, by which the bias of a point differs"
        );
    }
    let metric = snapshot.config().metric;
    let added = if metric == Metric::Euclidean { 3 } else { 1 };
    let filled = (snapshot.config().dim.get() + added).next_multiple_of(pad.map_or(1, NonZeroUsize::get));
    if filled > DIM_MAX {
        bail!("the vectors would have {filled} dimensions, wanted at most {DIM_MAX}");
    }
    let variant = correction.variant(&vec![true; correction.columns().len()], 1.0);
    let of = |row: u32, line: &mut Vec<f32>| augment(snapshot, &variant, row, filled, line);
    let (rows, destination) = (snapshot.rows().collect::<Vec<u32>>(), Destination::new(context, file)?);
    let matrix = Matrix { name: "vector".to_owned(), dim: filled, metric: Metric::Dot };
    let files = points::write_vectors(context, snapshot, &destination, &rows, &matrix, &of)?;
    let query = how_to_ask(correction, metric, filled - snapshot.config().dim.get() - added);
    context.output.note(&query);
    let told = json!({ "what": "augmented", "rows": rows.len(), "dim": filled, "query": query });
    destination.tell(context, snapshot, told, &files)
}

/// `[scale·g, −bias]`, and under the Euclidean metric `[scale·g, −bias, −scale·‖g‖²/2, −scale]`; then zeros.
fn augment(snapshot: &Snapshot, variant: &Variant<'_>, row: u32, dim: usize, line: &mut Vec<f32>) {
    let (start, scale) = (line.len(), variant.scale(row));
    line.extend(snapshot.vector(row).iter().map(|number| scale * number));
    line.push(-variant.bias(row));
    if snapshot.config().metric == Metric::Euclidean {
        let half = snapshot.query_of(row).half_squared_norm();
        line.extend([-scale * half, -scale]);
    }
    line.resize(start + dim, 0.0);
}

/// What a query is to be for the inner product to be the score.
fn how_to_ask(correction: &Correction, metric: Metric, zeros: usize) -> String {
    let mut query = match metric {
        Metric::Cosine => "[q/‖q‖, alpha".to_owned(),
        Metric::Dot => "[q, alpha".to_owned(),
        Metric::Euclidean => "[q, alpha, 1, ‖q‖²/2".to_owned(),
    };
    if zeros > 0 {
        query += &format!(", {zeros} zeros");
    }
    let alpha = match (correction.scale().is_some(), correction.is_gated()) {
        (true, _) => "alpha 1, as the scale is in the vectors",
        (false, true) => "alpha 1 if the raw best point is in the gate's set (export columns), else 0",
        (false, false) => "alpha 1 for the correction as fitted, 0 for raw",
    };
    format!("ask with {query}] and the inner product: {alpha}")
}

/// A writer of one matrix.
fn matrix_writer(destination: &Destination, matrix: &Matrix) -> anyhow::Result<Writer> {
    let mut options = destination.options()?;
    if destination.form == Form::Rows(dehub_format::Format::Hdf5) {
        options = WriteOptions { metric: Some(matrix.metric), ..options };
    }
    let kinds = vec![(matrix.name.clone(), Kind::Vectors(matrix.dim))];
    Ok(Writer::create(destination.path(), kinds, &options)?)
}

/// The numbers of some points, in lines of one length.
fn lines(batch: &[u32], dim: usize, of: &dyn Fn(u32, &mut Vec<f32>)) -> anyhow::Result<Rows> {
    let mut numbers = Vec::with_capacity(batch.len() * dim);
    batch.iter().for_each(|&row| of(row, &mut numbers));
    Ok(Rows::new(dim, numbers)?)
}

/// A file as results tell it.
fn told_file(path: &std::path::Path) -> anyhow::Result<Value> {
    let bytes = std::fs::metadata(path)?.len();
    Ok(json!({ "path": path, "bytes": bytes, "blake3": super::eval::files::hash(path)? }))
}
