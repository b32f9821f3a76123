//! From a request that may run to the engine that answers it: the trait of engines that are driven with the server itself, and the tables
//! of their routes.
//!
//! The stages, batches and leases call an engine by [`server_engine::ServerEngine`]; which engine it is, the [`crate::registry`] says. So nothing
//! here, nor below, knows an engine by its name.

pub(crate) mod route_handler;
pub(crate) mod server_engine;

use crate::api::error::{Denial, Error};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::registry;
use crate::view::NamespaceContext;

/// Answers what needs no waiting; `None` for the rest.
pub(crate) fn read(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Option<Result<Response, Error>> {
    if call.operation.writes() || call.read_snapshot().is_some() {
        return None;
    }
    match context.view.mounts.route(call.path.as_str()) {
        Some((mount, inside)) => {
            registry::driver(mount.entry.kind).read_fast(usize::MAX, context, call, &mount, inside)
        }
        None => Some(Err(no_route(context, call))),
    }
}

/// What mounts there are is told to root only.
pub(crate) fn no_route(context: &NamespaceContext, call: &AuthorizedCall<'_, '_>) -> Error {
    match CallerPolicies::of(context, call) {
        Ok(caller) if caller.is_root() => Error::NoRoute(call.path.as_str().to_owned()),
        Ok(_) => Error::Denied(Denial::Policy),
        Err(error) => error,
    }
}
