//! Points in an order that no query gives.

use dehub_index::{Scope, Snapshot};

use super::Found;
use crate::{Filter, OrderBy, QueryError, ordered, page};

/// The score of a point that has been listed.
const LISTED: f32 = 1.0;

/// The `limit` points of a scope with the least ids: numbers before strings.
pub(crate) fn by_id(snapshot: &Snapshot, scope: &Scope, limit: usize) -> Result<Vec<Found>, QueryError> {
    let rows = page(snapshot, scope, &Filter::default(), None, limit)?.rows;
    Ok(rows.into_iter().map(|row| Found::scored(row, LISTED)).collect())
}

/// The first `limit` values of a scope's points.
pub(crate) fn by_value(
    snapshot: &Snapshot,
    scope: &Scope,
    order: &OrderBy,
    limit: usize,
) -> Result<Vec<Found>, QueryError> {
    let found = |(row, value)| Found { order_value: Some(value), ..Found::scored(row, LISTED) };
    Ok(ordered(snapshot, scope, order, limit)?.into_iter().map(found).collect())
}

/// `limit` points of a scope that a seed picks, in an order of its own.
pub(crate) fn at_random(scope: &Scope, seed: u64, limit: usize) -> Vec<Found> {
    let rows = sample(scope.rows().collect(), seed, limit);
    rows.into_iter().map(|row| Found::scored(row, LISTED)).collect()
}

/// The first of a shuffle (Fisher and Yates) by SplitMix64.
pub(crate) fn sample(mut rows: Vec<u32>, seed: u64, limit: usize) -> Vec<u32> {
    let limit = limit.min(rows.len());
    let mut state = seed;
    for place in 0..limit {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let left = (rows.len() - place) as u64;
        // The high half of the product is uniform below `left` but for a part in 2^64 / left.
        let drawn = (u128::from(mixed ^ (mixed >> 31)) * u128::from(left)) >> 64;
        rows.swap(place, place + usize::try_from(drawn).unwrap_or_default());
    }
    rows.truncate(limit);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_every_row_equally_often_and_none_twice() {
        let mut counts = [0_u32; 10];
        for seed in 0..4000 {
            let mut drawn = sample((0..10).collect(), seed, 3);
            drawn.iter().for_each(|&row| counts[row as usize] += 1);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 3);
        }
        // The mean is 1200 and the deviation 29.
        assert!(counts.iter().all(|count| count.abs_diff(1200) < 150), "{counts:?}");
        assert_eq!(sample(vec![4, 5], 1, 9).len(), 2);
        assert!(sample(Vec::new(), 1, 9).is_empty());
    }
}
