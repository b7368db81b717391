//! Rankings by scores that are no weighted sums of columns.
//!
//! The exact scan scores every live point. A walk cannot rank by such a score, but by weighted sums that
//! lead to its best points: some methods are solved by a few of them, the others score the candidates of
//! one. See [`Snapshot::search_scored`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use dehub_normalize::{PointSide, QueryScorer, Scorer};
use dehub_vector::{Candidate, Metric, Vector, dot};
use rayon::prelude::*;

use crate::{Correction, Question, Scope, Snapshot, TimeUp, Variant};

/// Queries a row is compared with while it is at hand. Each holds a similarity for every point meanwhile.
const QUERY_BLOCK: usize = 8;

/// Rows between two looks at the clock.
const ROWS_UNWATCHED: usize = 256;

/// Walks of an iteration that would do with three; it stops earlier as a rule, and here at the latest.
const ROUNDS_MAX: usize = 32;

/// The largest weight such a walk is given: times any bias it is a 32-bit number.
const WEIGHT_MAX: f64 = 1e15;

/// A scored row. Better ones are greater: a higher score, then a higher similarity, then a lower row.
#[derive(Debug, Clone, Copy)]
pub struct Scored {
    /// The row in the gallery.
    pub row: u32,
    /// Its similarity.
    pub similarity: f32,
    /// What it is ranked by.
    pub score: f64,
}

impl Ord for Scored {
    fn cmp(&self, other: &Scored) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then(self.similarity.total_cmp(&other.similarity)).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Scored) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Scored) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scored {}

impl Scored {
    /// The score in 32 bits, which order as scores do but for those that round alike.
    #[expect(clippy::cast_possible_truncation, reason = "scores are served in 32 bits")]
    pub fn served(&self) -> f32 {
        self.score.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }
}

/// What a scan finds for one query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScoredAnswer {
    /// The best points, best first.
    pub best: Vec<Scored>,
    /// The rank of each target among the points that were scored, from 1.
    pub ranks: Vec<u32>,
}

/// A correction's score, for one query.
pub struct PointScorer<'a> {
    correction: &'a Correction,
    query: QueryScorer,
}

impl PointScorer<'_> {
    /// The score of a row whose similarity is known.
    pub fn score(&self, similarity: f32, row: u32) -> Scored {
        let similarity = similarity + 0.0;
        let first = self.correction.columns.first();
        let point = PointSide {
            statistic: first.map_or(0.0, |column| column.wide(row)),
            scale: self.correction.scale.as_ref().map_or(1.0, |column| column.wide(row)),
            largest: first.map_or(&[], |column| column.list(row)),
        };
        Scored { row, similarity, score: self.query.score(similarity, point) + 0.0 }
    }
}

/// The best `limit`, best first.
fn best_of(mut all: Vec<Scored>, limit: usize) -> Vec<Scored> {
    let better_first = |a: &Scored, b: &Scored| b.cmp(a);
    if limit < all.len() {
        all.select_nth_unstable_by(limit, better_first);
        all.truncate(limit);
    }
    all.sort_unstable_by(better_first);
    all
}

/// The largest `k` similarities, largest first.
fn largest(mut all: Vec<f32>, k: usize) -> Vec<f32> {
    let largest_first = |a: &f32, b: &f32| b.total_cmp(a);
    if k < all.len() {
        all.select_nth_unstable_by(k, largest_first);
        all.truncate(k);
    }
    all.sort_unstable_by(largest_first);
    all
}

impl Snapshot {
    /// Scores every point of the scope by a correction with a [`Correction::scorer`]: an answer for each
    /// query, whose neighbours are points of the scope too. `left_out` is empty or has for each query the row
    /// of the point it was searched by, which does not count as its neighbour, but is ranked as any other. No
    /// answer if the correction has no scorer.
    ///
    /// # Errors
    /// [`TimeUp`] if the scope has a deadline and the scan has not ended by then.
    ///
    /// # Panics
    /// If `targets` or `left_out` is neither empty nor as long as `vectors`.
    pub fn scan_scored(
        &self,
        scope: &Scope,
        question: &Question<'_>,
        correction: &Correction,
        left_out: &[Option<u32>],
    ) -> Result<Vec<ScoredAnswer>, TimeUp> {
        let Question { vectors, limit, targets } = *question;
        assert!(targets.is_empty() || targets.len() == vectors.len(), "a list of targets for each query");
        assert!(left_out.is_empty() || left_out.len() == vectors.len(), "a row or none for each query");
        let Some(scorer) = correction.scorer() else { return Ok(Vec::new()) };
        let answer = |(place, similarities): (usize, Vec<(u32, f32)>)| {
            let query = &vectors[place];
            let own = left_out.get(place).copied().flatten();
            let near = scorer.query_neighbours().map(|k| {
                let others = similarities.iter().filter(|&&(row, _)| Some(row) != own);
                largest(others.map(|&(_, similarity)| similarity).collect(), k)
            });
            let scorer = self.point_scorer(correction, scorer, query, &near.unwrap_or_default());
            let all = similarities.iter().map(|&(row, similarity)| scorer.score(similarity, row));
            let all: Vec<Scored> = all.collect();
            let targets = targets.get(place).map_or(&[][..], Vec::as_slice);
            let target = |&row: &u32| scorer.score(self.similarity(query, row), row);
            let better = |target: Scored| all.iter().filter(|&other| *other > target).count();
            let rank = |count: usize| u32::try_from(count + 1).expect("rows are numbered by u32");
            let ranks = targets.iter().map(target).map(better).map(rank).collect();
            ScoredAnswer { best: best_of(all, limit), ranks }
        };
        let block = vectors.len().div_ceil(rayon::current_num_threads()).clamp(1, QUERY_BLOCK);
        let answers = vectors.par_chunks(block).enumerate().flat_map_iter(|(number, queries)| {
            (number * block..).zip(self.similarities(scope, queries)).map(answer)
        });
        scope.in_time(answers.collect())
    }

    /// Each query's similarity to every row of the scope. A row is read once for all of them.
    fn similarities(&self, scope: &Scope, queries: &[Vector]) -> Vec<Vec<(u32, f32)>> {
        let mut similarities = vec![Vec::with_capacity(scope.len()); queries.len()];
        for (place, row) in scope.rows().enumerate() {
            if place % ROWS_UNWATCHED == 0 && scope.is_over() {
                break;
            }
            let lists = similarities.iter_mut().zip(queries);
            lists.for_each(|(list, query)| list.push((row, self.similarity(query, row))));
        }
        similarities
    }

    /// The scorer of a query, with its largest similarities to the gallery if the scorer asks for them.
    fn point_scorer<'a>(
        &self,
        correction: &'a Correction,
        scorer: Scorer,
        query: &Vector,
        near: &[f32],
    ) -> PointScorer<'a> {
        let query = match scorer.query_bank().and_then(|kind| correction.bank(kind)) {
            Some(bank) => {
                let (similarities, weights) = self.bank_similarities(query, bank);
                let is_plain = weights.iter().all(|&weight| weight == 1.0);
                scorer.for_query(&similarities, if is_plain { &[] } else { &weights })
            }
            None => scorer.for_query(near, &[]),
        };
        PointScorer { correction, query }
    }

    /// The similarity of a query to each entry of a bank, and the entries' weights.
    fn bank_similarities(&self, query: &Vector, bank: &crate::Name) -> (Vec<f32>, Vec<f32>) {
        let similarity = |entry: &[f32]| {
            let product = dot(query.as_slice(), entry);
            match self.config.metric {
                Metric::Cosine | Metric::Dot => product,
                Metric::Euclidean => product - (dot(entry, entry) / 2.0 + query.half_squared_norm()),
            }
        };
        self.live_entries(bank.as_str()).map(|(_, entry, weight)| (similarity(entry), weight)).unzip()
    }

    /// The best `limit` points by a correction with a [`Correction::scorer`], and one more if a point is
    /// `left_out` as in [`Snapshot::scan_scored`], among those that `walk` finds: the best `n` points it
    /// knows by a weighted sum. It may be a graph walk or an exact scan, and have points of its own: the
    /// query's neighbours are of those too.
    ///
    /// - [`Scorer::BankRank`]: the rank is below `r` exactly where `s − t_r ≥ 0`, with `t_r` the `r`-th
    ///   number of the point's list. The least `r` with `limit` such points is found by bisection.
    /// - [`Scorer::RatioMargin`]: `s − λ·r(g)/2`, with `λ` the `limit`-th best ratio found so far, until
    ///   it does not grow (Dinkelbach, *On nonlinear fractional programming*, 1967).
    /// - [`Scorer::MutualProximity`] and [`Scorer::DualSoftmax`]: the candidates are the best
    ///   [`dehub_normalize::Method::depth`] by the z-score and by inverted softmax.
    pub fn search_scored(
        &self,
        correction: &Correction,
        query: &Vector,
        left_out: Option<u32>,
        limit: usize,
        walk: &dyn Fn(&Variant<'_>, usize) -> Vec<Candidate>,
    ) -> Vec<Scored> {
        let Some(scorer) = correction.scorer() else { return Vec::new() };
        let extra = usize::from(left_out.is_some());
        let (limit, depth) = (limit + extra, correction.info.method.depth(limit) + extra);
        let raw = match scorer {
            Scorer::MutualProximity | Scorer::DualSoftmax { .. } => Vec::new(),
            Scorer::BankRank => walk(&Variant::raw(), depth),
            Scorer::RatioMargin { k } => walk(&Variant::raw(), depth.max(k + 1)),
        };
        let others = raw.iter().filter(|found| Some(found.row) != left_out);
        let near = others.take(scorer.query_neighbours().unwrap_or(0)).map(|found| found.score).collect();
        let scorer_of_query = self.point_scorer(correction, scorer, query, &largest(near, usize::MAX));
        let mut pool = Pool { snapshot: self, query, scorer: scorer_of_query, found: BTreeMap::new() };
        pool.add(&raw);
        match scorer {
            Scorer::BankRank => pool.sweep(limit, &|variant| walk(variant, depth)),
            Scorer::RatioMargin { .. } => pool.iterate(limit, &|variant| walk(variant, depth)),
            Scorer::MutualProximity | Scorer::DualSoftmax { .. } => {
                let open = vec![true; correction.columns.len()];
                pool.add(&walk(&correction.variant(&open, 1.0), depth));
            }
        }
        best_of(pool.found.into_values().collect(), limit)
    }
}

/// Every point found so far, by its row.
struct Pool<'a> {
    snapshot: &'a Snapshot,
    query: &'a Vector,
    scorer: PointScorer<'a>,
    found: BTreeMap<u32, Scored>,
}

impl Pool<'_> {
    fn add(&mut self, candidates: &[Candidate]) {
        for &Candidate { row, .. } in candidates {
            let score = || self.scorer.score(self.snapshot.similarity(self.query, row), row);
            self.found.entry(row).or_insert_with(score);
        }
    }

    /// The score of the `limit`-th best so far; `None` if there are fewer.
    fn worst_of(&self, limit: usize) -> Option<f64> {
        let mut scores: Vec<f64> = self.found.values().map(|found| found.score).collect();
        let place = limit.checked_sub(1).filter(|&place| place < scores.len())?;
        Some(*scores.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1)
    }

    /// Walks at one level of rank after another, halving what may be the least with `limit` points.
    fn sweep(&mut self, limit: usize, walk: &dyn Fn(&Variant<'_>) -> Vec<Candidate>) {
        let correction = self.scorer.correction;
        let Some(lists) = correction.columns.first() else { return };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank is a count")]
        let levels = |pool: &Pool<'_>| pool.worst_of(limit).map_or(usize::MAX, |worst| 1 + -worst as usize);
        // `limit` points with a rank below `high` are known; there are fewer below `low`.
        let (mut low, mut high) = (0, levels(self).min(lists.list_len() + 1));
        let mut walked = high;
        while high > low + 1 {
            walked = low + (high - low) / 2;
            self.add(&walk(&Variant::level(lists, walked - 1)));
            match levels(self) {
                enough if enough <= walked => high = enough,
                more => {
                    low = walked;
                    high = high.min(more);
                }
            }
        }
        // The points at the level itself; beyond the last, the raw walk has found them.
        if walked != high && (1..=lists.list_len()).contains(&high) {
            self.add(&walk(&Variant::level(lists, high - 1)));
        }
    }

    /// Walks by `s − λ·r(g)/2`, each time with the `limit`-th best ratio for `λ`, until it is the same.
    fn iterate(&mut self, limit: usize, walk: &dyn Fn(&Variant<'_>) -> Vec<Candidate>) {
        let correction = self.scorer.correction;
        let mut before = None;
        for _ in 0..ROUNDS_MAX {
            let ratio = self.worst_of(limit.min(self.found.len()));
            let Some(ratio) = ratio.filter(|_| ratio != before) else { return };
            before = Some(ratio);
            #[expect(clippy::cast_possible_truncation, reason = "weights are served in 32 bits")]
            let weight = (ratio / 2.0).clamp(-WEIGHT_MAX, WEIGHT_MAX) as f32;
            let terms = correction.columns.iter().map(|column| (column, weight));
            self.add(&walk(&Variant::new(terms)));
        }
    }
}
