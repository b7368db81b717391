//! Receiving a body: of the right type, within the limit, within the time.
//!
//! A body that is refused is still read to its end, so that a client that only listens when it has
//! sent everything gets the answer rather than a broken connection.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::body::{BodyStream, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::header;
use actix_web::rt::time::timeout;
use actix_web::web::Bytes;

use crate::edge::{Edge, Share};
use crate::errors::{BODY_INCOMPLETE, BODY_TIMEOUT, BODY_TOO_LARGE, WRONG_CONTENT_TYPE};
use crate::problem::Problem;

/// How long a body may take: the largest one at a megabit a second.
const BODY_SECONDS_MAX: u64 = 300;

/// A refused body is read to its end if that comes within this many bytes.
const DRAIN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A body in memory, and its share of the memory for bodies.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Held until the request is answered: what is decoded from a body takes memory as well.
    pub(crate) share: Share,
}

/// Receives the body of a request that must have one.
pub(crate) async fn receive(request: &HttpRequest, payload: Payload, edge: &Edge) -> Result<Body, Problem> {
    let limit = edge.body_limit_bytes();
    let mut body = Body { bytes: Vec::new(), share: edge.body_share() };
    let mut refusal = is_json(request).err();
    let mut received = 0;
    let keep = |chunk: &Bytes| {
        received += chunk.len();
        if refusal.is_some() || received > limit {
            // What was kept is of no use any more.
            body.bytes = Vec::new();
        } else if let Err(problem) = body.share.grow(chunk.len()) {
            refusal = Some(problem);
        } else {
            body.bytes.extend_from_slice(chunk);
        }
        received <= DRAIN_BYTES_MAX.max(limit)
    };
    let ended = each_chunk(payload, keep).await?;
    match refusal {
        Some(problem) => Err(problem),
        None if received > limit => Err(too_large(limit, received, ended)),
        None => Ok(body),
    }
}

/// Reads a body that nothing will be done with.
pub(crate) async fn discard(payload: Payload) {
    let mut received = 0;
    let count = |chunk: &Bytes| {
        received += chunk.len();
        received <= DRAIN_BYTES_MAX
    };
    // Whatever becomes of it, the answer is the same.
    _ = each_chunk(payload, count).await;
}

/// Shows every chunk to `keep` while it says to go on; tells whether the end was reached.
async fn each_chunk(payload: Payload, mut keep: impl FnMut(&Bytes) -> bool) -> Result<bool, Problem> {
    let read = async {
        let mut stream = pin!(BodyStream::new(payload));
        loop {
            match poll_fn(|context| stream.as_mut().poll_next(context)).await {
                None => return Ok(true),
                Some(Ok(chunk)) if keep(&chunk) => {}
                Some(Ok(_)) => return Ok(false),
                Some(Err(error)) => {
                    let detail = format!("the body ended before its end: {error}");
                    return Err(Problem::new(BODY_INCOMPLETE, detail));
                }
            }
        }
    };
    let late = |_| Problem::new(BODY_TIMEOUT, format!("the body did not arrive within {BODY_SECONDS_MAX} s"));
    timeout(Duration::from_secs(BODY_SECONDS_MAX), read).await.map_err(late)?
}

fn is_json(request: &HttpRequest) -> Result<(), Problem> {
    let value = request.headers().get(header::CONTENT_TYPE);
    let found = value.map_or("none", |value| value.to_str().unwrap_or("one that is not text"));
    let essence = found.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = format!("the content type is {found}, wanted application/json");
    Err(Problem::new(WRONG_CONTENT_TYPE, detail).wanted("application/json").found(found))
}

fn too_large(limit: usize, received: usize, ended: bool) -> Problem {
    let found = if ended { format!("{received} bytes") } else { format!("more than {received} bytes") };
    let parts = received.div_ceil(limit.max(1));
    let detail = format!("the body has {found}, the limit is {limit}: send it in {parts} parts or more");
    Problem::new(BODY_TOO_LARGE, detail).wanted(format!("at most {limit} bytes")).found(found)
}
