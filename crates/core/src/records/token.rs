//! A token's record.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kallisto_auth::{Token, TokenKind};
use kallisto_leases::told_secs;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::identity::record::IdentityId;
use crate::random;
use crate::storage::keys::NamespaceNumber;
use kallisto_engine::address::{self, AddressRange};

/// Where initialisation and `generate-root` say their tokens were made. They have no lease.
pub(crate) const ROOT_PATH: &str = "auth/token/root";
/// Every service token starts with this.
pub(crate) const PREFIX: &str = "hvs.";
/// Longest token text taken, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 512;
const TOKEN_BODY_CHARS: usize = 24;
/// Characters of a token's text.
pub(crate) const TEXT_CHARS: usize = PREFIX.len() + TOKEN_BODY_CHARS;
const ACCESSOR_CHARS: usize = 24;

/// A new token text: `hvs.` and 24 characters of base 62.
pub(crate) fn make_text() -> Result<SecretString, Error> {
    Ok(format!("{PREFIX}{}", random::make_base62(TOKEN_BODY_CHARS)?).into())
}

/// HMAC-SHA-256 of a token's text: what it is stored and looked up by.
pub(crate) type TokenHash = [u8; 32];

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenEntry {
    /// What the decision needs.
    pub(crate) auth: Token,
    /// The token that made it; `None` for an orphan.
    pub(crate) parent: Option<TokenHash>,
    /// The namespace of that token, when it is one above this one's.
    pub(crate) parent_above: Option<NamespaceNumber>,
    /// What its maker wrote on it.
    pub(crate) meta: Option<Map>,
    /// Requests left; 0 for no such limit, -1 while the last one runs.
    pub(crate) uses_left: i64,
    /// Its lifetime when it was made or last renewed, in seconds; 0 for no end.
    pub(crate) ttl_secs: u64,
    /// Each renewal gives this much, in seconds; 0 for a token that is not periodic.
    pub(crate) period_secs: u64,
    /// It ends so long after it was made, whatever happens; 0 for the server's maximum.
    pub(crate) explicit_max_ttl_secs: u64,
    /// Renewals end so long after it was made: its role's and mount's bound; 0 for the server's.
    pub(crate) max_ttl_secs: u64,
    /// Whether it may be renewed.
    pub(crate) renewable: bool,
    /// The role it was made through.
    pub(crate) role: Option<String>,
    /// The entity that bears it.
    pub(crate) entity_id: Option<IdentityId>,
    /// Where it may be used from; empty for anywhere.
    pub(crate) bound_cidrs: Vec<AddressRange>,
    /// What the login method that made it judges renewals by.
    pub(crate) kept: Map,
    /// When it was last renewed.
    pub(crate) renewed_at: Option<Timestamp>,
}

/// The entry of a root token made at `now`.
pub(crate) fn make_root(now: Timestamp) -> Result<TokenEntry, Error> {
    Ok(TokenEntry {
        auth: Token {
            accessor: random::make_base62(ACCESSOR_CHARS)?,
            kind: TokenKind::Root,
            policies: vec!["root".into()],
            display_name: "root".into(),
            path: ROOT_PATH.into(),
            created_at: now,
            expires_at: None,
            orphan: true,
        },
        parent: None,
        parent_above: None,
        meta: None,
        uses_left: 0,
        ttl_secs: 0,
        period_secs: 0,
        explicit_max_ttl_secs: 0,
        max_ttl_secs: 0,
        renewable: false,
        role: None,
        entity_id: None,
        bound_cidrs: Vec::new(),
        kept: Map::new(),
        renewed_at: None,
    })
}

/// A fresh accessor.
pub(crate) fn make_accessor() -> Result<String, Error> {
    random::make_base62(ACCESSOR_CHARS)
}

impl TokenEntry {
    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
        let time = |at: Timestamp| Json::from(at.to_string());
        put("accessor", self.auth.accessor.as_str().into());
        put(
            "kind",
            match self.auth.kind {
                TokenKind::Root => "root".into(),
                TokenKind::Service => "service".into(),
                TokenKind::Batch => unreachable!("batch tokens are not stored"),
            },
        );
        put("policies", Json::strings(self.auth.policies.iter().cloned()));
        put("display_name", self.auth.display_name.as_str().into());
        put("path", self.auth.path.as_str().into());
        put("created_at", time(self.auth.created_at));
        put("expires_at", self.auth.expires_at.map_or(Json::Null, time));
        put("orphan", self.auth.orphan.into());
        put("parent", self.parent.map_or(Json::Null, |hash| HEXLOWER.encode(&hash).into()));
        if let Some(number) = self.parent_above {
            put("parent_namespace", u64::from(number.0).into());
        }
        put("meta", self.meta.clone().map_or(Json::Null, Json::Object));
        put("uses_left", self.uses_left.into());
        put("ttl", self.ttl_secs.into());
        put("period", self.period_secs.into());
        put("explicit_max_ttl", self.explicit_max_ttl_secs.into());
        put("max_ttl", self.max_ttl_secs.into());
        put("renewable", self.renewable.into());
        put("role", self.role.as_deref().map_or(Json::Null, Json::from));
        put("renewed_at", self.renewed_at.map_or(Json::Null, time));
        put("entity_id", self.entity_id.map_or(Json::Null, |id| id.to_string().into()));
        put("bound_cidrs", address::shown(&self.bound_cidrs));
        put("kept", self.kept.clone().into());
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when the bytes are no token.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let stored: StoredToken<'_> = serde_json::from_slice(bytes).ok()?;
        let map = |text: &RawValue| json::parse_object(text.get().as_bytes()).ok();
        let ranges = stored.bound_cidrs.iter().map(|range| AddressRange::parse(range));
        Some(Self {
            auth: Token {
                accessor: stored.accessor.into_owned(),
                kind: match &*stored.kind {
                    "root" => TokenKind::Root,
                    "service" => TokenKind::Service,
                    _ => return None,
                },
                policies: stored.policies,
                display_name: stored.display_name.into_owned(),
                path: stored.path.into_owned(),
                created_at: stored.created_at.parse().ok()?,
                expires_at: optional_time(stored.expires_at)?,
                orphan: stored.orphan,
            },
            parent: match stored.parent {
                None => None,
                Some(hex) => Some(HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()?),
            },
            parent_above: stored.parent_namespace.map(NamespaceNumber),
            meta: match stored.meta {
                None => None,
                Some(text) => Some(map(text)?),
            },
            uses_left: stored.uses_left,
            ttl_secs: stored.ttl,
            period_secs: stored.period,
            explicit_max_ttl_secs: stored.explicit_max_ttl,
            max_ttl_secs: stored.max_ttl,
            renewable: stored.renewable,
            role: stored.role,
            entity_id: match stored.entity_id {
                None => None,
                Some(id) => Some(IdentityId::parse(&id)?),
            },
            bound_cidrs: ranges.collect::<Option<_>>()?,
            kept: match stored.kept {
                None => Map::new(),
                Some(text) => map(text)?,
            },
            renewed_at: optional_time(stored.renewed_at)?,
        })
    }

    /// The seconds left at `now`, as [`told_secs`] rounds them; 0 for a token without end, and for one that is over.
    pub(crate) fn ttl_left_secs(&self, now: Timestamp) -> u64 {
        self.auth.expires_at.map_or(0, |end| told_secs(end.as_nanosecond() - now.as_nanosecond()))
    }
}

/// A record as its text says it, read without a tree in between: there are as many as live tokens, and
/// all are read at every unseal. What has a default is absent in the records of some earlier release.
#[derive(Deserialize)]
struct StoredToken<'a> {
    #[serde(borrow)]
    accessor: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    policies: Vec<String>,
    #[serde(borrow)]
    display_name: Cow<'a, str>,
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    created_at: Cow<'a, str>,
    #[serde(borrow)]
    expires_at: Option<Cow<'a, str>>,
    orphan: bool,
    #[serde(borrow)]
    parent: Option<Cow<'a, str>>,
    #[serde(default)]
    parent_namespace: Option<u32>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    uses_left: i64,
    ttl: u64,
    period: u64,
    explicit_max_ttl: u64,
    #[serde(default)]
    max_ttl: u64,
    renewable: bool,
    role: Option<String>,
    #[serde(borrow, default)]
    entity_id: Option<Cow<'a, str>>,
    #[serde(default)]
    bound_cidrs: Vec<String>,
    #[serde(borrow, default)]
    kept: Option<&'a RawValue>,
    #[serde(borrow, default)]
    renewed_at: Option<Cow<'a, str>>,
}

fn optional_time(text: Option<Cow<'_, str>>) -> Option<Option<Timestamp>> {
    match text {
        None => Some(None),
        Some(text) => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use crate::api::request::TokenText;

    use super::*;

    #[test]
    fn tokens_read_back() {
        let now: Timestamp = "2026-11-21T19:47:43.111465434Z".parse().unwrap();
        let mut token = make_root(now).unwrap();
        token.auth.expires_at = Some(now);
        token.parent = Some([7; 32]);
        token.uses_left = -1;
        token.role = Some("r".into());
        token.entity_id = Some(IdentityId::make().unwrap());
        token.bound_cidrs = vec![AddressRange::parse("10.0.0.0/8").unwrap()];
        token.kept.insert("role".into(), "web".into());
        let again = TokenEntry::decode(&token.encode()).unwrap();
        assert_eq!(
            (&again.auth.accessor, again.auth.kind),
            (&token.auth.accessor, TokenKind::Root)
        );
        assert_eq!((again.auth.created_at, again.auth.expires_at), (now, Some(now)));
        assert_eq!((again.parent, again.uses_left), (token.parent, -1));
        assert_eq!(again.role.as_deref(), Some("r"));
        assert_eq!((again.entity_id, again.kept), (token.entity_id, token.kept));
        assert_eq!(again.bound_cidrs, token.bound_cidrs);
        assert!(TokenEntry::decode(b"{}").is_none());
    }

    #[test]
    fn what_is_left_is_told_in_the_nearest_second_and_is_none_only_at_the_end() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut token = make_root(at(0)).unwrap();
        assert_eq!(token.ttl_left_secs(at(0)), 0, "it has no end");
        token.auth.expires_at = Some(at(3_600_300));
        for (millis, secs) in [
            (300, 3600),
            (301, 3600),
            (800, 3600),
            (801, 3599),
            (3_599_200, 1),
            (3_600_299, 1),
            (3_600_300, 0),
            (3_700_000, 0),
        ] {
            assert_eq!(token.ttl_left_secs(at(millis)), secs, "{millis}");
        }
    }

    #[test]
    fn token_texts_are_long_enough_for_the_contract() {
        let text = make_text().unwrap();
        assert_eq!(text.expose_secret().len(), TEXT_CHARS);
        assert!(text.expose_secret().starts_with("hvs."));
        let borrowed = TokenText::new(text.expose_secret());
        assert!(!format!("{text:?} {borrowed:?}").contains("hvs."));
    }
}
