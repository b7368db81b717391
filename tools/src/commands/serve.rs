//! `dehub serve`.

use std::sync::Arc;

use dehub_api::{Server, ServerConfig};
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
    };
    let server = Server::bind(Arc::clone(&context.catalogue), &config)?;
    let address = server.address();
    context.output.result(&json!({ "address": format!("http://{address}") }), || {
        format!("serving {} on http://{address} (stop with Ctrl-C)", context.catalogue.folder().display())
    })?;
    server.run()?;
    Ok(Outcome::Done)
}
