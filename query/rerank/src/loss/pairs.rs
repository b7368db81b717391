//! Sums over pairs of scores, pair by pair.

use super::mann_whitney::{Side, Sums};
use super::stable::softplus_and_slope;

/// How many negatives are met by all positives before the next are: their scores and sums stay in the nearest cache.
const BLOCK: usize = 512;

/// The sums over all pairs, each computed by itself.
pub(crate) fn sums(positives: &Side, negatives: &Side, temperature: f64) -> Sums {
    let mut sums = Sums {
        value: 0.0,
        of_positives: vec![0.0; positives.scores.len()],
        of_negatives: vec![0.0; negatives.scores.len()],
    };
    for start in (0..negatives.scores.len()).step_by(BLOCK) {
        let block = start..negatives.scores.len().min(start + BLOCK);
        let (scores, weights) = (&negatives.scores[block.clone()], &negatives.weights[block.clone()]);
        let of_block = &mut sums.of_negatives[block];
        for (place, (&positive, &of_positive)) in positives.scores.iter().zip(&positives.weights).enumerate()
        {
            let (mut value, mut slope_sum) = (0.0, 0.0);
            for ((&negative, &of_negative), sum) in scores.iter().zip(weights).zip(of_block.iter_mut()) {
                let (loss, slope) = softplus_and_slope((negative - positive) / temperature);
                value += of_negative * loss;
                slope_sum += of_negative * slope;
                *sum += of_positive * slope;
            }
            sums.value += of_positive * value;
            sums.of_positives[place] += slope_sum;
        }
    }
    sums
}
