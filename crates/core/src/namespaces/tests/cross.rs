//! Every row of the route table, asked from one namespace about another: by all ways to address it, and
//! with everything that names something there. No answer shows anything of it, and none of its records changes.

use kallisto_auth::Operation::{self, List, Read, Update};

use super::{
    ALL, Ask, ROOT, make, number, object, open, policy, records, records_below, root, said,
};
use super::{text, token, with};
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::pipeline::resolve_namespace::is_about_caller;
use crate::routes::Admits;
use crate::routes::tests::{OPERATIONS, rows, sample, sample_of};
use crate::state::Core;
use crate::storage::keys::kind;

/// What stands in everything that is kept in the namespace that is attacked.
const MARK: &str = "blue-mark";

/// Names under which a body may name something.
const FIELDS: [&str; 28] = [
    "token",
    "accessor",
    "lease_id",
    "prefix",
    "id",
    "name",
    "entity_id",
    "canonical_id",
    "alias_id",
    "mount_accessor",
    "alias_name",
    "alias_mount_accessor",
    "group_id",
    "from_entity_ids",
    "to_entity_id",
    "member_entity_ids",
    "member_group_ids",
    "secret_id",
    "secret_id_accessor",
    "role_id",
    "role",
    "policies",
    "path",
    "paths",
    "from",
    "to",
    "ciphertext",
    "entity_alias",
];

/// Fills a namespace with one of everything; what names them.
fn furnish(core: &Core, namespace: &str, mark: &str) -> Vec<String> {
    let here = root(namespace);
    let put = |path: &str, body: &str| here.get(core, Update, path, body);
    for (path, kind) in [("one", "kv"), ("secret", "kv-v2"), ("transit", "transit")] {
        put(&format!("sys/mounts/{path}"), &object(&[("type", kind), ("description", mark)]));
    }
    for kind in ["approle", "cert", "jwt", "kubernetes", "userpass"] {
        put(&format!("sys/auth/{kind}"), &object(&[("type", kind), ("description", mark)]));
    }
    policy(core, namespace, "all", ALL);
    policy(core, namespace, "sample", &format!("# {mark}\npath \"a\" {{ policy = \"read\" }}"));
    put("one/sample", &object(&[("v", mark)]));
    put("secret/data/sample", &format!(r#"{{"data":{{"v":"{mark}"}}}}"#));
    put("secret/metadata/sample", &format!(r#"{{"custom_metadata":{{"v":"{mark}"}}}}"#));
    put("transit/keys/sample", r#"{"exportable":true}"#);
    let plain = data_encoding::BASE64.encode(mark.as_bytes());
    let sealed = put("transit/encrypt/sample", &object(&[("plaintext", &plain)]));
    let rule = "length = 20 rule \"charset\" { charset = \"ab\" }";
    put("sys/policies/password/sample", &object(&[("policy", rule)]));
    put("auth/token/roles/sample", &object(&[("path_suffix", mark)]));
    put("auth/approle/role/sample", &object(&[("token_policies", mark)]));
    let secret_id = put("auth/approle/role/sample/secret-id", "{}");
    let role_id = here.get(core, Read, "auth/approle/role/sample/role-id", "");
    put("auth/userpass/users/sample", &object(&[("password", mark), ("token_policies", mark)]));
    let entity =
        put("identity/entity", &format!(r#"{{"name":"{mark}","metadata":{{"v":"{mark}"}}}}"#));
    let mounts = here.get(core, Read, "sys/auth", "");
    let mount = mounts.get("userpass/").and_then(Json::as_object).unwrap();
    let (entity, accessor) = (text(&entity, "id"), text(mount, "accessor"));
    let alias =
        [("name", mark), ("canonical_id", entity.as_str()), ("mount_accessor", accessor.as_str())];
    let alias = put("identity/entity-alias", &object(&alias));
    let group =
        put("identity/group", &format!(r#"{{"name":"{mark}","metadata":{{"v":"{mark}"}}}}"#));
    let bearer =
        put("auth/token/create", &format!(r#"{{"policies":["all"],"meta":{{"v":"{mark}"}}}}"#));
    let bearer_text = text(&bearer, "client_token");
    with(namespace, &bearer_text).get(core, Update, "cubbyhole/sample", &object(&[("v", mark)]));
    let batch = token(core, namespace, r#"{"type":"batch","no_parent":true,"policies":["all"]}"#);
    let wrapped = Ask { wrap_ttl_secs: 60, ..here }.get(core, Read, "secret/data/sample", "");
    let leases = here.get(core, List, "sys/leases/lookup/auth/token/create", "");
    let Some(Json::Array(leases)) = leases.get("keys") else { panic!("{leases:?}") };
    let mut names: Vec<String> = leases
        .iter()
        .map(|lease| format!("auth/token/create/{}", lease.as_str().unwrap()))
        .collect();
    names.extend([
        text(&sealed, "ciphertext"),
        text(&secret_id, "secret_id"),
        text(&secret_id, "secret_id_accessor"),
        text(&role_id, "role_id"),
        text(&alias, "id"),
        text(&group, "id"),
        text(&bearer, "accessor"),
        text(&wrapped, "token"),
        text(&wrapped, "accessor"),
        format!("{namespace}/secret/data/sample"),
        entity,
        accessor,
        bearer_text,
        batch,
    ]);
    names
}

struct Two {
    core: Core,
    /// What names things in the one that is attacked.
    names: Vec<String>,
    attacker: String,
}

impl Two {
    fn new() -> Self {
        let (_, core, _) = open();
        make(&core, "", "red");
        make(&core, "", "blue");
        furnish(&core, "red", "red-mark");
        let names = furnish(&core, "blue", MARK);
        root("").get(
            &core,
            Update,
            "secret/data/sample",
            &format!(r#"{{"data":{{"v":"{MARK}"}}}}"#),
        );
        let attacker = token(&core, "red", r#"{"policies":["all"]}"#);
        Self { core, names, attacker }
    }

    /// The attacker's token, a new one if it ended or its namespace was locked.
    fn attacker(&mut self) -> String {
        let alive = with("red", &self.attacker).ask(&self.core, Read, "auth/token/lookup-self", "");
        if alive.is_err() {
            // It may not be locked, and its policy may be there.
            let _ = root("red").ask(&self.core, Update, "sys/namespaces/api-lock/unlock", "{}");
            policy(&self.core, "red", "all", ALL);
            self.attacker = token(&self.core, "red", r#"{"policies":["all"]}"#);
        }
        self.attacker.clone()
    }

    /// What the attacker must not change: what is in the other namespace, and in the root one but for
    /// what counts mounts and what there is below the attacker's.
    fn others(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = records(&self.core, number(&self.core, "blue/"));
        for first in 1..=kind::SHELF {
            let is_counted = first == kind::MOUNT_COUNTER
                || (kind::NAMESPACE..=kind::NAMESPACE_LIFE).contains(&first);
            if !is_counted {
                all.extend(records_below(&self.core, &[first]));
            }
        }
        all
    }
}

/// A body that names one thing under every name there is.
fn body(value: &str) -> String {
    let mut map: Map = FIELDS.iter().map(|name| ((*name).to_owned(), Json::from(value))).collect();
    for list in ["from_entity_ids", "member_entity_ids", "member_group_ids", "paths"] {
        map.insert(list.to_owned(), Json::strings([value]));
    }
    String::from_utf8(Json::Object(map).to_text()).unwrap()
}

/// Header tricks and path tricks: none lets a token of `red` into `blue`.
#[test]
fn no_spelling_of_another_namespace_lets_a_token_in() {
    let mut two = Two::new();
    let before = two.others();
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in OPERATIONS {
            for (namespace, path) in [
                ("blue", path.clone()),
                ("/blue/", path.clone()),
                ("", format!("blue/{path}")),
                ("", format!("blue%2F{path}")),
                ("blue%2F", path.clone()),
                ("red/../blue", path.clone()),
                ("red", format!("../blue/{path}")),
                ("red", format!("%2e%2e/blue/{path}")),
                ("red", format!("blue/{path}")),
                ("red/blue", path.clone()),
                ("BLUE", path.clone()),
                ("", path.clone()),
                ("root", path.clone()),
            ] {
                let answer = with(namespace, &two.attacker).ask(&two.core, operation, &path, "{}");
                let heard = said(&answer);
                let is_open = matches!(route.admits, Admits::Anyone | Admits::WrappingToken)
                    && route.takes(operation);
                // What it asks of itself is answered in its own namespace, where none is named.
                let is_own = namespace.is_empty() && is_about_caller(&path);
                let is_well = answer.is_err() || is_open || is_own;
                assert!(is_well, "{operation:?} {namespace} {path}: {heard}");
                assert!(!heard.contains(MARK), "{operation:?} {namespace} {path}: {heard}");
            }
        }
        assert!(two.others() == before, "{path} changed something");
        two.attacker();
    }
}

/// Whatever names something in `blue` names nothing in `red`, in any body and any path.
#[test]
fn nothing_of_another_namespace_is_found_by_its_name() {
    let mut two = Two::new();
    let before = two.others();
    let names = two.names.clone();
    for (base, route) in rows() {
        let has_name = route.pattern.contains('{');
        for name in &names {
            for &(operation, _) in route.does {
                let path = sample_of(base, route, if has_name { name } else { "" });
                let attacker = two.attacker();
                let body = body(name);
                for body in ["{}", &body] {
                    let answer = with("red", &attacker).ask(&two.core, operation, &path, body);
                    let heard = said(&answer);
                    assert!(!heard.contains(MARK), "{operation:?} {path} {body}: {heard}");
                }
            }
        }
        assert!(two.others() == before, "{} {} changed something", base, route.pattern);
    }
}

/// Every listing and every read of `red`'s own says what is there, and nothing of `blue` or the root
/// namespace.
#[test]
fn listings_and_reads_tell_of_their_own_namespace_alone() {
    let mut two = Two::new();
    let mut told = 0;
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in [Operation::List, Operation::Scan, Operation::Read] {
            let attacker = two.attacker();
            let answer = with("red", &attacker).ask(&two.core, operation, &path, "");
            let heard = said(&answer);
            told += usize::from(heard.contains("red-mark"));
            assert!(!heard.contains(MARK), "{operation:?} {path}: {heard}");
            for name in &two.names {
                assert!(!heard.contains(name.as_str()), "{operation:?} {path}: {heard}");
            }
        }
    }
    // The walk met what it was to tell apart.
    assert!(told >= 8, "{told}");
}

/// Bulk requests name paths in their bodies: those are paths of the request's namespace too.
#[test]
fn many_at_once_reach_no_other_namespace() {
    let two = Two::new();
    let before = two.others();
    let paths = ["blue/secret/data/sample", "../blue/secret/data/sample", "secret/data/sample"];
    let body = Json::object([("paths", Json::strings(paths))]);
    let body = String::from_utf8(body.to_text()).unwrap();
    let answer = with("red", &two.attacker).ask(&two.core, Update, "sys/kallisto/kv/read", &body);
    let Ok(Response::Each(answers)) = &answer else { panic!("{answer:?}") };
    let good: Vec<bool> = answers.iter().map(|each| each.answer.is_ok()).collect();
    assert_eq!(good, [false, false, true]);
    assert!(said(&answer).contains("red-mark") && !said(&answer).contains(MARK));
    for (path, body) in [
        ("sys/kallisto/kv/copy", r#"{"from":"blue/secret/sample","to":"secret/b"}"#),
        ("sys/kallisto/kv/move", r#"{"from":"blue/secret/sample","to":"secret/b"}"#),
        ("sys/kallisto/kv/delete", r#"{"path":"blue/secret/sample"}"#),
        ("sys/kallisto/kv/list", r#"{"path":"blue/secret/"}"#),
        ("sys/kallisto/kv/search", r#"{"path":"blue/secret/","pattern":"*"}"#),
        ("sys/remount", r#"{"from":"blue/secret","to":"stolen"}"#),
        ("sys/remount", r#"{"from":"secret","to":"blue/stolen"}"#),
    ] {
        let answer = with("red", &two.attacker).ask(&two.core, Update, path, body);
        assert!(!said(&answer).contains(MARK), "{path}: {answer:?}");
    }
    assert!(two.others() == before);
    // The root token is above both, and may.
    let read = root("").ask(&two.core, Read, "blue/secret/data/sample", "");
    assert!(said(&read).contains(MARK));
    assert_eq!(said(&read), said(&root("blue").ask(&two.core, Read, "secret/data/sample", "")));
    assert!(with("", ROOT).ask(&two.core, Read, "blue/secret/data/sample", "").is_ok());
}
