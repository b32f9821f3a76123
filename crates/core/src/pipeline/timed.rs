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

/// The timers of what is done to tokens, by the route below `auth/token/`.
const OF_TOKENS: [(&str, Timer); 10] = [
    ("lookup", Timer::TokenLookup),
    ("lookup-self", Timer::TokenLookup),
    ("lookup-accessor", Timer::TokenLookup),
    ("renew", Timer::TokenRenew),
    ("renew-self", Timer::TokenRenew),
    ("renew-accessor", Timer::TokenRenew),
    ("revoke", Timer::TokenRevoke),
    ("revoke-self", Timer::TokenRevoke),
    ("revoke-accessor", Timer::TokenRevoke),
    ("revoke-orphan", Timer::TokenRevoke),
];
/// The timers of what is done to leases, by the route below `sys/` and `sys/leases/`.
const OF_LEASES: [(&str, Timer); 4] = [
    ("renew", Timer::LeaseRenew),
    ("revoke", Timer::LeaseRevoke),
    ("revoke-prefix", Timer::LeaseRevokePrefix),
    ("revoke-force", Timer::LeaseRevokeForce),
];
const STEP_DOWN: &str = "step-down";
const POLICIES: [&str; 2] = ["policies/acl", "policy"];

/// The timer of a path.
fn of_path(path: &str, operation: Operation) -> Option<Timer> {
    let of_verb = |timers: &[(&str, Timer)], verb: &str| {
        let verb = verb.split('/').next()?;
        timers.iter().find(|(name, _)| *name == verb).map(|(_, timer)| *timer)
    };
    if let Some(verb) = path.strip_prefix("auth/token/") {
        return of_verb(&OF_TOKENS, verb);
    }
    let inside = path.strip_prefix(SYSTEM)?;
    if let Some(name) = POLICIES.iter().find_map(|base| inside.strip_prefix(base)) {
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
    match inside {
        STEP_DOWN => Some(Timer::StepDown),
        _ => inside.strip_prefix("leases/").and_then(|verb| of_verb(&OF_LEASES, verb)),
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
            ("sys/leases/renew", Operation::Update, Some(Timer::LeaseRenew)),
            ("sys/renew", Operation::Update, None),
            ("sys/step-down", Operation::Update, Some(Timer::StepDown)),
            ("secret/data/renew", Operation::Update, None),
        ] {
            assert_eq!(of_path(path, operation), timer, "{path}");
        }
    }

    #[test]
    fn what_is_timed_by_its_path_is_a_route() {
        let tokens = OF_TOKENS.iter().map(|(name, _)| format!("auth/token/{name}"));
        let leases = OF_LEASES.iter().map(|(name, _)| format!("sys/leases/{name}"));
        let others = POLICIES.iter().chain([&STEP_DOWN]).map(|name| format!("sys/{name}"));
        for path in tokens.chain(leases).chain(others) {
            let at = |path: &str| crate::registry::builtin_route(path).is_some();
            assert!(at(&path) || at(&format!("{path}/a")), "{path}");
        }
    }

    #[test]
    fn each_way_to_end_leases_has_its_timer() {
        for (path, timer) in [
            ("sys/leases/renew/a", Timer::LeaseRenew),
            ("sys/leases/revoke", Timer::LeaseRevoke),
            ("sys/leases/revoke/a/b", Timer::LeaseRevoke),
            ("sys/leases/revoke-prefix/a", Timer::LeaseRevokePrefix),
            ("sys/leases/revoke-force/a", Timer::LeaseRevokeForce),
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
