//! What is answered to whoever has a valid token, whatever its policies.

use kallisto_auth::Operation;
use kallisto_engine::Admits;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::policies::CallerPolicies;
use crate::caller::spelling::SYSTEM;
use crate::records::engine_kind::EngineKind;
use crate::registry;
use crate::routes::help;
use crate::view::NamespaceContext;

/// Whether a request is of the few that every token may make.
pub(crate) fn is_for_any_token(request: &Request<'_>) -> bool {
    if request.operation == Operation::Read && request.asks_help() {
        return true;
    }
    let path = request.path.as_str();
    // Of a loaded snapshot nothing is there, which is said to whom policies let ask.
    if !path.starts_with(SYSTEM) || request.read_snapshot().is_some() {
        return false;
    }
    registry::builtin_route(path).is_some_and(|route| {
        matches!(route.admits, Admits::AnyToken | Admits::AnyTokenOrNone)
            && route.takes(request.operation)
    })
}

/// Answers what every token may ask, each within what it may reach. `None` for all other routes.
pub(crate) fn for_any_token(
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Option<Result<Response, Error>> {
    if request.asks_help() {
        return Some(help::answer(context, &context.info, request, caller));
    }
    let path = request.path.as_str().strip_prefix(SYSTEM)?;
    registry::driver(EngineKind::SYSTEM).answer_any_token(path, context, request, caller)
}
