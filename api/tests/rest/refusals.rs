//! Requests that are wrong: each is refused with its status, code and place, and nothing is stored.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use dehub_api::ServerConfig;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, config};

/// A refused request: what is asked, and what must come back.
type Case = (&'static str, &'static str, &'static str, u16, &'static str, Option<&'static str>, &'static str);

const POINTS: &str = "/collections/c/points";
const QUERY: &str = "/collections/c/points/query";
const BATCH: &str = "/collections/c/points/query/batch";
const BANK: &str = "/collections/c/banks/new";
const FIT: &str = "/collections/c/corrections/new";

/// Three points, a bank of two queries, an empty bank, a gallery bank, a correction.
fn fill(client: &Client) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": 3, "distance": "Cosine"}}));
    let points = json!({"batch": {"ids": [1, 2, "x"], "vectors": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}});
    client.did("PUT", POINTS, &points);
    client.did(
        "PUT",
        "/collections/c/banks/b",
        &json!({"kind": "query", "vectors": [[1, 1, 0], [0, 1, 1]], "ids": [1, 2]}),
    );
    client.did("PUT", "/collections/c/banks/empty", &json!({"kind": "query", "vectors": []}));
    client.did("PUT", "/collections/c/banks/g", &json!({"kind": "gallery", "from_gallery": true}));
    client.did("PUT", "/collections/c/corrections/is", &json!({"method": "IS", "query_bank": "b"}));
}

/// All there is to know about the collection, but for what the file system says.
fn state(client: &Client) -> Value {
    let mut state = client.get("/collections/c");
    state["bytes_on_disk"] = Value::Null;
    json!([client.get("/collections"), state])
}

#[track_caller]
fn check(reply: &Reply, asked: &str, status: u16, code: &str, pointer: Option<&str>, fragment: &str) {
    let said = format!("{asked}\n  -> {}", reply.body);
    assert_eq!(reply.status, status, "{said}");
    assert_eq!(reply.content_type, "application/problem+json", "{said}");
    assert_eq!(reply.body["status"], status, "{said}");
    assert_eq!(reply.body["code"], code, "{said}");
    assert_eq!(reply.body["type"], format!("urn:dehub:problem:{code}"), "{said}");
    assert!(reply.body["title"].is_string(), "{said}");
    assert_eq!(reply.body["errors"][0]["pointer"].as_str(), pointer, "{said}");
    assert!(reply.body["detail"].as_str().is_some_and(|detail| detail.contains(fragment)), "{said}");
}

fn check_all(cases: &[Case]) {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    for &(method, path, body, status, code, pointer, fragment) in cases {
        let content_type = (!body.is_empty()).then_some("application/json");
        let reply = served.send(method, path, content_type, (!body.is_empty()).then_some(body.as_bytes()));
        let asked = format!("{method} {path} {body}");
        check(&reply, &asked, status, code, pointer, fragment);
        assert_eq!(state(&served), before, "{asked} stored something");
    }
}

#[rustfmt::skip]
const UPSERTS: &[Case] = &[
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2]}]}"#, 422, "dimension_mismatch", Some("/points/0/vector"), "has 2 dimensions, wanted 3"),
    ("PUT", POINTS, r#"{"points":[{"id":8,"vector":[1,2,3]},{"id":9,"vector":[1,2,3,4]}]}"#, 422, "dimension_mismatch", Some("/points/1/vector"), "point 1 (id 9)"),
    ("PUT", POINTS, r#"{"batch":{"ids":[8,9],"vectors":[[1,2,3],[1]]}}"#, 422, "dimension_mismatch", Some("/batch/vectors/1"), "wanted 3"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,NaN,3]}]}"#, 400, "bad_json", None, "line 1 column"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,Infinity,3]}]}"#, 400, "bad_json", None, "not JSON"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,1e400,3]}]}"#, 400, "bad_json", None, "out of range"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,1e39]}]}"#, 422, "not_finite", Some("/points/0/vector/2"), "wanted a finite 32-bit number"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,-1e39]}]}"#, 422, "not_finite", Some("/points/0/vector/2"), "-1e39"),
    ("PUT", POINTS, r#"{"batch":{"ids":[9],"vectors":[[1,1e39,2]]}}"#, 422, "not_finite", Some("/batch/vectors/0/1"), "32-bit"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,null,3]}]}"#, 422, "wrong_type", Some("/points/0/vector/1"), "is null, wanted"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,"2",3]}]}"#, 422, "wrong_type", Some("/points/0/vector/1"), r#"the string "2""#),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[[1,2,3]]}]}"#, 422, "wrong_type", Some("/points/0/vector/0"), "an array of 3"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":null}]}"#, 422, "wrong_type", Some("/points/0/vector"), "is null"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":{"image":[1,2,3]}}]}"#, 422, "wrong_type", Some("/points/0/vector"), "wanted an array of numbers"),
    ("PUT", POINTS, r#"{"points":[{"id":9}]}"#, 422, "missing_field", Some("/points/0"), "lacks the field `vector`"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[0,0,0]}]}"#, 422, "zero_vector", Some("/points/0/vector"), "nonzero vector under cosine"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,3]},{"id":9,"vector":[1,2,3]}]}"#, 422, "duplicate_id", Some("/points/1/id"), "each id once"),
    ("PUT", POINTS, r#"{"batch":{"ids":["q",7,"q"],"vectors":[[1,2,3],[1,2,3],[1,2,3]]}}"#, 422, "duplicate_id", Some("/batch/ids/2"), "the id q"),
    ("PUT", POINTS, r#"{"points":[{"id":-1,"vector":[1,2,3]}]}"#, 422, "invalid_id", Some("/points/0/id"), "is -1, wanted a whole number"),
    ("PUT", POINTS, r#"{"points":[{"id":1.5,"vector":[1,2,3]}]}"#, 422, "invalid_id", Some("/points/0/id"), "is 1.5"),
    ("PUT", POINTS, r#"{"points":[{"id":true,"vector":[1,2,3]}]}"#, 422, "invalid_id", Some("/points/0/id"), "is true"),
    ("PUT", POINTS, r#"{"points":[{"id":18446744073709551616,"vector":[1,2,3]}]}"#, 422, "invalid_id", Some("/points/0/id"), "wanted a whole number"),
    ("PUT", POINTS, r#"{"points":[{"id":"","vector":[1,2,3]}]}"#, 422, "invalid_id", Some("/points/0/id"), "must not be empty"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,3],"payload":[1]}]}"#, 422, "wrong_type", Some("/points/0/payload"), "wanted an object"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,3],"text":5}]}"#, 422, "wrong_type", Some("/points/0/text"), "wanted a string"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,3],"vektor":[1,2,3]}]}"#, 422, "unknown_field", Some("/points/0/vektor"), "wanted id, vector, payload, text"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"id":8,"vector":[1,2,3]}]}"#, 422, "duplicate_field", None, "`id` twice"),
    ("PUT", POINTS, r#"{"points":[]}"#, 422, "empty_batch", Some("/points"), "at least one point"),
    ("PUT", POINTS, r#"{"ids":[9]}"#, 422, "missing_field", Some(""), "`points`"),
    ("PUT", POINTS, r#"{"points":[],"batch":{}}"#, 422, "invalid_value", Some("/batch"), "one of them"),
    ("PUT", POINTS, r#"{"batch":{"ids":[8,9],"vectors":[[1,2,3]]}}"#, 422, "lengths_differ", Some("/batch/vectors"), "has 1 entries, wanted 2"),
    ("PUT", POINTS, r#"{"batch":{"ids":[9],"vectors":[[1,2,3]],"payloads":[]}}"#, 422, "lengths_differ", Some("/batch/payloads"), "wanted 1"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"vector":[1,2,3]}],"shard_key":"s"}"#, 422, "not_supported", Some("/shard_key"), "not supported yet"),
    ("PUT", POINTS, r#"{"points":[{"id":9,"#, 400, "bad_json", None, "EOF"),
    ("PUT", POINTS, r#"[1]"#, 422, "wrong_type", Some(""), "the body is an array of 1, wanted an object"),
    ("PUT", "/collections/c/points?wait=false", r#"{"points":[{"id":9,"vector":[1,2,3]}]}"#, 422, "invalid_value", None, "on disk"),
    ("PUT", "/collections/c/points?ordering=strong", r#"{"points":[{"id":9,"vector":[1,2,3]}]}"#, 422, "unknown_parameter", None, "`ordering`"),
    ("PUT", "/collections/nowhere/points", r#"{"points":[{"id":9,"vector":[1,2,3]}]}"#, 404, "unknown_collection", None, "no collection `nowhere`; there are: c"),
    ("POST", "/collections/c/points/delete", r#"{"points":[1,null]}"#, 422, "invalid_id", Some("/points/1"), "is null"),
    ("POST", "/collections/c/points/delete", r#"{"filter":{}}"#, 422, "missing_field", Some(""), "found filter"),
    ("POST", "/collections/c/points/delete", r#"{"points":[1],"filter":{}}"#, 422, "not_supported", Some("/filter"), "not supported yet"),
];

#[rustfmt::skip]
const QUERIES: &[Case] = &[
    ("POST", QUERY, r#"{"query":[1,2]}"#, 422, "dimension_mismatch", Some("/query"), "has 2 dimensions, wanted 3"),
    ("POST", QUERY, r#"{"query":{"nearest":[1,2]}}"#, 422, "dimension_mismatch", Some("/query/nearest"), "wanted 3"),
    ("POST", QUERY, r#"{"query":[0,0,0]}"#, 422, "zero_vector", Some("/query"), "length 0"),
    ("POST", QUERY, r#"{"query":[1,1e39,0]}"#, 422, "not_finite", Some("/query/1"), "1e39"),
    ("POST", QUERY, r#"{"query":{"recommend":{"positive":[1]}}}"#, 422, "not_supported", Some("/query/recommend"), "not supported yet"),
    ("POST", QUERY, r#"{"query":{}}"#, 422, "missing_field", Some("/query"), "`nearest`"),
    ("POST", QUERY, r#"{"query":true}"#, 422, "wrong_type", Some("/query"), "a vector"),
    ("POST", QUERY, r#"{"limit":1}"#, 422, "missing_field", Some(""), "`query`"),
    ("POST", QUERY, r#"{"query":"absent"}"#, 404, "unknown_point", Some("/query"), "id absent"),
    ("POST", QUERY, r#"{"query":"1"}"#, 404, "unknown_point", Some("/query"), "id 1"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":20}"#, 422, "more_than_points", Some("/limit"), "the limit is 20, but the collection has 3 points"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":20,"offset":1}"#, 422, "more_than_points", Some("/limit"), "the limit is 20, but the collection has 3 points"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":0}"#, 422, "invalid_limit", Some("/limit"), "wanted 1 to"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":-1}"#, 422, "invalid_value", Some("/limit"), "is -1"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":1.5}"#, 422, "invalid_value", Some("/limit"), "a whole number"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limit":"1"}"#, 422, "wrong_type", Some("/limit"), "a whole number"),
    ("POST", QUERY, r#"{"query":[1,2,3],"filter":{"must":[]}}"#, 422, "not_supported", Some("/filter"), "not supported yet"),
    ("POST", QUERY, r#"{"query":[1,2,3],"using":"image"}"#, 422, "not_supported", Some("/using"), "not supported yet"),
    ("POST", QUERY, r#"{"query":[1,2,3],"prefetch":[]}"#, 422, "not_supported", Some("/prefetch"), "not supported yet"),
    ("POST", QUERY, r#"{"query":[1,2,3],"limits":1}"#, 422, "unknown_field", Some("/limits"), "`/limits` is no field of this body"),
    ("POST", QUERY, r#"{"query":[1,2,3],"params":{"hnsw_ef":0}}"#, 422, "invalid_effort", Some("/params/hnsw_ef"), "wanted at least 1"),
    ("POST", QUERY, r#"{"query":[1,2,3],"params":{"hnsw_ef":5,"exact":true}}"#, 422, "invalid_value", Some("/params/hnsw_ef"), "exact"),
    ("POST", QUERY, r#"{"query":[1,2,3],"params":{"quantization":{}}}"#, 422, "not_supported", Some("/params/quantization"), "not supported"),
    ("POST", QUERY, r#"{"query":[1,2,3],"with_payload":["a"]}"#, 422, "wrong_type", Some("/with_payload"), "true or false"),
    ("POST", QUERY, r#"{"query":[1,2,3],"hubness":{"correction":"nnn"}}"#, 422, "unknown_correction", Some("/hubness/correction"), "no correction `nnn`; the collection has: is"),
    ("POST", QUERY, r#"{"query":[1,2,3],"hubness":{"correction":"is","weight":-1}}"#, 422, "invalid_weight", Some("/hubness/weight"), "from 0 to 100"),
    ("POST", QUERY, r#"{"query":[1,2,3],"hubness":{"weight":2}}"#, 422, "invalid_weight", Some("/hubness/weight"), "no meaning"),
    ("POST", QUERY, r#"{"query":[1,2,3],"hubness":{"method":"is"}}"#, 422, "unknown_field", Some("/hubness/method"), "wanted correction, weight, explain"),
    ("POST", BATCH, r#"{"searches":[{"query":[1,2,3]},{"query":[1]}]}"#, 422, "dimension_mismatch", Some("/searches/1/query"), "wanted 3"),
    ("POST", BATCH, r#"{"searches":[{"query":[1,2,3]},{"query":[1,2,3],"limit":9}]}"#, 422, "more_than_points", Some("/searches/1/limit"), "the limit is 9"),
    ("POST", BATCH, r#"{"searches":[{"query":1},{"query":1,"hubness":{"correction":"q"}}]}"#, 422, "unknown_correction", Some("/searches/1/hubness/correction"), "`q`"),
    ("POST", BATCH, r#"{"searches":[{"query":1},{"query":1,"filter":{}}]}"#, 422, "not_supported", Some("/searches/1/filter"), "not supported"),
    ("POST", BATCH, r#"{"searches":[]}"#, 422, "empty_batch", Some("/searches"), "at least one"),
    ("POST", "/collections/c/points/search", r#"{"vector":[1,2]}"#, 422, "dimension_mismatch", Some("/vector"), "wanted 3"),
    ("POST", "/collections/c/points/search", r#"{"query":[1,2,3]}"#, 422, "missing_field", Some(""), "`vector`"),
    ("POST", "/collections/nowhere/points/query", r#"{"query":[1,2,3]}"#, 404, "unknown_collection", None, "`nowhere`"),
    ("GET", "/collections/c/points/9", "", 404, "unknown_point", None, "id 9"),
    ("GET", "/collections/c/points/1?id_type=string", "", 404, "unknown_point", None, "id 1"),
    ("GET", "/collections/c/points/1?id_type=uuid", "", 422, "invalid_value", None, "wanted string"),
    ("GET", "/collections/c/hubness?bank=b&k=20", "", 422, "more_than_points", None, "k is 20, but the collection has 3 points"),
    ("GET", "/collections/c/hubness?bank=b&k=x", "", 422, "invalid_value", None, "`k` is `x`"),
    ("GET", "/collections/c/hubness?bank=b&k=0", "", 422, "invalid_value", None, "from 1"),
    ("GET", "/collections/c/hubness", "", 422, "invalid_value", None, "`bank` is missing"),
    ("GET", "/collections/c/hubness?bank=nope", "", 422, "unknown_bank", None, "no bank `nope`; the collection has: b, empty, g"),
    ("GET", "/collections/c/hubness?bank=empty", "", 422, "empty_bank", None, "empty"),
    ("GET", "/collections/c/hubness?bank=b&correction=x", "", 422, "unknown_correction", None, "`x`"),
];

#[rustfmt::skip]
const FITTED: &[Case] = &[
    ("PUT", BANK, r#"{"kind":"query","vectors":[[1,2]]}"#, 422, "dimension_mismatch", Some("/vectors/0"), "bank entry 0"),
    ("PUT", BANK, r#"{"kind":"query","vectors":[[1,2,3],[0,0,0]]}"#, 422, "zero_vector", Some("/vectors/1"), "bank entry 1"),
    ("PUT", BANK, r#"{"kind":"query","vectors":[[1,2,3],[1,2,3]],"ids":[1]}"#, 422, "lengths_differ", Some("/ids"), "wanted 2"),
    ("PUT", BANK, r#"{"kind":"query","vectors":[[1,2,3],[1,2,3]],"ids":[1,1]}"#, 422, "duplicate_id", Some("/ids/1"), "each id once"),
    ("PUT", BANK, r#"{"kind":"both","vectors":[]}"#, 422, "invalid_value", Some("/kind"), "query or gallery"),
    ("PUT", BANK, r#"{"vectors":[]}"#, 422, "missing_field", Some(""), "`kind`"),
    ("PUT", BANK, r#"{"kind":"query","from_gallery":true}"#, 422, "bank_kind", Some("/kind"), "gallery"),
    ("PUT", BANK, r#"{"kind":"gallery","from_gallery":true,"vectors":[]}"#, 422, "invalid_value", Some("/vectors"), "no meaning"),
    ("PUT", "/collections/c/banks/b", r#"{"kind":"query","vectors":[[1,2,3]],"ids":[2]}"#, 409, "entry_exists", Some("/ids/0"), "has already"),
    ("PUT", "/collections/c/banks/b", r#"{"kind":"gallery","vectors":[[1,2,3]]}"#, 422, "bank_kind", Some("/kind"), "query bank"),
    ("PUT", "/collections/c/banks/g", r#"{"kind":"gallery","from_gallery":true}"#, 409, "entry_exists", Some("/from_gallery"), "has already"),
    ("GET", "/collections/c/banks/nope", "", 404, "unknown_bank", None, "the collection has: b, empty, g"),
    ("DELETE", "/collections/c/banks/nope", "", 404, "unknown_bank", None, "`nope`"),
    ("DELETE", "/collections/c/banks/b", "", 409, "bank_in_use", None, "used by is"),
    ("PUT", FIT, r#"{"method":"IS","query_bank":"nope"}"#, 422, "unknown_bank", Some("/query_bank"), "no bank `nope`"),
    ("PUT", FIT, r#"{"method":"DualIS","query_bank":"b","gallery_bank":"nope"}"#, 422, "unknown_bank", Some("/gallery_bank"), "`nope`"),
    ("PUT", FIT, r#"{"method":"IS"}"#, 422, "missing_bank", Some("/query_bank"), "needs a query bank"),
    ("PUT", FIT, r#"{"method":"DualIS","query_bank":"b"}"#, 422, "missing_bank", Some("/gallery_bank"), "needs a gallery bank"),
    ("PUT", FIT, r#"{"method":"IS","query_bank":"g"}"#, 422, "bank_kind", Some("/query_bank"), "wanted a query bank"),
    ("PUT", FIT, r#"{"method":"IS","query_bank":"empty"}"#, 422, "empty_bank", Some("/query_bank"), "is empty"),
    ("PUT", FIT, r#"{"method":"IS","query_bank":"b","gallery_bank":"g"}"#, 422, "bank_unused", Some("/gallery_bank"), "IS uses no gallery bank"),
    ("PUT", FIT, r#"{"method":"NNN","parameters":{"k":5},"query_bank":"b"}"#, 422, "more_than_bank", Some("/parameters/k"), "has 2 entries"),
    ("PUT", FIT, r#"{"method":"NNN(k=5)","query_bank":"b"}"#, 422, "more_than_bank", Some("/method"), "has 2 entries"),
    ("PUT", FIT, r#"{"method":"DIS","parameters":{"k":4},"query_bank":"b"}"#, 422, "more_than_points", Some("/parameters/k"), "3 points"),
    ("PUT", FIT, r#"{"method":"ZCA","query_bank":"b"}"#, 422, "unknown_method", Some("/method"), "`ZCA`"),
    ("PUT", FIT, r#"{"method":"IS(beta=","query_bank":"b"}"#, 422, "invalid_method", Some("/method"), "not of the form"),
    ("PUT", FIT, r#"{"method":"IS(beta=2)","parameters":{"beta":2},"query_bank":"b"}"#, 422, "invalid_value", Some("/parameters"), "too"),
    ("PUT", FIT, r#"{"method":"IS","parameters":{"k":2},"query_bank":"b"}"#, 422, "invalid_parameter", Some("/parameters/k"), "no parameter `k`"),
    ("PUT", FIT, r#"{"method":"IS","parameters":{"beta":0},"query_bank":"b"}"#, 422, "invalid_parameter", Some("/parameters/beta"), "above 0"),
    ("PUT", FIT, r#"{"method":"DualIS","parameters":{"b2":-3},"query_bank":"b","gallery_bank":"g"}"#, 422, "invalid_parameter", Some("/parameters/b2"), "above 0"),
    ("PUT", FIT, r#"{"method":"IS","parameters":{"beta":"20"},"query_bank":"b"}"#, 422, "wrong_type", Some("/parameters/beta"), "a number"),
    ("PUT", FIT, r#"{"method":"IS","query_bank":"a b"}"#, 422, "invalid_name", Some("/query_bank"), "cannot be used"),
    ("GET", "/collections/c/corrections/nope", "", 404, "unknown_correction", None, "the collection has: is"),
    ("DELETE", "/collections/c/corrections/nope", "", 404, "unknown_correction", None, "`nope`"),
];

#[rustfmt::skip]
const COLLECTIONS: &[Case] = &[
    ("PUT", "/collections/c", r#"{"vectors":{"size":3,"distance":"Cosine"}}"#, 409, "collection_exists", None, "collection `c` already"),
    ("PUT", "/collections/d", r#"{"vectors":{"size":0,"distance":"Dot"}}"#, 422, "invalid_config", Some("/vectors/size"), "found 0"),
    ("PUT", "/collections/d", r#"{"vectors":{"size":3,"distance":"Manhattan"}}"#, 422, "invalid_value", Some("/vectors/distance"), "Cosine, Dot or Euclid"),
    ("PUT", "/collections/d", r#"{"vectors":{"image":{"size":3,"distance":"Dot"}}}"#, 422, "missing_field", Some("/vectors"), "found image"),
    ("PUT", "/collections/d", r#"{"vectors":{"size":3,"distance":"Dot"},"hnsw_config":{"m":1}}"#, 422, "invalid_config", Some("/hnsw_config/m"), "2 to 128"),
    ("PUT", "/collections/d", r#"{"vectors":{"size":3,"distance":"Dot"},"hnsw_config":{"ef_construct":0}}"#, 422, "invalid_config", Some("/hnsw_config/ef_construct"), "is 0"),
    ("PUT", "/collections/d", r#"{"vectors":{"size":3,"distance":"Dot"},"shard_number":2}"#, 422, "not_supported", Some("/shard_number"), "not supported"),
    ("PUT", "/collections/d", r#"{}"#, 422, "missing_field", Some(""), "`vectors`"),
    ("PUT", "/collections/a%20b", r#"{"vectors":{"size":3,"distance":"Dot"}}"#, 422, "invalid_name", None, "`a b` cannot be used"),
    ("PUT", "/collections/..%2Fd", r#"{"vectors":{"size":3,"distance":"Dot"}}"#, 422, "invalid_name", None, "`../d`"),
    ("GET", "/collections/d", "", 404, "unknown_collection", None, "no collection `d`"),
    ("DELETE", "/collections/d", "", 404, "unknown_collection", None, "no collection `d`"),
    ("GET", "/nothing", "", 404, "unknown_path", None, "nothing at /nothing"),
    ("GET", "/collections/c/points/1/2", "", 404, "unknown_path", None, "/collections/c/points/1/2"),
    ("GET", "/collections?limit=1", "", 422, "unknown_parameter", None, "`limit`"),
];

#[test]
fn wrong_upserts_store_nothing() {
    check_all(UPSERTS);
}

#[test]
fn wrong_queries_are_told_what_is_wrong_where() {
    check_all(QUERIES);
}

#[test]
fn wrong_banks_and_corrections_store_nothing() {
    check_all(FITTED);
}

#[test]
fn wrong_collections_and_paths_are_refused() {
    check_all(COLLECTIONS);
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let cases = [
        ("PATCH", "/collections/c", "DELETE, GET, PUT"),
        ("DELETE", "/collections", "GET"),
        ("POST", "/collections/c", "DELETE, GET, PUT"),
        ("PUT", "/collections/c/points/query", "POST"),
    ];
    for (method, path, allow) in cases {
        let reply =
            served.send(method, path, Some("application/json"), (method != "DELETE").then_some(b"{}"));
        check(&reply, &format!("{method} {path}"), 405, "wrong_method", None, allow);
        assert_eq!(reply.allow.as_deref(), Some(allow));
    }
}

#[test]
fn a_body_of_another_type_is_refused() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let body = br#"{"points":[{"id":9,"vector":[1,2,3]}]}"#;
    for (content_type, found) in [
        (Some("text/plain"), "text/plain"),
        (Some("application/x-ndjson"), "application/x-ndjson"),
        (None, "none"),
    ] {
        let reply = served.send("PUT", POINTS, content_type, Some(body));
        check(
            &reply,
            found,
            415,
            "wrong_content_type",
            None,
            &format!("is {found}, wanted application/json"),
        );
    }
    assert_eq!(state(&served), before);
    let reply = served.send("PUT", POINTS, Some("application/JSON; charset=utf-8"), Some(body));
    assert_eq!(reply.status, 200);
}

#[test]
fn a_body_that_is_too_large_is_refused_with_the_limit_and_its_size() {
    let folder = tempdir().expect("a folder");
    let served = Served::start_with(folder.path(), &ServerConfig { body_limit_bytes: 10_000, ..config() });
    fill(&served);
    let before = state(&served);
    let padded = |size: usize| {
        let mut body = br#"{"points":[{"id":9,"vector":[1,2,3]}]}"#.to_vec();
        body.resize(size, b' ');
        served.send("PUT", POINTS, Some("application/json"), Some(&body))
    };
    for (size, parts) in [(10_001, 2), (20_000_000, 2000)] {
        let detail = format!("the body has {size} bytes, the limit is 10000: send it in {parts} parts");
        check(&padded(size), "too large", 413, "body_too_large", None, &detail);
    }
    assert_eq!(state(&served), before);
    assert_eq!(padded(10_000).status, 200);
}

#[test]
fn a_connection_that_breaks_off_stores_nothing() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let body = r#"{"points":[{"id":9,"vector":[1,2,3]}]}"#;
    let head = format!(
        "PUT {POINTS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len() + 1
    );
    let mut stream = TcpStream::connect(served.address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid timeout");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("the client ends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server ends as well");
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(state(&served), before);
}
