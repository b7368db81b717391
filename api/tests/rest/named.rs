//! Collections whose points have vectors under names.

use std::ops::Range;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};
use crate::jobs::ended;

fn make(client: &Client) {
    let vectors = json!({
        "image": {"size": 2, "distance": "Cosine"},
        "text": {"size": 3, "distance": "Dot", "hnsw_config": {"m": 8}},
    });
    let config = json!({"vectors": vectors, "hnsw_config": {"ef_construct": 50}, "durability": "relaxed"});
    assert_eq!(client.did("PUT", "/collections/c", &config), true);
    let points = json!({"points": [
        {"id": "both", "vector": {"image": [3, 4], "text": [1, 2, 3]}, "payload": {"n": 1}, "text": "a text"},
        {"id": 7, "vector": {"text": [4, 5, 6]}},
        {"id": "none", "vector": {}},
    ]});
    let written = client.did("PUT", "/collections/c/points?wait=true", &points);
    assert_eq!(written, json!({"operation_id": 1, "status": "completed", "added": 3, "replaced": 0}));
}

fn vector(client: &Client, id: &str) -> Value {
    client.get(&format!("/collections/c/points/{id}"))["vector"].clone()
}

fn pointer(reply: crate::client::Reply) -> (u16, Value, Value) {
    (reply.status, reply.body["code"].clone(), reply.body["errors"][0]["pointer"].clone())
}

#[test]
fn each_vector_is_described_under_its_name() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let described = served.get("/collections/c");
    let vectors = json!({
        "image": {"size": 2, "distance": "Cosine"},
        "text": {"size": 3, "distance": "Dot"},
    });
    assert_eq!(described["config"]["params"]["vectors"], vectors);
    assert_eq!(described["points_count"], 3);
    assert_eq!(described["writer"]["durability"], "relaxed");
    for (name, points, m, ef) in [("image", 1, 16, 50), ("text", 2, 8, 50)] {
        let own = &described["vectors"][name];
        assert_eq!(own["points_count"], points, "{name}");
        assert_eq!((&own["hnsw_config"]["m"], &own["hnsw_config"]["ef_construct"]), (&json!(m), &json!(ef)));
    }
}

#[test]
fn points_have_the_vectors_that_they_were_given() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    assert_eq!(vector(&served, "7"), json!({"text": [4.0, 5.0, 6.0]}));
    assert_eq!(vector(&served, "none"), json!({}));
    let both = vector(&served, "both");
    assert_eq!(both["text"], json!([1.0, 2.0, 3.0]));
    let image: Vec<f64> = both["image"].as_array().expect("numbers").iter().flat_map(Value::as_f64).collect();
    assert!((image[0] - 0.6).abs() < 1e-6 && (image[1] - 0.8).abs() < 1e-6, "{image:?}");
    let read = |selector: Value| {
        let body = json!({"ids": ["both"], "with_vector": selector, "with_payload": false});
        served.did("POST", "/collections/c/points", &body)[0]["vector"].clone()
    };
    assert_eq!(read(json!(["text"])), json!({"text": [1.0, 2.0, 3.0]}));
    assert_eq!(read(json!(false)), Value::Null);
    assert_eq!(read(json!(true)), both);
    let batch =
        json!({"batch": {"ids": [20, 21], "vectors": {"image": [[0, 1], null], "text": [null, [1, 0, 0]]}}});
    assert_eq!(served.did("PUT", "/collections/c/points", &batch)["added"], 2);
    assert_eq!(vector(&served, "20"), json!({"image": [0.0, 1.0]}));
    assert_eq!(vector(&served, "21"), json!({"text": [1.0, 0.0, 0.0]}));
}

#[test]
fn vectors_are_changed_without_the_rest_of_a_point() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let update = json!({"points": [
        {"id": "both", "vector": {"text": [9, 9, 9]}},
        {"id": 7, "vector": {"image": [0, 2]}},
    ]});
    let written = served.did("PUT", "/collections/c/points/vectors?wait=true", &update);
    assert_eq!((&written["added"], &written["replaced"]), (&json!(0), &json!(2)));
    assert_eq!(vector(&served, "both")["text"], json!([9.0, 9.0, 9.0]));
    assert_eq!(vector(&served, "7"), json!({"image": [0.0, 1.0], "text": [4.0, 5.0, 6.0]}));
    let both = served.get("/collections/c/points/both");
    assert_eq!((&both["payload"], &both["text"]), (&json!({"n": 1}), &json!("a text")));
    let taken = json!({"points": ["both", "none", "absent"], "vector": ["image"]});
    assert_eq!(served.did("POST", "/collections/c/points/vectors/delete", &taken)["replaced"], 1);
    assert_eq!(vector(&served, "both"), json!({"text": [9.0, 9.0, 9.0]}));
    let unknown = json!({"points": ["both"], "vector": ["audio"]});
    let refused = served.json("POST", "/collections/c/points/vectors/delete", &unknown);
    assert_eq!(pointer(refused), (422, json!("unknown_vector"), json!("/vector")));
    let absent = json!({"points": [{"id": "absent", "vector": {"text": [1, 1, 1]}}]});
    let refused = served.json("PUT", "/collections/c/points/vectors", &absent);
    assert_eq!(pointer(refused), (422, json!("unknown_point"), json!("/points/0/id")));
}

#[test]
fn vectors_are_changed_among_other_writes_and_taken_by_a_filter() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let operations = json!({"operations": [
        {"update_vectors": {"points": [
            {"id": "none", "vector": {"image": [0, 3]}}, {"id": 7, "vector": {"image": [2, 0]}},
        ]}},
        {"set_payload": {"payload": {"n": 2}, "points": [7]}},
        {"delete_vectors": {"points": ["none", "absent"], "vector": ["image", "text"]}},
        {"delete_vectors": {"filter": {"must": [{"key": "n", "match": {"value": 1}}]}, "vector": ["image"]}},
    ]});
    let written = served.did("POST", "/collections/c/points/batch", &operations);
    assert_eq!(
        (&written[0]["replaced"], &written[2]["replaced"], &written[3]["replaced"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(vector(&served, "7"), json!({"image": [1.0, 0.0], "text": [4.0, 5.0, 6.0]}));
    assert_eq!(vector(&served, "none"), json!({}));
    assert_eq!(vector(&served, "both"), json!({"text": [1.0, 2.0, 3.0]}));
    let all = json!({"filter": {}, "vector": ["text"]});
    assert_eq!(served.did("POST", "/collections/c/points/vectors/delete", &all)["replaced"], 2);
    let none = json!({"filter": {"must": [{"has_id": [99]}]}, "vector": ["audio"]});
    let refused = served.json("POST", "/collections/c/points/vectors/delete", &none);
    assert_eq!(pointer(refused), (422, json!("unknown_vector"), json!("/vector")));
    let failing = json!({"operations": [
        {"delete_vectors": {"points": [7], "vector": ["image"]}},
        {"update_vectors": {"points": [{"id": 7, "vector": {"image": [1, 2, 3]}}]}},
    ]});
    let refused = served.json("POST", "/collections/c/points/batch", &failing);
    let place = json!("/operations/1/update_vectors/points/0/vector/image");
    assert_eq!(pointer(refused), (422, json!("dimension_mismatch"), place));
    assert_eq!(vector(&served, "7"), json!({}), "the operation before it was done");
}

#[test]
fn a_graph_is_built_of_the_vector_that_is_used() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let own = json!({"size": 2, "distance": "Dot", "hnsw_config": {"full_scan_threshold": 0}});
    served.did("PUT", "/collections/c", &json!({"vectors": {"image": own, "text": own}}));
    let vector = |n: u32| [f64::from(n).cos(), f64::from(n).sin()];
    let point = |n: u32| json!({"id": n, "vector": {"image": vector(n), "text": vector(n)}});
    let put = |ids: Range<u32>| {
        let points: Vec<Value> = ids.map(point).collect();
        served.did("PUT", "/collections/c/points", &json!({ "points": points }));
    };
    let build = |path: &str| {
        let begun = served.json("POST", path, &json!({"whole": true}));
        assert_eq!(begun.status, 202, "{}", begun.body);
        ended(&served, begun.body["result"]["job"].as_u64().expect("a number"))
    };
    put(0..50);
    assert_eq!(build("/collections/c/build")["using"], Value::Null, "of both");
    // Too few for a graph to be built by itself.
    put(50..55);
    let built = build("/collections/c/build?using=text");
    assert_eq!((&built["state"], &built["using"]), (&json!("done"), &json!("text")), "{built}");
    let delta = |name: &str| served.get("/collections/c")["vectors"][name]["graph"]["delta"].clone();
    assert_eq!((delta("text"), delta("image")), (json!(0), json!(5)));
    let refused = served.json("POST", "/collections/c/build?using=audio", &json!({}));
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("unknown_vector")));
}

#[test]
fn banks_and_corrections_belong_to_the_vector_that_is_used() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let bank = json!({"kind": "query", "vectors": [[1, 0, 0], [0, 1, 0]]});
    served.did("PUT", "/collections/c/banks/asked?using=text", &bank);
    let fit = json!({"method": "IS(beta=2)", "query_bank": "asked"});
    served.did("PUT", "/collections/c/corrections/is?using=text", &fit);
    assert_eq!(served.get("/collections/c/banks?using=image"), json!({"banks": []}));
    assert_eq!(served.get("/collections/c/banks?using=text")["banks"][0]["name"], "asked");
    let described = served.get("/collections/c");
    assert_eq!(described["vectors"]["text"]["corrections"][0]["method"], "IS(beta=2)");
    assert_eq!((&described["banks"], &described["vectors"]["image"]["banks"]), (&json!([]), &json!([])));
    for path in ["/collections/c/hubness?bank=asked&using=text", "/collections/c/hubness/live?using=text"] {
        served.get(path);
    }
    for path in ["banks", "corrections", "default", "live", "hubness/live", "banks/asked?using=audio"] {
        let refused = served.send("GET", &format!("/collections/c/{path}"), None, None);
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("unknown_vector")), "{path}");
        assert!(refused.body["detail"].as_str().is_some_and(|it| it.contains("image, text")), "{path}");
    }
    let rule = json!({"correction": "is"});
    let refused = served.json("PUT", "/collections/c/quarantine", &rule);
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("not_supported")));
}

#[test]
fn a_search_by_a_point_without_the_vector_says_so() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let ask = |path: &str, body: &Value| {
        let reply = served.json("POST", &format!("/collections/c/points/{path}"), body);
        let detail = reply.body["detail"].as_str().unwrap_or_default().to_owned();
        (pointer(reply), detail)
    };
    for (path, body, id, place) in [
        ("query", json!({"query": 7, "using": "image"}), "7", "/query"),
        ("query", json!({"query": {"nearest": "none"}, "using": "text"}), "none", "/query/nearest"),
        ("recommend", json!({"positive": ["both", 7], "using": "image", "limit": 1}), "7", "/positive/1"),
    ] {
        let (found, detail) = ask(path, &body);
        assert_eq!(found, (404, json!("no_vector"), json!(place)), "{body}: {detail}");
        let name = body["using"].as_str().expect("a name");
        assert!(detail.contains(&format!("the point {id} has no vector `{name}`")), "{detail}");
    }
    let (found, _) = ask("query", &json!({"query": "absent", "using": "image"}));
    assert_eq!(found, (404, json!("unknown_point"), json!("/query")));
    for (id, code) in [("7", "no_vector"), ("absent", "unknown_point")] {
        let path = format!("/collections/c/points/{id}/neighbours?using=image");
        let reply = served.send("GET", &path, None, None);
        assert_eq!((reply.status, &reply.body["code"]), (404, &json!(code)));
    }
}

#[test]
fn a_refusal_says_which_vector_of_which_point() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    make(&served);
    let good = json!({"id": 1, "vector": {"image": [1, 1]}});
    for (vector, code, place) in [
        (json!({"image": [1, 2, 3]}), "dimension_mismatch", "/points/1/vector/image"),
        (json!({"image": [0, 0]}), "zero_vector", "/points/1/vector/image"),
        (json!({"audio": [1]}), "unknown_vector", "/points/1/vector/audio"),
        (json!({"image": [1, "x"]}), "wrong_type", "/points/1/vector/image/1"),
        (json!({"a b": [1]}), "invalid_name", "/points/1/vector/a b"),
        (json!([1, 2]), "unknown_vector", "/points/1/vector"),
        (json!(7), "wrong_type", "/points/1/vector"),
    ] {
        let body = json!({"points": [good, {"id": 2, "vector": vector}]});
        let refused = served.json("PUT", "/collections/c/points", &body);
        assert_eq!(pointer(refused), (422, json!(code), json!(place)), "{body}");
    }
    let batch = json!({"batch": {"ids": [1, 2], "vectors": {"text": [null, [1]]}}});
    let refused = served.json("PUT", "/collections/c/points", &batch);
    assert_eq!(pointer(refused), (422, json!("dimension_mismatch"), json!("/batch/vectors/text/1")));
    assert_eq!(served.did("POST", "/collections/c/points/count", &json!({})), json!({"count": 3}));
    let body = json!({"ids": ["both"], "with_vector": ["audio"]});
    let refused = served.json("POST", "/collections/c/points", &body);
    assert_eq!(pointer(refused), (422, json!("unknown_vector"), json!("/with_vector")));
    for (vectors, code, place) in [
        (json!({"image": {"size": 0, "distance": "Dot"}}), "invalid_config", "/vectors/image/size"),
        (json!({"image": {"distance": "Dot"}}), "missing_field", "/vectors/image"),
        (
            json!({"image": {"size": 2, "distance": "Dot", "hnsw_config": {"m": 1}}}),
            "invalid_config",
            "/vectors/image/hnsw_config/m",
        ),
        (json!({}), "missing_field", "/vectors"),
    ] {
        let refused = served.json("PUT", "/collections/other", &json!({"vectors": vectors}));
        let (status, found, at) = pointer(refused);
        assert_eq!((status, &found), (422, &json!(code)), "{vectors}");
        assert!(at.as_str().is_some_and(|at| at.starts_with(place)), "{vectors}: {at}");
    }
}
