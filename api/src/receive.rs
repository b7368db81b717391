//! Receiving a body: of the right type, within the limit, within the time.
//!
//! A body that is refused is still read to its end, so that a client that only listens when it has
//! sent everything gets the answer rather than a broken connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::body::{BodyStream, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::{Method, header};
use actix_web::rt::time::timeout;
use actix_web::web::Bytes;

use crate::bodies::{Inflater, LineBatch, Lines, Media};
use crate::edge::{Edge, Share};
use crate::errors::{BODY_INCOMPLETE, BODY_TIMEOUT, BODY_TOO_LARGE};
use crate::multipart::FormFile;
use crate::observe::Seen;
use crate::problem::Problem;

/// A refused body is read to its end if that comes within this many bytes.
const DRAIN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A body in memory, decompressed, and its share of the memory for bodies.
pub(crate) struct Body {
    pub(crate) media: Media,
    pub(crate) bytes: Vec<u8>,
    /// Held until the request is answered: what is decoded from a body takes memory as well.
    pub(crate) share: Share,
}

/// Receives the body of a request that must have one, of one of these types.
pub(crate) async fn receive(
    request: &HttpRequest,
    payload: Payload,
    edge: &Edge,
    allowed: &[Media],
) -> Result<Body, Problem> {
    let limit = edge.body_limit_bytes();
    let mut incoming = Incoming::new(request, payload, edge);
    let headers = request.headers();
    let known = Media::of(headers, allowed).and_then(|media| Ok((media, Inflater::new(headers)?)));
    let (media, mut inflater) = match known {
        Ok(known) => known,
        Err(problem) => return Err(incoming.refuse(problem).await),
    };
    let mut body = Body { media, bytes: Vec::new(), share: edge.body_share() };
    while let Some(chunk) = incoming.next().await? {
        let known = body.bytes.len();
        let kept = inflater.push(&chunk, limit - known, &mut body.bytes);
        let kept = kept.and_then(|()| body.share.grow(body.bytes.len() - known));
        if let Err(problem) = kept {
            // What was kept is of no use any more.
            drop(body);
            let ended = incoming.drain().await?;
            let is_plain = inflater.is_identity() && incoming.received > limit;
            return Err(if is_plain { too_large(limit, incoming.received, ended) } else { problem });
        }
    }
    let room = limit - body.bytes.len();
    inflater.finish(room, &mut body.bytes)?;
    Ok(body)
}

/// Receives lines in batches of at most the largest body that is held in memory.
pub(crate) struct LineStream<'a> {
    incoming: Incoming,
    inflater: Inflater,
    lines: Option<Lines>,
    share: Share,
    edge: &'a Edge,
}

impl<'a> LineStream<'a> {
    pub(crate) async fn new(
        request: &HttpRequest,
        payload: Payload,
        edge: &'a Edge,
    ) -> Result<LineStream<'a>, Problem> {
        let mut incoming = Incoming::new(request, payload, edge);
        match Inflater::new(request.headers()) {
            Ok(inflater) => {
                let lines = Some(Lines::new(edge.body_limit_bytes()));
                Ok(LineStream { incoming, inflater, lines, share: edge.body_share(), edge })
            }
            Err(problem) => Err(incoming.refuse(problem).await),
        }
    }

    /// The next batch, and its share of the memory for bodies; `None` after the last one. Each has the time of a body.
    pub(crate) async fn next(&mut self) -> Result<Option<(LineBatch, Share)>, Problem> {
        self.incoming.started = Instant::now();
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let limit = self.edge.body_limit_bytes();
        loop {
            if let Some(batch) = lines.full_batch()? {
                // What has arrived of the next batch is counted with this one.
                let share = std::mem::replace(&mut self.share, self.edge.body_share());
                return Ok(Some((batch, share)));
            }
            let known = lines.bytes_mut().len();
            match self.incoming.next().await? {
                Some(chunk) => self.inflater.push(&chunk, limit.max(STEP_ROOM), lines.bytes_mut())?,
                None => {
                    self.inflater.finish(limit, lines.bytes_mut())?;
                    break;
                }
            }
            let grown = lines.bytes_mut().len() - known;
            self.share.grow(grown)?;
            lines.look(known);
        }
        let share = std::mem::replace(&mut self.share, self.edge.body_share());
        Ok(self.lines.take().map(|lines| (lines.into_rest(), share)))
    }

    /// Reads what is left, and gives the refusal back.
    pub(crate) async fn refuse(&mut self, problem: Problem) -> Problem {
        self.lines = None;
        self.incoming.refuse(problem).await
    }
}

/// A chunk of lines may unfold to so much even if bodies may not: it is cut into batches at once.
const STEP_ROOM: usize = 1024 * 1024;

/// Reads a body that nothing will be done with.
pub(crate) async fn discard(request: &HttpRequest, payload: Payload, edge: &Edge) {
    // What comes after such a head is no body, and has no end.
    if request.method() == Method::CONNECT || request.headers().contains_key(header::UPGRADE) {
        return;
    }
    // Whatever becomes of it, the answer is the same.
    _ = Incoming::new(request, payload, edge).drain().await;
}

/// Receives the file in a form piece by piece, each at least `piece_bytes` long but the last. Each has the time of a
/// body.
pub(crate) struct FileStream {
    incoming: Incoming,
    form: Option<FormFile>,
    piece_bytes: usize,
}

impl FileStream {
    pub(crate) async fn new(
        request: &HttpRequest,
        payload: Payload,
        edge: &Edge,
        piece_bytes: usize,
    ) -> Result<FileStream, Problem> {
        let mut incoming = Incoming::new(request, payload, edge);
        match FormFile::new(request.headers()) {
            Ok(form) => Ok(FileStream { incoming, form: Some(form), piece_bytes }),
            Err(problem) => Err(incoming.refuse(problem).await),
        }
    }

    /// The next piece; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        self.incoming.started = Instant::now();
        let Some(form) = &mut self.form else { return Ok(None) };
        let mut piece = Vec::new();
        while piece.len() < self.piece_bytes {
            match self.incoming.next().await? {
                Some(chunk) => form.push(&chunk, &mut piece)?,
                None => {
                    self.form.take().map_or(Ok(()), FormFile::finish)?;
                    break;
                }
            }
        }
        Ok(Some(piece))
    }

    /// Reads what is left, and gives the refusal back.
    pub(crate) async fn refuse(&mut self, problem: Problem) -> Problem {
        self.incoming.refuse(problem).await
    }
}

/// The chunks of a body as they arrive.
struct Incoming {
    stream: Pin<Box<BodyStream<Payload>>>,
    started: Instant,
    within: Duration,
    received: usize,
    seen: Arc<Seen>,
}

impl Incoming {
    fn new(request: &HttpRequest, payload: Payload, edge: &Edge) -> Incoming {
        Incoming {
            stream: Box::pin(BodyStream::new(payload)),
            started: Instant::now(),
            within: edge.intake().body_time(),
            received: 0,
            seen: Seen::of(request),
        }
    }

    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let left = self.within.saturating_sub(self.started.elapsed());
        let stream = &mut self.stream;
        let chunk = timeout(left, poll_fn(|context| stream.as_mut().poll_next(context))).await;
        let seconds = self.within.as_secs_f64();
        let late = |_| {
            let detail = format!("the body did not arrive within {seconds} s");
            Problem::new(BODY_TIMEOUT, detail).wanted(format_args!("at most {seconds} s"))
        };
        match chunk.map_err(late)?.transpose() {
            Ok(chunk) => {
                let length = chunk.as_ref().map_or(0, Bytes::len);
                self.received += length;
                self.seen.received(length);
                Ok(chunk)
            }
            Err(error) => {
                let detail = format!("the body ended before its end: {error}");
                Err(Problem::new(BODY_INCOMPLETE, detail))
            }
        }
    }

    /// Reads what is left; tells whether the end was reached.
    async fn drain(&mut self) -> Result<bool, Problem> {
        while self.received <= DRAIN_BYTES_MAX {
            if self.next().await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same; whatever becomes of it, the answer is the refusal.
    async fn refuse(&mut self, problem: Problem) -> Problem {
        _ = self.drain().await;
        problem
    }
}

fn too_large(limit: usize, received: usize, ended: bool) -> Problem {
    let found = if ended { format!("{received} bytes") } else { format!("more than {received} bytes") };
    let parts = received.div_ceil(limit.max(1));
    let detail = format!("the body has {found}, the limit is {limit}: send it in {parts} parts or more");
    Problem::new(BODY_TOO_LARGE, detail).wanted(format!("at most {limit} bytes")).found(found)
}
