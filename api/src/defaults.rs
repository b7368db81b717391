//! The default correction: set after the veto, shown, cleared.

use actix_web::HttpResponse;
use dehub_index::{DefaultCorrection, DefaultEvidence, Interval};
use dehub_query::tune;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::call::{Call, Task};
use crate::corrections::unknown;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, VETOED, Written};
use crate::evidence::{self, Given};
use crate::problem::Problem;

/// The default correction in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = DefaultCorrection)]
pub(crate) struct DefaultReply {
    correction: String,
    /// The version that was judged.
    version: u32,
    /// Whether it is the default against the verdict, or without one.
    forced: bool,
    #[schema(value_type = Option<Object>)]
    evidence: Option<Value>,
}

impl DefaultReply {
    pub(crate) fn new(default: &DefaultCorrection) -> DefaultReply {
        DefaultReply {
            correction: default.correction.to_string(),
            version: default.version,
            forced: default.forced,
            evidence: default.evidence.as_ref().map(evidence_json),
        }
    }
}

fn evidence_json(evidence: &DefaultEvidence) -> Value {
    let interval = |it: Interval| json!({ "value": it.value, "low": it.low, "high": it.high });
    json!({
        "approved": evidence.approved,
        "removed": evidence.share.map(interval),
        "gain": evidence.gain.map(interval),
        "queries": evidence.queries,
        "judged": evidence.judged,
        "seed": evidence.seed,
        "rounds": evidence.rounds,
        "reason": evidence.reason,
    })
}

/// `GET /collections/{collection}/default`: `null` if there is none.
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let snapshot = task.space()?.snapshot();
        task.reply(&snapshot.default_correction().map(DefaultReply::new))
    })
    .await
}

/// `DELETE /collections/{collection}/default`: `false` if there was none.
pub(crate) async fn clear(call: Call) -> HttpResponse {
    call.answer(&["wait", "using"], |task| {
        let collection = task.space()?;
        let cleared = collection.clear_default().map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&cleared)
    })
    .await
}

/// `PUT /collections/{collection}/default`
pub(crate) async fn set(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "using"], |task, body| set_task(&task, body)).await
}

fn set_task(task: &Task, body: Value) -> Result<Vec<u8>, Problem> {
    let collection = task.space()?;
    let snapshot = collection.snapshot();
    let mut fields = Fields::new(body, Place::Body)?;
    let name = fields.required("correction", decode::name)?;
    let force = fields.optional("force", decode::flag)?.unwrap_or(false);
    let own = snapshot.correction(name.as_str()).and_then(|it| it.info().query_bank.clone());
    let given = Given::read(&mut fields, &snapshot, own.as_ref())?;
    fields.finish()?;
    let Some(correction) = snapshot.correction(name.as_str()) else {
        return Err(unknown(&snapshot, &name).unprocessable().at("/correction").found(&name));
    };
    let judged = given.map(|given| {
        let one = std::slice::from_ref(correction);
        let report = tune(&snapshot, one, given.evidence(), &given.options);
        let report = report.map_err(|error| errors::tune(&error, &Written::Choice))?;
        Ok((report.evidence(0, &given.options), given.verdict(&report, &snapshot, own.as_ref())))
    });
    let (evidence, verdict) = match judged.transpose()? {
        None if force => (None, Value::Null),
        None => return Err(evidence::missing()),
        Some((evidence, verdict)) => (Some(evidence), verdict),
    };
    let approved = evidence.as_ref().is_some_and(|evidence| evidence.approved);
    if let Some(evidence) = evidence.as_ref().filter(|_| !approved && !force) {
        let detail = format!(
            "{name} does not become the default: {}; `force` makes it the default all the same",
            evidence.reason
        );
        return Err(Problem::new(VETOED, detail).at("/correction").found(&name).verdict(verdict));
    }
    let version = correction.info().version;
    let default = DefaultCorrection { correction: name, version, evidence, forced: !approved };
    collection.set_default(&default).map_err(|error| errors::write(&error, &Written::Choice))?;
    task.reply(&DefaultReply::new(&default))
}
