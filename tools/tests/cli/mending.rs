//! A server whose disk refuses writes for a while.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;

use crate::Dehub;

/// A server that is not ended by a file that grows too large, but told so.
struct Limited {
    process: Child,
    address: String,
    agent: Agent,
}

impl Limited {
    fn start(dehub: &Dehub) -> Limited {
        let binary = dehub.command(&["serve", "--port", "0", "--json"]);
        let mut command = Command::new("sh");
        // What a shell ignores its commands ignore.
        command
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(binary.get_program())
            .args(binary.get_args());
        command.current_dir(binary.get_current_dir().expect("a folder"));
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the shell runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).expect("the address as JSON");
        let agent = Agent::new_with_config(Agent::config_builder().http_status_as_error(false).build());
        Limited { process, address: started["address"].as_str().expect("an address").to_owned(), agent }
    }

    /// Lets no file be longer than so many bytes.
    fn limit(&self, bytes: &str) {
        let limit = format!("--fsize={bytes}:unlimited");
        let status = Command::new("prlimit").args(["--pid", &self.process.id().to_string(), &limit]).status();
        assert!(status.expect("prlimit runs").success());
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let mut response = self.agent.get(format!("{}{path}", self.address)).call().expect("an answer");
        (response.status().as_u16(), response.body_mut().read_json().expect("JSON"))
    }

    fn put_point(&self, id: u64) -> (u16, Value) {
        let body = json!({ "points": [{ "id": id, "vector": [1, id] }] });
        let url = format!("{}/collections/x/points", self.address);
        let mut response = self.agent.put(url).send_json(&body).expect("an answer");
        (response.status().as_u16(), response.body_mut().read_json().expect("JSON"))
    }

    /// Whether `/readyz` says so in time.
    fn wait_until(&self, status: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (_, body) = self.get("/readyz");
            if body["status"] == status {
                return body;
            }
            assert!(Instant::now() < deadline, "not {status}: {body}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn a_writer_that_failed_recovers_by_itself_while_readers_are_answered() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let server = Limited::start(&dehub);
    server.wait_until("ok");
    let mut acknowledged: Vec<u64> = (0..20).collect();
    for id in &acknowledged {
        assert_eq!(server.put_point(*id).0, 200);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Acquire) {
                let (status, body) = server.get("/collections/x/points/7");
                assert_eq!(status, 200, "{body}");
                answered += 1;
            }
            answered
        });
        server.limit("64");
        let (status, body) = server.put_point(1000);
        assert_eq!(status, 503, "{body}");
        let (status, body) = server.put_point(1001);
        assert_eq!(status, 503, "{body}");
        let body = server.wait_until("degraded");
        let x = &body["collections"]["x"];
        assert_eq!(x["state"], "open", "{x}");
        assert!(x["error"].as_str().is_some_and(|error| error.contains("no writes")), "{x}");
        assert!(server.get("/collections/x").1["result"]["writer"]["failure"]["cause"].is_string());
        server.limit("unlimited");
        server.wait_until("ok");
        for id in 20..30 {
            let (status, body) = server.put_point(id);
            assert_eq!(status, 200, "{body}");
            acknowledged.push(id);
        }
        is_over.store(true, Ordering::Release);
        assert!(reading.join().expect("every read is answered") > 0);
    });
    for id in acknowledged {
        assert_eq!(server.get(&format!("/collections/x/points/{id}")).0, 200, "{id} was acknowledged");
    }
    assert_eq!(server.get("/collections/x").1["result"]["writer"]["failure"], Value::Null);
}

#[test]
fn durability_is_chosen_shown_and_changed() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    dehub.ok(&["create", "y", "--dim", "2", "--durability", "relaxed"]);
    let shown = |name: &str| dehub.json(&["info", name])["writer"]["durability"].clone();
    assert_eq!((shown("x"), shown("y")), (json!("strict"), json!("relaxed")));
    assert_eq!(dehub.json(&["durability", "x"]), json!({ "collection": "x", "durability": "strict" }));
    assert_eq!(dehub.json(&["durability", "x", "relaxed"])["durability"], "relaxed");
    assert_eq!(shown("x"), "relaxed");
    assert!(dehub.ok(&["info", "x"]).stdout.contains("durability  relaxed"));
    let ended = dehub.run(&["durability", "x", "lax"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("wanted strict or relaxed"), "{}", ended.stderr);
    assert_eq!(shown("x"), "relaxed");
}

#[test]
fn commands_on_different_collections_run_at_the_same_time() {
    let dehub = Dehub::new();
    let names: Vec<String> = (0..4).map(|place| format!("c{place}")).collect();
    for name in &names {
        dehub.ok(&["create", name, "--dim", "2", "--metric", "dot"]);
    }
    let lines: Vec<String> =
        (0..200).map(|id| format!("{{\"id\": {id}, \"vector\": [1, {id}]}}\n")).collect();
    let file = dehub.file("points.jsonl", lines.concat());
    thread::scope(|scope| {
        let running: Vec<_> =
            names.iter().map(|name| scope.spawn(|| dehub.run(&["import", name, &file]))).collect();
        for command in running {
            let ended = command.join().expect("no panic");
            assert_eq!(ended.code, 0, "{}", ended.stderr);
        }
    });
    for name in &names {
        assert_eq!(dehub.json(&["info", name])["points"], 200);
    }
}
