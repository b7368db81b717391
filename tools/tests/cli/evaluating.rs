//! `dehub eval`: grids, vectors and similarities without a collection, sizes of banks, results made again.

use std::fs;

use serde_json::Value;

use crate::{Dehub, npy, testdata};

/// The bundled data as a collection, without a correction.
fn collection(rows: &str) -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta, "--limit", rows]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy")]);
    dehub.ok(&["bank", "x", "nouns", "--from-gallery"]);
    dehub
}

const GRID: [&str; 4] = ["-m", "IS(beta=10|20)", "-m", "DualDIS(b1=20,b2=5|20,k=1)"];

fn labels(results: &Value) -> Vec<&str> {
    let rows = results["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["method"].as_str().expect("a label")).collect()
}

/// The measures of both rows are the same, but for the last digits.
fn assert_same_measures(found: &Value, wanted: &Value, error: f64) {
    assert_eq!(labels(found), labels(wanted));
    for (found, wanted) in
        found["rows"].as_array().into_iter().flatten().zip(wanted["rows"].as_array().into_iter().flatten())
    {
        let (own, other) = (found["measures"].as_object(), wanted["measures"].as_object());
        let (own, other) = (own.expect("measures"), other.expect("measures"));
        assert_eq!(own.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (name, value) in own {
            let (value, wanted) =
                (value.as_f64().expect("a number"), other[name].as_f64().expect("a number"));
            let scale = wanted.abs().max(1.0);
            assert!((value - wanted).abs() <= error * scale, "{} {name}: {value} {wanted}", found["method"]);
        }
    }
}

#[test]
fn vectors_in_files_are_measured_as_those_of_a_collection_and_a_grid_leaves_nothing_behind() {
    let dehub = collection("1500");
    let (queries, meta) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let asked = ["--queries", &queries, "--meta", &meta, "--qrels", &testdata("wordnet/qrels.txt")];
    let before = dehub.state();
    let served = dehub.json(&[&["eval", "x"], &asked[..], &GRID].concat());
    assert_eq!(dehub.state(), before, "nothing was stored");
    assert_eq!(
        labels(&served),
        ["raw", "IS(beta=10)", "IS(beta=20)", "DualDIS(b1=20,b2=5,k=1)", "DualDIS(b1=b2=20,k=1)"]
    );
    let (gallery, bank) = (testdata("wordnet/gallery.npy"), testdata("wordnet/queries_bank.npy"));
    let gallery_meta = testdata("wordnet/gallery.jsonl");
    let files = ["eval", "--gallery", &gallery, "--gallery-meta", &gallery_meta, "--bank", &bank];
    let found = dehub.json(&[&files[..], &["--gallery-bank", &gallery], &asked[..], &GRID].concat());
    assert_same_measures(&found, &served, 1e-12);
    assert_eq!(found["rows"][1]["hubs"], served["rows"][1]["hubs"]);
    assert!(found["rows"][0]["hubs"][0]["text"].is_string());
    assert_eq!(found["rows"][0]["hubness"][2], served["rows"][0]["hubness"][2]);
    let interval = &found["rows"][1]["intervals"]["R@1"];
    let (low, high) = (interval["low"].as_f64().expect("low"), interval["high"].as_f64().expect("high"));
    let value = found["rows"][1]["measures"]["R@1"].as_f64().expect("R@1");
    assert!(low < value && value < high && high - low < 0.12, "{interval} {value}");
    let auc = found["rows"][0]["roc"]["auc"].as_f64().expect("a curve");
    assert!((0.8..1.0).contains(&auc), "{auc}");
}

/// The rows of a file of vectors, as text of Rust would have them.
fn rows(file: &str, most: usize) -> Vec<Vec<f32>> {
    let options = dehub_format::ReadOptions { rows: Some(0..most as u64), ..Default::default() };
    let reader = dehub_format::open(file.as_ref(), options).expect("the fixture is there");
    let all = reader
        .flat_map(|batch| batch.expect("whole").vectors.iter().map(<[f32]>::to_vec).collect::<Vec<_>>());
    all.collect()
}

/// Writes the cosines of two files' rows.
fn similarities(dehub: &Dehub, name: &str, left: &[Vec<f32>], right: &[Vec<f32>]) -> String {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let cosine = |a: &[f32], b: &[f32]| (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()) as f32;
    let lines: Vec<Vec<f32>> =
        left.iter().map(|left| right.iter().map(|right| cosine(left, right)).collect()).collect();
    dehub.file(name, npy(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

#[test]
fn a_matrix_of_similarities_is_measured_both_ways_as_the_vectors_it_is_of() {
    let dehub = Dehub::new();
    let take = |name: &str, most| rows(&testdata(&format!("wordnet/{name}.npy")), most);
    let (points, queries, bank) =
        (take("gallery", 500), take("queries_test", 400), take("queries_bank", 300));
    let others: Vec<Vec<f32>> = take("gallery", 900).split_off(500);
    let write = |name: &str, rows: &[Vec<f32>]| {
        dehub.file(name, npy(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()))
    };
    let (g, q) = (write("g.npy", &points), write("q.npy", &queries));
    let (b, gb) = (write("b.npy", &bank), write("gb.npy", &others));
    let methods = ["-m", "DIS(beta=20,k=1)", "-m", "NNN(alpha=.75,k=16)", "--both-directions"];
    let vectors = ["eval", "--gallery", &g, "--queries", &q, "--bank", &b, "--gallery-bank", &gb];
    let vectors = dehub.json(&[&vectors[..], &methods].concat());
    let s = similarities(&dehub, "s.npy", &queries, &points);
    let bs = similarities(&dehub, "bs.npy", &bank, &points);
    let rs = similarities(&dehub, "rs.npy", &others, &queries);
    let matrix =
        ["eval", "--similarities", &s, "--bank-similarities", &bs, "--reverse-bank-similarities", &rs];
    let matrix = dehub.json(&[&matrix[..], &methods].concat());
    // Cosines made elsewhere differ in their last bits, which may turn two neighbours.
    assert_same_measures(&matrix, &vectors, 0.01);
    assert_same_measures(&matrix["reverse"], &vectors["reverse"], 0.01);
    assert_eq!(
        (matrix["reverse"]["points"].as_u64(), matrix["reverse"]["queries"].as_u64()),
        (Some(400), Some(400))
    );
    assert_eq!(matrix["reverse"]["unjudged"], 100, "points that answer no query");
    assert_eq!(matrix["inputs"][1]["shape"], serde_json::json!([300, 500]));
    assert_eq!(matrix["leaks"], serde_json::json!([]));
    let leaking: Vec<Vec<f32>> = bank.iter().chain(&queries[..7]).cloned().collect();
    let leaking = similarities(&dehub, "leaking.npy", &leaking, &points);
    let ended = dehub.ok(&["eval", "--similarities", &s, "--bank-similarities", &leaking, "-m", "IS"]);
    assert!(ended.stderr.contains("leaking.npy` holds 7 of the test queries"), "{}", ended.stderr);
    let (truth, pairs) = (dehub.file("truth.txt", "0 3\n0,4\n1\t0\n"), ["--truth", "truth.txt"]);
    assert!(truth.ends_with("truth.txt"));
    let found = dehub.json(&[&["eval", "--similarities", &s, "--by-query"], &pairs[..]].concat());
    assert_eq!((found["queries"].as_u64(), found["unjudged"].as_u64()), (Some(2), Some(398)));
    assert_eq!(found["query_ids"], serde_json::json!(["0", "1"]));
    assert_eq!(found["rows"][0]["by_query"]["R@1"].as_array().map(Vec::len), Some(2));
}

#[test]
fn results_made_again_are_equal_number_by_number_and_other_data_is_named() {
    let dehub = collection("400");
    let bank = rows(&testdata("wordnet/queries_bank.npy"), 200);
    let (queries, meta) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let asked = ["--queries", &queries, "--meta", &meta, "--qrels", &testdata("wordnet/qrels.txt")];
    let sizes = ["-m", "NNN(k=1|64)", "--bank-sizes", "50,all", "--draws", "3", "--output", "results.json"];
    let ended = dehub.ok(&[&["eval", "x"], &asked[..], &sizes].concat());
    assert!(ended.stdout.contains("of 3 draws"), "{}", ended.stdout);
    let results: Value =
        serde_json::from_str(&fs::read_to_string(dehub.path("results.json")).expect("written"))
            .expect("JSON");
    let steps = results["curves"][1]["steps"].as_array().expect("steps");
    assert_eq!((steps[0]["entries"].as_u64(), steps[0]["draws"].as_u64()), (Some(50), Some(0)), "k is 64");
    assert_eq!((steps[1]["entries"].as_u64(), steps[1]["draws"].as_u64()), (Some(1000), Some(3)));
    let whole = &steps[1]["measures"]["R@1"];
    assert_eq!(whole["deviation"].as_f64(), Some(0.0), "all entries are the same entries");
    assert_eq!(whole["mean"], results["rows"][2]["measures"]["R@1"]);
    assert!(results["curves"][0]["steps"][0]["measures"]["RH10"]["deviation"].as_f64() > Some(0.0));
    let again = dehub.json(&["eval", "--from", "results.json"]);
    assert_eq!((&again["equal"], &again["differences"]), (&Value::Bool(true), &serde_json::json!([])));

    // A number that was changed is told, and so is a file that is another one.
    let mut forged = results.clone();
    forged["rows"][1]["measures"]["R@1"] = serde_json::json!(0.99);
    dehub.file("forged.json", forged.to_string());
    let ended = dehub.run(&["eval", "--from", "forged.json"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("rows[1].measures.R@1: was 0.99, is "), "{}", ended.stdout);
    let file = dehub.file("b.npy", npy(&bank.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    dehub.ok(&["eval", "--gallery", &file, "--queries", &file, "--output", "own.json", "-q"]);
    assert_eq!(dehub.json(&["eval", "--from", "own.json"])["equal"], true);
    dehub.file("b.npy", npy(&bank[1..].iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let ended = dehub.run(&["eval", "--from", "own.json"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("b.npy: is not the file it was: wanted the BLAKE3 hash"),
        "{}",
        ended.stderr
    );
    dehub.ok(&["bank", "x", "more", "b.npy"]);
    let ended = dehub.run(&["eval", "--from", "results.json"]);
    assert!(ended.stderr.contains("collection `x`: is not as it was: wanted its commit"), "{}", ended.stderr);
}

#[test]
fn tables_of_papers_have_a_row_a_method_and_mark_the_best_of_each_direction() {
    let dehub = Dehub::new();
    let small: [&[f32]; 3] = [&[1.0, 0.1, 0.2], &[0.1, 0.9, 0.3], &[0.2, 0.1, 0.8]];
    let file = dehub.file("v.npy", npy(&small));
    let asked =
        ["eval", "--gallery", &file, "--queries", &file, "--bank", &file, "-m", "IS", "--both-directions"];
    let table = |form| dehub.ok(&[&asked[..], &["--gallery-bank", &file, "--table", form]].concat()).stdout;
    let latex = table("latex");
    for part in [
        "\\begin{tabular}{lrrrrrrrrrr}",
        "\\multicolumn{5}{c}{query $\\to$ point}",
        "Method & R@1 $\\uparrow$ & R@5 $\\uparrow$ & R@10 $\\uparrow$ & MdR $\\downarrow$ & MnR $\\downarrow$",
        "raw & $\\mathbf{100.0}_{\\pm 0.0}$",
        "IS(beta=20) & $\\mathbf{100.0}_{\\pm 0.0}$",
        "\\bottomrule",
    ] {
        assert!(latex.contains(part), "{part}\n{latex}");
    }
    let markdown = table("markdown");
    assert!(markdown.starts_with("| method | q→p R@1 ↑ |"), "{markdown}");
    assert!(markdown.contains("| raw | **100.0** ± 0.0 |"), "{markdown}");
    assert!(markdown.contains("3 queries, 3 points, exact rankings by dehub"), "{markdown}");
    assert!(table("text").contains("100.0 ± 0.0 *"));
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_place_wanted_and_found() {
    let dehub = Dehub::new();
    let three: [&[f32]; 3] = [&[0.1, 0.2], &[0.3, 0.4], &[0.5, 0.6]];
    let s = dehub.file("s.npy", npy(&three));
    let wide = dehub.file("wide.npy", npy(&[&[0.1, 0.2, 0.3]]));
    let truth = dehub.file("truth.txt", "0 0\n1 2\n");
    let nan = dehub.file("nan.npy", npy(&[&[0.1, f32::NAN]]));
    let pairs = dehub.file("pairs.npy", npy(&[&[0.0, 0.5]]));
    for (arguments, parts) in [
        (&["--similarities", &s][..], &["3 queries", "2 points", "--qrels or --truth"][..]),
        (&["--similarities", &s, "--truth", &truth], &["line 2, point", "from 0 to 1, found 2"]),
        (&["--similarities", &s, "--truth", &pairs], &["pairs.npy: row 0, point", "found 0.5"]),
        (&["--similarities", &s, "--bank-similarities", &wide], &["wide.npy: wanted 2 columns", "found 3"]),
        (&["--similarities", &nan], &["nan.npy: row 0, column 1", "finite", "NaN"]),
        (&["--similarities", &wide, "-m", "IS"], &["IS(beta=20) needs", "query bank", "none is given"]),
        (&["--similarities", &wide, "-m", "IS(perplexity=4)"], &["perplexity", "give its temperature"]),
        (&["--similarities", &wide, "-m", "IS(beta=x|2)"], &["IS(beta=x)", "NAME(parameter=value"]),
        (&["--similarities", &wide, "--metric", "other"], &["other", "cosine, dot or euclidean"]),
        (&["--gallery", &s, "--queries", &wide], &["wide.npy: row 0", "2"]),
    ] {
        let ended = dehub.run(&[&["eval"], arguments].concat());
        assert_eq!(ended.code, 1, "{arguments:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: {part}: {}", ended.stderr);
        }
    }
    for arguments in [&["eval"][..], &["eval", "x", "--similarities", &s], &["eval", "x", "--gallery", &s]] {
        assert_eq!(dehub.run(arguments).code, 2, "{arguments:?}");
    }
}
