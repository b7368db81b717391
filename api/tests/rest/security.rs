//! Who may ask for what: keys, other origins, and the log of what was asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::{Access, AuditConfig, Grant, Key, Rights, ServeError, Server, ServerConfig, routes};
use dehub_index::Catalogue;
use serde_json::{Value, json};
use tempfile::tempdir;
use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use crate::client::{Served, config};

/// What came back.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Told {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("headers are text"))
    }
}

pub(crate) fn ask(
    served: &Served,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Told {
    let mut request = Request::builder().method(method).uri(format!("http://{}{path}", served.address));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let config = Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true).build();
    let agent = Agent::new_with_config(config);
    let response = match body {
        Some(body) => agent.run(request.body(body).expect("a valid request")),
        None => agent.run(request.body(()).expect("a valid request")),
    };
    let mut response = response.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    let text = response.body_mut().read_to_string().expect("a body of text");
    Told { status: response.status().as_u16(), headers: response.headers().clone(), text }
}

fn with_key(served: &Served, key: &str, method: &str, path: &str, body: Option<&Value>) -> Told {
    let text = body.map(Value::to_string);
    let headers = [("api-key", key), ("content-type", "application/json")];
    ask(served, method, path, &headers, text.as_deref().map(str::as_bytes))
}

fn scopes(pairs: &[(&str, Grant)]) -> Rights {
    Rights::Collections(pairs.iter().map(|&(name, grant)| (name.to_owned(), grant)).collect())
}

const ADMIN: &str = "admin-0123456789";
const READER: &str = "reader-0123456789";
const SHOP: &str = "shop-0123456789";

pub(crate) fn keys() -> Vec<Key> {
    let all = [
        ("chief", ADMIN, Rights::Admin),
        ("reader", READER, Rights::ReadOnly),
        ("shop", SHOP, scopes(&[("shop", Grant::Write), ("docs", Grant::Read)])),
    ];
    all.into_iter().map(|(name, secret, rights)| Key::plain(name, secret, rights).expect("a key")).collect()
}

fn guarded(folder: &Path) -> Served {
    Served::start_with(folder, &ServerConfig { keys: keys(), ..config() })
}

fn fill(served: &Served) {
    let collection = json!({"vectors": {"size": 2, "distance": "Cosine"}});
    for name in ["shop", "docs", "secret"] {
        let path = format!("/collections/{name}");
        assert_eq!(with_key(served, ADMIN, "PUT", &path, Some(&collection)).status, 200);
    }
}

/// A path of this pattern, with names that are not there.
pub(crate) fn filled(pattern: &str) -> String {
    let fill = |segment: &str| match segment {
        "{collection}" => "shop".to_owned(),
        "{file}" => "index.html".to_owned(),
        segment if segment.starts_with('{') => "1".to_owned(),
        segment => segment.to_owned(),
    };
    pattern.split('/').map(fill).collect::<Vec<_>>().join("/")
}

#[test]
fn each_route_serves_those_whom_the_table_of_routes_allows() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    let all = routes();
    let health = ["/", "/healthz", "/livez", "/readyz"];
    let public: Vec<&str> =
        all.iter().filter(|it| it.access == Access::Public).map(|it| it.pattern).collect();
    assert!(health.iter().all(|path| public.contains(path)), "{public:?}");
    assert!(all.iter().any(|it| it.pattern == "/metrics" && it.access == Access::Read));
    let mut counts = BTreeMap::new();
    for listed in &all {
        let path = filled(listed.pattern);
        let needs_body = listed.method != "GET" && listed.method != "DELETE";
        let body = needs_body.then(|| json!(["no body of any route"]));
        let status = |key: &str| with_key(&served, key, &listed.method, &path, body.as_ref()).status;
        let (unknown, reader) = (status("unknown-0123456789"), status(READER));
        let nobody = ask(&served, &listed.method, &path, &[], body.as_ref().map(|_| &b"{"[..]));
        let what = format!("{} {path}: {nobody}, {unknown}, {reader}", listed.method, nobody = nobody.status);
        *counts.entry(listed.access).or_insert(0) += 1;
        match listed.access {
            Access::Public => assert!([nobody.status, unknown, reader] == [200; 3], "{what}"),
            Access::Read => {
                assert!([nobody.status, unknown] == [401; 2] && reader != 401 && reader != 403, "{what}");
                assert_eq!(nobody.header("www-authenticate"), Some("Bearer"), "{what}");
            }
            Access::Write | Access::Manage => {
                assert!([nobody.status, unknown, reader] == [401, 401, 403], "{what}");
            }
        }
        let chief = status(ADMIN);
        assert!(chief != 401 && chief != 403, "{what}, {chief}");
        if listed.access == Access::Manage {
            assert_eq!(status(SHOP), 403, "{what}");
        }
    }
    assert!(counts.len() == 4 && counts.values().all(|&count| count > 1), "{counts:?}");
    for (method, path) in [("GET", "/nothing"), ("POST", "/collections"), ("PUT", "/metrics"), ("TRACE", "/")]
    {
        let statuses = ["", READER, ADMIN].map(|key| with_key(&served, key, method, path, None).status);
        let last = if path == "/nothing" { 404 } else { 405 };
        assert_eq!(statuses, [401, 403, last], "{method} {path}");
    }
}

#[test]
fn a_scoped_key_sees_and_does_what_it_is_for() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    fill(&served);
    let point = json!({"points": [{"id": 1, "vector": [1, 0]}]});
    let query = json!({"query": [1, 0], "limit": 1});
    let cases = [
        ("PUT", "/collections/shop/points", Some(&point), 200),
        ("POST", "/collections/shop/points/query", Some(&query), 200),
        ("PUT", "/collections/docs/points", Some(&point), 403),
        ("GET", "/collections/docs", None, 200),
        ("GET", "/collections/docs/exists", None, 200),
        ("GET", "/collections/secret", None, 403),
        ("GET", "/collections/secret/exists", None, 403),
        ("GET", "/collections/absent/exists", None, 403),
        ("POST", "/collections/secret/points/query", Some(&query), 403),
        ("DELETE", "/collections/shop", None, 403),
        // However the name is written, it is the same collection.
        ("GET", "/collections/%73hop", None, 200),
        ("GET", "/collections/%73ecret", None, 403),
        ("GET", "/collections/shop%2F..%2Fsecret", None, 403),
        ("GET", "/collections/shop/../secret", None, 403),
        ("GET", "//collections/secret", None, 403),
        ("GET", "/collections/*", None, 403),
    ];
    for (method, path, body, wanted) in cases {
        let told = with_key(&served, SHOP, method, path, body);
        assert_eq!(told.status, wanted, "{method} {path}: {}", told.text);
        if wanted == 403 {
            let problem = told.body();
            assert_eq!(problem["code"], "forbidden");
            assert!(problem["detail"].as_str().is_some_and(|text| text.contains("`shop`")), "{problem}");
        }
    }
    let names = |key: &str| with_key(&served, key, "GET", "/collections", None).body()["result"].clone();
    assert_eq!(names(SHOP), json!({"collections": [{"name": "docs"}, {"name": "shop"}]}));
    assert_eq!(names(READER)["collections"].as_array().map(Vec::len), Some(3));
    let metrics = |key: &str| with_key(&served, key, "GET", "/metrics", None).text;
    assert!(metrics(READER).contains("collection=\"secret\""));
    let seen = metrics(SHOP);
    assert!(seen.contains("collection=\"shop\"") && !seen.contains("secret"), "{seen}");
    assert!(seen.contains("rest_responses_total") && seen.ends_with("# EOF\n"));
    let ready = |key: &str| {
        let told = with_key(&served, key, "GET", "/readyz", None);
        assert_eq!(told.status, 200);
        told.body()["collections"].as_object().expect("an object").len()
    };
    assert_eq!(["", SHOP, READER].map(ready), [0, 2, 3], "health is for all, names are not");
}

#[test]
fn a_scope_is_about_the_collection_that_an_alias_stands_for() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    fill(&served);
    let alias = |alias: &str, collection: &str| json!({"create_alias": {"alias_name": alias, "collection_name": collection}});
    let actions = json!({"actions": [alias("front", "shop"), alias("back", "secret")]});
    assert_eq!(with_key(&served, SHOP, "POST", "/collections/aliases", Some(&actions)).status, 403);
    assert_eq!(with_key(&served, ADMIN, "POST", "/collections/aliases", Some(&actions)).status, 200);
    let point = json!({"points": [{"id": 1, "vector": [1, 0]}]});
    let cases = [("front", [200, 200]), ("back", [403, 403])];
    for (name, wanted) in cases {
        let path = format!("/collections/{name}");
        let read = with_key(&served, SHOP, "GET", &path, None).status;
        let written = with_key(&served, SHOP, "PUT", &format!("{path}/points"), Some(&point)).status;
        assert_eq!([read, written], wanted, "{name}");
    }
    let aliases = |key: &str| with_key(&served, key, "GET", "/aliases", None).body()["result"].clone();
    assert_eq!(aliases(SHOP), json!({"aliases": [{"alias_name": "front", "collection_name": "shop"}]}));
    assert_eq!(aliases(READER)["aliases"].as_array().map(Vec::len), Some(2));
}

#[test]
fn jobs_are_seen_by_those_who_may_read_their_collection() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    fill(&served);
    for name in ["shop", "secret"] {
        let path = |rest: &str| format!("/collections/{name}/{rest}");
        let points = json!({"points": [{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}]});
        let bank = json!({"kind": "query", "vectors": [[1, 0], [0, 1]]});
        let fit = json!({"method": "IS(beta=20)", "query_bank": "b"});
        for (rest, body) in [("points", &points), ("banks/b", &bank)] {
            assert_eq!(with_key(&served, ADMIN, "PUT", &path(rest), Some(body)).status, 200);
        }
        let begun = with_key(&served, ADMIN, "PUT", &path("corrections/is?wait=false"), Some(&fit));
        assert_eq!(begun.status, 202, "{}", begun.text);
    }
    let jobs = |key: &str| {
        let body = with_key(&served, key, "GET", "/jobs", None).body();
        let name = |job: &Value| (job["job"].as_u64(), job["collection"].as_str().map(str::to_owned));
        body["result"]["jobs"].as_array().expect("jobs").iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(jobs(SHOP), [(Some(1), Some("shop".to_owned()))]);
    assert_eq!(jobs(READER).len(), 2);
    assert_eq!(with_key(&served, SHOP, "GET", "/jobs/1", None).status, 200);
    assert_eq!(with_key(&served, SHOP, "GET", "/jobs/2", None).status, 404);
    assert_eq!(with_key(&served, READER, "GET", "/jobs/2", None).status, 200);
    assert_eq!(with_key(&served, SHOP, "DELETE", "/jobs/1", None).status, 403);
}

#[test]
fn a_key_comes_in_either_header() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    let long = "x".repeat(4000);
    let bearer = |scheme: &str, key: &str| format!("{scheme} {key}");
    let cases = [
        (vec![("api-key", READER.to_owned())], 200),
        (vec![("Api-Key", READER.to_owned())], 200),
        (vec![("Authorization", bearer("Bearer", READER))], 200),
        (vec![("Authorization", bearer("bearer", READER))], 200),
        (vec![("Authorization", bearer("Basic", READER))], 401),
        (vec![("Authorization", READER.to_owned())], 401),
        (vec![("Authorization", "Bearer".to_owned())], 401),
        (vec![("Authorization", "Bearer ".to_owned())], 401),
        (vec![("api-key", READER[1..].to_owned())], 401),
        (vec![("api-key", READER.to_uppercase())], 401),
        (vec![("api-key", String::new())], 401),
        (vec![("api-key", long)], 401),
        (vec![("api-key", "wrong".to_owned()), ("Authorization", bearer("Bearer", READER))], 401),
        (vec![], 401),
    ];
    for (headers, wanted) in cases {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let told = ask(&served, "GET", "/collections", &headers, None);
        assert_eq!(told.status, wanted, "{headers:?}");
        assert!(!told.text.contains(READER), "a key is not repeated");
    }
}

#[test]
fn a_refusal_comes_though_the_client_is_still_sending() {
    let folder = tempdir().expect("a folder");
    let served = guarded(folder.path());
    fill(&served);
    let body = vec![b' '; 40 * 1024 * 1024];
    for (key, wanted) in [("wrong", 401), (READER, 403)] {
        let headers = [("api-key", key), ("content-type", "application/json")];
        let told = ask(&served, "PUT", "/collections/shop/points", &headers, Some(&body));
        assert_eq!(told.status, wanted);
        assert_eq!(told.body()["status"], wanted);
    }
}

/// Waits until `is_so`; a test that waits forever is stopped from outside.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_key_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
    let (folder, files) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let path = files.path().join("keys.toml");
    let (first, first_secret) = Key::fresh("first", Rights::ReadOnly).expect("a key");
    let (second, second_secret) = Key::fresh("second", Rights::Admin).expect("a key");
    fs::write(&path, first.to_toml()).expect("written");
    let given = vec![Key::plain("given", ADMIN, Rights::Admin).expect("a key")];
    let config = ServerConfig { key_file: Some(path.clone()), keys: given, ..config() };
    let served = Served::start_with(folder.path(), &config);
    let status = |key: &str| with_key(&served, key, "GET", "/collections", None).status;
    assert_eq!([first_secret.as_str(), second_secret.as_str(), ADMIN].map(status), [200, 401, 200]);

    fs::write(&path, second.to_toml()).expect("written");
    eventually("the second key is known", || status(&second_secret) == 200);
    assert_eq!([first_secret.as_str(), ADMIN].map(status), [401, 200], "the first is gone, the given stays");

    for broken in ["", "[[key]]\nname = 1", "# no key is left: this must not open the server to all\n"] {
        fs::write(&path, broken).expect("written");
        // Longer than the file is left alone.
        thread::sleep(Duration::from_millis(1500));
        assert_eq!([second_secret.as_str(), first_secret.as_str(), ""].map(status), [200, 401, 401]);
    }
    fs::write(&path, first.to_toml()).expect("written");
    eventually("the first key is known again", || status(&first_secret) == 200);
}

#[test]
fn without_keys_only_this_machine_is_served_unless_the_operator_says_so() {
    let folder = tempdir().expect("a folder");
    let bind = |config: &ServerConfig| {
        Server::bind(std::sync::Arc::new(Catalogue::new(folder.path())), config).map(drop)
    };
    for host in ["0.0.0.0", "::"] {
        let open = ServerConfig { host: host.to_owned(), ..config() };
        let refused = bind(&open);
        // A machine without IPv6 has no such address.
        if let Err(ServeError::Listen { .. }) = refused {
            continue;
        }
        let error = refused.expect_err("others can reach it");
        assert!(matches!(error, ServeError::Unprotected { .. }), "{error}");
        assert!(error.to_string().contains("--allow-unauthenticated"), "{error}");
        assert!(open.check().iter().any(|error| matches!(error, ServeError::Unprotected { .. })));
        bind(&ServerConfig { allow_unauthenticated: true, ..open.clone() }).expect("the operator said so");
        bind(&ServerConfig { keys: keys(), ..open }).expect("there are keys");
    }
    for host in ["127.0.0.1", "localhost"] {
        bind(&ServerConfig { host: host.to_owned(), ..config() }).expect("this machine alone");
    }
}

#[test]
fn no_page_of_another_origin_is_served_but_those_that_are_listed() {
    let folder = tempdir().expect("a folder");
    let cross = |told: &Told| {
        let is_cross = |name: &&str| name.starts_with("access-control-");
        told.headers.keys().map(|name| name.as_str()).filter(is_cross).map(str::to_owned).collect::<Vec<_>>()
    };
    let preflight =
        |origin| [("origin", origin), ("access-control-request-method", "PUT"), ("x-request-id", "r 1")];
    let served = guarded(folder.path());
    let told = ask(&served, "OPTIONS", "/collections/x", &preflight("https://a.example"), None);
    assert!(told.status == 401 && cross(&told).is_empty(), "{:?}", told.headers);
    let told = ask(&served, "GET", "/", &[("origin", "https://a.example")], None);
    assert!(told.status == 200 && cross(&told).is_empty() && told.header("vary").is_none());
    drop(served);

    let cors_origins = vec!["https://a.example".to_owned()];
    let served = Served::start_with(folder.path(), &ServerConfig { keys: keys(), cors_origins, ..config() });
    let told = ask(&served, "OPTIONS", "/collections/x", &preflight("https://a.example"), None);
    assert_eq!((told.status, told.header("access-control-allow-origin")), (204, Some("https://a.example")));
    assert!(told.header("access-control-allow-headers").is_some_and(|names| names.contains("api-key")));
    assert!(told.header("access-control-allow-credentials").is_none());
    let told = ask(&served, "GET", "/collections", &[("origin", "https://a.example")], None);
    assert_eq!((told.status, told.header("access-control-allow-origin")), (401, Some("https://a.example")));
    for other in
        ["https://b.example", "https://a.example.org", "https://a.example:444", "http://a.example", "null"]
    {
        for (method, headers) in [("OPTIONS", preflight(other).to_vec()), ("GET", vec![("origin", other)])] {
            let told = ask(&served, method, "/", &headers, None);
            assert!(cross(&told).is_empty(), "{method} {other}: {:?}", told.headers);
            assert!(told.header("vary").is_some_and(|names| names.contains("origin")));
        }
    }
    let wrong = ServerConfig { cors_origins: vec!["*".to_owned()], ..config() };
    let error = Server::bind(std::sync::Arc::new(Catalogue::new(folder.path())), &wrong).map(drop);
    assert!(matches!(error, Err(ServeError::Setting(_))), "every origin is none");
}

#[test]
fn changes_and_refusals_are_written_down_and_reads_are_not() {
    let (folder, files) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let path = files.path().join("audit.jsonl");
    let audit = Some(AuditConfig { path: path.clone(), blocks: true });
    let served = Served::start_with(folder.path(), &ServerConfig { keys: keys(), audit, ..config() });
    fill(&served);
    let point = json!({"points": [{"id": 1, "vector": [1, 0]}]}).to_string();
    let headers = [("api-key", SHOP), ("content-type", "application/json"), ("x-request-id", "mine-1")];
    let told = ask(&served, "PUT", "/collections/shop/points", &headers, Some(point.as_bytes()));
    assert_eq!((told.status, told.header("x-request-id")), (200, Some("mine-1")));
    assert_eq!(with_key(&served, SHOP, "GET", "/collections", None).status, 200);
    assert_eq!(with_key(&served, SHOP, "DELETE", "/collections/docs", None).status, 403);
    let nobody = ask(&served, "GET", "/collections", &[("x-request-id", "with space")], None);
    assert_eq!(ask(&served, "GET", "/healthz", &[], None).status, 200);

    let text = fs::read_to_string(&path).expect("the log");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let seen =
        |line: &Value| ["key", "method", "route", "collection", "status"].map(|name| line[name].clone());
    let wanted = [
        json!(["chief", "PUT", "/collections/{collection}", "shop", 200]),
        json!(["chief", "PUT", "/collections/{collection}", "docs", 200]),
        json!(["chief", "PUT", "/collections/{collection}", "secret", 200]),
        json!(["shop", "PUT", "/collections/{collection}/points", "shop", 200]),
        json!(["shop", "DELETE", "/collections/{collection}", "docs", 403]),
        json!([null, "GET", "/collections", null, 401]),
    ];
    assert_eq!(lines.iter().map(|line| json!(seen(line))).collect::<Vec<_>>(), wanted);
    assert_eq!(lines[3]["request_id"], "mine-1");
    assert_eq!(lines[5]["request_id"].as_str(), nobody.header("x-request-id"), "a name that cannot be taken");
    for line in &lines {
        assert_eq!(line["client"], "127.0.0.1");
        let time = line["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert!(line["milliseconds"].as_f64().is_some_and(|number| number > 0.0));
    }
    assert!([ADMIN, SHOP].iter().all(|key| !text.contains(key)), "keys are named, not told");
    let metrics = with_key(&served, READER, "GET", "/metrics", None).text;
    assert!(metrics.contains("audit_failures_total 0\n"), "{metrics}");
}

#[test]
fn an_audit_log_that_cannot_be_written_is_told_and_stops_nothing() {
    let folder = tempdir().expect("a folder");
    for blocks in [true, false] {
        let audit = Some(AuditConfig { path: "/dev/full".into(), blocks });
        let served = Served::start_with(folder.path(), &ServerConfig { audit, ..config() });
        let path = format!("/collections/c{blocks}");
        served.did("PUT", &path, &json!({"vectors": {"size": 2, "distance": "Dot"}}));
        eventually("the loss is counted", || served.text("/metrics").2.contains("audit_failures_total 1\n"));
    }
    let nowhere = AuditConfig { path: folder.path().join("no/such/folder/log"), blocks: false };
    let wrong = ServerConfig { audit: Some(nowhere), ..config() };
    assert!(matches!(wrong.check()[..], [ServeError::Audit { .. }]));
}
