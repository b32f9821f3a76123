//! `config/keys` and `cache-config`: what is set for a whole mount.

use super::TransitHandler;
use kallisto_api::{Error, Fields, Json, Response};

/// Where a mount keeps its settings.
const KEYS: &str = "config/keys";
const CACHE: &str = "config/cache";
/// Fewest entries a cache may be asked for.
const CACHE_SIZE_MIN: i64 = 10;

/// Whether an encryption may not make its key.
pub(super) fn upsert_is_disabled(transit: &TransitHandler<'_>) -> Result<bool, Error> {
    let Some(record) = transit.call.storage.get(KEYS)? else { return Ok(false) };
    record.decode_object(|map| Ok(Fields::new(map).boolean("disable_upsert")?.unwrap_or(false)))
}

pub(super) fn read_keys(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    Ok(shown(upsert_is_disabled(transit)?))
}

pub(super) async fn write_keys(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let disabled = Fields::new(&body).boolean("disable_upsert")?.unwrap_or(false);
    let record = Json::object([("disable_upsert", disabled.into())]);
    transit.call.storage.put(KEYS, record.to_text()).await?;
    Ok(shown(disabled))
}

fn shown(disabled: bool) -> Response {
    Response::data(&Json::object([("disable_upsert", disabled.into())]))
}

/// The size is kept and shown for clients that set it; how many keys are kept decoded is the
/// server's own matter.
pub(super) async fn write_cache(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let size = Fields::new(&body).int("size")?.unwrap_or(0);
    if size != 0 && size < CACHE_SIZE_MIN {
        return Err(Error::invalid(format!(
            "size must be 0 or a value greater or equal to {CACHE_SIZE_MIN}"
        )));
    }
    transit.call.storage.put(CACHE, Json::object([("size", size.into())]).to_text()).await?;
    read_cache(transit)
}

pub(super) fn read_cache(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    match transit.call.storage.get(CACHE)? {
        Some(record) => Ok(Response::data(&record.object()?.into())),
        None => Ok(Response::data(&Json::object([("size", 0_u64.into())]))),
    }
}
