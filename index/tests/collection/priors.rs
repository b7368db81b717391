//! Priors: every way of searching ranks by them as by the formula, and they go where their points go.

use std::collections::BTreeMap;

use dehub_index::{
    Collection, CollectionConfig, Column, GraphConfig, PRIORS_MAX, Quantization, Question, Screen, Snapshot,
    Sought, Variant, WriteError,
};
use dehub_store::Store;
use dehub_vector::{Candidate, Metric, PointId, Vector};

use crate::damage::{META, put};
use crate::made::{
    Home, Numbers, config, config_with_graph, ids, name, point, points, queries, store_folder,
};
use crate::reference::{bits, full_sort, recall, score_error, similarity};
use crate::wordnet;

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];
const DIM: usize = 8;

/// Values of two priors for every second and every third of `count` points.
fn give(collection: &Collection, numbers: &mut Numbers, count: u64) -> [BTreeMap<u64, f32>; 2] {
    let given = [("popularity", 2_u64), ("freshness", 3)].map(|(prior, step)| {
        let values: BTreeMap<u64, f32> =
            (0..count).filter(|id| id % step == 0).map(|id| (id, 2.0 * numbers.signed())).collect();
        set(collection, prior, &values);
        values
    });
    assert_eq!(collection.snapshot().priors().len(), 2);
    given
}

fn set(collection: &Collection, prior: &str, values: &BTreeMap<u64, f32>) {
    let values: Vec<(PointId, f32)> = values.iter().map(|(&id, &value)| (id.into(), value)).collect();
    collection.set_prior(&name(prior), &values).expect("good values");
}

fn weighted(snapshot: &Snapshot) -> Vec<(&Column, f32)> {
    let column = |prior: &str| snapshot.prior(prior).expect("it is there").column();
    vec![(column("popularity"), 0.7), (column("freshness"), -0.2)]
}

/// Points with ids that are their rows, in a segment and a delta, some of them deleted.
fn setting(metric: Metric, quantization: Quantization) -> (Home, Vec<Vector>, [BTreeMap<u64, f32>; 2]) {
    let mut numbers = Numbers(31);
    let graph = GraphConfig { full_scan_threshold: 0, ef_construction: 60, m: 12, quantization };
    let home = Home::new(CollectionConfig::new(DIM, metric, graph).expect("a good configuration"));
    home.add(&queries("queries", &numbers.vectors(40, DIM)));
    home.upsert(&points(0, &numbers.vectors(700, DIM)));
    home.fit(&["IS(beta=20)", "DIS(beta=20,k=1)"]);
    home.build_graph();
    home.upsert(&points(700, &numbers.vectors(100, DIM)));
    let given = give(home.collection(), &mut numbers, 800);
    home.delete((0..800).filter(|id| id % 11 == 5));
    let asked = numbers.vectors(20, DIM).iter().map(|vector| home.query(vector)).collect();
    (home, asked, given)
}

/// What the formula gives in f64, best first.
fn oracle(
    snapshot: &Snapshot,
    query: &Vector,
    correction: Option<&str>,
    given: &[BTreeMap<u64, f32>; 2],
) -> Vec<(u32, f64)> {
    let metric = snapshot.config().metric;
    let boost = |row: u32| {
        let value =
            |values: &BTreeMap<u64, f32>| f64::from(values.get(&u64::from(row)).copied().unwrap_or(0.0));
        0.7 * value(&given[0]) - 0.2 * value(&given[1])
    };
    let column = correction.map(|label| &snapshot.correction(label).expect("fitted").columns()[0]);
    let bias = |row| column.map_or(0.0, |column: &Column| f64::from(column.at(row)));
    let score = |row| similarity(metric, query.as_slice(), snapshot.vector(row)) - bias(row) + boost(row);
    let mut all: Vec<(u32, f64)> = snapshot.rows().map(|row| (row, score(row))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

#[test]
fn scores_are_the_similarity_less_the_bias_and_priors_by_their_weights() {
    for metric in METRICS {
        let (home, asked, given) = setting(metric, Quantization::Bf16);
        let snapshot = home.snapshot();
        for correction in [None, Some("IS(beta=20)")] {
            let variant = match correction {
                None => Variant::raw(),
                Some(label) => snapshot.correction(label).expect("fitted").variant(&[true], 1.0),
            };
            let variant = variant.boosted(&weighted(&snapshot));
            let question = Question { vectors: &asked, limit: 30, targets: &[] };
            let found = snapshot.scan(&question, std::slice::from_ref(&variant));
            for (query, answer) in asked.iter().zip(&found) {
                let wanted = oracle(&snapshot, query, correction, &given);
                for (candidate, (_, score)) in answer[0].best.iter().zip(&wanted) {
                    let row = candidate.row;
                    let error =
                        score_error(metric, query.as_slice(), snapshot.vector(row), score.abs() + 4.0);
                    assert!((f64::from(candidate.score) - score).abs() <= error, "{candidate:?} {score}");
                    let parts =
                        snapshot.similarity(query, row) - variant.correction_bias(row) + variant.boost(row);
                    assert!((parts - candidate.score).abs() < 1e-5, "the parts are the whole");
                }
            }
        }
    }
}

#[test]
fn screens_codes_and_scopes_rank_by_priors_bit_for_bit_as_a_full_sort_does() {
    for metric in METRICS {
        let (home, asked, _) = setting(metric, Quantization::Int8);
        let snapshot = home.snapshot();
        let gated = snapshot.correction("DIS(beta=20,k=1)").expect("fitted");
        let priors = weighted(&snapshot);
        let variants =
            [Variant::raw().boosted(&priors), gated.variant(&[true], 0.5).boosted(&priors), Variant::raw()];
        let question = Question { vectors: &asked, limit: 12, targets: &[] };
        for screen in [Screen::Wide, Screen::Narrow, Screen::Bytes] {
            for (query, answers) in asked.iter().zip(snapshot.scan_by(&question, &variants, screen)) {
                for (variant, answer) in variants.iter().zip(answers) {
                    assert_eq!(bits(&answer.best), bits(&full_sort(&snapshot, query, variant)[..12]));
                }
            }
        }
        let scope = snapshot.scope().only((0..800).filter(|row| row % 5 == 0));
        let within = snapshot.scan_within(&scope, &question, &variants).expect("no deadline");
        let all = snapshot.len();
        let sought: Vec<Sought<'_>> =
            variants.iter().map(|variant| Sought { variant, limit: 12, candidates: all }).collect();
        assert!(snapshot.can_scan_codes());
        let by_codes = snapshot.scan_codes(&scope, &asked, &sought).expect("no deadline");
        for ((query, within), by_codes) in asked.iter().zip(within).zip(by_codes) {
            for ((variant, within), by_codes) in variants.iter().zip(within).zip(by_codes) {
                let sorted = full_sort(&snapshot, query, variant);
                let wanted: Vec<Candidate> =
                    sorted.into_iter().filter(|it| scope.contains(it.row)).take(12).collect();
                assert_eq!(bits(&within.best), bits(&wanted));
                assert_eq!(bits(&by_codes.best), bits(&wanted));
            }
        }
    }
}

#[test]
fn priors_of_weight_0_are_the_ranking_without_bit_for_bit() {
    let (home, asked, _) = setting(Metric::Cosine, Quantization::Bf16);
    let snapshot = home.snapshot();
    let none: Vec<(&Column, f32)> =
        weighted(&snapshot).into_iter().map(|(column, _)| (column, 0.0)).collect();
    assert!(Variant::raw().boosted(&none).is_raw());
    let correction = snapshot.correction("IS(beta=20)").expect("fitted").variant(&[true], 1.0);
    for query in &asked {
        let ranked = |variant: &Variant<'_>| bits(&full_sort(&snapshot, query, variant));
        assert_eq!(ranked(&correction), ranked(&correction.clone().boosted(&none)));
    }
}

#[test]
fn walks_find_what_a_prior_lifts() {
    let home = Home::new(config_with_graph(wordnet::DIM, Metric::Cosine));
    home.upsert(&points(0, &wordnet::gallery()));
    home.add(&queries("queries", &wordnet::bank()));
    home.fit(&["IS(beta=20)"]);
    home.build_graph();
    let mut numbers = Numbers(7);
    let values: BTreeMap<u64, f32> = (0..1500).map(|id| (id, numbers.signed())).collect();
    set(home.collection(), "popularity", &values);
    let snapshot = home.snapshot();
    let prior = snapshot.prior("popularity").expect("it is there").column();
    let corrected = snapshot.correction("IS(beta=20)").expect("fitted").variant(&[true], 1.0);
    for (variant, least) in [(Variant::raw(), 0.97), (corrected, 0.97)] {
        let variant = variant.boosted(&[(prior, 0.1)]);
        let (mut sum, mut moved) = (0.0, 0);
        let asked: Vec<Vector> = wordnet::queries().iter().map(|vector| home.query(vector)).collect();
        for query in &asked {
            let wanted = &full_sort(&snapshot, query, &variant)[..10];
            let found = snapshot.walk(query, &variant, 10, 128).expect("there is a graph");
            sum += recall(&found, wanted);
            moved += usize::from(bits(wanted) != bits(&full_sort(&snapshot, query, &Variant::raw())[..10]));
        }
        let mean = sum / asked.len() as f64;
        assert!(mean >= least, "recall {mean}");
        assert!(moved > asked.len() / 2, "the prior changes answers: {moved}");
    }
}

#[test]
fn a_replaced_point_keeps_its_values_and_a_deleted_one_loses_them() {
    let mut home = Home::new(config(2, Metric::Dot));
    home.upsert(&[point(1, &[1.0, 0.0]), point(2, &[0.0, 1.0]), point(3, &[1.0, 1.0])]);
    set(home.collection(), "p", &[(1, 0.5), (2, -2.0)].into());
    let seen = |home: &Home| -> Vec<Option<f32>> {
        let snapshot = home.snapshot();
        let prior = snapshot.prior("p").expect("it is there");
        let row = |id: PointId| snapshot.find(&id).expect("readable");
        ids(1..=4).into_iter().map(|id| row(id).and_then(|row| prior.value(row))).collect()
    };
    assert_eq!(seen(&home), [Some(0.5), Some(-2.0), None, None]);
    home.upsert(&[point(1, &[5.0, 0.0]), point(4, &[2.0, 0.0])]);
    assert_eq!(seen(&home), [Some(0.5), Some(-2.0), None, None]);
    home.delete([2]);
    home.upsert(&[point(2, &[0.0, 7.0])]);
    assert_eq!(seen(&home), [Some(0.5), None, None, None]);
    home.reopen();
    assert_eq!(seen(&home), [Some(0.5), None, None, None]);
    let snapshot = home.snapshot();
    let info = snapshot.prior("p").and_then(|prior| prior.info()).expect("it has a value");
    assert_eq!((info.points, info.min, info.mean, info.max), (1, 0.5, 0.5, 0.5));
    drop(snapshot);
    let receipt = home.collection().set_prior(&name("p"), &[(1.into(), 1.0), (3.into(), 3.0)]).expect("good");
    assert_eq!((receipt.added, receipt.replaced), (1, 1));
    let receipt = home.collection().unset_prior(&name("p"), &ids([1, 2, 99])).expect("it is there");
    assert_eq!(receipt.deleted, 1);
    home.reopen();
    assert_eq!(seen(&home), [None, None, Some(3.0), None]);
    home.collection().drop_prior(&name("p")).expect("it is there");
    home.reopen();
    assert_eq!(home.snapshot().priors().len(), 0);
    // Nothing of it is left to come back.
    set(home.collection(), "p", &[(4, 4.0)].into());
    home.reopen();
    assert_eq!(seen(&home), [None, None, None, Some(4.0)]);
}

#[test]
fn what_is_no_prior_is_refused_and_nothing_is_changed() {
    let home = Home::new(config(2, Metric::Dot));
    home.upsert(&[point(1, &[1.0, 0.0]), point(2, &[0.0, 1.0])]);
    let set = |values: &[(u64, f32)]| {
        let values: Vec<(PointId, f32)> = values.iter().map(|&(id, value)| (id.into(), value)).collect();
        home.collection().set_prior(&name("p"), &values).expect_err("it is wrong")
    };
    assert!(matches!(set(&[(1, 1.0), (7, 1.0)]), WriteError::UnknownPoint { place: 1, .. }));
    assert!(matches!(set(&[(1, 1.0), (1, 2.0)]), WriteError::DuplicateId { place: 1, first: 0, .. }));
    for bad in [f32::NAN, f32::INFINITY, -1e16] {
        assert!(matches!(set(&[(1, 1.0), (2, bad)]), WriteError::PriorValue { place: 1, .. }));
    }
    assert_eq!(home.snapshot().priors().len(), 0);
    assert!(matches!(home.collection().drop_prior(&name("p")), Err(WriteError::UnknownPrior { .. })));
    assert!(matches!(home.collection().unset_prior(&name("p"), &[]), Err(WriteError::UnknownPrior { .. })));
    for place in 0..PRIORS_MAX {
        home.collection().set_prior(&name(&format!("p{place}")), &[]).expect("there is room");
    }
    let refusal = home.collection().set_prior(&name("more"), &[(1.into(), 1.0)]).expect_err("too many");
    assert!(matches!(refusal, WriteError::TooManyPriors), "{refusal}");
    home.collection().set_prior(&name("p3"), &[(1.into(), 1.0)]).expect("it is there");
    assert!(home.collection().verify(&mut |_| ()).is_whole());
}

#[test]
fn a_value_that_no_point_has_is_found_and_goes_with_the_next_point_of_its_id() {
    let mut home = Home::new(config(2, Metric::Dot));
    home.upsert(&[point(1, &[1.0, 0.0])]);
    set(home.collection(), "p", &[(1, 2.0)].into());
    assert!(home.collection().verify(&mut |_| ()).is_whole());
    // As a program leaves it that knows no priors, and deleted point 8.
    let key = [&b"prior/p/\0"[..], &8_u64.to_be_bytes()].concat();
    let path = home.path();
    home.reopen_after(|| {
        let store = Store::open(&store_folder(&path), Collection::families()).expect("a closed store");
        put(&store, META, &key, Some(&5.0_f32.to_le_bytes()));
    });
    let report = home.collection().verify(&mut |_| ());
    assert_eq!(report.differences(), 1, "{:?}", report.checks);
    home.upsert(&[point(8, &[0.0, 1.0])]);
    assert!(home.collection().verify(&mut |_| ()).is_whole());
    home.reopen();
    let snapshot = home.snapshot();
    let row = snapshot.find(&8.into()).expect("readable").expect("it is there");
    assert_eq!(snapshot.prior("p").expect("it is there").value(row), None);
}
