//! `dehub adapt`: moves the queries of a file by a trained adapter.

use anyhow::{Context as _, bail};
use dehub_format::{Column, Kind, WriteOptions, Writer};
use dehub_rerank::load as load_model;
use dehub_vector::{Dim, Metric, Vector};
use serde_json::json;

use super::train::place;
use super::{Context, Outcome};
use crate::cli::Adapt;
use crate::load;

/// Writes the queries of a file as the adapter moves them.
pub(crate) fn run(context: &Context, command: &Adapt) -> anyhow::Result<Outcome> {
    if command.output.exists() && !command.force {
        bail!("{}: the file is there; --force replaces it", command.output.display());
    }
    let (folder, name) = place(&command.model)?;
    let (adapter, card) = load_model(folder, name)?;
    let (file, dim) = (&command.file, Dim::new(card.dim)?);
    let reader = load::open(file, &command.format, None)?;
    let bar = context.output.progress("adapting", reader.rows_total());
    let columns = vec![("vector".to_owned(), Kind::Vectors(card.dim))];
    let mut writer = Writer::create(&command.output, columns, &WriteOptions { format: None, metric: None })?;
    let mut rows = 0;
    for batch in reader {
        let mut moved = Vec::new();
        for row in load::rows(file, batch?)? {
            let vector = Vector::new(&row.vector, dim, Metric::Cosine);
            let vector = vector.with_context(|| format!("{}: row {}", file.display(), row.number))?;
            moved.extend_from_slice(vector.as_slice());
            rows += 1;
        }
        adapter.apply(&mut moved);
        let moved = dehub_vector::Rows::new(card.dim, moved)?;
        writer.write(vec![Column::Vectors(moved)])?;
        bar.set_position(rows);
    }
    writer.finish()?;
    bar.finish_and_clear();
    let output = command.output.display();
    let value = json!({ "file": output.to_string(), "rows": rows, "dim": card.dim, "mix": card.mix });
    context
        .output
        .result(&value, || format!("wrote {rows} queries of {} dimensions to {output}", card.dim))?;
    Ok(Outcome::Done)
}
