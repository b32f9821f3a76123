//! `auth/token/*`: looking tokens up (API.md A12).

use kallisto_auth::Operation;
use secrecy::{ExposeSecret, SecretString};

use crate::error::{Denial, Error};
use crate::fields::Fields;
use crate::request::TokenText;
use crate::response::Response;
use crate::state::{Call, Unsealed};
use crate::token;

/// Runs a token route; `path` is what follows `auth/token/`.
pub(crate) fn handle(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    match (path, call.operation) {
        ("lookup-self", Operation::Read | Operation::Update) => look_up(unsealed, call, None),
        ("lookup", Operation::Read) => look_up(unsealed, call, None),
        ("lookup", Operation::Update) => {
            let body = call.object()?;
            let given = Fields::new(&body).string("token")?.filter(|text| !text.is_empty());
            look_up(unsealed, call, given.map(SecretString::from).as_ref())
        }
        ("lookup-self" | "lookup", _) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

fn look_up(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    given: Option<&SecretString>,
) -> Result<Response, Error> {
    let guard = unsealed.view.tokens.pin();
    let given = given.map(|text| TokenText::new(text.expose_secret()));
    let asked = given.or(call.token);
    let token = token::find(&unsealed.view, asked, &guard)
        .map_err(|_| Error::Denied(Denial::UnknownToken))?;
    if token.is_expired(call.now) {
        return Err(Error::Denied(Denial::UnknownToken));
    }
    let id = asked.map(TokenText::expose).unwrap_or_default();
    Ok(Response::data(&token::describe(token, id, call.now)))
}
