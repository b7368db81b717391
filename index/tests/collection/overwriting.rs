//! Overwritten and deleted points leave nothing behind: memory and work follow the points there are.

use dehub_index::{Catalogue, CollectionConfig, GraphBuild, GraphConfig, Question, Snapshot, Variant};
use dehub_vector::{CHUNK_ROWS, Metric, PointId, Vector};

use crate::made::{Home, Numbers, config, fit, gallery, name, points, queries};
use crate::reference::{bits, full_sort};

const DIM: usize = 6;
const POINTS: usize = 300;
const LABELS: [&str; 5] =
    ["IS(beta=20)", "DualDIS(b1=20,b2=3,k=1)", "CSLS(k=3)", "GC(k=4)", "DisSimLocal(k=2)"];

/// The labels whose method takes this metric.
fn labels(metric: Metric) -> Vec<&'static str> {
    LABELS.into_iter().filter(|label| fit(label).method.refuses(metric).is_none()).collect()
}

/// A collection with banks and corrections over `vectors`.
fn home(metric: Metric, vectors: &[Vec<f32>]) -> Home {
    let home = Home::new(config(DIM, metric));
    home.upsert(&points(0, vectors));
    home.add(&queries("queries", &Numbers(70).vectors(30, DIM)));
    home.add(&gallery("gallery", 5000, &Numbers(71).vectors(20, DIM)));
    home.fit(&labels(metric));
    home
}

/// The matrices that [`Snapshot::resident_chunks`] counts.
fn matrices(snapshot: &Snapshot) -> usize {
    let columns = |it: &dehub_index::Correction| {
        let columns = it.columns().iter().chain(it.scale());
        columns.map(|column| 1 + usize::from(column.list_len() > 0)).sum::<usize>()
    };
    1 + usize::from(snapshot.config().metric == Metric::Euclidean)
        + snapshot.corrections().map(columns).sum::<usize>()
}

/// Each answer as ids and scores: raw, then by each correction with all gates open.
fn answers(snapshot: &Snapshot, vectors: &[Vec<f32>]) -> Vec<(PointId, f32)> {
    let queries: Vec<Vector> = vectors
        .iter()
        .map(|vector| Vector::new(vector, snapshot.config().dim, snapshot.config().metric).expect("good"))
        .collect();
    let mut variants = vec![Variant::raw()];
    variants.extend(snapshot.corrections().map(|it| it.variant(&vec![true; it.columns().len()], 1.0)));
    let question = Question { vectors: &queries, limit: 12, targets: &[] };
    let found = snapshot.scan(&question, &variants);
    for (query, answers) in queries.iter().zip(&found) {
        for (answer, variant) in answers.iter().zip(&variants) {
            assert_eq!(bits(&answer.best), bits(&full_sort(snapshot, query, variant)[..12]));
        }
    }
    let best = found.iter().flatten().flat_map(|answer| &answer.best);
    let rows: Vec<u32> = best.clone().map(|candidate| candidate.row).collect();
    let records = snapshot.points(&rows).expect("live rows have records");
    records.into_iter().map(|point| point.id).zip(best.map(|candidate| candidate.score)).collect()
}

#[test]
fn memory_stays_flat_under_overwriting_and_answers_are_those_of_a_fresh_collection() {
    for metric in [Metric::Cosine, Metric::Euclidean] {
        let mut numbers = Numbers(72);
        let mut vectors = numbers.vectors(POINTS, DIM);
        let mut home = home(metric, &vectors);
        // At the beginning, in the middle and at the end of chunks, and all of them again and again.
        for round in 0..120 {
            let first = numbers.below(POINTS - 100);
            let some = numbers.vectors(100, DIM);
            vectors[first..first + 100].clone_from_slice(&some);
            home.upsert(&points(first as u64, &some));
            if round % 10 == 9 {
                vectors = numbers.vectors(POINTS, DIM);
                home.upsert(&points(0, &vectors));
                let snapshot = home.snapshot();
                // So many points lie in at most three chunks; one of zeros stands for all others.
                let most = matrices(&snapshot) * 4;
                assert!(snapshot.resident_chunks() <= most, "{} of {most}", snapshot.resident_chunks());
            }
        }
        let asked = numbers.vectors(20, DIM);
        let (rows, resident) = (home.snapshot().row_count(), home.snapshot().resident_chunks());
        assert_eq!(rows as usize, POINTS + 120 * 100 + 12 * POINTS);
        assert!(resident <= matrices(&home.snapshot()) * 4, "{resident}");
        let found = answers(&home.snapshot(), &asked);
        home.reopen();
        assert_eq!(home.snapshot().resident_chunks(), resident, "as many after it is opened");
        assert_eq!(answers(&home.snapshot(), &asked), found);
        let fresh = answers(&crate::overwriting::home(metric, &vectors).snapshot(), &asked);
        // What columns are less is the mean of when they were made: the same number for all points.
        for (place, (found, fresh)) in found.chunks(12).zip(fresh.chunks(12)).enumerate() {
            for ((id, score), (wanted, exact)) in found.iter().zip(fresh) {
                assert_eq!(id, wanted, "{metric:?}, answer {place}");
                let (below, exact) = (found[0].1 - score, fresh[0].1 - exact);
                assert!((below - exact).abs() < 1e-4, "{metric:?}, answer {place}: {below}, wanted {exact}");
            }
        }
        home.delete(0..POINTS as u64);
        let snapshot = home.snapshot();
        assert!(snapshot.is_empty() && snapshot.resident_chunks() <= matrices(&snapshot) * 2);
        home.upsert(&points(7, &asked));
        assert_eq!(answers(&home.snapshot(), &asked[..1]).len(), 12 * (1 + labels(metric).len()));
    }
}

#[test]
fn a_reader_keeps_the_points_it_saw_while_they_are_overwritten() {
    let vectors = Numbers(73).vectors(2 * CHUNK_ROWS, DIM);
    let home = home(Metric::Dot, &vectors);
    let seen = home.snapshot();
    home.upsert(&points(0, &Numbers(74).vectors(2 * CHUNK_ROWS, DIM)));
    for row in seen.rows() {
        assert_eq!(seen.vector(row), vectors[row as usize]);
    }
    let cleared = home.snapshot();
    assert_eq!(cleared.vector(3), [0.0; DIM]);
    assert!(cleared.resident_chunks() < seen.resident_chunks() + matrices(&seen) * 2);
}

#[test]
fn a_segment_whose_points_are_all_gone_is_dropped_though_the_rest_is_too_few_for_a_graph() {
    let graph = GraphConfig { full_scan_threshold: 1, ..GraphConfig::default() };
    let config = CollectionConfig::new(64, Metric::Cosine, graph).expect("a good configuration");
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = Catalogue::new(folder.path()).create(&name("x"), config).expect("free");
    made.upsert(&points(0, &Numbers(75).vectors(40, 64))).expect("good points");
    assert!(matches!(made.build_graph_if_due().expect("a graph"), GraphBuild::Built { nodes: 40 }));
    made.upsert(&points(0, &Numbers(76).vectors(2, 64))).expect("good points");
    made.delete(&crate::made::ids(2..39)).expect("a delete");
    assert!(!made.is_graph_due(), "a point is left in it");
    made.delete(&crate::made::ids(39..40)).expect("a delete");
    assert!(made.is_graph_due());
    assert_eq!(made.build_graph_if_due().expect("no graph"), GraphBuild::Built { nodes: 0 });
    assert!(!made.snapshot().has_graph() && !made.is_graph_due());
}
