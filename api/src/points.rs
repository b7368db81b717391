//! Points: written, read by id, counted, deleted.

use actix_web::HttpResponse;
use dehub_index::{BATCH_POINTS_MAX, Collection, HubRule, Point, PointAlarm, PointInput, Receipt, Snapshot};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::bodies::{DeletedIds, PointRows};
use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BATCH_TOO_LARGE, EMPTY_BATCH, INVALID_ID, LENGTHS_DIFFER, STORAGE, Written};
use crate::filter::filter;
use crate::openapi::Id;
use crate::parameters::WRITE;
use crate::problem::Problem;
use crate::selectors::{Chosen, ids_of};

pub(crate) use crate::selectors::{Parts, Selection};
use crate::vectors::{self, Given};

/// What a write did. It is on disk.
#[derive(Serialize, ToSchema)]
#[schema(as = Write)]
pub(crate) struct WriteReply {
    operation_id: u64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<usize>,
    /// Points whose payloads were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<usize>,
    /// The points that are hubs, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    alarms: Option<Vec<AlarmReply>>,
    /// The points that are held, if new points are tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined: Option<Vec<AlarmReply>>,
    /// What the index of texts knows, in a collection that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextReply>,
}

/// How far the index of texts is.
#[derive(Serialize, ToSchema)]
#[schema(as = TextOfWrite)]
pub(crate) struct TextReply {
    /// The newest write that it knows of, with all before.
    sequence: u64,
    /// Whether what this write changed is found by words. If not, it will be within a moment, and `refresh` waits
    /// for it.
    visible: bool,
}

/// A point that looks like a hub.
#[derive(Serialize, ToSchema)]
#[schema(as = HubAlarm)]
pub(crate) struct AlarmReply {
    #[schema(value_type = Id)]
    id: PointId,
    bias: f32,
    p: f64,
}

impl AlarmReply {
    fn new(PointAlarm { id, bias, p }: PointAlarm) -> AlarmReply {
        AlarmReply { id, bias, p }
    }
}

impl WriteReply {
    pub(crate) fn upserted(receipt: &Receipt) -> WriteReply {
        WriteReply {
            added: Some(receipt.added),
            replaced: Some(receipt.replaced),
            deleted: (receipt.deleted > 0).then_some(receipt.deleted),
            ..WriteReply::deleted(receipt)
        }
    }

    pub(crate) fn deleted(receipt: &Receipt) -> WriteReply {
        WriteReply { deleted: Some(receipt.deleted), ..WriteReply::done(receipt.sequence) }
    }

    pub(crate) fn changed(sequence: u64, changed: usize) -> WriteReply {
        WriteReply { changed: Some(changed), ..WriteReply::done(sequence) }
    }

    /// Of a write that counts nothing.
    pub(crate) fn done(sequence: u64) -> WriteReply {
        WriteReply {
            operation_id: sequence,
            status: "completed",
            added: None,
            replaced: None,
            deleted: None,
            changed: None,
            alarms: None,
            quarantined: None,
            text: None,
        }
    }

    /// The same, with the points that are held, if new points are tested.
    pub(crate) fn with_held(self, held: Option<Vec<PointAlarm>>) -> WriteReply {
        let listed = |held: Vec<PointAlarm>| held.into_iter().map(AlarmReply::new).collect();
        WriteReply { quarantined: held.map(listed), ..self }
    }

    pub(crate) fn added(receipt: &Receipt) -> WriteReply {
        WriteReply { replaced: None, ..WriteReply::upserted(receipt) }
    }

    /// The same, with what the index of texts knows of it: all, if the client waits for that.
    pub(crate) fn found_by_words(self, task: &Task, collection: &Collection) -> Result<WriteReply, Problem> {
        if task.parameters.refreshes() {
            let refreshed = collection.refresh_text();
            refreshed.map_err(|error| {
                let detail = format!("the write is done, and not found by words yet: {error}");
                Problem::new(STORAGE, detail)
            })?;
        }
        let known = collection.snapshot().text_sequence();
        let text = known.map(|sequence| TextReply { sequence, visible: sequence >= self.operation_id });
        Ok(WriteReply { text, ..self })
    }
}

/// A point, with the parts that were asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Point)]
pub(crate) struct PointReply {
    #[schema(value_type = Id)]
    id: PointId,
    #[serde(flatten)]
    parts: Parts,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Count)]
pub(crate) struct Counted {
    count: usize,
}

/// `PUT /collections/{collection}/points`
pub(crate) async fn upsert(call: Call) -> HttpResponse {
    call.answer_rows::<PointRows, _>(WRITE, |task, body| {
        let collection = task.collection()?;
        let reply = perform_upsert(&collection, &inputs(body, Place::Body)?)?;
        task.build_graph_if_due(&collection)?;
        task.reply(&reply.found_by_words(&task, &collection)?)
    })
    .await
}

/// Points to write, the rule to tell hubs by, and where in the body the points are.
pub(crate) struct Upsert {
    points: Vec<PointInput>,
    rule: Option<HubRule>,
    written: Written<'static>,
}

pub(crate) fn perform_upsert(collection: &Collection, upsert: &Upsert) -> Result<WriteReply, Problem> {
    let Upsert { points, rule, written } = upsert;
    let done = collection.upsert_watched(points, rule.as_ref());
    let done = done.map_err(|error| errors::write(&error, written))?;
    let listed = |alarms: Vec<PointAlarm>| alarms.into_iter().map(AlarmReply::new).collect();
    Ok(WriteReply {
        deleted: (done.receipt.deleted > 0).then_some(done.receipt.deleted),
        alarms: rule.is_some().then(|| listed(done.alarms)),
        quarantined: collection.snapshot().quarantine_rule().is_some().then(|| listed(done.held)),
        ..WriteReply::upserted(&done.receipt)
    })
}

/// `POST /collections/{collection}/points`
pub(crate) async fn retrieve(call: Call) -> HttpResponse {
    call.answer_body(&[], |task, body| {
        let snapshot = task.collection()?.snapshot();
        let mut fields = Fields::new(body, Place::Body)?;
        let ids = fields.required("ids", ids)?;
        let selection = Selection::read(&mut fields, true)?;
        fields.finish()?;
        task.reply(&found(&snapshot, &ids, &selection)?)
    })
    .await
}

/// `GET /collections/{collection}/points/{id}`
pub(crate) async fn get(call: Call) -> HttpResponse {
    call.answer(&["id_type"], |task| {
        let snapshot = task.collection()?.snapshot();
        let id = id_in_path(&task)?;
        match found(&snapshot, std::slice::from_ref(&id), &Selection::ALL)?.pop() {
            Some(point) => task.reply(&point),
            None => Err(errors::unknown_point(&id)),
        }
    })
    .await
}

/// `POST /collections/{collection}/points/count`
pub(crate) async fn count(call: Call) -> HttpResponse {
    call.answer_optional_body(&["timeout"], |task, body| {
        let mut fields = Fields::new(body, Place::Body)?;
        // The count is always exact, which serves those who do not need it to be as well.
        fields.optional("exact", decode::flag)?;
        let filter = fields.optional("filter", filter)?.flatten();
        fields.finish()?;
        let snapshot = task.collection()?.snapshot();
        let scope = snapshot.scope().until(task.deadline()?);
        let count = match filter {
            None => snapshot.len(),
            Some(filter) => filter.within(&snapshot, &scope).map_err(|error| errors::listing(&error))?.len(),
        };
        task.reply(&Counted { count })
    })
    .await
}

/// `POST /collections/{collection}/points/delete`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer_rows::<DeletedIds, _>(WRITE, |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let chosen = Chosen::read(&mut fields, Place::Body)?;
        fields.finish()?;
        let reply = perform_delete(&task, &collection, &chosen)?;
        task.build_graph_if_due(&collection)?;
        task.reply(&reply.found_by_words(&task, &collection)?)
    })
    .await
}

/// Deletes the points that are chosen: of a list, in one commit; of a filter, in commits of [`BATCH_POINTS_MAX`].
pub(crate) fn perform_delete(
    task: &Task,
    collection: &Collection,
    chosen: &Chosen,
) -> Result<WriteReply, Problem> {
    let write =
        |ids: &[PointId]| collection.delete(ids).map_err(|error| errors::write(&error, &Written::Ids));
    match chosen {
        Chosen::Ids(ids) => Ok(WriteReply::deleted(&write(ids)?)),
        Chosen::Filter(filter) => {
            let snapshot = collection.snapshot();
            let ids = ids_of(&snapshot, &snapshot.scope().until(task.deadline()?), filter)?;
            let none = Receipt { sequence: snapshot.sequence(), added: 0, replaced: 0, deleted: 0 };
            let all = ids.chunks(BATCH_POINTS_MAX).try_fold(none, |before, ids| {
                let receipt = write(ids)?;
                Ok::<_, Problem>(Receipt { deleted: before.deleted + receipt.deleted, ..receipt })
            })?;
            Ok(WriteReply::deleted(&all))
        }
    }
}

/// The points that exist among `ids`, in that order.
pub(crate) fn found(
    snapshot: &Snapshot,
    ids: &[PointId],
    selection: &Selection,
) -> Result<Vec<PointReply>, Problem> {
    let find = |id| snapshot.find(id).map_err(|error| errors::read(&error)).transpose();
    let rows = ids.iter().filter_map(find).collect::<Result<Vec<u32>, _>>()?;
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let reply = |(mut point, &row): (Point, &u32)| {
        let parts = selection.parts(snapshot, row, &mut point)?;
        Ok(PointReply { id: point.id, parts })
    };
    points.into_iter().zip(&rows).map(reply).collect()
}

/// The share of false alarms to allow unless a body says otherwise.
const RATE_DEFAULT: f64 = 0.01;

/// Reads `{"correction", "rate"}`.
pub(crate) fn rule(value: Value, place: Place<'_>) -> Result<HubRule, Problem> {
    let mut fields = Fields::new(value, place)?;
    let correction = fields.required("correction", decode::name)?;
    let rate = fields.optional("rate", decode::number)?.unwrap_or(RATE_DEFAULT);
    fields.finish()?;
    Ok(HubRule { correction, rate })
}

/// Reads the points of an upsert, one by one or as lists.
pub(crate) fn inputs(value: Value, place: Place<'_>) -> Result<Upsert, Problem> {
    let mut fields = Fields::new(value, place)?;
    let (points, written) = match (fields.has("points"), fields.has("batch")) {
        (true, false) => (fields.required("points", points)?, Written::Points),
        (false, true) => (fields.required("batch", batch)?, Written::Batch),
        (true, true) => {
            let detail = "the body has both `points` and `batch`, wanted one of them";
            return Err(Problem::new(errors::INVALID_VALUE, detail).at(place.field("batch")));
        }
        (false, false) => {
            return Err(fields.missing(
                "`points` ([{id, vector, payload, text}]) or `batch` ({ids, vectors, payloads, texts})",
            ));
        }
    };
    let rule = fields.optional("alarm", rule)?;
    fields.finish()?;
    Ok(Upsert { points, rule, written })
}

fn points(value: Value, place: Place<'_>) -> Result<Vec<PointInput>, Problem> {
    not_empty(decode::list(value, place, point)?, place)
}

/// Reads `{"id", "vector", "payload", "text"}`.
pub(crate) fn point(value: Value, place: Place<'_>) -> Result<PointInput, Problem> {
    let mut fields = Fields::new(value, place)?;
    let id = fields.required("id", decode::id)?;
    let Given { unnamed: vector, named } = fields.required("vector", vectors::given)?;
    let payload = fields.optional("payload", decode::payload)?;
    let text = fields.optional("text", decode::string)?;
    fields.finish()?;
    Ok(PointInput { id, vector, named, payload, text })
}

fn batch(value: Value, place: Place<'_>) -> Result<Vec<PointInput>, Problem> {
    let mut fields = Fields::new(value, place)?;
    let ids = fields.required("ids", |value, place| decode::list(value, place, decode::id))?;
    let wanted = ids.len();
    let vectors = fields.required("vectors", |value, place| vectors::given_lists(value, wanted, place))?;
    let payloads = fields.optional("payloads", |value, place| {
        same_length(decode::list(value, place, or_null(decode::payload))?, wanted, place)
    })?;
    let texts = fields.optional("texts", |value, place| {
        same_length(decode::list(value, place, or_null(decode::string))?, wanted, place)
    })?;
    fields.finish()?;
    let mut payloads = payloads.unwrap_or_default().into_iter();
    let mut texts = texts.unwrap_or_default().into_iter();
    let points = ids.into_iter().zip(vectors).map(|(id, Given { unnamed: vector, named })| PointInput {
        id,
        vector,
        named,
        payload: payloads.next().flatten(),
        text: texts.next().flatten(),
    });
    not_empty(points.collect(), place)
}

/// Reads an entry that may be `null`.
pub(crate) fn or_null<T>(
    read: impl Fn(Value, Place<'_>) -> Result<T, Problem>,
) -> impl Fn(Value, Place<'_>) -> Result<Option<T>, Problem> {
    move |value, place| if value.is_null() { Ok(None) } else { read(value, place).map(Some) }
}

/// Lists that belong together are equally long.
pub(crate) fn same_length<T>(list: Vec<T>, wanted: usize, place: Place<'_>) -> Result<Vec<T>, Problem> {
    let found = list.len();
    if found == wanted {
        return Ok(list);
    }
    let detail = format!("`{place}` has {found} entries, wanted {wanted}: one for each vector and id");
    Err(Problem::new(LENGTHS_DIFFER, detail).at(place).wanted(wanted).found(found))
}

pub(crate) fn not_empty<T>(list: Vec<T>, place: Place<'_>) -> Result<Vec<T>, Problem> {
    if list.is_empty() {
        return Err(
            Problem::new(EMPTY_BATCH, format!("`{place}` is empty, wanted at least one point")).at(place)
        );
    }
    Ok(list)
}

pub(crate) fn ids(value: Value, place: Place<'_>) -> Result<Vec<PointId>, Problem> {
    let ids = not_empty(decode::list(value, place, decode::id)?, place)?;
    if ids.len() > BATCH_POINTS_MAX {
        let found = ids.len();
        let detail = format!("`{place}` has {found} ids, wanted at most {BATCH_POINTS_MAX}");
        return Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).found(found));
    }
    Ok(ids)
}

/// The id in a path: digits are a number unless `id_type` says otherwise.
pub(crate) fn id_in_path(task: &Task) -> Result<PointId, Problem> {
    let text = task.segment("id");
    let id = match task.parameters.text("id_type") {
        None => PointId::parse(text),
        Some("string") => PointId::text(text),
        Some(found) => {
            return Err(task.parameters.refused("id_type", found, "string; without it, digits are a number"));
        }
    };
    id.map_err(|error| Problem::new(INVALID_ID, format!("the path: {error}")))
}
