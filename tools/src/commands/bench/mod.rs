//! `dehub bench`.

mod curves;
mod latencies;
mod open_loop;
mod results;
mod served;
mod timing;

use super::{Context, Outcome};
use crate::cli::Bench;

/// Measures recall beside speed in this process, or how a server bears a load.
pub(crate) fn run(context: &Context, command: &Bench) -> anyhow::Result<Outcome> {
    match &command.open_loop.url {
        Some(url) => served::run(context, command, url),
        None => curves::run(context, command),
    }
}
