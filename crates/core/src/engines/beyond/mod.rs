//! What Vault does not have, at `sys/kallisto/kv/`: work on many secrets at once, names filtered by
//! what the caller may see, and following changes.
//!
//! Each route is decided twice (`docs/decisions/0065-beyond-vault.md`): the route itself by the rules
//! for its own path, and then every secret it touches by the rules for the path at which a request of
//! its own would touch it, through the same decision ([`judge`]). So a rule for `sys/kallisto/*` opens
//! no secret, and no rule for a secret is passed by. It is counted twice as well: at its own path, and at that of each
//! secret and folder ([`meter`]).
//!
//! - `bulk`: many reads in one request;
//! - `write`, `remove`, `relocate`: many writes as one batch, all or nothing;
//! - `names`, `search`: lists of what the caller may see;
//! - `watch`, `poll`: following changes through the view's feed.

mod bearer;
mod bulk;
mod judge;
mod meter;
mod names;
mod place;
mod poll;
mod relocate;
mod remove;
mod search;
mod together;
mod walk;
mod watch;
mod write;

pub(crate) use bearer::Bearer;
pub(crate) use poll::{asks_to_wait, wait};

use kallisto_auth::Operation;

use meter::Meter;

use crate::api::error::Error;
use crate::api::json::Map;
use crate::api::response::Response;
use crate::pipeline::state::{Call, Core, NamespaceContext};

/// What all routes here begin with, below `sys/`.
pub(crate) const PREFIX: &str = "kallisto/";

/// Runs an authorised request; `path` is what follows [`PREFIX`].
pub(crate) async fn handle(
    core: &Core,
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{Read, Update};
    use relocate::Keep;
    if call.wrap_ttl_secs > 0 {
        return Err(Error::invalid("answers of sys/kallisto cannot be wrapped"));
    }
    let meter = Meter::of(core, call);
    match (path, call.operation) {
        ("kv/read", Update) => bulk::read(meter, unsealed, call),
        ("kv/write", Update) => write::write(meter, unsealed, call).await,
        ("kv/delete", Update) => remove::remove(meter, unsealed, call).await,
        ("kv/copy", Update) => relocate::relocate(meter, unsealed, call, Keep::Source).await,
        ("kv/move", Update) => relocate::relocate(meter, unsealed, call, Keep::Nothing).await,
        ("kv/list", Read | Update) => names::list(meter, unsealed, call).await,
        ("kv/search", Read | Update) => search::search(meter, unsealed, call).await,
        ("kv/watch", Read) => watch::open(core, unsealed, call),
        (
            "kv/read" | "kv/write" | "kv/delete" | "kv/copy" | "kv/move" | "kv/list" | "kv/search"
            | "kv/watch",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

/// The parameters: a body's, or a query's where there is no body.
fn parameters(call: &Call<'_, '_>) -> Result<Map, Error> {
    if call.operation == Operation::Update { call.object() } else { Ok(call.query_fields()) }
}
