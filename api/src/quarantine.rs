//! The quarantine: begun, ended, listed, released from.

use actix_web::HttpResponse;
use dehub_index::{HeldPoint, HubRule, Snapshot};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{Fields, Place};
use crate::errors::{self, INTERNAL, Written};
use crate::openapi::Id;
use crate::points::{self, WriteReply};
use crate::problem::Problem;

/// The rule of a quarantine, and how many points are in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Quarantine)]
pub(crate) struct QuarantineReply {
    /// `null` if new points are not tested.
    rule: Option<RuleReply>,
    points_count: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HubRuleInForce)]
struct RuleReply {
    correction: String,
    /// The share of false alarms to allow.
    rate: f64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = QuarantineList)]
pub(crate) struct Listed {
    #[serde(flatten)]
    quarantine: QuarantineReply,
    points: Vec<HeldReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HeldPoint)]
struct HeldReply {
    #[schema(value_type = Id)]
    id: PointId,
    /// The correction whose bias raised the alarm.
    correction: String,
    bias: f32,
    p: f64,
    /// The commit that put it here.
    sequence: u64,
    #[schema(value_type = Option<Object>)]
    payload: Value,
    text: Option<String>,
}

impl QuarantineReply {
    pub(crate) fn new(snapshot: &Snapshot) -> QuarantineReply {
        let rule = |rule: &HubRule| RuleReply { correction: rule.correction.to_string(), rate: rule.rate };
        QuarantineReply {
            rule: snapshot.quarantine_rule().map(rule),
            points_count: snapshot.quarantined().len(),
        }
    }
}

/// `GET /collections/{collection}/quarantine`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let snapshot = task.collection()?.snapshot();
        let points = snapshot.quarantined().map(reply).collect::<Result<_, _>>()?;
        task.reply(&Listed { quarantine: QuarantineReply::new(&snapshot), points })
    })
    .await
}

/// `PUT /collections/{collection}/quarantine`: tests every new point from now on.
pub(crate) async fn begin(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
        let rule = points::rule(body, Place::Body)?;
        let done = collection.set_quarantine(Some(&rule));
        done.map_err(|error| errors::write(&error, &Written::Choice))?;
        task.reply(&QuarantineReply::new(&collection.snapshot()))
    })
    .await
}

/// `DELETE /collections/{collection}/quarantine`: tests no more; what is held stays so.
pub(crate) async fn end(call: Call) -> HttpResponse {
    call.answer(&["wait"], |task| {
        let collection = task.collection()?;
        collection.set_quarantine(None).map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&true)
    })
    .await
}

/// `POST /collections/{collection}/quarantine/release`
pub(crate) async fn release(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let ids = fields.required("points", points::ids)?;
        fields.finish()?;
        let receipt = collection.release(&ids).map_err(|error| errors::write(&error, &Written::Ids))?;
        task.build_graph_if_due(&collection)?;
        task.reply(&WriteReply::added(&receipt))
    })
    .await
}

fn reply(held: &HeldPoint) -> Result<HeldReply, Problem> {
    let payload = held.point.payload.as_ref().map(|payload| serde_json::from_str(payload.as_json()));
    let unreadable = |error| Problem::new(INTERNAL, format!("a stored payload is not JSON: {error}"));
    Ok(HeldReply {
        id: held.point.id.clone(),
        correction: held.correction.to_string(),
        bias: held.bias,
        p: held.p,
        sequence: held.sequence,
        payload: payload.transpose().map_err(unreadable)?.unwrap_or(Value::Null),
        text: held.point.text.clone(),
    })
}
