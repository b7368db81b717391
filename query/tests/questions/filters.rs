//! Filtered searches against brute force over the points that a filter allows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dehub_index::{Deadline, Snapshot};
use dehub_query::{
    Condition, Engine, Filter, Method, Query, QueryError, Response, Search, Settings, Source, explain, plan,
    run, run_within,
};
use dehub_vector::{Metric, PointId, Vector};

use crate::{Bed, numbers, query};

const METHODS: [&str; 11] = [
    "IS(beta=20)",
    "CSLS(k=5)",
    "ZScore",
    "NICDM(k=3)",
    "DIS(beta=20,k=1)",
    "DualDIS(b1=20,b2=5,k=1)",
    "SN(tau=0.1,n=5)",
    "GC(k=20)",
    "RatioMargin(k=4)",
    "MP2",
    "DualSoftmax(beta=20)",
];
const LIMIT: usize = 12;

/// A bed of 300 points, of which every eleventh is deleted after the graph was built.
fn bed(metric: Metric, with_graph: bool) -> (Bed, Vec<&'static str>) {
    let bed = Bed::random(metric, with_graph);
    let serves = |label: &&str| label.parse::<Method>().expect("a method").refuses(metric).is_none();
    let methods: Vec<_> = METHODS.into_iter().filter(serves).collect();
    bed.fit(&methods);
    let gone: Vec<PointId> = (0..300).step_by(11).map(PointId::Number).collect();
    bed.collection.delete(&gone).expect("they are there");
    (bed, methods)
}

fn ids(rows: &[u32]) -> Vec<PointId> {
    rows.iter().map(|&row| PointId::Number(u64::from(row))).collect()
}

fn filtered(query: Query, filter: &Filter) -> Query {
    let settings = Settings { filter: Some(Arc::new(filter.clone())), ..query.settings };
    Query { settings, ..query }
}

/// Filters, and whether each allows an id. Ids are rows; some are of no point.
fn filters() -> Vec<(&'static str, Filter)> {
    let pick = |seed: u64, share: f32| -> Vec<PointId> {
        let drawn = numbers(seed, 320);
        ids(&(0..320).filter(|&row| drawn[row as usize] < 2.0 * share - 1.0).collect::<Vec<_>>())
    };
    let conditions = |lists: Vec<Vec<PointId>>| lists.into_iter().map(Condition::HasId).collect();
    let of = |must: Vec<Vec<PointId>>, must_not: Vec<Vec<PointId>>| Filter {
        must: conditions(must),
        must_not: conditions(must_not),
        ..Filter::default()
    };
    let must = |lists: Vec<Vec<PointId>>| of(lists, Vec::new());
    vec![
        ("no condition", Filter::default()),
        ("all", must(vec![ids(&(0..300).collect::<Vec<_>>())])),
        ("none", must(vec![Vec::new()])),
        ("one", must(vec![ids(&[123])])),
        ("one deleted", must(vec![ids(&[22])])),
        ("few", must(vec![pick(31, 0.04)])),
        ("half", must(vec![pick(32, 0.5)])),
        ("most", must(vec![pick(33, 0.95)])),
        ("both of two", must(vec![pick(34, 0.8), pick(35, 0.7)])),
        ("all but some", of(Vec::new(), vec![pick(36, 0.1), pick(37, 0.2)])),
        ("some but some", of(vec![pick(38, 0.9)], vec![pick(39, 0.1)])),
    ]
}

fn but(ids: Vec<PointId>) -> Filter {
    Filter { must_not: vec![Condition::HasId(ids)], ..Filter::default() }
}

fn allows(filter: &Filter, row: u32) -> bool {
    let id = PointId::Number(u64::from(row));
    let has = |condition: &Condition| {
        let Condition::HasId(ids) = condition else { panic!("{condition:?} is not among these filters") };
        ids.contains(&id)
    };
    filter.must.iter().all(has) && !filter.must_not.iter().any(has)
}

fn similarity(metric: Metric, left: &[f32], right: &[f32]) -> f64 {
    let pairs = || left.iter().zip(right).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    match metric {
        Metric::Cosine | Metric::Dot => pairs().map(|(a, b)| a * b).sum(),
        Metric::Euclidean => -pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 2.0,
    }
}

/// What each allowed row scores, best first, and whether a gate is open. Scores that no filter changes are
/// those of a search without one.
fn brute(
    snapshot: &Snapshot,
    vector: &[f32],
    method: Option<&str>,
    filter: &Filter,
    own: Option<u32>,
) -> (Vec<(u32, f64)>, Option<bool>) {
    let metric = snapshot.config().metric;
    let query = Vector::new(vector, snapshot.config().dim, metric).expect("valid");
    let raw = |row: u32| similarity(metric, query.as_slice(), snapshot.vector(row));
    let rows: Vec<u32> = snapshot.rows().filter(|&row| allows(filter, row)).collect();
    let found = method.map(|method| snapshot.correction(method).expect("fitted"));
    let mut raw_order = rows.clone();
    raw_order.sort_by(|&a, &b| raw(b).total_cmp(&raw(a)));
    let others = rows.iter().copied().filter(|&row| Some(row) != own);
    let mut gate_open = None;
    let mut scored: Vec<(u32, f64)> = match (method, found) {
        (Some(method), Some(correction)) if method.starts_with("RatioMargin") => {
            let near = raw_order.iter().filter(|&&row| Some(row) != own).take(4).map(|&row| raw(row));
            let near: Vec<f64> = near.collect();
            let mean = near.iter().sum::<f64>() / near.len().max(1) as f64;
            let score = |row| {
                let of_point = f64::from(correction.columns()[0].value(row));
                raw(row) / (0.5 * (mean.max(1e-6) + of_point.max(1e-6)))
            };
            others.map(|row| (row, score(row))).collect()
        }
        (Some(method), Some(correction)) if correction.scorer().is_some() => {
            let all = query_all(snapshot, vector, method);
            let known = |row| all.iter().find(|hit| hit.0 == row).map(|hit| hit.1).expect("every point");
            others.map(|row| (row, known(row))).collect()
        }
        (_, Some(correction)) => {
            let open = correction.open(raw_order.first().copied());
            gate_open = correction.is_gated().then(|| open.contains(&true));
            let variant = correction.variant(&open, 1.0);
            let score = |row| f64::from(variant.scale(row)) * raw(row) - f64::from(variant.bias(row));
            others.map(|row| (row, score(row))).collect()
        }
        (_, None) => others.map(|row| (row, raw(row))).collect(),
    };
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    (scored, gate_open)
}

fn query_all(snapshot: &Snapshot, vector: &[f32], method: &str) -> Vec<(u32, f64)> {
    let all = query(vector, snapshot.len(), Some(method), Search::Exact);
    let response = run(snapshot, &[all]).expect("an answer").remove(0);
    response.hits.iter().map(|hit| (hit.row, f64::from(hit.score))).collect()
}

/// The hits are the best of `wanted`, but for what 32 bits cannot tell apart.
fn check(response: &Response, (wanted, gate_open): &(Vec<(u32, f64)>, Option<bool>), context: &str) {
    assert_eq!(response.hits.len(), LIMIT.min(wanted.len()), "{context}");
    for (hit, &(_, score)) in response.hits.iter().zip(wanted) {
        let slack = 2e-5 * (1.0 + score.abs());
        let (_, own) = wanted.iter().find(|&&(row, _)| row == hit.row).expect("a point that is allowed");
        assert!((f64::from(hit.score) - own).abs() <= slack, "{context}: {hit:?} scores {own}");
        assert!((own - score).abs() <= slack, "{context}: {hit:?} in the place of {score}");
    }
    let rows: std::collections::BTreeSet<u32> = response.hits.iter().map(|hit| hit.row).collect();
    assert_eq!(rows.len(), response.hits.len(), "{context}: a point is found once");
    assert_eq!(response.gate_open, *gate_open, "{context}");
}

#[test]
fn a_filtered_answer_is_the_best_of_what_the_filter_allows() {
    for (metric, with_graph) in
        [(Metric::Cosine, false), (Metric::Cosine, true), (Metric::Dot, false), (Metric::Euclidean, true)]
    {
        let (bed, methods) = bed(metric, with_graph);
        let snapshot = bed.collection.snapshot();
        let asked = numbers(40, 6 * 8);
        for method in methods.iter().copied().map(Some).chain([None]) {
            for (name, filter) in filters() {
                // With a beam as wide as the gallery a walk is exact.
                let searches = [Search::Exact, Search::Graph { effort: 300 }];
                let ask = |vector, search| filtered(query(vector, LIMIT, method, search), &filter);
                let queries: Vec<Query> = asked
                    .chunks_exact(8)
                    .flat_map(|vector| searches.map(|search| ask(vector, search)))
                    .collect();
                let responses = run(&snapshot, &queries).expect("answers");
                for (vector, responses) in asked.chunks_exact(8).zip(responses.chunks_exact(2)) {
                    let wanted = brute(&snapshot, vector, method, &filter, None);
                    for (response, search) in responses.iter().zip(searches) {
                        let context = format!("{metric} {method:?} {name} {search:?}");
                        check(response, &wanted, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn a_point_may_search_where_it_is_allowed_and_where_it_is_not() {
    let (bed, methods) = bed(Metric::Cosine, true);
    let snapshot = bed.collection.snapshot();
    for method in methods.into_iter().map(Some).chain([None]) {
        for (name, filter) in filters() {
            for own in [1, 123, 299] {
                let by_point = Query {
                    source: Source::Point(PointId::Number(u64::from(own))),
                    ..query(&[], LIMIT, method, Search::Auto)
                };
                let response = run(&snapshot, &[filtered(by_point, &filter)]).expect("an answer").remove(0);
                let wanted = brute(&snapshot, snapshot.vector(own), method, &filter, Some(own));
                check(&response, &wanted, &format!("{method:?} {name} {own}"));
            }
        }
    }
}

#[test]
fn a_walk_answers_only_with_what_a_filter_allows() {
    let bed = Bed::random(Metric::Cosine, true);
    bed.fit(&["IS(beta=20)", "DIS(beta=20,k=1)", "GC(k=20)"]);
    let snapshot = bed.collection.snapshot();
    let filter = but(ids(&(0..300).step_by(20).collect::<Vec<_>>()));
    for method in [None, Some("IS(beta=20)"), Some("DIS(beta=20,k=1)"), Some("GC(k=20)")] {
        let mut found = 0;
        for vector in numbers(41, 20 * 8).chunks_exact(8) {
            let asked = filtered(query(vector, LIMIT, method, Search::Graph { effort: 13 }), &filter);
            let response = run(&snapshot, &[asked]).expect("an answer").remove(0);
            assert_eq!(response.plan.engine, Engine::Graph { effort: 13 });
            assert_eq!(response.hits.len(), LIMIT);
            assert!(response.hits.iter().all(|hit| allows(&filter, hit.row)), "{method:?}");
            let (wanted, _) = brute(&snapshot, vector, method, &filter, None);
            let is_best = |row| wanted[..LIMIT].iter().any(|&(best, _)| best == row);
            found += response.hits.iter().filter(|hit| is_best(hit.row)).count();
        }
        assert!(found * 10 >= 20 * LIMIT * 8, "{method:?}: {found} of the best");
    }
}

#[test]
fn a_plan_says_how_many_points_a_filter_allows_and_how_they_are_searched() {
    let graph = Bed::random(Metric::Cosine, true);
    let plain = Bed::random(Metric::Cosine, false);
    let without = |rows: std::ops::Range<u32>| {
        let filter = but(ids(&rows.collect::<Vec<_>>()));
        Some(Arc::new(filter))
    };
    let wide = Search::Graph { effort: 12 };
    let cases = [
        (
            &graph,
            Search::Auto,
            0..270,
            "exact scan of the 30 of 300 points that the filter allows (scoring so few costs less than a walk)",
        ),
        (&graph, wide, 0..30, "graph walk, effort 12, of the 270 of 300 points that the filter allows"),
        (&graph, wide, 0..0, "graph walk, effort 12, of the 300 of 300 points that the filter allows"),
        (
            &graph,
            Search::Exact,
            0..30,
            "exact scan of the 270 of 300 points that the filter allows (exact search was asked for)",
        ),
        (
            &plain,
            Search::Auto,
            0..300,
            "exact scan of the 0 of 300 points that the filter allows (the collection has no graph)",
        ),
    ];
    for (bed, search, rows, wanted) in cases {
        let settings = Settings { limit: Some(5), search, filter: without(rows), ..Settings::default() };
        let plan = plan(&bed.collection.snapshot(), &settings, 1).expect("a plan");
        assert_eq!(plan.to_string(), format!("{wanted} > rank by raw similarity > best 5 of 1 queries"));
    }
}

#[test]
fn an_explanation_ranks_among_what_is_allowed() {
    let (bed, _) = bed(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let (_, filter) = filters().swap_remove(6);
    for (source, own) in
        [(Source::Vector(numbers(42, 8).into()), None), (Source::Point(PointId::Number(50)), Some(50))]
    {
        let vector = own.map_or_else(|| numbers(42, 8), |row| snapshot.vector(row).to_vec());
        let asked = Query { source, ..query(&[], LIMIT, Some("IS(beta=20)"), Search::Exact) };
        let explanation = explain(&snapshot, &filtered(asked, &filter)).expect("an explanation");
        let (raw, _) = brute(&snapshot, &vector, None, &filter, own);
        let ranks = explanation.corrected.hits.iter().map(|hit| {
            raw.iter().position(|&(row, _)| row == hit.row).and_then(|place| u32::try_from(place + 1).ok())
        });
        let found: Vec<Option<u32>> = explanation.raw_ranks.iter().copied().map(Some).collect();
        assert_eq!(found, ranks.collect::<Vec<_>>());
        assert_eq!(explanation.raw.hits[0].row, raw[0].0);
    }
}

#[test]
fn a_search_whose_time_is_up_has_no_answer() {
    let start = Instant::now();
    for with_graph in [false, true] {
        let (bed, methods) = bed(Metric::Cosine, with_graph);
        let snapshot = bed.collection.snapshot();
        for method in methods.into_iter().map(Some).chain([None]) {
            for search in [Search::Auto, Search::Exact] {
                let asked = query(&numbers(43, 8), LIMIT, method, search);
                let until = |limit| {
                    let scope = snapshot.scope().until(Some(Deadline::after(start, limit)));
                    run_within(&snapshot, &scope, std::slice::from_ref(&asked))
                };
                let error = until(Duration::ZERO).expect_err("no time at all");
                assert!(matches!(&error, QueryError::TimeUp(up) if up.limit == Duration::ZERO), "{error}");
                let hour = until(Duration::from_secs(3600)).expect("time enough");
                assert_eq!(hour, run(&snapshot, std::slice::from_ref(&asked)).expect("an answer"));
            }
        }
    }
}

#[test]
fn a_scope_holds_the_queries_of_a_batch_each_with_its_own_filter() {
    let (bed, _) = bed(Metric::Cosine, true);
    let snapshot = bed.collection.snapshot();
    let scope = snapshot.scope().only(50..200);
    let vector = numbers(44, 8);
    let asked: Vec<Query> = filters()
        .iter()
        .map(|(_, filter)| filtered(query(&vector, LIMIT, None, Search::Auto), filter))
        .collect();
    let responses = run_within(&snapshot, &scope, &asked).expect("answers");
    for (response, (name, mut filter)) in responses.iter().zip(filters()) {
        filter.must.push(Condition::HasId(ids(&(50..200).collect::<Vec<_>>())));
        check(response, &brute(&snapshot, &vector, None, &filter, None), name);
    }
}
