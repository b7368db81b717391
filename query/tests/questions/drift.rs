//! Drift between a bank and queries.

use dehub_index::{BankUpdate, EntryInput, EntrySelector};
use dehub_query::{BankKind, QueryError, drift};
use dehub_vector::{Dim, Metric, PointId, Vector};

use crate::{Bed, name, numbers};

const DIM: usize = 8;

/// Vectors around a direction, `spread` apart from it.
fn cone(seed: u64, count: usize, axis: usize, spread: f32) -> Vec<f32> {
    let mut cone = numbers(seed, count * DIM);
    for vector in cone.chunks_exact_mut(DIM) {
        vector.iter_mut().for_each(|number| *number *= spread);
        vector[axis] += 1.0;
    }
    cone
}

fn vectors(numbers: &[f32]) -> Vec<Vector> {
    let dim = Dim::new(DIM).expect("valid");
    let vector = |row: &[f32]| Vector::new(row, dim, Metric::Cosine).expect("not zero");
    numbers.chunks_exact(DIM).map(vector).collect()
}

#[test]
fn queries_like_the_bank_are_told_from_queries_that_have_moved_on() {
    let bed = Bed::new(Metric::Cosine, DIM, &numbers(1, 40 * DIM), &cone(2, 500, 0, 0.4), false);
    let snapshot = bed.collection.snapshot();
    let alike = drift(&snapshot, &name("q"), &vectors(&cone(3, 400, 0, 0.4))).expect("enough of both");
    assert_eq!((alike.queries, alike.entries), (400, 500));
    assert!((alike.farther - 0.5).abs() < 0.06 && alike.z.abs() < 3.5, "{alike:?}");
    let moved = drift(&snapshot, &name("q"), &vectors(&cone(3, 400, 3, 0.4))).expect("enough of both");
    assert!(moved.farther > 0.99 && moved.z > 20.0, "{moved:?}");
    assert!(moved.nearest_of_queries < moved.nearest_of_entries);
}

#[test]
fn the_nearest_entry_of_an_entry_is_another_one() {
    let bank = cone(2, 60, 0, 0.4);
    let bed = Bed::new(Metric::Cosine, DIM, &numbers(1, 40 * DIM), &bank, false);
    let found = drift(&bed.collection.snapshot(), &name("q"), &vectors(&bank)).expect("enough of both");
    let all = vectors(&bank);
    let dot = |a: &Vector, b: &Vector| -> f64 {
        a.as_slice().iter().zip(b.as_slice()).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let nearest = |own: usize| {
        let others = (0..all.len()).filter(|&other| other != own);
        others.map(|other| dot(&all[own], &all[other])).fold(f64::NEG_INFINITY, f64::max)
    };
    let mean = (0..all.len()).map(nearest).sum::<f64>() / 60.0;
    assert!((found.nearest_of_entries - mean).abs() < 1e-6);
    assert!((found.nearest_of_queries - 1.0).abs() < 1e-6, "a query that is an entry finds it");
    assert!(found.farther < 0.01, "{found:?}");
}

#[test]
fn removed_entries_have_no_say_and_weights_change_nothing() {
    let bank = cone(2, 90, 0, 0.4);
    let (kept, gone) = bank.split_at(60 * DIM);
    let queries = vectors(&cone(3, 50, 0, 0.4));
    let plain = Bed::new(Metric::Cosine, DIM, &numbers(1, 40 * DIM), kept, false);
    let wanted = drift(&plain.collection.snapshot(), &name("q"), &queries).expect("enough of both");
    let bed = Bed::new(Metric::Cosine, DIM, &numbers(1, 40 * DIM), kept, false);
    let entry = |(id, vector): (u64, &[f32])| EntryInput {
        weight: 5.0,
        ..EntryInput::new(Some(PointId::Number(id)), vector.to_vec())
    };
    let entries = (0..).zip(gone.chunks_exact(DIM)).map(entry).collect();
    let update = BankUpdate { name: name("q"), kind: BankKind::Query, entries, defer: false };
    bed.collection.add_to_bank(&update).expect("good entries");
    let with = drift(&bed.collection.snapshot(), &name("q"), &queries).expect("enough of both");
    assert_eq!(with.entries, 90);
    let ids = (0..30).map(PointId::Number).collect();
    bed.collection.remove_from_bank(&name("q"), &EntrySelector::Ids(ids)).expect("they are there");
    bed.collection.scale_bank(&name("q"), 0.5, 0.0).expect("a decay");
    let found = drift(&bed.collection.snapshot(), &name("q"), &queries).expect("enough of both");
    assert_eq!(found, wanted);
}

#[test]
fn too_few_of_either_are_refused() {
    let bed = Bed::new(Metric::Cosine, DIM, &numbers(1, 40 * DIM), &cone(2, 60, 0, 0.4), false);
    let snapshot = bed.collection.snapshot();
    let few = drift(&snapshot, &name("q"), &vectors(&numbers(3, 29 * DIM)));
    assert!(matches!(few, Err(QueryError::TooFewToCompare { found: 29, .. })));
    let none = drift(&snapshot, &name("other"), &vectors(&numbers(3, 30 * DIM)));
    let Err(QueryError::UnknownBank { bank, found }) = none else { panic!("{none:?}") };
    assert_eq!((bank.as_str(), found.as_str()), ("other", "g, q"));
}
