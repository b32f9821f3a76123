//! `sys/locked-users`: who is locked out after wrong passwords, and letting them in again.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;
use crate::view::NamespaceContext;

/// Shows who is locked, of the mount with the accessor that is asked for or of all.
pub(super) fn read(
    core: &Core,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let query = call.query_fields();
    let asked = Fields::new(&query).string("mount_accessor")?.filter(|text| !text.is_empty());
    let mut mounts: Vec<(String, Vec<String>)> =
        asked.iter().map(|it| (it.clone(), vec![])).collect();
    for (id, name) in core.services.lockouts.locked(call.now) {
        let Some(mount) = context.view.mounts.with_id(id) else { continue };
        let accessor = &mount.entry.accessor;
        match mounts.iter_mut().find(|(known, _)| known == accessor) {
            Some((_, names)) => names.push(name),
            None if asked.is_none() => mounts.push((accessor.clone(), vec![name])),
            None => {}
        }
    }
    let total: usize = mounts.iter().map(|(_, names)| names.len()).sum();
    let total = Json::from(u64::try_from(total).unwrap_or(u64::MAX));
    let mounts = mounts.into_iter().map(|(accessor, names)| {
        Json::object([
            ("mount_accessor", accessor.into()),
            ("counts", u64::try_from(names.len()).unwrap_or(u64::MAX).into()),
            ("alias_identifiers", Json::strings(names)),
        ])
    });
    let root = Json::object([
        ("namespace_id", context.view.namespace_id().into()),
        ("namespace_path", context.view.namespace_path().into()),
        ("counts", total.clone()),
        ("mount_accessors", Json::Array(mounts.collect())),
    ]);
    Ok(Response::data(&Json::object([("by_namespace", Json::Array(vec![root])), ("total", total)])))
}

/// Lets a name in again; `path` is what follows `locked-users/`.
pub(super) fn unlock(
    core: &Core,
    context: &NamespaceContext,
    path: &str,
) -> Result<Response, Error> {
    let (accessor, name) = path.split_once("/unlock/").ok_or(Error::UnsupportedPath)?;
    let all = context.view.mounts.all();
    if let Some(mount) = all.iter().find(|mount| mount.entry.accessor == accessor) {
        core.services.lockouts.forget(mount.entry.id, name);
        core.services.lockouts.forget(mount.entry.id, &name.to_ascii_lowercase());
    }
    Ok(Response::Empty)
}
