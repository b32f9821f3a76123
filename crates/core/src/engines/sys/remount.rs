//! `sys/remount`: a mount under another path.
//!
//! Storage keys go by mount id, so a move is one record: nothing is copied, and it takes as long for
//! a million secrets as for none. It has happened when the reply goes out; the status is there for
//! clients that poll it. What it tells is kept in the mount's own record, so that every server of a
//! cluster can answer, also after a restart: the last move of each mount.
//!
//! Policies name paths, so a moved mount is reached by the rules for its new one alone. Rate limits and lease counts are
//! of a mount, and go along with it.

use kallisto_store::Batch;

use super::leftovers::{self, Leftovers};
use super::mounts::{PROTECTED, check_namespaces, check_path, find};
use super::quotas;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::random;
use crate::records::mount::MountMove;
use crate::storage::keys::{self, NamespaceNumber};
use crate::view::NamespaceContext;
use kallisto_engine::Class;

/// `POST sys/remount {from, to}`.
pub(super) async fn remount(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let path = |name| fields.string(name).map(|path| path.unwrap_or_default());
    let (from, to) = (path("from")?, path("to")?);
    let (from, to) = (from.trim_matches('/'), to.trim_matches('/'));
    if from.is_empty() || to.is_empty() {
        return Err(Error::invalid("both 'from' and 'to' path must be specified as a string"));
    }
    let (class, from) = classed(from);
    if is_builtin(class, from) {
        return Err(Error::invalid(format!("cannot remount \"{}{from}/\"", class.prefix())));
    }
    let (to_class, to) = classed(to);
    if to_class != class || is_builtin(class, to) {
        let to = format!("{}{to}", to_class.prefix());
        return Err(Error::invalid(format!("cannot remount to destination {to}/")));
    }
    check_path(class, to, "remount to")?;
    // One change of mounts at a time: the check for nesting and the move belong together.
    let _latch = context.latches.hold(&keys::mount_counter()).await;
    let Some(mount) = find(context, class, from) else {
        let from = format!("{}{from}", class.prefix());
        return Err(Error::invalid(format!("no matching mount at \"{from}/\"")));
    };
    let to = format!("{}{to}/", class.prefix());
    check_namespaces(context, &to)?;
    if let Some(existing) = context.view.mounts.conflict(&to) {
        return Err(Error::invalid(format!("path already in use at \"{existing}\"")));
    }
    if class == Class::Auth {
        leftovers::refuse_while_ending(context, &to)?;
    }
    let key = keys::mount(mount.entry.id);
    let record = context.store.get(&key)?.ok_or(Error::Conflict)?;
    let id = random::make_uuid()?;
    let mut entry = mount.entry.clone();
    entry.moved = Some(MountMove { id: id.clone(), from: entry.path.clone() });
    entry.path = to.clone();
    let mut batch = Batch::new();
    batch.expect(key.clone(), record.seqno);
    batch.put(key, entry.encode());
    // Their path is a login's that is no more, as when the mount is disabled.
    let left = Leftovers { mount: None, login: Some(mount.entry.path.clone()) };
    let note = match class {
        Class::Auth => Some(left.note_in(&mut batch, context)?),
        Class::Secret => None,
    };
    // Its rate limits and lease counts go along. They are the root namespace's.
    let root = context.context_with(NamespaceNumber::ROOT).ok_or(Error::Sealed)?;
    let mut rules = Batch::new();
    let paths = (mount.entry.path.as_str(), to.as_str());
    quotas::follow_in(&root, &mut rules, context.view.namespace_path(), paths)?;
    context.store.commit_beside(batch, &rules).await?;
    if let Some(note) = note {
        left.clear(context, &note).await?;
    }
    tracing::info!(migration = %id, "moved a mount");
    let data = Json::object([("migration_id", id.into())]).to_text();
    let warning = "Mount move has been done; ask sys/remount/status with the migration_id";
    Ok(Response::Merged(Logical { data, warnings: vec![warning.into()], ..Logical::default() }))
}

/// What a path is for, and the rest of it.
fn classed(path: &str) -> (Class, &str) {
    match path.strip_prefix(Class::Auth.prefix()) {
        Some(rest) => (Class::Auth, rest),
        None => (Class::Secret, path),
    }
}

/// Whether the server itself is mounted there.
fn is_builtin(class: Class, path: &str) -> bool {
    match class {
        Class::Auth => path == "token",
        Class::Secret => path.split('/').next().is_some_and(|first| PROTECTED.contains(&first)),
    }
}

/// `GET sys/remount/status/:id`.
pub(super) fn status(context: &NamespaceContext, id: &str) -> Result<Response, Error> {
    let mounts = context.view.mounts.all();
    let found = mounts.iter().find_map(|mount| {
        let moved = mount.entry.moved.as_ref().filter(|moved| moved.id == id)?;
        Some((moved.from.as_str(), mount.entry.path.as_str()))
    });
    let (from, to) = found.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([
        ("migration_id", id.into()),
        (
            "migration_info",
            Json::object([
                ("source_mount", from.into()),
                ("status", "success".into()),
                ("target_mount", to.into()),
            ]),
        ),
    ])))
}
