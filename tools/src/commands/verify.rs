//! `dehub verify`.

use dehub_index::{CatalogueError, Check, Collection, Difference, GraphBuild, Name, Rebuilt, VerifyReport};
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::Verify;
use crate::output::table;

/// What became of one collection.
struct Verified {
    name: Name,
    /// What was found, before anything was derived again.
    found: Result<VerifyReport, CatalogueError>,
    /// What was derived again, and what was found after.
    rebuilt: Option<(Rebuilt, VerifyReport)>,
}

impl Verified {
    fn is_whole(&self) -> bool {
        match (&self.found, &self.rebuilt) {
            (_, Some((_, after))) => after.is_whole(),
            (Ok(report), None) => report.is_whole(),
            (Err(_), None) => false,
        }
    }
}

/// Checks collections, and derives again what is not as it should be if that is asked for.
pub(crate) fn run(context: &Context, command: &Verify) -> anyhow::Result<Outcome> {
    let names = context.names(command.collection.as_deref())?;
    let mut verified = Vec::new();
    for name in names {
        verified.push(verify(context, name, command.rebuild)?);
    }
    let values: Vec<Value> = verified.iter().map(|it| to_json(context, it)).collect();
    let are_whole = verified.iter().all(Verified::is_whole);
    let value = json!({ "whole": are_whole, "collections": values });
    context.output.result(&value, || {
        let texts: Vec<String> = verified.iter().map(|it| describe(context, it)).collect();
        if texts.is_empty() { "no collections".to_owned() } else { texts.join("\n\n") }
    })?;
    Ok(if are_whole { Outcome::Done } else { Outcome::NotWhole })
}

fn verify(context: &Context, name: Name, rebuild: bool) -> anyhow::Result<Verified> {
    let collection = match context.catalogue.get(&name) {
        Ok(collection) => collection,
        // What does not open is what this command is for; what is not there is a mistake.
        Err(error @ CatalogueError::Open(_)) => {
            return Ok(Verified { name, found: Err(error), rebuilt: None });
        }
        Err(error) => return Err(error.into()),
    };
    let report = check(context, &name, &collection);
    let is_tended = !report.is_calibration_due && !collection.is_graph_due();
    let has_orphans = |report: &VerifyReport| report.orphans.records > 0;
    let has_orphans = has_orphans(&report) || report.spaces.values().any(has_orphans);
    let has_work = !report.is_whole() || has_orphans || !is_tended;
    let rebuilt = if rebuild && has_work {
        let bar = context.output.progress("deriving again", None);
        let rebuilt = collection.rebuild(&report);
        bar.finish_and_clear();
        let rebuilt = rebuilt?;
        context.tend(&collection)?;
        Some((rebuilt, check(context, &name, &collection)))
    } else {
        None
    };
    Ok(Verified { name, found: Ok(report), rebuilt })
}

fn check(context: &Context, name: &Name, collection: &Collection) -> VerifyReport {
    let bar = context.output.progress("verifying", None);
    let report = collection.verify(&mut |kind| bar.set_message(format!("verifying {name}: {}", kind.name())));
    bar.finish_and_clear();
    report
}

/// Whether the data are not what was written, rather than that they could not be read now.
fn is_damage(error: &CatalogueError) -> bool {
    matches!(error, CatalogueError::Open(error) if error.is_damage())
}

fn to_json(context: &Context, verified: &Verified) -> Value {
    let mut value = match &verified.found {
        Err(error) if is_damage(error) => {
            json!({ "error": error.to_string(), "remedy": context.remedy(&verified.name) })
        }
        Err(error) => json!({ "error": error.to_string() }),
        Ok(report) => report_json(report),
    };
    value["collection"] = json!(verified.name.as_str());
    value["whole"] = json!(verified.is_whole());
    if let Some((rebuilt, after)) = &verified.rebuilt {
        let nodes = if let GraphBuild::Built { nodes } = rebuilt.graph { Some(nodes) } else { None };
        value["rebuilt"] = json!({
            "set_aside": rebuilt.set_aside,
            "graph_nodes": nodes,
            "refitted_banks": rebuilt.refitted.iter().map(Name::as_str).collect::<Vec<_>>(),
            "orphans_dropped": rebuilt.orphans.records,
        });
        value["after"] = report_json(after);
    }
    value
}

fn report_json(report: &VerifyReport) -> Value {
    let check = |check: &Check| {
        let difference = |it: &Difference| {
            let Difference { family, place, wanted, found } = it;
            json!({ "family": family, "place": place, "wanted": wanted, "found": found })
        };
        json!({
            "check": check.kind.name(),
            "checked": check.checked,
            "differences": check.differences,
            "first": check.first.iter().map(difference).collect::<Vec<_>>(),
        })
    };
    let mut value = json!({
        "sequence": report.sequence,
        "differences": report.differences(),
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "orphans": { "records": report.orphans.records, "bytes": report.orphans.bytes },
        "set_aside": report.set_aside,
        "calibration_due": report.is_calibration_due,
    });
    if !report.spaces.is_empty() {
        let space = |(name, report): (&Name, &VerifyReport)| (name.to_string(), report_json(report));
        value["vectors"] = Value::Object(report.spaces.iter().map(space).collect());
    }
    value
}

fn describe(context: &Context, verified: &Verified) -> String {
    let name = &verified.name;
    let report = match &verified.found {
        Err(error) if is_damage(error) => {
            return format!("{name} does not open: {error}\n{}", context.remedy(name));
        }
        Err(error) => return format!("{name} does not open: {error}"),
        Ok(report) => report,
    };
    let mut text = format!("{name}, commit {}\n{}", report.sequence, describe_report(report));
    if let Some((rebuilt, after)) = &verified.rebuilt {
        text += &format!("\n\nrebuilt:{}", describe_rebuilt(rebuilt));
        text += &format!("\n\n{name}, commit {}, verified again\n{}", after.sequence, describe_report(after));
    }
    if verified.is_whole() {
        text += "\nwhole";
    } else if verified.rebuilt.is_some() {
        text += &format!("\nwhat is left is not derived from anything: {}", context.remedy(name));
    } else {
        text += &format!("\nnot whole: `dehub verify {name} --rebuild` derives again what can be derived");
    }
    text
}

fn describe_report(report: &VerifyReport) -> String {
    let row = |check: &Check| {
        vec![check.kind.name().to_owned(), check.checked.to_string(), check.differences.to_string()]
    };
    let mut text = table(&["check", "looked at", "differences"], 1, report.checks.iter().map(row));
    for check in report.checks.iter().filter(|check| check.differences > 0) {
        for it in &check.first {
            text += &format!("\n  {}: {}: wanted {}, found {}", it.family, it.place, it.wanted, it.found);
        }
        let more = check.differences - check.first.len() as u64;
        if more > 0 {
            text += &format!("\n  {}: {more} more", check.kind.name());
        }
    }
    if report.orphans.records > 0 {
        let (records, bytes) = (report.orphans.records, report.orphans.bytes);
        text +=
            &format!("\n{records} records of {bytes} bytes that nothing names; `dehub compact` removes them");
    }
    for file in &report.set_aside {
        text += &format!("\nset aside: {file}");
    }
    if report.is_calibration_due {
        text += "\nsearches are to be calibrated again";
    }
    for (name, report) in &report.spaces {
        text += &format!("\n\nvector {name}\n{}", describe_report(report));
    }
    text
}

fn describe_rebuilt(rebuilt: &Rebuilt) -> String {
    let mut text = String::new();
    for file in &rebuilt.set_aside {
        text += &format!("\n  set aside {file}");
    }
    if let GraphBuild::Built { nodes } = rebuilt.graph {
        text += &format!("\n  froze the graph anew: {nodes} nodes");
    }
    for bank in &rebuilt.refitted {
        text += &format!("\n  fitted anew what is over bank {bank}");
    }
    if rebuilt.orphans.records > 0 {
        text += &format!("\n  dropped {} records that nothing names", rebuilt.orphans.records);
    }
    if text.is_empty() {
        "\n  nothing but what is measured and frozen as time goes by".to_owned()
    } else {
        text
    }
}
