//! Points of several vectors each, from the command line.

use serde_json::json;

use crate::Dehub;

const POINTS: &str = "{\"id\": 1, \"vector\": [[1, 0], [0, 1]], \"n\": 1}\n\
                      {\"id\": 2, \"vector\": [[3, 0]]}\n{\"id\": 3, \"vector\": [0, 2]}\n";

#[test]
fn multi_vectors_are_imported_searched_and_corrected() {
    let dehub = Dehub::new();
    let made = dehub.json(&["create", "c", "--dim", "2", "--metric", "dot", "--multi"]);
    assert_eq!(made["multi"], true);
    let points = dehub.file("points.jsonl", POINTS);
    let done = dehub.json(&["import", "c", &points]);
    assert_eq!((&done["added"], &done["refused"]), (&json!(3), &json!([])));
    let found = |more: &[&str]| {
        let answer = dehub.json(&[&["search", "c", "--vector", "[[1, 0], [0, 1]]"], more].concat());
        let hits = answer["points"].as_array().expect("hits").iter();
        hits.map(|hit| (hit["id"].as_u64(), hit["score"].as_f64())).collect::<Vec<_>>()
    };
    let hit = |id, score| (Some(id), Some(score));
    assert_eq!(found(&[]), [hit(2, 3.0), hit(1, 2.0), hit(3, 2.0)]);
    let bank = dehub.file("bank.jsonl", "{\"vector\": [[1, 0], [0, 1]]}\n{\"vector\": [1, 0]}\n");
    assert_eq!(dehub.json(&["bank", "c", "asked", &bank])["added"], 2);
    dehub.ok(&["fit", "c", "--method", "NNN(alpha=1,k=1)", "--bank", "asked"]);
    // The best of the bank by the mean: 1, 3 and 1.
    let corrected = found(&["--correction", "NNN(alpha=1,k=1)"]);
    assert_eq!(corrected.iter().map(|hit| hit.0).collect::<Vec<_>>(), [Some(1), Some(3), Some(2)]);
    let file = dehub.file("queries.jsonl", "{\"vector\": [[0, 1]]}\n{\"vector\": [[1, 1], [1, 1]]}\n");
    let second = dehub.json(&["search", "c", "--queries", &file, "--row", "1"]);
    assert_eq!((&second["points"][0]["id"], &second["points"][0]["score"]), (&json!(2), &json!(6.0)));
    dehub.ok(&["verify", "c"]);
}

#[test]
fn named_multi_vectors_are_made_and_imported() {
    let dehub = Dehub::new();
    let made = dehub.json(&["create", "c", "--vector", "tokens=2,dot,multi", "--vector", "whole=2"]);
    assert_eq!(made["vectors"]["tokens"], json!({"dim": 2, "metric": "dot", "multi": true}));
    assert_eq!(made["vectors"]["whole"]["multi"], false);
    let lines = "{\"id\": 1, \"vector\": {\"tokens\": [[1, 0], [0, 1]], \"whole\": [1, 0]}}\n\
                 {\"id\": 2, \"vector\": {\"tokens\": [[3, 0]]}}\n";
    dehub.ok(&["import", "c", &dehub.file("points.jsonl", lines)]);
    let found = dehub.json(&["search", "c", "--using", "tokens", "--vector", "[[1, 0], [0, 1]]"]);
    assert_eq!((&found["points"][0]["id"], &found["points"][0]["score"]), (&json!(2), &json!(3.0)));
}

#[test]
fn what_is_not_for_multi_vectors_is_refused() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "c", "--dim", "2", "--multi"]);
    dehub.ok(&["import", "c", &dehub.file("points.jsonl", POINTS)]);
    let bank = dehub.file("bank.jsonl", "{\"vector\": [[1, 0], [0, 1]]}\n{\"vector\": [1, 0]}\n");
    dehub.ok(&["bank", "c", "asked", &bank]);
    let uneven = dehub.file("uneven.jsonl", "{\"id\": 1, \"vector\": [[1, 0], [1]]}\n");
    let wide = dehub.file("wide.jsonl", "{\"id\": 1, \"vector\": [[1, 0, 0]]}\n");
    let none = dehub.file("none.jsonl", "{\"id\": 1, \"n\": 2}\n");
    let matrix = dehub.file("x.npy", "");
    let out = dehub.file("out.npy", "");
    for (arguments, wanted) in [
        (
            vec!["create", "d", "--dim", "2", "--metric", "euclidean", "--multi"],
            "wanted the metric cosine or dot",
        ),
        (vec!["import", "c", &uneven], "row 0, field vector: vector 1 of the multi-vector has 1 dimensions"),
        (vec!["import", "c", &wide], "vector 0 of the multi-vector: the vector has 3 dimensions, wanted 2"),
        (vec!["import", "c", &none], "row 0, field vector: wanted an array of numbers"),
        (vec!["import", "c", &matrix], "wanted a .jsonl or .parquet file, as points have several vectors"),
        (vec!["fit", "c", "--method", "SN", "--bank", "asked"], "is not for multi-vectors"),
        (vec!["bank", "c", "asked", &bank, "--dedupe=copies"], "--dedupe is not for multi-vectors"),
        (
            vec!["export", "c", "points", "--output", &out, "--force"],
            "points of several vectors cannot be exported",
        ),
    ] {
        let ended = dehub.run(&arguments);
        assert!(ended.code == 1 && ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    }
}
