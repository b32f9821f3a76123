//! `subkeys/:path`: the shape of a secret without its values.

use super::commit::load;
use super::data::{ShownVersion, asked_version, load_data, write_shown};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::response::{Logical, Response};
use crate::engines::kv::access::Kv;

/// Reads the shape of a secret; `None` when it takes more than [`Kv`] lets it.
pub(super) fn read(kv: &Kv<'_>, path: &str) -> Option<Result<Response, Error>> {
    kv.lets_read().then(|| shown(kv, path))
}

fn shown(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    let asked = asked_version(kv)?;
    let query = kv.call.query_fields();
    let depth = match Fields::new(&query).int("depth")?.unwrap_or_default() {
        0 => usize::MAX,
        depth => usize::try_from(depth).unwrap_or(1),
    };
    if !kv.mount.index.may_contain(path) {
        return Err(Error::NotFound);
    }
    let metadata = load(kv, path)?.ok_or(Error::NotFound)?;
    let version = asked.unwrap_or(metadata.current_version);
    let info = *metadata.version(version).ok_or(Error::NotFound)?;
    let live = info.is_live(kv.call.now_ns());
    let subkeys = if live {
        let text = load_data(kv, path, version)?;
        let data = json::parse(&text).map_err(|error| Error::internal(&error))?;
        data.as_object().map_or(Json::Null, |map| shape(map, depth))
    } else {
        Json::Null
    };
    let custom = metadata.custom.as_deref().unwrap_or_default().as_bytes();
    let mut data = b"{\"metadata\":".to_vec();
    write_shown(&ShownVersion { info, custom }, &mut data);
    data.extend_from_slice(b",\"subkeys\":");
    subkeys.write(&mut data);
    data.push(b'}');
    let logical = Logical { data, ..Logical::default() };
    Ok(if live { Response::Logical(logical) } else { Response::Missing(logical) })
}

/// Keys down to `depth` levels, every value a `null`. Recursion is bounded by the JSON depth limit.
fn shape(map: &Map, depth: usize) -> Json {
    let shape_of = |value: &Json| match value {
        Json::Object(inner) if depth > 1 && !inner.is_empty() => shape(inner, depth - 1),
        _ => Json::Null,
    };
    Json::Object(map.iter().map(|(key, value)| (key.clone(), shape_of(value))).collect())
}
