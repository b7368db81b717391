//! Under more load than it takes, the server says so, and says how it is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::{Limits, Server, ServerConfig};
use dehub_index::Catalogue;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Served, config, numbers};

fn limited(limits: Limits) -> ServerConfig {
    ServerConfig { limits, ..config() }
}

#[test]
fn the_limits_are_told_and_kept() {
    let folder = tempdir().expect("a folder");
    let limits = Limits { requests: 7, timeout: Duration::from_millis(2500), ..Limits::default() };
    let served = Served::start_with(folder.path(), &limited(limits));
    let told = served.send("GET", "/", None, None).body;
    assert_eq!(told["limits"]["requests_at_a_time"], 7);
    assert_eq!(told["limits"]["timeout_seconds"], 2.5);
    let zero = limited(Limits { requests: 0, ..Limits::default() });
    assert_eq!(zero.check().len(), 1, "a server that takes nothing is none");
}

#[test]
fn a_request_whose_time_passed_while_it_waited_is_not_run() {
    let folder = tempdir().expect("a folder");
    // Less than any request needs to get to a thread.
    let limits = Limits { timeout: Duration::from_nanos(1), ..Limits::default() };
    let served = Served::start_with(folder.path(), &limited(limits));
    let collection = json!({"vectors": {"size": 2, "distance": "Dot"}});
    let late = served.json("PUT", "/collections/x", &collection);
    assert_eq!((late.status, late.retry_after.as_deref()), (503, Some("1")), "{}", late.body);
    assert_eq!(late.body["code"], "overloaded");
    assert!(late.body["detail"].as_str().is_some_and(|text| text.contains("was not run")), "{}", late.body);
    let names = served.send("GET", "/collections?timeout=60", None, None).result();
    assert_eq!(names, json!({"collections": []}), "it was not run");
    served.did("PUT", "/collections/x?timeout=60", &collection);
    for path in ["/", "/healthz", "/livez", "/readyz"] {
        assert_eq!(served.send("GET", path, None, None).status, 200, "{path} needs no thread of the engine");
    }
    assert_eq!(served.text("/metrics").0, 200);
}

#[test]
fn a_client_that_does_not_finish_the_head_is_cut_off() {
    let folder = tempdir().expect("a folder");
    let limits = Limits { head_timeout: Duration::from_millis(300), ..Limits::default() };
    let served = Served::start_with(folder.path(), &limited(limits));
    let mut stream = TcpStream::connect(served.address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a valid timeout");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server ends the connection");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Waits until `is_so`; a test that waits forever is stopped from outside.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn with_every_thread_busy_the_rest_is_refused_and_health_and_metrics_answer() {
    let folder = tempdir().expect("a folder");
    let catalogue = Arc::new(Catalogue::new(folder.path()));
    let limits = Limits { requests: 2, engine_threads: 1, ..Limits::default() };
    let config = ServerConfig { workers: 1, ..limited(limits) };
    let served = Served::start_on(Arc::clone(&catalogue), &config);
    let collection = json!({"vectors": {"size": 2, "distance": "Dot"}});
    served.did("PUT", "/collections/x", &collection);
    let name = "x".parse().expect("a name");
    let (held, is_held) = channel();
    let (release, released) = channel::<()>();
    // Counting the one that asks.
    let in_flight = |count: usize| {
        let line = format!("requests_in_flight {count}\n");
        eventually(&line, || served.text("/metrics").2.contains(&line));
    };
    let (closing, name) = (&catalogue, &name);
    thread::scope(|scope| {
        let released = released;
        // Whoever wants the collection's place waits for us.
        let holder = scope.spawn(move || {
            let hold = |_: &Path| {
                held.send(()).expect("the test listens");
                _ = released.recv();
            };
            closing.with_closed(name, hold).expect("closed");
        });
        is_held.recv().expect("it is closed");
        let deleting = scope.spawn(|| served.send("DELETE", "/collections/x", None, None));
        in_flight(2);
        let queued = scope.spawn(|| served.send("GET", "/collections?timeout=0.001", None, None));
        in_flight(3);
        let refused = served.send("GET", "/collections", None, None);
        assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")), "{}", refused.body);
        assert_eq!(refused.body["errors"][0]["wanted"], "at most 2 requests at a time");
        for path in ["/", "/healthz", "/livez"] {
            assert_eq!(served.send("GET", path, None, None).status, 200, "{path}");
        }
        assert_eq!(
            served.send("GET", "/readyz", None, None).status,
            503,
            "it answers: a collection is closed"
        );
        drop(release);
        holder.join().expect("it lets go");
        assert_eq!(deleting.join().expect("an answer").status, 200);
        let queued = queued.join().expect("an answer");
        let detail = queued.body["detail"].as_str().unwrap_or_default();
        assert!(queued.status == 503 && detail.contains("was not run"), "{}", queued.body);
    });
    assert_eq!(served.get("/collections"), json!({"collections": []}));
    drop(catalogue);
}

#[test]
fn a_server_that_was_asked_to_stop_is_not_ready() {
    let folder = tempdir().expect("a folder");
    let limits = Limits { stop_timeout: Duration::from_secs(2), ..Limits::default() };
    let server =
        Server::bind(Arc::new(Catalogue::new(folder.path())), &limited(limits)).expect("a free port");
    let address = server.address();
    let stop = server.stop_handle();
    let serving = thread::spawn(move || server.run());
    // A connection that is there when the server is asked to stop, and has a request under way.
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a valid timeout");
    let head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nhost: localhost\r\n";
    stream.write_all(head).expect("sent");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    stop.stop();
    _ = stream.write_all(b"connection: close\r\n\r\n");
    let mut rest = String::new();
    _ = stream.read_to_string(&mut rest);
    // The server may have closed the connection before the second request was whole; it never says that it is ready.
    assert!(!rest.contains("HTTP/1.1 200"), "{rest}");
    serving.join().expect("no panic").expect("it ends well");
}

#[test]
fn a_search_is_ended_when_its_time_is_up() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/x", &json!({"vectors": {"size": 64, "distance": "Dot"}}));
    let vectors: Vec<Vec<f64>> = numbers(1, 4000 * 64).chunks(64).map(<[f64]>::to_vec).collect();
    let ids: Vec<usize> = (0..vectors.len()).collect();
    served.did("PUT", "/collections/x/points", &json!({"batch": {"ids": ids, "vectors": vectors}}));
    let search = |query: &Vec<f64>| json!({"query": query, "limit": 100, "params": {"exact": true}});
    let searches: Vec<Value> = vectors[..100].iter().map(search).collect();
    let batch = json!({"searches": searches});
    // From less than it takes to get a thread to more than the searches need.
    let timeouts = (0..40).map(|power| 1e-6 * 1.5_f64.powi(power));
    let codes: Vec<(u16, String)> = timeouts
        .map(|timeout| {
            let path = format!("/collections/x/points/query/batch?timeout={timeout}");
            let reply = served.json("POST", &path, &batch);
            (reply.status, reply.body["code"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let known = [(503, "overloaded"), (408, "search_timeout"), (200, "")];
    for (status, code) in &codes {
        assert!(known.contains(&(*status, code.as_str())), "{codes:?}");
    }
    assert!(known.iter().all(|known| codes.iter().any(|(status, _)| *status == known.0)), "{codes:?}");
}
