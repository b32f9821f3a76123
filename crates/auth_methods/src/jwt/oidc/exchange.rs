//! What a provider is asked for: tokens for a code or for a device (RFC 6749, section 4.1.3; RFC 8628, section 3), and UserInfo.
//!
//! What it answers is bounded, read by the JSON parser, and never repeated to a client but for the code of an error, which is one of
//! letters, digits, `_`, `-` and `.`.

use kallisto_api::{Error, Json, Map, json};
use kallisto_engine::outbound::form_component;
use kallisto_engine::{Authorization, Outbound, OutboundAnswer, OutboundCall, Payload};
use secrecy::{ExposeSecret, SecretString};

use super::super::config::OidcClient;
use super::super::provider::DiscoveredProvider;
use super::super::token::JWT_BYTES_MAX;

/// Longest code or token of a provider, in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Longest code of an error, in bytes.
const ERROR_BYTES_MAX: usize = 64;

/// Who is asked, as whom, and whose word is believed of who that is.
#[derive(Clone, Copy)]
pub(super) struct TokenEndpoint<'a> {
    pub(super) outbound: &'a dyn Outbound,
    pub(super) provider: &'a DiscoveredProvider,
    pub(super) client: &'a OidcClient,
    pub(super) authorities: &'a str,
}

/// What a provider gives for a code.
pub(super) struct ExchangedTokens {
    pub(super) id_token: SecretString,
    /// Empty where there is none.
    pub(super) access_token: SecretString,
}

/// Why there are no tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoTokens {
    /// The provider says so, with the code of an error.
    Refused(String),
    /// It does not answer as it should.
    Unusable(String),
}

impl NoTokens {
    /// What a client may hear of it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused(code) => format!("the provider answered {code}"),
            Self::Unusable(why) => why.clone(),
        }
    }
}

/// The code of an error, if it is one: nothing else that a provider or a browser says of an error is repeated.
pub(super) fn error_code(text: &str) -> Option<&str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (!text.is_empty() && text.len() <= ERROR_BYTES_MAX && text.bytes().all(fits)).then_some(text)
}

impl TokenEndpoint<'_> {
    /// Asks for the tokens of a code.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) async fn tokens_of_code(
        self,
        code: &str,
        redirect_uri: &str,
        code_verifier: String,
    ) -> Result<ExchangedTokens, NoTokens> {
        let fields = vec![
            ("grant_type", "authorization_code".into()),
            ("code", code.into()),
            ("redirect_uri", redirect_uri.into()),
            ("code_verifier", code_verifier.into()),
        ];
        self.tokens(fields).await
    }

    /// Asks whether a device was let in.
    ///
    /// # Errors
    /// Why there are no tokens: `authorization_pending` and `slow_down` are refusals too.
    pub(super) async fn tokens_of_device(
        self,
        device_code: &str,
    ) -> Result<ExchangedTokens, NoTokens> {
        let fields = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code".into()),
            ("device_code", device_code.into()),
        ];
        self.tokens(fields).await
    }

    async fn tokens(
        self,
        fields: Vec<(&'static str, SecretString)>,
    ) -> Result<ExchangedTokens, NoTokens> {
        let unusable = |why: &str| NoTokens::Unusable(why.to_owned());
        let answer = self.post(&self.provider.token_endpoint, fields).await?;
        let said = json::parse_object(&answer.body);
        if answer.status != 200 {
            let code = said.ok().and_then(|said| {
                said.get("error").and_then(Json::as_str).and_then(error_code).map(str::to_owned)
            });
            return Err(match code {
                Some(code) => NoTokens::Refused(code),
                None => NoTokens::Unusable(format!(
                    "the provider answered with status {}",
                    answer.status
                )),
            });
        }
        let said = said.map_err(|_| unusable("the provider answered with no JSON object"))?;
        let text = |name: &str| said.get(name).and_then(Json::as_str).unwrap_or_default();
        let (id_token, access_token) = (text("id_token"), text("access_token"));
        if id_token.is_empty() {
            return Err(unusable("the provider answered without an id_token"));
        }
        if id_token.len() > JWT_BYTES_MAX || access_token.len() > TOKEN_BYTES_MAX {
            return Err(unusable("the provider answered with a token that is too long"));
        }
        if !access_token.is_empty() && !text("token_type").eq_ignore_ascii_case("bearer") {
            return Err(unusable("the provider answered with an access token that is no bearer's"));
        }
        Ok(ExchangedTokens { id_token: id_token.into(), access_token: access_token.into() })
    }

    /// Asks for the codes of a device (RFC 8628, section 3.1).
    ///
    /// # Errors
    /// Why there are none.
    pub(super) async fn device_codes(self, scope: &str) -> Result<Map, NoTokens> {
        let fields = vec![("scope", scope.into())];
        let answer = self.post(&self.provider.device_endpoint, fields).await?;
        match json::parse_object(&answer.body) {
            Ok(said) if answer.status == 200 => Ok(said),
            _ => Err(NoTokens::Unusable(format!(
                "the provider answered a device with status {}",
                answer.status
            ))),
        }
    }

    async fn post(
        self,
        url: &str,
        mut fields: Vec<(&'static str, SecretString)>,
    ) -> Result<OutboundAnswer, NoTokens> {
        let secret = self.client.secret.expose_secret();
        let authorization = if self.provider.takes_secret_in_form {
            fields.push(("client_id", self.client.id.as_str().into()));
            fields.push(("client_secret", secret.into()));
            Authorization::None
        } else {
            let encoded = |text: &str| {
                let mut out = Vec::new();
                form_component(text, &mut out);
                String::from_utf8(out).unwrap_or_default()
            };
            fields.push(("client_id", self.client.id.as_str().into()));
            Authorization::Basic(encoded(&self.client.id), encoded(secret).into())
        };
        let call = OutboundCall {
            url: url.to_owned(),
            authorization,
            payload: Payload::Form(fields),
            authorities: self.authorities.to_owned(),
        };
        let unreached = |error: Error| NoTokens::Unusable(error.to_string());
        self.outbound.call(call).await.map_err(unreached)
    }

    /// What the provider says of the bearer of an access token (OpenID Connect Core 1.0, section 5.3); `None` where it says nothing, which
    /// is not looked into: it may want another kind of token there.
    ///
    /// # Errors
    /// What is wrong with what it says.
    pub(super) async fn user_info(
        self,
        access_token: &SecretString,
    ) -> Result<Option<Map>, String> {
        let url = &self.provider.userinfo_endpoint;
        if url.is_empty() || access_token.expose_secret().is_empty() {
            return Ok(None);
        }
        let call = OutboundCall {
            url: url.clone(),
            authorization: Authorization::Bearer(access_token.clone()),
            authorities: self.authorities.to_owned(),
            ..OutboundCall::default()
        };
        let answer = match self.outbound.call(call).await {
            Ok(answer) if answer.status == 200 => answer,
            _ => return Ok(None),
        };
        if answer.body.len() > TOKEN_BYTES_MAX {
            return Err("the UserInfo of the provider is too long".to_owned());
        }
        let said = json::parse_object(&answer.body);
        said.map(Some).map_err(|_| "the UserInfo of the provider is no JSON object".to_owned())
    }
}
