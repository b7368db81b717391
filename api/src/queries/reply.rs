//! Answers to requests.

use std::collections::BTreeMap;

use dehub_index::{Point, Snapshot};
use dehub_query::{Answered, Bound, Found, Hit, Plan, Staleness};
use dehub_vector::PointId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::bodies::searches::{self, HitRow};
use crate::call::Answer as Reply;
use crate::errors;
use crate::observe::encoding;
use crate::openapi::Id;
use crate::problem::Problem;
use crate::scroll::OrderValueReply;
use crate::selectors::{Parts, Selection};

/// The answer to one request.
#[derive(Serialize, ToSchema)]
pub(crate) struct Answer {
    pub(crate) points: Vec<HitReply>,
    #[serde(flatten)]
    pub(crate) found_by: FoundBy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explain: Option<ExplainReply>,
}

/// How an answer was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoundBy {
    hubness: HubnessReply,
    /// Whether every point was scored.
    exact: bool,
    /// The newest commit that the answer takes into account.
    sequence: u64,
}

/// A point of an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Hit)]
pub(crate) struct HitReply {
    #[schema(value_type = Id)]
    id: PointId,
    /// Always 0: points have no versions of their own.
    version: u64,
    /// `scale * raw_score - bias + boost`, or a score of the method's own; larger is better. Under `Euclid` a raw
    /// ranking has the distance here, smaller is better.
    score: f32,
    /// `null` if the score is not of one query.
    raw_score: Option<f32>,
    /// `null`, as the scale, if the score is no such difference.
    bias: Option<f32>,
    /// 1 for methods that only subtract.
    scale: Option<f32>,
    /// What the priors of the query added, if it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    boost: Option<f32>,
    /// Its rank in the exact raw ranking, from 1, when an explanation was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank_raw: Option<u32>,
    /// What it was ordered by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    order_value: Option<OrderValueReply>,
    #[serde(flatten)]
    parts: Parts,
}

/// The correction an answer is ranked by.
#[derive(Serialize, ToSchema)]
#[schema(as = HubnessOfAnswer)]
struct HubnessReply {
    /// `name@version`, or `null` for the raw ranking.
    correction: Option<String>,
    method: Option<String>,
    /// The factor on its bias.
    alpha: Option<f32>,
    /// For a gated method, whether any of its gates was open for this query.
    gate_open: Option<bool>,
}

/// An answer with the label that its query was given.
#[derive(Serialize, ToSchema)]
#[schema(as = LabelledAnswer)]
pub(crate) struct Labelled {
    #[schema(value_type = Id)]
    query_id: PointId,
    #[serde(flatten)]
    answer: Answer,
}

/// Answers with the labels of their queries.
pub(crate) fn labelled(labels: Vec<PointId>, answers: Vec<Answer>) -> Vec<Labelled> {
    labels.into_iter().zip(answers).map(|(query_id, answer)| Labelled { query_id, answer }).collect()
}

/// Answers as an Arrow stream.
pub(crate) fn arrow(
    answers: &[Answer],
    labels: Option<&[PointId]>,
    has_payloads: bool,
) -> Result<Reply, Problem> {
    let hit = |hit: &HitReply| HitRow {
        id: hit.id.clone(),
        score: hit.score,
        raw_score: hit.raw_score,
        bias: hit.bias,
        payload: hit.parts.payload_json(),
    };
    let hits: Vec<Vec<HitRow>> =
        answers.iter().map(|answer| answer.points.iter().map(hit).collect()).collect();
    let stream = encoding().in_scope(|| searches::to_arrow(&hits, labels, has_payloads));
    Ok(Reply::arrow(stream?))
}

/// How an answer came about.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplainReply {
    pub(crate) plan: String,
    /// The answer without the correction.
    pub(crate) raw: Vec<HitReply>,
    /// The rank of each hit in the exact raw ranking, from 1.
    pub(crate) raw_ranks: Vec<u32>,
    /// For each hit, what each prior of the query added to its score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) boosts: Vec<BTreeMap<String, f32>>,
    /// For a correction that is behind its banks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) staleness: Option<StalenessReply>,
}

/// What the bank entries that a correction has not taken in can do to the answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Staleness)]
pub(crate) struct StalenessReply {
    entries: usize,
    /// Whether the hits and their order stay whatever the entries are.
    certified: bool,
    /// For each hit, how far its score can move; `null` where there is no bound.
    bounds: Vec<Option<BoundReply>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Bound)]
struct BoundReply {
    rise: f64,
    fall: f64,
}

impl StalenessReply {
    /// Of the hits that are shown; the certificate is of all before them too.
    pub(crate) fn new(staleness: &Staleness, skipped: usize, shown: usize) -> StalenessReply {
        let bound = |bound: &Option<Bound>| bound.map(|Bound { rise, fall }| BoundReply { rise, fall });
        StalenessReply {
            entries: staleness.entries,
            certified: staleness.certified,
            bounds: staleness.bounds.iter().skip(skipped).take(shown).map(bound).collect(),
        }
    }
}

impl FoundBy {
    pub(crate) fn new(answered: &Answered) -> FoundBy {
        let correction = answered.plan.as_ref().and_then(|plan: &Plan| plan.correction.as_ref());
        FoundBy {
            hubness: HubnessReply {
                correction: correction.map(|(name, ..)| name.clone()),
                method: correction.map(|(_, method, _)| method.clone()),
                alpha: correction.map(|&(.., alpha)| alpha),
                gate_open: answered.gate_open,
            },
            exact: answered.is_exact,
            sequence: answered.sequence,
        }
    }
}

/// Hits with the parts that are asked for, and their ranks in the raw ranking if these are known.
pub(crate) fn hits(
    snapshot: &Snapshot,
    hits: &[Found],
    ranks: Option<&[u32]>,
    selection: &Selection,
) -> Result<Vec<HitReply>, Problem> {
    let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let reply = |(place, (mut point, found)): (usize, (Point, &Found))| {
        let parts = selection.parts(snapshot, found.row, &mut point)?;
        let Found { score, hit, order_value, .. } = *found;
        Ok(HitReply {
            id: point.id,
            version: 0,
            score,
            raw_score: hit.map(|hit: Hit| hit.raw_score),
            bias: hit.and_then(|hit| hit.bias),
            scale: hit.and_then(|hit| hit.scale),
            boost: hit.and_then(|hit| hit.boost),
            rank_raw: ranks.and_then(|ranks| ranks.get(place).copied()),
            order_value: order_value.map(OrderValueReply::new),
            parts,
        })
    };
    points.into_iter().zip(hits).enumerate().map(reply).collect()
}
