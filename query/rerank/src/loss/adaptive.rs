//! A temperature and a margin that follow the batch: MadaCos, of CFCD (Zhu et al., ICCV 2023, as its code has it).
//!
//! The median m of the positives' scores stands for the state of the training. The scale s = 1/τ is such that a score
//! of 1 against [`OTHERS`] scores of m would have all but the probability a: s (1 − m) = ln(OTHERS (1 − a) / a). The
//! margin is such that the median positive has just the probability a against the negatives of its row:
//! e^(s (m − margin)) / (e^(s (m − margin)) + Σ e^(s s_n)) = a.

use super::lines::{Line, rows};
use super::stable::LogSum;
use crate::Batch;

/// How many others the scale reckons with; the authors' code has this number for sets of whatever size.
const OTHERS: f64 = 9_999_999.0;

/// The largest scale. The median of cosines comes as near to 1 as training gets it, where the formula has no bound; and
/// scores above 1 are no cosines.
const SCALE_MAX: f64 = 1000.0;

/// The temperature, at most `warmest`, and the margin, at least `narrowest`, for a batch. `probability` is a.
pub(crate) fn fitted(batch: &Batch<'_>, probability: f64, warmest: f64, narrowest: f64) -> (f64, f64) {
    let scores = batch.scores();
    let rows: Vec<Line> = rows(batch).filter(Line::is_comparable).collect();
    let mut positives: Vec<f64> =
        rows.iter().flat_map(|row| &row.positives).map(|&place| scores[place]).collect();
    if positives.is_empty() {
        return (warmest, narrowest);
    }
    positives.sort_unstable_by(f64::total_cmp);
    // Of an even number the lower one of the middle, so that it is the score of a positive.
    let median = positives[(positives.len() - 1) / 2];
    let odds = probability / (1.0 - probability);
    let scale = if median < 1.0 { (OTHERS / odds).ln() / (1.0 - median) } else { SCALE_MAX };
    let temperature = (1.0 / scale.min(SCALE_MAX)).min(warmest);
    // Where several positives have the median's score, the row with the hardest negatives speaks: the order of rows
    // does not matter then, and the margin is the least of theirs.
    let hardness = |row: &Line| {
        let negatives = row.negatives.iter().map(|&place| scores[place]);
        LogSum::of(negatives, temperature).map(|sum| sum.above(median))
    };
    let has_median = |row: &&Line| row.positives.iter().any(|&place| scores[place] == median);
    let hardest = rows.iter().filter(has_median).filter_map(hardness).reduce(f64::max);
    let margin = hardest.map_or(narrowest, |hardest| -temperature * (hardest + odds.ln()));
    (temperature, margin.max(narrowest))
}
