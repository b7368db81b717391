//! Ranking by several examples.
//!
//! The *core score* of a point for an example is the similarity, or `−‖q − p‖²` under [`Metric::Euclidean`]; with a
//! correction it is made of the corrected score in the place of the similarity.

use dehub_index::{Question, Scope, Snapshot};
use dehub_vector::{Metric, Vector};

use super::serve::squared_distance;
use super::{Feedback, Found, Kind};
use crate::QueryError;
use crate::query::{Prepared, Query, Settings, Source};
use crate::ranking::{Rankings, rank_within};

/// What two numbers of 32 bits near 1 differ by at least: a point must be on the right side of a pair by so much.
const MARGIN: f64 = 1.192_092_9e-7;

/// What is made of the examples of a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One query: twice the mean of those to be like, less the mean of those to be unlike; the former alone
    /// without the latter.
    #[default]
    AverageVector,
    /// `½(1 + x/(1 + |x|))` of the best core score `x` if that is of an example to be like, and minus that if it
    /// is of one to be unlike.
    BestScore,
    /// The sum of the core scores for those to be like, less the sum for those to be unlike.
    SumScores,
}

/// An example to be nearer to than to another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// To be nearer to this one.
    pub positive: Source,
    /// Than to this one.
    pub negative: Source,
}

impl Pair {
    fn both(&self) -> [&Source; 2] {
        [&self.positive, &self.negative]
    }
}

impl Kind {
    /// The examples it is made of, in the order in which they are numbered: of a recommendation those to be like
    /// first; the target first, then the pairs.
    pub fn examples(&self) -> Vec<&Source> {
        match self {
            Kind::ById | Kind::OrderBy(_) | Kind::Sample { .. } | Kind::Text(_) | Kind::Fusion(_) => {
                Vec::new()
            }
            Kind::Nearest(source) | Kind::Feedback(Feedback { source, .. }) => vec![source],
            Kind::Recommend { positive, negative, .. } => positive.iter().chain(negative).collect(),
            Kind::Discover { target, context } => {
                std::iter::once(target).chain(context.iter().flat_map(Pair::both)).collect()
            }
            Kind::Context(pairs) => pairs.iter().flat_map(Pair::both).collect(),
        }
    }

    /// Takes in the core score of a point for the example of a number; they come in order.
    fn take(&self, tally: &mut Tally, number: usize, core: f64) {
        match self {
            Kind::Recommend { positive, strategy, .. } => {
                let side = if number < positive.len() { &mut tally.like } else { &mut tally.unlike };
                *side = Some(match (*side, strategy) {
                    (None, _) => core,
                    (Some(before), Strategy::BestScore) => before.max(core),
                    (Some(before), Strategy::SumScores | Strategy::AverageVector) => before + core,
                });
            }
            Kind::Discover { .. } if number == 0 => tally.sum += half_sigmoid(core),
            Kind::Discover { .. } | Kind::Context(_) => match tally.like.take() {
                None => tally.like = Some(core),
                Some(like) => tally.sum += self.side(like, core),
            },
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Feedback(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => tally.sum = core,
        }
    }

    /// What a pair adds to the score of a point.
    fn side(&self, like: f64, unlike: f64) -> f64 {
        match self {
            Kind::Context(_) => sigmoid((like - unlike - MARGIN).min(0.0)),
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Feedback(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => f64::from(i8::from(like > unlike) - i8::from(like < unlike)),
        }
    }

    /// The score of a point once all examples are taken in.
    fn score(&self, tally: Tally) -> f64 {
        let Tally { like, unlike, sum } = tally;
        match self {
            Kind::Recommend { strategy: Strategy::BestScore, .. } => match (like, unlike) {
                (Some(like), unlike) if unlike.is_none_or(|unlike| like > unlike) => half_sigmoid(like),
                (_, unlike) => -half_sigmoid(unlike.unwrap_or(f64::NEG_INFINITY)),
            },
            Kind::Recommend { .. } => like.unwrap_or(0.0) - unlike.unwrap_or(0.0),
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Text(_)
            | Kind::Fusion(_) => sum,
        }
    }
}

/// What is known of the score of a point from the examples taken in.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Of those to be like; of pairs, that of the one whose other side is still to come.
    like: Option<f64>,
    /// Of those to be unlike.
    unlike: Option<f64>,
    /// Of pairs and a target.
    sum: f64,
}

/// From −1 to 1.
fn sigmoid(x: f64) -> f64 {
    if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }
}

/// From 0 to 1.
fn half_sigmoid(x: f64) -> f64 {
    0.5 * (1.0 + sigmoid(x))
}

/// The query that stands for the examples of a recommendation.
#[expect(clippy::cast_possible_truncation, reason = "a query has 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "examples are few")]
pub(crate) fn average(
    snapshot: &Snapshot,
    positive: &[Source],
    negative: &[Source],
) -> Result<Vec<f32>, QueryError> {
    let dim = snapshot.config().dim;
    let mean = |sources: &[Source], first: usize| -> Result<Vec<f64>, QueryError> {
        let mut mean = vec![0.0; dim.get()];
        for (place, source) in (first..).zip(sources) {
            let vector = match source {
                Source::Vector(numbers) => {
                    // The mean is of vectors as they are given: only its own length is made one under cosine.
                    let checked = Vector::single(numbers, dim, Metric::Dot);
                    checked.map_err(|source| QueryError::Vector { place, source })?
                }
                Source::Point(_) => prepared(snapshot, source, place)?.vector,
            };
            let share = 1.0 / sources.len() as f64;
            mean.iter_mut().zip(vector.as_slice()).for_each(|(sum, &part)| *sum += share * f64::from(part));
        }
        Ok(mean)
    };
    let like = mean(positive, 0)?;
    if negative.is_empty() {
        return Ok(like.into_iter().map(|part| part as f32).collect());
    }
    let unlike = mean(negative, positive.len())?;
    Ok(like.iter().zip(unlike).map(|(like, unlike)| (2.0 * like - unlike) as f32).collect())
}

fn prepared(snapshot: &Snapshot, source: &Source, place: usize) -> Result<Prepared, QueryError> {
    Query { source: source.clone(), settings: Settings::default() }.prepare(place, snapshot)
}

/// The best `limit` points of a scope by all examples of a request, best first, ties by the lower row. Every
/// point is scored for every example.
#[expect(clippy::cast_possible_truncation, reason = "scores have 32 bits")]
pub(crate) fn rank(
    snapshot: &Snapshot,
    scope: &Scope,
    kind: &Kind,
    settings: &Settings,
    limit: usize,
) -> Result<Vec<Found>, QueryError> {
    let examples = kind.examples().into_iter().enumerate();
    let examples = examples.map(|(place, source)| prepared(snapshot, source, place));
    let examples = examples.collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<u32> = scope.rows().collect();
    let tallies = tallies(snapshot, scope, kind, settings, &examples, &rows)?;
    let is_raw = settings.ranking.find(snapshot)?.is_none();
    let mut ranked: Vec<(u32, f64)> =
        rows.iter().zip(tallies).map(|(&row, tally)| (row, kind.score(tally))).collect();
    let better =
        |left: &(u32, f64), right: &(u32, f64)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
    if limit < ranked.len() {
        ranked.select_nth_unstable_by(limit, better);
        ranked.truncate(limit);
    }
    if is_raw {
        for (row, score) in &mut ranked {
            let mut tally = Tally::default();
            for (number, example) in examples.iter().enumerate() {
                kind.take(&mut tally, number, core(snapshot, &example.vector, *row));
            }
            *score = kind.score(tally);
        }
    }
    ranked.sort_unstable_by(better);
    scope
        .in_time(ranked.into_iter().map(|(row, score)| Found::scored(row, score as f32)).collect())
        .map_err(QueryError::from)
}

/// What all examples give each of the rows.
fn tallies(
    snapshot: &Snapshot,
    scope: &Scope,
    kind: &Kind,
    settings: &Settings,
    examples: &[Prepared],
    rows: &[u32],
) -> Result<Vec<Tally>, QueryError> {
    let rankings = Rankings::new(settings.ranking.find(snapshot)?);
    let tables = std::slice::from_ref(&rankings);
    let factor = core_factor(snapshot);
    let mut tallies = vec![Tally::default(); rows.len()];
    for (number, example) in examples.iter().enumerate() {
        let question =
            Question { vectors: std::slice::from_ref(&example.vector), limit: rows.len(), targets: &[] };
        let ranked = rank_within(snapshot, scope, &question, &[example.own_row], tables)?;
        for candidate in ranked.into_iter().flatten().flat_map(|ranked| ranked.best) {
            if let Ok(place) = rows.binary_search(&candidate.row) {
                kind.take(&mut tallies[place], number, factor * f64::from(candidate.score));
            }
        }
    }
    Ok(tallies)
}

/// What a score is multiplied by to be a core score.
fn core_factor(snapshot: &Snapshot) -> f64 {
    match snapshot.config().metric {
        Metric::Cosine | Metric::Dot => 1.0,
        Metric::Euclidean => 2.0,
    }
}

/// The raw core score in full.
fn core(snapshot: &Snapshot, example: &Vector, row: u32) -> f64 {
    let (example, point) = (example.as_slice(), snapshot.vector(row));
    match snapshot.config().metric {
        Metric::Cosine | Metric::Dot => {
            example.iter().zip(point).map(|(&left, &right)| f64::from(left) * f64::from(right)).sum()
        }
        Metric::Euclidean => -squared_distance(example, point),
    }
}
