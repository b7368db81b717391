//! `.npy` files with and without metadata beside them.

use crate::files::{Folder, batches_of, bytes_of, message, npy, npy_of_version, number, read, text};
use dehub_format::{FormatError, ReadOptions, open, write_npy};
use dehub_vector::Rows;
use half::f16;
use serde_json::{Value, json};

const NUMBERS: [f32; 6] = [1.0, -2.5, 3.0, 0.0, 5.0, 100.0];

fn rows() -> Vec<Vec<f32>> {
    NUMBERS.chunks(3).map(<[f32]>::to_vec).collect()
}

fn f32_file() -> Vec<u8> {
    npy("'<f4'", false, "(2, 3)", &bytes_of(&NUMBERS, f32::to_le_bytes))
}

#[test]
fn every_width_and_byte_order_gives_the_same_rows() {
    let folder = Folder::new();
    let half = |number: f32| f16::from_f32(number);
    let files = [
        f32_file(),
        npy("'>f4'", false, "(2, 3)", &bytes_of(&NUMBERS, f32::to_be_bytes)),
        npy("'<f2'", false, "(2, 3)", &bytes_of(&NUMBERS, |number| half(number).to_le_bytes())),
        npy("'>f2'", false, "(2, 3)", &bytes_of(&NUMBERS, |number| half(number).to_be_bytes())),
        npy("'<f8'", false, "(2, 3)", &bytes_of(&NUMBERS, |number| f64::from(number).to_le_bytes())),
        npy("'>f8'", false, "(2, 3)", &bytes_of(&NUMBERS, |number| f64::from(number).to_be_bytes())),
        npy_of_version(2, "'<f4'", false, "(2, 3)", &bytes_of(&NUMBERS, f32::to_le_bytes)),
        npy_of_version(3, "'<f4'", false, "(2, 3)", &bytes_of(&NUMBERS, f32::to_le_bytes)),
    ];
    for (index, bytes) in files.iter().enumerate() {
        let path = folder.write("a.npy", bytes);
        for batch_rows in [0, 1, 2, 1000] {
            assert_eq!(read(&path, batches_of(batch_rows)).expect("read").vectors, rows(), "file {index}");
        }
    }
}

#[test]
fn small_integers_are_read_as_they_are() {
    let folder = Folder::new();
    let signed = folder.write("signed.npy", npy("'|i1'", false, "(1, 3)", &[0x80, 0xff, 0x7f]));
    assert_eq!(read(&signed, ReadOptions::default()).expect("read").vectors, [[-128.0, -1.0, 127.0]]);
    let unsigned = folder.write("unsigned.npy", npy("'|u1'", false, "(1, 3)", &[0x80, 0xff, 0x7f]));
    assert_eq!(read(&unsigned, ReadOptions::default()).expect("read").vectors, [[128.0, 255.0, 127.0]]);
}

#[test]
fn fortran_order_gives_the_same_rows_in_any_batches() {
    let folder = Folder::new();
    let (rows, dim) = (7, 5);
    let numbers: Vec<f32> = (0..rows * dim).map(|number| number as f32).collect();
    let columns: Vec<f32> = (0..rows * dim).map(|index| numbers[index % rows * dim + index / rows]).collect();
    let c = folder.write("c.npy", npy("'<f4'", false, "(7, 5)", &bytes_of(&numbers, f32::to_le_bytes)));
    let fortran = folder.write("f.npy", npy("'>f4'", true, "(7, 5)", &bytes_of(&columns, f32::to_be_bytes)));
    for batch_rows in 1..=8 {
        for range in [None, Some(2..6), Some(6..100)] {
            let options = ReadOptions { rows: range, ..batches_of(batch_rows) };
            let wanted = read(&c, options.clone()).expect("read");
            assert_eq!(read(&fortran, options).expect("read"), wanted);
        }
    }
}

#[test]
fn what_is_written_is_read_again_bit_by_bit() {
    let folder = Folder::new();
    let path = folder.path("written.npy");
    let numbers = vec![0.1, f32::MAX, -0.0, f32::MIN_POSITIVE, f32::NAN, f32::NEG_INFINITY];
    let rows = Rows::new(2, numbers.clone()).expect("whole rows");
    write_npy(&path, &rows).expect("written");
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let mut reader = open(&path, ReadOptions::default()).expect("opened");
    assert_eq!((reader.dim(), reader.rows_total()), (Some(2), Some(3)));
    let batch = reader.next().expect("a batch").expect("read");
    assert_eq!(bits(batch.vectors.as_slice()), bits(&numbers));
    let nowhere = folder.path("no folder/written.npy");
    assert!(matches!(write_npy(&nowhere, &rows), Err(FormatError::Io { .. })));
}

#[test]
fn the_npyz_crate_reads_what_we_write_and_we_read_what_it_reads() {
    let folder = Folder::new();
    let path = folder.path("written.npy");
    write_npy(&path, &Rows::new(3, NUMBERS.to_vec()).expect("whole rows")).expect("written");
    for path in [path, folder.write("made.npy", f32_file())] {
        let file = npyz::NpyFile::new(std::fs::File::open(&path).expect("there")).expect("npy");
        assert_eq!(file.shape(), [2, 3]);
        assert_eq!(file.into_vec::<f32>().expect("f32"), NUMBERS);
        assert_eq!(read(&path, ReadOptions::default()).expect("read").vectors, rows());
    }
}

#[test]
fn an_empty_matrix_has_a_dimension_and_no_batch() {
    let folder = Folder::new();
    let path = folder.write("a.npy", npy("'<f4'", false, "(0, 128)", &[]));
    let mut reader = open(&path, ReadOptions::default()).expect("opened");
    assert_eq!((reader.dim(), reader.rows_total()), (Some(128), Some(0)));
    assert!(reader.next().is_none());
}

#[test]
fn a_number_that_32_bits_cannot_hold_is_named_by_row_and_coordinate() {
    let folder = Folder::new();
    let numbers = [1.0, 2.0, f64::NAN, f64::INFINITY, 5.0, -1e39];
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let path = folder.write("a.npy", npy("'<f8'", false, "(3, 2)", &data));
    for batch_rows in 1..4 {
        let found = message(&path, batches_of(batch_rows));
        let wanted = "a.npy: row 2, field vector[1]: wanted a number that fits 32 bits, found -1e39";
        assert!(found.ends_with(wanted), "{found}");
    }
    let mut reader = open(&path, batches_of(1)).expect("opened");
    assert!(reader.next().is_some_and(|batch| batch.is_ok()));
    let batch = reader.next().expect("a batch").expect("NaN and infinity are the collection's to judge");
    assert!(batch.vectors.row(0)[0].is_nan() && batch.vectors.row(0)[1] == f32::INFINITY);
    assert!(reader.next().is_some_and(|batch| batch.is_err()));
    assert!(reader.next().is_none(), "nothing comes after an error");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = Folder::new();
    let mut table = vec![
        (b"".to_vec(), "wanted an npy file"),
        (b"{\"id\": 1}".to_vec(), "wanted an npy file"),
        (npy("'|O'", false, "(2, 3)", b"\x80\x04pickle"), "Python objects, never unpickled"),
        (npy("'<i4'", false, "(2, 3)", &[0; 24]), "wanted float16, float32, float64, int8 or uint8"),
        (npy("'<f4'", false, "(6,)", &[0; 24]), "found shape (6)"),
        (npy("'<f4'", false, "(1, 2, 3)", &[0; 24]), "found shape (1, 2, 3)"),
        (npy("'<f4'", false, "(2, 0)", &[]), "wanted vectors of 1 to 65535 numbers, found 0"),
        (npy("'<f4'", false, "(1, 65536)", &[0; 4 * 65536]), "found 65536"),
        (npy("'<f4'", false, "(3, 3)", &[0; 24]), "says 3 rows (36 bytes), the file holds 2 rows (24 bytes)"),
        (npy("'<f4'", false, "(2, 3)", &[0; 25]), "says 2 rows (24 bytes), the file holds 2 rows (25 bytes)"),
        (npy("'<f4'", false, "(18446744073709551615, 9)", &[0; 36]), "the file holds 1 rows (36 bytes)"),
    ];
    table.push((f32_file()[..20].to_vec(), "a file that ends within it"));
    for (bytes, fragment) in table {
        let found =
            open(&folder.write("a.npy", bytes), ReadOptions::default()).err().expect("refused at once");
        assert!(found.to_string().contains(fragment), "{found}\n  lacks {fragment}");
    }
}

#[test]
fn a_missing_file_and_an_unknown_ending_are_named() {
    let folder = Folder::new();
    let missing = folder.path("nowhere.npy");
    assert!(message(&missing, ReadOptions::default()).contains("nowhere.npy: No such file"));
    let options = ReadOptions { metadata: Some(folder.path("nowhere.jsonl")), ..ReadOptions::default() };
    assert!(message(&folder.write("a.npy", f32_file()), options).contains("nowhere.jsonl: No such file"));
    for (name, fragment) in [("a.csv", "found .csv"), ("a.pt", "found .pt"), ("noending", "found no ending")]
    {
        let found = message(&folder.write(name, "x"), ReadOptions::default());
        assert!(found.contains(".npy, .npz, .fvecs") && found.contains(fragment), "{found}");
    }
    assert!(read(&folder.write("UPPER.NPY", f32_file()), ReadOptions::default()).is_ok());
}

fn with_metadata(metadata: impl AsRef<[u8]>) -> (Folder, std::path::PathBuf, ReadOptions) {
    let folder = Folder::new();
    let path = folder.write("a.npy", f32_file());
    let metadata = folder.write("a.jsonl", metadata);
    (folder, path, ReadOptions { metadata: Some(metadata), ..ReadOptions::default() })
}

#[test]
fn a_line_of_metadata_belongs_to_the_row_of_the_same_number() {
    let lines = r#"{"id": "a", "text": "first", "part": "gold", "values": [1]}
{"id": 7, "text": null, "payload": {"size": 2.5, "none": null}}
"#;
    for metadata in [lines.to_owned(), format!("\u{feff}{}\r\n\r\n", lines.trim().replace('\n', "\r\n"))] {
        let (_folder, path, options) = with_metadata(metadata);
        for batch_rows in [1, 2, 3] {
            let table = read(&path, ReadOptions { batch_rows, ..options.clone() }).expect("read");
            assert_eq!(table.vectors, rows());
            assert_eq!(table.ids, [text("a"), number(7)]);
            assert_eq!(table.texts, [Some("first".to_owned()), None]);
            let payloads = [json!({"part": "gold", "values": [1]}), json!({"size": 2.5, "none": null})];
            assert_eq!(table.payloads, payloads);
        }
    }
}

#[test]
fn a_range_of_rows_takes_the_same_lines() {
    let (_folder, path, options) = with_metadata("{\"_id\": 0}\n{\"_id\": 1}");
    for (range, ids) in [(0..1, vec![0]), (1..9, vec![1]), (2..9, vec![]), (5..9, vec![])] {
        let options = ReadOptions { rows: Some(range.clone()), ..options.clone() };
        let mut reader = open(&path, options).expect("opened");
        assert_eq!(reader.rows_total(), Some(ids.len() as u64));
        let found: Vec<_> =
            reader.by_ref().flat_map(|batch| batch.expect("read").ids.expect("ids")).collect();
        assert_eq!(found, ids.into_iter().map(number).collect::<Vec<_>>(), "{range:?}");
    }
}

#[test]
fn metadata_of_another_length_is_refused_before_any_row() {
    for (metadata, lines) in [("", 0), ("{\"id\": 1}\n", 1), ("{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}", 3)] {
        let (_folder, path, options) = with_metadata(metadata);
        for rows in [None, Some(0..1)] {
            let error = open(&path, ReadOptions { rows, ..options.clone() }).err().expect("refused");
            let message = error.to_string();
            assert!(message.contains("a.jsonl: wanted 2 lines, one for each row of"), "{message}");
            assert!(message.ends_with(&format!("a.npy, found {lines}")), "{message}");
        }
    }
}

#[test]
fn a_bad_line_of_metadata_is_named_by_file_line_and_field() {
    let table = [
        (r#"{"id": -1}"#, "line 2, field id: wanted a string or an integer of 0 or more, found -1"),
        (r#"{"id": 1.5}"#, "found 1.5"),
        (r#"{"id": null}"#, "found null"),
        (r#"{"id": ""}"#, "found the string \"\" (an id must not be empty)"),
        (
            r#"{"text": "x"}"#,
            "line 2, field id: wanted a string or an integer of 0 or more, found no such field",
        ),
        (r#"{"id": 2, "text": 5}"#, "line 2, field text: wanted a string or null, found 5"),
        (r#"{"id": 2, "payload": 5}"#, "line 2, field payload: wanted an object or null, found 5"),
        (r#"{"id": 2, "a": 1, "payload": {"a": 1}}"#, "field a: wanted one value, found two"),
        (r#"{"id": 2, "id": 3}"#, "wanted a JSON object, found field \"id\" twice"),
        (r#"[1]"#, "line 2: wanted a JSON object, found invalid type: sequence"),
        (r#"{"id": 2"#, "wanted a JSON object, found EOF while parsing an object at column"),
        (r#"{"id": 2} {"id": 3}"#, "wanted a JSON object, found trailing characters at column 11"),
    ];
    for (line, fragment) in table {
        let (_folder, path, options) = with_metadata(format!("{{\"id\": 1, \"text\": \"x\"}}\n{line}\n"));
        for batch_rows in [1, 2] {
            let found = message(&path, ReadOptions { batch_rows, ..options.clone() });
            assert!(
                found.contains("a.jsonl: line 2") && found.contains(fragment),
                "{found}\n  lacks {fragment}"
            );
        }
    }
    let (_folder, path, options) = with_metadata("{\"id\": 1}\n\n{\"id\": 2}\n");
    assert!(message(&path, options).ends_with("a.jsonl: line 2: wanted a JSON object, found a blank line"));
    let (_folder, path, options) = with_metadata("{\"text\": \"x\"}\n{\"id\": 2}\n");
    let found = message(&path, options);
    assert!(found.ends_with("line 2, field id: wanted no id, as in the first row, found an id"), "{found}");
}

#[test]
fn fields_can_be_named_and_left_out() {
    let lines = "{\"key\": 1, \"title\": \"x\", \"id\": 5, \"big\": [1]}\n{\"key\": 2, \"title\": \"y\", \"id\": 6}\n";
    let (_folder, path, options) = with_metadata(lines);
    let named = ReadOptions {
        id_field: Some("key".to_owned()),
        text_field: Some("title".to_owned()),
        leave_out: vec!["big".to_owned()],
        ..options
    };
    let table = read(&path, named.clone()).expect("read");
    assert_eq!(table.ids, [number(1), number(2)]);
    assert_eq!(table.texts, [Some("x".to_owned()), Some("y".to_owned())]);
    assert_eq!(table.payloads, [json!({"id": 5}), json!({"id": 6})]);
    let without_ids = ReadOptions { leave_out: vec!["id".to_owned()], ..named.clone() };
    assert_eq!(read(&path, without_ids).expect("read").payloads, [json!({"big": [1]}), Value::Null]);
    let misspelt = ReadOptions { text_field: Some("titel".to_owned()), ..named.clone() };
    assert!(
        message(&path, misspelt)
            .ends_with("line 1, field titel: wanted a string or null, found no such field")
    );
    let twice = ReadOptions { text_field: Some("key".to_owned()), ..named.clone() };
    assert!(message(&path, twice).contains("field key is asked for twice"));
    let vector = ReadOptions { vector_field: Some("emb".to_owned()), ..named.clone() };
    assert!(message(&path, vector).ends_with("a file of npy is all vector, it has no field emb"));
    let nowhere = ReadOptions { metadata: None, ..named };
    assert!(
        message(&path, nowhere).contains("a file of npy has no field key: name a metadata file that has")
    );
}
