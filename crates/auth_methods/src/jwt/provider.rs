//! What a provider says of itself: its discovery document (OpenID Connect Discovery 1.0, section 3), and the keys it signs with.
//!
//! Both are kept in the mount's memory by the address they come from. Keys are fetched again when they are old, and when none of them signed a
//! JWT: a provider may make new keys, under new names, under old ones, or under none. That is at most once in a while whatever comes in:
//! nobody who sends made-up tokens makes this server knock at another without end. Logins that come together are one call.
//!
//! Invariants:
//! - A document is believed only when it names the issuer that it was asked of, so that keys and endpoints are that issuer's.
//! - An issuer reached by `https` names no endpoint by `http`.
//! - No address comes from a JWT.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_api::{Error, Json, Map, json};
use kallisto_engine::time::after;
use kallisto_engine::{EngineContext, Outbound, OutboundCall, SharedFetch};

use super::config::{JwtConfig, JwtKeySource, check_url};
use super::memory::JwtMemory;
use super::token::{Jwt, JwtKey, is_algorithm};

/// How long a fetched document or set of keys is used, in seconds.
const KEPT_SECS: u64 = 3600;
/// How long a set of keys is at least, also when none of them signed a JWT, in seconds.
const KEPT_SECS_MIN: u64 = 10;
/// Most documents or sets kept of a mount: it asks one address, and another when it is configured anew.
const KEPT_MAX: usize = 4;

/// What was fetched, by where it came from.
pub(super) struct ProviderCache<T>(Mutex<HashMap<String, Arc<SharedFetch<T>>>>);

impl<T> Default for ProviderCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ProviderCache<T> {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<SharedFetch<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes from a place, where the oldest goes for a new one.
    fn of(&self, place: String) -> Arc<SharedFetch<T>> {
        let mut all = self.all();
        if all.len() >= KEPT_MAX && !all.contains_key(&place) {
            let oldest = all.iter().min_by_key(|(_, shared)| shared.fetched_at());
            let oldest = oldest.map(|(place, _)| place.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        Arc::clone(all.entry(place).or_default())
    }
}

/// A provider as its discovery document describes it. An endpoint that it does not name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DiscoveredProvider {
    /// Byte by byte what `iss` of its tokens says.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) userinfo_endpoint: String,
    /// Of RFC 8628, section 4.
    pub(super) device_endpoint: String,
    pub(super) jwks_uri: String,
    /// Whether it says in each answer who it is (RFC 9207, section 3).
    pub(super) names_itself: bool,
    /// Whether it takes a client's secret among the fields of a form only.
    pub(super) takes_secret_in_form: bool,
}

impl DiscoveredProvider {
    /// Reads a discovery document that was asked of `issuer`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(issuer: &str, document: &[u8]) -> Result<Self, String> {
        let found = json::parse_object(document);
        let found = found.map_err(|_| "its discovery document is no JSON object")?;
        let text = |name: &str| found.get(name).and_then(Json::as_str).unwrap_or_default();
        let named = text("issuer");
        if named.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Err("it says to be another issuer than its address".to_owned());
        }
        let endpoint = |name: &str| match text(name) {
            "" => Ok(String::new()),
            url if issuer.starts_with("https://") && !url.starts_with("https://") => {
                Err(format!("its {name} is not reached by https, as it is itself"))
            }
            url => match check_url(name, url) {
                Ok(()) if !url.contains('#') => Ok(url.to_owned()),
                _ => Err(format!("its {name} is no address")),
            },
        };
        let jwks_uri = endpoint("jwks_uri")?;
        if jwks_uri.is_empty() {
            return Err("it names no jwks_uri".to_owned());
        }
        Ok(Self {
            issuer: named.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            userinfo_endpoint: endpoint("userinfo_endpoint")?,
            device_endpoint: endpoint("device_authorization_endpoint")?,
            jwks_uri,
            names_itself: matches!(
                found.get("authorization_response_iss_parameter_supported"),
                Some(Json::Bool(true))
            ),
            takes_secret_in_form: takes_secret_in_form(&found),
        })
    }
}

/// Whether a provider lists ways to show a secret, and `client_secret_basic`, which is otherwise the one, is not among them.
fn takes_secret_in_form(document: &Map) -> bool {
    let Some(Json::Array(ways)) = document.get("token_endpoint_auth_methods_supported") else {
        return false;
    };
    let lists = |name: &str| ways.iter().any(|way| way.as_str() == Some(name));
    !lists("client_secret_basic") && lists("client_secret_post")
}

/// The provider of a mount, as it was found lately.
///
/// # Errors
/// [`Error::Unavailable`] when it does not answer, or with what is of no use.
pub(super) async fn provider(
    context: &EngineContext<'_>,
    url: &str,
    authorities: &str,
) -> Result<Arc<DiscoveredProvider>, Error> {
    discover_unless(context, url, authorities, |at| context.now < after(at, KEPT_SECS)).await
}

/// Asks a provider for its discovery document, and keeps what it says.
///
/// # Errors
/// As [`provider`].
pub(super) async fn discover(
    context: &EngineContext<'_>,
    url: &str,
    authorities: &str,
) -> Result<Arc<DiscoveredProvider>, Error> {
    discover_unless(context, url, authorities, |_| false).await
}

async fn discover_unless(
    context: &EngineContext<'_>,
    url: &str,
    authorities: &str,
    is_fresh: impl Fn(Timestamp) -> bool,
) -> Result<Arc<DiscoveredProvider>, Error> {
    let shared = context.memory::<JwtMemory>()?.providers.of(place(url, authorities));
    let fetch = async {
        let address = format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'));
        let document = fetch(context.outbound, address, authorities).await?;
        DiscoveredProvider::parse(url, &document).map_err(|why| unavailable(&why))
    };
    shared.get(context.now, |_, at| is_fresh(at), fetch).await
}

/// What was fetched under other authorities was fetched elsewhere.
fn place(url: &str, authorities: &str) -> String {
    format!("{url}\n{authorities}")
}

/// Whether one of the keys of a configuration signed a JWT.
///
/// # Errors
/// [`Error::Invalid`] when there is no configuration, [`Error::Unavailable`] when the key server does not answer.
pub(super) async fn has_signed(
    context: &EngineContext<'_>,
    config: &JwtConfig,
    jwt: &Jwt<'_>,
) -> Result<bool, Error> {
    let secs_of = |keys: &[JwtKey]| if jwt.names_one_of(keys) { KEPT_SECS } else { KEPT_SECS_MIN };
    let keys = keys(context, config, secs_of).await?;
    if jwt.is_signed_by(&keys) {
        return Ok(true);
    }
    if matches!(config.source, Some(JwtKeySource::Keys(_))) || !is_algorithm(&jwt.algorithm) {
        return Ok(false);
    }
    // What a key server that is gone now said lately still counts: no key of it signed this.
    let fresh = self::keys(context, config, |_| KEPT_SECS_MIN).await.ok();
    Ok(fresh.is_some_and(|fresh| !Arc::ptr_eq(&fresh, &keys) && jwt.is_signed_by(&fresh)))
}

/// The keys of a configuration: those that were fetched no longer ago than `secs_of` says of them.
async fn keys(
    context: &EngineContext<'_>,
    config: &JwtConfig,
    secs_of: impl Fn(&[JwtKey]) -> u64,
) -> Result<Arc<Vec<JwtKey>>, Error> {
    let Some(source) = &config.source else {
        return Err(Error::invalid("could not load configuration"));
    };
    let (address, authorities) = match source {
        JwtKeySource::Keys(pems) => {
            let keys: Option<Vec<Vec<JwtKey>>> =
                pems.iter().map(|pem| JwtKey::from_pem(pem)).collect();
            let keys = keys.ok_or_else(|| {
                let mount = context.mount.path;
                Error::internal(&format_args!(
                    "a public key in the configuration of {mount} is damaged"
                ))
            })?;
            return Ok(Arc::new(keys.concat()));
        }
        JwtKeySource::Set { url, authorities } | JwtKeySource::Discovery { url, authorities } => {
            (url, authorities)
        }
    };
    let shared = context.memory::<JwtMemory>()?.key_sets.of(place(address, authorities));
    let is_fresh = |keys: &Vec<JwtKey>, at| context.now < after(at, secs_of(keys));
    let fetch = async {
        let url = match source {
            JwtKeySource::Discovery { .. } => {
                provider(context, address, authorities).await?.jwks_uri.clone()
            }
            _ => address.clone(),
        };
        let body = fetch(context.outbound, url, authorities).await?;
        JwtKey::from_jwks(&body).ok_or_else(|| unavailable("its answer is no set of keys"))
    };
    shared.get(context.now, is_fresh, fetch).await
}

/// Checks that there is a set of keys where a configuration says; what is kept of it stays as it is.
///
/// # Errors
/// [`Error::Unavailable`] when nobody answers there, or with what is no set.
pub(super) async fn check_key_set(
    context: &EngineContext<'_>,
    config: &JwtConfig,
) -> Result<(), Error> {
    let Some(JwtKeySource::Set { url, authorities }) = &config.source else { return Ok(()) };
    let body = fetch(context.outbound, url.clone(), authorities).await?;
    let keys = JwtKey::from_jwks(&body);
    keys.map(drop).ok_or_else(|| unavailable("its answer is no set of keys"))
}

async fn fetch(outbound: &dyn Outbound, url: String, authorities: &str) -> Result<Vec<u8>, Error> {
    let call = OutboundCall { url, authorities: authorities.to_owned(), ..OutboundCall::default() };
    let answer = outbound.call(call).await?;
    if answer.status != 200 {
        return Err(unavailable(&format!("it answered with status {}", answer.status)));
    }
    Ok(answer.body)
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(format!("the key server is of no use: {why}"))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_discovery_document_is_believed_of_its_own_issuer_alone() {
        let parse =
            |document: &str| DiscoveredProvider::parse("https://idp/a", document.as_bytes());
        let good = parse(
            r#"{"issuer":"https://idp/a/","jwks_uri":"https://keys/k","token_endpoint":"https://idp/t",
                "token_endpoint_auth_methods_supported":["client_secret_post"],
                "authorization_response_iss_parameter_supported":true}"#,
        )
        .unwrap();
        assert_eq!((good.issuer.as_str(), good.userinfo_endpoint.as_str()), ("https://idp/a/", ""));
        assert!(good.names_itself && good.takes_secret_in_form);
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"issuer":"https://idp/b","jwks_uri":"https://idp/k"}"#,
            r#"{"issuer":"https://idp","jwks_uri":"https://idp/k"}"#,
            r#"{"issuer":["https://idp/a"],"jwks_uri":"https://idp/k"}"#,
            r#"{"issuer":"https://idp/a"}"#,
            r#"{"issuer":"https://idp/a","jwks_uri":"http://idp/k"}"#,
            r#"{"issuer":"https://idp/a","jwks_uri":"file:///k"}"#,
            r#"{"issuer":"https://idp/a","jwks_uri":"https://u@idp/k"}"#,
            r#"{"issuer":"https://idp/a","jwks_uri":"https://idp/k","token_endpoint":"http://idp/t"}"#,
            r#"{"issuer":"https://idp/a","jwks_uri":"https://idp/k","token_endpoint":"https://idp/t#f"}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn few_sets_are_kept_and_the_oldest_goes() {
        let kept = ProviderCache::default();
        for second in 0..10 {
            let now = Timestamp::from_second(second).unwrap();
            let shared = kept.of(format!("{second}"));
            let fetch = pin!(shared.get(now, |_, _| false, async { Ok(second) }));
            assert!(fetch.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        assert_eq!(kept.all().len(), KEPT_MAX);
        assert!(kept.all().contains_key("9") && !kept.all().contains_key("5"));
    }
}
