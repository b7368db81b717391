//! `dehub create`.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use dehub_index::{CollectionConfig, GraphConfig, Name};
use dehub_vector::Metric;
use serde_json::{Value, json};

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
    let config = |dim, metric| -> anyhow::Result<CollectionConfig> {
        let config = CollectionConfig::new(dim, metric, graph)?;
        Ok(CollectionConfig { durability: command.durability, ..config })
    };
    let Some(dim) = command.dim else {
        return with_named(context, &name, &vectors(&command.vector, metric, config)?, command);
    };
    context.catalogue.create(&name, config(dim, metric)?)?;
    let result = json!({ "collection": name.as_str(), "dim": dim, "metric": metric.name() });
    context.output.result(&result, || format!("made collection `{name}`: {dim} dimensions, {metric}"))?;
    Ok(Outcome::Done)
}

fn with_named(
    context: &Context,
    name: &Name,
    vectors: &BTreeMap<Name, CollectionConfig>,
    command: &Create,
) -> anyhow::Result<Outcome> {
    context.catalogue.create_with_spaces(name, vectors, command.durability)?;
    let value = |(name, config): (&Name, &CollectionConfig)| {
        let value = json!({ "dim": config.dim.get(), "metric": config.metric.name() });
        (name.to_string(), value)
    };
    let values: serde_json::Map<String, Value> = vectors.iter().map(value).collect();
    context.output.result(&json!({ "collection": name.as_str(), "vectors": values }), || {
        let line = |(name, config): (&Name, &CollectionConfig)| {
            format!("\n  {name}: {} dimensions, {}", config.dim.get(), config.metric)
        };
        format!("made collection `{name}`:{}", vectors.iter().map(line).collect::<String>())
    })?;
    Ok(Outcome::Done)
}

/// Reads `NAME=DIM[,METRIC]` of each.
fn vectors(
    texts: &[String],
    metric: Metric,
    config: impl Fn(usize, Metric) -> anyhow::Result<CollectionConfig>,
) -> anyhow::Result<BTreeMap<Name, CollectionConfig>> {
    let mut vectors = BTreeMap::new();
    for text in texts {
        let wanted = || format!("--vector: wanted NAME=DIM or NAME=DIM,METRIC, found {text:?}");
        let (name, params) = text.rsplit_once('=').with_context(wanted)?;
        let (dim, metric) = match params.split_once(',') {
            Some((dim, metric)) => (dim, metric.parse()?),
            None => (params, metric),
        };
        let name: Name = name.parse()?;
        let config = config(dim.parse().ok().with_context(wanted)?, metric)?;
        if vectors.insert(name.clone(), config).is_some() {
            bail!("--vector: `{name}` is given twice");
        }
    }
    Ok(vectors)
}
