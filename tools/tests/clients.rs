//! Clients in Python against `dehub serve`.
//!
//! The answers to Qdrant's own client are those of that client's mode in memory: what is compared is in
//! `clients/compare.py`, in sections that are run one by one. What the OpenAPI document says is compared with what the
//! server does: its examples in `clients/document.py`, and requests that schemathesis makes up with `clients/hooks.py`.
//! The adapters in `examples` are run by `clients/adapters.py` as the benchmarks they are for run them.

mod python;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The sections of `compare.py` that the server passes.
const SECTIONS: &[&str] = &[
    "connecting",
    "collections",
    "settings",
    "errors",
    "writing",
    "uploading",
    "aliases",
    "snapshots",
    "scrolling",
    "filtering",
    "deleting_by_filter",
    "payloads",
    "indexes",
    "facets",
    "querying",
    "empty",
    "batches",
    "groups",
    "migrating",
    "fusion",
    "recommending",
    "discovering",
    "ordering",
    "search_paths",
    "asking_an_alias",
    "named",
    "multivectors",
];

/// A server in a process of its own, killed when the test is done with it.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Serves from `data` in this folder, with backups beside it.
    fn start(folder: &Path) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
        command.args(["serve", "--port", "0", "--json", "--data-dir"]);
        command.arg(folder.join("data")).arg("--backups").arg(folder.join("backups"));
        let process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = process.expect("the binary runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).expect("the address as JSON");
        Server { process, address: started["address"].as_str().expect("an address").to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Runs a script beside this file with arguments; gives what it prints. It must end well.
fn run(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let mut command = Command::new(python::interpreter());
    // A cache of bytecode would be left among the sources.
    command.arg("-B").arg(script).args(arguments);
    ended(&mut command)
}

fn ended(command: &mut Command) -> String {
    let ended = command.output().expect("the interpreter runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}\n{}", text(&ended.stdout), text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn qdrants_client_gets_the_answers_of_its_own_mode_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let data = folder.path().join("data");
    let data = data.to_str().expect("a path of text");
    run("compare.py", &[&[server.address.as_str(), data], SECTIONS].concat());
}

#[test]
fn adapters_for_benchmarks_find_what_numpy_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("examples");
    let told = run("adapters.py", &[&server.address, examples.to_str().expect("a path of text")]);
    assert_eq!(told.trim(), "ann_benchmarks, beir and mteb");
}

#[test]
fn every_example_of_the_document_is_answered_as_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let data = folder.path().join("data");
    let data = data.to_str().expect("a path of text");
    let told = run("document.py", &[&server.address, data]);
    assert!(told.contains("fields of"), "{told}");
}

/// Requests that schemathesis makes up for an operation.
const CASES_OF_AN_OPERATION: &str = "25";

/// What it looks at in the answers.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance";

#[test]
fn requests_that_are_made_up_get_answers_that_the_document_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let beside = tempfile::tempdir().expect("a folder");
    let counts = beside.path().join("counts.json");
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/hooks.py");
    let mut command = Command::new(python::interpreter());
    command.args(["-B", "-m", "schemathesis.cli", "run"]).arg(format!("{}/openapi.json", server.address));
    command.args([
        "--phases",
        "examples,fuzzing",
        "--max-examples",
        CASES_OF_AN_OPERATION,
        "--seed",
        "20261",
    ]);
    command.args(["--checks", CHECKS, "--continue-on-failure", "--no-shrink", "--no-color"]);
    command.args(["--generation-database", "none", "--request-timeout", "60"]);
    // It leaves files where it runs.
    command.current_dir(beside.path());
    command.env("SCHEMATHESIS_HOOKS", hooks).env("DEHUB_URL", &server.address).env("DEHUB_COUNTS", &counts);
    ended(&mut command);
    let counts: BTreeMap<String, u64> =
        serde_json::from_slice(&fs::read(&counts).expect("the counts")).expect("counts by status");
    let all: u64 = counts.values().sum();
    let done: u64 = ["200", "202"].iter().filter_map(|status| counts.get(*status)).sum();
    assert!(all >= 2000, "{counts:?}");
    assert!(done * 3 >= all, "most are refused: {counts:?}");
}
