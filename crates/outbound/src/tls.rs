//! TLS with far ends: what is believed, and what is shown.

use std::sync::Arc;

use kallisto_engine::FarEndFailure;
use kallisto_engine::far_end::{FarEndTls, FarEndTlsVersion, TlsUse};
use kallisto_tls_client::{CertificateAuthorities, ServerTrust};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use secrecy::ExposeSecret;

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
    let trust = match tls.usage {
        TlsUse::Verified => ServerTrust::Authorities(authorities(tls)?),
        TlsUse::AuthorityVerified => ServerTrust::AuthoritiesOfAnyName(authorities(tls)?),
        TlsUse::Never | TlsUse::WhereOffered | TlsUse::Unverified => ServerTrust::Anyone,
    };
    let builder =
        builder.dangerous().with_custom_certificate_verifier(trust.verifier(Arc::clone(&provider)));
    if tls.certificate.is_empty() {
        return Ok(builder.with_no_client_auth());
    }
    let chain = CertificateAuthorities::from_pem(tls.certificate.as_bytes())
        .ok_or_else(|| failed("the certificate is no PEM"))?;
    let key = tls.private_key.as_ref().ok_or_else(|| failed("a certificate without its key"))?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        .map_err(|_| failed("the private key is no PEM"))?;
    let shown = kallisto_tls_client::client_identity(chain.certificates().to_vec(), key, &provider)
        .map_err(|_| failed("the private key is not that of the certificate"))?;
    Ok(builder.with_client_cert_resolver(shown))
}

/// The name that a far end's certificate has to be for.
pub fn server_name<'a>(tls: &'a FarEndTls, host: &'a str) -> &'a str {
    if tls.server_name.is_empty() { host } else { &tls.server_name }
}

fn authorities(tls: &FarEndTls) -> Result<CertificateAuthorities, FarEndFailure> {
    let failed = |what: &str| FarEndFailure::Unreachable(format!("TLS settings: {what}"));
    if tls.authorities.trim().is_empty() {
        return Ok(CertificateAuthorities::of_machine());
    }
    let given = CertificateAuthorities::from_pem(tls.authorities.as_bytes());
    given.ok_or_else(|| failed("the authorities are no certificates in PEM"))
}
