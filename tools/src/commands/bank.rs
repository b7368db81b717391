//! `dehub bank`.

use std::path::Path;

use dehub_index::{BankUpdate, EntryInput, Name};
use dehub_query::BankKind;
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::{Bank, Kind};
use crate::load;

/// Adds vectors to a bank, or drops it.
pub(crate) fn run(context: &Context, command: &Bank) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    let name: Name = command.bank.parse()?;
    if command.drop {
        collection.drop_bank(&name)?;
        let result = json!({ "collection": command.collection, "bank": name.as_str(), "dropped": true });
        context.output.result(&result, || format!("dropped bank `{name}`"))?;
        return Ok(Outcome::Done);
    }
    let receipt = match &command.file {
        Some(file) => collection.add_to_bank(&read(context, command, file, &name)?)?,
        None => collection.bank_from_gallery(&name)?,
    };
    let snapshot = collection.snapshot();
    let info = snapshot.bank(name.as_str());
    let (kind, entries) = info.map_or(("", 0), |info| (info.kind.name(), info.entries));
    let result = json!({
        "collection": command.collection,
        "bank": name.as_str(),
        "kind": kind,
        "added": receipt.added,
        "entries": entries,
        "hash": info.map(|info| &info.hash),
    });
    context.output.result(&result, || {
        format!("{kind} bank `{name}`: {} entries added, {entries} in all", receipt.added)
    })?;
    Ok(Outcome::Done)
}

/// Reads the whole file, so that its entries are added together or not at all.
fn read(context: &Context, command: &Bank, file: &Path, name: &Name) -> anyhow::Result<BankUpdate> {
    let collection = context.collection(&command.collection)?;
    let snapshot = collection.snapshot();
    let reader = load::open(file, &command.format)?;
    let bar = context.output.progress("reading", reader.rows_total());
    let mut entries = Vec::new();
    for batch in reader {
        for row in load::rows(file, batch?)? {
            // Checked here for the sake of the row number in the error.
            row.query(file, snapshot.config())?;
            entries.push(EntryInput { id: row.id, vector: row.vector });
        }
        bar.set_position(entries.len() as u64);
    }
    bar.finish_and_clear();
    if entries.is_empty() {
        anyhow::bail!("{}: the file has no rows: wanted at least one bank entry", file.display());
    }
    let kind = match command.kind {
        Kind::Query => BankKind::Query,
        Kind::Gallery => BankKind::Gallery,
    };
    Ok(BankUpdate { name: name.clone(), kind, entries })
}
