//! What is written is read again.

use dehub_format::{
    AnnBenchmark, Column, FormatError, Kind, ReadOptions, WriteOptions, Writer, open, open_matrix,
    write_ann_benchmark,
};
use dehub_vector::{Metric, PointId, Rows};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::files::{Folder, batches_of, read};

/// Files of a matrix, and what numbers they can hold.
const MATRICES: [(&str, Numbers); 10] = [
    ("a.npy", Numbers::All),
    ("a.fvecs", Numbers::All),
    ("a.fbin", Numbers::All),
    ("a.h5", Numbers::All),
    ("a.ivecs", Numbers::Whole),
    ("a.ibin", Numbers::Whole),
    ("a.i8bin", Numbers::Signed),
    ("a.bvecs", Numbers::Unsigned),
    ("a.u8bin", Numbers::Unsigned),
    ("b.NPY", Numbers::All),
];

const TABLES: [&str; 4] = ["a.parquet", "a.arrow", "a.arrows", "a.jsonl"];

#[derive(Clone, Copy)]
enum Numbers {
    All,
    Whole,
    Signed,
    Unsigned,
}

fn one_of(numbers: Numbers, seed: f32) -> f32 {
    match numbers {
        Numbers::All => seed,
        Numbers::Whole => (seed * 16.0).round(),
        Numbers::Signed => (seed * 16.0).round().clamp(-128.0, 127.0),
        Numbers::Unsigned => (seed * 16.0).round().abs().min(255.0),
    }
}

fn options_for(name: &str) -> WriteOptions {
    let metric = name.ends_with("h5").then_some(Metric::Dot);
    WriteOptions { metric, ..WriteOptions::default() }
}

fn runner() -> TestRunner {
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]))
}

/// Batches of vectors of one dimension.
fn batches() -> impl Strategy<Value = (usize, Vec<Vec<f32>>)> {
    (1..9usize).prop_flat_map(|dim| {
        let batch = (0..6usize).prop_flat_map(move |rows| prop::collection::vec(-20f32..20.0, rows * dim));
        (Just(dim), prop::collection::vec(batch, 0..5))
    })
}

#[test]
fn matrices_come_back_number_by_number() {
    let folder = Folder::new();
    runner()
        .run(&batches(), |(dim, batches)| {
            for (name, numbers) in MATRICES {
                let path = folder.path(name);
                let columns = vec![("vector".to_owned(), Kind::Vectors(dim))];
                let mut writer = Writer::create(&path, columns, &options_for(name)).expect("begun");
                let mut wanted = Vec::new();
                for batch in &batches {
                    let batch: Vec<f32> = batch.iter().map(|&seed| one_of(numbers, seed)).collect();
                    wanted.extend_from_slice(&batch);
                    let rows = Rows::new(dim, batch).expect("whole rows");
                    writer.write(vec![Column::Vectors(rows)]).expect("written");
                }
                let rows = writer.finish().expect("finished");
                prop_assert_eq!(rows, (wanted.len() / dim) as u64);
                if wanted.is_empty() {
                    continue;
                }
                let table =
                    read(&path, batches_of(4)).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(table.vectors.concat(), wanted, "{}", name);
            }
            Ok(())
        })
        .expect("every file is read as it was written");
}

#[test]
fn tables_come_back_column_by_column() {
    let folder = Folder::new();
    let row = (any::<u64>(), prop::option::of(-1e30f32..1e30), prop::option::of(".{0,9}"), any::<bool>());
    let rows = prop::collection::vec(row, 1..20);
    runner()
        .run(&(rows, any::<bool>()), |(rows, number_ids)| {
            for name in TABLES {
                let path = folder.path(name);
                let id_kind = if number_ids { Kind::NumberIds } else { Kind::TextIds };
                let kinds = [
                    ("id", id_kind),
                    ("vector", Kind::Vectors(2)),
                    ("text", Kind::Texts),
                    ("bias", Kind::Numbers),
                    ("rank", Kind::Whole),
                    ("wide", Kind::Wide),
                    ("payload", Kind::Json),
                ];
                let kinds = kinds.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
                let mut writer = Writer::create(&path, kinds, &WriteOptions::default()).expect("begun");
                for batch in rows.chunks(7) {
                    let ids = batch.iter().map(|row| PointId::Number(row.0)).collect();
                    let vectors = batch.iter().flat_map(|row| [row.1.unwrap_or(0.5), 1.5]).collect();
                    let json = |deep: bool| deep.then(|| "{\n \"a\": [1, {\"b\": null}]}".to_owned());
                    writer
                        .write(vec![
                            Column::Ids(ids),
                            Column::Vectors(Rows::new(2, vectors).expect("whole rows")),
                            Column::Texts(batch.iter().map(|row| row.2.clone()).collect()),
                            Column::Numbers(batch.iter().map(|row| row.1).collect()),
                            Column::Whole((0..batch.len() as u32).collect()),
                            Column::Wide(batch.iter().map(|row| row.0).collect()),
                            Column::Json(batch.iter().map(|row| json(row.3)).collect()),
                        ])
                        .expect("written");
                }
                prop_assert_eq!(writer.finish().expect("finished"), rows.len() as u64);
                let table =
                    read(&path, batches_of(5)).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(table.vectors.len(), rows.len());
                for (index, (id, bias, text, deep)) in rows.iter().enumerate() {
                    prop_assert_eq!(&table.vectors[index], &[bias.unwrap_or(0.5), 1.5]);
                    prop_assert_eq!(&table.texts[index], text, "{}", name);
                    let wanted = if number_ids {
                        PointId::Number(*id)
                    } else {
                        PointId::text(&id.to_string()).expect("an id")
                    };
                    prop_assert_eq!(&table.ids[index], &wanted, "{}", name);
                    let payload = &table.payloads[index];
                    prop_assert_eq!(payload["wide"].as_u64(), Some(*id));
                    prop_assert_eq!(payload["rank"].as_u64(), Some(index as u64 % 7));
                    prop_assert_eq!(
                        payload.get("bias").and_then(Value::as_f64).map(|found| found as f32),
                        *bias
                    );
                    let wanted = if *deep { json!([1, {"b": null}]) } else { Value::Null };
                    prop_assert_eq!(payload.get("a").unwrap_or(&Value::Null), &wanted, "{}", name);
                }
            }
            Ok(())
        })
        .expect("every file is read as it was written");
}

#[test]
fn what_a_format_cannot_hold_is_named_by_row_and_coordinate() {
    let folder = Folder::new();
    let cases: [(&str, f32, &str); 6] = [
        ("a.u8bin", 256.0, "row 2, field vector[1]: wanted a number that is one of U8, found 256"),
        ("a.i8bin", 0.5, "row 2, field vector[1]: wanted a number that is one of I8, found 0.5"),
        ("a.ivecs", f32::NAN, "row 2, field vector[1]: wanted a number that is one of I32, found NaN"),
        ("a.ibin", 3e9, "row 2, field vector[1]"),
        ("a.bvecs", -1.0, "row 2, field vector[1]"),
        ("a.jsonl", f32::INFINITY, "line 3, field vector[1]: wanted a finite number, found inf"),
    ];
    for (name, value, fragment) in cases {
        let columns = vec![("vector".to_owned(), Kind::Vectors(2))];
        let mut writer =
            Writer::create(&folder.path(name), columns, &WriteOptions::default()).expect("begun");
        let rows =
            |numbers: &[f32]| vec![Column::Vectors(Rows::new(2, numbers.to_vec()).expect("whole rows"))];
        writer.write(rows(&[1.0, 2.0, 3.0, 4.0])).expect("written");
        let error = writer.write(rows(&[1.0, value])).expect_err(name).to_string();
        assert!(error.contains(fragment), "{error}\n  lacks {fragment}");
        drop(writer);
        assert!(!folder.path(name).exists(), "half a file of {name} has its name");
    }
}

fn refusal(outcome: Result<impl Sized, FormatError>) -> String {
    outcome.err().expect("refused").to_string()
}

#[test]
fn names_and_columns_that_cannot_be_written_are_refused_and_leave_nothing() {
    let folder = Folder::new();
    let vector = |dim| ("vector".to_owned(), Kind::Vectors(dim));
    let id = ("id".to_owned(), Kind::TextIds);
    let create = |name: &str, columns, metric| {
        refusal(Writer::create(
            &folder.path(name),
            columns,
            &WriteOptions { metric, ..WriteOptions::default() },
        ))
    };
    let table = [
        (create("a.csv", vec![vector(2)], None), "found .csv"),
        (create("a", vec![vector(2)], None), "found no ending"),
        (create("a.npy.gz", vec![vector(2)], None), "not compressed as a whole"),
        (create("a.npy", vec![id.clone(), vector(2)], None), "takes one column, of vectors, and no other"),
        (create("a.fbin", Vec::new(), None), "takes one column"),
        (create("a.npz", vec![vector(2)], None), "files of npz are read and not written"),
        (create("a.h5", vec![vector(2)], None), "an HDF5 file names a metric"),
        (create("a.npy", vec![vector(2)], Some(Metric::Dot)), "no place for a metric"),
        (create("a.jsonl", vec![id.clone(), id.clone()], None), "two columns named id"),
    ];
    for (found, fragment) in table {
        assert!(found.contains(fragment), "{found}\n  lacks {fragment}");
    }
    let path = folder.path("a.parquet");
    let ids = |ids: &[&str]| Column::Ids(ids.iter().map(|id| PointId::text(id).expect("an id")).collect());
    let rows = |dim, numbers: &[f32]| Column::Vectors(Rows::new(dim, numbers.to_vec()).expect("whole rows"));
    let columns = vec![("id".to_owned(), Kind::NumberIds), vector(2)];
    let mut writer = Writer::create(&path, columns, &WriteOptions::default()).expect("begun");
    assert!(refusal(writer.write(vec![rows(2, &[1.0, 2.0])])).contains("1 columns instead of 2"));
    let text_id = writer.write(vec![ids(&["a"]), rows(2, &[1.0, 2.0])]);
    assert!(refusal(text_id).contains("column id is no column of NumberIds"));
    let number = |id| Column::Ids(vec![PointId::Number(id)]);
    let other_dim = writer.write(vec![number(1), rows(1, &[1.0])]);
    assert!(refusal(other_dim).contains("column vector is no column of Vectors(2)"));
    let other_rows = writer.write(vec![number(1), rows(2, &[1.0; 4])]);
    assert!(refusal(other_rows).contains("column vector has 2 rows, another 1"));
    drop(writer);
    let left: Vec<_> = std::fs::read_dir(folder.path(".")).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_benchmark_in_hdf5_has_all_of_its_parts() {
    let folder = Folder::new();
    let path = folder.path("a.hdf5");
    let rows = |numbers: &[f32]| Rows::new(2, numbers.to_vec()).expect("whole rows");
    let (train, test) = (rows(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), rows(&[7.0, 8.0]));
    let whole = AnnBenchmark {
        metric: Metric::Cosine,
        train: &train,
        test: Some(&test),
        neighbors: Some((&[2, 0], 2)),
        distances: Some(&[0.25, 0.5]),
    };
    write_ann_benchmark(&path, &whole).expect("written");
    assert_eq!(open(&path, ReadOptions::default()).expect("opened").metric(), Some(Metric::Cosine));
    for (name, wanted) in [
        ("train", train.as_slice()),
        ("test", &[7.0, 8.0]),
        ("neighbors", &[2.0, 0.0]),
        ("distances", &[0.25, 0.5]),
    ] {
        let options = ReadOptions { dataset: Some(name.to_owned()), ..ReadOptions::default() };
        let reader = open_matrix(&path, &options).expect(name);
        assert_eq!(reader.block(0, 9).expect(name), wanted, "{name}");
    }
    let bad = [
        AnnBenchmark { test: None, ..whole },
        AnnBenchmark { neighbors: Some((&[2], 2)), ..whole },
        AnnBenchmark { neighbors: None, ..whole },
        AnnBenchmark { distances: Some(&[0.25]), ..whole },
        AnnBenchmark { neighbors: Some((&[2, u32::MAX], 2)), ..whole },
    ];
    for contents in bad {
        assert!(write_ann_benchmark(&path, &contents).is_err(), "{contents:?}");
    }
}
