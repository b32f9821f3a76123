//! Who the bearers of tokens are: entities, their aliases with login methods, and groups.
//!
//! A login names its user by an alias; the alias belongs to an entity; the entity is in groups, and
//! groups are in groups. A token's policies are its own, its entity's and those of all these groups,
//! as they are when it is used.
//!
//! Everything is kept twice: as records in the mount's engine storage, and decoded in the [`Directory`], which
//! the fold fills and from which every question is answered. Changes are [drafts](draft) over
//! records, committed on the condition that nothing they read has changed.
//!
//! Invariants:
//! - A name, and an alias, belongs to one entity; an entity has at most one alias with each login
//!   method.
//! - No group is inside itself, and at most a named number of groups lie inside each other.
//! - An entity that is disabled or gone leaves its tokens with nothing they may do.

mod aliases;
mod directory;
mod draft;
mod entities;
mod group_aliases;
mod groups;
mod login;
mod lookup;
mod merge;
mod names;
mod record;
mod routes;
mod wire;

use crate::engines::server_engine::{
    Answer, BuiltinMount, EngineFacts, Run, ServerEngine, Weighed,
};
use crate::storage::keys::MountId;
use crate::view::Memory;
use kallisto_auth::Operation;
use kallisto_engine::{Class, Routes};

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::pipeline::state::{Call, NamespaceContext};
use crate::view::Mount;

pub(crate) use directory::{Directory, Effect, Person, Watch};
pub(crate) use login::log_in;
pub(crate) use record::Id;

/// What a request to the identity engine is about.
struct Site<'s> {
    unsealed: &'s NamespaceContext,
    mount: &'s Mount,
    directory: &'s Directory,
    call: &'s Call<'s, 's>,
}

/// The directory of an identity mount.
///
/// # Errors
/// When the mount is none, which is damage.
fn directory_of(mount: &Mount) -> Result<&Directory, Error> {
    mount.memory.directory().ok_or_else(|| Error::internal(&"the identity mount has no directory"))
}

/// Answers a request; `path` is inside the mount.
pub(crate) async fn handle(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{List, Update};
    let site = &Site { unsealed, mount, directory: directory_of(mount)?, call };
    let operation = call.operation;
    match (path, operation) {
        ("entity", Update) => entities::write(site, entities::Target::Body).await,
        ("entity/id", List) => entities::list_ids(site),
        ("entity/name", List) => entities::list_names(site),
        ("entity/merge", Update) => merge::merge(site).await,
        ("entity/batch-delete", Update) => entities::batch_delete(site).await,
        ("entity-alias" | "alias", Update) => aliases::write(site, None).await,
        ("entity-alias/id" | "alias/id", List) => aliases::list(site),
        ("group", Update) => groups::write(site, groups::Target::Body).await,
        ("group/id", List) => groups::list_ids(site),
        ("group/name", List) => groups::list_names(site),
        ("group-alias", Update) => group_aliases::write(site, None).await,
        ("group-alias/id", List) => group_aliases::list(site),
        ("lookup/entity", Update) => lookup::entity(site),
        ("lookup/group", Update) => lookup::group(site),
        ("entity" | "entity-alias" | "alias" | "group" | "group-alias", List) => {
            Err(Error::UnsupportedPath)
        }
        (
            "entity"
            | "entity/id"
            | "entity/name"
            | "entity/merge"
            | "entity/batch-delete"
            | "entity-alias"
            | "entity-alias/id"
            | "alias"
            | "alias/id"
            | "group"
            | "group/id"
            | "group/name"
            | "group-alias"
            | "group-alias/id"
            | "lookup/entity"
            | "lookup/group",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => handle_one(site, path).await,
    }
}

/// Answers a request about one entity, group or alias.
async fn handle_one(site: &Site<'_>, path: &str) -> Result<Response, Error> {
    use Operation::{Delete, Read, Update};
    let (family, way, which) = split(path).ok_or(Error::UnsupportedPath)?;
    match (family, way, site.call.operation) {
        ("entity", "id", Read) => entities::read_id(site, which),
        ("entity", "id", Update) => entities::write(site, entities::Target::Id(which)).await,
        ("entity", "id", Delete) => entities::delete_id(site, which).await,
        ("entity", "name", Read) => entities::read_name(site, which),
        ("entity", "name", Update) => entities::write(site, entities::Target::Name(which)).await,
        ("entity", "name", Delete) => entities::delete_name(site, which).await,
        ("entity-alias" | "alias", "id", Read) => aliases::read(site, which),
        ("entity-alias" | "alias", "id", Update) => aliases::write(site, Some(which)).await,
        ("entity-alias" | "alias", "id", Delete) => aliases::delete(site, which).await,
        ("group", "id", Read) => groups::read_id(site, which),
        ("group", "id", Update) => groups::write(site, groups::Target::Id(which)).await,
        ("group", "id", Delete) => groups::delete_id(site, which).await,
        ("group", "name", Read) => groups::read_name(site, which),
        ("group", "name", Update) => groups::write(site, groups::Target::Name(which)).await,
        ("group", "name", Delete) => groups::delete_name(site, which).await,
        ("group-alias", "id", Read) => group_aliases::read(site, which),
        ("group-alias", "id", Update) => group_aliases::write(site, Some(which)).await,
        ("group-alias", "id", Delete) => group_aliases::delete(site, which).await,
        ("entity" | "group", "id" | "name", _)
        | ("entity-alias" | "alias" | "group-alias", "id", _) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

/// `entity/name/a/b` is of the family `entity`, by `name`, and the name is `a/b`.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let (family, rest) = path.split_once('/')?;
    let (way, which) = rest.split_once('/')?;
    (!which.is_empty()).then_some((family, way, which))
}

fn not_empty(names: Vec<String>) -> Result<Vec<String>, Error> {
    if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
}

/// `keys` and `key_info`.
fn list_reply(entries: impl Iterator<Item = (String, Json)>) -> Result<Response, Error> {
    let info: Map = entries.collect();
    let keys = not_empty(info.keys().cloned().collect())?;
    Ok(Response::data(&Json::object([("keys", Json::strings(keys)), ("key_info", info.into())])))
}

/// Who bearers of tokens are, at `identity/`.
pub(crate) struct Identity;

/// Where it is.
const MOUNT: BuiltinMount =
    BuiltinMount { id: MountId::IDENTITY, path: "identity/", description: "identity store" };

impl ServerEngine for Identity {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &["entity/name/", "group/name/"];
        EngineFacts {
            caseless_folders,
            trims_names: true,
            ..EngineFacts::builtin("identity", Class::Secret, MOUNT)
        }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::IDENTITY
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        Box::pin(async move { handle(&run.unsealed, run.call, run.mount, run.path).await })
    }

    fn memory(&self) -> Memory {
        Memory::Identity(Box::default())
    }

    /// Trees of groups take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}
