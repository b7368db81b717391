//! Collections with named vectors, from the command line.

use serde_json::json;

use crate::Dehub;

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
    for (arguments, wanted) in [
        (vec!["bank", "c", "asked", &bank], "none was given; it has: image, text: name one by --using"),
        (vec!["search", "c", "--vector", "[1, 2]", "--using", "audio"], "there is no vector `audio`"),
        (vec!["info", "c", "--using", "text"], "--using has no meaning for this command"),
        (vec!["import", "c", &bank], "have names: write its points over HTTP"),
        (vec!["create", "d", "--vector", "image"], "wanted NAME=DIM or NAME=DIM,METRIC"),
        (vec!["create", "d", "--vector", "a=2", "--vector", "a=3"], "`a` is given twice"),
    ] {
        let ended = dehub.run(&arguments);
        assert!(ended.code != 0 && ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    }
}
