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
    let config = |dim, metric, multi: bool| -> anyhow::Result<CollectionConfig> {
        let config = CollectionConfig::new(dim, metric, graph)?;
        let config = if multi { config.with_multi()? } else { config };
        Ok(CollectionConfig { durability: command.durability, ..config })
    };
    let Some(dim) = command.dim else {
        return with_named(context, &name, &vectors(&command.vector, metric, config)?, command);
    };
    context.catalogue.create(&name, config(dim, metric, command.multi)?)?;
    let result = json!({
        "collection": name.as_str(), "dim": dim, "metric": metric.name(), "multi": command.multi
    });
    let many = several(command.multi);
    context
        .output
        .result(&result, || format!("made collection `{name}`: {dim} dimensions, {metric}{many}"))?;
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
        let value = json!({ "dim": config.dim.get(), "metric": config.metric.name(), "multi": config.multi });
        (name.to_string(), value)
    };
    let values: serde_json::Map<String, Value> = vectors.iter().map(value).collect();
    context.output.result(&json!({ "collection": name.as_str(), "vectors": values }), || {
        let line = |(name, config): (&Name, &CollectionConfig)| {
            format!("\n  {name}: {} dimensions, {}{}", config.dim.get(), config.metric, several(config.multi))
        };
        format!("made collection `{name}`:{}", vectors.iter().map(line).collect::<String>())
    })?;
    Ok(Outcome::Done)
}

/// What is told of multi-vectors.
fn several(multi: bool) -> &'static str {
    if multi { ", several vectors a point" } else { "" }
}

/// Reads `NAME=DIM[,METRIC][,multi]` of each.
fn vectors(
    texts: &[String],
    metric: Metric,
    config: impl Fn(usize, Metric, bool) -> anyhow::Result<CollectionConfig>,
) -> anyhow::Result<BTreeMap<Name, CollectionConfig>> {
    let mut vectors = BTreeMap::new();
    for text in texts {
        let wanted = || format!("--vector: wanted NAME=DIM[,METRIC][,multi], found {text:?}");
        let (name, params) = text.rsplit_once('=').with_context(wanted)?;
        let (params, multi) = match params.strip_suffix(",multi") {
            Some(params) => (params, true),
            None => (params, false),
        };
        let (dim, metric) = match params.split_once(',') {
            Some((dim, metric)) => (dim, metric.parse()?),
            None => (params, metric),
        };
        let name: Name = name.parse()?;
        let config = config(dim.parse().ok().with_context(wanted)?, metric, multi)?;
        if vectors.insert(name.clone(), config).is_some() {
            bail!("--vector: `{name}` is given twice");
        }
    }
    Ok(vectors)
}
