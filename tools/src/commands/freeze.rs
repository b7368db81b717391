//! `dehub freeze`.

use dehub_index::GraphBuild;
use serde_json::json;

use super::info::segment_json;
use super::{Context, Outcome};
use crate::cli::Freeze;

/// Freezes all points to one segment of the graph.
pub(crate) fn run(context: &Context, command: &Freeze) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let before = collection.snapshot().config().graph.quantization;
    if let Some(quantization) = command.quantization.filter(|asked| *asked != before) {
        collection.set_quantization(quantization)?;
    }
    let bar = context.output.progress("freezing", None);
    let outcome = collection.freeze();
    bar.finish_and_clear();
    let outcome = outcome?;
    context.tend(&collection)?;
    let snapshot = collection.snapshot();
    let quantization = snapshot.config().graph.quantization;
    let result = json!({
        "collection": command.collection,
        "quantization": quantization.name(),
        "frozen": matches!(outcome, GraphBuild::Built { .. }),
        "segments": snapshot.segment_infos().iter().map(segment_json).collect::<Vec<_>>(),
    });
    context.output.result(&result, || match outcome {
        GraphBuild::Built { nodes } => format!("one segment of {nodes} nodes, vectors in {quantization}"),
        GraphBuild::NotDue if snapshot.has_graph() => {
            format!("all is one segment already, vectors in {quantization}")
        }
        GraphBuild::NotDue => {
            format!(
                "too few points for a graph, which will keep vectors in {quantization}; every search is exact"
            )
        }
    })?;
    Ok(Outcome::Done)
}
