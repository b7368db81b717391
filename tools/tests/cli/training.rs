//! Adapters trained and applied from the command line.

use std::fs;

use crate::{Dehub, testdata};

/// The road of the README: trained with the test queries of the bundled data, as it has no others with judgements.
fn train<'a>(output: &'a str, paths: &'a [String; 5], more: &[&'a str]) -> Vec<&'a str> {
    let [queries, meta, gallery, gallery_meta, qrels] = paths;
    let given = [
        "train",
        "--queries",
        queries,
        "--meta",
        meta,
        "--gallery",
        gallery,
        "--gallery-meta",
        gallery_meta,
        "--qrels",
        qrels,
        "--output",
        output,
        "--hidden",
        "64",
        "--epochs",
        "4",
        "--batch",
        "64",
        "--held-out",
        "0.3",
    ];
    [&given, more].concat()
}

fn path(dehub: &Dehub, name: &str) -> String {
    dehub.path(name).to_str().expect("the path is UTF-8").to_owned()
}

fn paths() -> [String; 5] {
    ["queries_test.npy", "queries_test.jsonl", "gallery.npy", "gallery.jsonl", "qrels.txt"]
        .map(|name| testdata(&format!("wordnet/{name}")))
}

#[test]
fn an_adapter_is_trained_written_and_applied() {
    let dehub = Dehub::new();
    let (paths, model) = (paths(), path(&dehub, "models/words"));
    let trained = dehub.json(&train(&model, &paths, &["--force", "--seed", "3"]));
    assert_eq!(trained["held_out"], 120);
    assert!(trained["rounds"].as_array().is_some_and(|rounds| rounds.len() >= 2));
    for name in ["R@1", "nDCG@10", "AUC", "pooled AUC"] {
        let measure = &trained["measures"][name];
        assert!(measure["before"].as_f64() > Some(0.0) && measure["after"].as_f64() > Some(0.0), "{name}");
    }
    assert!(trained["measures"]["nDCG@10"]["difference"]["low"].is_number());
    let card: serde_json::Value =
        serde_json::from_slice(&fs::read(format!("{model}.json")).expect("a card")).expect("JSON");
    assert_eq!((&card["dim"], &card["hidden"], &card["seed"]), (&128.into(), &64.into(), &3.into()));
    assert_eq!(card["loss"], "0.5*mw + infonce:both_ways=true");
    let out = path(&dehub, "asked.npy");
    let adapted = dehub.json(&["adapt", &model, &paths[0], "--output", &out]);
    assert_eq!((&adapted["rows"], &adapted["dim"]), (&400.into(), &128.into()));
    let eval = dehub.json(&[
        "eval",
        "--gallery",
        &paths[2],
        "--gallery-meta",
        &paths[3],
        "--queries",
        &out,
        "--meta",
        &paths[1],
        "--qrels",
        &paths[4],
    ]);
    assert!(eval["queries"].is_number() || eval["inputs"].is_array(), "{eval}");
    let other = path(&dehub, "models/again");
    dehub.json(&train(&other, &paths, &["--force", "--seed", "3"]));
    let weights = |model: &str| fs::read(format!("{model}.safetensors")).expect("weights");
    assert!(weights(&model) == weights(&other), "equal seeds give equal models");
}

#[test]
fn mistakes_of_training_are_told_and_nothing_is_written() {
    let dehub = Dehub::new();
    let (paths, model) = (paths(), path(&dehub, "models/words"));
    let told = |arguments: &[&str], code: i32, wanted: &str| {
        let ended = dehub.run(arguments);
        assert!(ended.code == code && ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    };
    told(&train(&model, &paths, &["--margin", "0.9"]), 1, "the model is not better by more than 0.9");
    assert!(!std::path::Path::new(&format!("{model}.json")).exists());
    told(&train(&model, &paths, &["--loss", "triplet"]), 2, "wanted one of mw, infonce");
    told(
        &train(&model, &paths, &["--negatives", "mined:2"]),
        2,
        "wanted in-batch, random:N or mined:N,DEPTH,EPOCHS",
    );
    told(&train(&model, &paths, &["--mixes", "0,3"]), 1, "mixes is [0.0, 3.0]");
    told(&train(&model, &paths, &["--loss", "partial_ranking"]), 1, "partial_ranking");
    let none = dehub.file("qrels.txt", "nobody 0 nothing 1\n");
    let mut without = paths.clone();
    without[4] = none;
    told(&train(&model, &without, &[]), 1, "0 queries have an answer, wanted at least 20");
    told(&["adapt", &model, &paths[0], "--output", &path(&dehub, "x.npy")], 1, "words.json");
    dehub.json(&train(&model, &paths, &["--force"]));
    told(&train(&model, &paths, &[]), 1, "the file is there; --force replaces it");
    let weights = format!("{model}.safetensors");
    let mut bytes = fs::read(&weights).expect("weights");
    bytes.pop();
    fs::write(&weights, bytes).expect("written");
    told(
        &["adapt", &model, &paths[0], "--output", &path(&dehub, "x.npy")],
        1,
        "the file was changed or cut off",
    );
}
