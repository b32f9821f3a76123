//! `provider/NAME/userinfo`: the claims of an access token (OpenID Connect Core, 5.3).
//!
//! An access token is good here and nowhere else. The leader answers, since a client asks right after it was given the token.

use kallisto_api::{Error, Map, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::grant::{CodeGrant, GrantId};
use kallisto_identity_tokens::oauth::Code;
use kallisto_identity_tokens::settings::OidcProvider;
use kallisto_identity_tokens::{OauthError, authorize, claims};

use super::answer::{self, OauthRefusal};
use super::records::{self, GRANTS, RecordOrDefault};
use super::scopes;

pub(super) async fn userinfo(call: Call<'_>) -> Result<Response, Error> {
    answer::settle(tell(&call), answer::userinfo_refusal)
}

fn refuse<T>(code: Code, why: &str) -> Result<T, OauthRefusal> {
    Err(OauthError::new(code, why).into())
}

/// The token of an `Authorization` header of scheme `Bearer`.
fn bearer(call: &Call<'_>) -> Option<zeroize::Zeroizing<String>> {
    let headers = call.request.headers.values("authorization").into_iter();
    let mut tokens = headers.filter_map(|header| {
        let (scheme, token) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned().into())
    });
    tokens.next()
}

fn tell(call: &Call<'_>) -> Result<Response, OauthRefusal> {
    let context = &call.context;
    let name = records::name_of(call)?;
    let now = records::now(context);
    let Some(provider) = OidcProvider::find(context, name)? else {
        return refuse(Code::InvalidRequest, "provider not found");
    };
    let Some(token) = bearer(call) else {
        return refuse(Code::InvalidToken, "access token must be sent as a Bearer token");
    };
    let invalid = || refuse(Code::InvalidToken, "access token is malformed or invalid");
    let Some(id) = GrantId::of_access_token(&token) else { return invalid() };
    let Some(stored) = call.storage.get(&format!("{GRANTS}{}", id.name()))? else {
        return refuse(Code::InvalidToken, "access token is expired");
    };
    let grant = stored.decode(CodeGrant::decode)?;
    if !grant.has_access_token(&token, now) {
        return refuse(Code::InvalidToken, "access token is expired");
    }
    if grant.provider != name {
        return invalid();
    }
    let Some(client) = records::client_with_id(context, &grant.client_id)? else {
        return refuse(Code::AccessDenied, "client not found");
    };
    let Some(person) = call.people.person(&grant.entity_id) else {
        let why = "identity entity associated with the request not found";
        return refuse(Code::AccessDenied, why);
    };
    let is_disabled = person.is_disabled;
    let subject = records::subject_of(person);
    let assignments = records::assignments_of(context, &client)?;
    if is_disabled || !authorize::is_assigned(&client, &assignments, &subject) {
        return refuse(Code::AccessDenied, "identity entity not authorized by client assignment");
    }
    if !provider.allows(&client.client_id) {
        return refuse(Code::AccessDenied, "client is not authorized to use the provider");
    }
    // What the provider knows no more is not told.
    let known = grant.scopes.into_iter().filter(|scope| provider.scopes_supported.contains(scope));
    let mut told = Map::new();
    for claims in scopes::claims(context, &known.collect::<Vec<_>>(), &subject, now)? {
        claims::add(&mut told, claims);
    }
    told.insert("sub".to_owned(), subject.id.into());
    Ok(answer::object(200, told))
}
