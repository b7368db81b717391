//! Priors: given, told of, taken away; and the weights of a query's.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use dehub_index::{Name, Prior, PriorInfo, Receipt, Snapshot};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, UNKNOWN_PRIOR, Written};
use crate::openapi::Id;
use crate::points::{ids, same_length};
use crate::problem::Problem;

/// What a write of a prior did. It is on disk.
#[derive(Serialize, ToSchema)]
#[schema(as = PriorWrite)]
pub(crate) struct WriteReply {
    operation_id: u64,
    status: &'static str,
    /// Points that had no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<usize>,
    /// Points that had another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
    /// Points that have none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<usize>,
}

impl WriteReply {
    fn new(receipt: &Receipt) -> WriteReply {
        let Receipt { sequence, .. } = *receipt;
        WriteReply { operation_id: sequence, status: "completed", added: None, replaced: None, deleted: None }
    }
}

/// A prior in numbers, over the points that have a value; all others have 0.
#[derive(Serialize, ToSchema)]
#[schema(as = Prior)]
pub(crate) struct PriorReply {
    name: String,
    /// Points that have a value.
    count: usize,
    /// Points there are.
    points: usize,
    /// `null`, as the others, if no point has a value.
    min: Option<f32>,
    mean: Option<f64>,
    max: Option<f32>,
}

impl PriorReply {
    fn new(name: &Name, prior: &Prior, snapshot: &Snapshot) -> PriorReply {
        let info = prior.info();
        let of = |part: fn(&PriorInfo) -> f32| info.as_ref().map(part);
        PriorReply {
            name: name.to_string(),
            count: prior.given(),
            points: snapshot.len(),
            min: of(|info| info.min),
            mean: info.map(|info| info.mean),
            max: of(|info| info.max),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = PriorList)]
pub(crate) struct Listed {
    priors: Vec<PriorReply>,
}

/// The values of some points.
#[derive(Serialize, ToSchema)]
#[schema(as = PriorValues)]
pub(crate) struct Values {
    #[schema(value_type = Vec<Id>)]
    ids: Vec<PointId>,
    /// In the order of the ids; `null` where none was given, or there is no such point.
    values: Vec<Option<f32>>,
}

/// `GET /collections/{collection}/priors`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let snapshot = task.collection()?.snapshot();
        let priors = snapshot.priors().map(|(name, prior)| PriorReply::new(name, prior, &snapshot));
        task.reply(&Listed { priors: priors.collect() })
    })
    .await
}

/// `GET /collections/{collection}/priors/{prior}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let snapshot = task.collection()?.snapshot();
        let name = task.name("prior")?;
        task.reply(&PriorReply::new(&name, find(&snapshot, &name)?, &snapshot))
    })
    .await
}

/// `POST /collections/{collection}/priors/{prior}`: the values of the points `{"ids": […]}`.
pub(crate) async fn values(call: Call) -> HttpResponse {
    call.answer_body(&[], |task, body| {
        let snapshot = task.collection()?.snapshot();
        let ids = only_ids(body)?;
        let prior = find(&snapshot, &task.name("prior")?)?;
        let value = |id: &PointId| {
            let row = snapshot.find(id).map_err(|error| errors::read(&error))?;
            Ok(row.and_then(|row| prior.value(row)))
        };
        let values = ids.iter().map(value).collect::<Result<_, Problem>>()?;
        task.reply(&Values { ids, values })
    })
    .await
}

/// `PUT /collections/{collection}/priors/{prior}`: `{"ids": […], "values": […]}`.
pub(crate) async fn set(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let mut fields = Fields::new(body, Place::Body)?;
        let ids = fields.required("ids", ids)?;
        let values = fields.required("values", |value, place| {
            same_length(decode::list(value, place, decode::number_32)?, ids.len(), place)
        })?;
        fields.finish()?;
        let given: Vec<(PointId, f32)> = ids.into_iter().zip(values).collect();
        let receipt = task
            .collection()?
            .set_prior(&task.name("prior")?, &given)
            .map_err(|error| errors::write(&error, &Written::Bank))?;
        task.reply(&WriteReply {
            added: Some(receipt.added),
            replaced: Some(receipt.replaced),
            ..WriteReply::new(&receipt)
        })
    })
    .await
}

/// `POST /collections/{collection}/priors/{prior}/delete`: takes the values of the points `{"ids": […]}`.
pub(crate) async fn unset(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let ids = only_ids(body)?;
        let receipt = task
            .collection()?
            .unset_prior(&task.name("prior")?, &ids)
            .map_err(|error| errors::write(&error, &Written::Bank))?;
        task.reply(&WriteReply { deleted: Some(receipt.deleted), ..WriteReply::new(&receipt) })
    })
    .await
}

/// `DELETE /collections/{collection}/priors/{prior}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer(&["wait"], |task| {
        let dropped = task.collection()?.drop_prior(&task.name("prior")?);
        dropped.map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&true)
    })
    .await
}

fn only_ids(body: Value) -> Result<Vec<PointId>, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let ids = fields.required("ids", ids)?;
    fields.finish()?;
    Ok(ids)
}

fn find<'a>(snapshot: &'a Snapshot, name: &Name) -> Result<&'a Prior, Problem> {
    snapshot.prior(name.as_str()).ok_or_else(|| {
        let names: Vec<&str> = snapshot.priors().map(|(name, _)| name.as_str()).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Problem::new(UNKNOWN_PRIOR, format!("there is no prior `{name}`; the collection has: {found}"))
    })
}

/// Reads the weights of a query's priors, `{"popularity": 0.2}`.
pub(crate) fn weights(value: Value, place: Place<'_>) -> Result<Vec<(String, f32)>, Problem> {
    match value {
        Value::Object(map) => {
            let read = |(name, value): (String, Value)| {
                let weight = decode::number_32(value, place.field(&name))?;
                Ok((name, weight))
            };
            map.into_iter().map(read).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(decode::wrong(place, &other, "an object of weights by the names of priors"))
        }
    }
}

/// What each prior of a query added to a hit.
pub(crate) fn parts(priors: &[(String, f32)], boosts: &[f32]) -> BTreeMap<String, f32> {
    priors.iter().zip(boosts).map(|((name, _), boost)| (name.clone(), *boost)).collect()
}
