//! One request: its parts, and its way to a thread of the engine and back.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::Payload;
use actix_web::error::ErrorInternalServerError;
use actix_web::http::header;
use actix_web::{FromRequest, HttpRequest, HttpResponse, HttpResponseBuilder, rt, web};
use dehub_format::TableFormat;
use dehub_index::{Collection, CollectionState, Deadline, Name};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::Instrument;

use crate::admission::Due;
use crate::bodies::searches::SETTINGS;
use crate::bodies::{
    Accepted, Content, Form, LEAVE_OUT, LineBatch, Media, RowSink, Rows, UNFOLDED_MAX, packs,
};
use crate::brief;
use crate::decode;
use crate::download::Download;
use crate::edge::Edge;
use crate::errors::{self, BAD_PATH, INTERNAL, INVALID_NAME};
use crate::guard::{self, Caller};
use crate::live::Watched;
use crate::observe::{Seen, encoding};
use crate::parameters::{Parameters, TIMEOUT};
use crate::problem::Problem;
use crate::receive::{self, Body, FileStream, LineStream};
use crate::routes::Access;
use crate::slow::{Noted, Searched};
use crate::snapshot_files::Partial;

/// How long a request waits for a collection that is being opened if it does not say: as long as clients do.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// What is held of a file that is uploaded.
const UPLOAD_PIECE_BYTES: usize = 1 << 20;

/// How often it looks whether the collection is open.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A request as a handler gets it.
pub(crate) struct Call {
    started: Instant,
    edge: web::Data<Edge>,
    seen: Arc<Seen>,
    request: HttpRequest,
    payload: Payload,
    /// Whether the collection that the path names must be open for the work.
    needs_open: bool,
    /// Whether the path may name the collection by an alias.
    takes_alias: bool,
}

/// What work on behalf of a request has at hand.
pub(crate) struct Task {
    started: Instant,
    /// When all of the request was there.
    received: Instant,
    edge: Arc<Edge>,
    seen: Arc<Seen>,
    segments: HashMap<String, String>,
    /// Who asks, by the key.
    caller: Caller,
    /// Who asks, as far as the connection tells.
    pub(crate) client: Option<IpAddr>,
    /// What it takes as an answer.
    pub(crate) accepted: Accepted,
    /// The parameters of the query string.
    pub(crate) parameters: Parameters,
    /// The time it has, from when all of it was there.
    limit: Duration,
}

/// The body of an answer, and whether the work it is about is complete: 200 or 202.
pub(crate) struct Answer {
    body: Vec<u8>,
    is_complete: bool,
    form: Form,
    /// Whether the body is packed with gzip.
    is_packed: bool,
}

/// An answer of so many bytes is packed if the client takes that; a page of hits is smaller.
const PACKED_BYTES_MIN: usize = 8 * 1024;

impl Answer {
    /// The answer when the work has only begun.
    pub(crate) fn accepted(body: Vec<u8>) -> Answer {
        Answer { is_complete: false, ..Answer::from(body) }
    }

    /// An Arrow stream.
    pub(crate) fn arrow(body: Vec<u8>) -> Answer {
        Answer { form: Form::Arrow, ..Answer::from(body) }
    }

    /// The same, packed if it is large and the client takes that.
    fn packed(self, takes_gzip: bool) -> Answer {
        if !takes_gzip || self.body.len() < PACKED_BYTES_MIN {
            return self;
        }
        match gzip(&self.body) {
            Ok(body) => Answer { body, is_packed: true, ..self },
            Err(_) => self,
        }
    }
}

fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// The same of an answer that is made without a thread of the engine.
pub(crate) fn packed(
    request: &HttpRequest,
    mut response: HttpResponseBuilder,
    body: Vec<u8>,
) -> HttpResponse {
    response.insert_header((header::VARY, "accept-encoding"));
    let is_packed = packs(request.headers()) && body.len() >= PACKED_BYTES_MIN;
    match is_packed.then(|| gzip(&body)) {
        Some(Ok(body)) => response.insert_header((header::CONTENT_ENCODING, "gzip")).body(body),
        Some(Err(_)) | None => response.body(body),
    }
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Answer {
        Answer { body, is_complete: true, form: Form::Json, is_packed: false }
    }
}

/// A collection, and what is learned about it.
pub(crate) type Served = (Arc<Collection>, Arc<Watched>);

/// The frame of every answer, that of Qdrant.
#[derive(Serialize)]
struct Envelope<'a, T> {
    result: &'a T,
    status: &'static str,
    /// Seconds since the request arrived.
    time: f64,
}

impl FromRequest for Call {
    type Error = actix_web::Error;
    type Future = Ready<Result<Call, actix_web::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let Some(edge) = request.app_data::<web::Data<Edge>>() else {
            return ready(Err(ErrorInternalServerError("the application has no edge")));
        };
        ready(Ok(Call {
            started: Instant::now(),
            edge: edge.clone(),
            seen: Seen::of(request),
            request: request.clone(),
            payload: payload.take(),
            needs_open: true,
            takes_alias: true,
        }))
    }
}

impl Call {
    /// The same, for work that does not need the collection of the path to be open.
    pub(crate) fn at_once(self) -> Call {
        Call { needs_open: false, ..self }
    }

    /// The same, for work on the collection of the very name in the path, and on none that has it for an alias.
    pub(crate) fn by_own_name(self) -> Call {
        Call { takes_alias: false, ..self }
    }

    /// Answers a request without a body. The query string may have the parameters `allowed`.
    pub(crate) async fn answer<A: Into<Answer> + Send + 'static>(
        self,
        allowed: &[&str],
        work: impl FnOnce(Task) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        if let Err(problem) = self.edge.intake().admit(&self.request) {
            return problem.response();
        }
        let task = match self.task(allowed) {
            Ok(task) => task,
            Err(problem) => return problem.response(),
        };
        if let Err(problem) = self.wait_until_open(&task).await {
            return problem.response();
        }
        let due = task.due();
        self.finish(due, move || work(task)).await
    }

    /// Answers a request with a JSON body.
    pub(crate) async fn answer_body<A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        work: impl FnOnce(Task, Value) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let (received, task) = match self.received(allowed, &[Media::Json]).await {
            Ok(received) => received,
            Err(response) => return response,
        };
        let due = task.due();
        let decoded = move || {
            let Body { bytes, share, .. } = received;
            let value = decode::body(&bytes)?;
            drop(bytes);
            let outcome = work(task, value);
            drop(share);
            outcome
        };
        self.finish(due, decoded).await
    }

    /// Answers a query with a JSON body, on the worker's own thread if it is short.
    pub(crate) async fn answer_query<A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        work: impl FnOnce(Task, Value) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let (Body { bytes, share, .. }, task) = match self.received(allowed, &[Media::Json]).await {
            Ok(received) => received,
            Err(response) => return response,
        };
        let value = (bytes.len() <= brief::JSON_BYTES_MAX).then(|| decode::body(&bytes));
        let is_short = matches!(&value, Some(Ok(Value::Object(fields))) if brief::has_short_form(fields));
        let decoded = move |task| {
            let value = value.unwrap_or_else(|| decode::body(&bytes))?;
            let outcome = work(task, value);
            drop((bytes, share));
            outcome
        };
        self.finish_query(task, is_short, decoded).await
    }

    /// Answers queries whose body has one of the types of lists, all of it at once. The last argument of `work` is
    /// how much a table may take. A small table is answered on the worker's own thread.
    pub(crate) async fn answer_queries<A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        work: impl FnOnce(Task, Content, usize) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let (Body { media, bytes, share }, task) = match self.received(allowed, &Media::ALL).await {
            Ok(received) => received,
            Err(response) => return response,
        };
        let has_short_settings = || match task.parameters.text(SETTINGS) {
            Some(text) => serde_json::from_str(text).is_ok_and(|fields| brief::has_short_form(&fields)),
            None => true,
        };
        let is_small = media == Media::Arrow && bytes.len() <= brief::TABLE_BYTES_MAX;
        let (is_short, unfolded_max) = (is_small && has_short_settings(), self.unfolded_max());
        let decoded = move |task| {
            let content = match media {
                Media::Json => Content::Json(decode::body(&bytes)?),
                Media::Lines => Content::Lines(LineBatch::of(bytes)),
                Media::Arrow => Content::Table(TableFormat::ArrowStream, bytes),
                Media::Parquet => Content::Table(TableFormat::Parquet, bytes),
            };
            let outcome = work(task, content, unfolded_max);
            drop(share);
            outcome
        };
        self.finish_query(task, is_short, decoded).await
    }

    /// Answers a query where it should be. If it has the form of a short one, what it took is learned.
    async fn finish_query<A: Into<Answer> + Send + 'static>(
        &self,
        task: Task,
        is_short: bool,
        work: impl FnOnce(Task) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let due = task.due();
        if !is_short {
            return self.finish(due, move || work(task)).await;
        }
        let (edge, name) = (task.shared_edge(), task.segment("collection").to_owned());
        let is_for_worker = edge.brief().is_for_worker(&name);
        let measured = move || {
            let begun = Instant::now();
            let outcome = work(task);
            if outcome.is_ok() {
                edge.brief().took(&name, begun.elapsed());
            }
            outcome
        };
        if !is_for_worker {
            return self.finish(due, measured).await;
        }
        let begun = Instant::now();
        let takes_gzip = packs(self.request.headers());
        let work = self.watched(move || measured().map(|answer| answer.into().packed(takes_gzip)));
        let outcome = self.edge.run_here(due, work);
        brief::spend(begun.elapsed());
        respond(outcome)
    }

    /// Answers a request whose body is a list of rows to be written: JSON is left to `work`, rows in other forms go to
    /// a sink, batch by batch.
    pub(crate) async fn answer_rows<S: RowSink, A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        work: impl FnOnce(Task, Value) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let format = match Media::of(self.request.headers(), &Media::ALL) {
            Ok(Media::Json) => return self.answer_body(allowed, work).await,
            Ok(Media::Arrow) => TableFormat::ArrowStream,
            Ok(Media::Parquet) => TableFormat::Parquet,
            Ok(Media::Lines) => {
                let allowed = [allowed, S::PARAMETERS].concat();
                return match self.write_lines::<S>(&allowed).await {
                    Ok(rows) => self.finish(self.due_now(), move || rows.reply()).await,
                    Err(problem) => problem.response(),
                };
            }
            Err(problem) => return self.refuse(problem).await,
        };
        let allowed = [allowed, S::PARAMETERS, &[LEAVE_OUT]].concat();
        let (received, task) = match self.received(&allowed, &Media::ALL).await {
            Ok(received) => received,
            Err(response) => return response,
        };
        let (due, unfolded_max) = (task.due(), self.unfolded_max());
        let written = move || {
            let Body { bytes, share, .. } = received;
            let mut rows = Rows::<S>::begin(task)?;
            rows.write_table(format, bytes, unfolded_max)?;
            let reply = rows.reply();
            drop(share);
            reply
        };
        self.finish(due, written).await
    }

    /// Writes the lines of the body as they arrive.
    async fn write_lines<S: RowSink>(&mut self, allowed: &[&str]) -> Result<Rows<S>, Problem> {
        let payload = self.payload.take();
        let edge = self.edge.clone();
        let mut stream = LineStream::new(&self.request, payload, &edge).await?;
        let begun = async {
            self.edge.intake().admit(&self.request)?;
            let task = self.task(allowed)?;
            self.wait_until_open(&task).await?;
            self.run(task.due(), move || Rows::<S>::begin(task)).await
        };
        let mut rows = match begun.await {
            Ok(rows) => rows,
            Err(problem) => return Err(stream.refuse(problem).await),
        };
        loop {
            let (batch, share) = match stream.next().instrument(self.seen.receiving()).await {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(rows),
                Err(problem) => return Err(stream.refuse(problem.stored(rows.stored())).await),
            };
            let write = move || {
                let written = rows.write_lines(&batch);
                drop(share);
                written.map(|()| rows)
            };
            rows = match self.run(self.due_now(), write).await {
                Ok(rows) => rows,
                Err(problem) => return Err(stream.refuse(problem).await),
            };
        }
    }

    /// The body of one of these types, and what work has at hand.
    async fn received(&mut self, allowed: &[&str], types: &[Media]) -> Result<(Body, Task), HttpResponse> {
        let told = |problem: Problem| problem.response();
        let payload = self.payload.take();
        if let Err(problem) = self.edge.intake().admit(&self.request) {
            receive::discard(&self.request, payload, &self.edge).await;
            return Err(told(problem));
        }
        let body = receive::receive(&self.request, payload, &self.edge, types);
        let body = body.instrument(self.seen.receiving()).await.map_err(told)?;
        let task = self.task(allowed).map_err(told)?;
        self.wait_until_open(&task).await.map_err(told)?;
        Ok((body, task))
    }

    /// How much the values of a table may take once they are decoded.
    fn unfolded_max(&self) -> usize {
        self.edge.body_limit_bytes().saturating_mul(UNFOLDED_MAX)
    }

    /// The time that a part has of a body which is written part by part: that of a request, from now.
    fn due_now(&self) -> Due {
        Due::after(Instant::now(), self.edge.limits().timeout)
    }

    /// Does the work on a thread that may block, and answers.
    async fn finish<A: Into<Answer> + Send + 'static>(
        &self,
        due: Due,
        work: impl FnOnce() -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let takes_gzip = packs(self.request.headers());
        respond(self.run(due, move || work().map(|answer| answer.into().packed(takes_gzip))).await)
    }

    /// As [`Call::answer_body`], where a request without a body stands for `{}`.
    pub(crate) async fn answer_optional_body<A: Into<Answer> + Send + 'static>(
        self,
        allowed: &[&str],
        work: impl FnOnce(Task, Value) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let headers = self.request.headers();
        let length = headers.get("content-length").and_then(|value| value.to_str().ok());
        let is_bodiless = !headers.contains_key("transfer-encoding") && length.is_none_or(|text| text == "0");
        if is_bodiless {
            self.answer(allowed, |task| work(task, Value::Object(Map::new()))).await
        } else {
            self.answer_body(allowed, work).await
        }
    }

    /// Runs work on a thread of the engine, or not at all when it is due before there is one.
    async fn run<T: Send + 'static>(
        &self,
        due: Due,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.edge.run(due, self.watched(work)).await
    }

    /// Work that tells of itself: in spans, and of a query in it that was slow.
    fn watched<T, W: FnOnce() -> Result<T, Problem>>(
        &self,
        work: W,
    ) -> impl FnOnce() -> Result<T, Problem> + use<T, W> {
        let (waiting, seen, edge) = (self.seen.waiting(), Arc::clone(&self.seen), self.edge.clone());
        move || {
            drop(waiting);
            let begun = seen.begin();
            let outcome = seen.working().in_scope(work);
            if let Some(noted) = seen.noted()
                && let Some(limit) = edge.observer().slow_after()
            {
                edge.slow().note(seen.id(), &noted, begun, limit);
            }
            outcome
        }
    }

    /// Answers a request without a body with a file.
    pub(crate) async fn answer_file(
        self,
        work: impl FnOnce(Task) -> Result<Download, Problem> + Send + 'static,
    ) -> HttpResponse {
        let admitted = self.edge.intake().admit(&self.request).and_then(|()| self.task(&[]));
        let found = match admitted {
            Ok(task) => self.run(task.due(), move || work(task)).await,
            Err(problem) => Err(problem),
        };
        found.map_or_else(|problem| problem.response(), Download::response)
    }

    /// Answers a request whose body is a form with a file, which `begin` makes a place for. It is written as it
    /// arrives, so it may be larger than memory.
    pub(crate) async fn answer_upload<A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        begin: impl FnOnce(&Task) -> Result<Partial, Problem> + Send + 'static,
        work: impl FnOnce(Task, Partial) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let receiving = self.seen.receiving();
        match self.upload(allowed, begin).instrument(receiving).await {
            Ok((task, file)) => self.finish(self.due_now(), move || work(task, file)).await,
            Err(problem) => problem.response(),
        }
    }

    async fn upload(
        &mut self,
        allowed: &[&str],
        begin: impl FnOnce(&Task) -> Result<Partial, Problem> + Send + 'static,
    ) -> Result<(Task, Partial), Problem> {
        let payload = self.payload.take();
        let mut stream = FileStream::new(&self.request, payload, &self.edge, UPLOAD_PIECE_BYTES).await?;
        let admitted = self.edge.intake().admit(&self.request).and_then(|()| self.task(allowed));
        let begun = match admitted {
            Ok(task) => self.edge.run(task.due(), move || begin(&task).map(|file| (task, file))).await,
            Err(problem) => Err(problem),
        };
        let (task, mut file) = match begun {
            Ok(begun) => begun,
            Err(problem) => return Err(stream.refuse(problem).await),
        };
        loop {
            let written = match stream.next().await {
                Ok(None) => return Ok((task, file)),
                Ok(Some(piece)) => {
                    let write = move || file.append(&piece).map(|()| file).map_err(|error| error.problem());
                    self.edge.run(self.due_now(), write).await
                }
                Err(problem) => Err(problem),
            };
            file = match written {
                Ok(file) => file,
                Err(problem) => return Err(stream.refuse(problem).await),
            };
        }
    }

    /// Answers with a refusal, whatever the body says.
    pub(crate) async fn refuse(mut self, problem: Problem) -> HttpResponse {
        receive::discard(&self.request, self.payload.take(), &self.edge).await;
        problem.response()
    }

    /// Whether it may be asked by whoever asks. Handlers of the table's routes need not look: it was looked before.
    pub(crate) fn check(&self, access: Access) -> Result<(), Problem> {
        guard::check(&self.request, access)
    }

    /// The method and the path, for a message.
    pub(crate) fn asked_for(&self) -> (String, String) {
        (self.request.method().to_string(), self.request.path().to_owned())
    }

    /// Waits, without a thread, while the collection that the path names is being opened, up to the parameter
    /// `timeout` or else [`OPEN_WITHIN`]. Whatever else is wrong with it is found by the work.
    async fn wait_until_open(&self, task: &Task) -> Result<(), Problem> {
        let is_named = task.segments.contains_key("collection");
        let Some(name) = (is_named && self.needs_open).then(|| task.name("collection").ok()).flatten() else {
            return Ok(());
        };
        let limit = task.parameters.seconds(TIMEOUT)?.unwrap_or(OPEN_WITHIN);
        let Ok(mut state) = self.edge.catalogue().begin(&name) else { return Ok(()) };
        while !matches!(state, CollectionState::Open | CollectionState::Failed { .. }) {
            let left = limit.saturating_sub(self.started.elapsed());
            if left.is_zero() {
                return Err(errors::late(&name, &state));
            }
            rt::time::sleep(LOOK_EVERY.min(left)).await;
            state = self.edge.catalogue().state(&name);
            if matches!(state, CollectionState::Closed) {
                let Ok(begun) = self.edge.catalogue().begin(&name) else { return Ok(()) };
                state = begun;
            }
        }
        Ok(())
    }

    fn task(&self, allowed: &[&str]) -> Result<Task, Problem> {
        let mut segments = segments(&self.request)?;
        let parameters = Parameters::parse(self.request.query_string(), allowed)?;
        let edge = self.edge.clone().into_inner();
        if self.takes_alias
            && let Some(named) = segments.get_mut("collection")
            && let Ok(name) = named.parse::<Name>()
        {
            let resolved = edge.catalogue().resolve(name).map_err(|error| errors::catalogue(&error))?;
            guard::check_resolved(&self.request, resolved.as_str())?;
            *named = resolved.into();
        }
        let client = self.request.peer_addr().map(|address| address.ip());
        let accepted = Accepted::new(self.request.headers());
        let limit = parameters.seconds(TIMEOUT)?.unwrap_or(edge.limits().timeout);
        let caller = Caller::of(&self.request);
        let (started, received) = (self.started, Instant::now());
        let seen = Arc::clone(&self.seen);
        Ok(Task { started, received, edge, seen, segments, caller, client, accepted, parameters, limit })
    }
}

/// The variable segments of a path by their names, decoded.
pub(crate) fn segments(request: &HttpRequest) -> Result<HashMap<String, String>, Problem> {
    let info = request.match_info();
    let decoded: Vec<String> =
        info.load().map_err(|error| Problem::new(BAD_PATH, format!("the path: {error}")))?;
    Ok(info.iter().map(|(name, _)| name.to_owned()).zip(decoded).collect())
}

impl Task {
    /// What all requests share.
    pub(crate) fn edge(&self) -> &Edge {
        &self.edge
    }

    /// The same, for a thread that outlives the request.
    pub(crate) fn shared_edge(&self) -> Arc<Edge> {
        Arc::clone(&self.edge)
    }

    /// A variable segment of the path.
    pub(crate) fn segment(&self, name: &'static str) -> &str {
        self.segments.get(name).map_or("", String::as_str)
    }

    /// A variable segment of the path as a name.
    pub(crate) fn name(&self, name: &'static str) -> Result<Name, Problem> {
        let segment = self.segment(name);
        segment
            .parse()
            .map_err(|error| Problem::new(INVALID_NAME, format!("the path: {error}")).found(segment))
    }

    /// When the answer of a search must be there: the time of the parameter `timeout`, or else the server's, after
    /// all of the request was there.
    pub(crate) fn deadline(&self) -> Result<Option<Deadline>, Problem> {
        Ok(Some(Deadline::after(self.received, self.limit)))
    }

    /// When it must have come to the engine.
    fn due(&self) -> Due {
        Due::after(self.received, self.limit)
    }

    /// Whether who asks may read this collection, and so see it in lists.
    pub(crate) fn may_read(&self, collection: &Name) -> bool {
        self.caller.may_read(collection.as_str())
    }

    /// The collection that the path names.
    pub(crate) fn collection(&self) -> Result<Arc<Collection>, Problem> {
        let name = self.name("collection")?;
        let collection = self.edge.catalogue().get(&name).map_err(|error| errors::opening(&error, &name))?;
        self.edge.build_missing_graph(&name, &collection);
        self.edge.resume_fits(&name, &collection);
        for space in collection.all_spaces() {
            self.watched(&space)?;
        }
        Ok(collection)
    }

    /// The vector that the parameter `using` names, of the collection that the path names: what has banks,
    /// corrections and a graph. Without the parameter that is the unnamed one.
    pub(crate) fn space(&self) -> Result<Arc<Collection>, Problem> {
        let space = self.collection()?.space(self.parameters.text("using"));
        space.map_err(|error| errors::space(&error).in_parameter("using"))
    }

    /// The same, and what is learned about it.
    pub(crate) fn served(&self) -> Result<Served, Problem> {
        let space = self.space()?;
        let watched = self.watched(&space)?;
        Ok((space, watched))
    }

    /// What is learned about one of the vectors of the collection that the path names.
    pub(crate) fn watched(&self, space: &Arc<Collection>) -> Result<Arc<Watched>, Problem> {
        Ok(self.edge.live().watch(&self.name("collection")?, space))
    }

    /// Starts building the collection's graph if that is due.
    pub(crate) fn build_graph_if_due(&self, collection: &Arc<Collection>) -> Result<(), Problem> {
        self.edge.build_graph_if_due(&self.name("collection")?, collection);
        Ok(())
    }

    /// The answer, framed.
    pub(crate) fn reply<T: Serialize>(&self, result: &T) -> Result<Vec<u8>, Problem> {
        let time = self.started.elapsed().as_secs_f64();
        encoding().in_scope(|| to_json(&Envelope { result, status: "ok", time }))
    }

    /// Remembers what was searched for, with or without success, to tell of it if the request turns out to be slow.
    pub(crate) fn searched(&self, searched: Searched) {
        if self.edge.observer().slow_after().is_none() {
            return;
        }
        let collection = self.segment("collection").to_owned();
        let (started, received) = (self.started, self.received);
        self.seen.note(Noted { searched, collection, started, received, at: Instant::now() });
    }
}

/// An answer as JSON.
pub(crate) fn to_json<T: Serialize>(answer: &T) -> Result<Vec<u8>, Problem> {
    let refused = |error| Problem::new(INTERNAL, format!("the answer has no JSON form: {error}"));
    serde_json::to_vec(answer).map_err(refused)
}

fn respond(outcome: Result<Answer, Problem>) -> HttpResponse {
    match outcome {
        Ok(Answer { body, is_complete, form, is_packed }) => {
            let mut response = if is_complete { HttpResponse::Ok() } else { HttpResponse::Accepted() };
            response.insert_header((header::VARY, "accept, accept-encoding"));
            if is_packed {
                response.insert_header((header::CONTENT_ENCODING, "gzip"));
            }
            response.content_type(form.media()).body(body)
        }
        Err(problem) => problem.response(),
    }
}
