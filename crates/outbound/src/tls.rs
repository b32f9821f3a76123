//! TLS with far ends: what is believed, and what is shown.

use std::sync::Arc;

use kallisto_engine::FarEndFailure;
use kallisto_engine::far_end::{FarEndTls, FarEndTlsVersion, TlsUse};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use secrecy::ExposeSecret;

/// Most certificates of a text that are read.
const CERTIFICATES_MAX: usize = 1024;

/// Checks as much of a certificate as the settings say.
#[derive(Debug)]
struct Lenient {
    /// `None` to believe every certificate.
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end, between, name, ocsp, now) {
            // The chain is judged before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What is believed and shown, by these settings.
///
/// # Errors
/// When a certificate or a key is none.
pub fn config(tls: &FarEndTls) -> Result<ClientConfig, FarEndFailure> {
    let failed = |what: &str| FarEndFailure::Unreachable(format!("TLS settings: {what}"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: Vec<&SupportedProtocolVersion> = match tls.versions {
        None => rustls::ALL_VERSIONS.to_vec(),
        Some((lowest, highest)) => {
            let known = [(FarEndTlsVersion::V13, &TLS13), (FarEndTlsVersion::V12, &TLS12)];
            let is_meant = |version: &FarEndTlsVersion| (lowest..=highest).contains(version);
            known.into_iter().filter(|(version, _)| is_meant(version)).map(|(_, one)| one).collect()
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|_| failed("no protocol version"))?;
    let builder = match tls.usage {
        TlsUse::Verified => builder.with_root_certificates(roots(tls)?),
        TlsUse::AuthorityVerified => {
            let roots = Arc::new(roots(tls)?);
            let inner =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            let inner = Some(inner.map_err(|_| failed("there is no authority to believe"))?);
            let lenient = Arc::new(Lenient { inner, provider });
            builder.dangerous().with_custom_certificate_verifier(lenient)
        }
        TlsUse::Never | TlsUse::WhereOffered | TlsUse::Unverified => {
            let lenient = Arc::new(Lenient { inner: None, provider });
            builder.dangerous().with_custom_certificate_verifier(lenient)
        }
    };
    if tls.certificate.is_empty() {
        return Ok(builder.with_no_client_auth());
    }
    let chain =
        certificates(&tls.certificate).ok_or_else(|| failed("the certificate is no PEM"))?;
    let key = tls.private_key.as_ref().ok_or_else(|| failed("a certificate without its key"))?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        .map_err(|_| failed("the private key is no PEM"))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|_| failed("the private key is not that of the certificate"))
}

/// The name that a far end's certificate has to be for.
pub fn server_name<'a>(tls: &'a FarEndTls, host: &'a str) -> &'a str {
    if tls.server_name.is_empty() { host } else { &tls.server_name }
}

fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).take(CERTIFICATES_MAX).collect();
    all.ok().filter(|all| !all.is_empty())
}

fn roots(tls: &FarEndTls) -> Result<RootCertStore, FarEndFailure> {
    let failed = |what: &str| FarEndFailure::Unreachable(format!("TLS settings: {what}"));
    let mut roots = RootCertStore::empty();
    if tls.authorities.trim().is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        let given = certificates(&tls.authorities);
        let given = given.ok_or_else(|| failed("the authorities are no certificates in PEM"))?;
        for certificate in given {
            roots.add(certificate).map_err(|_| failed("an authority is no certificate"))?;
        }
    }
    if roots.is_empty() { Err(failed("there is no authority to believe")) } else { Ok(roots) }
}
