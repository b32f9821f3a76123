//! Tokens by the token that made them: `LIST sys/kallisto/tokens`, and what a revocation would end.
//!
//! For operators. Nothing here shows the text of a token, or changes one. Batch tokens are stored nowhere and are in no list.
//!
//! Bounds: [`PAGE_TOKENS_MAX`] tokens in an answer, [`CHILDREN_COUNTED_MAX`] children counted of each, [`TREE_TOKENS_MAX`] tokens counted
//! of a tree. A page looks at every token of its parent, as a list of accessors does.

use std::sync::Arc;

use jiff::Timestamp;

use super::routes::{accessor_of, by_accessor};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::records::token::{TokenEntry, TokenHash};
use crate::view::NamespaceContext;
use crate::view::TokenSet;
use kallisto_auth::TokenKind;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// Most tokens in an answer, and how many come when nobody says.
const PAGE_TOKENS_MAX: usize = 1_000;
/// Most children counted of a token in a list.
const CHILDREN_COUNTED_MAX: usize = 1_000;
/// Most tokens counted of a tree that would end.
const TREE_TOKENS_MAX: usize = 100_000;
/// Tokens that are shown of it.
const TREE_SHOWN: usize = 20;

/// Answers `LIST sys/kallisto/tokens`.
///
/// # Errors
/// [`Error::Invalid`] for a parent that is none.
pub(crate) fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    let query = run.call.query_fields();
    let fields = Fields::new(&query);
    let tokens = &run.context.view.tokens;
    let parent = match fields.string("parent")?.filter(|accessor| !accessor.is_empty()) {
        None => None,
        Some(accessor) => Some(tokens.with_accessor(&accessor).ok_or_else(|| {
            Error::invalid("'parent' must be the accessor of a token of this namespace")
        })?),
    };
    let after = fields.string("after")?.unwrap_or_default();
    let limit = fields.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(PAGE_TOKENS_MAX).min(PAGE_TOKENS_MAX);
    let set = parent.as_ref().map_or(TokenSet::Topmost, TokenSet::Below);
    let mut page = tokens.page(set, &after, limit + 1);
    let next = match page.len() > limit {
        true => {
            page.truncate(limit);
            page.last().map_or(Json::Null, |(_, entry)| entry.auth.accessor.as_str().into())
        }
        false => Json::Null,
    };
    let keys = page.iter().map(|(_, entry)| entry.auth.accessor.clone());
    let keys = Json::strings(keys.collect::<Vec<_>>());
    let shown = page.iter().map(|(hash, entry)| shown(&run.context, hash, entry)).collect();
    Ok(Response::data(&Json::object([
        ("keys", keys),
        ("tokens", Json::Array(shown)),
        ("next", next),
    ])))
}

fn shown(context: &NamespaceContext, hash: &TokenHash, entry: &TokenEntry) -> Json {
    let tokens = &context.view.tokens;
    let auth = &entry.auth;
    let time = |at: Timestamp| Json::from(at.to_string());
    let parent = entry.parent.filter(|_| entry.parent_above.is_none());
    let parent = parent.and_then(|hash| tokens.entry(&hash));
    let mut map: Map = brief(entry);
    map.insert(
        "parent".into(),
        parent.map_or(Json::Null, |parent| parent.auth.accessor.as_str().into()),
    );
    map.insert("orphan".into(), auth.orphan.into());
    map.insert("policies".into(), Json::strings(auth.policies.iter().cloned()));
    let kind = if auth.kind == TokenKind::Root { "root" } else { "service" };
    map.insert("type".into(), kind.into());
    map.insert("uses".into(), entry.uses_left.into());
    map.insert("issue".into(), time(auth.created_at));
    map.insert("expire".into(), auth.expires_at.map_or(Json::Null, time));
    let entity = entry.entity_id.map_or(Json::Null, |id| id.to_string().into());
    map.insert("entity_id".into(), entity);
    let children = tokens.children_of(hash, CHILDREN_COUNTED_MAX).len();
    map.insert("children".into(), (children as u64).into());
    map.into()
}

fn brief(entry: &TokenEntry) -> Map {
    let mut map = Map::new();
    map.insert("accessor".into(), entry.auth.accessor.as_str().into());
    map.insert("display_name".into(), entry.auth.display_name.as_str().into());
    map.insert("path".into(), entry.auth.path.as_str().into());
    map
}

/// Tells what ending the token of an accessor would end: it, and all below it in this namespace and those below.
///
/// # Errors
/// [`Error::Invalid`] for an accessor of no token.
pub(super) async fn count(
    run: &RouteCall<'_>,
    holder: &Arc<NamespaceContext>,
) -> Result<Response, Error> {
    accessor_of(&run.call.object()?)?;
    let (hash, entry) = by_accessor(holder, run.call)?;
    let mut first = vec![Json::from(brief(&entry))];
    let mut count = 1;
    let mut waiting = vec![(Arc::clone(holder), hash)];
    while let Some((context, parent)) = waiting.pop() {
        let below = context.contexts_below();
        let below = below.iter().filter(|inside| inside.view.tokens.has_any_from_above());
        for space in std::iter::once(&context).chain(below) {
            let room = TREE_TOKENS_MAX - count;
            for child in space.view.tokens.children_of(&parent, room) {
                count += 1;
                if first.len() < TREE_SHOWN
                    && let Some(entry) = space.view.tokens.entry(&child)
                {
                    first.push(brief(&entry).into());
                }
                if count % ITEMS_PER_TURN == 0 {
                    cooperative_yield().await;
                }
                waiting.push((Arc::clone(space), child));
            }
        }
        if count >= TREE_TOKENS_MAX {
            break;
        }
    }
    Ok(Response::data(&Json::object([
        ("count", (count as u64).into()),
        ("more", (count >= TREE_TOKENS_MAX).into()),
        ("first", Json::Array(first)),
        ("dry_run", true.into()),
    ])))
}
