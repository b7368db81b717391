//! The best `k` of many scored rows.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A scored row. Better candidates are greater: a higher score, or the same score and a lower row.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// The score; larger is better.
    pub score: f32,
    /// The row in the gallery.
    pub row: u32,
}

impl Candidate {
    /// A candidate; `-0.0` becomes `0.0` so that equal scores tie.
    pub fn new(score: f32, row: u32) -> Candidate {
        debug_assert!(!score.is_nan(), "no NaN passes the border");
        Candidate { score: score + 0.0, row }
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.score.total_cmp(&other.score).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// Keeps the best `k` candidates pushed, whatever their order.
#[derive(Debug, Clone)]
pub struct TopK {
    k: usize,
    worst_first: BinaryHeap<Reverse<Candidate>>,
}

impl TopK {
    /// Room for `k` candidates. Memory grows with what is pushed, not with `k`.
    pub fn new(k: usize) -> TopK {
        TopK { k, worst_first: BinaryHeap::new() }
    }

    /// Keeps `candidate` if it is among the best `k` so far; says whether it was kept.
    pub fn push(&mut self, candidate: Candidate) -> bool {
        if self.worst_first.len() < self.k {
            self.worst_first.push(Reverse(candidate));
            return true;
        }
        match self.worst_first.peek_mut() {
            Some(mut worst) if candidate > worst.0 => {
                *worst = Reverse(candidate);
                true
            }
            _ => false,
        }
    }

    /// The worst candidate kept, once there are `k`; one that is not better need not be pushed.
    pub fn threshold(&self) -> Option<Candidate> {
        if self.worst_first.len() < self.k { None } else { self.worst_first.peek().map(|worst| worst.0) }
    }

    /// How many candidates are kept.
    pub fn len(&self) -> usize {
        self.worst_first.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.worst_first.is_empty()
    }

    /// The candidates, best first.
    pub fn into_sorted(self) -> Vec<Candidate> {
        let sorted = self.worst_first.into_sorted_vec();
        sorted.into_iter().map(|candidate| candidate.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_k_equal_the_head_of_a_full_sort(
            scores in prop::collection::vec(-3_i8..3, 0..60),
            k in 0_usize..20,
        ) {
            let all: Vec<_> =
                (0..).zip(&scores).map(|(row, &score)| Candidate::new(f32::from(score), row)).collect();
            let mut top = TopK::new(k);
            for &candidate in all.iter().rev() {
                top.push(candidate);
            }
            let mut sorted = all;
            sorted.sort_by_key(|&candidate| Reverse(candidate));
            sorted.truncate(k);
            prop_assert_eq!(top.into_sorted(), sorted);
        }
    }

    #[test]
    fn negative_zero_ties_with_zero_and_the_lower_row_wins() {
        let mut top = TopK::new(1);
        top.push(Candidate::new(0.0, 9));
        top.push(Candidate::new(-0.0, 4));
        assert_eq!(top.into_sorted()[0].row, 4);
    }
}
