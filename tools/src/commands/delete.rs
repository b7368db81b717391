//! `dehub delete`.

use dehub_index::{BATCH_POINTS_MAX, Name};
use dehub_query::Filter;
use dehub_vector::PointId;
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::Delete;

/// Deletes points, a correction, or a whole collection.
pub(crate) fn run(context: &Context, command: &Delete) -> anyhow::Result<Outcome> {
    let name: Name = command.collection.parse()?;
    if let Some(correction) = &command.correction {
        context.space(name.as_str())?.drop_correction(&correction.parse()?)?;
        let result = json!({ "collection": name.as_str(), "correction": correction, "deleted": true });
        context.output.result(&result, || format!("deleted correction `{correction}` of `{name}`"))?;
    } else if let Some(filter) = &command.filter {
        by_filter(context, &name, filter)?;
    } else if command.id.is_empty() {
        context.catalogue.delete(&name)?;
        let result = json!({ "collection": name.as_str(), "deleted": true });
        context.output.result(&result, || format!("deleted collection `{name}`"))?;
    } else {
        let ids = command.id.iter().map(|id| PointId::parse(id)).collect::<Result<Vec<_>, _>>()?;
        let receipt = context.collection(name.as_str())?.delete(&ids)?;
        let result = json!({ "collection": name.as_str(), "asked": ids.len(), "deleted": receipt.deleted });
        context
            .output
            .result(&result, || format!("deleted {} of {} points asked for", receipt.deleted, ids.len()))?;
    }
    Ok(Outcome::Done)
}

/// Deletes the points that pass a filter, in batches.
fn by_filter(context: &Context, name: &Name, filter: &Filter) -> anyhow::Result<()> {
    let collection = context.collection(name.as_str())?;
    let snapshot = collection.snapshot();
    let rows: Vec<u32> = filter.within(&snapshot, &snapshot.scope())?.rows().collect();
    let mut deleted = 0;
    for rows in rows.chunks(BATCH_POINTS_MAX) {
        let ids: Vec<PointId> = snapshot.points(rows)?.into_iter().map(|point| point.id).collect();
        deleted += collection.delete(&ids)?.deleted;
    }
    let result = json!({ "collection": name.as_str(), "asked": rows.len(), "deleted": deleted });
    context.output.result(&result, || format!("deleted the {deleted} points that pass the filter"))?;
    Ok(())
}
