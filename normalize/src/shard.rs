//! Shards: a bank's entries in runs, so that a sum over the bank is a sum of partials, and an entry can
//! be removed by summing one run again. Subtracting a term from a sum of exponentials loses its digits.

use std::ops::Range;

/// Entries of a shard of the first size. A multiple of a chunk's rows, so that no chunk is cut.
const SHARD_ENTRIES: usize = 4096;

/// Shards of a size; those that follow are twice as large. So a point keeps at most 16 partials for each
/// doubling of the bank, and removing an entry costs at most a part of the bank that shrinks to 1/32.
const SHARDS_OF_SIZE: usize = 16;

/// The shard an entry is in.
pub fn shard_of(entry: u32) -> usize {
    let run = SHARD_ENTRIES * SHARDS_OF_SIZE;
    let doublings = (entry as usize / run + 1).ilog2();
    let start = run * ((1 << doublings) - 1);
    SHARDS_OF_SIZE * doublings as usize + (((entry as usize - start) / SHARD_ENTRIES) >> doublings)
}

/// The entries of a shard.
pub fn shard_entries(shard: usize) -> Range<usize> {
    let doublings = shard / SHARDS_OF_SIZE;
    let start = SHARD_ENTRIES * SHARDS_OF_SIZE * ((1 << doublings) - 1);
    let size = SHARD_ENTRIES << doublings;
    let first = start + shard % SHARDS_OF_SIZE * size;
    first..first + size
}

/// What a sum keeps of a shard.
pub trait Partial: Copy {
    /// No entry yet.
    const EMPTY: Self;

    /// Takes in the entries of another.
    fn merge(&mut self, other: Self);
}

/// A partial for each shard, in their order; shards that come later have none yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Partials<T>(Vec<T>);

impl<T: Partial> Partials<T> {
    pub(crate) fn new() -> Partials<T> {
        Partials(vec![T::EMPTY])
    }

    /// The partial of a shard.
    pub(crate) fn at(&mut self, shard: usize) -> &mut T {
        if shard >= self.0.len() {
            self.0.resize(shard + 1, T::EMPTY);
        }
        &mut self.0[shard]
    }

    /// The whole: the partials merged in the order of their shards.
    pub fn fold(&self) -> T {
        let mut partials = self.0.iter().copied();
        let first = partials.next().unwrap_or(T::EMPTY);
        partials.fold(first, |mut whole, partial| {
            whole.merge(partial);
            whole
        })
    }

    pub(crate) fn merge(&mut self, other: &Partials<T>) {
        for (shard, &partial) in other.0.iter().enumerate() {
            self.at(shard).merge(partial);
        }
    }

    pub(crate) fn replace(&mut self, shard: usize, other: &Partials<T>) {
        *self.at(shard) = other.0.get(shard).copied().unwrap_or(T::EMPTY);
    }

    pub(crate) fn is_within(&self, entries: usize) -> bool {
        shard_entries(self.0.len() - 1).start < entries.max(1)
    }

    pub(crate) fn encode<const N: usize>(&self, encode: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        self.0.iter().flat_map(encode).collect()
    }

    pub(crate) fn decode<const N: usize>(
        bytes: &[u8],
        decode: impl Fn(&[u8; N]) -> Option<T>,
    ) -> Option<Partials<T>> {
        let (partials, rest) = bytes.as_chunks::<N>();
        let is_whole = rest.is_empty() && !partials.is_empty();
        is_whole.then(|| partials.iter().map(decode).collect::<Option<Vec<T>>>())?.map(Partials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_follow_one_another_and_double_after_sixteen() {
        let mut next = 0;
        for shard in 0..100 {
            let entries = shard_entries(shard);
            assert_eq!(entries.start, next);
            assert_eq!(entries.len(), 4096 << (shard / 16));
            assert!(entries.len().is_multiple_of(dehub_vector::CHUNK_ROWS));
            for entry in [entries.start, entries.start + entries.len() / 3, entries.end - 1] {
                assert_eq!(shard_of(u32::try_from(entry).expect("a bank's entry")), shard);
            }
            next = entries.end;
        }
    }
}
