//! `-dev-tls`: an authority, a certificate and a key, made at start and written where clients find
//! them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::config::{ClientCertificates, TlsConfig, TlsVersion};
use kallisto_command::files;

/// The authority's certificate, for clients to believe.
const CA_FILE: &str = "vault-ca.pem";
const CERTIFICATE_FILE: &str = "vault-cert.pem";
const KEY_FILE: &str = "vault-key.pem";

/// The files of a dev server's TLS.
pub(super) struct DevTls {
    /// What the listener presents.
    pub(super) tls: TlsConfig,
    /// The authority's certificate.
    pub(super) ca: PathBuf,
}

/// Makes an authority and a certificate for this machine in `dir`.
///
/// # Errors
/// What could not be made or written, and where.
pub(super) fn generate(dir: &Path, host: IpAddr) -> Result<DevTls, String> {
    let (ca, certificate, key) = make(host).map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        files::write_private(&path, text.as_bytes())
            .map(|()| path.clone())
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let ca = write(CA_FILE, &ca)?;
    let tls = TlsConfig {
        cert_file: write(CERTIFICATE_FILE, &certificate)?,
        key_file: write(KEY_FILE, &key)?,
        min_version: TlsVersion::Tls12,
        max_version: TlsVersion::Tls13,
        client_certificates: ClientCertificates::Any,
    };
    Ok(DevTls { tls, ca })
}

/// The authority, the certificate and its key, as PEM text.
fn make(host: IpAddr) -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = named("Kallisto dev authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?.pem();

    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = host.to_string();
    if !names.contains(&host) {
        names.push(host);
    }
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name = named("localhost");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = server.signed_by(&key, &issuer)?.pem();
    Ok((ca, certificate, key.serialize_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
