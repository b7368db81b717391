//! A question to this machine's own server over TLS, by whoever has its files.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

use crate::tls::{self, TlsConfig, TlsError};

/// What came of a question over TLS.
#[derive(Debug, PartialEq, Eq)]
pub enum TlsAnswer {
    /// The answer, as it came.
    Bytes(Vec<u8>),
    /// The server proved to be the one of the files, and answers only clients that have a certificate too.
    WantsCertificate,
}

/// Why there is no answer over TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connection failed, or the server has another certificate than the file.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Sends a request over a connection to the server of these files, and reads up to `bytes_max` of the answer. The
/// server must have the very certificate that the file has, and its key; no authority and no name is asked. The
/// connection's own timeouts count.
///
/// # Errors
/// [`AskError`] if the certificate cannot be read, is not the server's, or the connection breaks.
pub fn ask_over_tls(
    config: &TlsConfig,
    stream: TcpStream,
    request: &[u8],
    bytes_max: u64,
) -> Result<TlsAnswer, AskError> {
    let certificate = tls::certificates("the certificate", &config.certificate)?.swap_remove(0);
    let provider = tls::provider();
    let own = Own { certificate, provider: Arc::clone(&provider) };
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&tls::VERSIONS)
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(own))
        .with_no_client_auth();
    let name = ServerName::from(stream.peer_addr()?.ip());
    let connection = ClientConnection::new(Arc::new(client), name).map_err(TlsError::Setup)?;
    match exchange(StreamOwned::new(connection, stream), request, bytes_max) {
        Ok(answer) => Ok(TlsAnswer::Bytes(answer)),
        Err(error) if config.client_authorities.is_some() && is_alert(&error) => {
            Ok(TlsAnswer::WantsCertificate)
        }
        Err(error) => Err(error.into()),
    }
}

fn exchange(
    mut stream: StreamOwned<ClientConnection, TcpStream>,
    request: &[u8],
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    match stream.take(bytes_max).read_to_end(&mut answer) {
        // A server that says nothing before it closes the connection has said all it had to.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => Ok(answer),
        outcome => outcome.map(|_| answer),
    }
}

/// Whether the other side refused the handshake: with TLS 1.2 or 1.3, that is what it does without a certificate of
/// the client.
fn is_alert(error: &io::Error) -> bool {
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    matches!(source, Some(Error::AlertReceived(_)))
}

/// Trusts one certificate.
#[derive(Debug)]
struct Own {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Own {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General("the server has another certificate than the file".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
