//! What a token may do: `sys/capabilities`, `-self` and `-accessor`.

use jiff::Timestamp;

use super::policies;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::request::TokenText;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::view::NamespaceContext;

pub(crate) fn own_capabilities(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let caller = CallerPolicies::of(context, call)?;
    policies::capabilities(&body, |path| caller.capabilities(context, path, call.now))
}

pub(crate) fn capabilities_of_token(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let given = Fields::new(&body).string("token")?.unwrap_or_default();
    let holder = context.holder_of(&given);
    let home = holder.as_deref().unwrap_or(context);
    let caller = CallerPolicies::with_text(home, TokenText::new(&given), call.now);
    let invalid = |_| Error::invalid("1 error occurred:\n\t* invalid token\n\n");
    let caller = caller.map_err(invalid)?;
    policies::capabilities(&body, |path| told_from(context, home, &caller, path, call.now))
}

pub(crate) fn capabilities_of_accessor(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let accessor = Fields::new(&body).string("accessor")?.unwrap_or_default();
    let holder = context.holder_of(&accessor);
    let home = holder.as_deref().unwrap_or(context);
    let caller = caller_with_accessor(home, call, &accessor)?;
    policies::capabilities(&body, |path| told_from(context, home, &caller, path, call.now))
}

/// What the bearer of a token of `home` may do at a path as it is called in `here`, which is the same namespace or one above. Outside
/// its own a token may do nothing.
fn told_from(
    here: &NamespaceContext,
    home: &NamespaceContext,
    caller: &CallerPolicies,
    path: &str,
    now: Timestamp,
) -> Vec<&'static str> {
    let way = home.view.namespace_path().strip_prefix(here.view.namespace_path());
    match way.and_then(|way| path.strip_prefix(way)) {
        Some(inside) => caller.capabilities(home, inside, now),
        None => vec!["deny"],
    }
}

pub(crate) fn caller_with_accessor(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    accessor: &str,
) -> Result<CallerPolicies, Error> {
    let invalid = || Error::invalid("1 error occurred:\n\t* invalid accessor\n\n");
    let hash = context.view.tokens.with_accessor(accessor).ok_or_else(invalid)?;
    CallerPolicies::with_hash(context, hash, call.now).map_err(|_| invalid())
}
