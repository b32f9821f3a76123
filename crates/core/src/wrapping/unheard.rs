//! Tokens and leases of an answer that never reaches its client.
//!
//! An answer can be lost after its handler has run: no audit device takes its record, or it cannot be
//! wrapped. Whatever it was to hand out that lives on is ended then. What was written stays written:
//! the client gets an error, and reads again.
//!
//! | handed out | becomes of it |
//! |---|---|
//! | a service token: made, or of a login | revoked, with its children |
//! | a secret id, generated or custom | destroyed |
//! | a wrapping token | revoked, and what is in it as if it had not been wrapped |
//! | a root token of `generate-root` | revoked |
//! | the new shares of a rekey | the old ones count on; under verification the new ones never counted |
//! | a join token | forgotten |
//! | a credential with a lease | revoked, soon |
//!
//! Not ended: a batch token, which is kept nowhere and lives until it expires; what an unwrapped or
//! rewrapped answer held, which an earlier request made.

use crate::dispatch::server_engine::UnheardAnswer;
use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::cluster;
use crate::records::token::TokenHash;
use crate::registry;
use crate::state::Core;
use crate::tokens;
use crate::view::NamespaceContext;
use crate::wrapping;

/// Ends what an answer to `request` was to hand out, since it will not leave. What cannot be ended is
/// logged: nobody is left to be told.
pub(crate) async fn end(
    core: &Core,
    context: &NamespaceContext,
    request: &Request<'_>,
    answer: &Response,
) {
    let path = request.path.as_str();
    let mut outcome = core.undo_shares(request.id).await;
    if let Some(logical) = answer.logical() {
        let ended = end_logical(context, path, logical, request.now).await;
        outcome = outcome.and(ended);
    }
    if let Err(error) = outcome {
        tracing::error!(%error, "what an answer that was not told had handed out lives on");
    }
}

async fn end_logical(
    context: &NamespaceContext,
    path: &str,
    logical: &Logical,
    since: Timestamp,
) -> Result<(), Error> {
    let Some(hash) = told_accessor(context, &logical.wrap_info) else {
        return end_plain(context, path, logical, since).await;
    };
    // What another request made is none of this one's.
    let is_own = context.view.tokens.entry(&hash).is_some_and(|entry| entry.auth.path == path);
    let content = wrapping::content(context, &hash)?;
    let inside = match content.as_ref().and_then(Response::logical) {
        Some(inside) if is_own => end_plain(context, path, inside, since).await,
        _ => Ok(()),
    };
    tokens::revoke_tree(context, hash).await.and(inside)
}

/// Ends what an answer that is not wrapped handed out.
async fn end_plain(
    context: &NamespaceContext,
    path: &str,
    logical: &Logical,
    since: Timestamp,
) -> Result<(), Error> {
    if let Some(hash) = told_accessor(context, &logical.auth) {
        // A renewal hands out what was there before.
        let entry = context.view.tokens.entry(&hash);
        if entry.is_some_and(|entry| entry.auth.created_at >= since) {
            tokens::revoke_tree(context, hash).await?;
        }
    }
    let data = || json::parse_object(&logical.data).unwrap_or_default();
    if path == cluster::JOIN_TOKEN {
        return cluster::forget_join_token(context, text(&data(), "token")).await;
    }
    match context.view.mounts.route(path) {
        Some((mount, inside)) => {
            let told = UnheardAnswer { data: &data(), lease: logical.lease.as_ref(), since };
            registry::driver(mount.entry.kind).end_unheard(context, &mount, inside, told).await
        }
        None => Ok(()),
    }
}

/// The token whose accessor an object tells.
fn told_accessor(context: &NamespaceContext, object: &[u8]) -> Option<TokenHash> {
    if object.is_empty() {
        return None;
    }
    let object = json::parse_object(object).ok()?;
    context.view.tokens.with_accessor(text(&object, "accessor"))
}

fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map.get(name).and_then(Json::as_str).unwrap_or_default()
}
