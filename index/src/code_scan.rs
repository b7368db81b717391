//! The approximate search of batches: a scan of all codes in the order of the corrected score, and the best of
//! it scored again.

use dehub_graph::{Affine, Segment};
use dehub_vector::{Candidate, TopK, Vector, prefetch};
use rayon::prelude::*;

use crate::scan::{Answer, Question, Variant};
use crate::{Scope, Snapshot, TimeUp};

/// Queries that a thread takes through the codes together, and then through the rows that are scored again: they
/// share the packing of codes and the reading of rows, and what was found of them stays in cache.
const PART_MAX: usize = 1536;

/// Fewer queries are not worth a thread of their own.
const PART_MIN: usize = 8;

/// Where one in so many points or fewer may be answers, only their codes are read.
const SHARE: usize = 2;

/// Rows that are fetched before they are scored.
const AHEAD: usize = 6;

/// One ranking of those that a scan of codes is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// The ranking.
    pub variant: &'a Variant<'a>,
    /// How many points each answer lists.
    pub limit: usize,
    /// How many of the best points by codes are scored in full; if that is less than `limit`, as many.
    pub candidates: usize,
}

impl Snapshot {
    /// Whether all of the graph has codes that a scan reads fast.
    pub fn can_scan_codes(&self) -> bool {
        self.has_graph() && self.segments().all(Segment::can_scan)
    }

    /// For each query, an answer for each of the rankings sought: the best points of the scope among those
    /// that are best by codes under any of the rankings. Scores are exact, and so is what is said of points
    /// without such codes. With as many candidates as there are points it is [`Snapshot::scan_within`].
    ///
    /// # Errors
    /// [`TimeUp`] if the scope has a deadline and the scan has not ended by then.
    pub fn scan_codes(
        &self,
        scope: &Scope,
        vectors: &[Vector],
        sought: &[Sought<'_>],
    ) -> Result<Vec<Vec<Answer>>, TimeUp> {
        if sought.is_empty() {
            return scope.in_time(vec![Vec::new(); vectors.len()]);
        }
        let (coded, others): (Vec<&Segment>, Vec<&Segment>) =
            self.segments().partition(|segment| segment.can_scan());
        let others = others.into_iter().flat_map(|segment| segment.rows().iter().copied());
        let uncoded = scope.only(self.delta_rows().chain(others));
        let threads = rayon::current_num_threads();
        let size = vectors.len().div_ceil(threads).clamp(PART_MIN, PART_MAX);
        let parts = vectors.par_chunks(size).flat_map_iter(|vectors| {
            let part = Part { snapshot: self, scope, segments: &coded, sought, vectors };
            part.answers()
        });
        let mut answers: Vec<Vec<Answer>> = parts.collect();
        if !uncoded.is_empty() {
            let variants: Vec<Variant<'_>> = sought.iter().map(|sought| sought.variant.clone()).collect();
            let limit = sought.iter().map(|sought| sought.limit).max().unwrap_or(0);
            let question = Question { vectors, limit, targets: &[] };
            let exact = self.scan_within(&uncoded, &question, &variants)?;
            for (answers, exact) in answers.iter_mut().zip(exact) {
                for ((answer, exact), sought) in answers.iter_mut().zip(exact).zip(sought) {
                    answer.best.extend(exact.best);
                    answer.best.sort_unstable_by(|a, b| b.cmp(a));
                    answer.best.truncate(sought.limit);
                }
            }
        }
        scope.in_time(answers)
    }
}

/// Queries that go through the codes together.
struct Part<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    segments: &'a [&'a Segment],
    sought: &'a [Sought<'a>],
    vectors: &'a [Vector],
}

impl Part<'_> {
    fn answers(&self) -> Vec<Vec<Answer>> {
        let queries: Vec<&[f32]> = self.vectors.iter().map(Vector::as_slice).collect();
        let mut rankings = Vec::with_capacity(self.sought.len());
        for &Sought { variant, limit, candidates } in self.sought {
            rankings.push((Rows { scope: self.scope, variant }, candidates.max(limit)));
        }
        let mut found: Vec<Vec<Candidate>> = vec![Vec::new(); queries.len() * rankings.len()];
        let few = SHARE * self.scope.len() < self.snapshot.len();
        let allowed: Option<Vec<u32>> = few.then(|| self.scope.rows().collect());
        for segment in self.segments {
            let stop = || self.scope.is_over();
            let more = match &allowed {
                Some(rows) => segment.scan_rows(&queries, &rankings, rows, stop),
                None => segment.scan(&queries, &rankings, stop),
            };
            let kept = rankings.iter().map(|&(_, keep)| keep).cycle();
            for ((found, more), keep) in found.iter_mut().zip(more).zip(kept) {
                join(found, more, keep);
            }
        }
        // In the order of rows, so that each comes from memory once for all queries that ask for it.
        let mut pairs: Vec<(u32, u32)> = Vec::with_capacity(found.iter().map(Vec::len).sum());
        for (query, lists) in (0..).zip(found.chunks(rankings.len())) {
            pairs.extend(lists.iter().flatten().map(|candidate| (candidate.row, query)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        self.rescore(&pairs)
    }

    /// The best by each ranking of the rows that are paired with each query.
    fn rescore(&self, pairs: &[(u32, u32)]) -> Vec<Vec<Answer>> {
        let room = || self.sought.iter().map(|sought| TopK::new(sought.limit));
        let mut best: Vec<Vec<TopK>> = self.vectors.iter().map(|_| room().collect()).collect();
        for (place, &(row, query)) in pairs.iter().enumerate() {
            if let Some(&(ahead, query)) = pairs.get(place + AHEAD) {
                prefetch(self.snapshot.vector(ahead));
                prefetch(self.vectors[query as usize].as_slice());
            }
            let similarity = self.snapshot.similarity(&self.vectors[query as usize], row);
            for (best, sought) in best[query as usize].iter_mut().zip(self.sought) {
                best.push(Candidate::new(sought.variant.score(similarity, row), row));
            }
        }
        let answer = |best: TopK| Answer { best: best.into_sorted(), ranks: Vec::new() };
        best.into_iter().map(|best| best.into_iter().map(answer).collect()).collect()
    }
}

/// Adds what another segment has, and leaves the best.
fn join(found: &mut Vec<Candidate>, mut more: Vec<Candidate>, keep: usize) {
    if found.is_empty() {
        *found = more;
        return;
    }
    found.append(&mut more);
    if (1..found.len()).contains(&keep) {
        found.select_nth_unstable_by(keep - 1, |a, b| b.cmp(a));
        found.truncate(keep);
    }
}

/// The rows of a scope by their corrected score.
struct Rows<'a> {
    scope: &'a Scope,
    variant: &'a Variant<'a>,
}

impl Affine for Rows<'_> {
    fn is_unscaled(&self) -> bool {
        self.variant.is_unscaled()
    }

    fn scale(&self, row: u32) -> f32 {
        self.variant.scale(row)
    }

    fn bias(&self, row: u32) -> f32 {
        if self.scope.contains(row) { self.variant.bias(row) } else { f32::INFINITY }
    }
}
