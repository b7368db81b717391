//! What `dehub serve` tells of itself: its log, and spans to a collector.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::Dehub;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A server whose log is read when it has ended.
struct Server {
    process: Child,
    address: String,
    /// Reads the log: a server whose log nobody reads waits once the pipe is full.
    log: Option<JoinHandle<Vec<u8>>>,
}

impl Server {
    fn start(dehub: &Dehub, arguments: &[&str]) -> Server {
        Server::start_with(dehub, arguments, |_| {})
    }

    fn start_with(dehub: &Dehub, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Server {
        let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
        for name in
            ["DEHUB_LOG", "OTEL_EXPORTER_OTLP_ENDPOINT", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        {
            command.env_remove(name);
        }
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        let mut process = command.spawn().expect("the binary runs");
        let mut errors = process.stderr.take().expect("piped");
        let log = thread::spawn(move || {
            let mut log = Vec::new();
            errors.read_to_end(&mut log).expect("it ends");
            log
        });
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).expect("the address as JSON");
        let address = started["address"].as_str().expect("an address").trim_start_matches("http://");
        Server { process, address: address.to_owned(), log: Some(log) }
    }

    /// Sends a request as it is; gives the first line of the answer.
    fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request).expect("it takes it");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    fn get(&self, path: &str, headers: &str) -> String {
        self.send(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
                .as_bytes(),
        )
    }

    /// Ends it as an operator does; gives its log.
    fn log(mut self) -> String {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        let log = self.log.take().expect("read once").join().expect("it is read");
        assert_eq!(self.process.wait().expect("it ends").code(), Some(0));
        String::from_utf8(log).expect("a log is UTF-8")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Lines of requests in a log of objects.
fn requests(log: &str) -> Vec<Value> {
    let parse =
        |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("an object: {line}"));
    log.lines().map(parse).filter(|line| line["message"] == "request").collect()
}

#[test]
fn a_request_is_one_line_of_the_log_with_all_that_is_known_of_it() {
    let dehub = Dehub::new();
    let server = Server::start(&dehub, &["--log-format", "json"]);
    let traced = format!("X-Request-Id: r-1\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n");
    server.get("/collections/none/points/7", &traced);
    server.get("/livez", "traceparent: nonsense\r\n");
    server.send(
        b"PUT /collections/c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
          Content-Length: 43\r\n\r\n{\"vectors\": {\"size\": 2, \"distance\": \"Dot\"}}",
    );
    let log = server.log();
    let lines = requests(&log);
    assert_eq!(lines.len(), 3, "{log}");
    let (first, second, third) = (&lines[0], &lines[1], &lines[2]);
    for (field, wanted) in [
        ("level", "INFO"),
        ("request_id", "r-1"),
        ("method", "GET"),
        ("route", "/collections/{collection}/points/{id}"),
        ("path", "/collections/none/points/7"),
        ("client", "127.0.0.1"),
        ("trace_id", TRACE),
        ("code", "unknown_collection"),
    ] {
        assert_eq!(first[field], wanted, "{field}: {first}");
    }
    assert_eq!((&first["status"], &first["bytes_in"]), (&404.into(), &0.into()), "{first}");
    assert!(first["bytes_out"].as_u64().is_some_and(|bytes| bytes > 100), "{first}");
    assert!(first["microseconds"].is_u64(), "{first}");
    assert_eq!((&second["status"], &second["code"]), (&200.into(), &Value::Null), "{second}");
    let own = second["trace_id"].as_str().expect("a trace of its own");
    assert!(own.len() == 32 && own != TRACE && own != "0".repeat(32), "{own}");
    assert_eq!((&third["status"], &third["bytes_in"]), (&200.into(), &43.into()), "{third}");
}

#[test]
fn an_overload_is_one_warning_for_all_that_it_refuses() {
    let dehub = Dehub::new();
    let server = Server::start_with(&dehub, &["--log-format", "json"], |command| {
        // Less than any request needs to get to a thread.
        command.env("DEHUB__SERVICE__TIMEOUT_SECONDS", "0.000000001");
    });
    for _ in 0..20 {
        assert_eq!(server.get("/collections", ""), "HTTP/1.1 503 Service Unavailable");
    }
    let log = server.log();
    let lines = requests(&log);
    assert_eq!(lines.len(), 20, "{log}");
    for line in lines {
        assert_eq!((&line["level"], &line["code"]), (&"INFO".into(), &"overloaded".into()), "{line}");
    }
    let warnings: Vec<Value> = log
        .lines()
        .flat_map(serde_json::from_str::<Value>)
        .filter(|line| line["level"] == "WARN" && line["refused"].is_u64())
        .collect();
    assert_eq!(warnings.iter().flat_map(|line| line["refused"].as_u64()).sum::<u64>(), 20, "{log}");
    assert!(warnings.len() < 20, "{log}");
}

#[test]
fn nothing_that_a_client_sends_begins_a_line_of_the_log_or_steers_a_terminal() {
    let dehub = Dehub::new();
    for format in ["text", "json"] {
        let server = Server::start(&dehub, &["--log-format", format]);
        let forged = "2026-01-01T00:00:00Z ERROR forged";
        server.get(&format!("/a%0a{}", forged.replace(' ', "%20")), "");
        server.get("/b%1b31m", "X-Request-Id: %1b[2J\r\n");
        server.get("/b", "X-Request-Id: a\u{1b}[2J\r\n");
        server.get("/c", &format!("X-Request-Id: x\rforged\r\ntraceparent: {forged}\r\n"));
        server.send(b"GET /d\x1b[31m\nforged HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        server.send("GET /é\u{9b}31m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".as_bytes());
        server.send(b"FORGED\x1b /e HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let log = server.log();
        let is_plain = |letter: char| letter == '\n' || !letter.is_control();
        assert!(log.chars().all(is_plain), "{log:?}");
        server_told(&log, &["/a%0a2026", "/b%1b31m"]);
        for line in log.lines() {
            let begins_well = if format == "json" { line.starts_with('{') } else { line.starts_with("20") };
            assert!(begins_well && !line.starts_with(forged), "{log}");
        }
    }
}

/// Requests of these paths are in the log.
fn server_told(log: &str, paths: &[&str]) {
    paths.iter().for_each(|path| assert!(log.contains(path), "{path}: {log}"));
}

#[test]
fn a_slow_query_is_logged_with_its_plan() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let server = Server::start(&dehub, &["--log-format", "json", "--slow-query-ms", "20"]);
    let points = r#"{"points": [{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}]}"#;
    let post = |method: &str, path: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: q\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        stream.write_all(head.as_bytes()).expect("it takes it");
        thread::sleep(std::time::Duration::from_millis(30));
        stream.write_all(body.as_bytes()).expect("it takes it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    post("PUT", "/collections/x/points", points);
    post("POST", "/collections/x/points/query", r#"{"query": [0.6251953125, 0.5], "limit": 1}"#);
    let log = server.log();
    let slow: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .filter(|line: &Value| line["message"] == "slow query")
        .collect();
    assert_eq!(slow.len(), 1, "{log}");
    assert_eq!((&slow[0]["level"], &slow[0]["request_id"]), (&"WARN".into(), &"q".into()), "{log}");
    let plan = slow[0]["plan"].as_str().expect("a plan");
    assert!(plan.starts_with("exact scan of 2 points"), "{plan}");
    // So many digits of it that no time, port or duration has them by chance.
    assert!(!log.contains("6251953"), "no vectors: {log}");
}

/// A collector that keeps what it is sent: the heads and bodies of requests.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let (sender, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some(sent) = read_request(&mut reader) {
                    sender.send(sent).expect("the test listens");
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                    reader.get_mut().write_all(answer).expect("it listens");
                }
            });
        }
    });
    (address, received)
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |place: usize| u8::from_str_radix(&hex[place..place + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_collector_gets_the_spans_of_a_request_in_the_trace_of_its_client() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let (address, received) = collector();
    let set = |command: &mut Command| _ = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let server = Server::start_with(&dehub, &["--log-format", "json", "--otlp-sample", "0"], set);
    let traced =
        |trace: &str, flags: &str| format!("traceparent: 00-{trace}-{SPAN}-{flags}\r\ntracestate: a=b7c\r\n");
    let body = r#"{"points": [{"id": 1, "vector": [1, 0]}]}"#;
    let put = |headers: &str| {
        let length = body.len();
        let answer = server.send(
            format!(
                "PUT /collections/x/points HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Type: \
                 application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
        assert_eq!(answer, "HTTP/1.1 200 OK");
    };
    let other = "4bf92f3577b34da6a3ce929d0e0e4736";
    put(&traced(TRACE, "01"));
    put(&traced(other, "00"));
    put("");
    let log = server.log();
    let traces: Vec<String> =
        requests(&log).iter().map(|line| line["trace_id"].as_str().expect("a trace").to_owned()).collect();
    assert_eq!(traces[..2], [TRACE.to_owned(), other.to_owned()]);
    assert_eq!(traces.iter().collect::<BTreeSet<_>>().len(), 3, "{traces:?}");
    let sent: Vec<(String, Vec<u8>)> = received.try_iter().collect();
    assert!(!sent.is_empty(), "{log}");
    for (head, _) in &sent {
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    }
    let all = sent.into_iter().map(|(_, body)| body).collect::<Vec<_>>().concat();
    assert!(contains(&all, &bytes(TRACE)) && contains(&all, &bytes(SPAN)));
    // Its client does not record the second, and the share of traces that begin here is 0.
    assert!(!contains(&all, &bytes(other)) && !contains(&all, &bytes(&traces[2])));
    let names =
        ["PUT /collections/{collection}/points", "receive", "wait", "engine", "encode", "a=b7c", "dehub"];
    for name in names {
        assert!(contains(&all, name.as_bytes()), "{name}: {}", String::from_utf8_lossy(&all));
    }
}

#[test]
fn a_collector_that_is_not_there_is_told_of_once_and_stops_nothing() {
    let dehub = Dehub::new();
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("http://{}", listener.local_addr().expect("bound"))
    };
    let server = Server::start(&dehub, &["--log-format", "json", "--otlp-endpoint", &address]);
    for _ in 0..2000 {
        assert_eq!(server.get("/livez", ""), "HTTP/1.1 200 OK");
    }
    let log = server.log();
    assert_eq!(requests(&log).len(), 2000);
    let complaints = log.lines().filter(|line| line.contains("the collector takes no spans")).count();
    assert_eq!((complaints, log.lines().count()), (1, 2001), "{log}");
}

#[test]
fn what_cannot_be_told_so_is_refused_by_name() {
    let dehub = Dehub::new();
    let all = [
        (&["--log-format", "xml"][..], 2, "xml"),
        (&["--otlp-endpoint", "collector:4318"], 1, "collector:4318"),
        (&["--otlp-endpoint", "https://collector:4318"], 1, "https://collector:4318"),
        (&["--otlp-endpoint", "http://127.0.0.1:9", "--otlp-sample", "1.5"], 1, "1.5"),
    ];
    for (arguments, code, named) in all {
        let ended = dehub.run(&[&["serve", "--port", "0"], arguments].concat());
        assert_eq!(ended.code, code, "{arguments:?}");
        assert!(ended.stderr.contains(named), "{arguments:?}: {}", ended.stderr);
    }
    let file = dehub.file("wrong.toml", "[observe]\nlog_format = \"xml\"\n");
    let ended = dehub.run(&["serve", "--port", "0", "--config", &file]);
    assert!(ended.code == 1 && ended.stderr.contains("xml"), "{}", ended.stderr);
}
