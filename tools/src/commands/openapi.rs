//! `dehub openapi`.

use std::io::{self, Write};

use super::Outcome;

/// Prints the OpenAPI document, as a server has it at `/openapi.json`.
pub(crate) fn run() -> anyhow::Result<Outcome> {
    io::stdout().lock().write_all(dehub_api::openapi().as_bytes())?;
    Ok(Outcome::Done)
}
