//! The engines: which code answers for a mount.
//!
//! [`read`] answers at once what needs no waiting, the reads of KV; [`handle`] runs everything else.
//! Adding an engine is a row in `mount`, an arm here, and a module.

use std::sync::Arc;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::auth_methods::{Renewal, approle, cert, jwt, kubernetes, userpass};
use crate::engines::beyond;
use crate::engines::cubbyhole;
use crate::engines::identity;
use crate::engines::kv;
use crate::engines::mount::EngineKind;
use crate::engines::sys;
use crate::engines::transit;
use crate::pipeline::spelling;
use crate::pipeline::state::{Call, Core, Unsealed};
use crate::tokens;
use crate::tokens::TokenEntry;
use crate::view::Mount;

/// Answers what needs no waiting; `None` for the rest, and where a secret longer than `secret_bytes_max` has to be read.
/// `path` is inside the mount.
pub(crate) fn read(
    secret_bytes_max: usize,
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Option<Result<Response, Error>> {
    match mount.entry.kind {
        EngineKind::KvV1 | EngineKind::KvV2 | EngineKind::KvUpgrading
            if !call.operation.writes()
                && !beyond::asks_to_wait(call)
                && !kv::long::is_long(call, mount, path) =>
        {
            kv::read_up_to(secret_bytes_max, unsealed, call, mount, path)
        }
        _ => None,
    }
}

/// Runs a request; `path` is inside the mount.
///
/// # Errors
/// What the client may hear.
pub(crate) async fn handle(
    core: &Core,
    unsealed: Arc<Unsealed>,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    let path = spelling::inside(call.operation, mount.entry.kind, path)?;
    // The usual write is KV's; all others are boxed, so that its future stays small.
    match mount.entry.kind {
        EngineKind::System => Box::pin(sys::handle(core, unsealed, call, path)).await,
        EngineKind::Identity => Box::pin(identity::handle(&unsealed, call, mount, path)).await,
        EngineKind::Cubbyhole => Box::pin(cubbyhole::handle(&unsealed, call, path)).await,
        EngineKind::KvV1 | EngineKind::KvV2 if beyond::asks_to_wait(call) => {
            if kv::long::is_long(call, mount, path) {
                return Err(Error::invalid(
                    "a list this long has to be waited for in pages: limit",
                ));
            }
            beyond::wait(core, &unsealed, call, mount, path)
        }
        EngineKind::KvV1 | EngineKind::KvV2 if !call.operation.writes() => {
            Box::pin(kv::long::list(core, &unsealed, call, mount, path)).await
        }
        EngineKind::KvV1 | EngineKind::KvV2 | EngineKind::KvUpgrading => {
            kv::write(&unsealed, call, mount, path).await
        }
        EngineKind::Transit => Box::pin(transit::handle(core, &unsealed, call, mount, path)).await,
        EngineKind::Token => Box::pin(tokens::handle(&unsealed, call, path)).await,
        EngineKind::AppRole => Box::pin(approle::handle(&unsealed, call, mount, path)).await,
        EngineKind::Cert => Box::pin(cert::handle(&unsealed, call, mount, path)).await,
        EngineKind::Jwt => Box::pin(jwt::handle(&unsealed, call, mount, path)).await,
        EngineKind::Kubernetes => Box::pin(kubernetes::handle(&unsealed, call, mount, path)).await,
        EngineKind::Userpass => {
            Box::pin(userpass::handle(core, &unsealed, call, mount, path)).await
        }
    }
}

/// Whether a path inside a mount is a login: it takes a proof of who asks and no token.
pub(crate) fn is_login(kind: EngineKind, path: &str) -> bool {
    match kind {
        EngineKind::AppRole => approle::is_login(path),
        EngineKind::Cert => cert::is_login(path),
        EngineKind::Jwt => jwt::is_login(path),
        EngineKind::Kubernetes => kubernetes::is_login(path),
        EngineKind::Userpass => userpass::is_login(path),
        EngineKind::System
        | EngineKind::Identity
        | EngineKind::Cubbyhole
        | EngineKind::KvV1
        | EngineKind::KvV2
        | EngineKind::KvUpgrading
        | EngineKind::Transit
        | EngineKind::Token => false,
    }
}

/// Refuses to renew a token whose login would not be good any more.
///
/// # Errors
/// [`Error::Invalid`] saying why.
pub(crate) fn check_renewal(
    unsealed: &Unsealed,
    request: &Request<'_>,
    entry: &TokenEntry,
) -> Result<(), Error> {
    let Some((mount, path)) = unsealed.view.mounts.route(&entry.auth.path) else { return Ok(()) };
    let renewal = Renewal { unsealed, request, mount: &mount, path, entry };
    match mount.entry.kind {
        EngineKind::AppRole => approle::check_renewal(&renewal),
        EngineKind::Cert => cert::check_renewal(&renewal),
        EngineKind::Jwt => jwt::check_renewal(&renewal),
        EngineKind::Kubernetes => kubernetes::check_renewal(&renewal),
        EngineKind::Userpass => userpass::check_renewal(&renewal),
        EngineKind::System
        | EngineKind::Identity
        | EngineKind::Cubbyhole
        | EngineKind::KvV1
        | EngineKind::KvV2
        | EngineKind::KvUpgrading
        | EngineKind::Transit
        | EngineKind::Token => Ok(()),
    }
}

/// Runs a login; `path` is inside the mount, and [`is_login`] said yes to it.
///
/// # Errors
/// What the client may hear.
pub(crate) async fn log_in(
    core: &Core,
    unsealed: &Unsealed,
    request: &Request<'_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    match mount.entry.kind {
        EngineKind::AppRole => approle::log_in(unsealed, request, mount).await,
        EngineKind::Cert => cert::log_in(core, unsealed, request, mount).await,
        EngineKind::Jwt => jwt::log_in(core, unsealed, request, mount).await,
        EngineKind::Kubernetes => kubernetes::log_in(core, unsealed, request, mount).await,
        EngineKind::Userpass => userpass::log_in(core, unsealed, request, mount, path).await,
        _ => Err(Error::UnsupportedPath),
    }
}
