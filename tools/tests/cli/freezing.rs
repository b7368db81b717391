//! `dehub freeze`, and what `info` tells of the graph.

use serde_json::json;

use crate::{Dehub, npy};

#[test]
fn a_collection_is_frozen_and_quantized_anew() {
    let dehub = Dehub::new();
    let rows: Vec<[f32; 3]> = (0..200_u8).map(|x| [1.0, f32::from(x), f32::from(x % 7)]).collect();
    let rows: Vec<&[f32]> = rows.iter().map(<[f32; 3]>::as_slice).collect();
    let file = dehub.file("points.npy", npy(&rows));
    let made = ["create", "x", "--dim", "3", "--full-scan-threshold", "0", "--quantization", "int8"];
    dehub.ok(&made);
    let nothing = dehub.json(&["freeze", "x"]);
    assert_eq!((&nothing["frozen"], &nothing["quantization"]), (&json!(false), &json!("int8")));
    dehub.ok(&["import", "x", &file]);
    let graph = &dehub.state()["graph"];
    assert_eq!(graph["quantization"], "int8");
    assert_eq!(
        (&graph["segments"][0]["points"], &graph["segments"][0]["quantization"]),
        (&json!(200), &json!("int8"))
    );
    for (kind, frozen) in [("f32", true), ("f32", false), ("reduced", true), ("bf16", true)] {
        let told = dehub.json(&["freeze", "x", "--quantization", kind]);
        assert_eq!((&told["frozen"], &told["quantization"]), (&json!(frozen), &json!(kind)));
        assert_eq!(dehub.state()["graph"]["segments"], told["segments"]);
        assert_eq!(
            (&told["segments"][0]["quantization"], told["segments"][1].is_null()),
            (&json!(kind), true)
        );
    }
    // A few deleted points are no reason for a build, unless it is asked for.
    dehub.ok(&["delete", "x", "--id", "3", "--id", "4"]);
    assert_eq!(dehub.state()["graph"]["segments"][0]["dead"], 2);
    dehub.ok(&["freeze", "x"]);
    assert_eq!(dehub.state()["graph"]["segments"][0]["dead"], 0);
    let text = dehub.ok(&["info", "x"]).stdout;
    assert!(text.contains("bytes a vector") && text.contains("bf16"), "{text}");
}

#[test]
fn an_unknown_quantization_is_named_with_those_there_are() {
    let dehub = Dehub::new();
    let ended = dehub.run(&["create", "x", "--dim", "3", "--quantization", "int4"]);
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("\"int4\" is unknown, wanted f32, bf16, int8 or reduced"),
        "{}",
        ended.stderr
    );
}
