//! Scores that are no weighted sums: published formulas in 64 bits, worked examples, and laws.

use dehub_normalize::{Bank, Method, PointSide, QueryScorer, Scorer, Statistic};
use dehub_vector::{Metric, dot};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::reference::{
    Matrix, Numbers, cases, chunked, fit_one, method, order, plain, top_mean, unit, value, with_similarities,
};

const LABELS: [&str; 6] =
    ["GC(k=3)", "GC(k=100)", "RatioMargin(k=2)", "MP2", "DualSoftmax(beta=20)", "DualSoftmax(beta=1000)"];

/// Similarities of queries, query bank and gallery bank (rows) to points (columns), and of queries to
/// the gallery bank.
struct Setting {
    queries: Matrix,
    bank: Matrix,
    /// A line a query.
    to_gallery_bank: Matrix,
}

fn scorer(method: &Method) -> Scorer {
    method.scorer().expect("its score is no weighted sum")
}

impl Setting {
    /// Each query's scores, as they are served but for the rounding of columns to 32 bits.
    fn scores(&self, method: &Method) -> Vec<Vec<f64>> {
        let (bank, points) = with_similarities(&self.bank);
        let fit = |statistic| fit_one(&plain(&points), Bank::new(&bank, Metric::Dot), statistic);
        let fitted: Vec<_> =
            method.statistics(Metric::Dot).iter().map(|term| (term.statistic, fit(term.statistic))).collect();
        let score = |(query, to_bank): (&Vec<f32>, &Vec<f32>)| {
            let of_query = self.of_query(method, query, to_bank);
            let point = |row: usize| {
                let (first, states) = &fitted[0];
                PointSide {
                    statistic: value(*first, &states[row]),
                    scale: fitted.get(1).map_or(1.0, |(scale, states)| value(*scale, &states[row])),
                    largest: states[row].largest(),
                }
            };
            query.iter().enumerate().map(|(row, &s)| of_query.score(s, point(row))).collect()
        };
        self.queries.iter().zip(&self.to_gallery_bank).map(score).collect()
    }

    fn of_query(&self, method: &Method, query: &[f32], to_bank: &[f32]) -> QueryScorer {
        let scorer = scorer(method);
        match (scorer.query_neighbours(), scorer.query_bank()) {
            (Some(k), _) => {
                let mut near = query.to_vec();
                near.sort_by(|a, b| b.total_cmp(a));
                near.truncate(k);
                scorer.for_query(&near, &[])
            }
            (None, Some(_)) => scorer.for_query(to_bank, &[]),
            (None, None) => scorer.for_query(&[], &[]),
        }
    }

    /// The published score of a query and a point, straight from the similarities.
    fn published(&self, method: &Method, query: usize, point: usize) -> f64 {
        let parameter = |name: &str| method.parameters().find(|(own, _)| *own == name).expect("it has it").1;
        let wide = |line: &[f32]| line.iter().copied().map(f64::from).collect::<Vec<f64>>();
        let s = f64::from(self.queries[query][point]);
        let to_bank: Vec<f64> = self.bank.iter().map(|line| f64::from(line[point])).collect();
        match method.name() {
            "GC" => -(to_bank.iter().filter(|&&other| other > s).count() as f64).min(parameter("k")),
            "RatioMargin" => {
                let k = parameter("k") as usize;
                let mean = |similarities: &[f64]| top_mean(k, similarities).max(1e-6);
                s / ((mean(&wide(&self.queries[query])) + mean(&to_bank)) / 2.0)
            }
            "MP2" => ln_below(s, &wide(&self.to_gallery_bank[query])) + ln_below(s, &to_bank),
            "DualSoftmax" if s <= 0.0 => f64::from(f32::MIN),
            "DualSoftmax" => {
                let beta = parameter("beta");
                let top = to_bank.iter().copied().fold(s, f64::max);
                let sum: f64 = to_bank.iter().chain([&s]).map(|x| (beta * (x - top)).exp()).sum();
                s.ln() + beta * (s - top) - sum.ln()
            }
            other => panic!("no formula for {other}"),
        }
    }

    fn check(&self, label: &str) {
        let method = method(label);
        for (query, scores) in self.scores(&method).iter().enumerate() {
            for (point, &score) in scores.iter().enumerate() {
                let wanted = self.published(&method, query, point);
                let error = 1e-6 * wanted.abs().max(1.0);
                assert!((score - wanted).abs() <= error, "{label}, {query} {point}: {score}, {wanted}");
            }
        }
    }
}

/// `ln P(S < s)` of a normal distribution with the moments of some numbers: the density summed by
/// Simpson's rule in steps of at most 1/2000 deviation, from where it is nothing.
fn ln_below(s: f64, numbers: &[f64]) -> f64 {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
    ln_normal((s - mean) / variance.sqrt().max(1e-6))
}

fn ln_normal(z: f64) -> f64 {
    if z > 0.0 {
        return (-ln_normal(-z).exp()).ln_1p();
    }
    // The density relative to that at `z`, so that no tail is too small for a number.
    let steps = 40_000;
    let width = 20.0_f64.min(45.0 / z.abs()) / f64::from(steps);
    let relative = |place: i32| {
        let step = width * f64::from(place);
        (step * (z - step / 2.0)).exp()
    };
    let weight = |place: i32| if place == 0 || place == steps { 1.0 } else { f64::from(2 + 2 * (place % 2)) };
    let sum: f64 = (0..=steps).map(|place| weight(place) * relative(place)).sum();
    (sum * width / 3.0).ln() - z * z / 2.0 - (2.0 * std::f64::consts::PI).ln() / 2.0
}

fn table(text: &str) -> Vec<Vec<f64>> {
    let number = |text: &str| text.parse().expect("a number");
    text.split(';').map(|line| line.split_whitespace().map(number).collect()).collect()
}

fn matrix(text: &str) -> Matrix {
    table(text).into_iter().map(|line| line.into_iter().map(|x| x as f32).collect()).collect()
}

/// The examples of the golden tests: positive cosines, negative ones, logits.
fn examples() -> [Setting; 3] {
    let setting = |queries, bank, to_gallery_bank| Setting {
        queries: matrix(queries),
        bank: matrix(bank),
        to_gallery_bank: matrix(to_gallery_bank),
    };
    [
        setting(
            ".90 .80 .10; .70 .75 .60",
            ".80 .30 .20; .90 .40 .10; .70 .60 .50; .20 .50 .30",
            ".5 .2 .1 .3; .6 .1 .3 .2",
        ),
        setting(
            "-.60 .20 .20; .30 -.40 -.35; -.90 -.70 -.80",
            ".50 .10 -.20; .45 .40 -.30; .60 -.10 -.10",
            ".1 .7; .2 -.3; -.5 -.2",
        ),
        setting("31 30.5 12; 28 29 29.5", "35 20 10; 33 25 18; 30 31 22", "80 60 55; 75 66 40"),
    ]
}

fn random(seed: u64, points: usize, bank: usize, scale: f32) -> Setting {
    let mut numbers = Numbers(seed);
    let mut lines = |count: usize, width: usize| -> Matrix {
        (0..count).map(|_| (0..width).map(|_| scale * numbers.signed()).collect()).collect()
    };
    Setting { queries: lines(6, points), bank: lines(bank, points), to_gallery_bank: lines(6, 17) }
}

#[test]
fn scores_are_the_published_formulas() {
    let mut settings: Vec<Setting> = examples().into();
    settings.extend([random(1, 40, 30, 1.0), random(2, 40, 30, 100.0), random(3, 30, 1, 1.0)]);
    // Sixteenths: ties and copies everywhere.
    let mut tied = random(4, 40, 25, 1.0);
    let sixteenths = |matrix: &mut Matrix| {
        matrix.iter_mut().flatten().for_each(|x| *x = (*x * 16.0).round() / 16.0);
    };
    sixteenths(&mut tied.queries);
    sixteenths(&mut tied.bank);
    tied.bank[3] = tied.bank[7].clone();
    settings.push(tied);
    for setting in settings {
        LABELS.into_iter().for_each(|label| setting.check(label));
    }
}

#[test]
fn worked_examples_of_the_rank_and_the_ratio() {
    // Counted and divided by hand; r_q and r_g of k = 2 are those of the examples of CSLS.
    let ranks = ["0 0 -3; -2 0 0", "-3 -1 0; -3 -3 -3; -3 -3 -3", "-2 -1 -2; -3 -1 0"];
    let orders = ["0 1 2; 1 2 0", "2 1 0; 0 2 1; 1 2 0", "1 0 2; 2 1 0"];
    let own = [".85 .725", ".20 0.000001 0.000001", "30.75 29.25"];
    let of_points = [".85 .55 .40", ".55 .25 0.000001", "34 28 20"];
    for (place, example) in examples().into_iter().enumerate() {
        let found = example.scores(&method("GC(k=64)"));
        assert_eq!(found, table(ranks[place]));
        for ((scores, similarities), wanted) in found.iter().zip(&example.queries).zip(table(orders[place])) {
            let both: Vec<f64> =
                scores.iter().zip(similarities).map(|(score, &s)| score + f64::from(s) * 1e-3).collect();
            assert_eq!(order(&both).into_iter().map(|row| row as f64).collect::<Vec<_>>(), wanted);
        }
        let ratios = example.scores(&method("RatioMargin(k=2)"));
        for ((ratios, own), similarities) in ratios.iter().zip(&table(own[place])[0]).zip(&example.queries) {
            for ((ratio, &s), of_point) in ratios.iter().zip(similarities).zip(&table(of_points[place])[0]) {
                let wanted = f64::from(s) / ((own + of_point) / 2.0);
                assert!((ratio - wanted).abs() <= 2e-6 * wanted.abs(), "{ratio}, wanted {wanted}");
            }
        }
    }
}

/// `z` and `ln Φ(z)`, computed elsewhere with sixty digits.
const LN_NORMAL: [(f32, f64); 16] = [
    (-1000.0, -500007.82669481216),
    (-40.0, -804.6084420137538),
    (-25.0, -316.63940800802027),
    (-20.5, -214.0667289632638),
    (-20.0, -203.91715537109727),
    (-19.5, -194.0169657774975),
    (-10.0, -53.23128515051247),
    (-5.0, -15.064998393988725),
    (-1.0, -1.8410216450092636),
    (-0.5, -1.1759117615936185),
    (0.0, -std::f64::consts::LN_2),
    (0.5, -0.3689464152886564),
    (1.0, -0.17275377902344988),
    (3.0, -0.0013508099647481938),
    (5.0, -2.866516129637636e-07),
    (8.0, -6.220960574271786e-16),
];

#[test]
fn the_tails_of_the_normal_distribution_do_not_underflow() {
    let far = PointSide { statistic: -1e9, scale: 0.0, largest: &[] };
    let of_query = Scorer::MutualProximity.for_query(&[-1.0, 1.0], &[]);
    for (z, wanted) in LN_NORMAL {
        let found = of_query.score(z, far);
        assert!((found - wanted).abs() <= 1e-11 * wanted.abs(), "{z}: {found}, wanted {wanted}");
    }
    let tails = [-1e30_f32, -1e6, -1e3, -38.0, -20.0, -19.999, 0.0, 8.0, 37.0];
    assert!(tails.is_sorted_by(|&a, &b| of_query.score(a, far) < of_query.score(b, far)));
}

fn any_scorer() -> impl Strategy<Value = Scorer> {
    prop_oneof![
        Just(Scorer::BankRank),
        Just(Scorer::RatioMargin { k: 3 }),
        Just(Scorer::MutualProximity),
        prop::sample::select(vec![1e-6, 1.0, 20.0, 1000.0, 1e6])
            .prop_map(|beta| Scorer::DualSoftmax { beta }),
    ]
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![-1.0_f32..1.0, -100.0_f32..100.0, (-3_i8..3).prop_map(f32::from), Just(1e-30), Just(-1e30)]
}

#[test]
fn every_score_is_monotone_in_the_similarity_and_never_nan() {
    let list = || prop::collection::vec(number(), 0..12);
    let sides = (number(), prop::sample::select(vec![1.0, 0.01, 30.0, 1e6]));
    TestRunner::new(cases(4096, 131))
        .run(&(any_scorer(), list(), list(), sides, (number(), number())), |it| {
            let (scorer, near, mut largest, (statistic, scale), (a, b)) = it;
            largest.sort_by(|a, b| b.total_cmp(a));
            let of_query = scorer.for_query(&near, &[]);
            let point = PointSide { statistic: f64::from(statistic), scale, largest: &largest };
            let (low, high) = (of_query.score(a.min(b), point), of_query.score(a.max(b), point));
            prop_assert!(low <= high, "{scorer:?}: {low} of {a}, {high} of {b}");
            Ok(())
        })
        .expect("scores rise with similarities");
}

/// Without ties, at most `r` bank queries have a rank below `r` at any point.
#[test]
fn the_rank_caps_the_exposure_of_every_point() {
    for (bank, k) in [(60, 60), (60, 200), (60, 7), (1, 1)] {
        let mut setting = random(5, 50, bank, 1.0);
        setting.queries = setting.bank.clone();
        setting.to_gallery_bank = setting.bank.clone();
        let scores = setting.scores(&method(&format!("GC(k={k})")));
        for point in 0..50 {
            for r in 1..=bank.min(k) {
                let below = scores.iter().filter(|line| -line[point] < r as f64).count();
                assert_eq!(below, r, "bank {bank}, k {k}, rank {r} at point {point}");
            }
        }
    }
}

/// A list holds what [`dot`] says, so that a bank query ties with itself, however entries came.
#[test]
fn the_largest_similarities_are_those_a_search_scores() {
    const DIM: usize = 96;
    let mut numbers = Numbers(141);
    let mut rows = |count: usize| -> Matrix {
        unit(&(0..count).map(|_| (0..DIM).map(|_| numbers.signed() + 0.2).collect()).collect())
    };
    let (points, bank) = (rows(300), rows(700));
    let (all_points, all_bank) = (chunked(DIM, &points), chunked(DIM, &bank));
    for metric in [Metric::Cosine, Metric::Euclidean] {
        for k in [1, 5, 699, 700, 900] {
            let statistic = Statistic::Largest { k };
            let states = fit_one(&plain(&all_points), Bank::new(&all_bank, metric), statistic);
            for (point, state) in points.iter().zip(&states) {
                let similarity = |entry: &Vec<f32>| match metric {
                    Metric::Cosine | Metric::Dot => dot(entry, point),
                    Metric::Euclidean => {
                        dot(entry, point) - (dot(point, point) / 2.0 + dot(entry, entry) / 2.0)
                    }
                };
                let mut wanted: Vec<f32> = bank.iter().map(similarity).collect();
                wanted.sort_by(|a, b| b.total_cmp(a));
                wanted.truncate(k);
                assert_eq!(state.largest(), wanted, "{metric}, k {k}");
                assert_eq!(statistic.decode(&state.encode()).as_ref(), Ok(state));
            }
        }
    }
}
