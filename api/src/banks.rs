//! Banks: grown, weakened, shrunk, listed, dropped.

use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{BankInfo, BankUpdate, Collection, EntryInput, EntrySelector, FitProgress, Name, Snapshot};
use dehub_query::BankKind;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::bodies::{DeletedIds, EntryRows};
use crate::call::{Answer, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BANK_KIND, INVALID_VALUE, NOT_SUPPORTED, UNKNOWN_BANK, Written};
use crate::jobs::{Begun, Kind, Purpose, unfinished};
use crate::parameters::WAIT_OR_NOT;
use crate::points::{WriteReply, same_length};
use crate::problem::Problem;

/// A bank in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Bank)]
pub(crate) struct BankReply {
    name: String,
    kind: &'static str,
    entries: usize,
    /// The sum of their weights.
    weight: f64,
    /// Equal for equal entries in equal order.
    hash: String,
}

impl BankReply {
    pub(crate) fn new(info: &BankInfo) -> BankReply {
        BankReply {
            name: info.name.to_string(),
            kind: info.kind.name(),
            entries: info.entries,
            weight: info.weight,
            hash: info.hash.clone(),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = BankList)]
pub(crate) struct Listed {
    banks: Vec<BankReply>,
}

/// Where the entries of a bank come from.
pub(crate) enum Update {
    Given(BankUpdate),
    FromGallery(Name),
}

/// `PUT /collections/{collection}/banks/{bank}`
pub(crate) async fn add(call: Call) -> HttpResponse {
    call.answer_rows::<EntryRows, _>(&[WAIT_OR_NOT, "using"], |task, body| -> Result<Answer, Problem> {
        let collection = task.space()?;
        let waits = task.parameters.waits();
        let receipt = match update(task.name("bank")?, body)? {
            Update::Given(update) if !waits && !update.defer => {
                let update = BankUpdate { defer: true, ..update };
                let added = collection.add_to_bank(&update);
                let receipt = added.map_err(|error| errors::write(&error, &Written::Bank))?;
                return absorb_as_job(&task, &collection, WriteReply::added(&receipt));
            }
            Update::FromGallery(_) if !waits => {
                let detail = "a bank made `/from_gallery` cannot be made in the background";
                return Err(Problem::new(NOT_SUPPORTED, detail).in_parameter("wait"));
            }
            Update::Given(update) => {
                collection.add_to_bank(&update).map_err(|error| errors::write(&error, &Written::Bank))
            }
            Update::FromGallery(name) => collection
                .bank_from_gallery(&name)
                .map_err(|error| errors::write(&error, &Written::FromGallery)),
        }?;
        Ok(task.reply(&WriteReply::added(&receipt))?.into())
    })
    .await
}

#[derive(Serialize)]
struct Nothing {}

/// Begins a job that takes in what the sets over a bank have not; answers with it and what was `written` before.
fn absorb_as_job(
    task: &Task,
    collection: &Arc<Collection>,
    written: impl Serialize,
) -> Result<Answer, Problem> {
    let bank = task.name("bank")?;
    let space = collection.space_name().cloned();
    let purpose =
        Purpose { kind: Kind::Absorb, collection: task.name("collection")?, space, name: bank.clone() };
    let work = move |collection: &Collection, progress: &FitProgress| {
        let receipt = collection
            .absorb_with(&bank, progress)
            .map_err(|error| unfinished(&error, |error| errors::write(error, &Written::Path)))?;
        Ok(json!({ "operation_id": receipt.sequence, "added": receipt.added }))
    };
    let job = task.edge().start(purpose, collection, work)?;
    Ok(Answer::accepted(task.reply(&Begun { job, written })?))
}

/// `GET /collections/{collection}/banks`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let snapshot = task.space()?.snapshot();
        task.reply(&Listed { banks: snapshot.banks().map(BankReply::new).collect() })
    })
    .await
}

/// `GET /collections/{collection}/banks/{bank}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let snapshot = task.space()?.snapshot();
        let name = task.name("bank")?;
        let bank = snapshot.bank(name.as_str()).ok_or_else(|| unknown(&snapshot, name.as_str()))?;
        task.reply(&BankReply::new(bank))
    })
    .await
}

/// `DELETE /collections/{collection}/banks/{bank}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer(&["wait", "using"], |task| {
        let collection = task.space()?;
        collection.drop_bank(&task.name("bank")?).map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&true)
    })
    .await
}

/// `POST /collections/{collection}/banks/{bank}/delete`
pub(crate) async fn delete_entries(call: Call) -> HttpResponse {
    call.answer_rows::<DeletedIds, _>(&["wait", "using"], |task, body| {
        let collection = task.space()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let ids = fields.required("ids", |value, place| decode::list(value, place, decode::id))?;
        fields.finish()?;
        let receipt = collection
            .remove_from_bank(&task.name("bank")?, &EntrySelector::Ids(ids))
            .map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&WriteReply::deleted(&receipt))
    })
    .await
}

/// `POST /collections/{collection}/banks/{bank}/decay`
pub(crate) async fn decay(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "using"], |task, body| {
        let collection = task.space()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let factor = fields.required("factor", decode::number_32)?;
        let drop_below = fields.optional("drop_below", decode::number_32)?.unwrap_or(0.0);
        fields.finish()?;
        let receipt = collection
            .scale_bank(&task.name("bank")?, factor, drop_below)
            .map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&WriteReply::deleted(&receipt))
    })
    .await
}

/// `POST /collections/{collection}/banks/{bank}/absorb`
pub(crate) async fn absorb(call: Call) -> HttpResponse {
    call.answer(&[WAIT_OR_NOT, "using"], |task| -> Result<Answer, Problem> {
        let collection = task.space()?;
        if !task.parameters.waits() {
            let (snapshot, bank) = (collection.snapshot(), task.name("bank")?);
            snapshot.bank(bank.as_str()).ok_or_else(|| unknown(&snapshot, bank.as_str()))?;
            return absorb_as_job(&task, &collection, Nothing {});
        }
        let receipt =
            collection.absorb(&task.name("bank")?).map_err(|error| errors::write(&error, &Written::Path))?;
        Ok(task.reply(&WriteReply::added(&receipt))?.into())
    })
    .await
}

/// The refusal of a bank that is not there.
pub(crate) fn unknown(snapshot: &Snapshot, name: &str) -> Problem {
    let names: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Problem::new(UNKNOWN_BANK, format!("there is no bank `{name}`; the collection has: {found}"))
}

pub(crate) fn update(name: Name, body: Value) -> Result<Update, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let kind = fields.required("kind", kind)?;
    let from_gallery = fields.optional("from_gallery", decode::flag)?.unwrap_or(false);
    if from_gallery {
        if kind != BankKind::Gallery {
            let detail = "`/from_gallery` makes a gallery bank, but `/kind` is query";
            return Err(Problem::new(BANK_KIND, detail).at("/kind").wanted("gallery").found(kind));
        }
        for list in ["vectors", "ids", "weights", "defer"] {
            if fields.has(list) {
                let detail =
                    format!("`/{list}` has no meaning with `/from_gallery`, which takes every point");
                return Err(Problem::new(INVALID_VALUE, detail).at(format_args!("/{list}")));
            }
        }
        fields.finish()?;
        return Ok(Update::FromGallery(name));
    }
    let vectors = fields.required("vectors", |value, place| decode::list(value, place, decode::numbers))?;
    let ids = fields.optional("ids", |value, place| {
        same_length(decode::list(value, place, decode::id)?, vectors.len(), place)
    })?;
    let weights = fields.optional("weights", |value, place| {
        same_length(decode::list(value, place, decode::number_32)?, vectors.len(), place)
    })?;
    let defer = fields.optional("defer", decode::flag)?.unwrap_or(false);
    fields.finish()?;
    let mut ids = ids.unwrap_or_default().into_iter();
    let mut weights = weights.unwrap_or_default().into_iter();
    let entry = |vector| EntryInput { id: ids.next(), vector, weight: weights.next().unwrap_or(1.0) };
    let entries = vectors.into_iter().map(entry).collect();
    Ok(Update::Given(BankUpdate { name, kind, entries, defer }))
}

fn kind(value: Value, place: Place<'_>) -> Result<BankKind, Problem> {
    let name = decode::string(value, place)?;
    let kinds = [BankKind::Query, BankKind::Gallery];
    let found = kinds.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| decode::out_of_range(place, format_args!("{name:?}"), "query or gallery"))
}
