//! `dehub tune` on the bundled data, whose hub-rich view gains from correction.

use serde_json::Value;

use crate::{Dehub, testdata};

/// The first `rows` rows of the gallery, and a bank of the first `entries` glosses.
fn wordnet(rows: &str, entries: &str) -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta, "--limit", rows]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy"), "--limit", entries]);
    dehub
}

fn queries() -> String {
    testdata("wordnet/queries_test.npy")
}

/// The command with judged queries.
fn judged(dehub: &Dehub, more: &[&str]) -> Value {
    let (queries, meta) = (queries(), testdata("wordnet/queries_test.jsonl"));
    let qrels = testdata("wordnet/qrels.txt");
    let command = ["tune", "x", "--queries", &queries, "--meta", &meta, "--qrels", &qrels];
    dehub.json(&[&command[..], more].concat())
}

fn row<'a>(report: &'a Value, method: &Value) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["method"] == *method).expect("a row of the method")
}

#[test]
fn without_judgements_a_correction_is_chosen_and_nothing_is_installed() {
    let dehub = wordnet("1500", "1000");
    let before = dehub.state();
    let report = dehub.json(&["tune", "x", "--bank", "glosses", "--queries", &queries(), "--rounds", "200"]);
    assert_eq!(dehub.state(), before);
    for (field, wanted) in [("queries", 400), ("points", 1500), ("k", 10), ("seed", 0), ("rounds", 200)] {
        assert_eq!(report[field], wanted, "{field}");
    }
    assert_eq!((&report["bank"], &report["judged"]), (&"glosses".into(), &Value::Null));
    assert_eq!((&report["installed"], &report["left_out"]), (&Value::Null, &Value::Array(vec![])));
    assert!(report["raw"]["excess"]["low"].as_f64() > Some(0.1));
    let pick = row(&report, &report["verdict"]["pick"]);
    assert!(pick["removed"]["low"].as_f64() > Some(0.5), "{pick}");
    assert_eq!((&pick["finding"], &pick["gain"]), (&"the choice".into(), &Value::Null));
    // What is chosen without judgements is what gains with them.
    let judged = judged(&dehub, &["--rounds", "200"]);
    assert!(row(&judged, &report["verdict"]["pick"])["gain"]["low"].as_f64() > Some(0.0));
}

#[test]
fn with_judgements_the_gain_is_surely_one() {
    let dehub = wordnet("1500", "1000");
    let report = judged(&dehub, &["--rounds", "200"]);
    assert_eq!(report["judged"], 400);
    let pick = row(&report, &report["verdict"]["pick"]);
    assert!(
        pick["gain"]["low"].as_f64() > Some(0.0) && pick["ndcg"].as_f64() > report["raw"]["ndcg"].as_f64()
    );
    assert_eq!(report["verdict"]["queries_wanted"], Value::Null);
    assert_eq!(report, judged(&dehub, &["--rounds", "200"]), "the seed decides every draw");
}

#[test]
fn the_table_says_why_and_what_was_left_out() {
    let dehub = wordnet("1500", "100");
    let text = dehub.ok(&["tune", "x", "--queries", &queries()]).stdout;
    for part in [
        "400 queries, 1500 points",
        "removes too little",
        "drawn at random",
        "Left out, as the bank is smaller than their k: NNN(alpha=0.25,k=128)",
        "Verdict: ",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn a_choice_is_installed_on_a_yes_or_by_force() {
    let dehub = wordnet("1500", "1000");
    let tune = |method: &str, more: &[&str]| {
        let queries = queries();
        let command =
            ["tune", "x", "--queries", &queries, "--rounds", "100", "--install", "best", "-m", method];
        dehub.json(&[&command[..], more].concat())
    };
    let refused = tune("NNN(alpha=0.01,k=1)", &[]);
    assert_eq!((&refused["verdict"]["pick"], &refused["installed"]), (&Value::Null, &Value::Null));
    assert_eq!(dehub.state()["corrections"], Value::Array(vec![]));
    let forced = tune("NNN(alpha=0.01,k=1)", &["--force"]);
    assert_eq!(forced["installed"]["forced"], true);
    let installed = tune("NNN(alpha=1.0,k=16)", &[]);
    assert_eq!(installed["installed"]["forced"], false);
    assert_eq!(installed["installed"]["correction"], "best");
    let search = ["search", "x", "--queries", &queries(), "-k", "1", "--correction", "best"];
    assert_eq!(dehub.json(&search)["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn queries_that_the_bank_holds_are_warned_of() {
    let dehub = wordnet("200", "150");
    let bank = testdata("wordnet/queries_bank.npy");
    let same = dehub.ok(&["tune", "x", "--queries", &bank, "--limit", "200", "-m", "CSLS(k=5)"]);
    assert!(same.stderr.contains("`glosses` holds 150 of the queries"), "{}", same.stderr);
    let other = dehub.ok(&["tune", "x", "--queries", &queries(), "-m", "CSLS(k=5)"]);
    assert!(!other.stderr.contains("warning"), "{}", other.stderr);
}

#[test]
fn what_cannot_be_tuned_is_refused_by_name() {
    let dehub = wordnet("200", "100");
    let (queries, qrels) = (queries(), testdata("wordnet/qrels.txt"));
    let given = ["tune", "x", "--queries", &queries];
    for (arguments, parts) in [
        (vec!["tune", "x"], ["--queries", "recent"]),
        ([&given[..], &["--bank", "none"]].concat(), ["none", "glosses"]),
        ([&given[..], &["-m", "NNN(alpha=1.0,k=101)"]].concat(), ["101", "100"]),
        ([&given[..], &["-m", "CSLS(k=5)", "-m", "CSLS(k=5)"]].concat(), ["CSLS(k=5)", "twice"]),
        ([&given[..], &["--limit", "99"]].concat(), ["99 queries", "at least 100"]),
        ([&given[..], &["--rounds", "3"]].concat(), ["3 rounds", "100"]),
        ([&given[..], &["--qrels", &qrels]].concat(), ["no ids", "--meta"]),
    ] {
        let before = dehub.state();
        let ended = dehub.run(&arguments);
        assert_eq!(ended.code, 1, "{arguments:?}: {}", ended.stdout);
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{arguments:?}: {}", ended.stderr);
        assert_eq!(dehub.state(), before, "{arguments:?}");
    }
    assert_eq!(dehub.run(&[&given[..], &["--force"]].concat()).code, 2);
}
