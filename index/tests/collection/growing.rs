//! Points and bank entries may come one by one, in batches or all at once, in any order: every
//! statistic and every gate is what a fit of the final contents gives.

use dehub_index::BankUpdate;
use dehub_vector::{Metric, PointId};

use crate::dump::{Biases, assert_same_biases, biases, dump};
use crate::made::{Home, Numbers, config, fit, gallery, point, points, queries};

const DIM: usize = 24;
const POINTS: usize = 100;
const QUERIES: usize = 100;
const REFERENCES: usize = 40;
/// What a fit needs at least.
const FIRST: usize = 16;

const LABELS: [&str; 18] = [
    "IS(beta=20)",
    "NNN(alpha=1.0,k=16)",
    "CSLS(k=10)",
    "DualIS(b1=20,b2=5)",
    "DIS(beta=20,k=1)",
    "DIS(beta=50,k=3)",
    "DualDIS(b1=20,b2=5,k=2)",
    "DN(lambda=0.25)",
    "Centring",
    "LocalCentring(k=1,gamma=1.0)",
    "LS(k=5)",
    "NICDM(k=5)",
    "ZScore",
    "DisSimLocal(k=4)",
    "GC(k=8)",
    "RatioMargin(k=4)",
    "MP2",
    "DualSoftmax(beta=20)",
];

/// The methods that have a meaning under a metric.
fn labels(metric: Metric) -> Vec<&'static str> {
    let serves = |label: &&str| fit(label).method.refuses(metric).is_none();
    LABELS.into_iter().filter(serves).collect()
}

/// The contents every road leads to.
struct Contents {
    metric: Metric,
    points: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
    references: Vec<Vec<f32>>,
}

impl Contents {
    /// Some points are entries of the gallery bank, some of its entries are no points, and two points
    /// are copies of others.
    fn new(metric: Metric, seed: u64) -> Contents {
        let mut numbers = Numbers(seed);
        let mut points = numbers.vectors(POINTS, DIM);
        points[70] = points[12].clone();
        points[15] = points[90].clone();
        let mut references = points[80..].to_vec();
        references.extend(numbers.vectors(REFERENCES - references.len(), DIM));
        Contents { metric, points, queries: numbers.vectors(QUERIES, DIM), references }
    }

    fn home(&self) -> Home {
        Home::new(config(DIM, self.metric))
    }

    /// A collection that is fitted from the first few of each, and the rest to come.
    fn started(&self) -> Home {
        let home = self.home();
        home.upsert(&points(0, &self.points[..FIRST]));
        home.add(&self.some_queries(0, FIRST));
        home.add(&self.some_references(0, 1));
        home.fit(&labels(self.metric));
        home
    }

    fn some_queries(&self, from: usize, to: usize) -> BankUpdate {
        queries("queries", &self.queries[from..to])
    }

    fn some_references(&self, from: usize, to: usize) -> BankUpdate {
        gallery("gallery", 80 + from as u64, &self.references[from..to])
    }

    /// The same contents fitted at once, with the points in this order: copies tie by it.
    fn at_once(&self, order: &[u64]) -> Biases {
        let home = self.home();
        let inputs: Vec<_> = order.iter().map(|&id| point(id, &self.points[id as usize])).collect();
        home.upsert(&inputs);
        home.add(&self.some_queries(0, QUERIES));
        home.add(&self.some_references(0, REFERENCES));
        home.fit(&labels(self.metric));
        biases(&home.snapshot())
    }

    /// What single precision leaves of a similarity: the coordinates are below 1.25.
    fn error(&self) -> f64 {
        match self.metric {
            Metric::Cosine => 1e-6,
            Metric::Dot | Metric::Euclidean => 1e-5,
        }
    }

    #[track_caller]
    fn check(&self, home: &Home, what: &str) {
        let snapshot = home.snapshot();
        let kept = snapshot.points(&snapshot.rows().collect::<Vec<_>>()).expect("every row has a record");
        let number = |id: &PointId| match id {
            PointId::Number(number) => *number,
            PointId::Text(text) => panic!("no id is a text, found {text}"),
        };
        let order: Vec<u64> = kept.iter().map(|point| number(&point.id)).collect();
        assert_eq!(order.len(), POINTS);
        assert_same_biases(&biases(&snapshot), &self.at_once(&order), self.error(), what);
    }
}

fn upsert_from(home: &Home, contents: &Contents, from: usize, to: usize) {
    home.upsert(&points(from as u64, &contents.points[from..to]));
}

#[test]
fn one_by_one_points_first() {
    for (metric, seed) in [(Metric::Cosine, 1), (Metric::Dot, 2), (Metric::Euclidean, 3)] {
        let contents = Contents::new(metric, seed);
        let home = contents.started();
        (FIRST..POINTS).for_each(|at| upsert_from(&home, &contents, at, at + 1));
        (FIRST..QUERIES).for_each(|at| home.add(&contents.some_queries(at, at + 1)));
        (1..REFERENCES).for_each(|at| home.add(&contents.some_references(at, at + 1)));
        contents.check(&home, "points, queries, references, one by one");
    }
}

#[test]
fn one_by_one_in_turn_and_banks_first() {
    let contents = Contents::new(Metric::Cosine, 4);
    let home = contents.started();
    for at in FIRST..POINTS {
        home.add(&contents.some_queries(at, at + 1));
        upsert_from(&home, &contents, at, at + 1);
        if (1..REFERENCES).contains(&(at - FIRST + 1)) {
            home.add(&contents.some_references(at - FIRST + 1, at - FIRST + 2));
        }
    }
    contents.check(&home, "in turn");

    let home = contents.started();
    (FIRST..QUERIES).for_each(|at| home.add(&contents.some_queries(at, at + 1)));
    (1..REFERENCES).for_each(|at| home.add(&contents.some_references(at, at + 1)));
    (FIRST..POINTS).for_each(|at| upsert_from(&home, &contents, at, at + 1));
    contents.check(&home, "banks first");
}

#[test]
fn batches_of_any_size() {
    let contents = Contents::new(Metric::Euclidean, 5);
    for batch in [3, 17, 50] {
        let home = contents.started();
        let pieces =
            |from: usize, to: usize| (from..to).step_by(batch).map(move |at| (at, to.min(at + batch)));
        let mut references = pieces(1, REFERENCES);
        for ((from, to), (first, last)) in pieces(FIRST, POINTS).zip(pieces(FIRST, QUERIES)) {
            upsert_from(&home, &contents, from, to);
            references
                .next()
                .into_iter()
                .for_each(|(from, to)| home.add(&contents.some_references(from, to)));
            home.add(&contents.some_queries(first, last));
        }
        references.for_each(|(from, to)| home.add(&contents.some_references(from, to)));
        contents.check(&home, &format!("batches of {batch}"));
    }
}

#[test]
fn replaced_and_deleted_points_leave_no_trace() {
    for (metric, seed) in [(Metric::Cosine, 6), (Metric::Dot, 7)] {
        let contents = Contents::new(metric, seed);
        let mut numbers = Numbers(seed + 100);
        let mut home = contents.started();
        // Wrong vectors under right ids, and points that will not stay; hubs among them, so that gates change.
        let wrong: Vec<Vec<f32>> = (0..POINTS + 30)
            .map(|at| if at % 3 == 0 { vec![1.0; DIM] } else { numbers.vector(DIM) })
            .collect();
        home.upsert(&points(0, &wrong[..60]));
        home.add(&contents.some_queries(FIRST, 40));
        home.upsert(&points(60, &wrong[60..]));
        home.delete([3, 4, 5, 80, 81, 129]);
        home.add(&contents.some_references(1, 20));
        let order = numbers.order(POINTS);
        for (step, &at) in order.iter().enumerate() {
            upsert_from(&home, &contents, at, at + 1);
            if step == 30 {
                home.add(&contents.some_queries(40, 80));
                home.reopen();
            }
            if step % 10 == 5 {
                home.delete([POINTS as u64 + step as u64 % 30, 7]);
                upsert_from(&home, &contents, 7, 8);
            }
        }
        home.delete(POINTS as u64..POINTS as u64 + 40);
        home.add(&contents.some_references(20, REFERENCES));
        home.add(&contents.some_queries(80, QUERIES));
        contents.check(&home, "replaced and deleted");
        let before = dump(&home.snapshot());
        home.reopen();
        assert_eq!(dump(&home.snapshot()), before);
    }
}

/// A gate falls back to the next best point when the best one goes, and forgets it when it returns
/// elsewhere.
#[test]
fn a_gate_follows_points_that_go_and_return() {
    let home = Home::new(config(2, Metric::Dot));
    home.upsert(&points(0, &[vec![3.0, 0.0], vec![2.0, 0.0], vec![1.0, 0.0], vec![0.0, 1.0]]));
    home.add(&queries("queries", &[vec![1.0, 0.0]]));
    home.fit(&["DIS(beta=20,k=1)"]);
    let activated = || biases(&home.snapshot()).gates.into_values().next().expect("one gate");
    let is = |ids: &[u64]| activated() == crate::made::ids(ids.iter().copied()).into_iter().collect();
    assert!(is(&[0]));
    home.delete([0]);
    assert!(is(&[1]));
    home.upsert(&points(1, &[vec![0.0, 5.0]]));
    assert!(is(&[2]));
    home.upsert(&points(0, &[vec![9.0, 0.0]]));
    assert!(is(&[0]));
    home.add(&queries("queries", &[vec![0.0, 1.0]]));
    assert!(is(&[0, 1]));
    home.delete([0, 1, 2, 3]);
    assert!(is(&[]));
    home.upsert(&points(5, &[vec![-1.0, -1.0]]));
    assert!(is(&[5]));
}

#[test]
fn a_fit_says_what_it_shared_and_versions_count_up() {
    let contents = Contents::new(Metric::Cosine, 8);
    let home = contents.home();
    home.upsert(&points(0, &contents.points));
    home.add(&contents.some_queries(0, 50));
    home.add(&contents.some_references(0, 10));
    let fit = |labels: &[&str]| {
        let inputs: Vec<_> = labels.iter().map(|label| fit(label)).collect();
        home.collection().fit(&inputs).expect("a fit")
    };
    let first = fit(&["IS(beta=20)", "DIS(beta=20,k=1)", "NNN(alpha=1.0,k=16)", "NNN(alpha=0.5,k=16)"]);
    assert_eq!((first[0].report.computed.len(), first[0].report.shared.len()), (2, 2));
    let second = fit(&["DualIS(b1=20,b2=5)", "IS(beta=20)"]);
    assert_eq!((second[0].report.computed.len(), second[0].report.shared.len()), (1, 2));
    assert_eq!(second.iter().map(|fitted| fitted.info.version).collect::<Vec<_>>(), [1, 2]);
    home.add(&contents.some_queries(50, 60));
    home.add(&contents.some_references(10, 11));
    let versions: Vec<(String, u32)> =
        home.snapshot().corrections().map(|it| (it.info().name.to_string(), it.info().version)).collect();
    let expected = [
        ("DIS(beta=20,k=1)", 2),
        ("DualIS(b1=20,b2=5)", 3),
        ("IS(beta=20)", 3),
        ("NNN(alpha=0.5,k=16)", 2),
        ("NNN(alpha=1.0,k=16)", 2),
    ];
    assert_eq!(versions, expected.map(|(name, version)| (name.to_owned(), version)));
    // What one correction leaves, another may still need.
    home.collection().drop_correction(&crate::made::name("IS(beta=20)")).expect("it exists");
    let fresh = contents.home();
    fresh.upsert(&points(0, &contents.points));
    fresh.add(&contents.some_queries(0, 60));
    fresh.add(&contents.some_references(0, 11));
    fresh.fit(&["DIS(beta=20,k=1)", "DualIS(b1=20,b2=5)", "NNN(alpha=0.5,k=16)", "NNN(alpha=1.0,k=16)"]);
    assert_same_biases(&biases(&home.snapshot()), &biases(&fresh.snapshot()), 1e-6, "after a drop");
}

/// A gallery bank of all points leaves each point out of its own statistic.
#[test]
fn a_bank_from_the_gallery_leaves_each_point_out_of_its_own_sum() {
    let contents = Contents::new(Metric::Cosine, 9);
    let home = contents.home();
    home.upsert(&points(0, &contents.points));
    home.add(&contents.some_queries(0, QUERIES));
    let receipt = home.collection().bank_from_gallery(&crate::made::name("gallery")).expect("a bank");
    assert_eq!(receipt.added, POINTS);
    home.fit(&["DualIS(b1=20,b2=50)"]);
    let found = biases(&home.snapshot());
    let column = &found.columns[&("DualIS(b1=20,b2=50)".to_owned(), 1)];
    let unit: Vec<Vec<f64>> = contents.points.iter().map(|row| crate::reference::unit(row)).collect();
    for (own, point) in unit.iter().enumerate() {
        let others = unit.iter().enumerate().filter(|&(at, _)| at != own);
        let similarities: Vec<f64> = others.map(|(_, other)| crate::reference::dot(point, other)).collect();
        let wanted = crate::reference::log_sum_exp(50.0, &similarities);
        let value = column[&PointId::Number(own as u64)];
        assert!((value - wanted).abs() < 1e-6, "point {own}: {value}, wanted {wanted}");
    }
}

#[test]
fn a_refit_of_sinkhorn_balances_the_points_that_came_since() {
    let mut numbers = Numbers(71);
    let (first, later) = (numbers.vectors(30, DIM), numbers.vectors(90, DIM));
    let bank = numbers.vectors(50, DIM);
    let label = "SN(tau=0.05,n=5)";
    let grown = Home::new(config(DIM, Metric::Cosine));
    grown.add(&queries("queries", &bank));
    grown.upsert(&points(0, &first));
    grown.fit(&[label]);
    grown.upsert(&points(30, &later));
    let fresh = Home::new(config(DIM, Metric::Cosine));
    fresh.add(&queries("queries", &bank));
    fresh.upsert(&points(0, &[first, later].concat()));
    fresh.fit(&[label]);
    let wanted = biases(&fresh.snapshot());
    let stale = &biases(&grown.snapshot()).columns[&(label.to_owned(), 0)];
    assert!(
        stale.iter().any(|(id, value)| (value - wanted.columns[&(label.to_owned(), 0)][id]).abs() > 1e-3)
    );
    grown.fit(&[label]);
    assert_same_biases(&biases(&grown.snapshot()), &wanted, 1e-6, "after a refit");
}
