//! What is kept of every request while it is answered: its name, measurements, its span, a line of the log, and perhaps
//! one of the audit log.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, HttpRequest, web};
use tracing::Span;

use crate::admission::Refusals;
use crate::audit::{Line, milliseconds, rfc3339};
use crate::cors::Cors;
use crate::edge::Edge;
use crate::errors::OVERLOADED;
use crate::guard::Asked;
use crate::problem::Problem;
use crate::routes::Access;
use crate::slow::Noted;
use crate::trace::{Ids, REQUEST_ID, TRACE_TARGET, TraceParent, Tracer};

/// How long a query may take before it is slow, when nothing else is chosen.
pub const SLOW_QUERY_MS: u64 = 500;

/// What every request is watched by.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    ids: Ids,
    tracer: Option<Tracer>,
    slow_after: Option<Duration>,
    refusals: Arc<Refusals>,
}

/// What is known of a request by those who answer it: an extension of it.
#[derive(Debug)]
pub(crate) struct Seen {
    id: Box<str>,
    /// What the spans of its parts are in; disabled if nobody collects spans.
    span: Span,
    /// Bytes of the body, as they came.
    received: AtomicUsize,
    /// When a thread of the engine began with it.
    begun: OnceLock<Instant>,
    /// What was searched for, until it is known whether that was slow.
    searched: Mutex<Option<Box<Noted>>>,
}

/// A request, from its beginning to its end.
struct Watch {
    edge: Option<web::Data<Edge>>,
    started: Instant,
    time: SystemTime,
    method: Method,
    path: String,
    client: Option<IpAddr>,
    origin: Option<HeaderValue>,
    /// The length of its body, as its head says.
    declared: Option<usize>,
    seen: Arc<Seen>,
    trace: u128,
}

impl Observer {
    /// `slow_query_ms` of 0 means that no query is slow.
    pub(crate) fn new(tracer: Option<Tracer>, slow_query_ms: u64) -> Observer {
        let slow_after = (slow_query_ms > 0).then(|| Duration::from_millis(slow_query_ms));
        Observer { tracer, slow_after, ..Observer::default() }
    }

    /// How long a query may take before it is slow.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        self.slow_after
    }

    /// Begins to watch a request; gives the number of its trace too.
    fn begin(&self, request: &HttpRequest) -> (Arc<Seen>, u128) {
        let id = self.ids.of_request(request.headers());
        let parent = TraceParent::of(request.headers());
        let span = self.tracer.map_or_else(Span::none, |_| root_span(&id, request));
        let joined = self.tracer.and_then(|tracer| (tracer.join)(&span, parent.as_ref()));
        let trace = joined.or(parent.map(|parent| parent.trace)).unwrap_or_else(|| self.ids.draw());
        (Arc::new(Seen::new(id, span)), trace)
    }

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
        Seen::new(Box::from("none"), Span::none())
    }
}

impl Seen {
    fn new(id: Box<str>, span: Span) -> Seen {
        let (received, begun, searched) = (AtomicUsize::new(0), OnceLock::new(), Mutex::default());
        Seen { id, span, received, begun, searched }
    }

    /// What is known of a request.
    pub(crate) fn of(request: &HttpRequest) -> Arc<Seen> {
        request.extensions().get::<Arc<Seen>>().cloned().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Counts bytes of its body.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A thread of the engine begins with it, or with another part of it; gives when that was first.
    pub(crate) fn begin(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// Keeps what was searched for.
    pub(crate) fn note(&self, noted: Noted) {
        *self.searched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(noted));
    }

    /// What was searched for, once.
    pub(crate) fn noted(&self) -> Option<Box<Noted>> {
        self.searched.lock().unwrap_or_else(PoisonError::into_inner).take()
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

fn root_span(id: &str, request: &HttpRequest) -> Span {
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
struct LogLine<'a> {
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

impl LogLine<'_> {
    /// Whether the server had too much to do. An overload is told of once for all that it refuses.
    fn is_overload(&self) -> bool {
        self.refusal.is_some_and(|refusal| refusal.code() == OVERLOADED.name())
    }

    fn log(&self) {
        match self.status {
            _ if self.is_overload() => log!(info, self),
            500 => log!(error, self),
            501.. => log!(warn, self),
            _ => log!(info, self),
        }
    }
}

/// Watches a request from the outside: names it, measures it, and tells of it.
pub(crate) fn watched<S, B>(
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    let watch = Watch::new(request.request());
    let in_flight = watch.edge.as_ref().map(|edge| edge.metrics().begin());
    let preflight = watch.origin.as_ref().and_then(|_| Cors::preflight(request.request()));
    let response = match preflight {
        Some(answer) => Err(request.into_response(answer)),
        None => Ok(service.call(request)),
    };
    async move {
        let response = match response {
            Ok(response) => response.await.map(ServiceResponse::map_into_boxed_body),
            Err(preflight) => Ok(preflight),
        };
        let response = response.map(|response| identified(response, &watch.seen));
        drop(in_flight);
        watch.tell(&response);
        let is_head = watch.method == Method::HEAD;
        let response = response.map(|response| watch.marked(response));
        if is_head { response.map(without_body) } else { response }
    }
}

impl Watch {
    fn new(request: &HttpRequest) -> Watch {
        let edge = request.app_data::<web::Data<Edge>>().cloned();
        let (seen, trace) = edge.as_ref().map(|edge| edge.observer().begin(request)).unwrap_or_default();
        request.extensions_mut().insert(Arc::clone(&seen));
        let length = request.headers().get(CONTENT_LENGTH);
        Watch {
            started: Instant::now(),
            time: SystemTime::now(),
            method: request.method().clone(),
            path: request.path().to_owned(),
            client: request.peer_addr().map(|address| address.ip()),
            origin: edge.as_ref().and_then(|edge| edge.cors().origin(request)),
            declared: length.and_then(|value| value.to_str().ok()?.parse().ok()),
            edge,
            seen,
            trace,
        }
    }

    /// Tells of it wherever that is wanted.
    fn tell(&self, response: &Result<ServiceResponse, Error>) {
        let took = self.started.elapsed();
        let status = match response {
            Ok(response) => response.status().as_u16(),
            Err(error) => error.as_response_error().status_code().as_u16(),
        };
        let answered = response.as_ref().ok();
        let kept = answered.map(|response| response.response().extensions());
        let refusal = kept.as_ref().and_then(|kept| kept.get::<Problem>());
        let left = answered.map(|response| response.request().extensions());
        let asked = left.as_ref().and_then(|left| left.get::<Asked>());
        let pattern = answered.and_then(|response| response.request().match_pattern());
        let mut route = None;
        if let Some(edge) = &self.edge {
            route = pattern.and_then(|pattern| edge.metrics().endpoint(&pattern));
            edge.metrics().end(&self.method, route, status, took, refusal.map(Problem::code));
            edge.observer().end(&self.seen, self.method.as_str(), route, status);
            if let Some(asked) = asked.filter(|asked| is_audited(asked)) {
                self.audit(edge, asked, route, status, took);
            }
        }
        let received = self.seen.received.load(Ordering::Relaxed);
        let line = LogLine {
            id: &self.seen.id,
            method: self.method.as_str(),
            route,
            path: &self.path,
            status,
            took,
            client: self.client,
            key: asked.and_then(|asked| asked.caller.name()),
            bytes_in: if received > 0 { received } else { self.declared.unwrap_or(0) },
            bytes_out: answered.and_then(|response| length(response.response().body().size())),
            trace: self.trace,
            refusal,
        };
        line.log();
        if let Some(edge) = self.edge.as_ref().filter(|_| line.is_overload()) {
            edge.observer().refusals.count();
        }
    }

    fn audit(&self, edge: &Edge, asked: &Asked, route: Option<&str>, status: u16, took: Duration) {
        let Some(audit) = edge.audit() else { return };
        audit.write(&Line {
            time: rfc3339(self.time),
            request_id: &self.seen.id,
            key: asked.caller.name(),
            client: self.client,
            method: self.method.as_str(),
            route,
            collection: asked.collection.as_deref(),
            status,
            milliseconds: milliseconds(took),
        });
    }

    /// The answer with the name of its request, and with what browsers want to know.
    fn marked(self, mut response: ServiceResponse) -> ServiceResponse {
        if let Ok(id) = HeaderValue::from_str(&self.seen.id) {
            response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
        }
        if let Some(edge) = &self.edge {
            edge.cors().mark(self.origin, response.headers_mut());
        }
        response
    }
}

fn is_audited(asked: &Asked) -> bool {
    asked.is_refused || asked.access >= Access::Write
}

/// A refusal names its request in its body too.
fn identified(response: ServiceResponse, seen: &Seen) -> ServiceResponse {
    let refusal =
        response.response().extensions().get::<Problem>().map(|problem| problem.body(Some(&seen.id)));
    match refusal {
        // A body that was compressed on its way says what it said before.
        Some(body) if !response.headers().contains_key(CONTENT_ENCODING) => {
            response.map_body(|_, _| BoxBody::new(body))
        }
        Some(_) | None => response,
    }
}

/// An answer to HEAD: nothing of the body is read, and its length is told all the same. As a stream of nothing, since
/// actix forgets that it was HEAD when the next request is there already, and would miss the bytes.
fn without_body(mut response: ServiceResponse) -> ServiceResponse {
    let Some(bytes) = length(response.response().body().size()).filter(|&bytes| bytes > 0) else {
        return response.map_body(|_, _| BoxBody::new(()));
    };
    response.headers_mut().insert(CONTENT_LENGTH, bytes.into());
    response.response_mut().head_mut().no_chunking(true);
    response.map_body(|_, _| BoxBody::new(Unread))
}

/// A body of which nothing comes.
struct Unread;

impl MessageBody for Unread {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(None)
    }
}

/// The length of a body, if it is known before it is sent.
fn length(size: BodySize) -> Option<u64> {
    match size {
        BodySize::None => Some(0),
        BodySize::Sized(bytes) => Some(bytes),
        BodySize::Stream => None,
    }
}
