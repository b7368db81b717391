//! Compressed banks against plain f64, and against what they are for.

use dehub_normalize::{WeightedBank, bias_error, herd, kmeans};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric};

use crate::reference::{Matrix, Numbers, chunked, similarity, unit};

fn random(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| (0..dim).map(|_| numbers.signed() + 0.25).collect()).collect()
}

/// Numbers from 0 to below 1.
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut numbers = Numbers(seed);
    move || numbers.below(1 << 30) as f64 / f64::from(1 << 30)
}

fn rows(matrix: &Chunked) -> Matrix {
    (0..matrix.len()).map(|row| matrix.row(row).to_vec()).collect()
}

fn biases(metric: Metric, points: &Matrix, bank: &Matrix, weights: &[f64], beta: f64) -> Vec<f64> {
    let of_point = |point: &Vec<f32>| {
        let terms = bank.iter().zip(weights);
        let exponents: Vec<f64> =
            terms.map(|(entry, weight)| beta * similarity(metric, point, entry) + weight.ln()).collect();
        let top = exponents.iter().copied().fold(f64::MIN, f64::max);
        (top + exponents.iter().map(|x| (x - top).exp()).sum::<f64>().ln()) / beta
    };
    points.iter().map(of_point).collect()
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

#[test]
fn the_bias_error_is_that_of_its_formula() {
    for metric in [Metric::Dot, Metric::Euclidean] {
        for (beta, few) in [(0.5, 3), (20.0, CHUNK_ROWS + 4)] {
            let points = random(CHUNK_ROWS + 30, 5, 1);
            let (whole, part) = (random(CHUNK_ROWS + 90, 5, 2), random(few, 5, 3));
            let weights: Vec<f64> = (0..whole.len()).map(|entry| 0.5 + (entry % 7) as f64).collect();
            let shares: Vec<f64> = (0..few).map(|entry| 1.0 + (entry % 5) as f64).collect();
            let wanted = biases(metric, &points, &whole, &weights, beta);
            let found = biases(metric, &points, &part, &shares, beta);
            let centred =
                |numbers: &[f64]| -> Vec<f64> { numbers.iter().map(|x| x - mean(numbers)).collect() };
            let (wanted, found) = (centred(&wanted), centred(&found));
            let errors: Vec<f64> = wanted.iter().zip(&found).map(|(a, b)| (a - b).abs()).collect();
            let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let correlation = sum(&wanted, &found) / (sum(&wanted, &wanted) * sum(&found, &found)).sqrt();
            let error = bias_error(
                &chunked(5, &points),
                metric,
                &WeightedBank { vectors: chunked(5, &whole), weights },
                &WeightedBank { vectors: chunked(5, &part), weights: shares },
                beta,
            );
            assert!((error.mean - mean(&errors)).abs() < 1e-5, "{error:?}");
            assert!((error.max - errors.iter().copied().fold(0.0, f64::max)).abs() < 1e-5, "{error:?}");
            assert!((error.correlation - correlation).abs() < 1e-4, "{error:?}, wanted {correlation}");
        }
    }
}

#[test]
fn a_bank_compared_with_itself_or_its_copies_has_no_error() {
    let (points, bank) = (chunked(4, &random(50, 4, 4)), random(30, 4, 5));
    let whole = WeightedBank::plain(chunked(4, &[&bank[..], &bank[..10]].concat()));
    let weights = (0..30).map(|entry| if entry < 10 { 2.0 } else { 1.0 }).collect();
    let folded = WeightedBank { vectors: chunked(4, &bank), weights };
    let error = bias_error(&points, Metric::Dot, &whole, &folded, 20.0);
    assert!(error.max < 1e-6 && error.correlation > 1.0 - 1e-9, "{error:?}");
}

#[test]
fn centroids_are_the_means_of_their_members_and_weigh_what_those_weigh() {
    for metric in [Metric::Cosine, Metric::Euclidean] {
        // Far-apart clusters, which Lloyd's rounds find whatever the draws.
        let mut numbers = Numbers(6);
        let members: Matrix = (0..CHUNK_ROWS + 44)
            .map(|row| {
                (0..6).map(|at| f32::from(u8::from(at == row % 3)) + 0.05 * numbers.signed()).collect()
            })
            .collect();
        let members = if metric == Metric::Cosine { unit(&members) } else { members };
        let weights: Vec<f64> = (0..members.len()).map(|row| 1.0 + (row % 4) as f64).collect();
        let bank = WeightedBank { vectors: chunked(6, &members), weights: weights.clone() };
        let found = kmeans(&bank, metric, 3, &mut draws(7));
        assert_eq!(found.vectors.len(), 3);
        for (centroid, weight) in rows(&found.vectors).iter().zip(&found.weights) {
            let cluster = (0..3).find(|&at| centroid[at] > 0.5).expect("a centroid near one of the three");
            let own = || (0..members.len()).filter(|row| row % 3 == cluster);
            let mass: f64 = own().map(|row| weights[row]).sum();
            assert!((weight - mass).abs() < 1e-9);
            let sum: Vec<f64> =
                (0..6).map(|at| own().map(|row| weights[row] * f64::from(members[row][at])).sum()).collect();
            let length = match metric {
                Metric::Cosine => sum.iter().map(|x| x * x).sum::<f64>().sqrt(),
                Metric::Dot | Metric::Euclidean => mass,
            };
            for (found, sum) in centroid.iter().zip(&sum) {
                assert!((f64::from(*found) - sum / length).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn as_many_centroids_as_entries_are_the_entries() {
    let entries = unit(&random(20, 5, 8));
    let bank = WeightedBank::plain(chunked(5, &[&entries[..], &entries[..4]].concat()));
    // Copies are one: there are no more different vectors to draw.
    let found = kmeans(&bank, Metric::Cosine, 24, &mut draws(9));
    assert_eq!((found.vectors.len(), found.weights.iter().sum::<f64>()), (20, 24.0));
    let points = chunked(5, &unit(&random(30, 5, 10)));
    let error = bias_error(&points, Metric::Cosine, &bank, &found, 20.0);
    assert!(error.max < 1e-5, "{error:?}");
    let herded = herd(&bank, Metric::Cosine, &points, 100, 20.0);
    assert_eq!((herded.vectors.len(), herded.weights.clone()), (24, vec![1.0; 24]));
    assert!(bias_error(&points, Metric::Cosine, &bank, &herded, 20.0).max < 1e-5);
}

/// The choice of [`herd`] from its formula.
fn greedy(metric: Metric, points: &Matrix, bank: &Matrix, to: usize, beta: f64) -> Matrix {
    let ones = vec![1.0; bank.len()];
    let bias = biases(metric, points, bank, &ones, beta);
    let feature = |entry: &Vec<f32>| -> Vec<f64> {
        let exponent = |(point, bias): (&Vec<f32>, &f64)| beta * (similarity(metric, point, entry) - bias);
        points.iter().zip(&bias).map(|it| exponent(it).exp() * bank.len() as f64).collect()
    };
    let features: Vec<Vec<f64>> = bank.iter().map(feature).collect();
    let (mut chosen, mut sum) = (Vec::new(), vec![0.0; points.len()]);
    for step in 1..=to {
        let cost = |entry: usize| -> f64 {
            let with = sum.iter().zip(&features[entry]).map(|(sum, feature)| sum + feature);
            with.map(|with: f64| (step as f64 - with).powi(2)).sum()
        };
        let free = (0..bank.len()).filter(|entry| !chosen.contains(entry));
        let best = free.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("some are left");
        sum.iter_mut().zip(&features[best]).for_each(|(sum, feature)| *sum += feature);
        chosen.push(best);
    }
    chosen.into_iter().map(|entry| bank[entry].clone()).collect()
}

#[test]
fn herding_chooses_as_its_formula_does() {
    for (metric, points, bank, to, beta) in [
        (Metric::Cosine, 40, 60, 12, 5.0),
        (Metric::Dot, 30, CHUNK_ROWS + 20, 20, 2.0),
        (Metric::Euclidean, CHUNK_ROWS + 3, 30, 9, 1.0),
    ] {
        let (points, bank) = (random(points, 6, 11), random(bank, 6, 12));
        let (points, bank) =
            if metric == Metric::Cosine { (unit(&points), unit(&bank)) } else { (points, bank) };
        let whole = WeightedBank::plain(chunked(6, &bank));
        let found = herd(&whole, metric, &chunked(6, &points), to, beta);
        assert_eq!(rows(&found.vectors), greedy(metric, &points, &bank, to, beta), "{metric}");
        assert!(found.weights.iter().all(|&weight| weight == bank.len() as f64 / to as f64));
    }
}

#[test]
fn both_ways_keep_more_of_the_bias_than_entries_taken_at_random() {
    let bank = unit(&random(900, 8, 13));
    let (chosen_by, points) = (unit(&random(300, 8, 14)), chunked(8, &unit(&random(300, 8, 15))));
    let whole = WeightedBank::plain(chunked(8, &bank));
    let error = |part: &WeightedBank| bias_error(&points, Metric::Cosine, &whole, part, 10.0).mean;
    let random = WeightedBank::plain(chunked(8, &bank[..60]));
    let centroids = kmeans(&whole, Metric::Cosine, 60, &mut draws(16));
    let herded = herd(&whole, Metric::Cosine, &chunked(8, &chosen_by), 60, 10.0);
    assert!(error(&centroids) < error(&random) && error(&herded) < error(&random));
    // The same draws give the same centroids.
    let again = kmeans(&whole, Metric::Cosine, 60, &mut draws(16));
    assert_eq!((rows(&again.vectors), again.weights), (rows(&centroids.vectors), centroids.weights));
}
