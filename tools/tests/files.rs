//! Files of vectors as numpy, h5py, pyarrow, pandas, polars and Hugging Face's datasets make them.
//!
//! `files/make.py` writes them and says what each holds: all are read to the same two matrices, and broken ones are
//! refused with the place and the reason. `dehub import` reads some of them as a user would.

mod python;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dehub_format::{FormatError, ReadOptions, open, open_matrix};
use dehub_vector::PointId;
use serde_json::{Value, json};

/// The files in a folder of their own.
struct Made {
    folder: tempfile::TempDir,
    told: Value,
}

impl Made {
    fn new() -> Made {
        let folder = tempfile::tempdir().expect("a folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/make.py");
        let mut command = Command::new(python::interpreter());
        // A cache of bytecode would be left among the sources, and one of data sets at home.
        command.arg("-B").arg(script).arg(folder.path()).env("HF_HOME", folder.path().join("cache"));
        let ended = command.output().expect("the interpreter runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let told = fs::read(folder.path().join("files.json")).expect("what the files hold");
        Made { told: serde_json::from_slice(&told).expect("JSON"), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.told[name].as_array().expect("a list of files")
    }

    /// A matrix as the script has it.
    fn matrix(&self, name: &str) -> Vec<f32> {
        let bytes = fs::read(self.path(&format!("{name}.f32"))).expect("a matrix");
        bytes.as_chunks::<4>().0.iter().map(|&number| f32::from_le_bytes(number)).collect()
    }
}

fn options(told: &Value) -> ReadOptions {
    let text = |name: &str| told["options"][name].as_str().map(str::to_owned);
    let names = told["options"]["leave_out"].as_array().into_iter().flatten();
    ReadOptions {
        // Less than a row group, a record batch or a chunk, and no part of the rows.
        batch_rows: 6,
        format: text("format").map(|name| name.parse().expect("a format")),
        dataset: text("dataset"),
        vector_field: text("vector_field"),
        leave_out: names.map(|name| name.as_str().expect("a name").to_owned()).collect(),
        ..ReadOptions::default()
    }
}

fn read(path: &Path, options: ReadOptions) -> Result<(Vec<f32>, Vec<PointId>), FormatError> {
    let (mut numbers, mut ids) = (Vec::new(), Vec::new());
    for batch in open(path, options)? {
        let batch = batch?;
        numbers.extend_from_slice(batch.vectors.as_slice());
        ids.extend(batch.ids.into_iter().flatten());
    }
    Ok((numbers, ids))
}

#[test]
fn files_of_every_library_are_read_to_the_same_matrix_or_refused_with_the_reason() {
    let made = Made::new();
    let wanted_ids: Vec<PointId> = made.told["ids"].as_array().expect("ids").iter().map(id).collect();
    let good = made.list("good");
    assert!(good.len() > 120, "{} files", good.len());
    for told in good {
        let name = told["file"].as_str().expect("a name");
        let (numbers, ids) = read(&made.path(name), options(told)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(numbers, made.matrix(told["matrix"].as_str().expect("a matrix")), "{name}");
        let has_ids = told["ids"] == json!(true);
        assert_eq!(ids, if has_ids { wanted_ids.clone() } else { Vec::new() }, "{name}");
        check_range(&made, name, told);
    }
    let bad = made.list("bad");
    assert!(bad.len() > 30, "{} files", bad.len());
    for told in bad {
        let name = told["file"].as_str().expect("a name");
        let Err(error) = read(&made.path(name), options(told)) else { panic!("{name} was read") };
        let message = error.to_string();
        for fragment in told["fragments"].as_array().expect("a list") {
            let fragment = fragment.as_str().expect("text");
            assert!(message.contains(fragment), "{message}\n  lacks {fragment}");
        }
    }
}

fn id(value: &Value) -> PointId {
    PointId::text(value.as_str().expect("text")).expect("an id")
}

/// Some rows of the middle are those of the matrix, and blocks of it are too.
fn check_range(made: &Made, name: &str, told: &Value) {
    let dim = usize::try_from(made.told["dim"].as_u64().expect("a number")).expect("small");
    let matrix = made.matrix(told["matrix"].as_str().expect("a matrix"));
    let some = ReadOptions { rows: Some(19..40), ..options(told) };
    let (numbers, _) = read(&made.path(name), some).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(numbers, matrix[19 * dim..40 * dim], "{name}");
    if let Ok(reader) = open_matrix(&made.path(name), &options(told)) {
        assert_eq!((reader.rows(), reader.columns()), (61, dim as u64), "{name}");
        let block = reader.block(30, 100).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(block, matrix[30 * dim..], "{name}");
    }
}

/// The command in the folder of the files, with a collection for them.
fn dehub(made: &Made, arguments: &[&str], stdin: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
    command.current_dir(made.folder.path()).args(arguments).arg("--json");
    if let Some(name) = stdin {
        command.stdin(File::open(made.path(name)).expect("a file"));
    } else {
        command.stdin(Stdio::null());
    }
    command.output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn import_and_bank_take_files_of_every_kind_and_standard_input() {
    let made = Made::new();
    let create = ["create", "c", "--dim", "7", "--metric", "euclidean"];
    assert!(dehub(&made, &create, None).status.success());
    for name in ["f2_big_F.npy", "a.fvecs", "a.fbin", "deflated.h5", "hf_list/data-00000-of-00001.arrow"] {
        let output = dehub(&made, &["import", "c", name], None);
        assert!(output.status.success(), "{name}: {}", said(&output));
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(told["rows"], 61, "{name}");
    }
    for name in ["polars_list.arrows", "fixed_zstd.parquet", "packed.npz", "vector.jsonl.zst"] {
        let dataset: &[&str] = if name == "packed.npz" { &["--dataset", "b"] } else { &[] };
        let output = dehub(&made, &[&["import", "c", "-"], dataset].concat(), Some(name));
        assert!(output.status.success(), "{name}: {}", said(&output));
    }
    let output = dehub(&made, &["bank", "c", "asked", "several.safetensors", "--dataset", "b"], None);
    assert!(output.status.success(), "{}", said(&output));
    let output = dehub(&made, &["import", "c", "-", "--format", "fvecs"], Some("a.fvecs"));
    assert!(output.status.success(), "{}", said(&output));
    let refused: [(&[&str], &str); 5] = [
        (&["import", "c", "angular.hdf5"], "distance that says cosine"),
        (&["import", "c", "unclear.npz"], "the name of one array"),
        (&["import", "c", "ragged.fvecs"], "row 5"),
        (&["import", "c", "list_zstd.parquet", "--dataset", "b"], "a dataset is chosen from"),
        (&["import", "c", "model.pt"], ".safetensors"),
    ];
    for (arguments, fragment) in refused {
        let output = dehub(&made, arguments, None);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(fragment), "{arguments:?}: {}", said(&output));
    }
    let forced = dehub(&made, &["import", "c", "angular.hdf5", "--any-distance", "--dataset", "test"], None);
    assert!(forced.status.success(), "{}", said(&forced));
    let copies = dehub(&made, &["import", "c", "-", "--skip-bad", "--format", "jsonl"], Some("copies.jsonl"));
    assert_eq!(copies.status.code(), Some(3), "{}", said(&copies));
    let told: Value = serde_json::from_slice(&copies.stdout).expect("JSON");
    let reasons: Vec<&str> = (told["refused"].as_array().expect("a list").iter())
        .map(|refused| refused["reason"].as_str().expect("a reason"))
        .collect();
    let ends = ["row 2, field id: wanted each id once, found a, which row 0 has", "which row 2 has"];
    assert!(
        reasons.len() == 2 && reasons.iter().zip(ends).all(|(reason, end)| reason.ends_with(end)),
        "{reasons:?}"
    );
}
