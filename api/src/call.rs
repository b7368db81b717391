//! One request: its parts, and its way to a thread of the engine and back.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::Payload;
use actix_web::error::ErrorInternalServerError;
use actix_web::{FromRequest, HttpRequest, HttpResponse, rt, web};
use dehub_index::{Collection, CollectionState, Deadline, Name};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode;
use crate::edge::Edge;
use crate::errors::{self, BAD_PATH, INTERNAL, INVALID_NAME};
use crate::live::Watched;
use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::receive::{self, Body};

/// How long a request waits for a collection that is being opened if it does not say: as long as clients do.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// How often it looks whether the collection is open.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A request as a handler gets it.
pub(crate) struct Call {
    started: Instant,
    edge: web::Data<Edge>,
    request: HttpRequest,
    payload: Payload,
    /// Whether the collection that the path names must be open for the work.
    needs_open: bool,
}

/// What work on behalf of a request has at hand.
pub(crate) struct Task {
    started: Instant,
    edge: Arc<Edge>,
    segments: HashMap<String, String>,
    /// Who asks, as far as the connection tells.
    pub(crate) client: Option<IpAddr>,
    /// The parameters of the query string.
    pub(crate) parameters: Parameters,
}

/// The body of an answer, and whether the work it is about is complete: 200 or 202.
pub(crate) struct Answer {
    body: Vec<u8>,
    is_complete: bool,
}

impl Answer {
    /// The answer when the work has only begun.
    pub(crate) fn accepted(body: Vec<u8>) -> Answer {
        Answer { body, is_complete: false }
    }
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Answer {
        Answer { body, is_complete: true }
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
            request: request.clone(),
            payload: payload.take(),
            needs_open: true,
        }))
    }
}

impl Call {
    /// The same, for work that does not need the collection of the path to be open.
    pub(crate) fn at_once(self) -> Call {
        Call { needs_open: false, ..self }
    }

    /// Answers a request without a body. The query string may have the parameters `allowed`.
    pub(crate) async fn answer<A: Into<Answer> + Send + 'static>(
        self,
        allowed: &[&str],
        work: impl FnOnce(Task) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let task = match self.task(allowed) {
            Ok(task) => task,
            Err(problem) => return problem.response(),
        };
        if let Err(problem) = self.wait_until_open(&task).await {
            return problem.response();
        }
        respond(self.edge.run(move || work(task)).await)
    }

    /// Answers a request with a JSON body.
    pub(crate) async fn answer_body<A: Into<Answer> + Send + 'static>(
        mut self,
        allowed: &[&str],
        work: impl FnOnce(Task, Value) -> Result<A, Problem> + Send + 'static,
    ) -> HttpResponse {
        let payload = self.payload.take();
        let body = match receive::receive(&self.request, payload, &self.edge).await {
            Ok(body) => body,
            Err(problem) => return problem.response(),
        };
        let task = match self.task(allowed) {
            Ok(task) => task,
            Err(problem) => return problem.response(),
        };
        if let Err(problem) = self.wait_until_open(&task).await {
            return problem.response();
        }
        let decoded = move || {
            let Body { bytes, share } = body;
            let value = decode::body(&bytes)?;
            drop(bytes);
            let outcome = work(task, value);
            drop(share);
            outcome
        };
        respond(self.edge.run(decoded).await)
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

    /// Answers with a refusal, whatever the body says.
    pub(crate) async fn refuse(mut self, problem: Problem) -> HttpResponse {
        receive::discard(self.payload.take()).await;
        problem.response()
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
        let limit = task.parameters.seconds("timeout")?.unwrap_or(OPEN_WITHIN);
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
        let info = self.request.match_info();
        let decoded: Vec<String> =
            info.load().map_err(|error| Problem::new(BAD_PATH, format!("the path: {error}")))?;
        let segments = info.iter().map(|(name, _)| name.to_owned()).zip(decoded).collect();
        let parameters = Parameters::parse(self.request.query_string(), allowed)?;
        let edge = self.edge.clone().into_inner();
        let client = self.request.peer_addr().map(|address| address.ip());
        Ok(Task { started: self.started, edge, segments, client, parameters })
    }
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
        let refused = |error| Problem::new(INVALID_NAME, format!("the path: {error}"));
        self.segment(name).parse().map_err(refused)
    }

    /// When the answer must be there: the time of the parameter `timeout` after the request arrived.
    pub(crate) fn deadline(&self) -> Result<Option<Deadline>, Problem> {
        let limit = self.parameters.seconds("timeout")?;
        Ok(limit.map(|limit| Deadline::after(self.started, limit)))
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
        to_json(&Envelope { result, status: "ok", time: self.started.elapsed().as_secs_f64() })
    }
}

/// An answer as JSON.
pub(crate) fn to_json<T: Serialize>(answer: &T) -> Result<Vec<u8>, Problem> {
    let refused = |error| Problem::new(INTERNAL, format!("the answer has no JSON form: {error}"));
    serde_json::to_vec(answer).map_err(refused)
}

fn respond<A: Into<Answer>>(outcome: Result<A, Problem>) -> HttpResponse {
    match outcome.map(Into::into) {
        Ok(Answer { body, is_complete }) => {
            let mut response = if is_complete { HttpResponse::Ok() } else { HttpResponse::Accepted() };
            response.content_type("application/json").body(body)
        }
        Err(problem) => problem.response(),
    }
}
