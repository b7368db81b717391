//! The default and its veto, `auto`, pairs, the quarantine, exposure and sources, on the bundled data.

use serde_json::{Value, json};

use crate::{Dehub, npy, testdata};

const GOOD: &str = "NNN(alpha=1.0,k=16)";
const WEAK: &str = "NNN(alpha=0.01,k=1)";

/// Its bias is largest for the mean of the bank, which is the hub that is planted here.
const MEAN: &str = "DN(lambda=1.0)";

/// The hub-rich view of the bundled data, with a bank of a thousand glosses.
fn wordnet() -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy"), "--limit", "1000"]);
    dehub
}

fn queries() -> String {
    testdata("wordnet/queries_test.npy")
}

fn ranked_by(dehub: &Dehub, more: &[&str]) -> Value {
    let queries = queries();
    dehub.json(&[&["search", "x", "--queries", &queries, "-k", "1"][..], more].concat())["correction"].clone()
}

#[test]
fn a_default_is_set_with_a_yes_and_refused_with_the_numbers() {
    let dehub = wordnet();
    dehub.ok(&["fit", "x", "-m", GOOD, "-m", WEAK]);
    let queries = queries();
    let set = |correction, more: &[&str]| {
        dehub.run(
            &[&["default", "x", correction, "--queries", &queries, "--rounds", "200"][..], more].concat(),
        )
    };
    let before = dehub.state();
    let vetoed = set(WEAK, &[]);
    assert_eq!(vetoed.code, 1);
    for part in ["does not become the default", "Robin Hood", "removes too little", "--force"] {
        assert!(vetoed.stderr.contains(part), "{part}: {}", vetoed.stderr);
    }
    let blind = dehub.run(&["default", "x", GOOD]);
    assert!(blind.code == 1 && blind.stderr.contains("--queries"), "{}", blind.stderr);
    assert_eq!(dehub.run(&["default", "x", "other", "--force"]).code, 1);
    assert_eq!((dehub.state(), ranked_by(&dehub, &[])), (before, Value::Null));

    assert_eq!(set(GOOD, &["--seed", "3"]).code, 0);
    let default = dehub.state()["default"].clone();
    assert_eq!((&default["correction"], &default["forced"]), (&json!(GOOD), &json!(false)));
    assert_eq!((&default["evidence"]["queries"], &default["evidence"]["seed"]), (&json!(400), &json!(3)));
    assert!(default["evidence"]["removed"]["low"].as_f64() > Some(0.5), "{default}");
    assert_eq!(dehub.json(&["default", "x"])["default"], default);
    assert!(dehub.ok(&["info", "x"]).stdout.contains("default: NNN(alpha=1.0,k=16) (judged at version 1)"));
    assert_eq!(ranked_by(&dehub, &[]), format!("{GOOD}@1"));
    assert_eq!(ranked_by(&dehub, &["--correction", "none"]), Value::Null);
    assert_eq!(ranked_by(&dehub, &["--correction", WEAK]), format!("{WEAK}@1"));

    let dropped = dehub.run(&["delete", "x", "--correction", GOOD]);
    assert!(dropped.code == 1 && dropped.stderr.contains("--clear"), "{}", dropped.stderr);
    assert_eq!(set(WEAK, &["--force"]).code, 0);
    assert!(dehub.ok(&["default", "x"]).stdout.contains("forced"));
    assert_eq!(dehub.json(&["default", "x", "--clear"])["cleared"], true);
    dehub.ok(&["delete", "x", "--correction", GOOD]);
    assert_eq!(ranked_by(&dehub, &[]), Value::Null);
}

#[test]
fn a_fit_or_a_choice_is_made_the_default_in_one_step() {
    let dehub = wordnet();
    let queries = queries();
    let fit = |more: &[&str]| {
        dehub.run(&[&["fit", "x", "--queries", &queries, "--rounds", "200"][..], more].concat())
    };
    let vetoed = fit(&["-m", WEAK, "--default"]);
    assert!(vetoed.code == 1 && vetoed.stderr.contains("nothing was changed"), "{}", vetoed.stderr);
    assert_eq!(dehub.state()["corrections"], json!([]));
    assert_eq!(fit(&["-m", GOOD, "-m", WEAK, "--default"]).code, 1);
    assert_eq!(fit(&["-m", GOOD, "--force"]).code, 1);
    assert_eq!(fit(&["-m", GOOD, "--default"]).code, 0);
    assert_eq!(dehub.state()["default"]["correction"], GOOD);

    let auto = dehub.json(&["fit", "x", "-m", "auto", "--queries", &queries, "--rounds", "200", "--default"]);
    assert_eq!(auto["installed"]["method"], auto["verdict"]["pick"]);
    assert!(auto["verdict"]["pick"].as_str().is_some_and(|pick| pick.contains("floor=0.1")), "{auto}");
    assert_eq!(dehub.state()["default"]["correction"], "auto");

    // The name of the default goes to another method together with its verdict.
    let tune = ["tune", "x", "--queries", &queries, "--rounds", "200", "-m", GOOD];
    let tuned = dehub.json(&[&tune[..], &["--install", "auto", "--default"]].concat());
    assert_eq!(tuned["installed"]["is_default"], true);
    assert_eq!(dehub.state()["default"]["version"], 2);
}

#[test]
fn auto_needs_queries_and_installs_nothing_on_a_no() {
    let dehub = wordnet();
    let blind = dehub.run(&["fit", "x", "-m", "auto"]);
    assert!(blind.code == 1 && blind.stderr.contains("recent"), "{}", blind.stderr);
    assert_eq!(dehub.run(&["fit", "x", "-m", "auto", "-m", GOOD, "--queries", &queries()]).code, 1);
    // Too few queries to be sure, and a bank too unlike what is asked.
    let file = dehub.file("few.npy", npy(&[&[1.0; 128][..], &[-1.0; 128][..]]));
    dehub.ok(&["bank", "x", "odd", &file]);
    let queries = queries();
    let auto = ["fit", "x", "-m", "auto", "--bank", "odd", "--queries", &queries, "--rounds", "100"];
    let none = dehub.json(&auto);
    assert_eq!((&none["verdict"]["pick"], &none["installed"]), (&Value::Null, &Value::Null));
    assert!(dehub.ok(&auto).stdout.contains("Verdict: none"));
    assert_eq!(dehub.state()["corrections"], json!([]));
    let forced = dehub.json(&[&auto[..], &["--force", "--name", "best"]].concat());
    assert_eq!(
        (&forced["installed"]["forced"], &forced["installed"]["correction"]),
        (&json!(true), &json!("best"))
    );
}

/// A bank of the test queries under their ids: their judgements are pairs.
fn paired(dehub: &Dehub) -> String {
    let (queries, meta) = (queries(), testdata("wordnet/queries_test.jsonl"));
    dehub.ok(&["bank", "x", "pairs", &queries, "--meta", &meta]);
    testdata("wordnet/qrels.txt")
}

#[test]
fn a_bank_with_answers_chooses_by_itself() {
    let dehub = wordnet();
    let qrels = paired(&dehub);
    let tune = ["tune", "x", "--bank", "pairs", "--pairs", &qrels, "--rounds", "200"];
    let report = dehub.json(&tune);
    assert_eq!((&report["queries"], &report["judged"]), (&json!(400), &json!(400)));
    let pick = report["verdict"]["pick"].as_str().expect("there are hubs");
    let row = report["rows"].as_array().expect("rows").iter().find(|row| row["method"] == pick);
    assert!(row.expect("its row")["gain"]["low"].as_f64() > Some(0.0));
    assert_eq!(dehub.state()["corrections"], json!([]));
    let installed = dehub.json(&[&tune[..], &["-m", GOOD, "--install", "best", "--default"]].concat());
    assert_eq!(installed["installed"]["is_default"], true);
    let unpaired = dehub.run(&["tune", "x", "--bank", "glosses", "--pairs", &qrels]);
    assert!(unpaired.code == 1 && unpaired.stderr.contains("id"), "{}", unpaired.stderr);
    assert_eq!(dehub.run(&["tune", "x", "--pairs", &qrels, "--queries", &queries()]).code, 2);
}

#[test]
fn a_hub_is_held_listed_released_and_dropped() {
    let dehub = wordnet();
    dehub.ok(&["fit", "x", "-m", MEAN]);
    dehub.ok(&["quarantine", "x", "on", MEAN, "--rate", "0.01"]);
    // The sum of the bank's queries is what they all look at.
    let bank = std::fs::read(testdata("wordnet/queries_bank.npy")).expect("bundled");
    let header = 10 + usize::from(u16::from_le_bytes([bank[8], bank[9]]));
    assert!(String::from_utf8_lossy(&bank[..header]).contains("<f"), "numbers");
    let half = String::from_utf8_lossy(&bank[..header]).contains("<f2");
    let number = |bytes: &[u8]| {
        if half {
            half_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
        } else {
            f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        }
    };
    let numbers: Vec<f32> = bank[header..].chunks_exact(if half { 2 } else { 4 }).map(number).collect();
    let mut hub = vec![0.0; 128];
    numbers.chunks_exact(128).for_each(|row| hub.iter_mut().zip(row).for_each(|(sum, it)| *sum += it));
    let line = json!({"id": "hub", "vector": hub, "text": "everything"});
    let file = dehub.file("hub.jsonl", line.to_string());
    let imported = dehub.json(&["import", "x", &file]);
    assert_eq!(
        (&imported["added"], &imported["quarantined"][0]["id"]),
        (&json!(0), &json!("hub")),
        "{imported}"
    );
    let listed = dehub.json(&["quarantine", "x"]);
    assert_eq!(
        (&listed["points"][0]["text"], &listed["rule"]["correction"]),
        (&json!("everything"), &json!(MEAN))
    );
    assert_eq!(dehub.state()["quarantine"]["points"], 1);
    assert!(dehub.ok(&["info", "x"]).stdout.contains("quarantine: 1 points"));
    assert_eq!(dehub.run(&["search", "x", "--id", "hub"]).code, 1);
    assert_eq!(dehub.run(&["quarantine", "x", "release", "other"]).code, 1);
    assert_eq!(dehub.json(&["quarantine", "x", "release", "hub"])["released"], 1);
    dehub.ok(&["search", "x", "--id", "hub"]);
    dehub.ok(&["import", "x", &file]);
    assert_eq!(dehub.run(&["quarantine", "x", "drop", "other"]).code, 1);
    assert_eq!(dehub.json(&["quarantine", "x", "drop", "hub"])["dropped"], 1);
    assert_eq!(dehub.state()["points"], 1500);
    let dropped = dehub.run(&["delete", "x", "--correction", MEAN]);
    assert!(
        dropped.code == 1 && dropped.stderr.contains("quarantine x off") || dropped.stderr.contains("off")
    );
    dehub.ok(&["quarantine", "x", "off"]);
    dehub.ok(&["delete", "x", "--correction", MEAN]);
}

/// A 16-bit float that is a normal number or 0.
fn half_to_f32(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    let size = if exponent == 0 {
        fraction * 2.0_f32.powi(-24)
    } else {
        (1.0 + fraction / 1024.0) * 2.0_f32.powi(exponent - 15)
    };
    if sign == 1 { -size } else { size }
}

#[test]
fn exposure_is_capped_over_the_bank_and_measured_elsewhere() {
    let dehub = wordnet();
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)", "-m", "CSLS(k=10)"]);
    let law = dehub.json(&["hubs", "x", "--exposure", "--correction", "IS(beta=20)"]);
    assert_eq!((&law["is_law"], &law["queries"]), (&json!(true), &json!(1000)));
    let steps = law["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["corrected"]["violations"] == 0));
    assert!(steps.iter().any(|step| step["raw"]["violations"].as_u64() > Some(0)), "{law}");
    let queries = queries();
    let measured = ["hubs", "x", "--exposure", "--correction", "IS(beta=20)", "--queries", &queries];
    assert_eq!(dehub.json(&measured)["is_law"], false);
    assert!(dehub.ok(&measured).stdout.contains("no law"));
    for (correction, part) in [("CSLS(k=10)", "cap"), ("other", "no correction")] {
        let refused = dehub.run(&["hubs", "x", "--exposure", "--correction", correction]);
        assert!(refused.code == 1 && refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(dehub.run(&["hubs", "x", "--exposure"]).code, 1);
}

#[test]
fn sources_of_a_bank_are_told_apart_by_their_ids() {
    let dehub = wordnet();
    let gallery = dehub.json(&["hubs", "x", "--bank", "glosses", "--top", "1"]);
    let id = gallery["rows"][0]["hubs"][0]["id"].as_str().expect("a hub").to_owned();
    let line = |place: usize| {
        let mut vector = vec![0.01; 128];
        vector[place % 128] = 1.0;
        let source = if place < 100 { "web" } else { "app" };
        json!({"id": format!("{source}:{place}"), "vector": vector}).to_string() + "\n"
    };
    let file = dehub.file("bank.jsonl", (0..128).map(line).collect::<String>());
    dehub.ok(&["bank", "x", "sourced", &file]);
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)", "--bank", "sourced"]);
    let sources = ["hubs", "x", "--sources", ":", "--correction", "IS(beta=20)"];
    let found = dehub.json(&[&sources[..], &["--explain", &id]].concat());
    let rows = found["sources"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let entries: u64 = rows.iter().filter_map(|row| row["entries"].as_u64()).sum();
    let shares: f64 = rows.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!(entries == 128 && (shares - 1.0).abs() < 1e-6, "{found}");
    assert!(dehub.ok(&sources).stdout.contains("mean change"));
    let one = dehub.run(&["hubs", "x", "--sources", "#", "--correction", "IS(beta=20)"]);
    assert!(one.code == 1 && one.stderr.contains("one source"), "{}", one.stderr);
}
