//! How the writes of a collection fare, in an answer.

use std::time::UNIX_EPOCH;

use dehub_index::{WriterFailure, WriterInfo};
use serde::Serialize;
use utoipa::ToSchema;

/// How writes fare.
#[derive(Serialize, ToSchema)]
#[schema(as = Writer)]
pub(crate) struct WriterReply {
    /// What an acknowledged write survives: `strict` or `relaxed`.
    durability: &'static str,
    /// Writes that are made or wait to become durable.
    waiting: usize,
    /// As many may; one more is refused.
    waiting_max: usize,
    /// Since the collection was opened.
    commits: u64,
    /// Since then; fewer, if writes waited for one together.
    syncs: u64,
    /// Why writes are refused; `null` if they are not.
    failure: Option<FailureReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = WriterFailure)]
struct FailureReply {
    cause: String,
    /// Seconds since 1970.
    since: f64,
}

impl WriterReply {
    pub(crate) fn new(info: &WriterInfo) -> WriterReply {
        let failure = |failure: &WriterFailure| FailureReply {
            cause: failure.cause.clone(),
            since: failure.since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        };
        WriterReply {
            durability: info.durability.name(),
            waiting: info.waiting,
            waiting_max: info.waiting_max,
            commits: info.commits,
            syncs: info.syncs,
            failure: info.failure.as_ref().map(failure),
        }
    }
}
