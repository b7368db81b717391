//! What operators see: ids of requests, measurements, slow queries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use dehub_api::{AuditConfig, Grant, Key, Rights, ServerConfig};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served, config};

/// Sends text as it is, in pieces with a pause between; gives the head and the body of the answer.
fn raw(served: &Served, pieces: &[&str]) -> (String, String) {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    for (place, piece) in pieces.iter().enumerate() {
        if place > 0 {
            thread::sleep(Duration::from_millis(30));
        }
        stream.write_all(piece.as_bytes()).expect("it takes them");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer of text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_lowercase(), body.to_owned())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn an_answer_has_the_id_of_its_request_and_a_refusal_names_it() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let get = |path: &str, id: &str| {
        raw(&served, &[&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{id}\r\n")])
    };
    let (head, _) = get("/livez", "X-Request-Id: job-7\r\n");
    assert_eq!(header(&head, "x-request-id"), Some("job-7"));
    let mut made = BTreeSet::new();
    for given in ["", "X-Request-Id: a b\r\n", "X-Request-Id: \"x\"\r\n", "X-Request-Id: \u{e9}\r\n"] {
        for path in ["/collections/none", "/nothing", "/livez"] {
            let (head, body) = get(path, given);
            let id = header(&head, "x-request-id").unwrap_or_else(|| panic!("{path}: {head}"));
            assert_eq!(id.len(), 36, "{given}: {id}");
            assert!(made.insert(id.to_owned()), "{id} came before");
            if path != "/livez" {
                let body: Value = serde_json::from_str(&body).expect("JSON");
                assert_eq!(body["instance"], format!("urn:dehub:request:{id}"), "{body}");
            }
        }
    }
    let (head, body) = get("/collections/none", "X-Request-Id: mine\r\n");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["instance"], "urn:dehub:request:mine");
    assert_eq!(
        header(&head, "content-length").and_then(|length| length.parse().ok()),
        Some(body_length(&served))
    );
}

/// How long the body of the same refusal is when it is sent otherwise.
fn body_length(served: &Served) -> usize {
    let request = "GET /collections/none HTTP/1.0\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n";
    raw(served, &[request]).1.len()
}

/// Measurements as a strict reader of OpenMetrics takes them in.
#[derive(Debug, Default)]
struct Exposed {
    /// Kinds of families.
    families: BTreeMap<String, String>,
    /// Numbers by names and labels.
    samples: BTreeMap<String, f64>,
    /// Names of labels of families.
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Exposed {
    fn of(served: &Client) -> Exposed {
        let (status, kind, text) = served.text("/metrics");
        assert_eq!(status, 200, "{text}");
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        Exposed::parse(&text)
    }

    fn parse(text: &str) -> Exposed {
        let lines = text.strip_suffix("# EOF\n").expect("its end is told");
        let mut exposed = Exposed::default();
        let (mut family, mut told) = (String::new(), Vec::new());
        for line in lines.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let parts: Vec<&str> = comment.splitn(3, ' ').collect();
                let [what, name, said] = parts[..] else { panic!("three parts: {line}") };
                if name != family {
                    assert!(!exposed.families.contains_key(name), "{name} twice");
                    assert_eq!(what, "HELP", "{line}");
                    (family, told) = (name.to_owned(), Vec::new());
                }
                assert!(!told.contains(&what.to_owned()), "{line} twice");
                told.push(what.to_owned());
                match what {
                    "HELP" => assert!(said.len() > 3, "{line}"),
                    "TYPE" => _ = exposed.families.insert(family.clone(), said.to_owned()),
                    "UNIT" => assert!(family.ends_with(&format!("_{said}")), "{line}"),
                    _ => panic!("{line}"),
                }
            } else {
                exposed.sample(&family, line);
            }
        }
        exposed.check_histograms();
        exposed
    }

    fn sample(&mut self, family: &str, line: &str) {
        let kind = self.families.get(family).unwrap_or_else(|| panic!("{line} is of no family"));
        let (series, number) = line.rsplit_once(' ').expect("a number");
        let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("closed")),
            None => (series, ""),
        };
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
        let suffixes: &[&str] = match kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => panic!("{family} is a {kind}"),
        };
        assert!(suffixes.contains(&suffix), "{line} of a {kind}");
        assert!(kind == "gauge" || (number.is_finite() && number >= 0.0), "{line}");
        assert!(kind != "info" || number == 1.0, "{line}");
        let letters = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(letters(family) && !family.is_empty(), "{family}");
        let own = self.labels.entry(family.to_owned()).or_default();
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(letters(name), "{line}");
            assert!(!value.trim_end_matches('"').contains(['"', '\\', '\n']), "{line}");
            if name != "le" {
                own.insert(name.to_owned());
            }
        }
        assert!(self.samples.insert(series.to_owned(), number).is_none(), "{series} twice");
    }

    /// Buckets grow, and the last one has all.
    fn check_histograms(&self) {
        for (family, _) in self.families.iter().filter(|(_, kind)| *kind == "histogram") {
            let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
            for (series, &count) in &self.samples {
                let Some(labels) = series.strip_prefix(&format!("{family}_bucket{{")) else { continue };
                let mut parts: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
                let place = parts.iter().position(|part| part.starts_with("le=")).expect("a bound");
                let bound = parts.remove(place).trim_start_matches("le=\"").trim_end_matches('"');
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a number") };
                buckets.entry(parts.join(",")).or_default().push((bound, count));
            }
            for (labels, mut buckets) in buckets {
                buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
                assert!(buckets.is_sorted_by_key(|&(_, count)| count), "{labels}: {buckets:?}");
                let last = buckets.last().expect("one");
                assert_eq!(*last, (f64::INFINITY, self.samples[&format!("{family}_count{{{labels}}}")]));
            }
        }
    }

    #[track_caller]
    fn number(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("{series} in {:#?}", self.samples))
    }
}

/// A collection of four points with a bank, a gated correction and one without a gate.
fn prepare(served: &Client) {
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let point = |id: u64, vector: [f64; 2]| json!({"id": id, "vector": vector});
    let points = [point(1, [1.0, 0.0]), point(2, [0.0, 1.0]), point(3, [-1.0, 0.0]), point(4, [0.0, -1.0])];
    served.did("PUT", "/collections/c/points", &json!({ "points": points }));
    let bank = json!({"kind": "query", "vectors": [[1, 0], [0.9, 0.1], [0, 1]]});
    served.did("PUT", "/collections/c/banks/asked", &bank);
    for (name, method) in [("dis", "DIS(beta=20)"), ("is", "IS(beta=20)")] {
        let fit = json!({"method": method, "query_bank": "asked"});
        served.did("PUT", &format!("/collections/c/corrections/{name}"), &fit);
    }
}

fn ask(served: &Client, vector: [f64; 2], correction: &str) -> Value {
    let body = json!({"query": vector, "limit": 1, "hubness": {"correction": correction}});
    served.did("POST", "/collections/c/points/query", &body)
}

#[test]
fn measurements_tell_what_was_served_and_what_it_was_ranked_by() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    prepare(&served);
    for vector in [[1.0, 0.0], [0.9, 0.1], [0.8, 0.1], [0.0, 1.0]] {
        let body = json!({"query": vector, "limit": 1});
        served.did("POST", "/collections/c/points/query", &body);
    }
    let gates = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]].map(|vector| {
        ask(&served, vector, "dis")["hubness"]["gate_open"].as_bool().expect("the method has a gate")
    });
    let open = gates.iter().filter(|open| **open).count() as f64;
    assert!(open > 0.0 && open < 4.0, "both happen: {gates:?}");
    let exposed = Exposed::of(&served);
    let pid = std::process::id();
    let wanted = [
        ("app_info{name=\"dehub\",version=\"0.1.0\"}", 1.0),
        ("collections_total", 1.0),
        ("collection_points{collection=\"c\"}", 4.0),
        ("collection_vectors{collection=\"c\"}", 4.0),
        ("bank_size{collection=\"c\",bank=\"asked\"}", 3.0),
        ("gate_decisions_total{collection=\"c\",gate=\"open\"}", open),
        ("gate_decisions_total{collection=\"c\",gate=\"closed\"}", 4.0 - open),
        ("gate_open_share{collection=\"c\"}", open / 4.0),
        // Without a graph every point is scored.
        ("ann_recall_estimate{collection=\"c\"}", 1.0),
        ("jobs{state=\"running\"}", 0.0),
        ("jobs{state=\"done\"}", 0.0),
        ("snapshot_created_total", 0.0),
        ("slow_queries_total", 0.0),
        ("engine_requests", 0.0),
        ("request_body_bytes", 0.0),
    ];
    for (series, number) in wanted {
        assert_eq!(exposed.number(series), number, "{series}");
    }
    // Counts 3, 1, 0, 0 have the mean 1, the second moment 3/2 and the third 3/2.
    let skewness = exposed.number("hubness_skewness{collection=\"c\",correction=\"raw\"}");
    assert!((skewness - 1.5 / 1.5_f64.powf(1.5)).abs() < 1e-12, "{skewness}");
    for correction in ["dis", "is"] {
        let age = format!("correction_age_seconds{{collection=\"c\",correction=\"{correction}\"}}");
        assert!(exposed.number(&age) >= 0.0);
    }
    for series in
        ["memory_resident_bytes", "process_open_fds", "process_threads", "process_start_time_seconds"]
    {
        assert!(exposed.number(series) > 1.0, "{series} of {pid}");
    }
    assert!(exposed.number("process_cpu_seconds_total") > 0.0);
    // A correction that is dropped is not told of any more, and neither is a collection.
    served.delete("/collections/c/corrections/dis");
    let exposed = Exposed::of(&served);
    assert!(exposed.samples.keys().all(|series| !series.contains("\"dis\"")), "{:#?}", exposed.samples);
    served.delete("/collections/c");
    let exposed = Exposed::of(&served);
    assert!(exposed.samples.keys().all(|series| !series.contains("collection=\"c\"")));
    assert_eq!(exposed.number("collections_total"), 0.0);
}

#[test]
fn what_is_refused_is_counted_by_its_code_and_labels_come_from_no_client() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    prepare(&served);
    let before = Exposed::of(&served).samples.len();
    for id in 0..3 {
        let points = json!({"points": [{"id": id, "vector": [1, 0, 0]}]});
        assert_eq!(served.json("PUT", "/collections/c/points", &points).status, 422);
    }
    served.json("PUT", "/collections/c/banks/asked", &json!({"kind": "gallery", "vectors": [[1, 0]]}));
    served.json("POST", "/collections/c/points/delete", &json!({"points": "all"}));
    // Refused, but no points or entries.
    served.json("POST", "/collections/c/points/query", &json!({"query": [1, 0, 0]}));
    let exposed = Exposed::of(&served);
    assert_eq!(exposed.number("ingest_rejected_total{reason=\"dimension_mismatch\"}"), 3.0);
    assert_eq!(exposed.number("ingest_rejected_total{reason=\"bank_kind\"}"), 1.0);
    assert_eq!(exposed.number("ingest_rejected_total{reason=\"wrong_type\"}"), 1.0, "deletions too");
    let rejected = exposed.samples.iter().filter(|(series, _)| series.starts_with("ingest_rejected"));
    assert_eq!(rejected.map(|(_, count)| count).sum::<f64>(), 5.0);
    let after = exposed.samples.len();
    assert!(after > before);
    for word in ["hidden", "covert"] {
        for number in 0..5 {
            served.send("GET", &format!("/{word}/{number}"), None, None);
            served.send("GET", &format!("/collections/{word}{number}"), None, None);
            served.send("GET", &format!("/collections/c/banks/{word}{number}"), None, None);
            let method = word.to_uppercase();
            raw(
                &served,
                &[&format!("{method} /{word} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")],
            );
        }
    }
    let exposed = Exposed::of(&served);
    let samples = &exposed.samples;
    assert!(
        samples.keys().all(|series| !series.contains("hidden") && !series.contains("covert")),
        "{samples:?}"
    );
    let unknown = "rest_responses_total{method=\"GET\",endpoint=\"none\",status=\"404\"}";
    assert_eq!(exposed.number(unknown), 10.0);
    assert_eq!(
        exposed.number("rest_responses_total{method=\"other\",endpoint=\"none\",status=\"404\"}"),
        10.0
    );
    let listed: Vec<_> = samples.keys().filter(|series| series.starts_with("rest_responses_total")).collect();
    let more: usize = samples.len() - after;
    // Four series of counts and durations, whatever was asked for.
    assert!(more < 5 * 20, "{more}: {listed:?}");
}

/// Rows of the table: the family, its kind and its labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/metrics.md");
    let text = std::fs::read_to_string(path).expect("the list is there");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim_matches(['`', ' '])).collect();
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned());
        (cells[0].to_owned(), (cells[1].to_owned(), labels.filter(|label| !label.is_empty()).collect()))
    };
    rows.map(row).collect()
}

#[test]
fn every_measurement_is_documented_and_every_documented_one_is_there() {
    let folder = tempdir().expect("a folder");
    let audit = Some(AuditConfig { path: folder.path().join("audit"), blocks: false });
    let served = Served::start_with(folder.path(), &ServerConfig { audit, ..config() });
    prepare(&served);
    ask(&served, [1.0, 0.0], "dis");
    served.json("PUT", "/collections/c/points", &json!({"points": [{"id": 1, "vector": [1]}]}));
    let exposed = Exposed::of(&served);
    let found: BTreeMap<String, String> = exposed
        .families
        .iter()
        .map(|(family, kind)| match kind.as_str() {
            "counter" => (format!("{family}_total"), kind.clone()),
            "info" => (format!("{family}_info"), kind.clone()),
            _ => (family.clone(), kind.clone()),
        })
        .collect();
    let documented = documented();
    let wanted: BTreeMap<String, String> =
        documented.iter().map(|(name, (kind, _))| (name.clone(), kind.clone())).collect();
    assert_eq!(wanted, found);
    for (family, labels) in &exposed.labels {
        let names = [family.clone(), format!("{family}_total"), format!("{family}_info")];
        let (_, wanted) = names.iter().find_map(|name| documented.get(name)).expect("documented");
        assert_eq!(labels, wanted, "{family}");
    }
}

#[test]
fn a_slow_query_is_kept_with_its_plan_and_without_what_it_was_asked_by() {
    let folder = tempdir().expect("a folder");
    let served = Served::start_with(folder.path(), &ServerConfig { slow_query_ms: 20, ..config() });
    prepare(&served);
    // A body that takes longer than the threshold to arrive.
    let body = r#"{"query": [0.6125, 0.25], "limit": 3, "hubness": {"correction": "is", "alpha": 0.5}, "#;
    let filter = r#""filter": {"must": [{"has_id": [1, 2, 3]}]}}"#;
    let head = format!(
        "POST /collections/c/points/query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: slow-1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len() + filter.len()
    );
    let (answer, said) = raw(&served, &[&head, body, filter]);
    assert!(answer.starts_with("http/1.1 200"), "{answer}: {said}");
    let listed = served.get("/slow-queries");
    let count = listed["count"].as_u64().expect("a number");
    assert_eq!((&listed["threshold_ms"], count >= 1), (&json!(20), true));
    let all = listed["queries"].as_array().expect("a list");
    assert_eq!(all.len() as u64, count);
    let slow = all.iter().find(|slow| slow["request_id"] == "slow-1").expect("it is kept");
    for (field, wanted) in [
        ("collection", json!("c")),
        ("queries", json!(1)),
        ("by", json!("vector")),
        ("limit", json!(3)),
        ("correction", json!("is")),
        ("points_scored", json!(3)),
    ] {
        assert_eq!(slow[field], wanted, "{field}: {slow}");
    }
    let plan = slow["plan"].as_str().expect("a plan");
    assert!(plan.starts_with("exact scan of the 3 of 4 points") && plan.contains("alpha 0.5"), "{plan}");
    let ms = |field: &str| slow[field].as_f64().expect("a number");
    let parts = ["received_ms", "waited_ms", "searched_ms", "read_ms", "encoded_ms"];
    assert!((parts.into_iter().map(ms).sum::<f64>() - ms("ms")).abs() < 1e-9, "{slow}");
    assert!(ms("received_ms") >= 20.0, "{slow}");
    assert!(!listed.to_string().contains("6125"), "no vectors: {slow}");
    assert_eq!(Exposed::of(&served).number("slow_queries_total"), count as f64);
}

/// Sends a body that takes longer than 20 ms to arrive; gives the head and the body of the answer.
fn slowly(served: &Served, path: &str, headers: &str, body: &Value) -> (String, String) {
    let body = body.to_string();
    let head = format!(
        "POST /collections/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (first, second) = body.split_at(body.len() / 2);
    raw(served, &[&head, first, second])
}

#[test]
fn every_way_to_search_is_told_of_when_it_is_slow() {
    let folder = tempdir().expect("a folder");
    let served = Served::start_with(folder.path(), &ServerConfig { slow_query_ms: 20, ..config() });
    prepare(&served);
    let by = json!({"query": [1.0, 0.0], "limit": 2});
    let batch = json!({"searches": [by, by]});
    let cases = [
        ("query", by.clone(), 200, 1, "vector"),
        ("query", json!({"query": 1, "params": {"exact": true}}), 200, 1, "point"),
        ("query", json!({"query": {"order_by": "n"}}), 200, 1, "order"),
        ("query", json!({"query": [1.0, 0.0, 0.0]}), 422, 1, "vector"),
        ("query/batch", batch, 200, 2, "vector"),
        ("query/groups", json!({"query": [1.0, 0.0], "group_by": "n"}), 200, 1, "vector"),
        ("search", json!({"vector": [1.0, 0.0], "limit": 1}), 200, 1, "vector"),
        ("recommend", json!({"positive": [1, 2], "limit": 1}), 200, 1, "recommend"),
        ("discover", json!({"target": 1, "context": [], "limit": 1}), 200, 1, "discover"),
        ("search/matrix/pairs", json!({"sample": 3}), 200, 1, "sample"),
    ];
    for (number, (path, body, status, queries, by)) in cases.iter().enumerate() {
        let id = format!("X-Request-Id: slow-{number}\r\n");
        let (head, said) = slowly(&served, &format!("c/points/{path}"), &id, body);
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{path} {body}: {head} {said}");
        let slow = &served.get("/slow-queries")["queries"][0];
        let found = (&slow["request_id"], &slow["queries"], &slow["by"]);
        assert_eq!(found, (&json!(format!("slow-{number}")), &json!(queries), &json!(by)), "{path} {body}");
    }
    let arrow = "Accept: application/vnd.apache.arrow.stream\r\nX-Request-Id: arrow\r\n";
    let request = by.to_string();
    let head = format!(
        "POST /collections/c/points/query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{arrow}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        request.len()
    );
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    stream.write_all(head.as_bytes()).expect("it takes them");
    thread::sleep(Duration::from_millis(30));
    stream.write_all(request.as_bytes()).expect("it takes them");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(served.get("/slow-queries")["queries"][0]["request_id"], "arrow", "whatever the form");
}

#[test]
fn a_key_for_some_collections_is_shown_their_slow_queries_alone() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    prepare(&served);
    served.did("PUT", "/collections/d", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    drop(served);
    let scope = Rights::Collections([("d".to_owned(), Grant::Read)].into());
    let keys = [("chief", "chief-0123456789", Rights::Admin), ("some", "some-0123456789", scope)];
    let keys = keys.into_iter().map(|(name, key, rights)| Key::plain(name, key, rights).expect("a key"));
    let served = Served::start_with(
        folder.path(),
        &ServerConfig { slow_query_ms: 20, keys: keys.collect(), ..config() },
    );
    for path in ["c/points/query", "d/points/query"] {
        let key = "api-key: chief-0123456789\r\n";
        let (head, said) = slowly(&served, path, key, &json!({"query": [1.0, 0.0]}));
        assert!(head.starts_with("http/1.1 200"), "{head} {said}");
    }
    for (key, wanted) in [("chief", vec!["d", "c"]), ("some", vec!["d"])] {
        let key = format!("api-key: {key}-0123456789\r\n");
        let request =
            format!("GET /slow-queries HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\r\n");
        let (_, said) = raw(&served, &[&request]);
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let listed = said["result"]["queries"].as_array().expect("a list");
        let collections: Vec<&str> = listed.iter().filter_map(|slow| slow["collection"].as_str()).collect();
        assert_eq!(collections, wanted, "{said}");
    }
}

#[test]
fn a_server_that_calls_no_query_slow_keeps_none() {
    let folder = tempdir().expect("a folder");
    let served = Served::start_with(folder.path(), &ServerConfig { slow_query_ms: 0, ..config() });
    prepare(&served);
    ask(&served, [1.0, 0.0], "is");
    assert_eq!(served.get("/slow-queries"), json!({"threshold_ms": null, "count": 0, "queries": []}));
}

#[test]
fn backups_and_snapshots_are_counted_when_they_are_there() {
    let folder = tempdir().expect("a folder");
    let place = tempdir().expect("a folder");
    let backups = Some(place.path().to_str().expect("UTF-8").to_owned());
    let served = Served::start_with(folder.path(), &ServerConfig { backups, ..config() });
    prepare(&served);
    let reply = served.json("POST", "/collections/c/backups", &json!({}));
    assert_eq!(reply.status, 202, "{}", reply.body);
    let job = format!("/jobs/{}", reply.body["result"]["job"]);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while served.get(&job)["state"] == "running" {
        assert!(std::time::Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
    served.did("POST", "/collections/c/snapshots", &json!({}));
    let exposed = Exposed::of(&served);
    assert_eq!(
        (exposed.number("snapshot_created_total"), exposed.number("jobs{state=\"done\"}")),
        (2.0, 1.0),
        "a snapshot is one too"
    );
}
