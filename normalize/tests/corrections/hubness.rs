//! Measures of hubness against published numbers and their definitions.

use dehub_normalize::{Occurrence, hub_share_at_random, robin_hood_at_random};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::reference::cases;

fn occurrence(points: usize, k: usize, answers: &[Vec<u32>]) -> Occurrence {
    Occurrence::count(points, k, answers.iter().map(Vec::as_slice))
}

#[test]
fn skewness_is_that_of_hub_toolbox_on_its_five_points() {
    let pairs = [0.2, 0.1, 0.8, 0.4, 0.3, 0.5, 0.7, 1.0, 0.6, 0.9];
    // The pairs of a square table, above its diagonal, row by row.
    let place = |a: usize, b: usize| (0..a.min(b)).map(|row| 4 - row).sum::<usize>() + a.abs_diff(b) - 1;
    let gap = |a: usize, b: u32| -> f64 { pairs[place(a, b as usize)] };
    let nearest = |own: usize| {
        let mut others: Vec<u32> = (0..5).filter(|&other| other as usize != own).collect();
        others.sort_by(|&a, &b| gap(own, a).total_cmp(&gap(own, b)));
        others
    };
    let answers: Vec<Vec<u32>> = (0..5).map(nearest).collect();
    assert!((occurrence(5, 2, &answers).skewness() - -0.256_120_416_3).abs() < 1e-10);
}

#[test]
fn skewness_is_that_of_kiez_on_its_neighbours() {
    let answers = [[0, 2], [1, 0], [2, 0], [3, 1], [4, 0]].map(Vec::from);
    let found = occurrence(5, 2, &answers);
    assert_eq!(found.counts(), [4, 2, 2, 1, 1]);
    assert!((found.skewness() - 0.912_870_929_175_276_9).abs() < 1e-12);
}

/// Worked by hand: 3 queries, 6 points, N = [3, 2, 1, 0, 0, 0].
#[test]
fn more_points_than_queries_and_answers_longer_than_k() {
    let answers = [vec![0, 1, 5], vec![0, 2, 4], vec![1, 0, 3]];
    let found = occurrence(6, 2, &answers);
    assert_eq!(found.counts(), [3, 2, 1, 0, 0, 0]);
    assert_eq!((found.queries(), found.max()), (3, 3));
    assert!((found.antihub_share() - 0.5).abs() < 1e-12);
    assert!((found.antihub_share_at_random() - (-1.0_f64).exp()).abs() < 1e-12);
    assert!((found.robin_hood() - 0.5).abs() < 1e-12);
    // Hubs occur at least twice as often as the mean, 1: the first two points.
    assert!((found.hub_share() - 5.0 / 6.0).abs() < 1e-12);
    assert!((found.groupie_share() - 1.0).abs() < 1e-12);
    // Σ i·N over sorted counts is 4 + 10 + 18 = 32.
    assert!((found.gini() - (64.0 / 36.0 - 7.0 / 6.0)).abs() < 1e-12);
    let roots: f64 = (3.0_f64.sqrt() + 2.0_f64.sqrt() + 1.0) / 6.0;
    assert!((found.atkinson() - (1.0 - roots * roots)).abs() < 1e-12);
    assert_eq!(found.hubs(4), [(0, 3), (1, 2), (2, 1), (3, 0)]);
    assert_eq!(found.histogram(), [(0, 0, 3), (1, 1, 1), (2, 3, 2)]);
}

#[test]
fn equal_counts_have_no_hubs() {
    let answers: Vec<Vec<u32>> = (0..7).map(|query| vec![query, (query + 1) % 7]).collect();
    let found = occurrence(7, 2, &answers);
    assert_eq!(found.counts(), [2; 7]);
    assert_eq!((found.skewness(), found.robin_hood(), found.antihub_share()), (0.0, 0.0, 0.0));
    assert!(found.gini().abs() < 1e-12 && found.atkinson().abs() < 1e-12 && found.hub_share() == 0.0);
}

#[test]
fn nothing_counted_measures_nothing() {
    for found in [occurrence(0, 3, &[]), occurrence(4, 3, &[]), occurrence(4, 0, &[vec![1, 2]])] {
        assert_eq!((found.skewness(), found.robin_hood(), found.max()), (0.0, 0.0, 0));
        assert_eq!((found.gini(), found.atkinson(), found.groupie_share()), (0.0, 0.0, 0.0));
        assert_eq!(found.hub_share_at_random(), 0.0);
        assert_eq!(found.histogram().iter().map(|step| step.2).sum::<usize>(), found.counts().len());
        assert_eq!(found.antihub_share_at_random(), 1.0);
    }
}

/// Answers that list each point at most once.
fn answers() -> impl Strategy<Value = (usize, usize, Vec<Vec<u32>>)> {
    (1_usize..12, 0_usize..6).prop_flat_map(|(points, k)| {
        let all: Vec<u32> = (0..).take(points).collect();
        let answer = Just(all)
            .prop_shuffle()
            .prop_flat_map(move |all| (0..=points).prop_map(move |len| all[..len].to_vec()));
        (Just(points), Just(k), prop::collection::vec(answer, 0..30))
    })
}

#[test]
fn measures_are_their_definitions() {
    TestRunner::new(cases(256, 11))
        .run(&answers(), |(points, k, answers)| {
            let found = occurrence(points, k, &answers);
            let n: Vec<f64> = (0..points as u32)
                .map(|point| {
                    answers.iter().filter(|list| list.iter().take(k).any(|&it| it == point)).count() as f64
                })
                .collect();
            let counts: Vec<f64> = found.counts().iter().map(|&count| f64::from(count)).collect();
            prop_assert_eq!(&counts, &n);
            prop_assert_eq!(found.queries(), answers.len());
            let size = n.len() as f64;
            let (sum, mean) = (n.iter().sum::<f64>(), n.iter().sum::<f64>() / size);
            let moment = |power: i32| n.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / size;
            let skewness = if moment(2) > 0.0 { moment(3) / moment(2).sqrt().powi(3) } else { 0.0 };
            prop_assert!((found.skewness() - skewness).abs() < 1e-9);
            let moved = n.iter().map(|x| (x - mean).max(0.0)).sum::<f64>();
            let robin_hood = if sum > 0.0 { moved / sum } else { 0.0 };
            prop_assert!((found.robin_hood() - robin_hood).abs() < 1e-9);
            prop_assert!((0.0..1.0).contains(&found.robin_hood()));
            let never = n.iter().filter(|&&x| x == 0.0).count() as f64;
            prop_assert!((found.antihub_share() - never / size).abs() < 1e-12);
            let of_hubs = n.iter().filter(|&&x| x >= 2.0 * mean).sum::<f64>();
            let hub_share = if sum > 0.0 { of_hubs / sum } else { 0.0 };
            prop_assert!((found.hub_share() - hub_share).abs() < 1e-12);
            let gaps = n.iter().flat_map(|a| n.iter().map(move |b| (a - b).abs())).sum::<f64>();
            let gini = if sum > 0.0 { gaps / (2.0 * size * sum) } else { 0.0 };
            prop_assert!((found.gini() - gini).abs() < 1e-9);
            let roots = n.iter().map(|x| x.sqrt()).sum::<f64>() / size;
            let atkinson = if sum > 0.0 { 1.0 - roots * roots / mean } else { 0.0 };
            prop_assert!((found.atkinson() - atkinson).abs() < 1e-9);
            let counted = Occurrence::from_counts(k, answers.len(), found.counts().to_vec());
            prop_assert_eq!(counted, found);
            Ok(())
        })
        .expect("the definitions hold");
}

#[test]
fn steps_of_the_histogram_follow_each_other_and_hold_every_point() {
    TestRunner::new(cases(256, 12))
        .run(&(prop::collection::vec(0_u32..70, 1..20)), |counts| {
            let most = counts.iter().copied().max().unwrap_or(0);
            let point =
                |step: u32| (0..).zip(&counts).filter(move |&(_, &n)| n > step).map(|(point, _)| point);
            let answers: Vec<Vec<u32>> = (0..most).map(|step| point(step).collect()).collect();
            let found = occurrence(counts.len(), usize::MAX, &answers);
            prop_assert_eq!(found.counts(), &counts[..]);
            let steps = found.histogram();
            prop_assert_eq!(steps.iter().map(|step| step.2).sum::<usize>(), counts.len());
            prop_assert!(steps.windows(2).all(|two| two[0].1 + 1 == two[1].0));
            for &(least, most, points) in &steps {
                prop_assert_eq!(points, counts.iter().filter(|&&n| (least..=most).contains(&n)).count());
            }
            let hubs = found.hubs(counts.len() + 5);
            prop_assert!(hubs.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
            prop_assert!(hubs.iter().all(|&(point, n)| counts[point as usize] == n));
            prop_assert_eq!(hubs.len(), counts.len());
            Ok(())
        })
        .expect("the steps hold");
}

/// The mean absolute deviation summed from the probabilities themselves.
#[test]
fn the_index_at_random_is_that_of_poisson_probabilities() {
    for mean in [0.01_f64, 0.3, 0.999, 1.0, 1.5, 2.0, 7.25, 40.0] {
        let (mut probability, mut deviation) = ((-mean).exp(), 0.0);
        for count in 0..400_u32 {
            deviation += probability * (f64::from(count) - mean).abs();
            probability *= mean / f64::from(count + 1);
        }
        let wanted = deviation / (2.0 * mean);
        assert!((robin_hood_at_random(mean) - wanted).abs() < 1e-12, "{mean}");
    }
    assert_eq!(robin_hood_at_random(0.0), 0.0);
    // Stirling: e^{−λ}λ^λ/λ! tends to 1/√(2πλ).
    let large = 250_000.0_f64;
    assert!((robin_hood_at_random(large) * (std::f64::consts::TAU * large).sqrt() - 1.0).abs() < 1e-6);
}

#[test]
fn the_share_of_hubs_at_random_is_that_of_poisson_probabilities() {
    for mean in [0.01_f64, 0.3, 0.5, 0.999, 1.0, 1.5, 2.0, 7.25, 40.0] {
        let (mut probability, mut of_hubs) = ((-mean).exp(), 0.0);
        for count in 0..400_u32 {
            let count_f = f64::from(count);
            of_hubs += if count_f >= 2.0 * mean { probability * count_f } else { 0.0 };
            probability *= mean / (count_f + 1.0);
        }
        assert!((hub_share_at_random(mean) - of_hubs / mean).abs() < 1e-12, "{mean}");
    }
    assert_eq!(hub_share_at_random(0.0), 0.0);
}

#[test]
fn answers_drawn_at_random_have_the_index_at_random() {
    let mut state = 20_u64;
    let mut draw = |points: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((state >> 33) % points).expect("below the number of points")
    };
    for (points, queries) in [(4000, 300), (4000, 1000), (4000, 3000), (2000, 10_000)] {
        let answer = |_| {
            let mut answer: Vec<u32> = Vec::new();
            while answer.len() < 10 {
                let point = draw(points);
                if !answer.contains(&point) {
                    answer.push(point);
                }
            }
            answer
        };
        let answers: Vec<Vec<u32>> = (0..queries).map(answer).collect();
        let found = occurrence(usize::try_from(points).expect("small"), 10, &answers);
        let (index, wanted) = (found.robin_hood(), found.robin_hood_at_random());
        assert!((index / wanted - 1.0).abs() < 0.04, "{points} points, {queries} queries: {index} {wanted}");
    }
}
