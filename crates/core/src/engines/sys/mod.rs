//! The system endpoints at `sys/`.
//!
//! [`open_route`] is the short list of routes that answer without a token; everything else reaches
//! [`handle`] only with an authorised request.

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

use crate::engines::server_engine::{
    Answer, BuiltinMount, EngineFacts, Run, ServerEngine, Weighed,
};
use crate::storage::keys::MountId;
use kallisto_engine::{Admits, Class, Routes};
use std::sync::Arc;

pub(crate) use autopilot::clean_up;
pub(crate) use raft::stand;
pub(crate) use rotation::rotate_due;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::engines::beyond;
use crate::pipeline::policies::Caller;
use crate::pipeline::spelling::below;
use crate::pipeline::state::{Access, Call, Core, NamespaceContext};
use crate::pipeline::wrapping;
use crate::registry;
use crate::routes::{help, openapi};
use crate::tokens;

/// What clients of Vault call `rekey-recovery-key/backup`.
const RECOVERY_BACKUP: &str = "rekey/recovery-key-backup";

/// What the rekey of the unseal key is called where it asks for a token.
const ROTATE_ROOT: &str = "rotate/root";

/// A route that answers without a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenRoute<'p> {
    Health,
    SealStatus,
    InitStatus,
    Init,
    Unseal,
    Leader,
    /// Joining another server's cluster, and the two questions of a server that joins this one's.
    RaftJoin,
    RaftChallenge,
    RaftAnswer,
    /// Sealing what is sealed: nothing to do, and nobody to ask who asks.
    SealAgain,
    PublicMounts,
    /// What follows `rekey/`.
    Rekey(&'p str),
    /// What follows `rekey-recovery-key/`.
    RekeyRecovery(&'p str),
    /// What follows `generate-root/`.
    GenerateRoot(&'p str),
    /// What an open route is for; all of its path below `sys/`.
    Help(&'p str),
    /// The OpenAPI document of somebody without a token.
    PublicOpenapi,
    /// What a wrapping token holds, without opening it.
    WrappingLookup,
    /// A wrapping token that opens itself.
    Unwrap,
    /// An open route that does not take this operation.
    Refused,
}

/// Finds the route that answers without a token; `None` for all others.
pub(crate) fn open_route<'p>(
    core: &Core,
    path: &'p str,
    request: &Request<'_>,
) -> Option<OpenRoute<'p>> {
    use Operation::{Read, Update};
    if request.asks_help() {
        return help::is_open(path).then_some(OpenRoute::Help(path));
    }
    if let Some(route) = unaudited_route(core, path, request.operation) {
        return Some(route);
    }
    Some(match (path, request.operation) {
        ("storage/raft/join", Update) => OpenRoute::RaftJoin,
        ("storage/raft/bootstrap/challenge", Update) => OpenRoute::RaftChallenge,
        ("storage/raft/bootstrap/answer", Update) => OpenRoute::RaftAnswer,
        ("internal/ui/mounts", Read) if request.token.is_none() => OpenRoute::PublicMounts,
        ("internal/specs/openapi", Read) if request.token.is_none() => OpenRoute::PublicOpenapi,
        ("wrapping/lookup", Read | Update) => OpenRoute::WrappingLookup,
        ("wrapping/unwrap", Update) if wrapping::opens_itself(core, request) => OpenRoute::Unwrap,
        (
            "health" | "seal-status" | "init" | "unseal" | "leader" | "wrapping/lookup"
            | "wrapping/unwrap",
            operation,
        ) if (path, operation) != ("wrapping/unwrap", Update) => OpenRoute::Refused,
        _ if core.info.unauthenticated_rekey == Access::Open && request.token.is_none() => {
            let (family, rest) = path.split_once('/')?;
            match family {
                _ if path == RECOVERY_BACKUP => OpenRoute::RekeyRecovery("backup"),
                "rekey" => OpenRoute::Rekey(rest),
                "rekey-recovery-key" => OpenRoute::RekeyRecovery(rest),
                "generate-root" => OpenRoute::GenerateRoot(rest),
                _ => return None,
            }
        }
        _ => return None,
    })
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

/// The open routes that are not audited.
fn unaudited_route(core: &Core, path: &str, operation: Operation) -> Option<OpenRoute<'static>> {
    use Operation::{Read, Update};
    Some(match (path, operation) {
        ("health", Read) => OpenRoute::Health,
        ("seal-status", Read) => OpenRoute::SealStatus,
        ("init", Read) => OpenRoute::InitStatus,
        ("init", Update) => OpenRoute::Init,
        ("unseal", Update) => OpenRoute::Unseal,
        ("leader", Read) => OpenRoute::Leader,
        // There are no devices then.
        ("seal", Update) if core.is_sealed() => OpenRoute::SealAgain,
        _ => return None,
    })
}

impl OpenRoute<'_> {
    /// Answers the request.
    ///
    /// # Errors
    /// What the client may hear.
    pub(crate) async fn answer(
        self,
        core: &Core,
        request: &Request<'_>,
    ) -> Result<Response, Error> {
        use crate::seal::Target::{Recovery, Unseal};
        match self {
            Self::Health => health::read(core, request),
            Self::SealStatus => status::seal_status(core),
            Self::InitStatus => init::read(core),
            Self::Init => init::write(core, request).await,
            Self::Unseal => status::unseal(core, request).await,
            Self::Leader => status::leader(core),
            Self::RaftJoin => raft::join(core, request).await,
            Self::RaftChallenge => crate::cluster::challenge(core, request),
            Self::RaftAnswer => crate::cluster::admit(core, request).await,
            Self::SealAgain => Ok(Response::Empty),
            Self::PublicMounts => {
                Ok(ui::public_mounts(&*core.namespace_context(request.namespace)?))
            }
            Self::Rekey(path) => rekey::handle(core, request, path, Unseal, Asker::Anyone).await,
            Self::RekeyRecovery(path) => {
                rekey::handle(core, request, path, Recovery, Asker::Anyone).await
            }
            Self::GenerateRoot(path) => root::handle(core, request, path, Asker::Anyone).await,
            Self::Help(path) => help::open_answer(path, &core.info),
            Self::PublicOpenapi => {
                let unsealed = core.namespace_context(request.namespace)?;
                openapi::answer(&unsealed, &core.info, request, None)
            }
            Self::WrappingLookup => wrapping::look_up(core, request),
            Self::Unwrap => wrapping::unwrap_itself(core, request).await,
            Self::Refused => Err(Error::UnsupportedOperation),
        }
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

/// Runs an authorised request; `path` is what follows `sys/`.
pub(crate) async fn handle(
    core: &Core,
    unsealed: Arc<NamespaceContext>,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use crate::seal::Target;
    use Operation::{Read, Update};
    if let Some(path) = path.strip_prefix(beyond::PREFIX) {
        return beyond::handle(core, &unsealed, call, path).await;
    }
    if let Some(answer) = mount_routes(&unsealed, call, path).await {
        return answer;
    }
    if let Some(path) = below("namespaces", path) {
        return namespaces::handle(core, &unsealed, call, path).await;
    }
    if let Some(path) = path.strip_prefix("quotas/") {
        return quotas::handle(&unsealed, call, path).await;
    }
    if let Some(name) = below("policies/password", path) {
        return passwords::handle(&unsealed, call, name).await;
    }
    if let Some(path) = path.strip_prefix("tools/") {
        return tools::handle(call, path);
    }
    if let Some(answer) = observe::answer(core, &unsealed, call, path) {
        return answer;
    }
    if let Some(answer) = web::answer(&unsealed, call, path).await {
        return answer;
    }
    if let Some(answer) = policy_routes(&unsealed, call, path).await {
        return answer;
    }
    if let Some(answer) = audit::handle(core, &unsealed, call, path).await {
        return answer;
    }
    let path = if path == RECOVERY_BACKUP { "rekey-recovery-key/backup" } else { path };
    for (prefix, target) in [("rekey", Target::Unseal), ("rekey-recovery-key", Target::Recovery)] {
        if let Some(path) = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')) {
            return rekey::handle(core, call, path, target, Asker::Known).await;
        }
    }
    // The same with an envelope around it, as OpenBao has it since 2.7.
    for (prefix, target) in [(ROTATE_ROOT, Target::Unseal), ("rotate/recovery", Target::Recovery)] {
        if let Some(path) = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')) {
            let answer = rekey::handle(core, call, path, target, Asker::Known).await;
            return answer.map(Response::enveloped);
        }
    }
    if let Some(path) = below("leases", path) {
        return tokens::handle_leases(&unsealed, call, path).await;
    }
    if let (Some(id), Read) = (path.strip_prefix("remount/status/"), call.operation) {
        return remount::status(&unsealed, id);
    }
    if let Some(path) = path.strip_prefix("generate-root/") {
        return root::handle(core, call, path, Asker::Known).await;
    }
    // The same with an envelope around it, as clients of OpenBao 2.7 ask for it with a token.
    if let Some(path) = path.strip_prefix("generate-root-token/") {
        return root::handle(core, call, path, Asker::Known).await.map(Response::enveloped);
    }
    if let Some(rest) = path.strip_prefix("locked-users/") {
        return match call.operation {
            Update => locked_users::unlock(core, &unsealed, rest),
            _ => Err(Error::UnsupportedOperation),
        };
    }
    if let Some(path) = path.strip_prefix("storage/raft/") {
        return raft::handle(core, &unsealed, call, path).await;
    }
    match (path, call.operation) {
        ("remount", Update) => remount::remount(&unsealed, call).await,
        ("seal", Update) => {
            // The request's own hold on the keys ends here.
            drop(unsealed);
            core.seal().await.map(|()| Response::Empty)
        }
        ("step-down", Update) => raft::step_down(core).await,
        ("key-status", Read) => Ok(rotate::key_status(&unsealed)),
        ("rotate" | "rotate/keyring", Update) => rotate::rotate(core, &unsealed, call).await,
        ("rotate/config" | "rotate/keyring/config", Read) => rotation::read(&unsealed),
        ("rotate/config" | "rotate/keyring/config", Update) => {
            rotation::write(&unsealed, call).await
        }
        ("rotate/progress", Read) => Ok(rotate::progress(&unsealed)),
        ("decode-token", Update) => root::decode(call),
        ("wrapping/wrap", Update) => wrapping::echo(call),
        ("wrapping/unwrap", Update) => wrapping::unwrap_given(&unsealed, call).await,
        ("wrapping/rewrap", Update) => wrapping::rewrap(&unsealed, call).await,
        ("durability", Read) => Ok(durability::read(core)),
        ("durability", Update) => durability::write(core, call).await,
        ("save", Update) => durability::save(core).await,
        ("locked-users", Read) => locked_users::read(core, &unsealed, call),
        ("ha-status", Read) => Ok(status::ha_status(core)),
        (
            "remount"
            | "seal"
            | "step-down"
            | "key-status"
            | "rotate"
            | "rotate/keyring"
            | "rotate/config"
            | "rotate/keyring/config"
            | "rotate/progress"
            | "decode-token"
            | "locked-users"
            | "ha-status"
            | "durability"
            | "save"
            | "wrapping/wrap"
            | "wrapping/rewrap",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

/// The routes of mounts, secret engines and login methods alike; `None` for all others.
async fn mount_routes(
    unsealed: &Arc<NamespaceContext>,
    call: &Call<'_, '_>,
    path: &str,
) -> Option<Result<Response, Error>> {
    use Operation::{Delete, Read, Update};
    let families = [("mounts", Class::Secret), ("auth", Class::Auth)];
    let (rest, class) =
        families.into_iter().find_map(|(family, class)| Some((below(family, path)?, class)))?;
    if let Some(mount) = rest.strip_suffix("/tune") {
        // The command line tunes a login method at `sys/mounts/auth/:path/tune`.
        let mount = format!("{}{mount}", class.prefix());
        return Some(match call.operation {
            Read => tune::read(unsealed, &mount),
            Update => tune::write(unsealed, call, &mount).await,
            _ => Err(Error::UnsupportedOperation),
        });
    }
    Some(match (rest, call.operation) {
        ("", Read) => Ok(mounts::read_all(unsealed, class)),
        ("", _) => Err(Error::UnsupportedOperation),
        (mount, Read) => mounts::read(unsealed, class, mount),
        (mount, Update) => mounts::mount(unsealed, call, class, mount).await,
        (mount, Delete) => mounts::unmount(unsealed, class, mount, call).await,
        _ => Err(Error::UnsupportedOperation),
    })
}

/// The routes of policies and capabilities; `None` for all others.
async fn policy_routes(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    path: &str,
) -> Option<Result<Response, Error>> {
    use Operation::{Delete, List, Read, Update};
    use policies::Family;
    let families = [("policies/acl", Family::Acl), ("policy", Family::Legacy)];
    let found =
        families.into_iter().find_map(|(folder, family)| Some((below(folder, path)?, family)));
    if let Some((name, family)) = found {
        return Some(match (name, call.operation) {
            ("", List) => Ok(policies::list(unsealed, family)),
            ("", Read) if family == Family::Legacy => Ok(policies::list(unsealed, family)),
            ("", _) => Err(Error::UnsupportedOperation),
            (name, Read) => policies::read(unsealed, name, family),
            (name, Update) => policies::write(unsealed, call, name, family).await,
            (name, Delete) => policies::delete(unsealed, name).await,
            _ => Err(Error::UnsupportedOperation),
        });
    }
    Some(match (path, call.operation) {
        ("capabilities-self", Update) => own_capabilities(unsealed, call),
        ("capabilities", Update) => capabilities_of_token(unsealed, call),
        ("capabilities-accessor", Update) => capabilities_of_accessor(unsealed, call),
        ("policies/explain", Update) => explain_policies(unsealed, call),
        (
            "capabilities" | "capabilities-self" | "capabilities-accessor" | "policies/explain",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => return None,
    })
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
        Box::pin(handle(run.core, run.unsealed, run.call, run.path))
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        LIGHT.contains(&weighed.path.trim_end_matches('/'))
    }
}

/// Routes by which operators see how a server is, open and close it. They do next to nothing, and have to
/// answer whatever else is under way.
const LIGHT: [&str; 7] = ["health", "init", "leader", "seal", "seal-status", "step-down", "unseal"];
