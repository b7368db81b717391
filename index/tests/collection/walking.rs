//! The graph on the bundled words: how much of the exact answer a walk finds.

use dehub_index::{GraphBuild, Question, Snapshot, Variant};
use dehub_vector::{Candidate, Metric, Vector};

use crate::made::{Home, Numbers, config_with_graph, points, queries};
use crate::reference::{full_sort, recall};
use crate::wordnet;

const LABELS: [&str; 4] = ["IS(beta=20)", "IS(beta=50)", "NNN(alpha=1.0,k=16)", "CSLS(k=10)"];
const EFFORTS: [usize; 4] = [16, 32, 64, 128];
const LIMIT: usize = 10;

/// The words with a graph over all of them and their corrections.
fn words() -> Home {
    let home = Home::new(config_with_graph(wordnet::DIM, Metric::Cosine));
    home.upsert(&points(0, &wordnet::gallery()));
    home.add(&queries("queries", &wordnet::bank()));
    home.fit(&LABELS);
    assert_eq!(home.collection().build_graph_if_due().expect("a graph"), GraphBuild::Built { nodes: 1500 });
    home
}

fn asked(home: &Home) -> Vec<Vector> {
    wordnet::queries().iter().map(|vector| home.query(vector)).collect()
}

fn exact(snapshot: &Snapshot, asked: &[Vector], variant: &Variant<'_>) -> Vec<Vec<Candidate>> {
    let question = Question { vectors: asked, limit: LIMIT, targets: &[] };
    let answers = snapshot.scan(&question, std::slice::from_ref(variant));
    answers.into_iter().map(|mut variants| variants.remove(0).best).collect()
}

/// The mean share of the exact best that walks with this effort find.
fn mean_recall(snapshot: &Snapshot, asked: &[Vector], variant: &Variant<'_>, effort: usize) -> f64 {
    let wanted = exact(snapshot, asked, variant);
    let share = |(query, wanted): (&Vector, &Vec<Candidate>)| {
        let found = snapshot.walk(query, variant, LIMIT, effort).expect("there is a graph");
        assert_eq!(found.len(), LIMIT.min(snapshot.len()));
        assert!(found.is_sorted_by(|a, b| a > b));
        for candidate in &found {
            let score = variant.score(snapshot.similarity(query, candidate.row), candidate.row);
            assert_eq!(candidate.score.to_bits(), score.to_bits(), "a walk scores as a scan does");
            assert!(snapshot.is_live(candidate.row));
        }
        recall(&found, wanted)
    };
    asked.iter().zip(&wanted).map(share).sum::<f64>() / asked.len() as f64
}

#[test]
fn a_walk_finds_the_corrected_best_of_the_bundled_words() {
    let home = words();
    let (snapshot, asked) = (home.snapshot(), asked(&home));
    let corrected =
        LABELS.map(|label| (label, snapshot.correction(label).expect("fitted").variant(&[true], 1.0)));
    for (label, variant) in std::iter::once(("raw", Variant::raw())).chain(corrected) {
        let found = EFFORTS.map(|effort| mean_recall(&snapshot, &asked, &variant, effort));
        println!("{label:20} {found:.4?} at efforts {EFFORTS:?}");
        assert!(found.iter().any(|&share| share >= 0.98), "{label}: {found:?}");
        assert!(found.is_sorted(), "{label}: more effort finds no less: {found:?}");
    }
}

#[test]
fn every_point_finds_itself_first_even_after_churn() {
    let mut home = words();
    let finds_itself = |home: &Home| {
        let snapshot = home.snapshot();
        for row in snapshot.rows() {
            let found = snapshot.walk(&snapshot.query_of(row), &Variant::raw(), 1, 64).expect("a graph");
            assert_eq!(found[0].row, row);
        }
    };
    finds_itself(&home);
    // Half of the points go, a fifth of the rest moves, some come, and the graph stays.
    home.delete((0..1500).filter(|id| id % 2 == 0));
    let words = wordnet::gallery();
    let moved: Vec<Vec<f32>> = (0..150).map(|at| words[at * 10].clone()).collect();
    home.upsert(&points(2000, &moved));
    home.upsert(&points(1, &words[2..3]));
    finds_itself(&home);
    home.reopen();
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(1500), "the graph is still in use");
    finds_itself(&home);
}

#[test]
fn points_added_later_are_found_and_deleted_ones_never() {
    let home = words();
    let asked = asked(&home);
    // The queries themselves become points: each is then its own best answer.
    home.upsert(&points(5000, &wordnet::queries()[..200]));
    home.delete((0..1500).filter(|id| id % 3 == 0).chain([5007]));
    let snapshot = home.snapshot();
    assert_eq!(snapshot.gallery().delta, 199);
    for (place, query) in asked[..200].iter().enumerate() {
        let found = snapshot.walk(query, &Variant::raw(), LIMIT, 64).expect("a graph");
        let row = 1500 + place as u32;
        assert_eq!(found[0].row == row, place != 7, "query {place}");
        assert!(found.iter().all(|candidate| snapshot.is_live(candidate.row)));
    }
    for label in LABELS {
        let variant = snapshot.correction(label).expect("fitted").variant(&[true], 1.0);
        let found = mean_recall(&snapshot, &asked, &variant, 128);
        assert!(found >= 0.98, "{label}: {found}");
    }
}

#[test]
fn a_walk_with_an_effort_below_the_limit_still_fills_it() {
    let home = words();
    let (snapshot, asked) = (home.snapshot(), asked(&home));
    for query in &asked[..50] {
        let found = snapshot.walk(query, &Variant::raw(), 100, 1).expect("a graph");
        assert_eq!(found.len(), 100);
        let all = snapshot.walk(query, &Variant::raw(), 5000, 1).expect("a graph");
        assert_eq!(
            all,
            full_sort(&snapshot, query, &Variant::raw()),
            "a beam as wide as the gallery misses nothing"
        );
        assert!(snapshot.walk(query, &Variant::raw(), 0, 16).expect("a graph").is_empty());
    }
}

/// A copied hub: 1,062 of 2,000 points are one vector.
#[test]
fn many_copies_of_one_vector_do_not_lower_the_recall_of_others() {
    let words = wordnet::gallery();
    for copied in [950, 3] {
        let distinct: Vec<Vec<f32>> =
            words[..938].iter().filter(|&it| *it != words[copied]).cloned().collect();
        let make = |copies: usize| {
            let home = Home::new(config_with_graph(wordnet::DIM, Metric::Cosine));
            home.upsert(&points(0, &distinct));
            home.upsert(&points(10_000, &vec![words[copied].clone(); copies]));
            home.add(&queries("queries", &wordnet::bank()));
            home.fit(&LABELS);
            home.build_graph();
            assert_eq!(home.snapshot().gallery().graph_nodes, Some(distinct.len() + 1));
            home
        };
        let (one, many) = (make(1), make(1062));
        let asked = asked(&one);
        for label in LABELS {
            let measure = |home: &Home| {
                let snapshot = home.snapshot();
                let correction = snapshot.correction(label).expect("fitted");
                [32, 128]
                    .map(|effort| mean_recall(&snapshot, &asked, &correction.variant(&[true], 1.0), effort))
            };
            let (one, many) = (measure(&one), measure(&many));
            println!("copies of {copied}, {label:20} one {one:.4?}, many {many:.4?}");
            assert!(many[0] >= one[0] - 0.002 && many[1] >= one[1] - 0.002, "{label}: {many:?} of {one:?}");
        }
    }
}

/// The mean recall at effort 128, raw and by each correction, of words stretched by factors from
/// `e^−spread` to `e^spread`.
fn recall_of_stretched(metric: Metric, spread: f32) -> [f64; LABELS.len() + 1] {
    let mut numbers = Numbers(31);
    let mut stretched = |vector: Vec<f32>| -> Vec<f32> {
        let factor = (spread * numbers.signed()).exp();
        vector.into_iter().map(|x| x * factor).collect()
    };
    let home = Home::new(config_with_graph(wordnet::DIM, metric));
    home.upsert(&points(0, &wordnet::gallery().into_iter().map(&mut stretched).collect::<Vec<_>>()));
    home.add(&queries("queries", &wordnet::bank().into_iter().map(&mut stretched).collect::<Vec<_>>()));
    home.fit(&LABELS);
    home.build_graph();
    let (snapshot, asked) = (home.snapshot(), asked(&home));
    let mut found = [mean_recall(&snapshot, &asked, &Variant::raw(), 128); LABELS.len() + 1];
    for (found, label) in found[1..].iter_mut().zip(LABELS) {
        let variant = snapshot.correction(label).expect("fitted").variant(&[true], 1.0);
        *found = mean_recall(&snapshot, &asked, &variant, 128);
    }
    found
}

#[test]
fn vectors_of_any_length_have_a_graph_under_dot() {
    for spread in [0.7, 2.0] {
        let found = recall_of_stretched(Metric::Dot, spread);
        println!("dot, spread {spread}: raw, {LABELS:?} {found:.4?}");
        assert!(found.iter().all(|&share| share >= 0.95), "{found:?}");
    }
}

/// Corrections that outweigh the geometry lead away from where its neighbours are: only the raw
/// ranking is promised here.
#[test]
fn vectors_of_any_length_have_a_graph_under_euclidean() {
    let found = recall_of_stretched(Metric::Euclidean, 0.7);
    println!("euclidean: raw, {LABELS:?} {found:.4?}");
    assert!(found[0] >= 0.95, "{found:?}");
}

#[test]
fn vectors_of_one_direction_and_of_no_length_are_found_under_dot() {
    let home = Home::new(config_with_graph(wordnet::DIM, Metric::Dot));
    let words = wordnet::gallery();
    let longer =
        |step: u16| words[950].iter().map(|x| x * (0.5 + f32::from(step) / 100.0)).collect::<Vec<f32>>();
    home.upsert(&points(0, &words[..938]));
    home.upsert(&points(5000, &(0..100).map(longer).collect::<Vec<_>>()));
    home.upsert(&[crate::made::point(9999, &[0.0; wordnet::DIM])]);
    home.add(&queries("queries", &wordnet::bank()));
    home.fit(&LABELS);
    home.build_graph();
    let (snapshot, asked) = (home.snapshot(), asked(&home));
    let raw = mean_recall(&snapshot, &asked, &Variant::raw(), 128);
    assert!(raw >= 0.95, "{raw}");
    for label in LABELS {
        let variant = snapshot.correction(label).expect("fitted").variant(&[true], 1.0);
        let found = mean_recall(&snapshot, &asked, &variant, 128);
        assert!(found >= 0.95, "{label}: {found}");
    }
}

#[test]
fn a_graph_is_built_when_it_is_due() {
    let home = Home::new(config_with_graph(8, Metric::Cosine));
    let build = || home.collection().build_graph_if_due().expect("a graph");
    assert_eq!(build(), GraphBuild::NotDue, "nothing to build over");
    let mut numbers = Numbers(32);
    home.upsert(&points(0, &numbers.vectors(1, 8)));
    assert!(home.collection().is_graph_due());
    assert_eq!(build(), GraphBuild::Built { nodes: 1 });
    assert_eq!(build(), GraphBuild::NotDue);
    home.upsert(&points(1, &numbers.vectors(1024, 8)));
    assert_eq!(build(), GraphBuild::NotDue, "as few as these are scanned in no time");
    home.upsert(&points(2000, &numbers.vectors(1, 8)));
    assert_eq!(build(), GraphBuild::Built { nodes: 1026 });
    home.delete(0..1000);
    home.delete(1000..3000);
    let query = home.query(&[1.0; 8]);
    assert_eq!(home.snapshot().walk(&query, &Variant::raw(), 5, 50), Some(vec![]));
    assert_eq!(build(), GraphBuild::Built { nodes: 0 }, "a segment of deleted points is dropped");
    assert!(!home.snapshot().has_graph());
    assert_eq!(build(), GraphBuild::NotDue, "there is nothing left");
    let small = Home::new(crate::made::config(8, Metric::Cosine));
    small.upsert(&points(0, &numbers.vectors(100, 8)));
    assert!(
        !small.collection().is_graph_due() && small.snapshot().walk(&query, &Variant::raw(), 5, 50).is_none()
    );
}

#[test]
fn equal_vectors_share_a_node_and_each_is_found_under_its_own_bias() {
    let home = Home::new(config_with_graph(4, Metric::Cosine));
    let mut numbers = Numbers(33);
    let vectors = numbers.vectors(30, 4);
    home.upsert(&points(0, &vectors));
    home.upsert(&points(100, &vectors));
    // As entries of a gallery bank under their ids, copies leave different entries out.
    home.add(&queries("queries", &numbers.vectors(10, 4)));
    home.collection().bank_from_gallery(&crate::made::name("gallery")).expect("a bank");
    home.fit(&["DualIS(b1=1,b2=1000)"]);
    home.delete([3, 104]);
    home.build_graph();
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(30));
    let snapshot = home.snapshot();
    let variant = snapshot.correction("DualIS(b1=1,b2=1000)").expect("fitted").variant(&[true, true], 1.0);
    for vector in &vectors {
        let query = home.query(vector);
        let found = snapshot.walk(&query, &variant, 58, 64).expect("a graph");
        assert_eq!(found, full_sort(&snapshot, &query, &variant));
    }
}

#[test]
fn reads_and_writes_go_on_while_a_graph_is_built() {
    let mut home = Home::new(config_with_graph(wordnet::DIM, Metric::Cosine));
    let words = wordnet::gallery();
    home.upsert(&points(0, &words[..1400]));
    std::thread::scope(|scope| {
        let builder = scope.spawn(|| home.build_graph());
        for at in 0..100 {
            home.upsert(&points(1400 + at, &words[1400 + at as usize..][..1]));
            home.delete([at * 3]);
        }
        builder.join().expect("no panic");
    });
    home.reopen();
    let snapshot = home.snapshot();
    assert!(snapshot.has_graph(), "points deleted meanwhile are still walked over");
    assert_eq!(snapshot.len(), 1400);
    for row in snapshot.rows() {
        let found = snapshot.walk(&snapshot.query_of(row), &Variant::raw(), 1, 64).expect("a graph");
        assert_eq!(found[0].row, row);
    }
}
