//! A server in a thread, and a client that talks to it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dehub_api::{ServeError, Server, ServerConfig, StopHandle};
use dehub_index::Catalogue;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

/// A running server; it stops, and its collections close, when this is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    client: Client,
}

/// Talks to one server.
#[derive(Clone)]
pub(crate) struct Client {
    base: String,
    agent: Agent,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) allow: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// A configuration for tests: any free port.
pub(crate) fn config() -> ServerConfig {
    ServerConfig { port: 0, workers: 2, ..ServerConfig::default() }
}

impl Served {
    pub(crate) fn start(folder: &Path) -> Served {
        Served::start_with(folder, &config())
    }

    pub(crate) fn start_with(folder: &Path, config: &ServerConfig) -> Served {
        Served::start_on(Arc::new(Catalogue::new(folder)), config)
    }

    /// Serves a catalogue that the test has as well; it must let go of it before this is dropped.
    pub(crate) fn start_on(catalogue: Arc<Catalogue>, config: &ServerConfig) -> Served {
        let server = Server::bind(catalogue, config).expect("a port is free");
        let (address, stop) = (server.address(), server.stop_handle());
        let thread = Some(thread::spawn(move || server.run()));
        Served { address, stop, thread, client: Client::new(address) }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

impl std::ops::Deref for Served {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        let outcome = self.thread.take().expect("stopped once").join();
        if !thread::panicking() {
            outcome.expect("serving does not panic").expect("serving ends well");
        }
    }
}

impl Client {
    /// A client of a server that is there.
    pub(crate) fn new(address: SocketAddr) -> Client {
        let agent = Agent::new_with_config(Agent::config_builder().http_status_as_error(false).build());
        Client { base: format!("http://{address}"), agent }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<&[u8]>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body).expect("a valid request")),
            None => self.agent.run(request.body(()).expect("a valid request")),
        };
        let mut response = response.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().expect("headers are text").to_owned())
        };
        let (content_type, allow) = (header("content-type").unwrap_or_default(), header("allow"));
        let retry_after = header("retry-after");
        let text = response.body_mut().read_to_string().expect("a body of text");
        let is_plain = content_type.starts_with("text/plain");
        let read = |text: &str| {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
        };
        let body = if is_plain { Value::from(text) } else { read(&text) };
        Reply { status: response.status().as_u16(), content_type, allow, retry_after, body }
    }

    /// The status, the content type and the text of what is there.
    pub(crate) fn text(&self, path: &str) -> (u16, String, String) {
        let request =
            Request::builder().uri(format!("{}{path}", self.base)).body(()).expect("a valid request");
        let mut response = self.agent.run(request).expect("an answer");
        let kind = response.headers()["content-type"].to_str().expect("headers are text").to_owned();
        let text = response.body_mut().read_to_string().expect("a body of text");
        (response.status().as_u16(), kind, text)
    }

    /// Sends JSON.
    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.send(method, path, Some("application/json"), Some(body.to_string().as_bytes()))
    }

    /// Sends JSON and gives the result of what must be a success.
    #[track_caller]
    pub(crate) fn did(&self, method: &str, path: &str, body: &Value) -> Value {
        self.json(method, path, body).result()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, None, None).result()
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Value {
        self.send("DELETE", path, None, None).result()
    }
}

impl Reply {
    /// The result in the frame of a success.
    #[track_caller]
    pub(crate) fn result(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.content_type, "application/json");
        assert_eq!(self.body["status"], "ok", "{}", self.body);
        assert!(self.body["time"].as_f64().is_some_and(|seconds| seconds > 0.0), "{}", self.body);
        self.body["result"].clone()
    }
}

/// Numbers from -1 to 1 from a seed (SplitMix64).
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| next()).collect()
}
