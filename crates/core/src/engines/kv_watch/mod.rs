//! Following changes of secrets: as a stream of events at `sys/kallisto/kv/watch`, and by requests that wait (`?wait=`).
//!
//! Each event is judged as [`kv_batch`](super::kv_batch) says, when it is sent.

mod bearer;
mod poll;
mod watch;

pub(in crate::engines) use bearer::StreamBinding;
pub(in crate::engines) use poll::admit;
pub(crate) use poll::{asks_to_wait, wait};

use crate::api::error::Error;
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::kv_batch::meter_of;

pub(crate) fn watch(run: &RouteCall<'_>) -> Result<Response, Error> {
    meter_of(run)?;
    watch::open(run.core, &run.context, run.call)
}
