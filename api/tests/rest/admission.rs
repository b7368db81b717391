//! Under more load than it takes, the server says so, and says how it is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use dehub_api::{Limits, ServerConfig};
use serde_json::json;
use tempfile::tempdir;

use crate::client::{Served, config};

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
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server ends the connection");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}
