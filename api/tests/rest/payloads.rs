//! Payloads: filtered by, changed, selected, paged through, counted and indexed.

use dehub_index::BATCH_POINTS_MAX;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// Makes a collection whose points 0, 1, 2 … have these payloads.
fn fill(client: &Client, payloads: &[Value]) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let point = |(id, payload): (usize, &Value)| json!({"id": id, "vector": [1, id], "payload": payload});
    let points: Vec<Value> = payloads.iter().enumerate().map(point).collect();
    client.did("PUT", "/collections/c/points", &json!({"points": points}));
}

fn post(client: &Client, path: &str, body: &Value) -> Value {
    client.did("POST", &format!("/collections/c/{path}"), body)
}

fn ids(page: &Value) -> Vec<Value> {
    page["points"].as_array().expect("points").iter().map(|point| point["id"].clone()).collect()
}

fn payload(client: &Client, id: &Value) -> Value {
    post(client, "points", &json!({"ids": [id]}))[0]["payload"].clone()
}

/// See the head of the file.
fn told_by_qdrant() -> (Vec<Value>, Vec<(Value, Value)>) {
    let lines = include_str!("data/filters.txt").lines().filter(|line| !line.starts_with('#'));
    let (mut payloads, mut cases) = (Vec::new(), Vec::new());
    for line in lines {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {line}"));
        match line.split_once('\t') {
            None => payloads.push(json(line)),
            Some((filter, ids)) => cases.push((json(filter), json(ids))),
        }
    }
    (payloads, cases)
}

#[test]
fn filters_allow_what_qdrant_says_they_allow_with_indexes_and_without() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let (payloads, cases) = told_by_qdrant();
    fill(&served, &payloads);
    assert!(cases.len() > 400);
    let kinds = [
        None,
        Some(["keyword", "integer", "datetime", "geo", "text", "keyword", "bool", "integer"]),
        Some(["text", "float", "keyword", "keyword", "keyword", "uuid", "keyword", "datetime"]),
    ];
    let fields = ["city", "n", "when", "at", "text", "parts[].k", "ok", "a.b"];
    for kinds in kinds {
        for (field, kind) in fields.iter().zip(kinds.iter().flatten()) {
            let index = json!({"field_name": field, "field_schema": kind});
            served.did("PUT", "/collections/c/index", &index);
        }
        for (filter, wanted) in &cases {
            let page = post(
                &served,
                "points/scroll",
                &json!({"filter": filter, "limit": 100, "with_payload": false}),
            );
            assert_eq!(json!(ids(&page)), *wanted, "{kinds:?} {filter}");
        }
    }
    for (filter, wanted) in cases.iter().step_by(20) {
        let count = post(&served, "points/count", &json!({"filter": filter, "exact": true}));
        assert_eq!(count, json!({"count": wanted.as_array().map(Vec::len)}), "{filter}");
        let query = json!({"query": [0, 1], "limit": 12, "filter": filter});
        let mut found = ids(&post(&served, "points/query", &query));
        found.reverse();
        assert_eq!(json!(found), *wanted, "the larger id is the nearer: {filter}");
    }
}

#[test]
fn payloads_are_set_overwritten_and_taken_away() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(
        &served,
        &[json!({"a": 1, "b": {"c": 2}}), json!({"a": 2}), json!({"a": 3, "l": [{"x": 1}, {"x": 2}]})],
    );
    let vector = |id: usize| served.get(&format!("/collections/c/points/{id}"))["vector"].clone();
    let vectors: Vec<Value> = (0..3).map(vector).collect();

    let set = json!({"payload": {"d": [1, null], "a": null}, "points": [0, 1]});
    let done = served.did("POST", "/collections/c/points/payload?wait=true", &set);
    assert_eq!(done, json!({"operation_id": 2, "status": "completed", "changed": 2}));
    assert_eq!(payload(&served, &json!(0)), json!({"b": {"c": 2}, "d": [1, null]}));
    let set =
        json!({"payload": {"e": 5}, "key": "b", "filter": {"must": [{"key": "b.c", "match": {"value": 2}}]}});
    assert_eq!(post(&served, "points/payload", &set)["changed"], 1);
    assert_eq!(payload(&served, &json!(0)), json!({"b": {"c": 2, "e": 5}, "d": [1, null]}));

    let put = json!({"payload": {"a": 9}, "points": [1, 1]});
    assert_eq!(served.did("PUT", "/collections/c/points/payload", &put)["changed"], 1);
    assert_eq!(payload(&served, &json!(1)), json!({"a": 9}));

    let cut = json!({"keys": ["l[].x", "d"], "filter": {}});
    assert_eq!(post(&served, "points/payload/delete", &cut)["changed"], 3);
    assert_eq!(payload(&served, &json!(2)), json!({"a": 3, "l": [{}, {}]}));
    assert_eq!(payload(&served, &json!(0)), json!({"b": {"c": 2, "e": 5}}));

    assert_eq!(post(&served, "points/payload/clear", &json!({"points": [2]}))["changed"], 1);
    assert_eq!(payload(&served, &json!(2)), json!({}));
    assert_eq!((0..3).map(vector).collect::<Vec<_>>(), vectors, "vectors are as they were");

    let missing = json!({"payload": {"z": 1}, "points": [1, 77, 2]});
    let reply = served.json("POST", "/collections/c/points/payload", &missing);
    assert_eq!((reply.status, &reply.body["code"]), (404, &json!("unknown_point")));
    assert_eq!(reply.body["errors"][0]["pointer"], "/points/1");
    assert_eq!(payload(&served, &json!(2)), json!({"z": 1}), "the others are changed, as in Qdrant");

    let gone = json!({"filter": {"must": [{"key": "z", "match": {"value": 1}}]}});
    assert_eq!(post(&served, "points/delete", &gone)["deleted"], 2);
    assert_eq!(ids(&post(&served, "points/scroll", &json!({}))), [json!(0)]);
    let none = post(&served, "points/delete", &gone);
    assert_eq!(none["deleted"], 0);
}

#[test]
fn a_change_of_more_points_than_one_commit_takes_is_made_in_several() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 1, "distance": "Dot"}}));
    let points = BATCH_POINTS_MAX + 10;
    for first in (0..points).step_by(BATCH_POINTS_MAX) {
        let batch: Vec<usize> = (first..points.min(first + BATCH_POINTS_MAX)).collect();
        let vectors: Vec<[u8; 1]> = batch.iter().map(|_| [1]).collect();
        served.did("PUT", "/collections/c/points", &json!({"batch": {"ids": batch, "vectors": vectors}}));
    }
    let set = json!({"payload": {"a": 1}, "filter": {"must": [{"is_empty": {"key": "a"}}]}});
    let done = post(&served, "points/payload", &set);
    assert_eq!((&done["changed"], &done["operation_id"]), (&json!(points), &json!(4)));
    let ones = json!({"filter": {"must": [{"key": "a", "match": {"value": 1}}]}});
    assert_eq!(post(&served, "points/count", &ones)["count"], points);
    assert_eq!(post(&served, "points/delete", &ones)["deleted"], points);
}

#[test]
fn many_writes_may_come_in_one_request() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, &[json!({"a": 1}), json!({"a": 2})]);
    let operations = json!({"operations": [
        {"upsert": {"points": [{"id": 5, "vector": [1, 5], "payload": {"a": 5}}]}},
        {"upsert": {"batch": {"ids": [6], "vectors": [[1, 6]], "payloads": [{"a": 6}]}}},
        {"set_payload": {"payload": {"b": 1}, "points": [5, 6]}},
        {"overwrite_payload": {"payload": {"c": 1}, "points": [0]}},
        {"delete_payload": {"keys": ["a"], "filter": {"must": [{"key": "a", "match": {"value": 6}}]}}},
        {"clear_payload": {"points": [1]}},
        {"delete": {"filter": {"must": [{"key": "a", "match": {"value": 5}}]}}}
    ]});
    let done = post(&served, "points/batch", &operations);
    let numbers = done.as_array().expect("replies").iter().map(|reply| reply["operation_id"].clone());
    assert_eq!(numbers.collect::<Vec<_>>(), (2..9).map(|number| json!(number)).collect::<Vec<_>>());
    let page = post(&served, "points/scroll", &json!({}));
    let points: Vec<(Value, Value)> = page["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|point| (point["id"].clone(), point["payload"].clone()))
        .collect();
    assert_eq!(points, [(json!(0), json!({"c": 1})), (json!(1), json!({})), (json!(6), json!({"b": 1}))]);

    // All are read before any is done.
    let upsert = json!({"upsert": {"points": [{"id": 7, "vector": [1, 7]}]}});
    let bad = json!({"operations": [upsert, {"clear_payload": {"points": [{}]}}]});
    let reply = served.json("POST", "/collections/c/points/batch", &bad);
    assert_eq!((reply.status, &reply.body["code"]), (422, &json!("invalid_id")));
    assert_eq!(reply.body["errors"][0]["pointer"], "/operations/1/clear_payload/points/0");
    assert_eq!(post(&served, "points/count", &json!({}))["count"], 3);
    // What the engine refuses stops there.
    let long = json!({"upsert": {"points": [{"id": 8, "vector": [1, 2, 3]}]}});
    let bad = json!({"operations": [upsert, long, {"delete": {"filter": {}}}]});
    let reply = served.json("POST", "/collections/c/points/batch", &bad);
    assert_eq!((reply.status, &reply.body["code"]), (422, &json!("dimension_mismatch")));
    assert_eq!(reply.body["errors"][0]["pointer"], "/operations/1/upsert/points/0/vector");
    let detail = reply.body["detail"].as_str().expect("text");
    assert!(detail.contains("the operations before it were done"), "{detail}");
    assert_eq!(post(&served, "points/count", &json!({}))["count"], 4);
}

#[test]
fn pages_follow_the_ids_or_a_field() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let config = json!({"vectors": {"size": 1, "distance": "Dot"}});
    served.did("PUT", "/collections/d", &config);
    let point = |id: Value, payload: Value| json!({"id": id, "vector": [1], "payload": payload});
    let points = json!({"points": [
        point(json!("b"), json!({"n": [3, 1], "t": "2024-01-02"})),
        point(json!(256), json!({"n": 2.5, "t": "2024-01-01T23:59:59.5Z"})),
        point(json!("a"), json!({"n": "none"})),
        point(json!(7), json!({"n": 1})),
        point(json!("é"), json!({"n": -1, "t": ["2023-01-01"]})),
        point(json!(u64::MAX), json!({})),
    ]});
    served.did("PUT", "/collections/d/points", &points);
    let scroll = |body: Value| served.did("POST", "/collections/d/points/scroll", &body);
    let all = [json!(7), json!(256), json!(u64::MAX), json!("a"), json!("b"), json!("é")];
    assert_eq!(ids(&scroll(json!({}))), all);
    for limit in 1..=7 {
        let (mut found, mut offset) = (Vec::new(), json!(null));
        loop {
            let page = scroll(json!({"limit": limit, "offset": offset, "with_payload": false}));
            found.extend(ids(&page));
            offset = page["next_page_offset"].clone();
            if offset.is_null() {
                break;
            }
        }
        assert_eq!(found, all, "{limit}");
    }
    assert_eq!(ids(&scroll(json!({"offset": 300}))), all[2..], "an offset need not be an id there is");
    let two = scroll(json!({"limit": 1, "filter": {"must": [{"key": "n", "range": {"gte": 1, "lte": 1}}]}}));
    assert_eq!((ids(&two), &two["next_page_offset"]), (vec![json!(7)], &json!("b")));

    let orders = |order: Value| {
        let page = scroll(json!({"order_by": order, "limit": 4, "with_vector": true}));
        assert_eq!(page["next_page_offset"], Value::Null);
        let points = page["points"].as_array().expect("points").clone();
        points.into_iter().map(|it| json!([it["id"], it["order_value"]])).collect::<Vec<_>>()
    };
    assert_eq!(orders(json!("n")), [json!(["é", -1]), json!([7, 1]), json!(["b", 1]), json!([256, 2.5])]);
    let from = json!({"key": "n", "direction": "desc", "start_from": 2.5});
    assert_eq!(orders(from), [json!([256, 2.5]), json!([7, 1]), json!(["b", 1]), json!(["é", -1])]);
    let moments = [json!([256, 1_704_153_599_500_000_u64]), json!(["b", 1_704_153_600_000_000_u64])];
    assert_eq!(orders(json!({"key": "t", "start_from": "2024-01-01"})), moments);
}

#[test]
fn an_answer_has_the_parts_that_are_selected() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, &[json!({"a": {"b": 1, "c": [{"d": 1, "e": 2}]}, "f": 3}), Value::Null]);
    let cases = [
        (json!(true), json!({"a": {"b": 1, "c": [{"d": 1, "e": 2}]}, "f": 3})),
        (json!(["a.b", "none"]), json!({"a": {"b": 1}})),
        (json!({"include": ["a.c[].d"]}), json!({"a": {"c": [{"d": 1}]}})),
        (json!({"exclude": ["a.c[].d", "f"]}), json!({"a": {"b": 1, "c": [{"e": 2}]}})),
        (json!([]), json!({})),
    ];
    for (selector, wanted) in cases {
        let retrieved = post(&served, "points", &json!({"ids": [0, 1], "with_payload": selector}));
        assert_eq!(retrieved, json!([{"id": 0, "payload": wanted}, {"id": 1, "payload": {}}]), "{selector}");
        let scrolled = post(&served, "points/scroll", &json!({"with_payload": selector}));
        assert_eq!(scrolled["points"], retrieved);
        let query = json!({"query": [1, 0], "limit": 1, "filter": {"must": {"has_id": [0]}}, "with_payload": selector});
        assert_eq!(post(&served, "points/query", &query)["points"][0]["payload"], wanted, "{selector}");
    }
    let bare = post(&served, "points", &json!({"ids": [1], "with_payload": false, "with_vector": true}));
    assert_eq!(bare, json!([{"id": 1, "vector": [1.0, 1.0]}]));
}

#[test]
fn indexes_are_listed_kept_and_dropped() {
    let folder = tempdir().expect("a folder");
    let mut served = Served::start(folder.path());
    fill(
        &served,
        &[json!({"a": "x", "n": [1, 2]}), json!({"a": 1, "n": 3}), json!({"b": {"t": "2024-01-01"}})],
    );
    let schema = |client: &Client| client.get("/collections/c")["payload_schema"].clone();
    assert_eq!(schema(&served), json!({}));
    let index = |field: &str, schema: Value| json!({"field_name": field, "field_schema": schema});
    for (field, kind) in [
        ("a", json!("keyword")),
        ("n", json!({"type": "integer", "lookup": true, "range": true, "on_disk": false})),
        ("\"b\".t", json!("datetime")),
        ("text", json!({"type": "text", "tokenizer": "word", "lowercase": true})),
    ] {
        let done = served.did("PUT", "/collections/c/index?wait=true", &index(field, kind));
        assert_eq!(done["status"], "completed");
    }
    let kept = |points: [usize; 4]| {
        json!({
            "a": {"data_type": "keyword", "points": points[0]},
            "b.t": {"data_type": "datetime", "points": points[1]},
            "n": {"data_type": "integer", "points": points[2]},
            "text": {"data_type": "text", "points": points[3]},
        })
    };
    assert_eq!(schema(&served), kept([1, 1, 2, 0]));
    let text = json!({"payload": {"text": "red fox", "a": "y"}, "points": [1, 2]});
    post(&served, "points/payload", &text);
    post(&served, "points/delete", &json!({"points": [0]}));
    served.did(
        "PUT",
        "/collections/c/points",
        &json!({"points": [{"id": 9, "vector": [1, 9], "payload": {"n": 4}}]}),
    );
    assert_eq!(schema(&served), kept([2, 1, 2, 2]));
    drop(served);
    served = Served::start(folder.path());
    assert_eq!(schema(&served), kept([2, 1, 2, 2]), "they outlive the server");
    let foxes = json!({"filter": {"must": [{"key": "text", "match": {"text": "FOX"}}, {"key": "n", "range": {"gt": 2}}]}});
    assert_eq!(ids(&post(&served, "points/scroll", &foxes)), [json!(1)]);

    assert_eq!(served.delete("/collections/c/index/b.t?wait=true")["status"], "completed");
    assert_eq!(served.delete("/collections/c/index/none")["status"], "completed");
    served.did("PUT", "/collections/c/index", &index("n", json!("float")));
    assert_eq!(schema(&served)["n"], json!({"data_type": "float", "points": 2}));
    assert_eq!(schema(&served).get("b.t"), None);
}

#[test]
fn facets_count_values() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(
        &served,
        &[
            json!({"a": ["x", "x", "y"], "n": 1}),
            json!({"a": "y", "n": 2}),
            json!({"a": ["z", 1, true, 2.5, null, {"b": 1}], "n": 3}),
            json!({"a": 1}),
        ],
    );
    let facet = |body: Value| post(&served, "facet", &body)["hits"].clone();
    let hit = |value: Value, count: usize| json!({"value": value, "count": count});
    let all = json!([
        hit(json!(1), 2),
        hit(json!("y"), 2),
        hit(json!(true), 1),
        hit(json!("x"), 1),
        hit(json!("z"), 1)
    ]);
    assert_eq!(facet(json!({"key": "a"})), all);
    served.did("PUT", "/collections/c/index", &json!({"field_name": "a", "field_schema": "keyword"}));
    assert_eq!(facet(json!({"key": "a", "exact": true})), all);
    assert_eq!(facet(json!({"key": "a", "limit": 1})), json!([hit(json!(1), 2)]));
    let few = json!({"key": "a", "filter": {"must": [{"key": "n", "range": {"lte": 2}}]}});
    assert_eq!(facet(few), json!([hit(json!("y"), 2), hit(json!("x"), 1)]));
    assert_eq!(facet(json!({"key": "none"})), json!([]));
}
