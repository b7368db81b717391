//! Hubness under the queries of a bank, before and after a correction.

use actix_web::HttpResponse;
use dehub_index::{Correction, CorrectionInfo, Snapshot};
use dehub_query::{HubnessRow, Ranking};
use dehub_vector::PointId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::banks;
use crate::call::{Call, Task};
use crate::errors;
use crate::openapi::Id;
use crate::problem::Problem;

/// Neighbours counted unless `k` says otherwise; all points if they are fewer.
const K_DEFAULT: usize = 10;

/// Hubs listed unless `top` says otherwise.
const TOP_DEFAULT: usize = 10;

/// Hubs listed at most: the answer names each of them.
const TOP_MAX: usize = 10_000;

/// Bank entries asked as queries at most, evenly spread over the bank: the time grows with them,
/// and ten thousand measure a skewness to its second digit.
const QUERIES_MAX: usize = 10_000;

/// The name that stands for every correction.
const ALL: &str = "all";

#[derive(Serialize, ToSchema)]
#[schema(as = Hubness)]
pub(crate) struct Measured {
    bank: String,
    kind: &'static str,
    /// Entries of the bank that were asked.
    queries: usize,
    entries: usize,
    points: usize,
    k: usize,
    correction: Option<String>,
    before: RowReply,
    after: Option<RowReply>,
    /// With `correction=all`, one for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    corrections: Option<Vec<CorrectedReply>>,
    sequence: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HubnessCorrected)]
struct CorrectedReply {
    /// `name@version`
    correction: String,
    #[serde(flatten)]
    row: RowReply,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HubnessOfRanking)]
struct RowReply {
    label: String,
    /// Of `N_k`, how often each point is among the best `k`.
    skewness: f64,
    /// The share of places that would have to move for every point to occur equally often.
    robin_hood: f64,
    /// That share if every query found points at random.
    robin_hood_at_random: f64,
    /// The share of places that points take which occur at least twice as often as the mean.
    hub_share: f64,
    /// The share of points that no query finds.
    antihubs: f64,
    /// That share if every query found points at random.
    antihubs_at_random: f64,
    max: u32,
    hubs: Vec<HubReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Hub)]
struct HubReply {
    #[schema(value_type = Id)]
    id: PointId,
    /// The queries that find it among their best `k`.
    count: u32,
}

/// `GET /collections/{collection}/hubness`
pub(crate) async fn measure(call: Call) -> HttpResponse {
    call.answer(&["bank", "k", "top", "correction", "using"], |task| measure_task(&task)).await
}

fn measure_task(task: &Task) -> Result<Vec<u8>, Problem> {
    let snapshot = task.space()?.snapshot();
    let name = task.parameters.required("bank")?;
    let missing = || banks::unknown(&snapshot, name).unprocessable().in_parameter("bank").found(name);
    let bank = snapshot.bank(name).ok_or_else(missing)?;
    let k = task.parameters.whole("k")?.unwrap_or(K_DEFAULT.min(snapshot.len()));
    let top = task.parameters.whole("top")?.unwrap_or(TOP_DEFAULT);
    if top > TOP_MAX {
        return Err(task.parameters.refused("top", &top.to_string(), &format!("at most {TOP_MAX}")));
    }
    if k == 0 && !snapshot.is_empty() {
        return Err(task.parameters.refused("k", "0", "a whole number from 1"));
    }
    let asked = task.parameters.text("correction").filter(|&name| name != "none" && name != "raw");
    let all = asked == Some(ALL);
    let named: Vec<&CorrectionInfo> = snapshot.corrections().map(Correction::info).filter(|_| all).collect();
    let correction = asked.filter(|_| !all);
    let mut rankings = vec![Ranking::Raw];
    rankings.extend(correction.map(Ranking::corrected));
    rankings.extend(named.iter().map(|info| Ranking::corrected(info.name.as_str())));
    let queries = snapshot.bank_queries(&bank.name, QUERIES_MAX);
    let rows = dehub_query::hubness(&snapshot, &queries, &rankings, k, top)
        .map_err(|error| errors::hubness(&error))?;
    let replies = rows.iter().map(|row| row_reply(&snapshot, row)).collect::<Result<Vec<_>, _>>()?;
    let mut replies = replies.into_iter();
    let Some(before) = replies.next() else {
        return Err(Problem::new(errors::INTERNAL, "the raw ranking was not measured"));
    };
    let after = correction.and_then(|_| replies.next());
    let versioned = |info: &CorrectionInfo| format!("{}@{}", info.name, info.version);
    let corrected =
        |(info, row): (&&CorrectionInfo, RowReply)| CorrectedReply { correction: versioned(info), row };
    let corrections = all.then(|| named.iter().zip(replies).map(corrected).collect());
    let served = correction.and_then(|name| snapshot.correction(name)).map(Correction::info);
    task.reply(&Measured {
        bank: bank.name.to_string(),
        kind: bank.kind.name(),
        queries: queries.len(),
        entries: bank.entries,
        points: snapshot.len(),
        k,
        correction: served.map(versioned),
        before,
        after,
        corrections,
        sequence: snapshot.sequence(),
    })
}

fn row_reply(snapshot: &Snapshot, row: &HubnessRow) -> Result<RowReply, Problem> {
    let rows: Vec<u32> = row.hubs.iter().map(|&(row, _)| row).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let hubs = points.into_iter().zip(&row.hubs).map(|(point, &(_, count))| HubReply { id: point.id, count });
    let occurrence = &row.occurrence;
    Ok(RowReply {
        label: row.label.clone(),
        skewness: occurrence.skewness(),
        robin_hood: occurrence.robin_hood(),
        robin_hood_at_random: occurrence.robin_hood_at_random(),
        hub_share: occurrence.hub_share(),
        antihubs: occurrence.antihub_share(),
        antihubs_at_random: occurrence.antihub_share_at_random(),
        max: occurrence.max(),
        hubs: hubs.collect(),
    })
}
