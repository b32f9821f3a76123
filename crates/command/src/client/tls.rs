//! TLS settings into the form the HTTP client takes.
//!
//! rustls with aws-lc, the one crypto library of the tree. The machine's own trust store is asked
//! unless the user names an authority; then only that one counts.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{
    Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
};

use super::error::ClientError;
use crate::config::TlsSettings;
use crate::files;

/// Reads certificates and keys.
pub(crate) fn tls_config(settings: &TlsSettings) -> Result<TlsConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let identity = settings.client_identity.as_ref();
    let identity = identity.map(|(cert, key)| client_identity(cert, key)).transpose()?;
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(roots(settings)?)))
        .client_cert(identity)
        .disable_verification(settings.trusts_anyone)
        .build())
}

fn roots(settings: &TlsSettings) -> Result<Vec<Certificate<'static>>, ClientError> {
    if let Some(path) = &settings.ca_cert {
        return certificates(path);
    }
    if let Some(directory) = &settings.ca_path {
        let paths = files::files_of(directory).map_err(|error| broken(directory, &error))?;
        let mut found = Vec::new();
        for path in paths {
            found.extend(certificates(&path)?);
        }
        return Ok(found);
    }
    // Single certificates of the store that cannot be read are left out, as everywhere.
    let store = rustls_native_certs::load_native_certs();
    Ok(store.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

/// All certificates of a PEM file; at least one.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ClientError> {
    let bytes = files::read(path).map_err(|error| broken(path, &error))?;
    let found: Vec<_> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() { Err(broken(path, &"no certificate in PEM form")) } else { Ok(found) }
}

fn client_identity(cert: &Path, key: &Path) -> Result<ClientCert, ClientError> {
    let chain = certificates(cert)?;
    let bytes = files::read(key).map_err(|error| broken(key, &error))?;
    let key =
        PrivateKey::from_pem(&bytes).map_err(|_| broken(key, &"no private key in PEM form"))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

fn broken(path: &Path, why: &dyn std::fmt::Display) -> ClientError {
    ClientError::Settings(format!("reading certificates: {}: {why}", path.display()))
}
