//! Raw and corrected rankings of judged queries over a collection, with all that a report tells of them.

use std::collections::HashMap;

use dehub_eval::{Measure, Qrels};
use dehub_index::{Correction, Snapshot};

use crate::QueryError;
use crate::evaluate::{LabelledQuery, Tally, Truth, check, rank_all};
use crate::hubness::Found;
use crate::outcome::{Pooled, Ranked, Relevant};
use crate::ranking::Rankings;

/// How much is kept of each ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedOptions {
    /// How many of the best points of each query.
    pub limit: usize,
    /// The scores of how many points that are not relevant, for each query.
    pub sample: usize,
    /// What draws them.
    pub seed: u64,
}

/// Rankings of judged queries over a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The rows of the points ranked, ascending: points are numbered by their places here.
    pub rows: Vec<u32>,
    /// Who is relevant to what, by those numbers.
    pub relevant: Relevant,
    /// Judged ids that no point has; they count as never found.
    pub not_in_gallery: Vec<String>,
    /// Raw, then a ranking for each correction. Scores are told of those that are weighted sums.
    pub ranked: Vec<Ranked>,
}

/// Ranks every point for every query, exactly: raw, and by each of `corrections`, which must be fitted for this
/// snapshot, but need not be installed in it. Points judged not relevant are ranked too if `measures` look at them.
pub fn rank_judged(
    snapshot: &Snapshot,
    (queries, qrels): (&[LabelledQuery], &Qrels),
    corrections: &[&Correction],
    measures: &[Measure],
    options: JudgedOptions,
) -> Result<Judged, QueryError> {
    let scope = snapshot.scope();
    check(&scope, queries, qrels)?;
    let truth = Truth::find(snapshot, &scope, queries, qrels, measures)?;
    let rows: Vec<u32> = snapshot.rows().collect();
    let found: Vec<Found<'_>> =
        std::iter::once(None).chain(corrections.iter().map(|&correction| Some((correction, 1.0)))).collect();
    let tables: Vec<Rankings<'_>> = found.iter().map(|&found| Rankings::new(found)).collect();
    let tallies = rank_all((snapshot, &scope), queries, &truth, &tables, options.limit)?;
    let numbers: HashMap<u32, u32> = rows.iter().copied().zip(0..).collect();
    let numbered = |lists: Vec<Vec<u32>>| -> Vec<Vec<u32>> {
        lists.into_iter().map(|list| list.iter().map(|row| numbers[row]).collect()).collect()
    };
    let relevant = Relevant {
        is_judged: queries.iter().map(|query| qrels.contains(&query.id)).collect(),
        points: numbered(truth.rows),
        truths: truth.queries,
    };
    let sample = relevant.sample(rows.len(), options.sample, options.seed);
    let asked = Sampled { snapshot, queries, rows: &rows, relevant: &relevant, sample: &sample };
    let ranked = tables.iter().zip(tallies).map(|(table, tally)| {
        let pooled = asked.pooled(table, &tally);
        Ranked { lists: numbered(tally.lists), ranks: tally.ranks, gates: tally.gates, pooled }
    });
    let ranked = ranked.collect();
    Ok(Judged { rows, relevant, not_in_gallery: truth.not_in_gallery, ranked })
}

/// Points whose scores are told.
struct Sampled<'a> {
    snapshot: &'a Snapshot,
    queries: &'a [LabelledQuery],
    rows: &'a [u32],
    relevant: &'a Relevant,
    sample: &'a [Vec<u32>],
}

impl Sampled<'_> {
    /// Their scores by one ranking; `None` if its scores are no weighted sums.
    fn pooled(&self, table: &Rankings<'_>, tally: &Tally) -> Option<Pooled> {
        let mut pooled = Pooled::default();
        let lists = self.relevant.relevant().zip(self.sample);
        for ((query, variant), (relevant, others)) in self.queries.iter().zip(&tally.variants).zip(lists) {
            let variant = &table.variants[(*variant)?];
            let score = |&point: &u32| {
                let row = self.rows[point as usize];
                variant.score(self.snapshot.similarity(&query.vector, row), row)
            };
            pooled.relevant.extend(relevant.iter().map(score));
            pooled.others.extend(others.iter().map(score));
        }
        Some(pooled)
    }
}
