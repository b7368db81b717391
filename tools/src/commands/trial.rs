//! What choices by queries have in common: reading the queries, telling the numbers.

use std::path::Path;

use anyhow::bail;
use dehub_eval::Qrels;
use dehub_index::{FitInput, Name, Snapshot};
use dehub_query::{Estimate, Evidence, LabelledQuery, Reason, TuneOptions, TuneReport, TuneRow, leaks};
use dehub_vector::Vector;
use serde_json::{Value, json};

use super::Context;
use crate::cli::{Trial, VectorFile};
use crate::load;
use crate::output::table;

/// What a choice is made by, as read from files.
pub(super) struct Asked {
    pub(super) vectors: Vec<Vector>,
    labelled: Option<(Vec<LabelledQuery>, Qrels)>,
}

impl Asked {
    pub(super) fn read(
        queries: Option<&Path>,
        format: &VectorFile,
        qrels: Option<&Path>,
        snapshot: &Snapshot,
    ) -> anyhow::Result<Asked> {
        let Some(file) = queries else {
            bail!(
                "there is nothing to choose by: name a file of recent queries, judged or not, with --queries. \
                 The bank's own entries do not do: what lowers their hubness may raise that of the queries \
                 users ask"
            );
        };
        let Some(qrels) = qrels else {
            return Ok(Asked {
                vectors: load::chosen_queries(file, format, snapshot.config())?,
                labelled: None,
            });
        };
        let queries = load::labelled_queries(file, format, snapshot.config())?;
        let vectors = queries.iter().map(|query| query.vector.clone()).collect();
        Ok(Asked { vectors, labelled: Some((queries, load::qrels(qrels)?)) })
    }

    pub(super) fn evidence(&self) -> Evidence<'_> {
        match &self.labelled {
            None => Evidence::Unlabelled(&self.vectors),
            Some((queries, qrels)) => Evidence::Labelled { queries, qrels },
        }
    }
}

/// How the choice is made.
pub(super) fn options(trial: &Trial) -> TuneOptions {
    TuneOptions { seed: trial.seed, rounds: trial.rounds, ..TuneOptions::default() }
}

/// What a correction does to the queries it is fitted from says little of what it does to others.
pub(super) fn note_leaks(context: &Context, snapshot: &Snapshot, inputs: &[FitInput], queries: &[Vector]) {
    let is_used = |bank: &Name| inputs.iter().any(|input| input.query_bank.as_ref() == Some(bank));
    for (bank, held) in leaks(snapshot, queries).into_iter().filter(|(bank, _)| is_used(bank)) {
        context.output.note(format!(
            "warning: bank `{bank}` holds {held} of the queries: corrections fitted from it look better than \
             they are"
        ));
    }
}

/// Adds the fields of an object to another.
pub(super) fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (value, more) {
        fields.extend(more);
    }
}

/// A report as JSON.
pub(super) fn report_json(report: &TuneReport, options: &TuneOptions) -> Value {
    let raw = &report.raw;
    json!({
        "points": report.points,
        "queries": report.queries,
        "judged": report.judged,
        "k": report.k,
        "seed": options.seed,
        "rounds": options.rounds,
        "raw": {
            "robin_hood": raw.robin_hood,
            "robin_hood_at_random": raw.at_random,
            "excess": estimate(raw.excess),
            "ndcg": raw.ndcg,
        },
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "verdict": {
            "pick": report.verdict.pick.map(|row| &report.rows[row].method),
            "best": report.rows[report.verdict.best].method,
            "reason": report.verdict.reason.to_string(),
            "queries_wanted": queries_wanted(report.verdict.reason),
        },
    })
}

/// A report's numbers in words and a table, without the verdict.
pub(super) fn describe_report(report: &TuneReport, options: &TuneOptions) -> String {
    let judged = report.judged.map_or(String::new(), |judged| format!(", {judged} of them judged"));
    format!(
        "{} queries{judged}, {} points, the best {} of each query; 95 % intervals of {} rounds, seed {}\n\n{}\n\
         Answers drawn at random would have a Robin Hood index of {:.3}; what raw has above that is the hubness \
         to remove.\n",
        report.queries,
        report.points,
        report.k,
        options.rounds,
        options.seed,
        rows(report),
        report.raw.at_random
    )
}

/// The verdict in a line.
pub(super) fn describe_verdict(report: &TuneReport) -> String {
    let pick = report.verdict.pick.map_or("none", |row| &report.rows[row].method);
    format!("\nVerdict: {pick}: {}.\n", report.verdict.reason)
}

fn rows(report: &TuneReport) -> String {
    let is_judged = report.judged.is_some();
    let mut head = vec!["correction", "Robin Hood", "removed", "95 %"];
    if is_judged {
        head.extend(["nDCG", "gain", "95 %"]);
    }
    head.push("finding");
    let raw = &report.raw;
    let mut first = vec!["raw".to_owned(), format!("{:.3}", raw.robin_hood), String::new(), String::new()];
    if let Some(ndcg) = raw.ndcg {
        first.extend([format!("{ndcg:.4}"), String::new(), String::new()]);
    }
    first.push(String::new());
    let line = |row: &TuneRow| {
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let ends = |it: Estimate| format!("{:.0} to {:.0} %", 100.0 * it.low, 100.0 * it.high);
        let mut cells = vec![row.method.clone(), format!("{:.3}", row.robin_hood)];
        cells.push(row.share.map_or("–".to_owned(), |share| percent(share.value)));
        cells.push(row.share.map_or(String::new(), ends));
        if let (Some(ndcg), Some(gain)) = (row.ndcg, row.gain) {
            cells.extend([format!("{ndcg:.4}"), format!("{:+.4}", gain.value)]);
            cells.push(format!("{:+.4} to {:+.4}", gain.low, gain.high));
        }
        cells.push(row.finding.to_string());
        cells
    };
    table(&head, 1, std::iter::once(first).chain(report.rows.iter().map(line)))
}

fn estimate(it: Estimate) -> Value {
    json!({ "value": it.value, "low": it.low, "high": it.high })
}

fn row(row: &TuneRow) -> Value {
    json!({
        "method": row.method,
        "robin_hood": row.robin_hood,
        "removed": row.share.map(estimate),
        "ndcg": row.ndcg,
        "gain": row.gain.map(estimate),
        "finding": row.finding.to_string(),
    })
}

/// How many queries would settle an open choice.
fn queries_wanted(reason: Reason) -> Option<usize> {
    match reason {
        Reason::MayRemove { queries, .. } => Some(queries),
        Reason::MayGain { queries, .. } => queries,
        Reason::NoHubs { .. }
        | Reason::RemovesTooLittle { .. }
        | Reason::Removes { .. }
        | Reason::RawIsBest
        | Reason::Gains { .. } => None,
    }
}
