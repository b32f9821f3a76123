//! Work on many secrets in one request, at `sys/kallisto/kv/`, which Vault does not have.
//!
//! Each route here, of [`kv_search`](super::kv_search) and of [`kv_watch`](super::kv_watch) is decided twice
//! (`docs/decisions/0065-beyond-vault.md`): the route itself by the rules for its own path, and then every secret it touches by the rules
//! for the path at which a request of its own would touch it, through the same decision ([`judge`]). So a rule for `sys/kallisto/*` opens
//! no secret, and no rule for a secret is passed by. It is counted twice as well: at its own path, and at that of each
//! secret and folder ([`meter`]).
//!
//! - `read`: many reads in one request;
//! - `write`, `remove`, `relocate`, `recover`: many writes as one batch, all or nothing.

pub(in crate::engines) mod judge;
pub(in crate::engines) mod meter;
pub(in crate::engines) mod place;
mod read;
mod recover;
mod relocate;
mod remove;
mod together;
mod write;

pub(in crate::engines) use recover::recover_one;

use meter::Meter;
use relocate::RelocateKeep;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;

/// What counts the secrets that a request touches; such a request is not wrapped.
pub(in crate::engines) fn meter_of<'r>(run: &'r RouteCall<'_>) -> Result<Meter<'r>, Error> {
    if run.call.wrap_ttl_secs > 0 {
        return Err(Error::invalid("answers of sys/kallisto cannot be wrapped"));
    }
    Ok(Meter::of(run.core, run.call))
}

pub(crate) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    read::read(meter_of(run)?, &run.context, run.call)
}

pub(crate) async fn write(run: &RouteCall<'_>) -> Result<Response, Error> {
    write::write(meter_of(run)?, &run.context, run.call).await
}

pub(crate) async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    remove::remove(meter_of(run)?, &run.context, run.call).await
}

pub(crate) async fn copy(run: &RouteCall<'_>) -> Result<Response, Error> {
    relocate::relocate(meter_of(run)?, &run.context, run.call, RelocateKeep::Source).await
}

pub(crate) async fn move_to(run: &RouteCall<'_>) -> Result<Response, Error> {
    relocate::relocate(meter_of(run)?, &run.context, run.call, RelocateKeep::Nothing).await
}

pub(crate) async fn recover(run: &RouteCall<'_>) -> Result<Response, Error> {
    recover::recover(meter_of(run)?, run.core, &run.context, run.call).await
}
