//! What a server tells about its health, and how it opens and mends collections.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::Catalogue;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, config};

fn create(client: &Client, name: &str) {
    let body = json!({"vectors": {"size": 2, "distance": "Dot"}});
    assert_eq!(client.did("PUT", &format!("/collections/{name}"), &body), true);
    let points = json!({"points": [{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}]});
    client.did("PUT", &format!("/collections/{name}/points"), &points);
}

fn ready(client: &Client) -> Reply {
    client.send("GET", "/readyz", None, None)
}

/// What `/readyz` says once it says `status`.
fn until(client: &Client, status: &str) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let reply = ready(client);
        if reply.body["status"] == status {
            return reply;
        }
        assert!(Instant::now() < deadline, "not {status}: {}", reply.body);
        thread::sleep(Duration::from_millis(10));
    }
}

/// Spoils the store of a collection.
fn spoil(collection: &Path) {
    let store = fs::read_dir(collection).expect("readable").flatten().map(|entry| entry.path());
    let store = store.into_iter().find(|path| path.join("CURRENT").is_file()).expect("a store");
    fs::write(store.join("CURRENT"), "nonsense").expect("writable");
}

#[test]
fn a_server_is_ready_when_every_collection_is_open() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    assert_eq!(until(&served, "ok").status, 200);
    for name in ["a", "b", "c"] {
        create(&served, name);
    }
    drop(served);
    // Without a request that names one.
    let served = Served::start(folder.path());
    let reply = until(&served, "ok");
    let open = json!({"state": "open", "share": 1.0});
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body, json!({"status": "ok", "collections": {"a": open, "b": open, "c": open}}));
    for path in ["/livez", "/healthz"] {
        let (status, kind, text) = served.text(path);
        assert_eq!((status, text.as_str()), (200, "healthz check passed"));
        assert_eq!(kind, "text/plain; charset=utf-8");
    }
}

#[test]
fn a_damaged_collection_is_named_with_what_to_do_and_the_others_serve() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "good");
    create(&served, "bad");
    drop(served);
    spoil(&folder.path().join("collections/bad"));
    let served = Served::start(folder.path());
    let reply = until(&served, "degraded");
    assert_eq!(reply.status, 503);
    let bad = &reply.body["collections"]["bad"];
    assert_eq!(bad["state"], "failed");
    assert!(bad["error"].as_str().is_some_and(|error| error.contains("collections/bad/store-")), "{bad}");
    let refused = served.send("GET", "/collections/bad", None, None);
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("collection_damaged")));
    let detail = refused.body["detail"].as_str().expect("text");
    assert!(detail.contains("POST /collections/bad/restore"), "{detail}");
    assert!(
        detail.contains("store-") && detail.ends_with("dehub restore bad REPOSITORY --replace"),
        "{detail}"
    );
    assert_eq!(served.get("/collections/good")["points_count"], 2);
    assert_eq!(served.delete("/collections/bad"), true);
    assert_eq!(until(&served, "ok").status, 200);
}

#[test]
fn a_request_waits_for_a_closed_collection_as_long_as_it_says() {
    let folder = tempdir().expect("a folder");
    let catalogue = Arc::new(Catalogue::new(folder.path()));
    let served = Served::start_on(Arc::clone(&catalogue), &config());
    create(&served, "a");
    create(&served, "b");
    let name = "a".parse().expect("a name");
    let waited = catalogue.with_closed(&name, |_| {
        let query = json!({"query": [1, 0], "limit": 1});
        let late = served.json("POST", "/collections/a/points/query?timeout=0.05", &query);
        assert_eq!((late.status, &late.body["code"]), (503, &json!("collection_not_open")));
        assert_eq!(late.retry_after.as_deref(), Some("1"));
        assert_eq!(late.body["errors"][0]["found"], "closing 0.000");
        let state = ready(&served);
        assert_eq!((state.status, &state.body["status"]), (503, &json!("opening")));
        assert_eq!(state.body["collections"]["a"], json!({"state": "closing", "share": 0.0}));
        // More than the engine has threads: those who wait take none, and others are answered.
        let waiting: Vec<_> = (0..40)
            .map(|_| {
                let client = served.client();
                thread::spawn(move || client.get("/collections/a")["points_count"].clone())
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(served.get("/collections/b")["points_count"], 2);
        assert_eq!(served.get("/collections/a/exists")["exists"], true);
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        waiting
    });
    for waiting in waited.expect("nobody holds it") {
        assert_eq!(waiting.join().expect("no panic"), 2);
    }
    drop(catalogue);
}

#[test]
fn a_second_server_on_a_data_directory_is_refused() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let second = dehub_api::Server::bind(Arc::new(Catalogue::new(folder.path())), &config());
    let error = second.err().expect("it is served").to_string();
    assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
    assert_eq!(until(&served, "ok").status, 200);
}

/// The samples of a text in the form of Prometheus: name with labels, and number.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, number) = line.rsplit_once(' ').expect("a name and a number");
        (name.to_owned(), number.parse().expect("a number"))
    };
    let samples: Vec<_> = lines.map(sample).collect();
    let count = samples.len();
    let samples: BTreeMap<_, _> = samples.into_iter().collect();
    assert_eq!(samples.len(), count, "each once: {text}");
    samples
}

#[test]
fn measurements_tell_of_collections_and_requests_and_of_nothing_private() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "c");
    for id in 100..103 {
        let reply = served.send("GET", &format!("/collections/c/points/{id}"), None, None);
        assert_eq!(reply.status, 404);
    }
    served.send("GET", "/nothing/secret", None, None);
    served.send("GET", "/collections/unknown", None, None);
    let (status, kind, text) = served.text("/metrics");
    assert_eq!(status, 200);
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let samples = samples(&text);
    let sequence = served.get("/collections/c")["sequence"].as_f64().expect("a number");
    let wanted = [
        (format!("app_info{{name=\"dehub\",version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
        ("collection_points{collection=\"c\"}".to_owned(), 2.0),
        ("collection_sequence{collection=\"c\"}".to_owned(), sequence),
        ("collection_writer_failed{collection=\"c\"}".to_owned(), 0.0),
        ("collection_writer_waiting{collection=\"c\"}".to_owned(), 0.0),
        ("collection_graph_delta{collection=\"c\"}".to_owned(), 0.0),
        ("collection_graph_dead{collection=\"c\"}".to_owned(), 0.0),
        ("collection_graph_nodes{collection=\"c\"}".to_owned(), 0.0),
        ("collection_stale_corrections{collection=\"c\"}".to_owned(), 0.0),
        ("collections_opening".to_owned(), 0.0),
        ("collections_failed".to_owned(), 0.0),
        ("requests_in_flight".to_owned(), 1.0),
        (request("PUT", "/collections/{collection}", "200"), 1.0),
        (request("PUT", "/collections/{collection}/points", "200"), 1.0),
        (request("GET", "/collections/{collection}/points/{id}", "404"), 3.0),
        (request("GET", "/collections/{collection}", "404"), 1.0),
        (request("GET", "none", "404"), 1.0),
    ];
    for (name, number) in wanted {
        assert_eq!(samples.get(&name), Some(&number), "{name}: {text}");
    }
    for counted in ["commits_total", "syncs_total", "bytes_on_disk"] {
        let name = format!("collection_{counted}{{collection=\"c\"}}");
        assert!(samples.get(&name).is_some_and(|number| *number > 0.0), "{name}: {text}");
    }
    let count = "rest_responses_duration_seconds_count{method=\"GET\",endpoint=\"/collections/{collection}/points/{id}\"}";
    assert_eq!(samples.get(count), Some(&3.0), "{text}");
    for private in ["secret", "unknown\"", "101", folder.path().to_str().expect("UTF-8")] {
        assert!(samples.keys().all(|name| !name.contains(private)), "{private}: {text}");
    }
}

fn request(method: &str, route: &str, status: &str) -> String {
    format!("rest_responses_total{{method=\"{method}\",endpoint=\"{route}\",status=\"{status}\"}}")
}

#[test]
fn a_description_tells_how_writes_fare() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "c");
    let writer = served.get("/collections/c")["writer"].clone();
    assert_eq!((&writer["failure"], &writer["waiting"]), (&Value::Null, &json!(0)));
    assert!(writer["waiting_max"].as_u64().is_some_and(|most| most > 0), "{writer}");
    assert!(writer["commits"].as_u64().is_some_and(|commits| commits > 0), "{writer}");
}

#[test]
fn a_description_names_the_format_and_the_versions_that_wrote_it() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "c");
    let version = env!("CARGO_PKG_VERSION");
    let wanted = json!({"number": 5, "made_by": version, "written_by": version});
    assert_eq!(served.get("/collections/c")["format"], wanted);
}

#[test]
fn durability_is_chosen_with_the_collection_and_changed_later() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let body =
        |durability: &str| json!({"vectors": {"size": 2, "distance": "Dot"}, "durability": durability});
    served.did("PUT", "/collections/strict", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    served.did("PUT", "/collections/relaxed", &body("relaxed"));
    let durability = |name: &str| served.get(&format!("/collections/{name}"))["writer"]["durability"].clone();
    assert_eq!((durability("strict"), durability("relaxed")), (json!("strict"), json!("relaxed")));
    assert_eq!(served.did("PATCH", "/collections/strict", &json!({"durability": "relaxed"})), true);
    assert_eq!(served.did("PATCH", "/collections/relaxed", &json!({"durability": "strict"})), true);
    assert_eq!((durability("strict"), durability("relaxed")), (json!("relaxed"), json!("strict")));
    let refused = [
        served.json("PUT", "/collections/c", &body("lax")),
        served.json("PATCH", "/collections/strict", &json!({"durability": "lax"})),
        served.json("PATCH", "/collections/strict", &json!({})),
    ];
    let found = refused.map(|reply| {
        let pointer = reply.body["errors"][0]["pointer"].as_str().expect("a place").to_owned();
        (reply.status, reply.body["code"].as_str().expect("a code").to_owned(), pointer)
    });
    let value = (422, "invalid_value".to_owned(), "/durability".to_owned());
    assert_eq!(found, [value.clone(), value, (422, "missing_field".to_owned(), String::new())]);
    drop(served);
    let served = Served::start(folder.path());
    assert_eq!(served.get("/collections/strict")["writer"]["durability"], "relaxed");
}

#[test]
fn a_collection_whose_folder_was_taken_away_is_told_and_still_read() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "a");
    create(&served, "b");
    let (path, away) = (folder.path().join("collections/a"), folder.path().join("away"));
    fs::rename(&path, &away).expect("writable");
    let reply = until(&served, "degraded");
    assert_eq!((reply.status, &reply.body["collections"]["b"]["state"]), (503, &json!("open")));
    let error = reply.body["collections"]["a"]["error"].as_str().expect("an error");
    assert!(error.contains("not there any more"), "{error}");
    let points = json!({"points": [{"id": 3, "vector": [1, 1]}]});
    let refused = served.json("PUT", "/collections/a/points", &points);
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("writer_failed")), "{}", refused.body);
    let found = served.json("POST", "/collections/a/points/query", &json!({"query": [1, 0], "limit": 2}));
    assert_eq!(found.status, 200, "{}", found.body);
    fs::rename(&away, &path).expect("writable");
    until(&served, "ok");
    served.did("PUT", "/collections/a/points", &points);
}
