//! Requests that are wrong: each is refused with its status, code and place, and nothing is stored.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use dehub_api::ServerConfig;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, config};

const POINTS: &str = "/collections/c/points";

/// A request and the refusal it must meet; the files under `refused` hold one a pair of lines.
struct Case<'a> {
    method: &'a str,
    path: &'a str,
    body: Option<&'a str>,
    status: u16,
    code: &'a str,
    pointer: Option<&'a str>,
    fragment: &'a str,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    lines.chunks(2).map(|pair| case_of(pair).unwrap_or_else(|| panic!("{pair:?} is no case"))).collect()
}

fn case_of<'a>(pair: &[&'a str]) -> Option<Case<'a>> {
    let [request, refusal] = pair else { return None };
    let mut request = request.splitn(3, ' ');
    let mut refusal = refusal.splitn(4, ' ');
    Some(Case {
        method: request.next()?,
        path: request.next()?,
        body: request.next(),
        status: refusal.next()?.parse().ok()?,
        code: refusal.next()?,
        pointer: match refusal.next()? {
            "-" => None,
            "\"\"" => Some(""),
            pointer => Some(pointer),
        },
        fragment: refusal.next()?,
    })
}

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

fn check_all(text: &str) {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    for case in cases(text) {
        let content_type = case.body.map(|_| "application/json");
        let reply = served.send(case.method, case.path, content_type, case.body.map(str::as_bytes));
        let asked = format!("{} {} {}", case.method, case.path, case.body.unwrap_or_default());
        check(&reply, &asked, case.status, case.code, case.pointer, case.fragment);
        assert_eq!(state(&served), before, "{asked} stored something");
    }
}

#[test]
fn wrong_upserts_store_nothing() {
    check_all(include_str!("refused/points.txt"));
}

#[test]
fn wrong_queries_are_told_what_is_wrong_where() {
    check_all(include_str!("refused/queries.txt"));
}

#[test]
fn wrong_filters_and_payloads_are_told_what_is_wrong_where() {
    check_all(include_str!("refused/payloads.txt"));
}

#[test]
fn wrong_banks_and_corrections_store_nothing() {
    check_all(include_str!("refused/fitted.txt"));
}

#[test]
fn wrong_collections_and_paths_are_refused() {
    check_all(include_str!("refused/collections.txt"));
}

#[test]
fn a_body_cut_anywhere_is_no_json() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let body = br#"{"points":[{"id":9,"vector":[1,2,3],"payload":{"a":"\u00e9"}}]}"#;
    for cut in 0..body.len() {
        let reply = served.send("PUT", POINTS, Some("application/json"), Some(&body[..cut]));
        check(
            &reply,
            &format!("{cut} bytes"),
            400,
            "bad_json",
            Some(""),
            if cut == 0 { "is empty" } else { "EOF" },
        );
    }
    let deep = "[".repeat(100_000);
    let reply = served.send("PUT", POINTS, Some("application/json"), Some(deep.as_bytes()));
    check(
        &reply,
        "deep",
        400,
        "too_deep",
        Some(""),
        "deeper than 127 arrays and objects, at line 1 column 128",
    );
    let reply = served.send("PUT", POINTS, Some("application/json"), Some(b"{\"points\":\"\xff\"}"));
    check(&reply, "not UTF-8", 400, "bad_json", Some(""), "not JSON");
    assert_eq!(state(&served), before);
}

#[test]
fn what_is_larger_than_the_engine_takes_is_refused() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let put = |body: &Value| served.json("PUT", POINTS, body);
    let points: Vec<_> = (0..16_385).map(|id| json!({"id": id, "vector": [1, 2, 3]})).collect();
    let reply = put(&json!({"points": points}));
    check(
        &reply,
        "many points",
        422,
        "batch_too_large",
        Some("/points"),
        "has 16385 points, wanted at most 16384",
    );
    let long = "x".repeat(1024 * 1024 + 1);
    let reply = put(&json!({"points": [{"id": 9, "vector": [1, 2, 3], "text": long}]}));
    check(&reply, "a long text", 422, "text_too_long", Some("/points/0/text"), "wanted at most 1048576");
    let reply = put(&json!({"points": [{"id": 9, "vector": [1, 2, 3], "payload": {"long": long}}]}));
    check(
        &reply,
        "a large payload",
        422,
        "payload_too_large",
        Some("/points/0/payload"),
        "wanted at most 1048576",
    );
    let reply = put(&json!({"points": [{"id": "x".repeat(513), "vector": [1, 2, 3]}]}));
    check(&reply, "a long id", 422, "invalid_id", Some("/points/0/id"), "this one has 513");
    assert_eq!(state(&served), before);
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let cases = [
        ("PATCH", "/collections/c/points", "POST, PUT"),
        ("DELETE", "/collections", "GET, HEAD"),
        ("POST", "/collections/c", "DELETE, GET, HEAD, PATCH, PUT"),
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
        (Some("application/xml"), "application/xml"),
        (Some("application/json; charset=latin1"), "application/json; charset=latin1"),
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
        "PUT {POINTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
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
