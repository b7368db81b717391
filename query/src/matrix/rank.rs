//! Exact rankings of rows of similarities.

use dehub_index::Scored;
use dehub_normalize::{PointSide, Scorer};
use dehub_vector::{Candidate, TopK};
use rayon::prelude::*;

use super::fit::{MatrixColumn, MatrixCorrection, number};
use super::{MatrixError, Similarities, each_block};
use crate::outcome::Ranked;

/// Numbers compared with a threshold at once.
const LANES: usize = 64;

/// Queries to be ranked.
#[derive(Clone, Copy)]
pub struct MatrixQuestion<'a> {
    /// A row a query.
    pub similarities: &'a dyn Similarities,
    /// The points whose ranks and scores are wanted, a list for each query.
    pub targets: &'a [Vec<u32>],
    /// The points whose scores alone are wanted, a list for each query.
    pub sample: &'a [Vec<u32>],
    /// How many of the best points are listed.
    pub limit: usize,
}

/// Ranks every point for every query, raw and by each correction: raw comes first. Ties go to the lower point.
///
/// # Errors
/// [`MatrixError::Columns`] if the corrections are of another number of points.
///
/// # Panics
/// If a list of points is missing, or names one beyond the last.
pub fn rank_matrix(
    question: &MatrixQuestion<'_>,
    corrections: &[&MatrixCorrection],
) -> Result<Vec<Ranked>, MatrixError> {
    let MatrixQuestion { similarities, targets, sample, limit } = *question;
    let (rows, points) = (similarities.rows(), similarities.columns());
    assert!(targets.len() == rows && sample.len() == rows, "lists for each query");
    for correction in corrections {
        let found =
            correction.terms.first().or(correction.scale.as_ref()).map_or(points, |it| it.values.len());
        if found != points {
            let (name, other) = (similarities.name(), correction.method.to_string());
            return Err(MatrixError::Columns { name, wanted: found, other, found: points });
        }
    }
    let tables: Vec<Table<'_>> = corrections.iter().map(|correction| Table::new(correction)).collect();
    let mut ranked = vec![Ranked::default(); 1 + tables.len()];
    let order: Vec<u32> = (0..).take(rows).collect();
    each_block(similarities, &order, &[], &mut |first, block| {
        let lines = block.par_chunks_exact(points).enumerate().map_init(Vec::new, |scores, (place, line)| {
            let query = first + place;
            let asked = Asked { line, targets: &targets[query], sample: &sample[query], limit };
            let raw = asked.answer(line, None);
            let raw_best = raw.best.first().copied();
            let answers = tables.iter().map(|table| table.answer(&asked, raw_best, scores));
            std::iter::once(raw.clone()).chain(answers).collect::<Vec<_>>()
        });
        for answers in lines.collect::<Vec<_>>() {
            ranked.iter_mut().zip(answers).for_each(|(ranked, answer)| ranked.push(answer));
        }
    })?;
    Ok(ranked)
}

/// What one ranking did with one query.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    /// Best first.
    pub(crate) best: Vec<u32>,
    /// The rank of each target, from 1.
    pub(crate) ranks: Vec<u32>,
    /// The score of each target.
    pub(crate) of_targets: Vec<f32>,
    /// The score of each point of the sample.
    pub(crate) of_sample: Vec<f32>,
    /// Whether any gate is open, if there are gates.
    pub(crate) gate_open: Option<bool>,
}

/// A query with its similarities.
struct Asked<'a> {
    line: &'a [f32],
    targets: &'a [u32],
    sample: &'a [u32],
    limit: usize,
}

impl Asked<'_> {
    /// The answer by scores, one a point.
    fn answer(&self, scores: &[f32], gate_open: Option<bool>) -> Answered {
        let score = |&point: &u32| scores[point as usize];
        Answered {
            best: best_of(scores, self.limit),
            ranks: self.targets.iter().map(|&target| rank_of(scores, target)).collect(),
            of_targets: self.targets.iter().map(score).collect(),
            of_sample: self.sample.iter().map(score).collect(),
            gate_open,
        }
    }
}

/// The best points by their scores.
fn best_of(scores: &[f32], limit: usize) -> Vec<u32> {
    let mut top = TopK::new(limit);
    let mut floor = f32::NEG_INFINITY;
    for (group, scores) in scores.chunks(LANES).enumerate() {
        // Points come in ascending order, so one that only ties with the worst is not better.
        if !scores.iter().fold(false, |any, &score| any | (score > floor)) {
            continue;
        }
        for (point, &score) in (group * LANES..).zip(scores) {
            if top.push(Candidate::new(score, number(point)))
                && let Some(worst) = top.threshold()
            {
                floor = worst.score;
            }
        }
    }
    top.into_sorted().into_iter().map(|candidate| candidate.row).collect()
}

/// The rank of a point: 1 and how many have a higher score, or the same and a lower number.
fn rank_of(scores: &[f32], target: u32) -> u32 {
    let own = scores[target as usize];
    let (before, after) = scores.split_at(target as usize);
    let before: u32 = before.iter().map(|&score| u32::from(score >= own)).sum();
    let after: u32 = after.iter().map(|&score| u32::from(score > own)).sum();
    1 + before + after
}

/// A correction made ready: what each way of being open subtracts and multiplies by.
enum Table<'a> {
    Sum { correction: &'a MatrixCorrection, openings: Vec<Opening> },
    Scored { scorer: Scorer, sides: Vec<PointSide<'a>> },
}

/// `score = scale·s − bias`; nothing where it is raw.
#[derive(Default)]
struct Opening {
    scale: Vec<f32>,
    bias: Vec<f32>,
}

impl<'a> Table<'a> {
    fn new(correction: &'a MatrixCorrection) -> Table<'a> {
        if let Some(scorer) = correction.method.scorer() {
            return Table::Scored { scorer, sides: sides(correction, scorer) };
        }
        let gates = correction.gates.len();
        let openings = (0..1_u32 << gates).map(|bits| {
            let open: Vec<bool> = match gates {
                0 => vec![true; correction.terms.len()],
                _ => (0..gates).map(|gate| bits >> gate & 1 == 1).collect(),
            };
            Opening::new(correction, &open)
        });
        Table::Sum { correction, openings: openings.collect() }
    }

    fn answer(&self, asked: &Asked<'_>, raw_best: Option<u32>, scores: &mut Vec<f32>) -> Answered {
        match self {
            Table::Sum { correction, openings } => {
                let is_open = |gate: &Vec<bool>| raw_best.is_some_and(|best| gate[best as usize]);
                let open: Vec<bool> = correction.gates.iter().map(is_open).collect();
                let bits: usize =
                    open.iter().enumerate().map(|(gate, &open)| usize::from(open) << gate).sum();
                let gate_open = (!open.is_empty()).then(|| open.contains(&true));
                openings[bits].score(asked.line, scores);
                asked.answer(scores, gate_open)
            }
            Table::Scored { scorer, sides } => scored(asked, *scorer, sides),
        }
    }
}

impl Opening {
    #[expect(clippy::cast_possible_truncation, reason = "weights are served in 32 bits")]
    fn new(correction: &MatrixCorrection, open: &[bool]) -> Opening {
        let weights = correction.method.weights(open);
        let mut bias: Vec<f32> = Vec::new();
        for (column, weight) in correction.terms.iter().zip(weights).filter(|&(_, weight)| weight != 0.0) {
            bias.resize(column.values.len(), 0.0);
            bias.iter_mut().zip(&column.values).for_each(|(bias, value)| *bias += weight as f32 * value);
        }
        let scale = correction.scale.as_ref().map_or(Vec::new(), |column| {
            column.values.iter().map(|value| value + column.center as f32).collect()
        });
        Opening { scale, bias }
    }

    fn score(&self, line: &[f32], scores: &mut Vec<f32>) {
        scores.clear();
        scores.extend_from_slice(line);
        // One of the two may be missing.
        scores.iter_mut().zip(&self.scale).for_each(|(score, scale)| *score *= scale);
        scores.iter_mut().zip(&self.bias).for_each(|(score, bias)| *score -= bias);
    }
}

fn sides(correction: &MatrixCorrection, scorer: Scorer) -> Vec<PointSide<'_>> {
    let wide = |column: &MatrixColumn, point: usize| f64::from(column.values[point]) + column.center;
    let least = scorer.statistic_min().unwrap_or(f64::NEG_INFINITY);
    let first = correction.terms.first();
    let points = first.map_or(0, |column| column.values.len());
    let side = |point: usize| PointSide {
        statistic: first.map_or(0.0, |column| wide(column, point)).max(least),
        scale: correction.scale.as_ref().map_or(1.0, |column| wide(column, point)),
        largest: first.and_then(|column| column.lists.as_ref()).map_or(&[], |lists| lists.row(point)),
    };
    (0..points).map(side).collect()
}

/// The answer by a score that is no weighted sum. Equal scores are ordered by the similarity.
fn scored(asked: &Asked<'_>, scorer: Scorer, sides: &[PointSide<'_>]) -> Answered {
    let near = scorer.query_neighbours().map(|k| {
        let mut all = asked.line.to_vec();
        all.sort_unstable_by(|a, b| b.total_cmp(a));
        all.truncate(k);
        all
    });
    let of_query = scorer.for_query(&near.unwrap_or_default(), &[]);
    let score = |(row, (&similarity, &side)): (u32, (&f32, &PointSide<'_>))| {
        let similarity = similarity + 0.0;
        Scored { row, similarity, score: of_query.score(similarity, side) + 0.0 }
    };
    let all: Vec<Scored> = (0..).zip(asked.line.iter().zip(sides)).map(score).collect();
    let served = |&point: &u32| all[point as usize].served();
    let rank = |&target: &u32| {
        let own = all[target as usize];
        number(1 + all.iter().filter(|&other| *other > own).count())
    };
    let (ranks, of_targets) =
        (asked.targets.iter().map(rank).collect(), asked.targets.iter().map(served).collect());
    let of_sample = asked.sample.iter().map(served).collect();
    let mut best = all;
    best.sort_unstable_by(|a, b| b.cmp(a));
    let best = best.into_iter().take(asked.limit).map(|scored| scored.row).collect();
    Answered { best, ranks, of_targets, of_sample, gate_open: None }
}
