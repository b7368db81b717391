//! Searches that may answer with some of the points only, and have some of the time only.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::{Dehub, ended, npy};

/// A collection `x` of four points, a hub among them, with a correction.
fn small() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let points = dehub.file("points.npy", npy(&[&[1.0, 0.0], &[0.0, 1.0], &[0.7, 0.7], &[0.9, 0.1]]));
    dehub.ok(&["import", "x", &points]);
    let bank = dehub.file("bank.npy", npy(&[&[0.75, 0.65], &[0.65, 0.75]]));
    dehub.ok(&["bank", "x", "b", &bank]);
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)"]);
    dehub
}

fn found(answer: &Value) -> Vec<Value> {
    answer["points"].as_array().expect("points").iter().map(|point| point["id"].clone()).collect()
}

#[test]
fn only_some_ids_and_without_others() {
    let dehub = small();
    let some = dehub.file("some.txt", "2\n0\r\n\n  3 \nabsent\n");
    let hub = dehub.file("hub.txt", "2");
    let none = dehub.file("none.txt", "");
    let search = |more: &[&str]| {
        let query = ["search", "x", "--vector", "[0.8, 0.6]", "-k", "4"];
        dehub.json(&[&query[..], more].concat())
    };
    assert_eq!(found(&search(&[])), [2, 3, 0, 1]);
    assert_eq!(found(&search(&["--only-ids", &some, "--timeout", "60"])), [2, 3, 0]);
    assert_eq!(found(&search(&["--without-ids", &hub])), [3, 0, 1]);
    assert_eq!(found(&search(&["--only-ids", &some, "--without-ids", &hub])), [3, 0]);
    assert_eq!(found(&search(&["--only-ids", &none])), Vec::<Value>::new());
    let explained = search(&["--without-ids", &hub, "--correction", "IS(beta=20)", "--explain"]);
    let points = explained["points"].as_array().expect("points");
    let mut ranks: Vec<u64> = points.iter().filter_map(|point| point["rank_raw"].as_u64()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 2, 3], "among what is allowed");
    let plan = explained["plan"].as_str().expect("a plan");
    assert!(plan.starts_with("exact scan of the 3 of 4 points that the filter allows"), "{plan}");
}

/// Four points with payloads.
fn with_payloads() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let lines = [
        r#"{"id": 0, "vector": [1, 0], "lang": "en", "year": 2019, "tags": ["a", "b"]}"#,
        r#"{"id": 1, "vector": [0, 1], "lang": "en", "year": 2021}"#,
        r#"{"id": 2, "vector": [0.7, 0.7], "lang": "de", "year": 2022, "tags": []}"#,
        r#"{"id": "x", "vector": [0.9, 0.1], "year": 2023}"#,
    ];
    let file = dehub.file("points.jsonl", lines.join("\n"));
    dehub.ok(&["import", "x", &file]);
    dehub
}

#[test]
fn a_filter_in_words_or_as_json_chooses_what_is_found_exported_and_deleted() {
    let dehub = with_payloads();
    let search = |filter: &str| {
        let mut ids = found(&dehub.json(&["search", "x", "--vector", "[0.8, 0.6]", "--filter", filter]));
        ids.sort_by_key(Value::to_string);
        ids
    };
    for (filter, ids) in [
        ("lang = 'en' AND year >= 2020", serde_json::json!([1])),
        ("NOT lang = \"en\"", serde_json::json!(["x", 2])),
        ("COUNT(tags) > 0 OR id = 'x'", serde_json::json!(["x", 0])),
        (r#"{"must": [{"key": "year", "range": {"lt": 2022}}]}"#, serde_json::json!([0, 1])),
    ] {
        assert_eq!(serde_json::json!(search(filter)), ids, "{filter}");
    }
    let hub = dehub.file("hub.txt", "1");
    let both = ["search", "x", "--vector", "[1, 0]", "--filter", "lang = 'en'", "--without-ids", &hub];
    assert_eq!(found(&dehub.json(&both)), [0]);
    for (bad, says) in
        [("lang = ", "at column 8 of the filter: wanted a value"), ("{\"must\": 5}", "/must"), ("{", "JSON")]
    {
        let refused = dehub.run(&["search", "x", "--vector", "[1, 0]", "--filter", bad]);
        assert_eq!(refused.code, 2, "{bad}");
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    let out = dehub.path("out.jsonl");
    let out = out.to_str().expect("UTF-8");
    dehub.ok(&["export", "x", "points", "--filter", "year BETWEEN 2021 AND 2022", "-o", out]);
    assert_eq!(std::fs::read_to_string(out).expect("written").lines().count(), 2);
    let deleted = dehub.json(&["delete", "x", "--filter", "lang IS NOT EMPTY"]);
    assert_eq!(deleted["deleted"], 3);
    assert_eq!(search("year > 0"), ["x"]);
    assert_eq!(dehub.json(&["delete", "x", "--filter", "year = 1"])["deleted"], 0);
}

#[test]
fn ids_may_come_from_standard_input() {
    let dehub = small();
    let mut command =
        dehub.command(&["search", "x", "--vector", "[0.8, 0.6]", "-k", "4", "--only-ids", "-", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("piped").write_all(b"1\n3\n").expect("it reads");
    let ended = ended(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(found(&serde_json::from_str(&ended.stdout).expect("JSON")), [3, 1]);
}
