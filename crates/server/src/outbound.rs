//! Calls to other servers, for the login methods: key servers and Kubernetes API servers.
//!
//! TLS is the client commands'; a call follows no redirect, takes no proxy from the environment, goes to no address that is
//! link-local or of a cloud's metadata (whoever may configure a login method may not ask those through us), reads a bounded
//! answer, and ends within its deadline.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use kallisto_core::{
    ANSWER_BYTES_MAX, Authorization, CALL_SECS_MAX, OutboundAnswer, OutboundCall, OutboundCalls,
};
use secrecy::ExposeSecret;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::unversioned::transport::DefaultConnector;
use zeroize::Zeroizing;

use kallisto_command::client::reach::{AddressReach, Bounded};

/// Sends calls over HTTP.
pub(super) struct Calls;

impl OutboundCalls for Calls {
    fn send(&self, call: &OutboundCall) -> Result<OutboundAnswer, String> {
        let agent = agent(&call.authorities)?;
        let failed = |error: ureq::Error| format!("{}: {error}", call.url);
        let authorization = header(&call.authorization);
        let response = match call.payload.encode() {
            None => {
                let mut request = agent.get(&call.url);
                if let Some(value) = &authorization {
                    request = request.header("Authorization", value.as_str());
                }
                request.header("Accept", "application/json").call()
            }
            Some((kind, body)) => {
                let mut request = agent.post(&call.url);
                if let Some(value) = &authorization {
                    request = request.header("Authorization", value.as_str());
                }
                let request = request.header("Accept", "application/json");
                request.content_type(kind).send(&body[..])
            }
        };
        let mut response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX as u64).read_to_vec();
        Ok(OutboundAnswer { status, body: body.map_err(failed)? })
    }
}

/// The header that shows who asks.
fn header(authorization: &Authorization) -> Option<Zeroizing<String>> {
    match authorization {
        Authorization::None => None,
        Authorization::Bearer(token) => {
            Some(Zeroizing::new(format!("Bearer {}", token.expose_secret())))
        }
        Authorization::Basic(name, password) => {
            let pair = Zeroizing::new(format!("{name}:{}", password.expose_secret()));
            Some(Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes()))))
        }
    }
}

/// An agent that believes these authorities, or those of the machine.
fn agent(authorities: &str) -> Result<Agent, String> {
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
        .timeout_global(Some(Duration::from_secs(CALL_SECS_MAX)))
        .tls_config(tls)
        .build();
    let resolver = Bounded::of_system(AddressReach::ServersAndHere);
    Ok(Agent::with_parts(config, DefaultConnector::default(), resolver))
}
