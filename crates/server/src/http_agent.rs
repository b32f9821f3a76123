//! What HTTP requests to other servers are sent with: those of login methods (`outbound`) and of snapshots in buckets (`snapshots::s3`).
//!
//! A request follows no redirect, takes no proxy from the environment, goes to no address that is link-local or of a cloud's metadata (whoever
//! may configure a login method may not ask those through us), and ends within its time limit. A status other than 2xx is an answer, not an
//! error.

use std::sync::Arc;
use std::time::Duration;

use kallisto_command::client::reach::{AddressReach, Bounded};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::unversioned::transport::DefaultConnector;

/// An agent that trusts these authorities, or those of the machine when there are none.
///
/// # Errors
/// When `authorities` are no certificates in PEM form.
pub(super) fn make(authorities: &str, timeout: Duration) -> Result<Agent, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots: Vec<Certificate<'static>> = if authorities.trim().is_empty() {
        let store = rustls_native_certs::load_native_certs();
        store.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
    } else {
        let items = parse_pem(authorities.as_bytes());
        items
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect()
    };
    if roots.is_empty() && !authorities.trim().is_empty() {
        return Err("the configured authorities are no certificates in PEM form".to_owned());
    }
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(timeout))
        .tls_config(tls)
        .build();
    let resolver = Bounded::of_system(AddressReach::ServersAndHere);
    Ok(Agent::with_parts(config, DefaultConnector::default(), resolver))
}
