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
