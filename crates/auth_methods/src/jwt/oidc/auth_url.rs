//! `oidc/auth_url`: where a login through a browser begins.
//!
//! What a client may not ask for (a redirect URI that its role does not allow, a role that is no one's for browsers) is answered with an
//! empty address, as Vault does and its clients expect.

use kallisto_api::{Error, Fields, Json, Logical, Response};
use kallisto_engine::Call;
use kallisto_engine::outbound::form_component;

use super::super::config::{JwtConfig, OidcClient, ResponseMode};
use super::super::memory::JwtMemory;
use super::super::provider::{self, DiscoveredProvider};
use super::super::role::{CallbackMode, JwtRole};
use super::super::{ROLES, named_role};
use super::exchange::TokenEndpoint;
use super::state::{LIFE_SECS, LoginUnderWay};
use super::{parties, record, redirect};

use crate::records;

/// Shortest and longest wait between two questions for a device, in seconds.
const DEVICE_INTERVAL_SECS: std::ops::RangeInclusive<i64> = 1..=60;

/// What is said of a provider without a page to log in at.
const NO_ENDPOINT: &str = "the provider's discovery document has no authorization_endpoint: nobody can log in at auth_url";

/// Answers with an address to log in at.
pub(in super::super) async fn auth_url(run: Call<'_>) -> Result<Response, Error> {
    let config = records::config::<JwtConfig>(&run.storage)?;
    let config = config.ok_or_else(|| Error::invalid("could not load configuration"))?;
    let (client, discovery) = parties(&config)?;
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
    let (name, mut redirect_uri, client_nonce) =
        (named_role(fields, &config)?, text("redirect_uri")?, text("client_nonce")?);
    let role = ROLES.load::<JwtRole>(&run.storage, &name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("role {name:?} could not be found")))?;
    let is_device = !role.takes_jwt && role.callback_mode == CallbackMode::Device;
    if redirect_uri.is_empty() && !is_device {
        return Err(Error::invalid("missing redirect_uri"));
    }
    if role.takes_jwt {
        return Ok(answer([("auth_url", "".into())]));
    }
    if is_device {
        return device(&run, &config, &name, &role, &client_nonce).await;
    }
    let namespace = take_namespace(&config, &mut redirect_uri);
    if !redirect::is_allowed(&redirect_uri, &role.allowed_redirect_uris) {
        return Ok(answer([("auth_url", "".into())]));
    }
    if config.response_mode == ResponseMode::FormPost {
        // The server takes what is posted, and sends the browser on to the page.
        let posting = redirect::posting(&redirect_uri, run.place.namespace_path);
        redirect_uri = posting.unwrap_or(redirect_uri);
    }
    let is_direct = role.callback_mode == CallbackMode::Direct;
    if is_direct && client_nonce.is_empty() {
        return Err(Error::invalid("missing client_nonce"));
    }
    let provider = provider::provider(&run.context, discovery.0, discovery.1).await?;
    // Vault answers with an address all the same; nobody can log in there, so that is said.
    let warnings = match provider.authorization_endpoint.as_str() {
        "" => vec![NO_ENDPOINT.to_owned()],
        _ => Vec::new(),
    };
    let from = match run.request.remote {
        Some(remote) if is_direct => remote.ip().to_string(),
        _ => String::new(),
    };
    let state = LoginUnderWay::make(&run.context, &name, &redirect_uri, &client_nonce, from)?;
    let mut sealed = state.seal(run.keyed_hash, &config)?;
    if let Some(namespace) = namespace {
        sealed = format!("{sealed},ns={namespace}");
    }
    let url = address(&run, &config, &provider, client, &role, &state, &sealed)?;
    if !is_direct {
        return Ok(warned([("auth_url", url.into())], warnings));
    }
    let data = [
        ("auth_url", url.into()),
        ("state", sealed.into()),
        ("poll_interval", role.poll_interval_secs().to_string().into()),
    ];
    Ok(warned(data, warnings))
}

fn answer<const N: usize>(data: [(&str, Json); N]) -> Response {
    warned(data, Vec::new())
}

fn warned<const N: usize>(data: [(&str, Json); N], warnings: Vec<String>) -> Response {
    let data = Json::object(data).to_text();
    Response::Logical(Logical { data, warnings, ..Logical::default() })
}

/// Takes `namespace` out of the query of a redirect URI, so that one URI serves every namespace: the state says it instead.
fn take_namespace(config: &JwtConfig, redirect_uri: &mut String) -> Option<String> {
    if !config.namespace_in_state {
        return None;
    }
    let (path, query) = redirect_uri.split_once('?')?;
    let is_name = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./%".contains(&byte);
        !text.is_empty() && text.bytes().all(fits)
    };
    let (named, others): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|pair| pair.starts_with("namespace="));
    let [namespace] = named[..] else { return None };
    let namespace = namespace.strip_prefix("namespace=").filter(|name| is_name(name))?.to_owned();
    *redirect_uri = match others.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", others.join("&")),
    };
    Some(namespace)
}

/// The scopes that are asked for, `openid` first.
fn scope(role: &JwtRole) -> String {
    let others = role.oidc_scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
    std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
}

/// The address of the provider's page, with all that it is to know (OpenID Connect Core 1.0, section 3.1.2.1).
fn address(
    run: &Call<'_>,
    config: &JwtConfig,
    provider: &DiscoveredProvider,
    client: &OidcClient,
    role: &JwtRole,
    state: &LoginUnderWay,
    sealed: &str,
) -> Result<String, Error> {
    let mut types: Vec<&str> = config.response_types.iter().map(String::as_str).collect();
    if types.is_empty() {
        types.push("code");
    }
    types.sort_unstable();
    types.dedup();
    let mut fields = vec![("client_id", client.id.clone())];
    if config.asks_for("code") {
        fields.push(("code_challenge", state.code_challenge(run.keyed_hash)?));
        fields.push(("code_challenge_method", "S256".to_owned()));
    }
    if role.max_age_secs > 0 {
        fields.push(("max_age", role.max_age_secs.to_string()));
    }
    fields.push(("nonce", state.nonce(run.keyed_hash)?));
    fields.push(("redirect_uri", state.redirect_uri.clone()));
    if config.response_mode == ResponseMode::FormPost {
        fields.push(("response_mode", "form_post".to_owned()));
    }
    fields.push(("response_type", types.join(" ")));
    fields.push(("scope", scope(role)));
    fields.push(("state", sealed.to_owned()));
    let endpoint = &provider.authorization_endpoint;
    let mut url = endpoint.clone().into_bytes();
    url.push(if endpoint.contains('?') { b'&' } else { b'?' });
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            url.push(b'&');
        }
        url.extend_from_slice(name.as_bytes());
        url.push(b'=');
        form_component(value, &mut url);
    }
    String::from_utf8(url).map_err(|_| Error::internal(&"an address that is no text"))
}

/// Begins a login by device: the provider says what its user is to do, and is asked by `oidc/poll` whether they did (RFC 8628).
async fn device(
    run: &Call<'_>,
    config: &JwtConfig,
    name: &str,
    role: &JwtRole,
    client_nonce: &str,
) -> Result<Response, Error> {
    if client_nonce.is_empty() {
        return Err(Error::invalid("missing client_nonce"));
    }
    if !run.memory::<JwtMemory>()?.has_place() {
        return Err(Error::Unavailable("too many logins are on their way at this mount".into()));
    }
    let (client, (url, authorities)) = parties(config)?;
    let provider = provider::provider(&run.context, url, authorities).await?;
    if provider.device_endpoint.is_empty() {
        return Err(Error::invalid("no device auth endpoint url discovered"));
    }
    let peer = TokenEndpoint { outbound: run.outbound, provider: &provider, client, authorities };
    let refuse = |why: &str| Error::invalid(format!("error starting a login by device: {why}"));
    let said = peer.device_codes(&scope(role)).await.map_err(|why| refuse(&why.text()))?;
    let text = |name: &str| said.get(name).and_then(Json::as_str).unwrap_or_default();
    let is_address = |url: &str| super::super::check_url("verification_uri", url).is_ok();
    // Those that were there before RFC 8628, Google's among them, say URL.
    let pages = ["uri_complete", "url_complete", "uri", "url"];
    let pages = pages.map(|name| text(&format!("verification_{name}")));
    let page = pages.into_iter().find(|page| is_address(page)).unwrap_or_default();
    let (device_code, user_code) = (text("device_code"), text("user_code"));
    let is_user_code = user_code.len() <= 64 && user_code.bytes().all(|b| b.is_ascii_graphic());
    if device_code.is_empty() || device_code.len() > 4096 || !is_address(page) || !is_user_code {
        return Err(refuse("the provider answered without the codes of a device"));
    }
    let number = |name: &str| match said.get(name) {
        Some(Json::Number(digits)) => digits.parse::<i64>().ok(),
        _ => None,
    };
    let life = number("expires_in").unwrap_or(LIFE_SECS).clamp(1, LIFE_SECS);
    let interval = number("interval").unwrap_or_else(|| role.poll_interval_secs());
    let interval = interval.clamp(*DEVICE_INTERVAL_SECS.start(), *DEVICE_INTERVAL_SECS.end());
    let state = LoginUnderWay::make(&run.context, name, "", client_nonce, String::new())?;
    let stored = record::encode(
        state.issued + life,
        [("device_code", device_code.into()), ("interval", interval.into())],
    );
    run.storage.put(&format!("{}{}", record::REQUEST, state.id), stored).await?;
    Ok(answer([
        ("auth_url", page.into()),
        ("user_code", user_code.into()),
        ("state", state.seal(run.keyed_hash, config)?.into()),
        ("poll_interval", interval.to_string().into()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_moves_from_the_redirect_uri_into_the_state() {
        let taken = |config: &JwtConfig, uri: &str| {
            let mut uri = uri.to_owned();
            (take_namespace(config, &mut uri), uri)
        };
        let config = JwtConfig::default();
        for (uri, namespace, left) in [
            ("https://v/cb", None, "https://v/cb"),
            ("https://v/cb?namespace=a/b", Some("a/b"), "https://v/cb"),
            ("https://v/cb?x=1&namespace=a%2Fb&y=2", Some("a%2Fb"), "https://v/cb?x=1&y=2"),
            ("https://v/cb?namespace=", None, "https://v/cb?namespace="),
            ("https://v/cb?namespace=a&namespace=b", None, "https://v/cb?namespace=a&namespace=b"),
            ("https://v/cb?namespace=a,b", None, "https://v/cb?namespace=a,b"),
        ] {
            let expected = (namespace.map(str::to_owned), left.to_owned());
            assert_eq!(taken(&config, uri), expected, "{uri}");
        }
        let elsewhere = JwtConfig { namespace_in_state: false, ..JwtConfig::default() };
        assert_eq!(taken(&elsewhere, "https://v/cb?namespace=a").0, None);
    }
}
