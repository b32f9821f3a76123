//! `oidc/poll`: a client asks whether its login is done, where the provider does not tell it: by direct callback, or by device.
//!
//! A login by direct callback is granted only after somebody pressed the button of the page that asks for it: whoever gets another to open an
//! address must not get that one's token.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::{Error, Fields, Json, Map, Response};
use kallisto_engine::{Call, Login, address};

use super::super::config::JwtConfig;
use super::super::memory::JwtMemory;
use super::super::provider;
use super::super::role::{CallbackMode, JwtRole};
use super::super::{ROLES, login};
use super::callback::use_up;
use super::exchange::{NoTokens, TokenEndpoint};
use super::proof::vouched;
use super::state::LoginUnderWay;
use super::{expired, failed, pages, parties, record};
use crate::records;

/// Bytes of the secret behind the button.
const SECRET_BYTES: usize = 24;

/// A secret for the button of a page.
///
/// # Errors
/// When there is no randomness.
pub(super) fn make_secret(run: &Call<'_>) -> Result<String, Error> {
    let mut bytes = [0; SECRET_BYTES];
    run.random.fill(&mut bytes)?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

/// What is stored of the secret behind the button.
///
/// # Errors
/// When the key is gone.
pub(super) fn hash_of(run: &Call<'_>, confirm: &str) -> Result<String, Error> {
    Ok(BASE64URL_NOPAD.encode(&run.keyed_hash.hash(&format!("oidc confirm\n{confirm}"))?))
}

/// The members of the record of a login that is proven, and waits for its button.
pub(super) fn members_of(login: &Login, confirm: &str) -> Vec<(&'static str, Json)> {
    vec![
        ("alias", login.alias.as_str().into()),
        ("groups", Json::strings(login.groups.iter().cloned())),
        ("metadata", login.metadata.clone().into()),
        ("confirm", confirm.into()),
    ]
}

/// Takes the press of the button.
pub(super) async fn confirm(run: &Call<'_>, given: &str) -> Result<Response, Error> {
    let id = given.split_once('.').map_or("", |(id, _)| id);
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if id.is_empty() || given.len() > 128 || !id.bytes().all(is_id) {
        return Ok(pages::expired());
    }
    let (name, now) = (format!("{}{id}", record::REQUEST), run.now.as_second());
    let hash = hash_of(run, given)?;
    let confirming = run.storage.transact(&name, |transaction| {
        let Some(mut found) = record::get(transaction, &name, now)? else { return Ok(false) };
        let kept = record::text(&found, "confirm");
        if kept.is_empty() || verify_slices_are_equal(kept.as_bytes(), hash.as_bytes()).is_err() {
            return Ok(false);
        }
        found.remove("confirm");
        transaction.put(&name, Json::Object(found).to_text())?;
        Ok(true)
    });
    Ok(if confirming.await? { pages::done() } else { pages::expired() })
}

/// Answers a client with its token, or that it has to ask again.
pub(in super::super) async fn poll(run: Call<'_>) -> Result<Response, Error> {
    let config = records::config::<JwtConfig>(&run.storage)?;
    let config = config.ok_or_else(|| Error::invalid("could not load configuration"))?;
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
    let state = LoginUnderWay::open(&run.context, &config, &text("state")?)?.ok_or_else(expired)?;
    if !state.has_client_nonce() {
        return Err(expired());
    }
    state.check_client(run.keyed_hash, &text("client_nonce")?)?;
    let role = ROLES.load::<JwtRole>(&run.storage, &state.role)?;
    let role = role.ok_or_else(|| failed("Role could not be found"))?;
    address::check(&role.params.bound_cidrs, run.request.remote)?;
    let name = format!("{}{}", record::REQUEST, state.id);
    let found = record::load(&run.storage, &name, run.now.as_second())?;
    match (role.callback_mode, found) {
        (CallbackMode::Client, _) | (CallbackMode::Device, None) => Err(expired()),
        (CallbackMode::Direct, found) => direct(&run, &state, role, &name, found).await,
        (CallbackMode::Device, Some(found)) => {
            device(&run, &config, &state, role, &name, &found).await
        }
    }
}

fn pending() -> Error {
    Error::invalid("authorization_pending")
}

async fn direct(
    run: &Call<'_>,
    state: &LoginUnderWay,
    role: JwtRole,
    name: &str,
    found: Option<Map>,
) -> Result<Response, Error> {
    let Some(found) = found else {
        let used = super::callback::used(state);
        let was_used = record::load(&run.storage, &used, run.now.as_second())?.is_some();
        return Err(if was_used { expired() } else { pending() });
    };
    let why = record::text(&found, "failed");
    if !why.is_empty() {
        use_up(run, state, name).await?;
        return Err(Error::invalid(why));
    }
    if found.contains_key("confirm") {
        return Err(pending());
    }
    let alias = record::text(&found, "alias").to_owned();
    let groups = match found.get("groups") {
        Some(Json::Array(groups)) => groups.iter().filter_map(Json::as_str).map(str::to_owned),
        _ => {
            let mount = run.mount.path;
            return Err(Error::internal(&format_args!(
                "the record {name:?} of {mount} is damaged"
            )));
        }
    };
    let metadata = found.get("metadata").and_then(Json::as_object).cloned().unwrap_or_default();
    let login = Login {
        display_name: alias.clone(),
        alias,
        metadata,
        groups: groups.collect(),
        params: role.params,
        kept: Map::from([("role".to_owned(), state.role.as_str().into())]),
    };
    use_up(run, state, name).await?;
    run.logins()?.grant(login).await
}

async fn device(
    run: &Call<'_>,
    config: &JwtConfig,
    state: &LoginUnderWay,
    role: JwtRole,
    name: &str,
    found: &Map,
) -> Result<Response, Error> {
    let interval = match found.get("interval") {
        Some(Json::Number(digits)) => digits.parse().unwrap_or_default(),
        _ => role.poll_interval_secs(),
    };
    // A second less, for a client that counts from when it was answered.
    if !run.memory::<JwtMemory>()?.may_poll(name, run.now, interval - 1) {
        return Err(Error::invalid("slow_down"));
    }
    let (client, (url, authorities)) = parties(config)?;
    let provider = provider::provider(&run.context, url, authorities).await?;
    let peer = TokenEndpoint { outbound: run.outbound, provider: &provider, client, authorities };
    let tokens = match peer.tokens_of_device(record::text(found, "device_code")).await {
        Ok(tokens) => tokens,
        Err(NoTokens::Refused(code)) if code == "authorization_pending" || code == "slow_down" => {
            return Err(Error::Invalid(code));
        }
        Err(NoTokens::Unusable(why)) => {
            return Err(failed(&format!("Error exchanging device code: {why:?}")));
        }
        Err(refused @ NoTokens::Refused(_)) => {
            use_up(run, state, name).await?;
            return Err(failed(&format!("Error exchanging device code: {:?}", refused.text())));
        }
    };
    let claims = vouched(run, config, &role, peer, &tokens, None).await?.judged()?;
    let login =
        login(&state.role, role, config.provider_kind, &claims).map_err(|why| failed(&why))?;
    use_up(run, state, name).await?;
    run.logins()?.grant(login).await
}
