//! Damaged files: a reader gives true rows or an error, and never panics.

use std::sync::Arc;

use crate::files::{Folder, Table, batches_of, bytes_of, npy, read};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, FixedSizeListArray, Int64Array, ListArray, StringArray};
use dehub_format::{FormatError, ReadOptions};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const ROWS: usize = 12;

fn npy_file() -> Vec<u8> {
    let numbers: Vec<f32> = (0..ROWS * 3).map(|number| number as f32 + 0.5).collect();
    npy("'<f4'", false, "(12, 3)", &bytes_of(&numbers, f32::to_le_bytes))
}

fn jsonl_file() -> Vec<u8> {
    let line = |row: usize| {
        format!("{{\"id\": {row}, \"text\": \"wörd\", \"vector\": [{row}.5, 1, -2e3], \"n\": [1]}}\n")
    };
    (0..ROWS).map(line).collect::<String>().into_bytes()
}

fn parquet_file(fixed: bool, compression: Compression) -> Vec<u8> {
    let vectors = (0..ROWS).map(|row| Some(vec![Some(row as f32), Some(1.0), Some(-2.0)]));
    let vectors: ArrayRef = if fixed {
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 3))
    } else {
        let vectors = vectors.map(|row| row.map(|row| row.into_iter().map(|number| number.map(f64::from))));
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors))
    };
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let words: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("word {}", row % 3))));
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(5))
        .set_data_page_row_count_limit(3)
        .build();
    crate::made::parquet_in_groups(vec![("id", ids), ("vector", vectors), ("text", words)], properties)
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a.npy", npy_file()),
        ("a.jsonl", jsonl_file()),
        ("fixed.parquet", parquet_file(true, Compression::UNCOMPRESSED)),
        ("list.parquet", parquet_file(false, Compression::SNAPPY)),
        ("zstd.parquet", parquet_file(false, Compression::ZSTD(ZstdLevel::default()))),
        ("lz4.parquet", parquet_file(true, Compression::LZ4_RAW)),
    ]
}

fn read_bytes(folder: &Folder, name: &str, bytes: &[u8]) -> Result<Table, FormatError> {
    let path = folder.write(name, bytes);
    let mut options = batches_of(5);
    if name == "metadata.jsonl" {
        options = ReadOptions { metadata: Some(path), ..options };
        return read(&folder.write("beside.npy", npy_file()), options);
    }
    read(&path, options)
}

#[test]
fn a_file_cut_off_anywhere_is_refused_or_gives_the_rows_before_the_cut() {
    let folder = Folder::new();
    for (name, bytes) in files() {
        let whole = read_bytes(&folder, name, &bytes).expect("the whole file is good");
        assert_eq!(whole.vectors.len(), ROWS);
        let path = folder.path(name);
        let file = std::fs::File::options().write(true).open(&path).expect("written above");
        for end in (0..bytes.len()).rev() {
            file.set_len(end as u64).expect("cut");
            let Ok(table) = read(&path, batches_of(5)) else {
                continue;
            };
            assert_eq!(name, "a.jsonl", "{name} cut at {end} was read");
            let line_end = bytes[end..].starts_with(b"\n") || end == 0 || bytes[..end].ends_with(b"\n");
            assert!(line_end, "cut at {end}, within a line");
            assert_eq!(table.vectors, whole.vectors[..table.vectors.len()], "cut at {end}");
            assert_eq!(table.texts, whole.texts[..table.texts.len()], "cut at {end}");
        }
    }
}

#[test]
fn metadata_cut_off_anywhere_is_refused() {
    let folder = Folder::new();
    let bytes = jsonl_file();
    for end in 0..bytes.len() - 1 {
        assert!(read_bytes(&folder, "metadata.jsonl", &bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(read_bytes(&folder, "metadata.jsonl", &bytes).is_ok());
}

/// One to four bytes of one of the files changed: the file, and where to what.
fn damage(files: usize) -> impl Strategy<Value = (usize, Vec<(Index, u8)>)> {
    (0..files, prop::collection::vec((any::<Index>(), any::<u8>()), 1..=4))
}

#[test]
fn changed_bytes_never_panic_and_never_change_the_shape() {
    let mut files = files();
    files.push(("metadata.jsonl", jsonl_file()));
    let config = Config { cases: 3000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let folder = Folder::new();
    TestRunner::new_with_rng(config, rng)
        .run(&damage(files.len()), |(file, changes)| {
            let (name, mut bytes) = files[file].clone();
            for (place, byte) in changes {
                let index = place.index(bytes.len());
                bytes[index] = byte;
            }
            if let Ok(table) = read_bytes(&folder, name, &bytes) {
                let dim = table.vectors.first().map_or(0, Vec::len);
                prop_assert!(table.vectors.iter().all(|vector| vector.len() == dim));
                prop_assert!(table.ids.is_empty() || table.ids.len() == table.vectors.len());
            }
            Ok(())
        })
        .expect("no damage is a panic");
}

#[test]
fn every_single_byte_of_a_footer_can_be_wrong_without_a_panic() {
    let folder = Folder::new();
    let bytes = parquet_file(true, Compression::UNCOMPRESSED);
    for index in bytes.len() / 2..bytes.len() {
        for value in [0, 0x7f, 0xff, bytes[index].wrapping_add(1), bytes[index] ^ 0x80] {
            let mut changed = bytes.clone();
            changed[index] = value;
            let _ = read_bytes(&folder, "fixed.parquet", &changed);
        }
    }
}
