//! Qdrant's own Python client against `dehub serve`: its answers are those of that client's mode in memory.
//!
//! What is compared is in `clients/compare.py`, in sections that are run one by one.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
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
    "fusion",
    "recommending",
    "discovering",
    "ordering",
    "search_paths",
    "asking_an_alias",
];

/// A server in a process of its own, killed when the test is done with it.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
        command.args(["serve", "--port", "0", "--json", "--data-dir"]).arg(data);
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

/// The interpreter that `make setup-test` prepares: where the Makefile says, or where it is without being told.
fn python() -> PathBuf {
    let told = env::var_os("DEHUB_TEST_PYTHON").map(PathBuf::from);
    let cache = || {
        let own = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
    };
    let path = told.or_else(|| Some(cache()?.join("dehub/python/bin/python")));
    let path = path.expect("there is a home directory, or DEHUB_TEST_PYTHON names the interpreter");
    assert!(
        path.is_file(),
        "there is no Python with Qdrant's client at {}: run `make setup-test`, which installs it",
        path.display()
    );
    path
}

#[test]
fn qdrants_client_gets_the_answers_of_its_own_mode_in_memory() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/compare.py");
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let mut command = Command::new(python());
    // A cache of bytecode would be left among the sources.
    command.arg("-B").arg(script).arg(&server.address).arg(folder.path()).args(SECTIONS);
    let ended = command.output().expect("the interpreter runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}\n{}", text(&ended.stdout), text(&ended.stderr));
}
