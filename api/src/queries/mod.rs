//! Queries: one, many at a time, fused, grouped, explained.

pub(crate) mod body;
pub(crate) mod groups;
pub(crate) mod highlights;
mod kinds;
mod lookup;
pub(crate) mod matrix;
mod parts;
pub(crate) mod reply;
mod words;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use dehub_index::{Collection, Scope, Snapshot};
use dehub_query::{
    Answered, BATCH_QUERIES_MAX, Explanation, Feedback, Kind, LIMIT_DEFAULT, LIMIT_MAX, Request, Settings,
    Source, explain_request, plan,
};
use dehub_vector::PointId;
use serde_json::Value;

use self::body::Asked;
pub(crate) use self::body::Places;
pub(crate) use self::body::{Form, asked};
pub(crate) use self::groups::{query_groups, recommend_groups, search_groups};
pub(crate) use self::lookup::Elsewhere;
pub(crate) use self::matrix::{offsets, pairs};
use self::reply::{Answer, ExplainReply, FoundBy, HitReply, StalenessReply};
use crate::bodies::searches::{self, Questions, SETTINGS};
use crate::bodies::{Content, Form as Media, LEAVE_OUT};
use crate::call::{Answer as Reply, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BATCH_TOO_LARGE, EMPTY_BATCH, INVALID_LIMIT, INVALID_VALUE, NOT_SUPPORTED};
use crate::live::{COUNTED, Watched};
use crate::priors;
use crate::problem::Problem;
use crate::slow::Searched;

/// Hits of all queries of a request together, and of their prefetches: they are held in memory.
const HITS_MAX: usize = 1_000_000;

/// The parameter for the most seconds a search may take.
const TIMEOUT: &str = "timeout";

/// `POST /collections/{collection}/points/query`
pub(crate) async fn query(call: Call) -> HttpResponse {
    let work = |task: Task, body| {
        let served = task.collection()?;
        let asked = asked(&task, body, Place::Body, Form::Query)?;
        let has_payloads = asked.selection.has_payload();
        let form = form(&task, std::slice::from_ref(&asked))?;
        let answers = answers(&task, &served, vec![asked])?;
        match form {
            Media::Arrow => reply::arrow(&answers, None, has_payloads),
            Media::Json => Ok(task.reply(&the_one(answers)?)?.into()),
        }
    };
    call.answer_query(&[TIMEOUT], work).await
}

/// `POST /collections/{collection}/points/query/batch`
pub(crate) async fn query_batch(call: Call) -> HttpResponse {
    call.answer_queries(&[TIMEOUT, SETTINGS, LEAVE_OUT], |task, content, unfolded_max| match content {
        Content::Json(body) => {
            searches::no_settings(&task)?;
            let all = batch(&task, body, Form::Query)?;
            labelled(&task, all, None)
        }
        Content::Lines(lines) => {
            searches::no_settings(&task)?;
            let all = searches::of_lines(&lines, |value, place| asked(&task, value, place, Form::Query))?;
            let on_line = |problem: Problem| match problem.row() {
                Some(row) => problem.on_line(row + 1),
                None => problem,
            };
            labelled(&task, all, None).map_err(on_line)
        }
        Content::Table(format, bytes) => {
            let Questions { sources, labels, settings } =
                searches::of_table(&task, format, bytes, unfolded_max)?;
            let all = body::of_rows(&task, settings, sources);
            labelled(&task, all.map_err(|problem| problem.in_parameter(SETTINGS))?, labels)
        }
    })
    .await
}

/// Answers queries, with the labels they were given.
fn labelled(task: &Task, all: Vec<Asked>, labels: Option<Vec<PointId>>) -> Result<Reply, Problem> {
    if all.is_empty() {
        return Err(Problem::new(EMPTY_BATCH, "the body has no queries, wanted at least one").at(""));
    }
    let form = form(task, &all)?;
    let has_payloads = all.iter().any(|asked| asked.selection.has_payload());
    let answers = answers(task, &task.collection()?, all)?;
    match (form, labels) {
        (Media::Arrow, labels) => reply::arrow(&answers, labels.as_deref(), has_payloads),
        (Media::Json, None) => Ok(task.reply(&answers)?.into()),
        (Media::Json, Some(labels)) => Ok(task.reply(&reply::labelled(labels, answers))?.into()),
    }
}

/// The form of the answers that the client takes. An Arrow stream is one table of hits, in which vectors and
/// explanations have no place.
fn form(task: &Task, all: &[Asked]) -> Result<Media, Problem> {
    let form = task.accepted.form(&[Media::Json, Media::Arrow])?;
    let refused = |place: &str, what: &str| {
        let detail =
            format!("`{place}`: an answer as an Arrow stream has no {what}, ask for application/json");
        Err(Problem::new(NOT_SUPPORTED, detail).at(place))
    };
    for Asked { places, selection, explain, highlight, .. } in all.iter().filter(|_| form == Media::Arrow) {
        if selection.has_vectors() {
            return refused(&format!("{}/with_vector", places.base), "vectors");
        }
        if *explain {
            return refused(&format!("{}/hubness/explain", places.base), "explanations");
        }
        if highlight.is_some() {
            return refused(&format!("{}/highlight", places.base), "highlights");
        }
    }
    Ok(form)
}

/// `POST /collections/{collection}/points/search`
pub(crate) async fn search(call: Call) -> HttpResponse {
    bare(call, Form::Search).await
}

/// `POST /collections/{collection}/points/search/batch`
pub(crate) async fn search_batch(call: Call) -> HttpResponse {
    bare_batch(call, Form::Search).await
}

/// `POST /collections/{collection}/points/recommend`
pub(crate) async fn recommend(call: Call) -> HttpResponse {
    bare(call, Form::Recommend).await
}

/// `POST /collections/{collection}/points/recommend/batch`
pub(crate) async fn recommend_batch(call: Call) -> HttpResponse {
    bare_batch(call, Form::Recommend).await
}

/// `POST /collections/{collection}/points/discover`
pub(crate) async fn discover(call: Call) -> HttpResponse {
    bare(call, Form::Discover).await
}

/// `POST /collections/{collection}/points/discover/batch`
pub(crate) async fn discover_batch(call: Call) -> HttpResponse {
    bare_batch(call, Form::Discover).await
}

/// The older paths answer with the points alone.
async fn bare(call: Call, form: Form) -> HttpResponse {
    let work = move |task: Task, body| task.reply(&one(&task, body, form)?.points);
    call.answer_query(&[TIMEOUT], work).await
}

async fn bare_batch(call: Call, form: Form) -> HttpResponse {
    let points = |answers: Vec<Answer>| answers.into_iter().map(|answer| answer.points).collect();
    let work = move |task: Task, body| {
        let lists: Vec<Vec<HitReply>> = points(many(&task, body, form)?);
        task.reply(&lists)
    };
    call.answer_body(&[TIMEOUT], work).await
}

fn one(task: &Task, body: Value, form: Form) -> Result<Answer, Problem> {
    let served = task.collection()?;
    the_one(answers(task, &served, vec![asked(task, body, Place::Body, form)?])?)
}

fn the_one(mut answers: Vec<Answer>) -> Result<Answer, Problem> {
    answers.pop().ok_or_else(|| Problem::new(errors::INTERNAL, "the engine gave no answer"))
}

fn many(task: &Task, body: Value, form: Form) -> Result<Vec<Answer>, Problem> {
    let all = batch(task, body, form)?;
    answers(task, &task.collection()?, all)
}

/// The requests of a batch.
pub(crate) fn batch(elsewhere: &dyn Elsewhere, body: Value, form: Form) -> Result<Vec<Asked>, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let all = fields.required("searches", |value, place| {
        decode::list(value, place, |value, place| asked(elsewhere, value, place, form))
    })?;
    fields.finish()?;
    if all.is_empty() {
        return Err(
            Problem::new(EMPTY_BATCH, "`/searches` is empty, wanted at least one query").at("/searches")
        );
    }
    if all.len() > BATCH_QUERIES_MAX {
        let found = all.len();
        let detail = format!("`/searches` has {found} queries, wanted at most {BATCH_QUERIES_MAX}");
        return Err(Problem::new(BATCH_TOO_LARGE, detail).at("/searches").found(found));
    }
    Ok(all)
}

/// Asks the engine and makes the answers, in the order of the questions.
fn answers(task: &Task, collection: &Arc<Collection>, all: Vec<Asked>) -> Result<Vec<Answer>, Problem> {
    let snapshot = &collection.snapshot();
    all.iter().try_for_each(|asked| in_range(snapshot, asked))?;
    few_enough(snapshot, all.iter().map(|asked| &asked.request))?;
    let requests: Vec<Request> = all.iter().map(|asked| asked.request.clone()).collect();
    let scope = &snapshot.scope().until(task.deadline()?);
    let begun = Instant::now();
    let answered = match dehub_query::answer(snapshot, scope, &requests) {
        Ok(answered) => answered,
        Err(error) => {
            search_failed(task, snapshot, requests, begun.elapsed());
            let asked = all.get(error.request);
            return Err(errors::request(&error, asked.map_or(&Places::default(), |asked| &asked.places)));
        }
    };
    let searched = begun.elapsed();
    let answers = all.iter().zip(&answered).map(|(asked, answered)| answer(snapshot, scope, asked, answered));
    let answers = answers.collect::<Result<_, _>>()?;
    learn(task, collection, snapshot, &requests, &answered);
    let plan = answered.into_iter().next().and_then(|first| first.plan);
    let read = begun.elapsed().saturating_sub(searched);
    task.searched(Searched { requests, plan, searched, read });
    Ok(answers)
}

/// Remembers a search that was given up, which may have taken long.
fn search_failed(task: &Task, snapshot: &Snapshot, requests: Vec<Request>, searched: Duration) {
    let is_planned = |request: &&Request| matches!(request.kind, Kind::Nearest(_)) && request.using.is_none();
    let first = requests.first().filter(is_planned);
    let plan = first.and_then(|first| plan(snapshot, &first.settings, 1).ok());
    task.searched(Searched { requests, plan, searched, read: Duration::ZERO });
}

fn answer(
    snapshot: &Arc<Snapshot>,
    scope: &Scope,
    asked: &Asked,
    answered: &Answered,
) -> Result<Answer, Problem> {
    let found_by = FoundBy::new(answered);
    if !asked.explain {
        let points = reply::hits(snapshot, &answered.hits, None, asked)?;
        return Ok(Answer { points, found_by, explain: None });
    }
    let has_parts = answered.fused.is_some() || matches!(asked.request.kind, Kind::Text(_));
    if has_parts {
        let mut points = reply::hits(snapshot, &answered.hits, None, asked)?;
        let explain = parts::tell(snapshot, scope, asked, answered, &mut points)?;
        return Ok(Answer { points, found_by, explain: Some(explain) });
    }
    let explained = explanation(snapshot, scope, asked, answered)?;
    let points = reply::hits(snapshot, &answered.hits, Some(&explained.raw_ranks), asked)?;
    Ok(Answer { points, found_by, explain: Some(explained) })
}

/// How an answer came about.
fn explanation(
    snapshot: &Arc<Snapshot>,
    scope: &Scope,
    asked: &Asked,
    answered: &Answered,
) -> Result<ExplainReply, Problem> {
    let Asked { places, request, .. } = asked;
    let explained = explain_request(snapshot, scope, request);
    let (Explanation { raw_ranks, boosts, staleness, .. }, raw) =
        explained.map_err(|error| errors::request(&error, places))?;
    let (skipped, shown) = (request.offset, answered.hits.len());
    let limit = request.settings.limit.unwrap_or(LIMIT_DEFAULT);
    let raw: Vec<_> = raw.into_iter().skip(skipped).take(limit).collect();
    let priors = &request.settings.priors;
    let boosts = boosts.iter().skip(skipped).take(shown).map(|hit| priors::parts(priors, hit));
    Ok(ExplainReply {
        boosts: if priors.is_empty() { Vec::new() } else { boosts.collect() },
        plan: answered.plan.as_ref().map(ToString::to_string).unwrap_or_default(),
        raw: reply::hits(snapshot, &raw, None, asked)?,
        // What passes the threshold is a prefix, as scores fall or distances rise; so ranks line up with hits.
        raw_ranks: raw_ranks.into_iter().skip(skipped).take(shown).collect(),
        sources: Vec::new(),
        staleness: staleness.map(|staleness| StalenessReply::new(&staleness, skipped, shown)),
    })
}

/// Learns from what was served. A later page is the same query again, and neither what a filter leaves of an answer
/// nor what a prior lifts says who is a hub.
fn learn(
    task: &Task,
    collection: &Arc<Collection>,
    snapshot: &Arc<Snapshot>,
    all: &[Request],
    answered: &[Answered],
) {
    let mut names: Vec<Option<&str>> = all.iter().map(|request| request.using.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (Ok(space), Ok(snapshot)) = (collection.space(name), snapshot.space(name)) else { continue };
        let Ok(watched) = task.watched(&space) else { continue };
        let served: Vec<(&Request, &Answered)> =
            all.iter().zip(answered).filter(|(request, _)| request.using.as_deref() == name).collect();
        learn_of(task, &watched, &snapshot, &served);
    }
}

/// The same of the queries by one vector.
fn learn_of(task: &Task, watched: &Watched, snapshot: &Snapshot, served: &[(&Request, &Answered)]) {
    let mut rows = Vec::new();
    served.iter().filter_map(|(_, answered)| answered.gate_open).for_each(|open| watched.count_gate(open));
    for (_, answered) in served.iter().filter(|(request, _)| is_counted(request)) {
        rows.clear();
        rows.extend(answered.hits.iter().take(COUNTED).map(|hit| hit.row));
        let correction = answered.plan.as_ref().and_then(|plan| plan.correction.as_ref());
        let correction = correction.map(|(versioned, method, _)| {
            let name = versioned.rsplit_once('@').map_or(versioned.as_str(), |(name, _)| name);
            (name, method.as_str())
        });
        watched.count(snapshot, correction, &rows);
    }
    let vectors = served.iter().map(|(request, _)| *request).filter(|it| it.offset == 0).flat_map(vectors);
    task.edge().live().offer(watched, snapshot, task.client, vectors);
}

/// Whether an answer is that of a query to all points.
fn is_counted(request: &Request) -> bool {
    let is_query = match request.kind {
        Kind::Nearest(_) => true,
        Kind::ById
        | Kind::OrderBy(_)
        | Kind::Sample { .. }
        | Kind::Recommend { .. }
        | Kind::Discover { .. }
        | Kind::Context(_)
        | Kind::Feedback(_)
        | Kind::Text(_)
        | Kind::Fusion(_) => false,
    };
    let Settings { filter, priors, .. } = &request.settings;
    is_query && request.offset == 0 && filter.is_none() && priors.is_empty() && request.prefetch.is_empty()
}

/// The vectors of a query: its own, or if it fuses others theirs.
fn vectors(request: &Request) -> Vec<&[f32]> {
    match &request.kind {
        Kind::Nearest(Source::Vector(vector))
        | Kind::Feedback(Feedback { source: Source::Vector(vector), .. }) => vec![vector],
        Kind::Fusion(_) => request.prefetch.iter().flat_map(vectors).collect(),
        Kind::Nearest(_)
        | Kind::Feedback(_)
        | Kind::ById
        | Kind::OrderBy(_)
        | Kind::Sample { .. }
        | Kind::Recommend { .. }
        | Kind::Discover { .. }
        | Kind::Context(_)
        | Kind::Text(_) => Vec::new(),
    }
}

/// Whether the offset and the limit of a request together are few enough.
fn in_range(snapshot: &Snapshot, asked: &Asked) -> Result<(), Problem> {
    let limit = asked.request.settings.limit.unwrap_or(LIMIT_DEFAULT);
    let end = asked.request.offset.saturating_add(limit).min(snapshot.len());
    if asked.request.offset == 0 || end <= LIMIT_MAX {
        return Ok(());
    }
    let detail = format!("the offset and the limit together are {end}, wanted at most {LIMIT_MAX}");
    Err(Problem::new(INVALID_VALUE, detail).at(format_args!("{}/offset", asked.places.base)))
}

/// Whether requests and their prefetches ask for few enough hits together.
fn few_enough<'a>(snapshot: &Snapshot, all: impl Iterator<Item = &'a Request>) -> Result<(), Problem> {
    let hits = all.fold(0_usize, |hits, request| hits.saturating_add(hits_of(snapshot, request)));
    if hits <= HITS_MAX {
        return Ok(());
    }
    let detail = format!("the queries ask for {hits} hits together, wanted at most {HITS_MAX}");
    Err(Problem::new(INVALID_LIMIT, detail).wanted(format!("at most {HITS_MAX}")).found(hits))
}

fn hits_of(snapshot: &Snapshot, request: &Request) -> usize {
    let limit = request.settings.limit.unwrap_or(LIMIT_DEFAULT);
    let own = request.offset.saturating_add(limit).min(snapshot.len());
    request.prefetch.iter().fold(own, |hits, prefetch| hits.saturating_add(hits_of(snapshot, prefetch)))
}
