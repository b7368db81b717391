//! `dehub compact`.

use anyhow::bail;
use dehub_index::{Compacted, DiskUse, Name};
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::Compact;
use crate::output::table;

/// Gives back what deleted and replaced data takes on disk.
pub(crate) fn run(context: &Context, command: &Compact) -> anyhow::Result<Outcome> {
    let (mut compacted, mut failures) = (Vec::new(), Vec::new());
    for name in context.names(command.collection.as_deref())? {
        // One that cannot be does not keep the others from it.
        match compact(context, &name) {
            Ok(outcome) => compacted.push((name, outcome)),
            Err(error) if command.all => failures.push(format!("`{name}`: {error:#}")),
            Err(error) => return Err(error),
        }
    }
    let values: Vec<Value> = compacted.iter().map(|(name, it)| to_json(name, it)).collect();
    context.output.result(&json!({ "collections": values }), || {
        let texts: Vec<String> = compacted.iter().map(|(name, it)| describe(name, it)).collect();
        match texts.as_slice() {
            [] if failures.is_empty() => "no collections".to_owned(),
            texts => texts.join("\n\n"),
        }
    })?;
    if !failures.is_empty() {
        bail!("{} of the collections not compacted: {}", failures.len(), failures.join("; "));
    }
    Ok(Outcome::Done)
}

fn compact(context: &Context, name: &Name) -> anyhow::Result<Compacted> {
    let collection = context.collection(name.as_str())?;
    let bar = context.output.progress("compacting", None);
    let outcome = collection.compact();
    bar.finish_and_clear();
    context.tend(&collection)?;
    Ok(outcome?)
}

fn to_json(name: &Name, compacted: &Compacted) -> Value {
    let bytes = |&it: &DiskUse| {
        let DiskUse { store, graph, set_aside } = it;
        json!({ "store": store, "graph": graph, "set_aside": set_aside, "total": it.total() })
    };
    json!({
        "collection": name.as_str(),
        "bytes_before": bytes(&compacted.before),
        "bytes_after": bytes(&compacted.after),
        "segments_frozen": compacted.frozen,
        "orphans_dropped": compacted.orphans.records,
    })
}

fn describe(name: &Name, Compacted { before, after, frozen, orphans }: &Compacted) -> String {
    let row = |what: &str, part: fn(&DiskUse) -> u64| {
        vec![what.to_owned(), part(before).to_string(), part(after).to_string()]
    };
    let rows = vec![
        row("store", |it| it.store),
        row("graph", |it| it.graph),
        row("set aside", |it| it.set_aside),
        row("all", DiskUse::total),
    ];
    let mut text = format!("{name}\n{}", table(&["bytes of", "before", "after"], 1, rows));
    if *frozen > 0 {
        text += &format!("\nsegments frozen without deleted points: {frozen}");
    }
    if orphans.records > 0 {
        text += &format!("\ndropped {} records that nothing names", orphans.records);
    }
    text
}
