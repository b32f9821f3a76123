//! `sys/mounts` and `sys/auth`: what is mounted, mounting and unmounting.
//!
//! Both show the one mount table, each its [`Class`]; a login method lies below `auth/`.

use std::sync::Arc;

use kallisto_auth::Path;
use kallisto_store::{Batch, Seqno};

use super::leftovers::{self, Leftovers};
use super::{quotas, tune};
use crate::api::error::Error;
use crate::api::fields::{Fields, parse_bool};
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::leases::revoke::{Closing, Unmount, revoke_mount};
use crate::limits::{DESCRIPTION_BYTES_MAX, MOUNT_PATH_BYTES_MAX};
use crate::random;
use crate::records::engine_kind::EngineKind;
use crate::records::mount::LeaseTimes;
use crate::records::mount::MountEntry;
use crate::storage::keys::{self, MountId, NamespaceNumber};
use crate::storage::transact::transact_beside;
use crate::view::NamespaceContext;
use crate::view::{Closed, Mount};
use kallisto_engine::Class;

/// First segments that no engine may be mounted at: the server's own routes.
pub(super) const PROTECTED: [&str; 4] = ["auth", "cubbyhole", "identity", "sys"];

/// The mounts of a class as its listing shows them.
pub(super) fn listing(context: &NamespaceContext, class: Class) -> Map {
    let all = context.view.mounts.all();
    let shown = all.iter().filter(|mount| mount.entry.kind.class() == class);
    shown.map(|mount| (mount.entry.shown_path().to_owned(), mount.entry.to_wire().into())).collect()
}

pub(super) fn read_all(context: &NamespaceContext, class: Class) -> Response {
    Response::merged(&listing(context, class).into())
}

pub(super) fn read(
    context: &NamespaceContext,
    class: Class,
    path: &str,
) -> Result<Response, Error> {
    // Clients ask for login methods by the path that they have beside secrets engines.
    let as_login = || find(context, Class::Auth, path.strip_prefix(Class::Auth.prefix())?);
    let found = match class {
        Class::Secret => find(context, class, path).or_else(as_login),
        Class::Auth => find(context, class, path),
    };
    match found {
        Some(mount) => Ok(Response::merged(&mount.entry.to_wire().into())),
        None => Err(Error::invalid(match class {
            Class::Secret => format!("No secret engine mount at {path}/"),
            Class::Auth => format!("No auth engine at {path}/"),
        })),
    }
}

/// The mount of a class at the path its listing shows.
pub(super) fn find(context: &NamespaceContext, class: Class, path: &str) -> Option<Arc<Mount>> {
    let found = context.view.mounts.at(&format!("{}{path}/", class.prefix()));
    found.filter(|mount| mount.entry.kind.class() == class)
}

pub(super) async fn mount(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    class: Class,
    path: &str,
) -> Result<Response, Error> {
    check_path(class, path, "mount")?;
    let body = call.object()?;
    // One mount at a time: the counter and the nesting check belong together.
    let _latch = context.latches.hold(&keys::mount_counter()).await;
    let path = format!("{}{path}/", class.prefix());
    check_namespaces(context, &path)?;
    if let Some(existing) = context.view.mounts.conflict(&path) {
        let existing = existing.strip_prefix(class.prefix()).unwrap_or(&existing);
        return Err(Error::invalid(format!("path is already in use at {existing}")));
    }
    if class == Class::Auth {
        leftovers::refuse_while_ending(context, &path)?;
    }
    let (id, seqno) = next_id(context)?;
    let entry = new_entry(id, class, path, Fields::new(&body))?;
    check_lease(context.leases, &entry)?;
    let mut batch = Batch::new();
    batch.expect(keys::mount_counter(), seqno);
    batch.put(keys::mount_counter(), id.0.to_be_bytes().to_vec());
    batch.put(keys::mount(id), entry.encode());
    context.store.commit(batch).await?;
    Ok(Response::Empty)
}

pub(super) fn check_path(class: Class, path: &str, verb: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::invalid(format!("cannot {verb} \"{path}/\"{why}")));
    let first = path.split('/').next().unwrap_or_default();
    if first.is_empty() || (class == Class::Secret && PROTECTED.contains(&first)) {
        return refuse("");
    }
    if path.len() > MOUNT_PATH_BYTES_MAX {
        return refuse(&format!(": the path is longer than {MOUNT_PATH_BYTES_MAX} bytes"));
    }
    match Path::decode(path) {
        Ok(canonical) if canonical.as_str() == path => Ok(()),
        _ => refuse(": the path is not canonical"),
    }
}

/// Refuses a mount where a namespace is, in which nothing of it could ever be asked for. To be called
/// under the latch of mounts, under which namespaces are made too.
pub(super) fn check_namespaces(context: &NamespaceContext, path: &str) -> Result<(), Error> {
    let absolute = format!("{}{path}", context.view.namespace_path());
    let found = context.ask_namespaces(|namespaces| namespaces.around(&absolute));
    match found.filter(|space| space.namespace.path.len() > absolute.len() - path.len()) {
        Some(_) => Err(Error::invalid(format!("path is already in use at {path}"))),
        None => Ok(()),
    }
}

fn next_id(context: &NamespaceContext) -> Result<(MountId, Seqno), Error> {
    let record = context.store.get(&keys::mount_counter())?;
    let Some(record) = record else {
        return Err(Error::internal(&"the mount counter is missing"));
    };
    let bytes: [u8; 4] =
        (*record.value).try_into().map_err(|_| Error::internal(&"the mount counter is damaged"))?;
    match u32::from_be_bytes(bytes).checked_add(1) {
        Some(next) => Ok((MountId(next), record.seqno)),
        None => Err(Error::Unavailable("all mount ids are used up".into())),
    }
}

/// Refuses a default lease that the server would never give.
fn check_lease(leases: LeaseTimes, entry: &MountEntry) -> Result<(), Error> {
    let config = &entry.config;
    if config.max_lease_ttl_secs == 0 && config.default_lease_ttl_secs > leases.max_secs {
        return Err(Error::invalid(format!(
            "given default lease TTL greater than system max lease TTL of {}",
            leases.max_secs
        )));
    }
    Ok(())
}

fn new_entry(
    id: MountId,
    class: Class,
    path: String,
    fields: Fields<'_>,
) -> Result<MountEntry, Error> {
    let named = fields.string("type")?.filter(|name| !name.is_empty());
    let Some(name) = named.or(fields.string("plugin_name")?) else {
        return Err(Error::invalid("backend type must be specified as a string"));
    };
    let given = fields.pairs("options")?;
    let given = given.as_ref();
    let version = given.map(Fields::new).map_or(Ok(None), |options| options.string("version"))?;
    let (kind, mut options) = choose_engine(class, &name, version.as_deref(), given)?;
    if fields.raw("options").is_none() {
        // Options that were not given show as none; those given as `null` as `null`.
        options.get_or_insert_default();
    }
    let description = fields.string("description")?.unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(Error::invalid(format!(
            "description is longer than {DESCRIPTION_BYTES_MAX} bytes"
        )));
    }
    let config = match fields.map("config")? {
        Some(config) => tune::config(Default::default(), Fields::new(config))?,
        None => Default::default(),
    };
    let uuid = random::make_uuid()?;
    Ok(MountEntry {
        id,
        path,
        kind,
        accessor: kind.accessor(&uuid),
        uuid,
        description,
        local: fields.boolean("local")?.unwrap_or(false),
        seal_wrap: fields.boolean("seal_wrap")?.unwrap_or(false),
        external_entropy_access: fields.boolean("external_entropy_access")?.unwrap_or(false),
        options,
        config,
        moved: None,
    })
}

/// The engine behind a type name and a version, and the options to show.
fn choose_engine(
    class: Class,
    name: &str,
    version: Option<&str>,
    given: Option<&Map>,
) -> Result<(EngineKind, Option<Map>), Error> {
    let kind = match (class, name, version) {
        (Class::Secret, "kv-v2", None | Some("2")) | (Class::Secret, "kv", Some("2")) => {
            EngineKind::KV_V2
        }
        (Class::Secret, "kv" | "kv-v1" | "generic", None | Some("1")) => EngineKind::KV_V1,
        (Class::Secret, "kv" | "kv-v1" | "kv-v2" | "generic", Some(_)) => {
            return Err(Error::invalid("the version of a kv engine must be 1 or 2"));
        }
        _ => EngineKind::mountable(name, class).ok_or_else(|| not_mountable(name, class))?,
    };
    let mut options: Option<Map> = given.map(|map| {
        let text =
            |value: &Json| Json::from(crate::api::fields::scalar_text(value).unwrap_or_default());
        map.iter().map(|(key, value)| (key.clone(), text(value))).collect()
    });
    let version = match name {
        _ if kind == EngineKind::KV_V2 => Some("2"),
        "kv-v1" => Some("1"),
        _ => None,
    };
    if let Some(version) = version {
        options.get_or_insert_default().insert("version".into(), version.into());
    }
    Ok((kind, options))
}

/// Why nothing is mounted by this name: the server keeps the engine to itself, or there is none.
fn not_mountable(name: &str, class: Class) -> Error {
    let builtin = EngineKind::catalog().any(|(known, _)| known == name)
        && [Class::Secret, Class::Auth].iter().all(|c| EngineKind::mountable(name, *c).is_none());
    Error::invalid(match (builtin, class) {
        (false, _) => format!("plugin not found in the catalog: {name}"),
        (true, Class::Secret) => format!("mount type of \"{name}\" is not mountable"),
        (true, Class::Auth) => format!("{name} credential backend cannot be instantiated"),
    })
}

pub(super) async fn unmount(
    context: &NamespaceContext,
    class: Class,
    path: &str,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    if class == Class::Auth && path == "token" {
        return Err(Error::invalid("token credential backend cannot be disabled"));
    }
    check_path(class, path, "unmount")?;
    let Some(mount) = find(context, class, path) else {
        return Ok(Response::Empty);
    };
    // Its credentials before it: what takes them back may need its settings.
    let number = mount.entry.id.0;
    let _closing = Closing::begin(context, Closed::Mount(number));
    revoke_mount(context, number, how_to_unmount(call)?, call.now).await?;
    // The mount goes first, so that nobody reads or writes what is being swept, and nobody logs in: the tokens there are these.
    let left = Leftovers {
        mount: Some(mount.entry.id),
        login: (class == Class::Auth).then(|| mount.entry.path.clone()),
    };
    let key = keys::mount(mount.entry.id);
    let noted = {
        let _latch = context.latches.hold(&keys::mount_counter()).await;
        let root = context.context_with(NamespaceNumber::ROOT).ok_or(Error::Sealed)?;
        transact_beside(&context.store, |batch, of_root| {
            let Some(record) = context.store.get(&key)? else { return Ok(None) };
            // What was made at another path, and what holds there, was not looked at.
            let now = MountEntry::decode(&record.value);
            if now.is_none_or(|now| now.path != mount.entry.path) {
                return Err(Error::Unavailable("the mount was moved meanwhile".into()));
            }
            batch.expect(key.clone(), record.seqno);
            batch.delete(key.clone()).set_essential();
            // Its rate limits and lease counts go with it. They are the root namespace's.
            let namespace = context.view.namespace_path();
            quotas::forget_in(&root, of_root, namespace, &mount.entry.path)?;
            left.note_in(batch, context).map(Some)
        })
        .await?
    };
    // Somebody else took it away, and clears it.
    let Some(note) = noted else { return Ok(Response::Empty) };
    context.services.far_ends().close(&mount.entry.accessor, None);
    left.clear(context, &note).await?;
    Ok(Response::Empty)
}

/// Whether the query asks for the mount to go although credentials of it may stay.
fn how_to_unmount(call: &AuthorizedCall<'_, '_>) -> Result<Unmount, Error> {
    match call.request.sole_in_query("force").map(|given| given.map(parse_bool)) {
        Ok(None | Some(Some(false))) => Ok(Unmount::WhenRevoked),
        Ok(Some(Some(true))) => Ok(Unmount::Forced),
        Ok(Some(None)) => Err(Error::invalid("force must be true or false")),
        // Policies judge both of them.
        Err(_) => Err(Error::invalid("force is there more than once")),
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn the_servers_own_routes_cannot_be_mounted_over() {
        for path in ["sys", "sys/foo", "auth/x", "", "identity", "cubbyhole/a"] {
            assert!(check_path(Class::Secret, path, "mount").is_err(), "{path}");
        }
        for path in ["secret", "a/b/c", "system", "authx"] {
            assert!(check_path(Class::Secret, path, "mount").is_ok(), "{path}");
        }
    }

    #[test]
    fn a_login_method_is_read_beside_the_secrets_engines() {
        let core = open_core(RouteAccess::Token);
        let read = |path: &str| match ask(&core, Some(ROOT), Operation::Read, path, "") {
            Ok(Response::Merged(logical)) => Ok(logical.data),
            Ok(other) => panic!("{path}: {other:?}"),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(read("sys/mounts/auth/userpass"), read("sys/auth/userpass"));
        assert!(read("sys/auth/userpass").is_ok());
        let missing = read("sys/mounts/auth/none").unwrap_err();
        assert_eq!(missing, "No secret engine mount at auth/none/");
        let other =
            ask(&core, Some(ROOT), Operation::Update, "sys/mounts/auth/x", r#"{"type":"kv"}"#);
        assert!(matches!(other, Err(Error::Invalid(_))));
        assert!(ask(&core, Some(ROOT), Operation::Delete, "sys/mounts/auth/userpass", "").is_err());
        assert!(read("sys/auth/userpass").is_ok());
    }

    #[test]
    fn a_type_and_a_version_choose_the_engine() {
        let kind = |name, version| {
            choose_engine(Class::Secret, name, version, None).map(|chosen| chosen.0)
        };
        assert_eq!(kind("kv", None), Ok(EngineKind::KV_V1));
        assert_eq!(kind("kv", Some("2")), Ok(EngineKind::KV_V2));
        assert_eq!(kind("kv-v2", None), Ok(EngineKind::KV_V2));
        assert_eq!(kind("generic", None), Ok(EngineKind::KV_V1));
        let shown = |name| {
            let (_, options) = choose_engine(Class::Secret, name, None, None).unwrap();
            options.map(|options| options.get("version").cloned())
        };
        assert_eq!(shown("kv-v1"), Some(Some("1".into())));
        assert_eq!(shown("kv-v2"), Some(Some("2".into())));
        assert_eq!(shown("kv"), None);
        assert!(kind("kv", Some("3")).is_err());
        let message = kind("bogus", None).unwrap_err().to_string();
        assert_eq!(message, "plugin not found in the catalog: bogus");
    }
}
