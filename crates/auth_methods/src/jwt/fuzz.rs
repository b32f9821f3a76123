//! The body of the fuzz target `oidc`: what a provider, a browser or a client hands a login, as any bytes.
//!
//! The first byte chooses: a discovery document, the claims of an ID token, a state, a redirect URI, a set of keys with a token, UserInfo.

use jiff::Timestamp;
use kallisto_api::{Fields, Json, Map, json};

use super::check_url;
use super::oidc::{id_token, redirect, state};
use super::provider::DiscoveredProvider;
use super::role::JwtRole;
use super::token::{Jwt, JwtKey};
use crate::records::FieldsRecord;

const ISSUER: &str = "https://idp.example/a";
const CLIENT: &str = "client";
const NONCE: &str = "nonce";
const ALLOWED: [&str; 2] = ["http://localhost:8250/oidc/callback", "https://vault.example/cb"];

/// Any bytes as something of a login: refused, or what its rules say.
///
/// # Panics
/// If a promise is broken.
pub fn oidc(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 6 {
        0 => discovery(rest),
        1 => claims(rest),
        2 => states(rest),
        3 => redirects(rest),
        4 => tokens(rest),
        _ => user_info(rest),
    }
}

fn discovery(bytes: &[u8]) {
    let Ok(provider) = DiscoveredProvider::parse(ISSUER, bytes) else { return };
    assert_eq!(provider.issuer.trim_end_matches('/'), ISSUER);
    assert!(!provider.jwks_uri.is_empty());
    for url in [
        &provider.authorization_endpoint,
        &provider.token_endpoint,
        &provider.userinfo_endpoint,
        &provider.device_endpoint,
        &provider.jwks_uri,
    ] {
        assert!(url.is_empty() || (url.starts_with("https://") && check_url("url", url).is_ok()));
    }
}

fn role() -> JwtRole {
    let role = format!(r#"{{"user_claim":"sub","allowed_redirect_uris":"{}"}}"#, ALLOWED[0]);
    let role = json::parse_object(role.as_bytes()).unwrap_or_default();
    JwtRole::written(None, Fields::new(&role)).unwrap_or_default()
}

fn claims(bytes: &[u8]) {
    let Ok(claims) = json::parse_object(bytes) else { return };
    let (role, now) = (role(), 1_000_000);
    let wanted = id_token::IdTokenChecks {
        issuer: ISSUER,
        client_id: CLIENT,
        nonce: Some(NONCE),
        access_token: "access",
        algorithm: "ES256",
        role: &role,
        now: Timestamp::from_second(now).unwrap_or_default(),
    };
    if id_token::check(&claims, &wanted).is_err() {
        return;
    }
    let is = |name: &str, text: &str| claims.get(name).and_then(Json::as_str) == Some(text);
    assert!(is("iss", ISSUER) && is("nonce", NONCE));
    let names_client = match claims.get("aud") {
        Some(Json::Array(many)) => many.iter().any(|one| one.as_str() == Some(CLIENT)),
        _ => is("aud", CLIENT),
    };
    assert!(names_client);
    assert!(matches!(claims.get("exp"), Some(Json::Number(_))));
}

fn states(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    state::fuzz(text);
}

fn redirects(bytes: &[u8]) {
    let Ok(given) = std::str::from_utf8(bytes) else { return };
    let allowed = ALLOWED.map(str::to_owned);
    // What differs in the port alone, as somebody would write it who has the parts.
    let naive = ALLOWED.contains(&given) || {
        let rest = given.strip_prefix("http://localhost");
        let port = rest.and_then(|rest| rest.strip_suffix("/oidc/callback"));
        port.is_some_and(|port| {
            let digits = port.strip_prefix(':').unwrap_or("x");
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            port.is_empty() || (is_number && digits.parse::<u16>().is_ok())
        })
    };
    assert_eq!(redirect::is_allowed(given, &allowed), naive, "{given:?}");
}

fn tokens(bytes: &[u8]) {
    let (set, token) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&[][..], bytes),
    };
    let keys = JwtKey::from_jwks(set).unwrap_or_default();
    let Some(jwt) = std::str::from_utf8(token).ok().and_then(Jwt::parse) else { return };
    assert!(!(jwt.is_signed_by(&keys) && keys.is_empty()));
    assert!(!(jwt.algorithm.eq_ignore_ascii_case("none") && jwt.is_signed_by(&keys)));
}

fn user_info(bytes: &[u8]) {
    let Ok(said) = json::parse_object(bytes) else { return };
    let mut claims = Map::from([
        ("sub".to_owned(), Json::from("ann")),
        ("iss".to_owned(), Json::from(ISSUER)),
        ("nonce".to_owned(), Json::from(NONCE)),
    ]);
    let subject = said.get("sub").and_then(Json::as_str) == Some("ann");
    assert_eq!(id_token::merge(&mut claims, said).is_ok(), subject);
    assert!(claims.get("iss").and_then(Json::as_str) == Some(ISSUER));
    assert!(claims.get("nonce").and_then(Json::as_str) == Some(NONCE));
}
