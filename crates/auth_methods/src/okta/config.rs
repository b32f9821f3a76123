//! Which organization at Okta logs in, and how it is asked.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Logical, Response};
use kallisto_engine::{Call, TokenParams};
use secrecy::{ExposeSecret, SecretString};

use crate::records::{self, FieldsRecord};
use crate::rest;

/// The domain of organizations when nobody says.
const USUAL_DOMAIN: &str = "okta.com";
/// Longest name of a host, in bytes.
const HOST_BYTES_MAX: usize = 253;
/// Longest API token, in bytes.
const TOKEN_BYTES_MAX: usize = 1024;

/// The configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct OktaConfig {
    organization: String,
    /// As it was given: a domain, or a whole address; empty for the usual domain.
    base_url: String,
    /// Where to ask; ends with a slash.
    pub(super) address: String,
    /// Empty for none.
    pub(super) api_token: SecretString,
    pub(super) bypasses_mfa: bool,
    pub(super) params: TokenParams,
}

/// Whether a text is the name of a host, or a part of one.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    text.len() <= HOST_BYTES_MAX
        && text.bytes().all(fits)
        && text.split('.').all(|label| !label.is_empty())
}

impl OktaConfig {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for name in ["organization", "org_name"] {
            if let Some(given) = fields.string(name)? {
                self.organization = given;
            }
        }
        if let Some(given) = fields.string("base_url")? {
            self.base_url = given;
        }
        for name in ["token", "api_token"] {
            if let Some(given) = fields.string(name)? {
                self.api_token = given.into();
            }
        }
        if let Some(bypasses) = fields.boolean("bypass_okta_mfa")? {
            self.bypasses_mfa = bypasses;
        }
        self.check()?;
        self.address = self.address()?;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        if self.organization.is_empty() {
            return Err(Error::invalid("org_name is missing"));
        }
        if !is_host(&self.organization) {
            return Err(Error::invalid("org_name is no name of an organization"));
        }
        let token = self.api_token.expose_secret();
        let is_token =
            token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|b| b.is_ascii_graphic());
        if is_token { Ok(()) } else { Err(Error::invalid("api_token is no token of Okta")) }
    }

    /// Where to ask: the organization at a domain, or a whole address.
    fn address(&self) -> Result<String, Error> {
        match self.base_url.as_str() {
            "" => Ok(format!("https://{}.{USUAL_DOMAIN}/", self.organization)),
            whole if whole.contains("://") => rest::base_url("base_url", whole),
            domain if is_host(domain) => Ok(format!("https://{}.{domain}/", self.organization)),
            _ => Err(Error::invalid("base_url is no domain, and no http or https address")),
        }
    }

    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        map.insert("bypass_okta_mfa".to_owned(), self.bypasses_mfa.into());
        for name in ["org_name", "organization"] {
            map.insert(name.to_owned(), self.organization.as_str().into());
        }
        if !self.base_url.is_empty() {
            map.insert("base_url".to_owned(), self.base_url.as_str().into());
        }
        map
    }
}

impl FieldsRecord for OktaConfig {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut config = Self::default();
        config.take(Fields::new(&map)).ok()?;
        config.params = TokenParams::decode(&map).ok()?;
        Some(config)
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = self.to_map();
        map.insert("api_token".to_owned(), self.api_token.expose_secret().into());
        Json::Object(map).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn written(before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        let mut config = before.unwrap_or_default();
        let address = config.address.clone();
        config.take(fields)?;
        // The token is shown where it was meant for and nowhere else.
        let names_token = ["api_token", "token"].iter().any(|name| fields.raw(name).is_some());
        if address != config.address && !names_token {
            config.api_token = SecretString::default();
        }
        config.params.update(fields)?;
        Ok(config)
    }
}

/// Shows the configuration, without the token.
pub(super) fn read(run: &Call<'_>) -> Result<Response, Error> {
    let config = records::config::<OktaConfig>(&run.storage)?.ok_or(Error::NotFound)?;
    let mut warnings = Vec::new();
    if config.bypasses_mfa {
        warnings.push(
            "Okta MFA bypass is configured. In addition to ignoring Okta MFA requests, certain other account statuses will not be seen, such as PASSWORD_EXPIRED. Authentication will succeed in these cases."
                .to_owned(),
        );
    }
    if rest::sends_in_clear(&config.address) {
        warnings.push("passwords are sent to base_url without TLS: use https".to_owned());
    }
    let data = Json::Object(config.shown()).to_text();
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(before: Option<OktaConfig>, body: &str) -> Result<OktaConfig, Error> {
        OktaConfig::written(before, Fields::new(&json::parse_object(body.as_bytes()).unwrap()))
    }

    #[test]
    fn an_organization_is_asked_at_its_own_address() {
        for (body, address) in [
            (r#"{"org_name":"acme"}"#, "https://acme.okta.com/"),
            (
                r#"{"org_name":"acme","base_url":"oktapreview.com"}"#,
                "https://acme.oktapreview.com/",
            ),
            (r#"{"organization":"acme"}"#, "https://acme.okta.com/"),
            (r#"{"org_name":"acme","base_url":"http://127.0.0.1:9"}"#, "http://127.0.0.1:9/"),
        ] {
            let config = written(None, body).unwrap();
            assert_eq!(config.address, address);
            assert_eq!(OktaConfig::decode(&config.encode()).unwrap().encode(), config.encode());
        }
        for bad in [
            "{}",
            r#"{"org_name":"evil.example/"}"#,
            r#"{"org_name":"a@b"}"#,
            r#"{"org_name":"a","base_url":"evil/x"}"#,
            r#"{"org_name":"a","base_url":"okta.com:80"}"#,
            r#"{"org_name":"a","base_url":"ftp://okta"}"#,
            r#"{"org_name":"a","api_token":"a b"}"#,
        ] {
            assert!(matches!(written(None, bad), Err(Error::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn the_token_is_not_shown_and_does_not_move_to_another_address() {
        let config = written(None, r#"{"org_name":"acme","api_token":"canary"}"#).unwrap();
        assert!(!Json::Object(config.shown()).to_text().windows(6).any(|part| part == b"canary"));
        let after = |body: &str| {
            let after = written(Some(config.clone()), body).unwrap();
            after.api_token.expose_secret().to_owned()
        };
        assert_eq!(after(r#"{"token_ttl":60}"#), "canary");
        assert_eq!(after(r#"{"base_url":"http://evil.example"}"#), "");
        assert_eq!(after(r#"{"org_name":"other"}"#), "");
        assert_eq!(after(r#"{"org_name":"other","api_token":"new"}"#), "new");
    }
}
