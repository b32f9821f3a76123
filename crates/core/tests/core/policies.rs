//! Policies through the pipeline: what a token's rules let it do to secrets.

use kallisto_core::{Error, Json, Operation, Request, Response};

use crate::support::{Site, ask_as, request_of};

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
    // Nor does it matter how often a limit is given, and which of them the listing would take.
    let page = |token: &str, limits: &[&str]| {
        let query = limits.iter().map(|limit| ("limit".to_owned(), (*limit).to_owned()));
        let listing = request_of(token, 0, Operation::List, "secret/metadata/", "");
        match pollster::block_on(site.core.handle(&Request { query: query.collect(), ..listing }))?
        {
            Response::Logical(reply) => Ok::<_, Error>(String::from_utf8(reply.data).unwrap()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(page(&bearer, &["2"]).unwrap(), r#"{"keys":["a","b"]}"#);
    for limits in [&["4"][..], &["0x4"], &["-1"], &["2", "4"], &["4", "2"], &["2", "0"], &["2", ""]]
    {
        assert!(matches!(page(&bearer, limits), Err(Error::Denied(_))), "{limits:?}");
    }
    assert!(matches!(page("root", &["2", "4"]), Err(Error::Invalid(_))));
    // The word for as many as there may be, which clients send that know of pages.
    for limit in ["max", "0", ""] {
        assert_eq!(page(&bearer, &[limit]).unwrap(), r#"{"keys":["a","b","c"]}"#, "{limit:?}");
        assert_eq!(page("root", &[limit]).unwrap(), r#"{"keys":["a","b","c","d"]}"#, "{limit:?}");
    }
    let users = |query: &str| {
        let query = [("limit".to_owned(), query.to_owned())];
        let listing = request_of("root", 0, Operation::List, "auth/userpass/users", "");
        pollster::block_on(site.core.handle(&Request { query: query.to_vec(), ..listing }))
    };
    site.ask(Operation::Update, "sys/auth/userpass", r#"{"type":"userpass"}"#).unwrap();
    site.ask(Operation::Update, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
    assert!(users("max").is_ok() && users("most").is_err());
}

/// Who asks for no pages would take the first one for all that there is.
#[test]
fn a_listing_can_be_required_to_ask_for_pages() {
    let site = Site::open(1 << 20);
    for name in ["a", "b", "c"] {
        site.put(name, "v");
    }
    let rule = r#"path "secret/metadata/*" {
        capabilities = ["list"] pagination_limit = 2 required_parameters = ["limit"] }"#;
    let bearer = token(&site, rule);
    let page = |limit: Option<&str>| {
        let query = limit.iter().map(|limit| ("limit".to_owned(), (*limit).to_owned()));
        let listing = request_of(&bearer, 0, Operation::List, "secret/metadata/", "");
        pollster::block_on(site.core.handle(&Request { query: query.collect(), ..listing }))
    };
    assert!(matches!(page(None), Err(Error::Denied(_))));
    for limit in ["1", "2", "max", "0"] {
        assert!(page(Some(limit)).is_ok(), "{limit}");
    }
    // Without a limit of the rule's there is nothing that could be missed.
    let rule = r#"path "secret/metadata/*" {
        capabilities = ["list"] required_parameters = ["limit"] }"#;
    let body = Json::object([("policy", rule.into())]).to_text();
    let body = std::str::from_utf8(&body).unwrap();
    site.ask(Operation::Update, "sys/policies/acl/t", body).unwrap();
    assert!(page(None).is_ok());
}

/// As a shell's `base64` writes it, in lines.
#[test]
fn a_password_policy_is_taken_in_base_64_in_lines() {
    let site = Site::open(1 << 20);
    let policy = "length = 20\nrule \"charset\" { charset = \"abc\" min-chars = 1 }\n";
    let encoded = data_encoding::BASE64.encode(policy.as_bytes());
    let (first, second) = encoded.split_at(40);
    let body = Json::object([("policy", format!("{first}\n{second}\n").into())]).to_text();
    let body = std::str::from_utf8(&body).unwrap();
    site.ask(Operation::Update, "sys/policies/password/p", body).unwrap();
    match site.ask(Operation::Read, "sys/policies/password/p", "").unwrap() {
        Response::Logical(reply) => {
            let data = Json::object([("policy", policy.into())]).to_text();
            assert_eq!(reply.data, data);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_with_a_password_policy_is_said_once() {
    let site = Site::open(1 << 20);
    let body = r#"{"policy":"length = 20"}"#;
    let refused = site.ask(Operation::Update, "sys/policies/password/p", body).unwrap_err();
    assert_eq!(refused.to_string().matches("invalid password policy").count(), 1, "{refused}");
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
fn no_case_of_a_denied_path_gets_in() {
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
fn a_name_is_one_thing_wherever_it_stands() {
    let site = Site::open(1 << 20);
    let root =
        |operation, path: &str, body: &str| ask_as(&site.core, "root", 0, operation, path, body);
    let names = ["a b", "é", "a(b", "a,b", "a*", "a[b]", "a"];
    let written = |name: &str| match name {
        "a b" => "A%20B".to_owned(),
        "é" => "%C3%89".to_owned(),
        "a[b]" => "a%5Bb%5D".to_owned(),
        other => other.to_owned(),
    };
    for (at, name) in names.iter().enumerate() {
        let path = format!("sys/policies/acl/{}", written(name));
        let body =
            format!(r#"{{"policy":"path \"secret/data/{at}\" {{ capabilities = [\"read\"] }}"}}"#);
        root(Operation::Update, &path, &body).unwrap();
        site.put(&at.to_string(), "v");
    }
    for (at, name) in names.iter().enumerate() {
        let body = format!(r#"{{"policies":["{name}"],"no_default_policy":true,"id":"of-{at}"}}"#);
        root(Operation::Update, "auth/token/create", &body).unwrap();
        for other in 0..names.len() {
            let path = format!("secret/data/{other}");
            let read = ask_as(&site.core, &format!("of-{at}"), 0, Operation::Read, &path, "");
            assert_eq!(read.is_ok(), other == at, "{name} at {path}");
        }
    }
    for (at, name) in names.iter().enumerate() {
        root(Operation::Delete, &format!("sys/policies/acl/{}", written(name)), "").unwrap();
        let path = format!("secret/data/{at}");
        assert!(ask_as(&site.core, &format!("of-{at}"), 0, Operation::Read, &path, "").is_err());
    }
    for name in ["ROOT", "root ", "r\u{43e}ot", "ｒｏｏｔ"] {
        let body = format!(r#"{{"policies":["default","{name}"]}}"#);
        let made = root(Operation::Update, "auth/token/create", &body);
        assert!(matches!(made, Err(Error::Invalid(_))), "{name}");
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
    // About itself any token may ask, about another only whose policies allow it.
    let root = |path, body| ask_as(&site.core, "root", 0, Operation::Update, path, body).unwrap();
    let rules = r#"{"policy":"path \"a\" { capabilities = [\"read\"] }"}"#;
    root("sys/policies/acl/other", rules);
    let other = "other";
    let made = r#"{"id":"other","policies":["other"],"no_default_policy":true}"#;
    root("auth/token/create", made);
    assert!(explain(other, r#"{"path":"a"}"#).unwrap().contains(r#""allowed":true"#));
    assert!(explain(other, r#"{"path":"b","accessor":""}"#).is_ok());
    let asked = explain(other, r#"{"path":"b","accessor":"x"}"#);
    assert!(matches!(asked, Err(Error::Denied(_))), "{asked:?}");
    // A slash at the end is taken as a request's is.
    assert!(explain(other, r#"{"path":"a/","capability":"update"}"#).is_err());
    for body in [
        r#"{}"#,
        r#"{"path":"a/../b"}"#,
        r#"{"path":"a","capability":"x"}"#,
        r#"{"path":"a","accessor":"x"}"#,
    ] {
        assert!(matches!(explain("root", body), Err(Error::Invalid(..))), "{body}");
    }
}

#[test]
fn a_policy_that_is_to_end_or_a_write_that_is_to_be_guarded_is_refused() {
    let site = Site::open(1 << 20);
    let path = "sys/policies/acl/p";
    for name in ["sys/policies/acl/p", "sys/policy/p"] {
        for field in [
            r#""ttl":"1h""#,
            r#""ttl":60"#,
            r#""expiration":"2999-01-01T00:00:00Z""#,
            r#""cas":0"#,
            r#""cas":-1"#,
            r#""cas_required":true"#,
        ] {
            let body = format!(r#"{{"policy":"path \"a\" {{}}",{field}}}"#);
            let refused = site.ask(Operation::Update, name, &body);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{name} {field}");
        }
    }
    assert!(matches!(site.ask(Operation::Read, path, ""), Err(Error::NotFound)));
    let nothing = r#""ttl":"","expiration":null,"cas":null,"cas_required":false"#;
    let body = format!(r#"{{"policy":"path \"a\" {{}}",{nothing}}}"#);
    assert!(site.ask(Operation::Update, path, &body).is_ok());
}
