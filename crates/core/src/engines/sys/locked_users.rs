//! `sys/locked-users`: who is locked out after wrong passwords, and letting them in again.

use std::collections::BTreeMap;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;
use crate::storage::keys::MountId;
use crate::view::{NamespaceContext, View};

/// Shows who is locked, of the mount with the accessor that is asked for or of all in this namespace and those below.
pub(super) fn read(
    core: &Core,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let query = call.query_fields();
    let asked = Fields::new(&query).string("mount_accessor")?.filter(|text| !text.is_empty());
    // By mount, so that many names are looked at once and not again for each namespace.
    let mut locked: BTreeMap<MountId, Vec<String>> = BTreeMap::new();
    for (id, name) in core.services.lockouts.locked(call.now) {
        locked.entry(id).or_default().push(name);
    }
    let mut spaces = vec![LockedSpace::of(&context.view, &locked, asked.as_deref())];
    if asked.is_none() {
        let below = context.contexts_below();
        spaces.extend(below.iter().map(|below| LockedSpace::of(&below.view, &locked, None)));
        spaces.sort_by_key(|space| std::cmp::Reverse(space.count));
    }
    let total: u64 = spaces.iter().map(|space| space.count).sum();
    let spaces = Json::Array(spaces.into_iter().map(|space| space.wire).collect());
    Ok(Response::data(&Json::object([("by_namespace", spaces), ("total", total.into())])))
}

/// Who is locked in a namespace.
struct LockedSpace {
    count: u64,
    wire: Json,
}

impl LockedSpace {
    fn of(view: &View, locked: &BTreeMap<MountId, Vec<String>>, asked: Option<&str>) -> Self {
        let mut mounts: Vec<(String, Vec<String>)> =
            asked.iter().map(|&it| (it.to_owned(), vec![])).collect();
        for (id, names) in locked {
            let Some(mount) = view.mounts.with_id(*id) else { continue };
            let accessor = &mount.entry.accessor;
            match mounts.iter_mut().find(|(known, _)| known == accessor) {
                Some((_, known)) => known.extend_from_slice(names),
                None if asked.is_none() => mounts.push((accessor.clone(), names.clone())),
                None => {}
            }
        }
        let count: usize = mounts.iter().map(|(_, names)| names.len()).sum();
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let mounts = mounts.into_iter().map(|(accessor, names)| {
            Json::object([
                ("mount_accessor", accessor.into()),
                ("counts", u64::try_from(names.len()).unwrap_or(u64::MAX).into()),
                ("alias_identifiers", Json::strings(names)),
            ])
        });
        let wire = Json::object([
            ("namespace_id", view.namespace_id().into()),
            ("namespace_path", view.namespace_path().into()),
            ("counts", count.into()),
            ("mount_accessors", Json::Array(mounts.collect())),
        ]);
        Self { count, wire }
    }
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
