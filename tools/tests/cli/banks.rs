//! Banks by command: weights, removal, decay, deferral.

use serde_json::{Value, json};

use crate::{Dehub, npy};

/// Three points, a bank of three queries with ids, and a correction.
fn small() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "3"]);
    let points = dehub.file("points.npy", npy(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]));
    dehub.ok(&["import", "x", &points]);
    let bank = dehub.file(
        "bank.jsonl",
        "{\"id\": \"a\", \"vector\": [1, 1, 0], \"n\": 2}\n{\"id\": 5, \"vector\": [0, 1, 1], \"n\": 0.5}\n",
    );
    let added = dehub.json(&["bank", "x", "b", &bank, "--weight-field", "n"]);
    assert_eq!((&added["added"], &added["weight"]), (&json!(2), &json!(2.5)));
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)"]);
    dehub
}

fn bank(dehub: &Dehub) -> Value {
    dehub.state()["banks"][0].clone()
}

#[test]
fn entries_are_weighed_removed_and_weakened() {
    let dehub = small();
    let before = bank(&dehub);
    let meta = dehub.file("meta.jsonl", "{\"id\": \"c\", \"n\": 4}\n{\"id\": \"-d\", \"n\": 3}\n");
    let more = dehub.file("more.npy", npy(&[&[1.0, 0.0, 1.0], &[1.0, 2.0, 1.0]]));
    let added = dehub.json(&["bank", "x", "b", &more, "--meta", &meta, "--weight-field", "n"]);
    assert_eq!(added["weight"], 9.5);
    let removed = dehub.json(&["bank", "x", "b", "--remove", "c", "--remove", "-d", "--remove", "absent"]);
    assert_eq!((&removed["removed"], &removed["entries"]), (&json!(2), &json!(2)));
    assert_eq!(bank(&dehub), before, "they leave no trace");
    let decayed = dehub.json(&["bank", "x", "b", "--decay", "0.5", "--drop-below", "0.3"]);
    assert_eq!((&decayed["removed"], &decayed["weight"]), (&json!(1), &json!(1.0)));
}

#[test]
fn a_deferred_entry_waits_until_it_is_taken_in() {
    let dehub = small();
    let more = dehub.file("more.npy", npy(&[&[1.0, 0.0, 1.0]]));
    dehub.ok(&["bank", "x", "b", &more, "--defer"]);
    assert_eq!(dehub.state()["corrections"][0]["stale"], 1);
    let search =
        ["search", "x", "--vector", "[1, 0, 0.5]", "-k", "2", "--correction", "IS(beta=20)", "--explain"];
    let staleness = &dehub.json(&search)["staleness"];
    assert_eq!((&staleness["entries"], staleness["bounds"].as_array().map(Vec::len)), (&json!(1), Some(2)));
    assert!(dehub.ok(&search).stdout.contains("has not taken in 1 bank entries"));
    assert_eq!(dehub.json(&["bank", "x", "b", "--absorb"])["added"], 1);
    assert_eq!(dehub.state()["corrections"][0]["stale"], 0);
    assert_eq!(dehub.json(&search)["staleness"], Value::Null);
}

#[test]
fn a_weight_that_is_none_is_refused_by_row() {
    let dehub = small();
    let before = dehub.state();
    for (number, says) in [
        ("0", "bank entry 1 has the weight 0, wanted a number above 0"),
        ("\"2\"", "row 1: field n: wanted a number, found \"2\""),
        ("1e39", "bank entry 1 has the weight inf"),
    ] {
        let line = |id: &str, n: &str| format!("{{\"id\": \"{id}\", \"vector\": [1, 1, 0], \"n\": {n}}}\n");
        let file = dehub.file("bad.jsonl", line("p", "1") + &line("q", number));
        let ended = dehub.run(&["bank", "x", "b", &file, "--weight-field", "n"]);
        assert_eq!(ended.code, 1, "{number}");
        assert!(ended.stderr.contains(says), "{number}: {}", ended.stderr);
    }
    let ended = dehub.run(&["bank", "x", "b", "--decay", "2"]);
    assert!(ended.code == 1 && ended.stderr.contains("factor is 2, wanted a number above 0, at most 1"));
    assert_eq!(dehub.state(), before);
}
