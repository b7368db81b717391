//! Backups and restores as jobs.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::{ServeError, Server, ServerConfig};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served, config};

fn with_backups(place: &Path) -> ServerConfig {
    ServerConfig { backups: Some(place.to_str().expect("UTF-8").to_owned()), ..config() }
}

fn fill(client: &Client, collection: &str) {
    let path = format!("/collections/{collection}");
    client.did("PUT", &path, &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let point = |id: u32| json!({"id": id, "vector": [f64::from(id).cos(), f64::from(id).sin()]});
    let points: Vec<Value> = (0..100).map(point).collect();
    client.did("PUT", &format!("{path}/points"), &json!({"points": points}));
}

/// Begins a job, and gives it when it has ended.
fn run(client: &Client, path: &str, body: &Value) -> Value {
    let begun = client.json("POST", path, body);
    assert_eq!(begun.status, 202, "{}", begun.body);
    let job = begun.body["result"]["job"].as_u64().expect("a number");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = client.get(&format!("/jobs/{job}"));
        if told["state"] != "running" {
            return told;
        }
        assert!(Instant::now() < deadline, "it does not end: {told}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the server says that it is ready, without a request for any collection.
fn until_ready(client: &Client) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.send("GET", "/readyz", None, None).status != 200 {
        assert!(Instant::now() < deadline, "what was restored is not opened");
        thread::sleep(Duration::from_millis(5));
    }
}

fn found(client: &Client) -> Value {
    client.did("POST", "/collections/c/points/query", &json!({"query": [0.6, 0.8], "limit": 10}))
}

#[test]
fn a_collection_is_backed_up_and_restored_while_it_is_served() {
    let (folder, place) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let served = Served::start_with(folder.path(), &with_backups(place.path()));
    fill(&served, "c");
    let before = found(&served);
    let told = run(&served, "/collections/c/backups", &json!({}));
    assert_eq!(
        (&told["state"], &told["kind"], &told["name"]),
        (&json!("done"), &json!("backup"), &json!("c"))
    );
    let backup = told["result"]["backup"].clone();
    assert_eq!((&backup["points"], &told["done"]), (&json!(100), &told["total"]));
    served.did("POST", "/collections/c/points/delete", &json!({"points": (0..60).collect::<Vec<u32>>()}));
    let second = run(&served, "/collections/c/backups", &json!({}))["result"]["backup"].clone();
    assert_eq!(served.get("/collections/c/backups"), json!({"backups": [backup, second], "damaged": []}));

    let refused = served.json("POST", "/collections/c/restore", &json!({"backup": backup["id"]}));
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("collection_exists")));
    let told = run(&served, "/collections/c/restore", &json!({"backup": backup["id"], "replace": true}));
    assert_eq!((&told["state"], &told["kind"]), (&json!("done"), &json!("restore")), "{told}");
    assert_eq!((&told["result"]["points"], &told["result"]["replaced"]), (&json!(100), &json!(true)));
    assert_eq!(found(&served), before);
    served.delete("/collections/c");
    run(&served, "/collections/c/restore", &json!({}));
    until_ready(&served);
    assert_eq!(served.get("/collections/c")["points_count"], 40, "the newest");
    let id = backup["id"].as_str().expect("an id");
    let removed = served.delete(&format!("/collections/c/backups/{id}"));
    assert_eq!(removed["backups"], json!([id]));
    assert_eq!(served.get("/collections/c/backups")["backups"], json!([second]));
}

#[test]
fn what_is_wrong_with_a_backup_is_told_by_its_code() {
    let (folder, place) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let served = Served::start_with(folder.path(), &with_backups(place.path()));
    fill(&served, "c");
    let backup = run(&served, "/collections/c/backups", &json!({}))["result"]["backup"]["id"].clone();
    let other = "20000101T000000Z-1";
    for (method, path, body, status, code) in [
        ("POST", "/collections/z/backups", json!({}), 404, "unknown_collection"),
        ("POST", "/collections/z/restore", json!({}), 404, "unknown_backup"),
        ("POST", "/collections/c/restore", json!({"backup": other, "replace": true}), 404, "unknown_backup"),
        ("POST", "/collections/c/restore", json!({"backup": "../x"}), 422, "invalid_value"),
        ("POST", "/collections/c/restore", json!({"path": "/etc"}), 422, "unknown_field"),
        ("POST", "/collections/c/backups", json!({"path": "/etc"}), 422, "unknown_field"),
        ("DELETE", "/collections/c/backups/20000101T000000Z-1", json!({}), 404, "unknown_backup"),
        ("DELETE", "/collections/c/backups/x", json!({}), 422, "invalid_value"),
        ("PUT", "/collections/c/backups", json!({}), 405, "wrong_method"),
    ] {
        let reply = served.json(method, path, &body);
        assert_eq!(
            (reply.status, &reply.body["code"]),
            (status, &json!(code)),
            "{method} {path}: {}",
            reply.body
        );
        let place = place.path().to_str().expect("UTF-8");
        assert!(!reply.body.to_string().contains(place), "no client is told where: {}", reply.body);
    }
    for object in std::fs::read_dir(place.path().join("c/objects")).expect("readable").flatten() {
        std::fs::remove_file(object.path()).expect("there");
    }
    let before = found(&served);
    let told = run(&served, "/collections/c/restore", &json!({"backup": backup, "replace": true}));
    assert_eq!(
        (&told["state"], &told["problem"]["code"]),
        (&json!("failed"), &json!("backup_damaged")),
        "{told}"
    );
    assert_eq!(found(&served), before);
}

#[test]
fn a_server_without_a_place_for_backups_says_so() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, "c");
    for (method, path) in [
        ("POST", "/collections/c/backups"),
        ("GET", "/collections/c/backups"),
        ("POST", "/collections/c/restore"),
        ("DELETE", "/collections/c/backups/20000101T000000Z-1"),
    ] {
        let reply = match method {
            "POST" => served.json(method, path, &json!({})),
            _ => served.send(method, path, None, None),
        };
        assert_eq!((reply.status, &reply.body["code"]), (409, &json!("no_backups")), "{method} {path}");
    }
    let config = ServerConfig { backups: Some("ftp://there".to_owned()), ..config() };
    let catalogue = dehub_index::Catalogue::new(folder.path());
    let refused = Server::bind(std::sync::Arc::new(catalogue), &config).err().expect("it is no place");
    assert!(matches!(refused, ServeError::Backups(_)), "{refused}");
}
