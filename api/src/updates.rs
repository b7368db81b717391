//! Several writes in one request.

use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{Collection, VectorsInput};
use serde_json::Value;

use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{BATCH_TOO_LARGE, EMPTY_BATCH, INVALID_VALUE};
use crate::parameters::WRITE;
use crate::payloads::{self, Asked};
use crate::points::{self, Upsert, WriteReply};
use crate::problem::Problem;
use crate::selectors::Chosen;
use crate::vectors::{self, Taken};

/// Operations in a request. Each is a commit.
const OPERATIONS_MAX: usize = 1000;

const OPERATIONS: &str = "one operation: `upsert`, `delete`, `set_payload`, `overwrite_payload`, \
    `delete_payload`, `clear_payload`, `update_vectors` or `delete_vectors`";

/// One of the writes.
enum Operation {
    Upsert(Upsert),
    Delete(Chosen),
    Change(Asked),
    UpdateVectors(Vec<VectorsInput>),
    DeleteVectors(Taken),
}

/// `POST /collections/{collection}/points/batch`: all are decoded before any is done, and each is a write of its own.
/// If one fails, those before it stay done, and the answer says so.
pub(crate) async fn batch(call: Call) -> HttpResponse {
    call.answer_body(WRITE, |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let operations = fields.required("operations", operations)?;
        fields.finish()?;
        let mut replies = Vec::with_capacity(operations.len());
        for (place, (name, operation)) in operations.into_iter().enumerate() {
            let reply = perform(&task, &collection, operation).map_err(|problem| {
                let note =
                    if place == 0 { "no operation was done" } else { "the operations before it were done" };
                problem.below(&format!("/operations/{place}/{name}"), note)
            })?;
            replies.push(reply);
        }
        task.build_graph_if_due(&collection)?;
        let replies = replies.into_iter().map(|reply: WriteReply| reply.found_by_words(&task, &collection));
        task.reply(&replies.collect::<Result<Vec<_>, _>>()?)
    })
    .await
}

fn perform(task: &Task, collection: &Arc<Collection>, operation: Operation) -> Result<WriteReply, Problem> {
    match operation {
        Operation::Upsert(upsert) => points::perform_upsert(collection, &upsert),
        Operation::Delete(chosen) => points::perform_delete(task, collection, &chosen),
        Operation::Change((change, chosen)) => payloads::perform(task, collection, &change, &chosen),
        Operation::UpdateVectors(inputs) => vectors::perform_update(collection, &inputs),
        Operation::DeleteVectors(taken) => vectors::perform_delete(task, collection, &taken),
    }
}

fn operations(value: Value, place: Place<'_>) -> Result<Vec<(&'static str, Operation)>, Problem> {
    let operations = decode::list(value, place, operation)?;
    match operations.len() {
        0 => {
            let detail = format!("`{place}` is empty, wanted at least one operation");
            Err(Problem::new(EMPTY_BATCH, detail).at(place))
        }
        1..=OPERATIONS_MAX => Ok(operations),
        found => {
            let detail = format!("`{place}` has {found} operations, wanted at most {OPERATIONS_MAX}");
            Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).wanted(OPERATIONS_MAX).found(found))
        }
    }
}

fn operation(value: Value, place: Place<'_>) -> Result<(&'static str, Operation), Problem> {
    let mut fields = Fields::new(value, place)?;
    let mut given = Vec::new();
    let mut add = |name, operation: Option<Operation>| given.extend(operation.map(|it| (name, it)));
    add("upsert", fields.optional("upsert", points::inputs)?.map(Operation::Upsert));
    add("delete", fields.optional("delete", chosen)?.map(Operation::Delete));
    for (name, read) in [
        ("set_payload", payloads::read_set as payloads::Read),
        ("overwrite_payload", payloads::read_overwrite),
        ("delete_payload", payloads::read_delete),
        ("clear_payload", payloads::read_clear),
    ] {
        add(name, fields.optional(name, read)?.map(Operation::Change));
    }
    add(
        "update_vectors",
        fields.optional("update_vectors", vectors::read_update)?.map(Operation::UpdateVectors),
    );
    add(
        "delete_vectors",
        fields.optional("delete_vectors", vectors::read_delete)?.map(Operation::DeleteVectors),
    );
    let missing = fields.missing(OPERATIONS);
    fields.finish()?;
    match given.pop() {
        None => Err(missing),
        Some(operation) if given.is_empty() => Ok(operation),
        Some(_) => {
            let detail = format!("`{place}` has more than one operation, wanted {OPERATIONS}");
            Err(Problem::new(INVALID_VALUE, detail).at(place))
        }
    }
}

fn chosen(value: Value, place: Place<'_>) -> Result<Chosen, Problem> {
    let mut fields = Fields::new(value, place)?;
    let chosen = Chosen::read(&mut fields, place)?;
    fields.finish()?;
    Ok(chosen)
}
