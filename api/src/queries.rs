//! Queries: one, many at a time, explained.

use actix_web::HttpResponse;
use dehub_index::{Point, Scope, Snapshot};
use dehub_query::{
    BATCH_QUERIES_MAX, Bound, Explanation, Hit, LIMIT_DEFAULT, LIMIT_MAX, Query, Ranking, Response, Search,
    Settings, Source, Staleness, explain_within, run_within,
};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;

use crate::call::{Call, Served, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BATCH_TOO_LARGE, EMPTY_BATCH, INVALID_LIMIT, INVALID_VALUE};
use crate::filter::filter;
use crate::live::{COUNTED, Watched};
use crate::points::{Parts, Selection};
use crate::problem::Problem;

/// Hits of all queries of a request together: the answer is made in memory.
const HITS_MAX: usize = 1_000_000;

/// The parameter for the most seconds a search may take.
const TIMEOUT: &str = "timeout";

/// Decoded query: what the engine is asked, and what the answer is to look like.
pub(crate) struct Asked {
    /// Where the query is: nowhere special, or `/searches/{place}`.
    pub(crate) base: String,
    /// Where in it is what to search for.
    source: &'static str,
    pub(crate) query: Query,
    offset: usize,
    selection: Selection,
    /// Hits that score less are left out.
    score_threshold: Option<f32>,
    explain: bool,
}

impl Asked {
    /// Where in the body is what to search for.
    pub(crate) fn source_pointer(&self) -> String {
        format!("{}{}", self.base, self.source)
    }

    /// Whether a hit scores enough to be shown.
    fn passes(&self, hit: &Hit) -> bool {
        self.score_threshold.is_none_or(|least| hit.score >= least)
    }
}

#[derive(Serialize)]
struct Answer {
    points: Vec<HitReply>,
    hubness: HubnessReply,
    /// Whether every point was scored.
    exact: bool,
    /// The newest commit that the answer takes into account.
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<ExplainReply>,
}

#[derive(Serialize)]
struct HitReply {
    id: PointId,
    /// `scale * raw_score - bias`, or a score of the method's own; larger is better.
    score: f32,
    raw_score: f32,
    /// `null`, as the scale, if the score is the method's own.
    bias: Option<f32>,
    /// 1 for methods that only subtract.
    scale: Option<f32>,
    /// Its rank in the exact raw ranking, from 1, when an explanation was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank_raw: Option<u32>,
    #[serde(flatten)]
    parts: Parts,
}

#[derive(Serialize)]
struct HubnessReply {
    /// `name@version`, or `null` for the raw ranking.
    correction: Option<String>,
    method: Option<String>,
    weight: Option<f32>,
    /// For a gated method, whether any of its gates was open for this query.
    gate_open: Option<bool>,
}

#[derive(Serialize)]
struct ExplainReply {
    plan: String,
    /// The answer without the correction.
    raw: Vec<HitReply>,
    /// The rank of each hit in the exact raw ranking, from 1.
    raw_ranks: Vec<u32>,
    /// For a correction that is behind its banks.
    #[serde(skip_serializing_if = "Option::is_none")]
    staleness: Option<StalenessReply>,
}

/// What the bank entries that a correction has not taken in can do to the answer.
#[derive(Serialize)]
struct StalenessReply {
    entries: usize,
    /// Whether the hits and their order stay whatever the entries are.
    certified: bool,
    /// For each hit, how far its score can move; `null` where there is no bound.
    bounds: Vec<Option<BoundReply>>,
}

#[derive(Serialize)]
struct BoundReply {
    rise: f64,
    fall: f64,
}

impl StalenessReply {
    /// Of the hits that are shown; the certificate is of all before them too.
    fn new(staleness: &Staleness, skipped: usize, shown: usize) -> StalenessReply {
        let bound = |bound: &Option<Bound>| bound.map(|Bound { rise, fall }| BoundReply { rise, fall });
        StalenessReply {
            entries: staleness.entries,
            certified: staleness.certified,
            bounds: staleness.bounds.iter().skip(skipped).take(shown).map(bound).collect(),
        }
    }
}

/// `POST /collections/{collection}/points/query`
pub(crate) async fn query(call: Call) -> HttpResponse {
    call.answer_body(&[TIMEOUT], |task, body| one(&task, asked(body, Place::Body, query_source)?)).await
}

/// `POST /collections/{collection}/points/search`: the same, with the vector in `vector`.
pub(crate) async fn search(call: Call) -> HttpResponse {
    call.answer_body(&[TIMEOUT], |task, body| one(&task, asked(body, Place::Body, search_source)?)).await
}

/// `POST /collections/{collection}/points/query/batch`
pub(crate) async fn query_batch(call: Call) -> HttpResponse {
    call.answer_body(&[TIMEOUT], |task, body| many(&task, body)).await
}

fn one(task: &Task, asked: Asked) -> Result<Vec<u8>, Problem> {
    let answer = answers(task, &task.served()?, vec![asked])?.pop();
    let none = || Problem::new(errors::INTERNAL, "the engine gave no answer");
    task.reply(&answer.ok_or_else(none)?)
}

fn many(task: &Task, body: Value) -> Result<Vec<u8>, Problem> {
    let served = task.served()?;
    let mut fields = Fields::new(body, Place::Body)?;
    let all = fields.required("searches", |value, place| {
        decode::list(value, place, |value, place| asked(value, place, query_source))
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
    task.reply(&answers(task, &served, all)?)
}

fn asked(
    value: Value,
    place: Place<'_>,
    read_source: fn(&mut Fields<'_>) -> Result<(Source, &'static str), Problem>,
) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let (source, source_field) = read_source(&mut fields)?;
    let limit = fields.optional("limit", decode::whole)?;
    let offset = fields.optional("offset", decode::whole)?.unwrap_or(0);
    let search = fields.optional("params", params)?.unwrap_or_default();
    let selection = Selection::read(&mut fields, false)?;
    let score_threshold = fields.optional("score_threshold", decode::number_32)?;
    let filter = fields.optional("filter", filter)?.flatten();
    let (ranking, explain) = fields.optional("hubness", hubness)?.unwrap_or_default();
    fields.finish()?;
    let query = Query { source, settings: Settings { limit, ranking, search, filter } };
    let base = place.to_string();
    Ok(Asked { base, source: source_field, query, offset, selection, score_threshold, explain })
}

fn query_source(fields: &mut Fields<'_>) -> Result<(Source, &'static str), Problem> {
    fields.required("query", |value, place| match value {
        Value::Object(_) => {
            let mut fields = Fields::new(value, place)?;
            let source = fields.optional("nearest", vector_or_id)?;
            let missing = fields.missing("the field `nearest`");
            // A kind of query that is not there is named rather than the one that is.
            fields.finish()?;
            Ok((source.ok_or(missing)?, "/query/nearest"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Ok((vector_or_id(value, place)?, "/query"))
        }
    })
}

fn search_source(fields: &mut Fields<'_>) -> Result<(Source, &'static str), Problem> {
    Ok((Source::Vector(fields.required("vector", decode::vector)?), "/vector"))
}

fn vector_or_id(value: Value, place: Place<'_>) -> Result<Source, Problem> {
    match value {
        Value::Array(_) => decode::vector(value, place).map(Source::Vector),
        Value::Number(_) | Value::String(_) => decode::id(value, place).map(Source::Point),
        Value::Null | Value::Bool(_) | Value::Object(_) => {
            Err(decode::wrong(place, &value, "a vector (an array of numbers) or a point's id"))
        }
    }
}

fn params(value: Value, place: Place<'_>) -> Result<Search, Problem> {
    let mut fields = Fields::new(value, place)?;
    let effort = fields.optional("hnsw_ef", decode::whole)?;
    let exact = fields.optional("exact", decode::flag)?.unwrap_or(false);
    let recall = fields.optional("recall", decode::number)?;
    let candidates = fields.optional("candidates", decode::whole)?;
    fields.finish()?;
    let ways = [
        exact.then_some(("exact", Search::Exact)),
        effort.map(|effort| ("hnsw_ef", Search::Graph { effort })),
        recall.map(|target| ("recall", Search::Recall { target })),
        candidates.map(|candidates| ("candidates", Search::Codes { candidates })),
    ];
    match ways.into_iter().flatten().collect::<Vec<_>>()[..] {
        [] => Ok(Search::Auto),
        [(_, way)] => Ok(way),
        [(other, _), (field, _), ..] => {
            let pointer = place.field(field).to_string();
            let detail = format!("`{pointer}` has no meaning beside `{other}`: give one of the two");
            Err(Problem::new(INVALID_VALUE, detail).at(pointer))
        }
    }
}

/// The ranking, and whether to explain it.
fn hubness(value: Value, place: Place<'_>) -> Result<(Ranking, bool), Problem> {
    let mut fields = Fields::new(value, place)?;
    let correction = fields.optional("correction", decode::string)?;
    let weight = fields.optional("weight", decode::number_32)?;
    let explain = fields.optional("explain", decode::flag)?.unwrap_or(false);
    fields.finish()?;
    match (Ranking::named(correction, weight.unwrap_or(1.0)), weight) {
        (ranking @ Ranking::Corrected { .. }, _) | (ranking, None) => Ok((ranking, explain)),
        (Ranking::Default | Ranking::Raw, Some(_)) => {
            let pointer = place.field("weight").to_string();
            let detail = format!("`{pointer}` has no meaning without a correction to weigh, by its name");
            Err(Problem::new(errors::INVALID_WEIGHT, detail).at(pointer))
        }
    }
}

/// Asks the engine and makes the answers, in the order of the questions.
fn answers(task: &Task, (collection, watched): &Served, mut all: Vec<Asked>) -> Result<Vec<Answer>, Problem> {
    let snapshot = &collection.snapshot();
    let windows = all.iter_mut().map(|asked| window(snapshot, asked)).collect::<Result<Vec<_>, _>>()?;
    let hits: usize = windows.iter().map(|&(skipped, most)| skipped.saturating_add(most)).sum();
    if hits > HITS_MAX {
        let detail = format!("the queries ask for {hits} hits together, wanted at most {HITS_MAX}");
        return Err(Problem::new(INVALID_LIMIT, detail).wanted(format!("at most {HITS_MAX}")).found(hits));
    }
    let queries: Vec<Query> = all.iter().map(|asked| asked.query.clone()).collect();
    let scope = &snapshot.scope().until(task.deadline()?);
    let responses = run_within(snapshot, scope, &queries).map_err(|error| errors::query(&error, &all))?;
    let answer = |((asked, response), window)| answer(snapshot, scope, asked, response, window);
    let answers = all.iter().zip(&responses).zip(windows).map(answer).collect::<Result<_, _>>()?;
    learn(task, watched, snapshot, &all, &responses);
    Ok(answers)
}

/// Learns from what was served. A later page is the same query again, and what a filter leaves of an answer
/// says nothing of who is a hub.
fn learn(task: &Task, watched: &Watched, snapshot: &Snapshot, all: &[Asked], responses: &[Response]) {
    let mut rows = Vec::new();
    let is_counted = |asked: &Asked| asked.offset == 0 && asked.query.settings.filter.is_none();
    for (asked, response) in all.iter().zip(responses).filter(|(asked, _)| is_counted(asked)) {
        rows.clear();
        let shown = response.hits.iter().filter(|hit| asked.passes(hit));
        rows.extend(shown.take(COUNTED).map(|hit| hit.row));
        let correction = response.plan.correction.as_ref().map(|(versioned, method, _)| {
            let name = versioned.rsplit_once('@').map_or(versioned.as_str(), |(name, _)| name);
            (name, method.as_str())
        });
        watched.count(snapshot, correction, &rows);
    }
    let vectors =
        all.iter().filter(|asked| asked.offset == 0).filter_map(|asked| match &asked.query.source {
            Source::Vector(vector) => Some(vector.as_slice()),
            Source::Point(_) => None,
        });
    task.edge().live().offer(watched, snapshot, task.client, vectors);
}

/// How many hits to skip and how many to answer with; the engine is asked for both together.
/// A page that begins within the collection may end beyond it, but a page larger than the
/// collection is a mistake, with an offset as without.
fn window(snapshot: &Snapshot, asked: &mut Asked) -> Result<(usize, usize), Problem> {
    let points = snapshot.len();
    let limit = asked.query.settings.limit.unwrap_or(LIMIT_DEFAULT.min(points));
    if asked.offset > 0 && limit > 0 && limit <= points {
        let end = asked.offset.saturating_add(limit).min(points);
        if end > LIMIT_MAX {
            let detail = format!("the offset and the limit together are {end}, wanted at most {LIMIT_MAX}");
            return Err(Problem::new(INVALID_VALUE, detail).at(format_args!("{}/offset", asked.base)));
        }
        asked.query.settings.limit = Some(end);
    }
    Ok((asked.offset.min(points), limit.min(points)))
}

fn answer(
    snapshot: &Snapshot,
    scope: &Scope,
    asked: &Asked,
    response: &Response,
    (skipped, most): (usize, usize),
) -> Result<Answer, Problem> {
    let kept = |response: &Response| -> Vec<Hit> {
        response.hits.iter().filter(|hit| asked.passes(hit)).skip(skipped).take(most).copied().collect()
    };
    let reply = |hits: &[Hit], ranks: Option<&[u32]>| hit_replies(snapshot, hits, ranks, &asked.selection);
    let shown = kept(response);
    let (points, explained) = if asked.explain {
        let explanation = explain_within(snapshot, scope, &asked.query);
        let one = std::slice::from_ref(asked);
        let Explanation { raw, raw_ranks, staleness, .. } =
            explanation.map_err(|error| errors::query(&error, one))?;
        // Scores fall, so what passes the threshold is a prefix, and ranks line up with hits.
        let raw_ranks: Vec<u32> = raw_ranks.into_iter().skip(skipped).take(shown.len()).collect();
        let points = reply(&shown, Some(&raw_ranks))?;
        let raw: Vec<Hit> = raw.hits.into_iter().skip(skipped).take(most).collect();
        let raw = reply(&raw, None)?;
        let staleness = staleness.map(|staleness| StalenessReply::new(&staleness, skipped, shown.len()));
        (points, Some(ExplainReply { plan: response.plan.to_string(), raw, raw_ranks, staleness }))
    } else {
        (reply(&shown, None)?, None)
    };
    let correction = response.plan.correction.as_ref();
    Ok(Answer {
        points,
        hubness: HubnessReply {
            correction: correction.map(|(name, ..)| name.clone()),
            method: correction.map(|(_, method, _)| method.clone()),
            weight: correction.map(|&(.., weight)| weight),
            gate_open: response.gate_open,
        },
        exact: response.plan.is_exact(),
        sequence: response.sequence,
        explain: explained,
    })
}

fn hit_replies(
    snapshot: &Snapshot,
    hits: &[Hit],
    ranks: Option<&[u32]>,
    selection: &Selection,
) -> Result<Vec<HitReply>, Problem> {
    let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let reply = |(place, (mut point, hit)): (usize, (Point, &Hit))| {
        let parts = selection.parts(snapshot, hit.row, &mut point)?;
        let rank_raw = ranks.and_then(|ranks| ranks.get(place).copied());
        let Hit { score, raw_score, bias, scale, .. } = *hit;
        Ok(HitReply { id: point.id, score, raw_score, bias, scale, rank_raw, parts })
    };
    points.into_iter().zip(hits).enumerate().map(reply).collect()
}
