//! What a bank can and cannot do to a point: exposure caps, and the influence of its sources.

use dehub_index::{BankUpdate, EntryInput, Snapshot};
use dehub_normalize::BankKind;
use dehub_query::{QueryError, exposure, source_influences};
use dehub_vector::{Metric, PointId};

use crate::{Bed, name, numbers};

const DIM: usize = 12;

/// Vectors about a common direction, so that there are hubs.
fn cone(seed: u64, count: usize) -> Vec<f32> {
    let mut vectors = numbers(seed, count * DIM);
    vectors.chunks_exact_mut(DIM).for_each(|vector| vector[0] += 1.5);
    vectors
}

/// Points about nothing and a hub, the point 0; a bank of queries about a direction that is the hub's.
fn hubs() -> Bed {
    let mut points = numbers(71, 300 * DIM);
    points[..DIM].fill(0.0);
    points[0] = 1.0;
    Bed::new(Metric::Cosine, DIM, &points, &cone(72, 400), false)
}

fn similarities(snapshot: &Snapshot, row: u32) -> Vec<f64> {
    let entries = snapshot.bank_queries(&name("q"), usize::MAX);
    let dot = |entry: &[f32]| -> f64 {
        entry.iter().zip(snapshot.vector(row)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    entries.iter().map(|entry| dot(entry.as_slice())).collect()
}

#[test]
fn no_point_is_above_its_cap_over_the_bank_and_raw_hubs_are() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let bed = Bed::new(metric, DIM, &numbers(73, 300 * DIM), &cone(74, 400), false);
        bed.fit(&["IS(beta=5)", "IS(beta=20)", "IS(beta=100)", "NNN(alpha=1.0,k=5)"]);
        let snapshot = bed.collection.snapshot();
        for correction in snapshot.corrections() {
            let queries = snapshot.bank_queries(&name("q"), usize::MAX);
            let found = exposure(&snapshot, correction, Some(&name("q")), &queries).expect("measured");
            assert!(found.is_law && !found.steps.is_empty());
            for step in &found.steps {
                assert_eq!(step.corrected.violations, 0, "{metric} {}: {step:?}", found.label);
                assert!(f64::from(step.corrected.largest) <= step.cap);
            }
        }
    }
    let bed = hubs();
    bed.fit(&["IS(beta=20)", "NNN(alpha=1.0,k=5)"]);
    let snapshot = bed.collection.snapshot();
    let queries = snapshot.bank_queries(&name("q"), usize::MAX);
    for label in ["IS(beta=20)", "NNN(alpha=1.0,k=5)"] {
        let correction = snapshot.correction(label).expect("fitted");
        let found = exposure(&snapshot, correction, Some(&name("q")), &queries).expect("measured");
        let broken = &found.steps[0].raw;
        assert!(broken.violations > 0 && broken.row == 0 && broken.largest > 100, "{label}: {broken:?}");
        assert!(found.steps.iter().all(|step| step.corrected.violations == 0));
    }
}

#[test]
fn exposure_counts_what_64_bits_count() {
    let bed = hubs();
    bed.fit(&["IS(beta=20)"]);
    let snapshot = bed.collection.snapshot();
    let correction = snapshot.correction("IS(beta=20)").expect("fitted");
    let queries = snapshot.bank_queries(&name("q"), usize::MAX);
    let found = exposure(&snapshot, correction, Some(&name("q")), &queries).expect("measured");
    for step in &found.steps {
        let count = |row: u32| {
            let scores = similarities(&snapshot, row);
            let bias = scores.iter().map(|s| (20.0 * s).exp()).sum::<f64>().ln() / 20.0;
            // A hair below and above the threshold, for what rounding may move.
            let above = |edge: f64| {
                u32::try_from(scores.iter().filter(|s| *s - bias >= step.threshold + edge).count())
                    .expect("few")
            };
            (above(1e-4), above(-1e-4))
        };
        let all: Vec<(u32, u32)> = snapshot.rows().map(count).collect();
        let least = all.iter().map(|it| it.0).max().expect("points");
        let most = all.iter().map(|it| it.1).max().expect("points");
        assert!((least..=most).contains(&step.corrected.largest), "{step:?}: {least} to {most}");
    }
    // Other queries are a measurement.
    let other = exposure(&snapshot, correction, None, &queries[..50]).expect("measured");
    assert!(!other.is_law && other.queries == 50);
}

#[test]
fn a_method_without_a_cap_is_refused_with_the_reason() {
    let bed = hubs();
    let labels = ["CSLS(k=5)", "NNN(alpha=0.5,k=5)", "IS(beta=20,floor=0.1)", "DIS(beta=20,k=1)"];
    bed.fit(&labels);
    let snapshot = bed.collection.snapshot();
    let queries = snapshot.bank_queries(&name("q"), usize::MAX);
    for label in labels {
        let correction = snapshot.correction(label).expect("fitted");
        let refused = exposure(&snapshot, correction, None, &queries);
        assert!(matches!(refused, Err(QueryError::Unsuited { .. })), "{label}");
    }
}

/// A bank of honest entries, and one part in twenty of copies aimed at the point 7.
fn poisoned() -> Bed {
    let bed = Bed::new(Metric::Cosine, DIM, &cone(81, 200), &numbers(82, DIM), false);
    let target = bed.collection.snapshot().vector(7).to_vec();
    let honest = cone(83, 380);
    let aimed = numbers(84, 20 * DIM);
    let entry = |(place, vector): (usize, Vec<f32>), source: &str| EntryInput {
        id: Some(PointId::text(&format!("{source}/{place}")).expect("short")),
        vector: vector.into(),
        weight: 1.0,
    };
    let web = honest.chunks_exact(DIM).map(<[f32]>::to_vec).enumerate();
    let mill = aimed.chunks_exact(DIM).enumerate().map(|(place, noise)| {
        (place, target.iter().zip(noise).map(|(it, noise)| it + 0.005 * noise).collect())
    });
    let sources = ["web", "app"];
    let entries = web
        .map(|it| {
            let source = sources[it.0 % 2];
            entry(it, source)
        })
        .chain(mill.map(|it| entry(it, "mill")));
    let update =
        BankUpdate { name: name("p"), kind: BankKind::Query, entries: entries.collect(), defer: false };
    bed.collection.add_to_bank(&update).expect("good entries");
    for label in ["IS(beta=20)", "NNN(alpha=1.0,k=16)", "CSLS(k=10)"] {
        let input = dehub_index::FitInput {
            name: name(label),
            method: label.parse().expect("a method"),
            query_bank: Some(name("p")),
            gallery_bank: None,
        };
        bed.collection.fit(&[input]).expect("fitted");
    }
    bed
}

#[test]
fn a_source_that_is_aimed_at_one_point_stands_out() {
    let bed = poisoned();
    let snapshot = bed.collection.snapshot();
    let row = snapshot.find(&7.into()).expect("whole").expect("there");
    for correction in snapshot.corrections() {
        let found = source_influences(&snapshot, correction, "/", Some(row)).expect("told apart");
        let label = correction.info().method.to_string();
        let names: Vec<&str> = found.iter().map(|it| it.source.as_str()).collect();
        assert_eq!(names, ["app", "mill", "web"]);
        assert_eq!(found[1].entries, 20);
        let shares: f64 = found.iter().map(|it| it.share.expect("asked for")).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{label}: {shares}");
        assert!(found[1].share > Some(0.5), "{label}: {found:?}");
        assert!(found[1].mostly >= 1, "{label}: {found:?}");
        assert!(found.iter().all(|it| it.mean_change <= 0.0), "{label}: {found:?}");
    }
}

#[test]
fn leaving_a_source_out_changes_biases_as_a_bank_without_it_does() {
    let bed = poisoned();
    let snapshot = bed.collection.snapshot();
    let all = |row: u32| {
        let entries = snapshot.bank_queries(&name("p"), usize::MAX);
        entries.iter().map(|entry| f64::from(snapshot.similarity(entry, row))).collect::<Vec<f64>>()
    };
    let sum = |s: &[f64]| s.iter().map(|s| (20.0 * s).exp()).sum::<f64>().ln() / 20.0;
    let nearest = |s: &[f64], k: usize| {
        let mut s = s.to_vec();
        s.sort_unstable_by(|a, b| b.total_cmp(a));
        s[..k].iter().sum::<f64>() / k as f64
    };
    let bias = |label: &str, s: &[f64]| match label {
        "IS(beta=20)" => sum(s),
        "NNN(alpha=1.0,k=16)" => nearest(s, 16),
        _ => nearest(s, 10) / 2.0,
    };
    for correction in snapshot.corrections() {
        let label = correction.info().method.to_string();
        let found = source_influences(&snapshot, correction, "/", None).expect("told apart");
        // The last twenty entries are of the mill.
        let change = |row| bias(&label, &all(row)[..380]) - bias(&label, &all(row));
        let wanted = snapshot.rows().map(change).sum::<f64>() / snapshot.len() as f64;
        assert!((found[1].mean_change - wanted).abs() < 1e-9, "{label}: {found:?} {wanted}");
    }
}

#[test]
fn sources_need_ids_and_a_method_that_tells_them_apart() {
    let bed = hubs();
    bed.fit(&["IS(beta=20)", "ZScore", "DualIS(b1=b2=20)"]);
    let snapshot = bed.collection.snapshot();
    for correction in snapshot.corrections() {
        let refused = source_influences(&snapshot, correction, "/", None);
        assert!(matches!(refused, Err(QueryError::Unsuited { .. })), "{:?}", correction.info().method);
    }
}
