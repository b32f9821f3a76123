//! Answers of OAuth: JSON without an envelope, and refusals in its words.

use kallisto_api::{Error, Json, Map, Response};
use kallisto_identity_tokens::OauthError;
use kallisto_identity_tokens::oauth::Code;

/// A bare object.
pub(super) fn object(code: u16, body: Map) -> Response {
    Response::Bare { code, body: Json::Object(body) }
}

/// What stands between a request and its answer: a refusal in the words of OAuth, or the server's own.
pub(super) enum OauthRefusal {
    Oauth(OauthError),
    Server(Error),
}

impl From<OauthError> for OauthRefusal {
    fn from(error: OauthError) -> Self {
        Self::Oauth(error)
    }
}

impl From<Error> for OauthRefusal {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// The status of a refusal of `authorize` (RFC 6749, 4.1.2.1): the page hands it to the client.
pub(super) fn authorize_refusal(error: &OauthError, state: &str) -> Response {
    let mut body = members(error);
    body.insert("state".to_owned(), state.into());
    object(400, body)
}

/// A refusal of `token` (RFC 6749, 5.2).
pub(super) fn token_refusal(error: &OauthError) -> Response {
    match error.code {
        Code::InvalidClient => challenge("Basic realm=\"token\"".to_owned(), error),
        _ => object(400, members(error)),
    }
}

/// A refusal that says how to prove oneself.
fn challenge(challenge: String, error: &OauthError) -> Response {
    Response::Challenge { challenge, body: Json::Object(members(error)) }
}

/// A refusal of `userinfo` (RFC 6750, 3.1).
pub(super) fn userinfo_refusal(error: &OauthError) -> Response {
    let code = match error.code {
        Code::InvalidToken => {
            let (code, why) = (error.code.name(), &error.description);
            return challenge(
                format!("Bearer error=\"{code}\", error_description=\"{why}\""),
                error,
            );
        }
        Code::AccessDenied => 403,
        _ => 400,
    };
    object(code, members(error))
}

fn members(error: &OauthError) -> Map {
    error.members().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The answer, with refusals of OAuth in the form that `refusal` gives them.
pub(super) fn settle(
    outcome: Result<Response, OauthRefusal>,
    refusal: impl FnOnce(&OauthError) -> Response,
) -> Result<Response, Error> {
    match outcome {
        Ok(response) => Ok(response),
        Err(OauthRefusal::Oauth(error)) => Ok(refusal(&error)),
        Err(OauthRefusal::Server(error)) => Err(error),
    }
}
