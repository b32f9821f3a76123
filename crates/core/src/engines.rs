//! The engines: which code answers for a mount.
//!
//! [`read`] answers at once what needs no waiting, the reads of KV; [`handle`] runs everything else.
//! Adding an engine is a row in `mount`, an arm here, and a module.

use std::sync::Arc;

use crate::error::Error;
use crate::mount::EngineKind;
use crate::response::Response;
use crate::state::{Call, Core, Unsealed};
use crate::view::Mount;
use crate::{cubbyhole, kv, sys, token};

/// Answers what needs no waiting; `None` for the rest. `path` is inside the mount.
pub(crate) fn read(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Option<Result<Response, Error>> {
    match mount.entry.kind {
        EngineKind::KvV1 | EngineKind::KvV2 if !call.operation.writes() => {
            Some(kv::read(unsealed, call, mount, path))
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
    match mount.entry.kind {
        EngineKind::System => sys::handle(core, unsealed, call, path).await,
        EngineKind::Identity => Err(Error::UnsupportedPath),
        EngineKind::Cubbyhole => cubbyhole::handle(&unsealed, call, path).await,
        EngineKind::KvV1 | EngineKind::KvV2 => kv::write(&unsealed, call, mount, path).await,
        EngineKind::Token => token::handle(&unsealed, call, path).await,
    }
}
