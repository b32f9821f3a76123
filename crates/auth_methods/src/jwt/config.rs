//! The configuration of a JWT mount: who issues, and where the keys are.

use super::token::{KEYS_MAX, Key, is_algorithm};
use crate::records::Record;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{self, Json, Map};

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// These, as PEM.
    Keys(Vec<String>),
    /// A JWK set at an address.
    Set { url: String, authorities: String },
    /// The set that a provider's discovery document names.
    Discovery { url: String, authorities: String },
}

/// The configuration as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) source: Option<KeySource>,
    pub(super) bound_issuer: String,
    pub(super) default_role: String,
    /// The algorithms taken; empty for all there are.
    pub(super) algorithms: Vec<String>,
}

impl Config {
    /// The issuer that a JWT must name.
    pub(super) fn issuer(&self) -> Option<&str> {
        match &self.source {
            _ if !self.bound_issuer.is_empty() => Some(&self.bound_issuer),
            Some(KeySource::Discovery { url, .. }) => Some(url),
            _ => None,
        }
    }

    /// Reads a configuration; it replaces the one before.
    pub(super) fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
        let (discovery, set) = (text("oidc_discovery_url")?, text("jwks_url")?);
        let keys = fields.strings("jwt_validation_pubkeys")?.unwrap_or_default();
        if !text("oidc_client_id")?.is_empty() || !text("oidc_client_secret")?.is_empty() {
            return Err(Error::invalid(
                "oidc_client_id and oidc_client_secret are not taken: logins through a browser are \
                 not served",
            ));
        }
        let source = match (discovery.is_empty(), set.is_empty(), keys.is_empty()) {
            (false, true, true) => {
                check_url("oidc_discovery_url", &discovery)?;
                KeySource::Discovery { url: discovery, authorities: text("oidc_discovery_ca_pem")? }
            }
            (true, false, true) => {
                check_url("jwks_url", &set)?;
                KeySource::Set { url: set, authorities: text("jwks_ca_pem")? }
            }
            (true, true, false) => {
                check_keys(&keys)?;
                KeySource::Keys(keys)
            }
            _ => {
                return Err(Error::invalid(
                    "exactly one of 'jwt_validation_pubkeys', 'jwks_url' or 'oidc_discovery_url' \
                     must be set",
                ));
            }
        };
        let algorithms = fields.strings("jwt_supported_algs")?.unwrap_or_default();
        if let Some(unknown) = algorithms.iter().find(|name| !is_algorithm(name)) {
            return Err(Error::invalid(format!("unsupported signing algorithm: {unknown}")));
        }
        Ok(Self {
            source: Some(source),
            bound_issuer: text("bound_issuer")?,
            default_role: text("default_role")?.to_ascii_lowercase(),
            algorithms,
        })
    }

    /// The configuration as it is shown and stored.
    pub(super) fn to_map(&self) -> Map {
        let (mut set, mut discovery, mut keys) = (("", ""), ("", ""), Vec::new());
        match &self.source {
            None => {}
            Some(KeySource::Keys(pems)) => keys.clone_from(pems),
            Some(KeySource::Set { url, authorities }) => set = (url, authorities),
            Some(KeySource::Discovery { url, authorities }) => discovery = (url, authorities),
        }
        [
            ("bound_issuer", self.bound_issuer.as_str().into()),
            ("default_role", self.default_role.as_str().into()),
            ("jwks_ca_pem", set.1.into()),
            ("jwks_url", set.0.into()),
            ("jwt_supported_algs", Json::strings(self.algorithms.iter().cloned())),
            ("jwt_validation_pubkeys", Json::strings(keys)),
            ("namespace_in_state", true.into()),
            ("oidc_client_id", "".into()),
            ("oidc_discovery_ca_pem", discovery.1.into()),
            ("oidc_discovery_url", discovery.0.into()),
            ("oidc_response_mode", "".into()),
            ("oidc_response_types", Json::Array(Vec::new())),
            ("provider_config", Map::new().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

impl Record for Config {
    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let map = json::parse_object(bytes).ok();
        let config = map.and_then(|map| Self::read(Fields::new(&map)).ok());
        config.ok_or_else(|| Error::internal(&"the configuration of a login method is damaged"))
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn written(_before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        refuse_unknown_trust(fields)?;
        // Written whole: what is not given is as at first.
        Self::read(fields)
    }
}

/// Refuses what would change whom a mount believes, or what it learns of them, and is not there.
fn refuse_unknown_trust(fields: Fields<'_>) -> Result<(), Error> {
    let is_empty = |value: &Json| match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    };
    let names = ["jwks_pairs", "override_allowed_server_names", "provider_config"];
    match names.iter().find(|name| fields.raw(name).is_some_and(|value| !is_empty(value))) {
        Some(name) => Err(Error::invalid(format!("{name} is not available"))),
        None => Ok(()),
    }
}

/// Refuses what is no address of a server.
pub(crate) fn check_url(name: &str, url: &str) -> Result<(), Error> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let fits = url.bytes().all(|byte| byte.is_ascii_graphic());
    match host {
        Some(host) if fits && !host.is_empty() && !host.contains('@') => Ok(()),
        _ => Err(Error::invalid(format!("{name} must be an http or https address"))),
    }
}

/// Refuses what is no PEM of public keys or certificates.
pub(crate) fn check_keys(pems: &[String]) -> Result<(), Error> {
    if pems.len() > KEYS_MAX {
        return Err(Error::invalid(format!("more than {KEYS_MAX} public keys")));
    }
    match pems.iter().position(|pem| Key::from_pem(pem).is_none()) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!("error parsing public key {at}: no PEM of one"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_one_source_and_reads_back() {
        let read =
            |body: &str| Config::read(Fields::new(&json::parse_object(body.as_bytes()).unwrap()));
        let config = read(
            r#"{"oidc_discovery_url":"https://issuer.example","default_role":"Web",
                "jwt_supported_algs":["RS256"]}"#,
        )
        .unwrap();
        assert_eq!(config.issuer(), Some("https://issuer.example"));
        assert_eq!(Config::decode(&config.encode()), Ok(config));
        for bad in [
            "{}",
            r#"{"jwks_url":"https://a","oidc_discovery_url":"https://b"}"#,
            r#"{"jwks_url":"ftp://a"}"#,
            r#"{"jwks_url":"https://user@a"}"#,
            r#"{"jwks_url":"https://"}"#,
            r#"{"jwks_url":"https://a","jwt_supported_algs":"none"}"#,
            r#"{"jwks_url":"https://a","jwt_supported_algs":"HS256"}"#,
            r#"{"jwt_validation_pubkeys":"bogus"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
