//! Many clients at once, and a server that comes back.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::{Server, ServerConfig};
use dehub_index::Catalogue;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served, config};

const BATCHES: u64 = 30;
const BATCH: u64 = 20;

/// A point on the unit circle, each id another one.
fn point(id: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "ids are small")]
    let angle = id as f64 * 0.1;
    json!({"id": id, "vector": [angle.cos(), angle.sin()], "payload": {"id": id}})
}

fn create(client: &Client, graph_from_kilobytes: usize) {
    let graph = json!({"m": 8, "ef_construct": 50, "full_scan_threshold": graph_from_kilobytes});
    let config = json!({"vectors": {"size": 2, "distance": "Dot"}, "hnsw_config": graph});
    client.did("PUT", "/collections/c", &config);
}

fn upsert(client: &Client, ids: std::ops::Range<u64>) -> Value {
    let points: Vec<_> = ids.map(point).collect();
    client.did("PUT", "/collections/c/points", &json!({"points": points}))
}

/// Asks until told to stop; every answer is whole and at least as new as the one before.
fn read_on(client: &Client, stop: &AtomicBool) -> usize {
    let (mut answers, mut newest) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let query = json!({"query": [1, 0], "limit": 5, "with_payload": true});
        let answer = client.did("POST", "/collections/c/points/query", &query);
        let sequence = answer["sequence"].as_u64().expect("a number");
        assert!(sequence >= newest, "{sequence} after {newest}");
        newest = sequence;
        let points = answer["points"].as_array().expect("points");
        assert_eq!(points.len(), 5);
        assert!(points.iter().all(|point| point["payload"]["id"] == point["id"]));
        answers += 1;
    }
    answers
}

#[test]
fn readers_go_on_while_a_writer_writes() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, 100_000);
    upsert(&served, 0..BATCH);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let client = served.client();
                let stop = &stop;
                scope.spawn(move || read_on(&client, stop))
            })
            .collect();
        for batch in 1..BATCHES {
            let written = upsert(&served, batch * BATCH..(batch + 1) * BATCH);
            assert_eq!(written["operation_id"], batch + 1);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().expect("no wrong answer") > 0));
    });
    assert_eq!(served.get("/collections/c")["points_count"], BATCHES * BATCH);
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempdir().expect("a folder");
    let started = Instant::now();
    for round in 0..3 {
        let served = Served::start(folder.path());
        if round == 0 {
            create(&served, 100_000);
        }
        assert_eq!(served.get("/collections/c")["points_count"], round * BATCH);
        assert_eq!(upsert(&served, round * BATCH..(round + 1) * BATCH)["added"], BATCH);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "an idle client does not hold the server up");
    let served = Served::start(folder.path());
    let ids: Vec<u64> = (0..3 * BATCH).collect();
    let found = served.did("POST", "/collections/c/points", &json!({"ids": ids}));
    let payloads: Vec<_> =
        found.as_array().expect("points").iter().map(|point| &point["payload"]["id"]).collect();
    assert_eq!(payloads, ids.iter().map(|&id| json!(id)).collect::<Vec<_>>().iter().collect::<Vec<_>>());
}

#[test]
fn a_graph_is_built_in_the_background_when_it_is_due() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, 4);
    upsert(&served, 0..600);
    let deadline = Instant::now() + Duration::from_secs(30);
    while served.get("/collections/c")["graph"]["nodes"].is_null() {
        assert!(Instant::now() < deadline, "no graph yet: {}", served.get("/collections/c"));
        thread::sleep(Duration::from_millis(20));
    }
    let query = json!({"query": [1, 0], "limit": 3, "params": {"hnsw_ef": 64}});
    let answer = served.did("POST", "/collections/c/points/query", &query);
    assert_eq!(answer["exact"], false);
    assert_eq!(answer["points"][0]["id"], 0);
}

#[test]
fn a_change_of_the_quantization_freezes_the_graph_anew() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, 0);
    upsert(&served, 0..600);
    let quantized = |kind: &str| {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let graph = served.get("/collections/c")["graph"].clone();
            if graph["due"] == false && graph["segments"][0]["quantization"] == kind {
                return graph;
            }
            assert!(Instant::now() < deadline, "not {kind}: {graph}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(quantized("reduced")["segments"][0]["vector_bytes"], 64);
    for kind in ["int8", "bf16", "f32"] {
        let body = json!({"hnsw_config": {"quantization": kind}});
        assert_eq!(served.did("PATCH", "/collections/c", &body), true);
        let graph = quantized(kind);
        assert_eq!((&graph["segments"][0]["points"], &graph["delta"]), (&json!(600), &json!(0)));
        assert_eq!(served.get("/collections/c")["config"]["hnsw_config"]["quantization"], kind);
        let query = json!({"query": [1, 0], "limit": 3});
        assert_eq!(served.did("POST", "/collections/c/points/query", &query)["points"][0]["id"], 0);
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let folder = tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it has one");
    let config = ServerConfig { port: address.port(), ..config() };
    let refused = Server::bind(Arc::new(Catalogue::new(folder.path())), &config);
    let error = refused.err().expect("the port is taken").to_string();
    assert!(error.starts_with(&format!("{address} is in use: stop")), "{error}");
}

#[test]
fn a_graph_that_was_lost_is_built_again_when_the_collection_is_asked() {
    let folder = tempdir().expect("a folder");
    let has_graph = |client: &Client| client.get("/collections/c")["graph"]["nodes"] == 60;
    let wait_for_graph = |client: &Client| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !has_graph(client) {
            assert!(Instant::now() < deadline, "the graph is built in the background");
            thread::sleep(Duration::from_millis(10));
        }
    };
    let served = Served::start(folder.path());
    create(&served, 0);
    upsert(&served, 0..60);
    wait_for_graph(&served);
    drop(served);
    std::fs::remove_file(folder.path().join("collections/c/graph-0-60-reduced.bin")).expect("it is there");
    let served = Served::start(folder.path());
    // By a walk if there is a graph: what is calibrated decides otherwise, by how long each way takes.
    let query = json!({"query": [1, 0], "limit": 5, "params": {"hnsw_ef": 16}});
    served.did("POST", "/collections/c/points/query", &query);
    wait_for_graph(&served);
    assert_eq!(served.did("POST", "/collections/c/points/query", &query)["exact"], false);
}
