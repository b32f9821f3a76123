//! Policies through the door: what a token's rules let it do to secrets.

use kallisto_core::{Error, Json, Operation, Response};

use crate::support::{Site, ask_as};

/// Stores a policy and makes a token with it alone.
fn token(site: &Site, policy: &str) -> String {
    let body = Json::object([("policy", policy.into())]).to_text();
    let body = std::str::from_utf8(&body).unwrap();
    site.ask(Operation::Update, "sys/policies/acl/t", body).unwrap();
    let body = r#"{"id":"bearer","policies":["t"],"no_default_policy":true}"#;
    site.ask(Operation::Update, "auth/token/create", body).unwrap();
    "bearer".to_owned()
}

fn keys(site: &Site, token: &str, path: &str) -> Result<String, Error> {
    match ask_as(&site.core, token, 0, Operation::List, path, "")? {
        Response::Logical(reply) => Ok(String::from_utf8(reply.data).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_limit_binds_a_listing_that_names_none() {
    let site = Site::open(1 << 20);
    for name in ["a", "b", "c", "d"] {
        site.put(name, "v");
    }
    let rule = r#"path "secret/metadata/*" { capabilities = ["list"] pagination_limit = 3 }"#;
    let bearer = token(&site, rule);
    assert_eq!(keys(&site, &bearer, "secret/metadata/").unwrap(), r#"{"keys":["a","b","c"]}"#);
    assert_eq!(keys(&site, "root", "secret/metadata/").unwrap(), r#"{"keys":["a","b","c","d"]}"#);
}

#[test]
fn creating_and_updating_are_two_rights() {
    let site = Site::open(1 << 20);
    site.put("old", "v");
    let bearer = token(&site, r#"path "secret/data/*" { capabilities = ["create"] }"#);
    let write = |path| ask_as(&site.core, &bearer, 0, Operation::Update, path, r#"{"data":{}}"#);
    assert!(write("secret/data/new").is_ok());
    for path in ["secret/data/new", "secret/data/old"] {
        assert!(matches!(write(path), Err(Error::Denied(_))), "{path}");
    }
}

#[test]
fn lesson_03_no_case_of_a_denied_path_gets_in() {
    let site = Site::open(1 << 20);
    for path in ["Admin", "admin", "ADMIN", "open"] {
        site.put(path, "v");
    }
    let rules = r#"path "secret/data/*" { capabilities = ["read"] }
                   path "secret/data/Admin" { capabilities = ["deny"] }"#;
    let bearer = token(&site, rules);
    let read = |path: &str| ask_as(&site.core, &bearer, 0, Operation::Read, path, "");
    assert!(read("secret/data/open").is_ok());
    for path in ["secret/data/Admin", "secret/data/admin", "secret/data/ADMIN", "SECRET/data/Admin"]
    {
        assert!(matches!(read(path), Err(Error::Denied(_))), "{path}");
    }
}

#[test]
fn an_explanation_names_the_rule_its_policy_and_the_losers() {
    let site = Site::open(1 << 20);
    let rules = "path \"secret/*\" { capabilities = [\"list\"] }\n\
                 path \"secret/data/+\" { capabilities = [\"read\"] }\n\
                 path \"sys/policies/explain\" { capabilities = [\"update\"] }";
    let bearer = token(&site, rules);
    let explain = |token: &str, body: &str| {
        let asked = ask_as(&site.core, token, 0, Operation::Update, "sys/policies/explain", body)?;
        match asked {
            Response::Logical(reply) => Ok(String::from_utf8(reply.data).unwrap()),
            other => panic!("{other:?}"),
        }
    };
    let told = explain(&bearer, r#"{"path":"secret/data/a","capability":"list"}"#).unwrap();
    assert_eq!(
        told,
        concat!(
            r#"{"allowed":true,"decided_by":{"capabilities":["list"],"pattern":"secret/*","#,
            r#""sources":[{"capabilities":["list"],"line":1,"pattern":"secret/*","policy":"t"}]},"#,
            r#""dropped":[],"lost":[{"because":"for a listing, a rule for the path with its slash comes first","#,
            r#""capabilities":["read"],"pattern":"secret/data/+","#,
            r#""sources":[{"capabilities":["read"],"line":2,"pattern":"secret/data/+","policy":"t"}]}],"#,
            r#""reason":"the rule grants it"}"#
        )
    );
    let told = explain(&bearer, r#"{"path":"secret/data/a","capability":"update"}"#).unwrap();
    assert!(told.contains(r#""allowed":false"#), "{told}");
    assert!(told.contains(r#""reason":"the rule does not grant update""#), "{told}");
    assert!(told.contains(r#""because":"its first wildcard stands earlier""#), "{told}");
    assert!(explain("root", r#"{"path":"a"}"#).unwrap().contains("root token"));
    for body in [
        r#"{}"#,
        r#"{"path":"a/../b"}"#,
        r#"{"path":"a","capability":"x"}"#,
        r#"{"path":"a","accessor":"x"}"#,
    ] {
        assert!(matches!(explain("root", body), Err(Error::Invalid(..))), "{body}");
    }
}
