//! A bank of many entries as one of few with weights, and what that costs.
//!
//! What a bank is for is the bias of inverted softmax, `b_p = ln Σ_b w_b·e^{β·s(b,p)} / β`. A smaller bank is
//! good when it gives about the same bias, whatever it looks like.

use dehub_vector::{Chunked, Metric, dot, squared_distance};
use rayon::prelude::*;

use crate::fit::{Bank, similarities, spans};

/// The most entries that [`herd`] chooses among; of a larger bank it takes as many, evenly spread.
pub const HERD_CANDIDATES_MAX: usize = 65_536;

/// The most points that [`herd`] looks at: it keeps a number for each point and candidate.
pub const HERD_POINTS_MAX: usize = 1024;

/// Rounds of Lloyd's algorithm, at most.
const ROUNDS_MAX: usize = 25;

/// A bank whose entries stand for several.
#[derive(Debug, Clone)]
pub struct WeightedBank {
    /// An entry a row.
    pub vectors: Chunked,
    /// How many each stands for.
    pub weights: Vec<f64>,
}

impl WeightedBank {
    /// A bank whose entries stand for themselves.
    pub fn plain(vectors: Chunked) -> WeightedBank {
        let weights = vec![1.0; vectors.len()];
        WeightedBank { vectors, weights }
    }

    fn check(&self) {
        assert_eq!(self.vectors.len(), self.weights.len(), "a weight an entry");
    }
}

/// How far the biases of a compressed bank are from those of the whole. A constant changes no ranking, so
/// differences are taken from their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BiasError {
    /// The mean of `|Δb|`, in units of similarity.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// Pearson's correlation of the biases; 1 when neither bank's differ.
    pub correlation: f64,
}

/// Compares the biases of `points` at the inverse temperature `beta`.
///
/// # Panics
/// If a bank is empty or does not have a weight for each entry.
pub fn bias_error(
    points: &Chunked,
    metric: Metric,
    whole: &WeightedBank,
    compressed: &WeightedBank,
    beta: f64,
) -> BiasError {
    let [whole, found] = [whole, compressed].map(|bank| centred(log_sums(points, metric, bank, beta), beta));
    let size = |numbers: &[f64]| numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
    let errors: Vec<f64> = whole.iter().zip(&found).map(|(a, b)| (a - b).abs()).collect();
    let product: f64 = whole.iter().zip(&found).map(|(a, b)| a * b).sum();
    let sizes = size(&whole) * size(&found);
    let both_flat = size(&whole) == 0.0 && size(&found) == 0.0;
    BiasError {
        mean: errors.iter().sum::<f64>() / count(points.len().max(1)),
        max: errors.iter().copied().fold(0.0, f64::max),
        correlation: if sizes > 0.0 { product / sizes } else { f64::from(u8::from(both_flat)) },
    }
}

/// Clusters by k-means: k-means++ draws the first centroids (Arthur & Vassilvitskii, SODA 2007) and Lloyd's
/// rounds move them. Under cosine centroids are scaled to length one (spherical k-means: Dhillon & Modha,
/// *Machine Learning* 2001). A centroid weighs what its members weigh.
///
/// `draw` gives numbers from 0 to below 1; the same numbers give the same bank. There are fewer centroids
/// than `to` when there are fewer different vectors.
///
/// # Panics
/// If the bank does not have a weight for each entry.
pub fn kmeans(bank: &WeightedBank, metric: Metric, to: usize, draw: &mut dyn FnMut() -> f64) -> WeightedBank {
    bank.check();
    let mut centroids = first_centroids(bank, to, draw);
    let mut members = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let nearest = nearest_centroids(&bank.vectors, &centroids);
        if nearest == members {
            break;
        }
        members = nearest;
        centroids = means(bank, &members, &centroids, metric);
    }
    let mut weights = vec![0.0; centroids.len()];
    // The last move may have changed who is nearest.
    let members = nearest_centroids(&bank.vectors, &centroids);
    members.iter().zip(&bank.weights).for_each(|(&centroid, weight)| weights[centroid] += weight);
    let mut kept = WeightedBank { vectors: Chunked::new(bank.vectors.width()), weights: Vec::new() };
    for (centroid, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
        kept.vectors.push(centroids.row(centroid));
        kept.weights.push(weight);
    }
    kept
}

/// Chooses entries by the biases they give, each with an equal share of the weight.
///
/// With `φ_p(b) = e^{β(s(b,p) − b_p)}·W`, for `W` the sum of weights, the weighted mean of `φ_p` over the bank
/// is 1 for every point, and the bias of a choice is off by `ln(mean of φ_p)/β`. So entries are chosen one by
/// one such that the sum of the chosen `φ` comes nearest to its due, `Σ_p (t − Σ φ_p)²` for the `t`-th: kernel
/// herding (Chen, Welling & Smola, UAI 2010) with the points as features, without repetition. At most
/// [`HERD_POINTS_MAX`] points and [`HERD_CANDIDATES_MAX`] entries are looked at, evenly spread; without points
/// the choice is evenly spread.
///
/// # Panics
/// If the bank does not have a weight for each entry.
pub fn herd(bank: &WeightedBank, metric: Metric, points: &Chunked, to: usize, beta: f64) -> WeightedBank {
    bank.check();
    if points.is_empty() {
        // Nothing to tell entries apart by.
        let vectors = evenly(&bank.vectors, to);
        let share = bank.weights.iter().sum::<f64>() / count(vectors.len().max(1));
        return WeightedBank { weights: vec![share; vectors.len()], vectors };
    }
    let points = evenly(points, HERD_POINTS_MAX);
    let candidates = evenly(&bank.vectors, HERD_CANDIDATES_MAX);
    let features = features(&points, metric, bank, &candidates, beta);
    let width = points.len();
    let lines: Vec<&[f32]> = features.chunks_exact(width).collect();
    let squares: Vec<f64> = lines.par_iter().map(|line| f64::from(dot(line, line))).collect();
    let mut free = vec![true; candidates.len()];
    let mut due = vec![0.0_f64; width];
    let mut chosen = Chunked::new(bank.vectors.width());
    for _ in 0..to.min(candidates.len()) {
        due.iter_mut().for_each(|due| *due += 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "features are 32-bit")]
        let wanted: Vec<f32> = due.iter().map(|&due| due as f32).collect();
        // ‖due − φ‖² but for what is the same for all.
        let cost = |place: usize| squares[place] - 2.0 * f64::from(dot(&wanted, lines[place]));
        let costs: Vec<(f64, usize)> = (0..free.len())
            .into_par_iter()
            .filter(|&place| free[place])
            .map(|place| (cost(place), place))
            .collect();
        let Some(&(_, best)) = costs.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        free[best] = false;
        due.iter_mut().zip(lines[best]).for_each(|(due, &feature)| *due -= f64::from(feature));
        chosen.push(candidates.row(best));
    }
    let share = bank.weights.iter().sum::<f64>() / count(chosen.len().max(1));
    WeightedBank { weights: vec![share; chosen.len()], vectors: chosen }
}

/// `φ` of each candidate, a line of points a candidate.
fn features(
    points: &Chunked,
    metric: Metric,
    bank: &WeightedBank,
    candidates: &Chunked,
    beta: f64,
) -> Vec<f32> {
    let whole = bank.weights.iter().sum::<f64>().ln();
    let sums = log_sums(points, metric, bank, beta);
    let blocks: Vec<Vec<f32>> = spans(0..candidates.len())
        .into_par_iter()
        .map(|span| {
            let mut lines = vec![0.0; span.len() * points.len()];
            let mut block = Vec::new();
            for others in spans(0..points.len()) {
                // Similarity is symmetric: candidates are the points here, and the points the bank.
                similarities(&span, candidates, &others, Bank::new(points, metric), &mut block);
                for (line, found) in
                    lines.chunks_exact_mut(points.len()).zip(block.chunks_exact(others.len()))
                {
                    let places = others.clone().zip(found);
                    #[expect(clippy::cast_possible_truncation, reason = "features are 32-bit")]
                    places.for_each(|(point, &similarity)| {
                        line[point] = (beta * f64::from(similarity) - sums[point] + whole).exp() as f32;
                    });
                }
            }
            lines
        })
        .collect();
    blocks.concat()
}

/// `ln Σ w·e^{β·s}` of each point.
fn log_sums(points: &Chunked, metric: Metric, bank: &WeightedBank, beta: f64) -> Vec<f64> {
    bank.check();
    let logs: Vec<f64> = bank.weights.iter().map(|weight| weight.ln()).collect();
    let of_span = |span: std::ops::Range<usize>| {
        let mut sums = vec![(f64::NEG_INFINITY, 0.0); span.len()];
        let mut block = Vec::new();
        for entries in spans(0..bank.vectors.len()) {
            similarities(&span, points, &entries, Bank::new(&bank.vectors, metric), &mut block);
            for ((max, sum), line) in sums.iter_mut().zip(block.chunks_exact(entries.len())) {
                let exponents =
                    line.iter().zip(&logs[entries.clone()]).map(|(&s, log)| beta * f64::from(s) + log);
                let top = exponents.clone().fold(*max, f64::max);
                *sum *= (*max - top).exp();
                *sum += exponents.map(|x| (x - top).exp()).sum::<f64>();
                *max = top;
            }
        }
        sums.into_iter().map(|(max, sum): (f64, f64)| max + sum.ln()).collect::<Vec<_>>()
    };
    spans(0..points.len()).into_par_iter().map(of_span).collect::<Vec<_>>().concat()
}

/// Biases less their mean.
fn centred(log_sums: Vec<f64>, beta: f64) -> Vec<f64> {
    let mean = log_sums.iter().sum::<f64>() / count(log_sums.len().max(1));
    log_sums.into_iter().map(|sum| (sum - mean) / beta).collect()
}

/// Draws centroids from the entries: the first by weight, each next one by weight and squared distance to the
/// nearest before it.
fn first_centroids(bank: &WeightedBank, to: usize, draw: &mut dyn FnMut() -> f64) -> Chunked {
    let rows = &bank.vectors;
    let mut centroids = Chunked::new(rows.width());
    let mut masses = bank.weights.clone();
    let mut distances = vec![f64::INFINITY; rows.len()];
    while centroids.len() < to {
        let Some(chosen) = drawn(&masses, draw()) else { break };
        let centroid = rows.row(chosen);
        centroids.push(centroid);
        distances.par_iter_mut().enumerate().for_each(|(row, distance)| {
            *distance = distance.min(f64::from(squared_distance(rows.row(row), centroid)));
        });
        distances[chosen] = 0.0;
        masses = bank.weights.iter().zip(&distances).map(|(weight, distance)| weight * distance).collect();
    }
    centroids
}

/// The place where the running sum of masses passes this share of the whole; `None` if they are all 0.
fn drawn(masses: &[f64], share: f64) -> Option<usize> {
    let whole: f64 = masses.iter().sum();
    let mut left = share * whole;
    let with_mass = masses.iter().enumerate().filter(|&(_, &mass)| mass > 0.0);
    let mut last = None;
    for (place, mass) in with_mass {
        last = Some(place);
        left -= mass;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// The nearest centroid of each row; of equals the first.
fn nearest_centroids(rows: &Chunked, centroids: &Chunked) -> Vec<usize> {
    let halves: Vec<f32> =
        (0..centroids.len()).map(|place| dot(centroids.row(place), centroids.row(place)) / 2.0).collect();
    let of_span = |span: std::ops::Range<usize>| {
        let mut best = vec![(f32::NEG_INFINITY, 0); span.len()];
        let mut block = Vec::new();
        for places in spans(0..centroids.len()) {
            // The products; ⟨x, c⟩ − ‖c‖²/2 is largest where the distance is smallest.
            similarities(&span, rows, &places, Bank::new(centroids, Metric::Dot), &mut block);
            for (best, line) in best.iter_mut().zip(block.chunks_exact(places.len())) {
                let scores = line.iter().zip(&halves[places.clone()]).map(|(product, half)| product - half);
                for (place, score) in places.clone().zip(scores) {
                    if score > best.0 {
                        *best = (score, place);
                    }
                }
            }
        }
        best.into_iter().map(|(_, place)| place).collect::<Vec<_>>()
    };
    spans(0..rows.len()).into_par_iter().map(of_span).collect::<Vec<_>>().concat()
}

/// The weighted mean of each centroid's members, of length one under cosine. A centroid without members, or
/// whose members cancel out, stays.
fn means(bank: &WeightedBank, members: &[usize], earlier: &Chunked, metric: Metric) -> Chunked {
    let dim = earlier.width();
    let mut sums = vec![0.0_f64; earlier.len() * dim];
    let mut masses = vec![0.0_f64; earlier.len()];
    for (row, (&centroid, &weight)) in members.iter().zip(&bank.weights).enumerate() {
        masses[centroid] += weight;
        let sum = &mut sums[centroid * dim..][..dim];
        sum.iter_mut().zip(bank.vectors.row(row)).for_each(|(sum, &x)| *sum += weight * f64::from(x));
    }
    let mut means = Chunked::new(dim);
    for (centroid, sum) in sums.chunks_exact(dim).enumerate() {
        let length = match metric {
            Metric::Cosine => sum.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Metric::Dot | Metric::Euclidean => masses[centroid],
        };
        #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit")]
        let mean: Vec<f32> = sum.iter().map(|x| (x / length) as f32).collect();
        let is_mean = masses[centroid] > 0.0 && mean.iter().all(|x| x.is_finite());
        means.push(if is_mean { &mean } else { earlier.row(centroid) });
    }
    means
}

/// At most `most` rows, evenly spread.
fn evenly(rows: &Chunked, most: usize) -> Chunked {
    let taken = rows.len().min(most);
    let mut spread = Chunked::new(rows.width());
    (0..taken).for_each(|place| spread.push(rows.row(place * rows.len() / taken)));
    spread
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}
