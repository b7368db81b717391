//! Requests byte by byte, over a socket of one's own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}{text}", self.head))
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a valid timeout");
    stream
}

/// The head of a request, with a length if there is one.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)], length: Option<usize>) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(length) = length {
        head += &format!("content-length: {length}\r\n");
    }
    head + "\r\n"
}

/// Reads one answer; `None` if the connection ends before one begins.
pub(crate) fn answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.extend(byte),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).expect("a head is text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut answer = Answer { status, head, body: Vec::new() };
    if status >= 200 {
        let length = answer.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        answer.body = vec![0; length];
        stream.read_exact(&mut answer.body).expect("the whole body");
    }
    Some(answer)
}

/// Sends all of a request, and only then reads.
pub(crate) fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = connect(address);
    stream.write_all(head(method, path, headers, Some(body.len())).as_bytes()).expect("sent");
    stream.write_all(body).expect("the server reads all that is sent");
    answer(&mut stream).expect("an answer")
}
