//! Bodies and clients that mean harm, or break: told so, nothing stored, memory bounded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dehub_api::{Server, ServerConfig};
use dehub_index::Catalogue;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served, config};
use crate::raw::{self, Answer, answer, connect, head};

const POINTS: &str = "/collections/c/points";
const JSON: (&str, &str) = ("content-type", "application/json");

/// Set for the process that serves, to the folder of the data.
const FOLDER: &str = "DEHUB_TEST_HOSTILE_FOLDER";

/// A limit that a body may reach without the memory being much.
const LIMIT: usize = 8 * 1024 * 1024;

/// How much more a server may use than it did before. Bodies of the largest size are held eight at a time, but here
/// they come one by one: one as it is, as its buffer grows, and decoded.
const GROWTH_MAX: usize = 160 * 1024 * 1024;

/// A server in a process of its own, so that its memory can be measured.
struct Alone {
    child: Child,
    /// Kept, so that what the other process says has somewhere to go.
    _out: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Alone {
    fn start(folder: &Path) -> Alone {
        let test = "hostile::hostile_bodies_are_refused_within_bounded_memory";
        let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", test, "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test starts itself");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let address = out.by_ref().lines().map(|line| line.expect("text")).find_map(|line| {
            let (_, address) = line.split_once("listens on ")?;
            address.parse().ok()
        });
        Alone { child, _out: out, address: address.expect("the server says where it listens") }
    }

    /// The most memory it has used, in bytes.
    fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        1024 * line.split_whitespace().next().expect("a number").parse::<usize>().expect("a number")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends with its input");
    }
}

/// What the other process does: it serves until its input ends.
#[expect(clippy::print_stdout, reason = "the parent reads where this process listens")]
fn serve(folder: &str) {
    let config = ServerConfig { body_limit_bytes: LIMIT, ..config() };
    let server = Server::bind(Arc::new(Catalogue::new(Path::new(folder))), &config).expect("a port is free");
    println!("listens on {}", server.address());
    let stop = server.stop_handle();
    thread::spawn(move || {
        _ = std::io::stdin().read(&mut [0]);
        stop.stop();
    });
    server.run().expect("serving ends well");
}

fn fill(client: &Client) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": 3, "distance": "Cosine"}}));
    client.did("PUT", POINTS, &json!({"points": [{"id": 1, "vector": [1, 0, 0]}]}));
}

fn state(client: &Client) -> Value {
    let mut state = client.get("/collections/c");
    state["bytes_on_disk"] = Value::Null;
    state
}

#[track_caller]
fn check(answer: &Answer, what: &str, status: u16, code: &str, pointer: Option<&str>) {
    let body = answer.json();
    assert_eq!((answer.status, body["code"].as_str()), (status, Some(code)), "{what}: {body}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    assert_eq!(body["errors"][0]["pointer"].as_str(), pointer, "{what}: {body}");
}

/// Points of which one coordinate is null.
fn null_among(points: usize, bad: usize) -> String {
    let point = |id: usize| {
        let middle = if id == bad { "null".to_owned() } else { format!("{}.5", id % 7) };
        format!("{{\"id\":{id},\"vector\":[1,{middle},{}]}}", id % 5)
    };
    (0..points).map(point).collect::<Vec<_>>().join(",")
}

fn gzip_of_zeros(megabytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1024 * 1024];
    (0..megabytes).for_each(|_| encoder.write_all(&zeros).expect("packed"));
    encoder.finish().expect("packed")
}

fn zstd_of_zeros(megabytes: usize) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    let zeros = vec![0; 1024 * 1024];
    (0..megabytes).for_each(|_| encoder.write_all(&zeros).expect("packed"));
    encoder.finish().expect("packed")
}

/// A body, how it is sent, and the refusal it must meet.
struct Case {
    what: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    pointer: Option<&'static str>,
}

fn case(
    what: &'static str,
    headers: &[(&'static str, &'static str)],
    body: impl Into<Vec<u8>>,
    (status, code, pointer): (u16, &'static str, Option<&'static str>),
) -> Case {
    Case { what, headers: headers.to_vec(), body: body.into(), status, code, pointer }
}

fn cases() -> Vec<Case> {
    let sample = |name: &str| {
        let path = format!("{}/../testdata/bodies/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).expect("a sample")
    };
    let lines = ("content-type", "application/x-ndjson");
    let (arrow, parquet) = (
        ("content-type", "application/vnd.apache.arrow.stream"),
        ("content-type", "application/vnd.apache.parquet"),
    );
    let (gzip, zstd) = (("content-encoding", "gzip"), ("content-encoding", "zstd"));
    let points = format!("{{\"points\":[{}]}}", null_among(5000, 4321));
    let too_large = (413, "body_too_large", None);
    vec![
        case("40 MB", &[JSON], vec![b' '; 40 * 1024 * 1024], too_large),
        case("10^5 brackets", &[JSON], "[".repeat(100_000), (400, "too_deep", Some(""))),
        case("10^5 objects", &[JSON], "{\"a\":".repeat(100_000), (400, "too_deep", Some(""))),
        case("a gzip bomb", &[JSON, gzip], gzip_of_zeros(1024), too_large),
        case("a zstd bomb", &[JSON, zstd], zstd_of_zeros(1024), too_large),
        case("a gzip bomb of lines", &[lines, gzip], gzip_of_zeros(1024), too_large),
        case("a zstd bomb of lines", &[lines, zstd], zstd_of_zeros(1024), too_large),
        case("an Arrow bomb", &[arrow], sample("bomb.arrow"), (413, "body_too_large", Some("/rows/1"))),
        case("texts", &[parquet], sample("bomb_text.parquet"), (413, "body_too_large", Some("/rows/1"))),
        case("vectors", &[parquet], sample("bomb_vector.parquet"), (413, "body_too_large", Some("/rows/0"))),
        case(
            "one line of 40 MB",
            &[lines],
            vec![b'1'; 40 * 1024 * 1024],
            (413, "body_too_large", Some("/rows/0")),
        ),
        case("only line ends", &[lines], vec![b'\n'; 40 * 1024 * 1024], (422, "empty_batch", Some(""))),
        case("a null", &[JSON], points, (422, "wrong_type", Some("/points/4321/vector/1"))),
        case(
            "40 MB of text",
            &[("content-type", "text/plain")],
            vec![b'x'; 40 * 1024 * 1024],
            (415, "wrong_content_type", None),
        ),
        case(
            "an encoding",
            &[JSON, ("content-encoding", "br")],
            vec![b'x'; 1024 * 1024],
            (415, "wrong_content_encoding", None),
        ),
        case("rubbish", &[JSON, gzip], vec![b'x'; 1024 * 1024], (400, "bad_compression", None)),
    ]
}

#[test]
fn hostile_bodies_are_refused_within_bounded_memory() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return serve(&folder);
    }
    let folder = tempdir().expect("a folder");
    let alone = Alone::start(folder.path());
    let client = Client::new(alone.address);
    fill(&client);
    let (before, peak) = (state(&client), alone.peak());
    for Case { what, headers, body, status, code, pointer } in cases() {
        let answer = raw::exchange(alone.address, "PUT", POINTS, &headers, &body);
        check(&answer, what, status, code, pointer);
        assert_eq!(state(&client), before, "{what} stored something");
        let grown = alone.peak() - peak;
        assert!(grown < GROWTH_MAX, "{what}: the server took {} MB more", grown >> 20);
    }
}

#[test]
fn a_client_that_is_still_sending_sees_the_refusal() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let body = vec![b'x'; 40 * 1024 * 1024];
    let cases = [
        ("PUT", "/nowhere", 404, "unknown_path"),
        ("PATCH", POINTS, 405, "wrong_method"),
        ("PUT", POINTS, 413, "body_too_large"),
        ("POST", "/collections/c/points/query/batch", 413, "body_too_large"),
    ];
    for (method, path, status, code) in cases {
        let answer = raw::exchange(served.address, method, path, &[JSON], &body);
        check(&answer, path, status, code, None);
    }
    let lines = ("content-type", "application/x-ndjson");
    let cases = [
        ("/collections/c/points?wait=no", 422, "invalid_value"),
        ("/collections/nowhere/points", 404, "unknown_collection"),
        ("/collections/c/banks/b", 422, "invalid_value"),
    ];
    for (path, status, code) in cases {
        let answer = raw::exchange(served.address, "PUT", path, &[lines], &body);
        check(&answer, path, status, code, None);
    }
    assert_eq!(state(&served), before);
}

#[test]
fn a_client_that_waits_to_be_told_to_go_on_is_answered() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let good = json!({"points": [{"id": 2, "vector": [0, 1, 0]}]}).to_string();
    for (media, status) in [("text/plain", 415), ("application/json", 200)] {
        let mut stream = connect(served.address);
        let headers = [("content-type", media), ("expect", "100-continue")];
        stream.write_all(head("PUT", POINTS, &headers, Some(good.len())).as_bytes()).expect("sent");
        let first = answer(&mut stream).expect("an answer");
        let last = if first.status == 100 {
            stream.write_all(good.as_bytes()).expect("sent");
            answer(&mut stream).expect("an answer after the body")
        } else {
            first
        };
        assert_eq!(last.status, status, "{media}");
    }
    assert_eq!(served.get("/collections/c")["points_count"], 2);
}

#[test]
fn requests_sent_at_once_are_answered_one_by_one() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let body = json!({"points": [{"id": 5, "vector": [0, 1, 0]}]}).to_string();
    let mut stream = connect(served.address);
    let mut all = Vec::new();
    let bodies: [(&str, &[u8], u16); 4] = [
        ("text/plain", body.as_bytes(), 415),
        ("application/json", b"{", 400),
        ("application/json", body.as_bytes(), 200),
        ("application/x-ndjson", b"{}", 422),
    ];
    for (media, body, _) in bodies {
        all.extend(head("PUT", POINTS, &[("content-type", media)], Some(body.len())).as_bytes());
        all.extend(body);
    }
    all.extend(head("GET", "/collections/c/exists", &[], None).as_bytes());
    stream.write_all(&all).expect("sent");
    for status in bodies.map(|(.., status)| status).into_iter().chain([200]) {
        let answer = answer(&mut stream).expect("an answer to each");
        assert_eq!(answer.status, status, "{}", answer.json());
    }
}

/// Sends half of a body and ends, and gives what came back.
fn half(address: SocketAddr, media: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = connect(address);
    let headers = [("content-type", media)];
    stream.write_all(head("PUT", POINTS, &headers, Some(body.len())).as_bytes()).expect("sent");
    stream.write_all(&body[..body.len() / 2]).expect("sent");
    stream.shutdown(Shutdown::Write).expect("ended");
    answer(&mut stream)
}

#[test]
fn a_body_cut_in_half_stores_nothing_of_its_last_batch() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let before = state(&served);
    let whole = format!("{{\"points\":[{}]}}", null_among(5000, usize::MAX));
    let lines = whole[11..whole.len() - 2].replace("},{", "}\n{");
    for (media, body) in [("application/json", &whole), ("application/x-ndjson", &lines)] {
        let answer = half(served.address, media, body.as_bytes());
        assert!(answer.is_none_or(|answer| answer.status == 400), "{media}");
        assert_eq!(state(&served), before, "{media}");
    }
    let chunked = [JSON, ("transfer-encoding", "chunked")];
    let mut stream = connect(served.address);
    stream.write_all(head("PUT", POINTS, &chunked, None).as_bytes()).expect("sent");
    stream.write_all(format!("{:x}\r\n{whole}\r\n", whole.len()).as_bytes()).expect("sent");
    stream.shutdown(Shutdown::Write).expect("ended");
    assert!(answer(&mut stream).is_none_or(|answer| answer.status == 400), "no last chunk");
    assert_eq!(state(&served), before);
}

/// Sends a byte at a time until the server has had enough.
fn trickle(mut stream: TcpStream, media: &str) -> Option<Answer> {
    let headers = [("content-type", media)];
    stream.write_all(head("PUT", POINTS, &headers, Some(1_000_000)).as_bytes()).expect("sent");
    let mut writer = stream.try_clone().expect("one socket, two users");
    let sending = thread::spawn(move || {
        for byte in b"{\"points\": [".iter().chain(std::iter::repeat(&b' ')) {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let answer = answer(&mut stream);
    _ = stream.shutdown(Shutdown::Both);
    sending.join().expect("the sender ends");
    answer
}

#[test]
fn a_slow_client_is_told_so_and_stops_nobody() {
    let folder = tempdir().expect("a folder");
    let within = Duration::from_millis(600);
    let served = Served::start_with(folder.path(), &ServerConfig { body_time: within, ..config() });
    fill(&served);
    let before = state(&served);
    let slow: Vec<_> = ["application/json", "application/x-ndjson", "text/plain"]
        .into_iter()
        .flat_map(|media| std::iter::repeat_n(media, 10))
        .map(|media| {
            let address = served.address;
            (media, thread::spawn(move || trickle(connect(address), media)))
        })
        .collect();
    assert_eq!(state(&served), before, "others are served meanwhile");
    for (media, client) in slow {
        let answer = client.join().expect("no panic").expect("an answer");
        if media == "text/plain" {
            check(&answer, media, 415, "wrong_content_type", None);
        } else {
            check(&answer, media, 408, "body_timeout", None);
            assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.contains("0.6 s")));
        }
    }
    assert_eq!(state(&served), before);
}
