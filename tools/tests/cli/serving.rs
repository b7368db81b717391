//! `dehub serve` as a process: its address, its lock, its end, and its death.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::Dehub;

/// A running server; killed when the test is done with it.
pub(crate) struct Server {
    process: Child,
    address: String,
}

impl Server {
    pub(crate) fn start(dehub: &Dehub) -> Server {
        let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).expect("the address as JSON");
        Server { process, address: started["address"].as_str().expect("an address").to_owned() }
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.address);
        ureq::put(&url).send_json(body).expect("accepted").body_mut().read_json().expect("JSON")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.address);
        ureq::post(&url).send_json(body).expect("accepted").body_mut().read_json().expect("JSON")
    }

    pub(crate) fn signal(&mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
        self.process.wait().expect("the server ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn a_collection_made_by_commands_answers_over_http() {
    let dehub = Dehub::new();
    dehub.ok(&["demo", "--from", &crate::testdata("wordnet")]);
    let search = ["search", "wordnet", "--id", "n12960211", "-k", "3", "--correction", "IS(beta=20)"];
    let from_command = dehub.json(&search);
    let mut server = Server::start(&dehub);
    let query = json!({ "query": "n12960211", "limit": 3, "hubness": { "correction": "IS(beta=20)" } });
    let over_http = server.post("/collections/wordnet/points/query", &query);
    for (hit, wanted) in
        (0..3).map(|place| (&over_http["result"]["points"][place], &from_command["points"][place]))
    {
        for field in ["id", "score", "raw_score", "bias"] {
            assert_eq!(hit[field], wanted[field], "{field}");
        }
    }
    assert_eq!(server.signal("-TERM"), Some(0));
}

#[test]
fn a_command_takes_an_alias_that_was_made_over_http() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let mut server = Server::start(&dehub);
    server.put("/collections/x/points", &json!({ "points": [{ "id": 1, "vector": [1, 0] }] }));
    let alias = json!({ "create_alias": { "collection_name": "x", "alias_name": "now" } });
    server.post("/collections/aliases", &json!({ "actions": [alias] }));
    assert_eq!(server.signal("-KILL"), None);
    let best = dehub.json(&["search", "now", "--vector", "[1, 0]", "-k", "1"]);
    assert_eq!(best["points"][0]["id"], 1);
    assert_eq!(dehub.run(&["create", "now", "--dim", "2"]).code, 1, "the name is an alias");
    dehub.ok(&["delete", "x"]);
    dehub.ok(&["create", "now", "--dim", "2"]);
}

#[test]
fn a_directory_that_is_served_is_refused_to_others_by_name() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let mut server = Server::start(&dehub);
    server.put("/collections/x/points", &json!({ "points": [{ "id": 1, "vector": [1, 0] }] }));
    let process = format!("process {}", server.process.id());
    for command in
        [&["info", "x"][..], &["delete", "x"], &["create", "y", "--dim", "2"], &["serve", "--port", "0"]]
    {
        let ended = dehub.run(command);
        assert_eq!(ended.code, 1);
        for part in ["in use", &process, "dehub", "serve --port 0", "HTTP"] {
            let is_server = command[0] == "serve" && part == "HTTP";
            assert!(is_server || ended.stderr.contains(part), "{command:?}, {part}: {}", ended.stderr);
        }
    }
    assert_eq!(server.signal("-TERM"), Some(0));
    assert_eq!(dehub.json(&["info", "x"])["points"], 1);
}

#[test]
fn a_command_that_reads_makes_no_data_directory() {
    let dehub = Dehub::new();
    for command in [&["info"][..], &["info", "x"], &["search", "x", "--id", "1"], &["delete", "x"]] {
        let ended = dehub.run(command);
        assert_eq!(ended.code, i32::from(command.len() > 1), "{}", ended.stderr);
        assert!(!dehub.path("data").exists(), "{command:?}");
    }
}

#[test]
fn what_was_acknowledged_survives_the_servers_death() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let mut server = Server::start(&dehub);
    let bank = json!({ "kind": "query", "vectors": [[1, 0], [0, 1], [0.5, 0.5]] });
    server.put("/collections/x/banks/b", &bank);
    server.put("/collections/x/corrections/is", &json!({ "method": "IS(beta=20)", "query_bank": "b" }));
    for id in 0..50 {
        server.put("/collections/x/points", &json!({ "points": [{ "id": id, "vector": [id, 1] }] }));
    }
    assert_eq!(server.signal("-KILL"), None);
    let info = dehub.json(&["info", "x"]);
    assert_eq!(info["points"], 50);
    assert_eq!(info["sequence"], 52);
    let best = dehub.json(&["search", "x", "--vector", "[1, 0]", "-k", "50", "--correction", "is"]);
    assert_eq!(best["points"].as_array().map(Vec::len), Some(50));
}

#[test]
fn a_port_in_use_is_named() {
    let dehub = Dehub::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let ended = dehub.run(&["serve", "--port", &port]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains(&format!("127.0.0.1:{port}")), "{}", ended.stderr);
}
