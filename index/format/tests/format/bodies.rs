//! Tables in memory: Arrow streams and Parquet, as other programs write them and as nobody should.

use dehub_format::{
    Column, FormatError, ReadOptions, TableBatch, TableFormat, TableFormat::ArrowStream, open_table,
    write_arrow,
};
use dehub_vector::{PointId, Rows};
use serde_json::{Value, json};

use crate::files::{number, text};

const ROOM: usize = 64 * 1024 * 1024;

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/../../testdata/bodies/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn format_of(name: &str) -> TableFormat {
    if name.ends_with(".parquet") { TableFormat::Parquet } else { ArrowStream }
}

fn read(format: TableFormat, bytes: Vec<u8>, batch_rows: usize) -> Result<Vec<TableBatch>, FormatError> {
    let options = ReadOptions { batch_rows, ..ReadOptions::default() };
    open_table(format, bytes, &options, ROOM)?.collect()
}

fn arrow(columns: Vec<(&str, Column)>) -> Vec<u8> {
    write_arrow(columns, []).expect("columns of one length")
}

#[test]
fn what_pyarrow_writes_is_read_the_same_in_every_form() {
    let vectors = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.25, -0.5, 1.0], [-1.0, 0.125, 2.0f32]];
    let long = "a long name ".repeat(20);
    let payloads = [
        json!({"name": "left", "year": 1999}),
        Value::Null,
        json!({"name": long, "year": 2001}),
        json!({"name": "last", "year": 2002}),
    ];
    let texts = [Some("one"), None, Some("three"), None];
    for name in
        ["points.arrow", "points_zstd.arrow", "points_lz4.arrow", "points.parquet", "points_zstd.parquet"]
    {
        for batch_rows in [1, 2, 3, 100] {
            let batches = read(format_of(name), sample(name), batch_rows)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut row = 0;
            for batch in batches {
                assert_eq!(batch.first_row, row as u64, "{name}");
                assert!(batch.rows > 0 && batch.rows <= batch_rows, "{name}");
                for place in 0..batch.rows {
                    let vectors_found = batch.vectors.as_ref().expect("vectors");
                    assert_eq!(vectors_found.row(place), vectors[row], "{name}");
                    assert_eq!(batch.ids.as_ref().expect("ids")[place], number(row as u64 + 1), "{name}");
                    let payload = batch.payloads.as_ref().and_then(|all| all[place].clone());
                    let payload = payload.map_or(Value::Null, Value::Object);
                    // A struct without a value and an empty object both say nothing.
                    let payload = if payload == json!({}) { Value::Null } else { payload };
                    assert_eq!(payload, payloads[row], "{name}");
                    let text = batch.texts.as_ref().and_then(|all| all[place].as_deref());
                    assert_eq!(text, texts[row], "{name}");
                    row += 1;
                }
            }
            assert_eq!(row, 4, "{name}");
        }
    }
}

#[test]
fn a_table_that_stands_for_more_than_it_may_is_refused_before_it_is_unfolded() {
    for name in ["bomb.arrow", "bomb_text.parquet", "bomb_vector.parquet"] {
        let bytes = sample(name);
        assert!(bytes.len() < 4096);
        let error = read(format_of(name), bytes, 1024).expect_err("a bomb");
        assert!(matches!(error, FormatError::TooLarge { limit: ROOM, .. }), "{name}: {error}");
    }
}

#[test]
fn what_is_written_as_a_stream_is_read_back() {
    let rows = Rows::new(2, vec![1.0, 2.0, 3.0, 4.0]).expect("two rows");
    let bytes = arrow(vec![
        ("id", Column::Ids(vec![number(7), text("seven")])),
        ("vector", Column::Vectors(rows.clone())),
        ("rank", Column::Whole(vec![1, u32::MAX])),
        ("wide", Column::Wide(vec![0, u64::MAX])),
        ("bias", Column::Numbers(vec![Some(0.5), None])),
        ("text", Column::Texts(vec![None, Some("words".to_owned())])),
    ]);
    let batch = read(ArrowStream, bytes, 10).expect("read").remove(0);
    assert_eq!(batch.ids, Some(vec![text("7"), text("seven")]), "numbers among texts are digits");
    assert_eq!(batch.vectors, Some(rows));
    assert_eq!(batch.texts, Some(vec![None, Some("words".to_owned())]));
    let payloads: Vec<Value> = batch.payloads.expect("payloads").into_iter().map(|it| json!(it)).collect();
    assert_eq!(
        payloads,
        [json!({"rank": 1, "wide": 0, "bias": 0.5}), json!({"rank": u32::MAX, "wide": u64::MAX})]
    );
    let ids = vec![number(0), number(u64::MAX)];
    let bytes = arrow(vec![("id", Column::Ids(ids.clone()))]);
    let batch = read(ArrowStream, bytes, 10).expect("read").remove(0);
    assert_eq!((batch.ids, batch.vectors, batch.rows), (Some(ids), None, 2));
    let unequal = vec![("a", Column::Whole(vec![1])), ("b", Column::Whole(vec![1, 2]))];
    assert!(write_arrow(unequal, []).is_err());
}

#[test]
fn a_message_says_which_row_and_which_column() {
    let ids = || ("id", Column::Ids(vec![number(1), number(2)]));
    let cases: [(Vec<(&str, Column)>, &str); 5] = [
        (vec![("id", Column::Whole(vec![1])), ("id", Column::Whole(vec![2]))], "two columns named id"),
        (vec![ids(), ("vector", Column::Whole(vec![1, 2]))], "column vector: wanted a list of float16"),
        (vec![("id", Column::Numbers(vec![Some(1.0)]))], "column id: wanted strings or integers"),
        (
            vec![ids(), ("payload", Column::Texts(vec![Some("{}".into()), Some("[1]".into())]))],
            "the body: row 1, field payload: wanted a JSON object",
        ),
        (vec![ids(), ("x", Column::Numbers(vec![None, Some(f32::NAN)]))], "row 1, field x: wanted a finite"),
    ];
    for (columns, wanted) in cases {
        let error = read(ArrowStream, arrow(columns), 10).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(error.starts_with("the body: "), "{error}");
    }
}

#[test]
fn no_bytes_make_a_reader_panic_or_run_on() {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let whole: Vec<PointId> = (0..4).map(number).collect();
    let ours = arrow(vec![("id", Column::Ids(whole)), ("rank", Column::Whole(vec![1, 2, 3, 4]))]);
    let mut bodies: Vec<(TableFormat, Vec<u8>)> = vec![(ArrowStream, ours)];
    for name in
        ["points.arrow", "points_zstd.arrow", "points_lz4.arrow", "points.parquet", "points_zstd.parquet"]
    {
        bodies.push((format_of(name), sample(name)));
    }
    let (mut refused, mut tried) = (0, 0);
    std::panic::set_hook(Box::new(|_| {}));
    for (format, bytes) in bodies {
        for cut in (0..bytes.len()).step_by(7) {
            let outcome = read(format, bytes[..cut].to_vec(), 3);
            assert!(outcome.is_err() || format == ArrowStream, "a Parquet file ends with its footer");
        }
        for _ in 0..400 {
            let mut bytes = bytes.clone();
            for _ in 0..=next() % 4 {
                let place = next() as usize % bytes.len();
                bytes[place] = match next() % 4 {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[place] ^ (1 << (next() % 8)),
                    _ => next() as u8,
                };
            }
            tried += 1;
            refused += usize::from(read(format, bytes, 3).is_err());
        }
    }
    assert!(refused > tried / 10, "{refused} of {tried}");
}
