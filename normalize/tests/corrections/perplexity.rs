//! An inverse temperature found from a perplexity, against the entropy in 64 bits.

use dehub_normalize::{Bank, MethodInput, PerplexityError, beta_of_perplexity, mean_entropy};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric};

use crate::reference::{Matrix, Numbers, chunked, method, similarity, unit, with_similarities};

fn random(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| (0..dim).map(|_| numbers.signed() + 0.25).collect()).collect()
}

/// The mean entropy straight from its definition, `−Σ p ln p`.
fn entropy(metric: Metric, points: &Matrix, bank: &Matrix, beta: f64) -> f64 {
    let of_point = |point: &Vec<f32>| {
        let exponents: Vec<f64> = bank.iter().map(|entry| beta * similarity(metric, point, entry)).collect();
        let top = exponents.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = exponents.iter().map(|x| (x - top).exp()).sum();
        let shares = exponents.iter().map(|x| (x - top).exp() / sum).filter(|&share| share > 0.0);
        shares.map(|share| -share * share.ln()).sum::<f64>()
    };
    points.iter().map(of_point).sum::<f64>() / points.len() as f64
}

fn found(metric: Metric, points: &Matrix, bank: &Matrix, perplexity: f64) -> Result<f64, PerplexityError> {
    let (points, bank) = (chunked(points[0].len(), points), chunked(bank[0].len(), bank));
    beta_of_perplexity(&points, Bank::new(&bank, metric), perplexity)
}

#[test]
fn the_entropy_at_the_beta_found_is_that_of_the_perplexity() {
    for (points, bank, dim, seed) in
        [(7, 5, 3, 1), (CHUNK_ROWS + 9, 40, 8, 2), (30, CHUNK_ROWS * 2 + 3, 16, 3)]
    {
        let (points, bank) = (random(points, dim, seed), random(bank, dim, seed + 10));
        for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
            let (points, bank) = match metric {
                Metric::Cosine => (unit(&points), unit(&bank)),
                Metric::Dot | Metric::Euclidean => (points.clone(), bank.clone()),
            };
            let mut last = f64::INFINITY;
            for perplexity in [1.5, 2.0, 4.5] {
                let beta = found(metric, &points, &bank, perplexity).expect("within reach");
                let entropy = entropy(metric, &points, &bank, beta);
                assert!((entropy - f64::ln(perplexity)).abs() < 1e-3, "{metric} {perplexity}: {entropy}");
                assert!(beta < last, "a larger perplexity means a smaller beta");
                last = beta;
            }
        }
    }
}

#[test]
fn an_entry_of_weight_three_is_three_entries_and_one_of_weight_zero_is_none() {
    let (points, bank) = (random(20, 6, 4), random(30, 6, 5));
    let weights: Vec<usize> = (0..30).map(|entry| [1, 3, 0][entry % 3]).collect();
    let repeated: Matrix =
        bank.iter().zip(&weights).flat_map(|(entry, &weight)| vec![entry.clone(); weight]).collect();
    let weights = Chunked::column(weights.iter().map(|&weight| weight as f32));
    let (stored, entries, repeated) = (chunked(6, &points), chunked(6, &bank), chunked(6, &repeated));
    let weighted = Bank { weights: Some(&weights), ..Bank::new(&entries, Metric::Dot) };
    for beta in [0.1, 3.0, 1e4] {
        let found = mean_entropy(&stored, weighted, beta);
        let wanted = mean_entropy(&stored, Bank::new(&repeated, Metric::Dot), beta);
        assert!((found - wanted).abs() < 1e-9, "{beta}: {found} {wanted}");
    }
    let beyond = beta_of_perplexity(&stored, weighted, 40.0).expect_err("there are 40 by weight");
    assert!(beyond.to_string().contains("below the 40 entries"), "{beyond}");
}

#[test]
fn the_entropy_is_that_of_its_definition_for_any_beta() {
    let (points, bank) = (random(20, 6, 4), random(CHUNK_ROWS + 50, 6, 5));
    for metric in [Metric::Dot, Metric::Euclidean] {
        for beta in [1e-6, 0.1, 3.0, 40.0, 1e4] {
            let (stored, entries) = (chunked(6, &points), chunked(6, &bank));
            let found = mean_entropy(&stored, Bank::new(&entries, metric), beta);
            let wanted = entropy(metric, &points, &bank, beta);
            // Similarities are 32-bit: their rounding times beta moves a weight by as much.
            assert!((found - wanted).abs() < 1e-5 * (1.0 + beta), "{metric} {beta}: {found}, {wanted}");
        }
    }
}

#[test]
fn scaled_similarities_scale_the_beta_and_a_shift_changes_nothing() {
    let mut numbers = Numbers(6);
    let matrix: Matrix = (0..60).map(|_| (0..25).map(|_| numbers.signed() / 2.0).collect()).collect();
    let beta = |change: &dyn Fn(usize, f32) -> f32| {
        let line = |line: &Vec<f32>| line.iter().enumerate().map(|(point, &s)| change(point, s)).collect();
        let (bank, points) = with_similarities(&matrix.iter().map(line).collect::<Vec<_>>());
        beta_of_perplexity(&points, Bank::new(&bank, Metric::Dot), 12.0).expect("within reach")
    };
    let plain = beta(&|_, s| s);
    assert!((beta(&|_, s| 100.0 * s) * 100.0 / plain - 1.0).abs() < 1e-3);
    assert!((beta(&|point, s| s + point as f32 / 4.0) / plain - 1.0).abs() < 1e-3);
}

#[test]
fn a_perplexity_that_nothing_gives_is_refused_with_its_range() {
    let (points, bank) = (random(9, 4, 7), random(6, 4, 8));
    for perplexity in [1.0, 6.0, 0.0, -3.0, 100.0, f64::NAN] {
        let error = found(Metric::Dot, &points, &bank, perplexity).expect_err("out of range");
        assert!(error.to_string().contains("above 1 and below the 6 entries"), "{error}");
    }
    // Copies of one vector weigh the same at any temperature.
    let copies = vec![bank[0].clone(); 5];
    let error = found(Metric::Dot, &points, &copies, 2.0).expect_err("out of reach");
    assert!(error.to_string().contains("it goes from 5.0000 to 5.0000"), "{error}");
    let none = beta_of_perplexity(&chunked(4, &[]), Bank::new(&chunked(4, &bank), Metric::Dot), 2.0);
    assert_eq!(none, Err(PerplexityError::NoPoints));
}

#[test]
fn methods_with_a_temperature_take_a_perplexity_in_its_place() {
    let resolve = |label: &str| {
        let input: MethodInput = label.parse().expect("a method");
        let resolved = input.resolve(|perplexity| Ok::<f64, ()>(perplexity / 3.0)).expect("it resolves");
        (resolved, input.note(&resolved))
    };
    for (label, wanted, note) in [
        ("IS(perplexity=52)", "IS(beta=17.3)", "perplexity 52 is beta 17.3 here"),
        ("DIS(perplexity=60,k=3,floor=0.1)", "DIS(beta=20,k=3,floor=0.1)", "perplexity 60 is beta 20 here"),
        ("DualIS(perplexity=90,b2=5)", "DualIS(b1=30,b2=5)", "perplexity 90 is b1 30 here"),
        ("DualDIS(perplexity=90)", "DualDIS(b1=30,b2=20,k=1)", "perplexity 90 is b1 30 here"),
        ("SN(perplexity=60,n=4)", "SN(tau=0.05,n=4)", "perplexity 60 is tau 0.05 here"),
    ] {
        assert_eq!(resolve(label), (method(wanted), Some(note.to_owned())));
    }
    assert_eq!(resolve("IS(beta=7)"), (method("IS(beta=7)"), None));
    for (label, part) in [
        ("IS(beta=20,perplexity=64)", "`beta` or `perplexity`, not both"),
        ("DualIS(beta_query=20,perplexity=64)", "`b1` or `perplexity`, not both"),
        ("SN(perplexity=3,perplexity=4)", "each once"),
        ("IS(perplexity=1)", "parameter `perplexity` of IS is 1, wanted a number above 1"),
        ("CSLS(perplexity=5)", "CSLS has no parameter `perplexity`: wanted k, floor, shrink"),
        ("IS(gamma=5)", "wanted beta, floor, shrink, perplexity"),
    ] {
        let error = label.parse::<MethodInput>().expect_err("it is refused").to_string();
        assert!(error.contains(part), "{label}: {error}");
    }
}
