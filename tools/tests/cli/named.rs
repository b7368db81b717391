//! Collections with named vectors, from the command line.

use serde_json::json;

use crate::{Dehub, testdata};

#[test]
fn a_collection_is_made_with_named_vectors_and_each_is_used_by_its_name() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "c", "--vector", "image=2", "--vector", "text=3,dot", "--metric", "euclidean"]);
    let info = dehub.json(&["info", "c"]);
    assert_eq!((&info["dim"], &info["points"]), (&json!(null), &json!(0)));
    let of = |name: &str| (info["vectors"][name]["dim"].clone(), info["vectors"][name]["metric"].clone());
    assert_eq!(of("image"), (json!(2), json!("euclidean")));
    assert_eq!(of("text"), (json!(3), json!("dot")));
    let bank = dehub.file("bank.jsonl", "{\"vector\": [1, 0, 0]}\n{\"vector\": [0, 1, 0]}\n");
    dehub.ok(&["bank", "c", "asked", &bank, "--using", "text"]);
    let info = dehub.json(&["info", "c"]);
    assert_eq!(info["vectors"]["text"]["banks"][0]["entries"], 2);
    assert_eq!(info["vectors"]["image"]["banks"], json!([]));
    assert!(dehub.json(&["verify", "c"])["collections"][0]["vectors"]["text"]["checks"].is_array());
    let plain = dehub.file("x.npy", "");
    for (arguments, wanted) in [
        (vec!["bank", "c", "asked", &bank], "none was given; it has: image, text: name one by --using"),
        (vec!["search", "c", "--vector", "[1, 2]", "--using", "audio"], "there is no vector `audio`"),
        (vec!["info", "c", "--using", "text"], "--using has no meaning for this command"),
        (vec!["import", "c", &bank], "row 0, field vector: wanted an object of vectors under their names"),
        (vec!["import", "c", &plain], "x.npy: wanted a .parquet, .pq, .jsonl or .ndjson file"),
        (vec!["create", "d", "--vector", "image"], "wanted NAME=DIM[,METRIC][,multi]"),
        (vec!["create", "d", "--vector", "a=2", "--vector", "a=3"], "`a` is given twice"),
    ] {
        let ended = dehub.run(&arguments);
        assert!(ended.code != 0 && ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn points_with_named_vectors_are_imported() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "c", "--vector", "image=2", "--vector", "text=3,dot"]);
    let done = dehub.json(&["import", "c", &testdata("bodies/named.parquet")]);
    assert_eq!((&done["rows"], &done["added"], &done["refused"]), (&json!(3), &json!(3), &json!([])));
    let lines = dehub.file(
        "more.jsonl",
        "{\"id\": 4, \"vector\": {\"image\": [1, 0], \"text\": [9, 0, 0]}, \"n\": 1}\n\
         {\"id\": 5, \"vector\": null, \"vector.text\": [0, 9, 0]}\n{\"id\": 1, \"vector\": {}}\n",
    );
    let done = dehub.json(&["import", "c", &lines]);
    assert_eq!((&done["added"], &done["replaced"], &done["points"]), (&json!(2), &json!(1), &json!(5)));
    let found = |vector: &str, using: &str| -> Vec<serde_json::Value> {
        let answer = dehub.json(&["search", "c", "--vector", vector, "--using", using, "-k", "9"]);
        let hits = answer["points"].as_array().expect("hits").iter();
        hits.map(|hit| hit["id"].clone()).collect()
    };
    assert_eq!(found("[1, 0]", "image"), [json!(4)], "the point 1 has no vector any more");
    assert_eq!(found("[1, 0, 0]", "text"), [json!(4), json!(5), json!(2)]);
    assert!(dehub.ok(&["verify", "c"]).stdout.contains('c'));
}

#[test]
fn a_row_with_a_bad_named_vector_is_refused_and_nothing_is_stored() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "c", "--vector", "image=2", "--vector", "text=3,dot"]);
    for (row, wanted) in [
        (
            "{\"id\": 2, \"vector\": {\"image\": [1, 2, 3]}}",
            "row 1, vector `image`: the vector has 3 dimensions, wanted 2",
        ),
        ("{\"id\": 2, \"vector\": {\"image\": [0, 0]}}", "row 1, vector `image`"),
        (
            "{\"id\": 2, \"vector\": {\"audio\": [1]}}",
            "there is no vector `audio`; the collection has: image, text",
        ),
        (
            "{\"id\": 2, \"vector\": {\"image\": [1, \"x\"]}}",
            "field vector.image: wanted an array of numbers",
        ),
        (
            "{\"id\": 2, \"vector\": {\"image\": 7}}",
            "field vector.image: wanted an array of numbers, or of such arrays, found 7",
        ),
        (
            "{\"id\": 2, \"vector\": {\"image\": [1, 1]}, \"vector.image\": [1, 2]}",
            "field vector.image: wanted one vector, found two",
        ),
        ("{\"id\": 1, \"vector\": {}}", "row 1, field id: wanted each id once, found 1, which row 0 has"),
    ] {
        let lines = format!("{{\"id\": 1, \"vector\": {{\"image\": [1, 0]}}}}\n{row}\n");
        let file = dehub.file("points.jsonl", lines);
        let ended = dehub.run(&["import", "c", &file]);
        assert!(ended.code == 1 && ended.stderr.contains(wanted), "{row}: {ended:?}");
        assert!(ended.stderr.contains("nothing was stored"), "{ended:?}");
        assert_eq!(dehub.json(&["info", "c"])["points"], 0);
        let ended = dehub.run(&["import", "c", &file, "--skip-bad", "--dry-run"]);
        assert_eq!(ended.code, 3, "{ended:?}");
    }
    let file = dehub
        .file("points.jsonl", "{\"id\": 1, \"vector\": {\"image\": [1, 0]}}\n{\"id\": 2, \"vector\": 1}\n");
    let done = dehub.run(&["import", "c", &file, "--skip-bad"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert_eq!(dehub.json(&["info", "c"])["points"], 1);
    let unnamed = dehub.run(&["import", "c", &testdata("small.parquet")]);
    assert!(unnamed.code == 1 && unnamed.stderr.contains("vectors without a name"), "{unnamed:?}");
}
