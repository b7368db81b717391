//! The activation set of a gate: the points that are a nearest neighbour of some bank query.
//!
//! From *Cross Modal Retrieval with Querybank Normalisation* (Bogolin et al., CVPR 2022): a query
//! whose raw best point is in no bank query's top `k` is not near a known hub, and stays raw.

use dehub_vector::{Candidate, TopK};

/// The raw `k` best points of each bank query. The set is their union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    k: usize,
    best: Vec<Vec<Candidate>>,
}

impl Activation {
    /// No bank query yet.
    pub fn new(k: usize) -> Activation {
        Activation { k, best: Vec::new() }
    }

    /// One from the lists of each bank query, each best first and at most `k` long.
    pub fn from_lists(k: usize, best: Vec<Vec<Candidate>>) -> Activation {
        debug_assert!(best.iter().all(|list| list.len() <= k && list.is_sorted_by(|a, b| a > b)));
        Activation { k, best }
    }

    /// How many points of each bank query are in the set.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Adds the lists of bank queries that came later.
    pub fn extend(&mut self, later: Activation) {
        debug_assert_eq!(self.k, later.k, "lists of one gate");
        self.best.extend(later.best);
    }

    /// Takes the points of `other`, fitted for the same bank queries over other points, into account.
    /// Returns the bank queries whose list changed.
    pub fn merge(&mut self, other: &Activation) -> Vec<usize> {
        debug_assert_eq!(self.best.len(), other.best.len(), "lists of one bank");
        let mut changed = Vec::new();
        for (entry, (mine, theirs)) in self.best.iter_mut().zip(&other.best).enumerate() {
            let mut top = TopK::new(self.k);
            mine.iter().for_each(|&candidate| _ = top.push(candidate));
            if theirs.iter().filter(|&&candidate| top.push(candidate)).count() > 0 {
                *mine = top.into_sorted();
                changed.push(entry);
            }
        }
        changed
    }

    /// Bank queries that have one of `gone` among their best: their list must be fitted anew.
    pub fn holding(&self, gone: impl Fn(u32) -> bool) -> Vec<usize> {
        let holds = |list: &[Candidate]| list.iter().any(|candidate| gone(candidate.row));
        (0..self.best.len()).filter(|&entry| holds(&self.best[entry])).collect()
    }

    /// Replaces the list of one bank query.
    pub fn replace(&mut self, entry: usize, list: Vec<Candidate>) {
        self.best[entry] = list;
    }

    /// The list of each bank query, best first.
    pub fn lists(&self) -> &[Vec<Candidate>] {
        &self.best
    }

    /// The set itself: the rows in any list, ascending, each once.
    pub fn rows(&self) -> Vec<u32> {
        let mut rows: Vec<_> = self.best.iter().flatten().map(|candidate| candidate.row).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}
