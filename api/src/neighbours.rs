//! What is near a point, and why it is a hub if it is one.

use actix_web::HttpResponse;
use dehub_index::{Name, Point, Snapshot};
use dehub_query::{
    Hit, LIMIT_DEFAULT, LIMIT_MAX, PointBias, Query, QueryError, Ranking, Search, Settings, Source,
    point_biases, run_within,
};
use dehub_vector::PointId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::call::{Call, Served, Task};
use crate::errors::{self, INTERNAL, INVALID_WEIGHT};
use crate::openapi::Id;
use crate::points::id_in_path;
use crate::problem::Problem;

/// The nearest of a point, and what is known of how often it is near others.
#[derive(Serialize, ToSchema)]
#[schema(as = Neighbours)]
pub(crate) struct NeighboursReply {
    #[schema(value_type = Id)]
    id: PointId,
    /// `name@version` of what they are ranked by; `null` for the raw ranking.
    correction: Option<String>,
    /// Best first; the point itself is none of them.
    neighbours: Vec<NeighbourReply>,
    /// Whether every point was scored.
    exact: bool,
    hub: HubReply,
    sequence: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Neighbour)]
struct NeighbourReply {
    #[schema(value_type = Id)]
    id: PointId,
    score: f32,
    raw_score: f32,
    /// `null` if the score is the method's own.
    bias: Option<f32>,
}

/// How often the point is an answer, and what corrections hold against it.
#[derive(Serialize, ToSchema)]
#[schema(as = HubOfPoint)]
struct HubReply {
    /// By the queries served since counting began; one for each ranking that served some.
    served: Vec<ServedReply>,
    /// One for each correction that subtracts a bias.
    biases: Vec<BiasReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HubAsServed)]
struct ServedReply {
    /// A correction's name, or `raw`.
    ranking: String,
    /// The queries that found it among their first ten.
    count: u32,
    queries: u64,
    /// How many a point is found by on average.
    mean: f64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HubBias)]
struct BiasReply {
    #[schema(value_type = String)]
    correction: Name,
    method: String,
    /// What is subtracted from its similarities when every gate is open.
    bias: f32,
    /// How many points have a larger one, plus one: 1 is the largest hub.
    rank: usize,
    /// The share of points whose bias is not larger: 1 for the largest hub.
    quantile: f64,
}

/// `GET /collections/{collection}/points/{id}/neighbours`
pub(crate) async fn neighbours(call: Call) -> HttpResponse {
    call.answer(&["k", "correction", "alpha", "exact", "id_type", "using"], |task| neighbours_task(&task))
        .await
}

fn neighbours_task(task: &Task) -> Result<Vec<u8>, Problem> {
    let (collection, watched): Served = task.served()?;
    let snapshot = collection.snapshot();
    let id = id_in_path(task)?;
    let row = snapshot.find(&id).map_err(|error| errors::read(&error))?;
    let row = match (row, snapshot.space_name()) {
        (Some(row), _) => row,
        (None, Some(name)) if snapshot.has_point(&id).map_err(|error| errors::read(&error))? => {
            return Err(errors::no_vector(&id, name));
        }
        (None, _) => return Err(errors::unknown_point(&id)),
    };
    let (k, ranking) = (k(task)?, ranking(task)?);
    let search = match task.parameters.text("exact") {
        None | Some("false") => Search::Auto,
        Some("true") => Search::Exact,
        Some(found) => return Err(task.parameters.refused("exact", found, "true or false")),
    };
    let limit = k.min(snapshot.len());
    let settings = Settings { limit: Some(limit), ranking, search, ..Settings::default() };
    let query = Query { source: Source::Point(id.clone()), settings };
    let scope = snapshot.scope().until(task.deadline()?);
    let responses =
        run_within(&snapshot, &scope, std::slice::from_ref(&query)).map_err(|error| refused(&error))?;
    let none = || Problem::new(INTERNAL, "the engine gave no answer");
    let response = responses.into_iter().next().ok_or_else(none)?;
    let served = watched.counts_of(&snapshot, row).into_iter();
    let hub = HubReply {
        served: served
            .map(|(ranking, count, queries, mean)| ServedReply { ranking, count, queries, mean })
            .collect(),
        biases: point_biases(&snapshot, row).into_iter().map(|bias| bias_reply(&snapshot, bias)).collect(),
    };
    task.reply(&NeighboursReply {
        id,
        correction: response.plan.correction.as_ref().map(|(name, ..)| name.clone()),
        neighbours: neighbour_replies(&snapshot, &response.hits)?,
        exact: response.plan.is_exact(),
        hub,
        sequence: response.sequence,
    })
}

/// An error of the engine, whose terms are all in the query string.
fn refused(error: &QueryError) -> Problem {
    if matches!(error, QueryError::UnknownCorrection { .. }) {
        return errors::hubness(error);
    }
    if matches!(error, QueryError::NoStrength { .. } | QueryError::Weight { .. }) {
        return Problem::new(INVALID_WEIGHT, error.to_string()).in_parameter("alpha");
    }
    errors::listing(error)
}

fn k(task: &Task) -> Result<usize, Problem> {
    match task.parameters.whole("k")?.unwrap_or(LIMIT_DEFAULT) {
        found if found == 0 || found > LIMIT_MAX => {
            Err(task.parameters.refused("k", &found.to_string(), &format!("1 to {LIMIT_MAX}")))
        }
        k => Ok(k),
    }
}

/// The ranking; raw unless one is named.
fn ranking(task: &Task) -> Result<Ranking, Problem> {
    let parameters = &task.parameters;
    let alpha = parameters.text("alpha").map(|text| {
        let wanted = "a number from 0 to 100";
        let number = text.parse::<f32>().ok().filter(|number| (0.0..=100.0).contains(number));
        number.ok_or_else(|| parameters.refused("alpha", text, wanted))
    });
    let alpha = alpha.transpose()?;
    match (parameters.text("correction"), alpha) {
        (None, Some(alpha)) => {
            Err(parameters.refused("alpha", &alpha.to_string(), "none without a correction"))
        }
        (None, None) => Ok(Ranking::Raw),
        (Some(name), alpha) => Ok(Ranking::named(Some(name.to_owned()), alpha.unwrap_or(1.0))),
    }
}

fn neighbour_replies(snapshot: &Snapshot, hits: &[Hit]) -> Result<Vec<NeighbourReply>, Problem> {
    let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let reply = |(point, hit): (Point, &Hit)| {
        let Hit { score, raw_score, bias, .. } = *hit;
        NeighbourReply { id: point.id, score, raw_score, bias }
    };
    Ok(points.into_iter().zip(hits).map(reply).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
fn bias_reply(snapshot: &Snapshot, bias: PointBias) -> BiasReply {
    let points = snapshot.len() as f64;
    let PointBias { correction, label, bias, rank } = bias;
    let quantile = (points - (rank - 1) as f64) / points;
    BiasReply { correction, method: label, bias, rank, quantile }
}
