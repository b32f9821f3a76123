//! Which timer a request counts for, by its path, and how long the mounts take.

use std::time::Duration;

use kallisto_auth::Operation;
use kallisto_engine::Class;

use super::stages::NextStep;
use crate::api::request::Request;
use crate::caller::spelling::SYSTEM;
use crate::state::Core;
use crate::state::metrics::namespace_of;
use crate::timers::Timer;

/// The timer of a request that is to be dispatched; most have none.
pub(super) fn timer_of(request: &Request<'_>, step: &NextStep<'_, '_>) -> Option<Timer> {
    match step {
        NextStep::Open(open) if open.class() == Class::Auth && request.operation.writes() => {
            Some(Timer::HandleLogin)
        }
        NextStep::Call(_) | NextStep::Limited(_) => {
            of_path(request.path.as_str(), request.operation)
        }
        NextStep::System(_) | NextStep::Open(_) | NextStep::Respond(_) => None,
    }
}

/// The timer of a path.
fn of_path(path: &str, operation: Operation) -> Option<Timer> {
    if let Some(verb) = path.strip_prefix("auth/token/") {
        return match verb.split('/').next()? {
            "lookup" | "lookup-self" | "lookup-accessor" => Some(Timer::TokenLookup),
            "renew" | "renew-self" | "renew-accessor" => Some(Timer::TokenRenew),
            "revoke" | "revoke-self" | "revoke-accessor" | "revoke-orphan" => {
                Some(Timer::TokenRevoke)
            }
            _ => None,
        };
    }
    let inside = path.strip_prefix(SYSTEM)?;
    if let Some(name) = inside.strip_prefix("policies/acl").or(inside.strip_prefix("policy")) {
        let is_all = name.trim_matches('/').is_empty();
        return match operation {
            Operation::List | Operation::Scan => Some(Timer::PolicyList),
            Operation::Read if is_all => Some(Timer::PolicyList),
            Operation::Read => Some(Timer::PolicyGet),
            Operation::Update | Operation::Patch => Some(Timer::PolicySet),
            Operation::Delete => Some(Timer::PolicyDelete),
            Operation::Recover => None,
        };
    }
    let of_leases = |verb: &str| match verb.split('/').next()? {
        "renew" => Some(Timer::LeaseRenew),
        "revoke" => Some(Timer::LeaseRevoke),
        "revoke-prefix" => Some(Timer::LeaseRevokePrefix),
        "revoke-force" => Some(Timer::LeaseRevokeForce),
        _ => None,
    };
    match inside {
        "step-down" => Some(Timer::StepDown),
        _ => of_leases(inside.strip_prefix("leases/").unwrap_or(inside)),
    }
}

impl Core {
    /// Counts a request for its mount.
    pub(super) fn note_route(&self, request: &Request<'_>, begin: Duration) {
        let took = self.services.timers.now().saturating_sub(begin);
        let Ok(context) = self.namespace_context(request.namespace) else { return };
        let Some((mount, _)) = context.view.mounts.route(request.path.as_str()) else { return };
        let namespace = match namespace_of(&context.view) {
            root if root == "root" => String::new(),
            path => path,
        };
        let name = format!("{namespace}{}", mount.entry.path);
        let max = self.info.metrics.cardinality_max;
        self.metrics.routes.record(&name, request.operation, took, max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, open_core, request};

    #[test]
    fn paths_have_the_timers_of_vault() {
        for (path, operation, timer) in [
            ("auth/token/lookup-self", Operation::Read, Some(Timer::TokenLookup)),
            ("auth/token/renew", Operation::Update, Some(Timer::TokenRenew)),
            ("auth/token/revoke-accessor", Operation::Update, Some(Timer::TokenRevoke)),
            ("auth/token/roles/a", Operation::Read, None),
            ("sys/policies/acl/a", Operation::Update, Some(Timer::PolicySet)),
            ("sys/policy/a", Operation::Delete, Some(Timer::PolicyDelete)),
            ("sys/policy", Operation::Read, Some(Timer::PolicyList)),
            ("sys/policy/a", Operation::Read, Some(Timer::PolicyGet)),
            ("sys/policies/acl", Operation::List, Some(Timer::PolicyList)),
            ("sys/leases/revoke-prefix/a", Operation::Update, Some(Timer::LeaseRevokePrefix)),
            ("sys/renew", Operation::Update, Some(Timer::LeaseRenew)),
            ("sys/step-down", Operation::Update, Some(Timer::StepDown)),
            ("secret/data/renew", Operation::Update, None),
        ] {
            assert_eq!(of_path(path, operation), timer, "{path}");
        }
    }

    #[test]
    fn each_way_to_end_leases_has_its_timer() {
        for (path, timer) in [
            ("sys/leases/renew/a", Timer::LeaseRenew),
            ("sys/leases/revoke", Timer::LeaseRevoke),
            ("sys/revoke/a/b", Timer::LeaseRevoke),
            ("sys/leases/revoke-prefix/a", Timer::LeaseRevokePrefix),
            ("sys/leases/revoke-force/a", Timer::LeaseRevokeForce),
            ("sys/revoke-force/a", Timer::LeaseRevokeForce),
        ] {
            assert_eq!(of_path(path, Operation::Update), Some(timer), "{path}");
        }
    }

    #[test]
    fn mounts_are_timed_by_their_namespace_and_path() {
        let core = open_core(RouteAccess::Token);
        core.metrics.routes.turn_on();
        for (operation, path, body) in [
            (Operation::Update, "sys/namespaces/team", "{}"),
            (Operation::Update, "team/sys/mounts/kv", r#"{"type":"kv-v2"}"#),
            (Operation::Update, "team/kv/data/a", r#"{"data":{"v":"1"}}"#),
            (Operation::Read, "secret/data/a", ""),
            (Operation::Read, "nowhere/a", ""),
        ] {
            let _ = pollster::block_on(core.handle(&request(Some(ROOT), operation, path, body)));
        }
        let timed: Vec<_> = core.metrics.routes.all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(timed, ["secret_", "sys_", "team_kv_", "team_sys_"]);
    }
}
