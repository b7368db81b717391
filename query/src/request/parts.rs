//! What a fused score is made of.

use std::collections::HashMap;
use std::fmt;

use super::fusion::{Fusion, List};
use super::{Answered, Request};

/// A fusion with the rankings that it was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused {
    fusion: Fusion,
    lists: Vec<List>,
    sources: Vec<FusedSource>,
}

/// One of the rankings: what a prefetch found.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedSource {
    /// What it was ranked by: see [`super::Kind::name`].
    pub kind: &'static str,
    /// The named vector it was searched by.
    pub using: Option<String>,
    /// The correction it was ranked by, as `name@version`.
    pub correction: Option<String>,
    /// Whether its scores are distances: smaller is better.
    pub is_distance: bool,
    /// Its weight in the fusion; those of a convex combination have the sum 1.
    pub weight: f64,
}

/// What one source gave a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The number of the source, from 0.
    pub source: usize,
    /// The point's place there, from 1.
    pub rank: usize,
    /// Its score as that source serves it.
    pub score: f32,
    /// What normalising made of the score, before the weight; `None` if the fusion is by ranks.
    pub normalized: Option<f64>,
    /// What it adds to the fused score.
    pub contribution: f64,
}

impl fmt::Display for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of", self.fusion)?;
        for (place, source) in self.sources.iter().enumerate() {
            write!(f, "{} {source}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for FusedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.using.iter().try_for_each(|using| write!(f, " in {using}"))?;
        self.correction.iter().try_for_each(|correction| write!(f, " by {correction}"))?;
        if self.weight == 1.0 { Ok(()) } else { write!(f, " weighing {:.3}", self.weight) }
    }
}

impl Fused {
    pub(crate) fn new(fusion: &Fusion, requests: &[Request], answers: &[Answered]) -> Fused {
        let list = |answered: &Answered| List {
            scores: answered.hits.iter().map(|hit| (hit.row, hit.score)).collect(),
            is_distance: answered.is_distance,
        };
        let source = |(number, (request, answered)): (usize, (&Request, &Answered))| FusedSource {
            kind: request.kind.name(),
            using: request.using.clone(),
            correction: answered.correction().map(str::to_owned),
            is_distance: answered.is_distance,
            weight: fusion.weight(number, answers.len()),
        };
        Fused {
            fusion: fusion.clone(),
            lists: answers.iter().map(list).collect(),
            sources: requests.iter().zip(answers).enumerate().map(source).collect(),
        }
    }

    /// The best `limit` rows with their fused scores, best first; of equal ones the one met first.
    pub(crate) fn best(&self, limit: usize) -> Vec<(u32, f64)> {
        self.fusion.fuse(&self.lists, limit)
    }

    /// How the rankings were fused.
    pub fn fusion(&self) -> &Fusion {
        &self.fusion
    }

    /// The rankings, in the order of the prefetches.
    pub fn sources(&self) -> &[FusedSource] {
        &self.sources
    }

    /// For each of the rows, what the sources gave it that have it; the sum of the contributions is its score.
    pub fn parts(&self, rows: &[u32]) -> Vec<Vec<Part>> {
        let place_of: HashMap<u32, usize> = rows.iter().copied().zip(0..).collect();
        let mut parts = vec![Vec::new(); rows.len()];
        for (number, (list, source)) in self.lists.iter().zip(&self.sources).enumerate() {
            let shares = self.fusion.shares(source.weight, list);
            for (rank, (&(row, score), share)) in (1..).zip(list.scores.iter().zip(shares)) {
                if let Some(&place) = place_of.get(&row) {
                    let (normalized, contribution) = (share.normalized, share.contribution);
                    parts[place].push(Part { source: number, rank, score, normalized, contribution });
                }
            }
        }
        parts
    }
}
