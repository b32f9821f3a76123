//! `provider/NAME/authorize`: a user who is logged in here lets a client know who they are.
//!
//! The page asks it with the user's token and the parameters that the client sent the browser with, and sends the browser back with the
//! answer. It writes the grant, so the leader answers it.

use kallisto_api::{Error, Map, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::authorize::{self, AuthorizeRequest, BrowserUser, Registered};
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::grant::{CODE_SECS, CodeGrant, GrantId, GrantState, hash};
use kallisto_identity_tokens::settings::OidcProvider;

use super::answer::{self, OauthRefusal};
use super::records::{self, GRANTS, RecordOrDefault};

/// The parameters of the query and, where there is a body, of it.
fn parameters(call: &Call<'_>) -> Result<Map, Error> {
    let mut all = call.request.query_fields();
    all.extend(call.request.object()?);
    Ok(all)
}

pub(super) async fn authorize(call: Call<'_>) -> Result<Response, Error> {
    let request = AuthorizeRequest::read(&parameters(&call)?);
    let outcome = grant(&call, &request).await;
    answer::settle(outcome, |error| answer::authorize_refusal(error, &request.state))
}

async fn grant(call: &Call<'_>, request: &AuthorizeRequest) -> Result<Response, OauthRefusal> {
    let context = &call.context;
    let name = records::name_of(call)?;
    let now = records::now(context);
    let client = records::client_with_id(context, &request.client_id)?;
    let provider = OidcProvider::find(context, name)?;
    let assignments = match &client {
        Some(client) => records::assignments_of(context, client)?,
        None => Vec::new(),
    };
    let caller = call.caller;
    let person = caller.and_then(|caller| call.people.person(&caller.entity_id));
    let is_disabled = person.as_ref().is_some_and(|person| person.is_disabled);
    let subject = person.map(records::subject_of);
    let user = BrowserUser {
        subject: subject.as_ref(),
        is_disabled,
        proven_at: caller.and_then(|caller| caller.proven_at).map(|at| at.as_second()),
    };
    let registered = Registered {
        client: client.as_ref(),
        provider: provider.as_ref(),
        assignments: &assignments,
    };
    let allowed = authorize::decide(request, registered, &user, now)?;
    let (Some(client), Some(subject)) = (client, subject) else {
        return Err(Error::internal(&"a grant without a client or a user").into());
    };
    let (id, code) = make_code(call, &client, now)?;
    let grant = CodeGrant {
        state: GrantState::Open,
        code_hash: hash(&code),
        made_at: now,
        access_ttl_secs: client.access_token_ttl_secs,
        provider: name.to_owned(),
        client_id: client.client_id,
        entity_id: subject.id,
        redirect_uri: request.redirect_uri.clone(),
        scopes: allowed.scopes,
        challenge: allowed.challenge,
        nonce: allowed.nonce,
        auth_time: allowed.auth_time,
    };
    call.storage.put(&format!("{GRANTS}{}", id.name()), grant.encode()).await?;
    let told = [("code", code.as_str()), ("state", request.state.as_str())];
    let told = told.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    Ok(answer::object(200, told.collect()))
}

fn make_code(
    call: &Call<'_>,
    client: &OauthClient,
    now: i64,
) -> Result<(GrantId, zeroize::Zeroizing<String>), Error> {
    let mut id = [0; 16];
    call.random.fill(&mut id)?;
    let mut secret = zeroize::Zeroizing::new([0; 32]);
    call.random.fill(&mut *secret)?;
    let ttl = i64::try_from(client.access_token_ttl_secs).unwrap_or(i64::MAX);
    let id = GrantId::new(now.saturating_add(CODE_SECS).saturating_add(ttl), id);
    Ok((id, id.code(&secret)))
}
