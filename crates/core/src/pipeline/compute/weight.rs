//! Which requests are heavy.
//!
//! Judged before a request is authenticated, by what is known at once: its body's length, its route, the size of what it
//! is about where that is one look away, and whether its token's policies have to be compiled. Only routes that are named
//! here are light; all others, rare as they are, are answered beside the workers.

use crate::caller::find;
use crate::limits::LIGHT_BODY_BYTES_MAX;
use jiff::Timestamp;
use kallisto_auth::Operation;

use crate::admission::Cost;
use crate::api::request::Request;
use crate::dispatch::server_engine::Weighed;
use crate::namespaces::TokenHome;
use crate::pipeline::resolve_namespace;
use crate::platform::pool::TURN;
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;
use crate::view::{CachedToken, Mount, Readiness, View};
use kallisto_engine::Route;

/// Most rules of a token's policies that are compiled where its request arrived.
const LIGHT_RULES_MAX: usize = 512;
/// Bytes of a body that are worth a turn.
const TURN_BYTES: usize = 64 << 10;

/// What the names of fields with OpenPGP keys end in.
const OPENPGP_FIELDS: [&str; 2] = ["pgp_key", "pgp_keys"];

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
        let of_body = self.weigh_bytes(request.body_bytes());
        if of_body != Weight::Light {
            return of_body;
        }
        let heavy = Weight::Heavy(TURN);
        let context = self.context.load();
        let Some(root) = context.as_ref() else {
            return if is_heavy_while_sealed(request) { heavy } else { Weight::Light };
        };
        if request.namespace.is_empty() && root.view.namespaces.is_empty() {
            return if self.is_light(root, request) { Weight::Light } else { heavy };
        }
        // A refusal is soon told.
        let Ok(placed) = resolve_namespace::resolve(self, request) else { return Weight::Light };
        let inner = placed.as_ref().map(|placed| placed.request(request));
        let request = inner.as_ref().unwrap_or(request);
        match self.namespace_context(request.namespace) {
            Ok(context) if !self.is_light(&context, request) => heavy,
            _ => Weight::Light,
        }
    }

    fn is_light(&self, context: &NamespaceContext, request: &Request<'_>) -> bool {
        let routed = context.view.mounts.route(request.path.as_str());
        let is_light = routed.is_none_or(|(mount, inside)| {
            let is_audited = || self.is_audited(request);
            is_light_route(context, request, &mount, inside, is_audited)
        });
        is_light && !asks_snapshot(request) && !has_heavy_policies(context, request)
    }
}

/// Whether a request to a sealed server may take long: one at a route that takes OpenPGP keys of people to encrypt to, whose signatures are
/// verified first. Its row says so by the names of its fields.
fn is_heavy_while_sealed(request: &Request<'_>) -> bool {
    let takes_keys = |route: &Route| {
        route.fields.iter().any(|field| OPENPGP_FIELDS.iter().any(|end| field.name.ends_with(end)))
    };
    request.body_bytes() > 0
        && registry::builtin_route(request.path.as_str()).is_some_and(takes_keys)
}

/// Whether a loaded snapshot is asked. How long that takes cannot be told from what runs: a secret may have been longer then, and a recovery
/// writes every version of it.
fn asks_snapshot(request: &Request<'_>) -> bool {
    request.operation == Operation::Recover || request.read_snapshot().is_some()
}

/// Whether the route is a light one, its body being small; `path` is inside the mount.
fn is_light_route(
    context: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
    path: &str,
    is_audited: impl Fn() -> bool,
) -> bool {
    let lists = matches!(request.operation, Operation::List | Operation::Scan);
    let weighed = Weighed { context, request, mount, path, lists, is_audited: &is_audited };
    registry::driver(mount.entry.kind).is_light(&weighed)
}

/// Whether policies with many rules have to be compiled to judge a request.
fn has_heavy_policies(context: &NamespaceContext, request: &Request<'_>) -> bool {
    let of_token = |view: &View, is_heavy: &dyn Fn(&CachedToken) -> bool| {
        let guard = view.tokens.pin();
        find::find(view, request.token, request.now, &guard).is_ok_and(|(_, live)| is_heavy(live))
    };
    match context.home_of(request.token) {
        Ok(TokenHome::Here) => {
            let view = &context.view;
            of_token(view, &|live| is_heavy_to_judge(view, live, request.now))
        }
        // What a token grants below its own namespace is compiled for each request.
        Ok(TokenHome::Above { context, .. }) => {
            of_token(&context.view, &|live| has_many_rules(&context.view, live))
        }
        Err(_) => false,
    }
}

/// Whether judging a token's request takes long.
pub(crate) fn is_heavy_to_judge(view: &View, live: &CachedToken, now: Timestamp) -> bool {
    match live.readiness(view, now) {
        Readiness::Ready => false,
        Readiness::Wide => true,
        Readiness::Stale => has_many_rules(view, live),
    }
}

/// Whether what a token grants takes long to compile.
fn has_many_rules(view: &View, live: &CachedToken) -> bool {
    let shared = live.shared();
    // An entity's groups are not counted: there may be many of them, and many policies of each.
    shared.entity_id.is_some() || view.policies.rule_count(&shared.auth.policies) > LIGHT_RULES_MAX
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Path;
    use kallisto_engine::Admits;

    use super::*;
    use crate::api::request::TokenText;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{OPERATIONS, open_core, rows};

    /// The routes of which every operation is light, and whose row does not say so. A new one is heavy until somebody writes it down here, having looked
    /// at what it does.
    const LIGHT: [&str; 32] = [
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
        "one/{path..}",
        "pki/ca",
        "pki/ca/pem",
        "pki/ca_chain",
        "pki/cert/{serial}",
        "pki/cert/{serial}/raw",
        "pki/issuer/{ref}/der",
        "pki/issuer/{ref}/json",
        "pki/issuer/{ref}/pem",
        "pki/ocsp",
        "pki/ocsp/{request..}",
        "secret/data/{path..}",
        "secret/delete/{path..}",
        "secret/destroy/{path..}",
        "secret/import/{path..}",
        "secret/metadata/{path..}",
        "secret/subkeys/{path..}",
        "secret/undelete/{path..}",
    ];

    fn core() -> Core {
        let core = open_core(RouteAccess::Token);
        for (path, body) in
            [("transit/keys/aes", "{}"), ("transit/keys/rsa", r#"{"type":"rsa-2048"}"#)]
        {
            let asked = request(Operation::Update, path, body.as_bytes());
            pollster::block_on(core.handle(&asked)).unwrap();
        }
        core
    }

    fn request<'r>(operation: Operation, path: &'r str, body: &'r [u8]) -> Request<'r> {
        Request {
            token: Some(TokenText::new("root")),
            body,
            ..Request::new(operation, Path::literal(path).unwrap(), Timestamp::UNIX_EPOCH)
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
            let all_are_light = taken.clone().all(|operation| is_light(&operation));
            let lists =
                |operation: &Operation| matches!(operation, Operation::List | Operation::Scan);
            let as_said =
                taken.filter(|operation| !lists(operation)).all(|operation| is_light(&operation));
            assert!(as_said || !row.is_light, "{path} says that it is light");
            if all_are_light && !row.is_light {
                light.push(format!("{base}{}", row.pattern));
            }
        }
        light.sort();
        assert_eq!(light, LIGHT);
    }

    #[test]
    fn what_encrypts_to_openpgp_keys_is_heavy_on_a_server_without_keys() {
        let core = Core::new(
            std::sync::Arc::new(kallisto_store::MemoryStore::new()),
            crate::platform::server_info::ServerInfo::default(),
        );
        let weigh = |path: &str, body: &str| {
            core.weigh(&request(Operation::Update, path, body.as_bytes())) == Weight::Light
        };
        let body = r#"{"secret_shares":1,"secret_threshold":1}"#;
        for path in [
            "sys/init",
            "sys/rekey/init",
            "sys/rekey-recovery-key/init",
            "sys/rotate/root/init",
            "sys/generate-root/attempt",
            "sys/generate-root/attempt/",
            "sys/generate-root-token/attempt",
        ] {
            assert!(!weigh(path, body), "{path}");
        }
        // No other route that answers whoever asks looks at a key of the caller's.
        let is_open = |row: &Route| !matches!(row.admits, Admits::Policy | Admits::AnyToken);
        let open = rows().filter(|(base, row)| *base == "sys/" && is_open(row));
        let heavy: Vec<_> = open
            .map(|(base, row)| format!("{base}{}", row.pattern))
            .filter(|path| !weigh(&path.replace(['{', '}'], ""), body))
            .collect();
        let known = [
            "sys/init",
            "sys/rekey/init",
            "sys/rekey-recovery-key/init",
            "sys/generate-root/attempt",
        ];
        assert_eq!(heavy, known);
        assert!(weigh("sys/init", "") && weigh("sys/unseal", r#"{"key":"00"}"#));
        assert!(weigh("secret/data/a", "{}"));
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

    fn ask(core: &Core, operation: Operation, path: &str, body: &str) {
        let asked = request(operation, path, body.as_bytes());
        pollster::block_on(core.handle(&asked)).unwrap();
    }

    fn secret(bytes: usize) -> String {
        format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(bytes))
    }

    /// What reading and changing a secret takes, by what it is.
    fn weights(core: &Core, name: &str) -> [bool; 6] {
        let is_light = |operation, path: &str, query: &[(&str, &str)], body: &str| {
            let query = query.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
            let path = format!("secret/{path}/{name}");
            let asked =
                Request { query: query.collect(), ..request(operation, &path, body.as_bytes()) };
            core.weigh(&asked) == Weight::Light
        };
        use Operation::{Patch, Read, Update};
        [
            is_light(Read, "data", &[], ""),
            is_light(Read, "data", &[("version", "1")], ""),
            is_light(Read, "subkeys", &[], ""),
            is_light(Patch, "data", &[], "{}"),
            is_light(Read, "metadata", &[], ""),
            is_light(Update, "destroy", &[], r#"{"versions":[1]}"#),
        ]
    }

    #[test]
    fn how_long_a_secret_is_decides_what_reading_it_takes() {
        let core = core();
        for (name, bytes, expected) in [
            ("none", 0, [true; 6]),
            ("short", 10_000, [true; 6]),
            ("longer", 50_000, [true, true, false, false, true, true]),
            ("long", 300_000, [false; 6]),
        ] {
            if bytes > 0 {
                ask(&core, Operation::Update, &format!("secret/data/{name}"), &secret(bytes));
            }
            // The metadata of a long secret is as short as any, and changing it copies the secret.
            let found = weights(&core, name);
            assert_eq!(found, expected, "{name}");
            let kept = core.context.load();
            kept.as_ref().unwrap().view.hot.clear();
            let [data, version, subkeys, patch, _, _] = weights(&core, name);
            let [known, old, parsed, merged, _, _] = expected;
            assert_eq!(
                [data, version, subkeys, patch],
                [known, old, parsed, merged],
                "{name}, from its record"
            );
        }
        // A long version behind a short one.
        ask(&core, Operation::Update, "secret/data/long", &secret(1));
        assert_eq!(weights(&core, "long"), [true, false, true, true, true, true]);
        let query = vec![("version".to_owned(), "1".to_owned())];
        for path in ["secret/data/long", "secret/subkeys/long"] {
            let asked = Request { query: query.clone(), ..request(Operation::Read, path, b"") };
            assert_ne!(core.weigh(&asked), Weight::Light, "{path}");
        }
        ask(&core, Operation::Update, "one/long", &secret(300_000));
        for _ in 0..2 {
            assert_ne!(core.weigh(&request(Operation::Read, "one/long", b"")), Weight::Light);
            assert_eq!(core.weigh(&request(Operation::Read, "one/none", b"")), Weight::Light);
            core.context.load().as_ref().unwrap().view.hot.clear();
        }
    }

    #[test]
    fn what_asks_a_loaded_snapshot_is_heavy() {
        let core = core();
        for path in ["secret/data/none", "secret/metadata/none", "one/none"] {
            assert_eq!(core.weigh(&request(Operation::Read, path, b"")), Weight::Light, "{path}");
            let query = vec![("read_snapshot_id".to_owned(), "id".to_owned())];
            let read = Request { query, ..request(Operation::Read, path, b"") };
            assert_ne!(core.weigh(&read), Weight::Light, "{path}");
            assert_ne!(
                core.weigh(&request(Operation::Recover, path, b"")),
                Weight::Light,
                "{path}"
            );
        }
    }

    #[test]
    fn how_many_versions_a_secret_has_decides_what_its_metadata_takes() {
        let core = core();
        ask(&core, Operation::Update, "secret/metadata/many", r#"{"max_versions":400}"#);
        for at in 1..=400 {
            ask(&core, Operation::Update, "secret/data/many", &secret(1));
            if at == 256 {
                assert_eq!(weights(&core, "many"), [true; 6]);
            }
        }
        let of_metadata = [true, false, false, false, false, false];
        assert_eq!(weights(&core, "many"), of_metadata);
        core.context.load().as_ref().unwrap().view.hot.clear();
        assert_eq!(weights(&core, "many"), [false; 6]);
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

    #[test]
    fn a_body_is_heavy_beyond_its_limit() {
        let core = core();
        assert_eq!(core.weigh_bytes(LIGHT_BODY_BYTES_MAX), Weight::Light);
        assert_eq!(core.weigh_bytes(LIGHT_BODY_BYTES_MAX + 1), Weight::Heavy(TURN));
    }

    /// Whether a read by a new token under a policy of so many rules is light, first and once it was answered.
    fn is_light_under(core: &Core, rules: usize) -> [bool; 2] {
        let rules: String = (0..rules)
            .map(|at| format!(r#"path \"secret/data/a{at}\" {{ capabilities = [\"read\"] }} "#))
            .collect();
        ask(
            core,
            Operation::Update,
            "sys/policies/acl/many",
            &format!(r#"{{"policy":"{rules}"}}"#),
        );
        let token = r#"{"id":"many","policies":["many"],"no_default_policy":true}"#;
        ask(core, Operation::Update, "auth/token/create", token);
        let read = Request {
            token: Some(TokenText::new("many")),
            ..request(Operation::Read, "secret/data/a0", b"")
        };
        let first = core.weigh(&read) == Weight::Light;
        let _ = pollster::block_on(core.handle(&read));
        let then = core.weigh(&read) == Weight::Light;
        ask(core, Operation::Update, "auth/token/revoke", r#"{"token":"many"}"#);
        [first, then]
    }

    #[test]
    fn policies_of_many_rules_make_a_request_heavy_until_they_are_compiled() {
        let core = core();
        assert_eq!(is_light_under(&core, 3), [true; 2]);
        assert_eq!(is_light_under(&core, LIGHT_RULES_MAX), [true; 2]);
        assert_eq!(is_light_under(&core, LIGHT_RULES_MAX + 1), [false, true]);
    }

    #[test]
    fn a_request_weighs_as_much_inside_a_namespace() {
        let core = core();
        ask(&core, Operation::Update, "sys/namespaces/team", "{}");
        ask(&core, Operation::Update, "team/sys/mounts/kv", r#"{"type":"kv-v2"}"#);
        ask(&core, Operation::Update, "team/kv/data/long", &secret(300_000));
        let is_light =
            |path: &str| core.weigh(&request(Operation::Read, path, b"")) == Weight::Light;
        assert!(is_light("team/kv/data/none") && !is_light("team/kv/data/long"));
        assert!(is_light("team/elsewhere") && is_light("secret/data/none"));
        assert!(!is_light("team/sys/mounts"), "a route that nobody looked at");
    }
}
