//! Searches by words, alone and beside vectors, and by feedback.

use serde_json::{Value, json};

use crate::Dehub;

/// A collection `x` of four points on a quarter of a circle, with texts and titles.
fn small() -> Dehub {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let rows = [
        json!({"id": "a", "vector": [1.0, 0.0], "text": "the fox and the hen", "payload": {"title": "Fox"}}),
        json!({"id": "b", "vector": [0.9, 0.4], "text": "a fox, a fox", "payload": {"title": "Tails"}}),
        json!({"id": "c", "vector": [0.4, 0.9], "text": "hens lay\n\u{1b}[31m eggs", "payload": {"title": "Hen"}}),
        json!({"id": "d", "vector": [0.0, 1.0], "text": "fox hen goose", "payload": {"title": "Geese"}}),
    ];
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let file = dehub.file("points.jsonl", lines);
    dehub.ok(&["import", "x", &file]);
    dehub.ok(&["text", "x", "--field", "text", "--field", "title"]);
    dehub
}

fn ids(answer: &Value) -> Vec<&str> {
    let points = answer["points"].as_array().expect("points");
    points.iter().map(|point| point["id"].as_str().expect("an id")).collect()
}

#[test]
fn points_are_found_by_words_in_the_fields_that_are_asked() {
    let dehub = small();
    let search = |more: &[&str]| dehub.json(&[&["search", "x"], more].concat());
    assert_eq!(ids(&search(&["--text", "goose"])), ["d"]);
    assert_eq!(ids(&search(&["--text", "fox", "--field", "title=2"])), ["a"]);
    assert_eq!(ids(&search(&["--text", "fox hen", "--field", "text", "--all-words"])).len(), 2);
    assert_eq!(ids(&search(&["--text", "unicorn"])), Vec::<&str>::new());
    let some = dehub.file("some.txt", "d\n");
    assert_eq!(ids(&search(&["--text", "fox", "--only-ids", &some, "-k", "3"])), ["d"]);
    let explained = search(&["--text", "fox", "--explain"]);
    for point in explained["points"].as_array().expect("points") {
        let fields = point["fields"].as_object().expect("fields");
        let sum: f64 = fields.values().map(|score| score.as_f64().expect("a number")).sum();
        assert!((sum - point["score"].as_f64().expect("a score")).abs() < 1e-5, "{point}");
    }
    // What was imported after the fields were set is found at once.
    let late = dehub.file("late.jsonl", r#"{"id": "e", "vector": [1, 1], "text": "zebra"}"#);
    dehub.ok(&["import", "x", &late]);
    assert_eq!(ids(&search(&["--text", "zebra"])), ["e"]);
}

#[test]
fn vectors_and_words_are_fused_as_asked_and_explained_as_a_table() {
    let dehub = small();
    let asked = ["search", "x", "--hybrid", "--vector", "[0.0, 1.0]", "--text", "fox"];
    for fusion in ["rrf", "dbsf", "minmax", "distribution"] {
        let answer = dehub.json(&[&asked[..], &["--fusion", fusion, "--explain"]].concat());
        assert_eq!(ids(&answer).len(), 4, "{fusion}");
        for point in answer["points"].as_array().expect("points") {
            let parts = point["parts"].as_array().expect("parts");
            let sum: f64 = parts.iter().map(|part| part["contribution"].as_f64().expect("a number")).sum();
            assert!((sum - point["score"].as_f64().expect("a score")).abs() < 1e-6, "{fusion} {point}");
        }
    }
    let only = |weights| ids(&dehub.json(&[&asked[..], &["--weights", weights]].concat()))[0].to_owned();
    assert_eq!((only("1,0").as_str(), only("0,1").as_str()), ("d", "a"));
    let table =
        dehub.ok(&[&asked[..], &["--explain", "--fusion", "rrf", "--fusion-k", "10"]].concat()).stdout;
    let head = table.lines().next().expect("a head");
    for column in
        ["vector rank", "vector score", "vector part", "text rank", "text part", "BM25 text", "BM25 title"]
    {
        assert!(head.contains(column), "{column}: {head}");
    }
    assert!(table.contains("rrf(k=10) of vector, text"), "{table}");
    let by_point = dehub.json(&["search", "x", "--hybrid", "--id", "d", "--text", "fox"]);
    assert!(!ids(&by_point).contains(&"d"), "a point is left out of its own answer");
}

#[test]
fn words_are_shown_where_they_were_found() {
    let dehub = small();
    let json = dehub.json(&["search", "x", "--text", "eggs fox", "--field", "text", "--highlight"]);
    for point in json["points"].as_array().expect("points") {
        for part in point["highlights"].as_array().expect("highlights") {
            let fragment = part["fragment"].as_str().expect("a fragment");
            for span in part["spans"].as_array().expect("spans") {
                let at =
                    |place: usize| usize::try_from(span[place].as_u64().expect("a number")).expect("small");
                assert!(["eggs", "fox"].contains(&&fragment[at(0)..at(1)]), "{part}");
            }
        }
    }
    let text = dehub.ok(&["search", "x", "--text", "eggs fox", "--field", "text", "--highlight"]).stdout;
    assert!(text.contains("b text: a **fox**, a **fox**"), "{text}");
    assert!(
        text.contains("c text: hens lay \u{fffd}[31m **eggs**"),
        "what a text could do to a terminal: {text}"
    );
}

#[test]
fn feedback_moves_a_query_towards_its_first_answers() {
    let dehub = small();
    let search =
        |more: &[&str]| dehub.json(&[&["search", "x", "--vector", "[1.0, 0.35]", "-k", "4"], more].concat());
    let plain = search(&[]);
    let moved = search(&["--feedback", "1"]);
    assert_eq!(ids(&plain)[0], "b");
    // (q + b/2) / |q + b/2| · b, with both of length 1.
    let unit = |x: f64, y: f64| (x / x.hypot(y), y / x.hypot(y));
    let (q, b) = (unit(1.0, 0.35), unit(0.9, 0.4));
    let to = unit(q.0 + 0.5 * b.0, q.1 + 0.5 * b.1);
    let score = moved["points"][0]["score"].as_f64().expect("a score");
    assert!((score - (to.0 * b.0 + to.1 * b.1)).abs() < 1e-6, "{moved}");
    assert_eq!(search(&["--feedback"])["points"], search(&["--feedback", "3"])["points"]);
    let explained = search(&["--feedback", "1", "--explain"]);
    assert_eq!(explained["points"][0]["rank_raw"], 1, "{explained}");
    let hybrid = search(&["--feedback", "1", "--hybrid", "--text", "goose", "--explain"]);
    assert_eq!(hybrid["points"][0]["parts"][0]["kind"], "feedback", "{hybrid}");
}

#[test]
fn what_cannot_be_asked_of_words_is_refused() {
    let dehub = small();
    dehub.ok(&["create", "y", "--dim", "2"]);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["search", "y", "--text", "fox"], 1, "no text fields"),
        (&["search", "x", "--text", "fox", "--field", "body"], 1, "`body`"),
        (&["search", "x", "--text", "fox", "--vector", "[1, 0]"], 1, "--hybrid"),
        (&["search", "x", "--text", "fox", "--hybrid"], 2, "--vector"),
        (&["search", "x", "--text", "fox", "--fusion", "rrf"], 1, "--hybrid"),
        (&["search", "x", "--vector", "[1, 0]", "--weights", "1,2"], 1, "--hybrid"),
        (&["search", "x", "--vector", "[1, 0]", "--highlight"], 2, "--text"),
        (&["search", "x", "--text", "fox", "--exact"], 1, "found by words"),
        (&["search", "x"], 2, "--text"),
    ];
    for (arguments, code, told) in cases {
        let ended = dehub.run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
    }
    let weighted =
        ["search", "x", "--hybrid", "--id", "a", "--text", "fox", "--fusion", "dbsf", "--weights", "1,2"];
    assert!(dehub.run(&weighted).stderr.contains("--weights has no meaning for dbsf"));
}
