//! What Vault does not have, at `sys/kallisto/kv/`: work on many secrets at once, names filtered by
//! what the caller may see, and following changes.
//!
//! Each route is decided twice (`docs/decisions/0065-beyond-vault.md`): the route itself by the rules
//! for its own path, and then every secret it touches by the rules for the path at which a request of
//! its own would touch it, through the same decision ([`judge`]). So a rule for `sys/kallisto/*` opens
//! no secret, and no rule for a secret is passed by. It is counted twice as well: at its own path, and at that of each
//! secret and folder ([`mod@meter`]).
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
use relocate::Keep;

use crate::api::error::Error;
use crate::api::json::Map;
use crate::api::response::Response;
use crate::engines::route_handler::RouteCall;
use crate::pipeline::state::Call;

/// What counts the secrets that a request touches; such a request is not wrapped.
fn meter<'r>(run: &'r RouteCall<'_>) -> Result<Meter<'r>, Error> {
    if run.call.wrap_ttl_secs > 0 {
        return Err(Error::invalid("answers of sys/kallisto cannot be wrapped"));
    }
    Ok(Meter::of(run.core, run.call))
}

pub(crate) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    bulk::read(meter(run)?, &run.unsealed, run.call)
}

pub(crate) async fn write(run: &RouteCall<'_>) -> Result<Response, Error> {
    write::write(meter(run)?, &run.unsealed, run.call).await
}

pub(crate) async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    remove::remove(meter(run)?, &run.unsealed, run.call).await
}

pub(crate) async fn copy(run: &RouteCall<'_>) -> Result<Response, Error> {
    relocate::relocate(meter(run)?, &run.unsealed, run.call, Keep::Source).await
}

pub(crate) async fn move_to(run: &RouteCall<'_>) -> Result<Response, Error> {
    relocate::relocate(meter(run)?, &run.unsealed, run.call, Keep::Nothing).await
}

pub(crate) async fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    names::list(meter(run)?, &run.unsealed, run.call).await
}

pub(crate) async fn search(run: &RouteCall<'_>) -> Result<Response, Error> {
    search::search(meter(run)?, &run.unsealed, run.call).await
}

pub(crate) fn watch(run: &RouteCall<'_>) -> Result<Response, Error> {
    meter(run)?;
    watch::open(run.core, &run.unsealed, run.call)
}

/// The parameters: a body's, or a query's where there is no body.
fn parameters(call: &Call<'_, '_>) -> Result<Map, Error> {
    if call.operation == Operation::Update { call.object() } else { Ok(call.query_fields()) }
}
