//! Collections whose points have several vectors each.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// One of a name beside a plain one.
fn make(client: &Client) {
    let vectors = json!({
        "tokens": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
        "whole": {"size": 2, "distance": "Cosine"},
    });
    assert_eq!(client.did("PUT", "/collections/c", &json!({"vectors": vectors})), true);
    let points = json!({"points": [
        {"id": 1, "vector": {"tokens": [[1, 0], [0, 1]], "whole": [1, 0]}},
        {"id": 2, "vector": {"tokens": [[3, 0]]}, "payload": {"n": 2}},
        {"id": 3, "vector": {"tokens": [0, 2]}},
        {"id": 4, "vector": {"whole": [0, 1]}},
    ]});
    assert_eq!(client.did("PUT", "/collections/c/points?wait=true", &points)["added"], 4);
}

fn hits(answer: &Value) -> Vec<(u64, f64)> {
    let hits = answer["points"].as_array().expect("hits").iter();
    hits.map(|hit| (hit["id"].as_u64().expect("a number"), hit["score"].as_f64().expect("a score"))).collect()
}

fn ask(client: &Client, body: &Value) -> Value {
    client.did("POST", "/collections/c/points/query", body)
}

#[test]
fn points_are_ranked_by_the_sum_of_the_best_products() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let params = &served.get("/collections/c")["config"]["params"]["vectors"];
    assert_eq!(params["tokens"]["multivector_config"], json!({"comparator": "max_sim"}));
    assert_eq!(params["whole"]["multivector_config"], Value::Null);
    let point = served.get("/collections/c/points/1");
    assert_eq!(point["vector"]["tokens"], json!([[1.0, 0.0], [0.0, 1.0]]));
    let tokens = |query: Value| hits(&ask(&served, &json!({"query": query, "using": "tokens"})));
    assert_eq!(tokens(json!([[1, 0], [0, 1]])), [(2, 3.0), (1, 2.0), (3, 2.0)]);
    assert_eq!(tokens(json!([[1, 1]])), [(2, 3.0), (3, 2.0), (1, 1.0)]);
    assert_eq!(tokens(json!([0, 1])), [(3, 2.0), (1, 1.0), (2, 0.0)]);
    assert_eq!(tokens(json!(1)), [(2, 3.0), (3, 2.0)]);
    let filtered = json!({
        "query": [[1, 0], [0, 1]], "using": "tokens", "score_threshold": 2.5,
        "filter": {"must": [{"key": "n", "match": {"value": 2}}]},
    });
    assert_eq!(hits(&ask(&served, &filtered)), [(2, 3.0)]);
    let update = json!({"points": [{"id": 3, "vector": {"tokens": [[5, 5], [0, 0]]}}]});
    assert_eq!(served.did("PUT", "/collections/c/points/vectors?wait=true", &update)["replaced"], 1);
    assert_eq!(tokens(json!([[1, 0], [0, 1]]))[0], (3, 10.0));
    let fused = ask(
        &served,
        &json!({
            "prefetch": [{"query": [[1, 0]], "using": "tokens"}, {"query": [1, 0], "using": "whole"}],
            "query": {"fusion": "rrf"},
        }),
    );
    assert_eq!(hits(&fused).len(), 4);
}

#[test]
fn a_correction_over_a_bank_of_multi_vectors_is_served_at_the_scale_of_the_sum() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let bank = json!({"kind": "query", "vectors": [[[1, 0], [0, 1]], [1, 0], [[1, 1]]], "ids": [7, 8, 9]});
    let added = served.did("PUT", "/collections/c/banks/asked?using=tokens", &bank);
    assert_eq!(added["added"], 3);
    let fit = json!({"method": "NNN", "parameters": {"alpha": 1, "k": 1}, "query_bank": "asked"});
    served.did("PUT", "/collections/c/corrections/nnn?using=tokens", &fit);
    let query = json!({
        "query": [[1, 0], [0, 1]], "using": "tokens", "hubness": {"correction": "nnn"},
    });
    let answer = ask(&served, &query);
    // The largest mean products of the bank: 1, 3 and 2; their mean is 2. The query's: 1, 1.5 and 1.
    let wanted =
        [(1, 2.0 * (1.0 - (1.0 - 2.0))), (3, 2.0 * (1.0 - (2.0 - 2.0))), (2, 2.0 * (1.5 - (3.0 - 2.0)))];
    let found = hits(&answer);
    assert_eq!(found.iter().map(|hit| hit.0).collect::<Vec<_>>(), [1, 3, 2]);
    assert!(found.iter().zip(wanted).all(|(found, wanted)| (found.1 - wanted.1).abs() < 1e-6), "{found:?}");
    let refused = served.json(
        "PUT",
        "/collections/c/corrections/sn?using=tokens",
        &json!({"method": "SN", "query_bank": "asked"}),
    );
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("not_for_multi_vectors")));
}

#[test]
fn what_is_no_multi_vector_is_refused_with_its_place() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let tokens = |vector: Value| json!({"points": [{"id": 9, "vector": {"tokens": vector}}]});
    let whole = |vector: Value| json!({"points": [{"id": 9, "vector": {"whole": vector}}]});
    for (body, code, pointer) in [
        (tokens(json!([[1, 2], [3]])), "dimension_mismatch", "/points/0/vector/tokens/1"),
        (tokens(json!([[1], [2], [3], [4]])), "dimension_mismatch", "/points/0/vector/tokens/0"),
        (tokens(json!([[1, 2], 3])), "wrong_type", "/points/0/vector/tokens/1"),
        (tokens(json!([[1, 2], [1, "2"]])), "wrong_type", "/points/0/vector/tokens/1/1"),
        (tokens(json!([[[1, 2]]])), "wrong_type", "/points/0/vector/tokens/0/0"),
        (tokens(json!([])), "dimension_mismatch", "/points/0/vector/tokens"),
        (whole(json!([[1, 2]])), "wrong_type", "/points/0/vector/whole"),
    ] {
        let reply = served.json("PUT", "/collections/c/points", &body);
        let told = (&reply.body["code"], &reply.body["errors"][0]["pointer"]);
        assert_eq!(told, (&json!(code), &json!(pointer)), "{body}: {}", reply.body);
    }
    let asked = |query: Value| {
        served.json("POST", "/collections/c/points/query", &json!({"query": query, "using": "tokens"}))
    };
    for (query, code) in [
        (json!({"recommend": {"positive": [1]}}), "not_for_multi_vectors"),
        (json!({"feedback": {"nearest": 1}}), "not_for_multi_vectors"),
        (json!([[1, 2, 3]]), "dimension_mismatch"),
    ] {
        assert_eq!(asked(query.clone()).body["code"], code, "{query}");
    }
    let vectors = |config: Value| json!({"vectors": config});
    for config in [
        json!({"size": 2, "distance": "Euclid", "multivector_config": {"comparator": "max_sim"}}),
        json!({"size": 2, "distance": "Dot", "multivector_config": {"comparator": "min_sim"}}),
        json!({"size": 2, "distance": "Dot", "multivector_config": {}}),
    ] {
        assert_eq!(
            served.json("PUT", "/collections/d", &vectors(config.clone())).status / 100,
            4,
            "{config}"
        );
    }
}
