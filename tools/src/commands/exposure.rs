//! `dehub hubs --exposure`.

use dehub_index::Snapshot;
use dehub_query::{Exposure, ExposureStep, Reach, exposure};
use serde_json::{Value, json};

use super::hubs::{chosen_bank, only_correction};
use super::{Context, Outcome};
use crate::cli::Hubs;
use crate::load;
use crate::output::table;

/// Shows how many queries one point reaches, beside how many it may.
pub(super) fn run(context: &Context, command: &Hubs, snapshot: &Snapshot) -> anyhow::Result<Outcome> {
    let correction = only_correction(command, snapshot)?;
    let own = correction.info().query_bank.clone();
    let (bank, queries) = match (&command.queries, &command.bank, own) {
        (Some(file), ..) => (None, load::queries(file, snapshot.config())?),
        (None, None, Some(own)) => {
            let queries = snapshot.bank_queries(&own, usize::MAX);
            (Some(own), queries)
        }
        (None, ..) => {
            let bank = chosen_bank(command, snapshot)?;
            let queries = snapshot.bank_queries(&bank, usize::MAX);
            (Some(bank), queries)
        }
    };
    let found = exposure(snapshot, correction, bank.as_ref(), &queries)?;
    let ids = ids(snapshot, &found)?;
    let steps: Vec<Value> = found.steps.iter().zip(&ids).map(|(step, ids)| to_json(step, ids)).collect();
    let result = json!({
        "collection": command.collection,
        "method": found.label,
        "bank": found.bank.as_ref().map(|bank| bank.as_str()),
        "queries": found.queries,
        "is_law": found.is_law,
        "steps": steps,
    });
    context.output.result(&result, || describe(command, &found, &ids))?;
    Ok(Outcome::Done)
}

/// The ids of the most exposed points of each step, corrected and raw.
fn ids(snapshot: &Snapshot, found: &Exposure) -> anyhow::Result<Vec<[String; 2]>> {
    let of_step = |step: &ExposureStep| {
        let points = snapshot.points(&[step.corrected.row, step.raw.row])?;
        Ok([points[0].id.to_string(), points[1].id.to_string()])
    };
    found.steps.iter().map(of_step).collect()
}

fn to_json(step: &ExposureStep, [corrected, raw]: &[String; 2]) -> Value {
    json!({
        "threshold": step.threshold,
        "cap": step.cap,
        "corrected": side(&step.corrected, corrected),
        "raw": side(&step.raw, raw),
    })
}

fn side(reach: &Reach, id: &str) -> Value {
    json!({ "largest": reach.largest, "id": id, "violations": reach.violations })
}

fn describe(command: &Hubs, found: &Exposure, ids: &[[String; 2]]) -> String {
    let from = match (&found.bank, &command.queries) {
        (Some(bank), _) => format!("bank {bank}"),
        (None, Some(file)) => file.display().to_string(),
        (None, None) => "the queries given".to_owned(),
    };
    let row = |(step, [corrected, raw]): (&ExposureStep, &[String; 2])| {
        let ExposureStep { threshold, cap, corrected: after, raw: before } = step;
        vec![
            format!("{threshold:+.4}"),
            format!("{cap:.0}"),
            after.largest.to_string(),
            corrected.clone(),
            after.violations.to_string(),
            before.largest.to_string(),
            raw.clone(),
            before.violations.to_string(),
        ]
    };
    let head =
        ["score", "cap", "most", "of point", "above the cap", "raw: most", "of point", "above the cap"];
    let law = if found.is_law {
        "These are all entries of the bank it is fitted from: no point can be above the cap."
    } else {
        "These are not the whole bank it is fitted from: the cap is a mark to measure by, no law."
    };
    format!(
        "{}: how many of {} queries of {from} give one point at least a score\n\n{}\n{law}\nRaw scores are less \
         the mean bias, the same for all points.",
        found.label,
        found.queries,
        table(&head, 0, found.steps.iter().zip(ids).map(row)),
    )
}
