//! Similarities as a search scores them, of the pairs for which that matters.

use std::ops::Range;

use dehub_vector::longest_square;

use crate::fit::{pair, slack};
use crate::{Bank, Block, Statistic};

/// Scores pairs of a block with [`pair`], where a matrix product is right but for the last bits: what a
/// query's rank in a list is counted from must tie with what the query itself is scored by.
#[derive(Clone, Copy)]
pub(crate) struct ExactPairs<'a> {
    bank: Bank<'a>,
    /// A bound on the squared length of the block's entries.
    square_max: f32,
}

impl<'a> ExactPairs<'a> {
    pub(crate) fn new(bank: Bank<'a>, entries: &Range<usize>, statistics: &[Statistic]) -> ExactPairs<'a> {
        let is_needed = statistics.iter().any(|statistic| matches!(statistic, Statistic::Largest { .. }));
        let squares = entries.clone().filter(|_| is_needed).map(|entry| bank.vectors.square(entry));
        ExactPairs { bank, square_max: squares.fold(0.0, f32::max) }
    }

    /// The similarities of a block that may be among the `k` largest of the bank, given the largest so
    /// far. Every one that is among them is there.
    pub(crate) fn largest(&self, point: &[f32], block: Block<'_>, k: usize, kept: &[f32]) -> Vec<f32> {
        // A rank is among entries, whatever their weights; those removed have none.
        let is_there = |place: usize| block.weights.get(place).is_none_or(|&weight| weight > 0.0);
        let places = (0..block.similarities.len()).filter(|&place| is_there(place));
        let products: Vec<f32> = places.clone().map(|place| block.similarities[place]).collect();
        let dim = self.bank.vectors.width();
        let slack = slack(dim, longest_square(point, dim), self.square_max);
        let mut floor = if kept.len() >= k { kept[k - 1] - slack } else { f32::MIN };
        if products.len() > k {
            let mut sorted = products.clone();
            let (_, least, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            // Both the k-th product and the one that is asked about may be off.
            floor = floor.max(*least - 2.0 * slack);
        }
        let near = places.filter(|&place| block.similarities[place] >= floor);
        let similarity =
            |place| pair(self.bank.vectors, block.first_entry as usize + place, point, self.bank.metric);
        near.map(similarity).collect()
    }
}
