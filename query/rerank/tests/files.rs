//! Models on disk: whole, or refused by name.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dehub_rerank::{Adapter, AdapterSize, Card, FileError, files, load, save};

fn adapter() -> Adapter {
    let size = AdapterSize::new(3, 2).expect("in range");
    Adapter::new(size, 0.5, vec![0.1, -0.2, 0.3, 0.4, 0.5, -0.6], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .expect("good")
}

fn card() -> Card {
    Card {
        form: 0,
        kind: String::new(),
        dim: 0,
        hidden: 0,
        mix: 0.0,
        loss: "mw".to_owned(),
        seed: 7,
        epochs: 3,
        data: "00".to_owned(),
        measures: HashMap::from([("R@1".to_owned(), [0.25, 0.5])]),
        made_by: "1.2.3".to_owned(),
        weights: String::new(),
    }
}

fn saved() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    save(&adapter(), &card(), folder.path(), "m").expect("saved");
    folder
}

#[test]
fn a_model_is_read_as_it_was_written_and_nothing_else_is_left() {
    let folder = saved();
    let (read, told) = load(folder.path(), "m").expect("whole");
    assert_eq!(read, adapter());
    assert_eq!((told.kind.as_str(), told.dim, told.hidden, told.mix), ("adapter", 3, 2, 0.5));
    assert_eq!((told.loss.as_str(), told.seed, &told.measures), ("mw", 7, &card().measures));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["m.json", "m.safetensors"]);
    assert!(matches!(load(folder.path(), "n"), Err(FileError::Io { .. })));
}

/// Refused, by a message that names the file.
fn is_refused(folder: &Path, file: &Path) {
    let error = load(folder, "m").expect_err("refused").to_string();
    assert!(error.starts_with(&file.display().to_string()), "{error}");
}

#[test]
fn weights_with_any_byte_changed_or_cut_off_are_refused() {
    let folder = saved();
    let [weights, _] = files(folder.path(), "m");
    let whole = fs::read(&weights).expect("there");
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0x41;
        fs::write(&weights, &changed).expect("written");
        is_refused(folder.path(), &weights);
        fs::write(&weights, &whole[..place]).expect("written");
        is_refused(folder.path(), &weights);
    }
}

#[test]
fn a_card_that_does_not_fit_is_refused_and_told() {
    let folder = saved();
    let [weights, json] = files(folder.path(), "m");
    let whole = fs::read_to_string(&json).expect("there");
    for (from, to, file, wanted) in [
        ("\"form\": 1", "\"form\": 2", &json, "the card has form 2, wanted 1"),
        ("\"kind\": \"adapter\"", "\"kind\": \"mlp\"", &json, "the kind `mlp`"),
        ("\"dim\": 3", "\"dim\": 4", &weights, "tensor `inner`: it is F32 of [2, 3], wanted F32 of [2, 4]"),
        ("\"hidden\": 2", "\"hidden\": 0", &json, "the hidden layer is 0"),
        ("\"mix\": 0.5", "\"mix\": 5.0", &weights, "mix is 5, wanted 0 to 1"),
        ("\"seed\": 7", "\"seed\": 7, \"more\": 1", &json, "unknown field `more`"),
        ("\"loss\": \"mw\",", "", &json, "missing field `loss`"),
    ] {
        assert!(whole.contains(from), "{from}");
        fs::write(&json, whole.replacen(from, to, 1)).expect("written");
        let error = load(folder.path(), "m").expect_err("refused").to_string();
        assert!(error.starts_with(&file.display().to_string()) && error.contains(wanted), "{error}");
    }
    for length in 0..whole.trim_end().len() {
        fs::write(&json, &whole[..length]).expect("written");
        is_refused(folder.path(), &json);
    }
}
