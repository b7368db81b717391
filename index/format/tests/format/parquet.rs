//! Parquet files: types of columns, nulls, row groups.

use std::sync::Arc;

use crate::files::{Folder, batches_of, message, number, read, text};
use crate::made::{parquet, parquet_in_groups};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeListArray, Float16Array,
    Float32Array, Float64Array, Int8Array, Int64Array, LargeListArray, LargeStringArray, ListArray,
    NullArray, StringArray, StringViewArray, StructArray, TimestampSecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields};
use dehub_format::{ReadOptions, open};
use half::f16;
use serde_json::json;

const ROWS: [[f32; 2]; 5] = [[1.0, 2.0], [-3.5, 4.0], [5.0, 0.0], [7.0, 8.0], [9.0, 100.0]];

fn some<T: Copy>(rows: &[[T; 2]]) -> impl Iterator<Item = Option<Vec<Option<T>>>> {
    rows.iter().map(|row| Some(row.iter().copied().map(Some).collect()))
}

fn list(rows: &[[f32; 2]]) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(some(rows)))
}

fn ids() -> ArrayRef {
    Arc::new(Int64Array::from(vec![10, 11, 12, 13, 14]))
}

#[test]
fn every_type_of_list_and_number_gives_the_same_rows() {
    let folder = Folder::new();
    let halves = ROWS.map(|row| row.map(f16::from_f32));
    let doubles = ROWS.map(|row| row.map(f64::from));
    let fixed = |array| Arc::new(array) as ArrayRef;
    let columns: [(ArrayRef, Option<usize>); 7] = [
        (list(&ROWS), None),
        (Arc::new(ListArray::from_iter_primitive::<Float16Type, _, _>(some(&halves))), None),
        (Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(some(&doubles))), None),
        (Arc::new(LargeListArray::from_iter_primitive::<Float32Type, _, _>(some(&ROWS))), None),
        (fixed(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(some(&ROWS), 2)), Some(2)),
        (fixed(FixedSizeListArray::from_iter_primitive::<Float16Type, _, _>(some(&halves), 2)), Some(2)),
        (fixed(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(some(&doubles), 2)), Some(2)),
    ];
    for (column, dim) in columns {
        let data_type = column.data_type().clone();
        for name in ["vector", "embedding", "emb", "values"] {
            let path = folder.write("a.parquet", parquet(vec![("id", ids()), (name, column.clone())]));
            let mut reader = open(&path, ReadOptions::default()).expect("opened");
            assert_eq!((reader.dim(), reader.rows_total()), (dim, Some(5)), "{data_type}");
            assert!(reader.next().is_some() && reader.dim() == Some(2));
            for batch_rows in [0, 1, 2, 3, 100] {
                let table = read(&path, batches_of(batch_rows)).expect("read");
                assert_eq!(table.vectors, ROWS, "{data_type}");
                assert_eq!(table.ids, (10..15).map(number).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn every_codec_that_is_built_in_is_read() {
    let folder = Folder::new();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ];
    for codec in codecs {
        let properties = WriterProperties::builder().set_compression(codec).build();
        let path = folder.write("a.pq", parquet_in_groups(vec![("vector", list(&ROWS))], properties));
        assert_eq!(read(&path, ReadOptions::default()).expect("read").vectors, ROWS);
    }
}

#[test]
fn a_range_of_rows_crosses_row_groups() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", parquet(vec![("id", ids()), ("vector", list(&ROWS))]));
    for range in [0..5, 1..4, 3..3, 4..50, 5..6, 70..80] {
        for batch_rows in [1, 2, 10] {
            let options = ReadOptions { rows: Some(range.clone()), ..batches_of(batch_rows) };
            let wanted: Vec<_> = (range.start..range.end.min(5)).map(|row| number(row + 10)).collect();
            let reader = open(&path, options.clone()).expect("opened");
            assert_eq!(reader.rows_total(), Some(wanted.len() as u64));
            assert_eq!(read(&path, options).expect("read").ids, wanted, "{range:?}");
        }
    }
}

#[test]
fn ids_are_strings_or_integers_of_any_width() {
    let folder = Folder::new();
    let words = ["a", "7", "c"];
    let dictionary: DictionaryArray<Int32Type> = words.into_iter().collect();
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from_iter_values(words)),
        Arc::new(LargeStringArray::from_iter_values(words)),
        Arc::new(StringViewArray::from_iter_values(words)),
        Arc::new(dictionary),
    ];
    for column in columns {
        let columns = vec![("_id", column.clone()), ("text", column), ("vector", list(&ROWS[..3]))];
        let table = read(&folder.write("a.parquet", parquet(columns)), batches_of(2)).expect("read");
        assert_eq!(table.ids, words.map(text));
        assert_eq!(table.texts, words.map(|word| Some(word.to_owned())));
    }
    let columns: [(ArrayRef, u64); 2] = [
        (Arc::new(Int8Array::from(vec![127])), 127),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), u64::MAX),
    ];
    for (column, id) in columns {
        let path = folder.write("a.parquet", parquet(vec![("id", column), ("vector", list(&ROWS[..1]))]));
        assert_eq!(read(&path, ReadOptions::default()).expect("read").ids, [number(id)]);
    }
}

#[test]
fn other_columns_are_the_payload_and_a_null_is_left_out() {
    let folder = Folder::new();
    let tags = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let members: Vec<(Arc<Field>, ArrayRef)> = vec![
        (
            Arc::new(Field::new("x", DataType::Float64, true)),
            Arc::new(Float64Array::from(vec![Some(0.5), None])),
        ),
        (Arc::new(Field::new("y", DataType::Utf8, true)), Arc::new(StringArray::from(vec!["p", "q"]))),
    ];
    let place = StructArray::from(members.clone());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("vector", list(&ROWS[..2])),
        ("word", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ("truth", Arc::new(BooleanArray::from(vec![true, false]))),
        ("count", Arc::new(Int64Array::from(vec![-1, i64::MAX]))),
        ("share", Arc::new(Float32Array::from(vec![Some(0.25), None]))),
        ("half", Arc::new(Float16Array::from(vec![f16::from_f32(1.5), f16::ZERO]))),
        ("nothing", Arc::new(NullArray::new(2))),
        ("tags", Arc::new(tags)),
        ("place", Arc::new(place)),
        ("payload", Arc::new(StructArray::from(members))),
    ];
    let path = folder.write("a.parquet", parquet(columns));
    let table = read(&path, ReadOptions::default()).expect("read");
    assert!(table.ids.is_empty());
    let first = json!({
        "word": "a", "truth": true, "count": -1, "share": 0.25, "half": 1.5, "tags": [1, null],
        "place": {"x": 0.5, "y": "p"}, "x": 0.5, "y": "p"
    });
    let second = json!({"truth": false, "count": i64::MAX, "half": 0.0, "place": {"y": "q"}, "y": "q"});
    assert_eq!(table.payloads, [first, second]);
    let fewer = ["payload", "place", "tags", "half", "truth", "count"].map(str::to_owned).to_vec();
    let options = ReadOptions { leave_out: fewer, ..ReadOptions::default() };
    assert_eq!(
        read(&path, options).expect("read").payloads,
        [json!({"word": "a", "share": 0.25}), json!(null)]
    );
}

#[test]
fn a_column_that_cannot_be_read_is_named_with_the_way_out() {
    let folder = Folder::new();
    let nested = Fields::from(vec![Field::new("when", DataType::Binary, true)]);
    let nested =
        StructArray::new(nested, vec![Arc::new(BinaryArray::from(vec![&b"x"[..]])) as ArrayRef], None);
    let vector = || ("vector", list(&ROWS[..1]));
    let one = |number: f64| Arc::new(Float64Array::from(vec![number])) as ArrayRef;
    let stamp: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let table: Vec<(Vec<(&str, ArrayRef)>, &str)> = vec![
        (vec![vector(), ("stamp", stamp)], "column stamp: wanted strings, booleans, integers, floats"),
        (
            vec![vector(), ("nested", Arc::new(nested))],
            "(name the column in `leave_out` to read the file without it)",
        ),
        (vec![vector(), ("payload", one(1.0))], "column payload: wanted a struct, or strings that are"),
        (vec![vector(), ("id", one(1.0))], "column id: wanted strings or integers, found Float64"),
        (vec![vector(), ("text", one(1.0))], "column text: wanted strings, found Float64"),
        (
            vec![("vector", one(1.0))],
            "column vector: wanted a list of float16, float32 or float64, found Float64",
        ),
        (
            vec![("a", one(1.0)), ("b", one(1.0))],
            "wanted a column of vectors: one of vector, embedding, emb, values",
        ),
        (vec![("a", one(1.0)), ("b", one(1.0))], ", found a, b"),
        (vec![vector(), ("a", one(1.0)), ("a", one(1.0))], "found two columns named a"),
    ];
    for (columns, fragment) in table {
        let path = folder.write("a.parquet", parquet(columns));
        let found = open(&path, ReadOptions::default()).err().expect("refused at once").to_string();
        assert!(found.contains(fragment), "{found}\n  lacks {fragment}");
    }
    let path = folder.write("a.parquet", parquet(vec![vector()]));
    let options = [
        ReadOptions { id_field: Some("key".to_owned()), ..ReadOptions::default() },
        ReadOptions { leave_out: vec!["key".to_owned()], ..ReadOptions::default() },
    ];
    for options in options {
        assert!(message(&path, options).ends_with("a.parquet: wanted a column key, found vector"));
    }
}

#[test]
fn a_list_of_lists_is_no_vector() {
    let folder = Folder::new();
    let inner = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(some(&ROWS[..2]), 2);
    let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let nested = FixedSizeListArray::new(item, 2, Arc::new(inner), None);
    let path = folder.write("a.parquet", parquet(vec![("vector", Arc::new(nested))]));
    assert!(message(&path, ReadOptions::default()).contains("wanted a list of float16, float32 or float64"));
}

#[test]
fn a_bad_row_is_named_by_its_place_in_the_file() {
    let folder = Folder::new();
    let good = vec![Some(1.0), Some(2.0)];
    let table = [
        (Some(vec![Some(1.0); 3]), "row 3: vector has 3 numbers, the rows before have 2"),
        (Some(vec![]), "row 3: vector has 0 numbers, the rows before have 2"),
        (None, "row 3, field vector: wanted a vector, found null"),
        (Some(vec![Some(1.0), None]), "row 3, field vector[1]: wanted a number, found null"),
        (Some(vec![Some(1e39), None]), "row 3, field vector[1]: wanted a number, found null"),
        (
            Some(vec![Some(1e39), Some(1.0)]),
            "row 3, field vector[0]: wanted a number that fits 32 bits, found 1e39",
        ),
    ];
    for (bad, fragment) in table {
        let rows = [Some(good.clone()), Some(good.clone()), Some(good.clone()), bad, Some(good.clone())];
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows));
        let path = folder.write("a.parquet", parquet(vec![("vector", column)]));
        for batch_rows in [1, 2, 4, 100] {
            let found = message(&path, batches_of(batch_rows));
            assert!(found.ends_with(fragment), "{found}\n  lacks {fragment}");
        }
    }
}

#[test]
fn a_null_in_a_fixed_size_list_is_named() {
    let folder = Folder::new();
    let mut builder = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for row in 0..3 {
        builder.values().append_value(1.0);
        if row == 1 {
            builder.values().append_null();
        } else {
            builder.values().append_value(2.0);
        }
        builder.append(row < 2);
    }
    let column = builder.finish();
    let path = folder.write("a.parquet", parquet(vec![("vector", Arc::new(column.clone()))]));
    assert!(
        message(&path, ReadOptions::default())
            .ends_with("row 1, field vector[1]: wanted a number, found null")
    );
    let path = folder.write("a.parquet", parquet(vec![("vector", Arc::new(column.slice(2, 1)))]));
    assert!(
        message(&path, ReadOptions::default()).ends_with("row 0, field vector: wanted a vector, found null")
    );
}

#[test]
fn a_bad_id_or_value_is_named_by_row_and_column() {
    let folder = Folder::new();
    let table: Vec<(&str, ArrayRef, &str)> = vec![
        (
            "id",
            Arc::new(Int64Array::from(vec![1, 2, -3])),
            "row 2, field id: wanted a string or an integer of 0",
        ),
        ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None])), "row 2, field id: "),
        ("id", Arc::new(StringArray::from(vec!["a", "b", ""])), "row 2, field id: "),
        (
            "share",
            Arc::new(Float64Array::from(vec![1.0, 2.0, f64::NAN])),
            "row 2, field share: wanted a finite number or null, found NaN",
        ),
    ];
    for (name, column, fragment) in table {
        let path = folder.write("a.parquet", parquet(vec![(name, column), ("vector", list(&ROWS[..3]))]));
        let found = message(&path, ReadOptions::default());
        assert!(found.contains(fragment), "{found}\n  lacks {fragment}");
    }
}

#[test]
fn what_is_no_parquet_file_says_so() {
    let folder = Folder::new();
    for bytes in [&b""[..], b"PAR1", b"not a parquet file at all", b"PAR1\0\0\0\0\xff\xff\xff\xffPAR1"] {
        let found = message(&folder.write("a.parquet", bytes), ReadOptions::default());
        assert!(found.contains("a.parquet: wanted a Parquet file, found "), "{found}");
    }
    assert!(
        message(&folder.path("nowhere.parquet"), ReadOptions::default()).contains("nowhere.parquet: No such")
    );
}

#[test]
fn a_file_without_rows_has_no_batch() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", parquet(vec![("vector", list(&[]))]));
    let mut reader = open(&path, ReadOptions::default()).expect("opened");
    assert_eq!(reader.rows_total(), Some(0));
    assert!(reader.next().is_none());
}
