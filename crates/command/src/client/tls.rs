//! TLS settings into the form the HTTP client takes.
//!
//! rustls with aws-lc, the one crypto library of the tree. The machine's own trust store is asked
//! unless the user names an authority; then only that one counts.

use std::path::Path;

use kallisto_tls_client::{CertificateAuthorities, HttpsConnector, ServerTrust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::ClientError;
use crate::config::TlsSettings;
use crate::files;

/// Reads certificates and keys.
pub(crate) fn connector(settings: &TlsSettings) -> Result<HttpsConnector, ClientError> {
    let identity = settings.client_identity.as_ref();
    let identity = identity.map(|(cert, key)| client_identity(cert, key)).transpose()?;
    let trust = if settings.trusts_anyone {
        ServerTrust::Anyone
    } else {
        ServerTrust::Authorities(authorities(settings)?)
    };
    let config = trust.client_config(identity);
    let config = config.map_err(|error| {
        ClientError::Settings(format!("the client's certificate and key: {error}"))
    })?;
    Ok(HttpsConnector::new(config))
}

fn authorities(settings: &TlsSettings) -> Result<CertificateAuthorities, ClientError> {
    if let Some(path) = &settings.ca_cert {
        return certificates(path);
    }
    if let Some(text) = &settings.ca_cert_text {
        let found = CertificateAuthorities::from_pem(text.as_bytes());
        let why = "reading certificates: VAULT_CACERT_BYTES: no certificate in PEM form";
        return found.ok_or_else(|| ClientError::Settings(why.to_owned()));
    }
    if let Some(directory) = &settings.ca_path {
        let paths = files::files_of(directory).map_err(|error| broken(directory, &error))?;
        let mut found = CertificateAuthorities::default();
        for path in paths {
            found.extend(certificates(&path)?);
        }
        return Ok(found);
    }
    Ok(CertificateAuthorities::of_machine())
}

/// All certificates of a PEM file; at least one.
fn certificates(path: &Path) -> Result<CertificateAuthorities, ClientError> {
    let bytes = files::read(path).map_err(|error| broken(path, &error))?;
    let found = CertificateAuthorities::from_pem(&bytes);
    found.ok_or_else(|| broken(path, &"no certificate in PEM form"))
}

fn client_identity(
    cert: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ClientError> {
    let chain = certificates(cert)?.certificates().to_vec();
    let bytes = files::read(key).map_err(|error| broken(key, &error))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| broken(key, &"no private key in PEM form"))?;
    Ok((chain, key))
}

fn broken(path: &Path, why: &dyn std::fmt::Display) -> ClientError {
    ClientError::Settings(format!("reading certificates: {}: {why}", path.display()))
}
