//! What the server says about itself, without a frame.

use actix_web::HttpResponse;
use dehub_index::{BATCH_POINTS_MAX, PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX};
use dehub_query::{BATCH_QUERIES_MAX, LIMIT_MAX};
use serde::Serialize;

use crate::call::{Call, to_json};

/// The version of Qdrant's interface whose paths, bodies and semantics are followed.
const QDRANT_VERSION: &str = "1.20.0";

#[derive(Serialize)]
struct About {
    title: &'static str,
    /// That of Qdrant's interface, of which a part is spoken: its clients look whether it is near their own.
    version: &'static str,
    /// Our own.
    dehub_version: &'static str,
    limits: Limits,
}

/// What a client must know to cut its work into requests.
#[derive(Serialize)]
struct Limits {
    body_bytes: usize,
    points_in_a_batch: usize,
    queries_in_a_batch: usize,
    hits_of_a_query: usize,
    payload_bytes: usize,
    text_bytes: usize,
}

/// `GET /`
pub(crate) async fn about(call: Call) -> HttpResponse {
    let answer = |task: crate::call::Task| {
        to_json(&About {
            title: "dehub",
            version: QDRANT_VERSION,
            dehub_version: env!("CARGO_PKG_VERSION"),
            limits: Limits {
                body_bytes: task.edge().body_limit_bytes(),
                points_in_a_batch: BATCH_POINTS_MAX,
                queries_in_a_batch: BATCH_QUERIES_MAX,
                hits_of_a_query: LIMIT_MAX,
                payload_bytes: PAYLOAD_BYTES_MAX,
                text_bytes: TEXT_BYTES_MAX,
            },
        })
    };
    call.answer(&[], answer).await
}
