//! `dehub delete`.

use dehub_index::Name;
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
