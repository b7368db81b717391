//! Answers: batches as singles, gates, explanations.

use dehub_index::{DefaultCorrection, FitInput};
use dehub_query::{Method, Query, Ranking, Response, Search, Settings, Source, explain, run};
use dehub_vector::{Metric, PointId};

use crate::{Bed, name, numbers, query};

const METHODS: [&str; 10] = [
    "IS(beta=20)",
    "DIS(beta=20,k=1)",
    "CSLS(k=5)",
    "NNN(alpha=1.0,k=3)",
    "DualIS(b1=20,b2=5)",
    "DualDIS(b1=20,b2=5,k=1)",
    "SN(tau=0.1,n=5)",
    "DBSN(tau=0.1,n=5)",
    "ZScore",
    "NICDM(k=3)",
];

/// Those that have a meaning under a metric.
fn methods(metric: Metric) -> Vec<&'static str> {
    let serves = |label: &&str| label.parse::<Method>().expect("a method").refuses(metric).is_none();
    METHODS.into_iter().filter(serves).collect()
}

/// A hit's row, score, raw score and bias, bit for bit.
type Bits = (u32, u32, u32, Option<u32>);

/// The parts of a response that do not say how many queries it was answered with.
fn essence(response: &Response) -> (Vec<Bits>, Option<bool>) {
    let bits = |hit: &dehub_query::Hit| {
        (hit.row, hit.score.to_bits(), hit.raw_score.to_bits(), hit.bias.map(f32::to_bits))
    };
    (response.hits.iter().map(bits).collect(), response.gate_open)
}

#[test]
fn a_mixed_batch_answers_bit_for_bit_as_its_queries_alone() {
    for (metric, with_graph) in
        [(Metric::Cosine, false), (Metric::Cosine, true), (Metric::Dot, false), (Metric::Euclidean, false)]
    {
        let bed = Bed::random(metric, with_graph);
        let methods = methods(metric);
        bed.fit(&methods);
        let snapshot = bed.collection.snapshot();
        let vectors = numbers(3, 40 * 8);
        let corrections = methods.into_iter().map(Some).chain([None]);
        let queries: Vec<Query> = vectors
            .chunks_exact(8)
            .zip(corrections.cycle())
            .map(|(vector, correction)| query(vector, 7, correction, Search::Auto))
            .collect();
        let together = run(&snapshot, &queries).expect("answers");
        for (one, together) in queries.iter().zip(&together) {
            let alone = run(&snapshot, std::slice::from_ref(one)).expect("an answer");
            assert_eq!(essence(&alone[0]), essence(together), "{metric} {one:?}");
        }
    }
}

#[test]
fn every_hit_adds_up_and_hits_are_in_order() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&METHODS);
    let snapshot = bed.collection.snapshot();
    for method in METHODS {
        for vector in numbers(4, 20 * 8).chunks_exact(8) {
            let response =
                run(&snapshot, &[query(vector, 300, Some(method), Search::Exact)]).expect("an answer");
            let hits = &response[0].hits;
            assert_eq!(hits.len(), 300);
            let adds_up = |hit: &dehub_query::Hit| {
                let (bias, scale) = (hit.bias.expect("it has one"), hit.scale.expect("it has one"));
                hit.score == hit.raw_score * scale - bias
            };
            assert!(hits.iter().all(adds_up), "{method}");
            assert!(hits.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.row < b.row)));
        }
    }
}

#[test]
fn a_walk_finds_the_gate_as_a_scan_does() {
    let bed = Bed::random(Metric::Cosine, true);
    bed.fit(&["DIS(beta=20,k=1)", "DualDIS(b1=20,b2=5,k=1)"]);
    let snapshot = bed.collection.snapshot();
    for method in ["DIS(beta=20,k=1)", "DualDIS(b1=20,b2=5,k=1)"] {
        let mut open = 0;
        for vector in numbers(6, 80 * 8).chunks_exact(8) {
            // The first look, at an eighth of the effort, is not always right; the walk of all points is.
            let ask = |search| {
                run(&snapshot, &[query(vector, 10, Some(method), search)]).expect("an answer").remove(0)
            };
            let (walked, scanned) = (ask(Search::Graph { effort: 300 }), ask(Search::Exact));
            assert_eq!(essence(&walked), essence(&scanned), "{method}");
            open += usize::from(walked.gate_open == Some(true));
        }
        assert!((5..75).contains(&open), "{method}: the data meets both, {open} open");
    }
}

#[test]
fn a_gate_is_open_exactly_when_the_raw_best_is_activated() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["DIS(beta=20,k=1)", "IS(beta=20)"]);
    let snapshot = bed.collection.snapshot();
    let (mut opened, mut closed) = (0, 0);
    for vector in numbers(5, 60 * 8).chunks_exact(8) {
        let ask = |correction| {
            run(&snapshot, &[query(vector, 10, correction, Search::Exact)]).expect("an answer").remove(0)
        };
        let (raw, is, dis) = (ask(None), ask(Some("IS(beta=20)")), ask(Some("DIS(beta=20,k=1)")));
        let gate = snapshot.correction("DIS(beta=20,k=1)").expect("fitted").open(Some(raw.hits[0].row))[0];
        assert_eq!(dis.gate_open, Some(gate));
        assert_eq!(essence(&dis).0, essence(if gate { &is } else { &raw }).0);
        if gate { opened += 1 } else { closed += 1 }
    }
    assert!(opened > 5 && closed > 5, "the data meets both: {opened} open, {closed} closed");
}

#[test]
fn a_point_is_left_out_of_its_own_answer() {
    for with_graph in [false, true] {
        let bed = Bed::random(Metric::Cosine, with_graph);
        bed.fit(&["IS(beta=20)"]);
        let snapshot = bed.collection.snapshot();
        for id in [0, 17, 299] {
            for ranking in [Ranking::Raw, Ranking::corrected("IS(beta=20)")] {
                let settings =
                    Settings { limit: Some(10), ranking, search: Search::Auto, ..Settings::default() };
                let query = Query { source: Source::Point(PointId::Number(id)), settings };
                let response = run(&snapshot, &[query]).expect("an answer").remove(0);
                assert_eq!(response.hits.len(), 10);
                assert!(response.hits.iter().all(|hit| u64::from(hit.row) != id));
            }
        }
    }
}

#[test]
fn an_explanation_ranks_each_hit_in_the_raw_answer() {
    let bed = Bed::random(Metric::Cosine, true);
    bed.fit(&["IS(beta=20)"]);
    let snapshot = bed.collection.snapshot();
    let by_vector = Source::Vector(numbers(6, 8).into());
    for source in [by_vector, Source::Point(PointId::Number(3))] {
        let settings = Settings {
            limit: Some(10),
            ranking: Ranking::corrected("IS(beta=20)"),
            search: Search::Exact,
            ..Settings::default()
        };
        let query = Query { source, settings };
        let all = Settings {
            limit: Some(300),
            ranking: Ranking::Raw,
            search: Search::Exact,
            ..Settings::default()
        };
        let raw = run(&snapshot, &[Query { settings: all, ..query.clone() }]).expect("an answer").remove(0);
        let explanation = explain(&snapshot, &query).expect("an explanation");
        for (hit, rank) in explanation.corrected.hits.iter().zip(&explanation.raw_ranks) {
            assert_eq!(raw.hits[*rank as usize - 1].row, hit.row);
        }
    }
}

#[test]
fn the_weight_is_a_factor_on_the_bias() {
    let bed = Bed::random(Metric::Dot, false);
    bed.fit(&["NNN(alpha=1.0,k=3)", "CSLS(k=3)"]);
    let snapshot = bed.collection.snapshot();
    let ask = |correction: &str, weight| {
        let ranking = Ranking::Corrected { correction: correction.to_owned(), weight };
        let settings = Settings { limit: Some(20), ranking, search: Search::Exact, ..Settings::default() };
        let query = Query { source: Source::Vector(numbers(7, 8).into()), settings };
        essence(&run(&snapshot, &[query]).expect("an answer")[0]).0
    };
    // CSLS is NNN of weight one half.
    assert_eq!(ask("NNN(alpha=1.0,k=3)", 0.5), ask("CSLS(k=3)", 1.0));
    assert_ne!(ask("NNN(alpha=1.0,k=3)", 1.0), ask("CSLS(k=3)", 1.0));
}

#[test]
fn a_query_that_names_no_correction_is_ranked_by_the_default() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["IS(beta=20)"]);
    let settings =
        |ranking| Settings { limit: Some(10), ranking, search: Search::Exact, ..Settings::default() };
    let ask = |ranking| {
        let query = Query { source: Source::Vector(numbers(9, 8).into()), settings: settings(ranking) };
        run(&bed.collection.snapshot(), &[query]).expect("answered").remove(0)
    };
    assert_eq!(ask(Ranking::Default).hits, ask(Ranking::Raw).hits);
    let default =
        DefaultCorrection { correction: name("IS(beta=20)"), version: 1, evidence: None, forced: true };
    bed.collection.set_default(&default).expect("forced");
    assert_eq!(ask(Ranking::Default), ask(Ranking::corrected("IS(beta=20)")));
    assert_ne!(ask(Ranking::Default).hits, ask(Ranking::Raw).hits);
    for raw in ["none", "raw", "RAW"] {
        assert_eq!(Ranking::named(Some(raw.to_owned()), 1.0), Ranking::Raw);
    }
    assert_eq!(Ranking::named(None, 1.0), Ranking::Default);
    assert_eq!(Ranking::named(Some("Auto".to_owned()), 0.5), Ranking::Auto { weight: 0.5 });
}

#[test]
fn auto_is_the_default_or_else_what_was_chosen_or_else_raw() {
    let bed = Bed::random(Metric::Cosine, false);
    let ask = |ranking| {
        let settings = Settings { ranking, search: Search::Exact, ..Settings::default() };
        let query = Query { source: Source::Vector(numbers(8, 8).into()), settings };
        essence(&run(&bed.collection.snapshot(), &[query]).expect("an answer")[0]).0
    };
    let auto = |weight| ask(Ranking::Auto { weight });
    let by = |correction: &str, weight| ask(Ranking::Corrected { correction: correction.to_owned(), weight });
    assert_eq!(auto(1.0), ask(Ranking::Raw));
    bed.fit(&["CSLS(k=3)", "IS(beta=20)"]);
    let chosen = FitInput {
        name: name("auto"),
        method: "IS(beta=20)".parse().expect("a method"),
        query_bank: Some(name("q")),
        gallery_bank: None,
    };
    bed.collection.fit(&[chosen]).expect("a fit");
    assert_eq!((auto(1.0), auto(0.5)), (by("IS(beta=20)", 1.0), by("IS(beta=20)", 0.5)));
    assert_ne!(auto(1.0), ask(Ranking::Raw));
    let correction = name("CSLS(k=3)");
    let default = DefaultCorrection { correction, version: 1, evidence: None, forced: true };
    bed.collection.set_default(&default).expect("forced");
    assert_eq!((auto(1.0), auto(0.5)), (by("CSLS(k=3)", 1.0), by("CSLS(k=3)", 0.5)));
    assert_eq!(by("auto", 1.0), by("IS(beta=20)", 1.0), "a name is a name to those who have it from a list");
}
