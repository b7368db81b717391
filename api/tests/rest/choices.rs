//! The default and its veto, the method `auto`, alarms and the quarantine over HTTP.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, numbers};

const DIM: usize = 16;

/// Vectors about the first axis, each drawn to it by `pull` of its place.
fn vectors(seed: u64, count: usize, pull: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
    let mut vectors: Vec<Vec<f64>> =
        numbers(seed, count * DIM).chunks_exact(DIM).map(<[f64]>::to_vec).collect();
    vectors.iter_mut().enumerate().for_each(|(place, vector)| vector[0] += pull(place));
    vectors
}

/// 600 points, some of them hubs of the queries, with `good` and `weak` fitted from the bank `asked`.
fn fill(client: &Client) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": DIM, "distance": "Cosine"}}));
    let parts = numbers(3, 600);
    let ids: Vec<usize> = (0..600).collect();
    let points =
        json!({"batch": {"ids": ids, "vectors": vectors(1, 600, |place| 1.5 * (parts[place] + 1.0))}});
    client.did("PUT", "/collections/c/points", &points);
    let bank = json!({"kind": "query", "vectors": vectors(2, 500, |_| 2.0)});
    client.did("PUT", "/collections/c/banks/asked", &bank);
    for (name, method) in [("good", "NNN(alpha=1.0,k=16)"), ("weak", "NNN(alpha=0.01,k=1)")] {
        let fit = json!({"method": method, "query_bank": "asked"});
        client.did("PUT", &format!("/collections/c/corrections/{name}"), &fit);
    }
}

fn recent() -> Vec<Vec<f64>> {
    vectors(9, 400, |_| 2.0)
}

fn set(client: &Client, correction: &str, more: Value) -> Reply {
    let mut body = json!({"correction": correction, "rounds": 200});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    client.json("PUT", "/collections/c/default", &body)
}

fn refused(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status, &reply.body["code"]), (status, &json!(code)), "{}", reply.body);
    assert_eq!(reply.content_type, "application/problem+json");
}

fn ranked_by(client: &Client, hubness: Value) -> Value {
    let mut query = json!({"query": vectors(9, 1, |_| 2.0)[0], "limit": 5});
    if !hubness.is_null() {
        query["hubness"] = hubness;
    }
    client.did("POST", "/collections/c/points/query", &query)["hubness"]["correction"].clone()
}

#[test]
fn a_default_passes_the_veto_or_is_forced_and_ranks_who_names_nothing() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    assert_eq!(served.get("/collections/c/default"), Value::Null);
    assert_eq!(ranked_by(&served, Value::Null), Value::Null);

    let vetoed = set(&served, "weak", json!({"queries": recent()}));
    refused(&vetoed, 409, "vetoed");
    assert_eq!(vetoed.body["verdict"]["queries"], 400);
    assert!(vetoed.body["verdict"]["rows"][0]["removed"]["high"].as_f64() < Some(0.5));
    refused(&set(&served, "good", json!({})), 422, "no_evidence");
    refused(&set(&served, "good", json!({"bank": "asked"})), 422, "invalid_value");
    refused(&set(&served, "good", json!({"queries": [[1.0]]})), 422, "dimension_mismatch");
    refused(&set(&served, "good", json!({"queries": &recent()[..9]})), 422, "too_few_queries");
    refused(&set(&served, "other", json!({"queries": recent()})), 422, "unknown_correction");
    assert_eq!(served.get("/collections/c/default"), Value::Null);

    let done = set(&served, "good", json!({"queries": recent(), "seed": 5})).result();
    assert_eq!((&done["correction"], &done["forced"]), (&json!("good"), &json!(false)));
    assert!(done["evidence"]["removed"]["low"].as_f64() >= Some(0.5), "{done}");
    assert_eq!(done["evidence"]["seed"], 5);
    assert_eq!(served.get("/collections/c/default"), done);
    assert_eq!(served.get("/collections/c")["default_correction"], done);
    assert_eq!(ranked_by(&served, Value::Null), "good@1");
    for raw in ["none", "raw"] {
        assert_eq!(ranked_by(&served, json!({"correction": raw})), Value::Null);
    }
    assert_eq!(ranked_by(&served, json!({"correction": "weak"})), "weak@1");

    let path = "/collections/c/corrections/good";
    refused(&served.send("DELETE", path, None, None), 409, "correction_in_use");
    let other = json!({"method": "IS", "query_bank": "asked"});
    refused(&served.json("PUT", path, &other), 409, "correction_in_use");
    let forced = set(&served, "weak", json!({"force": true})).result();
    assert_eq!((&forced["forced"], &forced["evidence"]), (&json!(true), &Value::Null));
    assert_eq!(served.delete("/collections/c/default"), true);
    assert_eq!(served.delete("/collections/c/default"), false);
    assert_eq!(served.delete(path), true);
}

#[test]
fn auto_installs_its_choice_or_nothing() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let path = "/collections/c/corrections/best";
    let auto = |more: Value| {
        let mut body = json!({"method": "auto", "query_bank": "asked", "rounds": 200});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        served.json("PUT", path, &body)
    };
    refused(&auto(json!({})), 422, "no_evidence");
    refused(&auto(json!({"qrels": [{"query": 0, "point": 1}]})), 422, "no_evidence");
    let unknown = auto(json!({"query_bank": "other", "queries": recent()}));
    refused(&unknown, 422, "unknown_bank");
    let done = auto(json!({"queries": recent(), "default": true})).result();
    assert_eq!((&done["forced"], &done["is_default"]), (&json!(false), &json!(true)));
    assert_eq!(done["correction"]["method"], done["verdict"]["pick"]);
    assert!(done["verdict"]["pick"].as_str().is_some_and(|pick| pick.contains("floor=0.1")));
    assert_eq!(served.get("/collections/c/default")["correction"], "best");

    // Points without hubs leave nothing to remove.
    served.delete("/collections/c/default");
    let ids: Vec<usize> = (0..600).collect();
    let flat = json!({"batch": {"ids": ids, "vectors": vectors(8, 600, |_| 0.0)}});
    served.did("PUT", "/collections/c/points", &flat);
    let bank = json!({"kind": "query", "vectors": vectors(12, 500, |_| 0.0)});
    served.did("PUT", "/collections/c/banks/flat", &bank);
    let none = json!({"queries": vectors(11, 300, |_| 0.0), "query_bank": "flat"});
    served.delete(path);
    let nothing = auto(none.clone()).result();
    assert_eq!((&nothing["correction"], &nothing["verdict"]["pick"]), (&Value::Null, &Value::Null));
    assert_eq!(served.send("GET", path, None, None).status, 404);
    let mut forced = none;
    forced["force"] = json!(true);
    assert_eq!(auto(forced).result()["forced"], true);
    assert_eq!(served.get(path)["name"], "best");
}

#[test]
fn judged_queries_decide_by_ndcg() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let qrels: Vec<Value> =
        (0..400).map(|place| json!({"query": place, "point": place, "relevance": 1})).collect();
    let reply = set(&served, "good", json!({"queries": recent(), "qrels": qrels, "force": true})).result();
    assert_eq!((&reply["evidence"]["judged"], &reply["evidence"]["queries"]), (&json!(400), &json!(400)));
    assert!(reply["evidence"]["gain"]["value"].as_f64().is_some());
    let twice = json!({"queries": recent(), "qrels": [{"query": 0, "point": 1}, {"query": 0, "point": 1, "relevance": 2}]});
    refused(&set(&served, "good", twice), 422, "invalid_value");
}

#[test]
fn a_hub_raises_an_alarm_and_is_held_until_it_is_released() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let mut hub = vec![0.0; DIM];
    for vector in vectors(21, 100, |_| 2.0) {
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        hub.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x / length);
    }
    let points = |id: &str| json!([{"id": id, "vector": hub, "payload": {"by": "x"}}]);
    let alarm = json!({"correction": "good", "rate": 0.01});
    let told = served.did("PUT", "/collections/c/points", &json!({"points": points("seen"), "alarm": alarm}));
    assert_eq!((&told["added"], &told["alarms"][0]["id"]), (&json!(1), &json!("seen")), "{told}");
    assert!(told["alarms"][0]["p"].as_f64() <= Some(0.01));
    assert_eq!(told.get("quarantined"), None);
    served.did("POST", "/collections/c/points/delete", &json!({"points": ["seen"]}));
    let unknown = json!({"points": points("x"), "alarm": {"correction": "other"}});
    refused(&served.json("PUT", "/collections/c/points", &unknown), 422, "unknown_correction");
    let rate = json!({"correction": "good", "rate": 2});
    refused(&served.json("PUT", "/collections/c/quarantine", &rate), 422, "invalid_value");

    let begun = served.did("PUT", "/collections/c/quarantine", &json!({"correction": "good"}));
    assert_eq!(begun, json!({"rule": {"correction": "good", "rate": 0.01}, "points_count": 0}));
    let told = served.did("PUT", "/collections/c/points", &json!({"points": points("hub")}));
    assert_eq!((&told["added"], &told["quarantined"][0]["id"]), (&json!(0), &json!("hub")), "{told}");
    let listed = served.get("/collections/c/quarantine");
    assert_eq!(
        (&listed["points"][0]["id"], &listed["points"][0]["payload"]),
        (&json!("hub"), &json!({"by": "x"}))
    );
    assert_eq!(served.get("/collections/c")["quarantine"]["points_count"], 1);
    let count = || served.did("POST", "/collections/c/points/count", &json!({}))["count"].clone();
    assert_eq!(count(), 600);
    assert_eq!(served.send("GET", "/collections/c/points/hub", None, None).status, 404);

    let release = "/collections/c/quarantine/release";
    refused(&served.json("POST", release, &json!({"points": ["other"]})), 422, "not_in_quarantine");
    assert_eq!(served.did("POST", release, &json!({"points": ["hub"]}))["added"], 1);
    assert_eq!(count(), 601);
    assert_eq!(served.get("/collections/c/points/hub")["payload"], json!({"by": "x"}));
    refused(&served.send("DELETE", "/collections/c/corrections/good", None, None), 409, "correction_in_use");
    assert_eq!(served.delete("/collections/c/quarantine"), true);
    assert_eq!(served.get("/collections/c/quarantine")["rule"], Value::Null);
}
