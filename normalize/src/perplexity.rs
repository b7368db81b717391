//! An inverse temperature in units that carry over: the number of bank entries that make a point's bias.
//!
//! The weights `softmax_b(β·s(b, p))` are those with which the entries of a bank make the bias of inverted
//! softmax move. The exponential of their entropy, the perplexity, is how many entries that is in effect. A
//! β suits cosines or inner products or distances; a perplexity means the same for all of them. The idea is
//! that of t-SNE (van der Maaten & Hinton, *Visualizing data using t-SNE*, JMLR 2008), with one β for all
//! points.

use dehub_vector::{Chunked, largest};
use rayon::prelude::*;

use crate::fit::{Bank, similarities, spans};

/// The most points the mean is taken over, evenly spread.
pub const PERPLEXITY_POINTS_MAX: usize = 1024;

/// The range of inverse temperatures.
const BETA: (f64, f64) = (1e-6, 1e6);

/// How near the mean entropy comes to what is wanted.
const TOLERANCE: f64 = 1e-5;

/// More halvings of the range than the digits of a β.
const HALVINGS_MAX: usize = 50;

/// A perplexity that no inverse temperature gives.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PerplexityError {
    /// Not between 1 and the number of entries.
    #[error(
        "the perplexity is {perplexity}, wanted a number above 1 and below the {entries} entries of the bank"
    )]
    OutOfRange {
        /// What was asked for.
        perplexity: f64,
        /// The bank's entries, by weight.
        entries: f64,
    },
    /// Copies, or similarities that hardly differ, keep the perplexity from it.
    #[error(
        "no inverse temperature from 0.000001 to 1000000 gives the perplexity {perplexity}: with this bank it \
         goes from {least:.4} to {most:.4}"
    )]
    OutOfReach {
        /// What was asked for.
        perplexity: f64,
        /// The perplexity at the largest inverse temperature.
        least: f64,
        /// The perplexity at the smallest.
        most: f64,
    },
    /// There is nothing to take a mean over.
    #[error("there are no points to find an inverse temperature by")]
    NoPoints,
}

/// The inverse temperature at which the mean over `points` of the entropy of `softmax_b(β·s(b, p))` over the
/// bank is the logarithm of `perplexity`, by bisection. A shift of a point's similarities changes nothing;
/// similarities 100 times as large give a β 100 times as small.
pub fn beta_of_perplexity(points: &Chunked, bank: Bank<'_>, perplexity: f64) -> Result<f64, PerplexityError> {
    let weight = |entry| bank.weights.map_or(1.0, |weights| f64::from(weights.at(entry)));
    let entries: f64 = (0..bank.vectors.len()).map(weight).sum();
    if !(perplexity > 1.0 && perplexity < entries) {
        return Err(PerplexityError::OutOfRange { perplexity, entries });
    }
    if points.is_empty() {
        return Err(PerplexityError::NoPoints);
    }
    let wanted = perplexity.ln();
    let (mut low, mut high) = (BETA.0.ln(), BETA.1.ln());
    let (most, least) = (mean_entropy(points, bank, BETA.0), mean_entropy(points, bank, BETA.1));
    if !(least..=most).contains(&wanted) {
        return Err(PerplexityError::OutOfReach { perplexity, least: least.exp(), most: most.exp() });
    }
    for _ in 0..HALVINGS_MAX {
        let middle = (low + high) / 2.0;
        let above = mean_entropy(points, bank, middle.exp()) - wanted;
        if above.abs() <= TOLERANCE {
            return Ok(middle.exp());
        }
        // Entropy falls as β grows.
        *(if above > 0.0 { &mut low } else { &mut high }) = middle;
    }
    Ok(((low + high) / 2.0).exp())
}

/// The mean over points of the entropy of `softmax_b(beta·s(b, p))`, in nats.
///
/// Similarities are computed anew each time: a matrix of all of them may not fit.
#[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
pub fn mean_entropy(points: &Chunked, bank: Bank<'_>, beta: f64) -> f64 {
    let entropies = spans(0..points.len()).into_par_iter().map(|span| {
        let mut weights = vec![Weights::EMPTY; span.len()];
        let mut block = Vec::new();
        for entries in spans(0..bank.vectors.len()) {
            similarities(&span, points, &entries, bank, &mut block);
            let lines = block.chunks_exact(entries.len());
            let counts = bank.weights.map(|counts| (counts, entries.start));
            weights.iter_mut().zip(lines).for_each(|(weights, line)| weights.absorb(beta, line, counts));
        }
        weights.iter().map(|weights| weights.entropy(beta)).sum::<f64>()
    });
    // Collected first: the sum is in the order of the points, however the work was shared.
    entropies.collect::<Vec<_>>().iter().sum::<f64>() / points.len() as f64
}

/// The weights `e^{β(s − max)}` of a point, as what their entropy is made of.
#[derive(Debug, Clone, Copy)]
struct Weights {
    max: f64,
    sum: f64,
    /// `Σ e^{β(s − max)}·(s − max)`, at most 0.
    moment: f64,
}

impl Weights {
    const EMPTY: Weights = Weights { max: f64::NEG_INFINITY, sum: 0.0, moment: 0.0 };

    /// Adds similarities to entries; with `counts`, those from its number on count by their weights.
    fn absorb(&mut self, beta: f64, line: &[f32], counts: Option<(&Chunked, usize)>) {
        let count = |place| counts.map_or(1.0, |(counts, first)| f64::from(counts.at(first + place)));
        let counted = || line.iter().enumerate().filter(|&(place, _)| count(place) > 0.0);
        let top = match counts {
            None => f64::from(largest(line)),
            Some(_) => f64::from(counted().map(|(_, &similarity)| similarity).fold(f32::MIN, f32::max)),
        };
        if top > self.max {
            if self.sum > 0.0 {
                let fall = self.max - top;
                let factor = (beta * fall).exp();
                self.moment = factor * (self.moment + self.sum * fall);
                self.sum *= factor;
            }
            self.max = top;
        }
        for (place, &similarity) in counted() {
            let below = f64::from(similarity) - self.max;
            let weight = count(place) * (beta * below).exp();
            self.sum += weight;
            self.moment += weight * below;
        }
    }

    /// `ln Z − β·⟨s⟩`.
    fn entropy(&self, beta: f64) -> f64 {
        self.sum.ln() - beta * self.moment / self.sum
    }
}
