//! What the process tells of itself: logs on standard error, and spans to a collector if one is named.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use dehub_api::{TRACE_TARGET, TraceParent, Tracer};
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter as Export,
};
use serde::{Deserialize, Serialize};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Where a collector takes spans, after its address.
const TRACES_PATH: &str = "/v1/traces";

/// How long a batch may take to be sent.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);

/// How long the last batch may take when the process ends.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// How long a span waits for its batch at most.
const BATCH_EVERY: Duration = Duration::from_secs(1);

/// Spans that wait for a collector; further ones are dropped.
const SPANS_MAX: usize = 8192;

/// Spans of a batch.
const BATCH_MAX: usize = 512;

/// How often a collector that takes nothing is told of.
const COMPLAIN_EVERY: Duration = Duration::from_secs(300);

/// What logs are asked for when the variable `DEHUB_LOG` asks for nothing. What is no HTTP is told to its client, and
/// would let anybody fill the log with errors.
const LOG_DEFAULT: &str = "warn,dehub_api=info,actix_http::h1=off";

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// Where spans go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Otlp {
    /// The address of a collector that takes OTLP over HTTP.
    pub(crate) endpoint: String,
    /// The share of the traces that begin here which are recorded; of others, those who began them decide.
    pub(crate) sample: f64,
}

impl Otlp {
    /// Whether spans can be sent so, if somebody takes them.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let endpoint = &self.endpoint;
        if !endpoint.starts_with("http://") {
            bail!(
                "the OTLP endpoint is {endpoint:?}, wanted http://HOST:PORT of a collector (which passes spans on by \
                 TLS if need be)"
            );
        }
        Ok(())
    }
}

/// Collects spans until it is dropped, which sends those that wait.
#[derive(Debug, Default)]
pub(crate) struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// Starts to log, and to collect spans if `otlp` says where they go.
    pub(crate) fn start(format: LogFormat, otlp: Option<&Otlp>) -> anyhow::Result<Telemetry> {
        let provider = otlp.map(provider).transpose()?;
        let spans = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("dehub"))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false);
            layer.with_filter(Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO))
        });
        tracing_subscriber::registry().with(spans).with(log(format)).init();
        Ok(Telemetry(provider))
    }

    /// What joins requests to traces, if spans are collected.
    pub(crate) fn tracer(&self) -> Option<Tracer> {
        self.0.as_ref().map(|_| Tracer { join, rename })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // What could not be sent was told of by the exporter.
        _ = self.0.take().map(|provider| provider.shutdown_with_timeout(FLUSH_WITHIN));
    }
}

/// Logs go to standard error: warnings and requests, or what the variable `DEHUB_LOG` asks for.
fn log<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = EnvFilter::try_from_env("DEHUB_LOG").unwrap_or_else(|_| EnvFilter::new(LOG_DEFAULT));
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => layer.with_filter(filter).boxed(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
            layer.with_filter(filter).boxed()
        }
    }
}

fn provider(otlp: &Otlp) -> anyhow::Result<SdkTracerProvider> {
    let Otlp { endpoint, sample } = otlp;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/')))
        .with_timeout(EXPORT_WITHIN)
        .build()
        .with_context(|| format!("spans cannot be sent to {endpoint}"))?;
    let exporter = Complaining { inner: exporter, endpoint: endpoint.clone(), complained: Mutex::new(None) };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(SPANS_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(BATCH_EVERY)
        .build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(*sample)));
    let resource = Resource::builder().with_service_name("dehub").build();
    let provider = SdkTracerProvider::builder().with_span_processor(processor);
    Ok(provider.with_sampler(sampler).with_resource(resource).build())
}

/// Makes a request's span part of the trace that its client named.
fn join(span: &Span, parent: Option<&TraceParent>) -> Option<u128> {
    if let Some(parent) = parent {
        let flags = if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let (trace, own) = (TraceId::from(parent.trace), SpanId::from(parent.span));
        // What others wrote into the state and is not as the standard wants is not passed on.
        let state: TraceState = parent.state.parse().unwrap_or_default();
        let remote = SpanContext::new(trace, own, flags, true, state);
        // A span that nobody collects has no parent either.
        _ = span.set_parent(Context::new().with_remote_span_context(remote));
    }
    let context = span.context();
    let trace = context.span().span_context().trace_id();
    (trace != TraceId::INVALID).then(|| u128::from_be_bytes(trace.to_bytes()))
}

fn rename(span: &Span, name: String) {
    span.context().span().update_name(name);
}

/// Sends batches, and tells once in a while that they do not arrive.
#[derive(Debug)]
struct Complaining<E> {
    inner: E,
    endpoint: String,
    /// When it last did, until a batch arrives.
    complained: Mutex<Option<Instant>>,
}

impl<E: Export> Export for Complaining<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let outcome = self.inner.export(batch).await;
        let mut complained = self.complained.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &outcome {
            Ok(()) => {
                if complained.take().is_some() {
                    tracing::info!(endpoint = self.endpoint, "the collector takes spans again");
                }
            }
            Err(error) if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) => {
                *complained = Some(Instant::now());
                let (endpoint, error) = (self.endpoint.as_str(), error.to_string());
                tracing::warn!(endpoint, error, "the collector takes no spans; they are dropped");
            }
            Err(_) => {}
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
