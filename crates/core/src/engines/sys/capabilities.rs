//! What a token may do: `sys/capabilities`, `-self` and `-accessor`.

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
    let caller = CallerPolicies::with_text(context, TokenText::new(&given), call.now);
    let invalid = |_| Error::invalid("1 error occurred:\n\t* invalid token\n\n");
    let caller = caller.map_err(invalid)?;
    policies::capabilities(&body, |path| caller.capabilities(context, path, call.now))
}

pub(crate) fn capabilities_of_accessor(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let accessor = Fields::new(&body).string("accessor")?.unwrap_or_default();
    let caller = caller_with_accessor(context, call, &accessor)?;
    policies::capabilities(&body, |path| caller.capabilities(context, path, call.now))
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
