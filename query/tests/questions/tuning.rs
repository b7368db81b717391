//! Tuning: the choice on spaces whose hubs are known, its laws, and its refusals.

use std::sync::Arc;

use dehub_eval::{Measure, Qrels};
use dehub_index::{Correction, FitInput, Snapshot};
use dehub_query::{
    Evidence, Finding, LabelledQuery, QUERIES_MIN, QueryError, Ranking, Reason, TuneError, TuneOptions,
    TuneReport, evaluate, hubness, score_deviation, tune, tune_methods,
};
use dehub_vector::{Dim, Metric, Vector};

use crate::{Bed, name, numbers};

const DIM: usize = 48;
const POINTS: usize = 600;
const METHODS: [&str; 5] =
    ["IS(beta=5)", "IS(beta=20)", "NNN(alpha=0.75,k=16)", "CSLS(k=10)", "DIS(beta=20,k=5)"];

/// Nearly normal numbers: sums of four uniform ones.
fn normal(seed: u64, count: usize) -> Vec<f32> {
    numbers(seed, count * 4).chunks_exact(4).map(|four| four.iter().sum::<f32>()).collect()
}

/// Points, a bank and queries. `pull` is how far points lie towards where queries come from, each by its
/// own part of it: without it directions are uniform, with it the most pulled are hubs. Query `i` is a
/// noisy copy of point `i`, so it has one right answer.
struct Space {
    points: Vec<f32>,
    bank: Vec<f32>,
    queries: Vec<f32>,
}

impl Space {
    fn new(seed: u64, pull: f32) -> Space {
        let centre = normal(seed, DIM);
        let free = normal(seed + 1, POINTS * DIM);
        let parts = numbers(seed + 2, POINTS);
        let towards = |vectors: &[f32], part: &dyn Fn(usize) -> f32| -> Vec<f32> {
            let place = |(place, number): (usize, &f32)| number + part(place / DIM) * centre[place % DIM];
            vectors.iter().enumerate().map(place).collect()
        };
        let points = towards(&free, &|point| pull * (parts[point] + 1.0) / 2.0);
        let noisy: Vec<f32> =
            free.iter().zip(normal(seed + 3, POINTS * DIM)).map(|(it, noise)| it + 1.5 * noise).collect();
        let queries = towards(&noisy, &|_| pull);
        let bank = towards(&normal(seed + 4, POINTS * DIM), &|_| pull);
        Space { points, bank, queries }
    }

    fn bed(&self) -> Bed {
        Bed::new(Metric::Cosine, DIM, &self.points, &self.bank, false)
    }

    fn labelled(&self) -> Vec<LabelledQuery> {
        let dim = Dim::new(DIM).expect("in range");
        let query = |(place, numbers): (usize, &[f32])| LabelledQuery {
            id: format!("q{place}"),
            vector: Vector::new(numbers, dim, Metric::Cosine).expect("not zero"),
            text: None,
        };
        self.queries.chunks_exact(DIM).enumerate().map(query).collect()
    }

    fn vectors(&self) -> Vec<Vector> {
        self.labelled().into_iter().map(|query| query.vector).collect()
    }

    fn qrels() -> Qrels {
        let lines: String = (0..POINTS).map(|place| format!("q{place} 0 {place} 1\n")).collect();
        Qrels::parse("qrels", &lines).expect("well formed")
    }
}

fn rehearsed(bed: &Bed, methods: &[&str]) -> (Arc<Snapshot>, Vec<Correction>) {
    let input = |method: &&str| FitInput {
        name: name(method),
        method: method.parse().expect("a method"),
        query_bank: Some(name("q")),
        gallery_bank: None,
    };
    bed.collection.rehearse(&methods.iter().map(input).collect::<Vec<_>>()).expect("fitted")
}

fn options(seed: u64, rounds: usize) -> TuneOptions {
    TuneOptions { seed, rounds, ..TuneOptions::default() }
}

fn tuned(space: &Space, queries: &[Vector], options: &TuneOptions) -> TuneReport {
    let (snapshot, corrections) = rehearsed(&space.bed(), &METHODS);
    tune(&snapshot, &corrections, Evidence::Unlabelled(queries), options).expect("tuned")
}

fn tuned_with_judgements(space: &Space) -> TuneReport {
    let (snapshot, corrections) = rehearsed(&space.bed(), &METHODS);
    let (queries, qrels) = (space.labelled(), Space::qrels());
    let evidence = Evidence::Labelled { queries: &queries, qrels: &qrels };
    tune(&snapshot, &corrections, evidence, &options(1, 300)).expect("tuned")
}

#[test]
fn where_there_are_hubs_a_correction_is_chosen_with_and_without_judgements() {
    for seed in [10, 20, 30] {
        let space = Space::new(seed, 1.0);
        let report = tuned(&space, &space.vectors(), &options(1, 300));
        let pick = report.verdict.pick.expect("a correction");
        assert!(matches!(report.verdict.reason, Reason::Removes { share, .. } if share.low > 0.5));
        assert_eq!(report.rows[pick].finding, Finding::Picked);
        assert!(report.rows.iter().all(|row| row.robin_hood >= report.rows[pick].robin_hood));
        let judged = tuned_with_judgements(&space);
        let best = judged.verdict.pick.expect("a correction");
        assert!(matches!(judged.verdict.reason, Reason::Gains { held_out } if held_out.low > 0.0));
        let gain = |row: usize| judged.rows[row].gain.expect("there are judgements").value;
        assert!((0..METHODS.len()).all(|row| gain(row) <= gain(best)));
        assert!(gain(pick) > 0.8 * gain(best), "{} {}", gain(pick), gain(best));
    }
}

#[test]
fn where_there_are_no_hubs_none_is_chosen() {
    for seed in [10, 20, 30, 40, 50, 60] {
        let space = Space::new(seed, 0.0);
        let report = tuned(&space, &space.vectors(), &options(1, 300));
        assert_eq!(report.verdict.pick, None, "{}", report.verdict.reason);
        assert!(report.raw.excess.value < 0.05, "{:?}", report.raw);
        let judged = tuned_with_judgements(&space);
        if let Some(pick) = judged.verdict.pick {
            // A choice by judgements may be right without hubs, but never harms.
            assert!(judged.rows[pick].gain.expect("judged").low > 0.0);
        }
    }
}

#[test]
fn numbers_are_those_of_hubness_and_evaluation_and_nothing_is_installed() {
    let space = Space::new(70, 1.0);
    let bed = space.bed();
    let (snapshot, corrections) = rehearsed(&bed, &METHODS);
    let (queries, qrels) = (space.labelled(), Space::qrels());
    let evidence = Evidence::Labelled { queries: &queries, qrels: &qrels };
    let report = tune(&snapshot, &corrections, evidence, &options(1, 100)).expect("tuned");
    assert_eq!(bed.collection.snapshot().corrections().len(), 0);
    bed.fit(&METHODS);
    let snapshot = bed.collection.snapshot();
    let rankings: Vec<Ranking> = METHODS.iter().map(|method| Ranking::corrected(method)).collect();
    let all: Vec<Ranking> = std::iter::once(Ranking::Raw).chain(rankings.iter().cloned()).collect();
    let hubs = hubness(&snapshot, &space.vectors(), &all, 10, 0).expect("counted");
    let table: [Measure; 1] = ["nDCG@10".parse().expect("a measure")];
    let evaluation = evaluate(&snapshot, &queries, &qrels, &rankings, &table).expect("measured");
    let first = (report.raw.robin_hood, report.raw.ndcg);
    let found = std::iter::once(first).chain(report.rows.iter().map(|row| (row.robin_hood, row.ndcg)));
    for ((robin_hood, ndcg), (hubs, row)) in found.zip(hubs.iter().zip(&evaluation.rows)) {
        assert!((robin_hood - hubs.occurrence.robin_hood()).abs() < 1e-12, "{}", row.method);
        assert!((ndcg.expect("judged") - row.measures[0].1).abs() < 1e-12, "{}", row.method);
    }
    let at_random = hubs[0].occurrence.robin_hood_at_random();
    assert!((report.raw.at_random - at_random).abs() < 1e-12);
    assert!((report.raw.excess.value - (hubs[0].occurrence.robin_hood() - at_random)).abs() < 1e-12);
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let space = Space::new(80, 1.0);
    let (first, second) = (tuned_with_judgements(&space), tuned_with_judgements(&space));
    assert_eq!(first, second);
    let vectors = space.vectors();
    let other = tuned(&space, &vectors, &options(2, 300));
    assert_ne!(tuned(&space, &vectors, &options(1, 300)), other);
}

#[test]
fn order_seed_and_rounds_change_only_the_noise_of_the_intervals() {
    let space = Space::new(90, 1.0);
    let vectors = space.vectors();
    let report = tuned(&space, &vectors, &options(1, 400));
    let mut reversed = vectors.clone();
    reversed.reverse();
    let cases = [
        tuned(&space, &reversed, &options(1, 400)),
        tuned(&space, &vectors, &options(7, 400)),
        tuned(&space, &vectors, &options(1, 4000)),
    ];
    for other in cases {
        assert_eq!((report.verdict.pick, report.verdict.best), (other.verdict.pick, other.verdict.best));
        for (one, other) in report.rows.iter().zip(&other.rows) {
            assert!((one.robin_hood - other.robin_hood).abs() < 1e-12);
            let (one, other) = (one.share.expect("hubs"), other.share.expect("hubs"));
            assert!((one.value - other.value).abs() < 1e-12);
            let width = one.high - one.low;
            assert!((one.low - other.low).abs() < width / 5.0, "{one:?} {other:?}");
            assert!((one.high - other.high).abs() < width / 5.0, "{one:?} {other:?}");
        }
    }
}

#[test]
fn fewer_queries_make_a_verdict_less_sure_and_say_how_many_would_do() {
    let space = Space::new(100, 1.0);
    let vectors = space.vectors();
    let (snapshot, corrections) = rehearsed(&space.bed(), &METHODS);
    let width = |queries: &[Vector]| {
        let evidence = Evidence::Unlabelled(queries);
        let report = tune(&snapshot, &corrections, evidence, &options(1, 300)).expect("tuned");
        let share = report.rows[report.verdict.best].share.expect("hubs");
        share.high - share.low
    };
    assert!(width(&vectors[..150]) > 1.4 * width(&vectors));
    // A share of just below what is found cannot be sure, whatever is found.
    let report = tuned(&space, &vectors, &options(1, 300));
    let share = report.rows[report.verdict.best].share.expect("hubs");
    let barely = TuneOptions { share: (share.value + share.low) / 2.0, ..options(1, 300) };
    let report = tuned(&space, &vectors, &barely);
    assert_eq!(report.verdict.pick, None);
    let Reason::MayRemove { queries, .. } = report.verdict.reason else {
        panic!("{}", report.verdict.reason);
    };
    assert!((2300..=2500).contains(&queries), "half the error takes four times as many: {queries}");
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let space = Space::new(110, 1.0);
    let (snapshot, corrections) = rehearsed(&space.bed(), &METHODS);
    let vectors = space.vectors();
    let refusal = |corrections: &[Correction], evidence: Evidence<'_>, options: &TuneOptions| {
        tune(&snapshot, corrections, evidence, options).expect_err("refused")
    };
    let usual = options(1, 100);
    let none = refusal(&corrections, Evidence::Unlabelled(&[]), &usual);
    assert!(matches!(none, TuneError::Query(QueryError::NoQueries(_))), "{none}");
    let few = refusal(&corrections, Evidence::Unlabelled(&vectors[..QUERIES_MIN - 1]), &usual);
    assert!(few.to_string().contains("99 queries are too few") && few.to_string().contains("at least 100"));
    assert!(matches!(refusal(&[], Evidence::Unlabelled(&vectors), &usual), TuneError::NoCorrections));
    for found in [0, 99, 100_001] {
        let rounds = refusal(&corrections, Evidence::Unlabelled(&vectors), &options(1, found));
        assert!(matches!(rounds, TuneError::Rounds { .. }), "{rounds}");
    }
    let (queries, few_judged) = (space.labelled(), Qrels::parse("qrels", "q0 0 1 1\n").expect("well formed"));
    let evidence = Evidence::Labelled { queries: &queries, qrels: &few_judged };
    assert!(matches!(refusal(&corrections, evidence, &usual), TuneError::TooFewQueries { found: 1 }));
    let strangers = Qrels::parse("qrels", "other 0 1 1\n").expect("well formed");
    let evidence = Evidence::Labelled { queries: &queries, qrels: &strangers };
    let error = refusal(&corrections, evidence, &usual);
    assert!(matches!(error, TuneError::Query(QueryError::NoQueries(_))), "{error}");
}

#[test]
fn default_methods_are_a_grid_and_the_scale_of_the_scores() {
    let all = tune_methods(1000, 0.05);
    let labels: Vec<String> = all.methods.iter().map(ToString::to_string).collect();
    assert_eq!((labels.len(), all.left_out.len()), (26, 0));
    for label in ["IS(beta=14)", "IS(beta=18)", "IS(beta=22)", "CSLS(k=10)", "NNN(alpha=0.25,k=128)"] {
        assert!(labels.iter().any(|it| it == label), "{label} is missing in {labels:?}");
    }
    // A scaled β that is in the grid already is there once; one that is no number is not there.
    assert_eq!(tune_methods(1000, 0.09).methods.len(), 25);
    assert_eq!(tune_methods(1000, 0.0).methods.len(), 23);
    let small = tune_methods(10, 0.05);
    let left_out: Vec<String> = small.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 8);
    assert!(left_out.iter().all(|label| label.contains("k=16") || label.contains("k=128")), "{left_out:?}");
}

#[test]
fn the_deviation_of_scores_is_that_of_the_best_hundred() {
    let space = Space::new(120, 0.5);
    let snapshot = space.bed().collection.snapshot();
    let vectors = &space.vectors()[..50];
    let deviation = |query: &Vector| {
        let mut scores: Vec<f64> =
            snapshot.rows().map(|row| f64::from(snapshot.similarity(query, row))).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        let mean = scores[..100].iter().sum::<f64>() / 100.0;
        (scores[..100].iter().map(|score| (score - mean).powi(2)).sum::<f64>() / 100.0).sqrt()
    };
    let wanted = vectors.iter().map(deviation).sum::<f64>() / 50.0;
    assert!((score_deviation(&snapshot, vectors).expect("measured") - wanted).abs() < 1e-9);
}
