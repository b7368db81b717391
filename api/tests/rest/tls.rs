//! TLS: what is spoken, with whom, and new certificates while the server runs.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::{ServeError, ServerConfig, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned};
use tempfile::{TempDir, tempdir};

use crate::client::{Served, config};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// An authority of its own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

/// The files of a server.
struct Files(TempDir);

impl Files {
    fn new(identity: &Identity) -> Files {
        let files = Files(tempdir().expect("a folder"));
        files.put(identity);
        files
    }

    fn put(&self, identity: &Identity) {
        fs::write(self.0.path().join("key.pem"), &identity.key).expect("written");
        fs::write(self.0.path().join("cert.pem"), &identity.certificate).expect("written");
    }

    fn config(&self) -> ServerConfig {
        let tls = TlsConfig {
            certificate: self.0.path().join("cert.pem"),
            key: self.0.path().join("key.pem"),
            client_authorities: None,
        };
        ServerConfig { tls: Some(tls), ..config() }
    }
}

fn connect(
    served: &Served,
    trusted: &Authority,
    versions: &[&'static rustls::SupportedProtocolVersion],
    identity: Option<&Identity>,
) -> io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).expect("PEM")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("they belong together")
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("dehub.test").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect(served.address)?);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// The head and the body of `GET /healthz`.
fn health(stream: &mut Stream) -> io::Result<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut text = Vec::new();
    while !text.ends_with(b"healthz check passed") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.extend(byte);
    }
    Ok(String::from_utf8(text).expect("text"))
}

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

#[test]
fn both_versions_are_spoken_and_plain_text_is_not() {
    let (folder, authority) = (tempdir().expect("a folder"), Authority::new());
    let files = Files::new(&authority.issue("dehub.test"));
    let served = Served::start_with(folder.path(), &files.config());
    let versions = [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ];
    for (version, wanted) in versions {
        let mut stream = connect(&served, &authority, &[version], None).expect("a handshake");
        assert_eq!(stream.conn.protocol_version(), Some(wanted));
        assert!(health(&mut stream).expect("an answer").starts_with("HTTP/1.1 200"));
    }
    assert!(connect(&served, &Authority::new(), &BOTH, None).is_err(), "another authority is not trusted");
    let mut plain = TcpStream::connect(served.address).expect("connected");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // A broken connection is as good as a closed one.
    _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn new_certificates_are_taken_without_a_restart_and_broken_ones_are_not() {
    let (folder, old, new) = (tempdir().expect("a folder"), Authority::new(), Authority::new());
    let files = Files::new(&old.issue("dehub.test"));
    let served = Served::start_with(folder.path(), &files.config());
    let mut kept = connect(&served, &old, &BOTH, None).expect("a handshake");
    health(&mut kept).expect("an answer");

    files.put(&new.issue("dehub.test"));
    let started = Instant::now();
    while connect(&served, &new, &BOTH, None).is_err() {
        assert!(started.elapsed() < Duration::from_secs(120), "the new certificate is not taken");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(connect(&served, &old, &BOTH, None).is_err(), "the old one is gone");
    health(&mut kept).expect("the connection stays");

    let foreign = Identity { key: old.issue("dehub.test").key, ..new.issue("dehub.test") };
    let nonsense = Identity { certificate: "nonsense".to_owned(), key: "nonsense".to_owned() };
    for broken in [&foreign, &nonsense] {
        files.put(broken);
        assert!(matches!(files.config().check()[..], [ServeError::Tls(_)]), "the check finds it");
        thread::sleep(Duration::from_millis(1500));
        let mut stream = connect(&served, &new, &BOTH, None).expect("the last good one serves");
        health(&mut stream).expect("an answer");
    }
}

#[test]
fn with_an_authority_for_clients_only_its_own_are_served() {
    let (folder, authority, clients) = (tempdir().expect("a folder"), Authority::new(), Authority::new());
    let files = Files::new(&authority.issue("dehub.test"));
    let path = files.0.path().join("clients.pem");
    fs::write(&path, clients.pem()).expect("written");
    let mut config = files.config();
    config.tls.as_mut().expect("TLS").client_authorities = Some(path);
    let served = Served::start_with(folder.path(), &config);
    let (own, foreign) = (clients.issue("client"), authority.issue("client"));
    for version in BOTH {
        // With TLS 1.3 a client learns of a refusal only when it reads.
        let ask =
            |identity: Option<&Identity>| health(&mut connect(&served, &authority, &[version], identity)?);
        ask(Some(&own)).expect("an answer");
        assert!(ask(None).is_err() && ask(Some(&foreign)).is_err(), "{version:?}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (folder, authority) = (tempdir().expect("a folder"), Authority::new());
    let good = authority.issue("dehub.test");
    let files = Files::new(&good);
    assert!(files.config().check().is_empty());
    let named = |what: &str, file: &str| {
        let errors = files.config().check();
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(errors.len() == 1 && text.contains(what) && text.contains(file), "{text}");
        let catalogue = Arc::new(dehub_index::Catalogue::new(folder.path()));
        assert!(dehub_api::Server::bind(catalogue, &files.config()).is_err());
    };
    let write = |file: &str, text: &str| fs::write(files.0.path().join(file), text).expect("written");
    write("cert.pem", "");
    named("no certificate", "cert.pem");
    files.put(&good);
    write("key.pem", &good.certificate);
    named("the private key", "key.pem");
    write("key.pem", &authority.issue("other").key);
    named("the private key", "key.pem");
    fs::remove_file(Path::new(files.0.path()).join("key.pem")).expect("removed");
    named("the private key", "key.pem");
}
