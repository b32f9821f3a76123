//! Who the bearers of tokens are: entities, their aliases with login methods, and groups.
//!
//! A login names its user by an alias; the alias belongs to an entity; the entity is in groups, and
//! groups are in groups. A token's policies are its own, its entity's and those of all these groups,
//! as they are when it is used.
//!
//! Everything is kept twice: as records in the mount's engine storage, and decoded in the [`Directory`](crate::identity::directory::Directory), which
//! the fold fills and from which every question is answered. Changes are [drafts](draft) over
//! records, committed on the condition that nothing they read has changed.
//!
//! Invariants:
//! - A name, and an alias, belongs to one entity; an entity has at most one alias with each login
//!   method.
//! - No group is inside itself, and at most a named number of groups lie inside each other.
//! - An entity that is disabled or gone leaves its tokens with nothing they may do.

mod aliases;
mod draft;
mod entities;
mod group_aliases;
mod groups;
mod login;
mod lookup;
mod merge;
mod routes;
mod site;
mod wire;

use crate::dispatch::route_handler;
use crate::dispatch::server_engine::{Answer, Run, ServerEngine, Weighed};
use kallisto_engine::Routes;

pub(crate) use login::{Alias, log_in};

/// Who bearers of tokens are, at `identity/`.
pub(crate) struct Identity;

impl ServerEngine for Identity {
    fn routes(&self) -> &'static dyn Routes {
        &routes::IDENTITY
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::IDENTITY, run)
    }

    /// Trees of groups take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}
