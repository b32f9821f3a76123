//! `sys/key-status`, `sys/rotate`: the data key and its replacement.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;
use crate::view::NamespaceContext;

pub(super) fn key_status(context: &NamespaceContext) -> Response {
    let Some(key) = Core::active_key(context) else { return Response::merged(&Json::Null) };
    let installed = Timestamp::from_second(key.installed_at_unix).unwrap_or_default();
    Response::merged(&Json::object([
        ("term", u64::from(key.version).into()),
        ("install_time", installed.to_string().into()),
        ("encryptions", key.seals.into()),
    ]))
}

pub(super) async fn rotate(
    core: &Core,
    context: &Arc<NamespaceContext>,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    call.object()?;
    core.rotate(context, call.now).await?;
    Ok(Response::Empty)
}

/// Beyond Vault: how far old records are under the new key.
pub(super) fn progress(context: &NamespaceContext) -> Response {
    let state = &context.reencryption;
    Response::data(&Json::object([
        ("running", (state.running.load(Ordering::Acquire) == 1).into()),
        ("damaged", state.damaged.load(Ordering::Relaxed).into()),
        ("left", state.left.load(Ordering::Relaxed).into()),
        ("reencrypted", state.done.load(Ordering::Relaxed).into()),
    ]))
}
