//! Lookup of a token, by itself or by its accessor.

use jiff::Timestamp;
use kallisto_auth::TokenKind;

use crate::api::json::{Json, Map};
use crate::records::token::ROOT_PATH;
use crate::records::token::TokenEntry;
use crate::view::View;
use kallisto_engine::address;

/// The data of `auth/token/lookup*`; `id` is the token's text when its bearer asks.
pub(super) fn describe(view: &View, entry: &TokenEntry, id: &str, now: Timestamp) -> Json {
    let auth = &entry.auth;
    let mut map = Map::new();
    let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
    let text = |at: Timestamp| Json::from(at.to_string());
    put("accessor", auth.accessor.as_str().into());
    put("creation_time", auth.created_at.as_second().into());
    put("creation_ttl", entry.ttl_secs.into());
    put("display_name", auth.display_name.as_str().into());
    put("entity_id", entity_json(entry));
    put("expire_time", auth.expires_at.map_or(Json::Null, text));
    put("explicit_max_ttl", entry.explicit_max_ttl_secs.into());
    put("id", id.into());
    put("issue_time", text(auth.created_at));
    put("meta", entry.meta.clone().map_or(Json::Null, Json::Object));
    put("num_uses", entry.uses_left.into());
    put("orphan", auth.orphan.into());
    put("path", auth.path.as_str().into());
    put("policies", Json::strings(auth.policies.iter().cloned()));
    put("ttl", entry.ttl_left_secs(now).into());
    put("type", type_name(auth.kind).into());
    match auth.kind {
        // The server's own root token was issued by nobody and is renewed by nobody.
        TokenKind::Root if auth.path == ROOT_PATH => {
            map.remove("issue_time");
        }
        TokenKind::Root | TokenKind::Service | TokenKind::Batch => {
            map.insert("renewable".into(), entry.renewable.into());
        }
    }
    let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
    if let Some(person) = view.person(entry) {
        let policies = person.policies();
        if !policies.is_empty() {
            put("identity_policies", Json::strings(policies));
        }
        put("external_namespace_policies", Map::new().into());
    }
    if view.inside.is_some() {
        put("namespace_path", view.namespace_path().into());
    }
    if entry.period_secs > 0 {
        put("period", entry.period_secs.into());
    }
    if !entry.bound_cidrs.is_empty() {
        put("bound_cidrs", address::shown(&entry.bound_cidrs));
    }
    if let Some(role) = &entry.role {
        put("role", role.as_str().into());
    }
    if let Some(renewed_at) = entry.renewed_at {
        put("last_renewal", text(renewed_at));
        put("last_renewal_time", renewed_at.as_second().into());
    }
    Json::Object(map)
}

/// What kind of token it is, on the wire.
const fn type_name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Root | TokenKind::Service => "service",
        TokenKind::Batch => "batch",
    }
}

/// The `auth` object of a reply that hands a token out or renews it.
pub(crate) fn auth_object(
    view: &View,
    entry: &TokenEntry,
    client_token: &str,
    now: Timestamp,
) -> Json {
    let auth = &entry.auth;
    let of_identity = view.person(entry).map(|person| person.policies()).unwrap_or_default();
    let mut all: Vec<String> = auth.policies.iter().chain(&of_identity).cloned().collect();
    all.sort();
    all.dedup();
    let mut map: Map = [
        ("client_token", client_token.into()),
        ("accessor", auth.accessor.as_str().into()),
        ("policies", Json::strings(all)),
        ("token_policies", Json::strings(auth.policies.iter().cloned())),
        ("metadata", entry.meta.clone().map_or(Json::Null, Json::Object)),
        ("lease_duration", entry.ttl_left_secs(now).into()),
        ("renewable", entry.renewable.into()),
        ("entity_id", entity_json(entry)),
        ("token_type", type_name(auth.kind).into()),
        ("orphan", auth.orphan.into()),
        ("mfa_requirement", Json::Null),
        ("num_uses", entry.uses_left.into()),
    ]
    .into_iter()
    .map(|(name, value): (&str, Json)| (name.to_owned(), value))
    .collect();
    if !of_identity.is_empty() {
        map.insert("identity_policies".into(), Json::strings(of_identity));
    }
    Json::Object(map)
}

/// The id of the bearer; empty for none.
fn entity_json(entry: &TokenEntry) -> Json {
    entry.entity_id.map_or_else(String::new, |id| id.to_string()).into()
}
