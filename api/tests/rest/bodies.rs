//! Lists of rows in every form: the same is stored and answered, or refused at its place.

use std::io::{Read, Write};
use std::num::NonZeroU32;

use dehub_api::{RateLimit, ServerConfig};
use dehub_format::{Column, ReadOptions, TableBatch, TableFormat, open_table, write_arrow};
use dehub_vector::{PointId, Rows};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Served, config, numbers};
use crate::raw::{self, Answer};

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const ARROW: &str = "application/vnd.apache.arrow.stream";
const PARQUET: &str = "application/vnd.apache.parquet";

const POINTS: &str = "/collections/c/points";

fn served() -> (tempfile::TempDir, Served) {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 3, "distance": "Euclid"}}));
    (folder, served)
}

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/../testdata/bodies/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn packed(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).expect("written");
            encoder.finish().expect("ended")
        }
        "zstd" => zstd::encode_all(body, 3).expect("packed"),
        _ => body.to_vec(),
    }
}

fn send(served: &Served, method: &str, path: &str, media: &str, body: &[u8]) -> Answer {
    raw::exchange(served.address, method, path, &[("content-type", media)], body)
}

#[track_caller]
fn done(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()["result"].clone()
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, pointer: Option<&str>, fragment: &str) {
    let body = answer.json();
    assert_eq!((answer.status, body["code"].as_str()), (status, Some(code)), "{body}");
    assert_eq!(body["errors"][0]["pointer"].as_str(), pointer, "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains(fragment)), "{body}");
}

fn count(served: &Served) -> u64 {
    served.did("POST", "/collections/c/points/count", &json!({}))["count"].as_u64().expect("a count")
}

/// Points as lines of JSON.
fn lines(points: &[Value]) -> Vec<u8> {
    points.iter().flat_map(|point| format!("{point}\n").into_bytes()).collect()
}

fn arrow(columns: Vec<(&str, Column)>) -> Vec<u8> {
    write_arrow(columns, []).expect("columns of one length")
}

fn vectors(rows: &[[f32; 3]]) -> Column {
    Column::Vectors(Rows::new(3, rows.concat()).expect("rows of three"))
}

fn ids(ids: &[u64]) -> Column {
    Column::Ids(ids.iter().map(|&id| PointId::Number(id)).collect())
}

fn unpacked(body: &[u8]) -> Vec<TableBatch> {
    let table = open_table(TableFormat::ArrowStream, body.to_vec(), &ReadOptions::default(), usize::MAX);
    table.expect("a stream").collect::<Result<_, _>>().expect("rows")
}

#[test]
fn points_are_the_same_in_whatever_form_they_come() {
    let long = "a long name ".repeat(20);
    let points = [
        json!({"id": 1, "vector": [1, 0, 0], "text": "one", "payload": {"name": "left", "year": 1999}}),
        json!({"id": 2, "vector": [0, 1, 0.5], "payload": {}}),
        json!({"id": 3, "vector": [0.25, -0.5, 1], "text": "three", "payload": {"name": long, "year": 2001}}),
        json!({"id": 4, "vector": [-1, 0.125, 2], "payload": {"name": "last", "year": 2002}}),
    ];
    let bodies = [
        (JSON, json!({"points": points}).to_string().into_bytes()),
        (LINES, lines(&points)),
        ("application/jsonl; charset=utf-8", lines(&points).trim_ascii_end().to_vec()),
        (ARROW, sample("points.arrow")),
        (ARROW, sample("points_zstd.arrow")),
        (ARROW, sample("points_lz4.arrow")),
        (PARQUET, sample("points.parquet")),
        (PARQUET, sample("points_zstd.parquet")),
    ];
    let mut wanted = None;
    for (media, body) in &bodies {
        for coding in ["identity", "gzip", "zstd"] {
            let (_folder, served) = served();
            let headers = [("content-type", *media), ("content-encoding", coding)];
            let answer = raw::exchange(served.address, "PUT", POINTS, &headers, &packed(coding, body));
            let receipt = json!({"operation_id": 1, "status": "completed", "added": 4, "replaced": 0});
            assert_eq!(done(&answer), receipt, "{media} {coding}");
            let mut found = served.did(
                "POST",
                POINTS,
                &json!({"ids": [1, 2, 3, 4], "with_payload": true, "with_vector": true}),
            );
            for point in found.as_array_mut().expect("points") {
                // No payload and an empty one say the same.
                if point["payload"] == json!({}) {
                    point["payload"] = Value::Null;
                }
            }
            let wanted = wanted.get_or_insert_with(|| found.clone());
            assert_eq!(found, *wanted, "{media} {coding}");
        }
    }
}

fn many(range: std::ops::Range<u64>) -> Vec<Value> {
    let all = numbers(range.start, 3 * (range.end - range.start) as usize);
    range.zip(all.chunks(3)).map(|(id, vector)| json!({"id": id, "vector": vector})).collect()
}

#[test]
fn a_long_body_of_lines_is_stored_batch_by_batch_and_says_where_it_ends() {
    let (_folder, served) = served();
    let mut points = many(0..20_000);
    let answer = send(&served, "PUT", POINTS, LINES, &lines(&points));
    assert_eq!(done(&answer)["added"], 20_000);
    assert_eq!(count(&served), 20_000);

    for point in &mut points {
        point["id"] = json!(point["id"].as_u64().expect("a number") + 100_000);
    }
    points[17_999]["vector"][1] = Value::Null;
    let answer = send(&served, "PUT", POINTS, LINES, &lines(&points));
    refused(&answer, 422, "wrong_type", Some("/rows/17999/vector/1"), "line 18000: `/rows/17999/vector/1`");
    assert_eq!(answer.json()["stored"], 16_384);
    assert_eq!(answer.json()["errors"][0]["line"], 18_000);
    assert_eq!(count(&served), 20_000 + 16_384);

    // What only the engine sees is found at its place too, with blank lines counted.
    points[17_999]["vector"] = json!([1, 2]);
    let mut body = lines(&points[..16_384]);
    body.extend(b"\n\n");
    body.extend(lines(&points[16_384..]));
    let answer = send(&served, "PUT", POINTS, LINES, &body);
    refused(&answer, 422, "dimension_mismatch", Some("/rows/18001/vector"), "line 18002: of the rows from");
    assert_eq!(answer.json()["stored"], 16_384);
}

#[test]
fn a_body_of_up_to_a_batch_is_stored_whole_or_not_at_all() {
    let (_folder, served) = served();
    let good = lines(&many(0..5_000));
    let with = |line: &str| [&good[..], line.as_bytes(), b"\n"].concat();
    let cases = [
        ("{\"id\": 9999, \"vector\": [1, null, 3]}", 422, "wrong_type", "/rows/5000/vector/1", "null"),
        ("{\"id\": 9999, \"vector\": [1, 2]}", 422, "dimension_mismatch", "/rows/5000/vector", "2"),
        ("{\"id\": 9999, \"vector\": [1, 1e39, 2]}", 422, "not_finite", "/rows/5000/vector/1", "1e"),
        ("{\"id\": -1, \"vector\": [1, 2, 3]}", 422, "invalid_id", "/rows/5000/id", "-1"),
        ("{\"id\": 7, \"vector\": [1, 2, 3]}", 422, "duplicate_id", "/rows/5000/id", "7"),
        ("{\"vector\": [1, 2, 3]}", 422, "missing_field", "/rows/5000", "`id`"),
        ("{\"id\": 1, \"vector\": [1, 2, 3], \"x\": 1}", 422, "unknown_field", "/rows/5000/x", "no field"),
        ("{\"id\": 1, \"id\": 2}", 422, "duplicate_field", "/rows/5000", "twice at column 18"),
        ("{\"id\": 9999, \"vector\": [1, 2", 400, "bad_json", "/rows/5000", "column"),
        ("[1, 2]", 422, "wrong_type", "/rows/5000", "wanted an object"),
        ("\u{0}", 400, "bad_json", "/rows/5000", "not JSON"),
    ];
    for (line, status, code, pointer, fragment) in cases {
        let answer = send(&served, "PUT", POINTS, LINES, &with(line));
        refused(&answer, status, code, Some(pointer), fragment);
        assert_eq!(answer.json()["errors"][0]["line"], 5001, "{line}");
        assert_eq!(answer.json().get("stored"), None, "{line}");
        assert_eq!(count(&served), 0, "{line}");
    }
    let deep = format!("{{\"id\": 1, \"vector\": {}", "[".repeat(200));
    refused(&send(&served, "PUT", POINTS, LINES, &with(&deep)), 400, "too_deep", Some("/rows/5000"), "127");
    for blank in [&b""[..], b"\n \n"] {
        refused(&send(&served, "PUT", POINTS, LINES, blank), 422, "empty_batch", Some(""), "no rows");
    }
    assert_eq!(count(&served), 0);
}

#[test]
fn a_table_has_a_column_for_each_named_vector() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let own = json!({"size": 3, "distance": "Dot"});
    let config = json!({"a": own, "b": own});
    served.did("PUT", "/collections/c", &json!({ "vectors": config }));
    let rows = [[0.1, -0.2, 1e18], [1e-40, 5.0, 6.0]];
    let none = || Column::Texts(vec![None, None]);
    let titles = || Column::Texts(vec![Some("one".into()), None]);
    let body = arrow(vec![
        ("id", ids(&[1, 2])),
        ("vector.a", vectors(&rows)),
        ("vector.b", none()),
        ("title", titles()),
    ]);
    let written = done(&send(&served, "PUT", POINTS, ARROW, &body));
    assert_eq!(written["added"], 2);
    let found = served.did("POST", POINTS, &json!({"ids": [1, 2], "with_vector": true}));
    for (point, row) in found.as_array().expect("points").iter().zip(rows) {
        let stored: Vec<f64> =
            point["vector"]["a"].as_array().expect("numbers").iter().flat_map(Value::as_f64).collect();
        assert_eq!(stored.iter().map(|&x| x as f32).collect::<Vec<_>>(), row, "to the last bit");
        assert_eq!(point["vector"].as_object().map(serde_json::Map::len), Some(1), "null is no vector");
    }
    assert_eq!((&found[0]["payload"], &found[1]["payload"]), (&json!({"title": "one"}), &json!({})));
    let bare = arrow(vec![("id", ids(&[3])), ("n", Column::Whole(vec![7]))]);
    assert_eq!(done(&send(&served, "PUT", POINTS, ARROW, &bare))["added"], 1);
    assert_eq!(served.get("/collections/c/points/3")["vector"], json!({}));
    let two = || Column::Vectors(Rows::new(2, vec![1.0; 4]).expect("two rows"));
    for (column, code, pointer, fragment) in [
        (("vector.a", two()), "dimension_mismatch", "/rows/0/vector/a", "3"),
        (("vector.x", two()), "unknown_vector", "/rows/0/vector/x", "a, b"),
        (("vector.", two()), "invalid_name", "/rows/0/vector/", ""),
        (("vector.a", titles()), "wrong_type", "/rows/0/vector/a", "one"),
        (("vector", two()), "unknown_vector", "/rows/0/vector", "without a name"),
    ] {
        let body = arrow(vec![("id", ids(&[8, 9])), column]);
        refused(&send(&served, "PUT", POINTS, ARROW, &body), 422, code, Some(pointer), fragment);
    }
    assert_eq!(count(&served), 3);

    let config = json!({"image": {"size": 2, "distance": "Dot"}, "text": {"size": 3, "distance": "Dot"}});
    for (name, media) in [("named.arrow", ARROW), ("named.parquet", PARQUET)] {
        served.delete("/collections/c");
        served.did("PUT", "/collections/c", &json!({ "vectors": config }));
        assert_eq!(done(&send(&served, "PUT", POINTS, media, &sample(name)))["added"], 3);
        let found = served.did("POST", POINTS, &json!({"ids": [1, 2, 3], "with_vector": true}));
        let wanted = json!([
            {"id": 1, "payload": {"year": 1999}, "vector": {"image": [3.0, 4.0], "text": [0.25, -0.5, 1.0]}},
            {"id": 2, "payload": {}, "vector": {"text": [-1.0, 0.125, 2.0]}},
            {"id": 3, "payload": {"year": 2001}, "vector": {}},
        ]);
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn wrong_tables_are_refused_at_their_place() {
    let (_folder, served) = served();
    let good = || vectors(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let two = || ids(&[1, 2]);
    let named = || Column::Vectors(Rows::new(2, vec![0.0; 4]).expect("two rows"));
    let cases: Vec<(Vec<u8>, u16, &str, &str, &str)> = vec![
        (
            arrow(vec![("id", two()), ("vector", vectors(&[[1.0, 2.0, 3.0], [4.0, f32::NAN, 6.0]]))]),
            422,
            "not_finite",
            "/rows/1/vector/1",
            "NaN",
        ),
        (arrow(vec![("id", two()), ("vector", named())]), 422, "dimension_mismatch", "/rows/0/vector", "3"),
        (arrow(vec![("id", ids(&[1, 1])), ("vector", good())]), 422, "duplicate_id", "/rows/1/id", "1"),
        (arrow(vec![("vector", good())]), 422, "missing_field", "/columns", "`id`"),
        (arrow(vec![("id", two())]), 422, "missing_field", "/columns", "`vector`"),
        (
            arrow(vec![("id", two()), ("vector", good()), ("vector.title", named())]),
            422,
            "unknown_vector",
            "/rows/0/vector/title",
            "title",
        ),
        (
            arrow(vec![("id", Column::Texts(vec![Some("a".into()), None])), ("vector", good())]),
            422,
            "invalid_id",
            "/rows/1/id",
            "null",
        ),
        (
            arrow(vec![("id", two()), ("vector", Column::Whole(vec![1, 2]))]),
            422,
            "wrong_type",
            "/columns/vector",
            "a list of float16",
        ),
        (arrow(vec![("id", ids(&[])), ("vector", vectors(&[]))]), 422, "empty_batch", "", "no rows"),
        (Vec::new(), 400, "bad_table", "", "empty"),
        (b"not a stream at all".to_vec(), 400, "bad_table", "", "an Arrow stream"),
        (sample("points.parquet"), 400, "bad_table", "", "an Arrow stream"),
    ];
    for (body, status, code, pointer, fragment) in cases {
        refused(&send(&served, "PUT", POINTS, ARROW, &body), status, code, Some(pointer), fragment);
        assert_eq!(count(&served), 0, "{pointer}");
    }
    // The second of two record batches is wrong, and both are one commit.
    let mut stream = sample("points.arrow");
    let last = 2.0f32.to_le_bytes();
    let place = 4 * stream.chunks(4).rposition(|bytes| bytes == last).expect("the last number");
    stream[place..place + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    refused(
        &send(&served, "PUT", POINTS, ARROW, &stream),
        422,
        "not_finite",
        Some("/rows/3/vector/2"),
        "NaN",
    );
    assert_eq!(count(&served), 0);
    let stream = sample("points.arrow");
    for cut in [10, stream.len() / 2, stream.len() - 20] {
        refused(&send(&served, "PUT", POINTS, ARROW, &stream[..cut]), 400, "bad_table", Some(""), "cut off");
    }
    refused(&send(&served, "PUT", POINTS, PARQUET, &stream), 400, "bad_table", Some(""), "a Parquet file");
    assert_eq!(count(&served), 0);
}

#[test]
fn entries_of_a_bank_are_the_same_in_whatever_form_they_come() {
    let rows = [[1.0, 0.0, 0.5], [0.0, 1.0, 0.25], [0.5, 0.5, 1.0f32]];
    let entries: Vec<Value> = rows
        .iter()
        .zip([1.0, 2.0, 0.5])
        .enumerate()
        .map(|(id, (vector, weight))| json!({"id": id, "vector": vector, "weight": weight}))
        .collect();
    let whole = json!({"kind": "query", "vectors": rows, "ids": [0, 1, 2], "weights": [1.0, 2.0, 0.5]});
    let weights = Column::Numbers(vec![None, Some(2.0), Some(0.5)]);
    let table = arrow(vec![("id", ids(&[0, 1, 2])), ("vector", vectors(&rows)), ("weight", weights)]);
    let (_folder, served) = served();
    served.did("PUT", POINTS, &json!({"points": [{"id": 1, "vector": [1, 2, 3]}]}));
    let bank = "/collections/c/banks/";
    done(&send(&served, "PUT", &format!("{bank}json"), JSON, whole.to_string().as_bytes()));
    done(&send(&served, "PUT", &format!("{bank}lines?kind=query"), LINES, &lines(&entries)));
    done(&send(&served, "PUT", &format!("{bank}arrow?kind=query&defer=true"), ARROW, &table));
    let wanted = served.get(&format!("{bank}json"));
    assert_eq!(wanted["weight"], 3.5);
    for name in ["lines", "arrow"] {
        let found = served.get(&format!("{bank}{name}"));
        assert_eq!((&found["hash"], &found["weight"]), (&wanted["hash"], &wanted["weight"]), "{name}");
    }
    let no_kind = send(&served, "PUT", &format!("{bank}x"), LINES, &lines(&entries));
    refused(&no_kind, 422, "invalid_value", None, "`kind` is missing");
    let heavy = b"{\"vector\": [1, 2, 3], \"weight\": -1}";
    let answer = send(&served, "PUT", &format!("{bank}x?kind=query"), LINES, heavy);
    refused(&answer, 422, "invalid_weight", Some("/rows/0/weight"), "-1");
    let extra = arrow(vec![("vector", vectors(&rows[..1])), ("year", Column::Whole(vec![1]))]);
    let answer = send(&served, "PUT", &format!("{bank}x?kind=query"), ARROW, &extra);
    refused(&answer, 422, "unknown_field", Some("/rows/0/year"), "no column");
    assert_eq!(served.get("/collections/c/banks")["banks"].as_array().map(Vec::len), Some(3));
    let deleted = send(&served, "POST", &format!("{bank}lines/delete"), LINES, b"0\n2\n");
    assert_eq!(done(&deleted)["deleted"], 2);
    let deleted =
        send(&served, "POST", &format!("{bank}arrow/delete"), ARROW, &arrow(vec![("id", ids(&[1]))]));
    assert_eq!(done(&deleted)["deleted"], 1);
}

#[test]
fn ids_to_be_deleted_come_in_lines_and_tables() {
    let (_folder, served) = served();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&many(0..10))));
    let path = "/collections/c/points/delete";
    assert_eq!(done(&send(&served, "POST", path, LINES, b"1\n2\n\"2\"\n"))["deleted"], 2);
    assert_eq!(done(&send(&served, "POST", path, ARROW, &arrow(vec![("id", ids(&[3, 4]))])))["deleted"], 2);
    assert_eq!(count(&served), 6);
    refused(&send(&served, "POST", path, LINES, b"5\n6.5\n"), 422, "invalid_id", Some("/rows/1"), "6.5");
    let wide = arrow(vec![("id", ids(&[5])), ("vector", vectors(&[[1.0, 2.0, 3.0]]))]);
    refused(&send(&served, "POST", path, ARROW, &wide), 422, "unknown_field", Some("/columns/vector"), "id");
    assert_eq!(count(&served), 6);
}

#[test]
fn queries_and_their_answers_are_the_same_in_every_form() {
    let (_folder, served) = served();
    let points: Vec<_> = many(0..50)
        .into_iter()
        .map(|mut point| {
            point["payload"] = json!({"own": point["id"]});
            point
        })
        .collect();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&points)));
    let path = "/collections/c/points/query/batch";
    let asked: Vec<[f32; 3]> =
        numbers(99, 9).chunks(3).map(|it| [it[0], it[1], it[2]].map(|x| x as f32)).collect();
    let searches: Vec<Value> =
        asked.iter().map(|vector| json!({"query": vector, "limit": 4, "with_payload": true})).collect();
    let settings = "?settings=%7B%22limit%22:4,%22with_payload%22:true%7D";
    let labels = Column::Ids(["a", "b", "c"].map(|label| PointId::text(label).expect("an id")).to_vec());
    let table = arrow(vec![("query_id", labels), ("vector", vectors(&asked))]);
    let whole = json!({"searches": searches}).to_string().into_bytes();
    let wanted = done(&send(&served, "POST", path, JSON, &whole));
    assert_eq!(done(&send(&served, "POST", path, LINES, &lines(&searches))), wanted);
    let mut labelled = done(&send(&served, "POST", &format!("{path}{settings}"), ARROW, &table));
    for (answer, label) in labelled.as_array_mut().expect("answers").iter_mut().zip(["a", "b", "c"]) {
        let found = answer.as_object_mut().expect("an answer").shift_remove("query_id");
        assert_eq!(found, Some(json!(label)));
    }
    assert_eq!(labelled, wanted);

    let accept = ("accept", ARROW);
    for (media, body, query) in [(JSON, &whole, ""), (ARROW, &table, settings)] {
        let headers = [("content-type", media), accept];
        let answer = raw::exchange(served.address, "POST", &format!("{path}{query}"), &headers, body);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(ARROW)));
        let rows = unpacked(&answer.body).remove(0);
        let hits = wanted.as_array().expect("answers").iter().enumerate().flat_map(|(query, answer)| {
            let hits = answer["points"].as_array().expect("hits");
            hits.iter().enumerate().map(move |(rank, hit)| (query, rank + 1, hit.clone()))
        });
        let others = rows.payloads.expect("other columns");
        assert_eq!(rows.rows, 12);
        for ((place, id), (query, rank, hit)) in rows.ids.expect("ids").iter().enumerate().zip(hits) {
            let row = others[place].as_ref().expect("a row");
            assert_eq!(json!([id, row["query"], row["rank"]]), json!([hit["id"], query, rank]));
            // The payload is a column of JSON: its fields are those of the row.
            assert_eq!(row["own"], hit["payload"]["own"]);
            for score in ["score", "raw_score", "bias"] {
                let (found, wanted) = (row[score].as_f64(), hit[score].as_f64());
                assert_eq!(found.map(|it| it as f32), wanted.map(|it| it as f32), "{score}");
            }
            if media == ARROW {
                assert_eq!(row["query_id"], json!(["a", "b", "c"][query]));
            }
        }
    }

    let by_id = arrow(vec![("id", ids(&[7, 8]))]);
    let found = done(&send(&served, "POST", path, ARROW, &by_id));
    let wanted = json!({"searches": [{"query": 7}, {"query": 8}]}).to_string().into_bytes();
    assert_eq!(found, done(&send(&served, "POST", path, JSON, &wanted)));
    let one = json!({"query": asked[0], "limit": 4}).to_string();
    let headers = [("content-type", JSON), accept];
    let answer =
        raw::exchange(served.address, "POST", "/collections/c/points/query", &headers, one.as_bytes());
    assert_eq!(unpacked(&answer.body)[0].rows, 4);
}

#[test]
fn what_the_queries_of_a_table_have_in_common_is_whatever_a_query_may_have() {
    let (_folder, served) = served();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&many(0..30))));
    let bank = arrow(vec![("vector", vectors(&[[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]]))]);
    done(&send(&served, "PUT", "/collections/c/banks/b?kind=query", ARROW, &bank));
    served.did("PUT", "/collections/c/corrections/k", &json!({"method": "IS(beta=5)", "query_bank": "b"}));
    served.did("PUT", "/collections/c/priors/p", &json!({"ids": [1, 2], "values": [1.5, -2.5]}));
    let path = "/collections/c/points/query/batch";
    let asked = [[0.1, 0.2, 0.3], [0.9, 0.1, 0.4]];
    for common in [
        json!({"hubness": {"correction": "k", "explain": true}}),
        json!({"hubness": {"correction": "none"}, "limit": 3}),
        json!({"priors": {"p": 0.5}, "filter": {"must_not": [{"has_id": [4, 5]}]}}),
        json!({"score_threshold": 0.8, "params": {"exact": true}, "offset": 1}),
    ] {
        let searches = asked.map(|vector| {
            let mut search = common.clone();
            search["query"] = json!(vector);
            search
        });
        let encoded: String = common.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        let table = arrow(vec![("vector", vectors(&asked))]);
        let found = done(&send(&served, "POST", &format!("{path}?settings={encoded}"), ARROW, &table));
        assert_eq!(found, served.did("POST", path, &json!({"searches": searches})), "{common}");
    }
}

#[test]
fn an_answer_as_a_table_refuses_what_it_has_no_place_for() {
    let (_folder, served) = served();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&many(0..5))));
    let headers = [("content-type", JSON), ("accept", ARROW)];
    for (field, value) in [("/with_vector", json!(true)), ("/hubness/explain", json!({"explain": true}))] {
        let name = field[1..].split('/').next().expect("a name");
        let search = json!({"query": [1, 2, 3], name: value});
        let one = search.to_string();
        let path = "/collections/c/points/query";
        let answer = raw::exchange(served.address, "POST", path, &headers, one.as_bytes());
        refused(&answer, 422, "not_supported", Some(field), "application/json");
        let all = json!({"searches": [{"query": [1, 2, 3]}, search]}).to_string();
        let answer =
            raw::exchange(served.address, "POST", &format!("{path}/batch"), &headers, all.as_bytes());
        refused(&answer, 422, "not_supported", Some(&format!("/searches/1{field}")), "application/json");
    }
}

#[test]
fn wrong_queries_in_lines_and_tables_are_told_where() {
    let (_folder, served) = served();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&many(0..5))));
    let path = "/collections/c/points/query/batch";
    let table = || arrow(vec![("vector", vectors(&[[1.0, 2.0, 3.0], [0.0, f32::INFINITY, 0.0]]))]);
    type Case<'a> = (&'a str, &'a str, Vec<u8>, u16, &'a str, Option<&'a str>, &'a str);
    let cases: Vec<Case<'_>> = vec![
        (
            "",
            LINES,
            b"{\"query\": [1,2,3]}\n{\"query\": [1,2]}".to_vec(),
            422,
            "dimension_mismatch",
            Some("/rows/1/query"),
            "line 2",
        ),
        (
            "",
            LINES,
            b"{\"query\": [1,2,3], \"limt\": 3}".to_vec(),
            422,
            "unknown_field",
            Some("/rows/0/limt"),
            "line 1",
        ),
        ("", LINES, b"\n".to_vec(), 422, "empty_batch", Some(""), "no queries"),
        ("?settings={}", LINES, b"{\"query\": [1,2,3]}".to_vec(), 422, "unknown_parameter", None, "tables"),
        ("", ARROW, table(), 422, "not_finite", Some("/rows/1/vector/1"), "inf"),
        ("?settings=[", ARROW, table(), 400, "bad_json", Some(""), "EOF"),
        ("?settings=%5B%5D", ARROW, table(), 422, "invalid_value", None, "a JSON object"),
        ("?settings=%7B%22query%22:1%7D", ARROW, table(), 422, "invalid_value", None, "other than"),
        ("?settings=%7B%22limt%22:1%7D", ARROW, table(), 422, "unknown_field", Some("/limt"), "no field"),
        ("", ARROW, arrow(vec![("id", ids(&[77]))]), 404, "unknown_point", Some("/rows/0/id"), "77"),
        ("", ARROW, arrow(vec![("query_id", ids(&[77]))]), 422, "missing_field", Some("/columns"), "neither"),
        (
            "",
            ARROW,
            arrow(vec![("id", ids(&[1])), ("vector", vectors(&[[1.0, 2.0, 3.0]]))]),
            422,
            "missing_field",
            Some("/columns"),
            "one of them",
        ),
    ];
    for (query, media, body, status, code, pointer, fragment) in cases {
        let answer = send(&served, "POST", &format!("{path}{query}"), media, &body);
        refused(&answer, status, code, pointer, fragment);
    }
    let headers = [("content-type", JSON), ("accept", "text/html")];
    let body = br#"{"query": [1, 2, 3]}"#;
    let answer = raw::exchange(served.address, "POST", "/collections/c/points/query", &headers, body);
    refused(&answer, 406, "not_acceptable", None, "it can be application/json, application/vnd.apache.arrow");
}

#[test]
fn large_answers_are_packed_for_those_who_take_that() {
    let (_folder, served) = served();
    done(&send(&served, "PUT", POINTS, LINES, &lines(&many(0..500))));
    let ask = |limit: usize, accepted: &str| {
        let headers = [("content-type", JSON), ("accept-encoding", accepted)];
        let body = json!({"query": [1, 2, 3], "limit": limit}).to_string();
        raw::exchange(served.address, "POST", "/collections/c/points/query", &headers, body.as_bytes())
    };
    let plain = ask(400, "identity");
    assert_eq!(plain.header("content-encoding"), None);
    let gzip = ask(400, "gzip, br");
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    assert!(gzip.header("vary").is_some_and(|vary| vary.contains("accept-encoding")));
    assert!(gzip.body.len() * 2 < plain.body.len());
    let mut text = String::new();
    GzDecoder::new(&gzip.body[..]).read_to_string(&mut text).expect("packed text");
    let unpacked: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(unpacked["result"], plain.json()["result"]);
    assert_eq!(ask(10, "gzip").header("content-encoding"), None, "a small answer stays as it is");
    for path in ["/openapi.json", "/docs/swagger-ui-bundle.js", "/metrics"] {
        let get =
            |accepted| raw::exchange(served.address, "GET", path, &[("accept-encoding", accepted)], b"");
        let (plain, gzip) = (get("identity"), get("gzip"));
        assert_eq!(
            (plain.header("content-encoding"), gzip.header("content-encoding")),
            (None, Some("gzip")),
            "{path}"
        );
        let mut unpacked = Vec::new();
        GzDecoder::new(&gzip.body[..]).read_to_end(&mut unpacked).expect("packed");
        assert!(path == "/metrics" || unpacked == plain.body, "{path}");
    }
    let refusal = ask(0, "gzip");
    assert_eq!((refusal.status, refusal.header("content-encoding")), (422, None));
}

#[test]
fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let folder = tempdir().expect("a folder");
    let number = |number| NonZeroU32::new(number).expect("above 0");
    let rate = RateLimit { per_second: number(1), burst: number(20) };
    let served = Served::start_with(folder.path(), &ServerConfig { rate: Some(rate), ..config() });
    let ask = || served.send("GET", "/collections", None, None);
    let refused =
        (0..200).map(|_| ask()).find(|reply| reply.status != 200).expect("200 requests are too many");
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("rate_limited")));
    assert!(refused.body["errors"][0]["wanted"].as_str().is_some_and(|wanted| wanted.contains("20 at once")));
    let wait: u64 = refused.retry_after.expect("when to come back").parse().expect("seconds");
    assert!((1..=2).contains(&wait));
    for _ in 0..30 {
        assert_eq!(served.send("GET", "/healthz", None, None).status, 200, "health is free");
    }
    std::thread::sleep(std::time::Duration::from_secs(wait + 1));
    assert_eq!(ask().status, 200);
}

#[test]
fn a_byte_order_mark_is_named() {
    let (_folder, served) = served();
    for (media, pointer) in [(JSON, ""), (LINES, "/rows/0")] {
        let body = [b"\xef\xbb\xbf", &br#"{"id": 1, "vector": [1, 2, 3]}"#[..]].concat();
        let answer = send(&served, "PUT", POINTS, media, &body);
        refused(&answer, 400, "bad_json", Some(pointer), "byte order mark");
    }
}

#[test]
fn a_column_that_is_left_out_is_not_read() {
    let (_folder, served) = served();
    let table = || {
        let notes = Column::Texts(vec![Some("a".to_owned()), None]);
        let years = Column::Whole(vec![1999, 2000]);
        let rows = vectors(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
        arrow(vec![("id", ids(&[1, 2])), ("vector", rows), ("note", notes), ("a b", years)])
    };
    for (parameter, payload) in [
        ("", json!({"note": "a", "a b": 1999})),
        ("?leave_out=note", json!({"a b": 1999})),
        ("?leave_out=note,a%20b", json!({})),
    ] {
        done(&send(&served, "PUT", &format!("{POINTS}{parameter}"), ARROW, &table()));
        let found = served.did("POST", POINTS, &json!({"ids": [1], "with_payload": true}));
        assert_eq!(
            found[0]["payload"].as_object().cloned().unwrap_or_default(),
            *payload.as_object().expect("fields"),
            "{parameter}"
        );
    }
    let answer = send(&served, "PUT", &format!("{POINTS}?leave_out=none"), ARROW, &table());
    refused(&answer, 422, "missing_field", Some("/columns"), "wanted a column none");
    let line = br#"{"id": 3, "vector": [1, 0, 0]}"#;
    for (media, path) in [(LINES, POINTS), (LINES, "/collections/c/points/query/batch")] {
        let method = if path == POINTS { "PUT" } else { "POST" };
        let answer = send(&served, method, &format!("{path}?leave_out=note"), media, line);
        refused(&answer, 422, "unknown_parameter", None, "leave_out");
    }
}
