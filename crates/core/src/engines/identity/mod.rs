//! Who the bearers of tokens are: entities, their aliases with login methods, and groups.
//!
//! A login names its user by an alias; the alias belongs to an entity; the entity is in groups, and
//! groups are in groups. A token's policies are its own, its entity's and those of all these groups,
//! as they are when it is used.
//!
//! Everything is kept twice: as records in the mount's engine storage, and decoded in the [`IdentityDirectory`](crate::identity::directory::IdentityDirectory), which
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
pub(crate) mod mfa;
mod routes;
mod site;
mod wire;

use crate::dispatch::route_handler;
use crate::dispatch::server_engine::{
    EngineAnswer, OpenRun, RunningRequest, ServerEngine, Weighed,
};
use crate::records::engine_set::engine_set;
use kallisto_engine::{EngineSpec, Route, Routes};

pub(crate) use login::{LoginAlias, log_in, refresh_groups};

/// Who bearers of tokens are, at `identity/`. What is at `identity/oidc/` knows the server by its contract alone.
pub(crate) struct IdentityEngine;

/// Whether a path is one of the OIDC provider's.
fn is_of_provider(path: &str) -> bool {
    path.starts_with("oidc/")
}

/// The engine of the OIDC provider.
fn provider() -> &'static EngineSpec {
    engine_set().identity_oidc
}

/// The routes of both.
struct AllRoutes;

impl Routes for AllRoutes {
    fn name(&self) -> &'static str {
        routes::IDENTITY.name
    }

    fn tag(&self) -> &'static str {
        routes::IDENTITY.tag
    }

    fn about(&self) -> &'static str {
        routes::IDENTITY.about
    }

    fn routes(&self) -> Box<dyn Iterator<Item = &'static Route>> {
        Box::new(routes::IDENTITY.routes().chain(provider().routes.routes()))
    }

    fn find(&self, path: &str) -> Option<&'static Route> {
        if is_of_provider(path) {
            provider().routes.find(path)
        } else {
            routes::IDENTITY.find(path)
        }
    }

    /// Nothing of its own is made by an update of its path.
    fn may_create(&self, path: &str) -> bool {
        is_of_provider(path) && provider().routes.may_create(path)
    }

    fn has_rights(&self) -> bool {
        routes::IDENTITY.has_rights() || provider().routes.has_rights()
    }

    fn has_open(&self) -> bool {
        routes::IDENTITY.has_open() || provider().routes.has_open()
    }
}

impl ServerEngine for IdentityEngine {
    fn routes(&self) -> &'static dyn Routes {
        &AllRoutes
    }

    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a> {
        if is_of_provider(run.path) {
            return provider().handle(run);
        }
        route_handler::answer(&routes::IDENTITY, run)
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> EngineAnswer<'a> {
        provider().handle_open(run)
    }

    /// Trees of groups take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_of_both_go_by_the_name_of_one_and_have_what_either_has() {
        let own = &routes::IDENTITY;
        assert_eq!(AllRoutes.name(), own.name);
        assert_eq!(AllRoutes.tag(), own.tag);
        assert_eq!(AllRoutes.about(), own.about);
        assert!([own.name, own.tag, own.about].iter().all(|text| !text.is_empty()));
        assert_eq!(AllRoutes.has_rights(), own.has_rights() || provider().routes.has_rights());
        assert!(AllRoutes.has_open(), "the keys of the provider are everybody's");
        assert!(provider().routes.has_open() && !own.has_open());
        for path in ["entity", "oidc/key/k"] {
            assert!(AllRoutes.find(path).is_some(), "{path}");
        }
    }
}
