//! Methods whose score is no weighted sum, through every question that can be asked.

use dehub_eval::{Measure, Qrels};
use dehub_query::{
    Evidence, LabelledQuery, Query, QueryError, Ranking, Response, Search, Settings, Source, TuneOptions,
    compare, evaluate, explain, hubness, plan, point_biases, run, tune,
};
use dehub_vector::{Dim, Metric, PointId, Vector};

use crate::{Bed, numbers, query};

const METHODS: [&str; 4] = ["GC(k=20)", "RatioMargin(k=4)", "MP2", "DualSoftmax(beta=20)"];

fn bed(metric: Metric, with_graph: bool) -> Bed {
    let bed = Bed::random(metric, with_graph);
    bed.fit(methods(metric));
    bed
}

fn methods(metric: Metric) -> &'static [&'static str] {
    match metric {
        Metric::Cosine | Metric::Dot => &METHODS,
        Metric::Euclidean => &["GC(k=20)", "MP2"],
    }
}

/// Rows and the bits of scores.
fn essence(response: &Response) -> Vec<(u32, u32)> {
    response.hits.iter().map(|hit| (hit.row, hit.score.to_bits())).collect()
}

#[test]
fn a_mixed_batch_answers_bit_for_bit_as_its_queries_alone() {
    for (metric, with_graph) in
        [(Metric::Cosine, false), (Metric::Cosine, true), (Metric::Dot, true), (Metric::Euclidean, false)]
    {
        let bed = bed(metric, with_graph);
        let snapshot = bed.collection.snapshot();
        let corrections = methods(metric).iter().copied().map(Some).chain([None]);
        let mut queries: Vec<Query> = numbers(3, 40 * 8)
            .chunks_exact(8)
            .zip(corrections.clone().cycle())
            .map(|(vector, correction)| query(vector, 7, correction, Search::Auto))
            .collect();
        let by_point = |(id, correction): (u64, Option<&str>)| Query {
            source: Source::Point(PointId::Number(id)),
            ..query(&[], 7, correction, Search::Auto)
        };
        queries.extend((0..12).zip(corrections.cycle()).map(by_point));
        let together = run(&snapshot, &queries).expect("answers");
        for (one, together) in queries.iter().zip(&together) {
            let alone = run(&snapshot, std::slice::from_ref(one)).expect("an answer").remove(0);
            assert_eq!(essence(&alone), essence(together), "{metric} {one:?}");
        }
    }
}

#[test]
fn hits_have_the_score_of_the_method_and_no_bias() {
    for (metric, with_graph) in [(Metric::Cosine, false), (Metric::Cosine, true), (Metric::Euclidean, true)] {
        let bed = bed(metric, with_graph);
        let snapshot = bed.collection.snapshot();
        for &method in methods(metric) {
            for vector in numbers(4, 10 * 8).chunks_exact(8) {
                let ask = |search| {
                    run(&snapshot, &[query(vector, 20, Some(method), search)]).expect("an answer").remove(0)
                };
                let (found, exact) = (ask(Search::Graph { effort: 300 }), ask(Search::Exact));
                assert_eq!(essence(&found), essence(&exact), "a beam as wide as the gallery: {method}");
                let in_order = |a: &dehub_query::Hit, b: &dehub_query::Hit| {
                    let key = |hit: &dehub_query::Hit| (hit.score, hit.raw_score);
                    key(a) > key(b) || (key(a) == key(b) && a.row < b.row)
                };
                assert!(found.hits.is_sorted_by(in_order), "{method}");
                assert!(found.hits.iter().all(|hit| hit.bias.is_none() && hit.scale.is_none()));
                let ranks = found.hits.iter().all(|hit| hit.score <= 0.0 && hit.score.fract() == 0.0);
                assert_eq!(ranks, method.starts_with("GC"), "{method}: ranks are whole");
            }
        }
    }
}

#[test]
fn a_point_is_left_out_of_its_own_answer_and_of_its_own_neighbours() {
    for with_graph in [false, true] {
        let bed = bed(Metric::Cosine, with_graph);
        let snapshot = bed.collection.snapshot();
        for method in METHODS {
            for id in [0_u32, 17, 299] {
                let by_point = Query {
                    source: Source::Point(PointId::Number(u64::from(id))),
                    ..query(&[], 10, Some(method), Search::Graph { effort: 300 })
                };
                let found = run(&snapshot, std::slice::from_ref(&by_point)).expect("an answer").remove(0);
                assert_eq!(found.hits.len(), 10);
                assert!(found.hits.iter().all(|hit| hit.row != id));
                let settings = Settings { search: Search::Exact, ..by_point.settings };
                let exact = Query { settings, ..by_point };
                let exact = run(&snapshot, &[exact]).expect("an answer").remove(0);
                assert_eq!(essence(&found), essence(&exact), "{method} {id}");
            }
        }
    }
}

#[test]
fn a_plan_says_how_candidates_are_found_and_what_ranks_them() {
    let exact = "exact scan of 300 points (exact search was asked for) > score each by";
    let walk = "graph walk, effort 128, of 300 points >";
    let cases = [
        ("GC(k=20)", Search::Exact, 5, format!("{exact} GC(k=20) (GC(k=20)@1) > best 5 of 1 queries")),
        ("MP2", Search::Exact, 5, format!("{exact} MP2 (MP2@1) > best 5 of 1 queries")),
        (
            "GC(k=20)",
            Search::Auto,
            5,
            format!(
                "{walk} threshold sweep, 100 candidates a walk > rerank by GC(k=20) (GC(k=20)@1) > best 5 of 1 queries"
            ),
        ),
        (
            "RatioMargin(k=4)",
            Search::Auto,
            5,
            format!(
                "{walk} Dinkelbach iteration, 100 candidates a walk > rerank by RatioMargin(k=4) \
                 (RatioMargin(k=4)@1) > best 5 of 1 queries"
            ),
        ),
        (
            "MP2",
            Search::Auto,
            20,
            format!("{walk} 200 candidates by ZScore > rerank by MP2 (MP2@1) > best 20 of 1 queries"),
        ),
        (
            "DualSoftmax(beta=20,depth=30)",
            Search::Auto,
            5,
            format!(
                "{walk} 30 candidates by IS > rerank by DualSoftmax(beta=20,depth=30) \
                 (DualSoftmax(beta=20,depth=30)@1) > best 5 of 1 queries"
            ),
        ),
    ];
    let bed = bed(Metric::Cosine, true);
    bed.fit(&["DualSoftmax(beta=20,depth=30)"]);
    for (method, search, limit, wanted) in cases {
        let settings = Settings {
            limit: Some(limit),
            ranking: Ranking::corrected(method),
            search,
            ..Settings::default()
        };
        let found = plan(&bed.collection.snapshot(), &settings, 1).expect("a plan");
        assert_eq!(found.to_string(), wanted);
    }
}

#[test]
fn a_strength_is_refused_but_for_none_and_all() {
    let bed = bed(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    for method in METHODS {
        let settings = |weight| Settings {
            ranking: Ranking::Corrected { correction: method.to_owned(), weight },
            ..Settings::default()
        };
        assert!(plan(&snapshot, &settings(1.0), 1).expect("as fitted").correction.is_some());
        assert!(plan(&snapshot, &settings(0.0), 1).expect("raw").correction.is_none());
        let refusal = plan(&snapshot, &settings(0.5), 1).expect_err("no strength");
        assert!(matches!(refusal, QueryError::NoStrength { found: 0.5, .. }));
        assert!(refusal.to_string().starts_with(method), "{refusal}");
    }
}

fn labelled(count: usize) -> Vec<LabelledQuery> {
    let dim = Dim::new(8).expect("in range");
    let vector = |numbers: &[f32]| Vector::new(numbers, dim, Metric::Cosine).expect("not zero");
    let numbered = numbers(8, count * 8);
    let query =
        |(place, numbers)| LabelledQuery { id: format!("q{place}"), vector: vector(numbers), text: None };
    numbered.chunks_exact(8).enumerate().map(query).collect()
}

#[test]
fn measures_and_hubs_follow_from_full_searches() {
    let bed = bed(Metric::Cosine, false);
    bed.fit(&["DIS(beta=20,k=1)"]);
    // Rows and points are numbered differently once something is deleted.
    bed.collection.delete(&[1.into(), 10.into(), 20.into()]).expect("deleted");
    let snapshot = bed.collection.snapshot();
    let queries = labelled(60);
    let judged: String = (0..60).map(|place| format!("q{place} 0 {} 1\n", place * 3)).collect();
    let qrels = Qrels::parse("qrels", &judged).expect("well formed");
    // One that is a weighted sum between those that are not.
    let named = [METHODS[0], METHODS[1], "DIS(beta=20,k=1)", METHODS[2], METHODS[3]];
    let rankings = named.map(Ranking::corrected);
    let table: [Measure; 1] = ["MnR".parse().expect("a measure")];
    let evaluation = evaluate(&snapshot, &queries, &qrels, &rankings, &table).expect("measured");
    let vectors: Vec<Vector> = queries.iter().map(|query| query.vector.clone()).collect();
    let hubs = hubness(&snapshot, &vectors, &rankings, 5, 3).expect("counted");
    for ((method, measured), hubs) in named.into_iter().zip(&evaluation.rows[1..]).zip(&hubs) {
        let mut counts = vec![0_u32; 300];
        let rank = |(place, labelled): (usize, &LabelledQuery)| {
            let question = query(labelled.vector.as_slice(), 297, Some(method), Search::Exact);
            let hits = run(&snapshot, &[question]).expect("an answer").remove(0).hits;
            hits[..5].iter().for_each(|hit| counts[hit.row as usize] += 1);
            1 + hits.iter().position(|hit| hit.row as usize == place * 3).expect("every point is ranked")
        };
        let ranks: Vec<usize> = queries.iter().enumerate().map(rank).collect();
        let mean = ranks.iter().sum::<usize>() as f64 / 60.0;
        let found = measured.measures.iter().find(|(name, _)| name == "MnR").expect("measured").1;
        assert!((found - mean).abs() < 1e-12, "{method}: {found} {mean}");
        assert!(hubs.hubs.iter().all(|&(hub, count)| counts[hub as usize] == count), "{method}");
        assert_eq!(hubs.hubs[0].1, counts.iter().copied().max().expect("there are points"));
    }
    let change = compare(&snapshot, &vectors, &named, 5).expect("compared");
    assert!(change.iter().zip(&hubs).all(|(change, hubs)| change.after.occurrence == hubs.occurrence));
}

#[test]
fn they_are_explained_tuned_among_and_have_no_biases_to_list() {
    let bed = bed(Metric::Cosine, true);
    bed.fit(&["IS(beta=20)"]);
    let snapshot = bed.collection.snapshot();
    let labels: Vec<String> = point_biases(&snapshot, 3).into_iter().map(|bias| bias.label).collect();
    assert_eq!(labels, ["IS(beta=20)"]);
    for method in METHODS {
        let question = query(&numbers(6, 8), 10, Some(method), Search::Exact);
        let raw = Query {
            settings: Settings { ranking: Ranking::Raw, limit: Some(300), ..question.settings.clone() },
            ..question.clone()
        };
        let raw = run(&snapshot, &[raw]).expect("an answer").remove(0);
        let explanation = explain(&snapshot, &question).expect("an explanation");
        for (hit, rank) in explanation.corrected.hits.iter().zip(&explanation.raw_ranks) {
            assert_eq!(raw.hits[*rank as usize - 1].row, hit.row, "{method}");
        }
    }
    let corrections: Vec<_> = snapshot.corrections().cloned().collect();
    let vectors: Vec<Vector> = labelled(120).into_iter().map(|query| query.vector).collect();
    let options = TuneOptions { rounds: 100, ..TuneOptions::default() };
    let report = tune(&snapshot, &corrections, Evidence::Unlabelled(&vectors), &options).expect("tuned");
    let rankings: Vec<Ranking> =
        corrections.iter().map(|it| Ranking::corrected(it.info().name.as_str())).collect();
    let rows = hubness(&snapshot, &vectors, &rankings, 10, 0).expect("counted");
    for (tuned, row) in report.rows.iter().zip(&rows) {
        assert!((tuned.robin_hood - row.occurrence.robin_hood()).abs() < 1e-12, "{}", row.label);
    }
}
