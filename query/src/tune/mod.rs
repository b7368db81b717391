//! Which correction to switch on, if any: a choice among fitted ones, measured on queries.
//!
//! With judgements the choice is by nDCG, and its gain is measured on queries it was not made with. Without
//! them it is by hubness: see [`Reason`] for the rule and what it was seen to do.

mod choose;
mod error;
mod evidence;
mod methods;
mod pairs;
pub(crate) mod resample;
mod verdict;

use std::num::NonZeroU32;

use dehub_eval::{Gain, Kind, Measure, Qrels};
use dehub_index::{Correction, DefaultEvidence, Interval, Snapshot};
use dehub_vector::Vector;

use crate::evaluate::query_values;
use crate::hubness::{Found, best_lists};
use crate::query::BATCH_QUERIES_MAX;
use crate::{LabelledQuery, QueryError};
use evidence::{Gains, Hubness};
use resample::Lists;

pub use choose::{Choice, choose};
pub use error::TuneError;
pub use methods::{TuneMethods, auto_methods, score_deviation, tune_methods};
pub use pairs::tune_by_pairs;
pub use resample::Estimate;
pub use verdict::{Finding, Reason, Verdict};

/// The fewest queries a choice is made by. Below, the counts of a hubless gallery and of one with hubs
/// look alike.
pub const QUERIES_MIN: usize = 100;

/// The fewest rounds of resampling: the ends of an interval are the third of 100 from either side.
pub const ROUNDS_MIN: usize = 100;

/// The most rounds of resampling: an index for each round and ranking is kept.
pub const ROUNDS_MAX: usize = 100_000;

/// What the choice is made by.
#[derive(Debug, Clone, Copy)]
pub enum Evidence<'a> {
    /// Queries as users ask them, without judgements: hubness decides.
    Unlabelled(&'a [Vector]),
    /// Judged queries: nDCG decides.
    Labelled {
        /// The queries; those without judgements count for hubness only.
        queries: &'a [LabelledQuery],
        /// Their judgements.
        qrels: &'a Qrels,
    },
}

impl Evidence<'_> {
    fn len(self) -> usize {
        match self {
            Evidence::Unlabelled(queries) => queries.len(),
            Evidence::Labelled { queries, .. } => queries.len(),
        }
    }

    /// The queries.
    pub fn vectors(self) -> Vec<Vector> {
        match self {
            Evidence::Unlabelled(queries) => queries.to_vec(),
            Evidence::Labelled { queries, .. } => queries.iter().map(|query| query.vector.clone()).collect(),
        }
    }
}

/// How the choice is made.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneOptions {
    /// Decides every draw: the same seed, queries and corrections give the same report.
    pub seed: u64,
    /// Rounds of resampling.
    pub rounds: usize,
    /// How many answers of each query count, for hubness and nDCG; fewer if there are fewer points.
    pub k: usize,
    /// The part of the hubness beyond chance that a correction must remove.
    pub share: f64,
}

impl Default for TuneOptions {
    fn default() -> TuneOptions {
        TuneOptions { seed: 0, rounds: 1000, k: 10, share: 0.5 }
    }
}

/// The raw ranking in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct RawRow {
    /// The Robin Hood index of `N_k`.
    pub robin_hood: f64,
    /// What the index would be if answers were drawn at random.
    pub at_random: f64,
    /// The difference: hubness beyond chance.
    pub excess: Estimate,
    /// nDCG at `k`, when there are judgements.
    pub ndcg: Option<f64>,
}

/// One correction in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneRow {
    /// The method's label.
    pub method: String,
    /// The Robin Hood index of `N_k`.
    pub robin_hood: f64,
    /// The part of the raw excess it removes; `None` when there is no excess beyond chance.
    pub share: Option<Estimate>,
    /// nDCG at `k`, when there are judgements.
    pub ndcg: Option<f64>,
    /// How much more that is than raw.
    pub gain: Option<Estimate>,
    /// What that comes to.
    pub finding: Finding,
}

/// A choice, and what it was made by.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneReport {
    /// The points ranked.
    pub points: usize,
    /// The queries counted.
    pub queries: usize,
    /// The judged queries among them, when there are judgements.
    pub judged: Option<usize>,
    /// How many answers of each query count.
    pub k: usize,
    /// The raw ranking.
    pub raw: RawRow,
    /// The corrections, in the order given.
    pub rows: Vec<TuneRow>,
    /// The choice.
    pub verdict: Verdict,
}

/// Measures raw and every correction on the same queries, in one exact scan, and chooses.
///
/// The corrections must serve this snapshot; they need not be installed in it.
pub fn tune(
    snapshot: &Snapshot,
    corrections: &[Correction],
    evidence: Evidence<'_>,
    options: &TuneOptions,
) -> Result<TuneReport, TuneError> {
    check(snapshot, corrections, evidence, options)?;
    let k = options.k.min(snapshot.len());
    let fitted = corrections.iter().map(|correction| Some((correction, 1.0)));
    let found: Vec<Found<'_>> = std::iter::once(None).chain(fitted).collect();
    let (lists, values) = ranked(snapshot, &found, evidence, k)?;
    let methods = corrections.iter().map(|correction| correction.info().method.to_string()).collect();
    report(snapshot.len(), methods, (lists, values), k, options)
}

/// What the rankings of all queries, raw first, come to.
fn report(
    points: usize,
    methods: Vec<String>,
    (lists, values): Ranked,
    k: usize,
    options: &TuneOptions,
) -> Result<TuneReport, TuneError> {
    let queries = lists[0].len();
    let lists: Vec<Lists> = lists.iter().map(|lists| Lists::new(k, lists)).collect();
    let hubness = Hubness::new(&lists, points, queries, options);
    let gains = values.map(|values| Gains::new(&values, options)).transpose()?;
    let ndcg = |place: usize| gains.as_ref().map(|gains| gains.ndcg[place]);
    let raw = RawRow {
        robin_hood: hubness.robin_hood[0],
        at_random: hubness.at_random,
        excess: hubness.excess,
        ndcg: ndcg(0),
    };
    let row = |(row, method): (usize, String)| TuneRow {
        method,
        robin_hood: hubness.robin_hood[row + 1],
        share: hubness.shares.as_ref().map(|shares| shares[row]),
        ndcg: ndcg(row + 1),
        gain: gains.as_ref().map(|gains| gains.gains[row]),
        finding: Finding::NoHubs,
    };
    let mut rows: Vec<TuneRow> = methods.into_iter().enumerate().map(row).collect();
    let verdict = match &gains {
        None => verdict::by_hubness(&mut rows, hubness.excess, queries, options.share),
        Some(gains) => verdict::by_gain(&mut rows, &raw, gains.held_out, gains.judged),
    };
    let judged = gains.map(|gains| gains.judged);
    Ok(TuneReport { points, queries, judged, k, raw, rows, verdict })
}

impl TuneReport {
    /// What a correction can be made the default by. `row` is its row.
    pub fn evidence(&self, row: usize, options: &TuneOptions) -> DefaultEvidence {
        let interval = |Estimate { value, low, high }| Interval { value, low, high };
        DefaultEvidence {
            approved: self.verdict.pick == Some(row),
            share: self.rows[row].share.map(interval),
            gain: self.rows[row].gain.map(interval),
            queries: self.queries,
            judged: self.judged,
            seed: options.seed,
            rounds: options.rounds,
            reason: self.verdict.reason.to_string(),
        }
    }
}

fn check(
    snapshot: &Snapshot,
    corrections: &[Correction],
    evidence: Evidence<'_>,
    options: &TuneOptions,
) -> Result<(), TuneError> {
    if corrections.is_empty() {
        return Err(TuneError::NoCorrections);
    }
    check_rounds(options)?;
    check_queries(snapshot, evidence)
}

fn check_rounds(options: &TuneOptions) -> Result<(), TuneError> {
    match options.rounds {
        ROUNDS_MIN..=ROUNDS_MAX => Ok(()),
        found => Err(TuneError::Rounds { found }),
    }
}

fn check_queries(snapshot: &Snapshot, evidence: Evidence<'_>) -> Result<(), TuneError> {
    if snapshot.is_empty() {
        return Err(QueryError::NoPoints.into());
    }
    match evidence.len() {
        0 => Err(QueryError::NoQueries("").into()),
        found if found < QUERIES_MIN => Err(TuneError::TooFewQueries { found }),
        found if found > BATCH_QUERIES_MAX => Err(QueryError::BatchTooLarge { found }.into()),
        _ => Ok(()),
    }
}

/// The best `k` rows of each query for each ranking, and nDCG of each judged query if there are judgements.
type Ranked = (Vec<Vec<Vec<u32>>>, Option<Vec<Vec<f64>>>);

fn ranked(
    snapshot: &Snapshot,
    found: &[Found<'_>],
    evidence: Evidence<'_>,
    k: usize,
) -> Result<Ranked, QueryError> {
    match evidence {
        Evidence::Unlabelled(queries) => Ok((best_lists(snapshot, queries, found, k)?, None)),
        Evidence::Labelled { queries, qrels } => {
            let depth = u32::try_from(k).ok().and_then(NonZeroU32::new);
            let measure = Measure::at(Kind::Ndcg(Gain::Linear), depth.ok_or(QueryError::Limit { found: k })?);
            let values = query_values(snapshot, queries, qrels, found, measure, k)?;
            let (lists, values) = values.into_iter().map(|ranking| (ranking.lists, ranking.values)).unzip();
            Ok((lists, Some(values)))
        }
    }
}
