//! `dehub serve`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dehub_api::{Server, ServerConfig};
use dehub_index::{Catalogue, CollectionState};
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::Serve;

/// Serves the collections over HTTP until it is told to stop.
pub(crate) fn run(context: &Context, command: Serve) -> anyhow::Result<Outcome> {
    let settings = &context.settings.serve;
    let config = ServerConfig {
        host: command.host.unwrap_or_else(|| settings.host.clone()),
        port: command.port.unwrap_or(settings.port),
        body_limit_bytes: settings.body_limit_bytes,
        workers: settings.workers,
        backups: command.backups.or_else(|| context.settings.backups.clone()),
        ..ServerConfig::default()
    };
    let server = Server::bind(Arc::clone(&context.catalogue), &config)?;
    let address = server.address();
    context.output.result(&json!({ "address": format!("http://{address}") }), || {
        format!("serving {} on http://{address} (stop with Ctrl-C)", context.catalogue.folder().display())
    })?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| show_opening(context, &is_over));
        let served = server.run();
        is_over.store(true, Ordering::Release);
        served
    })?;
    Ok(Outcome::Done)
}

/// How often the progress of opening is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Shows on a terminal how far the collections are that the server opens, until all are; the log tells the rest.
fn show_opening(context: &Context, is_over: &AtomicBool) {
    let bar = context.output.progress("opening collections", Some(100));
    while !bar.is_hidden() && !is_over.load(Ordering::Acquire) {
        let Some(percent) = opened_percent(&context.catalogue) else { break };
        bar.set_position(percent);
        thread::sleep(SHOW_EVERY);
    }
    bar.finish_and_clear();
}

/// How much of the collections is open; nothing when all are, or do not open.
fn opened_percent(catalogue: &Catalogue) -> Option<u64> {
    let states = catalogue.states().ok()?;
    let is_under_way =
        |state: &CollectionState| !matches!(state, CollectionState::Open | CollectionState::Failed { .. });
    if !states.values().any(is_under_way) {
        return None;
    }
    let share = |state: &CollectionState| if is_under_way(state) { state.share() } else { 1.0 };
    let sum: f64 = states.values().map(share).sum();
    Some((100.0 * sum / states.len() as f64) as u64)
}
