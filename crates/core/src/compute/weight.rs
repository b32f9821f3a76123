//! Which requests are heavy.
//!
//! Judged before a request is authenticated, by what is known at once: its body's length, its route, the size of what it
//! is about where that is one look away, and whether its token's policies have to be compiled. Only routes that are named
//! here are light; all others, rare as they are, are answered beside the workers.

use jiff::Timestamp;
use kallisto_auth::Operation;

use crate::admission::Cost;
use crate::compute::pool::TURN;
use crate::mount::EngineKind;
use crate::namespace::{self, Home};
use crate::request::Request;
use crate::state::{Core, Unsealed};
use crate::token;
use crate::view::{LiveToken, Mount, Readiness, View};
use crate::{kv, transit};

/// Longest body that is parsed where it arrived: it is parsed up to five times, by the decision, by the audit and by its
/// handler, and all of it takes less than a millisecond.
pub(crate) const LIGHT_BODY_BYTES_MAX: usize = 16 << 10;
/// Most rules of a token's policies that are compiled where its request arrived.
const LIGHT_RULES_MAX: usize = 512;
/// Bytes of a body that are worth a turn.
const TURN_BYTES: usize = 64 << 10;

/// Routes below `sys/` by which operators see how a server is, open and close it. They do next to nothing, and have to
/// answer whatever else is under way.
const LIGHT_SYSTEM: [&str; 7] =
    ["health", "init", "leader", "seal", "seal-status", "step-down", "unseal"];

/// What answering a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Less than a millisecond of a processor.
    Light,
    /// Perhaps more; the cost is that of its first turn.
    Heavy(Cost),
}

impl Core {
    /// What parsing so many bytes takes, and making something of them.
    pub fn weigh_bytes(&self, bytes: usize) -> Weight {
        if bytes <= LIGHT_BODY_BYTES_MAX {
            return Weight::Light;
        }
        let turns = Cost::try_from(bytes / TURN_BYTES).unwrap_or(Cost::MAX);
        Weight::Heavy(turns.saturating_add(TURN))
    }

    /// What answering a request takes.
    pub fn weigh(&self, request: &Request<'_>) -> Weight {
        let of_body = self.weigh_bytes(request.body.len());
        if of_body != Weight::Light {
            return of_body;
        }
        let heavy = Weight::Heavy(TURN);
        let unsealed = self.unsealed.load();
        let Some(root) = unsealed.as_ref() else { return Weight::Light };
        if request.namespace.is_empty() && root.view.namespaces.is_empty() {
            return if is_light(root, request) { Weight::Light } else { heavy };
        }
        // A refusal is soon told.
        let Ok(placed) = namespace::resolve(self, request) else { return Weight::Light };
        let inner = placed.as_ref().map(|placed| placed.request(request));
        let request = inner.as_ref().unwrap_or(request);
        match self.site_of(request.namespace) {
            Ok(site) if !is_light(&site, request) => heavy,
            _ => Weight::Light,
        }
    }
}

fn is_light(unsealed: &Unsealed, request: &Request<'_>) -> bool {
    let routed = unsealed.view.mounts.route(request.path.as_str());
    let is_light =
        routed.is_none_or(|(mount, inside)| is_light_route(unsealed, request, &mount, inside));
    is_light && !has_heavy_policies(unsealed, request)
}

/// Whether the route is a light one, its body being small; `path` is inside the mount.
fn is_light_route(unsealed: &Unsealed, request: &Request<'_>, mount: &Mount, path: &str) -> bool {
    let lists = matches!(request.operation, Operation::List | Operation::Scan);
    match mount.entry.kind {
        EngineKind::KvV1 | EngineKind::KvV2 | EngineKind::KvUpgrading => {
            !kv::long::is_long(request, mount, path)
        }
        EngineKind::System => LIGHT_SYSTEM.contains(&path.trim_end_matches('/')),
        EngineKind::Transit => transit::is_light(unsealed, mount, path),
        EngineKind::Cubbyhole => !lists,
        // What tidies looks at every record there is.
        EngineKind::Token | EngineKind::AppRole | EngineKind::Userpass => {
            !lists && !path.starts_with("tidy")
        }
        // Trees of groups, chains of certificates, sets of keys.
        EngineKind::Identity | EngineKind::Cert | EngineKind::Jwt | EngineKind::Kubernetes => false,
    }
}

/// Whether policies with many rules have to be compiled to judge a request.
fn has_heavy_policies(unsealed: &Unsealed, request: &Request<'_>) -> bool {
    let of_token = |view: &View, is_heavy: &dyn Fn(&LiveToken) -> bool| {
        let guard = view.tokens.pin();
        token::find(view, request.token, &guard).is_ok_and(|(_, live)| is_heavy(live))
    };
    match unsealed.home_of(request.token) {
        Ok(Home::Here) => {
            let view = &unsealed.view;
            of_token(view, &|live| is_heavy_to_judge(view, live, request.now))
        }
        // What a token grants below its own namespace is compiled for each request.
        Ok(Home::Above { site, .. }) => {
            of_token(&site.view, &|live| has_many_rules(&site.view, live))
        }
        Err(_) => false,
    }
}

/// Whether judging a token's request takes long.
pub(crate) fn is_heavy_to_judge(view: &View, live: &LiveToken, now: Timestamp) -> bool {
    match live.readiness(view, now) {
        Readiness::Ready => false,
        Readiness::Wide => true,
        Readiness::Stale => has_many_rules(view, live),
    }
}

/// Whether what a token grants takes long to compile.
fn has_many_rules(view: &View, live: &LiveToken) -> bool {
    let shared = live.shared();
    // An entity's groups are not counted: there may be many of them, and many policies of each.
    shared.entity_id.is_some() || view.policies.rule_count(&shared.auth.policies) > LIGHT_RULES_MAX
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_auth::Path;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::random::RequestId;
    use crate::request::{BodyKind, Headers, TokenText};
    use crate::routes::tests::{OPERATIONS, rows};
    use crate::state::ServerInfo;

    /// The routes of which every operation is light. A new one is heavy until somebody writes it down here, having looked
    /// at what it does.
    const LIGHT: [&str; 59] = [
        "auth/approle/login",
        "auth/approle/role/{role}",
        "auth/approle/role/{role}/bind-secret-id",
        "auth/approle/role/{role}/bound-cidr-list",
        "auth/approle/role/{role}/custom-secret-id",
        "auth/approle/role/{role}/local-secret-ids",
        "auth/approle/role/{role}/period",
        "auth/approle/role/{role}/policies",
        "auth/approle/role/{role}/role-id",
        "auth/approle/role/{role}/secret-id-accessor/destroy",
        "auth/approle/role/{role}/secret-id-accessor/lookup",
        "auth/approle/role/{role}/secret-id-bound-cidrs",
        "auth/approle/role/{role}/secret-id-num-uses",
        "auth/approle/role/{role}/secret-id-ttl",
        "auth/approle/role/{role}/secret-id/destroy",
        "auth/approle/role/{role}/secret-id/lookup",
        "auth/approle/role/{role}/token-bound-cidrs",
        "auth/approle/role/{role}/token-max-ttl",
        "auth/approle/role/{role}/token-num-uses",
        "auth/approle/role/{role}/token-ttl",
        "auth/token/create",
        "auth/token/create-orphan",
        "auth/token/create/{role_name}",
        "auth/token/lookup",
        "auth/token/lookup-accessor",
        "auth/token/lookup-self",
        "auth/token/renew",
        "auth/token/renew-accessor",
        "auth/token/renew-self",
        "auth/token/revoke",
        "auth/token/revoke-accessor",
        "auth/token/revoke-orphan",
        "auth/token/revoke-self",
        "auth/token/roles/{name}",
        "auth/userpass/login/{name}",
        "auth/userpass/users/{name}",
        "auth/userpass/users/{name}/password",
        "auth/userpass/users/{name}/policies",
        "one/{path..}",
        "secret/config",
        "secret/data/{path..}",
        "secret/delete/{path..}",
        "secret/destroy/{path..}",
        "secret/detailed-metadata/{path..}",
        "secret/metadata/{path..}",
        "secret/subkeys/{path..}",
        "secret/undelete/{path..}",
        "sys/health",
        "sys/init",
        "sys/leader",
        "sys/seal",
        "sys/seal-status",
        "sys/step-down",
        "sys/unseal",
        "transit/hash",
        "transit/hash/{urlalgorithm}",
        "transit/random",
        "transit/random/{source}",
        "transit/random/{source}/{urlbytes}",
    ];

    fn core() -> Core {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        for (path, body) in [
            ("sys/auth/approle", r#"{"type":"approle"}"#),
            ("sys/auth/cert", r#"{"type":"cert"}"#),
            ("sys/auth/jwt", r#"{"type":"jwt"}"#),
            ("sys/auth/kubernetes", r#"{"type":"kubernetes"}"#),
            ("sys/auth/userpass", r#"{"type":"userpass"}"#),
            ("sys/mounts/one", r#"{"type":"kv","options":{"version":"1"}}"#),
            ("sys/mounts/transit", r#"{"type":"transit"}"#),
            ("transit/keys/aes", "{}"),
            ("transit/keys/rsa", r#"{"type":"rsa-2048"}"#),
        ] {
            let asked = request(Operation::Update, path, body.as_bytes());
            pollster::block_on(core.handle(&asked)).unwrap();
        }
        core
    }

    fn request<'r>(operation: Operation, path: &'r str, body: &'r [u8]) -> Request<'r> {
        Request {
            id: RequestId::make(),
            operation,
            path: Path::literal(path).unwrap(),
            namespace: "",
            token: Some(TokenText::new("root")),
            query: Vec::new(),
            body,
            body_kind: BodyKind::Json,
            wrap_ttl_secs: 0,
            now: Timestamp::UNIX_EPOCH,
            remote: None,
            client_chain: &[],
            headers: Headers::default(),
        }
    }

    #[test]
    fn the_light_routes_are_those_that_were_looked_at() {
        let core = core();
        let mut light = Vec::new();
        for (base, row) in rows() {
            let path = format!("{base}{}", row.pattern.replace("..}", "}").replace(['{', '}'], ""));
            let taken = OPERATIONS.into_iter().filter(|&operation| row.takes(operation));
            let is_light = |&operation: &Operation| {
                core.weigh(&request(operation, &path, b"")) == Weight::Light
            };
            if taken.clone().filter(is_light).count() == taken.count() {
                light.push(format!("{base}{}", row.pattern));
            }
        }
        light.sort();
        assert_eq!(light, LIGHT);
    }

    #[test]
    fn a_large_body_makes_any_route_heavy_and_costs_as_much_as_it_is_long() {
        let core = core();
        let body = vec![b' '; 1 << 20];
        for (base, row) in rows() {
            let path = format!("{base}{}", row.pattern.replace("..}", "}").replace(['{', '}'], ""));
            for operation in OPERATIONS {
                let weight = core.weigh(&request(operation, &path, &body));
                assert_eq!(weight, Weight::Heavy(17), "{path}");
            }
        }
    }

    #[test]
    fn a_key_that_is_used_decides_what_using_it_takes() {
        let core = core();
        let weigh = |path: &str| core.weigh(&request(Operation::Update, path, b"{}"));
        // A key is looked at when it is first used.
        assert!(matches!(weigh("transit/encrypt/aes"), Weight::Heavy(_)));
        for (path, body) in [
            ("transit/encrypt/aes", r#"{"plaintext":"aGk="}"#),
            ("transit/sign/rsa", r#"{"input":"aGk="}"#),
        ] {
            let asked = request(Operation::Update, path, body.as_bytes());
            pollster::block_on(core.handle(&asked)).unwrap();
        }
        for path in ["encrypt/aes", "decrypt/aes", "rewrap/aes", "hmac/aes", "datakey/wrapped/aes"]
        {
            assert_eq!(weigh(&format!("transit/{path}")), Weight::Light, "{path}");
        }
        for path in ["encrypt/rsa", "verify/rsa", "hmac/rsa/sha2-512", "datakey/plaintext/rsa"] {
            assert_eq!(weigh(&format!("transit/{path}")), Weight::Light, "{path}");
        }
        for path in ["decrypt/rsa", "rewrap/rsa", "sign/rsa", "sign/rsa/sha2-512"] {
            assert!(matches!(weigh(&format!("transit/{path}")), Weight::Heavy(_)), "{path}");
        }
    }
}
