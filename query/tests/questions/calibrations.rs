//! Searches by a recall, as calibrated.

use dehub_index::{
    Calibrated, Calibration, CalibrationSubject, Cost, GraphBuild, PointInput, Quantization, Step, machine,
};
use dehub_query::{
    Engine, Query, QueryError, Ranking, Search, Settings, Source, calibrate_if_due, plan, run,
};
use dehub_vector::{Metric, PointId};

use crate::{Bed, numbers};

const DIM: usize = 16;

/// 3,000 points, whose graph a narrow beam does not search through.
fn bed() -> Bed {
    Bed::new(Metric::Cosine, DIM, &numbers(1, 3000 * DIM), &numbers(2, 400 * DIM), true)
}

fn settings(correction: Option<&str>, limit: usize, search: Search) -> Settings {
    let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
    Settings { limit: Some(limit), ranking, search, ..Settings::default() }
}

#[test]
fn a_calibration_is_due_until_it_is_of_the_graph_and_the_corrections_there_are() {
    let bed = bed();
    let is_due = || bed.collection.snapshot().is_calibration_due();
    let becomes_due = |why: &str| {
        assert!(is_due(), "{why}");
        assert!(calibrate_if_due(&bed.collection).expect("it can be measured"), "{why}");
        assert!(!is_due() && !calibrate_if_due(&bed.collection).expect("nothing to do"), "{why}");
    };
    becomes_due("a new graph");
    let raw = bed.collection.snapshot().calibration().expect("measured").rankings.clone();
    bed.fit(&["IS(beta=20)"]);
    becomes_due("a new correction");
    let snapshot = bed.collection.snapshot();
    let calibration = snapshot.calibration().expect("measured");
    assert_eq!(calibration.rankings[..raw.len()], raw, "what was known is taken over");
    assert_eq!(calibration.subject.bank.as_ref().map(|bank| bank.as_str()), Some("q"));
    assert_eq!(calibration.rankings.len(), 2 * raw.len());
    let point = PointInput {
        id: PointId::Number(0),
        vector: numbers(7, DIM).into(),
        named: Vec::new(),
        payload: None,
        text: None,
    };
    bed.collection.upsert(&[point]).expect("valid");
    assert!(!is_due(), "a written point leaves the graph as it is");
    assert!(matches!(bed.collection.freeze(), Ok(GraphBuild::Built { .. })));
    becomes_due("another graph");
    bed.collection.set_quantization(Quantization::F32).expect("it can be kept");
    bed.collection.build_graph_if_due().expect("a writable folder");
    let plan = plan(&bed.collection.snapshot(), &settings(None, 10, Search::Auto), 1).expect("a plan");
    assert_eq!((plan.engine, plan.recall), (Engine::Graph { effort: 128 }, None), "old figures are not used");
    becomes_due("other codes");
}

#[test]
fn a_search_by_recall_finds_as_much_of_what_it_was_not_calibrated_on() {
    let bed = bed();
    bed.fit(&["IS(beta=20)", "DIS(beta=20,k=1)", "GC(k=20)"]);
    bed.collection.set_quantization(Quantization::Int8).expect("it can be kept");
    bed.collection.build_graph_if_due().expect("a writable folder");
    calibrate_if_due(&bed.collection).expect("it can be measured");
    let snapshot = bed.collection.snapshot();
    let measured = |correction: Option<&str>| {
        let ranking = snapshot.calibration().and_then(|it| it.of(correction, 10)).expect("measured");
        (ranking.walk.is_empty(), ranking.codes.is_empty())
    };
    assert_eq!(measured(None), (false, !snapshot.can_scan_codes()));
    assert_eq!(measured(Some("GC(k=20)@1")), (false, true), "its score is no weighted sum");
    for correction in [None, Some("IS(beta=20)"), Some("DIS(beta=20,k=1)"), Some("GC(k=20)")] {
        for (target, limit) in [(0.8, 10), (0.99, 10), (0.95, 100), (1.0, 10)] {
            let answers = |search| {
                let settings = settings(correction, limit, search);
                let asked: Vec<Query> = numbers(5, 200 * DIM)
                    .chunks_exact(DIM)
                    .map(|numbers| Query {
                        source: Source::Vector(numbers.to_vec().into()),
                        settings: settings.clone(),
                    })
                    .collect();
                run(&snapshot, &asked).expect("answers")
            };
            let (found, exact) = (answers(Search::Recall { target }), answers(Search::Exact));
            let hits: usize = found
                .iter()
                .zip(&exact)
                .map(|(found, exact)| {
                    let is_found = |row| found.hits.iter().any(|hit| hit.row == row);
                    exact.hits.iter().filter(|hit| is_found(hit.row)).count()
                })
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
            let recall = hits as f64 / (200 * limit) as f64;
            assert!(recall >= target - 0.02, "{correction:?} {target} of {limit}: {recall}");
            let said = found[0].plan.recall.expect("it was measured");
            assert!(said >= target, "{correction:?} {target}: {said}");
        }
    }
}

/// A calibration with made figures: exact scans get cheaper in batches, walks do not.
fn made(bed: &Bed) -> Calibration {
    let cost = |queries, micros| Cost { queries, micros };
    let step = |setting, recall, micros| Step { setting, recall, costs: vec![cost(1, micros)] };
    Calibration {
        subject: CalibrationSubject::of(&bed.collection.snapshot()),
        machine: machine(),
        queries: 1,
        rankings: vec![Calibrated {
            correction: None,
            limit: 10,
            exact: vec![cost(1, 900.0), cost(100, 60.0)],
            walk: vec![step(16, 0.85, 50.0), step(64, 0.95, 100.0), step(256, 0.997, 400.0)],
            codes: vec![Step { setting: 80, recall: 0.993, costs: vec![cost(1, 600.0), cost(100, 20.0)] }],
        }],
    }
}

#[test]
fn the_cheapest_way_with_the_recall_is_chosen() {
    let bed = bed();
    bed.fit(&["IS(beta=20)"]);
    bed.collection.set_calibration(made(&bed)).expect("it can be kept");
    let snapshot = bed.collection.snapshot();
    let walk = |effort, recall| (("walk", effort), Some(recall));
    let exact = (("exact", 0), Some(1.0));
    let codes = (("codes", 80), Some(0.993));
    let cases = [
        (Search::Recall { target: 0.99 }, 10, 1, walk(256, 0.997)),
        (Search::Auto, 10, 1, walk(256, 0.997)),
        (Search::Recall { target: 0.87 }, 10, 1, walk(64, 0.95)),
        (Search::Recall { target: 0.62 }, 3, 1, walk(16, 0.85)),
        (Search::Recall { target: 0.87 }, 25, 1, walk(3 * 64, 0.95)),
        (Search::Recall { target: 0.999 }, 10, 1, exact),
        (Search::Recall { target: 1.0 }, 10, 1, exact),
        (Search::Recall { target: 0.98 }, 10, 100, codes),
        (Search::Auto, 10, 100, exact),
        (Search::Recall { target: 0.8 }, 10, 100, codes),
        // Between 1 and 100, on the line in the logarithm: 480 µs.
        (Search::Recall { target: 0.99 }, 10, 10, walk(256, 0.997)),
        (Search::Recall { target: 0.99 }, 10, 20, exact),
        (Search::Graph { effort: 40 }, 10, 100, (("walk", 40), None)),
    ];
    for (search, limit, queries, wanted) in cases {
        let plan = plan(&snapshot, &settings(None, limit, search), queries).expect("a plan");
        let found = match plan.engine {
            Engine::Exact { .. } => ("exact", 0),
            Engine::Graph { effort } => ("walk", effort),
            Engine::Codes { candidates } => ("codes", candidates),
        };
        assert_eq!((found, plan.recall), wanted, "{search:?} {limit} {queries}: {plan}");
    }
    let uncalibrated = plan(&snapshot, &settings(Some("IS(beta=20)"), 10, Search::Auto), 1).expect("a plan");
    assert_eq!((uncalibrated.engine, uncalibrated.recall), (Engine::Graph { effort: 128 }, None));
    for target in [0.0, -1.0, 1.5, f64::NAN] {
        let refused = plan(&snapshot, &settings(None, 10, Search::Recall { target }), 1);
        assert!(matches!(refused, Err(QueryError::Recall { .. })), "{target}");
    }
}

/// Codes are scanned for the best, which are scored in full: all points as candidates are an exact search.
#[test]
fn a_scan_of_codes_with_all_points_as_candidates_is_the_exact_search() {
    let bed = Bed::random(Metric::Cosine, true);
    bed.fit(&["IS(beta=20)", "DIS(beta=20,k=1)"]);
    bed.collection.set_quantization(Quantization::Int8).expect("it can be kept");
    bed.collection.build_graph_if_due().expect("a writable folder");
    let snapshot = bed.collection.snapshot();
    let mut sources: Vec<Source> =
        numbers(9, 20 * 8).chunks(8).map(|it| Source::Vector(it.to_vec().into())).collect();
    sources.extend([0, 77].map(|id| Source::Point(PointId::Number(id))));
    for correction in [None, Some("IS(beta=20)"), Some("DIS(beta=20,k=1)")] {
        for limit in [1, 10, 299] {
            let answers = |search| {
                let settings = settings(correction, limit, search);
                let query = |source: &Source| Query { source: source.clone(), settings: settings.clone() };
                run(&snapshot, &sources.iter().map(query).collect::<Vec<_>>()).expect("answers")
            };
            let (found, exact) = (answers(Search::Codes { candidates: 300 }), answers(Search::Exact));
            for (found, exact) in found.iter().zip(&exact) {
                assert_eq!((&found.hits, found.gate_open), (&exact.hits, exact.gate_open));
                let scans = matches!(found.plan.engine, Engine::Codes { candidates: 300 });
                assert_eq!(scans, snapshot.can_scan_codes(), "{}", found.plan);
            }
        }
    }
    let refused = plan(&snapshot, &settings(None, 1, Search::Codes { candidates: 0 }), 1);
    assert!(matches!(refused, Err(QueryError::Candidates)));
}
