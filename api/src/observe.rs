//! What is told of each request while it is answered: one line in the log, measurements, and its span.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use actix_web::{Error, HttpMessage, web};
use tracing::Span;

use crate::edge::Edge;
use crate::problem::Problem;
use crate::trace::{Ids, REQUEST_ID, TRACE_TARGET, TraceParent, Tracer};

/// How long a query may take before it is slow, when nothing else is chosen.
pub const SLOW_QUERY_MS: u64 = 500;

/// What every request is watched by.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    ids: Ids,
    tracer: Option<Tracer>,
    slow_after: Option<Duration>,
}

/// The name of the key that a request was admitted by: an extension of the request, for the log.
#[derive(Debug, Clone)]
pub(crate) struct KeyName(pub(crate) String);

/// What is known of a request from its beginning: an extension of it.
#[derive(Debug)]
pub(crate) struct Seen {
    id: Box<str>,
    /// What the spans of its parts are in; disabled if nobody collects spans.
    span: Span,
    received: AtomicUsize,
}

impl Observer {
    /// `slow_query_ms` of 0 means that no query is slow.
    pub(crate) fn new(tracer: Option<Tracer>, slow_query_ms: u64) -> Observer {
        let slow_after = (slow_query_ms > 0).then(|| Duration::from_millis(slow_query_ms));
        Observer { ids: Ids::default(), tracer, slow_after }
    }

    /// How long a query may take before it is slow.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        self.slow_after
    }

    /// Begins to watch a request; gives the number of its trace too.
    fn begin(&self, request: &ServiceRequest) -> (Arc<Seen>, u128) {
        let id = self.ids.of_request(request.headers());
        let parent = TraceParent::of(request.headers());
        let span = self.tracer.map_or_else(Span::none, |_| root_span(&id, request));
        let joined = self.tracer.and_then(|tracer| (tracer.join)(&span, parent.as_ref()));
        let trace = joined.or(parent.map(|parent| parent.trace)).unwrap_or_else(|| self.ids.draw());
        (Arc::new(Seen { id, span, received: AtomicUsize::new(0) }), trace)
    }
}

impl Observer {
    /// What the span of a request says at its end.
    fn end(&self, seen: &Seen, method: &str, route: Option<&str>, status: u16) {
        let Some(tracer) = self.tracer else { return };
        if let Some(route) = route {
            seen.span.record("http.route", route);
            (tracer.rename)(&seen.span, format!("{method} {route}"));
        }
        seen.span.record("http.response.status_code", status);
        if status >= 500 {
            seen.span.record("otel.status_code", "ERROR");
        }
    }
}

impl Default for Seen {
    /// Of a request that is not watched.
    fn default() -> Seen {
        Seen { id: Box::from("none"), span: Span::none(), received: AtomicUsize::new(0) }
    }
}

impl Seen {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Notes how many bytes its body has.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.store(bytes, Ordering::Relaxed);
    }

    /// While its body is received.
    pub(crate) fn receiving(&self) -> Span {
        tracing::info_span!(target: TRACE_TARGET, parent: &self.span, "receive")
    }

    /// While it waits for a thread of the engine.
    pub(crate) fn waiting(&self) -> Span {
        tracing::info_span!(target: TRACE_TARGET, parent: &self.span, "wait")
    }

    /// While a thread of the engine works for it.
    pub(crate) fn working(&self) -> Span {
        tracing::info_span!(target: TRACE_TARGET, parent: &self.span, "engine")
    }
}

/// While an answer is written, within [`Seen::working`].
pub(crate) fn encoding() -> Span {
    tracing::info_span!(target: TRACE_TARGET, "encode")
}

fn root_span(id: &str, request: &ServiceRequest) -> Span {
    tracing::info_span!(
        target: TRACE_TARGET,
        parent: None,
        "request",
        otel.kind = "server",
        otel.status_code = tracing::field::Empty,
        http.request.method = request.method().as_str(),
        http.route = tracing::field::Empty,
        http.response.status_code = tracing::field::Empty,
        url.path = request.path(),
        dehub.request_id = id,
    )
}

/// What the log says of a request.
struct Line<'a> {
    id: &'a str,
    method: &'a str,
    route: Option<&'a str>,
    path: &'a str,
    status: u16,
    took: Duration,
    client: Option<IpAddr>,
    key: Option<&'a str>,
    bytes_in: usize,
    bytes_out: Option<u64>,
    trace: u128,
    refusal: Option<&'a Problem>,
}

/// Logs a line at a level. Text is quoted and its control characters escaped by what writes logs, for it is given as
/// text and never as something to format.
macro_rules! log {
    ($level:ident, $line:expr) => {
        tracing::$level!(
            request_id = $line.id,
            method = $line.method,
            route = $line.route,
            path = $line.path,
            status = $line.status,
            microseconds = u64::try_from($line.took.as_micros()).unwrap_or(u64::MAX),
            client = $line.client.map(tracing::field::display),
            key = $line.key,
            bytes_in = $line.bytes_in,
            bytes_out = $line.bytes_out,
            trace_id = format_args!("{:032x}", $line.trace),
            code = $line.refusal.map(Problem::code),
            detail = $line.refusal.filter(|_| $line.status >= 500).map(Problem::detail),
            "request"
        )
    };
}

impl Line<'_> {
    fn log(&self) {
        match self.status {
            500 => log!(error, self),
            501.. => log!(warn, self),
            _ => log!(info, self),
        }
    }
}

/// Watches a request from the outside: gives it an id, measures it and logs it.
pub(crate) fn watched<S, B>(
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<EitherBody<B>>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    let started = Instant::now();
    let edge = request.app_data::<web::Data<Edge>>().cloned();
    let begun = edge.as_ref().map(|edge| edge.observer().begin(&request));
    let (seen, trace) = begun.unwrap_or_default();
    request.extensions_mut().insert(Arc::clone(&seen));
    let in_flight = edge.as_ref().map(|edge| edge.metrics().begin());
    let (method, path) = (request.method().clone(), request.path().to_owned());
    let client = request.peer_addr().map(|address| address.ip());
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let response = service.call(request);
    async move {
        let response = response.await.map(|response| identified(response, &seen));
        let took = started.elapsed();
        drop(in_flight);
        let (status, pattern) = match &response {
            Ok(response) => (response.status().as_u16(), response.request().match_pattern()),
            Err(error) => (error.as_response_error().status_code().as_u16(), None),
        };
        let head = response.as_ref().ok().map(ServiceResponse::response);
        let kept = head.map(|head| head.extensions());
        let refusal = kept.as_ref().and_then(|kept| kept.get::<Problem>());
        let known = edge.as_ref().map(|edge| edge.metrics());
        let route = known.and_then(|metrics| metrics.endpoint(pattern.as_deref()?));
        if let Some(metrics) = known {
            metrics.end(&method, route, status, took, refusal.map(Problem::code));
        }
        let asked = response.as_ref().ok().map(|response| response.request().extensions());
        let received = seen.received.load(Ordering::Relaxed);
        if let Some(edge) = &edge {
            edge.observer().end(&seen, method.as_str(), route, status);
        }
        let line = Line {
            id: &seen.id,
            method: method.as_str(),
            route,
            path: &path,
            status,
            took,
            client,
            key: asked.as_ref().and_then(|asked| asked.get::<KeyName>()).map(|key| key.0.as_str()),
            bytes_in: if received > 0 { received } else { declared.unwrap_or(0) },
            bytes_out: head.and_then(|head| length(head.body().size())),
            trace,
            refusal,
        };
        line.log();
        drop((kept, asked));
        response
    }
}

/// The answer with the id of its request, which a refusal names in its body too.
fn identified<B: MessageBody>(response: ServiceResponse<B>, seen: &Seen) -> ServiceResponse<EitherBody<B>> {
    let refusal = response.response().extensions().get::<Problem>().cloned();
    // A body that was compressed on its way says what it said before.
    let refusal = refusal.filter(|_| !response.headers().contains_key(CONTENT_ENCODING));
    let mut response = response.map_body(|_, body| match refusal {
        Some(problem) => EitherBody::right(BoxBody::new(problem.body(Some(&seen.id)))),
        None => EitherBody::left(body),
    });
    if let Ok(id) = HeaderValue::from_str(&seen.id) {
        response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
    }
    response
}

/// The length of a body, if it is known before it is sent.
fn length(size: BodySize) -> Option<u64> {
    match size {
        BodySize::None => Some(0),
        BodySize::Sized(bytes) => Some(bytes),
        BodySize::Stream => None,
    }
}
