//! Where the keys come from that sign JWTs: the configuration, or a key server that is asked.
//!
//! Sets that were fetched are kept in the mount's memory by address. They are fetched again when they
//! are old, or when a JWT names a key that is not among them, at most once in a while whatever comes
//! in: nobody who sends made-up key ids makes this server knock at another without end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use kallisto_api::{Error, Json, json};
use kallisto_engine::time::after;
use kallisto_engine::{Call, Memory, Outbound, OutboundCall};

use super::config::{Config, KeySource};
use super::token::{Jwt, Key};

/// How long a fetched set is used, in seconds.
const SET_SECS: u64 = 3600;
/// How long it is at least, also when a key is missing, in seconds.
const SET_SECS_MIN: u64 = 10;
/// Most sets kept of a mount: it asks one address, and another when it is configured anew.
const SETS_MAX: usize = 4;

/// Sets that were fetched.
#[derive(Default)]
pub(super) struct KeySets {
    sets: Mutex<HashMap<String, Fetched>>,
}

#[derive(Clone)]
struct Fetched {
    keys: Arc<Vec<Key>>,
    at: Timestamp,
}

/// What was fetched is no record: none changes it.
impl Memory for KeySets {
    fn put(&self, _: &str, _: &[u8]) -> bool {
        true
    }

    fn remove(&self, _: &str) {}
}

impl KeySets {
    fn sets(&self) -> MutexGuard<'_, HashMap<String, Fetched>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, place: &str) -> Option<Fetched> {
        self.sets().get(place).cloned()
    }

    fn keep(&self, place: String, fetched: Fetched) {
        let mut sets = self.sets();
        if sets.len() >= SETS_MAX && !sets.contains_key(&place) {
            let oldest = sets.iter().min_by_key(|(_, set)| set.at).map(|(place, _)| place.clone());
            if let Some(oldest) = oldest {
                sets.remove(&oldest);
            }
        }
        sets.insert(place, fetched);
    }
}

/// The keys that may have signed a JWT.
///
/// # Errors
/// [`Error::Invalid`] when there is no configuration, [`Error::Unavailable`] when the key server does
/// not answer.
pub(super) async fn keys_for(
    run: &Call<'_>,
    config: &Config,
    jwt: &Jwt<'_>,
) -> Result<Arc<Vec<Key>>, Error> {
    let Some(source) = &config.source else {
        return Err(Error::invalid("could not load configuration"));
    };
    let (address, authorities) = match source {
        KeySource::Keys(pems) => {
            let keys: Option<Vec<Vec<Key>>> = pems.iter().map(|pem| Key::from_pem(pem)).collect();
            let keys = keys.ok_or_else(|| Error::internal(&"a stored public key is damaged"))?;
            return Ok(Arc::new(keys.concat()));
        }
        KeySource::Set { url, authorities } | KeySource::Discovery { url, authorities } => {
            (url, authorities)
        }
    };
    let (sets, now) = (run.memory::<KeySets>()?, run.now);
    if let Some(kept) = sets.found(address) {
        let secs = if jwt.names_one_of(&kept.keys) { SET_SECS } else { SET_SECS_MIN };
        if now < after(kept.at, secs) {
            return Ok(kept.keys);
        }
    }
    let url = match source {
        KeySource::Discovery { .. } => discover(run.outbound, address, authorities).await?,
        _ => address.clone(),
    };
    let body = fetch(run.outbound, url, authorities).await?;
    let keys = Key::from_jwks(&body).ok_or_else(|| unavailable("its answer is no set of keys"))?;
    let fetched = Fetched { keys: Arc::new(keys), at: now };
    sets.keep(address.clone(), fetched.clone());
    Ok(fetched.keys)
}

/// Where a provider has its keys (OpenID Connect Discovery 1.0, section 4).
async fn discover(
    outbound: &dyn Outbound,
    issuer: &str,
    authorities: &str,
) -> Result<String, Error> {
    let issuer = issuer.trim_end_matches('/');
    let url = format!("{issuer}/.well-known/openid-configuration");
    let body = fetch(outbound, url, authorities).await?;
    let found = json::parse_object(&body);
    let found = found.map_err(|_| unavailable("its discovery document is no JSON object"))?;
    let text = |name: &str| found.get(name).and_then(Json::as_str);
    if text("issuer").map(|it| it.trim_end_matches('/')) != Some(issuer) {
        return Err(unavailable("it says to be another issuer than its address"));
    }
    text("jwks_uri").map(str::to_owned).ok_or_else(|| unavailable("it names no jwks_uri"))
}

async fn fetch(outbound: &dyn Outbound, url: String, authorities: &str) -> Result<Vec<u8>, Error> {
    let call = OutboundCall { url, bearer: None, body: None, authorities: authorities.to_owned() };
    let answer = outbound.call(call).await?;
    if answer.status != 200 {
        return Err(unavailable(&format!("it answered with status {}", answer.status)));
    }
    Ok(answer.body)
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(format!("the key server is of no use: {why}"))
}
