//! `dehub serve`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dehub_api::{ServeError, Server, ServerConfig};
use dehub_backup::try_folder;
use dehub_index::{Catalogue, CollectionState};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{Context, Outcome};
use crate::cli::Serve;
use crate::settings::{Settings, TlsSettings};
use crate::telemetry::Telemetry;

/// Serves the collections over HTTP until it is told to stop, or checks whether it could.
pub(crate) fn run(context: &Context, command: Serve, telemetry: &Telemetry) -> anyhow::Result<Outcome> {
    let is_check = command.check;
    let mut settings = context.settings.clone();
    with_flags(&mut settings, command);
    if is_check {
        return check(context, &settings);
    }
    let config = ServerConfig { tracer: telemetry.tracer(), ..settings.server()? };
    end_at_second_signal()?;
    let server = Server::bind(Arc::clone(&context.catalogue), &config)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", server.address());
    context.output.result(&json!({ "address": address }), || {
        format!("serving {} on {address} (stop with Ctrl-C)", context.catalogue.folder().display())
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

/// What flags say counts.
fn with_flags(settings: &mut Settings, command: Serve) {
    let service = &mut settings.service;
    service.host = command.host.unwrap_or_else(|| service.host.clone());
    service.port = command.port.unwrap_or(service.port);
    settings.backups = command.backups.or_else(|| settings.backups.take());
    service.key_file = command.key_file.or_else(|| service.key_file.take());
    service.allow_unauthenticated |= command.allow_unauthenticated;
    if let (Some(certificate), Some(key)) = (command.tls_certificate, command.tls_key) {
        let client_authorities = service.tls.take().and_then(|tls| tls.client_authorities);
        service.tls = Some(TlsSettings { certificate, key, client_authorities });
    }
    service.audit.path = command.audit_log.or_else(|| service.audit.path.take());
}

/// The first SIGTERM or SIGINT asks the server to stop; the second ends the process at once, as the signal does.
fn end_at_second_signal() -> io::Result<()> {
    let is_asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag down, and raises it.
        flag::register_conditional_default(signal, Arc::clone(&is_asked))?;
        flag::register(signal, Arc::clone(&is_asked))?;
    }
    Ok(())
}

/// Shows the settings, and what is wrong with them.
fn check(context: &Context, settings: &Settings) -> anyhow::Result<Outcome> {
    let mut faults: Vec<String> = Vec::new();
    let mut is_wrong = false;
    match settings.server() {
        Ok(config) => {
            for error in config.check() {
                is_wrong |= matches!(error, ServeError::Setting(_) | ServeError::Unprotected { .. });
                faults.push(error.to_string());
            }
        }
        Err(error) => {
            is_wrong = true;
            faults.push(error.to_string());
        }
    }
    if let Err(error) = settings.observe.check() {
        is_wrong = true;
        faults.push(error.to_string());
    }
    let folder = context.catalogue.folder();
    if let Err(error) = try_folder(folder) {
        faults.push(format!("the data directory {} cannot be used: {error}", folder.display()));
    } else if let Err(error) = context.catalogue.check_free() {
        faults.push(error.to_string());
    }
    context.output.result(&json!({ "settings": settings, "faults": faults }), || {
        let verdict = if faults.is_empty() { "# all is well".to_owned() } else { String::new() };
        let faults = faults.iter().map(|fault| format!("# wrong: {fault}"));
        settings.lines().into_iter().chain(faults).chain([verdict]).collect::<Vec<_>>().join("\n")
    })?;
    Ok(match (faults.is_empty(), is_wrong) {
        (true, _) => Outcome::Done,
        (false, true) => Outcome::WrongSettings,
        (false, false) => Outcome::NotWhole,
    })
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
