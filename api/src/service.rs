//! What the server says about itself, without a frame.

use actix_web::HttpResponse;
use actix_web::web::Data;
use dehub_index::{BATCH_POINTS_MAX, PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX};
use dehub_query::{BATCH_QUERIES_MAX, LIMIT_MAX};
use serde::Serialize;
use utoipa::ToSchema;

use crate::edge::Edge;

/// The version of Qdrant's interface whose paths, bodies and semantics are followed.
const QDRANT_VERSION: &str = "1.20.0";

#[derive(Serialize, ToSchema)]
pub(crate) struct About {
    title: &'static str,
    /// That of Qdrant's interface, of which a part is spoken: its clients look whether it is near their own.
    version: &'static str,
    /// Our own.
    dehub_version: &'static str,
    limits: Limits,
}

/// What a client must know to cut its work into requests.
#[derive(Serialize, ToSchema)]
struct Limits {
    body_bytes: usize,
    points_in_a_batch: usize,
    queries_in_a_batch: usize,
    hits_of_a_query: usize,
    payload_bytes: usize,
    text_bytes: usize,
    requests_at_a_time: usize,
    /// The time of a request that names none.
    timeout_seconds: f64,
}

/// `GET /`, without a thread of the engine.
pub(crate) async fn about(edge: Data<Edge>) -> HttpResponse {
    HttpResponse::Ok().json(About {
        title: "dehub",
        version: QDRANT_VERSION,
        dehub_version: env!("CARGO_PKG_VERSION"),
        limits: Limits {
            body_bytes: edge.body_limit_bytes(),
            points_in_a_batch: BATCH_POINTS_MAX,
            queries_in_a_batch: BATCH_QUERIES_MAX,
            hits_of_a_query: LIMIT_MAX,
            payload_bytes: PAYLOAD_BYTES_MAX,
            text_bytes: TEXT_BYTES_MAX,
            requests_at_a_time: edge.limits().requests,
            timeout_seconds: edge.limits().timeout.as_secs_f64(),
        },
    })
}
