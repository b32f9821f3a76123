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

use crate::engines::route_handler::{self, RouteCall};
use crate::engines::server_engine::{
    Answer, BuiltinMount, EngineFacts, Run, ServerEngine, Weighed,
};
use crate::storage::keys::MountId;
use crate::view::Memory;
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

impl<'s> Site<'s> {
    fn of(run: &'s RouteCall<'_>) -> Result<Self, Error> {
        let RouteCall { unsealed, call, mount, .. } = run;
        Ok(Site { unsealed, mount, directory: directory_of(mount)?, call })
    }
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
        route_handler::answer(&routes::IDENTITY, run)
    }

    fn memory(&self) -> Memory {
        Memory::Identity(Box::default())
    }

    /// Trees of groups take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}
