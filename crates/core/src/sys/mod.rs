//! The system endpoints at `sys/`.
//!
//! [`unauthenticated`] is the short list of routes that answer without a token; everything else
//! reaches [`handle`] only with an authorised request.

mod health;
mod mounts;
mod status;
mod tune;
mod ui;

use kallisto_auth::Operation;

use crate::error::Error;
use crate::request::Request;
use crate::response::Response;
use crate::state::{Call, Core};

/// Answers the routes that need no token; `None` for all others.
pub(crate) fn unauthenticated(
    core: &Core,
    path: &str,
    request: &Request<'_>,
) -> Option<Result<Response, Error>> {
    use Operation::{Read, Update};
    Some(match (path, request.operation) {
        ("health", Read) => health::read(core, request),
        ("seal-status", Read) => Ok(status::seal_status(core)),
        ("init", Read) => Ok(status::init(core)),
        ("init", Update) => status::refuse_init(core, request),
        ("unseal", Update) => status::unseal(core, request),
        ("leader", Read) => status::leader(core),
        ("internal/ui/mounts", Read) if request.token.is_none() => Ok(ui::public_mounts(core)),
        ("health" | "seal-status" | "init" | "unseal" | "leader", _) => {
            Err(Error::UnsupportedOperation)
        }
        _ => return None,
    })
}

/// Runs an authorised request; `path` is what follows `sys/`.
pub(crate) async fn handle(
    core: &Core,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{Delete, Read, Update};
    if let Some(target) = path.strip_prefix("mounts/") {
        let target = target.trim_end_matches('/');
        return match (target.strip_suffix("/tune"), call.operation) {
            (Some(mount), Read) => tune::read(core, mount),
            (Some(mount), Update) => tune::write(core, call, mount).await,
            (None, Read) if target.is_empty() => Ok(mounts::read_all(core)),
            (None, Read) => mounts::read(core, target),
            (None, Update) => mounts::mount(core, call, target).await,
            (None, Delete) => mounts::unmount(core, target).await,
            _ => Err(Error::UnsupportedOperation),
        };
    }
    if let Some(target) = path.strip_prefix("internal/ui/mounts/") {
        return match call.operation {
            Read => ui::preflight(core, target.trim_end_matches('/')),
            _ => Err(Error::UnsupportedOperation),
        };
    }
    match (path, call.operation) {
        ("mounts", Read) => Ok(mounts::read_all(core)),
        ("internal/ui/mounts", Read) => Ok(ui::all_mounts(core)),
        ("mounts" | "internal/ui/mounts", _) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}
