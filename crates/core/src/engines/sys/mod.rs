//! The system endpoints at `sys/`.
//!
//! [`routes`] has a row for each of them, with who may ask and what runs. [`open_route`] says of a request whether it is answered without a
//! token.

mod audit;
mod autopilot;
mod durability;
mod explain;
mod health;
mod init;
mod locked_users;
mod mounts;
mod namespaces;
mod observe;
mod passwords;
mod policies;
mod quotas;
pub(crate) mod raft;
mod rekey;
mod remount;
mod root;
mod rotate;
mod rotation;
pub(crate) mod routes;
mod status;
mod tools;
mod tune;
pub(crate) mod ui;
mod web;

use crate::engines::route_handler::{self, AnyoneCall};
use crate::engines::server_engine::{
    Answer, BuiltinMount, EngineFacts, Run, ServerEngine, Weighed,
};
use crate::storage::keys::MountId;
use kallisto_engine::{Admits, Class, Routes};

pub(crate) use autopilot::clean_up;
pub(crate) use raft::stand;
pub(crate) use rotation::rotate_due;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::pipeline::policies::Caller;
use crate::pipeline::state::{Access, Call, Core, NamespaceContext};
use crate::pipeline::wrapping;
use crate::registry;
use crate::routes::help;

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
    let route = routes::SYSTEM.find(path)?;
    let is_open = match route.admits {
        Admits::Anyone => true,
        Admits::WrappingToken if request.asks_help() => true,
        Admits::WrappingToken => {
            !route.takes(request.operation) || wrapping::opens_itself(core, request)
        }
        _ if request.asks_help() => false,
        Admits::AnyTokenOrNone => request.token.is_none() && route.takes(request.operation),
        Admits::AnyoneIfConfigured => {
            core.info.unauthenticated_rekey == Access::Open && request.token.is_none()
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
        route_handler::answer_anyone(&routes::SYSTEM, self.path, call).await
    }
}

/// Who asks for an operation that exists with and without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Somebody with a token that may.
    Known,
    /// Anyone who reaches the listener.
    Anyone,
}

/// Whether a request seals this server.
pub(crate) fn is_seal(request: &Request<'_>) -> bool {
    request.operation == Operation::Update && request.path.as_str() == "sys/seal"
}

fn own_capabilities(unsealed: &NamespaceContext, call: &Call<'_, '_>) -> Result<Response, Error> {
    let body = call.object()?;
    let caller = Caller::of(unsealed, call)?;
    policies::capabilities(&body, |path| caller.capabilities(&unsealed.view, path))
}

fn capabilities_of_token(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let given = Fields::new(&body).string("token")?.unwrap_or_default();
    let caller = Caller::with_text(unsealed, TokenText::new(&given), call.now);
    let invalid = |_| Error::invalid("1 error occurred:\n\t* invalid token\n\n");
    let caller = caller.map_err(invalid)?;
    policies::capabilities(&body, |path| caller.capabilities(&unsealed.view, path))
}

fn capabilities_of_accessor(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let accessor = Fields::new(&body).string("accessor")?.unwrap_or_default();
    let caller = caller_with_accessor(unsealed, call, &accessor)?;
    policies::capabilities(&body, |path| caller.capabilities(&unsealed.view, path))
}

fn caller_with_accessor(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    accessor: &str,
) -> Result<Caller, Error> {
    let invalid = || Error::invalid("1 error occurred:\n\t* invalid accessor\n\n");
    let hash = unsealed.view.tokens.with_accessor(accessor).ok_or_else(invalid)?;
    Caller::with_hash(unsealed, hash, call.now).map_err(|_| invalid())
}

/// Explains for the token of `accessor`: what one asks about itself was answered before.
fn explain_policies(unsealed: &NamespaceContext, call: &Call<'_, '_>) -> Result<Response, Error> {
    let body = call.object()?;
    let accessor = Fields::new(&body).string("accessor")?.unwrap_or_default();
    let caller = caller_with_accessor(unsealed, call, &accessor)?;
    explain::answer(&unsealed.view, &body, &caller)
}

/// The server's own endpoints, at `sys/`.
pub(crate) struct System;

/// Where it is.
const MOUNT: BuiltinMount = BuiltinMount {
    id: MountId::SYSTEM,
    path: "sys/",
    description: "system endpoints used for control, policy and debugging",
};

impl ServerEngine for System {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &[
            "policies/acl/",
            "policy/",
            "config/ui/headers/",
            "config/auditing/request-headers/",
            "locked-users/",
        ];
        EngineFacts { caseless_folders, ..EngineFacts::builtin("system", Class::Secret, MOUNT) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::SYSTEM
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::SYSTEM, run)
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        routes::SYSTEM.find(weighed.path).is_some_and(|route| route.is_light)
    }
}
