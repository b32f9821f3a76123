//! The system endpoints at `sys/`.
//!
//! [`routes`] has a row for each of them, with who may ask and what runs. `pipeline::open_routes` says of a request whether it is answered
//! without a token.

mod access;
mod audit;
mod audit_follow;
mod audit_records;
mod autopilot;
mod capabilities;
mod cluster_state;
mod durability;
mod explain;
mod explain_subject;
mod far_ends;
mod health;
mod init;
mod leftovers;
mod locked_users;
mod mounts;
mod namespaces;
mod observe;
pub(crate) mod passwords;
mod pgp;
mod policies;
mod policy_check;
mod quotas;
#[cfg(test)]
mod races;
pub(crate) mod raft;
mod rekey;
mod remount;
mod root;
mod rotate;
mod rotation;
pub(crate) mod routes;
mod status;
mod tools;
mod tune;
pub(crate) mod ui;
mod ui_settings;
mod web;

use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::{self, AnyoneCall};
use crate::dispatch::server_engine::{EngineAnswer, RunningRequest, ServerEngine, Weighed};
use crate::view::NamespaceContext;
use kallisto_engine::Routes;

pub(crate) use autopilot::{clean_up, health, look_for_sealed};
pub(crate) use leftovers::clear_cut_short;
pub(crate) use rotation::rotate_due;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;

/// The server's own endpoints, at `sys/`.
pub(crate) struct System;

impl ServerEngine for System {
    fn routes(&self) -> &'static dyn Routes {
        &routes::SYSTEM
    }

    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a> {
        route_handler::answer(&routes::SYSTEM, run)
    }

    fn answer_anyone<'a>(&self, path: &str, call: AnyoneCall<'a>) -> EngineAnswer<'a> {
        route_handler::answer_anyone(&routes::SYSTEM, path, call)
    }

    fn answer_any_token(
        &self,
        path: &str,
        context: &NamespaceContext,
        request: &Request<'_>,
        caller: &CallerPolicies,
    ) -> Option<Result<Response, Error>> {
        route_handler::answer_any_token(&routes::SYSTEM, path, context, request, caller)
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        routes::SYSTEM.find(weighed.path).is_some_and(|route| route.is_light)
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, open_core, request};

    #[test]
    fn what_its_row_says_is_quick_is_answered_by_who_reads_the_request() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let mount = context.view.mounts.at("sys/").unwrap();
        let is_light = |path| {
            let request = request(Some(ROOT), Operation::Read, "sys/any", "");
            let weighed = Weighed {
                context: &context,
                request: &request,
                mount: &mount,
                path,
                lists: false,
                is_audited: &|| false,
            };
            System.is_light(&weighed)
        };
        assert!(is_light("health") && is_light("seal-status"));
        assert!(!is_light("policies/acl/p") && !is_light("nowhere"));
    }
}
