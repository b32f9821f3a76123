//! The routes of leases: those of tokens, and those of dynamic secrets ([`crate::leases`]).
//!
//! The id of a token's lease is the path its token was made at and `h` with the
//! hash it is stored under, which names the token and opens nothing. Revoking a token needs no other
//! help, so no lease of one is ever irrevocable. Ids of the two kinds differ in their last segment.
//!
//! In a namespace both end in its mark. Who asks in one above names a lease by its whole id, as it does a token ([`named`]).
//!
//! A root token that initialisation or `generate-root` made has no lease, as in Vault; one that
//! `auth/token/create` made has, so that revoking that prefix ends it.

use std::sync::Arc;

use data_encoding::HEXLOWER;

use super::expire::take_up_revocations;
use super::revoke::{revoke_made_below, revoke_tree};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::leases::{revoke as dynamic_revoke, start_marked, wire as dynamic};
use crate::limits::LIST_ENTRIES_MAX;
use crate::records::token::ROOT_PATH;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::view::NamespaceContext;

/// What stands in front of the hash in an id.
const MARK: char = 'h';

/// Forgets the leases below a prefix, whatever their engines say; those of tokens end.
pub(crate) async fn revoke_force(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    prefix: &str,
) -> Result<Response, Error> {
    Fields::new(&call.object()?).boolean("sync")?;
    revoke_tokens(context, prefix).await?;
    dynamic_revoke::forget_below(context, prefix, call.now).await?;
    Ok(Response::Empty)
}

/// Lists the leases that could not be revoked.
pub(crate) fn list_irrevocable(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    check_type(call)?;
    let (count, _) = dynamic::count_irrevocable(context);
    let leases = dynamic::list_irrevocable(context, limit(call)?)?;
    Ok(irrevocable(count, "leases", leases))
}

/// Counts them.
pub(crate) fn count_irrevocable(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    check_type(call)?;
    let (count, counts) = dynamic::count_irrevocable(context);
    Ok(irrevocable(count, "counts", counts.into()))
}

/// The last segment of the id of a token's lease.
fn name_of(context: &NamespaceContext, hash: &TokenHash) -> String {
    context.view.marked(format!("{MARK}{}", HEXLOWER.encode(hash)))
}

/// The live token whose lease has this id, which earlier releases spelled without the mark of its namespace.
fn find(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    id: &str,
) -> Option<(TokenHash, TokenEntry)> {
    let (path, name) = context.view.unmarked(id).unwrap_or(id).rsplit_once('/')?;
    let hash = HEXLOWER.decode(name.strip_prefix(MARK)?.as_bytes()).ok()?.try_into().ok()?;
    let entry = context.view.tokens.entry(&hash)?;
    let fits = entry.auth.path == path && path != ROOT_PATH && !entry.auth.is_expired(call.now);
    fits.then_some((hash, entry))
}

/// The id in the path or, without one there, in the body.
fn given_id(call: &AuthorizedCall<'_, '_>, in_path: &str) -> Result<String, Error> {
    if !in_path.is_empty() {
        return Ok(in_path.to_owned());
    }
    let body = call.object()?;
    let given = Fields::new(&body).string("lease_id")?.filter(|id| !id.is_empty());
    given.ok_or_else(|| Error::invalid("lease_id must be specified"))
}

/// A lease that a request names, and where it is: in the request's namespace, or in one below whose mark it has.
fn named(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    in_path: &str,
) -> Result<(String, Option<Arc<NamespaceContext>>), Error> {
    let id = given_id(call, in_path)?;
    let holder = context.holder_of(&id);
    Ok((id, holder))
}

pub(crate) fn look_up(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let (id, holder) = named(context, call, "")?;
    let context = holder.as_deref().unwrap_or(context);
    if let Some(id) = dynamic::find(context, &id) {
        return dynamic::look_up(context, &id, call.now);
    }
    let found = find(context, call, &id);
    let (hash, entry) = found.ok_or_else(|| Error::invalid("invalid lease"))?;
    let time = |at: Option<jiff::Timestamp>| at.map_or(Json::Null, |at| at.to_string().into());
    let id = format!("{}/{}", entry.auth.path, name_of(context, &hash));
    Ok(dynamic::described(
        &context.view,
        [
            ("expire_time", time(entry.auth.expires_at)),
            ("id", id.into()),
            ("issue_time", time(Some(entry.auth.created_at))),
            ("last_renewal", time(entry.renewed_at)),
            ("path", entry.auth.path.as_str().into()),
            ("renewable", entry.renewable.into()),
            ("ttl", entry.ttl_left_secs(call.now).into()),
        ],
    ))
}

/// The ids below a folder, as a tree.
pub(crate) fn list(context: &NamespaceContext, folder: &str) -> Result<Response, Error> {
    let tokens = &context.view.tokens;
    let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut names = tokens.folders(&inside, LIST_ENTRIES_MAX + 1);
    let made = tokens.made_at(folder, LIST_ENTRIES_MAX + 1);
    names.extend(made.iter().map(|hash| name_of(context, hash)));
    names.extend(dynamic::names(context, folder, LIST_ENTRIES_MAX + 1));
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    if names.len() > LIST_ENTRIES_MAX {
        return Err(Error::invalid(format!("more than {LIST_ENTRIES_MAX} entries")));
    }
    names.sort();
    names.dedup();
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

/// Renews a lease of a dynamic secret. Tokens are renewed as tokens.
pub(crate) async fn renew(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    in_path: &str,
) -> Result<Response, Error> {
    let (id, holder) = named(context, call, in_path)?;
    let context = holder.as_deref().unwrap_or(context);
    let body = call.object()?;
    let increment_secs = super::fields::seconds(Fields::new(&body), "increment")?;
    if let Some(id) = dynamic::find(context, &id) {
        return dynamic::renew(context, &id, increment_secs, call.now).await;
    }
    let found = find(context, call, &id);
    let (_, entry) = found.ok_or_else(|| Error::invalid("lease not found"))?;
    Err(Error::invalid(match entry.renewable {
        true => "tokens cannot be renewed through this endpoint",
        false => "lease is not renewable",
    }))
}

pub(crate) async fn revoke(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    in_path: &str,
) -> Result<Response, Error> {
    let wait = Fields::new(&call.object()?).boolean("sync")?.unwrap_or(false);
    let (id, holder) = named(context, call, in_path)?;
    let context = holder.as_deref().unwrap_or(context);
    if let Some(id) = dynamic::find(context, &id) {
        dynamic::revoke(context, &id, wait, call.now).await?;
    } else if let Some((hash, _)) = find(context, call, &id) {
        revoke_tree(context, hash).await?;
    }
    // A lease that is not there is as revoked as can be.
    Ok(Response::Empty)
}

/// Ends every lease whose id starts with the whole segments of `prefix`.
pub(crate) async fn revoke_prefix(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    prefix: &str,
) -> Result<Response, Error> {
    let wait = Fields::new(&call.object()?).boolean("sync")?.unwrap_or(false);
    revoke_tokens(context, prefix).await?;
    match wait {
        true => dynamic_revoke::revoke_below(context, prefix, call.now).await?,
        false => {
            dynamic_revoke::mark_below(context, prefix, call.now).await?;
            start_marked(context, call.now);
        }
    }
    Ok(Response::Empty)
}

/// Ends every token whose lease id starts with the whole segments of `prefix`.
async fn revoke_tokens(context: &NamespaceContext, prefix: &str) -> Result<(), Error> {
    super::revoke::revoke_made_at(context, prefix).await?;
    revoke_made_below(context, &format!("{prefix}/")).await
}

pub(crate) async fn tidy(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let after_restore = Fields::new(&body).boolean("after_restore")?.unwrap_or(false);
    take_up_revocations(context).await?;
    dynamic::tidy(context, after_restore, call.now).await?;
    let warnings = vec![
        "Leases end by themselves and by revocation; what a crash left behind was cleared."
            .to_owned(),
    ];
    Ok(Response::Accepted(Logical { warnings, ..Logical::default() }))
}

/// Whether the query asks for the leases that could not be revoked: for others nobody counts.
fn check_type(call: &AuthorizedCall<'_, '_>) -> Result<(), Error> {
    match call.request.sole_in_query("type") {
        Ok(Some("irrevocable")) => Ok(()),
        _ => Err(Error::NotFound),
    }
}

/// Most leases that an answer shall have.
fn limit(call: &AuthorizedCall<'_, '_>) -> Result<Option<usize>, Error> {
    let given = call.request.sole_in_query("limit");
    let given = given.map_err(|_| Error::invalid("limit is there more than once"))?;
    let Some(limit) = given.filter(|limit| *limit != "none") else { return Ok(None) };
    limit.parse().map(Some).map_err(|_| Error::invalid("limit must be a whole number or none"))
}

fn irrevocable(count: usize, name: &'static str, what: Json) -> Response {
    Response::data(&Json::object([("lease_count", (count as u64).into()), (name, what)]))
}
