//! The choice of a correction, as a job: candidates fitted and measured beside the raw ranking, and the choice
//! installed if that is asked for.

use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{Collection, FitInput, FitProgress, Name, Snapshot};
use dehub_query::{
    BankKind, Method, MethodInput, QUERIES_MIN, ROUNDS_MAX, ROUNDS_MIN, TuneError, TuneMethods, TuneReport,
    score_deviation, tune, tune_methods,
};
use serde::Serialize;
use serde_json::Value;

use crate::banks;
use crate::call::{Answer, Call, Task};
use crate::corrections::CorrectionReply;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BATCH_TOO_LARGE, INVALID_VALUE, MISSING_FIELD, Written};
use crate::evidence::{self, Given};
use crate::jobs::{Begun, Kind, Purpose, Unfinished};
use crate::maintenance::{check, to_value};
use crate::problem::Problem;

/// The most methods that are named for one choice: all are fitted, and all are measured in one scan.
const METHODS_MAX: usize = 64;

/// What a choice is made among, and what is done with it.
struct Asked {
    query_bank: Name,
    gallery_bank: Option<Name>,
    /// None named: those of `dehub tune`.
    methods: Vec<MethodInput>,
    given: Given,
    /// The name to install the choice under.
    install: Option<Name>,
    set_default: bool,
    force: bool,
}

/// What a request began.
#[derive(Serialize)]
struct ToBeTuned {
    query_bank: String,
    queries: usize,
}

/// The result of the job.
#[derive(Serialize)]
struct Tuned {
    verdict: Value,
    /// Methods that the bank has too few entries for.
    left_out: Vec<String>,
    /// The unit of β: the mean deviation of a query's best scores.
    score_deviation: f64,
    /// `null` if nothing was installed.
    correction: Option<CorrectionReply>,
    /// Whether it was installed against the verdict.
    forced: bool,
    is_default: bool,
}

/// `POST /collections/{collection}/tune`
pub(crate) async fn begin(call: Call) -> HttpResponse {
    call.answer_body(&["using"], |task, body| begin_task(&task, body)).await
}

fn begin_task(task: &Task, body: Value) -> Result<Answer, Problem> {
    let collection = task.space()?;
    let asked = asked(&collection.snapshot(), body)?;
    let purpose = Purpose {
        kind: Kind::Tune,
        collection: task.name("collection")?,
        space: collection.space_name().cloned(),
        name: asked.install.clone().unwrap_or_else(|| asked.query_bank.clone()),
    };
    let queries = asked.given.evidence().vectors().len();
    let written = ToBeTuned { query_bank: asked.query_bank.to_string(), queries };
    let job = task.edge().start(purpose, &Arc::clone(&collection), move |collection, progress| {
        tune_job(collection, &asked, progress)
    })?;
    Ok(Answer::accepted(task.reply(&Begun { job, written })?))
}

fn asked(snapshot: &Snapshot, body: Value) -> Result<Asked, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let query_bank = fields.required("query_bank", decode::name)?;
    let gallery_bank = fields.optional("gallery_bank", decode::name)?;
    let methods = fields.optional("methods", methods)?.unwrap_or_default();
    let install = fields.optional("correction", decode::name)?;
    let set_default = fields.optional("set_default", decode::flag)?.unwrap_or(false);
    let force = fields.optional("force", decode::flag)?.unwrap_or(false);
    let given = Given::read(&mut fields, snapshot, Some(&query_bank))?;
    fields.finish()?;
    for (bank, pointer) in [(Some(&query_bank), "/query_bank"), (gallery_bank.as_ref(), "/gallery_bank")] {
        if let Some(bank) = bank.filter(|bank| snapshot.bank(bank.as_str()).is_none()) {
            return Err(banks::unknown(snapshot, bank.as_str()).unprocessable().at(pointer).found(bank));
        }
    }
    if install.is_none() && (set_default || force) {
        let flag = if set_default { "set_default" } else { "force" };
        let detail = format!("`/{flag}` needs `/correction`, the name to install the choice under");
        return Err(Problem::new(MISSING_FIELD, detail).at("/correction"));
    }
    let given = given.ok_or_else(evidence::missing)?;
    let found = given.evidence().vectors().len();
    if found < QUERIES_MIN {
        return Err(errors::tune(&TuneError::TooFewQueries { found }, &Written::Choice));
    }
    let rounds = given.options.rounds;
    if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
        return Err(errors::tune(&TuneError::Rounds { found: rounds }, &Written::Choice));
    }
    Ok(Asked { query_bank, gallery_bank, methods, given, install, set_default, force })
}

fn methods(value: Value, place: Place<'_>) -> Result<Vec<MethodInput>, Problem> {
    let methods = decode::list(value, place, |value, place| {
        let label = decode::string(value, place)?;
        label.parse::<MethodInput>().map_err(|error| errors::method(&error, &[]).at(place))
    })?;
    if methods.is_empty() || methods.len() > METHODS_MAX {
        let found = methods.len();
        let detail = format!("`{place}` has {found} methods, wanted 1 to {METHODS_MAX}");
        return Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).found(found));
    }
    Ok(methods)
}

/// The candidates under the names of their methods, and the methods that are left out.
fn inputs(
    snapshot: &Snapshot,
    asked: &Asked,
    deviation: f64,
) -> Result<(Vec<FitInput>, Vec<Method>), Problem> {
    let TuneMethods { methods, left_out } = if asked.methods.is_empty() {
        let entries = snapshot.bank(asked.query_bank.as_str()).map_or(usize::MAX, |info| info.entries);
        tune_methods(entries, deviation)
    } else {
        let resolve = |input: &MethodInput| {
            snapshot
                .resolve(input, Some(&asked.query_bank))
                .map_err(|error| errors::write(&error, &Written::Choice).at("/methods"))
        };
        let methods = asked.methods.iter().map(resolve).collect::<Result<_, _>>()?;
        TuneMethods { methods, left_out: Vec::new() }
    };
    let mut inputs: Vec<FitInput> = Vec::new();
    for method in methods {
        let name: Name = method.to_string().parse().expect("a label is a name");
        if inputs.iter().any(|input| input.name == name) {
            let detail = format!("`/methods` has {method} twice");
            return Err(Problem::new(INVALID_VALUE, detail).at("/methods").found(method));
        }
        let (query_bank, gallery_bank) = (Some(asked.query_bank.clone()), asked.gallery_bank.clone());
        let query_bank = query_bank.filter(|_| method.uses(BankKind::Query));
        let gallery_bank = gallery_bank.filter(|_| method.uses(BankKind::Gallery));
        inputs.push(FitInput { name, method, query_bank, gallery_bank });
    }
    Ok((inputs, left_out))
}

fn tune_job(collection: &Collection, asked: &Asked, progress: &FitProgress) -> Result<Value, Unfinished> {
    const STEPS: u64 = 4;
    let step = |done: u64| {
        progress.set(done, STEPS);
        check(progress)
    };
    let refused = Unfinished::Refused;
    let evidence = asked.given.evidence();
    step(0)?;
    let deviation = score_deviation(&collection.snapshot(), &evidence.vectors())
        .map_err(|error| refused(errors::listing(&error)))?;
    step(1)?;
    let (inputs, left_out) = inputs(&collection.snapshot(), asked, deviation).map_err(refused)?;
    let rehearsed = collection.rehearse(&inputs);
    let (snapshot, corrections) =
        rehearsed.map_err(|error| refused(errors::write(&error, &Written::Choice)))?;
    step(2)?;
    let report = tune(&snapshot, &corrections, evidence, &asked.given.options)
        .map_err(|error| refused(errors::tune(&error, &Written::Choice)))?;
    step(3)?;
    let row = report.verdict.pick.or(asked.force.then_some(report.verdict.best));
    let installed = match (&asked.install, row) {
        (Some(name), Some(row)) => {
            install(
                collection,
                asked,
                FitInput { name: name.clone(), ..inputs[row].clone() },
                (&report, row),
            )
            .map_err(refused)?;
            collection.snapshot().correction(name.as_str()).map(|it| CorrectionReply::new(it.info()))
        }
        (Some(_) | None, _) => None,
    };
    progress.set(STEPS, STEPS);
    let is_installed = installed.is_some();
    to_value(&Tuned {
        verdict: asked.given.verdict(&report, &collection.snapshot(), Some(&asked.query_bank)),
        left_out: left_out.iter().map(Method::to_string).collect(),
        score_deviation: deviation,
        correction: installed,
        forced: is_installed && report.verdict.pick.is_none(),
        is_default: is_installed && asked.set_default,
    })
}

fn install(
    collection: &Collection,
    asked: &Asked,
    input: FitInput,
    (report, row): (&TuneReport, usize),
) -> Result<(), Problem> {
    let done = if asked.set_default {
        let evidence = report.evidence(row, &asked.given.options);
        collection.fit_as_default(&input, Some(&evidence), report.verdict.pick.is_none()).map(drop)
    } else {
        collection.fit(std::slice::from_ref(&input)).map(drop)
    };
    done.map_err(|error| errors::write(&error, &Written::Fit(&input, "/methods")))
}
