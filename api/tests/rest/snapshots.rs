//! Snapshots over HTTP: made, fetched, recovered, and not believed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, numbers};

const SNAPSHOTS: &str = "/collections/c/snapshots";

fn fill(client: &Client) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": 3, "distance": "Cosine"}}));
    let vectors: Vec<Vec<f64>> = numbers(3, 3 * 200).chunks(3).map(<[f64]>::to_vec).collect();
    let batch = json!({"ids": (0..200).collect::<Vec<_>>(), "vectors": vectors});
    client.did("PUT", "/collections/c/points", &json!({"batch": batch}));
    client.did("PUT", "/collections/c/banks/b", &json!({"kind": "query", "vectors": [[1, 1, 0], [0, 1, 1]]}));
    client.did("PUT", "/collections/c/corrections/is", &json!({"method": "IS(beta=20)", "query_bank": "b"}));
}

fn answer(client: &Client, collection: &str) -> Value {
    let query = json!({"query": [0.2, 0.5, -0.3], "limit": 50, "hubness": {"correction": "is"}});
    client.did("POST", &format!("/collections/{collection}/points/query"), &query)
}

fn made(client: &Client) -> String {
    let reply = client.send("POST", &format!("{SNAPSHOTS}?wait=true"), None, None).result();
    reply["name"].as_str().expect("a name").to_owned()
}

fn recover(client: &Client, folder: &Path, into: &str, name: &str, checksum: Option<&str>) -> Reply {
    let location = format!("file://{}/snapshots/c/{name}", folder.display());
    let body = json!({"location": location, "checksum": checksum, "priority": "snapshot"});
    client.json("PUT", &format!("/collections/{into}/snapshots/recover"), &body)
}

#[test]
fn a_collection_becomes_again_what_it_was() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = answer(&served, "c");
    let name = made(&served);
    let listed = served.get(SNAPSHOTS);
    assert_eq!(listed[0]["name"], name.as_str());
    let size = fs::metadata(folder.path().join("snapshots/c").join(&name)).expect("there").len();
    assert_eq!(listed[0]["size"], size);
    let checksum = listed[0]["checksum"].as_str().expect("a checksum").to_owned();
    assert_eq!((checksum.len(), listed[0]["creation_time"].as_str().map(str::len)), (64, Some(19)));
    served.did("POST", "/collections/c/points/delete", &json!({"points": (0..150).collect::<Vec<_>>()}));
    assert_ne!(answer(&served, "c"), before);
    assert_eq!(recover(&served, folder.path(), "c", &name, Some(&checksum)).result(), true);
    assert_eq!(answer(&served, "c"), before);
    // Under another name as well, and when the collection itself is gone.
    served.delete("/collections/c");
    assert_eq!(served.get(SNAPSHOTS), listed);
    assert_eq!(recover(&served, folder.path(), "d", &name, None).result(), true);
    assert_eq!(answer(&served, "d"), before);
    served.did("PUT", "/collections/d/points", &json!({"points": [{"id": 999, "vector": [1, 0, 0]}]}));
    assert_eq!(served.delete(&format!("{SNAPSHOTS}/{name}")), true);
    assert_eq!(fs::read_dir(folder.path().join("snapshots/c")).expect("there").count(), 0);
    drop(served);
    let served = Served::start(folder.path());
    assert_eq!(served.get("/collections/d")["points_count"], 201);
}

#[test]
fn a_snapshot_is_fetched_as_it_is() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let name = made(&served);
    let wanted = fs::read(folder.path().join("snapshots/c").join(&name)).expect("there");
    let url = format!("http://{}{SNAPSHOTS}/{name}", served.address);
    let mut response = ureq::get(&url).call().expect("an answer");
    assert_eq!(response.headers()["content-type"], "application/octet-stream");
    assert_eq!(response.headers()["content-length"], wanted.len().to_string().as_str());
    assert!(response.headers()["content-disposition"].to_str().expect("text").contains(&name));
    let found = response.body_mut().with_config().limit(1 << 30).read_to_vec().expect("a body");
    assert!(found == wanted, "{} and {} bytes", found.len(), wanted.len());
}

#[test]
fn a_snapshot_is_recovered_from_another_server() {
    let (folder, elsewhere) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let (served, other) = (Served::start(folder.path()), Served::start(elsewhere.path()));
    fill(&served);
    let name = made(&served);
    let snapshot = fs::read(folder.path().join("snapshots/c").join(&name)).expect("there");
    let checksum = served.get(SNAPSHOTS)[0]["checksum"].as_str().expect("a checksum").to_owned();
    let form = |content: &[u8]| {
        let head = "--b\r\nContent-Disposition: form-data; name=\"snapshot\"; filename=\"x\"\r\n\r\n";
        [head.as_bytes(), content, b"\r\n--b--\r\n"].concat()
    };
    let upload = |parameters: &str, body: &[u8]| {
        let path = format!("{SNAPSHOTS}/upload?{parameters}");
        other.send("POST", &path, Some("multipart/form-data; boundary=b"), Some(body))
    };
    for (parameters, body, code) in [
        (format!("checksum={}", "0".repeat(64)), form(&snapshot), "snapshot_damaged"),
        (String::new(), form(&snapshot[..snapshot.len() / 2]), "snapshot_damaged"),
        (String::new(), form(&snapshot)[..snapshot.len()].to_vec(), "body_incomplete"),
        ("priority=mine".to_owned(), form(&snapshot), "invalid_value"),
    ] {
        let reply = upload(&parameters, &body);
        assert_eq!(reply.body["code"], code, "{}", reply.body);
        assert_eq!(other.get("/collections"), json!({"collections": []}));
    }
    let parameters = format!("wait=true&priority=snapshot&checksum={checksum}");
    assert_eq!(upload(&parameters, &form(&snapshot)).result(), true);
    assert_eq!(answer(&other, "c"), answer(&served, "c"));
    assert!(
        !elsewhere.path().join("snapshots/c").exists(),
        "what was uploaded is not kept, nor a folder for it"
    );
}

#[test]
fn a_snapshot_that_is_not_what_was_written_is_not_recovered() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = answer(&served, "c");
    let name = made(&served);
    let snapshots = folder.path().join("snapshots/c");
    let written = fs::read(snapshots.join(&name)).expect("there");
    let mut spoiled = written.clone();
    let middle = spoiled.len() / 2;
    spoiled[middle] ^= 1;
    let hostile = {
        // A link where a file should be, as the type of the first entry.
        let mut bytes = written.clone();
        bytes[156] = b'2';
        let sum: u32 = bytes[..512]
            .iter()
            .enumerate()
            .map(|(at, &byte)| u32::from(if (148..156).contains(&at) { b' ' } else { byte }))
            .sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes
    };
    let by_hand = [
        ("spoiled", &spoiled[..], true),
        ("cut", &written[..written.len() / 3], true),
        ("cut", &written[..written.len() / 3], false),
        ("hostile", &hostile[..], false),
        ("empty", b"", false),
        ("text", b"no tar at all", false),
    ];
    for (what, bytes, has_checksum) in by_hand {
        fs::write(snapshots.join("x.snapshot"), bytes).expect("written");
        _ = fs::remove_file(snapshots.join("x.snapshot.checksum"));
        if has_checksum {
            fs::copy(snapshots.join(format!("{name}.checksum")), snapshots.join("x.snapshot.checksum"))
                .expect("copied");
        }
        for into in ["c", "d"] {
            let reply = recover(&served, folder.path(), into, "x.snapshot", None);
            assert_eq!(
                (reply.status, &reply.body["code"]),
                (409, &json!("snapshot_damaged")),
                "{what}: {}",
                reply.body
            );
        }
        assert_eq!(answer(&served, "c"), before, "{what}");
        assert_eq!(served.get("/collections")["collections"].as_array().map(Vec::len), Some(1), "{what}");
    }
    let reply = recover(&served, folder.path(), "c", &name, Some(&"0".repeat(64)));
    assert_eq!((reply.status, &reply.body["code"]), (409, &json!("snapshot_damaged")), "{}", reply.body);
    // No folder of the attempts is left.
    assert_eq!(fs::read_dir(folder.path().join("collections")).expect("there").count(), 1);
}

/// Where the content of each file of an archive begins, and how long it is.
fn contents(archive: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while archive.get(at).is_some_and(|&first| first != 0) {
        let size = std::str::from_utf8(&archive[at + 124..at + 135]).expect("a header");
        let size = usize::from_str_radix(size, 8).expect("a size");
        found.push((at + 512, size));
        at += 512 + size.next_multiple_of(512);
    }
    found.retain(|&(_, size)| size > 0);
    found
}

#[test]
fn no_byte_of_any_file_of_a_snapshot_may_differ_and_no_file_may_be_new_or_missing() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = answer(&served, "c");
    let name = made(&served);
    let snapshots = folder.path().join("snapshots/c");
    let written = fs::read(snapshots.join(&name)).expect("there");
    let all = contents(&written);
    assert!(all.len() > 3, "a store, its options, a graph, the checksums: {all:?}");
    let mut cases = Vec::new();
    for &(begin, size) in &all {
        for at in [begin, begin + size / 2, begin + size - 1] {
            let mut bytes = written.clone();
            bytes[at] ^= 1;
            cases.push((format!("byte {at}"), bytes));
        }
        let end = begin + size.next_multiple_of(512);
        cases.push((format!("without {begin}"), [&written[..begin - 512], &written[end..]].concat()));
        // Its first file again, under another name.
        let mut copy = written[all[0].0 - 512..all[0].0 + all[0].1.next_multiple_of(512)].to_vec();
        copy[..9].copy_from_slice(b"junk.bin\0");
        copy[148..156].fill(b' ');
        let sum: u32 = copy[..512].iter().map(|&byte| u32::from(byte)).sum();
        copy[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        cases.push((format!("more after {begin}"), [&written[..end], &copy, &written[end..]].concat()));
    }
    for (what, bytes) in cases {
        fs::write(snapshots.join("x.snapshot"), bytes).expect("written");
        let reply = recover(&served, folder.path(), "c", "x.snapshot", None);
        assert_eq!(
            (reply.status, &reply.body["code"]),
            (409, &json!("snapshot_damaged")),
            "{what}: {}",
            reply.body
        );
    }
    assert_eq!(answer(&served, "c"), before);
    assert_eq!(recover(&served, folder.path(), "c", &name, None).result(), true);
}

#[test]
fn a_refused_upload_leaves_no_folder() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let form =
        b"--x\r\ncontent-disposition: form-data; name=\"snapshot\"; filename=\"a\"\r\n\r\nany\r\n--x--\r\n";
    let path = "/collections/none/snapshots/upload";
    let reply = served.send("POST", path, Some("multipart/form-data; boundary=x"), Some(form));
    assert_eq!((reply.status, &reply.body["code"]), (409, &json!("snapshot_damaged")), "{}", reply.body);
    assert!(!folder.path().join("snapshots/none").exists());
}
