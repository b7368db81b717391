//! Three worked examples, computed elsewhere in float64: positive cosines, negative ones with a tie,
//! and logits a hundred times as large.

use dehub_normalize::{Bank, BankKind, Method, Statistic, fit_activation};
use dehub_vector::Metric;

use crate::reference::{Matrix, fit_one, method, order, plain, value, with_similarities};

/// Similarities of queries, query bank and gallery bank (rows) to three points (columns).
struct Example {
    queries: Matrix,
    query_bank: Matrix,
    gallery_bank: Matrix,
}

/// `"1 2; 3 4"` as a matrix.
fn table(text: &str) -> Vec<Vec<f64>> {
    let number = |text: &str| text.parse().expect("a number");
    text.split(';').map(|line| line.split_whitespace().map(number).collect()).collect()
}

fn matrix(text: &str) -> Matrix {
    table(text).into_iter().map(|line| line.into_iter().map(|x| x as f32).collect()).collect()
}

fn positive() -> Example {
    Example {
        queries: matrix(".90 .80 .10; .70 .75 .60"),
        query_bank: matrix(".80 .30 .20; .90 .40 .10; .70 .60 .50; .20 .50 .30"),
        gallery_bank: matrix(".50 .20 .10; .60 .10 .30; .40 .30 .20"),
    }
}

fn negative() -> Example {
    Example {
        queries: matrix("-.60 .20 .20; .30 -.40 -.35; -.90 -.70 -.80"),
        query_bank: matrix(".50 .10 -.20; .45 .40 -.30; .60 -.10 -.10"),
        gallery_bank: matrix(".10 .70 .20; .05 .65 .60"),
    }
}

fn logits() -> Example {
    Example {
        queries: matrix("31 30.5 12; 28 29 29.5"),
        query_bank: matrix("35 20 10; 33 25 18; 30 31 22"),
        gallery_bank: matrix("80 60 55; 75 66 40"),
    }
}

#[track_caller]
fn assert_close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (found_one, wanted_one) in found.iter().zip(wanted) {
        // The examples print six digits and their similarities are stored in 32 bits.
        let error = 1.5e-6 * wanted_one.abs().max(1.0);
        assert!((found_one - wanted_one).abs() <= error, "found {found:?}, wanted {wanted:?}");
    }
}

impl Example {
    fn bank(&self, kind: BankKind) -> &Matrix {
        match kind {
            BankKind::Query => &self.query_bank,
            BankKind::Gallery => &self.gallery_bank,
        }
    }

    fn statistic(&self, kind: BankKind, statistic: Statistic) -> Vec<f64> {
        let (bank, points) = with_similarities(self.bank(kind));
        let bank = Bank::new(&bank, Metric::Dot);
        fit_one(&plain(&points), bank, statistic).iter().map(|state| value(statistic, state)).collect()
    }

    fn activated(&self, kind: BankKind, k: usize) -> Vec<u32> {
        let (bank, points) = with_similarities(self.bank(kind));
        let entries: Vec<u32> = (0..).take(bank.len()).collect();
        let bank = Bank::new(&bank, Metric::Dot);
        fit_activation(&plain(&points), 0, bank, &entries, k).rows()
    }

    /// For each query and term, whether its gate is open.
    fn gates(&self, method: Method) -> Vec<Vec<bool>> {
        let raw_best = |query: &Vec<f32>| {
            let scores: Vec<f64> = query.iter().map(|&s| f64::from(s)).collect();
            order(&scores)[0] as u32
        };
        let open =
            |query, bank| method.gate().is_none_or(|k| self.activated(bank, k).contains(&raw_best(query)));
        let terms = method.terms(Metric::Dot);
        self.queries.iter().map(|query| terms.iter().map(|term| open(query, term.bank)).collect()).collect()
    }

    /// The bias of each point, for one query's gates.
    fn biases(&self, method: Method, open: &[bool]) -> Vec<f64> {
        let mut biases = vec![0.0; self.queries[0].len()];
        for (term, weight) in method.terms(Metric::Dot).iter().zip(method.weights(open)) {
            let statistic = self.statistic(term.bank, term.statistic);
            biases.iter_mut().zip(statistic).for_each(|(bias, value)| *bias += weight * value);
        }
        biases
    }

    fn scores(&self, method: Method) -> Vec<Vec<f64>> {
        let score = |(query, open): (&Vec<f32>, Vec<bool>)| {
            let biases = self.biases(method, &open);
            query.iter().zip(biases).map(|(&s, bias)| f64::from(s) - bias).collect()
        };
        self.queries.iter().zip(self.gates(method)).map(score).collect()
    }

    /// The method's table and the orders `"1 0 2; 1 2 0"` that follow from it.
    #[track_caller]
    fn check(&self, method: &str, scores: &str, orders: &str) {
        let method: Method = method.parse().expect("a label");
        let found = self.scores(method);
        for (found, wanted) in found.iter().zip(table(scores)) {
            assert_close(found, &wanted);
        }
        let found: Vec<Vec<f64>> =
            found.iter().map(|line| order(line).into_iter().map(|row| row as f64).collect()).collect();
        assert_eq!(found, table(orders), "orders of {method}");
    }
}

fn lse(beta: f64) -> Statistic {
    Statistic::LogSumExp { beta }
}

fn scaled(values: Vec<f64>, factor: f64) -> Vec<f64> {
    values.into_iter().map(|value| value * factor).collect()
}

#[test]
fn statistics_of_positive_cosines() {
    let it = positive();
    let is = it.statistic(BankKind::Query, lse(20.0));
    assert_close(&is, &[0.907147, 0.607254, 0.501045]);
    assert_close(&scaled(is, 20.0), &[18.142932, 12.145078, 10.020910]);
    let gallery = it.statistic(BankKind::Gallery, lse(3.0));
    assert_close(&scaled(gallery, 3.0), &[2.628390, 1.728390, 1.728390]);
    assert_close(&it.statistic(BankKind::Query, Statistic::TopMean { k: 2 }), &[0.85, 0.55, 0.40]);
    let dual = method("DualIS(b1=20,b2=3)");
    assert_close(&it.biases(dual, &[true, true]), &[0.903101, 0.603194, 0.510839]);
}

#[test]
fn rankings_of_positive_cosines() {
    let it = positive();
    let is = "-0.007147 0.192746 -0.401045; -0.207147 0.142746 0.098955";
    it.check("IS(beta=20)", is, "1 0 2; 1 2 0");
    it.check("DIS(beta=20,k=1)", is, "1 0 2; 1 2 0");
    let dual = "-0.003101 0.196806 -0.410839; -0.203101 0.146806 0.089161";
    it.check("DualIS(b1=20,b2=3)", dual, "1 0 2; 1 2 0");
    let dynamic = "-0.003101 0.196806 -0.410839; -0.207147 0.142746 0.098955";
    it.check("DualDIS(b1=20,b2=3,k=1)", dynamic, "1 0 2; 1 2 0");
    it.check("CSLS(k=2)", "0.475 0.525 -0.10; 0.275 0.475 0.40", "1 0 2; 1 2 0");
    it.check("NNN(alpha=0.75,k=2)", "0.2625 0.3875 -0.20; 0.0625 0.3375 0.30", "1 0 2; 1 2 0");
}

#[test]
fn gates_of_positive_cosines() {
    let it = positive();
    assert_eq!(it.activated(BankKind::Query, 1), [0, 1]);
    assert_eq!(it.activated(BankKind::Gallery, 1), [0]);
    let gates = it.gates("DualDIS(k=1)".parse().expect("a label"));
    assert_eq!(gates, [[true, true], [true, false]]);
}

#[test]
fn statistics_of_negative_cosines() {
    let it = negative();
    let is = it.statistic(BankKind::Query, lse(10.0));
    assert_close(&is, &[0.646437, 0.405499, -0.059239]);
    assert_close(&scaled(is, 10.0), &[6.464369, 4.054985, -0.592394]);
    let gallery = it.statistic(BankKind::Gallery, lse(5.0));
    assert_close(&scaled(gallery, 5.0), &[1.075939, 4.075939, 3.126928]);
    assert_close(&it.statistic(BankKind::Query, Statistic::TopMean { k: 2 }), &[0.55, 0.25, -0.15]);
    let dual = method("DualIS(b1=10,b2=5)");
    assert_close(&it.biases(dual, &[true, true]), &[0.502687, 0.542062, 0.168969]);
}

#[test]
fn rankings_of_negative_cosines() {
    let it = negative();
    it.check(
        "IS(beta=10)",
        "-1.246437 -0.205499 0.259239; -0.346437 -0.805499 -0.290761; -1.546437 -1.105499 -0.740761",
        "2 1 0; 2 0 1; 2 1 0",
    );
    it.check(
        "DIS(beta=10,k=1)",
        "-0.60 0.20 0.20; -0.346437 -0.805499 -0.290761; -0.90 -0.70 -0.80",
        "1 2 0; 2 0 1; 1 2 0",
    );
    it.check(
        "DualIS(b1=10,b2=5)",
        "-1.102687 -0.342062 0.031031; -0.202687 -0.942062 -0.518969; -1.402687 -1.242062 -0.968969",
        "2 1 0; 0 2 1; 2 1 0",
    );
    it.check(
        "DualDIS(b1=10,b2=5,k=1)",
        "-0.815188 -0.615188 -0.425386; -0.346437 -0.805499 -0.290761; -1.115188 -1.515188 -1.425386",
        "2 1 0; 2 0 1; 0 2 1",
    );
    it.check(
        "NNN(alpha=0.5,k=2)",
        "-0.875 0.075 0.275; 0.025 -0.525 -0.275; -1.175 -0.825 -0.725",
        "2 1 0; 0 2 1; 2 1 0",
    );
}

#[test]
fn gates_of_negative_cosines() {
    let it = negative();
    assert_eq!(it.activated(BankKind::Query, 1), [0]);
    assert_eq!(it.activated(BankKind::Gallery, 1), [1]);
    let gates = it.gates("DualDIS(k=1)".parse().expect("a label"));
    assert_eq!(gates, [[false, true], [true, false], [false, true]]);
}

#[test]
fn a_query_no_gate_opens_for_keeps_its_raw_scores() {
    let it = Example { queries: matrix("-.5 .1 .4"), ..negative() };
    it.check("DIS(beta=10,k=1)", "-0.5 0.1 0.4", "2 1 0");
    it.check("DualDIS(b1=10,b2=5,k=1)", "-0.5 0.1 0.4", "2 1 0");
}

/// The published tables of CSLS are `2s − r_q − r_g`; ours leaves out the query's own `r_q`.
#[test]
fn csls_is_half_the_published_table_but_for_the_query_term() {
    let cases = [
        (positive(), ".85 .725", "0.10 0.20 -1.05; -0.175 0.225 0.075"),
        (negative(), ".20 -.025 -.75", "-1.95 -0.05 0.35; 0.075 -1.025 -0.525; -1.60 -0.90 -0.70"),
        (logits(), "30.75 29.25", "-2.75 2.25 -26.75; -7.25 0.75 9.75"),
    ];
    for (example, own, published) in cases {
        let scores = example.scores(method("CSLS(k=2)"));
        for ((scores, own), published) in scores.iter().zip(&table(own)[0]).zip(table(published)) {
            let back: Vec<f64> = scores.iter().map(|score| 2.0 * score - own).collect();
            assert_close(&back, &published);
            assert_eq!(order(scores), order(&published));
        }
    }
}

#[test]
fn logits_overflow_nothing() {
    let it = logits();
    let is = it.statistic(BankKind::Query, lse(20.0));
    is.iter().zip([35.0, 31.0, 22.0]).for_each(|(found, wanted)| assert!((found - wanted).abs() < 1e-12));
    let gallery = it.statistic(BankKind::Gallery, lse(20.0));
    assert_close(&scaled(gallery, 20.0), &[1600.0, 1320.0, 1100.0]);
    it.check("IS(beta=20)", "-4 -0.5 -10; -7 -2 7.5", "1 0 2; 2 1 0");
    it.check("DIS(beta=20,k=1)", "-4 -0.5 -10; 28 29 29.5", "1 0 2; 2 1 0");
    it.check("DualIS(b1=b2=20)", "-26.5 -18 -26.5; -29.5 -19.5 -9", "1 0 2; 2 1 0");
    it.check("DualDIS(b1=b2=20,k=1)", "-26.5 -18 -26.5; 28 29 29.5", "1 0 2; 2 1 0");
    it.check("NNN(alpha=0.75,k=2)", "5.5 9.5 -3; 2.5 8 14.5", "1 0 2; 2 1 0");
    assert_eq!(it.activated(BankKind::Query, 1), [0, 1]);
    assert_eq!(it.activated(BankKind::Gallery, 1), [0]);
    assert_eq!(it.gates("DIS(k=1)".parse().expect("a label")), [[true], [false]]);
}
