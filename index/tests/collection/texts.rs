//! Points found by their words: what is written is found after a refresh, once, and whatever becomes of the index.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dehub_index::{
    Analyzer, Catalogue, CheckKind, Collection, CollectionConfig, Durability, GraphConfig, Name, NamedVector,
    Payload, PayloadChange, PointInput, TextField, TextFields, TextQuery, TextSearchError, VectorsInput,
    WriteError,
};
use dehub_vector::{Metric, PointId};
use serde_json::{Value, json};

const NONE: [u64; 0] = [];

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn create(folder: &Path) -> Arc<Collection> {
    let config = CollectionConfig::new(2, Metric::Dot, GraphConfig::default()).expect("valid");
    Catalogue::new(folder).create(&name("texts"), config).expect("a new folder")
}

fn open(folder: &Path) -> Arc<Collection> {
    Catalogue::new(folder).get(&name("texts")).expect("it opens")
}

fn fields(list: &[(&str, Analyzer)]) -> TextFields {
    list.iter().map(|&(name, analyzer)| (name.to_owned(), TextField::new(analyzer))).collect()
}

fn point(id: u64, text: Option<&str>, payload: Value) -> PointInput {
    let payload = Payload::parse(&payload.to_string()).expect("an object");
    PointInput {
        text: text.map(str::to_owned),
        payload: Some(payload),
        ..PointInput::new(PointId::Number(id), vec![1.0, 0.0])
    }
}

fn set_tags(tag: &str) -> PayloadChange {
    let fields = Payload::parse(&json!({"tags": tag}).to_string()).expect("an object");
    PayloadChange::Set { fields, key: None }
}

/// The ids found, ascending.
fn found(collection: &Collection, words: &str) -> Vec<u64> {
    let snapshot = collection.snapshot();
    let answer =
        snapshot.search_text(&snapshot.scope(), &TextQuery::new(words), 1000).expect("a valid query");
    let rows: Vec<u32> = answer.hits.iter().map(|hit| hit.row).collect();
    let number = |id: &PointId| match id {
        PointId::Number(number) => *number,
        PointId::Text(text) => panic!("{text}"),
    };
    let mut ids: Vec<u64> =
        snapshot.points(&rows).expect("readable").iter().map(|point| number(&point.id)).collect();
    ids.sort_unstable();
    ids
}

fn scores(collection: &Collection, words: &str) -> Vec<(PointId, f32)> {
    let snapshot = collection.snapshot();
    let answer =
        snapshot.search_text(&snapshot.scope(), &TextQuery::new(words), 1000).expect("a valid query");
    let rows: Vec<u32> = answer.hits.iter().map(|hit| hit.row).collect();
    let points = snapshot.points(&rows).expect("readable");
    points.into_iter().zip(&answer.hits).map(|(point, hit)| (point.id, hit.score)).collect()
}

fn index_folder(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("collections").join("texts")).expect("readable");
    let is_index =
        |path: &PathBuf| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("text-"));
    entries.map(|entry| entry.expect("readable").path()).find(is_index).expect("there is an index")
}

/// 40 points, of which some were replaced, deleted, or have other payloads than at first.
fn changed(folder: &Path) -> Arc<Collection> {
    let collection = create(folder);
    let points: Vec<_> = (0..40)
        .map(|id| {
            point(id, Some(&format!("common old{id}")), json!({"tags": [format!("tag{}", id % 3), 7, null]}))
        })
        .collect();
    collection.upsert(&points).expect("valid");
    collection
        .set_text_fields(&fields(&[("text", Analyzer::Standard), ("tags", Analyzer::Raw)]))
        .expect("valid");
    collection.upsert(&[point(3, Some("common new3"), json!({}))]).expect("valid");
    collection.delete(&[PointId::Number(4)]).expect("writable");
    let change = set_tags("late");
    collection.change_payloads(&[PointId::Number(5)], &change).expect("valid");
    collection
}

#[test]
fn a_write_is_found_by_words_after_a_refresh_and_a_deleted_point_at_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = changed(folder.path());
    assert!(collection.is_text_behind());
    assert_eq!(found(&collection, "old3"), NONE, "its row is gone at once");
    assert_eq!(found(&collection, "new3"), NONE);
    assert_eq!(found(&collection, "old4"), NONE);
    assert_eq!(found(&collection, "late"), NONE);
    let sequence = collection.refresh_text().expect("a writable folder");
    assert_eq!(sequence, Some(collection.snapshot().sequence()));
    assert!(!collection.is_text_behind());
    assert_eq!(found(&collection, "new3"), [3]);
    assert_eq!(found(&collection, "late"), [5]);
    assert_eq!(found(&collection, "tag2"), (0..40).filter(|id| id % 3 == 2 && *id != 5).collect::<Vec<_>>());
    assert_eq!(found(&collection, "common").len(), 39);
}

#[test]
fn fields_are_a_points_own_text_or_strings_of_its_payload() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = create(folder.path());
    let points = [
        point(0, Some("mine"), json!({"text": "theirs", "a": {"b": ["Deep", 3, ["nested"]]}})),
        point(1, None, json!({"text": "theirs"})),
        point(2, None, json!({"text": 5})),
        point(3, Some(""), json!({})),
    ];
    collection.upsert(&points).expect("valid");
    let snapshot = collection.snapshot();
    let refused = snapshot.search_text(&snapshot.scope(), &TextQuery::new("x"), 1);
    assert!(matches!(refused, Err(TextSearchError::NoFields)));
    let both = fields(&[("text", Analyzer::Standard), ("a.b", Analyzer::Standard)]);
    collection.set_text_fields(&both).expect("valid");
    assert_eq!(found(&collection, "mine"), [0]);
    assert_eq!(found(&collection, "theirs"), [1]);
    assert_eq!(found(&collection, "deep"), [0]);
    assert_eq!(found(&collection, "nested"), NONE, "an array in an array is no string");
    let english = fields(&[("text", Analyzer::Standard)]);
    collection.set_text_fields(&english).expect("valid");
    assert_eq!(found(&collection, "deep"), NONE);
    let folders = fs::read_dir(folder.path().join("collections/texts")).expect("readable");
    let indexes =
        folders.filter(|it| it.as_ref().is_ok_and(|it| it.file_name().to_string_lossy().contains("text-")));
    assert_eq!(indexes.count(), 1, "the index of other fields is removed");
    for bad in [("", 1.0), ("a..b", 1.0), ("text", -1.0), ("text", f32::NAN)] {
        let field = TextField { k1: bad.1, ..TextField::default() };
        let refused = collection.set_text_fields(&[(bad.0.to_owned(), field)].into());
        assert!(matches!(refused, Err(WriteError::TextFields(_))), "{bad:?}");
    }
    let many = (0..17).map(|it| (format!("f{it}"), TextField::default())).collect();
    assert!(matches!(collection.set_text_fields(&many), Err(WriteError::TextFields(_))));
    collection.set_text_fields(&TextFields::new()).expect("valid");
    assert!(collection.snapshot().text_fields().is_none());
}

#[test]
fn an_index_that_was_deleted_or_damaged_is_made_again_with_the_same_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = changed(folder.path());
    collection.refresh_text().expect("a writable folder");
    let words = ["common", "old7 tag1 new3", "late"];
    let wanted: Vec<_> = words.iter().map(|words| scores(&collection, words)).collect();
    drop(collection);
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |index| fs::remove_dir_all(index).expect("removed"),
        |index| fs::write(index.join("meta.json"), "{}").expect("written"),
        |index| {
            for entry in fs::read_dir(index).expect("readable") {
                let path = entry.expect("readable").path();
                if path.extension().is_some_and(|it| it == "idx" || it == "term") {
                    let mut bytes = fs::read(&path).expect("readable");
                    bytes[0] ^= 1;
                    fs::write(&path, bytes).expect("written");
                }
            }
        },
        |_| {},
    ];
    let check = |damage: &str| {
        let collection = open(folder.path());
        let again: Vec<_> = words.iter().map(|words| scores(&collection, words)).collect();
        assert_eq!(again, wanted, "{damage}");
        let report = collection.verify(&mut |_| {});
        assert!(report.is_whole(), "{damage}: {report:?}");
    };
    for (place, damage) in damages.iter().enumerate() {
        damage(&index_folder(folder.path()));
        check(&format!("damage {place}"));
    }
    // Each kind of file gone, changed, and cut off; and a mark that says something else.
    for kind in ["idx", "term", "fast", "fieldnorm", "store", "pos", "json"] {
        for change in ["gone", "changed", "cut off"] {
            let entries = fs::read_dir(index_folder(folder.path())).expect("readable");
            let mut paths = entries.map(|entry| entry.expect("readable").path());
            let Some(path) = paths.find(|path| path.extension().is_some_and(|it| it == kind)) else {
                continue;
            };
            let mut bytes = fs::read(&path).expect("readable");
            fs::remove_file(&path).expect("removed");
            let middle = bytes.len() / 2;
            match change {
                "gone" => {}
                "changed" => {
                    bytes[middle] ^= 3;
                    fs::write(&path, &bytes).expect("written");
                }
                _ => fs::write(&path, &bytes[..middle]).expect("written"),
            }
            check(&format!("{} {change}", path.display()));
        }
    }
    let meta = index_folder(folder.path()).join("meta.json");
    let text = fs::read_to_string(&meta).expect("readable");
    let other = text.replace("next_row\\\":4", "next_row\\\":1");
    assert_ne!(text, other);
    fs::write(&meta, other).expect("written");
    check("a mark that says something else");
}

#[test]
fn what_was_written_after_the_last_refresh_is_indexed_when_the_collection_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = changed(folder.path());
    drop(collection);
    let collection = open(folder.path());
    assert_eq!(found(&collection, "new3"), [3]);
    assert_eq!(found(&collection, "late"), [5]);
    assert_eq!(found(&collection, "old4"), NONE);
    assert_eq!(found(&collection, "common").len(), 39);
    // Notes of changes that the index has heeded are taken back by the next change.
    for round in 0..3 {
        let change = set_tags(&format!("late{round}"));
        collection.change_payloads(&[PointId::Number(6)], &change).expect("valid");
        collection.refresh_text().expect("a writable folder");
        assert_eq!(found(&collection, &format!("late{round}")), [6]);
        assert_eq!(found(&collection, &format!("late{}", round + 1)), NONE);
    }
}

#[test]
fn an_index_without_a_point_is_told_by_verify_and_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = changed(folder.path());
    let wanted: BTreeSet<u64> = found(&collection, "common").into_iter().chain([3]).collect();
    drop(collection);
    // An index that claims to know more than it does.
    let index = index_folder(folder.path());
    let text = fs::read_to_string(index.join("meta.json")).expect("readable");
    assert!(text.contains("next_row"), "the mark is there");
    let collection = open(folder.path());
    let path = fs::read_dir(index_folder(folder.path())).expect("readable");
    let term =
        path.map(|it| it.expect("readable").path()).find(|it| it.extension().is_some_and(|it| it == "term"));
    let term = term.expect("there are terms");
    let bytes = fs::read(&term).expect("readable");
    fs::remove_file(&term).expect("removed");
    fs::write(&term, &bytes[..bytes.len() - 1]).expect("written");
    let report = collection.verify(&mut |_| {});
    let texts = report.checks.iter().find(|check| check.kind == CheckKind::Texts).expect("it was made");
    assert_eq!(texts.differences, 1, "{texts:?}");
    collection.rebuild(&report).expect("a writable folder");
    assert!(collection.verify(&mut |_| {}).is_whole());
    assert_eq!(found(&collection, "common").into_iter().collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn parts_of_texts_are_shown_with_the_words_that_were_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = create(folder.path());
    collection
        .upsert(&[point(0, Some("The dogs were running"), json!({"title": "Dog days"}))])
        .expect("valid");
    let both = fields(&[("text", "english".parse().expect("one")), ("title", Analyzer::Standard)]);
    collection.set_text_fields(&both).expect("valid");
    let snapshot = collection.snapshot();
    let point = snapshot.points(&[0]).expect("readable").swap_remove(0);
    let parts = snapshot.highlight(&TextQuery::new("run dog"), &point, 100).expect("valid");
    let told: Vec<(&str, Vec<&str>)> = parts
        .iter()
        .map(|part| (part.field.as_str(), part.spans.iter().map(|it| &part.fragment[it.clone()]).collect()))
        .collect();
    assert_eq!(told, [("text", vec!["dogs", "running"]), ("title", vec!["Dog"])]);
}

#[test]
fn points_with_named_vectors_or_none_are_found_by_words_from_every_space() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = CollectionConfig::new(2, Metric::Dot, GraphConfig::default()).expect("valid");
    let spaces = [(name("one"), config), (name("two"), config)].into();
    let catalogue = Catalogue::new(folder.path());
    let made =
        catalogue.create_with_spaces(&name("texts"), &spaces, Durability::Strict).expect("a new folder");
    made.set_text_fields(&fields(&[("text", Analyzer::Standard)])).expect("valid");
    let with = |id: u64, vectors: &[&str]| PointInput {
        named: vectors
            .iter()
            .map(|it| NamedVector { name: name(it), vector: vec![1.0, 0.5].into() })
            .collect(),
        vector: Vec::new().into(),
        ..point(id, Some(&format!("common p{id}")), json!({}))
    };
    made.upsert(&[with(0, &[]), with(1, &["one"]), with(2, &["one", "two"])]).expect("valid");
    made.refresh_text().expect("a writable folder");
    assert_eq!(found(&made, "common"), [0, 1, 2]);
    let update = VectorsInput {
        id: PointId::Number(0),
        vector: Vec::new().into(),
        named: vec![NamedVector { name: name("two"), vector: vec![0.0, 1.0].into() }],
    };
    made.update_vectors(&[update]).expect("valid");
    assert_eq!(found(&made, "p0"), NONE, "its row is another");
    made.refresh_text().expect("a writable folder");
    assert_eq!(found(&made, "p0"), [0]);
    // A space finds those that it has, by the same index.
    let whole = made.snapshot();
    let space = whole.space(Some("two")).expect("there is one");
    let answer = space.search_text(&space.scope(), &TextQuery::new("common"), 10).expect("valid");
    assert_eq!(answer.hits.len(), 2);
    assert!(made.verify(&mut |_| {}).is_whole());
}

#[test]
fn a_checkpoint_has_no_index_of_texts_and_what_is_opened_from_it_makes_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let collection = changed(folder.path());
    collection.refresh_text().expect("a writable folder");
    let wanted = scores(&collection, "common new3 tag1");
    let copy = folder.path().join("copy").join("collections").join("texts");
    fs::create_dir_all(&copy).expect("writable");
    collection.checkpoint(&copy).expect("a checkpoint");
    let names: Vec<String> = fs::read_dir(&copy)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.iter().any(|name| name.starts_with("text-")), "{names:?}");
    drop(collection);
    let opened = open(&folder.path().join("copy"));
    assert_eq!(scores(&opened, "common new3 tag1"), wanted);
}
