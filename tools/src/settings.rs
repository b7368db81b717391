//! Settings: built-in values, then the file, then the environment, then flags; the last one wins.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::{Config, Environment, File, FileFormat};
use serde::Deserialize;

use crate::cli::Observe;
use crate::telemetry::{LogFormat, Otlp};

/// What can be set outside the command line, under the names of the file and, upper-cased with `__`
/// for a dot and `DEHUB__` in front, of the environment: `serve.port` is `DEHUB__SERVE__PORT`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Where collections live.
    pub data_dir: PathBuf,
    /// Where a server keeps backups: a directory, or the URL of an object store.
    pub backups: Option<String>,
    /// The server.
    pub serve: ServeSettings,
    /// What the server tells of itself.
    pub observe: ObserveSettings,
}

/// Settings of `dehub serve`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeSettings {
    /// The address to bind.
    pub host: String,
    /// The port to bind.
    pub port: u16,
    /// The largest request body, in bytes.
    pub body_limit_bytes: usize,
    /// Threads that answer requests; 0 for one a core.
    pub workers: usize,
}

/// What a server tells of itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObserveSettings {
    /// How a line of the log looks: `text` or `json`.
    pub log_format: LogFormat,
    /// From how many milliseconds on a query is told as slow; 0 for never.
    pub slow_query_ms: u64,
    /// Where spans of requests go; nowhere if it is empty.
    #[serde(default)]
    pub otlp_endpoint: Option<String>,
    /// The share of the traces that begin here which are recorded.
    pub otlp_sample: f64,
}

impl ObserveSettings {
    /// Takes what flags say.
    pub(crate) fn apply(&mut self, flags: &Observe) {
        let Observe { log_format, slow_query_ms, otlp_endpoint, otlp_sample } = flags;
        self.log_format = log_format.unwrap_or(self.log_format);
        self.slow_query_ms = slow_query_ms.unwrap_or(self.slow_query_ms);
        self.otlp_endpoint = otlp_endpoint.clone().or_else(|| self.otlp_endpoint.take());
        self.otlp_sample = otlp_sample.unwrap_or(self.otlp_sample);
    }

    /// Where spans go, if anywhere.
    pub(crate) fn otlp(&self) -> Option<Otlp> {
        let endpoint = self.otlp_endpoint.clone().filter(|endpoint| !endpoint.is_empty())?;
        Some(Otlp { endpoint, sample: self.otlp_sample })
    }
}

const BUILT_IN: &str = r#"
data_dir = "dehub-data"
[serve]
host = "127.0.0.1"
port = 6363
body_limit_bytes = 33554432
workers = 0
[observe]
log_format = "text"
slow_query_ms = 500
otlp_sample = 1.0
"#;

const FILE: &str = "dehub.toml";

/// Reads the settings; `file` was named by a flag and must exist.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Settings> {
    let named = file.unwrap_or(Path::new(FILE));
    let source = File::from(named).format(FileFormat::Toml).required(file.is_some());
    let environment =
        Environment::with_prefix("DEHUB").prefix_separator("__").separator("__").try_parsing(true);
    let merged = Config::builder()
        .add_source(File::from_str(BUILT_IN, FileFormat::Toml))
        .add_source(source)
        .add_source(environment)
        .build()
        .with_context(|| format!("the settings ({}, DEHUB__ variables) cannot be read", named.display()))?;
    merged
        .try_deserialize()
        .with_context(|| format!("the settings ({}, DEHUB__ variables) are not understood", named.display()))
}
