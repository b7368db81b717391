//! The commands about a server: serve, ping, key.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::commands::key::Scope;
use crate::telemetry::LogFormat;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address to bind [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<String>,
    /// The port to bind [default: 6363]; 0 for any free one.
    #[arg(long)]
    pub port: Option<u16>,
    /// Where backups are kept that clients ask for: a directory, or the URL of an object store.
    #[arg(long, value_name = "REPOSITORY")]
    pub backups: Option<String>,
    /// A file of API keys, made by `dehub key new`. With any key, requests without one are refused.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Serve everybody everything, though others can reach the address and there are no keys.
    #[arg(long)]
    pub allow_unauthenticated: bool,
    /// The server's certificate, and those that lead to its authority, as PEM: speak TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Add a line of JSON to this file for every change and every refused key.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// What it tells of itself.
    #[command(flatten)]
    pub observe: Observe,
    /// Serve nothing: show the settings as they add up, and check them, the keys, the certificates and the data
    /// directory. Ends with 1 if a file cannot be used, with 2 if a setting is wrong.
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// How a line of the log on standard error looks [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// From how many milliseconds on a query is logged as slow, with its plan [default: 500]; 0 for never.
    #[arg(long, value_name = "MS")]
    pub slow_query_ms: Option<u64>,
    /// Send spans of requests to a collector at this address, by OTLP over HTTP [default: send none].
    #[arg(long, value_name = "http://HOST:PORT", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// The share of the traces that begin here which are recorded, 0 to 1 [default: 1].
    #[arg(long, value_name = "SHARE")]
    pub otlp_sample: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// Ask whether it serves all it has, not only whether it lives.
    #[arg(long)]
    pub ready: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub what: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a random key: show it, this once, and its entry for a key file, which has only its hash.
    New(NewKey),
}

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    /// By what it is called in logs [default: key, or key-2, … if the file has that].
    #[arg(long)]
    pub name: Option<String>,
    /// What it may do with all collections [default: read-only, without --collection].
    #[arg(long, value_enum, conflicts_with = "collection")]
    pub role: Option<Role>,
    /// A collection that it may read, or with NAME:write change what is in; `*` is all; may be repeated.
    #[arg(long, value_name = "NAME[:read|:write]")]
    pub collection: Vec<Scope>,
    /// Add the entry to this key file, which is made if there is none.
    #[arg(long, value_name = "FILE")]
    pub into: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// Everything.
    Admin,
    /// Read everything.
    ReadOnly,
}
