//! `dehub bank`.

use std::path::Path;

use dehub_index::{BankUpdate, EntryInput, EntrySelector, Name, Receipt};
use dehub_query::BankKind;
use dehub_vector::PointId;
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::{Bank, Kind};
use crate::load;

/// Adds vectors to a bank, removes or weakens them, or drops the bank.
pub(crate) fn run(context: &Context, command: &Bank) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    let name: Name = command.bank.parse()?;
    if command.drop {
        collection.drop_bank(&name)?;
        let result = json!({ "collection": command.collection, "bank": name.as_str(), "dropped": true });
        context.output.result(&result, || format!("dropped bank `{name}`"))?;
        return Ok(Outcome::Done);
    }
    let receipt = change(context, command, &name)?;
    let snapshot = collection.snapshot();
    let info = snapshot.bank(name.as_str());
    let (kind, entries) = info.map_or(("", 0), |info| (info.kind.name(), info.entries));
    let result = json!({
        "collection": command.collection,
        "bank": name.as_str(),
        "kind": kind,
        "added": receipt.added,
        "removed": receipt.deleted,
        "entries": entries,
        "weight": info.map(|info| info.weight),
        "hash": info.map(|info| &info.hash),
    });
    context.output.result(&result, || {
        let done = match (command.absorb, command.defer, command.decay) {
            (true, ..) => format!("{} entries taken in", receipt.added),
            (_, true, _) => format!("{} entries added for later", receipt.added),
            (.., Some(factor)) => format!("weights times {factor}, {} entries removed", receipt.deleted),
            (.., None) if !command.remove.is_empty() => format!("{} entries removed", receipt.deleted),
            (.., None) => format!("{} entries added", receipt.added),
        };
        format!("{kind} bank `{name}`: {done}, {entries} in all")
    })?;
    Ok(Outcome::Done)
}

/// Does the one thing the command asks for.
fn change(context: &Context, command: &Bank, name: &Name) -> anyhow::Result<Receipt> {
    let collection = context.collection(&command.collection)?;
    Ok(match &command.file {
        Some(file) => collection.add_to_bank(&read(context, command, file, name)?)?,
        None if command.absorb => collection.absorb(name)?,
        None if !command.remove.is_empty() => {
            let ids = command.remove.iter().map(|id| PointId::parse(id)).collect::<Result<_, _>>()?;
            collection.remove_from_bank(name, &EntrySelector::Ids(ids))?
        }
        None => match command.decay {
            Some(factor) => collection.scale_bank(name, factor, command.drop_below)?,
            None => collection.bank_from_gallery(name)?,
        },
    })
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
            let weight = match &command.weight_field {
                Some(field) => weight(file, &row, field)?,
                None => 1.0,
            };
            entries.push(EntryInput { id: row.id, vector: row.vector, weight });
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
    Ok(BankUpdate { name: name.clone(), kind, entries, defer: command.defer })
}

/// The weight in a field of a row, which other commands would read as payload.
#[expect(clippy::cast_possible_truncation, reason = "weights are kept in 32 bits, and checked as such")]
fn weight(file: &Path, row: &load::Row, field: &str) -> anyhow::Result<f32> {
    let fields: Value = match &row.payload {
        Some(payload) => serde_json::from_str(payload.as_json())?,
        None => Value::Null,
    };
    let found = fields.get(field);
    let Some(weight) = found.and_then(Value::as_f64) else {
        let found = found.map_or_else(|| "no such field".to_owned(), Value::to_string);
        anyhow::bail!(
            "{}: row {}: field {field}: wanted a number, found {found}",
            file.display(),
            row.number
        );
    };
    Ok(weight as f32)
}
