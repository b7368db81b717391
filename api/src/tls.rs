//! TLS by rustls. Certificates are read again while the server runs; connections that there are stay as they are.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};

/// What is spoken, the better first.
pub(crate) const VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS13, &rustls::version::TLS12];

/// Where the certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The server's certificate and those that lead from it to its authority, as PEM.
    pub certificate: PathBuf,
    /// The certificate's private key, as PEM.
    pub key: PathBuf,
    /// The authorities of clients, as PEM. With it, only clients that have a certificate of one are served.
    pub client_authorities: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("{what} {} cannot be used: {reason}", path.display())]
    File {
        /// What it should be.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// rustls does not take them together.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
}

/// What was read last.
pub(crate) struct Tls {
    config: TlsConfig,
    identity: Arc<ArcSwap<CertifiedKey>>,
    clients: Option<Arc<ArcSwap<Verifier>>>,
}

/// Decides about the certificates of clients.
struct Verifier(Arc<dyn ClientCertVerifier>);

/// Gives each new connection what was read last.
struct Latest<T>(Arc<ArcSwap<T>>);

impl Tls {
    /// Reads the files.
    pub(crate) fn open(config: &TlsConfig) -> Result<Tls, TlsError> {
        let identity = Arc::new(ArcSwap::from_pointee(identity(config)?));
        let clients = clients(config)?.map(|verifier| Arc::new(ArcSwap::from_pointee(verifier)));
        Ok(Tls { config: config.clone(), identity, clients })
    }

    /// Reads the files again. If one of them cannot be used, all stay as they are.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let (identity, verifier) = (identity(&self.config)?, clients(&self.config)?);
        self.identity.store(Arc::new(identity));
        if let (Some(clients), Some(verifier)) = (&self.clients, verifier) {
            clients.store(Arc::new(verifier));
        }
        Ok(())
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let TlsConfig { certificate, key, client_authorities } = &self.config;
        [Some(certificate), Some(key), client_authorities.as_ref()].into_iter().flatten().cloned().collect()
    }

    /// The configuration for the listener: TLS 1.2 and 1.3.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&VERSIONS)?;
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(Arc::new(Latest(Arc::clone(clients)))),
            None => builder.with_no_client_auth(),
        };
        Ok(builder.with_cert_resolver(Arc::new(Latest(Arc::clone(&self.identity)))))
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn identity(config: &TlsConfig) -> Result<CertifiedKey, TlsError> {
    let chain = certificates("the certificate", &config.certificate)?;
    let path = &config.key;
    let refused = |reason| TlsError::File { what: "the private key", path: path.clone(), reason };
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| refused(error.to_string()))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| refused(error.to_string()))
}

/// At least one certificate, the first of them first.
pub(crate) fn certificates(
    what: &'static str,
    path: &PathBuf,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |reason| TlsError::File { what, path: path.clone(), reason };
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| refused(error.to_string()))?;
    if found.is_empty() { Err(refused("it has no certificate in PEM".to_owned())) } else { Ok(found) }
}

fn clients(config: &TlsConfig) -> Result<Option<Verifier>, TlsError> {
    let Some(path) = &config.client_authorities else { return Ok(None) };
    let what = "the file of clients' authorities";
    let refused = |reason| TlsError::File { what, path: path.clone(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, path)? {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    verifier.map(|verifier| Some(Verifier(verifier))).map_err(|error| refused(error.to_string()))
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latest").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Latest<CertifiedKey> {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ClientCertVerifier for Latest<Verifier> {
    // Names of authorities help a client choose among its certificates; these may change while they are borrowed.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.load().0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.load().0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.load().0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.load().0.supported_verify_schemes()
    }
}
