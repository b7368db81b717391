//! The live bank, drift and hubness of the queries served, over HTTP.

use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{Collection, LiveBank, Name, Snapshot, WriteError};
use dehub_query::{Drift, drift};
use dehub_vector::{Numbers, PointId, Vector};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::counts::{COUNTED, Counting, RAW};
use super::{Flushed, Watched};
use crate::banks;
use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BANK_IN_USE, NOT_LIVE, Written};
use crate::openapi::Id;
use crate::problem::Problem;

/// What a policy is where it does not say: a tenth of the queries, ten thousand of a week.
const RATE: f64 = 0.1;
const CAPACITY: usize = 10_000;
const RETENTION_SECONDS: u64 = 7 * 86_400;
const PER_CLIENT: usize = 100;

/// Hubs listed unless `top` says otherwise, and at most.
const TOP_DEFAULT: usize = 10;
const TOP_MAX: usize = 10_000;

/// Entries of a bank that are compared with another bank, at most, evenly spread.
const AGAINST_MAX: usize = 10_000;

/// The policy of a live bank.
#[derive(Serialize, ToSchema)]
#[schema(as = LivePolicy)]
pub(crate) struct LiveReply {
    bank: String,
    rate: f64,
    capacity: usize,
    retention_seconds: u64,
    per_client: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LiveState)]
pub(crate) struct Described {
    /// `null` if no queries are kept.
    policy: Option<LiveReply>,
    /// Queries kept.
    kept: usize,
    /// Entries that the bank has yet to get or to lose.
    waiting: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Flushed)]
pub(crate) struct FlushReply {
    added: usize,
    removed: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Drift)]
pub(crate) struct DriftReply {
    bank: String,
    against: Option<String>,
    likeness: &'static str,
    /// The same in words.
    report: String,
    advice: &'static str,
    queries: usize,
    entries: usize,
    nearest_of_queries: f64,
    nearest_of_entries: f64,
    farther: f64,
    z: f64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LiveHubness)]
pub(crate) struct HubnessReply {
    /// Answers of a query that count, at most.
    k: usize,
    /// When counting began, in milliseconds since 1970.
    since_ms: u64,
    points: usize,
    rankings: Vec<RankingReply>,
    /// Queries by rankings that no counters were left for.
    queries_not_counted: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LiveRanking)]
struct RankingReply {
    /// `null` for the raw ranking.
    correction: Option<String>,
    method: Option<String>,
    queries: u64,
    robin_hood: f64,
    /// The Robin Hood index of as many answers that are drawn at random.
    robin_hood_at_random: f64,
    /// The share of the answers that are hubs: at least twice as frequent as the mean.
    hub_occurrence: f64,
    /// The share of points that were no answer.
    antihubs: f64,
    antihubs_at_random: f64,
    max: u32,
    hubs: Vec<HubReply>,
    /// Answers that no counters were left for.
    answers_not_counted: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LiveHub)]
struct HubReply {
    #[schema(value_type = Id)]
    id: PointId,
    count: u32,
}

impl LiveReply {
    pub(crate) fn new(policy: &LiveBank) -> LiveReply {
        let LiveBank { bank, rate, capacity, retention_seconds, per_client } = policy.clone();
        LiveReply { bank: bank.into(), rate, capacity, retention_seconds, per_client }
    }
}

/// `GET /collections/{collection}/live`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let (collection, watched) = task.served()?;
        described(&task, &collection, &watched)
    })
    .await
}

/// `PUT /collections/{collection}/live`: keeps queries from now on.
pub(crate) async fn begin(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "using"], |task, body| {
        let (collection, watched) = task.served()?;
        let policy = policy(body)?;
        task.edge().live().change(&watched, &collection, Some(&policy)).map_err(|error| refused(&error))?;
        described(&task, &collection, &watched)
    })
    .await
}

/// `DELETE /collections/{collection}/live`: keeps no more; what the bank has stays.
pub(crate) async fn end(call: Call) -> HttpResponse {
    call.answer(&["wait", "using"], |task| {
        let (collection, watched) = task.served()?;
        task.edge().live().change(&watched, &collection, None).map_err(|error| refused(&error))?;
        task.reply(&true)
    })
    .await
}

/// `POST /collections/{collection}/live/flush`: brings the bank up to date.
pub(crate) async fn flush(call: Call) -> HttpResponse {
    call.answer(&["wait", "using"], |task| {
        let (collection, watched) = task.served()?;
        let flushed = task.edge().live().flush(&watched, &collection).map_err(|error| refused(&error))?;
        let none = || Problem::new(NOT_LIVE, "the collection keeps no queries: PUT …/live begins that");
        let Flushed { added, removed } = flushed.ok_or_else(none)?;
        task.reply(&FlushReply { added, removed })
    })
    .await
}

/// `GET /collections/{collection}/banks/{bank}/drift?against=…`: whether another bank is like this one.
pub(crate) async fn drift_against(call: Call) -> HttpResponse {
    call.answer(&["against", "using"], |task| {
        let snapshot = task.space()?.snapshot();
        let bank = task.name("bank")?;
        let against = task.parameters.required("against")?;
        let missing =
            || banks::unknown(&snapshot, against).unprocessable().in_parameter("against").found(against);
        let against = snapshot.bank(against).ok_or_else(missing)?.name.clone();
        if against == bank {
            return Err(task.parameters.refused("against", against.as_str(), "another bank than the path's"));
        }
        let queries = snapshot.bank_queries(&against, AGAINST_MAX);
        drift_reply(&task, &snapshot, &bank, Some(against), &queries)
    })
    .await
}

/// `POST /collections/{collection}/banks/{bank}/drift`: whether queries are like a bank.
pub(crate) async fn drift_of(call: Call) -> HttpResponse {
    call.answer_body(&["using"], |task, body| {
        let snapshot = task.space()?.snapshot();
        let bank = task.name("bank")?;
        let mut fields = Fields::new(body, Place::Body)?;
        let vectors =
            fields.required("vectors", |value, place| decode::list(value, place, decode::numbers))?;
        fields.finish()?;
        let config = snapshot.config();
        let checked = |(place, numbers): (usize, &Numbers)| {
            config.vector(numbers).map_err(|error| errors::asked_vector_in("/vectors", &error, place))
        };
        let queries = vectors.iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
        drift_reply(&task, &snapshot, &bank, None, &queries)
    })
    .await
}

/// `GET /collections/{collection}/hubness/live`
pub(crate) async fn hubness(call: Call) -> HttpResponse {
    call.answer(&["top", "using"], |task| {
        let (collection, watched) = task.served()?;
        let top = task.parameters.whole("top")?.unwrap_or(TOP_DEFAULT);
        if top > TOP_MAX {
            return Err(task.parameters.refused("top", &top.to_string(), &format!("at most {TOP_MAX}")));
        }
        let snapshot = collection.snapshot();
        let report = watched.counts.report(&snapshot);
        let of_ranking = |counting: Counting| ranking_reply(&snapshot, counting, top);
        task.reply(&HubnessReply {
            k: COUNTED,
            since_ms: report.since_ms,
            points: snapshot.len(),
            rankings: report.rankings.into_iter().map(of_ranking).collect::<Result<_, _>>()?,
            queries_not_counted: report.uncounted,
        })
    })
    .await
}

/// `DELETE /collections/{collection}/hubness/live`: counts from 0 again.
pub(crate) async fn reset_hubness(call: Call) -> HttpResponse {
    call.answer(&["using"], |task| {
        let (_, watched) = task.served()?;
        watched.counts.reset((task.edge().live().clock)());
        task.reply(&true)
    })
    .await
}

fn described(task: &Task, collection: &Arc<Collection>, watched: &Watched) -> Result<Vec<u8>, Problem> {
    let (kept, waiting) = watched.kept();
    let policy = collection.snapshot().live_bank().map(LiveReply::new);
    task.reply(&Described { policy, kept, waiting })
}

pub(crate) fn policy(body: Value) -> Result<LiveBank, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let policy = LiveBank {
        bank: fields.required("bank", decode::name)?,
        rate: fields.optional("rate", decode::number)?.unwrap_or(RATE),
        capacity: fields.optional("capacity", decode::whole)?.unwrap_or(CAPACITY),
        retention_seconds: fields
            .optional("retention_seconds", decode::whole)?
            .map_or(RETENTION_SECONDS, |seconds| seconds as u64),
        per_client: fields.optional("per_client", decode::whole)?.unwrap_or(PER_CLIENT),
    };
    fields.finish()?;
    Ok(policy)
}

fn refused(error: &WriteError) -> Problem {
    if let WriteError::BankIsNotLive { bank, .. } = error {
        let wanted = "a new bank, an empty one, or one that kept queries";
        return Problem::new(BANK_IN_USE, error.to_string()).at("/bank").wanted(wanted).found(bank);
    }
    let problem = errors::write(error, &Written::Choice);
    if matches!(error, WriteError::BankKind { .. }) { problem.at("/bank") } else { problem }
}

fn drift_reply(
    task: &Task,
    snapshot: &Snapshot,
    bank: &Name,
    against: Option<Name>,
    queries: &[Vector],
) -> Result<Vec<u8>, Problem> {
    let given = if against.is_some() { None } else { Some("/vectors") };
    let found = drift(snapshot, bank, queries).map_err(|error| errors::drift(&error, given))?;
    let Drift { queries, entries, nearest_of_queries, nearest_of_entries, farther, z } = found;
    let likeness = found.likeness();
    task.reply(&DriftReply {
        bank: bank.to_string(),
        against: against.map(String::from),
        likeness: likeness.name(),
        report: found.to_string(),
        advice: likeness.advice(),
        queries,
        entries,
        nearest_of_queries,
        nearest_of_entries,
        farther,
        z,
    })
}

fn ranking_reply(snapshot: &Snapshot, counting: Counting, top: usize) -> Result<RankingReply, Problem> {
    let Counting { ranking, method, occurrence, queries, uncounted } = counting;
    let rows: Vec<u32> = snapshot.rows().collect();
    let most = occurrence.hubs(top).into_iter().filter(|&(_, count)| count > 0);
    let most: Vec<(u32, u32)> = most.map(|(place, count)| (rows[place as usize], count)).collect();
    let found: Vec<u32> = most.iter().map(|&(row, _)| row).collect();
    let points = snapshot.points(&found).map_err(|error| errors::read(&error))?;
    let hubs = points.into_iter().zip(&most).map(|(point, &(_, count))| HubReply { id: point.id, count });
    let is_raw = ranking == RAW;
    Ok(RankingReply {
        correction: (!is_raw).then_some(ranking),
        method: (!is_raw).then_some(method),
        queries,
        robin_hood: occurrence.robin_hood(),
        robin_hood_at_random: occurrence.robin_hood_at_random(),
        hub_occurrence: occurrence.hub_share(),
        antihubs: occurrence.antihub_share(),
        antihubs_at_random: occurrence.antihub_share_at_random(),
        max: occurrence.max(),
        hubs: hubs.collect(),
        answers_not_counted: uncounted,
    })
}
