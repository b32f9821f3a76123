//! Requests that name a loaded snapshot: reads and lists that are answered from it, and recoveries from it.
//!
//! What recovers is an operation of its own from where its request was parsed: no handler of another one ever gets it.
//!
//! They were judged as any other, by the policies of now. A read goes to the handler that answers it from the running state, with the
//! keys, the view and the records of the snapshot; a recovery goes to the engine.

use std::sync::Arc;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::dispatch::no_route;
use crate::dispatch::server_engine::{RecoverSource, RunningRequest};
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;

/// The header that names the path in the snapshot, in lower case; Vault's.
const SOURCE_HEADER: &str = "x-vault-recover-source-path";

/// What is asked of a snapshot.
pub(super) enum SnapshotQuestion {
    /// To answer from the one with this id.
    Read(String),
    /// To recover from the one with this id.
    Recover(String),
}

impl SnapshotQuestion {
    /// What a request asks; `None` for one that asks no snapshot.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a recovery that does not name one snapshot.
    pub(super) fn of(request: &Request<'_>) -> Result<Option<Self>, Error> {
        if request.operation == Operation::Recover {
            return request.recover_snapshot().map(|id| Some(Self::Recover(id)));
        }
        Ok(request.read_snapshot().map(|id| Self::Read(id.to_owned())))
    }

    fn id(&self) -> &str {
        match self {
            Self::Read(id) | Self::Recover(id) => id,
        }
    }
}

/// Why a request for a route that answers whoever asks is refused, if it asks a snapshot: nothing of one is at any of them.
pub(super) fn refusal_where_open(request: &Request<'_>) -> Option<Error> {
    let asks = request.operation == Operation::Recover || request.read_snapshot().is_some();
    let path = request.path.as_str();
    asks.then(|| {
        Error::invalid(format!("{path}: nothing can be read or recovered from a snapshot here"))
    })
}

/// Answers such a request.
///
/// # Errors
/// [`Error::Invalid`] where the engine has nothing to recover, and for a snapshot that is not loaded; what the handler says.
pub(super) async fn answer(
    core: &Core,
    context: Arc<NamespaceContext>,
    call: AuthorizedCall<'_, '_>,
    asked: SnapshotQuestion,
) -> Result<Response, Error> {
    let path = call.path.as_str();
    let Some((mount, inside)) = context.view.mounts.route(path) else {
        return Err(no_route(&context, &call));
    };
    let engine = registry::driver(mount.entry.kind);
    if !engine.has_snapshots() {
        let name = mount.entry.kind.name();
        return Err(Error::invalid(format!(
            "{}: of the engine {name} nothing can be read or recovered from a snapshot",
            mount.entry.path
        )));
    }
    let loaded = core.loaded.find(asked.id(), call.now)?;
    let there = loaded.context_in(context.view.namespace_path()).ok_or(Error::NotFound)?;
    match asked {
        SnapshotQuestion::Recover(_) => {
            let path = call.headers.values(SOURCE_HEADER).into_iter().find(|path| !path.is_empty());
            let run = RunningRequest { core, context, call: &call, mount: &mount, path: inside };
            engine.recover(run, RecoverSource { there, path }).await
        }
        SnapshotQuestion::Read(_) => {
            let (mount, inside) = there.view.mounts.route(path).ok_or(Error::NotFound)?;
            let engine = registry::driver(mount.entry.kind);
            if !engine.has_snapshots() {
                return Err(Error::NotFound);
            }
            let context = Arc::clone(&there);
            let run = RunningRequest { core, context, call: &call, mount: &mount, path: inside };
            engine.handle(run).await
        }
    }
}
