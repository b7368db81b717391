//! What each way of searching finds of the exact answers, and how good those are by judgements.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use actix_web::HttpResponse;
use dehub_index::{Collection, FitProgress, Snapshot};
use dehub_query::{
    BATCH_QUERIES_MAX, Compared, EvalRow, Evaluation, LabelledQuery, Measure, Qrels, QueryError, Ranking,
    RankingRecall, RecallOptions, Search, Source, WorkDone, evaluate_filtered, recall,
};
use dehub_vector::{Numbers, PointId, Vector};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::banks;
use crate::call::{Answer, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{
    self, BATCH_TOO_LARGE, EMPTY_BATCH, INVALID_LIMIT, INVALID_VALUE, MISSING_FIELD, NO_POINTS,
};
use crate::filter::filter;
use crate::jobs::{Kind, Purpose, Unfinished};
use crate::maintenance::to_value;
use crate::priors;
use crate::problem::Problem;
use crate::queries::body::params;

/// Similarities that are computed while a client waits, about: a second or two of an exact scan. Above, the work is a
/// job.
const AT_ONCE_MAX: usize = 200_000_000;

/// The most hits of a query that are compared.
const LIMIT_MAX: usize = 1000;

/// Hits of a query that are compared unless `limit` says otherwise.
const LIMIT_DEFAULT: usize = 10;

/// Queries taken from a bank, or points, unless `sample` says otherwise.
const SAMPLE_DEFAULT: usize = 256;

/// The most queries: their exact answers are held in memory.
const QUERIES_MAX: usize = 20_000;

/// The most rankings, and the most ways of searching.
const WAYS_MAX: usize = 32;

/// The most judgements.
const JUDGEMENTS_MAX: usize = 2_000_000;

/// Queries under the ids of their judgements, these, and what is measured by them.
type Judged = (Vec<LabelledQuery>, Qrels, Vec<Measure>);

/// What is measured.
struct Asked {
    sources: Vec<Source>,
    /// With judgements: the queries under their ids.
    judged: Option<Judged>,
    options: RecallOptions,
    /// The ways as the request wrote them.
    ways: Vec<Value>,
}

/// What one evaluation came to.
#[derive(Serialize, ToSchema)]
#[schema(as = Evaluation)]
pub(crate) struct EvaluationReply {
    /// Points that may be answers.
    points: usize,
    queries: usize,
    limit: usize,
    /// Raw first.
    rankings: Vec<RankingReply>,
    /// `null` without judgements.
    judgements: Option<JudgementsReply>,
    sequence: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = EvaluatedRanking)]
struct RankingReply {
    /// `name@version`; `null` for the raw ranking.
    correction: Option<String>,
    method: String,
    /// How unevenly points occur among the exact hits.
    hubness: HubnessReply,
    exact_micros: f64,
    searches: Vec<SearchReply>,
    /// By their names, with judgements.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    measures: BTreeMap<String, f64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = EvaluatedHubness)]
struct HubnessReply {
    skewness: f64,
    robin_hood: f64,
    antihubs: f64,
    max: u32,
}

#[derive(Serialize, ToSchema)]
#[schema(as = EvaluatedSearch)]
struct SearchReply {
    /// The way as it was asked for, as the `params` of a query.
    #[schema(value_type = Object)]
    params: Value,
    plan: String,
    /// The share of the exact hits that it finds.
    recall: f64,
    /// That share of the query that it serves worst.
    least: f64,
    /// What a query takes among those asked together.
    micros: f64,
}

/// What the judgements cover.
#[derive(Serialize, ToSchema)]
#[schema(as = JudgementsCovered)]
struct JudgementsReply {
    /// Queries that are judged and given.
    queries: usize,
    /// Given queries without judgements.
    unjudged: usize,
    /// Judged queries that were not given.
    not_given: usize,
    /// Judged points that are not there, or not allowed: they count as never found.
    not_found: usize,
}

#[derive(Serialize)]
struct Begun {
    job: u64,
}

/// `POST /collections/{collection}/evaluate`
pub(crate) async fn evaluate(call: Call) -> HttpResponse {
    call.answer_body(&[crate::parameters::WAIT_OR_NOT, "using"], |task, body| evaluate_task(&task, body))
        .await
}

fn evaluate_task(task: &Task, body: Value) -> Result<Answer, Problem> {
    let collection = task.space()?;
    let snapshot = collection.snapshot();
    let asked = asked(&snapshot, body)?;
    let scans = asked.options.rankings.len() * (1 + usize::from(asked.judged.is_some()));
    let work = asked.sources.len().saturating_mul(snapshot.len()).saturating_mul(scans);
    let is_small = work <= AT_ONCE_MAX;
    let waits = task.parameters.text("wait").map_or(is_small, |wait| wait == "true");
    if waits {
        let found = measure(&snapshot, &asked, &FitProgress::new())?;
        let found = found.ok_or_else(|| Problem::new(errors::INTERNAL, "an evaluation ended by itself"))?;
        return Ok(task.reply(&found)?.into());
    }
    drop(snapshot);
    let name = task.name("collection")?;
    let space = collection.space_name().cloned();
    let purpose = Purpose { kind: Kind::Evaluate, collection: name.clone(), space, name };
    let run = move |collection: &Collection, progress: &FitProgress| {
        let found = measure(&collection.snapshot(), &asked, progress).map_err(Unfinished::Refused)?;
        to_value(&found.ok_or(Unfinished::Stopped)?)
    };
    let job = task.edge().start(purpose, &collection, run)?;
    Ok(Answer::accepted(task.reply(&Begun { job })?))
}

/// Measures; nothing if the progress was told to stop.
fn measure(
    snapshot: &Snapshot,
    asked: &Asked,
    progress: &FitProgress,
) -> Result<Option<EvaluationReply>, Problem> {
    let mut watch = |WorkDone { done, total }: WorkDone| {
        progress.set(done as u64, total as u64);
        if progress.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let Some(compared) =
        recall(snapshot, &asked.sources, &asked.options, &mut watch).map_err(|error| refused(&error))?
    else {
        return Ok(None);
    };
    let evaluation = asked.judged.as_ref().map(|(queries, qrels, measures)| {
        let RecallOptions { filter, rankings, .. } = &asked.options;
        // Raw is measured whatever is asked for.
        evaluate_filtered(snapshot, filter.as_deref(), (queries, qrels), &rankings[1..], measures)
    });
    let evaluation = evaluation.transpose().map_err(|error| refused(&error))?;
    Ok(Some(reply(snapshot, asked, compared, evaluation)))
}

fn reply(
    snapshot: &Snapshot,
    asked: &Asked,
    compared: Compared,
    evaluation: Option<Evaluation>,
) -> EvaluationReply {
    let Compared { points, queries, limit, rankings } = compared;
    let mut measured: Vec<EvalRow> = Vec::new();
    let judgements = evaluation.map(|evaluation| {
        measured = evaluation.rows;
        JudgementsReply {
            queries: evaluation.queries,
            unjudged: evaluation.unjudged.len(),
            not_given: evaluation.not_given.len(),
            not_found: evaluation.not_in_gallery.len(),
        }
    });
    let mut measured = measured.into_iter();
    let ranking = |ranking: RankingRecall| {
        let measures = measured.next().map_or(Vec::new(), |row| row.measures);
        RankingReply::new(ranking, &asked.ways, measures.into_iter().collect())
    };
    let rankings = rankings.into_iter().map(ranking).collect();
    EvaluationReply { points, queries, limit, rankings, judgements, sequence: snapshot.sequence() }
}

impl RankingReply {
    fn new(ranking: RankingRecall, ways: &[Value], measures: BTreeMap<String, f64>) -> RankingReply {
        let RankingRecall { method, correction, occurrence, exact_micros, rows } = ranking;
        let search = |(params, row): (&Value, dehub_query::RecallRow)| SearchReply {
            params: params.clone(),
            plan: row.plan,
            recall: row.recall,
            least: row.least,
            micros: row.micros,
        };
        RankingReply {
            correction,
            method,
            hubness: HubnessReply {
                skewness: occurrence.skewness(),
                robin_hood: occurrence.robin_hood(),
                antihubs: occurrence.antihub_share(),
                max: occurrence.max(),
            },
            exact_micros,
            searches: ways.iter().zip(rows).map(search).collect(),
            measures,
        }
    }
}

fn asked(snapshot: &Snapshot, body: Value) -> Result<Asked, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let given = fields.optional("queries", queries)?;
    let bank = fields.optional("bank", decode::name)?;
    let sample = fields.optional("sample", decode::whole)?;
    let qrels = fields.optional("qrels", qrels)?;
    let measures = fields.optional("measures", measures)?;
    let corrections = fields.optional("corrections", corrections)?;
    let searches = fields.optional("searches", searches)?;
    let priors = fields.optional("priors", priors::weights)?.unwrap_or_default();
    let limit = fields.optional("limit", decode::count)?;
    let filter = fields.optional("filter", filter)?.flatten();
    fields.finish()?;
    if snapshot.is_empty() {
        return Err(Problem::new(NO_POINTS, "the collection has no points"));
    }
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit == 0 || limit > LIMIT_MAX {
        let detail = format!("`/limit` is {limit}, wanted 1 to {LIMIT_MAX}");
        return Err(Problem::new(INVALID_LIMIT, detail).at("/limit").found(limit));
    }
    let named = corrections.unwrap_or_else(|| {
        snapshot.corrections().map(|correction| correction.info().name.to_string()).take(WAYS_MAX).collect()
    });
    let corrected = named.iter().map(|name| Ranking::corrected(name));
    let rankings = std::iter::once(Ranking::Raw).chain(corrected).collect();
    let (ways, searches) =
        searches.unwrap_or_else(|| vec![(serde_json::json!({}), Search::Auto)]).into_iter().unzip();
    let options =
        RecallOptions { limit: Some(limit.min(snapshot.len())), rankings, searches, priors, filter };
    let labelled = given.map(|given| labelled(snapshot, given)).transpose()?;
    let as_given = |vector: &Vector| Source::Vector(snapshot.config().numbers(vector.as_slice()));
    let sources = match (&labelled, bank) {
        (Some(_), Some(_)) => return Err(beside("bank", "queries")),
        (Some(_), None) if sample.is_some() => return Err(beside("sample", "queries")),
        (Some(labelled), None) => labelled.iter().map(|query| as_given(&query.vector)).collect(),
        (None, Some(bank)) => {
            if snapshot.bank(bank.as_str()).is_none() {
                return Err(banks::unknown(snapshot, bank.as_str()).unprocessable().at("/bank").found(bank));
            }
            let queries = snapshot.bank_queries(&bank, sample_of(sample)?);
            if queries.is_empty() {
                return Err(Problem::new(errors::EMPTY_BANK, "the bank is empty").at("/bank"));
            }
            queries.iter().map(as_given).collect()
        }
        (None, None) => points_spread(snapshot, sample_of(sample)?)?,
    };
    let judged = judged(labelled, qrels, measures)?;
    Ok(Asked { sources, judged, options, ways })
}

fn judged(
    labelled: Option<Vec<LabelledQuery>>,
    qrels: Option<Qrels>,
    measures: Option<Vec<Measure>>,
) -> Result<Option<Judged>, Problem> {
    let missing =
        |field: &str, detail: &str| Err(Problem::new(MISSING_FIELD, detail).at(format_args!("/{field}")));
    match (labelled, qrels) {
        (_, None) if measures.is_some() => missing("qrels", "`/measures` needs `/qrels`, the judgements"),
        (_, None) => Ok(None),
        (None, Some(_)) => {
            missing("queries", "`/qrels` needs `/queries`, with the ids that the judgements are under")
        }
        (Some(queries), Some(qrels)) => {
            if !queries.iter().any(|query| qrels.contains(&query.id)) {
                let detail = "`/qrels` judges none of the queries: are the ids of both the same?";
                return Err(Problem::new(INVALID_VALUE, detail).at("/qrels"));
            }
            Ok(Some((queries, qrels, measures.unwrap_or_else(|| Measure::default_table().to_vec()))))
        }
    }
}

fn beside(field: &str, other: &str) -> Problem {
    let detail = format!("`/{field}` has no meaning beside `/{other}`: give one of the two");
    Problem::new(INVALID_VALUE, detail).at(format_args!("/{field}"))
}

fn sample_of(sample: Option<usize>) -> Result<usize, Problem> {
    match sample.unwrap_or(SAMPLE_DEFAULT) {
        found if found == 0 || found > QUERIES_MAX => {
            Err(decode::out_of_range(Place::Body.field("sample"), found, &format!("1 to {QUERIES_MAX}")))
        }
        sample => Ok(sample),
    }
}

/// Stored points as queries, evenly spread over all; each is left out of its own answer.
fn points_spread(snapshot: &Snapshot, most: usize) -> Result<Vec<Source>, Problem> {
    let rows: Vec<u32> = snapshot.rows().collect();
    let taken = most.min(rows.len());
    let rows: Vec<u32> = (0..taken).map(|place| rows[place * rows.len() / taken]).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    Ok(points.into_iter().map(|point| Source::Point(point.id)).collect())
}

/// A query as it is given: the id of its judgements, if it has one, and its numbers.
type Given = (Option<PointId>, Numbers);

/// Reads vectors, or `{"id", "vector"}`.
fn queries(value: Value, place: Place<'_>) -> Result<Vec<Given>, Problem> {
    let queries = decode::list(value, place, |value, place| match value {
        Value::Object(_) => {
            let mut fields = Fields::new(value, place)?;
            let id = fields.optional("id", decode::id)?;
            let vector = fields.required("vector", decode::numbers)?;
            fields.finish()?;
            Ok((id, vector))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Ok((None, decode::numbers(value, place)?))
        }
    })?;
    counted(queries, place, QUERIES_MAX.min(BATCH_QUERIES_MAX))
}

/// The queries under their ids: without one, their place.
fn labelled(snapshot: &Snapshot, given: Vec<Given>) -> Result<Vec<LabelledQuery>, Problem> {
    let config = snapshot.config();
    let query = |(place, (id, numbers)): (usize, Given)| {
        let vector = config.vector(&numbers);
        let vector = vector.map_err(|error| errors::asked_vector(&error, place))?;
        Ok(LabelledQuery {
            id: id.map_or_else(|| place.to_string(), |id| id.to_string()),
            vector,
            text: None,
        })
    };
    given.into_iter().enumerate().map(query).collect()
}

/// Reads `{query: {point: grade}}`.
fn qrels(value: Value, place: Place<'_>) -> Result<Qrels, Problem> {
    let mut list = Vec::new();
    for (query, documents) in object(value, place, "an object of judgements by the ids of queries")? {
        let place = place.field(&query);
        for (document, grade) in object(documents, place, "an object of grades by the ids of points")? {
            let grade_place = place.field(&document);
            let grade = decode::whole(grade, grade_place)?;
            let grade = i32::try_from(grade)
                .map_err(|_| decode::out_of_range(grade_place, grade, "at most 2147483647"))?;
            list.push((query.clone(), document.clone(), grade));
        }
    }
    let list = counted(list, place, JUDGEMENTS_MAX)?;
    Qrels::of("qrels", &list).map_err(|error| Problem::new(INVALID_VALUE, error.to_string()).at(place))
}

fn object(value: Value, place: Place<'_>, wanted: &str) -> Result<serde_json::Map<String, Value>, Problem> {
    match value {
        Value::Object(map) => Ok(map),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(decode::wrong(place, &other, wanted))
        }
    }
}

fn measures(value: Value, place: Place<'_>) -> Result<Vec<Measure>, Problem> {
    let measures = decode::list(value, place, |value, place| {
        let name = decode::string(value, place)?;
        let refused = |error: dehub_query::MeasureError| {
            Problem::new(INVALID_VALUE, error.to_string()).at(place).found(&name)
        };
        name.parse().map_err(refused)
    })?;
    counted(measures, place, WAYS_MAX)
}

/// Names of corrections. None is a list too: the raw ranking alone.
fn corrections(value: Value, place: Place<'_>) -> Result<Vec<String>, Problem> {
    let names = decode::list(value, place, decode::string)?;
    if names.is_empty() { Ok(names) } else { counted(names, place, WAYS_MAX) }
}

/// Ways of searching, each the `params` of a query.
fn searches(value: Value, place: Place<'_>) -> Result<Vec<(Value, Search)>, Problem> {
    let ways = decode::list(value, place, |value, place| Ok((value.clone(), params(value, place)?)))?;
    counted(ways, place, WAYS_MAX)
}

fn counted<T>(list: Vec<T>, place: Place<'_>, most: usize) -> Result<Vec<T>, Problem> {
    match list.len() {
        0 => {
            Err(Problem::new(EMPTY_BATCH, format!("`{place}` is empty, wanted at least one entry")).at(place))
        }
        found if found > most => {
            let detail = format!("`{place}` has {found} entries, wanted at most {most}");
            Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).wanted(most).found(found))
        }
        _ => Ok(list),
    }
}

/// An error of the engine, with its place in the body.
fn refused(error: &QueryError) -> Problem {
    let problem = errors::listing(error);
    if matches!(error, QueryError::UnknownCorrection { .. }) {
        problem.at("/corrections")
    } else if matches!(error, QueryError::Effort | QueryError::Candidates | QueryError::Recall { .. }) {
        problem.at("/searches")
    } else if matches!(error, QueryError::NoPoints) {
        problem.at("/filter")
    } else {
        problem
    }
}
