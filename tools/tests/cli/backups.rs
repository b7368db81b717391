//! `dehub backup` and `dehub restore`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Dehub, npy};

/// A collection `x` with a graph and a correction, and a repository for it.
fn made() -> (Dehub, String) {
    let dehub = Dehub::new();
    let rows: Vec<[f32; 3]> = (0..200_u8).map(|x| [1.0, f32::from(x) / 9.0, f32::from(x % 7)]).collect();
    let rows: Vec<&[f32]> = rows.iter().map(<[f32; 3]>::as_slice).collect();
    let (all, bank) = (dehub.file("points.npy", npy(&rows)), dehub.file("bank.npy", npy(&rows[50..90])));
    dehub.ok(&["create", "x", "--dim", "3", "--full-scan-threshold", "0"]);
    dehub.ok(&["import", "x", &all]);
    dehub.ok(&["bank", "x", "queries", &bank]);
    dehub.ok(&["fit", "x", "-m", "IS(beta=5)"]);
    let repository = dehub.path("repository").to_str().expect("UTF-8").to_owned();
    (dehub, repository)
}

/// What searches find, raw and corrected, exact and by the graph.
fn answers(dehub: &Dehub, collection: &str) -> Vec<Value> {
    let ways = [
        &["--exact"][..],
        &["--ef", "64"],
        &["--exact", "--correction", "IS(beta=5)"],
        &["--ef", "64", "--correction", "IS(beta=5)"],
    ];
    let search = |way: &&[&str]| {
        let asked = [&["search", collection, "--vector", "[1, 3.5, 2]", "-k", "20"], *way].concat();
        dehub.json(&asked)["points"].clone()
    };
    ways.iter().map(search).collect()
}

fn id(told: &Value) -> &str {
    told["backup"]["id"].as_str().expect("an id")
}

#[test]
fn a_collection_comes_back_as_it_was_backed_up() {
    let (dehub, repository) = made();
    let (state, found) = (dehub.state(), answers(&dehub, "x"));
    assert!(found.iter().all(|hits| hits.as_array().is_some_and(|hits| hits.len() == 20)), "{found:?}");
    let first = dehub.json(&["backup", "x", &repository, "--link"]);
    assert_eq!((&first["backup"]["points"], &first["bytes_copied"]), (&json!(200), &json!(0)), "{first}");
    dehub.ok(&["delete", "x", "--id", "7"]);
    let second = dehub.json(&["backup", "x", &repository]);
    assert_eq!((&second["backup"]["points"], &second["bytes_linked"]), (&json!(199), &json!(0)), "{second}");
    let listed = dehub.json(&["backup", "x", &repository, "--list"]);
    assert_eq!(listed["backups"], json!([first["backup"], second["backup"]]));
    let text = dehub.ok(&["backup", "x", &repository, "--list"]).stdout;
    assert!(text.contains(id(&first)) && text.contains("sequence"), "{text}");

    let refused = dehub.run(&["restore", "x", &repository]);
    assert!(refused.code == 1 && refused.stderr.contains("a collection `x`"), "{}", refused.stderr);
    let clone = dehub.json(&["restore", "x", &repository, "--backup", id(&first), "--as", "y"]);
    assert_eq!(
        (&clone["collection"], &clone["points"], &clone["replaced"]),
        (&json!("y"), &json!(200), &json!(false))
    );
    assert_eq!(answers(&dehub, "y"), found);
    let graph = |collection: &str| dehub.json(&["info", collection])["graph"].clone();
    assert_eq!(graph("y"), state["graph"]);
    dehub.ok(&["delete", "x"]);
    dehub.ok(&["restore", "x", &repository]);
    assert_eq!(dehub.json(&["info", "x"])["points"], 199);
    let told = dehub.ok(&["restore", "x", &repository, "--backup", id(&first), "--replace"]).stdout;
    assert!(told.contains("in the place of the one that was there"), "{told}");
    assert_eq!((dehub.state(), answers(&dehub, "x")), (state, found));
}

#[test]
fn backups_are_checked_kept_and_removed() {
    let (dehub, repository) = made();
    let ids: Vec<String> = (0..3)
        .map(|number| {
            dehub.ok(&["delete", "x", "--id", &number.to_string()]);
            id(&dehub.json(&["backup", "x", &repository])).to_owned()
        })
        .collect();
    let text = dehub.ok(&["backup", "x", &repository, "--check"]).stdout;
    assert!(text.contains(&ids[2]) && text.contains("is right"), "{text}");
    let told = dehub.json(&["backup", "x", &repository, "--remove", &ids[1]]);
    assert_eq!(told["removed"]["backups"], json!([ids[1]]));
    let told = dehub.json(&["backup", "x", &repository, "--keep", "1"]);
    assert_eq!(told["removed"]["backups"], json!([ids[0], ids[2]]));
    assert_eq!(dehub.json(&["backup", "x", &repository, "--check", id(&told)])["right"], true);
    let unknown = dehub.run(&["backup", "x", &repository, "--check", &ids[0]]);
    assert!(unknown.code == 1 && unknown.stderr.contains(id(&told)), "{}", unknown.stderr);
    // Damage is found, named, and nothing of it is restored.
    let objects = fs::read_dir(dehub.path("repository/x/objects")).expect("readable").flatten();
    let large = objects.max_by_key(|entry| entry.metadata().expect("there").len()).expect("some").path();
    let mut bytes = fs::read(&large).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // Not through a link into the collection.
    fs::remove_file(&large).expect("there");
    fs::write(&large, bytes).expect("writable");
    let name = large.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let state = dehub.state();
    for command in [&["backup", "x", &repository, "--check"][..], &["restore", "x", &repository, "--replace"]]
    {
        let ended = dehub.run(command);
        assert!(ended.code == 1 && ended.stderr.contains(name), "{command:?}: {}", ended.stderr);
    }
    assert_eq!(dehub.state(), state);
}

#[test]
fn every_collection_is_backed_up_at_once() {
    let (dehub, repository) = made();
    dehub.ok(&["create", "empty", "--dim", "2"]);
    let told = dehub.json(&["backup", "--all", &repository]);
    let names: Vec<&Value> =
        told["collections"].as_array().expect("a list").iter().map(|one| &one["collection"]).collect();
    assert_eq!(names, ["empty", "x"]);
    dehub.ok(&["restore", "empty", &repository, "--replace"]);
    assert_eq!(dehub.json(&["info", "empty"])["points"], 0);
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_named() {
    let (dehub, repository) = made();
    let url = format!("file://{repository}");
    for (code, part, command) in [
        (1, "no collection `z`", &["backup", "z", &repository][..]),
        (1, "has no backup at all of `x`", &["restore", "x", &url, "--as", "y"]),
        (1, "wanted a directory, file://", &["backup", "x", "ftp://there"]),
        (2, "is no id of a backup", &["restore", "x", &repository, "--backup", "yesterday"]),
        (2, "--all", &["backup", "x", &repository, "--all"]),
        (2, "--list", &["backup", "x", &repository, "--keep", "1", "--list"]),
        (2, "0", &["backup", "x", &repository, "--keep", "0"]),
        (2, "COLLECTION", &["backup", &repository]),
    ] {
        let ended = dehub.run(command);
        assert!(
            ended.code == code && ended.stderr.contains(part),
            "{command:?}: {} {}",
            ended.code,
            ended.stderr
        );
    }
    assert!(!dehub.path("repository").exists(), "nothing was made");
}

#[test]
fn a_repository_in_the_data_directory_is_refused() {
    let (dehub, repository) = made();
    dehub.ok(&["backup", "x", &repository]);
    std::os::unix::fs::symlink(dehub.path("data"), dehub.path("link")).expect("writable");
    for inside in ["data", "data/collections", "data/new/one", "link/collections/x", "data/../data/x"] {
        let inside = dehub.path(inside).to_str().expect("UTF-8").to_owned();
        for arguments in [&["backup", "x", &inside][..], &["restore", "x", &inside, "--replace"]] {
            let ended = dehub.run(arguments);
            assert!(ended.code == 1 && ended.stderr.contains("inside of the data directory"), "{ended:?}");
        }
    }
    let mut server = dehub.command(&["serve", "--port", "0", "--backups"]);
    let ended = crate::ended(server.arg(dehub.path("data/backups")).output().expect("the binary runs"));
    assert!(ended.code == 1 && ended.stderr.contains("inside of the data directory"), "{ended:?}");
    assert!(!dehub.path("data/new").exists());
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end_of_the_process() {
    let (dehub, repository) = made();
    let state = dehub.state();
    let binary = dehub.command(&["backup", "x", &repository]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 4; exec \"$0\" \"$@\""]).arg(binary.get_program()).args(binary.get_args());
    let ended = crate::ended(limited.output().expect("a shell"));
    assert!(ended.code == 1 && ended.stderr.contains("too large"), "{ended:?}");
    assert_eq!(dehub.state(), state);
    dehub.ok(&["backup", "x", &repository]);
    dehub.ok(&["backup", "x", &repository, "--check"]);
}

#[test]
fn a_kill_at_any_step_leaves_whole_backups_and_whole_collections() {
    let (dehub, repository) = made();
    let (state, found) = (dehub.state(), answers(&dehub, "x"));
    let first = dehub.json(&["backup", "x", &repository]);
    let kill_at = |point: &str, arguments: &[&str]| {
        let mut command = dehub.command(arguments);
        let command = command.env("DEHUB_FAIL_POINT", point).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the binary runs");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let reached = lines.map_while(Result::ok).any(|line| line.starts_with("reached"));
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
        assert!(reached, "{point} is not reached");
    };
    let count =
        || dehub.json(&["backup", "x", &repository, "--list"])["backups"].as_array().map_or(0, Vec::len);
    for (point, backups) in [
        ("checkpoint-made", 1),
        ("backup-object-stored", 1),
        ("backup-object-stored:2", 1),
        ("backup-manifest-written", 2),
    ] {
        kill_at(point, &["backup", "x", &repository]);
        assert_eq!(count(), backups, "{point}");
        assert_eq!(dehub.state(), state, "{point}");
        dehub.ok(&["backup", "x", &repository, "--check"]);
    }
    dehub.ok(&["delete", "x", "--id", "5"]);
    let newer = dehub.state();
    for (point, wanted) in [("restore-fetched", &newer), ("restore-renamed", &state)] {
        kill_at(point, &["restore", "x", &repository, "--backup", id(&first), "--replace"]);
        assert_eq!(&dehub.state(), wanted, "{point}");
    }
    assert_eq!(answers(&dehub, "x"), found);
    // The next of each sweeps what is left.
    dehub.ok(&["backup", "x", &repository, "--keep", "1"]);
    dehub.ok(&["restore", "x", &repository, "--replace"]);
    let collections = fs::read_dir(dehub.path("data/collections")).expect("readable").flatten();
    let names: Vec<_> = collections.map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["x"]);
}
