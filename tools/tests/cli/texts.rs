//! `dehub text`, and evaluations by words.

use serde_json::{Value, json};

use crate::{Dehub, testdata};

/// Points with texts of their own, or in their payload.
fn small() -> Dehub {
    let dehub = Dehub::new();
    let lines = [
        json!({"id": "a", "vector": [1.0, 0.0], "text": "The cat sat", "title": "Cats"}),
        json!({"id": "b", "vector": [0.0, 1.0], "text": "Dogs run", "title": "On dogs and cats"}),
        json!({"id": "c", "vector": [0.7, 0.7], "title": "Nothing"}),
    ];
    let file = dehub.file("points.jsonl", lines.map(|line| line.to_string()).join("\n"));
    dehub.ok(&["create", "x", "--dim", "2"]);
    dehub.ok(&["import", "x", &file]);
    dehub
}

#[test]
fn fields_are_set_changed_shown_and_dropped() {
    let dehub = small();
    assert_eq!(dehub.json(&["text", "x"])["text"], Value::Null);
    assert!(dehub.ok(&["text", "x"]).stdout.contains("not found by words"));
    let set = dehub.json(&["text", "x", "--field", "text=english", "--field", "title,k1=0.9,b=0.4"]);
    let fields = &set["text"]["fields"];
    assert_eq!(fields["text"]["analyzer"], "english");
    assert_eq!(
        (&fields["text"]["texts"], &fields["text"]["terms"]),
        (&json!(2), &json!(4)),
        "`the` is no term"
    );
    assert_eq!((&fields["title"]["texts"], &fields["title"]["terms"]), (&json!(3), &json!(6)));
    let k1 = fields["title"]["k1"].as_f64().expect("a number");
    assert!((k1 - 0.9).abs() < 1e-6);
    assert_eq!(dehub.json(&["info", "x"])["text"], set["text"]);
    assert!(dehub.ok(&["info", "x"]).stdout.contains("english"));
    let changed = dehub.json(&["text", "x", "--field", "text=raw", "--drop", "title"]);
    assert_eq!(changed["text"]["fields"].as_object().expect("fields").len(), 1);
    assert_eq!(changed["text"]["fields"]["text"]["terms"], 2);
    let refused = dehub.run(&["text", "x", "--drop", "title"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("there is no text field `title`; there are: text"), "{}", refused.stderr);
    for bad in ["text=klingon", "text,k1=x", "text,b=2"] {
        assert_eq!(dehub.run(&["text", "x", "--field", bad]).code, 2, "{bad}");
    }
    assert_eq!(dehub.json(&["text", "x", "--drop", "text"])["text"], Value::Null);
    assert!(dehub.json(&["verify", "x"]).is_object());
}

/// nDCG@10 of a row of results.
fn value(results: &Value, method: &str) -> f64 {
    let rows = results["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["method"] == method).unwrap_or_else(|| panic!("{method}: {rows:?}"));
    row["measures"]["nDCG@10"].as_f64().expect("a number")
}

#[test]
fn words_are_measured_beside_vectors_and_fused_with_them() {
    let dehub = Dehub::new();
    // A noun's text is the noun itself, of which its gloss, the query, has letters in common at best.
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy")]);
    dehub.ok(&["text", "x", "--field", "text=ngram(3,4)"]);
    let (queries, labels) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let qrels = testdata("wordnet/qrels.txt");
    let asked =
        ["eval", "x", "--queries", &queries, "--meta", &labels, "--qrels", &qrels, "-m", "NNN(alpha=1,k=16)"];
    let plain = dehub.json(&asked);
    let output = dehub.path("results.json");
    let output = output.to_str().expect("UTF-8");
    let found = dehub.json(&[&asked[..], &["--text", "--output", output]].concat());
    assert!((value(&found, "raw") - value(&plain, "raw")).abs() < 1e-12);
    let method = "NNN(alpha=1.0,k=16)";
    let (words, both) = (value(&found, "BM25"), value(&found, &format!("BM25 + {method}")));
    assert!((words - 0.1609).abs() < 1e-3, "{words}");
    assert!(words < both && both < value(&found, method), "{both} {words}");
    let weighted = dehub.json(&[&asked[..], &["--text", "--weights", "4,1"]].concat());
    assert!(value(&weighted, "BM25 + raw") > value(&plain, "raw"), "what words find helps a little");
    // The results can be made again as they were asked for.
    assert_eq!(dehub.run(&["eval", "--from", output]).code, 0);
    // Without weight on words a fusion is the ranking by vectors.
    let weightless = dehub.json(&[&asked[..], &["--text", "--weights", "1,0"]].concat());
    assert!((value(&weightless, "BM25 + raw") - value(&plain, "raw")).abs() < 1e-12);
    for (more, message) in [
        (&["--text", "--weights", "1"][..], "--weights: wanted two numbers"),
        (&["--text", "--weights", "0,0"], "not both 0"),
        (&["--text", "--field", "absent"], "there is no text field `absent`; there are: text"),
    ] {
        let refused = dehub.run(&[&asked[..], more].concat());
        assert_eq!(refused.code, 1, "{more:?}");
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
    assert_eq!(dehub.run(&[&asked[..], &["--field", "text"]].concat()).code, 2, "without --text");
}
