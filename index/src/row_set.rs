//! A set of rows as bits, shared like the rows themselves.

use std::ops::Range;
use std::sync::Arc;

use dehub_vector::CHUNK_ROWS;

/// A set of row numbers. A clone is shared until one of the two changes.
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    words: Arc<Vec<u64>>,
    len: usize,
}

impl RowSet {
    /// How many rows are in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row is in the set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `row` is in the set.
    pub fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Adds `row`; says whether it was new.
    pub fn insert(&mut self, row: u32) -> bool {
        if self.contains(row) {
            return false;
        }
        let words = Arc::make_mut(&mut self.words);
        let word = row as usize / 64;
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (row % 64);
        self.len += 1;
        true
    }

    /// Takes `row` out; says whether it was there.
    pub fn remove(&mut self, row: u32) -> bool {
        if !self.contains(row) {
            return false;
        }
        Arc::make_mut(&mut self.words)[row as usize / 64] &= !(1 << (row % 64));
        self.len -= 1;
        true
    }

    /// Takes out the rows that are not in the other set too.
    pub fn keep(&mut self, other: &RowSet) {
        let beyond = self.words.len().min(other.words.len());
        let words = Arc::make_mut(&mut self.words);
        words.truncate(beyond);
        self.combine(other, |own, other| own & other);
    }

    /// Takes out the rows of the other set.
    pub fn remove_all(&mut self, other: &RowSet) {
        self.combine(other, |own, other| own & !other);
    }

    /// Adds the rows of the other set.
    pub fn insert_all(&mut self, other: &RowSet) {
        if self.words.len() < other.words.len() {
            Arc::make_mut(&mut self.words).resize(other.words.len(), 0);
        }
        self.combine(other, |own, other| own | other);
    }

    /// Makes something of each word that both have.
    fn combine(&mut self, other: &RowSet, make: impl Fn(u64, u64) -> u64) {
        let words = Arc::make_mut(&mut self.words);
        words.iter_mut().zip(&*other.words).for_each(|(own, &other)| *own = make(*own, other));
        self.len = words.iter().map(|word| word.count_ones() as usize).sum();
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.within(0..u32::MAX)
    }

    /// How many of `rows` are in the set.
    pub(crate) fn count(&self, rows: Range<u32>) -> usize {
        self.words_within(rows).map(|(_, word)| word.count_ones() as usize).sum()
    }

    /// Whether none of `rows` is in the set.
    pub(crate) fn has_none(&self, rows: Range<u32>) -> bool {
        self.words_within(rows).all(|(_, word)| word == 0)
    }

    /// Those of `rows` that are in the set, ascending.
    pub(crate) fn within(&self, rows: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.words_within(rows).flat_map(|(place, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < 64).then(|| place * 64 + bit)
            })
        })
    }

    /// The words over `rows` with their places, without the bits of other rows.
    fn words_within(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, u64)> + '_ {
        let end = self.words.len().min(rows.end.div_ceil(64) as usize);
        let words = &self.words[(rows.start as usize / 64).min(end)..end];
        (rows.start / 64..).zip(words).map(move |(place, &word)| {
            // The bits from one row of the word on.
            let from = |row: u32| match row.saturating_sub(place * 64) {
                bit @ 0..64 => u64::MAX << bit,
                _ => 0,
            };
            (place, word & from(rows.start) & !from(rows.end))
        })
    }
}

/// The rows of a chunk.
pub(crate) fn chunk_rows(chunk: usize) -> Range<u32> {
    let row = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
    row(chunk * CHUNK_ROWS)..row((chunk + 1) * CHUNK_ROWS)
}

impl FromIterator<u32> for RowSet {
    fn from_iter<I: IntoIterator<Item = u32>>(rows: I) -> RowSet {
        let mut set = RowSet::default();
        set.extend(rows);
        set
    }
}

impl Extend<u32> for RowSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, rows: I) {
        let words = Arc::make_mut(&mut self.words);
        for row in rows {
            let (place, bit) = (row as usize / 64, 1 << (row % 64));
            if place >= words.len() {
                words.resize(place + 1, 0);
            }
            self.len += usize::from(words[place] & bit == 0);
            words[place] |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_a_tree_would_be(
            changes in prop::collection::vec((any::<bool>(), 0_u32..300), 0..200), from in 0_u32..300, to in 0_u32..400
        ) {
            let (mut bits, mut tree) = (RowSet::default(), BTreeSet::new());
            for (add, row) in changes {
                if add {
                    prop_assert_eq!(bits.insert(row), tree.insert(row));
                } else {
                    prop_assert_eq!(bits.remove(row), tree.remove(&row));
                }
            }
            prop_assert_eq!(bits.len(), tree.len());
            prop_assert!(bits.iter().eq(tree.iter().copied()));
            for rows in [0..300, 5..5, 63..64, 64..130, from..to, 200..u32::MAX] {
                let rows = rows.start.min(rows.end)..rows.end;
                prop_assert!(bits.within(rows.clone()).eq(tree.range(rows.clone()).copied()));
                prop_assert_eq!(bits.has_none(rows.clone()), tree.range(rows.clone()).next().is_none());
                prop_assert_eq!(bits.count(rows.clone()), tree.range(rows).count());
            }
        }

        #[test]
        fn sets_are_combined_as_trees_would_be(
            a in prop::collection::btree_set(0_u32..300, 0..60), b in prop::collection::btree_set(0_u32..200, 0..60)
        ) {
            for (a, b) in [(&a, &b), (&b, &a)] {
                let (set, other): (RowSet, RowSet) = (a.iter().copied().collect(), b.iter().copied().collect());
                let (mut both, mut less, mut all) = (set.clone(), set.clone(), set);
                both.keep(&other);
                less.remove_all(&other);
                all.insert_all(&other);
                for (found, wanted) in [(both, a & b), (less, a - b), (all, a | b)] {
                    prop_assert!(found.iter().eq(wanted.iter().copied()));
                    prop_assert_eq!(found.len(), wanted.len());
                }
            }
        }
    }
}
