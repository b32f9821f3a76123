//! `oidc/callback`: where a login through a browser comes back.
//!
//! A client that hears of it hands on what it heard, and gets its token in the answer. With `form_post` the provider makes the browser post
//! to this server, which sends it on to the page or has it wait for its client. By direct callback the browser itself comes here, is asked
//! whether the login is wanted, and its client asks for the token at `oidc/poll`.
//!
//! The provider is asked before anything is stored, so what comes back without a login there writes nothing.

use kallisto_api::{Error, Fields, Json, Request, Response};
use kallisto_engine::outbound::form_component;
use kallisto_engine::route::Operation;
use kallisto_engine::{Call, address};

use super::super::config::{JwtConfig, ResponseMode};
use super::super::memory::JwtMemory;
use super::super::role::{CallbackMode, JwtRole};
use super::super::{ROLES, login};
use super::proof::{CallbackParameters, Strictness, prove};
use super::state::LoginUnderWay;
use super::{expired, failed, pages, poll, record, redirect};
use crate::records;

/// What came back, and of whom.
struct CallbackOutcome {
    config: JwtConfig,
    state: LoginUnderWay,
    role: JwtRole,
    brought: CallbackParameters,
    client_nonce: String,
}

/// Takes what came back.
pub(in super::super) async fn callback(run: Call<'_>) -> Result<Response, Error> {
    let posts = run.request.operation == Operation::Update;
    let given = if posts { run.request.object()? } else { run.request.query_fields() };
    let fields = Fields::new(&given);
    let confirm = fields.string("confirm")?.filter(|text| posts && !text.is_empty());
    if let Some(confirm) = confirm {
        return poll::confirm(&run, &confirm).await;
    }
    let came = match come(&run, fields) {
        Err(Error::Invalid(_)) if wants_page(run.request) => return Ok(pages::expired()),
        other => other?,
    };
    match came.role.callback_mode {
        CallbackMode::Device => Err(expired()),
        CallbackMode::Direct => direct(&run, &came).await,
        CallbackMode::Client if posts && came.config.response_mode == ResponseMode::FormPost => {
            posted(&run, &came).await
        }
        CallbackMode::Client => finish(&run, came).await,
    }
}

/// Finds the login that came back.
fn come(run: &Call<'_>, fields: Fields<'_>) -> Result<CallbackOutcome, Error> {
    let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
    let config = records::config::<JwtConfig>(&run.storage)?;
    let config = config.ok_or_else(|| Error::invalid("could not load configuration"))?;
    let state = LoginUnderWay::open(&run.context, &config, &text("state")?)?.ok_or_else(expired)?;
    let now = run.now.as_second();
    if record::load(&run.storage, &used(&state), now)?.is_some() {
        return Err(expired());
    }
    let role = ROLES.load::<JwtRole>(&run.storage, &state.role)?;
    let role = role.filter(|role| !role.takes_jwt);
    let role = role.ok_or_else(|| failed("Role could not be found"))?;
    let brought = CallbackParameters {
        code: text("code")?.into(),
        id_token: text("id_token")?.into(),
        error: text("error")?,
        issuer: text("iss")?,
    };
    Ok(CallbackOutcome { config, state, role, brought, client_nonce: text("client_nonce")? })
}

/// The record that says that a state was used.
pub(super) fn used(state: &LoginUnderWay) -> String {
    format!("{}{}", record::USED, state.id)
}

/// Remembers that a state was used, and ends a record of its login with it.
///
/// # Errors
/// [`Error::Invalid`] when it was used before: of any number of servers and requests one uses it. [`Error::Unavailable`] when too many are
/// remembered.
pub(super) async fn use_up(
    run: &Call<'_>,
    state: &LoginUnderWay,
    other: &str,
) -> Result<(), Error> {
    if !run.memory::<JwtMemory>()?.has_place_for_used() {
        return Err(Error::Unavailable("too many logins were granted lately at this mount".into()));
    }
    let (name, now) = (used(state), run.now.as_second());
    let using = run.storage.transact(&name, |transaction| {
        if record::get(transaction, &name, now)?.is_some() {
            return Err(expired());
        }
        if !other.is_empty() {
            // It depends on the record, so that no two end it.
            record::get(transaction, other, now)?.ok_or_else(expired)?;
            transaction.delete(other)?;
        }
        transaction.put(&name, record::encode(state.forgotten(), []))
    });
    using.await
}

/// Answers a client that hands on what it heard with its token.
async fn finish(run: &Call<'_>, came: CallbackOutcome) -> Result<Response, Error> {
    let CallbackOutcome { config, state, role, mut brought, client_nonce } = came;
    state.check_client(run.keyed_hash, &client_nonce)?;
    address::check(&role.params.bound_cidrs, run.request.remote)?;
    let kept = format!("{}{}", record::POSTED, state.id);
    let found = match config.asks_for("id_token") {
        true => record::load(&run.storage, &kept, run.now.as_second())?,
        false => None,
    };
    if let Some(found) = &found {
        brought.id_token = record::text(found, "id_token").into();
    }
    let claims = prove(run, &config, &role, &state, &brought, Strictness::Relayed).await?;
    let claims = claims.judged()?;
    let login =
        login(&state.role, role, config.provider_kind, &claims).map_err(|why| failed(&why))?;
    use_up(run, &state, if found.is_some() { &kept } else { "" }).await?;
    run.logins()?.grant(login).await
}

/// Takes what a provider had the browser post, when a client is to come with the same state.
async fn posted(run: &Call<'_>, came: &CallbackOutcome) -> Result<Response, Error> {
    let CallbackOutcome { config, state, role, brought, .. } = came;
    if config.asks_for("id_token") && !brought.has_code() {
        if !run.memory::<JwtMemory>()?.has_place() {
            return Err(Error::Unavailable(
                "too many logins are on their way at this mount".into(),
            ));
        }
        // Judged before it is kept: what no provider signed for this login takes no room.
        let proof = prove(run, config, role, state, brought, Strictness::Relayed).await;
        if let Err(refused) = proof {
            return if wants_page(run.request) { Ok(pages::refused()) } else { Err(refused) };
        }
        let name = format!("{}{}", record::POSTED, state.id);
        let token = brought.id_token_text();
        let stored = record::encode(state.ends(), [("id_token", token.into())]);
        run.storage.put(&name, stored).await?;
    }
    Ok(on_to_the_page(run, state, brought).unwrap_or_else(pages::taken))
}

/// Sends the browser to the page that began the login; `None` when a client on the user's machine did.
fn on_to_the_page(
    run: &Call<'_>,
    state: &LoginUnderWay,
    brought: &CallbackParameters,
) -> Option<Response> {
    let page = redirect::page_of(&state.redirect_uri, run.place.namespace_path)?;
    let given = run.request.object().ok()?;
    let text = |name: &str| given.get(name).and_then(Json::as_str).unwrap_or_default();
    let code = if brought.has_code() { text("code") } else { "no_code" };
    let mut location = format!("{page}?code=").into_bytes();
    form_component(code, &mut location);
    location.extend_from_slice(b"&state=");
    form_component(text("state"), &mut location);
    if !brought.error.is_empty() {
        location.extend_from_slice(b"&error=");
        form_component(&brought.error, &mut location);
    }
    Some(Response::SeeOther { location: String::from_utf8(location).ok()? })
}

/// Asks the user of a browser that came here by itself whether the login is wanted.
async fn direct(run: &Call<'_>, came: &CallbackOutcome) -> Result<Response, Error> {
    let CallbackOutcome { config, state, role, brought, .. } = came;
    let name = format!("{}{}", record::REQUEST, state.id);
    let now = run.now.as_second();
    if record::load(&run.storage, &name, now)?.is_some() {
        return Ok(pages::expired());
    }
    if !run.memory::<JwtMemory>()?.has_place() {
        return Err(Error::Unavailable("too many logins are on their way at this mount".into()));
    }
    let proof = match prove(run, config, role, state, brought, Strictness::Browser).await {
        Err(Error::Invalid(_)) => return Ok(pages::refused()),
        other => other?,
    };
    let claims = proof.judged();
    let found = claims.and_then(|claims| {
        let login = login(&state.role, role.clone(), config.provider_kind, &claims);
        login.map_err(|why| failed(&why))
    });
    let secret = poll::make_secret(run)?;
    let (members, page) = match found {
        Ok(login) => {
            let confirm = format!("{}.{secret}", state.id);
            let question = pages::question(&pages::ConsentQuestion {
                mount: run.mount.path,
                role: &state.role,
                from: &state.from,
                secs: now - state.issued,
                confirm: &confirm,
            });
            (poll::members_of(&login, &poll::hash_of(run, &confirm)?), question)
        }
        Err(Error::Invalid(why)) => (vec![("failed", why.as_str().into())], pages::refused()),
        Err(other) => return Err(other),
    };
    let stored = record::encode(state.ends(), members);
    let used = used(state);
    let keeping = run.storage.transact(&name, |transaction| {
        let known = record::get(transaction, &name, now)?.is_some()
            || record::get(transaction, &used, now)?.is_some();
        if !known {
            transaction.put(&name, stored.clone())?;
        }
        Ok(known)
    });
    if keeping.await? { Ok(pages::expired()) } else { Ok(page) }
}

/// Whether a browser asks, for somebody to look at.
pub(super) fn wants_page(request: &Request<'_>) -> bool {
    request.headers.values("accept").iter().any(|kinds| kinds.contains("text/html"))
}
