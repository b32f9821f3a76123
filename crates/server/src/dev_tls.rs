//! `-dev-tls`: an authority, a certificate and a key, made at start and written where clients find
//! them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::config::{ClientCertificates, TlsConfig, TlsVersion};
use super::own_certificate::{self, OwnCertificate};
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
    let mut names = own_certificate::LOCAL_NAMES.map(str::to_owned).to_vec();
    let host = host.to_string();
    if !names.contains(&host) {
        names.push(host);
    }
    let made = own_certificate::make("Kallisto dev authority", "localhost", names, None);
    let OwnCertificate { authority, certificate, key } = made.map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        files::write_private(&path, text.as_bytes())
            .map(|()| path.clone())
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let ca = write(CA_FILE, &authority)?;
    let tls = TlsConfig {
        cert_file: write(CERTIFICATE_FILE, &certificate)?,
        key_file: write(KEY_FILE, &key)?,
        min_version: TlsVersion::Tls12,
        max_version: TlsVersion::Tls13,
        client_certificates: ClientCertificates::Any,
    };
    Ok(DevTls { tls, ca })
}
