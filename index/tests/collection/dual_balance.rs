//! Sinkhorn balances with a gallery bank beside the points: DBSN.

use dehub_index::{FitInput, WriteError};
use dehub_vector::Metric;

use crate::dump::{Biases, biases, dump};
use crate::made::{Home, Numbers, config, fit, gallery, name, points, queries};
use crate::reference::{dot, unit};

const DIM: usize = 10;
const POINTS: usize = 40;
/// The first entries are the last points.
const OWN: usize = 8;

struct Contents {
    points: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
    references: Vec<Vec<f32>>,
}

impl Contents {
    fn new(seed: u64) -> Contents {
        let mut numbers = Numbers(seed);
        let points = numbers.vectors(POINTS, DIM);
        let references = [&points[POINTS - OWN..], &numbers.vectors(25, DIM)].concat();
        Contents { points, queries: numbers.vectors(30, DIM), references }
    }

    /// A collection with the first queries and references.
    fn home(&self, queries_taken: usize, references_taken: usize) -> Home {
        let home = Home::new(config(DIM, Metric::Cosine));
        home.upsert(&points(0, &self.points));
        home.add(&queries("queries", &self.queries[..queries_taken]));
        home.add(&gallery("gallery", (POINTS - OWN) as u64, &self.references[..references_taken]));
        home
    }

    fn whole(&self) -> Home {
        self.home(self.queries.len(), self.references.len())
    }
}

fn ln_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = terms.clone().fold(f64::MIN, f64::max);
    top + terms.map(|x| (x - top).exp()).sum::<f64>().ln()
}

/// The biases of the points by the textbook iteration in 64 bits, with other columns beside them.
fn textbook(
    tau: f64,
    iterations: usize,
    points: &[Vec<f32>],
    beside: &[Vec<f32>],
    bank: &[Vec<f32>],
) -> Vec<f64> {
    let columns: Vec<_> = points.iter().chain(beside).map(|row| unit(row)).collect();
    let entries: Vec<_> = bank.iter().map(|row| unit(row)).collect();
    let s = |b: usize, g: usize| dot(&entries[b], &columns[g]) / tau;
    let (mut f, mut h) = (vec![0.0; entries.len()], vec![0.0; columns.len()]);
    for _ in 0..iterations {
        for (b, f) in f.iter_mut().enumerate() {
            *f = -(entries.len() as f64).ln() - ln_sum((0..h.len()).map(|g| s(b, g) + h[g]));
        }
        for (g, h) in h.iter_mut().enumerate() {
            *h = -(columns.len() as f64).ln() - ln_sum((0..f.len()).map(|b| s(b, g) + f[b]));
        }
    }
    h[..points.len()].iter().map(|h| -tau * (h + (columns.len() as f64).ln())).collect()
}

fn column(biases: &Biases, label: &str) -> Vec<f64> {
    biases.columns[&(label.to_owned(), 0)].values().copied().collect()
}

#[test]
fn an_entry_that_is_a_point_counts_once_and_the_others_beside_the_points() {
    let contents = Contents::new(1);
    let home = contents.whole();
    for (label, tau, iterations) in [("DBSN(tau=0.05,n=10)", 0.05, 10), ("DBSN(tau=0.3,n=2)", 0.3, 2)] {
        home.fit(&[label]);
        let wanted =
            textbook(tau, iterations, &contents.points, &contents.references[OWN..], &contents.queries);
        for (row, (found, wanted)) in column(&biases(&home.snapshot()), label).iter().zip(&wanted).enumerate()
        {
            assert!((found - wanted).abs() < 1e-5, "{label}, row {row}: {found}, wanted {wanted}");
        }
    }
}

#[test]
fn with_copies_of_all_points_as_its_gallery_bank_it_is_sn() {
    let contents = Contents::new(2);
    let home = Home::new(config(DIM, Metric::Cosine));
    home.upsert(&points(0, &contents.points));
    home.add(&queries("queries", &contents.queries));
    home.collection().bank_from_gallery(&name("gallery")).expect("a bank");
    home.fit(&["SN(tau=0.05,n=10)", "DBSN(tau=0.05,n=10)"]);
    let found = biases(&home.snapshot());
    assert_eq!(column(&found, "SN(tau=0.05,n=10)"), column(&found, "DBSN(tau=0.05,n=10)"));
}

/// The column less its mean: potentials are fixed up to a constant, which changes no ranking.
fn centred(biases: &Biases, label: &str) -> Vec<f64> {
    let column = column(biases, label);
    let mean = column.iter().sum::<f64>() / column.len() as f64;
    column.iter().map(|bias| bias - mean).collect()
}

/// A balance that has converged does not depend on where it started.
#[test]
fn a_change_of_either_bank_balances_anew() {
    const LABEL: &str = "DBSN(tau=0.3,n=100)";
    let contents = Contents::new(3);
    let fresh = contents.whole();
    fresh.fit(&[LABEL]);
    let wanted = biases(&fresh.snapshot());
    let home = contents.home(12, 3);
    home.fit(&[LABEL]);
    let version = || home.snapshot().correction(LABEL).expect("fitted").info().version;
    let first = biases(&home.snapshot());
    home.add(&gallery("gallery", (POINTS - OWN + 3) as u64, &contents.references[3..]));
    let second = biases(&home.snapshot());
    let apart = |a: &Biases, b: &Biases| {
        let pairs = centred(a, LABEL).into_iter().zip(centred(b, LABEL));
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert!(apart(&first, &second) > 1e-3, "the gallery bank counts");
    assert_eq!(version(), 2);
    home.add(&queries("queries", &contents.queries[12..]));
    assert!(apart(&second, &biases(&home.snapshot())) > 1e-3, "the query bank counts");
    assert_eq!(version(), 3);
    let grown = apart(&biases(&home.snapshot()), &wanted);
    assert!(grown < 2e-5, "grown and fitted at once differ by {grown}");
}

#[test]
fn balances_with_other_gallery_banks_or_none_are_told_apart() {
    let contents = Contents::new(4);
    let mut home = contents.whole();
    home.add(&gallery("other", 1000, &contents.references[20..]));
    let label = "DBSN(tau=0.1,n=5)";
    let other = FitInput { name: name("other"), gallery_bank: Some(name("other")), ..fit(label) };
    home.fit(&["SN(tau=0.1,n=5)", label]);
    home.collection().fit(std::slice::from_ref(&other)).expect("a fit");
    let all = biases(&home.snapshot());
    let columns = [column(&all, "SN(tau=0.1,n=5)"), column(&all, label), column(&all, "other")];
    assert!(columns[0] != columns[1] && columns[1] != columns[2] && columns[0] != columns[2]);
    let beside = |taken: &[Vec<f32>]| textbook(0.1, 5, &contents.points, taken, &contents.queries);
    let wanted = [beside(&[]), beside(&contents.references[OWN..]), beside(&contents.references[20..])];
    for (found, wanted) in columns.iter().flatten().zip(wanted.iter().flatten()) {
        assert!((found - wanted).abs() < 1e-5, "{found}, wanted {wanted}");
    }
    for bank in ["queries", "gallery", "other"] {
        let error = home.collection().drop_bank(&name(bank)).expect_err("it is in use");
        assert!(matches!(&error, WriteError::BankInUse { .. }), "{error}");
    }
    // A change of one gallery bank moves only what depends on it.
    home.add(&gallery("other", 2000, &contents.queries[..5]));
    let later = biases(&home.snapshot());
    assert_eq!(column(&later, "SN(tau=0.1,n=5)"), columns[0]);
    assert_eq!(column(&later, label), columns[1]);
    assert_ne!(column(&later, "other"), columns[2]);
    let before = dump(&home.snapshot());
    home.reopen();
    assert_eq!(dump(&home.snapshot()), before);
    home.collection().drop_correction(&name("other")).expect("it exists");
    home.collection().drop_bank(&name("other")).expect("nobody uses it");
    assert_eq!(column(&biases(&home.snapshot()), label), columns[1]);
}

#[test]
fn a_new_point_is_served_by_the_balance_there_is() {
    let contents = Contents::new(5);
    let label = "DBSN(tau=0.1,n=5)";
    let home = contents.whole();
    home.fit(&[label]);
    let before = column(&biases(&home.snapshot()), label);
    // A copy of a point under another id has that point's bias.
    home.upsert(&points(500, &contents.points[7..8]));
    let after = column(&biases(&home.snapshot()), label);
    assert_eq!(after[..POINTS], before);
    assert!((after[POINTS] - before[7]).abs() < 1e-6);
}

#[test]
fn a_gallery_bank_is_needed_and_must_be_one() {
    let home = Contents::new(6).whole();
    let input = |bank: Option<&str>| FitInput { gallery_bank: bank.map(name), ..fit("DBSN") };
    for (bank, part) in [
        (None, "needs a gallery bank, and none was named"),
        (Some("nothing"), "no bank `nothing`"),
        (Some("queries"), "is a query bank, wanted a gallery bank"),
    ] {
        let error = home.collection().fit(&[input(bank)]).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
