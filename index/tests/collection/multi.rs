//! Points of several vectors each: MaxSim, and corrections over it, against plain loops in 64 bits.

use std::sync::Arc;

use dehub_index::{
    BankUpdate, CollectionConfig, EntryInput, EntrySelector, FitInput, HubRule, PointInput, Question,
    Snapshot, Variant, WriteError,
};
use dehub_normalize::BankKind;
use dehub_vector::{Metric, Numbers, PointId, Vector, VectorError};

use crate::made::{self, Home, config, name};

const DIM: usize = 12;

/// The vectors of a point, a query or an entry.
type Multi = Vec<Vec<f32>>;

/// `count` of 1 to `most` vectors, from a seed.
fn multis(seed: u64, count: usize, most: usize) -> Vec<Multi> {
    let mut numbers = made::Numbers(seed);
    (0..count)
        .map(|_| numbers.below(most) + 1)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|len| numbers.vectors(len, DIM))
        .collect()
}

fn given(multi: &Multi) -> Numbers {
    Numbers::multi(multi).expect("of one length")
}

fn multi_config(metric: Metric) -> CollectionConfig {
    config(DIM, metric).with_multi().expect("a metric of products")
}

fn points(first: u64, multis: &[Multi]) -> Vec<PointInput> {
    (first..).zip(multis).map(|(id, multi)| PointInput::new(id, given(multi))).collect()
}

fn bank(multis: &[Multi]) -> BankUpdate {
    let entry = |(id, multi)| EntryInput::new(Some(PointId::Number(id)), given(multi));
    let entries = (0..).zip(multis).map(entry).collect();
    BankUpdate { name: name("queries"), kind: BankKind::Query, entries, defer: false }
}

fn fit(label: &str) -> FitInput {
    FitInput { gallery_bank: None, ..made::fit(label) }
}

/// The mean over the query's vectors of the largest product, as the metric has it.
fn max_sim(metric: Metric, query: &Multi, point: &Multi) -> f64 {
    let length = |vector: &[f32]| match metric {
        Metric::Cosine => vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt(),
        Metric::Dot | Metric::Euclidean => 1.0,
    };
    let product = |a: &[f32], b: &[f32]| {
        let sum: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        sum / (length(a) * length(b))
    };
    let best = |vector: &Vec<f32>| point.iter().map(|other| product(vector, other)).fold(f64::MIN, f64::max);
    query.iter().map(best).sum::<f64>() / query.len() as f64
}

fn queries(snapshot: &Snapshot, multis: &[Multi]) -> Vec<Vector> {
    multis.iter().map(|multi| snapshot.config().vector(&given(multi)).expect("good")).collect()
}

/// Every point's score for a query, by row, as a scan over all of them tells it.
fn scores(snapshot: &Snapshot, query: &Vector, variant: &Variant<'_>) -> Vec<(u32, f32)> {
    let question = Question { vectors: std::slice::from_ref(query), limit: snapshot.len(), targets: &[] };
    let mut answers = snapshot.scan(&question, std::slice::from_ref(variant));
    let best = answers.remove(0).remove(0).best;
    best.into_iter().map(|candidate| (candidate.row, candidate.score)).collect()
}

/// A bias by its definition, from the similarities of a bank to one point.
fn bias(label: &str, mut similarities: Vec<f64>) -> f64 {
    similarities.sort_by(|a, b| b.total_cmp(a));
    let top = |k: usize| similarities[..k].iter().sum::<f64>() / k as f64;
    match label {
        "IS(beta=20)" => {
            let most = similarities[0];
            let sum: f64 = similarities.iter().map(|s| (20.0 * (s - most)).exp()).sum();
            most + sum.ln() / 20.0
        }
        "CSLS(k=10)" => top(10) / 2.0,
        "NNN(alpha=0.75,k=16)" => 0.75 * top(16),
        "DN(lambda=0.25)" => 0.25 * top(similarities.len()),
        other => panic!("no oracle for {other}"),
    }
}

const LABELS: [&str; 4] = ["IS(beta=20)", "CSLS(k=10)", "NNN(alpha=0.75,k=16)", "DN(lambda=0.25)"];

/// Raw and corrected scores against the loops. Scores are told up to a constant of the correction, which is the same
/// for all points.
fn check(snapshot: &Snapshot, metric: Metric, gallery: &[(u32, Multi)], entries: &[Multi], asked: &[Multi]) {
    for (query, multi) in queries(snapshot, asked).iter().zip(asked) {
        let raw = scores(snapshot, query, &Variant::raw());
        assert_eq!(raw.len(), gallery.len());
        assert!(raw.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)), "best first");
        let wanted = |row: u32| {
            let (_, point) = gallery.iter().find(|(own, _)| *own == row).expect("a point there is");
            max_sim(metric, multi, point)
        };
        assert!(raw.iter().all(|&(row, found)| (f64::from(found) - wanted(row)).abs() < 1e-5));
        for correction in snapshot.corrections() {
            let label = correction.info().name.to_string();
            let variant = correction.variant(&[true], 1.0);
            let found = scores(snapshot, query, &variant);
            let wanted = |row: u32| {
                let (_, point) = gallery.iter().find(|(own, _)| *own == row).expect("a point there is");
                let to_bank = entries.iter().map(|entry| max_sim(metric, entry, point)).collect();
                max_sim(metric, multi, point) - bias(&label, to_bank)
            };
            let (first, best) = found[0];
            for &(row, score) in &found {
                let difference = f64::from(best) - f64::from(score) - (wanted(first) - wanted(row));
                assert!(difference.abs() < 2e-5, "{label}: row {row} is off by {difference}");
            }
        }
    }
}

#[test]
fn searches_by_max_sim_raw_and_corrected_are_those_of_plain_loops() {
    for metric in [Metric::Cosine, Metric::Dot] {
        let home = Home::new(multi_config(metric));
        let (gallery, entries, asked) = (multis(1, 400, 9), multis(2, 90, 6), multis(3, 12, 6));
        home.collection().upsert(&points(0, &gallery)).expect("good points");
        home.collection().add_to_bank(&bank(&entries)).expect("good entries");
        home.collection().fit(&LABELS.map(fit)).expect("fitted");
        let rows: Vec<(u32, Multi)> = (0..).zip(gallery).collect();
        check(&home.snapshot(), metric, &rows, &entries, &asked);
    }
}

#[test]
fn writes_and_reopening_keep_statistics_those_of_a_fresh_fit() {
    let metric = Metric::Cosine;
    let mut home = Home::new(multi_config(metric));
    let (gallery, entries, asked) = (multis(4, 700, 5), multis(5, 80, 4), multis(6, 5, 7));
    let collection = || home.collection();
    collection().upsert(&points(0, &gallery[..300])).expect("good points");
    collection().add_to_bank(&bank(&entries[..60])).expect("good entries");
    collection().fit(&LABELS.map(fit)).expect("fitted");
    collection().upsert(&points(300, &gallery[300..])).expect("good points");
    let later = BankUpdate { entries: bank(&entries).entries.split_off(60), ..bank(&[]) };
    collection().add_to_bank(&later).expect("good entries");
    let gone: Vec<PointId> = (0..260).map(PointId::Number).collect();
    collection().delete(&gone).expect("points");
    let removed = EntrySelector::Ids((10..25).map(PointId::Number).collect());
    collection().remove_from_bank(&name("queries"), &removed).expect("entries");
    let replaced = multis(7, 1, 40).remove(0);
    collection().upsert(&points(500, std::slice::from_ref(&replaced))).expect("a good point");
    let kept = |id: &usize| !(10..25).contains(id);
    let left: Vec<Multi> = (0..80).filter(kept).map(|id| entries[id].clone()).collect();
    let mut rows: Vec<(u32, Multi)> = (0..).zip(gallery).skip(260).filter(|&(row, _)| row != 500).collect();
    rows.push((700, replaced));
    for _ in 0..2 {
        check(&home.snapshot(), metric, &rows, &left, &asked);
        let report = home.collection().verify(&mut |_| ());
        assert!(report.is_whole(), "{report:?}");
        home.reopen();
    }
    let entry = home.snapshot().bank_entries(&name("queries")).expect("readable").remove(10);
    assert_eq!(entry.id, Some(PointId::Number(25)));
    assert_eq!(entry.vector.vectors(), Some(entries[25].len()));
}

#[test]
fn a_multi_vector_of_one_is_that_vector() {
    let (home, plain) = (Home::new(multi_config(Metric::Cosine)), Home::new(config(DIM, Metric::Cosine)));
    let (gallery, entries) = (multis(8, 200, 1), multis(9, 50, 1));
    let one = |multis: &[Multi]| multis.iter().map(|multi| multi[0].clone()).collect::<Vec<_>>();
    home.collection().upsert(&points(0, &gallery)).expect("good points");
    plain.collection().upsert(&made::points(0, &one(&gallery))).expect("good points");
    home.collection().add_to_bank(&bank(&entries)).expect("good entries");
    plain.collection().add_to_bank(&made::queries("queries", &one(&entries))).expect("good entries");
    let label = ["DIS(beta=20,k=3)"];
    home.collection().fit(&label.map(fit)).expect("fitted");
    plain.collection().fit(&label.map(fit)).expect("fitted");
    let (multi, single) = (home.snapshot(), plain.snapshot());
    for vector in queries(&multi, &multis(10, 20, 1)) {
        for corrected in [false, true] {
            let found = |snapshot: &Arc<Snapshot>| {
                let correction = snapshot.correction(label[0]).expect("fitted");
                let variant = if corrected { correction.variant(&[true], 1.0) } else { Variant::raw() };
                scores(snapshot, &vector, &variant)
            };
            let (multi, single) = (found(&multi), found(&single));
            assert!(multi.iter().zip(&single).all(|(a, b)| (a.1 - b.1).abs() < 1e-6));
        }
    }
    let activated =
        |snapshot: &Snapshot| snapshot.correction(label[0]).expect("fitted").info().activated.clone();
    assert_eq!(activated(&multi), activated(&single));
}

#[test]
fn what_is_not_for_multi_vectors_is_refused_by_name() {
    assert!(config(DIM, Metric::Euclidean).with_multi().is_err());
    let home = Home::new(multi_config(Metric::Cosine));
    let collection = home.collection();
    collection.upsert(&points(0, &multis(11, 40, 3))).expect("good points");
    collection.add_to_bank(&bank(&multis(12, 30, 3))).expect("good entries");
    for label in ["SN(tau=0.05)", "GC", "MP2", "DisSimLocal(k=5)"] {
        let Ok(method) = label.parse() else { panic!("{label} is a method") };
        let refused = collection.fit(&[FitInput { method, name: name("x"), ..fit(LABELS[0]) }]);
        assert!(matches!(refused, Err(WriteError::MultiVectors { .. })), "{label}: {refused:?}");
    }
    collection.fit(&[fit(LABELS[0])]).expect("fitted");
    let rule = HubRule { correction: name(LABELS[0]), rate: 0.1 };
    let refused = collection.set_quarantine(Some(&rule)).expect_err("refused");
    assert!(matches!(refused, WriteError::MultiVectors { .. }));
    for (numbers, wanted) in [
        (Numbers::multi::<Vec<f32>>(&[]), VectorError::Count { found: 0 }),
        (Numbers::multi(&[[1.0; 3]; 4]), of(0, VectorError::Dimension { wanted: DIM, found: 3 })),
        (Numbers::multi(&[[1.0; DIM], [0.0; DIM]]), of(1, VectorError::Zero)),
    ] {
        let point = PointInput::new(900, numbers.expect("of one length"));
        let refused = collection.upsert(&[point]).expect_err("refused");
        assert!(matches!(refused, WriteError::Vector { source, .. } if source == wanted));
    }
    let single = Home::new(config(DIM, Metric::Cosine));
    let refused = single.collection().upsert(&points(0, &multis(13, 1, 3))).expect_err("refused");
    assert!(matches!(refused, WriteError::Vector { source: VectorError::List { .. }, .. }), "{refused:?}");
}

fn of(place: usize, source: VectorError) -> VectorError {
    VectorError::OfList { place, source: Box::new(source) }
}
