//! JSON lines with vectors in them, and without.

use crate::files::{Folder, batches_of, message, number, read, text};
use dehub_format::{ReadOptions, open, open_fields};
use serde_json::{Value, json};

#[test]
fn a_vector_is_found_under_each_of_its_usual_names() {
    let folder = Folder::new();
    for name in ["vector", "embedding", "emb", "values"] {
        let line = |id: u64, vector: &str| format!("{{\"id\": {id}, \"{name}\": {vector}}}\n");
        let lines = line(1, "[1, -2.5, 3e2]") + &line(2, "[0, 0.1, 1e-50]");
        let path = folder.write("a.jsonl", lines);
        for batch_rows in 0..3 {
            let table = read(&path, batches_of(batch_rows)).expect("read");
            assert_eq!(table.vectors, [[1.0, -2.5, 300.0], [0.0, 0.1, 0.0]]);
            assert_eq!(table.ids, [number(1), number(2)]);
            assert_eq!(table.payloads, [Value::Null, Value::Null]);
        }
    }
}

#[test]
fn what_is_not_the_vector_is_kept_as_it_is() {
    let folder = Folder::new();
    let lines = concat!(
        "\u{feff}{\"_id\": \"7\", \"vector\": [1], \"text\": \"größe\", \"emb\": [2], \"payload\": {\"a\": {\"b\": 1}}}\r\n",
        "{\"_id\": 7, \"vector\": [2], \"n\": 18446744073709551615, \"none\": null}\r\n",
        "{\"_id\": \"x\", \"vector\": [3]}\r\n\r\n"
    );
    let table = read(&folder.write("a.ndjson", lines), ReadOptions::default()).expect("read");
    assert_eq!(table.ids, [text("7"), number(7), text("x")]);
    assert_eq!(table.texts, [Some("größe".to_owned()), None, None]);
    let second = json!({"n": u64::MAX, "none": null});
    assert_eq!(table.payloads, [json!({"emb": [2], "a": {"b": 1}}), second, Value::Null]);
}

#[test]
fn a_file_of_vectors_alone_has_no_other_column() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{\"vector\": [1, 2]}\n{\"vector\": [3, 4]}");
    let mut reader = open(&path, ReadOptions::default()).expect("opened");
    assert_eq!((reader.dim(), reader.rows_total()), (None, None));
    let batch = reader.next().expect("a batch").expect("read");
    assert_eq!(reader.dim(), Some(2));
    assert_eq!((batch.ids, batch.payloads, batch.texts), (None, None, None));
    assert!(reader.next().is_none());
}

#[test]
fn a_file_without_rows_has_no_batch() {
    let folder = Folder::new();
    for bytes in ["", "\n", "\u{feff}\r\n"] {
        let table = read(&folder.write("a.jsonl", bytes), ReadOptions::default()).expect("read");
        assert!(table.vectors.is_empty());
    }
}

#[test]
fn a_range_of_rows_starts_and_ends_where_it_says() {
    let folder = Folder::new();
    let lines: String = (0..10).map(|row| format!("{{\"id\": {row}, \"vector\": [{row}]}}\n")).collect();
    let path = folder.write("a.jsonl", lines);
    for range in [0..10, 0..3, 4..7, 9..20, 10..20, 30..40] {
        for batch_rows in [1, 3, 100] {
            let options = ReadOptions { rows: Some(range.clone()), ..batches_of(batch_rows) };
            let wanted: Vec<_> = (range.start..range.end.min(10)).map(number).collect();
            assert_eq!(read(&path, options).expect("read").ids, wanted, "{range:?}");
        }
    }
}

#[test]
fn a_bad_row_is_named_by_line_field_and_coordinate() {
    let folder = Folder::new();
    let table = [
        (
            r#"{"id": 2, "vector": [1, 1e39]}"#,
            "line 2, field vector[1]: wanted a number that fits 32 bits, found 1e39",
        ),
        (
            r#"{"id": 2, "vector": [1e400, 1]}"#,
            "line 2: wanted a JSON object, found number out of range at column",
        ),
        (
            r#"{"id": 2, "vector": [NaN, 1]}"#,
            "line 2: wanted a JSON object, found expected value at column 22",
        ),
        (r#"{"id": 2, "vector": [null, 1]}"#, "line 2, field vector[0]: wanted a number, found null"),
        (r#"{"id": 2, "vector": [1, "2"]}"#, "field vector[1]: wanted a number, found the string \"2\""),
        (r#"{"id": 2, "vector": [[1, 2]]}"#, "field vector[0]: wanted a number, found an array of 2"),
        (r#"{"id": 2, "vector": [1, true]}"#, "field vector[1]: wanted a number, found true"),
        (r#"{"id": 2, "vector": [1, {}]}"#, "field vector[1]: wanted a number, found an object"),
        (r#"{"id": 2, "vector": [1, 2, 3]}"#, "line 2: vector has 3 numbers, the rows before have 2"),
        (r#"{"id": 2, "vector": []}"#, "line 2: vector has 0 numbers, the rows before have 2"),
        (r#"{"id": 2, "vector": null}"#, "field vector: wanted an array of numbers, found null"),
        (r#"{"id": 2, "vector": "[1, 2]"}"#, "field vector: wanted an array of numbers, found the string"),
        (
            r#"{"id": 2, "embedding": [1, 2]}"#,
            "field vector: wanted an array of numbers, found no such field",
        ),
        (
            r#"{"vector": [1, 2]}"#,
            "field id: wanted a string or an integer of 0 or more, found no such field",
        ),
        (
            r#"{"id": [2], "vector": [1, 2]}"#,
            "field id: wanted a string or an integer of 0 or more, found an array",
        ),
        ("{\"id\": \"\u{fffd}\", \"vector\": [1", "found EOF while parsing a list"),
        ("", "line 2: wanted a JSON object, found a blank line"),
    ];
    for (line, fragment) in table {
        let bytes = format!("{{\"id\": 1, \"vector\": [1, 2]}}\n{line}\n{{\"id\": 3, \"vector\": [1, 2]}}\n");
        let path = folder.write("a.jsonl", bytes);
        for batch_rows in [1, 3] {
            let found = message(&path, batches_of(batch_rows));
            assert!(found.contains(fragment), "{found}\n  lacks {fragment}");
        }
    }
    let path = folder.write("a.jsonl", b"{\"vector\": [1], \"text\": \"\xff\"}");
    assert!(message(&path, ReadOptions::default()).contains("line 1: wanted a JSON object"));
}

#[test]
fn a_first_row_that_decides_nothing_is_refused() {
    let folder = Folder::new();
    let empty = folder.write("a.jsonl", "{\"vector\": []}\n");
    assert!(
        message(&empty, ReadOptions::default()).ends_with("wanted vectors of 1 to 65535 numbers, found 0")
    );
    let none = folder.write("a.jsonl", "{\"id\": 1, \"vec\": [1]}\n");
    let found = message(&none, ReadOptions::default());
    let wanted = "wanted an array of numbers under one of vector, embedding, emb, values, found none of them";
    assert!(found.ends_with(wanted), "{found}");
    let named = ReadOptions { vector_field: Some("vec".to_owned()), ..ReadOptions::default() };
    assert_eq!(read(&none, named).expect("read").vectors, [[1.0]]);
}

#[test]
fn nothing_comes_after_an_error() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{\"vector\": [1]}\n{\n{\"vector\": [1]}\n");
    let mut reader = open(&path, batches_of(1)).expect("opened");
    assert!(reader.next().is_some_and(|batch| batch.is_ok()));
    assert!(reader.next().is_some_and(|batch| batch.is_err()));
    assert!(reader.next().is_none() && reader.next().is_none());
}

#[test]
fn metadata_beside_a_file_with_fields_of_its_own_is_refused() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{\"vector\": [1]}\n");
    let options = ReadOptions { metadata: Some(path.clone()), ..ReadOptions::default() };
    assert!(message(&path, options).contains("a metadata file goes with a file that is all vectors"));
}

#[test]
fn fields_are_read_without_vectors() {
    let folder = Folder::new();
    let lines = "{\"id\": \"q1\", \"text\": \"a\", \"values\": [1]}\n{\"id\": \"q2\"}\n{\"id\": \"q3\"}\n";
    let path = folder.write("queries.jsonl", lines);
    let batches: Vec<_> = open_fields(&path, batches_of(2))
        .expect("opened")
        .map(|batch| batch.expect("read"))
        .map(|batch| (batch.first_row, batch.rows, batch.ids.expect("ids"), batch.texts, batch.payloads))
        .collect();
    let payload = json!({"values": [1]}).as_object().cloned();
    let first = (
        0,
        2,
        vec![text("q1"), text("q2")],
        Some(vec![Some("a".to_owned()), None]),
        Some(vec![payload, None]),
    );
    assert_eq!(batches, [first, (2, 1, vec![text("q3")], None, None)]);
    assert!(open_fields(&folder.path("nowhere.jsonl"), ReadOptions::default()).is_err());
    let bad = folder.write("bad.jsonl", "{\"id\": \"q1\"}\n{\"id\": {}}\n");
    let mut reader = open_fields(&bad, ReadOptions::default()).expect("opened");
    let error = reader.next().expect("an error").expect_err("a bad id").to_string();
    assert!(error.contains("bad.jsonl: line 2, field id"), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn a_first_row_without_a_text_leaves_the_texts_of_others_what_they_are() {
    let folder = Folder::new();
    let lines = "{\"id\": 1, \"vector\": [1]}\n{\"id\": 2, \"vector\": [2], \"text\": \"b\", \"note\": 7}\n";
    let table = read(&folder.write("a.jsonl", lines), ReadOptions::default()).expect("read");
    assert_eq!(table.texts, [None, Some("b".to_owned())]);
    assert_eq!(table.payloads, [Value::Null, json!({"note": 7})]);
}
