//! What runs for the routes of tokens.
//!
//! A request is about a token of its own namespace, of one above for the token that asks, of one below for a token that is named.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::TokenKind;
use secrecy::{ExposeSecret, SecretString};

use super::create::{Parent, create};
use super::lookup::{auth_object, describe};
use super::renew::{LoginTimes, renew};
use super::revoke::{Children, finish, revoke, revoke_tree};
use super::{roles, tree};
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::request::TokenText;
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::caller::find;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::RouteCall;
use crate::dispatch::server_engine::RenewalRequest;
use crate::engines::identity;
use crate::namespaces::TokenHome;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::registry;
use crate::tokens::fields::seconds;
use crate::view::NamespaceContext;

pub(super) async fn create_child(run: &RouteCall<'_>) -> Result<Response, Error> {
    create(&run.context, run.call, Parent::Caller, None).await
}

pub(super) async fn create_orphan(run: &RouteCall<'_>) -> Result<Response, Error> {
    create(&run.context, run.call, Parent::None, None).await
}

pub(super) async fn create_by_role(run: &RouteCall<'_>) -> Result<Response, Error> {
    run.call.object()?;
    let name = run.params.get("role_name");
    let role = roles::load(&run.context, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("unknown role {name}")))?;
    create(&run.context, run.call, Parent::Caller, Some(&role)).await
}

pub(super) fn look_up_own(run: &RouteCall<'_>) -> Result<Response, Error> {
    let home = home_of_caller(run)?;
    look_up(home.as_deref().unwrap_or(&run.context), run.call, None)
}

pub(super) fn look_up_given(run: &RouteCall<'_>) -> Result<Response, Error> {
    let Some(given) = given_token(run.call)? else { return look_up_own(run) };
    let holder = holder_of_given(run, &given);
    look_up(holder.as_deref().unwrap_or(&run.context), run.call, Some(&given))
}

pub(super) fn look_up_accessor(run: &RouteCall<'_>) -> Result<Response, Error> {
    let holder = holder_of_accessor(run)?;
    let context = holder.as_deref().unwrap_or(&run.context);
    let (_, entry) = by_accessor(context, run.call)?;
    Ok(Response::data(&describe(&context.view, &entry, "", run.call.now)))
}

pub(super) async fn renew_own(run: &RouteCall<'_>) -> Result<Response, Error> {
    let home = home_of_caller(run)?;
    let context = home.as_deref().unwrap_or(&run.context);
    let caller = CallerPolicies::of(context, run.call)?;
    refuse_batch(caller.token().kind, "renewed")?;
    answer_renewal(context, run.call, &caller.hash, ShownToken::Own).await
}

pub(super) async fn renew_given(run: &RouteCall<'_>) -> Result<Response, Error> {
    let given = given_token(run.call)?.ok_or_else(|| Error::invalid("missing token ID"))?;
    let holder = holder_of_given(run, &given);
    let context = holder.as_deref().unwrap_or(&run.context);
    let hash = stored_hash(context, (&given, run.call.now), "renewed")?;
    let hash = hash.ok_or_else(|| Error::invalid("token not found"))?;
    answer_renewal(context, run.call, &hash, ShownToken::Given).await
}

pub(super) async fn renew_accessor(run: &RouteCall<'_>) -> Result<Response, Error> {
    let holder = holder_of_accessor(run)?;
    let context = holder.as_deref().unwrap_or(&run.context);
    let (hash, _) = by_accessor(context, run.call)?;
    answer_renewal(context, run.call, &hash, ShownToken::Nothing).await
}

pub(super) async fn revoke_own(run: &RouteCall<'_>) -> Result<Response, Error> {
    let home = home_of_caller(run)?;
    let context = home.as_deref().unwrap_or(&run.context);
    let caller = CallerPolicies::of(context, run.call)?;
    refuse_batch(caller.token().kind, "revoked")?;
    revoke_tree(context, caller.hash).await.map(|()| Response::Empty)
}

pub(super) fn list_accessors(run: &RouteCall<'_>) -> Result<Response, Error> {
    let keys = Json::strings(run.context.view.tokens.accessors());
    Ok(Response::data(&Json::object([("keys", keys)])))
}

pub(super) fn tidy() -> Result<Response, Error> {
    Ok(Response::Accepted(Logical {
        warnings: vec![
            "Nothing to tidy: expired tokens and their children are removed as they expire."
                .to_owned(),
        ],
        ..Logical::default()
    }))
}

/// The namespace of the token that asks, when that is one above the request's.
fn home_of_caller(run: &RouteCall<'_>) -> Result<Option<Arc<NamespaceContext>>, Error> {
    Ok(match run.context.home_of(run.call.token)? {
        TokenHome::Here => None,
        TokenHome::Above { context, .. } => Some(context),
    })
}

/// The namespace of a token that is named, when that is one below the request's.
fn holder_of_given(run: &RouteCall<'_>, given: &SecretString) -> Option<Arc<NamespaceContext>> {
    run.context.holder_of(given.expose_secret())
}

/// The same of the token of an accessor in the body.
fn holder_of_accessor(run: &RouteCall<'_>) -> Result<Option<Arc<NamespaceContext>>, Error> {
    let body = run.call.object()?;
    let given = Fields::new(&body).string("accessor")?;
    Ok(given.and_then(|text| run.context.holder_of(&text)))
}

/// Whether a renewal's answer carries the token's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShownToken {
    /// That of the token that asks, whatever the body says.
    Own,
    /// That of the token in the body.
    Given,
    Nothing,
}

/// Refuses to renew a token whose login would not be good any more. Tells what its role and mount say of its times by now; `None` for a
/// token of no login.
async fn check_renewal(
    context: &NamespaceContext,
    request: &Request<'_>,
    entry: &TokenEntry,
) -> Result<Option<LoginTimes>, Error> {
    let Some((mount, path)) = context.view.mounts.route(&entry.auth.path) else { return Ok(None) };
    let renewal = RenewalRequest { context, request, mount: &mount, path, entry };
    let renewed = registry::driver(mount.entry.kind).check_renewal(renewal).await?;
    let Some(renewed) = renewed else { return Ok(None) };
    if let (Some(groups), Some(entity)) = (&renewed.groups, entry.entity_id) {
        identity::refresh_groups(context, &mount, entity, groups).await?;
    }
    let leases = mount.entry.config.leases(context.leases);
    Ok(Some(LoginTimes::new(&renewed.params, leases)))
}

async fn answer_renewal(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    hash: &TokenHash,
    shown: ShownToken,
) -> Result<Response, Error> {
    let body = call.object()?;
    let increment = seconds(Fields::new(&body), "increment")?;
    let login = match context.view.tokens.entry(hash) {
        Some(entry) => check_renewal(context, call, &entry).await?,
        None => None,
    };
    let (entry, warning) = renew(context, hash, (increment, login), call.now).await?;
    let given = given_token(call)?;
    let text = match shown {
        ShownToken::Own => call.token.map(TokenText::expose),
        ShownToken::Given => given.as_ref().map(ExposeSecret::expose_secret),
        ShownToken::Nothing => None,
    };
    let text = text.unwrap_or_default();
    let auth = auth_object(&context.view, &entry, text, call.now).to_text();
    let warnings = warning.into_iter().collect();
    Ok(Response::Logical(Logical { auth, warnings, ..Logical::default() }))
}

fn look_up(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    given: Option<&SecretString>,
) -> Result<Response, Error> {
    let guard = context.view.tokens.pin();
    let given = given.map(|text| TokenText::new(text.expose_secret()));
    let asked = given.or(call.token);
    let found = find::find(&context.view, asked, call.now, &guard);
    let (_, live) = found.map_err(|_| Error::Denied(Denial::UnknownToken))?;
    if live.standing().is_expired(call.now) {
        return Err(Error::Denied(Denial::UnknownToken));
    }
    let id = asked.map(TokenText::expose).unwrap_or_default();
    Ok(Response::data(&describe(&context.view, &live.entry(), id, call.now)))
}

pub(super) async fn revoke_given(
    run: &RouteCall<'_>,
    children: Children,
) -> Result<Response, Error> {
    let given = given_token(run.call)?.ok_or_else(|| Error::invalid("missing token ID"))?;
    let holder = holder_of_given(run, &given);
    let context = holder.as_deref().unwrap_or(&run.context);
    match (stored_hash(context, (&given, run.call.now), "revoked")?, children) {
        (Some(hash), _) => revoke(context, hash, children).await?,
        // It is gone; what hung on it may not be, if whoever ended it was cut short. Children that were to stay are not known.
        (None, Children::Revoke) => {
            let cluster = context.view.cluster().ok_or(Error::Sealed)?;
            let tag = cluster.token_key.hash(given.expose_secret());
            if let Ok(gone) = tag.as_ref().try_into() {
                finish(context, &gone).await?;
            }
        }
        (None, Children::Orphan) => return Err(Error::invalid("token to revoke not found")),
    }
    Ok(Response::Empty)
}

pub(super) async fn revoke_accessor(run: &RouteCall<'_>) -> Result<Response, Error> {
    let holder = holder_of_accessor(run)?;
    let body = run.call.object()?;
    if Fields::new(&body).boolean("dry_run")?.unwrap_or(false) {
        return tree::count(run, holder.as_ref().unwrap_or(&run.context)).await;
    }
    let context = holder.as_deref().unwrap_or(&run.context);
    let accessor = accessor_of(&body)?;
    match context.view.tokens.with_accessor(&accessor) {
        Some(hash) => revoke_tree(context, hash).await.map(|()| Response::Empty),
        None => Ok(Response::Logical(Logical {
            warnings: vec!["No token found with this accessor".to_owned()],
            ..Logical::default()
        })),
    }
}

/// The storage hash of a live token; what cannot be done to a batch token is refused.
fn stored_hash(
    context: &NamespaceContext,
    (text, now): (&SecretString, Timestamp),
    deed: &str,
) -> Result<Option<TokenHash>, Error> {
    let guard = context.view.tokens.pin();
    match find::find(&context.view, Some(TokenText::new(text.expose_secret())), now, &guard) {
        Ok((hash, live)) => refuse_batch(live.standing().kind, deed).map(|()| Some(hash)),
        Err(Error::Denied(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Batch tokens are stored nowhere, so there is nothing to change about them.
fn refuse_batch(kind: TokenKind, deed: &str) -> Result<(), Error> {
    match kind {
        TokenKind::Batch => Err(Error::invalid(format!("batch tokens cannot be {deed}"))),
        TokenKind::Root | TokenKind::Service => Ok(()),
    }
}

fn given_token(call: &AuthorizedCall<'_, '_>) -> Result<Option<SecretString>, Error> {
    let body = call.object()?;
    let given = Fields::new(&body).string("token")?.filter(|text| !text.is_empty());
    Ok(given.map(SecretString::from))
}

pub(super) fn by_accessor(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<(TokenHash, TokenEntry), Error> {
    let body = call.object()?;
    let accessor = accessor_of(&body)?;
    let invalid = || Error::invalid("1 error occurred:\n\t* invalid accessor\n\n");
    let hash = context.view.tokens.with_accessor(&accessor).ok_or_else(invalid)?;
    let entry = context.view.tokens.entry(&hash).filter(|e| !e.auth.is_expired(call.now));
    Ok((hash, entry.ok_or_else(invalid)?))
}

pub(super) fn accessor_of(body: &Map) -> Result<String, Error> {
    let accessor = Fields::new(body).string("accessor")?.filter(|text| !text.is_empty());
    accessor.ok_or_else(|| Error::invalid("1 error occurred:\n\t* missing accessor\n\n"))
}
