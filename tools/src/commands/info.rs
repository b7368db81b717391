//! `dehub info`.

use dehub_api::calibration_value;
use dehub_index::{
    CatalogueError, Collection, Correction, FitInput, FormatInfo, Name, PendingFit, SegmentInfo, WriterInfo,
};
use serde_json::{Value, json};

use super::calibration::describe_calibration;
use super::default::{default_json, describe_default};
use super::live::{describe_policy, policy_json};
use super::quarantine::{describe_rule, rule_json};
use super::{Context, Outcome, texts};
use crate::cli::Info;
use crate::output::table;

/// Shows the collections, or one of them.
pub(crate) fn run(context: &Context, command: &Info) -> anyhow::Result<Outcome> {
    match &command.collection {
        None => list(context)?,
        Some(name) => {
            let collection = context.collection(name)?;
            let value = to_json(name, &collection);
            context.output.result(&value, || describe(name, &collection))?;
        }
    }
    Ok(Outcome::Done)
}

fn list(context: &Context) -> anyhow::Result<()> {
    let mut values = Vec::new();
    let (mut rows, mut broken) = (Vec::new(), Vec::new());
    for name in context.catalogue.names()? {
        let collection = match context.catalogue.get(&name) {
            Ok(collection) => collection,
            Err(error @ CatalogueError::InUse { .. }) => return Err(error.into()),
            // One that does not open is no reason to hide the others.
            Err(error) => {
                values.push(json!({ "collection": name.as_str(), "error": error.to_string() }));
                rows.push(vec![name.to_string(), "does not open".to_owned()]);
                broken.push(format!("\n{name} does not open: {error}\n"));
                continue;
            }
        };
        values.push(to_json(name.as_str(), &collection));
        let points = collection.snapshot().len().to_string();
        for space in collection.all_spaces() {
            let snapshot = space.snapshot();
            let config = snapshot.config();
            let vector = space.space_name().map(|vector| format!(" ({vector})")).unwrap_or_default();
            rows.push(vec![
                format!("{name}{vector}"),
                config.metric.to_string(),
                config.dim.get().to_string(),
                points.clone(),
                snapshot.banks().len().to_string(),
                snapshot.corrections().len().to_string(),
            ]);
        }
    }
    let head = ["collection", "metric", "dim", "points", "banks", "corrections"];
    let folder = context.catalogue.folder().display().to_string();
    context.output.result(&json!({ "data_dir": folder, "collections": values }), || {
        if rows.is_empty() {
            format!("no collections in {folder}")
        } else {
            table(&head, 2, rows) + &broken.concat()
        }
    })?;
    Ok(())
}

fn to_json(name: &str, collection: &Collection) -> Value {
    let mut value = own_json(name, collection);
    if !collection.has_vectors() {
        let vectors = collection.spaces().filter_map(|space| {
            let vector = space.space_name()?;
            Some((vector.to_string(), own_json(name, space)))
        });
        value["vectors"] = Value::Object(vectors.collect());
        for of_vectors in ["metric", "dim", "graph", "calibration"] {
            value[of_vectors] = Value::Null;
        }
    }
    value
}

/// What is to be told of a collection, or of one of its vectors.
fn own_json(name: &str, collection: &Collection) -> Value {
    let snapshot = collection.snapshot();
    let config = snapshot.config();
    let gallery = snapshot.gallery();
    let banks: Vec<_> = snapshot
        .banks()
        .map(|bank| {
            json!({
                "name": bank.name.as_str(),
                "kind": bank.kind.name(),
                "entries": bank.entries,
                "weight": bank.weight,
                "hash": bank.hash,
            })
        })
        .collect();
    let corrections: Vec<_> = snapshot.corrections().map(correction_json).collect();
    json!({
        "collection": name,
        "metric": config.metric.name(),
        "dim": config.dim.get(),
        "points": gallery.points,
        "sequence": snapshot.sequence(),
        "graph": {
            "m": config.graph.m,
            "ef_construction": config.graph.ef_construction,
            "full_scan_threshold": config.graph.full_scan_threshold,
            "quantization": config.graph.quantization.name(),
            "nodes": gallery.graph_nodes,
            "delta": gallery.delta,
            "segments": snapshot.segment_infos().iter().map(segment_json).collect::<Vec<_>>(),
        },
        "calibration": snapshot.calibration().map(calibration_value),
        "banks": banks,
        "corrections": corrections,
        "pending_fits": collection.pending_fits().iter().map(pending_json).collect::<Vec<_>>(),
        "default": snapshot.default_correction().map(default_json),
        "quarantine": {
            "rule": snapshot.quarantine_rule().map(rule_json),
            "points": snapshot.quarantined().len(),
        },
        "live": snapshot.live_bank().map(policy_json),
        "text": texts::to_json(&snapshot),
        "writer": writer_json(&collection.writer()),
        "format": format_json(snapshot.format()),
        "bytes_on_disk": collection.bytes_on_disk(),
    })
}

fn format_json(info: &FormatInfo) -> Value {
    json!({ "number": info.number, "made_by": info.made_by, "written_by": info.written_by })
}

fn writer_json(info: &WriterInfo) -> Value {
    json!({
        "durability": info.durability.name(),
        "waiting": info.waiting,
        "waiting_max": info.waiting_max,
        "commits": info.commits,
        "syncs": info.syncs,
        "failure": info.failure.as_ref().map(|failure| failure.cause.as_str()),
    })
}

pub(super) fn segment_json(segment: &SegmentInfo) -> Value {
    json!({
        "nodes": segment.nodes,
        "points": segment.points,
        "dead": segment.dead,
        "quantization": segment.quantization.name(),
        "vector_bytes": segment.vector_bytes,
        "bytes": segment.bytes,
    })
}

fn pending_json(fit: &PendingFit) -> Value {
    let input =
        |input: &FitInput| json!({ "correction": input.name.as_str(), "method": input.method.to_string() });
    json!({ "corrections": fit.inputs.iter().map(input).collect::<Vec<_>>(), "share": fit.share })
}

fn correction_json(correction: &Correction) -> Value {
    let info = correction.info();
    json!({
        "name": info.name.as_str(),
        "version": info.version,
        "method": info.method.to_string(),
        "query_bank": info.query_bank.as_ref().map(Name::as_str),
        "gallery_bank": info.gallery_bank.as_ref().map(Name::as_str),
        "activated": info.activated,
        "stale": info.stale,
        "sequence": info.sequence,
    })
}

fn describe(name: &str, collection: &Collection) -> String {
    if collection.has_vectors() {
        return describe_own(name, collection);
    }
    let spaces = collection.spaces().filter_map(|space| {
        let vector = space.space_name()?;
        Some(describe_own(&format!("{name}, vector {vector}"), space))
    });
    let points = format!("collection {name}\n  points      {}\n", collection.snapshot().len());
    std::iter::once(points).chain(spaces).collect::<Vec<_>>().join("\n")
}

fn describe_own(name: &str, collection: &Collection) -> String {
    let snapshot = collection.snapshot();
    let (config, gallery) = (snapshot.config(), snapshot.gallery());
    let graph = match gallery.graph_nodes {
        Some(nodes) => format!("{nodes} nodes; {} points outside it are scanned", gallery.delta),
        None => "none; every search is exact".to_owned(),
    };
    let mut text = format!(
        "collection {name}\n  points      {} of {} dimensions, {}\n  graph       {graph}\n  commits     {}\n  \
         on disk     {} KiB\n",
        gallery.points,
        config.dim.get(),
        config.metric,
        snapshot.sequence(),
        collection.bytes_on_disk() / 1024,
    );
    text += &format!("  durability  {}\n", collection.writer().durability);
    let format = snapshot.format();
    text += &format!(
        "  format      {}, made by dehub {}, written by {}\n",
        format.number, format.made_by, format.written_by
    );
    if let Some(failure) = &collection.writer().failure {
        text += &format!("  writes      refused since a commit failed: {}\n", failure.cause);
    }
    text += &segments(&snapshot.segment_infos());
    text += &describe_calibration(&snapshot);
    let banks = snapshot.banks().map(|bank| {
        vec![
            bank.name.to_string(),
            bank.kind.to_string(),
            bank.entries.to_string(),
            format!("{:.6}", bank.weight).trim_end_matches('0').trim_end_matches('.').to_owned(),
            bank.hash[..12].to_owned(),
        ]
    });
    if snapshot.banks().len() > 0 {
        text += &format!("\n{}", table(&["bank", "kind", "entries", "weight", "hash"], 2, banks));
    }
    let corrections = snapshot.corrections().map(|correction| {
        let info = correction.info();
        let banks = [&info.query_bank, &info.gallery_bank].into_iter().flatten();
        let banks = banks.map(Name::as_str).collect::<Vec<_>>().join(", ");
        let stale = if info.stale > 0 { info.stale.to_string() } else { String::new() };
        vec![info.name.to_string(), info.version.to_string(), info.method.to_string(), banks, stale]
    });
    if snapshot.corrections().len() > 0 {
        text +=
            &format!("\n{}", table(&["correction", "version", "method", "banks", "stale"], 4, corrections));
    }
    for fit in collection.pending_fits() {
        let names: Vec<&str> = fit.inputs.iter().map(|input| input.name.as_str()).collect();
        let share = 100.0 * fit.share;
        text += &format!("\npending: the fit of {} is at {share:.0} %\n", names.join(", "));
    }
    if let Some(default) = snapshot.default_correction() {
        text += &format!("\ndefault: {}\n", describe_default(default));
    }
    let held = snapshot.quarantined().len();
    if snapshot.quarantine_rule().is_some() || held > 0 {
        text += &format!("\nquarantine: {held} points; {}\n", describe_rule(snapshot.quarantine_rule()));
    }
    if snapshot.text_fields().is_some() {
        text += &format!("\n{}", texts::describe(&snapshot));
    }
    if let Some(policy) = snapshot.live_bank() {
        text += &format!("\nlive: {}\n", describe_policy(Some(policy)));
    }
    text
}

/// A line a segment, if there are any.
fn segments(infos: &[SegmentInfo]) -> String {
    let line = |info: &SegmentInfo| {
        let counts = [info.points, info.dead, info.nodes, info.vector_bytes].map(|count| count.to_string());
        std::iter::once(info.quantization.to_string()).chain(counts).collect()
    };
    if infos.is_empty() {
        return String::new();
    }
    let head = ["segment", "points", "dead", "nodes", "bytes a vector"];
    format!("\n{}", table(&head, 1, infos.iter().map(line).collect::<Vec<_>>()))
}
