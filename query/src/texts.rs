//! Judged queries by their words: BM25, and fusions of that with rankings by vectors.

use std::collections::HashMap;

use dehub_eval::{Measure, Qrels};
use dehub_index::{Correction, Question, Snapshot, TextQuery};
use dehub_vector::Vector;
use rayon::prelude::*;

use crate::QueryError;
use crate::evaluate::{LabelledQuery, Truth, check};
use crate::hubness::{Found, PASS_QUERIES};
use crate::outcome::Ranked;
use crate::ranking::{Rankings, rank_within};
use crate::request::{Fusion, List};

/// How judged queries are answered by their words.
#[derive(Debug, Clone, PartialEq)]
pub struct WordOptions {
    /// The fields to look in, each with its weight; none means every one.
    pub fields: Vec<(String, f32)>,
    /// How the answers by vectors and by words, in this order, become one.
    pub fusion: Fusion,
    /// How many of the best of each are fused.
    pub depth: usize,
    /// How many points are kept of each ranking.
    pub limit: usize,
}

/// Ranks points by BM25 for every query, and by the fusion of that with each ranking by vectors: raw, and by each of
/// `corrections`, which must be fitted for this snapshot. The first ranking is BM25's; those by vectors are exact.
///
/// A ranking by words has only so many points. The others come after them in the order of their rows, and those that
/// are judged have the ranks of that.
///
/// # Errors
/// What is wrong with the queries, or with finding points by words.
pub fn rank_by_words(
    snapshot: &Snapshot,
    (queries, qrels): (&[LabelledQuery], &Qrels),
    corrections: &[&Correction],
    measures: &[Measure],
    options: &WordOptions,
) -> Result<Vec<Ranked>, QueryError> {
    let scope = snapshot.scope();
    check(&scope, queries, qrels)?;
    options.fusion.check(2)?;
    let truth = Truth::find(snapshot, &scope, queries, qrels, measures)?;
    let rows: Vec<u32> = snapshot.rows().collect();
    let found: Vec<Found<'_>> =
        std::iter::once(None).chain(corrections.iter().map(|&correction| Some((correction, 1.0)))).collect();
    let tables: Vec<Rankings<'_>> = found.iter().map(|&found| Rankings::new(found)).collect();
    let mut ranked = vec![Ranked::default(); tables.len() + 1];
    let limit = options.depth.min(scope.len());
    for (first, pass) in (0..).step_by(PASS_QUERIES).zip(queries.chunks(PASS_QUERIES)) {
        let vectors: Vec<Vector> = pass.iter().map(|query| query.vector.clone()).collect();
        let question = Question { vectors: &vectors, limit, targets: &[] };
        let by_vectors = rank_within(snapshot, &scope, &question, &[], &tables)?;
        let by_words = |query: &LabelledQuery| -> Result<Vec<(u32, f32)>, QueryError> {
            let text = query.text.clone().unwrap_or_default();
            let words = TextQuery { text, fields: options.fields.clone(), all_words: false };
            let answer = snapshot.search_text(&scope, &words, limit)?;
            Ok(answer.hits.into_iter().map(|hit| (hit.row, hit.score)).collect())
        };
        let by_words = pass.par_iter().map(by_words).collect::<Result<Vec<_>, _>>()?;
        for ((place, by_vectors), by_words) in (first..).zip(by_vectors).zip(by_words) {
            let by_words = List { scores: by_words, is_distance: false };
            let mut push = |number: usize, list: Vec<u32>| {
                let numbered = Numbered { rows: &rows, limit: options.limit };
                numbered.push(&mut ranked[number], list, &truth.rows[place]);
            };
            push(0, by_words.scores.iter().map(|&(row, _)| row).collect());
            for (number, by_vector) in (1..).zip(by_vectors) {
                let scores =
                    by_vector.best.iter().map(|candidate| (candidate.row, candidate.score)).collect();
                let lists = [List { scores, is_distance: false }, by_words.clone()];
                push(
                    number,
                    options.fusion.fuse(&lists, usize::MAX).into_iter().map(|(row, _)| row).collect(),
                );
            }
        }
    }
    Ok(ranked)
}

/// Points numbered by the places of their rows.
struct Numbered<'a> {
    rows: &'a [u32],
    limit: usize,
}

impl Numbered<'_> {
    /// Adds the answer of the next query, and the ranks of some rows.
    fn push(&self, ranked: &mut Ranked, list: Vec<u32>, asked: &[u32]) {
        let places: HashMap<u32, usize> = list.iter().copied().zip(0..).collect();
        let mut listed = list.clone();
        listed.sort_unstable();
        let rank = |row: &u32| {
            let place = places.get(row).copied().unwrap_or_else(|| {
                let before = |rows: &[u32]| rows.partition_point(|own| own < row);
                list.len() + before(self.rows) - before(&listed)
            });
            u32::try_from(place + 1).expect("rows are numbered by u32")
        };
        ranked.ranks.push(asked.iter().map(rank).collect());
        let number =
            |row: &u32| self.rows.binary_search(row).ok().and_then(|place| u32::try_from(place).ok());
        ranked.lists.push(list.iter().take(self.limit).filter_map(number).collect());
    }
}
