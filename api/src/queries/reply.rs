//! Answers to requests.

use std::collections::BTreeMap;

use dehub_index::{Point, Snapshot};
use dehub_query::{Answered, Bound, FieldScore, Found, FusedSource, Hit, Part, Plan, Staleness};
use dehub_vector::PointId;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Asked;
use super::highlights::{HighlightReply, Highlighting};
use crate::bodies::searches::{self, HitRow};
use crate::call::Answer as Reply;
use crate::errors;
use crate::observe::encoding;
use crate::openapi::Id;
use crate::problem::Problem;
use crate::scroll::OrderValueReply;
use crate::selectors::Parts;

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
    /// What each source of a fusion gave it, when an explanation was asked for.
    #[serde(rename = "parts", skip_serializing_if = "Option::is_none")]
    of_sources: Option<Vec<PartReply>>,
    /// What each field of texts gave it, when an explanation was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<BTreeMap<String, f32>>,
    /// The parts of its texts with words that were looked for, if these were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Vec<HighlightReply>>,
    #[serde(flatten)]
    parts: Parts,
}

/// What one source of a fusion gave a point.
#[derive(Serialize, ToSchema)]
#[schema(as = FusionPart)]
pub(crate) struct PartReply {
    /// The number of the source, from 0.
    source: usize,
    kind: &'static str,
    /// The point's place there, from 1.
    rank: usize,
    /// Its score there; larger is better, but for distances.
    score: f32,
    /// What normalising made of the score; `null` if ranks are fused.
    normalized: Option<f64>,
    weight: f64,
    /// What it adds to the score of the point.
    contribution: f64,
    /// For a source of words, what each field of texts gave the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<BTreeMap<String, f32>>,
}

/// One of the rankings that were fused.
#[derive(Serialize, ToSchema)]
#[schema(as = FusionSource)]
pub(crate) struct SourceReply {
    kind: &'static str,
    /// The name of the vector it was searched by.
    using: Option<String>,
    /// `name@version`, or `null` for a ranking without a correction.
    correction: Option<String>,
    /// Whether its scores are distances: smaller is better.
    distance: bool,
    weight: f64,
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
    /// The rankings that were fused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<SourceReply>,
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

/// What each field of texts gave a point.
pub(crate) fn by_field(scores: &[FieldScore]) -> BTreeMap<String, f32> {
    let mut fields = BTreeMap::new();
    scores.iter().for_each(|part| *fields.entry(part.field.clone()).or_default() += part.score);
    fields
}

impl HitReply {
    pub(crate) fn tell_fields(&mut self, scores: &[FieldScore]) {
        self.fields = Some(by_field(scores));
    }

    pub(crate) fn tell_parts(&mut self, parts: Vec<PartReply>) {
        self.of_sources = Some(parts);
    }
}

impl PartReply {
    pub(crate) fn new(part: &Part, source: &FusedSource, fields: Option<BTreeMap<String, f32>>) -> PartReply {
        let Part { source: number, rank, score, normalized, contribution } = *part;
        let FusedSource { kind, weight, .. } = *source;
        PartReply { source: number, kind, rank, score, normalized, weight, contribution, fields }
    }
}

impl SourceReply {
    pub(crate) fn new(source: &FusedSource) -> SourceReply {
        let FusedSource { kind, using, correction, is_distance, weight } = source.clone();
        SourceReply { kind, using, correction, distance: is_distance, weight }
    }
}

/// Hits with the parts that are asked for, and their ranks in the raw ranking if these are known.
pub(crate) fn hits(
    snapshot: &Snapshot,
    hits: &[Found],
    ranks: Option<&[u32]>,
    asked: &Asked,
) -> Result<Vec<HitReply>, Problem> {
    let Asked { places, request, selection, highlight, .. } = asked;
    let words = |it: &Highlighting| Ok::<_, Problem>((it.clone(), it.words(request, &places.base)?));
    let highlight = highlight.as_ref().map(words).transpose()?;
    let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
    let points = snapshot.points(&rows).map_err(|error| errors::read(&error))?;
    let reply = |(place, (mut point, found)): (usize, (Point, &Found))| {
        let highlights = highlight.as_ref().map(|(how, words)| how.of(snapshot, words, &point, &places.base));
        let highlights = highlights.transpose()?;
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
            of_sources: None,
            fields: None,
            highlights,
            parts,
        })
    };
    points.into_iter().zip(hits).enumerate().map(reply).collect()
}
