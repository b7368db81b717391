//! The values of measures: of one query, and over queries.

use std::num::NonZeroU32;

use crate::{Measure, Ranks};

/// One query's value, or `None` if the measure leaves the query out (`AUC`, when the whole
/// gallery is relevant).
///
/// `MdR` and `MnR` have the same value, the best rank; they differ in [`aggregate`].
pub fn per_query(ranks: &Ranks, measure: Measure) -> Option<f64> {
    match measure {
        Measure::Recall(k) => Some(if best_within(ranks, k).is_some() { 1.0 } else { 0.0 }),
        Measure::MedianRank | Measure::MeanRank => Some(best_rank(ranks)),
        Measure::ReciprocalRank(k) => Some(best_within(ranks, k).map_or(0.0, |rank| 1.0 / f64::from(rank))),
        Measure::Ndcg(k) => Some(ndcg(ranks, k)),
        Measure::Auc => auc(ranks),
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
    match measure {
        Measure::MedianRank => Some(median(&values)),
        Measure::Recall(_)
        | Measure::MeanRank
        | Measure::ReciprocalRank(_)
        | Measure::Ndcg(_)
        | Measure::Auc => Some(values.iter().sum::<f64>() / values.len() as f64),
    }
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

fn best_within(ranks: &Ranks, k: NonZeroU32) -> Option<u32> {
    ranks.best().filter(|&rank| rank <= k.get())
}

/// The rank of the first relevant document; one past the gallery if it has none.
fn best_rank(ranks: &Ranks) -> f64 {
    ranks.best().map_or(f64::from(ranks.gallery()) + 1.0, f64::from)
}

fn ndcg(ranks: &Ranks, k: NonZeroU32) -> f64 {
    let mut gains: Vec<u32> = ranks.found().iter().map(|&(_, gain)| gain).collect();
    gains.extend_from_slice(ranks.missing_gains());
    gains.sort_unstable_by(|a, b| b.cmp(a));
    let ideal = discounted((1..=k.get()).zip(gains));
    let actual = discounted(ranks.found().iter().copied().take_while(|&(rank, _)| rank <= k.get()));
    match ideal > 0.0 {
        // Rounding could lift a nearly ideal ranking above 1.
        true => (actual / ideal).min(1.0),
        false => 0.0,
    }
}

/// The discounted gain of `(rank, gain)` pairs, summed in the order given: by ascending rank.
fn discounted(pairs: impl Iterator<Item = (u32, u32)>) -> f64 {
    pairs.map(|(rank, gain)| f64::from(gain) / (1.0 + f64::from(rank)).log2()).sum()
}

/// The pairs are counted in whole numbers and divided once.
fn auc(ranks: &Ranks) -> Option<f64> {
    let found = ranks.found().len() as u64;
    // INVARIANT: found ranks are distinct and within the gallery, so this is not negative.
    let irrelevant = u64::from(ranks.gallery()) - found;
    if irrelevant == 0 {
        return None;
    }
    // Before the i-th relevant document of rank r stand r − i irrelevant ones.
    let misplaced: u64 = (1..).zip(ranks.found()).map(|(i, &(rank, _))| u64::from(rank) - i).sum();
    let ordered = found * irrelevant - misplaced;
    let relevant = found as f64 + ranks.missing() as f64;
    match relevant > 0.0 {
        true => Some(ordered as f64 / (relevant * irrelevant as f64)),
        false => Some(0.0),
    }
}

/// The middle of sorted values, or the mean of the two middle ones.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}
