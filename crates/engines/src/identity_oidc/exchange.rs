//! `provider/NAME/token`: a client turns a code into tokens, or asks for one of its own.
//!
//! It takes no token of this server: the client proves itself by its secret, in a `Basic` header or in the body, or has none and proves
//! by the verifier that it is the one that sent the browser (RFC 6749, 2.3.1; RFC 7636).

use kallisto_api::{Error, Fields, Json, Map, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::authorize;
use kallisto_identity_tokens::claims::Claims;
use kallisto_identity_tokens::client::{ClientType, OauthClient};
use kallisto_identity_tokens::grant::{CodeGrant, Exchange, GrantId, hash};
use kallisto_identity_tokens::named_key::NamedKey;
use kallisto_identity_tokens::oauth::{self, ClientCredentials, Code};
use kallisto_identity_tokens::settings::OidcProvider;
use kallisto_identity_tokens::signing_key::StoredSigningKey;
use kallisto_identity_tokens::{OauthError, TokenSubject, jws};

use super::answer::{self, OauthRefusal};
use super::records::{self, GRANTS, RecordOrDefault};
use super::{config, scopes};

/// A client that proved itself, at a provider that it may use, with the key that signs for it.
struct Proven {
    client: OauthClient,
    provider: OidcProvider,
    issuer: String,
    version: StoredSigningKey,
    algorithm: kallisto_identity_tokens::SigningAlgorithm,
    id_token_ttl_secs: u64,
}

pub(super) async fn token(call: Call<'_>) -> Result<Response, Error> {
    answer::settle(give(&call).await, answer::token_refusal)
}

async fn give(call: &Call<'_>) -> Result<Response, OauthRefusal> {
    let body = call.request.object().map_err(|_| {
        OauthError::new(Code::InvalidRequest, "the body is neither a form nor an object of JSON")
    })?;
    let text = |name: &str| Fields::new(&body).string(name).ok().flatten().unwrap_or_default();
    let proven = prove(call, &text)?;
    let unsupported = || {
        let why = "unsupported grant_type or parameter is empty value";
        OauthError::new(Code::UnsupportedGrantType, why)
    };
    let (is_allowed, is_code) = match text("grant_type").as_str() {
        "authorization_code" => (proven.client.authorization_code, true),
        "client_credentials" => (proven.client.client_credentials, false),
        _ => return Err(unsupported().into()),
    };
    if !is_allowed {
        let why = "client is not authorized to use given credentials flow";
        return Err(OauthError::new(Code::InvalidGrant, why).into());
    }
    match is_code {
        true => exchange(call, &proven, &text).await,
        false => own_token(call, &proven, &text("scope")),
    }
}

fn invalid_client(why: &str) -> OauthRefusal {
    OauthError::new(Code::InvalidClient, why).into()
}

fn prove(call: &Call<'_>, text: &impl Fn(&str) -> String) -> Result<Proven, OauthRefusal> {
    let context = &call.context;
    let name = records::name_of(call)?;
    let invalid = |why: &str| OauthError::new(Code::InvalidRequest, why);
    let provider =
        OidcProvider::find(context, name)?.ok_or_else(|| invalid("provider not found"))?;
    let headers = call.request.headers.values("authorization");
    let credentials = match headers.iter().find_map(|header| oauth::basic(header)) {
        Some(found) => {
            let other = text("client_id");
            if !other.is_empty() && other != found.client_id {
                return Err(invalid("client_id is another than that of the header").into());
            }
            found
        }
        None => {
            ClientCredentials { client_id: text("client_id"), secret: text("client_secret").into() }
        }
    };
    if credentials.client_id.is_empty() {
        return Err(invalid("client_id parameter is required").into());
    }
    let client = records::client_with_id(context, &credentials.client_id)?;
    let client = client.filter(|client| client.is_proven_by(&credentials.secret));
    let client = client.ok_or_else(|| invalid_client("client failed to authenticate"))?;
    if !provider.allows(&client.client_id) {
        return Err(invalid_client("client is not authorized to use the provider"));
    }
    let key = NamedKey::find(context, &client.key)?;
    let key = key.ok_or_else(|| Error::internal(&"the key of a client is gone"))?;
    if !key.settings.allows(&client.client_id) {
        return Err(invalid_client("client is not authorized to use the key"));
    }
    let version = key.signing().ok_or_else(|| Error::internal(&"the key of a client is empty"))?;
    Ok(Proven {
        issuer: config::issuer_of(context, name, &provider)?,
        version: version.clone(),
        algorithm: version.public().algorithm(),
        id_token_ttl_secs: client.id_token_ttl_secs.min(key.settings.verification_ttl_secs),
        client,
        provider,
    })
}

fn expired() -> OauthRefusal {
    OauthError::new(Code::InvalidGrant, "authorization grant is invalid or expired").into()
}

async fn exchange(
    call: &Call<'_>,
    proven: &Proven,
    text: &impl Fn(&str) -> String,
) -> Result<Response, OauthRefusal> {
    let now = records::now(&call.context);
    let code = zeroize::Zeroizing::new(text("code"));
    if code.is_empty() {
        return Err(OauthError::new(Code::InvalidRequest, "code parameter is required").into());
    }
    let id = GrantId::of_code(&code).ok_or_else(expired)?;
    let mut secret = zeroize::Zeroizing::new([0; 32]);
    call.random.fill(&mut *secret)?;
    let access_token = id.access_token(&secret);
    let (redirect_uri, verifier) =
        (text("redirect_uri"), zeroize::Zeroizing::new(text("code_verifier")));
    let exchange = Exchange {
        provider: records::name_of(call)?,
        client_id: &proven.client.client_id,
        is_public: proven.client.kind == ClientType::Public,
        redirect_uri: &redirect_uri,
        verifier: &verifier,
        access_hash: hash(&access_token),
        now,
    };
    let record = format!("{GRANTS}{}", id.name());
    // The code is spent whatever comes of it: the refusal is told after the commit.
    let taken = call.storage.transact(&record, |transaction| {
        let Some(stored) = transaction.get(&record)? else { return Ok(None) };
        let mut grant = stored.decode(CodeGrant::decode)?;
        if !grant.has_code(&code) {
            return Ok(None);
        }
        let outcome = grant.take(&exchange);
        transaction.put(&record, grant.encode())?;
        Ok(Some(outcome.map(|()| grant)))
    });
    let grant = taken.await?.ok_or_else(expired)??;
    let subject = entity(call, &proven.client, &grant)?;
    let claims = Claims {
        issuer: proven.issuer.clone(),
        subject: subject.id.clone(),
        audience: proven.client.client_id.clone(),
        namespace: call.place.namespace_id.to_owned(),
        issued_at: now,
        expires_at: after(now, proven.id_token_ttl_secs),
        nonce: grant.nonce.clone(),
        auth_time: grant.auth_time,
        access_token_hash: Some(proven.algorithm.half_hash(&access_token)),
        code_hash: Some(proven.algorithm.half_hash(&code)),
    };
    let more = scopes::claims(&call.context, &grant.scopes, &subject, now)?;
    let id_token = claims.sign(&proven.version.open()?, more)?;
    Ok(answer::object(
        200,
        Map::from([
            ("access_token".to_owned(), access_token.as_str().into()),
            ("expires_in".to_owned(), grant.access_ttl_secs.into()),
            ("id_token".to_owned(), id_token.into()),
            ("token_type".to_owned(), "Bearer".into()),
        ]),
    ))
}

/// The entity of a grant, if it is there and may still log in to the client.
fn entity(
    call: &Call<'_>,
    client: &OauthClient,
    grant: &CodeGrant,
) -> Result<TokenSubject, OauthRefusal> {
    let refuse = |why: &str| OauthRefusal::from(OauthError::new(Code::InvalidRequest, why));
    let person = call.people.person(&grant.entity_id);
    let person =
        person.ok_or_else(|| refuse("identity entity associated with the request not found"))?;
    let is_disabled = person.is_disabled;
    let subject = records::subject_of(person);
    let assignments = records::assignments_of(&call.context, client)?;
    if is_disabled || !authorize::is_assigned(client, &assignments, &subject) {
        return Err(refuse("identity entity not authorized by client assignment"));
    }
    Ok(subject)
}

fn after(now: i64, secs: u64) -> i64 {
    now.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX))
}

/// A token in which a client is its own subject (RFC 6749, 4.4).
fn own_token(call: &Call<'_>, proven: &Proven, scope: &str) -> Result<Response, OauthRefusal> {
    let now = records::now(&call.context);
    let asked = authorize::scopes(scope, &proven.provider)?;
    let claims = Claims {
        issuer: proven.issuer.clone(),
        subject: proven.client.client_id.clone(),
        audience: proven.client.client_id.clone(),
        namespace: call.place.namespace_id.to_owned(),
        issued_at: now,
        expires_at: after(now, proven.id_token_ttl_secs),
        ..Claims::default()
    };
    let more = scopes::claims(&call.context, &asked, &TokenSubject::default(), now)?;
    let mut payload = claims.with(more);
    payload.insert("jti".to_owned(), Json::from(call.random.make_uuid()?));
    let token = jws::sign(&proven.version.open()?, &payload)?;
    Ok(answer::object(
        200,
        Map::from([
            ("access_token".to_owned(), token.into()),
            ("expires_in".to_owned(), proven.id_token_ttl_secs.into()),
            ("token_type".to_owned(), "Bearer".into()),
        ]),
    ))
}
