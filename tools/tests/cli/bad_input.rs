//! Bad input: a clear error that names the place, a non-zero exit, and nothing half-written.

use crate::{Dehub, npy, testdata};

/// A collection `x` of three points in three dimensions, with a bank of two and a correction.
fn small() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "3"]);
    let good = dehub.file("good.npy", npy(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]));
    dehub.ok(&["import", "x", &good]);
    let bank = dehub.file("bank.npy", npy(&[&[1.0, 1.0, 0.0], &[0.0, 1.0, 1.0]]));
    dehub.ok(&["bank", "x", "b", &bank]);
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)"]);
    dehub
}

/// Runs a command that must fail with each of `parts` in its error, and change nothing.
fn refused(dehub: &Dehub, arguments: &[&str], parts: &[&str]) {
    let before = dehub.state();
    let ended = dehub.run(arguments);
    assert_eq!(ended.code, 1, "{arguments:?} printed {}", ended.stdout);
    assert_eq!(ended.stdout, "", "{arguments:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{arguments:?}: `{part}` is missing in: {}", ended.stderr);
    }
    assert_eq!(dehub.state(), before, "{arguments:?} changed the collection");
}

#[test]
fn a_file_with_a_bad_row_is_refused_whole_and_the_row_is_named() {
    let dehub = small();
    let good: &[f32] = &[0.5, 0.5, 0.0];
    type Case<'a> = (&'a str, &'a [&'a [f32]], &'a [&'a str]);
    let cases: &[Case] = &[
        ("dim.npy", &[&[1.0, 0.0]], &["dim.npy: row 0", "2 dimensions, wanted 3"]),
        ("nan.npy", &[good, &[0.0, f32::NAN, 1.0]], &["nan.npy: row 1", "coordinate 1 is NaN"]),
        ("inf.npy", &[good, &[f32::INFINITY, 0.0, 1.0]], &["inf.npy: row 1", "coordinate 0 is inf"]),
        ("zero.npy", &[good, good, &[0.0, 0.0, 0.0]], &["zero.npy: row 2", "length 0"]),
    ];
    for (name, rows, parts) in cases {
        let file = dehub.file(name, npy(rows));
        refused(&dehub, &["import", "x", &file], parts);
        refused(&dehub, &["bank", "x", "b", &file], parts);
        refused(&dehub, &["bank", "x", "new", &file], parts);
        refused(
            &dehub,
            &["search", "x", "--queries", &file, "--row", &(rows.len() - 1).to_string()],
            &parts[1..],
        );
    }
}

#[test]
fn a_broken_file_is_named_with_what_was_wanted() {
    let dehub = small();
    let whole = npy(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]]);
    let truncated = dehub.file("cut.npy", &whole[..whole.len() - 5]);
    let text = dehub.file("text.npy", "this is no array");
    let huge = dehub.file("huge.jsonl", "{\"id\": \"a\", \"vector\": [1, 1e39, 0]}\n");
    let null = dehub.file("null.jsonl", "{\"id\": \"a\", \"vector\": [1, null, 0]}\n");
    let ragged = dehub.file("ragged.jsonl", "{\"id\":1,\"vector\":[1,0,0]}\n{\"id\":2,\"vector\":[1,0]}\n");
    let twice = dehub.file("twice.jsonl", "{\"id\":1,\"vector\":[1,0,0]}\n{\"id\":1,\"vector\":[0,1,0]}\n");
    let short = dehub.file("short.jsonl", "{\"id\": \"a\"}\n");
    let table = dehub.file("bank.csv", "1,0,0\n");
    let good = dehub.path("good.npy").display().to_string();
    let parquet = testdata("bad/ragged.parquet");
    let cases: &[(&[&str], &[&str])] = &[
        (&[&truncated], &["cut.npy"]),
        (&[&text], &["text.npy"]),
        (&[&huge], &["huge.jsonl", "vector[1]", "1e39"]),
        (&[&null], &["null.jsonl", "vector[1]", "null"]),
        (&[&ragged], &["ragged.jsonl", "2", "3"]),
        (&[&twice], &["twice.jsonl: row 1, field id", "row 0"]),
        (&[&parquet], &["ragged.parquet", "row 1", "2", "3"]),
        (&["nowhere.npy"], &["nowhere.npy"]),
        (&[&table], &["bank.csv", ".npy"]),
        (&[&good, "--meta", &short], &["short.jsonl", "3", "1"]),
    ];
    for (arguments, parts) in cases {
        refused(&dehub, &[&["import", "x"], *arguments].concat(), parts);
    }
}

#[test]
fn names_and_numbers_that_do_not_exist_are_told_with_those_that_do() {
    let dehub = small();
    let bad_ids = dehub.file("ids.txt", format!("1\n\n{}\n", "x".repeat(513)));
    let cases: &[(&[&str], &[&str])] = &[
        (&["search", "y", "--id", "1"], &["`y`", "it has: x"]),
        (&["search", "x", "--id", "9"], &["no point with the id 9"]),
        (&["search", "x", "--id", "1", "--correction", "IS(beta=9)"], &["`IS(beta=9)`", "IS(beta=20)"]),
        (&["search", "x", "--id", "1", "-k", "0"], &["the limit is 0"]),
        (&["search", "x", "--id", "1", "--ef", "0"], &["effort"]),
        (&["search", "x", "--id", "1", "--recall", "0"], &["recall is 0"]),
        (&["search", "x", "--id", "1", "--recall", "-2"], &["recall is -2"]),
        (&["search", "x", "--id", "1", "--candidates", "0"], &["candidates is 0"]),
        (&["search", "x", "--vector", "[1, 0]"], &["2 dimensions, wanted 3"]),
        (&["search", "x", "--vector", "[1, 1e39, 0]"], &["coordinate 1", "1e39"]),
        (&["search", "x", "--vector", "[0, 0, 0]"], &["length 0"]),
        (&["search", "x", "--id", "1", "--only-ids", "absent.txt"], &["absent.txt"]),
        (&["search", "x", "--id", "1", "--without-ids", &bad_ids], &["ids.txt: line 3"]),
        (&["search", "x", "--id", "1", "--only-ids", "-", "--without-ids", "-"], &["standard input"]),
        (&["search", "x", "--id", "1", "--timeout", "0.000000001"], &["stopped", "1ns"]),
        (&["search", "x", "--vector", "one"], &["--vector", "JSON array"]),
        (&["search", "x", "--queries", "good.npy", "--row", "3"], &["good.npy", "row 3", "3 rows"]),
        (&["search", "x", "--id", "1", "--correction", "IS(beta=20)", "--alpha", "-1"], &["alpha"]),
        (&["fit", "x", "-m", "IS(beta=0)"], &["`beta` of IS is 0"]),
        (&["fit", "x", "-m", "IS(k=3)"], &["IS has no parameter `k`", "beta"]),
        (&["fit", "x", "-m", "SOFT"], &["unknown correction method `SOFT`"]),
        (&["fit", "x", "-m", "NNN(k=3)"], &["3 nearest", "`b` has 2 entries"]),
        (&["fit", "x", "-m", "IS", "--name", "none"], &["cannot be called `none`"]),
        (&["fit", "x", "-m", "DIS(k=4)"], &["activates 4", "3 points"]),
        (&["fit", "x", "-m", "IS", "--bank", "c"], &["no bank `c`", "has: b"]),
        (&["fit", "x", "-m", "DualIS"], &["no gallery bank"]),
        (&["bank", "x", "b", "--drop"], &["used by IS(beta=20)"]),
        (&["bank", "x", "b", "good.npy", "--kind", "gallery"], &["`b` is a query bank"]),
        (&["create", "x", "--dim", "3"], &["`x`", "already"]),
        (&["create", "../y", "--dim", "3"], &["`../y` cannot be used"]),
        (&["create", "y", "--dim", "0"], &["1 to 65535", "found 0"]),
        (&["create", "y", "--dim", "3", "--metric", "manhattan"], &["`manhattan`", "cosine"]),
        (&["create", "y", "--dim", "3", "--m", "1"], &["`m` is 1"]),
        (&["delete", "x", "--correction", "DIS"], &["no correction `DIS`", "IS(beta=20)"]),
        (&["hubs", "x", "--bank", "c"], &["no bank `c`", "b"]),
        (&["hubs", "x", "-k", "4"], &["4", "3 points"]),
        (&["demo", "--from", "nowhere"], &["nowhere", "--from"]),
    ];
    for (arguments, parts) in cases {
        refused(&dehub, arguments, parts);
    }
}

#[test]
fn a_bank_without_entries_is_refused() {
    let dehub = small();
    let empty = dehub.file("empty.npy", npy(&[]));
    refused(&dehub, &["bank", "x", "c", &empty], &["empty.npy"]);
    dehub.ok(&["create", "nothing", "--dim", "3"]);
    let ended = dehub.run(&["bank", "nothing", "g", "--from-gallery"]);
    assert!(ended.code == 1 && ended.stderr.contains("no points"), "{}", ended.stderr);
}

#[test]
fn eval_names_what_it_cannot_measure() {
    let dehub = small();
    let qrels = dehub.file("qrels.txt", "q0 0 1 1\n");
    let broken = dehub.file("broken.txt", "q0 0 1 1\nq1 0 1 much\n");
    let meta = dehub.file("meta.jsonl", "{\"id\":\"q0\"}\n{\"id\":\"q1\"}\n");
    let base = ["eval", "x", "--queries", "bank.npy"];
    refused(&dehub, &[&base[..], &["--qrels", &qrels]].concat(), &["no ids", "--meta"]);
    refused(
        &dehub,
        &[&base[..], &["--meta", &meta, "--qrels", &broken]].concat(),
        &["broken.txt", "2", "much"],
    );
    refused(&dehub, &[&base[..], &["--meta", &meta, "--qrels", "gone.txt"]].concat(), &["gone.txt"]);
    let measure = ["--meta", &meta, "--qrels", &qrels, "--measure", "R@0"];
    refused(&dehub, &[&base[..], &measure].concat(), &["R@k", "found \"0\""]);
}

#[test]
fn good_rows_are_stored_and_bad_ones_listed_when_asked() {
    let dehub = small();
    let file = dehub.file("mixed.npy", npy(&[&[1.0, 1.0, 0.0], &[0.0, f32::NAN, 1.0], &[0.0, 1.0, 1.0]]));
    let ended = dehub.run(&["import", "x", &file, "--skip-bad", "--json"]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("mixed.npy: row 1"), "{}", ended.stderr);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one JSON object");
    assert_eq!(result["added"], 0);
    assert_eq!(result["replaced"], 2);
    assert_eq!(result["refused"][0]["row"], 1);
    assert_eq!(dehub.json(&["info", "x"])["points"], 3);
}

#[test]
fn a_dry_run_stores_nothing() {
    let dehub = small();
    let before = dehub.state();
    let result = dehub.json(&["import", "x", "good.npy", "--dry-run"]);
    assert_eq!(result["rows"], 3);
    assert_eq!(dehub.state(), before);
}

#[test]
fn a_collection_that_does_not_open_is_listed_beside_the_others() {
    let dehub = small();
    dehub.ok(&["create", "broken", "--dim", "3"]);
    let folder = dehub.path("data/collections/broken");
    let store = std::fs::read_dir(folder).expect("a collection").flatten().map(|entry| entry.path()).min();
    std::fs::write(store.expect("a store").join("CURRENT"), "nonsense").expect("writable");
    let info = dehub.json(&["info"]);
    assert!(info["collections"][0]["error"].as_str().is_some_and(|error| error.contains("broken")));
    assert_eq!(info["collections"][1]["points"], 3);
    dehub.ok(&["delete", "broken"]);
}

#[test]
fn a_method_may_be_written_in_any_way_that_names_it() {
    let dehub = small();
    for name in ["IS(beta=20)", "is", "IS( beta = 20.0 )"] {
        let answer = dehub.json(&["search", "x", "--id", "1", "-k", "1", "--correction", name]);
        assert_eq!(answer["correction"], "IS(beta=20)@1", "{name}");
    }
}
