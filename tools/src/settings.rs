//! Settings: built-in values, then the file, then the environment, then flags; the last one wins.

use std::env;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use config::{Config, Environment, File, FileFormat};
use dehub_api::{
    AuditConfig, BODY_LIMIT_BYTES, BODY_TIMEOUT, Key, Limits, PORT, RateLimit, Rights, SLOW_QUERY_MS,
    ServerConfig, TlsConfig,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::cli::Observe;
use crate::telemetry::{LogFormat, Otlp};

/// What can be set outside the command line, under the names of the file and, upper-cased with `__`
/// for a dot and `DEHUB__` in front, of the environment: `service.port` is `DEHUB__SERVICE__PORT`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Where collections live.
    pub data_dir: PathBuf,
    /// Where a server keeps backups: a directory, or the URL of an object store.
    pub backups: Option<String>,
    /// The server.
    pub service: ServiceSettings,
    /// What the server tells of itself.
    pub observe: ObserveSettings,
}

/// Settings of `dehub serve`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServiceSettings {
    /// The address to bind.
    pub host: String,
    /// The port to bind.
    pub port: u16,
    /// The largest request body, in bytes.
    pub body_limit_bytes: usize,
    /// Threads that answer requests; 0 for one a core.
    pub workers: usize,
    /// How long a body may take to arrive, or a batch of one that is written in batches.
    pub body_timeout_seconds: Seconds,
    /// Requests a second of each key, or else each address; any number if it is not set.
    pub rate_per_second: Option<NonZeroU32>,
    /// Requests at once after a pause; as many as a second otherwise.
    pub rate_burst: Option<NonZeroU32>,
    /// A key that may do everything.
    pub api_key: Option<Secret>,
    /// A key that may read everything.
    pub read_only_api_key: Option<Secret>,
    /// A file of keys.
    pub key_file: Option<PathBuf>,
    /// Whether an address that others can reach is served without any key.
    pub allow_unauthenticated: bool,
    /// Names that the server answers to; in the environment with commas between.
    pub hosts: Vec<String>,
    /// Origins whose pages may use the server from a browser; in the environment with commas between.
    pub cors_origins: Vec<String>,
    /// Requests with the engine at a time, or waiting for it.
    pub requests_max: usize,
    /// Threads on which a worker waits for the engine.
    pub engine_threads: usize,
    /// Connections a worker holds at a time.
    pub connections_max: usize,
    /// How long a request may wait for the engine, and a search may take, if it does not say.
    pub timeout_seconds: Seconds,
    /// How long the head of a request may take.
    pub head_timeout_seconds: Seconds,
    /// How long a connection without a request is kept.
    pub keep_alive_seconds: Seconds,
    /// How long connections are still taken after the server was asked to stop.
    pub stop_delay_seconds: Seconds,
    /// How long requests may take to end after that.
    pub stop_timeout_seconds: Seconds,
    /// The certificates to speak TLS with.
    pub tls: Option<TlsSettings>,
    /// The log of changes and of refused keys.
    pub audit: AuditSettings,
}

/// What a server tells of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ObserveSettings {
    /// How a line of the log looks: `text` or `json`.
    pub log_format: LogFormat,
    /// From how many milliseconds on a query is told as slow; 0 for never.
    pub slow_query_ms: u64,
    /// Where spans of requests go; nowhere if it is empty.
    pub otlp_endpoint: Option<String>,
    /// The share of the traces that begin here which are recorded.
    pub otlp_sample: f64,
}

impl Default for ObserveSettings {
    fn default() -> ObserveSettings {
        ObserveSettings {
            log_format: LogFormat::default(),
            slow_query_ms: SLOW_QUERY_MS,
            otlp_endpoint: None,
            otlp_sample: 1.0,
        }
    }
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

    /// Whether spans can be recorded as they say, wherever they go.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let sample = self.otlp_sample;
        if !(0.0..=1.0).contains(&sample) {
            bail!("the share of traces to record (otlp_sample) is {sample}, wanted 0 to 1");
        }
        self.otlp().as_ref().map_or(Ok(()), Otlp::check)
    }

    /// Where spans go, if anywhere.
    pub(crate) fn otlp(&self) -> Option<Otlp> {
        let endpoint = self.otlp_endpoint.clone().filter(|endpoint| !endpoint.is_empty())?;
        Some(Otlp { endpoint, sample: self.otlp_sample })
    }
}

/// Settings of TLS.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSettings {
    /// The certificate, and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients, if they must have a certificate.
    pub client_authorities: Option<PathBuf>,
}

impl TlsSettings {
    pub(crate) fn config(&self) -> TlsConfig {
        let TlsSettings { certificate, key, client_authorities } = self.clone();
        TlsConfig { certificate, key, client_authorities }
    }
}

/// Settings of the audit log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditSettings {
    /// The file; there is no log without one.
    pub path: Option<PathBuf>,
    /// Whether requests wait for their lines.
    pub blocks: bool,
}

/// What is not shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

/// A time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seconds(pub Duration);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Secret::SHOWN)
    }
}

impl Secret {
    const SHOWN: &str = "(hidden)";
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Secret::SHOWN)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let refused =
            |_| serde::de::Error::custom(format!("{seconds} is no time, wanted a number of seconds from 0"));
        Duration::try_from_secs_f64(seconds).map(Seconds).map_err(refused)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            data_dir: "dehub-data".into(),
            backups: None,
            service: ServiceSettings::default(),
            observe: ObserveSettings::default(),
        }
    }
}

impl Default for ServiceSettings {
    fn default() -> ServiceSettings {
        let limits = Limits::default();
        ServiceSettings {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            body_limit_bytes: BODY_LIMIT_BYTES,
            workers: 0,
            body_timeout_seconds: Seconds(BODY_TIMEOUT),
            rate_per_second: None,
            rate_burst: None,
            api_key: None,
            read_only_api_key: None,
            key_file: None,
            allow_unauthenticated: false,
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            requests_max: limits.requests,
            engine_threads: limits.engine_threads,
            connections_max: limits.connections,
            timeout_seconds: Seconds(limits.timeout),
            head_timeout_seconds: Seconds(limits.head_timeout),
            keep_alive_seconds: Seconds(limits.keep_alive),
            stop_delay_seconds: Seconds(limits.stop_delay),
            stop_timeout_seconds: Seconds(limits.stop_timeout),
            tls: None,
            audit: AuditSettings::default(),
        }
    }
}

impl Settings {
    /// The server they describe. Keys are hashed here and go no further.
    pub(crate) fn server(&self) -> anyhow::Result<ServerConfig> {
        let service = &self.service;
        if let (Some(burst), None) = (service.rate_burst, service.rate_per_second) {
            bail!("service.rate_burst is {burst}, which has no meaning without service.rate_per_second");
        }
        let named = [
            ("service.api_key", &service.api_key, Rights::Admin),
            ("service.read_only_api_key", &service.read_only_api_key, Rights::ReadOnly),
        ];
        let given = named.into_iter().filter_map(|(name, key, rights)| Some((name, key.as_ref()?, rights)));
        let keys = given.map(|(name, Secret(key), rights)| Key::plain(name, key, rights));
        Ok(ServerConfig {
            host: service.host.clone(),
            port: service.port,
            body_limit_bytes: service.body_limit_bytes,
            workers: service.workers,
            body_time: service.body_timeout_seconds.0,
            rate: service
                .rate_per_second
                .map(|per_second| RateLimit { per_second, burst: service.rate_burst.unwrap_or(per_second) }),
            backups: self.backups.clone(),
            limits: Limits {
                requests: service.requests_max,
                engine_threads: service.engine_threads,
                timeout: service.timeout_seconds.0,
                connections: service.connections_max,
                head_timeout: service.head_timeout_seconds.0,
                keep_alive: service.keep_alive_seconds.0,
                stop_delay: service.stop_delay_seconds.0,
                stop_timeout: service.stop_timeout_seconds.0,
            },
            keys: keys.collect::<Result<_, _>>()?,
            key_file: service.key_file.clone(),
            allow_unauthenticated: service.allow_unauthenticated,
            tls: service.tls.as_ref().map(TlsSettings::config),
            hosts: service.hosts.clone(),
            cors_origins: service.cors_origins.clone(),
            audit: service.audit.path.clone().map(|path| AuditConfig { path, blocks: service.audit.blocks }),
            slow_query_ms: self.observe.slow_query_ms,
            tracer: None,
        })
    }

    /// Each setting that is set, as a line of a settings file.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let value = serde_json::to_value(self).expect("text and numbers always have a JSON form");
        flatten("", &value, &mut lines);
        lines
    }
}

fn flatten(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(&format!("{name}{dot}{member}"), value, lines);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            lines.push(format!("{name} = {value}"));
        }
    }
}

const FILE: &str = "dehub.toml";

/// Keys are taken from the environment as they are: `1e5` is a key there and no number.
const SECRETS: [&str; 2] = ["DEHUB__SERVICE__API_KEY", "DEHUB__SERVICE__READ_ONLY_API_KEY"];

/// Reads the settings; `file` and `data_dir` were named by flags, and the file must exist.
pub(crate) fn read(file: Option<&Path>, data_dir: Option<PathBuf>) -> anyhow::Result<Settings> {
    let named = file.unwrap_or(Path::new(FILE));
    let text = match fs::read_to_string(named) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_none() => String::new(),
        text => text.with_context(|| format!("the settings {} cannot be read", named.display()))?,
    };
    // First alone: so that what is wrong in it is told with its line.
    if let Err(error) = toml::from_str::<Settings>(&text) {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        bail!("the settings {}, line {line}: {}", named.display(), error.message());
    }
    let environment = Environment::with_prefix("DEHUB")
        .prefix_separator("__")
        .separator("__")
        .try_parsing(true)
        .list_separator(",")
        .with_list_parse_key("service.cors_origins")
        .with_list_parse_key("service.hosts");
    let merged = Config::builder()
        .add_source(File::from_str(&text, FileFormat::Toml))
        .add_source(environment)
        .build()
        .with_context(|| format!("the settings ({}, DEHUB__ variables) cannot be read", named.display()))?;
    let mut settings: Settings = merged.try_deserialize().with_context(|| {
        format!("the settings ({}, DEHUB__ variables) are not understood", named.display())
    })?;
    let [api_key, read_only] = SECRETS.map(|name| env::var(name).ok().map(Secret));
    settings.service.api_key = api_key.or(settings.service.api_key);
    settings.service.read_only_api_key = read_only.or(settings.service.read_only_api_key);
    settings.data_dir = data_dir.unwrap_or(settings.data_dir);
    if settings.data_dir.as_os_str().is_empty() {
        bail!("data_dir is empty, wanted the directory where collections live");
    }
    Ok(settings)
}
