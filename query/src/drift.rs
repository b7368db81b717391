//! Whether queries are still like the bank that corrections were fitted from.

use std::fmt;

use dehub_index::{Name, Snapshot};
use dehub_normalize::{Bank, Points, Statistic, fit_states};
use dehub_vector::{Chunked, Vector};

use crate::QueryError;

/// Queries and bank entries looked at, at most, evenly spread: as many give the share to two digits.
const SAMPLE: usize = 2048;

/// The fewest of either: below, nothing could be told from chance.
pub const DRIFT_SAMPLE_MIN: usize = 30;

/// How far queries are from a bank, by the standard of the bank's own entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Queries looked at.
    pub queries: usize,
    /// Bank entries looked at.
    pub entries: usize,
    /// The mean similarity of a query to the bank entry nearest to it.
    pub nearest_of_queries: f64,
    /// The mean similarity of an entry to the nearest of the others.
    pub nearest_of_entries: f64,
    /// The chance that a query is farther from its nearest entry than an entry is from its own; ties
    /// count half. 0.5 when they are alike, 1 when every query is farther (the Mann-Whitney statistic
    /// over the number of pairs).
    pub farther: f64,
    /// How many standard deviations that is above what chance gives when they are alike (the normal
    /// approximation, with the correction for ties).
    pub z: f64,
}

/// Below this share of pairs, queries count as alike: the lists of neighbours hardly differ then.
const DRIFTING_FROM: f64 = 0.55;

/// From this share of pairs on, most queries are farther from the bank than its own entries.
const FAR_FROM: f64 = 0.75;

/// Standard deviations below which a share is not told from chance.
const CHANCE_BELOW: f64 = 3.0;

/// What a drift comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// The queries are like the bank, or not surely unlike it.
    Alike,
    /// They have begun to leave it: in 55 to 75 % of pairs a query is farther away.
    Drifting,
    /// They are others: in 75 % of pairs or more.
    Far,
}

impl Likeness {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Likeness::Alike => "alike",
            Likeness::Drifting => "drifting",
            Likeness::Far => "far",
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Likeness::Alike => "what was fitted from this bank suits these queries: there is nothing to do",
            Likeness::Drifting => {
                "add recent queries to the bank or fit from a bank of them, and let tune choose again"
            }
            Likeness::Far => {
                "what was fitted from this bank is about other queries: rank raw until it is fitted from a \
                 bank of recent ones and tune has chosen again"
            }
        }
    }
}

impl Drift {
    /// What it comes to.
    pub fn likeness(&self) -> Likeness {
        if self.z < CHANCE_BELOW || self.farther < DRIFTING_FROM {
            Likeness::Alike
        } else if self.farther < FAR_FROM {
            Likeness::Drifting
        } else {
            Likeness::Far
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: in {:.0} % of pairs a query is farther from its nearest bank entry than an entry from its own \
             (50 % when they are alike; z = {:.1})",
            self.likeness().name(),
            100.0 * self.farther,
            self.z
        )
    }
}

/// Compares queries with a bank: each query's similarity to its nearest entry with each entry's to the
/// nearest of the others. A correction fitted from a bank that live queries have drifted away from
/// demotes what nobody asks for, and misses what they do. Each entry counts once, whatever its weight.
pub fn drift(snapshot: &Snapshot, bank: &Name, queries: &[Vector]) -> Result<Drift, QueryError> {
    if snapshot.bank(bank.as_str()).is_none() {
        let names: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(QueryError::UnknownBank { bank: bank.to_string(), found });
    }
    let entries = snapshot.bank_queries(bank, usize::MAX);
    for (what, found) in [("queries", queries.len()), ("entries in the bank", entries.len())] {
        if found < DRIFT_SAMPLE_MIN {
            return Err(QueryError::TooFewToCompare { what, found, least: DRIFT_SAMPLE_MIN });
        }
    }
    let whole = chunked(snapshot, &entries);
    let spread = |len: usize| {
        let taken = len.min(SAMPLE);
        (0..taken).map(move |place| place * len / taken)
    };
    let asked: Vec<Vector> = spread(queries.len()).map(|place| queries[place].clone()).collect();
    let places: Vec<u32> =
        spread(entries.len()).map(|place| u32::try_from(place).expect("below 2^32")).collect();
    let own: Vec<Vector> = places.iter().map(|&place| entries[place as usize].clone()).collect();
    let of_queries = nearest(snapshot, &asked, &whole, &|_| None);
    let of_entries = nearest(snapshot, &own, &whole, &|row| places.get(row as usize).copied());
    let (farther, z) = mann_whitney(&of_entries, &of_queries);
    Ok(Drift {
        queries: of_queries.len(),
        entries: of_entries.len(),
        nearest_of_queries: mean(&of_queries),
        nearest_of_entries: mean(&of_entries),
        farther,
        z,
    })
}

fn chunked(snapshot: &Snapshot, vectors: &[Vector]) -> Chunked {
    let mut rows = Chunked::new(snapshot.config().dim.get());
    vectors.iter().for_each(|vector| rows.push(vector.as_slice()));
    rows
}

/// The similarity of each vector to the nearest entry that is not itself.
fn nearest(
    snapshot: &Snapshot,
    vectors: &[Vector],
    entries: &Chunked,
    own_entry: &(dyn Fn(u32) -> Option<u32> + Sync),
) -> Vec<f64> {
    let rows = chunked(snapshot, vectors);
    let points = Points { vectors: &rows, live: &|_| true, own_entry };
    let statistic = Statistic::TopMean { k: 1 };
    let bank = Bank::new(entries, snapshot.config().metric);
    let states = fit_states(&points, 0, bank, 0, &[statistic]).pop().unwrap_or_default();
    states.iter().map(|state| statistic.value(state, entries)).collect()
}

/// The chance that one of `left` is larger than one of `right`, ties half, and its z-score.
#[expect(clippy::cast_precision_loss, reason = "sample sizes are far below 2^53")]
fn mann_whitney(left: &[f64], right: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> =
        left.iter().map(|&it| (it, true)).chain(right.iter().map(|&it| (it, false))).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (m, n) = (left.len() as f64, right.len() as f64);
    let (mut ranks, mut ties, mut start) = (0.0, 0.0, 0);
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        let count = tied.len() as f64;
        let rank = start as f64 + (count + 1.0) / 2.0;
        ranks += rank * tied.iter().filter(|(_, is_left)| *is_left).count() as f64;
        ties += count * count * count - count;
        start += tied.len();
    }
    let u = ranks - m * (m + 1.0) / 2.0;
    let total = m + n;
    let variance = m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    let z = if variance > 0.0 { (u - m * n / 2.0) / variance.sqrt() } else { 0.0 };
    (u / (m * n), z)
}

#[expect(clippy::cast_precision_loss, reason = "sample sizes are far below 2^53")]
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_pairs_is_counted_and_its_deviation_is_the_textbook_one() {
        let (left, right) = ([1.0, 2.0, 2.0, 5.0], [0.0, 2.0, 3.0]);
        let pairs = left.iter().flat_map(|l| right.iter().map(move |r| (l, r)));
        let wins: f64 = pairs
            .map(|(l, r): (&f64, &f64)| {
                if l > r {
                    1.0
                } else if l == r {
                    0.5
                } else {
                    0.0
                }
            })
            .sum();
        let (share, z) = mann_whitney(&left, &right);
        assert!((share - wins / 12.0).abs() < 1e-12);
        // One tie of three among seven: 12/12·(8 − 24/42).
        assert!((z - (wins - 6.0) / (8.0_f64 - 24.0 / 42.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_share_is_a_word_where_it_is_told_from_chance() {
        let cases = [
            (0.50, 0.0, "alike"),
            (0.40, -9.0, "alike"),
            (0.54, 9.0, "alike"),
            (0.99, 2.9, "alike"),
            (0.55, 3.0, "drifting"),
            (0.74, 9.0, "drifting"),
            (0.75, 9.0, "far"),
            (1.00, 40.0, "far"),
        ];
        for (farther, z, wanted) in cases {
            let (queries, entries) = (100, 100);
            let drift =
                Drift { queries, entries, nearest_of_queries: 0.5, nearest_of_entries: 0.5, farther, z };
            assert_eq!(drift.likeness().name(), wanted, "{farther} {z}");
            assert!(drift.to_string().starts_with(wanted), "{drift}");
            assert!(drift.to_string().contains(&format!("{:.0} % of pairs", 100.0 * farther)), "{drift}");
        }
    }

    #[test]
    fn equal_samples_are_alike() {
        assert_eq!(mann_whitney(&[1.0; 40], &[1.0; 30]), (0.5, 0.0));
    }
}
