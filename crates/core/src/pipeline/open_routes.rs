//! Routes of the server that are answered without a token, and what else holds before a request is judged.

use kallisto_auth::Operation;
use kallisto_engine::Admits;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::dispatch::route_handler::AnyoneCall;
use crate::platform::server_info::RouteAccess;
use crate::records::engine_kind::EngineKind;
use crate::registry;
use crate::routes::help;
use crate::state::Core;
use crate::wrapping;

/// A route that answers whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRoute<'p> {
    /// Below `sys/`.
    path: &'p str,
    admits: Admits,
}

/// Finds the route that answers a request whoever asks; `None` where a token is asked for. `path` is what follows `sys/`.
pub(crate) fn open_route<'p>(
    core: &Core,
    path: &'p str,
    request: &Request<'_>,
) -> Option<OpenRoute<'p>> {
    let route = registry::driver(EngineKind::SYSTEM).routes().find(path)?;
    let is_open = match route.admits {
        Admits::Anyone => true,
        Admits::WrappingToken if request.asks_help() => true,
        Admits::WrappingToken => {
            !route.takes(request.operation) || wrapping::opens_itself(core, request)
        }
        _ if request.asks_help() => false,
        Admits::AnyTokenOrNone => request.token.is_none() && route.takes(request.operation),
        Admits::AnyoneIfConfigured => {
            core.info.unauthenticated_rekey == RouteAccess::Open && request.token.is_none()
        }
        Admits::AnyoneWhileSealed => core.is_sealed() && route.takes(request.operation),
        Admits::Policy | Admits::AnyToken | Admits::AnyoneAtListener => false,
    };
    is_open.then_some(OpenRoute { path, admits: route.admits })
}

/// Whether a request is answered without a look at the view, however old that is: what says how the server is, and what gets
/// it out of where it is.
pub(crate) fn needs_no_view(core: &Core, request: &Request<'_>) -> bool {
    let Some(route) = registry::builtin_route(request.path.as_str()) else { return false };
    if request.asks_help() {
        return route.admits == Admits::Anyone;
    }
    route.ignores_view || (route.admits == Admits::AnyoneWhileSealed && core.is_sealed())
}

/// Whether a request is one of the few that audit devices never hear of. They have to be answered when
/// no device works, hand out no secret, and change at most whether the server is sealed. Whatever else
/// answers without a token is audited.
pub(crate) fn is_never_audited(core: &Core, request: &Request<'_>) -> bool {
    let Some(route) = registry::builtin_route(request.path.as_str()) else { return false };
    // A sealed server has no devices.
    let is_unaudited =
        !route.is_audited || (route.admits == Admits::AnyoneWhileSealed && core.is_sealed());
    is_unaudited && route.takes(request.operation) && !request.asks_help()
}

impl OpenRoute<'_> {
    /// Whether what it answers belongs to somebody: a wrapping token opens itself.
    pub(crate) fn is_from_somebody(self) -> bool {
        self.admits == Admits::WrappingToken
    }

    /// Answers the request.
    ///
    /// # Errors
    /// What the client may hear.
    pub(crate) async fn answer(
        self,
        core: &Core,
        request: &Request<'_>,
    ) -> Result<Response, Error> {
        if request.asks_help() {
            return help::open_answer(self.path, &core.info);
        }
        let call = AnyoneCall { core, request };
        registry::driver(EngineKind::SYSTEM).answer_anyone(self.path, call).await
    }
}

/// Whether a request seals this server.
pub(crate) fn is_seal(request: &Request<'_>) -> bool {
    request.operation == Operation::Update && request.path.as_str() == "sys/seal"
}
