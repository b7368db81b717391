//! What planned searches find within filters of any size, whether they have to do with the vectors or not.

use dehub_index::{Scope, Snapshot};
use dehub_query::{Engine, Query, Ranking, Search, Settings, Source, calibrate_if_due, run_within};
use dehub_vector::Metric;

use super::{Bed, numbers};

const DIM: usize = 24;
const POINTS: usize = 6000;
const QUERIES: usize = 150;
const SHARES: [f64; 7] = [0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0];

/// Vectors off the centre, so that there are hubs.
fn cone(seed: u64, count: usize) -> Vec<f32> {
    let mut all = numbers(seed, count * DIM);
    all.iter_mut().step_by(DIM).for_each(|first| *first += 1.5);
    all
}

/// A share of the points: those whose key is least.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share"
)]
fn least(snapshot: &Snapshot, share: f64, key: impl Fn(u32) -> f64) -> Scope {
    let all = snapshot.scope();
    let mut rows: Vec<u32> = all.rows().collect();
    rows.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    rows.truncate(((all.len() as f64 * share).round() as usize).max(1));
    all.only(rows)
}

/// The rows each query finds, and how.
fn found(
    snapshot: &Snapshot,
    scope: &Scope,
    queries: &[f32],
    ranking: &Ranking,
    search: Search,
) -> (Vec<Vec<u32>>, Vec<Engine>) {
    let settings = Settings { limit: Some(10), ranking: ranking.clone(), search, ..Settings::default() };
    let answer = |numbers: &[f32]| {
        let query = Query { source: Source::Vector(numbers.to_vec().into()), settings: settings.clone() };
        let response = run_within(snapshot, scope, &[query]).expect("valid").swap_remove(0);
        (response.hits.iter().map(|hit| hit.row).collect(), response.plan.engine)
    };
    queries.chunks_exact(DIM).map(answer).unzip()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "few queries")]
fn planned_searches_within_any_filter_find_99_of_100_of_the_exact_answer() {
    let bed = Bed::new(Metric::Cosine, DIM, &cone(1, POINTS), &cone(2, 1000), true);
    bed.fit(&["IS(beta=20)", "CSLS(k=10)", "NNN(alpha=0.75,k=16)", "DIS(beta=20,k=1)"]);
    assert!(calibrate_if_due(&bed.collection).expect("writable"));
    let snapshot = bed.collection.snapshot();
    let queries = cone(3, QUERIES);
    let keys = numbers(4, POINTS);
    let middle = snapshot.vector(77).to_vec();
    let similarity = |row: u32| -> f64 {
        snapshot.vector(row).iter().zip(&middle).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let names = snapshot.corrections().map(|it| Ranking::corrected(it.info().name.as_str()));
    let rankings: Vec<Ranking> = std::iter::once(Ranking::Raw).chain(names).collect();
    let mut is_approximate = 0;
    for share in SHARES {
        let scopes = [
            ("random", least(&snapshot, share, |row| f64::from(keys[row as usize]))),
            ("nearest", least(&snapshot, share, |row| -similarity(row))),
            ("farthest", least(&snapshot, share, similarity)),
        ];
        for (kind, scope) in scopes {
            for ranking in &rankings {
                let (exact, _) = found(&snapshot, &scope, &queries, ranking, Search::Exact);
                let (planned, engines) = found(&snapshot, &scope, &queries, ranking, Search::Auto);
                let hits = planned.iter().zip(&exact).map(|(planned, exact)| {
                    assert_eq!(planned.len(), exact.len(), "as many as there are");
                    planned.iter().filter(|row| exact.contains(row)).count()
                });
                let wanted: usize = exact.iter().map(Vec::len).sum();
                let recall = hits.sum::<usize>() as f64 / wanted as f64;
                assert!(recall >= 0.99, "{kind} {share} {ranking:?}: {recall} by {:?}", engines[0]);
                is_approximate += engines.iter().filter(|it| !matches!(it, Engine::Exact { .. })).count();
            }
        }
    }
    assert!(is_approximate > QUERIES, "{is_approximate} searches were not exact");
}
