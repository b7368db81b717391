//! `dehub eval`.

use dehub_eval::Measure;
use dehub_query::{Evaluation, Ranking, evaluate, leaks};
use serde_json::{Map, Value, json};

use super::hubs::rankings;
use super::{Context, Outcome};
use crate::cli::Eval;
use crate::load;
use crate::output::table;

/// Ids named in a note; the rest are counted.
const NAMED_MAX: usize = 5;

/// Measures raw and corrected retrieval against judgements.
pub(crate) fn run(context: &Context, command: &Eval) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let snapshot = collection.snapshot();
    let queries = load::labelled_queries(&command.queries, &command.format, snapshot.config())?;
    let qrels = load::qrels(&command.qrels)?;
    let measures = measures(&command.measure)?;
    let corrected: Vec<Ranking> = rankings(&snapshot, &command.correction).split_off(1);
    let bar = context.output.progress("evaluating", None);
    let evaluation = evaluate(&snapshot, &queries, &qrels, &corrected, &measures)?;
    bar.finish_and_clear();
    note_gaps(context, &evaluation);
    let vectors: Vec<_> = queries.iter().map(|query| query.vector.clone()).collect();
    for (bank, held) in leaks(&snapshot, &vectors) {
        context.output.note(format!(
            "warning: bank `{bank}` holds {held} of the test queries: \
             corrections fitted from it look better than they are"
        ));
    }
    context.output.result(&to_json(&evaluation), || describe(&evaluation))?;
    Ok(Outcome::Done)
}

fn measures(named: &[String]) -> anyhow::Result<Vec<Measure>> {
    if named.is_empty() {
        return Ok(Measure::default_table().to_vec());
    }
    named.iter().map(|name| Ok(name.parse::<Measure>()?)).collect()
}

fn note_gaps(context: &Context, evaluation: &Evaluation) {
    let note = |ids: &[String], what: &str| {
        if let Some(more) = ids.len().checked_sub(1) {
            let named = ids.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let rest = if more >= NAMED_MAX { ", …" } else { "" };
            context.output.note(format!("{} {what}: {named}{rest}", ids.len()));
        }
    };
    note(&evaluation.unjudged, "queries have no judgement and count for hubness only");
    note(&evaluation.not_given, "judged queries were not given and are not measured");
    note(&evaluation.not_in_gallery, "judged ids are not in the collection and count as never found");
}

/// The evaluation as one JSON object. `view` is the gallery ranked, by its number of points.
pub(crate) fn to_json(evaluation: &Evaluation) -> Value {
    let rows: Vec<Value> = evaluation
        .rows
        .iter()
        .map(|row| {
            let measures: Map<String, Value> =
                row.measures.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({ "method": row.method, "correction": row.correction, "measures": measures })
        })
        .collect();
    json!({
        "view": evaluation.points.to_string(),
        "queries": evaluation.queries,
        "rows": rows,
        "unjudged": evaluation.unjudged.len(),
        "not_given": evaluation.not_given.len(),
        "not_in_gallery": evaluation.not_in_gallery.len(),
    })
}

/// The evaluation as a table: the measures of relevance, and hubness at ten.
pub(crate) fn describe(evaluation: &Evaluation) -> String {
    let shown = |name: &str| {
        let hub = ["skew", "max", "anti", "RH"].iter().any(|hub| name.starts_with(hub));
        name != "active" && (!hub || name.ends_with("10"))
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in evaluation.rows.iter().flat_map(|row| &row.measures) {
        if shown(name) && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rows = evaluation.rows.iter().map(|row| {
        let value = |name: &&str| row.measures.iter().find(|(own, _)| own == name).map(|&(_, value)| value);
        let cell = |name: &&str| value(name).map_or(String::new(), |value| format_value(name, value));
        std::iter::once(row.method.clone()).chain(names.iter().map(cell)).collect()
    });
    let mut head = vec!["method"];
    head.extend(&names);
    format!(
        "{} queries over {} points, exact ranking\n\n{}",
        evaluation.queries,
        evaluation.points,
        table(&head, 1, rows)
    )
}

fn format_value(name: &str, value: f64) -> String {
    match name {
        "MdR" | "MnR" => format!("{value:.1}"),
        name if name.starts_with("max") => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}
