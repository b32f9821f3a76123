//! Refusals of the provider, in the words of RFC 6749 (4.1.2.1, 5.2), RFC 6750 (3.1) and OpenID Connect Core (3.1.2.6); and reading how a
//! client says who it is.

use data_encoding::BASE64;
use kallisto_api::{Json, parse_query};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthError {
    /// The kind, by which programs tell.
    pub code: Code,
    /// A sentence for people.
    pub description: String,
}

/// A kind of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Who asks may not.
    AccessDenied,
    /// The client did not prove who it is, or is none of this provider's.
    InvalidClient,
    /// There is no such client.
    InvalidClientId,
    /// The code is not good.
    InvalidGrant,
    /// The redirect URI is not the client's.
    InvalidRedirectUri,
    /// The request is not well formed.
    InvalidRequest,
    /// The access token is not good.
    InvalidToken,
    /// The user has to prove again who they are.
    MaxAgeViolation,
    /// A request object is not taken.
    RequestNotSupported,
    /// A reference to a request object is not taken.
    RequestUriNotSupported,
    /// The client may not use this provider.
    UnauthorizedClient,
    /// The grant is of another kind.
    UnsupportedGrantType,
    /// The answer that is asked for is of another kind.
    UnsupportedResponseType,
    /// What the server keeps is not whole.
    ServerError,
}

impl Code {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AccessDenied => "access_denied",
            Self::InvalidClient => "invalid_client",
            Self::InvalidClientId => "invalid_client_id",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken => "invalid_token",
            Self::MaxAgeViolation => "max_age_violation",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::ServerError => "server_error",
        }
    }
}

impl OauthError {
    /// A refusal.
    pub fn new(code: Code, description: impl Into<String>) -> Self {
        Self { code, description: description.into() }
    }

    /// Its members.
    pub fn members(&self) -> [(&'static str, Json); 2] {
        [
            ("error", self.code.name().into()),
            ("error_description", self.description.as_str().into()),
        ]
    }
}

/// A client as it names itself, and what it proves that with.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// Its id.
    pub client_id: String,
    /// Its secret; empty for none.
    pub secret: zeroize::Zeroizing<String>,
}

impl std::fmt::Debug for ClientCredentials {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredentials")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Reads an `Authorization` header of scheme `Basic`; `None` for any other. Both parts are encoded as in a form (RFC 6749, 2.3.1).
pub fn basic(header: &str) -> Option<ClientCredentials> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = zeroize::Zeroizing::new(BASE64.decode(encoded.trim().as_bytes()).ok()?);
    let (id, secret) = std::str::from_utf8(&text).ok()?.split_once(':')?;
    let decode = |text: &str| {
        // One name without a value: an `&` or `=` in it would be escaped.
        let pair = parse_query(text)?;
        match pair.as_slice() {
            [] => Some(String::new()),
            [(name, value)] if value.is_empty() && !text.contains('=') => Some(name.clone()),
            _ => None,
        }
    };
    Some(ClientCredentials { client_id: decode(id)?, secret: decode(secret)?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basic_header_says_who_and_by_what() {
        let header = |text: &str| format!("Basic {}", BASE64.encode(text.as_bytes()));
        let told = |text: &str| {
            let found = basic(&header(text))?;
            Some((found.client_id.clone(), found.secret.to_string()))
        };
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(told("app:secret"), pair("app", "secret"));
        assert_eq!(told("a%20p:s%3Ac+d"), pair("a p", "s:c d"));
        assert_eq!(told("app:"), pair("app", ""));
        assert_eq!(told("app:a:b"), pair("app", "a:b"));
        for bad in ["app", "app:a&b", "app:a=b", "app:a=", "app:%zz"] {
            assert_eq!(told(bad), None, "{bad}");
        }
        for bad in ["", "Basic", "Bearer YTpi", "Basic ???", "Basic\u{e9}"] {
            assert!(basic(bad).is_none(), "{bad}");
        }
        assert!(basic("bAsIc YTpi").is_some());
        let debug = format!("{:?}", basic(&header("app:hvo_secret_x")).unwrap());
        assert!(!debug.contains("hvo_secret"), "{debug}");
    }
}
