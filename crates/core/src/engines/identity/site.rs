//! What handlers of entities and groups work with.

use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::json::Map;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::dispatch::route_handler::RouteCall;
use crate::identity::directory::IdentityDirectory;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// What a request to the identity engine is about.
pub(crate) struct IdentityRequest<'s> {
    pub(crate) context: &'s NamespaceContext,
    pub(crate) mount: &'s Mount,
    pub(crate) directory: &'s IdentityDirectory,
    pub(crate) call: &'s AuthorizedCall<'s, 's>,
}

/// The directory of an identity mount.
///
/// # Errors
/// When the mount is none, which is damage.
pub(crate) fn directory_of(mount: &Mount) -> Result<&IdentityDirectory, Error> {
    mount.memory.directory().ok_or_else(|| Error::internal(&"the identity mount has no directory"))
}

impl<'s> IdentityRequest<'s> {
    pub(crate) fn of(run: &'s RouteCall<'_>) -> Result<Self, Error> {
        let RouteCall { context, call, mount, .. } = run;
        Ok(IdentityRequest { context, mount, directory: directory_of(mount)?, call })
    }
}

pub(crate) fn not_empty(names: Vec<String>) -> Result<Vec<String>, Error> {
    if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
}

/// `keys` and `key_info`.
pub(crate) fn list_reply(entries: impl Iterator<Item = (String, Json)>) -> Result<Response, Error> {
    let info: Map = entries.collect();
    let keys = not_empty(info.keys().cloned().collect())?;
    Ok(Response::data(&Json::object([("keys", Json::strings(keys)), ("key_info", info.into())])))
}
