//! `dehub eval`.

mod collection;
pub(crate) mod files;
mod grid;
mod offline;
mod replay;
pub(crate) mod schema;
mod summary;
mod tables;

use std::fs;

use anyhow::Context as _;
use dehub_query::Measure;

use self::files::Inputs;
pub(crate) use self::replay::read as read_results;
use self::schema::{CollectionRead, Direction, Leak, Results, SCHEMA};
use self::summary::Telling;
pub(crate) use self::tables::{format_value, is_rank};
use super::{Context, Outcome};
use crate::cli::Eval;
use crate::report;

/// Ids named in a note; the rest are counted.
const NAMED_MAX: usize = 5;

/// The measures of a paper's table, which calls the first three R@k.
const PAPER: [&str; 5] = ["Success@1", "Success@5", "Success@10", "MdR", "MnR"];

/// What an evaluation found, wherever it looked.
struct Evaluated {
    inputs: Inputs,
    collection: Option<CollectionRead>,
    leaks: Vec<Leak>,
    forward: Direction,
    reverse: Option<Direction>,
}

/// Measures raw and corrected retrieval, or does it again and compares.
pub(crate) fn run(context: &Context, command: &Eval) -> anyhow::Result<Outcome> {
    if let Some(file) = &command.from {
        return replay::run(context, file);
    }
    let results = evaluate(context, command)?;
    if let Some(file) = &command.output {
        let text = serde_json::to_string(&results)?;
        fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &command.report {
        report::write(file, &results, None)?;
    }
    context.output.result(&results, || match command.table {
        None => tables::describe(&results),
        Some(form) => tables::paper(&results, form),
    })?;
    Ok(Outcome::Done)
}

/// Measures as asked.
fn evaluate(context: &Context, command: &Eval) -> anyhow::Result<Results> {
    let telling = Telling {
        measures: measures(command)?,
        seed: command.seed,
        rounds: command.rounds as usize,
        by_query: command.by_query,
    };
    let methods = grid::expand(&command.method)?;
    let Evaluated { inputs, collection, leaks, forward, reverse } =
        match (&command.collection, &command.gallery, &command.similarities) {
            (Some(name), ..) => collection::run(context, command, &methods, &telling, name)?,
            (None, Some(gallery), _) => offline::vectors(context, command, &methods, &telling, gallery)?,
            (None, None, Some(file)) => offline::matrices(context, command, &methods, &telling, file)?,
            (None, None, None) => {
                anyhow::bail!(
                    "nothing to evaluate: name a collection, or files by --gallery or --similarities"
                )
            }
        };
    for Leak { bank, queries } in &leaks {
        context.output.note(format!(
            "warning: bank `{bank}` holds {queries} of the test queries: \
             corrections fitted from it look better than they are"
        ));
    }
    Ok(Results {
        schema: SCHEMA,
        dehub: env!("CARGO_PKG_VERSION").to_owned(),
        request: command.clone(),
        using: context.using.clone(),
        inputs: inputs.0,
        collection,
        leaks,
        forward,
        reverse,
    })
}

fn measures(command: &Eval) -> anyhow::Result<Vec<Measure>> {
    let parse = |names: Vec<&str>| names.into_iter().map(|name| Ok(name.parse::<Measure>()?)).collect();
    match (&command.measure[..], command.table) {
        ([], None) => Ok(Measure::default_table().to_vec()),
        ([], Some(_)) => parse(PAPER.to_vec()),
        (named, _) => parse(named.iter().map(String::as_str).collect()),
    }
}

fn note_gaps(context: &Context, unjudged: &[String], not_given: &[String], not_in_gallery: &[String]) {
    let note = |ids: &[String], what: &str| {
        if let Some(more) = ids.len().checked_sub(1) {
            let named = ids.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let rest = if more >= NAMED_MAX { ", …" } else { "" };
            context.output.note(format!("{} {what}: {named}{rest}", ids.len()));
        }
    };
    note(unjudged, "queries have no judgement and count for hubness only");
    note(not_given, "judged queries were not given and are not measured");
    note(not_in_gallery, "judged ids are not in the collection and count as never found");
}
