//! What HTTP requests to other servers are sent with: those of login methods (`outbound`) and of snapshots in buckets (`snapshots::s3`).
//!
//! A request follows no redirect, takes no proxy from the environment, goes to no address that is link-local or of a cloud's metadata (whoever
//! may configure a login method may not ask those through us), and ends within its time limit. A status other than 2xx is an answer, not an
//! error.

use std::time::Duration;

use kallisto_command::client::reach::{AddressReach, Bounded};
use kallisto_tls_client::{CertificateAuthorities, HttpsConnector, ServerTrust};
use ureq::Agent;

/// An agent that trusts these authorities, or those of the machine when there are none.
///
/// # Errors
/// When `authorities` are no certificates in PEM form.
pub(super) fn make(authorities: &str, timeout: Duration) -> Result<Agent, String> {
    let authorities = if authorities.trim().is_empty() {
        CertificateAuthorities::of_machine()
    } else {
        CertificateAuthorities::from_pem(authorities.as_bytes())
            .ok_or("the configured authorities are no certificates in PEM form")?
    };
    let tls = ServerTrust::Authorities(authorities).client_config(None);
    let tls = tls.map_err(|error| error.to_string())?;
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(timeout))
        .build();
    let resolver = Bounded::of_system(AddressReach::ServersAndHere);
    Ok(Agent::with_parts(config, HttpsConnector::new(tls), resolver))
}
