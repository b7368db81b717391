//! `dehub report`.

use serde_json::json;

use super::eval::read_results;
use super::{Context, Outcome};
use crate::cli;
use crate::report::{self, Bench};

/// Writes the page of stored results.
pub(crate) fn run(context: &Context, command: &cli::Report) -> anyhow::Result<Outcome> {
    let (_, results) = read_results(&command.results)?;
    let bench = command.bench.as_deref().map(Bench::read).transpose()?;
    report::write(&command.output, &results, bench.as_ref())?;
    let page = command.output.display();
    context.output.result(&json!({ "report": command.output }), || format!("wrote {page}"))?;
    Ok(Outcome::Done)
}
