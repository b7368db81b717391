//! The bundled data gives the numbers that were computed for it elsewhere, in 64 bits.

use std::fs;

use serde_json::Value;

use crate::{Dehub, testdata};

/// Methods of expected.json; its DualDIS rows gate by another rule and are left out.
const METHODS: [&str; 24] = [
    "IS(beta=5)",
    "IS(beta=10)",
    "IS(beta=20)",
    "IS(beta=30)",
    "IS(beta=50)",
    "IS(beta=100)",
    "DIS(beta=20,k=1)",
    "DIS(beta=20,k=5)",
    "DIS(beta=20,k=10)",
    "DIS(beta=50,k=1)",
    "DIS(beta=50,k=5)",
    "DIS(beta=50,k=10)",
    "CSLS(k=10)",
    "NNN(alpha=0.5,k=1)",
    "NNN(alpha=0.5,k=16)",
    "NNN(alpha=0.5,k=128)",
    "NNN(alpha=0.75,k=1)",
    "NNN(alpha=0.75,k=16)",
    "NNN(alpha=0.75,k=128)",
    "NNN(alpha=1.0,k=1)",
    "NNN(alpha=1.0,k=16)",
    "NNN(alpha=1.0,k=128)",
    "DualIS(b1=b2=20)",
    "DualIS(b1=b2=50)",
];

/// Makes the collection of the first `rows` rows, with every method fitted.
fn wordnet(rows: &str) -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "wordnet", "--dim", "128"]);
    dehub.ok(&["import", "wordnet", &gallery, "--meta", &meta, "--limit", rows]);
    dehub.ok(&["bank", "wordnet", "glosses", &testdata("wordnet/queries_bank.npy")]);
    dehub.ok(&["bank", "wordnet", "nouns", "--from-gallery"]);
    let fit: Vec<&str> = METHODS.iter().flat_map(|method| ["-m", method]).collect();
    dehub.ok(&[&["fit", "wordnet"], &fit[..]].concat());
    dehub
}

fn eval(dehub: &Dehub) -> Value {
    let (queries, meta) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let qrels = testdata("wordnet/qrels.txt");
    dehub.json(&["eval", "wordnet", "--queries", &queries, "--meta", &meta, "--qrels", &qrels])
}

fn check_view(rows: &str) {
    let dehub = wordnet(rows);
    let evaluation = eval(&dehub);
    let expected = fs::read_to_string(testdata("wordnet/expected.json")).expect("the fixture is there");
    let expected: Value = serde_json::from_str(&expected).expect("the fixture is JSON");
    assert_eq!(evaluation["view"], rows);
    assert_eq!(evaluation["queries"], 400);
    let found = evaluation["rows"].as_array().expect("rows");
    assert_eq!(found.len(), METHODS.len() + 1);
    for method in ["raw"].iter().chain(&METHODS) {
        let row = found.iter().find(|row| row["method"] == *method).expect("a row for each method");
        let wanted = expected[rows][method].as_object().expect("the fixture has the method");
        for (measure, wanted) in wanted.iter().filter(|(measure, _)| *measure != "top10_of_first_3_queries") {
            let wanted = wanted.as_f64().expect("a number");
            let value = row["measures"][measure].as_f64().unwrap_or(f64::NAN);
            let error = (value - wanted).abs();
            assert!(error < 5e-5, "{rows} {method} {measure}: wanted {wanted}, found {value}");
        }
    }
}

#[test]
fn the_natural_view_of_wordnet_gives_the_expected_numbers() {
    check_view("950");
}

#[test]
fn the_whole_of_wordnet_gives_the_expected_numbers_and_lists() {
    check_view("1500");
}

#[test]
fn the_best_ten_of_the_first_queries_are_the_expected_ones() {
    let dehub = wordnet("1500");
    let expected = fs::read_to_string(testdata("wordnet/expected.json")).expect("the fixture is there");
    let expected: Value = serde_json::from_str(&expected).expect("the fixture is JSON");
    let meta = fs::read_to_string(testdata("wordnet/gallery.jsonl")).expect("the fixture is there");
    let ids: Vec<Value> =
        meta.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()).collect();
    for method in ["raw", "IS(beta=20)", "DIS(beta=20,k=1)", "NNN(alpha=1.0,k=16)", "DualIS(b1=b2=20)"] {
        for (row, wanted) in ["0", "1", "2"].into_iter().zip(0..) {
            let queries = testdata("wordnet/queries_test.npy");
            let mut search = vec!["search", "wordnet", "--queries", &queries, "--row", row];
            if method != "raw" {
                search.extend(["--correction", method]);
            }
            let answer = dehub.json(&search);
            let points = answer["points"].as_array().expect("points");
            let found: Vec<&Value> = points.iter().map(|hit| &hit["id"]).collect();
            let wanted =
                expected["1500"][method]["top10_of_first_3_queries"][wanted].as_array().expect("rows");
            let wanted: Vec<&Value> = wanted
                .iter()
                .map(|row| &ids[usize::try_from(row.as_u64().expect("a row")).expect("small")])
                .collect();
            assert_eq!(found, wanted, "{method}, query {row}");
        }
    }
}

#[test]
fn a_correction_of_weight_zero_answers_as_no_correction_does() {
    let dehub = wordnet("1500");
    let queries = testdata("wordnet/queries_test.npy");
    for row in ["0", "7", "399"] {
        let search = ["search", "wordnet", "--queries", &queries, "--row", row, "-k", "50"];
        let raw = dehub.json(&search);
        let zero = dehub.json(&[&search[..], &["--correction", "IS(beta=20)", "--alpha", "0"]].concat());
        assert_eq!(raw["points"], zero["points"]);
    }
}

#[test]
fn the_demonstration_prints_one_object_with_raw_beside_corrected() {
    let dehub = Dehub::new();
    let from = testdata("wordnet");
    let demo = dehub.json(&["demo", "--from", &from]);
    assert_eq!(demo["view"], "1500");
    assert_eq!(demo["queries"], 400);
    let rows = demo["rows"].as_array().expect("rows");
    let measure = |method: &str, name: &str| {
        let row = rows.iter().find(|row| row["method"] == method).expect("the method is shown");
        row["measures"][name].as_f64().expect("a number")
    };
    assert!(measure("NNN(alpha=1.0,k=16)", "R@1") > measure("raw", "R@1") + 0.08);
    assert!(measure("NNN(alpha=1.0,k=16)", "anti10") < measure("raw", "anti10") / 2.0);
    // Again, over what it left, and as text.
    let text = dehub.ok(&["demo", "--from", &from]).stdout;
    for part in
        ["$ dehub create wordnet", "400 queries over 1500 points", "Ophioglossum", "the largest hubs", "curl"]
    {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn a_point_imported_from_parquet_keeps_its_text_and_payload() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "small", "--dim", "3"]);
    dehub.ok(&["import", "small", &testdata("small.parquet")]);
    let answer = dehub.json(&["search", "small", "--vector", "[0, 2, 0]", "-k", "1"]);
    assert_eq!(answer["points"][0]["id"], 2);
    assert_eq!(answer["points"][0]["text"], "second");
    assert_eq!(answer["points"][0]["payload"]["year"], 2001);
    assert_eq!(answer["points"][0]["score"], 1.0);
    assert_eq!(answer["exact"], true);
}

#[test]
fn a_bank_of_test_queries_is_warned_of_and_a_hub_is_explained() {
    let dehub = wordnet("950");
    let (queries, meta) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let qrels = testdata("wordnet/qrels.txt");
    let eval = ["eval", "wordnet", "--queries", &queries, "--meta", &meta, "--qrels", &qrels];
    let measure = [&eval[..], &["--correction", "CSLS(k=10)"]].concat();
    assert!(!dehub.ok(&measure).stderr.contains("warning"), "the bundled bank is clean");
    dehub.ok(&["bank", "wordnet", "leaky", &queries, "--limit", "30"]);
    assert!(dehub.ok(&measure).stderr.contains("bank `leaky` holds 30 of the test queries"));
    let explained =
        dehub.json(&["hubs", "wordnet", "--explain", "n14152279", "--bank", "glosses", "--top", "4"]);
    assert_eq!(explained["nearest"].as_array().map(Vec::len), Some(4));
    let csls =
        explained["biases"].as_array().expect("a list").iter().find(|bias| bias["method"] == "CSLS(k=10)");
    let rank = csls.expect("fitted")["rank"].as_u64().expect("a rank");
    assert!((1..=950).contains(&rank));
    dehub.ok(&["bank", "wordnet", "named", &queries, "--meta", &meta, "--limit", "30"]);
    let named = dehub.json(&["hubs", "wordnet", "--explain", "n14152279", "--bank", "named", "--top", "4"]);
    let removed =
        named["nearest"][0]["id"].as_str().expect("an id that the entry can be removed by").to_owned();
    assert_eq!(dehub.json(&["bank", "wordnet", "named", "--remove", &removed])["removed"], 1);
    let after = dehub.json(&["hubs", "wordnet", "--explain", "n14152279", "--bank", "named", "--top", "3"]);
    assert_eq!(after["nearest"][0], named["nearest"][1]);
}

#[test]
fn a_planted_hub_raises_an_alarm_when_it_is_imported() {
    let dehub = wordnet("950");
    // The mean of the bank: near to every gloss, and to no noun in particular.
    let bank = fs::read(testdata("wordnet/queries_bank.npy")).expect("the fixture is there");
    let numbers: Vec<f32> =
        bank[128..].as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let mean: Vec<f32> = (0..128).map(|at| numbers.iter().skip(at).step_by(128).sum::<f32>()).collect();
    let hub = dehub.file("hub.jsonl", serde_json::json!({ "id": "hub", "vector": mean }).to_string());
    let import = ["import", "wordnet", &hub, "--alarm", "IS(beta=5)"];
    let result = dehub.json(&import);
    assert_eq!(result["hub_alarms"][0]["id"], "hub");
    assert!(result["hub_alarms"][0]["p"].as_f64().expect("a number") < 0.01);
    let unknown = dehub.run(&["import", "wordnet", &hub, "--alarm", "none such"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("`none such`"), "{}", unknown.stderr);
}

#[test]
fn a_score_that_is_no_bias_is_explained_and_raises_no_alarm() {
    let dehub = wordnet("950");
    dehub.ok(&["fit", "wordnet", "-m", "GC(k=32)", "-m", "RatioMargin"]);
    let queries = testdata("wordnet/queries_test.npy");
    let search = ["search", "wordnet", "--queries", &queries, "-k", "3", "--correction", "GC(k=32)"];
    let found = dehub.json(&search);
    assert!(found["plan"].as_str().expect("a plan").contains("by GC(k=32)"), "{found}");
    assert!(found["points"][0]["bias"].is_null(), "{found}");
    assert!(dehub.ok(&[&search[..], &["--explain"]].concat()).stdout.contains("raw rank"));
    let halved = dehub.run(&[&search[..], &["--alpha", "0.5"]].concat());
    assert!(halved.code == 1 && halved.stderr.contains("wanted 1, or 0"), "{}", halved.stderr);
    let vector: Vec<f32> = vec![1.0; 128];
    let point = dehub.file("point.jsonl", serde_json::json!({ "id": "new", "vector": vector }).to_string());
    let alarmed = dehub.run(&["import", "wordnet", &point, "--alarm", "RatioMargin(k=4)"]);
    assert!(alarmed.code == 1 && alarmed.stderr.contains("nothing was stored"), "{}", alarmed.stderr);
    let biases = dehub.json(&["hubs", "wordnet", "--explain", "n14152279"]);
    let methods: Vec<&str> =
        biases["biases"].as_array().expect("a list").iter().filter_map(|it| it["method"].as_str()).collect();
    assert!(!methods.is_empty() && methods.iter().all(|it| !it.starts_with("GC")), "{methods:?}");
}
