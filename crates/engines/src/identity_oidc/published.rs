//! What anybody may read: discovery documents and key sets, of identity tokens and of each provider.
//!
//! Every server answers them from what it has, without asking another. Nothing secret is opened for them.

use std::collections::BTreeSet;

use kallisto_api::{Error, Json, Map, Response};
use kallisto_engine::{Call, EngineContext};
use kallisto_identity_tokens::SigningAlgorithm;
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::named_key::NamedKey;
use kallisto_identity_tokens::settings::{OPENID, OidcProvider, TokenRole};

use super::records::{self, RecordOrDefault};
use super::{answer, config};

fn algorithms() -> Json {
    Json::strings(SigningAlgorithm::ALL.map(SigningAlgorithm::name))
}

fn keys_named(
    context: &EngineContext<'_>,
    names: BTreeSet<String>,
) -> Result<Vec<NamedKey>, Error> {
    let found = names.iter().map(|name| NamedKey::find(context, name));
    found.filter_map(Result::transpose).collect()
}

/// The keys of the roles that there are.
pub(super) fn of_roles(context: &EngineContext<'_>) -> Result<Vec<NamedKey>, Error> {
    let roles = TokenRole::all(context)?;
    keys_named(context, roles.into_iter().map(|(_, role)| role.key).collect())
}

/// The keys of the clients that may use a provider.
fn of_provider(
    context: &EngineContext<'_>,
    provider: &OidcProvider,
) -> Result<Vec<NamedKey>, Error> {
    let is_open = provider.allowed_client_ids.iter().any(|id| id == "*");
    let clients: Vec<OauthClient> = match is_open {
        true => OauthClient::all(context)?.into_iter().map(|(_, client)| client).collect(),
        false => {
            let ids = provider.allowed_client_ids.iter();
            let found = ids.map(|id| records::client_with_id(context, id));
            found.filter_map(Result::transpose).collect::<Result<_, _>>()?
        }
    };
    keys_named(context, clients.into_iter().map(|client| client.key).collect())
}

fn key_set(keys: &[NamedKey], now: i64) -> Response {
    let keys = keys.iter().flat_map(|key| key.published(now)).map(|public| public.jwk());
    answer::object(200, Map::from([("keys".to_owned(), Json::Array(keys.collect()))]))
}

pub(super) async fn keys(call: Call<'_>) -> Result<Response, Error> {
    Ok(key_set(&of_roles(&call.context)?, records::now(&call.context)))
}

pub(super) async fn provider_keys(call: Call<'_>) -> Result<Response, Error> {
    let (_, provider) = provider_of(&call)?;
    Ok(key_set(&of_provider(&call.context, &provider)?, records::now(&call.context)))
}

/// The provider that the path names.
pub(super) fn provider_of<'a>(call: &Call<'a>) -> Result<(&'a str, OidcProvider), Error> {
    let name = records::name_of(call)?;
    Ok((name, OidcProvider::find(&call.context, name)?.ok_or(Error::NotFound)?))
}

pub(super) async fn discovery(call: Call<'_>) -> Result<Response, Error> {
    let issuer = config::issuer(&call.context)?;
    let document = Json::object([
        ("id_token_signing_alg_values_supported", algorithms()),
        ("issuer", issuer.as_str().into()),
        ("jwks_uri", format!("{issuer}/.well-known/keys").into()),
        ("response_types_supported", Json::strings(["id_token"])),
        ("subject_types_supported", Json::strings(["public"])),
    ]);
    Ok(Response::Bare { code: 200, body: document })
}

pub(super) async fn provider_discovery(call: Call<'_>) -> Result<Response, Error> {
    let (name, provider) = provider_of(&call)?;
    let issuer = config::issuer_of(&call.context, name, &provider)?;
    let page = issuer.replacen("/v1/", "/ui/vault/", 1);
    let scopes = provider.scopes_supported.iter().map(String::as_str).chain([OPENID]);
    let methods = ["none", "client_secret_basic", "client_secret_post"];
    let document = Json::object([
        ("authorization_endpoint", format!("{page}/authorize").into()),
        ("claims_supported", Json::Array(Vec::new())),
        ("code_challenge_methods_supported", Json::strings(["S256", "plain"])),
        ("grant_types_supported", Json::strings(["authorization_code"])),
        ("id_token_signing_alg_values_supported", algorithms()),
        ("issuer", issuer.as_str().into()),
        ("jwks_uri", format!("{issuer}/.well-known/keys").into()),
        ("request_parameter_supported", false.into()),
        ("request_uri_parameter_supported", false.into()),
        ("response_types_supported", Json::strings(["code"])),
        ("scopes_supported", Json::strings(scopes)),
        ("subject_types_supported", Json::strings(["public"])),
        ("token_endpoint", format!("{issuer}/token").into()),
        ("token_endpoint_auth_methods_supported", Json::strings(methods)),
        ("userinfo_endpoint", format!("{issuer}/userinfo").into()),
    ]);
    Ok(Response::Bare { code: 200, body: document })
}
