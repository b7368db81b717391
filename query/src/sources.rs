//! Where a bank's entries come from, and what each source does to the points.

use std::collections::BTreeSet;

use dehub_index::{Correction, Name, Snapshot};
use dehub_normalize::Statistic;
use dehub_vector::PointId;
use rayon::prelude::*;

use crate::QueryError;

/// What the entries of one source do.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInfluence {
    /// The part of their ids before the separator; empty for entries without one.
    pub source: String,
    /// How many they are.
    pub entries: usize,
    /// Their share of the bias of the point asked about.
    pub share: Option<f64>,
    /// The mean change of all points' biases if the source were left out, before any guard.
    pub mean_change: f64,
    /// The points that owe it more than half of their bias.
    pub mostly: usize,
}

/// What a source does to one point.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    share: f64,
    change: f64,
}

/// The influence of each source of the bank that a correction is fitted from, by name.
///
/// The share of a source in a point's bias is, for a log-sum-exp, its part of the sum:
/// `Σ_{b of the source} e^{β(s(b,p) − bias(p))}`; for a mean of the `k` nearest, how many of them it has.
/// A source that is a small part of the bank and most of the bias of some point was made for that point.
///
/// Every similarity is computed, once.
pub fn source_influences(
    snapshot: &Snapshot,
    correction: &Correction,
    separator: &str,
    row: Option<u32>,
) -> Result<Vec<SourceInfluence>, QueryError> {
    let info = correction.info();
    let terms = info.method.terms(snapshot.config().metric);
    let (statistic, bank) = match (terms.as_slice(), &info.query_bank) {
        ([term], Some(bank)) if correction.scale().is_none() => (term.statistic, bank),
        _ => return Err(unsuited(correction)),
    };
    refuse_weights(snapshot, correction)?;
    let weight = info.method.weights(&[true])[0];
    let Sources { names, groups } = Sources::of(snapshot, bank, separator);
    let count = names.len();
    if count < 2 {
        return Err(QueryError::Unsuited {
            method: info.method.to_string(),
            reason: "all entries of its bank are of one source: wanted ids with the separator, of two or more",
        });
    }
    let queries = snapshot.bank_queries(bank, usize::MAX);
    let parts = |row: u32| -> Option<Vec<Part>> {
        let similarities: Vec<f64> =
            queries.iter().map(|query| f64::from(snapshot.similarity(query, row))).collect();
        match statistic {
            Statistic::LogSumExp { beta } => Some(of_sum(&similarities, &groups, count, beta)),
            Statistic::TopMean { k } => Some(of_nearest(&similarities, &groups, count, k)),
            Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Sinkhorn { .. }
            | Statistic::CentroidPull { .. }
            | Statistic::Largest { .. } => None,
        }
    };
    let rows: Vec<u32> = snapshot.rows().collect();
    let first = rows.first().ok_or(QueryError::NoPoints)?;
    parts(*first).ok_or_else(|| unsuited(correction))?;
    let none = || vec![(0.0, 0); count];
    let add = |mut sums: Vec<(f64, usize)>, &row: &u32| {
        for (sum, part) in sums.iter_mut().zip(parts(row).unwrap_or_default()) {
            *sum = (sum.0 + part.change, sum.1 + usize::from(part.share > 0.5));
        }
        sums
    };
    // Chunks in the order of their rows, so that the sums do not depend on the threads.
    let chunks: Vec<Vec<(f64, usize)>> =
        rows.par_chunks(256).map(|rows| rows.iter().fold(none(), add)).collect();
    let of_row = row.and_then(parts);
    let influence = |(number, source): (usize, String)| {
        let mine = chunks.iter().map(|chunk| chunk[number]);
        let (change, mostly) = mine.fold((0.0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
        SourceInfluence {
            source,
            entries: groups.iter().filter(|&&group| group == number).count(),
            share: of_row.as_ref().map(|parts| parts[number].share),
            mean_change: weight * change / rows.len() as f64,
            mostly,
        }
    };
    Ok(names.into_iter().enumerate().map(influence).collect())
}

/// The sources of a bank's entries.
struct Sources {
    /// By name.
    names: Vec<String>,
    /// The place of each entry's source among the names.
    groups: Vec<usize>,
}

impl Sources {
    fn of(snapshot: &Snapshot, bank: &Name, separator: &str) -> Sources {
        let source = |id: &Option<PointId>| {
            let id = id.as_ref().map(ToString::to_string).unwrap_or_default();
            id.split_once(separator).map_or(String::new(), |(source, _)| source.to_owned())
        };
        let sources: Vec<String> = snapshot.bank_ids(bank).iter().map(source).collect();
        let names: Vec<String> = sources.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let place = |source: &String| names.partition_point(|name| name < source);
        let groups = sources.iter().map(place).collect();
        Sources { names, groups }
    }
}

/// Refuses a correction over a bank in which some entry does not count as one.
#[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^53")]
pub(crate) fn refuse_weights(snapshot: &Snapshot, correction: &Correction) -> Result<(), QueryError> {
    let bank = correction.info().query_bank.as_ref().and_then(|bank| snapshot.bank(bank.as_str()));
    if bank.is_none_or(|bank| bank.weight == bank.entries as f64) {
        return Ok(());
    }
    let reason = "entries are counted here, and those of its bank have weights other than 1";
    Err(QueryError::Unsuited { method: correction.info().method.to_string(), reason })
}

fn unsuited(correction: &Correction) -> QueryError {
    QueryError::Unsuited {
        method: correction.info().method.to_string(),
        reason: "sources are told apart for a log-sum-exp or a mean of the nearest over one query bank: IS, DIS, \
                 CSLS and NNN",
    }
}

/// `ln(e^a + e^b)`.
fn ln_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

fn of_sum(similarities: &[f64], groups: &[usize], count: usize, beta: f64) -> Vec<Part> {
    let top = similarities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Each source with a maximum of its own, so that what is far below the top is not lost when that goes.
    let mut maxima = vec![f64::NEG_INFINITY; count];
    groups.iter().zip(similarities).for_each(|(&group, &it)| maxima[group] = maxima[group].max(it));
    let mut sums = vec![0.0; count];
    groups
        .iter()
        .zip(similarities)
        .for_each(|(&group, &it)| sums[group] += (beta * (it - maxima[group])).exp());
    let logs: Vec<f64> =
        maxima.iter().zip(&sums).map(|(&most, &sum): (&f64, &f64)| beta * (most - top) + sum.ln()).collect();
    // What is before each source and what is after it, so that nothing is subtracted.
    let mut after = vec![f64::NEG_INFINITY; count + 1];
    (0..count).rev().for_each(|group| after[group] = ln_add(logs[group], after[group + 1]));
    let mut before = f64::NEG_INFINITY;
    let mut parts = Vec::with_capacity(count);
    for (group, &log) in logs.iter().enumerate() {
        let others = ln_add(before, after[group + 1]);
        let whole = after[0];
        parts.push(Part { share: (log - whole).exp(), change: (others - whole) / beta });
        before = ln_add(before, log);
    }
    parts
}

#[expect(clippy::cast_precision_loss, reason = "counts of entries are far below 2^53")]
fn of_nearest(similarities: &[f64], groups: &[usize], count: usize, k: usize) -> Vec<Part> {
    let mut order: Vec<usize> = (0..similarities.len()).collect();
    order.sort_unstable_by(|&a, &b| similarities[b].total_cmp(&similarities[a]).then(a.cmp(&b)));
    let mean = |entries: &mut dyn Iterator<Item = usize>| {
        let nearest: Vec<f64> = entries.take(k).map(|entry| similarities[entry]).collect();
        nearest.iter().sum::<f64>() / nearest.len().max(1) as f64
    };
    let whole = mean(&mut order.iter().copied());
    let mut parts = vec![Part::default(); count];
    let kept = k.min(order.len());
    order[..kept].iter().for_each(|&entry| parts[groups[entry]].share += 1.0 / kept as f64);
    for (group, part) in parts.iter_mut().enumerate().filter(|(_, part)| part.share > 0.0) {
        part.change = mean(&mut order.iter().copied().filter(|&entry| groups[entry] != group)) - whole;
    }
    parts
}
