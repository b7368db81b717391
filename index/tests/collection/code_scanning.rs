//! The scan of codes: with every point a candidate it is the exact scan, with few it finds nearly all.

use std::time::{Duration, Instant};

use dehub_index::{
    Answer, CollectionConfig, Deadline, GraphConfig, Quantization, Question, Scope, Snapshot, Sought, Variant,
};
use dehub_vector::{Metric, Vector};

use crate::made::{Home, Numbers, points, queries};
use crate::reference::{answer_bits, recall};
use crate::wordnet;

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];
/// The last scales similarities, which inner products are not.
const LABELS: [&str; 4] = ["IS(beta=20)", "CSLS(k=3)", "DIS(beta=20,k=1)", "NICDM(k=5)"];
const LIMIT: usize = 10;

fn with_codes(dim: usize, metric: Metric, quantization: Quantization) -> Home {
    let graph = GraphConfig { full_scan_threshold: 0, ef_construction: 40, m: 8, quantization };
    Home::new(CollectionConfig::new(dim, metric, graph).expect("a good configuration"))
}

/// Vectors with copies, in a segment and a delta, some deleted, in `dim` directions of which an eighth is
/// long.
fn setting(metric: Metric, dim: usize, quantization: Quantization, seed: u64) -> (Home, Vec<Vector>) {
    let mut numbers = Numbers(seed);
    let mut flat = |count: usize| -> Vec<Vec<f32>> {
        let flatten = |vector: Vec<f32>| {
            vector.iter().zip(0..).map(|(x, at)| if at % 8 == 0 { *x } else { x / 12.0 }).collect()
        };
        numbers.vectors(count, dim).into_iter().map(flatten).collect()
    };
    let home = with_codes(dim, metric, quantization);
    home.add(&queries("queries", &flat(60)));
    let mut vectors = flat(900);
    (0..900).step_by(9).for_each(|row| vectors[row] = vectors[row / 4].clone());
    home.upsert(&points(0, &vectors));
    home.fit(labels(metric));
    home.build_graph();
    home.upsert(&points(2000, &flat(130)));
    home.delete((0..2010).filter(|id| id % 7 == 1));
    let gallery = home.snapshot().gallery();
    assert!(gallery.delta > 100 && gallery.dead > 100, "{gallery:?}");
    assert!(gallery.graph_nodes < Some(900), "copies share a node: {gallery:?}");
    let asked = flat(40).iter().map(|vector| home.query(vector)).collect();
    (home, asked)
}

fn labels(metric: Metric) -> &'static [&'static str] {
    if metric == Metric::Dot { &LABELS[..3] } else { &LABELS }
}

/// The raw ranking, as a gate asks for it, and the corrected ones.
fn variants(snapshot: &Snapshot) -> Vec<Variant<'_>> {
    let corrected =
        labels(snapshot.config().metric).iter().map(|label| snapshot.correction(label).expect("fitted"));
    std::iter::once(Variant::raw()).chain(corrected.map(|it| it.variant(&[true], 1.0))).collect()
}

fn exact(
    snapshot: &Snapshot,
    scope: &Scope,
    vectors: &[Vector],
    variants: &[Variant<'_>],
) -> Vec<Vec<Answer>> {
    let question = Question { vectors, limit: LIMIT, targets: &[] };
    snapshot.scan_within(scope, &question, variants).expect("no deadline")
}

fn by_codes(
    snapshot: &Snapshot,
    scope: &Scope,
    vectors: &[Vector],
    variants: &[Variant<'_>],
    candidates: usize,
) -> Vec<Vec<Answer>> {
    let sought: Vec<Sought<'_>> =
        variants.iter().map(|variant| Sought { variant, limit: LIMIT, candidates }).collect();
    snapshot.scan_codes(scope, vectors, &sought).expect("no deadline")
}

#[test]
fn with_every_point_a_candidate_it_answers_as_the_exact_scan_bit_for_bit() {
    for (metric, seed) in METRICS.into_iter().zip(70..) {
        for (quantization, dim) in
            [(Quantization::Reduced, 160), (Quantization::Int8, 24), (Quantization::Bf16, 24)]
        {
            let (home, asked) = setting(metric, dim, quantization, seed);
            let snapshot = home.snapshot();
            let variants = variants(&snapshot);
            let scopes = [
                snapshot.scope(),
                snapshot.scope().only((0..400).filter(|row| row % 3 == 0)),
                snapshot.scope().only([]),
                snapshot.scope().only(850..1000),
            ];
            for scope in &scopes {
                for count in [0, 1, 4, asked.len()] {
                    let found = by_codes(&snapshot, scope, &asked[..count], &variants, snapshot.len());
                    let wanted = exact(&snapshot, scope, &asked[..count], &variants);
                    assert_eq!(
                        answer_bits(&found),
                        answer_bits(&wanted),
                        "{metric} {quantization:?} {count}"
                    );
                }
            }
        }
    }
}

#[test]
fn few_candidates_hold_nearly_all_of_the_best_under_every_ranking_and_metric() {
    for (metric, seed) in METRICS.into_iter().zip(80..) {
        for (quantization, dim) in [(Quantization::Reduced, 160), (Quantization::Int8, 24)] {
            let (home, asked) = setting(metric, dim, quantization, seed);
            let snapshot = home.snapshot();
            let (variants, scope) = (variants(&snapshot), snapshot.scope());
            let wanted = exact(&snapshot, &scope, &asked, &variants);
            let found = by_codes(&snapshot, &scope, &asked, &variants, 60);
            for place in 0..variants.len() {
                let shares = found
                    .iter()
                    .zip(&wanted)
                    .map(|(found, wanted)| recall(&found[place].best, &wanted[place].best));
                let share = shares.sum::<f64>() / asked.len() as f64;
                assert!(share >= 0.98, "{metric} {quantization:?}, ranking {place}: {share}");
            }
        }
    }
}

#[test]
fn the_corrected_best_of_the_bundled_words_are_among_a_few_candidates() {
    let home = with_codes(wordnet::DIM, Metric::Cosine, Quantization::Reduced);
    home.add(&queries("queries", &wordnet::bank()));
    home.upsert(&points(0, &wordnet::gallery()));
    home.fit(&LABELS);
    home.build_graph();
    let snapshot = home.snapshot();
    let asked: Vec<Vector> = wordnet::queries().iter().map(|vector| home.query(vector)).collect();
    let (variants, scope) = (variants(&snapshot), snapshot.scope());
    let wanted = exact(&snapshot, &scope, &asked, &variants);
    for candidates in [20, 40, 80] {
        for (place, variant) in variants.iter().enumerate() {
            let sought = Sought { variant, limit: LIMIT, candidates };
            let found = snapshot.scan_codes(&scope, &asked, &[sought]).expect("no deadline");
            let shares =
                found.iter().zip(&wanted).map(|(found, wanted)| recall(&found[0].best, &wanted[place].best));
            let share = shares.sum::<f64>() / asked.len() as f64;
            println!("ranking {place}, {candidates} candidates: {share:.4}");
            assert!(candidates < 80 || share >= 0.98, "ranking {place}: {share}");
        }
    }
}

/// A segment that is large enough stays one of its own.
#[test]
fn the_best_of_several_segments_are_found_together() {
    let mut numbers = Numbers(95);
    let home = with_codes(8, Metric::Cosine, Quantization::Int8);
    for (first, count) in [(0, 10_000), (10_000, 10_000), (20_000, 10)] {
        home.upsert(&points(first, &numbers.vectors(count, 8)));
    }
    home.build_graph();
    home.upsert(&points(30_000, &numbers.vectors(2100, 8)));
    home.build_graph();
    home.upsert(&points(40_000, &numbers.vectors(40, 8)));
    home.add(&queries("queries", &numbers.vectors(50, 8)));
    home.fit(&LABELS[..1]);
    let snapshot = home.snapshot();
    assert_eq!(snapshot.gallery().segments, 2);
    let corrected = snapshot.correction(LABELS[0]).expect("fitted").variant(&[true], 1.0);
    let (variants, scope) = ([Variant::raw(), corrected], snapshot.scope());
    let asked: Vec<Vector> = numbers.vectors(20, 8).iter().map(|vector| home.query(vector)).collect();
    let wanted = exact(&snapshot, &scope, &asked, &variants);
    let all = by_codes(&snapshot, &scope, &asked, &variants, snapshot.len());
    assert_eq!(answer_bits(&all), answer_bits(&wanted));
    let few = by_codes(&snapshot, &scope, &asked, &variants, 80);
    let shares = few.iter().flatten().zip(wanted.iter().flatten());
    let shares = shares.map(|(few, wanted)| recall(&few.best, &wanted.best));
    let share = shares.sum::<f64>() / (2 * asked.len()) as f64;
    assert!(share >= 0.98, "{share}");
}

/// Each ranking has a limit of its own, and no fewer candidates than that.
#[test]
fn each_ranking_lists_as_many_as_it_is_asked_for() {
    let (home, asked) = setting(Metric::Cosine, 24, Quantization::Int8, 90);
    let (snapshot, scope) = (home.snapshot(), home.snapshot().scope());
    let variants = variants(&snapshot);
    assert!(snapshot.can_scan_codes());
    let sought: Vec<Sought<'_>> = variants
        .iter()
        .zip([1, 0, 25, 5000])
        .map(|(variant, limit)| Sought { variant, limit, candidates: 0 })
        .collect();
    for answers in snapshot.scan_codes(&scope, &asked, &sought).expect("no deadline") {
        let lens: Vec<usize> = answers.iter().map(|answer| answer.best.len()).collect();
        assert_eq!(lens, [1, 0, 25, snapshot.len()]);
        assert!(
            answers.iter().all(|answer| answer.best.is_sorted_by(|a, b| a > b)),
            "best first, none twice"
        );
    }
    assert_eq!(snapshot.scan_codes(&scope, &asked, &[]).expect("no deadline"), vec![Vec::new(); asked.len()]);
}

#[test]
fn a_scan_of_codes_ends_with_its_time() {
    let (home, asked) = setting(Metric::Cosine, 24, Quantization::Int8, 91);
    let snapshot = home.snapshot();
    let raw = Variant::raw();
    let sought = [Sought { variant: &raw, limit: LIMIT, candidates: 40 }];
    let scope = snapshot.scope().until(Some(Deadline::after(Instant::now(), Duration::ZERO)));
    assert!(snapshot.scan_codes(&scope, &asked, &sought).is_err(), "the time is up");
}

#[test]
fn codes_of_other_kinds_are_not_scanned() {
    let (home, _) = setting(Metric::Cosine, 24, Quantization::Bf16, 92);
    assert!(!home.snapshot().can_scan_codes());
    assert!(
        !Home::new(CollectionConfig::new(3, Metric::Dot, GraphConfig::default()).expect("good"))
            .snapshot()
            .can_scan_codes()
    );
}
