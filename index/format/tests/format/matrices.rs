//! Matrices of every format, and files of true neighbours.

use std::io::Write;
use std::path::Path;

use dehub_format::{
    ReadOptions, Truth, TruthKind, TruthReader, format_of, open, open_bytes, open_matrix, open_truth,
};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::files::{Folder, bytes_of, message, npy, number, read};

const NUMBERS: [f32; 6] = [1.0, -2.0, 3.5, 4.0, 5.0, -6.25];
const ROWS: [[f32; 3]; 2] = [[1.0, -2.0, 3.5], [4.0, 5.0, -6.25]];

pub(crate) fn vecs(rows: &[[f32; 3]]) -> Vec<u8> {
    rows.iter()
        .flat_map(|row| [3u32.to_le_bytes().to_vec(), bytes_of(row, f32::to_le_bytes)].concat())
        .collect()
}

pub(crate) fn bin(rows: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes(), &3u32.to_le_bytes(), data].concat()
}

pub(crate) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

pub(crate) fn zip(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).expect("begun");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("finished").into_inner()
}

pub(crate) fn tensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn f32_npy() -> Vec<u8> {
    npy("'<f4'", false, "(2, 3)", &bytes_of(&NUMBERS, f32::to_le_bytes))
}

#[test]
fn every_layout_gives_the_same_rows_with_metadata_beside_it() {
    let folder = Folder::new();
    let plain = bytes_of(&NUMBERS, f32::to_le_bytes);
    let header = r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"k":"v"}}"#;
    let files = [
        ("a.fvecs", vecs(&ROWS)),
        ("a.fbin", bin(2, &plain)),
        ("stored.npz", zip(&[("a.npy", f32_npy())], zip::CompressionMethod::Stored)),
        ("deflated.npz", zip(&[("a.npy", f32_npy())], zip::CompressionMethod::Deflated)),
        ("a.safetensors", tensors(header, &plain)),
        ("a.npy.gz", gzipped(&f32_npy())),
        ("a.fbin.ZST", zstd::encode_all(&bin(2, &plain)[..], 1).expect("packed")),
    ];
    let metadata = folder.write("a.jsonl.gz", gzipped(b"{\"id\": 7, \"text\": \"x\"}\n{\"id\": 8}\n"));
    for (name, bytes) in files {
        let options = ReadOptions { metadata: Some(metadata.clone()), ..ReadOptions::default() };
        let table = read(&folder.write(name, &bytes), options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(table.vectors, ROWS, "{name}");
        assert_eq!(table.ids, [number(7), number(8)], "{name}");
        assert_eq!(table.texts, [Some("x".to_owned()), None], "{name}");
        let in_memory = open_bytes(Path::new(name), bytes, ReadOptions::default()).expect("opened");
        let rows: Vec<_> = in_memory.map(|batch| batch.expect("read").vectors.as_slice().to_vec()).collect();
        assert_eq!(rows, [NUMBERS], "{name}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let folder = Folder::new();
    let header = |offsets: &str, kind: &str, shape: &str| {
        let text = format!(r#"{{"a":{{"dtype":"{kind}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        tensors(&text, &[0; 24])
    };
    let archive =
        |names: [&str; 2]| zip(&names.map(|name| (name, f32_npy())), zip::CompressionMethod::Stored);
    let files: [(&str, Vec<u8>, &str); 20] = [
        ("a.fvecs", vecs(&ROWS)[..31].to_vec(), "not readable from row 1 on: the file ends within the row"),
        (
            "b.fvecs",
            [vecs(&ROWS), vec![2, 0, 0, 0, 1, 1]].concat(),
            "row 2: vector has 2 numbers, the rows before have 3",
        ),
        ("c.fvecs", vec![0; 8], "wanted vectors of 1 to 65535 numbers, found 0"),
        ("d.fvecs", vec![3, 0], "wanted a whole header of fvecs, found a file of 2 bytes"),
        ("a.fbin", bin(3, &[0; 24]), "the header says 3 rows (36 bytes), the file holds 2 rows (24 bytes)"),
        ("b.fbin", vec![0; 7], "wanted a whole header of fbin, found a file of 7 bytes"),
        (
            "c.ibin",
            bin(1, &[1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0]),
            "row 0, field vector[1]: wanted an integer that",
        ),
        ("a.npz", archive(["a.npy", "b.npy"]), "wanted the name of one array, found a, b"),
        ("b.npz", archive(["a.txt", "b.txt"]), "wanted the name of one array, found none"),
        ("c.npz", f32_npy(), "wanted an npz archive, which is a zip of npy files"),
        ("a.safetensors", header("[0,28]", "F32", "[1,7]"), "wanted 28 bytes of tensors, found 24 bytes"),
        ("b.safetensors", header("[0,24]", "F32", "[2,2]"), "a header that cannot be read"),
        ("c.safetensors", header("[0,24]", "BOOL", "[2,12]"), "tensor a of BOOL"),
        ("d.safetensors", header("[0,24]", "F32", "[6]"), "tensor a of shape [6]"),
        ("e.safetensors", vec![255; 9], "a header of 18446744073709551615 bytes"),
        ("f.safetensors", tensors("{", &[]), "a header that cannot be read"),
        ("a.npy.gz", f32_npy(), "a.npy.gz: wanted a whole compressed file"),
        ("b.npy.gz", gzipped(&f32_npy())[..40].to_vec(), "b.npy.gz: wanted a whole compressed file"),
        (
            "a.jsonl.gz",
            gzipped(b"{\"vector\": [1]}\n")[..20].to_vec(),
            "line 1: wanted compressed bytes that",
        ),
        ("a.h5", f32_npy(), "wanted an HDF5 file"),
    ];
    for (name, bytes, fragment) in files {
        let found = message(&folder.write(name, bytes), ReadOptions::default());
        assert!(found.contains(fragment), "{found}\n  lacks {fragment}");
    }
    let dataset = |name: &str| ReadOptions { dataset: Some(name.to_owned()), ..ReadOptions::default() };
    let path = folder.write("d.npz", archive(["a.npy", "b.npy"]));
    assert!(message(&path, dataset("c")).ends_with("wanted array c, found a, b"));
    assert_eq!(read(&path, dataset("b")).expect("read").vectors, ROWS);
    let path = folder.write("a.npy", f32_npy());
    assert!(
        message(&path, dataset("a")).contains("a dataset is chosen from .npz, .safetensors and HDF5 files")
    );
}

#[test]
fn an_entry_that_unfolds_to_more_than_it_says_is_refused() {
    let folder = Folder::new();
    let mut bytes = zip(&[("a.npy", vec![0; 100_000])], zip::CompressionMethod::Deflated);
    // The size once unpacked, in the entry and in the directory.
    let size = 100_000u32.to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 4).filter(|&place| bytes[place..place + 4] == size).collect();
    assert_eq!(places.len(), 2);
    for place in places {
        bytes[place..place + 4].copy_from_slice(&10u32.to_le_bytes());
    }
    let found = message(&folder.write("a.npz", bytes), ReadOptions::default());
    assert!(found.contains("an array a.npy of 11 bytes or more, whose entry says 10"), "{found}");
}

#[test]
fn first_bytes_tell_the_format_where_a_name_does_not() {
    let folder = Folder::new();
    for (name, bytes) in [("a", f32_npy()), ("b", gzipped(&f32_npy()))] {
        let path = folder.write(name, bytes);
        assert_eq!(format_of(&path, None).expect("told").to_string(), "npy");
        assert_eq!(read(&path, ReadOptions::default()).expect("read").vectors, ROWS);
    }
    let path = folder.write("c", vecs(&ROWS));
    assert!(message(&path, ReadOptions::default()).contains("that tells no format"));
    let options = ReadOptions { format: Some("fvecs".parse().expect("a format")), ..ReadOptions::default() };
    assert_eq!(read(&path, options).expect("read").vectors, ROWS);
}

#[test]
fn a_matrix_is_read_by_blocks_however_wide_it_is() {
    let folder = Folder::new();
    let (rows, columns) = (3, 70_000);
    let numbers: Vec<f32> = (0..rows * columns).map(|number| number as f32).collect();
    for order in [false, true] {
        let data: Vec<u8> = if order {
            let by_column = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
            by_column.flat_map(|index| f64::from(numbers[index]).to_le_bytes()).collect()
        } else {
            numbers.iter().flat_map(|&number| f64::from(number).to_le_bytes()).collect()
        };
        let path = folder.write("a.npy", npy("'<f8'", order, "(3, 70000)", &data));
        let reader = open_matrix(&path, &ReadOptions::default()).expect("opened");
        assert_eq!((reader.rows(), reader.columns(), reader.rows_within_limit()), (3, 70_000, 79));
        assert_eq!(reader.block(0, 1).expect("read"), numbers[..columns]);
        assert_eq!(reader.block(1, 9).expect("read"), numbers[columns..]);
        assert!(
            reader.block(3, 9).expect("read").is_empty()
                && reader.block(u64::MAX, 1).expect("read").is_empty()
        );
        assert!(open(&path, ReadOptions::default()).is_err(), "no vector is as long");
    }
    let path = folder.write("b.npy", npy("'<f4'", false, "(2, 0)", &[]));
    let reader = open_matrix(&path, &ReadOptions::default()).expect("opened");
    assert!(reader.block(0, 2).expect("read").is_empty());
    let path = folder.write("c.npy", npy("'<f4'", false, "(0, 16777217)", &[]));
    let Err(error) = open_matrix(&path, &ReadOptions::default()) else { panic!("too wide") };
    assert!(error.to_string().contains("at most 16777216 columns, found 16777217 columns"), "{error}");
    let path = folder.write("a.jsonl", "{\"vector\": [1]}");
    assert!(open_matrix(&path, &ReadOptions::default()).is_err());
}

fn ints(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn truths(reader: &TruthReader) -> Vec<Truth> {
    (0..reader.queries()).map(|query| reader.query(query).expect("read").expect("a query")).collect()
}

#[test]
fn true_neighbours_come_query_by_query_with_and_without_distances() {
    let folder = Folder::new();
    let distances = bytes_of(&[0.5, 1.5, 2.5, 3.5], f32::to_le_bytes);
    let truth = |rows: &[u32], distances: Option<&[f32]>| Truth {
        rows: rows.to_vec(),
        distances: distances.map(<[f32]>::to_vec),
    };
    let ids = ints(&[2, 2, 7, 8, 9, 10]);
    let reader = open_truth(&folder.write("a.bin", &ids), TruthKind::Nearest).expect("opened");
    assert_eq!(truths(&reader), [truth(&[7, 8], None), truth(&[9, 10], None)]);
    assert_eq!(reader.query(2).expect("none"), None);
    let path = folder.write("b.bin.gz", gzipped(&[ids, distances.clone()].concat()));
    let reader = open_truth(&path, TruthKind::Nearest).expect("opened");
    let wanted = [truth(&[7, 8], Some(&[0.5, 1.5])), truth(&[9, 10], Some(&[2.5, 3.5]))];
    assert_eq!(truths(&reader), wanted);
    let range = [ints(&[3, 4, 1, 0, 3, 7, 8, 9, 10]), distances].concat();
    let reader = open_truth(&folder.write("c.bin", &range), TruthKind::Range).expect("opened");
    let wanted =
        [truth(&[7], Some(&[0.5])), truth(&[], Some(&[])), truth(&[8, 9, 10], Some(&[1.5, 2.5, 3.5]))];
    assert_eq!(truths(&reader), wanted);
    let bad: [(Vec<u8>, TruthKind, &str); 5] = [
        (ints(&[2]), TruthKind::Nearest, "wanted a header of 8 bytes, found a file of 4 bytes"),
        (
            ints(&[2, 2, 7]),
            TruthKind::Nearest,
            "wanted 24 bytes, or 40 with distances, for 4 neighbours, found 12 bytes",
        ),
        (ints(&[-1, -1, 7]), TruthKind::Nearest, "found 12 bytes"),
        (
            ints(&[2, 1, 1, 1, 5]),
            TruthKind::Range,
            "wanted 1 neighbours, as the header says, found counts of 2",
        ),
        (ints(&[-1, 1]), TruthKind::Range, "found 8 bytes"),
    ];
    for (bytes, kind, fragment) in bad {
        let Err(error) = open_truth(&folder.write("d.bin", bytes), kind) else { panic!("{fragment}") };
        assert!(error.to_string().contains(fragment), "{error}\n  lacks {fragment}");
    }
    let reader =
        open_truth(&folder.write("e.bin", ints(&[1, 2, 7, -8])), TruthKind::Nearest).expect("opened");
    let error = reader.query(0).expect_err("a negative row").to_string();
    assert!(
        error.ends_with("row 0, field neighbours[1]: wanted a row number of 0 or more, found -8"),
        "{error}"
    );
}
