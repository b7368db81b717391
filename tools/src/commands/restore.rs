//! `dehub restore`.

use dehub_api::{restore_from, restored_value};
use dehub_backup::Repository;
use dehub_index::Name;
use indicatif::HumanBytes;
use serde_json::{Value, json};

use super::backup::{bytes_bar, show};
use super::{Context, Outcome};
use crate::cli::Restore;

/// Fetches a collection from its backups.
pub(crate) fn run(context: &Context, command: &Restore) -> anyhow::Result<Outcome> {
    let name: Name = command.collection.parse()?;
    let target: Name = command.name.as_ref().map_or(Ok(name.clone()), |name| name.parse())?;
    let repository = Repository::open(&command.repository)?;
    let bar = bytes_bar(context, "restoring");
    let restored = restore_from(
        &context.catalogue,
        (&name, &target, command.replace),
        (&repository, command.backup.as_ref()),
        &mut show(&bar),
        || bar.set_message("opening"),
    );
    bar.finish_and_clear();
    let (info, adopted) = restored?;
    let mut result = json!({ "collection": target.as_str(), "repository": repository.location() });
    if let (Value::Object(result), Value::Object(restored)) = (&mut result, restored_value(&info, &adopted)) {
        result.extend(restored);
    }
    context.output.result(&result, || {
        let replaced = if adopted.replaced { ", in the place of the one that was there" } else { "" };
        format!(
            "restored `{target}` from backup {} of `{name}`: {} points at sequence {}, {}{replaced}",
            info.id,
            adopted.points,
            adopted.sequence,
            HumanBytes(info.bytes),
        )
    })?;
    Ok(Outcome::Done)
}
