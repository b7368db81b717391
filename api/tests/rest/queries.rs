//! Queries of every kind over HTTP: the forms of bodies and answers. What they mean is tested with the engine.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// Nine points on a quarter of a circle, three of each tag; a query bank; a correction of it.
fn fill(client: &Client, distance: &str) {
    let config = json!({"vectors": {"size": 2, "distance": distance}});
    client.did("PUT", "/collections/c", &config);
    let point = |id: u32| {
        let angle = f64::from(id) * std::f64::consts::FRAC_PI_2 / 8.0;
        let tag = ["a", "b", "c"][id as usize % 3];
        let payload = json!({"tag": tag, "in": {"n": 10 - id, "all": [id, id + 1]}});
        json!({"id": id, "vector": [angle.cos(), angle.sin()], "payload": payload})
    };
    let points: Vec<Value> = (0..9).map(point).collect();
    client.did("PUT", "/collections/c/points", &json!({"points": points}));
    let bank = json!({"kind": "query", "vectors": [[0.75, 0.65], [0.65, 0.75], [0.7, 0.7]]});
    client.did("PUT", "/collections/c/banks/queries", &bank);
    let fit = json!({"method": "IS", "parameters": {"beta": 20}, "query_bank": "queries"});
    client.did("PUT", "/collections/c/corrections/is", &fit);
}

fn ask(client: &Client, path: &str, body: &Value) -> Value {
    client.did("POST", &format!("/collections/c/points/{path}"), body)
}

fn ids(points: &Value) -> Value {
    points.as_array().expect("points").iter().map(|point| point["id"].clone()).collect()
}

#[test]
fn every_kind_of_query_answers_with_points_that_a_client_of_qdrant_can_read() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "Cosine");
    let cases = [
        (json!({"query": [1, 0], "limit": 3}), json!([0, 1, 2])),
        (json!({"query": 4, "limit": 2, "filter": {"must_not": [{"has_id": [3]}]}}), json!([5, 2])),
        (json!({"query": {"nearest": 0}, "limit": 2, "offset": 1}), json!([2, 3])),
        (json!({"query": [1, 0], "limit": 100, "offset": 6}), json!([6, 7, 8])),
        (json!({"query": {"recommend": {"positive": [0, 2]}}, "limit": 2}), json!([1, 3])),
        (
            json!({"query": {"recommend": {"positive": [1], "negative": [0], "strategy": "best_score"}}, "limit": 2}),
            json!([2, 3]),
        ),
        (
            json!({"query": {"recommend": {"negative": [0], "strategy": "sum_scores"}}, "limit": 2}),
            json!([8, 7]),
        ),
        (
            json!({"query": {"discover": {"target": 0, "context": {"positive": 8, "negative": 1}}}, "limit": 2}),
            json!([5, 6]),
        ),
        (json!({"query": {"order_by": "in.n"}, "limit": 2}), json!([8, 7])),
        (
            json!({"query": {"order_by": {"key": "in.n", "direction": "desc", "start_from": 8}}, "limit": 2}),
            json!([2, 3]),
        ),
        (json!({"limit": 2, "offset": 3}), json!([3, 4])),
        (
            json!({"query": {"fusion": "rrf"}, "prefetch": [{"query": 0, "limit": 2}, {"query": 2, "limit": 3}], "limit": 2}),
            json!([1, 3]),
        ),
        (json!({"query": [0, 1], "prefetch": {"query": [1, 0], "limit": 3}}), json!([2, 1, 0])),
        (
            json!({"query": {"rrf": {"k": 1, "weights": [3, 1]}}, "prefetch": [{"query": 0, "limit": 1}, {"query": 8, "limit": 1}]}),
            json!([1, 7]),
        ),
    ];
    let searches: Vec<Value> = cases.iter().map(|(query, _)| query.clone()).collect();
    let batch = ask(&served, "query/batch", &json!({"searches": searches}));
    for ((query, wanted), of_batch) in cases.iter().zip(batch.as_array().expect("answers")) {
        let found = ask(&served, "query", query);
        assert_eq!(ids(&found["points"]), *wanted, "{query}");
        assert_eq!(found, *of_batch, "{query}");
        for point in found["points"].as_array().expect("points") {
            assert!(
                point["score"].is_f64() && point["version"] == 0 && point.get("payload").is_none(),
                "{point}"
            );
        }
    }
    let sample = ask(&served, "query", &json!({"query": {"sample": "random"}, "limit": 20}));
    assert_eq!(sample["points"].as_array().map(Vec::len), Some(9));
    let ordered = ask(&served, "query", &json!({"query": {"order_by": "in.all"}, "limit": 3}));
    assert_eq!(ordered["points"][2]["order_value"], 1);
    let fused = ask(&served, "query", &cases[11].0);
    assert_eq!(fused["points"][0]["raw_score"], Value::Null, "a fused score is of its own kind");
    assert_eq!(fused["hubness"]["correction"], Value::Null);
}

#[test]
fn corrections_rank_prefetches_and_averages_and_say_so() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "Cosine");
    let hubness = json!({"correction": "is", "explain": true});
    let query = json!({"query": [0.8, 0.6], "limit": 9, "hubness": hubness});
    let corrected = ask(&served, "query", &query);
    let raw = ask(&served, "query", &json!({"query": [0.8, 0.6], "limit": 9}));
    assert_ne!(ids(&corrected["points"]), ids(&raw["points"]));
    let prefetch = json!([{"query": [0.8, 0.6], "limit": 3, "hubness": {"correction": "is"}}]);
    let fused = ask(&served, "query", &json!({"query": {"fusion": "rrf"}, "prefetch": prefetch, "limit": 9}));
    let first: Vec<Value> = ids(&corrected["points"]).as_array().expect("ids")[..3].to_vec();
    assert_eq!(ids(&fused["points"]), json!(first));
    let rescored = json!({"query": [0.8, 0.6], "prefetch": prefetch, "hubness": hubness});
    let rescored = ask(&served, "query", &rescored);
    assert_eq!(ids(&rescored["points"]), json!(first));
    let ranks: Vec<&Value> =
        rescored["points"].as_array().expect("points").iter().map(|point| &point["rank_raw"]).collect();
    let mut sorted: Vec<u64> = ranks.iter().filter_map(|rank| rank.as_u64()).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3], "ranked among what the prefetch found");
    let average = json!({"query": {"recommend": {"positive": [[0.8, 0.6]]}}, "limit": 9, "hubness": hubness});
    let average = ask(&served, "query", &average);
    assert_eq!(ids(&average["points"]), ids(&corrected["points"]));
    assert_eq!(average["explain"]["raw_ranks"], corrected["explain"]["raw_ranks"]);
}

#[test]
fn a_raw_euclidean_score_is_a_distance_and_a_corrected_one_is_not() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "Euclid");
    let raw = ask(&served, "query", &json!({"query": [1, 0], "score_threshold": 0.5}));
    assert_eq!(ids(&raw["points"]), json!([0, 1, 2]), "a threshold is above distances");
    for point in raw["points"].as_array().expect("points") {
        let number = |name: &str| point[name].as_f64().expect("a number");
        assert!((number("score").powi(2) / -2.0 - number("raw_score")).abs() < 1e-6, "{point}");
    }
    let corrected =
        ask(&served, "query", &json!({"query": [1, 0], "hubness": {"correction": "is", "explain": true}}));
    for point in corrected["points"].as_array().expect("points") {
        let number = |name: &str| point[name].as_f64().expect("a number");
        assert!((number("score") - (number("raw_score") - number("bias"))).abs() < 1e-6, "{point}");
    }
    assert_eq!(corrected["explain"]["raw"][0]["score"], 0.0);
}

#[test]
fn older_paths_answer_with_the_points_alone() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "Dot");
    let search = ask(&served, "search", &json!({"vector": {"name": "", "vector": [1, 0]}, "limit": 2}));
    assert_eq!(ids(&search), json!([0, 1]));
    let searches = json!({"searches": [{"vector": [1, 0], "limit": 2}, {"vector": [0, 1], "limit": 1}]});
    let batch = ask(&served, "search/batch", &searches);
    assert_eq!([ids(&batch[0]), ids(&batch[1])], [json!([0, 1]), json!([8])]);
    let body = json!({"positive": [0, 2], "limit": 2, "with_payload": true});
    let recommended = ask(&served, "recommend", &body);
    assert_eq!(recommended[0]["payload"]["tag"], "b");
    assert_eq!(ask(&served, "recommend/batch", &json!({"searches": [body]}))[0], recommended);
    let body = json!({"target": [1, 0], "limit": 1});
    assert_eq!(ids(&ask(&served, "discover", &body)), json!([0]));
    assert_eq!(ids(&ask(&served, "discover/batch", &json!({"searches": [body]}))[0]), json!([0]));
}

#[test]
fn groups_and_matrices_have_qdrants_form() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "Cosine");
    let other = json!({"vectors": {"size": 2, "distance": "Cosine"}});
    served.did("PUT", "/collections/other", &other);
    let points =
        json!({"points": [{"id": 1, "vector": [0, 1], "payload": {"x": 1}}, {"id": "b", "vector": [1, 0]}]});
    served.did("PUT", "/collections/other/points", &points);
    let body =
        json!({"query": [1, 0], "group_by": "tag", "group_size": 2, "limit": 2, "with_lookup": "other"});
    let groups = ask(&served, "query/groups", &body)["groups"].clone();
    assert_eq!((&groups[0]["id"], ids(&groups[0]["hits"])), (&json!("a"), json!([0, 3])));
    assert_eq!((&groups[1]["id"], ids(&groups[1]["hits"])), (&json!("b"), json!([1, 4])));
    assert_eq!((groups.as_array().map(Vec::len), groups[0].get("lookup")), (Some(2), None));
    assert_eq!(groups[1]["lookup"]["id"], "b");
    let body = json!({"vector": [1, 0], "group_by": "in.all", "limit": 2,
        "with_lookup": {"collection": "other", "with_payload": true, "with_vectors": true}});
    let groups = ask(&served, "search/groups", &body)["groups"].clone();
    assert_eq!((&groups[1]["id"], ids(&groups[1]["hits"])), (&json!(1), json!([0, 1])));
    assert_eq!(groups[1]["lookup"], json!({"id": 1, "payload": {"x": 1}, "vector": [0.0, 1.0]}));
    let body = json!({"positive": [0], "group_by": "tag", "limit": 1, "group_size": 1});
    assert_eq!(ids(&ask(&served, "recommend/groups", &body)["groups"][0]["hits"]), json!([1]));

    let looked_up = json!({"query": 1, "lookup_from": {"collection": "other"}, "limit": 1});
    assert_eq!(ids(&ask(&served, "query", &looked_up)["points"]), json!([8]));

    let body = json!({"sample": 3, "limit": 2, "filter": {"must": [{"has_id": [0, 1, 8]}]}});
    let pairs = ask(&served, "search/matrix/pairs", &body)["pairs"].clone();
    let ends = |pair: &Value| json!([pair["a"], pair["b"]]);
    let ends: Vec<Value> = pairs.as_array().expect("pairs").iter().map(ends).collect();
    assert_eq!(json!(ends), json!([[0, 1], [0, 8], [1, 0], [1, 8], [8, 1], [8, 0]]));
    let offsets = ask(&served, "search/matrix/offsets", &body);
    assert_eq!(offsets["ids"], json!([0, 1, 8]));
    assert_eq!(offsets["offsets_row"], json!([0, 0, 1, 1, 2, 2]));
    assert_eq!(offsets["offsets_col"], json!([1, 2, 0, 2, 1, 0]));
    assert_eq!(offsets["scores"][0], pairs[0]["score"]);
}

#[test]
fn a_point_that_is_named_anywhere_in_a_query_is_no_answer() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let points: Vec<Value> = (0..10).map(|i| json!({"id": i, "vector": [i, 1]})).collect();
    served.did("PUT", "/collections/c/points", &json!({"points": points}));
    let by = |id: u32, limit: u32| json!({"query": id, "limit": limit});
    let cases = [
        // A prefetch by another query finds it too.
        (json!({"query": {"fusion": "rrf"}, "prefetch": [by(8, 5), {"query": [1, 0], "limit": 5}]}), vec![8]),
        (
            json!({"query": [1, 0], "prefetch": {"query": [1, 0], "limit": 10, "prefetch": [by(3, 9), by(4, 9)]}}),
            vec![3, 4],
        ),
        (
            json!({"query": 7, "prefetch": {"query": {"recommend": {"positive": [1], "negative": [2]}}, "limit": 9}}),
            vec![1, 2, 7],
        ),
        (json!({"query": {"order_by": "n"}, "prefetch": by(5, 9)}), vec![5]),
        (json!({"query": {"sample": "random"}, "prefetch": by(6, 9)}), vec![6]),
    ];
    served.did(
        "POST",
        "/collections/c/points/payload",
        &json!({"payload": {"n": 1}, "points": (0..10).collect::<Vec<_>>()}),
    );
    for (mut query, named) in cases {
        query["limit"] = json!(10);
        let found = ids(&ask(&served, "query", &query)["points"]);
        let found: Vec<u64> = found.as_array().expect("ids").iter().filter_map(Value::as_u64).collect();
        assert!(!found.is_empty() && named.iter().all(|id| !found.contains(id)), "{query}: {found:?}");
    }
    let unknown =
        json!({"query": [1, 0], "prefetch": [{"query": [1, 0]}, {"query": [1, 0], "prefetch": by(77, 2)}]});
    let reply = served.json("POST", "/collections/c/points/query", &unknown);
    assert_eq!(reply.body["errors"][0]["pointer"], "/prefetch/1/prefetch/query", "{}", reply.body);
}

#[test]
fn an_example_that_is_looked_up_is_no_answer_unless_another_collection_has_it() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let vectors = json!({"a": {"size": 2, "distance": "Dot"}, "b": {"size": 2, "distance": "Dot"}});
    for name in ["nv", "other"] {
        served.did("PUT", &format!("/collections/{name}"), &json!({"vectors": vectors}));
        let points: Vec<Value> =
            (0..4).map(|i| json!({"id": i, "vector": {"a": [i, 1], "b": [i, 2]}})).collect();
        served.did("PUT", &format!("/collections/{name}/points"), &json!({"points": points}));
    }
    let alias = json!({"actions": [{"create_alias": {"alias_name": "front", "collection_name": "nv"}}]});
    served.did("POST", "/collections/aliases", &alias);
    for (collection, vector, has_it) in [
        ("nv", json!(null), false),
        ("nv", json!("a"), false),
        ("nv", json!("b"), false),
        ("front", json!("b"), false),
        ("other", json!("a"), true),
    ] {
        let lookup = json!({"collection": collection, "vector": vector});
        let query = json!({"query": 3, "using": "a", "lookup_from": lookup, "limit": 9});
        let fused = json!({"query": {"fusion": "rrf"}, "prefetch": [query, {"query": [1, 0], "using": "a"}], "limit": 9});
        for asked in [&query, &fused] {
            let found = ids(&served.did("POST", "/collections/nv/points/query", asked)["points"]);
            let found = found.as_array().expect("ids");
            assert_eq!(found.contains(&json!(3)), has_it, "{asked}: {found:?}");
            assert_eq!(found.len(), 3 + usize::from(has_it), "{asked}");
        }
    }
}
