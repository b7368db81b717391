//! Every method ranks as its published formula does: the formula in 64 bits, straight from the vectors.

use dehub_normalize::{Bank, BankKind, Method, Points, Statistic, fit_potentials, fit_states};
use dehub_vector::{Chunked, Metric};

/// Vectors in the form both sides read.
struct Vectors {
    dim: usize,
    rows: Vec<Vec<f64>>,
    stored: Chunked,
}

impl Vectors {
    /// Seeded vectors about a common mean; of length one under cosine.
    fn new(metric: Metric, count: usize, dim: usize, seed: u64) -> Vectors {
        let mut state = seed;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(state >> 40).expect("24 bits")) / f64::from(1 << 23) - 1.0
        };
        let mut stored = Chunked::new(dim);
        for _ in 0..count {
            let raw: Vec<f64> = (0..dim).map(|place| number() + if place < 3 { 0.5 } else { 0.0 }).collect();
            let length = match metric {
                Metric::Cosine => raw.iter().map(|x| x * x).sum::<f64>().sqrt(),
                Metric::Dot | Metric::Euclidean => 1.0,
            };
            #[expect(clippy::cast_possible_truncation, reason = "vectors are stored in 32 bits")]
            stored.push(&raw.iter().map(|x| (x / length) as f32).collect::<Vec<_>>());
        }
        let rows = (0..count).map(|row| stored.row(row).iter().copied().map(f64::from).collect()).collect();
        Vectors { dim, rows, stored }
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

fn similarity(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    match metric {
        Metric::Cosine | Metric::Dot => product(a, b),
        Metric::Euclidean => -squared_distance(a, b) / 2.0,
    }
}

/// The distance the scaling methods speak of.
fn distance(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    match metric {
        Metric::Cosine | Metric::Dot => 1.0 - product(a, b),
        Metric::Euclidean => squared_distance(a, b).sqrt(),
    }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The mean of the `k` bank entries nearest to a point.
fn centroid(metric: Metric, point: &[f64], bank: &Vectors, k: usize) -> Vec<f64> {
    let mut near: Vec<(f64, &Vec<f64>)> =
        bank.rows.iter().map(|entry| (similarity(metric, point, entry), entry)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    (0..bank.dim)
        .map(|place| mean(&near[..k].iter().map(|(_, entry)| entry[place]).collect::<Vec<_>>()))
        .collect()
}

/// The published score of a query and a point, larger is better, up to what is the same for every
/// point of a query.
fn published(method: &Method, metric: Metric, query: &[f64], point: &[f64], bank: &Vectors) -> f64 {
    let parameter = |name: &str| method.parameters().find(|(own, _)| *own == name).expect("it has it").1;
    let k = || parameter("k") as usize;
    let s = similarity(metric, query, point);
    let mut to_bank: Vec<f64> = bank.rows.iter().map(|entry| similarity(metric, point, entry)).collect();
    to_bank.sort_by(|a, b| b.total_cmp(a));
    let mut distances: Vec<f64> = bank.rows.iter().map(|entry| distance(metric, point, entry)).collect();
    distances.sort_by(f64::total_cmp);
    let d = distance(metric, query, point);
    let deviation = || {
        let mean = mean(&to_bank);
        (to_bank.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / to_bank.len() as f64).sqrt()
    };
    match method.name() {
        "IS" => {
            (parameter("beta") * s).exp() / to_bank.iter().map(|x| (parameter("beta") * x).exp()).sum::<f64>()
        }
        "CSLS" => 2.0 * s - mean(&to_bank[..k()]),
        "NNN" => s - parameter("alpha") * mean(&to_bank[..k()]),
        "DN" => s - parameter("lambda") * mean(&to_bank),
        "Centring" => s - mean(&to_bank),
        "LocalCentring" => {
            let affinity = product(point, &centroid(metric, point, bank, k()));
            s - affinity.abs().powf(parameter("gamma")) * affinity.signum()
        }
        "LS" => -d * d / distances[k() - 1],
        "NICDM" => -d / mean(&distances[..k()]).sqrt(),
        "ZScore" => (s - mean(&to_bank)) / deviation(),
        // The normal distribution function, by the logistic curve that orders alike.
        "MP" => 1.0 / (1.0 + (-(s - mean(&to_bank)) / deviation()).exp()),
        "DisSimLocal" => {
            squared_distance(point, &centroid(metric, point, bank, k())) - squared_distance(query, point)
        }
        other => panic!("no formula for {other}"),
    }
}

/// The score as it is served, in 64 bits.
fn served(
    method: &Method,
    metric: Metric,
    queries: &Vectors,
    points: &Vectors,
    bank: &Vectors,
) -> Vec<Vec<f64>> {
    let statistics: Vec<_> = method.statistics(metric).iter().map(|term| term.statistic).collect();
    let fit_points = Points { vectors: &points.stored, live: &|_| true, own_entry: &|_| None };
    let fit_bank = Bank::new(&bank.stored, metric);
    let states = fit_states(&fit_points, 0, fit_bank, 0, &statistics);
    let value = |term: usize, row: usize| statistics[term].value(&states[term][row], &bank.stored);
    let terms = method.terms(metric).len();
    let weights = method.weights(&vec![true; terms]);
    let score = |query: &Vec<f64>, row: usize| {
        let scale = if statistics.len() > terms { value(terms, row) } else { 1.0 };
        let bias: f64 = weights.iter().enumerate().map(|(term, weight)| weight * value(term, row)).sum();
        scale * similarity(metric, query, &points.rows[row]) - bias
    };
    queries.rows.iter().map(|query| (0..points.rows.len()).map(|row| score(query, row)).collect()).collect()
}

/// Whether two scorings order alike, but for pairs that are closer than `slack` in either.
fn assert_same_order(served: &[f64], published: &[f64], what: &str) {
    let mut order: Vec<usize> = (0..served.len()).collect();
    order.sort_by(|&a, &b| served[b].total_cmp(&served[a]));
    let spread = published.iter().copied().fold(f64::MIN, f64::max)
        - published.iter().copied().fold(f64::MAX, f64::min);
    for pair in order.windows(2) {
        let rise = published[pair[1]] - published[pair[0]];
        assert!(rise <= 1e-5 * spread, "{what}: rows {pair:?} are the other way round by {rise}");
    }
}

fn check(label: &str, metrics: &[Metric]) {
    let method: Method = label.parse().expect("a method");
    for &metric in metrics {
        for (points, bank, dim) in [(80, 60, 6), (300, 520, 9)] {
            let points = Vectors::new(metric, points, dim, 1);
            let bank = Vectors::new(metric, bank, dim, 2);
            let queries = Vectors::new(metric, 8, dim, 3);
            let served = served(&method, metric, &queries, &points, &bank);
            for (query, served) in queries.rows.iter().zip(&served) {
                let score = |point: &Vec<f64>| published(&method, metric, query, point, &bank);
                let published: Vec<f64> = points.rows.iter().map(score).collect();
                assert_same_order(served, &published, &format!("{label} under {metric}"));
            }
        }
    }
}

const ALL: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

#[test]
fn methods_that_subtract_rank_as_published() {
    for label in
        ["IS(beta=5)", "CSLS(k=10)", "NNN(alpha=0.75,k=16)", "DN(lambda=0.25)", "DN(lambda=1)", "Centring"]
    {
        check(label, &ALL);
    }
    for label in ["LocalCentring(k=8,gamma=1)", "LocalCentring(k=8,gamma=2.5)"] {
        check(label, &[Metric::Cosine, Metric::Dot]);
    }
    check("DisSimLocal(k=7)", &ALL);
}

#[test]
fn methods_that_scale_rank_as_published() {
    for label in ["LS(k=7)", "NICDM(k=7)"] {
        check(label, &[Metric::Cosine, Metric::Euclidean]);
    }
    check("ZScore", &ALL);
    check("MP", &ALL);
}

#[test]
fn a_method_without_meaning_under_a_metric_refuses_it() {
    for method in Method::all() {
        let refuses = method.refuses(Metric::Dot).is_some();
        assert_eq!(refuses, ["LS", "NICDM"].contains(&method.name()), "{method}");
        let refuses = method.refuses(Metric::Euclidean).is_some();
        assert_eq!(refuses, ["RatioMargin", "DualSoftmax"].contains(&method.name()), "{method}");
        assert_eq!(method.refuses(Metric::Cosine), None);
    }
}

#[test]
fn a_point_that_lies_on_its_neighbours_still_has_a_finite_score() {
    let mut points = Chunked::new(2);
    let mut bank = Chunked::new(2);
    (0..5).for_each(|_| bank.push(&[0.6, 0.8]));
    points.push(&[0.6, 0.8]);
    for metric in ALL {
        for method in Method::all().filter(|method| method.refuses(metric).is_none()) {
            let statistics: Vec<_> = method.statistics(metric).iter().map(|term| term.statistic).collect();
            let fit_points = Points { vectors: &points, live: &|_| true, own_entry: &|_| None };
            let states = fit_states(&fit_points, 0, Bank::new(&bank, metric), 0, &statistics);
            for (statistic, states) in statistics.iter().zip(&states) {
                let value = statistic.value(&states[0], &bank);
                assert!(value.is_finite(), "{method} {statistic} under {metric}: {value}");
            }
        }
    }
}

#[test]
fn every_method_says_which_banks_it_takes() {
    let gallery: Vec<&str> =
        Method::all().filter(|method| method.uses(BankKind::Gallery)).map(|method| method.name()).collect();
    assert_eq!(gallery, ["DualIS", "DualDIS", "Centring", "LocalCentring", "DBSN", "MP2"]);
}

/// The potentials of points by the textbook iteration on the whole matrix, in 64 bits.
fn textbook_sinkhorn(tau: f64, iterations: usize, matrix: &[Vec<f64>]) -> Vec<f64> {
    let (entries, points) = (matrix.len(), matrix[0].len());
    let ln_sum = |terms: &[f64]| {
        let top = terms.iter().copied().fold(f64::MIN, f64::max);
        top + terms.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
    };
    let (mut f, mut h) = (vec![0.0; entries], vec![0.0; points]);
    for _ in 0..iterations {
        for b in 0..entries {
            let terms: Vec<f64> = (0..points).map(|g| matrix[b][g] / tau + h[g]).collect();
            f[b] = -(entries as f64).ln() - ln_sum(&terms);
        }
        for g in 0..points {
            let terms: Vec<f64> = (0..entries).map(|b| matrix[b][g] / tau + f[b]).collect();
            h[g] = -(points as f64).ln() - ln_sum(&terms);
        }
    }
    h
}

#[test]
fn sinkhorn_potentials_are_those_of_the_textbook_iteration() {
    for (points, bank, tau, iterations) in
        [(70, 50, 0.05, 10), (300, 280, 0.02, 5), (40, 90, 1.0, 1), (5, 1, 0.1, 3)]
    {
        for beside in [0, 33] {
            assert_textbook_potentials(points, beside, bank, tau, iterations);
        }
    }
}

/// One bank, or two when there are vectors beside the points.
fn assert_textbook_potentials(points: usize, beside: usize, bank: usize, tau: f64, iterations: usize) {
    let points = Vectors::new(Metric::Cosine, points, 6, 4);
    let bank = Vectors::new(Metric::Cosine, bank, 6, 5);
    let beside = Vectors::new(Metric::Cosine, beside, 6, 8);
    let columns = || points.rows.iter().chain(&beside.rows);
    let line = |entry: &Vec<f64>| columns().map(|column| product(entry, column)).collect();
    let matrix: Vec<Vec<f64>> = bank.rows.iter().map(line).collect();
    let wanted = textbook_sinkhorn(tau, iterations, &matrix);
    let fit_points = Points { vectors: &points.stored, live: &|_| true, own_entry: &|_| None };
    let plain = Bank::new(&bank.stored, Metric::Cosine);
    let with_gallery = !beside.rows.is_empty();
    let others = with_gallery.then_some(&beside.stored);
    let potentials = fit_potentials(&fit_points, others, plain, tau, iterations, None);
    let statistic = Statistic::Sinkhorn { tau, iterations, with_gallery };
    let with = Bank { potentials: Some(&potentials), ..plain };
    let states = fit_states(&fit_points, 0, with, 0, &[statistic]).remove(0);
    let share = (columns().count() as f64).ln();
    for (row, state) in states.iter().enumerate() {
        let bias = statistic.value(state, &bank.stored);
        let wanted = -tau * (wanted[row] + share);
        assert!(
            (bias - wanted).abs() < 2e-5 * (1.0 + wanted.abs()),
            "tau {tau}, row {row}: {bias}, {wanted}"
        );
    }
}

#[test]
fn a_warm_start_from_a_balanced_fit_stays_balanced() {
    let (points, bank) = (Vectors::new(Metric::Cosine, 60, 6, 6), Vectors::new(Metric::Cosine, 80, 6, 7));
    let fit_points = Points { vectors: &points.stored, live: &|_| true, own_entry: &|_| None };
    let plain = Bank::new(&bank.stored, Metric::Cosine);
    let others = Vectors::new(Metric::Cosine, 30, 6, 9);
    for beside in [None, Some(&others.stored)] {
        let cold = fit_potentials(&fit_points, beside, plain, 0.1, 400, None);
        let warm = fit_potentials(&fit_points, beside, plain, 0.1, 1, Some(&cold));
        assert!(cold.iter().zip(&warm).all(|(cold, warm)| (cold - warm).abs() < 1e-4));
    }
}
