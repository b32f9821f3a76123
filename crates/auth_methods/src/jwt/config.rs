//! The configuration of a mount: who issues JWTs, where the keys are, and as which client of a provider logins through a browser are asked
//! for.
//!
//! A read shows all of it but the client's secret.

use secrecy::{ExposeSecret, SecretString};

use super::token::{JwtKey, KEYS_MAX, is_algorithm};
use crate::records::FieldsRecord;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{self, Json, Map};

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JwtKeySource {
    /// These, as PEM.
    Keys(Vec<String>),
    /// A JWK set at an address.
    Set { url: String, authorities: String },
    /// The set that a provider's discovery document names.
    Discovery { url: String, authorities: String },
}

/// How a provider sends a browser back (OAuth 2.0 Multiple Response Types, section 2.1, and Form Post Response Mode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResponseMode {
    /// As nobody said; the same as the next.
    #[default]
    Unset,
    /// By a `GET` with a query.
    Query,
    /// By a form that the browser posts.
    FormPost,
}

impl ResponseMode {
    const fn name(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Query => "query",
            Self::FormPost => "form_post",
        }
    }
}

/// Kinds of providers that say their groups in ways of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProviderKind {
    /// None of the others.
    #[default]
    Any,
    /// Microsoft's, which leaves groups out when there are many.
    Azure,
    /// SecureAuth, whose groups are one text with commas.
    SecureAuth,
    /// IBM Security Access Manager, where one group is a text.
    IbmIsam,
}

impl ProviderKind {
    const ALL: [(&'static str, Self); 3] =
        [("azure", Self::Azure), ("secureauth", Self::SecureAuth), ("ibmisam", Self::IbmIsam)];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map(|(name, _)| *name)
    }
}

/// Who this server is to a provider.
#[derive(Clone, Debug)]
pub(super) struct OidcClient {
    pub(super) id: String,
    pub(super) secret: SecretString,
}

/// The configuration as stored.
#[derive(Clone, Debug)]
pub(super) struct JwtConfig {
    pub(super) source: Option<JwtKeySource>,
    pub(super) bound_issuer: String,
    pub(super) default_role: String,
    /// The algorithms taken; empty for all there are.
    pub(super) algorithms: Vec<String>,
    /// `None` where nobody logs in through a browser.
    pub(super) client: Option<OidcClient>,
    pub(super) response_mode: ResponseMode,
    /// `code`, `id_token` or both; empty for the first.
    pub(super) response_types: Vec<String>,
    pub(super) namespace_in_state: bool,
    pub(super) provider_kind: ProviderKind,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            source: None,
            bound_issuer: String::new(),
            default_role: String::new(),
            algorithms: Vec::new(),
            client: None,
            response_mode: ResponseMode::Unset,
            response_types: Vec::new(),
            namespace_in_state: true,
            provider_kind: ProviderKind::Any,
        }
    }
}

impl JwtConfig {
    /// Whether a JWT that names this issuer, or none, may be taken.
    pub(super) fn is_issuer(&self, said: Option<&str>) -> bool {
        match &self.source {
            _ if !self.bound_issuer.is_empty() => said == Some(self.bound_issuer.as_str()),
            // Its document may have a slash at the end where the configuration has none, and the other way round.
            Some(JwtKeySource::Discovery { url, .. }) => {
                said.map(|said| said.trim_end_matches('/')) == Some(url.trim_end_matches('/'))
            }
            _ => true,
        }
    }

    /// Where the provider describes itself, and the authorities to believe there.
    pub(super) fn discovery(&self) -> Option<(&str, &str)> {
        match &self.source {
            Some(JwtKeySource::Discovery { url, authorities }) => Some((url, authorities)),
            _ => None,
        }
    }

    /// Whether a provider is asked for something of this kind.
    pub(super) fn asks_for(&self, response_type: &str) -> bool {
        match self.response_types.is_empty() {
            true => response_type == "code",
            false => self.response_types.iter().any(|asked| asked == response_type),
        }
    }

    /// Reads a configuration; it replaces the one before.
    pub(super) fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
        let source = source(fields)?;
        let algorithms = fields.strings("jwt_supported_algs")?.unwrap_or_default();
        if let Some(unknown) = algorithms.iter().find(|name| !is_algorithm(name)) {
            return Err(Error::invalid(format!("unsupported signing algorithm: {unknown}")));
        }
        let (response_mode, response_types) = response(fields)?;
        let config = Self {
            source: Some(source),
            bound_issuer: text("bound_issuer")?,
            default_role: text("default_role")?.to_ascii_lowercase(),
            algorithms,
            client: client(fields)?,
            response_mode,
            response_types,
            namespace_in_state: fields.boolean("namespace_in_state")?.unwrap_or(true),
            provider_kind: provider_kind(fields)?,
        };
        if config.client.is_some() && config.discovery().is_none() {
            return Err(Error::invalid("'oidc_discovery_url' must be set for OIDC"));
        }
        Ok(config)
    }

    /// The configuration as it is shown.
    pub(super) fn to_map(&self) -> Map {
        let (mut set, mut discovery, mut keys) = (("", ""), ("", ""), Vec::new());
        match &self.source {
            None => {}
            Some(JwtKeySource::Keys(pems)) => keys.clone_from(pems),
            Some(JwtKeySource::Set { url, authorities }) => set = (url, authorities),
            Some(JwtKeySource::Discovery { url, authorities }) => discovery = (url, authorities),
        }
        let client_id = self.client.as_ref().map_or("", |client| &client.id);
        let provider = self.provider_kind.name();
        let provider: Map =
            provider.map(|name| ("provider".to_owned(), name.into())).into_iter().collect();
        [
            ("bound_issuer", self.bound_issuer.as_str().into()),
            ("default_role", self.default_role.as_str().into()),
            ("jwks_ca_pem", set.1.into()),
            ("jwks_url", set.0.into()),
            ("jwt_supported_algs", Json::strings(self.algorithms.iter().cloned())),
            ("jwt_validation_pubkeys", Json::strings(keys)),
            ("namespace_in_state", self.namespace_in_state.into()),
            ("oidc_client_id", client_id.into()),
            ("oidc_discovery_ca_pem", discovery.1.into()),
            ("oidc_discovery_url", discovery.0.into()),
            ("oidc_response_mode", self.response_mode.name().into()),
            ("oidc_response_types", Json::strings(self.response_types.iter().cloned())),
            ("provider_config", provider.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Where keys come from, which is one place.
fn source(fields: Fields<'_>) -> Result<JwtKeySource, Error> {
    let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
    let (discovery, set) = (text("oidc_discovery_url")?, text("jwks_url")?);
    let keys = fields.strings("jwt_validation_pubkeys")?.unwrap_or_default();
    match (discovery.is_empty(), set.is_empty(), keys.is_empty()) {
        (false, true, true) => {
            check_url("oidc_discovery_url", &discovery)?;
            let authorities = text("oidc_discovery_ca_pem")?;
            Ok(JwtKeySource::Discovery { url: discovery, authorities })
        }
        (true, false, true) => {
            check_url("jwks_url", &set)?;
            Ok(JwtKeySource::Set { url: set, authorities: text("jwks_ca_pem")? })
        }
        (true, true, false) => {
            check_keys(&keys)?;
            Ok(JwtKeySource::Keys(keys))
        }
        _ => Err(Error::invalid(
            "exactly one of 'jwt_validation_pubkeys', 'jwks_url', 'jwks_pairs', \
             'oidc_discovery_url', or 'provider_config' must be set",
        )),
    }
}

fn client(fields: Fields<'_>) -> Result<Option<OidcClient>, Error> {
    let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
    let (id, secret) = (text("oidc_client_id")?, text("oidc_client_secret")?);
    match (id.is_empty(), secret.is_empty()) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(OidcClient { id, secret: secret.into() })),
        _ => Err(Error::invalid(
            "both 'oidc_client_id' and 'oidc_client_secret' must be set for OIDC",
        )),
    }
}

fn response(fields: Fields<'_>) -> Result<(ResponseMode, Vec<String>), Error> {
    let mode = match fields.string("oidc_response_mode")?.as_deref() {
        None | Some("") => ResponseMode::Unset,
        Some("query") => ResponseMode::Query,
        Some("form_post") => ResponseMode::FormPost,
        Some(other) => return Err(Error::invalid(format!("invalid response_mode: {other:?}"))),
    };
    let types = fields.strings("oidc_response_types")?.unwrap_or_default();
    if types.iter().any(|name| name != "code" && name != "id_token") || types.len() > 2 {
        return Err(Error::invalid(format!(
            "invalid response_types {types:?}. 'code' and 'id_token' are allowed"
        )));
    }
    if mode != ResponseMode::FormPost && types.iter().any(|name| name == "id_token") {
        return Err(Error::invalid(
            "query response_mode may not be used with an id_token response_type",
        ));
    }
    Ok((mode, types))
}

fn provider_kind(fields: Fields<'_>) -> Result<ProviderKind, Error> {
    let Some(given) = fields.map("provider_config")?.filter(|given| !given.is_empty()) else {
        return Ok(ProviderKind::Any);
    };
    let name = given.get("provider").and_then(Json::as_str).unwrap_or_default();
    if name == "gsuite" {
        return Err(Error::invalid(
            "provider \"gsuite\" of provider_config is not available: groups are taken from claims \
             alone",
        ));
    }
    let kind = ProviderKind::named(name).ok_or_else(|| {
        Error::invalid(format!("unsupported provider_config: provider {name:?} is not known"))
    })?;
    match given.keys().find(|key| *key != "provider") {
        None => Ok(kind),
        Some(key) => Err(Error::invalid(format!("provider_config of {name:?} takes no {key:?}"))),
    }
}

impl FieldsRecord for JwtConfig {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read(Fields::new(&json::parse_object(bytes).ok()?)).ok()
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = self.to_map();
        if let Some(client) = &self.client {
            map.insert("oidc_client_secret".into(), client.secret.expose_secret().into());
        }
        Json::Object(map).to_text()
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
        Json::Bool(given) => !given,
        Json::Number(_) => false,
    };
    let names = ["jwks_pairs", "override_allowed_server_names", "oidc_disable_confirmation"];
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
    match pems.iter().position(|pem| JwtKey::from_pem(pem).is_none()) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!("error parsing public key {at}: no PEM of one"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_one_source_and_reads_back() {
        let read = |body: &str| {
            JwtConfig::read(Fields::new(&json::parse_object(body.as_bytes()).unwrap()))
        };
        let config = read(
            r#"{"oidc_discovery_url":"https://issuer.example","default_role":"Web",
                "jwt_supported_algs":["RS256"]}"#,
        )
        .unwrap();
        for (said, is_it) in [
            (Some("https://issuer.example"), true),
            (Some("https://issuer.example/"), true),
            (Some("https://issuer.example/a"), false),
            (Some("https://issuer.exampl"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(config.is_issuer(said), is_it, "{said:?}");
            let url = r#"{"oidc_discovery_url":"https://issuer.example/"}"#;
            assert_eq!(read(url).unwrap().is_issuer(said), is_it, "{said:?}");
        }
        // One that is bound is so byte by byte.
        let bound = r#"{"oidc_discovery_url":"https://issuer.example","bound_issuer":"https://b"}"#;
        let bound = read(bound).unwrap();
        assert!(bound.is_issuer(Some("https://b")) && !bound.is_issuer(Some("https://b/")));
        assert!(!bound.is_issuer(Some("https://issuer.example")));
        assert!(read(r#"{"jwks_url":"https://a"}"#).unwrap().is_issuer(None));
        assert_eq!(JwtConfig::decode(&config.encode()).unwrap().encode(), config.encode());
        let client = r#"{"oidc_discovery_url":"https://i","oidc_client_id":"c","oidc_client_secret":"canary",
            "oidc_response_mode":"form_post","oidc_response_types":["id_token","code"],
            "namespace_in_state":false,"provider_config":{"provider":"azure"}}"#;
        let config = read(client).unwrap();
        assert_eq!(JwtConfig::decode(&config.encode()).unwrap().encode(), config.encode());
        let shown = String::from_utf8(Json::Object(config.shown()).to_text()).unwrap();
        assert!(!shown.contains("canary") && !format!("{config:?}").contains("canary"));
        assert!(shown.contains(r#""provider_config":{"provider":"azure"}"#), "{shown}");
        assert!(config.asks_for("code") && config.asks_for("id_token"));
        for bad in [
            "{}",
            r#"{"jwks_url":"https://a","oidc_discovery_url":"https://b"}"#,
            r#"{"jwks_url":"ftp://a"}"#,
            r#"{"jwks_url":"https://user@a"}"#,
            r#"{"jwks_url":"https://"}"#,
            r#"{"jwks_url":"https://a","jwt_supported_algs":"none"}"#,
            r#"{"jwks_url":"https://a","jwt_supported_algs":"HS256"}"#,
            r#"{"jwt_validation_pubkeys":"bogus"}"#,
            r#"{"jwks_url":"https://a","oidc_client_id":"c","oidc_client_secret":"s"}"#,
            r#"{"oidc_discovery_url":"https://a","oidc_client_id":"c"}"#,
            r#"{"oidc_discovery_url":"https://a","oidc_client_secret":"s"}"#,
            r#"{"oidc_discovery_url":"https://a","oidc_response_mode":"fragment"}"#,
            r#"{"oidc_discovery_url":"https://a","oidc_response_types":"token"}"#,
            r#"{"oidc_discovery_url":"https://a","oidc_response_types":"id_token"}"#,
            r#"{"oidc_discovery_url":"https://a","provider_config":{"provider":"gsuite"}}"#,
            r#"{"oidc_discovery_url":"https://a","provider_config":{"provider":"other"}}"#,
            r#"{"oidc_discovery_url":"https://a","provider_config":{"provider":"azure","x":1}}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
