//! `sys/namespaces`: making, showing, changing, locking and deleting namespaces.
//!
//! Each namespace has these routes for those directly below it. A namespace's record, its life and what
//! it starts with are one batch; so are its taint and the end of its life. What is left inside after
//! that, `namespaces::sweep` clears.

use std::sync::Arc;

use kallisto_store::{Batch, Record, Seqno};

use super::quotas;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::RouteCall;
use crate::leases::revoke::Closing;
use crate::limits::{
    CUSTOM_KEY_BYTES_MAX, CUSTOM_KEYS_MAX, CUSTOM_VALUE_BYTES_MAX, NAMESPACE_DEPTH_MAX,
    NAMESPACE_NAME_BYTES_MAX, NAMESPACES_MAX,
};
use crate::random;
use crate::records::namespace::Namespace;
use crate::seal::put_builtin;
use crate::storage::keys::{self, NamespaceNumber};
use crate::storage::latches::HeldLatch;
use crate::view::Closed;
use crate::view::NamespaceContext;
use crate::view::namespaces::NamespaceSpace;

/// Names that no namespace may have, since they lead elsewhere or mean the root namespace.
const RESERVED: [&str; 6] = ["audit", "auth", "cubbyhole", "identity", "root", "sys"];
/// Characters of the key that unlocks a namespace.
const UNLOCK_KEY_CHARS: usize = 24;

impl<'u> NamespaceRoutes<'u> {
    fn of(run: &'u RouteCall<'_>) -> Result<Self, Error> {
        let root = run.core.context.load_full().ok_or(Error::Sealed)?;
        Ok(Self { root, here: &run.context })
    }
}

pub(super) fn list(run: &RouteCall<'_>, depth: NamespaceDepth) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.list(depth)
}

pub(super) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.read(run.params.get("name"))
}

pub(super) async fn write(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.write(run.call, run.params.get("name")).await
}

pub(super) async fn patch(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.patch(run.call, run.params.get("name")).await
}

pub(super) async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.delete(run.params.get("name")).await
}

/// Locks the namespace that the path names; without a path, this one.
pub(super) async fn lock(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.lock(run.params.get("path")).await
}

/// Unlocks it.
pub(super) async fn unlock(run: &RouteCall<'_>) -> Result<Response, Error> {
    NamespaceRoutes::of(run)?.unlock(run.call, run.params.get("path")).await
}

/// The namespaces directly below that a caller can reach anything of.
pub(super) fn reached(context: &NamespaceContext, caller: &CallerPolicies) -> Response {
    let names = below(context, NamespaceDepth::One).into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.filter(|name| caller.reaches(name)).collect();
    let keys = if names.is_empty() {
        Map::new()
    } else {
        Map::from([("keys".to_owned(), Json::strings(names))])
    };
    Response::data(&keys.into())
}

/// How far a listing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamespaceDepth {
    One,
    All,
}

/// The namespaces below this one, by their path from it.
fn below(context: &NamespaceContext, depth: NamespaceDepth) -> Vec<(String, Arc<NamespaceSpace>)> {
    let own = context.view.namespace_path();
    let all = context.ask_namespaces(|namespaces| namespaces.below(own));
    let relative =
        all.into_iter().map(|space| (space.namespace.path[own.len()..].to_owned(), space));
    let fits =
        |path: &str| depth == NamespaceDepth::All || !path.trim_end_matches('/').contains('/');
    relative.filter(|(path, _)| fits(path)).collect()
}

/// What the routes work on.
struct NamespaceRoutes<'u> {
    root: Arc<NamespaceContext>,
    /// The namespace that they are of.
    here: &'u NamespaceContext,
}

/// A namespace's record as it is stored.
struct StoredNamespace {
    namespace: Namespace,
    seqno: Seqno,
}

impl NamespaceRoutes<'_> {
    /// The namespace of this name, directly below.
    fn find(&self, name: &str) -> Result<Option<Arc<NamespaceSpace>>, Error> {
        check_name(name)?;
        let path = format!("{}{name}/", self.here.view.namespace_path());
        Ok(self.root.view.namespaces.at(&path))
    }

    fn list(&self, depth: NamespaceDepth) -> Result<Response, Error> {
        let all = below(self.here, depth);
        if all.is_empty() {
            return Err(Error::NotFound);
        }
        let info: Map =
            all.iter().map(|(path, space)| (path.clone(), space.namespace.to_wire())).collect();
        let keys = Json::strings(all.into_iter().map(|(path, _)| path));
        Ok(Response::data(&Json::object([("key_info", info.into()), ("keys", keys)])))
    }

    fn read(&self, name: &str) -> Result<Response, Error> {
        let space = self.find(name)?.ok_or(Error::NotFound)?;
        Ok(Response::data(&space.namespace.to_wire()))
    }

    /// Makes a namespace, or writes the metadata of the one there is.
    async fn write(&self, call: &AuthorizedCall<'_, '_>, name: &str) -> Result<Response, Error> {
        check_new_name(name)?;
        let body = call.object()?;
        let given = Fields::new(&body).map("custom_metadata")?.cloned();
        let custom = given.as_ref().map(check_custom).transpose()?;
        let _latches = self.hold().await;
        if let Some(space) = self.find(name)? {
            let stored = self.stored(&space)?;
            let custom = custom.unwrap_or_default();
            return self.put(stored, |namespace| namespace.custom = custom).await;
        }
        self.make(name, custom.unwrap_or_default()).await
    }

    async fn make(&self, name: &str, custom: Map) -> Result<Response, Error> {
        let path = format!("{}{name}/", self.here.view.namespace_path());
        if path.matches('/').count() > NAMESPACE_DEPTH_MAX {
            return Err(Error::invalid(format!(
                "namespaces nest no deeper than {NAMESPACE_DEPTH_MAX}"
            )));
        }
        if self.root.view.namespaces.len() >= NAMESPACES_MAX {
            let why = format!("there are {NAMESPACES_MAX} namespaces, as many as there may be");
            return Err(Error::invalid(why));
        }
        if let Some(mount) = self.here.view.mounts.conflict(&format!("{name}/")) {
            return Err(Error::invalid(format!(
                "new namespace conflicts with existing mount: {mount}"
            )));
        }
        let (number, counted) = self.next_number()?;
        let uuid = random::make_uuid()?;
        let namespace = Namespace { number, path, uuid, custom, is_tainted: false, lock: None };
        let mut batch = Batch::new();
        batch.expect(keys::namespace_counter(), counted);
        self.expect_here(&mut batch)?;
        batch.put(keys::namespace_counter(), number.0.to_be_bytes().to_vec());
        batch.put(keys::namespace(number), namespace.encode());
        batch.put(keys::namespace_life(number), Vec::new());
        put_builtin(&mut batch, |key| keys::inside(number, &key))?;
        self.root.store.commit(batch).await?;
        Ok(Response::data(&namespace.to_wire()))
    }

    /// The next number, and when the last one was given.
    fn next_number(&self) -> Result<(NamespaceNumber, Seqno), Error> {
        let record = self.root.store.get(&keys::namespace_counter())?;
        let Some(Record { value, seqno }) = record else {
            return Ok((NamespaceNumber(1), Seqno::ABSENT));
        };
        let damaged = || Error::internal(&"the namespace counter is damaged");
        let bytes: [u8; 4] = (*value).try_into().map_err(|_| damaged())?;
        let next = u32::from_be_bytes(bytes).checked_add(1);
        let next = next.ok_or_else(|| Error::Unavailable("all numbers are used up".into()))?;
        Ok((NamespaceNumber(next), seqno))
    }

    /// Lets a batch fail unless this namespace lives: none is made in one that is being deleted.
    fn expect_here(&self, batch: &mut Batch) -> Result<(), Error> {
        if self.here.is_top() {
            return Ok(());
        }
        let life = keys::namespace_life(self.here.view.namespace_number());
        let record = self.root.store.get(&life)?.ok_or(Error::NoNamespace)?;
        batch.expect(life, record.seqno);
        Ok(())
    }

    async fn patch(&self, call: &AuthorizedCall<'_, '_>, name: &str) -> Result<Response, Error> {
        let body = call.merge_patch()?;
        let _latches = self.hold().await;
        let space = self.find(name)?.ok_or(Error::NoNamespace)?;
        let stored = self.stored(&space)?;
        let mut custom = stored.namespace.custom.clone();
        match body.get("custom_metadata") {
            None => {}
            Some(Json::Null) => custom.clear(),
            Some(Json::Object(changes)) => {
                for (name, value) in changes {
                    match value {
                        Json::Null => custom.remove(name),
                        value => custom.insert(name.clone(), value.clone()),
                    };
                }
            }
            Some(_) => return Err(Error::invalid("custom_metadata must be an object")),
        }
        let custom = check_custom(&custom)?;
        self.put(stored, |namespace| namespace.custom = custom).await
    }

    async fn delete(&self, name: &str) -> Result<Response, Error> {
        let _latches = self.hold().await;
        let in_progress = || Response::data(&Json::object([("status", "in-progress".into())]));
        let Some(space) = self.find(name)? else {
            let warnings = vec!["requested namespace does not exist".to_owned()];
            return Ok(Response::Logical(Logical { warnings, ..Logical::default() }));
        };
        if space.namespace.is_tainted {
            return Ok(in_progress());
        }
        // Read before the children are looked for: one that is made meanwhile changes it.
        let counted = self.root.store.get(&keys::namespace_counter())?;
        if !self.root.view.namespaces.below(&space.namespace.path).is_empty() {
            return Err(Error::invalid("unable to delete namespace containing child namespaces"));
        }
        let StoredNamespace { mut namespace, seqno } = self.stored(&space)?;
        let number = namespace.number;
        // Their credentials would stay where they are: nothing inside is there to take them back.
        let _closing = Closing::begin(&self.root, Closed::Namespace(number.0));
        if !self.root.view.leases.table().below(number.0, "", None, 1).0.is_empty() {
            return Err(Error::invalid("unable to delete namespace containing leases"));
        }
        namespace.is_tainted = true;
        let mut batch = Batch::new();
        let counted = counted.map_or(Seqno::ABSENT, |record| record.seqno);
        batch.expect(keys::namespace_counter(), counted);
        batch.expect(keys::namespace(number), seqno);
        batch.put(keys::namespace(number), namespace.encode());
        batch.delete(keys::namespace_life(number)).set_essential();
        // One of the same path that is made later has none of its rate limits and lease counts.
        quotas::forget_in(&self.root, &mut batch, &space.namespace.path, "")?;
        self.root.store.commit(batch).await?;
        Ok(in_progress())
    }

    /// Locks this namespace, or one below by its path from here: no request inside is answered.
    async fn lock(&self, target: &str) -> Result<Response, Error> {
        let _latches = self.hold().await;
        let space = self.target(target)?;
        if space.namespace.lock.is_some() {
            let path = &space.namespace.path;
            return Err(Error::invalid(format!(
                "cannot lock namespace \"{path}\": is already locked"
            )));
        }
        let key = random::make_base62(UNLOCK_KEY_CHARS)?;
        let hash = self.hash(&key)?;
        let stored = self.stored(&space)?;
        self.put(stored, |namespace| namespace.lock = Some(hash)).await?;
        Ok(Response::data(&Json::object([("unlock_key", key.into())])))
    }

    /// Opens it again, for who has the key, or `sudo` here.
    async fn unlock(&self, call: &AuthorizedCall<'_, '_>, target: &str) -> Result<Response, Error> {
        let body = call.object()?;
        let key = Fields::new(&body).string("unlock_key")?.filter(|key| !key.is_empty());
        let _latches = self.hold().await;
        let space = self.target(target)?;
        let Some(lock) = &space.namespace.lock else {
            let path = &space.namespace.path;
            return Err(Error::invalid(format!("namespace \"{path}\" is not locked")));
        };
        let mut warnings = Vec::new();
        match key {
            // Hashes under a secret key: how far two agree tells nothing.
            Some(key) if self.hash(&key)? == *lock => {}
            Some(_) => return Err(Error::invalid("incorrect unlock key")),
            None => {
                let caller = CallerPolicies::of(self.here, call)?;
                if !caller.is_root() && !caller.has_sudo(call.path.as_str()) {
                    return Err(Error::invalid("provided empty key"));
                }
                warnings.push("Namespace unlocked using sudo capabilities".to_owned());
            }
        }
        let stored = self.stored(&space)?;
        self.put(stored, |namespace| namespace.lock = None).await?;
        if warnings.is_empty() {
            return Ok(Response::Empty);
        }
        Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
    }

    /// The namespace at a path from here; this one for the empty path.
    fn target(&self, path: &str) -> Result<Arc<NamespaceSpace>, Error> {
        let own = self.here.view.namespace_path();
        let path = if path.is_empty() { own.to_owned() } else { format!("{own}{path}/") };
        if path.is_empty() {
            return Err(Error::invalid("root namespace cannot be locked/unlocked"));
        }
        let found = self.root.view.namespaces.at(&path);
        found.filter(|space| !space.namespace.is_tainted).ok_or(Error::NoNamespace)
    }

    fn hash(&self, key: &str) -> Result<String, Error> {
        let cluster = self.root.view.cluster().ok_or(Error::Sealed)?;
        Ok(data_encoding::HEXLOWER.encode(cluster.token_key.hash(key).as_ref()))
    }

    /// One change of namespaces or mounts at a time: what is checked belongs to what is written.
    async fn hold(&self) -> Vec<HeldLatch<'_>> {
        self.root.latches.hold_all(&[keys::mount_counter(), keys::namespace_counter()]).await
    }

    fn stored(&self, space: &NamespaceSpace) -> Result<StoredNamespace, Error> {
        let record = self.root.store.get(&keys::namespace(space.namespace.number))?;
        let record = record.ok_or(Error::NoNamespace)?;
        let namespace = Namespace::decode(&record.value);
        let namespace = namespace.ok_or_else(|| {
            let path = &space.namespace.path;
            Error::internal(&format_args!("the record of the namespace {path:?} is damaged"))
        })?;
        Ok(StoredNamespace { namespace, seqno: record.seqno })
    }

    /// Writes a changed record; the answer shows it.
    async fn put(
        &self,
        StoredNamespace { mut namespace, seqno }: StoredNamespace,
        change: impl FnOnce(&mut Namespace),
    ) -> Result<Response, Error> {
        if namespace.is_tainted {
            return Err(Error::invalid(format!(
                "namespace \"{}\" is being deleted",
                namespace.path
            )));
        }
        change(&mut namespace);
        let key = keys::namespace(namespace.number);
        let mut batch = Batch::new();
        batch.expect(key.clone(), seqno);
        batch.put(key, namespace.encode());
        self.root.store.commit(batch).await?;
        Ok(Response::data(&namespace.to_wire()))
    }
}

/// Refuses what names no namespace directly below.
fn check_name(name: &str) -> Result<(), Error> {
    if name.contains('/') {
        return Err(Error::invalid("namespace name cannot contain /"));
    }
    Ok(())
}

/// Refuses a name for a new namespace.
fn check_new_name(name: &str) -> Result<(), Error> {
    check_name(name)?;
    if RESERVED.contains(&name) {
        return Err(Error::invalid(format!(
            "\"{name}/\" is a reserved path and cannot be used as a namespace name"
        )));
    }
    if name.contains(char::is_whitespace) {
        return Err(Error::invalid(format!(
            "\"{name}\" contains space characters that cannot be used in a namespace name"
        )));
    }
    // The wildcards and templates of policies, and what a URL or header would need escaped.
    let fits =
        |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ':' | '~' | '=');
    if !name.chars().all(fits) {
        return Err(Error::invalid(format!(
            "\"{name}\" contains characters that cannot be used in a namespace name"
        )));
    }
    if name.len() > NAMESPACE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a namespace name is at most {NAMESPACE_NAME_BYTES_MAX} bytes long"
        )));
    }
    Ok(())
}

/// Custom metadata as it may be kept: texts, within limits.
fn check_custom(custom: &Map) -> Result<Map, Error> {
    if custom.len() > CUSTOM_KEYS_MAX {
        return Err(Error::invalid(format!("more than {CUSTOM_KEYS_MAX} keys in custom_metadata")));
    }
    for (name, value) in custom {
        let value = value.as_str();
        let value =
            value.ok_or_else(|| Error::invalid("custom_metadata values must be strings"))?;
        if name.is_empty() || name.len() > CUSTOM_KEY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a key of custom_metadata must have 1 to {CUSTOM_KEY_BYTES_MAX} bytes"
            )));
        }
        if value.len() > CUSTOM_VALUE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a value of custom_metadata must have at most {CUSTOM_VALUE_BYTES_MAX} bytes"
            )));
        }
    }
    Ok(custom.clone())
}
