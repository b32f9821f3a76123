//! TLS to whoever answers: no certificate is checked, since what is proven is that it answers there (RFC 8555, 8.3; RFC 8737, 3).
//!
//! Called by `http` for redirects to `https`, and by the crate for tls-alpn-01.
//!
//! Invariants:
//! - Nothing secret is ever sent over such a connection.
//! - The certificate of tls-alpn-01 is taken only from who chose `acme-tls/1`.

use std::sync::Arc;

use kallisto_engine::ProbeFailure;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The protocol of tls-alpn-01.
const ACME_TLS: &[u8] = b"acme-tls/1";
/// Largest certificate that is taken.
const CERTIFICATE_BYTES_MAX: usize = 16 << 10;

/// Believes every certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Speaks TLS over a connection, asking for a name and for one of these protocols.
pub(super) async fn open(
    stream: TcpStream,
    server_name: &str,
    protocols: &[&[u8]],
) -> Result<TlsStream<TcpStream>, ProbeFailure> {
    let no_tls = || ProbeFailure::NoTls;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| no_tls())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from(server_name.to_owned()).map_err(|_| no_tls())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|_| no_tls())
}

/// The certificate that is shown to who speaks `acme-tls/1`.
pub(super) async fn alpn_certificate(
    stream: TcpStream,
    server_name: &str,
) -> Result<Vec<u8>, ProbeFailure> {
    let stream = open(stream, server_name, &[ACME_TLS]).await?;
    let (_, connection) = stream.get_ref();
    if connection.alpn_protocol() != Some(ACME_TLS) {
        return Err(ProbeFailure::NoTls);
    }
    let certificates = connection.peer_certificates().unwrap_or_default();
    let first = certificates.first().filter(|der| der.len() <= CERTIFICATE_BYTES_MAX);
    first.map(|der| der.to_vec()).ok_or(ProbeFailure::NoTls)
}
