//! Priors over HTTP: given, told of, ranked by, taken away.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// Three points whose raw order for the query `[1, 0]` is 1, 2, 3.
fn start(folder: &Path) -> Served {
    let served = Served::start(folder);
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let points =
        json!([{"id": 1, "vector": [3, 0]}, {"id": 2, "vector": [2, 0]}, {"id": "x", "vector": [1, 1]}]);
    served.did("PUT", "/collections/c/points", &json!({"points": points}));
    served
}

fn give(client: &Client, prior: &str, ids: Value, values: Value) -> Value {
    client.did("PUT", &format!("/collections/c/priors/{prior}"), &json!({"ids": ids, "values": values}))
}

fn ids(answer: &Value) -> Vec<Value> {
    answer["points"].as_array().expect("a list").iter().map(|hit| hit["id"].clone()).collect()
}

#[test]
fn priors_are_given_told_of_and_taken_away() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    assert_eq!(served.get("/collections/c/priors"), json!({"priors": []}));
    let done = give(&served, "fresh", json!([1, "x"]), json!([0.5, -1.5]));
    assert_eq!((&done["added"], &done["replaced"]), (&json!(2), &json!(0)));
    let done = give(&served, "fresh", json!([1, 2]), json!([2.5, 1.0]));
    assert_eq!((&done["added"], &done["replaced"]), (&json!(1), &json!(1)));
    let told = json!({"name": "fresh", "count": 3, "points": 3, "min": -1.5, "mean": 2.0 / 3.0, "max": 2.5});
    assert_eq!(served.get("/collections/c/priors/fresh"), told);
    assert_eq!(served.get("/collections/c/priors"), json!({"priors": [told]}));
    let values = served.did("POST", "/collections/c/priors/fresh", &json!({"ids": [2, "x", 99]}));
    assert_eq!(values["values"], json!([1.0, -1.5, null]));
    let gone = served.did("POST", "/collections/c/priors/fresh/delete", &json!({"ids": [2, 99]}));
    assert_eq!(gone["deleted"], 1);
    drop(served);
    let served = Served::start(folder.path());
    assert_eq!(served.get("/collections/c/priors/fresh")["count"], 2);
    served.delete("/collections/c/priors/fresh");
    let unknown = served.send("GET", "/collections/c/priors/fresh", None, None);
    assert_eq!((unknown.status, &unknown.body["code"]), (404, &json!("unknown_prior")));
}

#[test]
fn queries_rank_by_priors_and_explanations_name_each_part() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    give(&served, "popularity", json!(["x", 2]), json!([10, 1]));
    give(&served, "quality", json!([1]), json!([4]));
    let ask = |priors: Value, explain: bool| {
        let body =
            json!({"query": [1, 0], "priors": priors, "hubness": {"correction": "none", "explain": explain}});
        served.did("POST", "/collections/c/points/query", &body)
    };
    let raw = ask(json!({}), false);
    assert_eq!(ids(&raw), [json!(1), json!(2), json!("x")]);
    assert!(raw["points"][0].get("boost").is_none());
    let lifted = ask(json!({"popularity": 0.5}), false);
    assert_eq!(ids(&lifted), [json!("x"), json!(1), json!(2)]);
    let first = &lifted["points"][0];
    assert_eq!(
        (&first["score"], &first["raw_score"], &first["boost"]),
        (&json!(6.0), &json!(1.0), &json!(5.0))
    );
    let both = ask(json!({"popularity": 0.5, "quality": -1}), true);
    assert_eq!(ids(&both), [json!("x"), json!(2), json!(1)]);
    let boosts = &both["explain"]["boosts"];
    assert_eq!(boosts[0], json!({"popularity": 5.0, "quality": 0.0}));
    assert_eq!(boosts[2], json!({"popularity": 0.0, "quality": -4.0}));
    assert_eq!(both["points"][0]["rank_raw"], 3);
    let plan = both["explain"]["plan"].as_str().expect("text");
    assert!(plan.contains("+ 0.5 popularity + -1 quality"), "{plan}");
    // What priors lift says nothing of who is a hub: only the raw query was counted.
    let live = served.get("/collections/c/hubness/live");
    assert_eq!(live["rankings"][0]["queries"], 1);
}

#[test]
fn what_is_wrong_with_a_prior_is_named() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    give(&served, "p", json!([1]), json!([1]));
    let body = json!({"kind": "query", "vectors": (1..40).map(|n| json!([n, 1])).collect::<Vec<_>>()});
    served.did("PUT", "/collections/c/banks/queries", &body);
    let gc = json!({"method": "GC(k=1)", "query_bank": "queries"});
    served.did("PUT", "/collections/c/corrections/gc", &gc);
    let writes = [
        (json!({"ids": [1, 9], "values": [1, 2]}), 422, "unknown_point", "/ids/1"),
        (json!({"ids": [1, 1], "values": [1, 2]}), 422, "duplicate_id", "/ids/1"),
        (json!({"ids": [1, 2], "values": [1]}), 422, "lengths_differ", "/values"),
        (json!({"ids": [1, 2], "values": [1, null]}), 422, "wrong_type", "/values/1"),
        (json!({"ids": [1, 2], "values": [1, 1e39]}), 422, "not_finite", "/values/1"),
        (json!({"ids": [1, 2], "values": [1, 1e16]}), 422, "invalid_value", "/values/1"),
        (json!({"ids": [], "values": []}), 422, "empty_batch", "/ids"),
        (json!({"ids": [1]}), 422, "missing_field", ""),
        (json!({"ids": [1], "values": [1], "weights": []}), 422, "unknown_field", "/weights"),
    ];
    for (body, status, code, pointer) in writes {
        let reply = served.json("PUT", "/collections/c/priors/p", &body);
        assert_eq!((reply.status, &reply.body["code"]), (status, &json!(code)), "{body}: {}", reply.body);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.body);
    }
    assert_eq!(served.get("/collections/c/priors/p")["count"], 1);
    let queries = [
        (json!({"query": [1, 0], "priors": {"q~/": 1}}), "unknown_prior", "/priors/q~0~1"),
        (json!({"query": [1, 0], "priors": {"p": 1e7}}), "invalid_weight", "/priors/p"),
        (json!({"query": [1, 0], "priors": {"p": "1"}}), "wrong_type", "/priors/p"),
        (json!({"query": [1, 0], "priors": ["p"]}), "wrong_type", "/priors"),
        (
            json!({"query": [1, 0], "priors": {"p": 1}, "hubness": {"correction": "gc"}}),
            "invalid_value",
            "/priors",
        ),
    ];
    for (body, code, pointer) in queries {
        let reply = served.json("POST", "/collections/c/points/query", &body);
        assert_eq!((reply.status, &reply.body["code"]), (422, &json!(code)), "{body}: {}", reply.body);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.body);
    }
    for (method, path, body) in [
        ("DELETE", "/collections/c/priors/no", None),
        ("POST", "/collections/c/priors/no/delete", Some(json!({"ids": [1]}))),
        ("POST", "/collections/c/priors/no", Some(json!({"ids": [1]}))),
    ] {
        let reply = match body {
            Some(body) => served.json(method, path, &body),
            None => served.send(method, path, None, None),
        };
        assert_eq!((reply.status, &reply.body["code"]), (404, &json!("unknown_prior")), "{path}");
    }
}
