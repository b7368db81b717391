//! Corrections: fitted, listed, dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{Collection, CorrectionInfo, FitInput, FitProgress, Fitted, Name, Snapshot, WriteError};
use dehub_query::{BankKind, Method, MethodInput, TuneError, choose};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::call::{Answer, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{
    self, BANK_UNUSED, CORRECTION_DROPPED, INVALID_VALUE, NOT_SUPPORTED, UNKNOWN_CORRECTION, Written,
};
use crate::evidence::{self, Given};
use crate::jobs::{Begun, Kind, Purpose, unfinished};
use crate::parameters::WAIT_OR_NOT;
use crate::problem::Problem;

/// A correction in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Correction)]
pub(crate) struct CorrectionReply {
    name: String,
    version: u32,
    /// The label with every parameter, such as `IS(beta=20)`.
    method: String,
    #[schema(value_type = BTreeMap<String, f64>)]
    parameters: BTreeMap<&'static str, f64>,
    query_bank: Option<String>,
    gallery_bank: Option<String>,
    /// The commit that made this version.
    sequence: u64,
    /// The points in each activation set, for gated methods.
    activated: Vec<usize>,
    /// Entries of its banks that it has not taken in yet.
    stale: usize,
}

impl CorrectionReply {
    pub(crate) fn new(info: &CorrectionInfo) -> CorrectionReply {
        CorrectionReply {
            name: info.name.to_string(),
            version: info.version,
            method: info.method.to_string(),
            parameters: info.method.parameters().collect(),
            query_bank: info.query_bank.as_ref().map(Name::to_string),
            gallery_bank: info.gallery_bank.as_ref().map(Name::to_string),
            sequence: info.sequence,
            activated: info.activated.clone(),
            stale: info.stale,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = CorrectionList)]
pub(crate) struct Listed {
    corrections: Vec<CorrectionReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Fitted)]
pub(crate) struct FittedReply {
    operation_id: u64,
    status: &'static str,
    #[serde(flatten)]
    correction: CorrectionReply,
    /// What was found for a perplexity.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    statistics: StatisticsReply,
}

/// How the work was shared with other corrections over the same banks.
#[derive(Serialize, ToSchema)]
#[schema(as = FitStatistics)]
struct StatisticsReply {
    computed: usize,
    shared: usize,
}

/// `PUT /collections/{collection}/corrections/{correction}`
pub(crate) async fn fit(call: Call) -> HttpResponse {
    call.answer_body(&[WAIT_OR_NOT, "using"], |task, body| fit_task(&task, body)).await
}

fn fit_task(task: &Task, body: Value) -> Result<Answer, Problem> {
    let collection = task.space()?;
    let waits = task.parameters.waits();
    if is_auto(&body) {
        if !waits {
            let detail = "what `auto` is decides itself by measuring, which cannot be done in the background";
            return Err(Problem::new(NOT_SUPPORTED, detail).in_parameter("wait"));
        }
        return Ok(auto_task(task, &collection, body)?.into());
    }
    let Asked { mut input, method, pointers } = input(task.name("correction")?, body)?;
    let resolved = collection.snapshot().resolve(&method, input.query_bank.as_ref());
    let written = Written::Fit(&input, pointers.perplexity);
    input.method = resolved.map_err(|error| errors::write(&error, &written))?;
    let written = Written::Fit(&input, pointers.k);
    if !waits {
        let checked = collection.check_fit(std::slice::from_ref(&input));
        checked.map_err(|error| errors::write(&error, &written))?;
        return fit_as_job(task, &collection, input, pointers.k);
    }
    let fitted =
        collection.fit(std::slice::from_ref(&input)).map_err(|error| errors::write(&error, &written))?;
    let Some(Fitted { info, sequence, report }) = fitted.into_iter().next() else {
        return Err(Problem::new(
            CORRECTION_DROPPED,
            "the correction was fitted, and dropped by another request",
        ));
    };
    let reply = task.reply(&FittedReply {
        operation_id: sequence,
        status: "completed",
        correction: CorrectionReply::new(&info),
        note: method.note(&input.method),
        statistics: StatisticsReply { computed: report.computed.len(), shared: report.shared.len() },
    })?;
    Ok(reply.into())
}

#[derive(Serialize)]
struct ToBeFitted {
    name: String,
    method: String,
}

fn fit_as_job(
    task: &Task,
    collection: &Arc<Collection>,
    input: FitInput,
    pointer: &'static str,
) -> Result<Answer, Problem> {
    let space = collection.space_name().cloned();
    let purpose =
        Purpose { kind: Kind::Fit, collection: task.name("collection")?, space, name: input.name.clone() };
    let written = ToBeFitted { name: input.name.to_string(), method: input.method.to_string() };
    let work = move |collection: &Collection, progress: &FitProgress| {
        let fitted = collection.fit_with(std::slice::from_ref(&input), progress);
        let describe = |error: &WriteError| errors::write(error, &Written::Fit(&input, pointer));
        fitted.map(|fitted| fitted_value(&fitted)).map_err(|error| unfinished(&error, describe))
    };
    let job = task.edge().start(purpose, collection, work)?;
    Ok(Answer::accepted(task.reply(&Begun { job, written })?))
}

/// The result of a job that fitted corrections; empty for those that were dropped since.
pub(crate) fn fitted_value(fitted: &[Fitted]) -> Value {
    let corrections: Vec<_> = fitted.iter().map(|fitted| CorrectionReply::new(&fitted.info)).collect();
    json!({ "operation_id": fitted.first().map(|fitted| fitted.sequence), "corrections": corrections })
}

/// Whether a correction is to be chosen rather than named.
fn is_auto(body: &Value) -> bool {
    body.get("method").and_then(Value::as_str).is_some_and(|method| method.eq_ignore_ascii_case("auto"))
}

/// What a choice came to.
#[derive(Serialize, ToSchema)]
#[schema(as = Chosen)]
pub(crate) struct ChosenReply {
    /// `null` if nothing was installed.
    correction: Option<CorrectionReply>,
    /// Whether it was installed against the verdict.
    forced: bool,
    /// Whether it is the default now.
    is_default: bool,
    #[schema(value_type = Object)]
    verdict: Value,
}

/// `{"method": "auto", "query_bank", "queries", …}`: fits the choice, if there is one.
fn auto_task(task: &Task, collection: &Collection, body: Value) -> Result<Vec<u8>, Problem> {
    let name = task.name("correction")?;
    let mut fields = Fields::new(body, Place::Body)?;
    fields.required("method", decode::string)?;
    let query_bank = fields.required("query_bank", decode::name)?;
    let is_default = fields.optional("default", decode::flag)?.unwrap_or(false);
    let force = fields.optional("force", decode::flag)?.unwrap_or(false);
    let given = Given::read(&mut fields, &collection.snapshot(), Some(&query_bank))?;
    fields.finish()?;
    let given = given.ok_or_else(evidence::missing)?;
    let written = Written::Choice;
    let choice = choose(collection, &query_bank, given.evidence(), &given.options);
    let choice = choice.map_err(|error| {
        let problem = errors::tune(&error, &written);
        let is_bank = matches!(error, TuneError::Fit(WriteError::UnknownBank { .. }));
        if is_bank { problem.unprocessable().at("/query_bank") } else { problem }
    })?;
    let forced = choice.report.verdict.pick.is_none();
    let row = choice.row(force);
    if let Some(row) = row {
        let input = choice.input(row, &name);
        let written = Written::Fit(&input, "/method");
        let done = if is_default {
            let evidence = choice.report.evidence(row, &given.options);
            collection.fit_as_default(&input, Some(&evidence), forced).map(drop)
        } else {
            collection.fit(std::slice::from_ref(&input)).map(drop)
        };
        done.map_err(|error| errors::write(&error, &written))?;
    }
    let snapshot = collection.snapshot();
    let installed = row.and_then(|_| snapshot.correction(name.as_str()));
    task.reply(&ChosenReply {
        correction: installed.map(|correction| CorrectionReply::new(correction.info())),
        forced: forced && row.is_some(),
        is_default: is_default && row.is_some(),
        verdict: given.verdict(&choice.report, &snapshot, Some(&query_bank)),
    })
}

/// `GET /collections/{collection}/corrections`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let snapshot = task.space()?.snapshot();
        let corrections = snapshot.corrections().map(|one| CorrectionReply::new(one.info())).collect();
        task.reply(&Listed { corrections })
    })
    .await
}

/// `GET /collections/{collection}/corrections/{correction}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let snapshot = task.space()?.snapshot();
        let name = task.name("correction")?;
        let found = snapshot.correction(name.as_str());
        let correction = found.ok_or_else(|| unknown(&snapshot, &name))?;
        task.reply(&CorrectionReply::new(correction.info()))
    })
    .await
}

/// `DELETE /collections/{collection}/corrections/{correction}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer(&["wait", "using"], |task| {
        let collection = task.space()?;
        let name = task.name("correction")?;
        collection.drop_correction(&name).map_err(|error| errors::write(&error, &Written::Path))?;
        task.reply(&true)
    })
    .await
}

/// The refusal of a correction that is not there.
pub(crate) fn unknown(snapshot: &Snapshot, name: &Name) -> Problem {
    let names: Vec<_> = snapshot.corrections().map(|one| one.info().name.as_str()).collect();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Problem::new(UNKNOWN_CORRECTION, format!("there is no correction `{name}`; the collection has: {found}"))
}

/// What to fit, and its method as it was asked for.
pub(crate) struct Asked {
    input: FitInput,
    method: MethodInput,
    pointers: Pointers,
}

/// Where in the body parameters are that may be too large for a bank.
struct Pointers {
    k: &'static str,
    perplexity: &'static str,
}

pub(crate) fn input(name: Name, body: Value) -> Result<Asked, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let label = fields.required("method", decode::string)?;
    let parameters = fields.optional("parameters", parameters)?;
    let query_bank = fields.optional("query_bank", decode::name)?;
    let gallery_bank = fields.optional("gallery_bank", decode::name)?;
    fields.finish()?;
    let given = parameters.unwrap_or_default();
    let method = match (label.contains('('), given.is_empty()) {
        (true, true) => label.parse(),
        (true, false) => {
            let detail =
                format!("`/method` is {label:?}, which has parameters, and `/parameters` has some too");
            return Err(Problem::new(INVALID_VALUE, detail).at("/parameters"));
        }
        (false, _) => MethodInput::new(&label, &given),
    };
    let asked: MethodInput = method.map_err(|error| errors::method(&error, &given))?;
    let method: Method = asked.method();
    for (kind, bank, pointer) in
        [(BankKind::Query, &query_bank, "/query_bank"), (BankKind::Gallery, &gallery_bank, "/gallery_bank")]
    {
        let is_used = method.uses(kind);
        if let Some(bank) = bank.as_ref().filter(|_| !is_used) {
            let detail = format!("`{pointer}` is {bank}, but {} uses no {kind} bank", method.name());
            return Err(Problem::new(BANK_UNUSED, detail).at(pointer).found(bank));
        }
    }
    let names = |name: &str| given.iter().any(|(parameter, _)| parameter == name);
    let pointers = Pointers {
        k: if names("k") { "/parameters/k" } else { "/method" },
        perplexity: if names("perplexity") { "/parameters/perplexity" } else { "/method" },
    };
    Ok(Asked { input: FitInput { name, method, query_bank, gallery_bank }, method: asked, pointers })
}

fn parameters(value: Value, place: Place<'_>) -> Result<Vec<(String, f64)>, Problem> {
    match value {
        Value::Object(map) => {
            let read = |(name, value): (String, Value)| {
                let number = decode::number(value, place.field(&name))?;
                Ok((name, number))
            };
            map.into_iter().map(read).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(decode::wrong(place, &other, "an object of numbers"))
        }
    }
}
