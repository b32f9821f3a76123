//! `sys/durability`, `sys/save`: when writes are acknowledged (beyond Vault).

use std::time::Duration;

use kallisto_store::Durability;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;

pub(super) fn read(core: &Core) -> Response {
    let (mode, ops, interval) = match core.store.durability() {
        Durability::Strict => ("strict", 0, Duration::ZERO),
        Durability::Batch { ops, interval } => ("batch", ops, interval),
    };
    let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    Response::data(&Json::object([
        ("mode", mode.into()),
        ("ops", ops.into()),
        ("interval_ms", millis.into()),
    ]))
}

/// Switches; the answer comes when the new mode holds, and everything before a switch to strict is
/// on the disk.
pub(super) async fn write(core: &Core, call: &AuthorizedCall<'_, '_>) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let durability = match fields.string("mode")?.unwrap_or_default().as_str() {
        "strict" => Durability::Strict,
        "batch" => {
            let allowed = 1..=Durability::OPS_MAX;
            let ops = match fields.int("ops")?.map(u64::try_from) {
                None => Durability::OPS_DEFAULT,
                Some(Ok(ops)) if allowed.contains(&ops) => ops,
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "ops must be 1 to {}",
                        Durability::OPS_MAX
                    )));
                }
            };
            let interval = match fields.span("interval")? {
                None => Durability::INTERVAL_DEFAULT,
                Some(span) => Duration::from_nanos(u64::try_from(span.nanos()).unwrap_or(0)),
            };
            if interval.is_zero() || interval > Durability::INTERVAL_MAX {
                return Err(Error::invalid("interval must be above zero and at most 1h"));
            }
            Durability::Batch { ops, interval }
        }
        _ => return Err(Error::invalid("mode must be strict or batch")),
    };
    core.store.set_durability(durability).await?;
    tracing::info!(?durability, "durability switched");
    Ok(Response::Empty)
}

/// Answers when everything acknowledged before is on the disk.
pub(super) async fn save(core: &Core) -> Result<Response, Error> {
    core.store.save().await?;
    Ok(Response::Empty)
}
