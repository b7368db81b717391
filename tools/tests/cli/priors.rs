//! Priors by command: given from files, shown, searched with, taken away.

use serde_json::{Value, json};

use crate::{Dehub, npy};

/// Three points, of which a search for the first direction finds 0, 2, 1.
fn small() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let points = dehub.file("points.npy", npy(&[&[3.0, 0.0], &[1.0, 1.0], &[2.0, 0.0]]));
    dehub.ok(&["import", "x", &points]);
    dehub
}

fn found(answer: &Value) -> Vec<Value> {
    answer["points"].as_array().expect("points").iter().map(|point| point["id"].clone()).collect()
}

#[test]
fn a_prior_is_given_from_a_file_searched_with_and_dropped() {
    let dehub = small();
    let lines = dehub.file("p.jsonl", "{\"id\": 1, \"popularity\": 10}\n{\"id\": 2, \"popularity\": -0.5}\n");
    let given = dehub.json(&["prior", "x", "popularity", &lines]);
    assert_eq!((&given["given"], &given["count"], &given["points"]), (&json!(2), &json!(2), &json!(3)));
    assert_eq!((&given["min"], &given["mean"], &given["max"]), (&json!(-0.5), &json!(4.75), &json!(10.0)));
    // From a file of vectors, where the value is a field of the metadata.
    let meta = dehub.file("meta.jsonl", "{\"id\": 0, \"age\": 4}\n{\"id\": 1, \"age\": 2}\n");
    let vectors = dehub.file("v.npy", npy(&[&[1.0, 0.0], &[0.0, 1.0]]));
    dehub.ok(&["prior", "x", "fresh", &vectors, "--meta", &meta, "--field", "age"]);
    let search = |more: &[&str]| dehub.json(&[&["search", "x", "--vector", "[1, 0]"], more].concat());
    assert_eq!(found(&search(&[])), [0, 2, 1]);
    let lifted = search(&["--prior", "popularity=0.5", "--prior", "fresh=-1"]);
    assert_eq!(found(&lifted), [1, 2, 0]);
    assert_eq!((&lifted["points"][0]["score"], &lifted["points"][0]["boost"]), (&json!(4.0), &json!(3.0)));
    let explained = search(&["--prior", "popularity=0.5", "--prior", "fresh=-1", "--explain"]);
    assert_eq!(explained["boosts"][0], json!({"popularity": 5.0, "fresh": -2.0}));
    assert!(explained["raw"]["points"][0].get("boost").is_none());
    let table = dehub.ok(&["search", "x", "--vector", "[1, 0]", "--prior", "popularity=0.5"]).stdout;
    assert!(table.contains("priors") && table.contains("+5.0000"), "{table}");
    let removed = dehub.json(&["prior", "x", "popularity", "--remove", "1", "--remove", "99"]);
    assert_eq!((&removed["removed"], &removed["count"]), (&json!(1), &json!(1)));
    let shown = dehub.ok(&["prior", "x", "popularity"]).stdout;
    assert!(shown.contains("1 of 3 points have a value: -0.5 to -0.5"), "{shown}");
    dehub.ok(&["prior", "x", "popularity", "--drop"]);
    assert_eq!(dehub.run(&["prior", "x", "popularity"]).code, 1);
    assert_eq!(dehub.json(&["verify", "x"])["whole"], true);
}

#[test]
fn what_is_no_value_is_refused_by_row() {
    let dehub = small();
    let cases = [
        ("{\"id\": 1, \"p\": 1}\n{\"id\": 2}\n", "row 1: field p: wanted a number, found no such field"),
        ("{\"id\": 1, \"p\": \"a\"}\n", "row 0: field p: wanted a number, found \"a\""),
        ("{\"p\": 1}\n", "row 0: it has no id"),
        ("{\"id\": 1, \"p\": 1}\n{\"id\": 9, \"p\": 1}\n", "point 1 (id 9) does not exist"),
        ("{\"id\": 1, \"p\": 1e300}\n", "value 0 is inf"),
    ];
    for (text, says) in cases {
        let file = dehub.file("bad.jsonl", text);
        let ended = dehub.run(&["prior", "x", "p", &file]);
        assert_eq!(ended.code, 1, "{text}");
        assert!(ended.stderr.contains(says), "wanted `{says}`: {}", ended.stderr);
    }
    for weight in ["p", "p=x", "p=inf"] {
        let ended = dehub.run(&["search", "x", "--vector", "[1, 0]", "--prior", weight]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
    }
    let twice = dehub.run(&["search", "x", "--vector", "[1, 0]", "--prior", "p=1", "--prior", "p=2"]);
    assert!(twice.stderr.contains("twice"), "{}", twice.stderr);
    let unknown = dehub.run(&["search", "x", "--vector", "[1, 0]", "--prior", "p=1"]);
    assert!(unknown.stderr.contains("there is no prior `p`; the collection has: none"), "{}", unknown.stderr);
}
