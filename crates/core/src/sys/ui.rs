//! `sys/internal/ui/mounts`: what the `kv` commands and the web page ask first (API.md A9).

use std::sync::Arc;

use crate::error::{Denial, Error};
use crate::json::{Json, Map};
use crate::response::Response;
use crate::state::Unsealed;
use crate::view::Mount;

/// The mount that serves `path`, for a command that needs to know its version.
pub(super) fn preflight(unsealed: &Unsealed, path: &str) -> Result<Response, Error> {
    let folder = format!("{path}/");
    let Some((mount, _)) = unsealed.view.mounts.route(&folder) else {
        return Err(Error::Denied(Denial::Preflight(path.to_owned())));
    };
    let mut data = mount.entry.to_wire();
    data.insert("path".into(), mount.entry.path.as_str().into());
    Ok(Response::data(&data.into()))
}

/// Every mount, for a token that may see them.
pub(super) fn all_mounts(unsealed: &Unsealed) -> Response {
    reply(unsealed.view.mounts.all().iter().map(|mount| (mount, mount.entry.to_wire())))
}

/// What a login page may show: mounts listed as `unauth`, reduced to their kind.
pub(super) fn public_mounts(unsealed: &Unsealed) -> Response {
    let all = unsealed.view.mounts.all();
    let public = all.iter().filter(|mount| mount.entry.config.listing_visibility == "unauth");
    reply(public.map(|mount| {
        let mut entry = mount.entry.to_wire();
        entry.retain(|name, _| matches!(name.as_str(), "type" | "description" | "options"));
        (mount, entry)
    }))
}

fn reply<'a>(mounts: impl Iterator<Item = (&'a Arc<Mount>, Map)>) -> Response {
    let secret: Map =
        mounts.map(|(mount, entry)| (mount.entry.path.clone(), entry.into())).collect();
    Response::data(&Json::object([("auth", Map::new().into()), ("secret", secret.into())]))
}
