//! Measurements for Prometheus: of requests, as they are answered, and of collections and the process, when they are
//! asked for. The README lists them.
//!
//! Labels are bounded: the names of collections, banks and corrections that there are, the patterns of paths, methods,
//! statuses and codes. No id and nothing else of a request is one.

mod collections;
mod process;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use dehub_index::Catalogue;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::admission::Bound;
use crate::audit::Audit;
use crate::call::packed;
use crate::edge::Edge;
use crate::errors::{INTERNAL, OVERLOADED};
use crate::guard::Caller;
use crate::jobs::Jobs;
use crate::live::Live;
use crate::problem::Problem;
use crate::routes::{self, Access, Listed};
use crate::slow::Slow;

/// What Prometheus is told the text is.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the durations that requests are counted by, in seconds: from a search in memory to a fit.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0, 60.0];

/// The label of a collection, whose name needs no escape, up to the name.
const COLLECTION_LABEL: &str = "collection=\"";

/// The endpoint of a request whose path is none.
const NO_ENDPOINT: &str = "none";

/// The methods that routes take; all others are one.
const METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"];

/// The status of a request that came too often.
const TOO_MANY_REQUESTS: u16 = 429;

/// What is measured about requests, and where measurements are asked for.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// The patterns of all paths.
    endpoints: HashSet<&'static str>,
    /// The methods and patterns that change points and bank entries.
    ingests: HashSet<(String, &'static str)>,
    responses: Family<Response, Counter>,
    durations: Family<Endpoint, Histogram, Bounds>,
    in_flight: Gauge,
    snapshots: Counter,
    rejected: Family<Reason, Counter>,
    refused: Family<Reason, Counter>,
}

/// What is measured when it is asked for.
pub(crate) struct Sources {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) jobs: Jobs,
    pub(crate) live: Arc<Live>,
    /// Requests that are with the engine or wait for it.
    pub(crate) requests: Arc<Bound>,
    /// Bytes of bodies that are held.
    pub(crate) body_bytes: Arc<Bound>,
    pub(crate) slow: Arc<Slow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Endpoint {
    method: &'static str,
    endpoint: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Response {
    method: &'static str,
    endpoint: &'static str,
    status: u16,
}

/// The code of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct App {
    name: &'static str,
    version: &'static str,
}

#[derive(Debug, Clone)]
struct Bounds;

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

impl Metrics {
    pub(crate) fn new(sources: Sources) -> Metrics {
        let mut registry = Registry::default();
        let (responses, in_flight) = (Family::default(), Gauge::default());
        let durations = Family::new_with_constructor(Bounds);
        let (rejected, refused) = (Family::default(), Family::<Reason, Counter>::default());
        // There from the start, so that an alarm on its rise needs no first one.
        drop(refused.get_or_create(&Reason { reason: OVERLOADED.name() }));
        let app = App { name: "dehub", version: env!("CARGO_PKG_VERSION") };
        registry.register("app", "The program and version that serves", Info::new(app));
        registry.register("rest_responses", "Requests answered", responses.clone());
        registry.register_with_unit(
            "rest_responses_duration",
            "Time to the head of an answer",
            Unit::Seconds,
            durations.clone(),
        );
        let snapshots = Counter::default();
        registry.register("snapshot_created", "Backups and snapshots made", snapshots.clone());
        registry.register("requests_in_flight", "Requests that are not answered yet", in_flight.clone());
        registry.register(
            "ingest_rejected",
            "Changes of points or bank entries that were refused, by the code of the error",
            rejected.clone(),
        );
        registry.register(
            "admission_refused",
            "Requests refused for there being too many, by the code of the error",
            refused.clone(),
        );
        registry.register_collector(Box::new(collections::Served::new(sources)));
        registry.register_collector(Box::new(process::Process));
        let listed = routes::list();
        Metrics {
            registry,
            endpoints: listed.iter().map(|it| it.pattern).collect(),
            ingests: listed.iter().filter(is_ingest).map(|it| (it.method.clone(), it.pattern)).collect(),
            responses,
            durations,
            in_flight,
            snapshots,
            rejected,
            refused,
        }
    }

    /// Counts what the audit log loses.
    pub(crate) fn count_lost(&mut self, audit: &Arc<Audit>) {
        self.registry.register_collector(Box::new(Lost(Arc::clone(audit))));
    }

    /// A backup or a snapshot was made.
    pub(crate) fn count_snapshot(&self) {
        self.snapshots.inc();
    }

    /// A request has come; it is in flight until what this gives is dropped.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// The pattern of a path, as long as the server lives.
    pub(crate) fn endpoint(&self, pattern: &str) -> Option<&'static str> {
        self.endpoints.get(pattern).copied()
    }

    /// A request was answered, or refused with a code. `endpoint` is the pattern of its path.
    pub(crate) fn end(
        &self,
        method: &Method,
        endpoint: Option<&'static str>,
        status: u16,
        took: Duration,
        refusal: Option<&'static str>,
    ) {
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let endpoint = endpoint.unwrap_or(NO_ENDPOINT);
        self.durations.get_or_create(&Endpoint { method, endpoint }).observe(took.as_secs_f64());
        self.responses.get_or_create(&Response { method, endpoint, status }).inc();
        let Some(reason) = refusal else { return };
        if self.ingests.contains(&(method.to_owned(), endpoint)) {
            self.rejected.get_or_create(&Reason { reason }).inc();
        }
        if status == TOO_MANY_REQUESTS || reason == OVERLOADED.name() {
            self.refused.get_or_create(&Reason { reason }).inc();
        }
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Whether a route changes points or bank entries.
fn is_ingest(listed: &&Listed) -> bool {
    let is_data = ["/points", "/banks/"].iter().any(|part| listed.pattern.contains(part));
    is_data && listed.access == Access::Write
}

/// A request that is not answered yet.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// `GET /metrics`, without a thread of the engine.
pub(crate) async fn metrics(edge: Data<Edge>, request: HttpRequest) -> HttpResponse {
    match edge.metrics().text() {
        Ok(text) => {
            let mut response = HttpResponse::Ok();
            response.content_type(MEDIA_TYPE);
            packed(&request, response, visible(&text, &Caller::of(&request)).into_bytes())
        }
        Err(_) => Problem::new(INTERNAL, "the measurements have no text").response(),
    }
}

/// The lines about no collection, and about those that the caller may read.
fn visible(text: &str, caller: &Caller) -> String {
    let is_visible = |line: &&str| {
        let name = line.split_once(COLLECTION_LABEL).and_then(|(_, rest)| rest.split_once('"'));
        line.starts_with('#') || name.is_none_or(|(name, _)| caller.may_read(name))
    };
    text.split_inclusive('\n').filter(is_visible).collect()
}

/// Lines that the audit log lost.
struct Lost(Arc<Audit>);

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}

impl Collector for Lost {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Lines that could not be written to the audit log";
        encode_one(&mut encoder, ("audit_failures", help, None), ConstCounter::new(self.0.failures()))
    }
}

/// A family of measurements: its name without a unit, what it says, and its unit.
type Head = (&'static str, &'static str, Option<Unit>);

/// One measurement.
fn encode_one<M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Head,
    metric: M,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), M::TYPE)?)
}

/// Measurements of one family, each with its labels.
fn encode_all<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Head,
    samples: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), M::TYPE)?;
    samples.into_iter().try_for_each(|(labels, metric)| metric.encode(family.encode_family(&labels)?))
}
