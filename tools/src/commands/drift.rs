//! `dehub drift`.

use anyhow::bail;
use dehub_index::Name;
use dehub_query::drift;
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::Drift;
use crate::load;

/// Tells whether queries are still like a bank.
pub(crate) fn run(context: &Context, command: &Drift) -> anyhow::Result<Outcome> {
    let snapshot = context.space(&command.collection)?.snapshot();
    let bank: Name = command.bank.parse()?;
    let (queries, from) = match (&command.queries, &command.against) {
        (Some(file), _) => {
            let queries = load::queries(file, snapshot.config())?;
            (queries, file.display().to_string())
        }
        (None, Some(against)) if *against == command.bank => {
            bail!("bank `{against}` would be compared with itself: name another one with --against")
        }
        (None, Some(against)) => {
            let Some(other) = snapshot.bank(against) else {
                let names: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
                bail!("there is no bank `{against}`; the collection has: {}", names.join(", "));
            };
            (snapshot.bank_queries(&other.name, usize::MAX), format!("bank {against}"))
        }
        (None, None) => bail!("there is nothing to compare: name queries with --queries or --against"),
    };
    let found = drift(&snapshot, &bank, &queries)?;
    let likeness = found.likeness();
    let result = json!({
        "collection": command.collection,
        "bank": bank.as_str(),
        "from": from,
        "likeness": likeness.name(),
        "report": found.to_string(),
        "advice": likeness.advice(),
        "queries": found.queries,
        "entries": found.entries,
        "nearest_of_queries": found.nearest_of_queries,
        "nearest_of_entries": found.nearest_of_entries,
        "farther": found.farther,
        "z": found.z,
    });
    context.output.result(&result, || {
        format!(
            "{found}\n{}\n\n{} queries of {from}: mean similarity to the nearest entry {:.4}\n{} entries of \
             bank {bank}: to the nearest of the others {:.4}",
            likeness.advice(),
            found.queries,
            found.nearest_of_queries,
            found.entries,
            found.nearest_of_entries
        )
    })?;
    Ok(Outcome::Done)
}
