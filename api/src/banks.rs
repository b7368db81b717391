//! Banks: grown, weakened, shrunk, listed, dropped.

use actix_web::HttpResponse;
use dehub_index::{BankInfo, BankUpdate, EntryInput, EntrySelector, Name, Snapshot};
use dehub_query::BankKind;
use serde::Serialize;
use serde_json::Value;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BANK_KIND, INVALID_VALUE, UNKNOWN_BANK, Written};
use crate::points::{WriteReply, same_length};
use crate::problem::Problem;

/// A bank in an answer.
#[derive(Serialize)]
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

#[derive(Serialize)]
struct Listed {
    banks: Vec<BankReply>,
}

/// Where the entries of a bank come from.
enum Update {
    Given(BankUpdate),
    FromGallery(Name),
}

/// `PUT /collections/{collection}/banks/{bank}`
pub(crate) async fn add(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
        let receipt = match update(task.name("bank")?, body)? {
            Update::Given(update) => {
                collection.add_to_bank(&update).map_err(|error| errors::write(&error, &Written::Bank))
            }
            Update::FromGallery(name) => collection
                .bank_from_gallery(&name)
                .map_err(|error| errors::write(&error, &Written::FromGallery)),
        }?;
        task.reply(&WriteReply::added(&receipt))
    })
    .await
}

/// `GET /collections/{collection}/banks`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let snapshot = task.collection()?.snapshot();
        task.reply(&Listed { banks: snapshot.banks().map(BankReply::new).collect() })
    })
    .await
}

/// `GET /collections/{collection}/banks/{bank}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let snapshot = task.collection()?.snapshot();
        let name = task.name("bank")?;
        let bank = snapshot.bank(name.as_str()).ok_or_else(|| unknown(&snapshot, name.as_str()))?;
        task.reply(&BankReply::new(bank))
    })
    .await
}

/// `DELETE /collections/{collection}/banks/{bank}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer(&["wait"], |task| {
        let collection = task.collection()?;
        collection.drop_bank(&task.name("bank")?).map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&true)
    })
    .await
}

/// `POST /collections/{collection}/banks/{bank}/delete`
pub(crate) async fn delete_entries(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
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
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
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
    call.answer(&["wait"], |task| {
        let collection = task.collection()?;
        let receipt =
            collection.absorb(&task.name("bank")?).map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&WriteReply::added(&receipt))
    })
    .await
}

/// The refusal of a bank that is not there.
pub(crate) fn unknown(snapshot: &Snapshot, name: &str) -> Problem {
    let names: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Problem::new(UNKNOWN_BANK, format!("there is no bank `{name}`; the collection has: {found}"))
}

fn update(name: Name, body: Value) -> Result<Update, Problem> {
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
    let vectors = fields.required("vectors", |value, place| decode::list(value, place, decode::vector))?;
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
