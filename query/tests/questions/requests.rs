//! Requests against what their words say, worked out in 64 bits from the vectors and payloads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dehub_index::{Deadline, Payload, PointInput, Snapshot};
use dehub_query::{
    Answered, Filter, Found, Fusion, GroupKey, Grouping, Kind, OrderBy, Pair, QueryError, Ranking, Request,
    Settings, Source, Strategy, answer, group, matrix, run,
};
use dehub_vector::{Metric, PointId};

use crate::{Bed, numbers, query};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

/// Points of a bed whose payloads are made of their ids.
const POINTS: u64 = 300;

/// 300 points with payloads, whose rows are 300 more than their ids.
fn bed(metric: Metric, with_graph: bool) -> Bed {
    let bed = Bed::random(metric, with_graph);
    let point = |(vector, id): (&[f32], u64)| {
        let tag = ["a", "b", "c", "d", "e", "f", "g"][usize::try_from(id * id % 7).expect("small")];
        let many: Vec<u64> = (0..id % 4).map(|step| (id + 5 * step) % 11).collect();
        let odd = if id % 5 == 0 { "true".to_owned() } else { (id % 3).to_string() };
        let json = format!(
            r#"{{"tag": "{tag}", "in": {{"many": {many:?}}}, "odd": {odd}, "n": {}}}"#,
            (id * 37) % 101
        );
        let payload = if id % 10 == 9 { "{}" } else { &json };
        PointInput {
            id: PointId::Number(id),
            vector: vector.to_vec().into(),
            payload: Some(Payload::parse(payload).expect("an object")),
            text: None,
            named: Vec::new(),
        }
    };
    let vectors = numbers(1, 300 * 8);
    let points: Vec<PointInput> = vectors.chunks_exact(8).zip(0..).map(point).collect();
    bed.collection.upsert(&points).expect("valid points");
    bed.fit(&["IS(beta=20)", "DIS(beta=20,k=1)"]);
    bed
}

fn row(id: u64) -> u32 {
    u32::try_from(id + POINTS).expect("few points")
}

fn point(id: u64) -> Source {
    Source::Point(PointId::Number(id))
}

fn vector(seed: u64) -> Source {
    Source::Vector(numbers(seed, 8).into())
}

fn settings(limit: usize) -> Settings {
    Settings { limit: Some(limit), ranking: Ranking::Raw, ..Settings::default() }
}

fn only(ids: impl Iterator<Item = u64>) -> Option<Arc<Filter>> {
    Some(Arc::new(Filter::only(ids.map(PointId::Number).collect())))
}

fn one(snapshot: &Arc<Snapshot>, request: &Request) -> Answered {
    let answered = answer(snapshot, &snapshot.scope(), std::slice::from_ref(request));
    answered.expect("an answer").remove(0)
}

/// The core score of a row for an example: `sim`, or `−‖q − p‖²`.
fn core(snapshot: &Snapshot, example: &Source, row: u32) -> f64 {
    let metric = snapshot.config().metric;
    let wide = |numbers: &[f32]| numbers.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let mut query = match example {
        Source::Vector(numbers) => wide(numbers),
        Source::Point(id) => wide(snapshot.vector(snapshot.find(id).expect("readable").expect("there"))),
    };
    if metric == Metric::Cosine {
        let norm = query.iter().map(|part| part * part).sum::<f64>().sqrt();
        query.iter_mut().for_each(|part| *part /= norm);
    }
    let point = wide(snapshot.vector(row));
    let pairs = query.iter().zip(&point);
    match metric {
        Metric::Cosine | Metric::Dot => pairs.map(|(left, right)| left * right).sum(),
        Metric::Euclidean => -pairs.map(|(left, right)| (left - right).powi(2)).sum::<f64>(),
    }
}

fn sigmoid(x: f64) -> f64 {
    x / (1.0 + x.abs())
}

/// The words of a kind, from the core scores.
fn wanted(kind: &Kind, core: &dyn Fn(&Source) -> f64) -> f64 {
    let best = |examples: &[Source]| examples.iter().map(core).fold(f64::NEG_INFINITY, f64::max);
    let sum = |examples: &[Source]| examples.iter().map(core).sum::<f64>();
    match kind {
        Kind::Recommend { positive, negative, strategy: Strategy::SumScores } => {
            sum(positive) - sum(negative)
        }
        Kind::Recommend { positive, negative, strategy: Strategy::BestScore } => {
            let (like, unlike) = (best(positive), best(negative));
            if like > unlike { 0.5 * (1.0 + sigmoid(like)) } else { -0.5 * (1.0 + sigmoid(unlike)) }
        }
        Kind::Discover { target, context } => {
            let side = |pair: &Pair| if core(&pair.positive) > core(&pair.negative) { 1.0 } else { -1.0 };
            context.iter().map(side).sum::<f64>() + 0.5 * (1.0 + sigmoid(core(target)))
        }
        Kind::Context(pairs) => pairs
            .iter()
            .map(|pair| sigmoid((core(&pair.positive) - core(&pair.negative) - 1.192_092_9e-7).min(0.0)))
            .sum(),
        other @ (Kind::ById
        | Kind::OrderBy(_)
        | Kind::Sample { .. }
        | Kind::Nearest(_)
        | Kind::Recommend { .. }
        | Kind::Feedback(_)
        | Kind::Text(_)
        | Kind::Fusion(_)) => panic!("{other:?} is not made of several examples"),
    }
}

/// Requests by several examples, each with the ids of those.
fn by_examples() -> Vec<(Kind, Vec<u64>)> {
    let pair = |positive, negative| Pair { positive, negative };
    let mut kinds = Vec::new();
    for strategy in [Strategy::BestScore, Strategy::SumScores] {
        for (positive, negative, ids) in [
            (vec![point(3)], vec![], vec![3]),
            (vec![vector(51), point(7)], vec![point(11), vector(52)], vec![7, 11]),
            (vec![], vec![point(5), vector(53)], vec![5]),
        ] {
            kinds.push((Kind::Recommend { positive, negative, strategy }, ids));
        }
    }
    let context = vec![pair(point(20), vector(54)), pair(vector(55), point(21)), pair(point(22), point(23))];
    kinds.push((Kind::Discover { target: vector(56), context: context.clone() }, vec![20, 21, 22, 23]));
    kinds.push((Kind::Discover { target: point(30), context: Vec::new() }, vec![30]));
    kinds.push((Kind::Context(context), vec![20, 21, 22, 23]));
    kinds
}

/// Whether hits are the best of all rows but some by a score, each with its score.
fn check(label: &str, hits: &[Found], left_out: &[u64], limit: usize, score: &dyn Fn(u32) -> f64) {
    let rows = (0..POINTS).filter(|id| !left_out.contains(id)).map(row);
    let mut scores: Vec<f64> = rows.map(score).collect();
    scores.sort_by(|left, right| right.total_cmp(left));
    assert_eq!(hits.len(), limit.min(scores.len()), "{label}");
    for (hit, best) in hits.iter().zip(scores) {
        let own = score(hit.row);
        assert!((f64::from(hit.score) - own).abs() < 2e-5, "{label}: {hit:?} {own}");
        assert!((own - best).abs() < 2e-5, "{label}: {hit:?} {own}, wanted {best}");
        assert!(!left_out.iter().any(|&id| row(id) == hit.row), "{label}: an example is no answer");
    }
}

#[test]
fn several_examples_rank_as_their_formulas_say() {
    for metric in METRICS {
        let bed = bed(metric, false);
        let snapshot = bed.collection.snapshot();
        for (kind, ids) in by_examples() {
            let answered = one(&snapshot, &Request::new(kind.clone(), settings(40)));
            let score = |row| wanted(&kind, &|example| core(&snapshot, example, row));
            check(&format!("{metric:?} {kind:?}"), &answered.hits, &ids, 40, &score);
            assert!(answered.is_exact && answered.hits.iter().all(|hit| hit.hit.is_none()));
        }
    }
}

#[test]
fn with_a_correction_each_example_gives_its_corrected_score() {
    for (metric, factor) in [(Metric::Cosine, 1.0), (Metric::Euclidean, 2.0)] {
        let bed = bed(metric, false);
        let snapshot = bed.collection.snapshot();
        for correction in ["IS(beta=20)", "DIS(beta=20,k=1)"] {
            for (kind, ids) in by_examples() {
                // A gate looks at the best of the points that may be answers.
                let filter = only((0..POINTS).filter(|id| !ids.contains(id)));
                let settings = Settings { ranking: Ranking::corrected(correction), ..settings(300) };
                let mut scores: HashMap<String, HashMap<u32, f64>> = HashMap::new();
                for source in kind.examples() {
                    let settings = Settings { filter: filter.clone(), ..settings.clone() };
                    let query = dehub_query::Query { source: source.clone(), settings };
                    let hits = run(&snapshot, &[query]).expect("an answer").remove(0).hits;
                    let by_row = hits.iter().map(|hit| (hit.row, factor * f64::from(hit.score)));
                    scores.insert(format!("{source:?}"), by_row.collect());
                }
                let score = |row| wanted(&kind, &|example| scores[&format!("{example:?}")][&row]);
                let answered = one(&snapshot, &Request::new(kind.clone(), settings));
                check(&format!("{correction} {kind:?}"), &answered.hits, &ids, 300, &score);
            }
        }
    }
}

#[test]
fn an_average_is_the_query_twice_the_mean_of_likes_less_that_of_unlikes() {
    for metric in METRICS {
        let bed = bed(metric, false);
        let snapshot = bed.collection.snapshot();
        let stored = |id: u64| snapshot.vector(row(id)).to_vec();
        let given = numbers(61, 8);
        let kind = Kind::Recommend {
            positive: vec![point(4), Source::Vector(given.clone().into())],
            negative: vec![point(9)],
            strategy: Strategy::AverageVector,
        };
        let average: Vec<f32> = (0..8).map(|at| stored(4)[at] + given[at] - stored(9)[at]).collect();
        for correction in [Ranking::Raw, Ranking::corrected("IS(beta=20)")] {
            let settings = Settings { ranking: correction, ..settings(20) };
            let found = one(&snapshot, &Request::new(kind.clone(), settings.clone()));
            let filter = only((0..POINTS).filter(|id| ![4, 9].contains(id)));
            let settings = Settings { filter, ..settings };
            let by_hand = Request::new(Kind::Nearest(Source::Vector(average.clone().into())), settings);
            let by_hand = one(&snapshot, &by_hand);
            for (found, by_hand) in found.hits.iter().zip(&by_hand.hits) {
                assert_eq!(found.row, by_hand.row);
                assert!((found.score - by_hand.score).abs() < 1e-5, "{found:?} {by_hand:?}");
            }
        }
    }
}

#[test]
fn a_raw_euclidean_score_is_the_distance_and_a_threshold_is_below_it() {
    let bed = bed(Metric::Euclidean, true);
    let snapshot = bed.collection.snapshot();
    let source = vector(71);
    let all = one(&snapshot, &Request::new(Kind::Nearest(source.clone()), settings(300)));
    assert!(all.is_distance);
    assert!(all.hits.is_sorted_by(|left, right| left.score <= right.score));
    for hit in &all.hits {
        let distance = (-core(&snapshot, &source, hit.row)).sqrt();
        assert!((f64::from(hit.score) - distance).abs() < 1e-6, "{hit:?} {distance}");
        let raw = f64::from(hit.hit.expect("of one query").raw_score);
        assert!((raw + distance * distance / 2.0).abs() < 1e-5, "{hit:?} {distance}");
    }
    let within = |threshold, ranking: Ranking| {
        let settings = Settings { ranking, ..settings(300) };
        let request = Request {
            score_threshold: Some(threshold),
            ..Request::new(Kind::Nearest(source.clone()), settings)
        };
        one(&snapshot, &request).hits
    };
    assert_eq!(within(all.hits[7].score, Ranking::Raw), all.hits[..7]);
    let corrected = Request::new(
        Kind::Nearest(source.clone()),
        Settings { ranking: Ranking::corrected("IS(beta=20)"), ..settings(300) },
    );
    let corrected = one(&snapshot, &corrected);
    assert!(!corrected.is_distance && corrected.hits.is_sorted_by(|left, right| left.score >= right.score));
    assert_eq!(within(corrected.hits[7].score, Ranking::corrected("IS(beta=20)")), corrected.hits[..7]);
    let near =
        one(&snapshot, &Request::new(Kind::Nearest(Source::Vector(numbers(1, 8).into())), settings(1)));
    assert!(near.hits[0].score < 1e-6, "a point is at no distance of itself: {near:?}");
}

#[test]
fn prefetches_are_searched_within_the_filters_above_and_ranked_or_fused_alone() {
    for with_graph in [false, true] {
        let bed = bed(Metric::Cosine, with_graph);
        let snapshot = bed.collection.snapshot();
        let above = |id: u64| id.is_multiple_of(2);
        let below = |id: u64| !id.is_multiple_of(3);
        let filtered = |limit, filter| Settings { filter, ..settings(limit) };
        let leaf =
            Request::new(Kind::Nearest(vector(81)), filtered(30, only((0..POINTS).filter(|&id| below(id)))));
        let by_point = Request::new(Kind::Nearest(point(8)), settings(20));
        let inner = Request {
            prefetch: vec![leaf.clone(), by_point.clone()],
            ..Request::new(Kind::Nearest(vector(82)), settings(15))
        };
        let outer = Request {
            prefetch: vec![inner, by_point],
            ..Request::new(
                Kind::Fusion(Fusion::Rrf { k: 2, weights: None }),
                filtered(12, only((0..POINTS).filter(|&id| above(id)))),
            )
        };
        let found = one(&snapshot, &outer);

        let best = |source: &Source, ids: Vec<u64>, limit: usize| -> Vec<u64> {
            let mut ids: Vec<(f64, u64)> =
                ids.into_iter().map(|id| (core(&snapshot, source, row(id)), id)).collect();
            ids.sort_by(|left, right| right.0.total_cmp(&left.0));
            ids.into_iter().map(|(_, id)| id).take(limit).collect()
        };
        let even = || (0..POINTS).filter(|&id| above(id));
        let first = best(&vector(81), even().filter(|&id| below(id)).collect(), 30);
        let second = best(&point(8), even().filter(|&id| id != 8).collect(), 20);
        let both: std::collections::BTreeSet<u64> = first.into_iter().chain(second.iter().copied()).collect();
        let inner = best(&vector(82), both.into_iter().collect(), 15);
        let mut fused: HashMap<u64, f64> = HashMap::new();
        for list in [inner, second] {
            for (id, rank) in list.into_iter().zip(1_u32..) {
                *fused.entry(id).or_default() += 1.0 / (f64::from(rank) + 1.0);
            }
        }
        let mut best: Vec<f64> = fused.values().copied().collect();
        best.sort_by(|left, right| right.total_cmp(left));
        assert_eq!(found.hits.len(), 12);
        for (hit, best) in found.hits.iter().zip(best) {
            let own = fused[&u64::from(hit.row - 300)];
            assert!(
                (f64::from(hit.score) - own).abs() < 1e-6 && (own - best).abs() < 1e-12,
                "{hit:?} {own} {best}"
            );
        }
    }
}

#[test]
fn groups_are_those_of_the_ranking_of_all_points() {
    for with_graph in [false, true] {
        let bed = bed(Metric::Cosine, with_graph);
        let snapshot = bed.collection.snapshot();
        let keys = |id: u64, path: &str| -> Vec<String> {
            if id % 10 == 9 {
                return Vec::new();
            }
            let many = || (0..id % 4).map(|step| ((id + 5 * step) % 11).to_string());
            match path {
                "tag" => vec![
                    ["a", "b", "c", "d", "e", "f", "g"][usize::try_from(id * id % 7).expect("small")].into(),
                ],
                "in.many" | "in.many[]" => many().collect(),
                "odd" if !id.is_multiple_of(5) => vec![(id % 3).to_string()],
                _ => Vec::new(),
            }
        };
        let source = vector(91);
        let search = dehub_query::Search::Exact;
        let request = Request::new(Kind::Nearest(source.clone()), Settings { search, ..settings(1) });
        let mut ids: Vec<u64> = (0..POINTS).collect();
        ids.sort_by(|&left, &right| {
            core(&snapshot, &source, row(right)).total_cmp(&core(&snapshot, &source, row(left)))
        });
        for path in ["tag", "in.many", "in.many[]", "odd", "absent"] {
            for (groups, size) in [(1, 1), (3, 2), (5, 40), (100, 300)] {
                let mut wanted: Vec<(String, Vec<u32>)> = Vec::new();
                for &id in &ids {
                    for key in keys(id, path) {
                        if !wanted.iter().any(|(own, _)| *own == key) {
                            wanted.push((key.clone(), Vec::new()));
                        }
                        let group = wanted.iter_mut().find(|(own, _)| *own == key).expect("just added");
                        if group.1.len() < size {
                            group.1.push(row(id));
                        }
                    }
                }
                wanted.truncate(groups);
                let grouping = Grouping { key: path.parse().expect("a path"), groups, size };
                let (found, _) = group(&snapshot, &snapshot.scope(), &request, &grouping).expect("an answer");
                let found: Vec<(String, Vec<u32>)> = found
                    .into_iter()
                    .map(|group| {
                        let key = match group.key {
                            GroupKey::Number(number) => number.to_string(),
                            GroupKey::Text(text) => text,
                        };
                        (key, group.hits.iter().map(|hit| hit.row).collect())
                    })
                    .collect();
                assert_eq!(found, wanted, "{path} {groups} {size}");
            }
        }
    }
}

#[test]
fn points_are_listed_by_id_by_value_and_at_random() {
    let bed = bed(Metric::Dot, false);
    let text = PointInput {
        id: PointId::text("x").expect("short"),
        vector: numbers(5, 8).into(),
        payload: None,
        text: None,
        named: Vec::new(),
    };
    bed.collection.upsert(&[text]).expect("valid");
    let snapshot = bed.collection.snapshot();
    let list = |kind: Kind, offset: usize, limit: usize, filter| {
        let request = Request { offset, ..Request::new(kind, Settings { filter, ..settings(limit) }) };
        one(&snapshot, &request).hits
    };
    let ids = |hits: &[Found]| hits.iter().map(|hit| u64::from(hit.row - 300)).collect::<Vec<_>>();
    assert_eq!(ids(&list(Kind::ById, 2, 3, None)), [2, 3, 4]);
    assert_eq!(ids(&list(Kind::ById, 298, 9, None)), [298, 299, 300], "strings come after numbers");
    assert_eq!(ids(&list(Kind::ById, 1, 9, only([9, 5, 7].into_iter()))), [7, 9]);

    let mut values: Vec<(u64, u64)> =
        (0..POINTS).filter(|id| id % 10 != 9).map(|id| ((id * 37) % 101, id)).collect();
    values.sort_unstable();
    let order = |descending, start_from| {
        Kind::OrderBy(OrderBy { key: "n".parse().expect("a path"), descending, start_from })
    };
    let up = list(order(false, None), 0, 300, None);
    assert_eq!(ids(&up), values.iter().map(|value| value.1).collect::<Vec<_>>());
    let start = dehub_query::OrderValue::Integer(40);
    let down = list(order(true, Some(start)), 0, 300, None);
    let wanted: Vec<u64> = values.iter().map(|value| value.0).filter(|&value| value <= 40).rev().collect();
    let found: Vec<u64> = ids(&down).into_iter().map(|id| (id * 37) % 101).collect();
    assert_eq!(found, wanted);

    let filter = only((0..POINTS).step_by(3));
    let drawn = list(Kind::Sample { seed: 4 }, 0, 40, filter.clone());
    let mut drawn = ids(&drawn);
    drawn.sort_unstable();
    drawn.dedup();
    assert!(drawn.len() == 40 && drawn.iter().all(|id| id % 3 == 0), "{drawn:?}");
    assert_eq!(list(Kind::Sample { seed: 4 }, 0, 900, filter).len(), 100);
}

#[test]
fn a_matrix_has_the_nearest_of_the_others_of_a_sample() {
    for metric in METRICS {
        let bed = bed(metric, false);
        let snapshot = bed.collection.snapshot();
        let filter = only((0..POINTS).step_by(9));
        let settings = Settings { filter, ..settings(4) };
        let rows = matrix(&snapshot, &snapshot.scope(), None, &settings, (12, 7)).expect("a matrix");
        assert_eq!(rows.len(), 12);
        assert!(rows.is_sorted_by(|left, right| left.id < right.id));
        for own in &rows {
            let others = rows.iter().map(|row| row.row).filter(|&row| row != own.row);
            let score = |row| core(&snapshot, &Source::Point(own.id.clone()), row);
            let mut best: Vec<f64> = others.map(score).collect();
            best.sort_by(|left, right| right.total_cmp(left));
            assert_eq!(own.nearest.len(), 4);
            for (found, best) in own.nearest.iter().zip(best) {
                let best = if metric == Metric::Euclidean { (-best).sqrt() } else { best };
                assert!((f64::from(found.score) - best).abs() < 1e-5, "{found:?} {best}");
            }
        }
        let few = Settings { filter: only([3].into_iter()), ..settings };
        assert!(matrix(&snapshot, &snapshot.scope(), None, &few, (12, 7)).expect("a matrix").is_empty());
    }
}

/// One request of each kind.
fn each_kind() -> Vec<Request> {
    let kinds = by_examples().into_iter().map(|(kind, _)| kind);
    let order = OrderBy { key: "n".parse().expect("a path"), descending: false, start_from: None };
    let others = [Kind::ById, Kind::OrderBy(order), Kind::Sample { seed: 1 }, Kind::Nearest(vector(99))];
    let mut requests: Vec<Request> =
        kinds.chain(others).map(|kind| Request::new(kind, settings(5))).collect();
    let prefetch = requests.clone();
    requests.push(Request { prefetch, ..Request::new(Kind::Fusion(Fusion::Dbsf), settings(5)) });
    requests
}

#[test]
fn an_empty_collection_answers_nothing_and_a_larger_limit_all_there_is() {
    let empty = Bed::new(Metric::Cosine, 8, &numbers(1, 8), &numbers(2, 8), false);
    empty.collection.delete(&[PointId::Number(0)]).expect("there");
    let snapshot = empty.collection.snapshot();
    let vectors = Kind::Context(vec![Pair { positive: vector(1), negative: vector(2) }]);
    let order = OrderBy { key: "n".parse().expect("a path"), descending: false, start_from: None };
    for kind in
        [Kind::ById, Kind::OrderBy(order), Kind::Sample { seed: 1 }, Kind::Nearest(vector(1)), vectors]
    {
        let request = Request::new(kind, settings(5));
        assert!(one(&snapshot, &request).hits.is_empty());
        let fused =
            Request { prefetch: vec![request], ..Request::new(Kind::Fusion(Fusion::Dbsf), settings(5)) };
        assert!(one(&snapshot, &fused).hits.is_empty());
    }
    let bed = Bed::random(Metric::Cosine, true);
    let all = query(&numbers(3, 8), 60_000, None, dehub_query::Search::Auto);
    assert_eq!(run(&bed.collection.snapshot(), &[all]).expect("an answer")[0].hits.len(), 300);
}

#[test]
fn a_request_that_is_late_is_an_error_of_every_kind() {
    let bed = bed(Metric::Cosine, true);
    let snapshot = bed.collection.snapshot();
    let past = Deadline::after(Instant::now(), Duration::ZERO);
    let scope = snapshot.scope().until(Some(past));
    for request in each_kind() {
        let error = answer(&snapshot, &scope, std::slice::from_ref(&request)).expect_err("late");
        assert!(matches!(error.source, QueryError::TimeUp(_)), "{request:?}: {error}");
        assert_eq!(one(&snapshot, &request).hits.len(), 5, "{request:?}");
    }
}

#[test]
fn a_fault_is_told_with_its_request_its_prefetch_and_its_example() {
    let bed = bed(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let good = Request::new(Kind::Nearest(vector(1)), settings(5));
    let within = |bad: Request| {
        let inner = Request { prefetch: vec![good.clone(), bad], ..good.clone() };
        let outer = Request { prefetch: vec![inner], ..good.clone() };
        answer(&snapshot, &snapshot.scope(), &[good.clone(), outer]).expect_err("a fault")
    };
    let recommend = |positive: Vec<Source>, strategy| {
        Request::new(Kind::Recommend { positive, negative: vec![point(1)], strategy }, settings(5))
    };
    let fusion = |fusion| Request::new(Kind::Fusion(fusion), settings(5));
    let fused = |weights: Vec<f32>, k| Request {
        prefetch: vec![good.clone()],
        ..fusion(Fusion::Rrf { k, weights: Some(weights) })
    };
    let malformed = [
        fusion(Fusion::Dbsf),
        fused(vec![1.0, 1.0], 2),
        fused(vec![1.0], 0),
        recommend(Vec::new(), Strategy::AverageVector),
        Request::new(Kind::Context(Vec::new()), settings(5)),
    ];
    for bad in malformed {
        let error = within(bad);
        assert!(matches!(error.source, QueryError::Malformed { .. }), "{error}");
        assert_eq!((error.request, error.trail), (1, vec![0, 1]));
    }
    for strategy in [Strategy::AverageVector, Strategy::BestScore, Strategy::SumScores] {
        let error = within(recommend(vec![point(2), point(2000)], strategy));
        assert!(matches!(error.source, QueryError::UnknownPoint { place: 1, .. }), "{error}");
        let error = within(recommend(vec![point(2), Source::Vector(vec![1.0].into())], strategy));
        assert!(matches!(error.source, QueryError::Vector { place: 1, .. }), "{error}");
        assert_eq!((error.request, error.trail), (1, vec![0, 1]));
    }
    let zero = Request::new(Kind::Nearest(vector(1)), settings(0));
    assert!(matches!(within(zero).source, QueryError::Limit { found: 0 }));
    let named = Request { using: Some("x".into()), ..good.clone() };
    assert!(matches!(within(named).source, QueryError::Space(_)));
    let short = Request::new(Kind::Nearest(Source::Vector(vec![1.0].into())), settings(5));
    let error = answer(&snapshot, &snapshot.scope(), &[good.clone(), fusion(Fusion::Dbsf), short]);
    assert_eq!(error.expect_err("a fault").request, 1, "what is asked is looked at first");
}
