//! Lists of the secrets that a caller may see, at `sys/kallisto/kv/list` and `search`: by folder, name, custom metadata and keys.
//!
//! Each name is judged as [`kv_batch`](super::kv_batch) says.

mod detail;
mod names;
mod search;
mod walk;
mod wanted;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::json::Map;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::kv_batch::meter_of;

pub(crate) async fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    names::list(meter_of(run)?, &run.context, run.call).await
}

pub(crate) async fn search(run: &RouteCall<'_>) -> Result<Response, Error> {
    search::search(meter_of(run)?, &run.context, run.call).await
}

/// The parameters: a body's, or a query's where there is no body.
fn parameters(call: &AuthorizedCall<'_, '_>) -> Result<Map, Error> {
    if call.operation == Operation::Update { call.object() } else { Ok(call.query_fields()) }
}
