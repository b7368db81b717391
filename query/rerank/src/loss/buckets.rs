//! Sums over pairs of scores in n log n.
//!
//! Wanted are, for each *target* t, Σ w_s f(z) and Σ w_s σ(z) over all *sources* s, with z = (s − t)/τ, f(z) =
//! ln(1 + e^z) and σ its slope. Both kinds are sorted and cut into *buckets* no wider than [`WIDTH`] in units of τ. A
//! bucket of targets meets each bucket of sources in one of three ways.
//!
//! * *Below*, all z ≤ −[`FAR`]: f(z) = e^z − e^2z/2 + e^3z/3 − …, of which [`TERMS`] are taken. e^jz is a product of a
//!   factor of s and one of t, so all buckets below are one sum for each term, carried along from bucket to bucket.
//! * *Above*, all z ≥ [`FAR`]: f(z) = z + f(−z), the same with a count and a mean besides.
//! * *Near*: pair by pair if the pairs are few, and else by Chebyshev interpolation at [`NODES`] nodes on both sides.
//!
//! The first term left out of a series is below e^(−`FAR`·`TERMS`) = 1.3e-14 of its sum. f and σ are analytic within π
//! of the real axis; half a bucket is `WIDTH`/2, so interpolation converges as ρ^−`NODES`, with h = 2π/`WIDTH` and
//! ρ = h + √(h² + 1) = 12.6: to 1e-13 of the largest value at hand, and the values of two buckets differ by no more
//! than a factor of e^(2 `WIDTH`). The test below lets no sum be off by more than 1e-11 of itself.
//!
//! Buckets begin at least `WIDTH` apart, so one has at most 2 (`FAR`/`WIDTH` + 2) near ones, whatever the scores, and
//! each of them costs no more than `NODES`² evaluations or its pairs. Everything else is one pass over sorted scores.

use std::ops::Range;

use super::mann_whitney::{Side, Sums};
use super::stable::softplus_and_slope;

/// How wide a bucket may be, in units of τ.
const WIDTH: f64 = 1.0;

/// From where on a series stands for f, in units of τ.
const FAR: f64 = 8.0;

/// The terms of the series.
const TERMS: usize = 4;

/// The nodes that a function is interpolated at within a bucket.
const NODES: usize = 12;

/// Up to here the pairs of two buckets are summed one by one, as the pairs of their nodes would be no fewer.
const DIRECT_PAIRS_MAX: usize = NODES * NODES;

/// The same sums as [`pairs::sums`](super::pairs::sums), to a relative error below 1e-11.
pub(crate) fn sums(positives: &Side, negatives: &Side, temperature: f64) -> Sums {
    let (of_positives, of_negatives) = (Sorted::new(positives), Sorted::new(negatives));
    let at_positives = of_positives.met_by(&of_negatives, temperature);
    // Seen from a negative everything is turned round: z = (−p − (−n))/τ.
    let (of_positives, of_negatives) = (of_positives.turned(), of_negatives.turned());
    let at_negatives = of_negatives.met_by(&of_positives, temperature);
    let value = at_positives.iter().zip(&positives.weights).map(|(sum, weight)| weight * sum.value).sum();
    let slopes = |sums: Vec<Pair>| sums.into_iter().map(|sum| sum.slope).collect();
    Sums { value, of_positives: slopes(at_positives), of_negatives: slopes(at_negatives) }
}

/// A sum of f and one of σ.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    value: f64,
    slope: f64,
}

impl Pair {
    fn add(&mut self, weight: f64, other: Pair) {
        self.value += weight * other.value;
        self.slope += weight * other.slope;
    }

    /// f and σ at z.
    fn at(z: f64) -> Pair {
        let (value, slope) = softplus_and_slope(z);
        Pair { value, slope }
    }
}

/// Scores in ascending order, with their weights and where they came from.
struct Sorted {
    scores: Vec<f64>,
    weights: Vec<f64>,
    order: Vec<usize>,
}

/// A run of sorted scores that are close to each other.
struct Bucket {
    start: usize,
    end: usize,
    /// Halfway between its first score and its last.
    centre: f64,
}

impl Bucket {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

impl Sorted {
    fn new(side: &Side) -> Sorted {
        let mut sorted: Vec<(f64, usize)> = side.scores.iter().copied().zip(0..).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Sorted {
            weights: sorted.iter().map(|&(_, place)| side.weights[place]).collect(),
            order: sorted.iter().map(|&(_, place)| place).collect(),
            scores: sorted.into_iter().map(|(score, _)| score).collect(),
        }
    }

    /// The scores below 0 that were above, and the other way round.
    fn turned(mut self) -> Sorted {
        self.scores.reverse();
        self.scores.iter_mut().for_each(|score| *score = -*score);
        self.weights.reverse();
        self.order.reverse();
        self
    }

    fn buckets(&self, temperature: f64) -> Vec<Bucket> {
        let mut buckets = Vec::new();
        let mut start = 0;
        while start < self.scores.len() {
            let first = self.scores[start];
            let width = self.scores[start..].partition_point(|score| (score - first) / temperature < WIDTH);
            let end = start + width.max(1);
            buckets.push(Bucket { start, end, centre: first / 2.0 + self.scores[end - 1] / 2.0 });
            start = end;
        }
        buckets
    }

    /// For each of these scores, as they were ordered before they were sorted, the sums over all sources.
    fn met_by(&self, sources: &Sorted, temperature: f64) -> Vec<Pair> {
        let of_sources = sources.buckets(temperature);
        let below = sources.below(&of_sources, temperature);
        let above = sources.above(&of_sources, temperature);
        let mut near = Near::new(sources, &of_sources, temperature);
        let mut sums = vec![Pair::default(); self.scores.len()];
        // INVARIANT: buckets before `start` are far below the bucket of targets, those from `end` on far above; both
        // only rise, as both kinds of buckets are in ascending order.
        let (mut start, mut end) = (0, 0);
        for bucket in &self.buckets(temperature) {
            let (first, last) = (self.scores[bucket.start], self.scores[bucket.end - 1]);
            let is_below = |it: &&Bucket| (first - sources.scores[it.end - 1]) / temperature >= FAR;
            let is_above = |it: &Bucket| (sources.scores[it.start] - last) / temperature >= FAR;
            start += of_sources[start..].iter().take_while(is_below).count();
            end = end.max(start);
            end += of_sources[end..].iter().take_while(|it| !is_above(it)).count();
            let polynomial = near.meet(self, bucket, start..end, &mut sums);
            for place in bucket.start..bucket.end {
                let score = self.scores[place];
                let sum = &mut sums[self.order[place]];
                if start > 0 {
                    sum.add(1.0, below[start - 1].at(score, temperature));
                }
                if end < of_sources.len() {
                    sum.add(1.0, above[end].at(score, temperature));
                }
                if let Some(polynomial) = &polynomial {
                    let x = (score - bucket.centre) / temperature;
                    sum.add(1.0, Chebyshev::value(polynomial, x));
                }
            }
        }
        sums
    }

    /// For each bucket, what it and all before it are to a target far above it.
    fn below(&self, buckets: &[Bucket], temperature: f64) -> Vec<Below> {
        let mut sums: Vec<Below> = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let mut powers = [0.0; TERMS];
            if let Some(before) = sums.last() {
                let step = ((before.anchor - bucket.centre) / temperature).exp();
                powers = scaled(before.powers, step);
            }
            for place in bucket.start..bucket.end {
                let factor = ((self.scores[place] - bucket.centre) / temperature).exp();
                add_powers(&mut powers, self.weights[place], factor);
            }
            sums.push(Below { anchor: bucket.centre, powers });
        }
        sums
    }

    /// For each bucket, what it and all after it are to a target far below it.
    fn above(&self, buckets: &[Bucket], temperature: f64) -> Vec<Above> {
        let mut sums: Vec<Above> = Vec::with_capacity(buckets.len());
        for bucket in buckets.iter().rev() {
            let mut sum = Above { anchor: bucket.centre, weight: 0.0, moment: 0.0, powers: [0.0; TERMS] };
            if let Some(after) = sums.last() {
                let step = (after.anchor - bucket.centre) / temperature;
                sum.weight = after.weight;
                sum.moment = after.moment + after.weight * step;
                sum.powers = scaled(after.powers, (-step).exp());
            }
            for place in bucket.start..bucket.end {
                let local = (self.scores[place] - bucket.centre) / temperature;
                sum.weight += self.weights[place];
                sum.moment += self.weights[place] * local;
                add_powers(&mut sum.powers, self.weights[place], (-local).exp());
            }
            sums.push(sum);
        }
        sums.reverse();
        sums
    }
}

/// `powers`, each times the power of `factor` that it is of.
fn scaled(powers: [f64; TERMS], factor: f64) -> [f64; TERMS] {
    let mut power = 1.0;
    powers.map(|sum| {
        power *= factor;
        sum * power
    })
}

fn add_powers(powers: &mut [f64; TERMS], weight: f64, factor: f64) {
    let mut power = weight;
    for sum in powers {
        power *= factor;
        *sum += power;
    }
}

/// The series of f and σ where e^z is `factor` times what `powers` are of.
fn series(powers: [f64; TERMS], factor: f64) -> Pair {
    let mut sum = Pair::default();
    let mut sign = 1.0;
    for (power, term) in (1..).zip(scaled(powers, factor)) {
        sum.value += sign * term / f64::from(power);
        sum.slope += sign * term;
        sign = -sign;
    }
    sum
}

/// Sources that are far below.
struct Below {
    anchor: f64,
    /// Σ w e^(j (s − anchor)/τ), of j = 1 and up.
    powers: [f64; TERMS],
}

impl Below {
    fn at(&self, target: f64, temperature: f64) -> Pair {
        series(self.powers, ((self.anchor - target) / temperature).exp())
    }
}

/// Sources that are far above.
struct Above {
    anchor: f64,
    weight: f64,
    /// Σ w (s − anchor)/τ, which no term makes smaller but the first bucket's own, so that nothing cancels.
    moment: f64,
    /// Σ w e^(−j (s − anchor)/τ), of j = 1 and up.
    powers: [f64; TERMS],
}

impl Above {
    fn at(&self, target: f64, temperature: f64) -> Pair {
        let distance = (self.anchor - target) / temperature;
        let rest = series(self.powers, (-distance).exp());
        Pair { value: self.weight * distance + self.moment + rest.value, slope: self.weight - rest.slope }
    }
}

/// Sources that are near, or may be.
struct Near<'a> {
    sources: &'a Sorted,
    buckets: &'a [Bucket],
    temperature: f64,
    chebyshev: Chebyshev,
    /// Of each bucket, the weights at its nodes, once they were asked for.
    weights: Vec<Option<[f64; NODES]>>,
}

impl<'a> Near<'a> {
    fn new(sources: &'a Sorted, buckets: &'a [Bucket], temperature: f64) -> Near<'a> {
        let weights = vec![None; buckets.len()];
        Near { sources, buckets, temperature, chebyshev: Chebyshev::new(), weights }
    }

    /// What the sources of these buckets are to a bucket of targets: added to the targets' sums, or for all of them the
    /// polynomial that is to be added.
    fn meet(
        &mut self,
        targets: &Sorted,
        bucket: &Bucket,
        near: Range<usize>,
        sums: &mut [Pair],
    ) -> Option<[Pair; NODES]> {
        let mut nodes = None;
        for source in near {
            let met = &self.buckets[source];
            if met.len() * bucket.len() <= DIRECT_PAIRS_MAX {
                self.meet_directly(targets, bucket, met, sums);
                continue;
            }
            let (sources, temperature) = (self.sources, self.temperature);
            let weights = self.weights[source]
                .get_or_insert_with(|| self.chebyshev.weights_of(sources, met, temperature));
            let offset = (met.centre - bucket.centre) / temperature;
            self.chebyshev.meet(weights, offset, nodes.get_or_insert([Pair::default(); NODES]));
        }
        nodes.map(|nodes| self.chebyshev.polynomial(&nodes))
    }

    fn meet_directly(&self, targets: &Sorted, bucket: &Bucket, met: &Bucket, sums: &mut [Pair]) {
        for place in bucket.start..bucket.end {
            let sum = &mut sums[targets.order[place]];
            for source in met.start..met.end {
                let z = (self.sources.scores[source] - targets.scores[place]) / self.temperature;
                sum.add(self.sources.weights[source], Pair::at(z));
            }
        }
    }
}

/// Interpolation within a bucket: x is the distance from its centre in units of τ.
struct Chebyshev {
    nodes: [f64; NODES],
    /// `polynomials[node][degree]`: the Chebyshev polynomial at the node.
    polynomials: [[f64; NODES]; NODES],
}

impl Chebyshev {
    fn new() -> Chebyshev {
        let mut chebyshev = Chebyshev { nodes: [0.0; NODES], polynomials: [[0.0; NODES]; NODES] };
        for node in 0..NODES {
            let angle = std::f64::consts::PI * (node as f64 + 0.5) / NODES as f64;
            chebyshev.nodes[node] = angle.cos() * WIDTH / 2.0;
            for degree in 0..NODES {
                chebyshev.polynomials[node][degree] = (degree as f64 * angle).cos();
            }
        }
        chebyshev
    }

    /// The Chebyshev polynomials at x.
    fn at(x: f64) -> [f64; NODES] {
        let x = x * 2.0 / WIDTH;
        let mut values = [1.0; NODES];
        values[1] = x;
        for degree in 2..NODES {
            values[degree] = 2.0 * x * values[degree - 1] - values[degree - 2];
        }
        values
    }

    /// The weights at the nodes that stand for the sources of a bucket.
    fn weights_of(&self, sources: &Sorted, bucket: &Bucket, temperature: f64) -> [f64; NODES] {
        let mut moments = [0.0; NODES];
        for place in bucket.start..bucket.end {
            let x = (sources.scores[place] - bucket.centre) / temperature;
            for (moment, value) in moments.iter_mut().zip(Chebyshev::at(x)) {
                *moment += sources.weights[place] * value;
            }
        }
        self.polynomials.map(|at_node| {
            let sum: f64 = at_node.iter().zip(moments).skip(1).map(|(value, moment)| value * moment).sum();
            (moments[0] + 2.0 * sum) / NODES as f64
        })
    }

    /// Adds to each node what the sources at the nodes of another bucket are to it.
    fn meet(&self, weights: &[f64; NODES], offset: f64, sums: &mut [Pair; NODES]) {
        for (sum, target) in sums.iter_mut().zip(self.nodes) {
            for (weight, source) in weights.iter().zip(self.nodes) {
                sum.add(*weight, Pair::at(offset + (source - target)));
            }
        }
    }

    /// The polynomial through values at the nodes, as factors of the Chebyshev polynomials.
    fn polynomial(&self, values: &[Pair; NODES]) -> [Pair; NODES] {
        let mut factors = [Pair::default(); NODES];
        for (value, at_node) in values.iter().zip(&self.polynomials) {
            for (factor, polynomial) in factors.iter_mut().zip(at_node) {
                factor.add(polynomial * 2.0 / NODES as f64, *value);
            }
        }
        factors[0].value /= 2.0;
        factors[0].slope /= 2.0;
        factors
    }

    fn value(polynomial: &[Pair; NODES], x: f64) -> Pair {
        let mut sum = Pair::default();
        for (factor, value) in polynomial.iter().zip(Chebyshev::at(x)) {
            sum.add(value, *factor);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::super::pairs;
    use super::*;

    /// Scores of one of several shapes: spread, crowded, in far clusters, all equal, huge.
    fn side(shape: u32, count: usize, random: &mut fastrand::Rng) -> Side {
        let score = |random: &mut fastrand::Rng| match shape {
            0 => random.f64() * 2.0 - 1.0,
            1 => (random.f64() * 40.0).round() / 20.0 - 1.0,
            2 => f64::from(random.u32(0..4)) * 25.0 + random.f64(),
            3 => 0.5,
            4 => 1e6 + random.f64(),
            5 => (random.f64() - 0.5) * 2000.0,
            6 => f64::from(random.i32(-3..4)) * 1e6 + random.f64(),
            _ => (random.f64() - 0.5) * 1e15,
        };
        let scores: Vec<f64> = (0..count).map(|_| score(random)).collect();
        let weights: Vec<f64> = (0..count).map(|_| 0.1 + random.f64()).collect();
        let all: f64 = weights.iter().sum();
        Side { scores, weights: weights.iter().map(|weight| weight / all).collect() }
    }

    fn is_near(found: f64, wanted: f64, bound: f64) -> bool {
        (found - wanted).abs() <= bound * wanted.abs() + 1e-290
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 300,
            rng_seed: RngSeed::Fixed(20_261_201),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn sums_by_buckets_are_those_by_pairs(
            shapes in (0..8u32, 0..8u32),
            counts in (1..400usize, 1..400usize),
            temperature in -3..=1i32,
            seed in any::<u64>(),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let positives = side(shapes.0, counts.0, &mut random);
            let negatives = side(shapes.1, counts.1, &mut random);
            let temperature = 10f64.powi(temperature);
            let found = sums(&positives, &negatives, temperature);
            let wanted = pairs::sums(&positives, &negatives, temperature);
            prop_assert!(is_near(found.value, wanted.value, 1e-11), "{} {}", found.value, wanted.value);
            let of_found = found.of_positives.iter().chain(&found.of_negatives);
            for (found, wanted) in of_found.zip(wanted.of_positives.iter().chain(&wanted.of_negatives)) {
                prop_assert!(is_near(*found, *wanted, 1e-11), "{found} {wanted}");
            }
        }
    }

    #[test]
    fn a_bucket_is_near_to_few_others_whatever_the_scores() {
        let mut random = fastrand::Rng::with_seed(1);
        for shape in 0..8 {
            for temperature in [1e-3, 0.05, 1.0] {
                let sorted = Sorted::new(&side(shape, 3000, &mut random));
                let buckets = sorted.buckets(temperature);
                for bucket in &buckets {
                    let first = sorted.scores[bucket.start];
                    let distance = |other: &&Bucket| {
                        let between = (sorted.scores[other.start] - first) / temperature;
                        between.abs() < FAR + WIDTH
                    };
                    let near = buckets.iter().filter(distance).count() as f64;
                    assert!(near <= 2.0 * (FAR / WIDTH + 2.0), "shape {shape}: {near}");
                }
            }
        }
    }
}
