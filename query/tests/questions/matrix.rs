//! Similarities in no collection: against published formulas in 64 bits, worked examples, and a collection.

use std::sync::atomic::{AtomicUsize, Ordering};

use dehub_eval::Qrels;
use dehub_index::FitInput;
use dehub_query::{
    BankKind, JudgedOptions, LabelledQuery, MatrixBank, MatrixBanks, MatrixError, MatrixQuestion, Method,
    NestedSizes, Pooled, Ranked, Similarities, SourceError, VectorSimilarities, bank_order, fit_matrix,
    fit_nested, lorenz, measured, rank_judged, rank_matrix, roc,
};
use dehub_vector::{Chunked, Dim, Metric, Vector};

use crate::{Bed, name, numbers};

/// Lines of equal length, which counts how many of them were read.
struct Matrix {
    lines: Vec<Vec<f32>>,
    read: AtomicUsize,
}

impl Matrix {
    fn new(lines: Vec<Vec<f32>>) -> Matrix {
        Matrix { lines, read: AtomicUsize::new(0) }
    }

    /// `"1 2; 3 4"`.
    fn parse(text: &str) -> Matrix {
        let line = |line: &str| line.split_whitespace().map(|it| it.parse().expect("a number")).collect();
        Matrix::new(text.split(';').map(line).collect())
    }

    fn random(seed: u64, rows: usize, columns: usize, scale: f32) -> Matrix {
        let all = numbers(seed, rows * columns);
        Matrix::new(
            all.chunks_exact(columns).map(|line| line.iter().map(|it| it * scale).collect()).collect(),
        )
    }
}

impl Similarities for Matrix {
    fn name(&self) -> String {
        "s.npy".to_owned()
    }

    fn rows(&self) -> usize {
        self.lines.len()
    }

    fn columns(&self) -> usize {
        self.lines[0].len()
    }

    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError> {
        self.read.fetch_add(rows.len(), Ordering::Relaxed);
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(self.columns())) {
            out.copy_from_slice(&self.lines[row as usize]);
        }
        Ok(())
    }
}

fn bank(similarities: &Matrix) -> Option<MatrixBank<'_>> {
    Some(MatrixBank { similarities, own_entries: &[] })
}

fn method(text: &str) -> Method {
    text.parse().expect("a method")
}

/// The whole order of every query, raw and by each method.
fn orders(queries: &Matrix, banks: &MatrixBanks<'_>, methods: &[Method]) -> Vec<Ranked> {
    let fitted = fit_matrix(banks, methods).expect("fitted");
    let all: Vec<Vec<u32>> = vec![(0..).take(queries.columns()).collect(); queries.rows()];
    let none = vec![Vec::new(); queries.rows()];
    let question =
        MatrixQuestion { similarities: queries, targets: &all, sample: &none, limit: queries.columns() };
    rank_matrix(&question, &fitted.iter().collect::<Vec<_>>()).expect("ranked")
}

#[test]
fn worked_examples_of_the_published_methods_come_out_in_their_orders() {
    let positive = (
        ".90 .80 .10; .70 .75 .60",
        ".80 .30 .20; .90 .40 .10; .70 .60 .50; .20 .50 .30",
        ".50 .20 .10; .60 .10 .30; .40 .30 .20",
    );
    let negative = (
        "-.60 .20 .20; .30 -.40 -.35; -.90 -.70 -.80",
        ".50 .10 -.20; .45 .40 -.30; .60 -.10 -.10",
        ".10 .70 .20; .05 .65 .60",
    );
    let logits = ("31 30.5 12; 28 29 29.5", "35 20 10; 33 25 18; 30 31 22", "80 60 55; 75 66 40");
    for ((queries, query_bank, gallery_bank), label, wanted) in [
        (positive, "IS(beta=20)", "102 120"),
        (positive, "DIS(beta=20,k=1)", "102 120"),
        (positive, "DualIS(b1=20,b2=3)", "102 120"),
        (positive, "DualDIS(b1=20,b2=3,k=1)", "102 120"),
        (positive, "CSLS(k=2)", "102 120"),
        (positive, "NNN(alpha=.75,k=2)", "102 120"),
        (negative, "IS(beta=10)", "210 201 210"),
        (negative, "DIS(beta=10,k=1)", "120 201 120"),
        (negative, "DualIS(b1=10,b2=5)", "210 021 210"),
        (negative, "DualDIS(b1=10,b2=5,k=1)", "210 201 021"),
        (negative, "CSLS(k=2)", "210 021 210"),
        (logits, "IS(beta=20)", "102 210"),
    ] {
        let (queries, query, gallery) =
            (Matrix::parse(queries), Matrix::parse(query_bank), Matrix::parse(gallery_bank));
        let banks = MatrixBanks { query: bank(&query), gallery: bank(&gallery), metric: Metric::Cosine };
        let ranked = orders(&queries, &banks, &[method(label)]).remove(1);
        let found: Vec<String> =
            ranked.lists.iter().map(|list| list.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(found.join(" "), wanted, "{label}");
    }
}

/// QB-Norm as its paper has it, in 64 bits and without a logarithm: the ratio where the best raw point is in the
/// activation set of the bank, and the similarity elsewhere.
fn published(queries: &Matrix, bank: &Matrix, beta: f64, is_dynamic: bool) -> Vec<Vec<f64>> {
    let exp = |similarity: f32| (beta * f64::from(similarity)).exp();
    let sums: Vec<f64> =
        (0..bank.columns()).map(|point| bank.lines.iter().map(|line| exp(line[point])).sum()).collect();
    let best = |line: &[f32]| (0..line.len()).rev().max_by(|&a, &b| line[a].total_cmp(&line[b]));
    let activated: Vec<Option<usize>> = bank.lines.iter().map(|line| best(line)).collect();
    let score = |line: &Vec<f32>| -> Vec<f64> {
        match !is_dynamic || activated.contains(&best(line)) {
            true => line.iter().zip(&sums).map(|(&it, sum)| exp(it) / sum).collect(),
            false => line.iter().map(|&it| f64::from(it)).collect(),
        }
    };
    queries.lines.iter().map(score).collect()
}

#[test]
fn rankings_of_a_matrix_are_those_of_the_published_ratio_in_64_bits() {
    // More than one block of rows, and a last tile of columns that is not whole.
    let (queries, query) = (Matrix::random(1, 300, 513, 1.0), Matrix::random(2, 301, 513, 1.0));
    let banks = MatrixBanks { query: bank(&query), gallery: None, metric: Metric::Cosine };
    let ranked = orders(&queries, &banks, &[method("IS(beta=20)"), method("DIS(beta=20,k=1)")]);
    assert_eq!(query.read.load(Ordering::Relaxed), 301, "one pass serves both");
    for (ranked, is_dynamic) in ranked[1..].iter().zip([false, true]) {
        let scores = published(&queries, &query, 20.0, is_dynamic);
        let (mut moved, mut open) = (0, 0);
        for ((ranks, scores), gate) in ranked.ranks.iter().zip(&scores).zip(0..) {
            for (point, &rank) in ranks.iter().enumerate() {
                let better = scores.iter().filter(|&&it| it > scores[point]).count();
                moved += usize::from(better + 1 != rank as usize);
            }
            open += usize::from(ranked.gates.get(gate).copied().unwrap_or(true));
        }
        // 32 bits may turn two that lie within their rounding; there are 153,900 ranks.
        assert!(moved < 60, "{moved} ranks differ");
        assert!(open == 300 || (is_dynamic && open > 50 && open < 250), "{open} gates are open");
    }
    let pooled = ranked[0].pooled.as_ref().expect("scores are told");
    assert_eq!((pooled.relevant.len(), pooled.others.len()), (300 * 513, 0));
}

#[test]
fn sinkhorn_potentials_of_a_matrix_are_those_of_plain_iterations_in_64_bits() {
    let (queries, query) = (Matrix::random(3, 20, 41, 1.0), Matrix::random(4, 300, 41, 1.0));
    let banks = MatrixBanks { query: bank(&query), gallery: None, metric: Metric::Cosine };
    let ranked = orders(&queries, &banks, &[method("SN(tau=.1,n=5)")]).remove(1);
    let ln_sum = |exponents: Vec<f64>| exponents.iter().map(|it| it.exp()).sum::<f64>().ln();
    let mut h = vec![0.0; 41];
    let of_pair = |entry: usize, point: usize| f64::from(query.lines[entry][point]) / 0.1;
    for _ in 0..5 {
        let f: Vec<f64> = (0..300)
            .map(|b| -300_f64.ln() - ln_sum((0..41).map(|g| of_pair(b, g) + h[g]).collect()))
            .collect();
        h = (0..41)
            .map(|g| -41_f64.ln() - ln_sum((0..300).map(|b| of_pair(b, g) + f[b]).collect()))
            .collect();
    }
    for (ranks, line) in ranked.ranks.iter().zip(&queries.lines) {
        let scores: Vec<f64> = line.iter().zip(&h).map(|(&s, h)| f64::from(s) + 0.1 * h).collect();
        for (point, &rank) in ranks.iter().enumerate() {
            assert_eq!(rank as usize, 1 + scores.iter().filter(|&&it| it > scores[point]).count());
        }
    }
}

fn vectors(seed: u64, count: usize, metric: Metric) -> Chunked {
    let dim = Dim::new(8).expect("in range");
    let mut rows = Chunked::new(8);
    for numbers in numbers(seed, count * 8).chunks_exact(8) {
        rows.push(Vector::new(numbers, dim, metric).expect("not zero").as_slice());
    }
    rows
}

/// Every method that needs no more than similarities.
const METHODS: [&str; 13] = [
    "IS(beta=5)",
    "DIS(beta=5,k=2)",
    "DualIS(b1=5,b2=3)",
    "DualDIS(b1=5,b2=3,k=1)",
    "CSLS(k=10)",
    "NNN(alpha=.75,k=16,floor=.1,shrink=.2)",
    "SN(tau=.5,n=4)",
    "GC(k=40)",
    "LS(k=5)",
    "NICDM(k=5)",
    "ZScore",
    "RatioMargin(k=4)",
    "DualSoftmax(beta=5)",
];

/// 60 queries, numbered from 0.
fn asked_of(metric: Metric) -> Vec<LabelledQuery> {
    let rows = vectors(8, 60, metric);
    let query = |row: usize| LabelledQuery {
        id: format!("{row}"),
        vector: Vector::stored(rows.row(row)),
        text: None,
    };
    (0..60).map(query).collect()
}

#[test]
fn vectors_in_no_collection_are_ranked_as_those_of_one() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let bed = Bed::random(metric, false);
        let labels = METHODS.into_iter().filter(|label| method(label).refuses(metric).is_none());
        let input = |label: &&str| FitInput {
            name: name("x"),
            method: method(label),
            query_bank: Some(name("q")),
            gallery_bank: Some(name("g")),
        };
        let queries = asked_of(metric);
        let judged: String = (0..60).map(|place| format!("{place} 0 {} 1\n", place * 4)).collect();
        let qrels = Qrels::parse("qrels", &judged).expect("well formed");
        let (points, asked, entries) =
            (vectors(1, 300, metric), vectors(8, 60, metric), vectors(2, 80, metric));
        let from = |name: &'static str, rows, is_exact| VectorSimilarities {
            name,
            rows,
            points: &points,
            metric,
            is_exact,
        };
        let (of_queries, of_bank, of_points) =
            (from("q", &asked, true), from("b", &entries, false), from("g", &points, false));
        let own: Vec<Option<u32>> = (0..300).map(Some).collect();
        let banks = MatrixBanks {
            query: Some(MatrixBank { similarities: &of_bank, own_entries: &[] }),
            gallery: Some(MatrixBank { similarities: &of_points, own_entries: &own }),
            metric,
        };
        for label in labels {
            let (snapshot, corrections) = bed.collection.rehearse(&[input(&label)]).expect("fitted");
            let options = JudgedOptions { limit: 10, sample: 7, seed: 3 };
            let served = rank_judged(&snapshot, (&queries, &qrels), &[&corrections[0]], &[], options);
            let served = served.expect("ranked");
            let fitted = fit_matrix(&banks, &[method(label)]).expect("fitted");
            let relevant = &served.relevant;
            let question = MatrixQuestion {
                similarities: &of_queries,
                targets: &relevant.points,
                sample: &relevant.sample(300, 7, 3),
                limit: 10,
            };
            let found = rank_matrix(&question, &[&fitted[0]]).expect("ranked");
            for (found, served) in found.iter().zip(&served.ranked) {
                let parts = |it: &Ranked| (it.lists.clone(), it.ranks.clone(), it.gates.clone());
                assert_eq!(parts(found), parts(served), "{metric} {label}");
                if let (Some(found), Some(served)) = (&found.pooled, &served.pooled) {
                    assert_eq!(served.others.len(), 60 * 7);
                    for (a, b) in found.others.iter().zip(&served.others) {
                        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{metric} {label}: {a} {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn nested_parts_of_a_bank_are_fitted_as_banks_of_their_own() {
    let (queries, query) = (Matrix::random(5, 30, 50, 1.0), Matrix::random(6, 600, 50, 1.0));
    let methods =
        [method("IS(beta=10)"), method("DIS(beta=10,k=2)"), method("NNN(k=300)"), method("SN(n=2)")];
    let order = bank_order(600, 9, 0);
    let sizes = [10, 257, 600];
    let banks = MatrixBanks { query: bank(&query), gallery: None, metric: Metric::Cosine };
    let nested = NestedSizes { order: &order, sizes: &sizes };
    let fitted = fit_nested(&banks, &methods, nested).expect("fitted");
    let none = vec![Vec::new(); 30];
    let question = MatrixQuestion { similarities: &queries, targets: &none, sample: &none, limit: 50 };
    for (fitted, &size) in fitted.iter().zip(&sizes) {
        let part = order[..size].iter().map(|&entry| query.lines[entry as usize].clone());
        let part = Matrix::new(part.collect());
        let banks = MatrixBanks { query: bank(&part), ..banks };
        for (fitted, &method) in fitted.iter().zip(&methods) {
            let own = fit_matrix(&banks, &[method]);
            let Some(fitted) = fitted else {
                let error = own.expect_err("too small").to_string();
                let wanted =
                    format!("NNN(alpha=0.75,k=300) needs a query bank of at least 300 entries, found {size}");
                assert_eq!(error, wanted);
                continue;
            };
            let own = own.expect("fitted");
            let ranked = rank_matrix(&question, &[fitted, &own[0]]).expect("ranked");
            assert_eq!(ranked[1].lists, ranked[2].lists, "{method} of {size}");
        }
    }
    let mut sorted = bank_order(600, 9, 1);
    assert_ne!(sorted, order, "draws differ");
    sorted.sort_unstable();
    assert_eq!(sorted, (0..600).collect::<Vec<_>>());
}

#[test]
fn what_a_matrix_cannot_give_is_refused_by_name_and_place() {
    let mut broken = Matrix::random(7, 300, 5, 1.0);
    broken.lines[270][3] = f32::NAN;
    let (small, wide) = (Matrix::random(8, 2, 5, 1.0), Matrix::random(8, 2, 6, 1.0));
    let fit = |query, gallery, label: &str| {
        let banks = MatrixBanks { query, gallery, metric: Metric::Cosine };
        fit_matrix(&banks, &[method(label)])
    };
    let refused = |fitted: Result<_, MatrixError>| fitted.map(|_| ()).expect_err("refused").to_string();
    assert_eq!(
        refused(fit(bank(&broken), None, "IS")),
        "s.npy: row 270, column 3: wanted a finite similarity, found NaN"
    );
    assert_eq!(
        refused(fit(bank(&small), None, "DualIS(b1=20,b2=3)")),
        format!(
            "DualIS(b1=20,b2=3) needs the similarities of a {} bank, and none is given",
            BankKind::Gallery
        )
    );
    assert_eq!(
        refused(fit(bank(&small), bank(&small), "DBSN(tau=.1,n=5)")),
        "DBSN(tau=0.1,n=5) balances the two banks with each other: evaluate it over a collection"
    );
    let other = fit(bank(&wide), None, "IS(beta=20)").expect("fitted");
    let none = vec![Vec::new(); 2];
    let question = MatrixQuestion { similarities: &small, targets: &none, sample: &none, limit: 1 };
    let error = rank_matrix(&question, &[&other[0]]).expect_err("of other points").to_string();
    assert_eq!(error, "s.npy: wanted 6 columns, one for each point as IS(beta=20) has, found 5");
}

#[test]
fn intervals_are_those_of_standard_errors_and_gains_are_paired() {
    let first: Vec<Option<f64>> = numbers(11, 500).iter().map(|&it| Some(f64::from(it))).collect();
    let better: Vec<Option<f64>> = first.iter().map(|it| it.map(|it| it + 0.25)).collect();
    let [Some(raw), Some(gained)] =
        measured(&[first, better], "MnR".parse().expect("a measure"), 1, 2000)[..]
    else {
        panic!("two rankings with values")
    };
    // The deviation of even numbers in [-1, 1) is 1/√3.
    let error = 1.0 / 3_f64.sqrt() / 500_f64.sqrt();
    assert!((raw.high - raw.low - 2.0 * 1.96 * error).abs() < 0.2 * error, "{raw:?}");
    assert!((gained.gain.0 - 0.25).abs() < 1e-9 && (gained.gain.1 - 0.25).abs() < 1e-9, "{gained:?}");
    let ranks = vec![[1.0, 2.0, 3.0, 50.0, 60.0].map(Some).to_vec()];
    let median = measured(&ranks, "MdR".parse().expect("a measure"), 1, 500)[0].expect("values");
    assert_eq!((median.value, median.low, median.high), (3.0, 1.0, 60.0));
}

#[test]
fn curves_of_scores_and_of_occurrences_follow_their_definitions() {
    let pooled = Pooled { relevant: vec![3.0, 2.0, 1.0], others: vec![2.0, 0.0, -1.0, -2.0] };
    let curve = roc(&pooled, 10).expect("two sides");
    assert!((curve.auc - 10.5 / 12.0).abs() < 1e-12, "{curve:?}");
    assert_eq!((curve.points[0], *curve.points.last().expect("not empty")), ((0.0, 0.0), (1.0, 1.0)));
    assert!(curve.points.contains(&(0.25, 2.0 / 3.0)), "{curve:?}");
    assert_eq!(roc(&Pooled::default(), 10), None);
    let ranked = Ranked { lists: vec![vec![0, 1], vec![0, 2]], ..Ranked::default() };
    assert_eq!(lorenz(&ranked.occurrence(4, 2), 4), [0.0, 0.0, 0.25, 0.5, 1.0]);
    assert_eq!(lorenz(&ranked.occurrence(4, 1), 2), [0.0, 0.0, 1.0]);
}
