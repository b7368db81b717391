//! What a browser does for pages that are not the server's own, and what every client may ask of every path.

use dehub_api::{Access, ServerConfig, routes};
use serde_json::json;
use tempfile::tempdir;

use crate::client::{Served, config};
use crate::raw::{connect, exchange};
use crate::security::{Told, ask, filled};

const JSON: (&str, &str) = ("content-type", "application/json");

fn code(told: &Told) -> String {
    let body: serde_json::Value = serde_json::from_str(&told.text).unwrap_or_default();
    body["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_page_of_another_origin_changes_nothing_by_any_route() {
    let folder = tempdir().expect("a folder");
    let listed = "https://friend.example";
    let served = Served::start_with(
        folder.path(),
        &ServerConfig { cors_origins: vec![listed.to_owned()], ..config() },
    );
    let own = format!("http://{}", served.address);
    let (secure, other_port) = (format!("https://{}", served.address), "http://127.0.0.1:1".to_owned());
    let foreign = ["http://evil.example", "null", "", &secure, &other_port, "https://friend.example.evil"];
    let mut changes = 0;
    for route in routes().iter().filter(|route| route.access > Access::Public) {
        let path = filled(route.pattern);
        let body = (route.method != "GET" && route.method != "DELETE").then_some(&b"{}"[..]);
        let told = |headers: &[(&str, &str)]| {
            let headers: Vec<_> = headers.iter().chain(body.map(|_| &JSON)).copied().collect();
            code(&ask(&served, &route.method, &path, &headers, body))
        };
        let what = format!("{} {path}", route.method);
        let is_refused = route.method != "GET";
        for origin in foreign {
            assert_eq!(told(&[("origin", origin)]) == "foreign_origin", is_refused, "{what}: {origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(told(&[("sec-fetch-site", site)]) == "foreign_origin", is_refused, "{what}: {site}");
        }
        let allowed = [
            vec![("origin", own.as_str()), ("sec-fetch-site", "same-origin")],
            vec![("origin", listed), ("sec-fetch-site", "cross-site")],
            vec![("sec-fetch-site", "none")],
            vec![],
        ];
        for headers in allowed {
            assert_ne!(told(&headers), "foreign_origin", "{what}: {headers:?}");
        }
        changes += usize::from(is_refused);
    }
    assert!(changes > 40, "{changes}");
}

#[test]
fn a_form_of_another_page_leaves_a_collection_as_it_is() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let form =
        b"--x\r\ncontent-disposition: form-data; name=\"snapshot\"; filename=\"a\"\r\n\r\nany\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x"), ("origin", "http://evil.example")];
    let upload = "/collections/c/snapshots/upload";
    let refused = exchange(served.address, "POST", upload, &headers, form);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("foreign_origin")));
    let answer = exchange(served.address, "POST", upload, &headers[..1], form);
    assert_eq!(answer.json()["code"], "snapshot_damaged", "it is the origin that was refused");
}

#[test]
fn without_keys_a_server_of_this_machine_answers_to_its_own_names_alone() {
    let folder = tempdir().expect("a folder");
    let hosts = vec!["search.example".to_owned()];
    let open = Served::start(folder.path());
    let status =
        |served: &Served, path: &str, host: &str| ask(served, "GET", path, &[("host", host)], None).status;
    for host in ["attacker.example:7363", "localhost.example", "search.example", "0.0.0.0", "10.0.0.1:80"] {
        for path in ["/collections", "/", "/openapi.json", "/nothing"] {
            let told = ask(&open, "GET", path, &[("host", host)], None);
            assert_eq!((told.status, code(&told).as_str()), (421, "unknown_host"), "{path} {host}");
        }
        let rebound = [("host", host), ("origin", &format!("http://{host}"))];
        assert_eq!(ask(&open, "DELETE", "/collections/c", &rebound, None).status, 421, "{host}");
    }
    for host in ["localhost:1", "LocalHost", "a.localhost", "127.8.8.8", "[::1]:6363"] {
        assert_eq!(status(&open, "/collections", host), 200, "{host}");
    }
    drop(open);
    let listed = Served::start_with(folder.path(), &ServerConfig { hosts: hosts.clone(), ..config() });
    assert_eq!(status(&listed, "/collections", "Search.example:443"), 200);
    assert_eq!(status(&listed, "/collections", "attacker.example"), 421);
    drop(listed);
    let keyed = ServerConfig { keys: crate::security::keys(), ..config() };
    let keyed = Served::start_with(folder.path(), &keyed);
    assert_eq!(status(&keyed, "/", "search.example"), 200, "who has keys is not taken for a name");
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    served.did("PUT", "/collections/shop", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let all = routes();
    let reads: Vec<_> = all.iter().filter(|route| route.method == "GET").collect();
    for route in &reads {
        let path = filled(route.pattern);
        let [get, head] = ["GET", "HEAD"].map(|method| ask(&served, method, &path, &[], None));
        assert_eq!((head.status, head.text.as_str()), (get.status, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        let length =
            |told: &Told| told.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let is_told = length(&get).is_none_or(|bytes| bytes == 0 || length(&head) > Some(0));
        assert!(is_told, "{path}: {:?} {:?}", head.headers, get.headers);
    }
    assert!(reads.len() > 20);
    let post_only = ask(&served, "HEAD", "/collections/shop/points/query", &[], None);
    assert_eq!((post_only.status, post_only.header("allow")), (405, Some("POST")));
    // What follows on the connection is the next answer.
    let mut stream = connect(served.address);
    let both = "HEAD /collections HTTP/1.1\r\nhost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nhost: localhost\r\n\
                connection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, both.as_bytes()).expect("sent");
    let text = std::io::read_to_string(&mut stream).expect("text");
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
    assert!(text.ends_with("healthz check passed") && !text.contains("\"result\""), "{text}");
}

#[test]
fn what_opens_a_tunnel_is_refused_at_once() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let heads = [
        "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ];
    for (head, wanted) in heads.iter().zip([405, 404]) {
        let mut stream = connect(served.address);
        std::io::Write::write_all(&mut stream, head.as_bytes()).expect("sent");
        let started = std::time::Instant::now();
        let answer = crate::raw::answer(&mut stream).expect("an answer");
        assert_eq!(answer.status, wanted, "{head}");
        assert!(started.elapsed().as_secs() < 60, "it is not waited for a body: {head}");
    }
}
