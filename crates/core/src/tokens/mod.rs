//! Tokens: who asks, for how long, and what ends with whom.
//!
//! The text of a token exists in the request that carries it and in the reply that first hands it
//! out, nowhere else: records and view are addressed by HMAC-SHA-256 of the text under the cluster's
//! token key.
//!
//! Invariants:
//! - An expiry is an absolute instant, bounded at every write by the token's own maximum and the
//!   server's.
//! - A token that is not an orphan ends with its parent, and so do all below it.
//! - `root` is a kind of token; no list of policies can make one except by a root token's own hand.

mod batch;
mod create;
pub(crate) mod cubbyhole;
mod expire;
mod fields;
pub(crate) mod leases;
mod lookup;
mod marks;
mod renew;
mod revoke;
mod roles;
mod routes;
pub(crate) mod spec;
mod spend;
pub(crate) mod table;
pub(crate) mod tree;

use crate::dispatch::route_handler;
use crate::dispatch::server_engine::{
    EngineAnswer, JudgedTarget, RunningRequest, ServerEngine, Weighed,
};
pub(crate) use create::{capped, capped_period, issue};
pub(crate) use expire::{end_due, take_up_if_cut_short};
use kallisto_engine::Routes;
pub(crate) use lookup::auth_object;
pub(crate) use marks::keep as keep_marks;
pub(crate) use revoke::{revoke_made_below, revoke_tree};
pub(crate) use spend::{UsesLeft, spend};

/// Tokens, at `auth/token/`.
pub(crate) struct TokenEngine;

impl ServerEngine for TokenEngine {
    fn routes(&self) -> &'static dyn Routes {
        &table::TOKEN
    }

    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a> {
        route_handler::answer(&table::TOKEN, run)
    }

    fn creates(&self, update: JudgedTarget<'_>) -> bool {
        let role = update.path.strip_prefix("roles/");
        role.is_some_and(|role| !update.view.token_roles.contains(role))
    }

    /// What tidies looks at every record there is.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        !weighed.lists && !weighed.path.starts_with("tidy")
    }
}
