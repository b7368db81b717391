//! The values of measures: of one query, and over queries.

use std::borrow::Cow;
use std::num::NonZeroU32;

use crate::measure::{Gain, Kind};
use crate::{Measure, Ranks};

/// The highest relevance that ERR knows, as gdeval and TREC's web tracks have it.
const ERR_RELEVANCE_MAX: u32 = 4;

/// What trec_eval adds to counts of judged documents in infAP, so that none is 0.
const INFERRED_EPSILON: f64 = 0.000_01;

/// One query's value, or `None` if the measure leaves the query out (`AUC`, when all that is listed is relevant;
/// `ann_recall`, when nothing is).
///
/// `MdR` and `MnR` have the same value, the best rank; they differ in [`aggregate`].
pub fn per_query(ranks: &Ranks, measure: Measure) -> Option<f64> {
    let ranks = if measure.judged_only() { Cow::Owned(ranks.judged_only()) } else { Cow::Borrowed(ranks) };
    let seen = Seen::new(&ranks, measure);
    match measure.kind() {
        Kind::Ndcg(gain) => Some(ndcg(&seen, gain)),
        Kind::Ap => Some(average_precision(&seen)),
        Kind::Rr => Some(seen.ranks().next().map_or(0.0, |rank| 1.0 / f64::from(rank))),
        Kind::Recall => Some(share(seen.ranks().count(), seen.relevant())),
        Kind::Precision => Some(seen.ranks().count() as f64 / f64::from(seen.cutoff)),
        Kind::Success => Some(if seen.ranks().next().is_some() { 1.0 } else { 0.0 }),
        Kind::Judged => Some(judged(&seen)),
        Kind::Rbp(persistence) => Some(rank_biased(&seen, persistence)),
        Kind::Err => Some(expected_reciprocal(&seen)),
        Kind::InfAp => Some(inferred_precision(&seen)),
        Kind::Bpref => Some(binary_preference(&seen)),
        Kind::MedianRank | Kind::MeanRank => Some(best_rank(&ranks)),
        Kind::Auc => auc(&ranks),
        Kind::AnnRecall => ann_recall(&seen),
    }
}

/// One number of the queries' values: the median for `MdR`, the mean for all others, or
/// `None` if there is no value.
///
/// Values are sorted and then summed in ascending order, so their order changes nothing.
pub fn aggregate(mut values: Vec<f64>, measure: Measure) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    Some(match measure.kind() {
        Kind::MedianRank => median(&values),
        Kind::Ndcg(_)
        | Kind::Ap
        | Kind::Rr
        | Kind::Recall
        | Kind::Precision
        | Kind::Success
        | Kind::Judged
        | Kind::Rbp(_)
        | Kind::Err
        | Kind::InfAp
        | Kind::Bpref
        | Kind::MeanRank
        | Kind::Auc
        | Kind::AnnRecall => values.iter().sum::<f64>() / values.len() as f64,
    })
}

/// The value of each measure over all queries, in the order of `measures`.
///
/// A measure without a single value (no queries, or an `AUC` that leaves all of them out) is
/// NaN; ask [`aggregate`] where `None` is easier to handle.
pub fn evaluate(queries: &[Ranks], measures: &[Measure]) -> Vec<f64> {
    let over_queries = |&measure: &Measure| {
        let values = queries.iter().filter_map(|ranks| per_query(ranks, measure)).collect();
        aggregate(values, measure).unwrap_or(f64::NAN)
    };
    measures.iter().map(over_queries).collect()
}

/// Ranks as one measure sees them: to its cutoff, and by its relevance.
struct Seen<'a> {
    ranks: &'a Ranks,
    /// The last rank that counts.
    cutoff: u32,
    rel: u32,
}

impl<'a> Seen<'a> {
    fn new(ranks: &'a Ranks, measure: Measure) -> Seen<'a> {
        let cutoff = measure.cutoff().map_or(u32::MAX, NonZeroU32::get);
        Seen { ranks, cutoff, rel: measure.rel().get() }
    }

    /// Pairs of rank and gain within the cutoff, of whatever gain.
    fn found(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranks.found().iter().copied().take_while(|&(rank, _)| rank <= self.cutoff)
    }

    /// The ranks of documents that are relevant enough, within the cutoff.
    fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.found().filter(|&(_, gain)| gain >= self.rel).map(|(rank, _)| rank)
    }

    /// All gains, of documents listed and not.
    fn gains(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.found().iter().map(|&(_, gain)| gain).chain(self.ranks.missing_gains().iter().copied())
    }

    /// How many documents are relevant enough, listed or not.
    fn relevant(&self) -> usize {
        self.gains().filter(|&gain| gain >= self.rel).count()
    }

    /// The documents listed that are judged, by rank: relevant enough, not relevant enough, or of negative relevance.
    fn judged(&self) -> Vec<(u32, Judgement)> {
        let relevant = self.ranks.found().iter().map(|&(rank, gain)| {
            (rank, if gain >= self.rel { Judgement::Relevant } else { Judgement::NotRelevant })
        });
        let others = self.ranks.not_relevant().iter().map(|&(rank, relevance)| {
            (rank, if relevance < 0 { Judgement::Negative } else { Judgement::NotRelevant })
        });
        let mut judged: Vec<(u32, Judgement)> = relevant.chain(others).collect();
        judged.sort_unstable_by_key(|&(rank, _)| rank);
        judged
    }

    /// How many documents are judged not relevant enough, listed or not; negative relevances are none.
    fn not_relevant(&self) -> usize {
        let others = self.ranks.not_relevant().iter().map(|&(_, relevance)| relevance);
        let others = others.chain(self.ranks.missing_not_relevant().iter().copied());
        self.gains().filter(|&gain| gain < self.rel).count()
            + others.filter(|&relevance| relevance >= 0).count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Relevant,
    NotRelevant,
    Negative,
}

/// The rank of the first relevant document; the one beyond if it is not listed.
fn best_rank(ranks: &Ranks) -> f64 {
    ranks.best().map_or(ranks.beyond() as f64, f64::from)
}

fn ndcg(seen: &Seen<'_>, gain: Gain) -> f64 {
    let mut gains: Vec<u32> = seen.gains().collect();
    gains.sort_unstable_by(|a, b| b.cmp(a));
    let ideal = discounted((1..=seen.cutoff).zip(gains), gain);
    let actual = discounted(seen.found(), gain);
    match ideal > 0.0 {
        // Rounding could lift a nearly ideal ranking above 1.
        true => (actual / ideal).min(1.0),
        false => 0.0,
    }
}

/// The discounted gain of `(rank, gain)` pairs, summed in the order given: by ascending rank.
fn discounted(pairs: impl Iterator<Item = (u32, u32)>, gain: Gain) -> f64 {
    let worth = |relevance: u32| match gain {
        Gain::Linear => f64::from(relevance),
        Gain::Exponential => f64::from(relevance).exp2() - 1.0,
    };
    pairs.map(|(rank, relevance)| worth(relevance) / (1.0 + f64::from(rank)).log2()).sum()
}

fn average_precision(seen: &Seen<'_>) -> f64 {
    let precisions = (1u32..).zip(seen.ranks()).map(|(found, rank)| f64::from(found) / f64::from(rank));
    over(precisions.sum(), seen.relevant())
}

fn judged(seen: &Seen<'_>) -> f64 {
    let within = seen.judged().iter().filter(|&&(rank, _)| rank <= seen.cutoff).count();
    over(within as f64, seen.cutoff.min(seen.ranks.len()) as usize)
}

fn rank_biased(seen: &Seen<'_>, persistence: f64) -> f64 {
    let weight = |rank: u32| persistence.powf(f64::from(rank) - 1.0);
    (1.0 - persistence) * seen.ranks().map(weight).sum::<f64>()
}

fn expected_reciprocal(seen: &Seen<'_>) -> f64 {
    let mut reads_on = 1.0;
    let mut expected = 0.0;
    for (rank, gain) in seen.found() {
        let gain = f64::from(gain.min(ERR_RELEVANCE_MAX));
        let stops = (gain.exp2() - 1.0) / f64::from(ERR_RELEVANCE_MAX).exp2();
        expected += reads_on * stops / f64::from(rank);
        reads_on *= 1.0 - stops;
    }
    expected
}

/// As trec_eval computes it, in 64 bits: above each relevant document, the share of the pool among all documents times
/// the share of relevant ones among the judged.
fn inferred_precision(seen: &Seen<'_>) -> f64 {
    let (mut relevant, mut others, mut pooled) = (0.0, 0.0, 0.0);
    let mut sum = 0.0;
    for (rank, judgement) in seen.judged() {
        match judgement {
            Judgement::NotRelevant => others += 1.0,
            Judgement::Negative => pooled += 1.0,
            Judgement::Relevant => {
                let (rank, above) = (f64::from(rank), f64::from(rank) - 1.0);
                let precision = (relevant + INFERRED_EPSILON) / (relevant + others + 2.0 * INFERRED_EPSILON);
                let share = if above > 0.0 { (relevant + others + pooled) / above } else { 0.0 };
                sum += 1.0 / rank + above / rank * share * precision;
                relevant += 1.0;
            }
        }
    }
    over(sum, seen.relevant())
}

fn binary_preference(seen: &Seen<'_>) -> f64 {
    let (relevant, others) = (seen.relevant(), seen.not_relevant());
    let bound = relevant.min(others);
    let mut above = 0;
    let mut sum = 0.0;
    for (_, judgement) in seen.judged() {
        match judgement {
            Judgement::NotRelevant => above += 1,
            Judgement::Negative => {}
            Judgement::Relevant if above == 0 => sum += 1.0,
            Judgement::Relevant => sum += 1.0 - above.min(relevant) as f64 / bound as f64,
        }
    }
    over(sum, relevant)
}

/// The pairs are counted in whole and half numbers and divided once.
fn auc(ranks: &Ranks) -> Option<f64> {
    if ranks.is_empty() {
        return Some(0.0);
    }
    let found = ranks.found().len() as u64;
    // INVARIANT: found ranks are distinct and within the gallery, so this is not negative.
    let irrelevant = u64::from(ranks.gallery()) - found;
    if irrelevant == 0 {
        return None;
    }
    // Before the i-th relevant document of rank r stand r − i irrelevant ones.
    let misplaced: u64 = (1..).zip(ranks.found()).map(|(i, &(rank, _))| u64::from(rank) - i).sum();
    let ties = ranks.ties();
    let halves = 2 * (found * irrelevant - misplaced - ties.ordered) + ties.pairs;
    let relevant = found as f64 + ranks.missing() as f64;
    match relevant > 0.0 {
        true => Some(halves as f64 / (2.0 * relevant * irrelevant as f64)),
        false => Some(0.0),
    }
}

fn ann_recall(seen: &Seen<'_>) -> Option<f64> {
    let mut gains: Vec<u32> = seen.gains().collect();
    gains.sort_unstable_by(|a, b| b.cmp(a));
    let wanted = gains.len().min(seen.cutoff as usize);
    let least = *gains[..wanted].last()?;
    let found = seen.found().filter(|&(_, gain)| gain >= least).count();
    Some(share(found.min(wanted), wanted))
}

fn share(part: usize, whole: usize) -> f64 {
    over(part as f64, whole)
}

/// A sum over a count; 0 of none.
fn over(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// The middle of sorted values, or the mean of the two middle ones.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}
