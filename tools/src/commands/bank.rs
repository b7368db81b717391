//! `dehub bank`.

use std::path::Path;

use anyhow::bail;
use dehub_index::{BankUpdate, EntryInput, EntrySelector, Name, Receipt, Snapshot};
use dehub_normalize::{Duplicates, Group, Representative, Sameness, group_duplicates};
use dehub_query::BankKind;
use dehub_vector::{Chunked, Metric, PointId, Vector};
use serde_json::{Value, json};

use super::{Context, Outcome, compress};
use crate::cli::{Bank, Kind};
use crate::load;

/// Groups of duplicates listed in full; the rest are counted.
const GROUPS_LISTED_MAX: usize = 5;
/// Rows of a group listed.
const ROWS_LISTED_MAX: usize = 10;

/// Adds vectors to a bank, removes or weakens them, or drops the bank.
pub(crate) fn run(context: &Context, command: &Bank) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let name: Name = command.bank.parse()?;
    if command.drop {
        collection.drop_bank(&name)?;
        let result = json!({ "collection": command.collection, "bank": name.as_str(), "dropped": true });
        context.output.result(&result, || format!("dropped bank `{name}`"))?;
        return Ok(Outcome::Done);
    }
    if let Some(from) = &command.compress.compress_from {
        return compress::run(context, command, from, &collection);
    }
    let (receipt, duplicates) = change(context, command, &name)?;
    context.tend(&collection)?;
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
        "duplicates": duplicates.as_ref().map(duplicates_json),
    });
    context.output.result(&result, || {
        let done = match (command.absorb, command.defer, command.decay) {
            (true, ..) => format!("{} entries taken in", receipt.added),
            (_, true, _) => format!("{} entries added for later", receipt.added),
            (.., Some(factor)) => format!("weights times {factor}, {} entries removed", receipt.deleted),
            (.., None) if !command.remove.is_empty() => format!("{} entries removed", receipt.deleted),
            (.., None) => format!("{} entries added", receipt.added),
        };
        let told = duplicates.as_ref().map_or(String::new(), describe_duplicates);
        format!("{kind} bank `{name}`: {done}, {entries} in all\n{told}")
    })?;
    Ok(Outcome::Done)
}

/// Does the one thing the command asks for.
fn change(context: &Context, command: &Bank, name: &Name) -> anyhow::Result<(Receipt, Option<Duplicates>)> {
    let collection = context.space(&command.collection)?;
    let mut duplicates = None;
    let receipt = match &command.file {
        Some(file) => {
            let mut update = read(context, command, file, name)?;
            duplicates = drop_duplicates(command, &collection.snapshot(), &mut update)?;
            collection.add_to_bank(&update)?
        }
        None if command.absorb => collection.absorb(name)?,
        None if !command.remove.is_empty() => {
            let ids = command.remove.iter().map(|id| PointId::parse(id)).collect::<Result<_, _>>()?;
            collection.remove_from_bank(name, &EntrySelector::Ids(ids))?
        }
        None => match command.decay {
            Some(factor) => collection.scale_bank(name, factor, command.drop_below)?,
            None => collection.bank_from_gallery(name)?,
        },
    };
    Ok((receipt, duplicates))
}

/// Takes copies of earlier entries out of an update, if that was asked for.
fn drop_duplicates(
    command: &Bank,
    snapshot: &Snapshot,
    update: &mut BankUpdate,
) -> anyhow::Result<Option<Duplicates>> {
    let Some(asked) = &command.dedupe else { return Ok(None) };
    let config = snapshot.config();
    if update.kind == BankKind::Gallery {
        bail!("--dedupe is for query banks: an entry of a gallery bank stands for the point of its id");
    }
    let sameness = match asked.as_str() {
        "copies" => Sameness::Copies,
        number => match number.parse() {
            Ok(cosine) if cosine > 0.0 && cosine <= 1.0 => Sameness::Within(cosine),
            _ => bail!("--dedupe is {number}, wanted a cosine above 0 and at most 1"),
        },
    };
    if config.multi {
        bail!("--dedupe is not for multi-vectors: it compares single vectors");
    }
    if sameness != Sameness::Copies && config.metric != Metric::Cosine {
        bail!("--dedupe takes a number under cosine only: under {} lengths count too", config.metric);
    }
    let mut new = Chunked::new(config.dim.get());
    for entry in &update.entries {
        new.push(Vector::new(&entry.vector, config.dim, config.metric)?.as_slice());
    }
    let (mut bank, mut numbers) = (Chunked::new(config.dim.get()), Vec::new());
    for (number, vector, _) in snapshot.live_entries(update.name.as_str()) {
        bank.push(vector);
        numbers.push(number as usize);
    }
    let mut duplicates = group_duplicates(&bank, &new, sameness);
    for group in &mut duplicates.groups {
        if let Representative::Bank(place) = &mut group.representative {
            *place = numbers[*place];
        }
    }
    let mut kept = duplicates.kept.iter().copied().peekable();
    let mut row = 0..;
    update.entries.retain(|_| kept.next_if_eq(&row.next().unwrap_or(usize::MAX)).is_some());
    Ok(Some(duplicates))
}

/// The groups of most members first.
fn largest_groups(duplicates: &Duplicates) -> Vec<&Group> {
    let mut groups: Vec<&Group> = duplicates.groups.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.members.len()));
    groups.truncate(GROUPS_LISTED_MAX);
    groups
}

fn duplicates_json(duplicates: &Duplicates) -> Value {
    let group = |group: &&Group| {
        let (entry, row) = match group.representative {
            Representative::Bank(entry) => (Some(entry), None),
            Representative::New(row) => (None, Some(row)),
        };
        json!({
            "entry": entry,
            "row": row,
            "size": group.members.len(),
            "rows": &group.members[..group.members.len().min(ROWS_LISTED_MAX)],
        })
    };
    let largest: Vec<Value> = largest_groups(duplicates).iter().map(group).collect();
    json!({ "dropped": duplicates.dropped(), "groups": duplicates.groups.len(), "largest": largest })
}

fn describe_duplicates(duplicates: &Duplicates) -> String {
    let groups = duplicates.groups.len();
    let mut text =
        format!("left out {} rows that are the same as one of {groups} earlier ones\n", duplicates.dropped());
    for group in largest_groups(duplicates) {
        let first = match group.representative {
            Representative::Bank(entry) => format!("entry {entry} of the bank"),
            Representative::New(row) => format!("row {row}"),
        };
        let listed = group.members.iter().take(ROWS_LISTED_MAX).map(usize::to_string).collect::<Vec<_>>();
        let more = group.members.len() - listed.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &format!("  {first}: rows {}{more}\n", listed.join(", "));
    }
    text
}

/// Reads the whole file, so that its entries are added together or not at all.
fn read(context: &Context, command: &Bank, file: &Path, name: &Name) -> anyhow::Result<BankUpdate> {
    let collection = context.space(&command.collection)?;
    let snapshot = collection.snapshot();
    let config = snapshot.config();
    let reader = load::batches(file, &command.format, config, Some(config.metric))?;
    let bar = context.output.progress("reading", reader.rows_total);
    let mut entries = Vec::new();
    for batch in reader {
        for row in batch? {
            // Checked here for the sake of the row number in the error.
            row.query(file, config)?;
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
