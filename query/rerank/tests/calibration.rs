//! Calibrations against what they are to minimise, and measures against their definitions.

use std::num::NonZeroUsize;

use dehub_rerank::{
    Bins, Calibration, CalibrationError, Judged, brier_score, expected_calibration_error, pooled_auc,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(20_261_201),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Reads `.9+ .4- .7+*2`: score, truth, weight.
fn read(text: &str) -> Vec<Judged> {
    let sample = |word: &str| {
        let (word, weight) = word.split_once('*').unwrap_or((word, "1"));
        let (score, truth) = word.split_at(word.len() - 1);
        let (score, weight) = (score.parse().expect("a score"), weight.parse().expect("a weight"));
        Judged { score, relevant: truth == "+", weight }
    };
    text.split(' ').map(sample).collect()
}

/// Samples of both kinds, with ties.
fn samples() -> impl Strategy<Value = Vec<Judged>> {
    let score = prop_oneof![(-10i32..10).prop_map(|step| f64::from(step) * 0.1), -3.0..3.0f64];
    let weight = prop_oneof![Just(1.0), 0.1..5.0f64];
    let sample = (score, any::<bool>(), weight).prop_map(|(score, relevant, weight)| Judged {
        score,
        relevant,
        weight,
    });
    prop::collection::vec(sample, 2..40).prop_filter("both kinds", |all| {
        all.iter().any(|it| it.relevant) && all.iter().any(|it| !it.relevant)
    })
}

fn parameters(calibration: &Calibration) -> (f64, f64) {
    let Calibration::Platt { a, b } = calibration else { panic!("{calibration:?}") };
    (*a, *b)
}

/// The cross entropy with Platt's targets, as plainly as it can be written.
fn cross_entropy(samples: &[Judged], (a, b): (f64, f64)) -> f64 {
    let weight = |kind| samples.iter().filter(|it| it.relevant == kind).map(|it| it.weight).sum::<f64>();
    let (relevant, others) = (weight(true), weight(false));
    let of_sample = |it: &Judged| {
        let truth = if it.relevant { (relevant + 1.0) / (relevant + 2.0) } else { 1.0 / (others + 2.0) };
        let p = 1.0 / (1.0 + (-(a * it.score + b)).exp());
        -it.weight * (truth * p.ln() + (1.0 - truth) * (1.0 - p).ln())
    };
    samples.iter().map(of_sample).sum()
}

/// The isotonic value at each distinct score: the largest, over starts up to it, of the least, over ends from it, of
/// means.
fn min_max(samples: &[Judged]) -> Vec<(f64, f64)> {
    let mut scores: Vec<f64> = samples.iter().map(|it| it.score).collect();
    scores.sort_by(f64::total_cmp);
    scores.dedup();
    let mean = |low: f64, high: f64| {
        let within = samples.iter().filter(|it| it.score >= low && it.score <= high);
        let relevant: f64 = within.clone().filter(|it| it.relevant).map(|it| it.weight).sum();
        relevant / within.map(|it| it.weight).sum::<f64>()
    };
    let value = |at: usize| {
        let from =
            |low: &f64| scores[at..].iter().map(|high| mean(*low, *high)).fold(f64::INFINITY, f64::min);
        scores[..=at].iter().map(from).fold(f64::NEG_INFINITY, f64::max)
    };
    (0..scores.len()).map(|at| (scores[at], value(at))).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn platt_scaling_is_at_the_bottom_of_the_cross_entropy(samples in samples()) {
        let (a, b) = parameters(&Calibration::platt(&samples).unwrap());
        let least = cross_entropy(&samples, (a, b));
        for (step_a, step_b) in [(1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3), (1e-3, -1e-3), (0.1, 0.1)] {
            let other = (a + step_a, b + step_b);
            if other.0 >= 0.0 {
                prop_assert!(cross_entropy(&samples, other) >= least - 1e-12 * least.abs());
            }
        }
        let slope = |step: (f64, f64)| {
            let at = |sign: f64| cross_entropy(&samples, (a + sign * step.0, b + sign * step.1));
            (at(1.0) - at(-1.0)) / (2.0 * (step.0 + step.1))
        };
        prop_assert!(slope((0.0, 1e-4)).abs() < 1e-6, "{}", slope((0.0, 1e-4)));
        if a > 0.0 {
            prop_assert!(slope((1e-4, 0.0)).abs() < 1e-6, "{}", slope((1e-4, 0.0)));
        }
    }

    #[test]
    fn platt_scaling_follows_scores_that_are_moved_and_stretched(samples in samples(), power in -6..=6i32) {
        let factor = 10f64.powi(power);
        let moved = |it: &Judged| Judged { score: it.score * factor + 3.0 * factor, ..*it };
        let moved: Vec<Judged> = samples.iter().map(moved).collect();
        let (here, there) = (Calibration::platt(&samples).unwrap(), Calibration::platt(&moved).unwrap());
        for (sample, moved) in samples.iter().zip(&moved) {
            prop_assert!((here.probability(sample.score) - there.probability(moved.score)).abs() < 1e-10);
        }
    }

    #[test]
    fn pools_have_the_values_of_the_largest_least_mean(samples in samples()) {
        let found = Calibration::isotonic(&samples).unwrap();
        prop_assert_eq!(found.check(), Ok(()));
        let Calibration::Isotonic { x, y } = &found else { panic!("{found:?}") };
        let mut wanted = min_max(&samples);
        // Scores of one value are one point, at their mean by weight.
        wanted.dedup_by(|a, b| (a.1 - b.1).abs() < 1e-12);
        prop_assert_eq!(wanted.len(), y.len());
        for (at, (first, value)) in wanted.iter().enumerate() {
            prop_assert!((y[at] - value).abs() < 1e-12, "{y:?} {wanted:?}");
            let end = wanted.get(at + 1).map_or(f64::INFINITY, |next| next.0);
            let within = samples.iter().filter(|it| it.score >= *first && it.score < end);
            let weight: f64 = within.clone().map(|it| it.weight).sum();
            let mean = within.map(|it| it.weight * it.score).sum::<f64>() / weight;
            prop_assert!((x[at] - mean).abs() < 1e-12, "{x:?} {mean}");
        }
    }

    #[test]
    fn probabilities_never_fall_and_are_probabilities(samples in samples()) {
        for found in [Calibration::platt(&samples).unwrap(), Calibration::isotonic(&samples).unwrap()] {
            let ends = [f64::NAN, f64::NEG_INFINITY, -1e300];
            let middle = (-80..80).map(|step| f64::from(step) * 0.05);
            let scores = ends.into_iter().chain(middle).chain([1e300, f64::INFINITY]);
            let probabilities: Vec<f64> = scores.map(|score| found.probability(score)).collect();
            prop_assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{probabilities:?}");
            prop_assert!(probabilities.windows(2).all(|pair| pair[0] <= pair[1]), "{probabilities:?}");
        }
    }

    #[test]
    fn a_weight_is_as_many_samples(samples in samples(), times in 1..4u32) {
        let weighted: Vec<Judged> =
            samples.iter().map(|it| Judged { weight: f64::from(times), ..*it }).collect();
        let repeated: Vec<Judged> = samples
            .iter()
            .flat_map(|it| std::iter::repeat_n(Judged { weight: 1.0, ..*it }, times as usize))
            .collect();
        let pairs = [
            (Calibration::platt(&weighted).unwrap(), Calibration::platt(&repeated).unwrap()),
            (Calibration::isotonic(&weighted).unwrap(), Calibration::isotonic(&repeated).unwrap()),
        ];
        for (one, other) in pairs {
            for sample in &samples {
                prop_assert!((one.probability(sample.score) - other.probability(sample.score)).abs() < 1e-12);
            }
        }
        let squashed = |all: &[Judged]| -> Vec<Judged> {
            all.iter().map(|it| Judged { score: (it.score + 3.0) / 6.0, ..*it }).collect()
        };
        let (one, other) = (squashed(&weighted), squashed(&repeated));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        prop_assert!(close(brier_score(&one).unwrap(), brier_score(&other).unwrap()));
        prop_assert!(close(pooled_auc(&one).unwrap(), pooled_auc(&other).unwrap()));
        let error = |all: &[Judged]| {
            expected_calibration_error(all, Bins::EqualWidth, NonZeroUsize::new(7).unwrap()).unwrap()
        };
        prop_assert!(close(error(&one), error(&other)));
    }

    #[test]
    fn the_area_is_the_weight_of_ordered_pairs(samples in samples()) {
        let (mut won, mut all) = (0.0, 0.0);
        for relevant in samples.iter().filter(|it| it.relevant) {
            for other in samples.iter().filter(|it| !it.relevant) {
                let weight = relevant.weight * other.weight;
                all += weight;
                won += weight * match relevant.score.total_cmp(&other.score) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        prop_assert!((pooled_auc(&samples).unwrap() - won / all).abs() < 1e-12);
    }
}

#[test]
fn samples_that_a_threshold_tells_apart_give_a_finite_slope() {
    let (a, b) = parameters(&Calibration::platt(&read("1+ 2+ 3+ -1- -2- -3-")).unwrap());
    assert!(a > 0.0 && a < 10.0, "{a}");
    assert!(b.abs() < 1e-9, "{b}");
    // The targets are 4/5 and 1/5, so the curve passes between them.
    let far = Calibration::Platt { a, b }.probability(3.0);
    assert!(far > 0.8 && far < 0.95, "{far}");
}

#[test]
fn scores_that_tell_nothing_or_the_wrong_way_round_give_the_share_of_answers() {
    for text in ["5+ 5- 5- 5-", "-1+ 0- 1- 2-"] {
        let (a, b) = parameters(&Calibration::platt(&read(text)).unwrap());
        // One sample of 2/3 and three of 1/5, of four.
        let share = (2.0 / 3.0 + 3.0 / 5.0) / 4.0f64;
        assert_eq!(a, 0.0, "{text}");
        assert!((b - (share / (1.0 - share)).ln()).abs() < 1e-12, "{text}: {b}");
    }
    let flat = Calibration::isotonic(&read("-1+ 0- 1- 2-")).unwrap();
    assert_eq!(flat, Calibration::Isotonic { x: vec![0.5], y: vec![0.25] });
}

#[test]
fn pools_lie_at_their_mean_scores_with_lines_between() {
    let found = Calibration::isotonic(&read("0- 1- 2+ 3- 4+*2 4-*2 6+")).unwrap();
    // 2+ and 3- are one half, and so are the four at 4: pools of one value are one.
    assert_eq!(found, Calibration::Isotonic { x: vec![0.5, 21.0 / 6.0, 6.0], y: vec![0.0, 0.5, 1.0] });
    for (score, probability) in
        [(-9.0, 0.0), (0.5, 0.0), (2.0, 0.25), (3.5, 0.5), (4.75, 0.75), (6.0, 1.0), (9.0, 1.0)]
    {
        assert!((found.probability(score) - probability).abs() < 1e-15, "{score}");
    }
}

#[test]
fn measures_of_a_small_set_are_what_paper_and_pencil_give() {
    let samples = read(".1- .1+ .4- .6+ .6+ .9+ .95-*2 1+");
    let bins = |count| NonZeroUsize::new(count).unwrap();
    let error = |kind, count| expected_calibration_error(&samples, kind, bins(count)).unwrap();
    let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{wanted}, found {found}");
    // Two halves by value: .1 .1 .4 with one answer, and the rest with four of six.
    close(
        error(Bins::EqualWidth, 2),
        ((0.6 - 1.0f64).abs() + (0.6 + 0.6 + 0.9 + 1.9 + 1.0 - 4.0f64).abs()) / 9.0,
    );
    // One bin: the mean probability beside the share of answers.
    close(error(Bins::EqualWidth, 1), (5.6 - 5.0) / 9.0);
    close(error(Bins::EqualMass, 1), (5.6 - 5.0) / 9.0);
    // Thirds by weight of nine: places 0 to 3, of which .6 begins at the third; then .9; then the rest, whose two of
    // .95 begin before the sixth.
    let thirds = (0.6 - 1.0f64).abs() + (1.2 + 0.9 - 3.0f64).abs() + (1.9 + 1.0 - 1.0f64).abs();
    close(error(Bins::EqualMass, 3), thirds / 9.0);
    let squares = 0.01 + 0.81 + 0.16 + 0.16 + 0.16 + 0.01 + 2.0 * 0.95 * 0.95 + 0.0;
    close(brier_score(&samples).unwrap(), squares / 9.0);
    // Against .1, .4 and twice .95: .1 wins half, .6 and .6 two each, .9 two, 1 all four.
    close(pooled_auc(&samples).unwrap(), (0.5 + 2.0 + 2.0 + 2.0 + 4.0) / 20.0);
}

#[test]
fn samples_that_are_none_are_refused_with_their_place() {
    let both = "calibration: wanted samples of both kinds, found";
    let message = |samples: &[Judged]| Calibration::platt(samples).unwrap_err().to_string();
    assert_eq!(Calibration::isotonic(&[]), Err(CalibrationError::NoSample));
    assert_eq!(message(&read("1+ 2+")), format!("{both} 2 relevant of 2"));
    assert_eq!(message(&read("1- 2- 3-")), format!("{both} 0 relevant of 3"));
    assert_eq!(
        message(&[Judged::new(1.0, true), Judged::new(f64::NAN, false)]),
        "sample 1: wanted a score from -1e60 to 1e60, found NaN"
    );
    assert_eq!(message(&read("1+ 2-*0")), "sample 1: wanted a weight above 0 and up to 1e12, found 0");
    assert!(pooled_auc(&read("1+ 2+")).is_err());
    assert_eq!(
        brier_score(&read("1+ 2-")).unwrap_err().to_string(),
        "sample 1: wanted a probability from 0 to 1, found 2"
    );
    let one = NonZeroUsize::MIN;
    assert!(expected_calibration_error(&read(".5+ -.5-"), Bins::EqualMass, one).is_err());
    assert_eq!(expected_calibration_error(&[], Bins::EqualMass, one), Err(CalibrationError::NoSample));
}

#[test]
fn a_calibration_is_written_and_read_and_one_that_falls_is_refused() {
    for text in [r#"{"platt":{"a":2.5,"b":-1.0}}"#, r#"{"isotonic":{"x":[0.1,0.3],"y":[0.0,1.0]}}"#] {
        let read: Calibration = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    for (text, wanted) in [
        (r#"{"platt":{"a":-1,"b":0}}"#, "calibration, a: wanted a number from 0 up, found -1.0"),
        (
            r#"{"isotonic":{"x":[0.1],"y":[]}}"#,
            "calibration, numbers of x and y: wanted one or more, and as many of both, found (1, 0)",
        ),
        (
            r#"{"isotonic":{"x":[],"y":[]}}"#,
            "calibration, numbers of x and y: wanted one or more, and as many of both, found (0, 0)",
        ),
        (
            r#"{"isotonic":{"x":[1e61],"y":[0]}}"#,
            "calibration, x: wanted scores from -1e60 to 1e60, found 1e61",
        ),
        (
            r#"{"isotonic":{"x":[1],"y":[1.5]}}"#,
            "calibration, y: wanted probabilities from 0 to 1, found 1.5",
        ),
        (
            r#"{"isotonic":{"x":[1,1],"y":[0,0]}}"#,
            "calibration, x: wanted each above the one before, found [1.0, 1.0]",
        ),
        (
            r#"{"isotonic":{"x":[1,2],"y":[0.5,0.4]}}"#,
            "calibration, y: wanted none below the one before, found [0.5, 0.4]",
        ),
    ] {
        let error = serde_json::from_str::<Calibration>(text).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
    assert!(serde_json::from_str::<Calibration>(r#"{"platt":{"a":1,"b":0,"c":0}}"#).is_err());
    assert!(Calibration::Platt { a: 1.0, b: f64::NAN }.check().is_err());
    assert_eq!(Calibration::Isotonic { x: vec![], y: vec![] }.probability(1.0), 0.0);
}
