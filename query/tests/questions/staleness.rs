//! A certified answer stays whatever the bank entries are that its correction has not taken in.

use dehub_index::{BankUpdate, EntryInput, EntrySelector, Snapshot};
use dehub_normalize::BankKind;
use dehub_query::{Explanation, Search, explain};
use dehub_vector::Metric;

use crate::{Bed, name, numbers, query};

const DIM: usize = 8;
const BOUNDED: [&str; 6] = [
    "IS(beta=20)",
    "IS(beta=2,shrink=0.25)",
    "NNN(alpha=0.75,k=8)",
    "CSLS(k=5)",
    "DN(lambda=0.25)",
    "DualIS(b1=20,b2=5)",
];
const UNBOUNDED: [&str; 4] = ["SN(tau=0.1,n=5)", "ZScore", "DisSimLocal(k=4)", "IS(beta=20,floor=0.1)"];

/// Adds entries that corrections do not take in yet.
fn defer(bed: &Bed, vectors: &[f32], weight: f32) {
    let entry = |vector: &[f32]| EntryInput { id: None, vector: vector.to_vec().into(), weight };
    let entries = vectors.chunks_exact(DIM).map(entry).collect();
    let update = BankUpdate { name: name("q"), kind: BankKind::Query, entries, defer: true };
    bed.collection.add_to_bank(&update).expect("good entries");
}

fn rows(explanation: &Explanation) -> Vec<u32> {
    explanation.corrected.hits.iter().map(|hit| hit.row).collect()
}

fn asked(snapshot: &Snapshot, vector: &[f32], label: &str, limit: usize) -> Explanation {
    explain(snapshot, &query(vector, limit, Some(label), Search::Exact)).expect("an answer")
}

/// Random entries, and copies of points and queries, which move the answer most.
fn unseen(case: u64, query: &[f32]) -> Vec<f32> {
    match case % 3 {
        0 => numbers(100 + case, DIM * 3),
        1 => query.to_vec(),
        _ => numbers(1, 300 * DIM)[..DIM * 2].to_vec(),
    }
}

/// How many of the answers are certified, after checking that each of those stays and that no score moves
/// further than its bound.
fn check(metric: Metric, weight: f32) -> usize {
    let mut certified = 0;
    for case in 0..9 {
        let bed = Bed::random(metric, false);
        bed.fit(&BOUNDED);
        let vectors = numbers(50 + case, DIM * 6);
        defer(&bed, &unseen(case, &vectors[..DIM]), weight);
        let before = bed.collection.snapshot();
        bed.collection.absorb(&name("q")).expect("it exists");
        let after = bed.collection.snapshot();
        for label in BOUNDED {
            let column = |snapshot: &Snapshot, row: u32| -> Vec<f64> {
                let correction = snapshot.correction(label).expect("fitted");
                correction.columns().iter().map(|it| f64::from(it.at(row)) + it.center()).collect()
            };
            for vector in vectors.chunks_exact(DIM) {
                let (stale, fresh) = (asked(&before, vector, label, 3), asked(&after, vector, label, 3));
                assert_eq!(fresh.staleness, None, "{label} is up to date");
                let staleness = stale.staleness.clone().expect("it is behind");
                assert_eq!(staleness.bounds.len(), 3);
                if staleness.certified {
                    certified += 1;
                    assert_eq!(rows(&stale), rows(&fresh), "{metric} {label}, case {case}");
                }
                let correction = before.correction(label).expect("fitted");
                for (hit, bound) in stale.corrected.hits.iter().zip(&staleness.bounds) {
                    let bound = bound.expect("a bound");
                    let growth = before.growth(correction, hit.row).expect("readable");
                    let (was, is) = (column(&before, hit.row), column(&after, hit.row));
                    for ((was, is), growth) in was.iter().zip(&is).zip(growth) {
                        let growth = growth.expect("a bound");
                        let error = 2e-5 * (1.0 + was.abs());
                        assert!(
                            is - was <= growth.rise + error,
                            "{metric} {label}: {was} to {is}, {growth:?}"
                        );
                        assert!(
                            was - is <= growth.fall + error,
                            "{metric} {label}: {was} to {is}, {growth:?}"
                        );
                    }
                    assert!(bound.rise >= 0.0 && bound.fall > 0.0, "{label}: {bound:?}");
                }
            }
        }
    }
    certified
}

#[test]
fn a_certified_answer_stays_whatever_the_entries_are() {
    // Light entries cannot do much, so that some answers are certified.
    assert!(check(Metric::Cosine, 1e-4) > 40);
    assert!(check(Metric::Dot, 1e-5) > 20);
    check(Metric::Euclidean, 1e-4);
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        check(metric, 1.0);
    }
}

#[test]
fn a_method_without_a_bound_is_never_certified() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&UNBOUNDED);
    defer(&bed, &numbers(7, DIM), 1e-6);
    let snapshot = bed.collection.snapshot();
    for label in UNBOUNDED {
        let staleness = asked(&snapshot, &numbers(8, DIM), label, 3).staleness.expect("it is behind");
        assert_eq!((staleness.entries, staleness.certified), (1, false), "{label}");
        assert_eq!(staleness.bounds, [None, None, None], "{label}");
    }
}

#[test]
fn a_closed_gate_may_open_and_an_open_one_stays_open() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["DIS(beta=20,k=1)"]);
    defer(&bed, &numbers(9, DIM), 1e-6);
    let snapshot = bed.collection.snapshot();
    let mut seen = [false; 2];
    for vector in numbers(10, 40 * DIM).chunks_exact(DIM) {
        let found = asked(&snapshot, vector, "DIS(beta=20,k=1)", 2);
        let staleness = found.staleness.expect("it is behind");
        let is_open = found.corrected.gate_open == Some(true);
        seen[usize::from(is_open)] = true;
        assert_eq!(staleness.bounds.iter().all(Option::is_some), is_open);
        assert!(is_open || !staleness.certified);
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn entries_that_were_removed_before_they_were_taken_in_are_not_waited_for() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["IS(beta=20)"]);
    let before = asked(&bed.collection.snapshot(), &numbers(8, DIM), "IS(beta=20)", 3);
    defer(&bed, &numbers(11, DIM * 2), 1.0);
    let stale = |number| {
        let snapshot = bed.collection.snapshot();
        assert_eq!(snapshot.correction("IS(beta=20)").expect("fitted").info().stale, number);
    };
    stale(2);
    let gone = EntrySelector::Numbers(vec![80, 81]);
    assert_eq!(bed.collection.remove_from_bank(&name("q"), &gone).expect("a removal").deleted, 2);
    stale(0);
    let after = asked(&bed.collection.snapshot(), &numbers(8, DIM), "IS(beta=20)", 3);
    assert_eq!((rows(&before), &before.staleness), (rows(&after), &after.staleness));
}
