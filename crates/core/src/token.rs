//! Tokens at rest and at work: made here, stored under their keyed hash, looked up in the view.
//!
//! The text of a token exists in the request that carries it and in the reply that first hands it
//! out, nowhere else: records and view are addressed by HMAC-SHA-256 of the text under the cluster's
//! token key (LESSONS, Tokens).

use jiff::Timestamp;
use kallisto_auth::{Kind, Token};
use kallisto_cuckoo::Guard;
use secrecy::SecretString;

use crate::error::{Denial, Error};
use crate::json::{self, Json, Map};
use crate::random;
use crate::request::TokenText;
use crate::view::View;

/// Every service token starts with this.
pub(crate) const PREFIX: &str = "hvs.";
/// Longest token text taken, in bytes.
pub const TOKEN_BYTES_MAX: usize = 512;
const TOKEN_BODY_CHARS: usize = 24;
/// Characters of a token's text.
pub(crate) const TEXT_CHARS: usize = PREFIX.len() + TOKEN_BODY_CHARS;
const ACCESSOR_CHARS: usize = 24;

/// A new token text: `hvs.` and 24 characters of base 62.
pub(crate) fn make_text() -> Result<SecretString, Error> {
    Ok(format!("{PREFIX}{}", random::make_base62(TOKEN_BODY_CHARS)?).into())
}

/// The entry of a root token made at `now`.
pub(crate) fn make_root(now: Timestamp) -> Result<Token, Error> {
    Ok(Token {
        accessor: random::make_base62(ACCESSOR_CHARS)?,
        kind: Kind::Root,
        policies: vec!["root".into()],
        display_name: "root".into(),
        path: "auth/token/root".into(),
        created_at: now,
        expires_at: None,
        orphan: true,
    })
}

/// Finds the decoded entry of a token text.
///
/// # Errors
/// [`Denial::BadToken`] when there is none.
pub(crate) fn find<'g>(
    view: &View,
    text: Option<TokenText<'_>>,
    guard: &'g Guard,
) -> Result<&'g Token, Error> {
    let bad = || Error::Denied(Denial::BadToken);
    let text = text.ok_or_else(bad)?;
    if text.expose().is_empty() || text.expose().len() > TOKEN_BYTES_MAX {
        return Err(bad());
    }
    let cluster = view.cluster().ok_or(Error::Sealed)?;
    view.tokens.find(cluster, text, guard).ok_or_else(bad)
}

/// The data of `auth/token/lookup*`; `id` is the token's text when its bearer asks.
pub(crate) fn describe(token: &Token, id: &str, now: Timestamp) -> Json {
    let ttl = token.expires_at.map_or(0, |end| (end.as_second() - now.as_second()).max(0));
    let creation_ttl =
        token.expires_at.map_or(0, |end| end.as_second() - token.created_at.as_second());
    let expire_time = token.expires_at.map_or(Json::Null, |end| end.to_string().into());
    let kind = match token.kind {
        Kind::Root | Kind::Service => "service",
    };
    Json::object([
        ("accessor", token.accessor.as_str().into()),
        ("creation_time", token.created_at.as_second().into()),
        ("creation_ttl", creation_ttl.into()),
        ("display_name", token.display_name.as_str().into()),
        ("entity_id", "".into()),
        ("expire_time", expire_time),
        ("explicit_max_ttl", 0_u64.into()),
        ("id", id.into()),
        ("meta", Json::Null),
        ("num_uses", 0_u64.into()),
        ("orphan", token.orphan.into()),
        ("path", token.path.as_str().into()),
        ("policies", Json::strings(token.policies.iter().cloned())),
        ("ttl", ttl.into()),
        ("type", kind.into()),
    ])
}

/// The record's bytes.
pub(crate) fn encode(token: &Token) -> Vec<u8> {
    let time = |at: Timestamp| Json::from(at.to_string());
    Json::object([
        ("accessor", token.accessor.as_str().into()),
        (
            "kind",
            match token.kind {
                Kind::Root => "root".into(),
                Kind::Service => "service".into(),
            },
        ),
        ("policies", Json::strings(token.policies.iter().cloned())),
        ("display_name", token.display_name.as_str().into()),
        ("path", token.path.as_str().into()),
        ("created_at", time(token.created_at)),
        ("expires_at", token.expires_at.map_or(Json::Null, time)),
        ("orphan", token.orphan.into()),
    ])
    .to_text()
}

/// Reads a record back; `None` when the bytes are no token.
pub(crate) fn decode(bytes: &[u8]) -> Option<Token> {
    let map = json::parse_object(bytes).ok()?;
    let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
    let Some(Json::Array(policies)) = map.get("policies") else { return None };
    Some(Token {
        accessor: text("accessor")?,
        kind: match text("kind")?.as_str() {
            "root" => Kind::Root,
            "service" => Kind::Service,
            _ => return None,
        },
        policies: policies
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
        display_name: text("display_name")?,
        path: text("path")?,
        created_at: time(&map, "created_at")?,
        expires_at: match map.get("expires_at")? {
            Json::Null => None,
            _ => Some(time(&map, "expires_at")?),
        },
        orphan: matches!(map.get("orphan"), Some(Json::Bool(true))),
    })
}

fn time(map: &Map, name: &str) -> Option<Timestamp> {
    map.get(name)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn tokens_read_back() {
        let now: Timestamp = "2026-11-21T19:47:43.111465434Z".parse().unwrap();
        let mut token = make_root(now).unwrap();
        token.expires_at = Some(now);
        let again = decode(&encode(&token)).unwrap();
        assert_eq!((again.accessor, again.kind), (token.accessor, token.kind));
        assert_eq!((again.created_at, again.expires_at), (now, Some(now)));
        assert!(decode(b"{}").is_none());
    }

    #[test]
    fn token_texts_are_long_enough_for_the_contract() {
        let text = make_text().unwrap();
        assert_eq!(text.expose_secret().len(), 28);
        assert!(text.expose_secret().starts_with("hvs."));
        let borrowed = TokenText::new(text.expose_secret());
        assert!(!format!("{text:?} {borrowed:?}").contains("hvs."));
    }
}
