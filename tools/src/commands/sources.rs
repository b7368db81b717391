//! `dehub hubs --sources`.

use dehub_index::Snapshot;
use dehub_query::{SourceInfluence, source_influences};
use serde_json::{Value, json};

use super::hubs::{only_correction, row_of};
use super::{Context, Outcome};
use crate::cli::Hubs;
use crate::output::table;

/// Shows what each source of a bank does to the points.
pub(super) fn run(
    context: &Context,
    command: &Hubs,
    snapshot: &Snapshot,
    separator: &str,
) -> anyhow::Result<Outcome> {
    if separator.is_empty() {
        anyhow::bail!("--sources is empty, wanted what ends the source in an id, such as \":\"");
    }
    let correction = only_correction(command, snapshot)?;
    let row = command.explain.as_deref().map(|id| row_of(snapshot, id)).transpose()?;
    let mut sources = source_influences(snapshot, correction, separator, row)?;
    sources.sort_by(|a, b| a.mean_change.total_cmp(&b.mean_change));
    let result = json!({
        "collection": command.collection,
        "method": correction.info().method.to_string(),
        "points": snapshot.len(),
        "id": command.explain,
        "sources": sources.iter().map(to_json).collect::<Vec<_>>(),
    });
    context.output.result(&result, || describe(command, snapshot.len(), &sources))?;
    Ok(Outcome::Done)
}

fn to_json(it: &SourceInfluence) -> Value {
    json!({
        "source": it.source,
        "entries": it.entries,
        "share": it.share,
        "mean_change": it.mean_change,
        "mostly": it.mostly,
    })
}

fn describe(command: &Hubs, points: usize, sources: &[SourceInfluence]) -> String {
    let share = command.explain.as_ref().map_or(String::new(), |id| format!("share of {id}"));
    let row = |it: &SourceInfluence| {
        let source = if it.source.is_empty() { "(none)" } else { &it.source };
        let share = it.share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
        let change = format!("{:+.5}", it.mean_change);
        vec![source.to_owned(), it.entries.to_string(), change, it.mostly.to_string(), share]
    };
    format!(
        "{}\nmean change: of the biases of all points, if the source were left out. mostly: how many of the {points} \
         points owe it more than half of their bias.",
        table(&["source", "entries", "mean change", "mostly", &share], 1, sources.iter().map(row)),
    )
}
