//! The exact scan of few points: each is scored by itself, and no other is read.

use dehub_vector::{Candidate, TopK, Vector, prefetch};
use rayon::prelude::*;

use crate::scan::{Answer, Question, Variant};
use crate::{Scope, Snapshot};

/// Queries that a row is compared with while it is at hand.
const QUERY_BLOCK: usize = 8;

/// Rows that are worth a thread of their own.
const SPAN_MIN: usize = 4096;

/// Rows that are fetched before their turn.
const AHEAD: usize = 2;

/// Rows between two looks at the clock.
const ROWS_UNWATCHED: usize = 256;

/// A batch of fewer queries than this is scanned row by row even without a filter, so that a filter can
/// only save. In a larger one matrix products score a point in a tenth of the time.
const ALONE_MAX: usize = 4;
const SHARE: usize = 10;

/// Whether to score the points of the scope one by one, rather than all of the snapshot together.
pub(crate) fn is_better(scope: &Scope, points: usize, queries: usize) -> bool {
    scope.len() < points && (queries < ALONE_MAX || scope.len() * SHARE < points)
}

/// What was found of one query by one variant.
pub(crate) struct Running {
    top: TopK,
    ranks: Vec<u32>,
}

/// Answers `question` from the points of the scope, bit for bit as a scan does.
pub(crate) fn scan(
    snapshot: &Snapshot,
    question: &Question<'_>,
    variants: &[Variant<'_>],
    scope: &Scope,
) -> Vec<Vec<Answer>> {
    let rows: Vec<u32> = scope.rows().collect();
    let threads = rayon::current_num_threads();
    let size = question.vectors.len().div_ceil(threads).clamp(1, QUERY_BLOCK);
    let spans = threads.div_ceil(question.vectors.len().div_ceil(size).max(1));
    let span = rows.len().div_ceil(spans).max(SPAN_MIN);
    let answers = question.vectors.par_chunks(size).enumerate().map(|(place, vectors)| {
        let targets = question.targets.chunks(size).nth(place).unwrap_or_default();
        let block = Block::new(snapshot, &Question { vectors, targets, ..*question }, variants, scope);
        let found = rows.par_chunks(span).map(|rows| block.scan(rows)).reduce_with(merge);
        block.answers(found.unwrap_or_else(|| block.start()))
    });
    answers.flatten_iter().collect()
}

/// Queries that are compared with each row together.
pub(crate) struct Block<'a> {
    snapshot: &'a Snapshot,
    variants: &'a [Variant<'a>],
    scope: &'a Scope,
    vectors: &'a [Vector],
    limit: usize,
    /// For each query and variant, what it ranks the targets by.
    targets: Vec<Vec<Candidate>>,
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        question: &Question<'a>,
        variants: &'a [Variant<'a>],
        scope: &'a Scope,
    ) -> Block<'a> {
        let Question { vectors, limit, targets } = *question;
        let scored = |(place, vector): (usize, &'a Vector)| {
            let rows = targets.get(place).map_or(&[][..], Vec::as_slice);
            let score = |variant: &Variant<'_>, row| {
                Candidate::new(variant.score(snapshot.similarity(vector, row), row), row)
            };
            variants.iter().map(move |variant| rows.iter().map(|&row| score(variant, row)).collect())
        };
        let targets = vectors.iter().enumerate().flat_map(scored).collect();
        Block { snapshot, variants, scope, vectors, limit, targets }
    }

    pub(crate) fn start(&self) -> Vec<Running> {
        let start = |targets: &Vec<_>| Running { top: TopK::new(self.limit), ranks: vec![1; targets.len()] };
        self.targets.iter().map(start).collect()
    }

    fn scan(&self, rows: &[u32]) -> Vec<Running> {
        let mut states = self.start();
        for rows in rows.chunks(ROWS_UNWATCHED) {
            if self.scope.is_over() {
                break;
            }
            for (place, &row) in rows.iter().enumerate() {
                if let Some(&ahead) = rows.get(place + AHEAD) {
                    prefetch(self.snapshot.vector(ahead));
                }
                self.visit(row, &mut states);
            }
        }
        states
    }

    fn visit(&self, row: u32, states: &mut [Running]) {
        for (place, vector) in self.vectors.iter().enumerate() {
            self.take(place, row, self.snapshot.similarity(vector, row), states);
        }
    }

    /// Takes in a row whose similarity to one of the queries is known.
    fn take(&self, query: usize, row: u32, similarity: f32, states: &mut [Running]) {
        let own = query * self.variants.len()..(query + 1) * self.variants.len();
        let lists = states[own.clone()].iter_mut().zip(&self.targets[own]);
        for (variant, (state, targets)) in self.variants.iter().zip(lists) {
            let candidate = Candidate::new(variant.score(similarity, row), row);
            if self.limit > 0 {
                state.top.push(candidate);
            }
            for (target, rank) in targets.iter().zip(&mut state.ranks) {
                *rank += u32::from(candidate > *target);
            }
        }
    }

    /// The same with a similarity that is right but for `slack`: the pair is compared anew where that matters.
    pub(crate) fn take_near(&self, query: usize, row: u32, near: f32, slack: f32, states: &mut [Running]) {
        let own = query * self.variants.len()..(query + 1) * self.variants.len();
        let lists = states[own.clone()].iter().zip(&self.targets[own.clone()]);
        let matters = self.variants.iter().zip(lists).any(|(variant, (state, targets))| {
            let score = variant.score(near, row);
            let slack = slack * variant.scale(row).abs() + 4.0 * f32::EPSILON * (score.abs() + near.abs());
            let may_enter = state.top.threshold().is_none_or(|worst| score + slack >= worst.score);
            self.limit > 0 && may_enter || targets.iter().any(|target| (score - target.score).abs() <= slack)
        });
        if matters {
            let similarity = self.snapshot.similarity(&self.vectors[query], row);
            return self.take(query, row, similarity, states);
        }
        let lists = states[own.clone()].iter_mut().zip(&self.targets[own]);
        for (variant, (state, targets)) in self.variants.iter().zip(lists) {
            let score = variant.score(near, row);
            for (target, rank) in targets.iter().zip(&mut state.ranks) {
                *rank += u32::from(score > target.score);
            }
        }
    }

    pub(crate) fn answers(&self, found: Vec<Running>) -> Vec<Vec<Answer>> {
        let mut answers =
            found.into_iter().map(|Running { top, ranks }| Answer { best: top.into_sorted(), ranks });
        self.vectors.iter().map(|_| answers.by_ref().take(self.variants.len()).collect()).collect()
    }
}

/// What two runs of rows found.
pub(crate) fn merge(mut left: Vec<Running>, right: Vec<Running>) -> Vec<Running> {
    for (left, right) in left.iter_mut().zip(right) {
        right.top.into_sorted().into_iter().for_each(|candidate| _ = left.top.push(candidate));
        left.ranks.iter_mut().zip(right.ranks).for_each(|(rank, other)| *rank += other - 1);
    }
    left
}
