//! A server in a process of its own, and a plain client: one connection that is kept, so that what is measured is the
//! server and not a client library.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How long a server may take until it serves, and an answer until it is there.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command `dehub` of this build.
///
/// # Errors
/// If this process does not know its own place.
pub fn program() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.ancestors().nth(2).ok_or("a bench is built two folders deep")?.join("dehub"))
}

/// A `dehub serve` that is killed when dropped.
pub struct Served {
    child: Child,
    /// `host:port`.
    pub address: String,
}

impl Served {
    /// Starts `dehub serve` of this build on a data directory, at a free port, with these settings by the names of
    /// the environment.
    pub fn start(data: &Path, settings: &[(&str, &str)]) -> Outcome<Served> {
        let program = program()?;
        let version = Command::new(&program).arg("--version").output();
        let version = version.map_err(|error| format!("{}: {error}", program.display()))?.stdout;
        if String::from_utf8_lossy(&version).contains("debug assertions") {
            return Err(
                "the command `dehub` is built as for tests, which is slower: `make build` first".into()
            );
        }
        let mut command = Command::new(&program);
        command.arg("--json").arg("--data-dir").arg(data).args(["serve", "--port", "0"]);
        command.envs(settings.iter().copied()).env("DEHUB_LOG", "warn").stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let address = said["address"].as_str().ok_or("no address")?.trim_start_matches("http://").to_owned();
        let served = Served { child, address };
        let start = Instant::now();
        while served.connect()?.get("/readyz")?.status != 200 {
            if start.elapsed() > PATIENCE {
                return Err("the server does not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(served)
    }

    /// A new connection.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::new(&self.address)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory it has in use; `None` where there is no `/proc`.
    pub fn resident_bytes(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024.0)
    }

    /// Asks it to stop; gives the seconds until it has, and whether it said that all was well.
    pub fn terminate(mut self) -> Outcome<(f64, bool)> {
        let start = Instant::now();
        Command::new("kill").arg(self.pid().to_string()).status()?;
        let status = self.child.wait()?;
        Ok((start.elapsed().as_secs_f64(), status.success()))
    }

    /// Kills it.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A connection that is kept.
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

/// What a server answers.
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Outcome<Value> {
        let said = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).map_err(|error| format!("{error}: {}", said()).into())
    }

    /// The body as JSON, of an answer that is no refusal.
    pub fn ok(&self) -> Outcome<Value> {
        if (200..300).contains(&self.status) {
            return self.json();
        }
        Err(format!("status {}: {}", self.status, String::from_utf8_lossy(&self.body)).into())
    }
}

impl Connection {
    fn new(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream: BufReader::new(stream), host: address.to_owned() })
    }

    /// The bytes of a request, which can be sent many times.
    pub fn request(&self, method: &str, path: &str, media: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: {media}\r\naccept: {media}\r\n\
             content-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }

    /// Sends a request and waits for the answer.
    pub fn send(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken("no status line"))?;
        let mut length = None;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
        }
        let mut body = vec![0; length.ok_or_else(|| broken("no length"))?];
        self.stream.read_exact(&mut body)?;
        Ok(Reply { status, body })
    }

    /// Asks for a path.
    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        let request = self.request("GET", path, "application/json", b"");
        self.send(&request)
    }

    /// Sends JSON to a path.
    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> io::Result<Reply> {
        let request = self.request(method, path, "application/json", body.to_string().as_bytes());
        self.send(&request)
    }
}
