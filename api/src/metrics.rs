//! Measurements for Prometheus: of requests, as they are answered, and of collections, when they are asked for.
//!
//! Labels are bounded: the names of collections, the patterns of paths, methods, and classes of status. No id and
//! nothing else of a request is one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use dehub_index::{Catalogue, Collection, CollectionState, Name};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::audit::Audit;
use crate::edge::Edge;
use crate::errors::INTERNAL;
use crate::guard::Caller;
use crate::jobs::Jobs;
use crate::problem::Problem;

/// What Prometheus is told the text is.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the durations that requests are counted by, in seconds: from a search in memory to a fit.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0, 60.0];

/// The label of a collection, whose name needs no escape, up to the name.
const COLLECTION_LABEL: &str = "collection=\"";

/// The route of a request that none answers.
const NO_ROUTE: &str = "none";

/// The methods that routes take; all others are one.
const METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"];

/// What is measured about requests, and where measurements are asked for.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, Bounds>,
    in_flight: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    /// `2xx` and so on.
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
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
    pub(crate) fn new(catalogue: &Arc<Catalogue>, jobs: &Jobs) -> Metrics {
        let mut registry = Registry::with_prefix("dehub");
        let (requests, in_flight) = (Family::default(), Gauge::default());
        let durations = Family::new_with_constructor(Bounds);
        registry.register("build", "The version that serves", Info::new(BuildLabels { version: VERSION }));
        registry.register("requests", "Requests answered", requests.clone());
        registry.register("request_duration_seconds", "Seconds to the head of an answer", durations.clone());
        registry.register("requests_in_flight", "Requests that are not answered yet", in_flight.clone());
        let served = Served { catalogue: Arc::clone(catalogue), jobs: jobs.clone() };
        registry.register_collector(Box::new(served));
        Metrics { registry, requests, durations, in_flight }
    }

    /// Counts what the audit log loses.
    pub(crate) fn count_lost(&mut self, audit: &Arc<Audit>) {
        self.registry.register_collector(Box::new(Lost(Arc::clone(audit))));
    }

    /// A request has come; it is in flight until what this gives is dropped.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A request was answered. `route` is the pattern of its path.
    pub(crate) fn end(&self, method: &str, route: Option<String>, status: u16, took: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        let route = route.unwrap_or_else(|| NO_ROUTE.to_owned());
        let labels = RouteLabels { method, route: route.clone() };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route, status: class(status) }).inc();
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A request that is not answered yet.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// `GET /metrics`, without a thread of the engine.
pub(crate) async fn metrics(edge: Data<Edge>, request: HttpRequest) -> HttpResponse {
    match edge.metrics().text() {
        Ok(text) => HttpResponse::Ok().content_type(MEDIA_TYPE).body(visible(&text, &Caller::of(&request))),
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

/// What is measured when it is asked for.
struct Served {
    catalogue: Arc<Catalogue>,
    jobs: Jobs,
}

/// Lines that the audit log lost.
struct Lost(Arc<Audit>);

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}

impl Collector for Lost {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = ConstCounter::new(self.0.failures());
        let help = "Lines that could not be written to the audit log";
        count.encode(encoder.encode_descriptor("audit_failures", help, None, count.metric_type())?)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("folder", &self.catalogue.folder()).finish_non_exhaustive()
    }
}

/// A number of a collection.
struct Measure {
    name: &'static str,
    help: &'static str,
    of: fn(&Measured) -> u64,
}

/// What the numbers of a collection come from.
struct Measured {
    name: Name,
    collection: Arc<Collection>,
    gallery: dehub_index::GalleryInfo,
    writer: dehub_index::WriterInfo,
    sequence: u64,
    stale: usize,
}

/// Numbers that may fall.
const GAUGES: [Measure; 10] = [
    Measure {
        name: "collection_points",
        help: "Points that can be found",
        of: |it| it.gallery.points as u64,
    },
    Measure { name: "collection_sequence", help: "The number of the newest commit", of: |it| it.sequence },
    Measure {
        name: "collection_writer_failed",
        help: "Whether writes are refused since a commit failed",
        of: |it| u64::from(it.writer.failure.is_some()),
    },
    Measure {
        name: "collection_writer_waiting",
        help: "Writes that are made or wait to become durable",
        of: |it| it.writer.waiting as u64,
    },
    Measure {
        name: "collection_bytes_on_disk",
        help: "Bytes of all files",
        of: |it| it.collection.bytes_on_disk(),
    },
    Measure {
        name: "collection_graph_nodes",
        help: "Nodes of the graph",
        of: |it| it.gallery.graph_nodes.unwrap_or(0) as u64,
    },
    Measure {
        name: "collection_graph_segments",
        help: "Parts of the graph",
        of: |it| it.gallery.segments as u64,
    },
    Measure {
        name: "collection_graph_delta",
        help: "Points outside the graph, if there is one, which searches scan",
        of: |it| it.gallery.delta as u64,
    },
    Measure {
        name: "collection_graph_dead",
        help: "Rows of the graph whose points are deleted",
        of: |it| it.gallery.dead as u64,
    },
    Measure {
        name: "collection_stale_corrections",
        help: "Corrections that have not taken in every entry of their banks",
        of: |it| it.stale as u64,
    },
];

/// Numbers that grow until the collection is opened anew.
const COUNTERS: [Measure; 2] = [
    Measure {
        name: "collection_commits",
        help: "Commits since the collection was opened",
        of: |it| it.writer.commits,
    },
    Measure {
        name: "collection_syncs",
        help: "Syncs of the log since the collection was opened",
        of: |it| it.writer.syncs,
    },
];

impl Collector for Served {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let measured: Vec<Measured> = self.catalogue.open_ones().into_iter().map(Measured::new).collect();
        for measure in &GAUGES {
            encode_each(&mut encoder, measure, &measured, ConstGauge::new)?;
        }
        for measure in &COUNTERS {
            encode_each(&mut encoder, measure, &measured, ConstCounter::new)?;
        }
        let states = self.catalogue.states().unwrap_or_default();
        let count =
            |is_it: fn(&CollectionState) -> bool| states.values().filter(|it| is_it(it)).count() as u64;
        let whole = [
            ("jobs_running", "Jobs that run", self.jobs.running() as u64),
            (
                "collections_opening",
                "Collections that do not serve yet",
                count(|it| {
                    matches!(
                        it,
                        CollectionState::Closed | CollectionState::Opening { .. } | CollectionState::Closing
                    )
                }),
            ),
            (
                "collections_failed",
                "Collections that do not open",
                count(|it| matches!(it, CollectionState::Failed { .. })),
            ),
        ];
        for (name, help, value) in whole {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// A number of every collection.
fn encode_each<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    measure: &Measure,
    measured: &[Measured],
    metric: impl Fn(u64) -> M,
) -> Result<(), fmt::Error> {
    let kind = metric(0).metric_type();
    let mut family = encoder.encode_descriptor(measure.name, measure.help, None, kind)?;
    for it in measured {
        metric((measure.of)(it)).encode(family.encode_family(&it.labels())?)?;
    }
    Ok(())
}

impl Measured {
    fn new((name, collection): (Name, Arc<Collection>)) -> Measured {
        let snapshot = collection.snapshot();
        Measured {
            name,
            gallery: snapshot.gallery(),
            writer: collection.writer(),
            sequence: snapshot.sequence(),
            stale: snapshot.corrections().filter(|correction| correction.info().stale > 0).count(),
            collection,
        }
    }

    fn labels(&self) -> [(&'static str, &str); 1] {
        [("collection", self.name.as_str())]
    }
}
