//! `dehub bench`: curves and loads.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Dehub, npy};

const POINTS: usize = 1500;

/// Numbers from −1 to 1 that are the same each time, in rows of eight around a common direction.
fn vectors(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| (0..8).map(|place| number() + if place < 3 { 0.6 } else { 0.0 }).collect()).collect()
}

fn file(dehub: &Dehub, name: &str, vectors: &[Vec<f32>]) -> String {
    dehub.file(name, npy(&vectors.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// A collection with a graph and a correction, and a file of queries.
fn prepared() -> (Dehub, String) {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "8", "--full-scan-threshold", "1"]);
    dehub.ok(&["import", "x", &file(&dehub, "p.npy", &vectors(POINTS, 1))]);
    dehub.ok(&["bank", "x", "asked", &file(&dehub, "b.npy", &vectors(300, 2))]);
    dehub.ok(&["fit", "x", "-m", "NNN(alpha=0.75,k=16)", "--name", "nnn"]);
    let queries = file(&dehub, "q.npy", &vectors(60, 3));
    (dehub, queries)
}

fn row<'a>(told: &'a Value, ranking: &str, search: &str) -> &'a Value {
    let rows = told["rows"].as_array().expect("rows");
    let is_it = |row: &&Value| row["ranking"] == ranking && row["search"] == search;
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no {ranking} by {search}: {rows:?}"))
}

#[test]
fn curves_have_the_recall_of_each_ranking_and_times_of_each_setting() {
    let (dehub, queries) = prepared();
    let before = dehub.state();
    let told = dehub.json(&[
        "bench",
        "x",
        "--queries",
        &queries,
        "--effort",
        "10,1500",
        "--recall",
        "0.9,1",
        "--candidates",
        "1500",
        "--rounds",
        "2",
        "--threads",
        "2",
        "--build",
    ]);
    assert_eq!(dehub.state(), before, "a bench changes nothing");
    assert_eq!(told["rows"].as_array().expect("rows").len(), 2 * 6);
    for ranking in ["raw", "nnn"] {
        for search in ["effort 1500", "candidates 1500", "recall 1", "exact"] {
            assert_eq!(row(&told, ranking, search)["recall"], 1.0, "{ranking} by {search}");
        }
        let narrow = row(&told, ranking, "effort 10");
        let recall = narrow["recall"].as_f64().expect("a share");
        assert!((0.3..=1.0).contains(&recall), "{narrow}");
        assert!(narrow["recall_least"].as_f64().expect("a share") <= recall);
        assert!(narrow["plan"].as_str().expect("a plan").contains("10"), "{narrow}");
        assert_eq!(narrow["rounds"].as_array().expect("rounds").len(), 2);
    }
    for row in told["rows"].as_array().expect("rows") {
        let time = |name: &str| row["latency_ms"][name].as_f64().expect("a time");
        let times = ["p50", "p90", "p95", "p99", "max"].map(time);
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
        assert!(row["queries_per_second"].as_f64().expect("a speed") > 0.0);
    }
    assert!(told["build"]["nodes"].as_u64().expect("nodes") <= POINTS as u64);
    assert_eq!(told["memory"]["vectors_bytes"], POINTS * 8 * 4);
    assert!(told["memory"]["graph_bytes"].as_u64().expect("bytes") > 0);
    let text = dehub.ok(&["bench", "x", "--queries", &queries, "--rounds", "1", "--limit", "5"]).stdout;
    assert!(text.contains("5 queries over 1500 points") && text.contains("effort 512"), "{text}");
}

#[test]
fn results_are_files_of_ann_benchmarks_with_a_folder_for_each_ranking() {
    let (dehub, queries) = prepared();
    let folder = dehub.path("out");
    let output = folder.to_str().expect("a path of text");
    let options = ["--effort", "16", "--rounds", "1", "--output", output, "--dataset-name", "glove 8"];
    dehub.ok(&[&["bench", "x", "--queries", &queries][..], &options].concat());
    for dataset in ["glove_8", "glove_8-by-nnn"] {
        for setting in ["effort_16", "recall_0.99", "exact"] {
            let path = folder.join("results").join(dataset).join("10/dehub").join(format!("{setting}.hdf5"));
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(bytes.starts_with(b"\x89HDF\r\n"), "{}", path.display());
        }
    }
}

#[test]
fn a_bench_that_makes_no_sense_is_refused_with_a_reason() {
    let (dehub, queries) = prepared();
    let empty = dehub.file("empty.jsonl", "");
    let q = ["bench", "x", "--queries", queries.as_str()];
    for (more, code, said) in [
        (&["--correction", "other"][..], 1, "no correction `other`"),
        (&["--threads", "0"], 2, "--threads"),
        (&["--effort", "0"], 2, "--effort"),
        (&["--recall", "1.5"], 1, "1.5"),
        (&["--rate", "5"], 2, "--url"),
        (&["--url", "http://127.0.0.1:1"], 2, "--rate"),
        (&["--url", "http://127.0.0.1:1", "--rate", "5", "--threads", "2"], 2, "--threads"),
        (&["--url", "https://127.0.0.1:1", "--rate", "5"], 1, "wanted http://HOST:PORT"),
        (&["--url", "http://127.0.0.1:1", "--rate", "0"], 1, "wanted a rate above 0"),
        (&["--url", "http://127.0.0.1:1", "--rate", "5"], 1, "no server answers on http://127.0.0.1:1"),
    ] {
        let ended = dehub.run(&[&q[..], more].concat());
        assert_eq!(ended.code, code, "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{more:?}: {}", ended.stderr);
    }
    let ended = dehub.run(&["bench", "x", "--queries", &empty]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("empty.jsonl"), "{}", ended.stderr);
}

#[test]
fn a_load_tells_statuses_and_latencies_of_a_running_server() {
    let (dehub, queries) = prepared();
    let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let started: Value = serde_json::from_str(&line).expect("the address as JSON");
    let url = started["address"].as_str().expect("an address");
    let common = ["bench", "x", "--queries", &queries, "--url", url, "--seconds", "1", "--connections", "8"];
    let loads = ["--rate", "40,80", "--correction", "none", "--correction", "nnn", "--arrivals", "constant"];
    let told = dehub.run(&[&common[..], &loads, &["--json"]].concat());
    let unknown = dehub.run(&[&common[..], &["--rate", "10", "--correction", "other"]].concat());
    let text = dehub.run(&[&common[..], &["--rate", "50", "--effort", "32"]].concat());
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    assert_eq!(told.code, 0, "{}", told.stderr);
    let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let loads = told["loads"].as_array().expect("loads");
    assert_eq!(loads.len(), 4);
    for (load, (correction, rate)) in loads.iter().zip([("none", 40), ("none", 80), ("nnn", 40), ("nnn", 80)])
    {
        assert_eq!(load["correction"], correction);
        let due = load["queries"].as_u64().expect("a count");
        assert!(due.abs_diff(rate) <= 1, "{load}");
        assert_eq!(load["statuses"], json!({ "200": due }), "{load}");
        assert_eq!(load["unsent"], 0);
        let time = |of: &str, name: &str| load[of][name].as_f64().expect("a time");
        assert!(time("latency_ms", "p50") > 0.0 && time("latency_ms", "max") >= time("latency_ms", "p99"));
        assert!(time("service_ms", "max") <= time("latency_ms", "max") * 1.001, "{load}");
    }
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("answered a query with 404") || unknown.stderr.contains("no correction"));
    assert!(text.stdout.contains("hnsw_ef 32") && text.stdout.contains("poisson"), "{}", text.stdout);
}
