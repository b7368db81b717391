//! Intervals and tests of differences, against what is known of them.

use dehub_eval::{Interval, Measure, Resampling, Test, holm};

fn measure(name: &str) -> Measure {
    name.parse().expect("a measure")
}

/// Numbers between 0 and 1 from a seed.
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    (0..count).map(|_| next()).collect()
}

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

#[test]
fn an_interval_of_a_mean_is_that_of_its_standard_error() {
    let values = numbers(5, 400);
    let Interval { value, low, high } =
        Resampling::default().interval(&values, measure("AP")).expect("values");
    let mean = values.iter().sum::<f64>() / 400.0;
    let error = (values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 400.0 / 400.0).sqrt();
    assert!((value - mean).abs() < 1e-12);
    assert!((low - (mean - 1.96 * error)).abs() < 0.1 * error, "{low} {mean} {error}");
    assert!((high - (mean + 1.96 * error)).abs() < 0.1 * error, "{high} {mean} {error}");
    assert_eq!(Resampling::default().interval(&[], measure("AP")), None);
}

#[test]
fn an_interval_of_a_median_is_made_of_medians() {
    let ranks = [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 900.0];
    let found = Resampling::default().interval(&ranks, measure("MdR")).expect("values");
    assert_eq!((found.value, found.low), (2.0, 1.0));
    assert!((2.0..=900.0).contains(&found.high));
}

#[test]
fn few_queries_are_swapped_in_all_ways() {
    let resampling = Resampling::default();
    let p = |a: &[f64], b: &[f64]| {
        let found = resampling.compare(&some(a), &some(b), measure("AP"), Test::Randomisation);
        found.expect("pairs").p
    };
    // All four differences on one side: two of sixteen ways are as extreme.
    assert_eq!(p(&[0.1, 0.2, 0.3, 0.4], &[0.2, 0.4, 0.6, 0.8]), 2.0 / 16.0);
    // 1 + 2 − 4: the sums of ±1 ±2 ±4 are all odd numbers to 7, and 1 or more are all.
    assert_eq!(p(&[0.0, 0.0, 4.0], &[1.0, 2.0, 0.0]), 1.0);
    assert_eq!(p(&[0.5, 0.5], &[0.5, 0.5]), 1.0);
}

#[test]
fn both_tests_agree_with_a_normal_approximation_where_queries_are_many() {
    let (first, noise) = (numbers(1, 300), numbers(2, 300));
    let second: Vec<f64> =
        first.iter().zip(&noise).map(|(a, noise)| a + 0.015 + 0.5 * (noise - 0.5)).collect();
    let gained: Vec<f64> = first.iter().zip(&second).map(|(a, b)| b - a).collect();
    let mean = gained.iter().sum::<f64>() / 300.0;
    let error = (gained.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 300.0 / 300.0).sqrt();
    let z = mean / error;
    // Abramowitz and Stegun 26.2.17, the tail of the normal distribution.
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let tail = series.iter().fold(0.0, |sum, it| sum * t + it) * t;
    let wanted = 2.0 * tail * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    assert!((0.001..0.2).contains(&wanted), "the sample tells something: {wanted}");
    for test in [Test::Bootstrap, Test::Randomisation] {
        let found =
            Resampling::default().compare(&some(&first), &some(&second), measure("AP"), test).expect("pairs");
        assert!((found.difference.value - mean).abs() < 1e-12);
        assert!((found.p / wanted - 1.0).abs() < 0.35, "{test:?}: {} for {wanted}", found.p);
    }
}

#[test]
fn equal_systems_do_not_differ_and_p_is_never_zero() {
    let values = numbers(3, 50);
    let better: Vec<f64> = values.iter().map(|it| it + 1.0).collect();
    for test in [Test::Bootstrap, Test::Randomisation] {
        let compare = |other: &[f64]| {
            Resampling::default().compare(&some(&values), &some(other), measure("AP"), test).expect("pairs")
        };
        assert_eq!(compare(&values).p, 1.0, "{test:?}");
        let sure = compare(&better);
        assert!(sure.p > 0.0 && sure.p < 0.001, "{test:?} {}", sure.p);
        assert!((sure.difference.low - 1.0).abs() < 1e-9 && (sure.difference.high - 1.0).abs() < 1e-9);
    }
}

#[test]
fn pairs_without_a_value_are_passed_over() {
    let (first, second) = ([Some(0.5), None, Some(0.1)], [Some(0.75), Some(0.9), None]);
    let found =
        Resampling::default().compare(&first, &second, measure("AUC"), Test::Bootstrap).expect("a pair");
    assert_eq!(found.difference.value, 0.25);
    assert_eq!(
        Resampling::default().compare(&first[1..], &second[1..], measure("AUC"), Test::Bootstrap),
        None
    );
}

#[test]
fn a_seed_gives_the_same_numbers_and_another_one_others() {
    let (first, second) = (numbers(1, 40), numbers(9, 40));
    let compare = |seed| {
        let resampling = Resampling { seed, ..Resampling::default() };
        resampling.compare(&some(&first), &some(&second), measure("AP"), Test::Randomisation).expect("pairs")
    };
    assert_eq!(compare(4), compare(4));
    assert_ne!(compare(4).difference, compare(5).difference);
}

#[test]
fn holm_multiplies_by_the_tests_left_and_never_falls() {
    let close = |found: Vec<f64>, wanted: &[f64]| {
        assert_eq!(found.len(), wanted.len());
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {wanted:?}");
    };
    close(holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]);
    close(holm(&[0.5, 0.02, 0.9]), &[1.0, 0.06, 1.0]);
    close(holm(&[0.04]), &[0.04]);
    close(holm(&[]), &[]);
}
