//! What is kept of every request: a measurement, a line of the log, and perhaps one of the audit log.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{Error, HttpMessage, HttpRequest, web};

use crate::audit::{Line, milliseconds, rfc3339};
use crate::cors::Cors;
use crate::edge::Edge;
use crate::guard::Asked;
use crate::routes::Access;

/// The header that names a request: as the client did, or else as we do. The answer has it too.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest name of a request that is taken from its client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What is known of a request when it comes.
struct Seen {
    edge: Option<web::Data<Edge>>,
    started: Instant,
    time: SystemTime,
    method: Method,
    path: String,
    client: Option<IpAddr>,
    request_id: HeaderValue,
    origin: Option<HeaderValue>,
}

/// How a request was answered.
struct Answered {
    status: StatusCode,
    /// The pattern of its path.
    route: Option<String>,
    asked: Option<Asked>,
}

/// Measures and logs a request, and names it.
pub(crate) fn watched<S, B>(
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    let seen = Seen::new(request.request());
    let in_flight = seen.edge.as_ref().map(|edge| edge.metrics().begin());
    let preflight = seen.origin.as_ref().and_then(|_| Cors::preflight(request.request()));
    let response = match preflight {
        Some(answer) => Err(request.into_response(answer)),
        None => Ok(service.call(request)),
    };
    async move {
        let mut response = match response {
            Ok(response) => response.await.map(ServiceResponse::map_into_boxed_body),
            Err(preflight) => Ok(preflight),
        };
        seen.tell(&Answered::new(&response));
        if let Ok(response) = &mut response {
            response.headers_mut().insert(REQUEST_ID, seen.request_id);
            if let Some(edge) = &seen.edge {
                edge.cors().mark(seen.origin, response.headers_mut());
            }
        }
        drop(in_flight);
        response
    }
}

impl Seen {
    fn new(request: &HttpRequest) -> Seen {
        let edge = request.app_data::<web::Data<Edge>>().cloned();
        Seen {
            started: Instant::now(),
            time: SystemTime::now(),
            method: request.method().clone(),
            path: request.path().to_owned(),
            client: request.peer_addr().map(|address| address.ip()),
            request_id: request_id(request),
            origin: edge.as_ref().and_then(|edge| edge.cors().origin(request)),
            edge,
        }
    }

    /// Tells of it wherever that is wanted.
    fn tell(&self, answered: &Answered) {
        let took = self.started.elapsed();
        let status = answered.status.as_u16();
        if let Some(edge) = &self.edge {
            edge.metrics().end(self.method.as_str(), answered.route.clone(), status, took);
            if let Some(audit) = edge.audit()
                && let Some(asked) = answered.asked.as_ref().filter(|asked| is_audited(asked))
            {
                audit.write(&Line {
                    time: rfc3339(self.time),
                    request_id: self.request_id.to_str().unwrap_or_default(),
                    key: asked.caller.name(),
                    client: self.client,
                    method: self.method.as_str(),
                    route: answered.route.as_deref(),
                    collection: asked.collection.as_deref(),
                    status,
                    milliseconds: milliseconds(took),
                });
            }
        }
        let (method, path, microseconds) = (&self.method, &self.path, took.as_micros());
        let request_id = self.request_id.to_str().unwrap_or_default();
        tracing::info!(%method, path, status, microseconds, request_id, "request");
    }
}

fn is_audited(asked: &Asked) -> bool {
    asked.is_refused || asked.access >= Access::Write
}

impl Answered {
    fn new(response: &Result<ServiceResponse<BoxBody>, Error>) -> Answered {
        match response {
            Ok(response) => Answered {
                status: response.status(),
                route: response.request().match_pattern(),
                asked: response.request().extensions().get::<Asked>().cloned(),
            },
            Err(error) => {
                Answered { status: error.as_response_error().status_code(), route: None, asked: None }
            }
        }
    }
}

/// The client's name of the request, if it is one that a log can take, or a new one.
fn request_id(request: &HttpRequest) -> HeaderValue {
    let given = request.headers().get(&REQUEST_ID);
    let can_be_taken = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    given.filter(can_be_taken).cloned().unwrap_or_else(new_request_id)
}

/// One that no other process has given, nor this one before: a hash of when it began and a count.
fn new_request_id() -> HeaderValue {
    static PROCESS: LazyLock<(SystemTime, u32)> = LazyLock::new(|| (SystemTime::now(), std::process::id()));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let hash = blake3::hash(format!("{:?} {count}", *PROCESS).as_bytes()).to_hex();
    HeaderValue::from_str(&hash[..32]).expect("hex digits are ASCII")
}
