//! `dehub measure`: runs and judgements from files alone.

use serde_json::{Value, json};

use crate::Dehub;

const RUN: &str =
    "q1 Q0 a 1 0.9 s\nq1 Q0 b 2 0.8 s\nq1 Q0 c 3 0.7 s\nq2 Q0 c 1 0.9 s\nq2 Q0 a 2 0.8 s\nq2 Q0 b 3 0.1 s\n";
const OTHER: &str =
    "q1 Q0 b 1 0.9 s\nq1 Q0 a 2 0.8 s\nq1 Q0 c 3 0.7 s\nq2 Q0 b 1 0.9 s\nq2 Q0 a 2 0.8 s\nq2 Q0 c 3 0.1 s\n";
const QRELS: &str = "q1 0 b 1\nq2 0 b 1\n";

fn close(found: &Value, wanted: f64) {
    let value = found.as_f64().unwrap_or(f64::NAN);
    assert!((value - wanted).abs() < 1e-9, "wanted {wanted}, found {found}");
}

#[test]
fn runs_stand_side_by_side_with_tests_against_the_first() {
    let dehub = Dehub::new();
    let (run, other) = (dehub.file("raw.trec", RUN), dehub.file("is.trec", OTHER));
    let qrels = dehub.file("qrels.txt", QRELS);
    let files = ["measure", "--run", &run, "--run", &other, "--qrels", &qrels, "-m", "mrr@10", "-m", "R@1"];
    let found = dehub.json(&[&files[..], &["--test", "randomisation", "--by-query"]].concat());
    let [first, second] = &found["rows"].as_array().expect("rows")[..] else { panic!("{found}") };
    assert_eq!((&first["name"], &second["name"]), (&json!("raw.trec"), &json!("is.trec")));
    close(&first["measures"]["RR@10"], (0.5 + 1.0 / 3.0) / 2.0);
    close(&second["measures"]["RR@10"], 1.0);
    assert_eq!(first["against_first"], Value::Null);
    let against = &second["against_first"]["R@1"];
    close(&against["difference"], 1.0);
    // Two of four ways to swap are as extreme, and there are two tests.
    close(&against["p"], 0.5);
    close(&against["p_holm"], 1.0);
    close(&first["by_query"]["q2"]["RR@10"], 1.0 / 3.0);

    let text = dehub.ok(&[&files[..], &["--test", "bootstrap", "--bounds"]].concat());
    assert!(text.stdout.contains("paired bootstrap test against raw.trec"), "{}", text.stdout);
    assert!(text.stdout.contains("0.4167 [0.4167, 0.4167]"), "{}", text.stdout);
}

#[test]
fn what_runs_and_judgements_lack_of_each_other_is_told_and_refused_if_asked_so() {
    let dehub = Dehub::new();
    let run = dehub.file("r.txt", "q1 Q0 b 1 0.9 s\nq3 Q0 a 1 0.9 s\n");
    let qrels = dehub.file("q.txt", "q1 0 b 1\nq2 0 b 1\nq2 0 gone 1\n");
    let ids = dehub.file("ids.txt", "a\nb\n");
    let files =
        ["measure", "--run", &run, "--qrels", &qrels, "--gallery-ids", &ids, "-m", "R@5", "-m", "MnR"];
    let found = dehub.json(&files);
    assert_eq!(
        found["gaps"][0],
        json!({ "missing": ["q2"], "extra": ["q3"], "without_relevant": [], "dangling": ["gone"] })
    );
    close(&found["rows"][0]["measures"]["R@5"], 0.5);
    close(&found["rows"][0]["measures"]["MnR"], 2.0);
    let told = dehub.ok(&files).stderr;
    assert!(
        told.contains("r.txt: 1 judged queries are missing and count as having found nothing: q2"),
        "{told}"
    );
    assert!(told.contains("R@k is the share of them that is found"), "{told}");
    let refused = dehub.run(&[&files[..], &["--strict"]].concat());
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--strict: r.txt: 1 judged queries are missing"), "{}", refused.stderr);
    assert!(refused.stderr.contains("gone"), "{}", refused.stderr);
}

#[test]
fn the_cross_modal_table_has_both_directions_and_several_captions_an_image() {
    let dehub = Dehub::new();
    // Captions c1, c2 of image i1 and c3 of i2. c1 finds i2 first.
    let run = dehub.file(
        "r.txt",
        "c1 Q0 i1 0 0.4 s\nc1 Q0 i2 0 0.6 s\nc2 Q0 i1 0 0.9 s\nc2 Q0 i2 0 0.1 s\nc3 Q0 i1 0 0.2 s\nc3 Q0 i2 0 0.8 s\n",
    );
    let qrels = dehub.file("q.txt", "c1 0 i1 1\nc2 0 i1 1\nc3 0 i2 1\n");
    let files = ["measure", "--run", &run, "--qrels", &qrels, "--table", "cross-modal"];
    let found = dehub.json(&files);
    let [forth, back] = &found["rows"].as_array().expect("rows")[..] else { panic!("{found}") };
    close(&forth["R@1"], 200.0 / 3.0);
    close(&back["R@1"], 100.0);
    close(&forth["MnR"], 4.0 / 3.0);
    assert_eq!((&forth["queries"], &back["queries"]), (&json!(3), &json!(2)));
    close(&back["Rsum"], 200.0 / 3.0 + 500.0);
    let cut = dehub.file("cut.txt", "c1 Q0 i2 0 0.6 s\nc2 Q0 i1 0 0.9 s\nc3 Q0 i2 0 0.8 s\n");
    let files = ["measure", "--run", &cut, "--qrels", &qrels, "--table", "cross-modal"];
    assert_eq!(dehub.json(&files)["rows"].as_array().map(Vec::len), Some(1));
    assert!(dehub.ok(&files).stderr.contains("--reverse gives it"));
    let reverse = dehub.file("back.txt", "i1 Q0 c3 0 1 s\ni1 Q0 c1 0 0.5 s\ni2 Q0 c3 0 1 s\n");
    let found = dehub.json(&[&files[..], &["--reverse", &reverse]].concat());
    close(&found["rows"][1]["R@1"], 50.0);
    close(&found["rows"][1]["R@5"], 100.0);
}

#[test]
fn neighbours_are_compared_with_those_of_an_exact_run_and_hubs_need_no_judgements() {
    let dehub = Dehub::new();
    let (exact, found) = (dehub.file("exact.txt", RUN), dehub.file("found.txt", OTHER));
    let result = dehub.json(&["measure", "--run", &found, "--truth", &exact, "-m", "ann_recall@2"]);
    close(&result["rows"][0]["measures"]["ann_recall@2"], 0.75);
    let result = dehub.json(&["measure", "--run", &found, "--hubness", "--gallery-size", "10"]);
    let row = &result["hubness"][0];
    assert_eq!((&row["k"], &row["points"], &row["max"]), (&json!(1), &json!(10), &json!(2)));
    close(&row["antihub_occurrence"], 0.9);
    assert_eq!(row["hubs"], json!([{ "id": "b", "count": 2 }]));
}

#[test]
fn a_document_of_the_query_s_own_id_is_left_out_if_asked_so() {
    let dehub = Dehub::new();
    let run = dehub.file("r.txt", "a Q0 a 1 0.9 s\na Q0 b 2 0.8 s\n");
    let qrels = dehub.file("q.txt", "a 0 b 1\n");
    let files = ["measure", "--run", &run, "--qrels", &qrels, "-m", "RR"];
    close(&dehub.json(&files)["rows"][0]["measures"]["RR"], 0.5);
    let found = dehub.json(&[&files[..], &["--exclude-self"]].concat());
    close(&found["rows"][0]["measures"]["RR"], 1.0);
    assert_eq!(found["excluded_self"], 1);
}

#[test]
fn wrong_files_and_measures_are_refused_with_their_places() {
    let dehub = Dehub::new();
    let (run, qrels) = (dehub.file("r.txt", RUN), dehub.file("q.txt", QRELS));
    let twice = dehub.file("twice.txt", format!("{RUN}q1 Q0 a 9 0.1 s\n"));
    for (arguments, code, part) in [
        (vec!["--run", &twice, "--qrels", &qrels], 1, "twice.txt:7: field document: query \"q1\""),
        (vec!["--run", &run, "--qrels", &run], 1, "r.txt:1: after field relevance"),
        (vec!["--run", &run, "--qrels", &qrels, "-m", "recall"], 1, "measure R@k: wanted k"),
        (vec!["--run", &run], 2, "--qrels"),
        (vec!["--qrels", &qrels], 2, "--run"),
    ] {
        let ended = dehub.run(&[&["measure"], &arguments[..]].concat());
        assert_eq!(ended.code, code, "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
