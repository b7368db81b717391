//! `dehub hubs`.

use std::collections::HashMap;

use anyhow::bail;
use dehub_index::{Correction, Name, Snapshot};
use dehub_query::{
    BankKind, HubnessRow, Influence, Method, PointBias, Ranking, hubness, influences, point_biases,
};
use dehub_vector::{PointId, Vector};
use serde_json::{Value, json};

use super::search::shortened;
use super::{Context, Outcome, exposure, sources};
use crate::cli::Hubs;
use crate::load;
use crate::output::table;

/// Shows which points are hubs, raw and corrected.
pub(crate) fn run(context: &Context, command: &Hubs) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let snapshot = collection.snapshot();
    if command.exposure {
        return exposure::run(context, command, &snapshot);
    }
    if let Some(separator) = &command.sources {
        return sources::run(context, command, &snapshot, separator);
    }
    if let Some(id) = &command.explain {
        return explain_point(context, command, &snapshot, id);
    }
    let (queries, from) = queries(command, &snapshot)?;
    let rankings = rankings(&snapshot, &command.correction);
    let rows = hubness(&snapshot, &queries, &rankings, command.k, command.top)?;
    let names = names(&snapshot, &rows)?;
    let result = json!({
        "collection": command.collection,
        "points": snapshot.len(),
        "queries": queries.len(),
        "from": from,
        "k": command.k,
        "rows": rows.iter().zip(&names).map(|(row, names)| to_json(row, names)).collect::<Vec<_>>(),
    });
    context.output.result(&result, || describe(command, &rows, &names, queries.len(), &from))?;
    Ok(Outcome::Done)
}

/// Raw, then each correction named, or every one there is.
pub(crate) fn rankings(snapshot: &Snapshot, named: &[String]) -> Vec<Ranking> {
    let all = || snapshot.corrections().map(|correction| correction.info().name.to_string()).collect();
    let names: Vec<String> = if named.is_empty() { all() } else { named.to_vec() };
    let corrected = names.iter().map(|name| Ranking::corrected(name));
    std::iter::once(Ranking::Raw).chain(corrected).collect()
}

/// The one correction that is asked about.
pub(super) fn only_correction<'a>(command: &Hubs, snapshot: &'a Snapshot) -> anyhow::Result<&'a Correction> {
    let [name] = &command.correction[..] else {
        bail!(
            "wanted one correction to ask about, found {}: name it with --correction",
            command.correction.len()
        );
    };
    let by_label = || snapshot.correction(&name.parse::<Method>().ok()?.to_string());
    let Some(correction) = snapshot.correction(name).or_else(by_label) else {
        let names: Vec<_> = snapshot.corrections().map(|it| it.info().name.as_str()).collect();
        bail!("there is no correction `{name}`; the collection has: {}", names.join(", "));
    };
    Ok(correction)
}

/// The row of the point with an id.
pub(super) fn row_of(snapshot: &Snapshot, id: &str) -> anyhow::Result<u32> {
    let id = PointId::parse(id)?;
    let Some(row) = snapshot.find(&id)? else { bail!("there is no point with the id {id}") };
    Ok(row)
}

/// Shows the biases of one point and the bank entries they come from.
fn explain_point(
    context: &Context,
    command: &Hubs,
    snapshot: &Snapshot,
    id: &str,
) -> anyhow::Result<Outcome> {
    let row = row_of(snapshot, id)?;
    let id = PointId::parse(id)?;
    let bank = chosen_bank(command, snapshot)?;
    let biases = point_biases(snapshot, row);
    let nearest = influences(snapshot, row, &bank, command.top);
    let numbers = snapshot.live_entries(bank.as_str()).map(|(number, ..)| number);
    let ids: HashMap<u32, Option<PointId>> = numbers.zip(snapshot.bank_ids(&bank)).collect();
    let id_of = |it: &Influence| ids.get(&it.entry).cloned().flatten();
    let entry = |it: &Influence| json!({ "entry": it.entry, "id": id_of(it), "similarity": it.similarity });
    let result = json!({
        "id": id,
        "biases": biases.iter().map(|it| json!({ "method": it.label, "bias": it.bias, "rank": it.rank }))
            .collect::<Vec<_>>(),
        "bank": bank.as_str(),
        "nearest": nearest.iter().map(entry).collect::<Vec<_>>(),
    });
    let points = snapshot.len();
    context.output.result(&result, || {
        let of_method = |it: &PointBias| {
            vec![it.label.clone(), format!("{:+.4}", it.bias), format!("{} of {points}", it.rank)]
        };
        let of_entry = |it: &Influence| {
            let id = id_of(it).map_or(String::new(), |id| id.to_string());
            vec![it.entry.to_string(), id, format!("{:.4}", it.similarity)]
        };
        format!(
            "{id}: its bias under each correction, 1 the largest\n\n{}\nthe entries of bank {bank} nearest to it\n\n{}",
            table(&["method", "bias", "rank"], 1, biases.iter().map(of_method)),
            table(&["entry", "id", "similarity"], 0, nearest.iter().map(of_entry)),
        )
    })?;
    Ok(Outcome::Done)
}

/// The bank named, or the first query bank.
pub(super) fn chosen_bank(command: &Hubs, snapshot: &Snapshot) -> anyhow::Result<Name> {
    let first =
        || snapshot.banks().find(|bank| bank.kind == BankKind::Query).map(|bank| bank.name.to_string());
    let Some(name) = command.bank.clone().or_else(first) else {
        bail!("there is no query bank to count on: name a file with --queries, or add a bank");
    };
    let Some(bank) = snapshot.bank(&name) else {
        let banks: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
        bail!("there is no bank `{name}`; the collection has: {}", banks.join(", "));
    };
    Ok(bank.name.clone())
}

fn queries(command: &Hubs, snapshot: &Snapshot) -> anyhow::Result<(Vec<Vector>, String)> {
    if let Some(file) = &command.queries {
        return Ok((load::queries(file, snapshot.config())?, file.display().to_string()));
    }
    let bank = chosen_bank(command, snapshot)?;
    Ok((snapshot.bank_queries(&bank, usize::MAX), format!("bank {bank}")))
}

/// Id and text of each hub of each ranking.
type Names = Vec<(String, String)>;

fn names(snapshot: &Snapshot, rows: &[HubnessRow]) -> anyhow::Result<Vec<Names>> {
    let of_row = |row: &HubnessRow| {
        let hubs: Vec<u32> = row.hubs.iter().map(|&(hub, _)| hub).collect();
        let points = snapshot.points(&hubs)?;
        let name =
            |point: dehub_index::Point| (point.id.to_string(), shortened(&point.text.unwrap_or_default()));
        Ok(points.into_iter().map(name).collect())
    };
    rows.iter().map(of_row).collect()
}

fn to_json(row: &HubnessRow, names: &Names) -> Value {
    let occurrence = &row.occurrence;
    let hubs: Vec<_> = row
        .hubs
        .iter()
        .zip(names)
        .map(|(&(_, count), (id, text))| json!({ "id": id, "text": text, "count": count }))
        .collect();
    let steps: Vec<_> = occurrence
        .histogram()
        .into_iter()
        .map(|(least, most, points)| json!({ "least": least, "most": most, "points": points }))
        .collect();
    json!({
        "method": row.label,
        "skewness": occurrence.skewness(),
        "robin_hood": occurrence.robin_hood(),
        "antihubs": occurrence.antihub_share(),
        "antihubs_at_random": occurrence.antihub_share_at_random(),
        "max": occurrence.max(),
        "hubs": hubs,
        "histogram": steps,
    })
}

fn describe(command: &Hubs, rows: &[HubnessRow], names: &[Names], queries: usize, from: &str) -> String {
    let summary = rows.iter().map(|row| {
        let occurrence = &row.occurrence;
        vec![
            row.label.clone(),
            format!("{:.3}", occurrence.skewness()),
            format!("{:.3}", occurrence.robin_hood()),
            format!("{:.1} %", 100.0 * occurrence.antihub_share()),
            occurrence.max().to_string(),
        ]
    });
    let k = command.k;
    let head = ["method", "skewness", "Robin Hood", "antihubs", "largest"];
    let mut text = format!("N{k} over {queries} queries of {from}\n\n{}", table(&head, 1, summary));
    if let Some(row) = rows.first() {
        let at_random = 100.0 * row.occurrence.antihub_share_at_random();
        text += &format!("Answers drawn at random would leave {at_random:.1} % of the points unreturned.\n");
    }
    for (row, names) in rows.iter().zip(names) {
        text += &format!("\n{}: the largest hubs, and how many points occur how often\n\n", row.label);
        let hubs = row
            .hubs
            .iter()
            .zip(names)
            .map(|(&(_, count), (id, name))| vec![id.clone(), name.clone(), count.to_string()]);
        text += &table(&["id", "text", &format!("N{k}")], 2, hubs);
        text += &histogram(row);
    }
    text
}

/// The histogram with a bar for each step.
fn histogram(row: &HubnessRow) -> String {
    let steps = row.occurrence.histogram();
    let tallest = steps.iter().map(|&(_, _, points)| points).max().unwrap_or(0).max(1);
    let bar = |(least, most, points): (u32, u32, usize)| {
        let times = if least == most { least.to_string() } else { format!("{least}–{most}") };
        let width = (points * 40).div_ceil(tallest);
        vec![times, points.to_string(), "█".repeat(width)]
    };
    table(&["times", "points", ""], 0, steps.into_iter().map(bar))
}
