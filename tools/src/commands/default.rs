//! `dehub default`: the correction that ranks queries which name none, and the veto before it.

use anyhow::{anyhow, bail};
use dehub_index::{Collection, Correction, DefaultCorrection, DefaultEvidence, Interval, Name, Snapshot};
use dehub_query::{TuneOptions, TuneReport, tune};
use serde_json::{Value, json};

use super::trial::{Asked, describe_report, describe_verdict, options, report_json};
use super::{Context, Outcome};
use crate::cli::Default as Command;

/// Shows, sets or clears the default.
pub(crate) fn run(context: &Context, command: &Command) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    if command.clear {
        let cleared = collection.clear_default()?;
        let result = json!({ "collection": command.collection, "default": null, "cleared": cleared });
        context.output.result(&result, || {
            let before = if cleared { "The default is cleared" } else { "There was no default" };
            format!("{before}; queries that name no correction are ranked raw.")
        })?;
        return Ok(Outcome::Done);
    }
    match &command.correction {
        None => show(context, command, &collection, None)?,
        Some(name) => {
            let report = set(command, &collection, &name.parse()?)?;
            show(context, command, &collection, report.as_ref())?;
        }
    }
    Ok(Outcome::Done)
}

/// Makes a correction the default if the veto lets it.
fn set(command: &Command, collection: &Collection, name: &Name) -> anyhow::Result<Option<TuneReport>> {
    let snapshot = collection.snapshot();
    let Some(correction) = snapshot.correction(name.as_str()) else {
        let names: Vec<_> = snapshot.corrections().map(|it| it.info().name.as_str()).collect();
        bail!("there is no correction `{name}`; the collection has: {}", names.join(", "));
    };
    let version = correction.info().version;
    if command.queries.is_none() && command.force {
        let correction = name.clone();
        collection.set_default(&DefaultCorrection { correction, version, evidence: None, forced: true })?;
        return Ok(None);
    }
    let trial = &command.trial;
    let asked = Asked::read(command.queries.as_deref(), &command.format, trial.qrels.as_deref(), &snapshot)?;
    let options = options(trial);
    let (report, evidence) = judge(&snapshot, correction, &asked, &options)?;
    if !evidence.approved && !command.force {
        return Err(veto(name, &report, &options));
    }
    let forced = !evidence.approved;
    let evidence = Some(evidence);
    collection.set_default(&DefaultCorrection { correction: name.clone(), version, evidence, forced })?;
    Ok(Some(report))
}

/// What one correction does to the queries.
pub(super) fn judge(
    snapshot: &Snapshot,
    correction: &Correction,
    asked: &Asked,
    options: &TuneOptions,
) -> anyhow::Result<(TuneReport, DefaultEvidence)> {
    let report = tune(snapshot, std::slice::from_ref(correction), asked.evidence(), options)?;
    let evidence = report.evidence(0, options);
    Ok((report, evidence))
}

/// The refusal of a correction that does no surely good, with the numbers.
pub(super) fn veto(name: &Name, report: &TuneReport, options: &TuneOptions) -> anyhow::Error {
    anyhow!(
        "`{name}` does not become the default, and nothing was changed; --force makes it the default all the \
         same\n\n{}{}",
        describe_report(report, options),
        describe_verdict(report).trim_end()
    )
}

fn show(
    context: &Context,
    command: &Command,
    collection: &Collection,
    report: Option<&TuneReport>,
) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let default = snapshot.default_correction();
    let mut result = json!({ "collection": command.collection, "default": default.map(default_json) });
    let options = options(&command.trial);
    if let Some(report) = report {
        result["report"] = report_json(report, &options);
    }
    context.output.result(&result, || {
        let mut text = report.map_or(String::new(), |report| {
            describe_report(report, &options) + &describe_verdict(report) + "\n"
        });
        text += &default
            .map_or("none; queries that name no correction are ranked raw".to_owned(), |default| {
                format!("default: {}", describe_default(default))
            });
        text
    })?;
    Ok(())
}

/// A default as JSON.
pub(super) fn default_json(default: &DefaultCorrection) -> Value {
    let interval = |it: Interval| json!({ "value": it.value, "low": it.low, "high": it.high });
    let evidence = default.evidence.as_ref().map(|it| {
        json!({
            "approved": it.approved,
            "removed": it.share.map(interval),
            "gain": it.gain.map(interval),
            "queries": it.queries,
            "judged": it.judged,
            "seed": it.seed,
            "rounds": it.rounds,
            "reason": it.reason,
        })
    });
    json!({
        "correction": default.correction.as_str(),
        "version": default.version,
        "forced": default.forced,
        "evidence": evidence,
    })
}

/// A default and what it was made it by, in a line or two.
pub(super) fn describe_default(default: &DefaultCorrection) -> String {
    let DefaultCorrection { correction, version, evidence, forced } = default;
    let forced = if *forced { ", forced" } else { "" };
    let evidence = match evidence {
        None => "nothing was measured".to_owned(),
        Some(it) => format!("on {} queries, seed {}: {}", it.queries, it.seed, it.reason),
    };
    format!("{correction} (judged at version {version}{forced})\n  {evidence}")
}
