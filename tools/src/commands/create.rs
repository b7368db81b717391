//! `dehub create`.

use dehub_index::{CollectionConfig, GraphConfig, Name};
use dehub_vector::Metric;
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::Create;

/// Makes a collection.
pub(crate) fn run(context: &Context, command: &Create) -> anyhow::Result<Outcome> {
    let name: Name = command.collection.parse()?;
    let metric: Metric = command.metric.parse()?;
    let graph = GraphConfig {
        m: command.m,
        ef_construction: command.ef_construction,
        full_scan_threshold: command.full_scan_threshold,
        quantization: command.quantization,
    };
    let config = CollectionConfig::new(command.dim, metric, graph)?;
    let config = CollectionConfig { durability: command.durability, ..config };
    context.catalogue.create(&name, config)?;
    let result = json!({ "collection": name.as_str(), "dim": command.dim, "metric": metric.name() });
    context
        .output
        .result(&result, || format!("made collection `{name}`: {} dimensions, {metric}", command.dim))?;
    Ok(Outcome::Done)
}
