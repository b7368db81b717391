//! Whether the server lives, and whether it serves all it has. These answers have no frame, as with Qdrant, and need
//! no thread of the engine: they come however busy that is.

use std::collections::BTreeMap;

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use dehub_index::{Catalogue, CatalogueError, CollectionState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::edge::Edge;
use crate::errors;
use crate::guard::Caller;

/// What Qdrant says.
const ALIVE: &str = "healthz check passed";

#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct Ready {
    status: &'static str,
    /// Those that who asks may read.
    collections: BTreeMap<String, CollectionReply>,
}

/// A collection as far as it serves.
#[derive(Serialize, ToSchema)]
#[schema(as = CollectionReadiness)]
struct CollectionReply {
    /// `closed`, `opening`, `open`, `closing` or `failed`.
    state: &'static str,
    /// About which part of it is read, 0 to 1.
    share: f64,
    /// What is being read.
    #[serde(skip_serializing_if = "Option::is_none")]
    reading: Option<&'static str>,
    /// Why it does not open, or takes no writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// `GET /healthz` and `GET /livez`: the process answers.
pub(crate) async fn alive() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body(ALIVE)
}

/// `GET /readyz`: 200 if every collection is open and takes writes; 503 with what is missing otherwise, or if the
/// server is about to stop.
pub(crate) async fn ready(edge: Data<Edge>, request: HttpRequest) -> HttpResponse {
    let caller = Caller::of(&request);
    match readiness(edge.catalogue()) {
        Ok(mut ready) => {
            ready.status = if edge.is_stopping() { "stopping" } else { ready.status };
            ready.collections.retain(|name, _| caller.may_read(name));
            let is_ready = ready.status == "ok";
            let mut answer = if is_ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
            answer.json(ready)
        }
        Err(error) => errors::catalogue(&error).response(),
    }
}

fn readiness(catalogue: &Catalogue) -> Result<Ready, CatalogueError> {
    let open = catalogue.open_ones();
    let (mut is_degraded, mut is_opening) = (false, false);
    let mut collections: BTreeMap<String, CollectionReply> = BTreeMap::new();
    for (name, state) in catalogue.states()? {
        let reading =
            if let CollectionState::Opening { phase, .. } = &state { Some(phase.name()) } else { None };
        let failure = open.get(&name).and_then(|collection| collection.writer().failure);
        let error = if let CollectionState::Failed { error } = &state {
            Some(error.to_string())
        } else {
            failure.map(|failure| format!("takes no writes since a commit failed: {}", failure.cause))
        };
        is_degraded |= error.is_some();
        is_opening |= !matches!(state, CollectionState::Open);
        let reply = CollectionReply { state: state.name(), share: state.share(), reading, error };
        collections.insert(name.into(), reply);
    }
    for (name, collection) in open {
        // Its folder was taken away under the server, which has what it read of it.
        collections.entry(name.into()).or_insert_with(|| {
            is_degraded = true;
            let failure = collection.writer().failure.map(|failure| failure.cause);
            let error = failure.unwrap_or_else(|| "its folder is not there any more".to_owned());
            CollectionReply { state: "open", share: 1.0, reading: None, error: Some(error) }
        });
    }
    let status = match (is_degraded, is_opening) {
        (true, _) => "degraded",
        (false, true) => "opening",
        (false, false) => "ok",
    };
    Ok(Ready { status, collections })
}
