//! `dehub import`: the whole file is checked before anything of it is stored.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context as _, bail};
use dehub_index::{Collection, CollectionConfig, PointAlarm};
use dehub_vector::PointId;
use serde_json::json;

use super::{Context, Outcome, import_named};
use crate::cli::Import;
use crate::load::{self, Row};

/// Refused rows listed in full; the rest are counted.
const REFUSED_LISTED_MAX: usize = 20;

/// Adds the points of a file.
pub(crate) fn run(context: &Context, command: &Import) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    if !collection.has_vectors() {
        return import_named::run(context, command, &collection);
    }
    let checked = check(context, command, &collection)?;
    if !checked.refused.is_empty() && !command.skip_bad {
        bail!(refusal(&checked));
    }
    let mut stored = Stored::default();
    if !command.dry_run {
        let first_row = collection.snapshot().row_count();
        check_alarm(command, &collection)?;
        store(context, command, &collection, &checked, &mut stored)?;
        context.tend(&collection)?;
        stored.hubs = hubs(command, &collection, first_row)?;
    }
    report(context, command, &collection, &checked, &stored)?;
    Ok(if checked.refused.is_empty() { Outcome::Done } else { Outcome::SomeRefused })
}

#[derive(Default)]
pub(super) struct Checked {
    pub(super) rows: u64,
    /// Row numbers and what is wrong with them.
    pub(super) refused: Vec<(u64, String)>,
}

#[derive(Default)]
pub(super) struct Stored {
    pub(super) added: usize,
    pub(super) replaced: usize,
    /// The new points that are hubs.
    hubs: Vec<Hub>,
    /// The new points that are held.
    held: Vec<Hub>,
}

struct Hub {
    id: String,
    bias: f32,
    p: f64,
}

fn check(context: &Context, command: &Import, collection: &Collection) -> anyhow::Result<Checked> {
    let snapshot = collection.snapshot();
    let config = snapshot.config();
    let reader = load::batches(&command.file, &command.format, config, Some(config.metric))?;
    let bar = context.output.progress("checking", reader.rows_total);
    let mut checked = Checked::default();
    let mut prints = Vec::new();
    for batch in reader {
        for row in batch? {
            checked.rows += 1;
            match row.query(&command.file, config) {
                Err(error) => checked.refused.push((row.number, format!("{error:#}"))),
                Ok(_) => prints.extend(row.id.as_ref().map(print)),
            }
        }
        bar.set_position(checked.rows);
    }
    bar.finish_and_clear();
    let repeated = repeated(prints);
    if !repeated.is_empty() {
        find_copies(context, command, config, &repeated, &mut checked)?;
    }
    Ok(checked)
}

/// A hash of an id: eight bytes a row are kept, and not the ids.
fn print(id: &PointId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The hashes that are there twice or more.
fn repeated(mut prints: Vec<u64>) -> HashSet<u64> {
    prints.sort_unstable();
    prints.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}

/// Refuses rows with an id that an earlier good row has; only ids of the hashes in `repeated` can be such.
fn find_copies(
    context: &Context,
    command: &Import,
    config: &CollectionConfig,
    repeated: &HashSet<u64>,
    checked: &mut Checked,
) -> anyhow::Result<()> {
    let bar = context.output.progress("checking ids", Some(checked.rows));
    let mut bad = std::mem::take(&mut checked.refused).into_iter().peekable();
    let mut seen: HashMap<PointId, u64> = HashMap::new();
    // The first reading has compared the metric.
    for batch in load::batches(&command.file, &command.format, config, None)? {
        for Row { number, id, .. } in batch? {
            bar.set_position(number + 1);
            if let Some(refused) = bad.next_if(|&(row, _)| row == number) {
                checked.refused.push(refused);
                continue;
            }
            let Some(id) = id.filter(|id| repeated.contains(&print(id))) else { continue };
            if let Some(first) = seen.insert(id.clone(), number) {
                let file = command.file.display();
                let found = format!("found {id}, which row {first} has");
                let reason = format!("{file}: row {number}, field id: wanted each id once, {found}");
                checked.refused.push((number, reason));
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

pub(super) fn refusal(checked: &Checked) -> String {
    let first = checked.refused.first().map_or("", |(_, reason)| reason);
    match checked.refused.len() {
        1 => format!("{first}; nothing was stored"),
        more => format!("{first}; {} more of {} rows are bad; nothing was stored", more - 1, checked.rows),
    }
}

fn store(
    context: &Context,
    command: &Import,
    collection: &Collection,
    checked: &Checked,
    stored: &mut Stored,
) -> anyhow::Result<()> {
    let bar = context.output.progress("storing", Some(checked.rows));
    let mut refused = checked.refused.iter().map(|&(number, _)| number).peekable();
    for batch in load::batches(&command.file, &command.format, collection.snapshot().config(), None)? {
        let rows = batch?;
        let last = rows.last().map_or(0, |row| row.number);
        let good = rows.into_iter().filter(|row| refused.next_if_eq(&row.number).is_none());
        let points: Vec<_> = good.map(Row::into_point).collect();
        let done = collection.upsert_watched(&points, None).with_context(|| {
            format!("{}: the rows up to {last} of which earlier batches are stored", command.file.display())
        })?;
        stored.added += done.receipt.added;
        stored.replaced += done.receipt.replaced;
        let hub = |PointAlarm { id, bias, p }| Hub { id: id.to_string(), bias, p };
        stored.held.extend(done.held.into_iter().map(hub));
        bar.set_position(last + 1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn check_alarm(command: &Import, collection: &Collection) -> anyhow::Result<()> {
    if !(0.0..=1.0).contains(&command.alarm_rate) {
        bail!("--alarm-rate is {}, wanted a number from 0 to 1", command.alarm_rate);
    }
    let Some(name) = &command.alarm else { return Ok(()) };
    match collection.snapshot().correction(name) {
        None => bail!("there is no correction `{name}` to raise alarms by; nothing was stored"),
        Some(correction) if correction.scorer().is_some() => {
            let method = &correction.info().method;
            bail!(
                "{method} ranks by a score of its own and gives points no biases to raise alarms by: name \
                 another correction; nothing was stored"
            )
        }
        Some(_) => Ok(()),
    }
}

/// The points from `first_row` on that are hubs, if that was asked for.
fn hubs(command: &Import, collection: &Collection, first_row: u32) -> anyhow::Result<Vec<Hub>> {
    let snapshot = collection.snapshot();
    let Some(correction) = command.alarm.as_ref().and_then(|name| snapshot.correction(name)) else {
        return Ok(Vec::new());
    };
    let new: Vec<u32> = snapshot.rows().filter(|&row| row >= first_row).collect();
    let alarms = snapshot.hub_alarms(correction, &new, command.alarm_rate);
    let rows: Vec<u32> = alarms.iter().map(|alarm| alarm.row).collect();
    let points = snapshot.points(&rows)?;
    let hub = |(alarm, point): (dehub_index::HubAlarm, dehub_index::Point)| Hub {
        id: point.id.to_string(),
        bias: alarm.bias,
        p: alarm.p,
    };
    Ok(alarms.into_iter().zip(points).map(hub).collect())
}

pub(super) fn report(
    context: &Context,
    command: &Import,
    collection: &Collection,
    checked: &Checked,
    stored: &Stored,
) -> anyhow::Result<()> {
    let points = collection.snapshot().len();
    for (_, reason) in checked.refused.iter().take(REFUSED_LISTED_MAX) {
        context.output.note(format!("refused: {reason}"));
    }
    for Hub { id, bias, p } in stored.hubs.iter().take(REFUSED_LISTED_MAX) {
        context.output.note(format!("hub alarm: {id} has a bias of {bias:+.4} (p = {p:.2e})"));
    }
    for Hub { id, bias, p } in stored.held.iter().take(REFUSED_LISTED_MAX) {
        context.output.note(format!("in quarantine: {id} has a bias of {bias:+.4} (p = {p:.2e})"));
    }
    let listed = |hubs: &[Hub]| -> Vec<_> {
        hubs.iter().map(|hub| json!({ "id": hub.id, "bias": hub.bias, "p": hub.p })).collect()
    };
    let refused: Vec<_> =
        checked.refused.iter().map(|(row, reason)| json!({ "row": row, "reason": reason })).collect();
    let result = json!({
        "collection": command.collection,
        "rows": checked.rows,
        "added": stored.added,
        "replaced": stored.replaced,
        "refused": refused,
        "hub_alarms": listed(&stored.hubs),
        "quarantined": listed(&stored.held),
        "points": points,
        "dry_run": command.dry_run,
    });
    context.output.result(&result, || {
        let done = if command.dry_run { "checked" } else { "read" };
        format!(
            "{done} {} rows: {} added, {} replaced, {} refused{}; `{}` has {points} points",
            checked.rows,
            stored.added,
            stored.replaced,
            checked.refused.len(),
            if stored.held.is_empty() {
                String::new()
            } else {
                format!(", {} in quarantine", stored.held.len())
            },
            command.collection,
        )
    })?;
    Ok(())
}
