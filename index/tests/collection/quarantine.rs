//! The quarantine: hubs are held and found by nothing, ordinary points pass, and release makes them ordinary.

use dehub_index::{FitInput, HubRule, PointInput, Question, Snapshot, Variant, WriteError};
use dehub_vector::{Metric, PointId};

use crate::dump::dump;
use crate::made::{Home, Numbers, config, config_with_graph, ids, name, point, points, queries};

const DIM: usize = 16;
const POINTS: usize = 3000;
const LABEL: &str = "NNN(alpha=1.0,k=16)";

/// Vectors about a common direction, as those of encoders are.
fn cone(numbers: &mut Numbers, count: usize) -> Vec<Vec<f32>> {
    let mut vectors = numbers.vectors(count, DIM);
    vectors.iter_mut().for_each(|vector| vector[0] += 0.7);
    vectors
}

/// The mean of 100 queries, each of length one.
fn hub(numbers: &mut Numbers) -> Vec<f32> {
    let mut sum = vec![0.0_f32; DIM];
    for vector in cone(numbers, 100) {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        sum.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x / length);
    }
    sum
}

fn rule() -> HubRule {
    HubRule { correction: name(LABEL), rate: 0.01 }
}

fn guarded(numbers: &mut Numbers, with_graph: bool) -> Home {
    let config = if with_graph { config_with_graph } else { config };
    let home = Home::new(config(DIM, Metric::Cosine));
    home.add(&queries("queries", &cone(numbers, 400)));
    home.upsert(&points(0, &cone(numbers, POINTS)));
    home.fit(&[LABEL, "DIS(beta=20,k=1)"]);
    home.collection().set_quarantine(Some(&rule())).expect("there is such a correction");
    home
}

fn held(home: &Home) -> Vec<PointId> {
    home.snapshot().quarantined().map(|held| held.point.id.clone()).collect()
}

fn named(point_id: u64, vector: &[f32]) -> PointInput {
    PointInput { text: Some("a hub".to_owned()), ..point(point_id, vector) }
}

/// The ids of the best ten, by scan and by walk.
fn best(snapshot: &Snapshot, home: &Home, vector: &[f32]) -> Vec<PointId> {
    let query = home.query(vector);
    let question = Question { vectors: std::slice::from_ref(&query), limit: 10, targets: &[] };
    let mut rows: Vec<u32> =
        snapshot.scan(&question, &[Variant::raw()])[0][0].best.iter().map(|it| it.row).collect();
    rows.extend(snapshot.walk(&query, &Variant::raw(), 10, 100).unwrap_or_default().iter().map(|it| it.row));
    snapshot.points(&rows).expect("they are there").into_iter().map(|point| point.id).collect()
}

#[test]
fn a_planted_hub_is_held_and_nothing_finds_it_until_it_is_released() {
    let mut numbers = Numbers(61);
    let mut home = guarded(&mut numbers, true);
    home.build_graph();
    let hub = hub(&mut numbers);
    let before = home.snapshot().len();
    let done = home.collection().upsert_watched(&[named(9999, &hub)], None).expect("a good point");
    assert_eq!((done.receipt.added, done.held.len()), (0, 1));
    assert!(done.held[0].p <= 0.005, "{:?}", done.held);
    for _ in 0..2 {
        let snapshot = home.snapshot();
        assert_eq!(snapshot.len(), before);
        assert_eq!(snapshot.find(&9999.into()).expect("ids are whole"), None);
        assert!(!best(&snapshot, &home, &hub).contains(&9999.into()));
        let kept: Vec<_> = snapshot.quarantined().collect();
        assert_eq!(kept.len(), 1);
        assert_eq!((kept[0].point.text.as_deref(), kept[0].p), (Some("a hub"), done.held[0].p));
        assert_eq!(snapshot.quarantine_rule(), Some(&rule()));
        drop(snapshot);
        // A graph built while it is held knows nothing of it either.
        home.build_graph();
        home.reopen();
    }
    let released = home.collection().release(&ids([9999])).expect("it is held");
    assert_eq!(released.added, 1);
    for _ in 0..2 {
        let snapshot = home.snapshot();
        assert_eq!((snapshot.len(), snapshot.quarantined().len()), (before + 1, 0));
        let found = best(&snapshot, &home, &hub);
        assert_eq!(found.iter().filter(|id| **id == 9999.into()).count(), 2, "by scan and by walk");
        drop(snapshot);
        home.reopen();
    }
}

#[test]
fn a_released_point_is_what_it_were_had_it_never_been_held() {
    let build = |is_held: bool| {
        let mut numbers = Numbers(62);
        let home = guarded(&mut numbers, false);
        let hub = named(9999, &hub(&mut numbers));
        if !is_held {
            home.collection().set_quarantine(None).expect("a write");
        }
        home.upsert(&[hub]);
        if is_held {
            assert_eq!(held(&home), ids([9999]));
            home.collection().release(&ids([9999])).expect("it is held");
        }
        dump(&home.snapshot())
    };
    let (released, never) = (build(true), build(false));
    assert_eq!(released.sequence, never.sequence);
    assert_eq!(released, never);
}

#[test]
fn ordinary_points_are_seldom_held() {
    let mut numbers = Numbers(63);
    let home = guarded(&mut numbers, false);
    let count = 500;
    for (id, vector) in (10_000..).zip(cone(&mut numbers, count)) {
        home.upsert(&[point(id, &vector)]);
    }
    let (one_by_one, allowed) = (held(&home).len(), count / 100);
    assert!(one_by_one <= allowed, "{one_by_one} of {count}");
    home.upsert(&points(20_000, &cone(&mut numbers, count)));
    assert!(held(&home).len() <= one_by_one + 1);
}

#[test]
fn a_batch_is_held_in_part_and_an_id_has_one_version() {
    let mut numbers = Numbers(64);
    let home = guarded(&mut numbers, false);
    let hub = hub(&mut numbers);
    let clean = cone(&mut numbers, 1).remove(0);
    let replaced = home.collection().upsert_watched(&[named(5, &hub), point(7000, &clean)], Some(&rule()));
    let replaced = replaced.expect("good points");
    assert_eq!((replaced.receipt.added, replaced.receipt.replaced, replaced.receipt.deleted), (1, 0, 1));
    assert_eq!(replaced.alarms, replaced.held);
    assert_eq!(held(&home), ids([5]));
    assert_eq!(home.snapshot().find(&5.into()).expect("ids are whole"), None, "the old version is gone");
    // Written anew it is tested anew: a clean one is served, a hub is held again.
    home.upsert(&[point(5, &clean)]);
    assert_eq!((held(&home), home.snapshot().len()), (vec![], POINTS + 1));
    home.upsert(&[named(5, &hub)]);
    assert_eq!((held(&home), home.snapshot().len()), (ids([5]), POINTS));
    let deleted = home.collection().delete(&ids([5, 7000, 5])).expect("a delete");
    assert_eq!((deleted.deleted, held(&home).len(), home.snapshot().len()), (2, 0, POINTS - 1));
}

#[test]
fn a_hub_is_told_of_without_a_quarantine() {
    let mut numbers = Numbers(65);
    let home = guarded(&mut numbers, false);
    home.collection().set_quarantine(None).expect("a write");
    let batch = [named(9999, &hub(&mut numbers)), point(7000, &cone(&mut numbers, 1).remove(0))];
    let done = home.collection().upsert_watched(&batch, Some(&rule())).expect("good points");
    assert_eq!((done.alarms.len(), done.held.len(), done.receipt.added), (1, 0, 2));
    assert_eq!(done.alarms[0].id, 9999.into());
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut numbers = Numbers(66);
    let home = guarded(&mut numbers, false);
    let collection = home.collection();
    let before = home.snapshot().sequence();
    let unknown = HubRule { correction: name("other"), rate: 0.01 };
    let bad_rate = HubRule { rate: f64::NAN, ..rule() };
    assert!(matches!(collection.set_quarantine(Some(&unknown)), Err(WriteError::UnknownCorrection { .. })));
    assert!(matches!(collection.set_quarantine(Some(&bad_rate)), Err(WriteError::Rate { .. })));
    let good = [point(1, &[1.0; DIM])];
    let watched = collection.upsert_watched(&good, Some(&unknown));
    assert!(matches!(watched, Err(WriteError::UnknownCorrection { .. })));
    assert!(matches!(collection.release(&ids([1])), Err(WriteError::NotHeld { place: 0, .. })));
    let refit = FitInput {
        name: name(LABEL),
        method: "GC".parse().expect("a method"),
        query_bank: Some(name("queries")),
        gallery_bank: None,
    };
    let refitted = collection.fit(&[refit]).expect_err("new points are tested by its biases");
    assert!(matches!(refitted, WriteError::NoBiases { .. }), "{refitted}");
    let dropped = collection.drop_correction(&name(LABEL)).expect_err("new points are tested by it");
    assert!(dropped.to_string().contains("quarantine"), "{dropped}");
    assert_eq!(home.snapshot().sequence(), before);
    home.fit(&["GC(k=8)"]);
    let without = HubRule { correction: name("GC(k=8)"), rate: 0.01 };
    assert!(matches!(collection.set_quarantine(Some(&without)), Err(WriteError::NoBiases { .. })));
    assert!(matches!(collection.upsert_watched(&good, Some(&without)), Err(WriteError::NoBiases { .. })));
    collection.set_quarantine(None).expect("a write");
    collection.drop_correction(&name(LABEL)).expect("nothing uses it now");
}
