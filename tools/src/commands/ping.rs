//! `dehub ping`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context as _, bail};
use dehub_api::{TlsAnswer, ask_over_tls};
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::Ping;
use crate::settings::TlsSettings;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The longest answer looked at.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Asks the server that the settings describe how it is. One that speaks TLS must have the certificate of the settings.
pub(crate) fn run(context: &Context, command: &Ping) -> anyhow::Result<Outcome> {
    let service = &context.settings.service;
    let host = if service.host.contains(':') { format!("[{}]", service.host) } else { service.host.clone() };
    let address = format!("{host}:{}", service.port);
    let stream = connect(&service.host, service.port)
        .with_context(|| format!("no server listens on {address}, or it does not answer"))?;
    let path = if command.ready { "/readyz" } else { "/livez" };
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let answer = match service.tls.as_ref().map(TlsSettings::config) {
        None => Some(ask(stream, &head)?),
        Some(tls) => match ask_over_tls(&tls, stream, head.as_bytes(), ANSWER_BYTES_MAX) {
            Ok(TlsAnswer::Bytes(answer)) => Some(answer),
            Ok(TlsAnswer::WantsCertificate) => None,
            Err(error) => return Err(error).with_context(|| format!("no answer of {address} over TLS")),
        },
    };
    let told = match answer {
        None => "lives, and answers only clients that have a certificate",
        Some(answer) => {
            check(&address, path, &String::from_utf8_lossy(&answer))?;
            if command.ready { "is ready" } else { "lives" }
        }
    };
    context.output.result(&json!({ "address": address, "server": told }), || {
        format!("the server on {address} {told}")
    })?;
    Ok(Outcome::Done)
}

fn ask(mut stream: TcpStream, head: &str) -> anyhow::Result<Vec<u8>> {
    stream.write_all(head.as_bytes()).context("the question cannot be sent")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).context("no answer")?;
    Ok(answer)
}

fn check(address: &str, path: &str, answer: &str) -> anyhow::Result<()> {
    let status = answer.split(' ').nth(1).unwrap_or("nothing");
    if status != "200" {
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
        bail!("the server on {address} answered {path} with {status}: {body}");
    }
    Ok(())
}

/// Whoever listens on every address is asked on this machine's own.
fn connect(host: &str, port: u16) -> anyhow::Result<TcpStream> {
    let mut last = None;
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&reachable(address), ANSWER_WITHIN) {
            Ok(stream) => {
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                stream.set_write_timeout(Some(ANSWER_WITHIN))?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("{host} has no address"), Into::into))
}

fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) if address.ip().is_unspecified() => ([127, 0, 0, 1], address.port()).into(),
        SocketAddr::V6(_) if address.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, address.port()).into()
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    }
}
