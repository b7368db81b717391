//! Payloads: set, put in the place of others, and taken away.

use actix_web::HttpResponse;
use dehub_index::{BATCH_POINTS_MAX, Collection, PayloadChange};
use dehub_vector::PointId;
use serde_json::Value;

use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, EMPTY_BATCH, UNKNOWN_POINT, Written};
use crate::filter;
use crate::parameters::WRITE;
use crate::points::WriteReply;
use crate::problem::Problem;
use crate::selectors::{Chosen, ids_of};

/// What a body asks for: a change, and the points to make it to.
pub(crate) type Asked = (PayloadChange, Chosen);

/// Reads the body of one of the four.
pub(crate) type Read = fn(Value, Place<'_>) -> Result<Asked, Problem>;

/// `POST /collections/{collection}/points/payload`
pub(crate) async fn set(call: Call) -> HttpResponse {
    answer(call, read_set).await
}

/// `PUT /collections/{collection}/points/payload`
pub(crate) async fn overwrite(call: Call) -> HttpResponse {
    answer(call, read_overwrite).await
}

/// `POST /collections/{collection}/points/payload/delete`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    answer(call, read_delete).await
}

/// `POST /collections/{collection}/points/payload/clear`
pub(crate) async fn clear(call: Call) -> HttpResponse {
    answer(call, read_clear).await
}

async fn answer(call: Call, read: Read) -> HttpResponse {
    call.answer_body(WRITE, move |task, body| {
        let collection = task.collection()?;
        let (change, chosen) = read(body, Place::Body)?;
        let reply = perform(&task, &collection, &change, &chosen)?;
        task.reply(&reply.found_by_words(&task, &collection)?)
    })
    .await
}

/// `{"payload", "points" or "filter", "key"}`
pub(crate) fn read_set(value: Value, place: Place<'_>) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let payload = fields.required("payload", decode::payload)?;
    let key = fields.optional("key", filter::path)?;
    let chosen = Chosen::read(&mut fields, place)?;
    fields.finish()?;
    Ok((PayloadChange::Set { fields: payload, key }, chosen))
}

/// `{"payload", "points" or "filter"}`
pub(crate) fn read_overwrite(value: Value, place: Place<'_>) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let payload = fields.required("payload", decode::payload)?;
    let chosen = Chosen::read(&mut fields, place)?;
    fields.finish()?;
    Ok((PayloadChange::Overwrite(payload), chosen))
}

/// `{"keys", "points" or "filter"}`
pub(crate) fn read_delete(value: Value, place: Place<'_>) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let keys = fields.required("keys", |value, place| {
        let keys = decode::list(value, place, filter::path)?;
        if keys.is_empty() {
            let detail = format!("`{place}` is empty, wanted at least one path");
            return Err(Problem::new(EMPTY_BATCH, detail).at(place));
        }
        Ok(keys)
    })?;
    let chosen = Chosen::read(&mut fields, place)?;
    fields.finish()?;
    Ok((PayloadChange::Delete(keys), chosen))
}

/// `{"points" or "filter"}`
pub(crate) fn read_clear(value: Value, place: Place<'_>) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let chosen = Chosen::read(&mut fields, place)?;
    fields.finish()?;
    Ok((PayloadChange::Clear, chosen))
}

/// Makes a change to the points that are chosen: of a list, in one commit; of a filter, in commits of
/// [`BATCH_POINTS_MAX`]. An id of a list that no point has is a 404, and the others are changed, as in Qdrant.
pub(crate) fn perform(
    task: &Task,
    collection: &Collection,
    change: &PayloadChange,
    chosen: &Chosen,
) -> Result<WriteReply, Problem> {
    let write = |ids: &[PointId]| {
        collection.change_payloads(ids, change).map_err(|error| errors::write(&error, &Written::Payloads))
    };
    match chosen {
        Chosen::Ids(ids) => {
            let done = write(ids)?;
            match done.missing.first() {
                None => Ok(WriteReply::changed(done.receipt.sequence, done.receipt.replaced)),
                Some(id) => Err(missing(id, ids, done.receipt.replaced)),
            }
        }
        Chosen::Filter(filter) => {
            let snapshot = collection.snapshot();
            let ids = ids_of(&snapshot, &snapshot.scope().until(task.deadline()?), filter)?;
            let (mut sequence, mut changed) = (snapshot.sequence(), 0);
            for ids in ids.chunks(BATCH_POINTS_MAX) {
                // One that was deleted meanwhile is not missed.
                let receipt = write(ids)?.receipt;
                (sequence, changed) = (receipt.sequence, changed + receipt.replaced);
            }
            Ok(WriteReply::changed(sequence, changed))
        }
    }
}

fn missing(id: &PointId, ids: &[PointId], changed: usize) -> Problem {
    let place = ids.iter().position(|own| own == id).unwrap_or(0);
    let detail = format!("there is no point with the id {id}; the payloads of {changed} others were changed");
    Problem::new(UNKNOWN_POINT, detail).at(format_args!("/points/{place}")).found(id)
}
