//! `dehub verify` and `dehub compact`.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::{Dehub, npy};

/// A collection `x` of everything there is, closed.
fn made() -> Dehub {
    let dehub = Dehub::new();
    let rows: Vec<[f32; 3]> = (0..200_u8).map(|x| [1.0, f32::from(x % 40), f32::from(x % 7)]).collect();
    let rows: Vec<&[f32]> = rows.iter().map(<[f32; 3]>::as_slice).collect();
    let file = dehub.file("points.npy", npy(&rows));
    let bank = dehub.file("bank.npy", npy(&rows[..20]));
    dehub.ok(&["create", "x", "--dim", "3", "--full-scan-threshold", "0"]);
    dehub.ok(&["import", "x", &file]);
    dehub.ok(&["bank", "x", "asked", &bank]);
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)"]);
    dehub
}

fn files(dehub: &Dehub, ends: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(dehub.path("data/collections/x")).expect("a collection").flatten();
    folder.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(ends)).collect()
}

#[test]
fn a_whole_collection_is_said_to_be_whole_and_one_with_a_broken_graph_is_rebuilt() {
    let dehub = made();
    let told = dehub.json(&["verify", "x"]);
    assert_eq!((&told["whole"], &told["collections"][0]["differences"]), (&json!(true), &json!(0)));
    let checks = told["collections"][0]["checks"].as_array().expect("a list");
    assert!(checks.iter().any(|it| it["check"] == "statistics" && it["checked"] == 200), "{checks:?}");
    let text = dehub.ok(&["verify", "--all"]).stdout;
    assert!(text.contains("looked at") && text.ends_with("whole\n"), "{text}");
    let graph = files(&dehub, ".bin").remove(0);
    let mut bytes = fs::read(&graph).expect("it is there");
    bytes[700] ^= 1;
    fs::write(&graph, &bytes).expect("writable");
    let told = dehub.json(&["verify", "x"]);
    let name = format!("{}.broken", graph.file_name().expect("a name").to_string_lossy());
    assert_eq!(
        told["collections"][0]["set_aside"],
        json!([name]),
        "its points are scanned, and all is whole"
    );
    assert!(files(&dehub, ".bin").is_empty());
    let told = dehub.json(&["verify", "x", "--rebuild"]);
    assert_eq!(told["collections"][0]["after"]["calibration_due"], false, "{told}");
    assert_eq!(files(&dehub, ".bin"), [graph], "frozen anew");
    let told = dehub.json(&["compact", "x"]);
    let bytes = (&told["collections"][0]["bytes_before"], &told["collections"][0]["bytes_after"]);
    assert!(bytes.0["set_aside"].as_u64() > Some(0), "{told}");
    assert_eq!(bytes.1["set_aside"], 0);
    assert!(dehub.ok(&["compact", "--all"]).stdout.contains("set aside"));
}

#[test]
fn a_collection_that_does_not_open_is_named_with_what_is_damaged_and_what_helps() {
    let dehub = made();
    let store = files(&dehub, "").into_iter().find(|path| path.is_dir()).expect("a store");
    fs::write(store.join("CURRENT"), "nothing\n").expect("writable");
    let ended = dehub.run(&["verify", "x"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stdout.contains("x does not open: ")
            && ended.stdout.contains(" restore x REPOSITORY --replace"),
        "{ended:?}"
    );
    let ended = dehub.run(&["verify", "--all", "--json"]);
    assert_eq!(ended.code, 1);
    let told: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one JSON object");
    assert_eq!((&told["whole"], told["collections"][0]["error"].is_string()), (&json!(false), true));
    // The others are not kept from what is asked for.
    dehub.ok(&["create", "y", "--dim", "2"]);
    let ended = dehub.run(&["compact", "--all"]);
    assert!(ended.code == 1 && ended.stdout.starts_with("y\n"), "{ended:?}");
    assert!(ended.stderr.contains("1 of the collections not compacted: `x`: "), "{ended:?}");
    let listed = dehub.ok(&["info"]).stdout;
    assert!(
        listed.contains("\nx does not open: ") && listed.lines().all(|line| line.len() < 400),
        "{listed}"
    );
    let searched = dehub.run(&["search", "x", "--id", "1"]);
    assert!(
        searched.code == 1 && searched.stderr.contains(" restore x REPOSITORY --replace"),
        "{searched:?}"
    );
}

#[test]
fn verify_and_compact_ask_for_a_collection_that_is_there() {
    let dehub = Dehub::new();
    for command in ["verify", "compact"] {
        assert_eq!(dehub.run(&[command]).code, 2);
        assert_eq!(dehub.run(&[command, "x", "--all"]).code, 2);
        let ended = dehub.run(&[command, "x"]);
        assert_eq!(ended.code, 1);
        assert!(ended.stderr.contains('x') && ended.stdout.is_empty(), "{ended:?}");
        assert_eq!(dehub.ok(&[command, "--all"]).stdout, "no collections\n");
    }
}
