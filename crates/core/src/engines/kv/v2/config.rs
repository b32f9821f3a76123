//! `config`: the settings of a mount.

use kallisto_store::Batch;

use super::metadata::max_versions;
use crate::api::Span;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::engines::kv::access::Kv;
use crate::storage::keys;

pub(super) fn read(kv: &Kv<'_>, _path: &str) -> Option<Result<Response, Error>> {
    Some(Ok(shown(kv)))
}

fn shown(kv: &Kv<'_>) -> Response {
    let config = kv.mount.kv_config.load();
    Response::data(&Json::object([
        ("attribution", (!config.is_anonymous).into()),
        ("cas_required", config.cas_required.into()),
        ("delete_version_after", Span::from_nanos(config.delete_after_ns).to_go().into()),
        ("max_versions", u64::from(config.max_versions).into()),
        ("metadata_cas_required", config.metadata_cas_required.into()),
    ]))
}

/// Absent fields keep their value.
pub(super) async fn write(kv: &Kv<'_>) -> Result<Response, Error> {
    let body = kv.call.object()?;
    let fields = Fields::new(&body);
    let key = keys::kv_config(kv.mount.entry.id);
    let _latch = kv.context.latches.hold(&key).await;
    let mut config = **kv.mount.kv_config.load();
    if let Some(required) = fields.boolean("cas_required")? {
        config.cas_required = required;
    }
    if let Some(required) = fields.boolean("metadata_cas_required")? {
        config.metadata_cas_required = required;
    }
    if let Some(kept) = fields.boolean("attribution")? {
        config.is_anonymous = !kept;
    }
    if let Some(kept) = max_versions(fields)? {
        config.max_versions = kept;
    }
    if let Some(life) = fields.span("delete_version_after")? {
        config.delete_after_ns = life.nanos();
    }
    let mut batch = Batch::new();
    batch.put(key, config.encode());
    kv.context.store.commit(batch).await?;
    Ok(Response::Empty)
}
