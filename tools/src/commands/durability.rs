//! `dehub durability`.

use serde_json::json;

use super::{Context, Outcome};
use crate::cli::DurabilityArgs;

/// Shows or changes what acknowledged writes survive.
pub(crate) fn run(context: &Context, command: &DurabilityArgs) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    if let Some(durability) = command.durability {
        collection.set_durability(durability)?;
    }
    let durability = collection.writer().durability;
    let result = json!({ "collection": command.collection, "durability": durability.name() });
    context.output.result(&result, || durability.to_string())?;
    Ok(Outcome::Done)
}
