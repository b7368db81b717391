//! Searches within a scope: bit for bit a sort of what its points score by themselves.

use dehub_index::{Question, Scope, Snapshot, Variant};
use dehub_vector::{Candidate, Metric, Vector};
use proptest::prelude::*;

use crate::made::{Home, Numbers, config_with_graph, points, queries};
use crate::reference::{bits, full_sort};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];
const LABELS: [&str; 3] = ["IS(beta=20)", "CSLS(k=3)", "DIS(beta=20,k=2)"];
const DIM: usize = 12;

/// A graph over 500 points with copies among them; then some are deleted and 60 added.
fn home(metric: Metric) -> (Home, Vec<Vector>) {
    let mut numbers = Numbers(50);
    let home = Home::new(config_with_graph(DIM, metric));
    let mut vectors = numbers.vectors(500, DIM);
    for row in (0..500).step_by(9) {
        vectors[row] = vectors[row / 3].clone();
    }
    home.upsert(&points(0, &vectors));
    home.add(&queries("queries", &numbers.vectors(60, DIM)));
    home.fit(&LABELS);
    home.build_graph();
    home.delete((0..500).filter(|id| id % 6 == 1));
    home.upsert(&points(600, &numbers.vectors(60, DIM)));
    let asked = numbers.vectors(9, DIM).iter().map(|vector| home.query(vector)).collect();
    (home, asked)
}

fn variants(snapshot: &Snapshot) -> Vec<Variant<'_>> {
    let corrected = LABELS.map(|label| snapshot.correction(label).expect("fitted").variant(&[true], 1.0));
    std::iter::once(Variant::raw()).chain(corrected).collect()
}

fn sorted(snapshot: &Snapshot, scope: &Scope, query: &Vector, variant: &Variant<'_>) -> Vec<Candidate> {
    let mut all = full_sort(snapshot, query, variant);
    all.retain(|candidate| scope.contains(candidate.row));
    all
}

/// Checks every way to search `scope` for its best `limit`.
fn check(snapshot: &Snapshot, asked: &[Vector], scope: &Scope, limit: usize) {
    let variants = variants(snapshot);
    let targets: Vec<Vec<u32>> = asked.iter().map(|_| vec![0, 33, 559]).collect();
    for count in [1, asked.len()] {
        let question = Question { vectors: &asked[..count], limit, targets: &targets[..count] };
        let answers = snapshot.scan_within(scope, &question, &variants).expect("no deadline");
        for (query, answers) in asked.iter().zip(&answers) {
            for (answer, variant) in answers.iter().zip(&variants) {
                let wanted = sorted(snapshot, scope, query, variant);
                assert_eq!(bits(&answer.best), bits(&wanted[..limit.min(wanted.len())]), "{count} queries");
                let rank = |&row: &u32| {
                    let own = Candidate::new(variant.score(snapshot.similarity(query, row), row), row);
                    1 + wanted.iter().filter(|&other| *other > own).count()
                };
                let ranks: Vec<usize> = answer.ranks.iter().map(|&rank| rank as usize).collect();
                assert_eq!(ranks, targets[0].iter().map(rank).collect::<Vec<_>>(), "{count} queries");
            }
        }
    }
    for query in asked {
        let raw = sorted(snapshot, scope, query, &Variant::raw());
        for variant in &variants {
            let wanted = sorted(snapshot, scope, query, variant);
            let walked = snapshot.walk_seeing(scope, query, variant, limit, 1000).expect("a graph");
            assert_eq!(bits(&walked.best), bits(&wanted[..limit.min(wanted.len())]), "a walk");
            // Codes may take one of nearly the same similarity for the best.
            let is_best = |(found, best): (Candidate, &Candidate)| {
                found.score >= best.score - 0.02 * best.score.abs() - 0.02
            };
            let (found, best) = (walked.raw_best, raw.first());
            assert_eq!(found.is_some(), best.is_some());
            assert!(found.zip(best).is_none_or(is_best), "{found:?} of {best:?}");
        }
    }
}

#[test]
fn the_empty_the_whole_and_the_smallest_scopes_are_searched_exactly() {
    for metric in METRICS {
        let (home, asked) = home(metric);
        let snapshot = home.snapshot();
        let all = snapshot.scope();
        assert_eq!((all.len(), all.is_empty()), (snapshot.len(), false));
        assert!(all.rows().eq(snapshot.rows()));
        for scope in [all.only([]), all.only([2]), all.only([1, 5000]), all.only([559]), all.clone()] {
            check(&snapshot, &asked, &scope, 10);
        }
        assert!(all.only([1]).is_empty(), "a deleted point cannot be allowed");
        assert!(all.clone().without(snapshot.rows()).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_scope_is_searched_exactly(
        metric in 0_usize..3,
        share in 0.0_f64..1.0,
        seed in any::<u64>(),
        limit in 1_usize..40,
    ) {
        let (home, asked) = home(METRICS[metric]);
        let snapshot = home.snapshot();
        let mut numbers = Numbers(seed);
        let chosen: Vec<u32> =
            (0..snapshot.row_count()).filter(|_| f64::from(numbers.signed()) < 2.0 * share - 1.0).collect();
        let scope = snapshot.scope().only(chosen.iter().copied());
        let left = snapshot.rows().filter(|row| chosen.contains(row));
        prop_assert!(scope.rows().eq(left));
        let others = snapshot.scope().without(chosen.iter().copied());
        prop_assert_eq!(others.len() + scope.len(), snapshot.len());
        check(&snapshot, &asked, &scope, limit);
        check(&snapshot, &asked, &others, limit);
    }
}
