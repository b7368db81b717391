//! Data directories and backups that earlier versions wrote are what they were, by the answers of their time.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use dehub_index::{Catalogue, EntryInput, FailPoint, Name, PointInput, Snapshot};
use dehub_vector::PointId;
use serde_json::{Value, json};

use crate::{Dehub, testdata};

/// What numbers may differ by, relative to those above 1.
const TOLERANCE: f64 = 1e-6;
/// Kills at random moments of an upgrade.
const KILLS: u64 = 12;

/// The fixtures, as the folders are called.
fn fixtures() -> Vec<String> {
    let folders = fs::read_dir(testdata("compat")).expect("the fixtures are there").flatten();
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("format-")).collect();
    names.sort();
    assert!(names.len() >= 2, "{names:?}");
    names
}

/// A part of a fixture.
fn part(fixture: &str, part: &str) -> String {
    testdata(&format!("compat/{fixture}/{part}"))
}

fn expected(fixture: &str) -> Value {
    let text = fs::read_to_string(part(fixture, "expected.json")).expect("the fixture is whole");
    serde_json::from_str(&text).expect("JSON")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the temporary folder is writable");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy_folder(&from, &to) } else { _ = fs::copy(&from, &to).expect("a copy") }
    }
}

/// The data directory of a fixture, copied.
fn copied(fixture: &str) -> Dehub {
    let dehub = Dehub::new();
    copy_folder(Path::new(&part(fixture, "data")), &dehub.path("data"));
    dehub
}

/// Everything that is wanted is found; there may be more.
#[track_caller]
fn assert_holds(found: &Value, wanted: &Value, place: &str) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            for (field, wanted) in wanted {
                let found = found.get(field).unwrap_or_else(|| panic!("{place}: no `{field}`"));
                assert_holds(found, wanted, &format!("{place}.{field}"));
            }
        }
        (Value::Array(found), Value::Array(wanted)) => {
            assert_eq!(found.len(), wanted.len(), "{place}");
            for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                assert_holds(found, wanted, &format!("{place}[{at}]"));
            }
        }
        (Value::Number(found), Value::Number(wanted)) => {
            let (found, wanted) = (found.as_f64().expect("a number"), wanted.as_f64().expect("a number"));
            let error = (found - wanted).abs() / wanted.abs().max(1.0);
            assert!(error <= TOLERANCE, "{place}: {found} is not {wanted}");
        }
        (found, wanted) => assert_eq!(found, wanted, "{place}"),
    }
}

/// Every command answers as it did.
#[track_caller]
fn assert_answers(dehub: &Dehub, expected: &Value) {
    let answers = expected["answers"].as_array().expect("a list");
    assert!(answers.len() > 30, "{}", answers.len());
    for answer in answers {
        let arguments: Vec<&str> =
            answer["arguments"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert_holds(&dehub.json(&arguments), &answer["output"], &arguments.join(" "));
    }
}

fn id_of(value: &Value) -> Option<PointId> {
    let text = |text| PointId::text(text).expect("short");
    value.as_u64().map(PointId::Number).or_else(|| value.as_str().map(text))
}

#[expect(clippy::cast_possible_truncation, reason = "what the import does with three digits")]
fn vector_of(row: &Value) -> Vec<f32> {
    let numbers = row["vector"].as_array().expect("a vector").iter();
    numbers.map(|number| number.as_f64().expect("a number") as f32).collect()
}

/// Id, vector, text and payload of a point, or id, vector and weight of an entry, in an order of their own.
fn sorted(rows: impl Iterator<Item = Value>) -> Vec<String> {
    let mut rows: Vec<String> = rows.map(|row| row.to_string()).collect();
    rows.sort();
    rows
}

fn given_point(row: &Value) -> Value {
    let mut payload = row.as_object().expect("an object").clone();
    let text = payload.remove("text");
    payload.remove("id");
    payload.remove("vector");
    // The fields in one order.
    let payload = (!payload.is_empty()).then(|| json!(sorted(payload.into_iter().map(|field| json!(field)))));
    json!([id_of(&row["id"]), vector_of(row), text, payload])
}

fn stored_point(point: &PointInput) -> Value {
    let payload = point.payload.as_ref().map(|payload| {
        let fields: serde_json::Map<String, Value> =
            serde_json::from_str(payload.as_json()).expect("payloads are objects");
        sorted(fields.into_iter().map(|field| json!(field)))
    });
    json!([point.id, point.vector.to_vec(), point.text, payload])
}

fn served_points(snapshot: &Snapshot) -> Vec<PointInput> {
    let rows: Vec<u32> = snapshot.rows().collect();
    let points = snapshot.points(&rows).expect("every row has a record");
    let point = |(&row, point): (&u32, dehub_index::Point)| {
        let vector = snapshot.vector(row).to_vec();
        PointInput {
            id: point.id,
            vector: vector.into(),
            named: Vec::new(),
            payload: point.payload,
            text: point.text,
        }
    };
    rows.iter().zip(points).map(point).collect()
}

fn given_entry(row: &Value) -> Value {
    json!([id_of(&row["id"]), vector_of(row), row["weight"].as_f64().unwrap_or(1.0)])
}

fn stored_entry(entry: &EntryInput) -> Value {
    json!([entry.id, entry.vector.to_vec(), f64::from(entry.weight)])
}

/// Every point, bank entry and held point is what was given, bit for bit.
#[track_caller]
fn assert_data(dehub: &Dehub, expected: &Value) {
    let name: Name = "kept".parse().expect("a good name");
    let collection = Catalogue::new(&dehub.path("data")).get(&name).expect("it opens");
    let snapshot = collection.snapshot();
    let list = |field: &str| expected[field].as_array().expect("a list").iter();
    assert_eq!(
        sorted(served_points(&snapshot).iter().map(stored_point)),
        sorted(list("points").map(given_point))
    );
    assert_eq!(
        sorted(snapshot.quarantined().map(|held| stored_point(&held.point))),
        sorted(list("held").map(given_point))
    );
    let banks = expected["banks"].as_object().expect("an object");
    assert_eq!(snapshot.banks().len(), banks.len());
    for (bank, entries) in banks {
        let stored = snapshot.bank_entries(&bank.parse().expect("a good name")).expect("whole");
        let given = entries.as_array().expect("a list").iter().map(given_entry);
        assert_eq!(sorted(stored.iter().map(stored_entry)), sorted(given), "{bank}");
    }
}

#[track_caller]
fn assert_whole(dehub: &Dehub) {
    dehub.ok(&["verify", "kept"]);
}

/// The collection goes on: points, entries, fits, a graph.
#[track_caller]
fn assert_goes_on(dehub: &Dehub) {
    let points = dehub.json(&["info", "kept"])["points"].as_u64().expect("a number");
    dehub.ok(&["quarantine", "kept", "off"]);
    let file = dehub.file("new.jsonl", r#"{"id": "new", "vector": [0.5, -1, 0.25, 0, 1, 2, 0, 1]}"#);
    dehub.ok(&["import", "kept", &file]);
    dehub.ok(&["fit", "kept", "--bank", "others", "-m", "IS(beta=4)", "-m", "NNN(alpha=1.0,k=2)"]);
    dehub.ok(&["bank", "kept", "asked", "--absorb"]);
    dehub.ok(&["delete", "kept", "--id", "2"]);
    dehub.ok(&["freeze", "kept"]);
    let info = dehub.json(&["info", "kept"]);
    assert_eq!(info["points"], json!(points), "{info}");
    assert_eq!(info["format"]["written_by"], json!(env!("CARGO_PKG_VERSION")), "{info}");
    let found = dehub.json(&["search", "kept", "--id", "new", "--correction", "IS(beta=4)"]);
    assert_eq!(found["points"].as_array().map(Vec::len), Some(10), "{found}");
    assert_whole(dehub);
}

#[test]
fn what_an_earlier_version_wrote_is_read_as_it_was_and_goes_on() {
    for fixture in fixtures() {
        let (dehub, expected) = (copied(&fixture), expected(&fixture));
        assert_data(&dehub, &expected);
        assert_answers(&dehub, &expected);
        assert_whole(&dehub);
        assert_data(&dehub, &expected);
        assert_goes_on(&dehub);
    }
}

#[test]
fn backups_of_an_earlier_version_are_restored() {
    for fixture in fixtures() {
        let (dehub, expected) = (Dehub::new(), expected(&fixture));
        let repository = dehub.path("repository");
        copy_folder(Path::new(&part(&fixture, "backup")), &repository);
        let repository = repository.to_str().expect("UTF-8");
        dehub.ok(&["restore", "kept", repository]);
        assert_data(&dehub, &expected);
        assert_answers(&dehub, &expected);
        assert_whole(&dehub);
        // The repository is as it was, and takes backups of the present format beside the old one.
        dehub.ok(&["backup", "kept", repository, "--check"]);
        dehub.ok(&["backup", "kept", repository]);
        dehub.ok(&["restore", "kept", repository, "--as", "again"]);
        dehub.ok(&["verify", "again"]);
        assert_goes_on(&dehub);
    }
}

#[test]
fn info_names_the_format_and_the_versions_that_wrote_it() {
    let dehub = copied("format-2");
    let version = env!("CARGO_PKG_VERSION");
    let opened = dehub.ok(&["info", "kept"]).stdout;
    assert!(
        opened.contains(&format!("format      5, made by dehub 0.1.0, written by {version}")),
        "{opened}"
    );
    let info = dehub.json(&["info", "kept"]);
    assert_eq!(info["format"], json!({"number": 5, "made_by": "0.1.0", "written_by": version}));
}

#[test]
fn an_upgrade_that_is_killed_leaves_the_old_format_or_the_new_one() {
    let expected = expected("format-2");
    // The first commit is that of the upgrade.
    for point in
        [FailPoint::UpgradeBegun, FailPoint::BeforeCommit, FailPoint::AfterCommit, FailPoint::AfterSync]
    {
        let dehub = copied("format-2");
        let mut child = dehub
            .command(&["info", "kept"])
            .env("DEHUB_FAIL_POINT", point.name())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let reached = format!("reached {point}");
        assert!(lines.any(|line| line.is_ok_and(|line| line == reached)), "there was no upgrade: {point}");
        child.kill().expect("it still runs");
        child.wait().expect("it is dead");
        assert_data(&dehub, &expected);
        assert_answers(&dehub, &expected);
        assert_whole(&dehub);
    }
    for kill in 0..KILLS {
        let dehub = copied("format-2");
        let mut child =
            dehub.command(&["info", "kept"]).stdout(Stdio::null()).spawn().expect("the binary runs");
        // From the start of the process to about the end of its opening.
        thread::sleep(Duration::from_millis(kill * 37 % 64));
        child.kill().expect("it is a child");
        child.wait().expect("it is dead");
        assert_whole(&dehub);
        assert_data(&dehub, &expected);
    }
}
