//! Whether an answer can change when a stale correction takes in what its banks have.

use dehub_index::{Column, Correction, Growth, Question, Scope, Snapshot, TimeUp, Variant};

use crate::QueryError;
use crate::execute::Hit;
use crate::query::Prepared;

/// What rounding in 32 bits can do to a score, as a part of the numbers it is made of.
const ROUNDING: f64 = 2e-6;

/// What the entries that a correction has not taken in can do to an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Staleness {
    /// How many entries these are; the most of any of its banks.
    pub entries: usize,
    /// For each hit, how far its score can move. `None`: there is no bound for its method.
    pub bounds: Vec<Option<Bound>>,
    /// Whether the hits and their order stay the same whatever the entries are.
    pub certified: bool,
}

/// How far a score can move at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Upwards, at least 0.
    pub rise: f64,
    /// Downwards, at least 0.
    pub fall: f64,
}

/// What a correction makes of the movements of its columns, for one way of its gates.
struct Movement {
    /// The weight of each column.
    weights: Vec<f64>,
    /// A floor depends on every point's bias, a gate that is closed may open, and a score that is no weighted
    /// sum moves as it likes.
    is_bounded: bool,
}

impl Movement {
    /// How far a score can move, from how far each column can.
    fn bound(&self, columns: &[Option<Growth>]) -> Option<Bound> {
        if !self.is_bounded {
            return None;
        }
        let mut bound = Bound { rise: 0.0, fall: 0.0 };
        for (weight, column) in self.weights.iter().zip(columns) {
            if *weight == 0.0 {
                continue;
            }
            let Growth { rise, fall } = (*column)?;
            let (up, down) = if *weight > 0.0 { (fall, rise) } else { (rise, fall) };
            bound.rise += weight.abs() * up;
            bound.fall += weight.abs() * down;
        }
        // A scale has no bound, unless its bank has nothing new.
        let scales = columns.get(self.weights.len()).copied();
        scales.is_none_or(|scale| scale == Some(Growth::default())).then_some(bound)
    }
}

/// What unseen entries can do to the answer `hits` of a query; `None` if the correction is up to date.
pub(crate) fn staleness(
    snapshot: &Snapshot,
    scope: &Scope,
    query: &Prepared,
    found: Option<(&Correction, f32)>,
    priors: &[(&Column, f32)],
    hits: &[Hit],
) -> Result<Option<Staleness>, QueryError> {
    let Some((correction, strength)) = found.filter(|(correction, _)| correction.info().stale > 0) else {
        return Ok(None);
    };
    let raw_best = best(snapshot, scope, query, &Variant::raw(), 1)?.first().map(|best| best.0);
    let open = correction.open(raw_best);
    let variant = correction.variant(&open, strength).boosted(priors);
    let method = correction.info().method;
    let kept = (1.0 - method.guard().shrink) * f64::from(strength);
    let movement = Movement {
        weights: method.weights(&open).into_iter().map(|weight| weight * kept).collect(),
        is_bounded: method.guard().floor == 0.0
            && open.iter().all(|&open| open)
            && correction.scorer().is_none(),
    };
    let mut bounds = Vec::with_capacity(hits.len());
    for hit in hits {
        bounds.push(movement.bound(&snapshot.growth(correction, hit.row)?));
    }
    let most = hits.len() + 1 + usize::from(query.own_row.is_some());
    let others = best(snapshot, scope, query, &variant, most)?;
    let others: Vec<(u32, f32)> = others.into_iter().filter(|it| Some(it.0) != query.own_row).collect();
    let fall_of_any = snapshot.fall_of_any(correction);
    let any = fall_of_any.iter().map(|fall| fall.map(|fall| Growth { rise: f64::INFINITY, fall }));
    let any = movement.bound(&any.collect::<Vec<_>>());
    let certified = is_certified(hits, &bounds, &others, any);
    Ok(Some(Staleness { entries: correction.info().stale, bounds, certified }))
}

/// Whether the exact best are the hits in their order, and each stays above the next one, the last above
/// every point that is no hit.
fn is_certified(hits: &[Hit], bounds: &[Option<Bound>], best: &[(u32, f32)], any: Option<Bound>) -> bool {
    let is_exact = best.len() >= hits.len() && hits.iter().zip(best).all(|(hit, best)| hit.row == best.0);
    // The least and the most a hit's score can become, and the size of what it is made of.
    let range = |place: usize| {
        let (hit, bound) = (&hits[place], bounds[place]?);
        let (bias, scale) = (hit.bias.unwrap_or(0.0), hit.scale.unwrap_or(1.0));
        let boost = hit.boost.unwrap_or(0.0);
        let size = f64::from(hit.score.abs() + bias.abs() + boost.abs() + hit.raw_score.abs() * scale.abs());
        Some((f64::from(hit.score) - bound.fall, f64::from(hit.score) + bound.rise, size))
    };
    let stays_above = |place: usize| {
        let Some((low, _, size)) = range(place) else { return false };
        let next = match (hits.get(place + 1), best.get(place + 1)) {
            (Some(_), _) => range(place + 1).map(|(_, high, size)| (high, size)),
            (None, Some(&(_, score))) => any.map(|any| (f64::from(score) + any.rise, f64::from(score.abs()))),
            (None, None) => return true,
        };
        next.is_some_and(|(high, other)| low - high > ROUNDING * (1.0 + size + other))
    };
    is_exact && (0..hits.len()).all(stays_above)
}

/// The exact best rows of a scope under a ranking, and their scores.
fn best(
    snapshot: &Snapshot,
    scope: &Scope,
    query: &Prepared,
    variant: &Variant<'_>,
    limit: usize,
) -> Result<Vec<(u32, f32)>, TimeUp> {
    let question = Question { vectors: std::slice::from_ref(&query.vector), limit, targets: &[] };
    let mut answers = snapshot.scan_within(scope, &question, std::slice::from_ref(variant))?;
    let answer = answers.swap_remove(0).swap_remove(0);
    Ok(answer.best.into_iter().map(|best| (best.row, best.score)).collect())
}
