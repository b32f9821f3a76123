//! Updates that make what is not there, with `create` alone and with `update` alone.

use kallisto_core::json::{self, Json};
use kallisto_core::{Denial, Error, Operation, Request, Response};

use crate::support::{Site, TOKEN, logical, request_of};

use Operation::{Delete, Update};

/// What is written below a mount, and the body that makes it.
const MADE: &[(&str, &str)] = &[
    ("auth/token/roles/NAME", "{}"),
    ("auth/userpass/users/NAME", r#"{"password":"pw"}"#),
    ("auth/approle/role/NAME", "{}"),
    ("auth/jwt/role/NAME", r#"{"role_type":"jwt","user_claim":"sub","bound_audiences":"a"}"#),
    (
        "auth/kubernetes/role/NAME",
        r#"{"bound_service_account_names":"a","bound_service_account_namespaces":"b"}"#,
    ),
    ("auth/github/map/teams/NAME", r#"{"value":"p"}"#),
    ("auth/github/map/users/NAME", r#"{"value":"p"}"#),
    ("identity/oidc/key/NAME", "{}"),
    ("identity/oidc/role/NAME", r#"{"key":"default"}"#),
    ("identity/oidc/assignment/NAME", "{}"),
    ("identity/oidc/scope/NAME", "{}"),
    ("identity/oidc/client/NAME", "{}"),
    ("identity/oidc/provider/NAME", "{}"),
    (
        "kubernetes/roles/NAME",
        r#"{"allowed_kubernetes_namespaces":"*","service_account_name":"a"}"#,
    ),
    (
        "ldap/role/NAME",
        r#"{"creation_ldif":"dn: cn={{.Username}}\nobjectClass: person","deletion_ldif":"dn: cn={{.Username}}\nchangetype: delete"}"#,
    ),
    ("secret/data/NAME", r#"{"data":{}}"#),
];
/// The same, of what is there in every namespace and has no record.
const ALWAYS_THERE: &[&str] = &[
    "identity/oidc/key/default",
    "identity/oidc/assignment/allow_all",
    "identity/oidc/provider/default",
];
const NAMESPACES: [&str; 2] = ["", "team/"];

/// A site, and in each namespace a token that may only create and one that may only update.
fn site() -> (Site, [[String; 2]; 2]) {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/namespaces/team", "").unwrap();
    let tokens = NAMESPACES.map(|namespace| {
        let ask = |path: &str, body: &str| ask_in(&site, namespace, TOKEN, Update, path, body);
        for kind in ["userpass", "approle", "jwt", "kubernetes", "github"] {
            ask(&format!("sys/auth/{kind}"), &format!(r#"{{"type":"{kind}"}}"#)).unwrap();
        }
        for kind in ["kubernetes", "ldap"] {
            ask(&format!("sys/mounts/{kind}"), &format!(r#"{{"type":"{kind}"}}"#)).unwrap();
        }
        if !namespace.is_empty() {
            ask("sys/mounts/secret", r#"{"type":"kv","options":{"version":"2"}}"#).unwrap();
        }
        ["create", "update"].map(|capability| {
            let rule = format!(r#"path "*" {{ capabilities = ["{capability}"] }}"#);
            let body = Json::object([("policy", rule.into())]).to_text();
            let body = String::from_utf8(body).unwrap();
            ask(&format!("sys/policies/acl/{capability}"), &body).unwrap();
            let body = format!(r#"{{"policies":["{capability}"],"no_default_policy":true}}"#);
            token_of(ask("auth/token/create", &body))
        })
    });
    (site, tokens)
}

fn token_of(made: Result<Response, Error>) -> String {
    let auth = json::parse_object(&logical(made.unwrap()).auth).unwrap();
    auth["client_token"].as_str().unwrap().to_owned()
}

fn ask_in(
    site: &Site,
    namespace: &str,
    token: &str,
    operation: Operation,
    path: &str,
    body: &str,
) -> Result<Response, Error> {
    let request = Request { namespace, ..request_of(token, 0, operation, path, body) };
    pollster::block_on(site.core.handle(&request))
}

#[test]
fn what_is_not_there_takes_create_and_what_is_there_update() {
    let (site, tokens) = site();
    let denied = Some(Error::Denied(Denial::Policy));
    for (namespace, [create, update]) in NAMESPACES.into_iter().zip(&tokens) {
        let ask = |token: &str, path: &str, body: &str| {
            ask_in(&site, namespace, token, Update, path, body)
        };
        for (path, body) in MADE {
            let path = path.replace("NAME", "new");
            assert_eq!(ask(update, &path, body).err(), denied, "{namespace} {path}");
            ask(create, &path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(ask(create, &path, body).err(), denied, "{namespace} {path}");
            ask(update, &path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
            if !path.starts_with("secret/") {
                ask_in(&site, namespace, TOKEN, Delete, &path, "").unwrap();
                assert_eq!(
                    ask(update, &path, body).err(),
                    denied,
                    "{namespace} {path}: it is gone"
                );
            }
        }
        for path in ALWAYS_THERE {
            assert_eq!(ask(create, path, "{}").err(), denied, "{namespace} {path}");
            assert_ne!(ask(update, path, "{}").err(), denied, "{namespace} {path}");
        }
        // What has names in any case is there by each spelling.
        ask(create, "auth/userpass/users/Bob", r#"{"password":"pw"}"#).unwrap();
        ask(update, "auth/userpass/users/bOB", r#"{"password":"pw"}"#).unwrap();
        // What is below is a part of what is there, and routes that make nothing take `update`.
        ask(update, "auth/userpass/users/bob/password", r#"{"password":"pw"}"#).unwrap();
        let policy = r#"{"policy":"path \"a\" { capabilities = [\"read\"] }"}"#;
        assert_eq!(ask(create, "sys/policies/acl/new", policy).err(), denied);
        ask(update, "sys/policies/acl/new", policy).unwrap();
    }
}

#[test]
fn a_cubbyhole_tells_by_the_token_that_asks() {
    let (site, tokens) = site();
    let denied = Some(Error::Denied(Denial::Policy));
    for (namespace, [create, update]) in NAMESPACES.into_iter().zip(&tokens) {
        let ask = |token: &str| {
            ask_in(&site, namespace, token, Update, "cubbyhole/a", r#"{"k":"v"}"#).err()
        };
        assert_eq!(ask(update), denied);
        assert_eq!(ask(create), None);
        assert_eq!(ask(create), denied);
        assert_eq!(ask(update), denied, "it is the other one's entry");
    }
}

#[test]
fn batch_tokens_are_judged_alike() {
    let (site, _) = site();
    for (capability, path, is_let_in) in [
        ("create", "auth/userpass/users/new", true),
        ("create", "auth/userpass/users/new", false),
        ("update", "auth/userpass/users/new", true),
        ("update", "auth/userpass/users/other", false),
    ] {
        let body = format!(r#"{{"type":"batch","policies":["{capability}"]}}"#);
        let token = token_of(site.ask(Update, "auth/token/create", &body));
        let answer = ask_in(&site, "", &token, Update, path, r#"{"password":"pw"}"#);
        assert_eq!(answer.is_ok(), is_let_in, "{capability} {path}: {answer:?}");
    }
}
