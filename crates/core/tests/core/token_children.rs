//! What a token hands on to those it makes: no more life, no more uses and no more places than it has.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Operation, Request, Response};

use crate::support::{Site, request_of};

use Operation::{Read, Update};

const CREATE: &str = "auth/token/create";

/// A core in which a token with `maker` makes others, by the role `r` too.
fn site(role: &str) -> Site {
    let site = Site::open(1 << 20);
    let rules = "path \"auth/token/create\" { capabilities = [\"update\"] }
        path \"auth/token/create/*\" { capabilities = [\"update\"] }";
    let body = Json::object([("policy", rules.into())]).to_text();
    site.ask(Update, "sys/policies/acl/maker", std::str::from_utf8(&body).unwrap()).unwrap();
    site.ask(Update, "auth/token/roles/r", role).unwrap();
    site
}

/// The `auth` of a token that `maker` makes, and the warnings.
fn make(
    site: &Site,
    maker: &str,
    path: &str,
    body: &str,
    from: Option<&str>,
) -> Result<(Map, Vec<String>), Error> {
    let remote = from.map(|from| format!("{from}:4711").parse().unwrap());
    let request = Request { remote, ..request_of(maker, 0, Update, path, body) };
    match pollster::block_on(site.core.handle(&request))? {
        Response::Logical(reply) => {
            let Json::Object(auth) = json::parse(&reply.auth).unwrap() else { panic!("no auth") };
            Ok((auth, reply.warnings))
        }
        other => panic!("{other:?}"),
    }
}

fn text(auth: &Map) -> String {
    auth["client_token"].as_str().unwrap().to_owned()
}

/// Whether a token may be used from an address.
fn stands(site: &Site, token: &str, from: &str) -> bool {
    let remote = Some(format!("{from}:4711").parse().unwrap());
    let request = Request { remote, ..request_of(token, 0, Read, "auth/token/lookup-self", "") };
    pollster::block_on(site.core.handle(&request)).is_ok()
}

#[test]
fn a_child_is_bound_to_the_addresses_of_its_maker() {
    let site = site(r#"{"token_bound_cidrs":"10.0.0.0/8","allowed_policies":"maker"}"#);
    site.ask(Update, "auth/token/roles/free", r#"{"allowed_policies":"maker"}"#).unwrap();
    let here = Some("10.1.2.3");
    let bound = text(&make(&site, "root", "auth/token/create/r", "{}", None).unwrap().0);
    assert!(stands(&site, &bound, "10.1.2.3") && !stands(&site, &bound, "192.0.2.1"));
    for body in ["{}", r#"{"type":"batch"}"#] {
        let child = text(&make(&site, &bound, CREATE, body, here).unwrap().0);
        assert!(stands(&site, &child, "10.1.2.3"), "{body}");
        assert!(!stands(&site, &child, "192.0.2.1"), "{body}");
    }
    let child = text(&make(&site, &bound, CREATE, "{}", here).unwrap().0);
    let grandchild = text(&make(&site, &child, CREATE, "{}", here).unwrap().0);
    assert!(!stands(&site, &grandchild, "192.0.2.1"));
    // A role says where its tokens are used from, whoever asks for them.
    let by_role = text(&make(&site, &bound, "auth/token/create/free", "{}", here).unwrap().0);
    assert!(stands(&site, &by_role, "192.0.2.1"));
}

#[test]
fn a_token_of_a_number_of_uses_makes_no_other() {
    let site = site(r#"{"allowed_policies":"maker"}"#);
    let body = r#"{"policies":["maker"],"num_uses":3}"#;
    let limited = text(&make(&site, "root", CREATE, body, None).unwrap().0);
    for path in [CREATE, "auth/token/create/r", CREATE] {
        let refused = make(&site, &limited, path, "{}", None).unwrap_err();
        assert_eq!(refused, Error::invalid("restricted use token cannot generate child tokens"));
    }
    assert!(matches!(make(&site, &limited, CREATE, "{}", None), Err(Error::Denied(_))));
}

#[test]
fn a_root_token_that_ends_makes_none_that_does_not() {
    let site = site("{}");
    let body = r#"{"policies":["root"],"ttl":"1h"}"#;
    let ends = text(&make(&site, "root", CREATE, body, None).unwrap().0);
    for body in ["{}", r#"{"policies":["root"]}"#, r#"{"no_parent":true}"#] {
        let refused = make(&site, &ends, CREATE, body, None).unwrap_err();
        let expected = "expiring root tokens cannot create non-expiring root tokens";
        assert_eq!(refused, Error::invalid(expected), "{body}");
    }
    assert!(make(&site, &ends, CREATE, r#"{"ttl":"5m"}"#, None).is_ok());
    assert!(make(&site, &ends, CREATE, r#"{"policies":["maker"]}"#, None).is_ok());
}

#[test]
fn a_role_alone_says_whether_its_tokens_are_orphans() {
    let site = site(r#"{"allowed_policies":"maker"}"#);
    let orphans = r#"{"allowed_policies":"maker","orphan":true}"#;
    site.ask(Update, "auth/token/roles/orphans", orphans).unwrap();
    let maker = text(&make(&site, "root", CREATE, r#"{"policies":["maker"]}"#, None).unwrap().0);
    for (role, is_orphan) in [("r", false), ("orphans", true)] {
        for body in ["{}", r#"{"no_parent":true}"#, r#"{"no_parent":false}"#] {
            let path = format!("auth/token/create/{role}");
            let (auth, _) = make(&site, &maker, &path, body, None).unwrap();
            assert_eq!(auth["orphan"], is_orphan.into(), "{role} {body}");
        }
    }
    let child =
        text(&make(&site, &maker, "auth/token/create/r", r#"{"no_parent":true}"#, None).unwrap().0);
    site.ask(Update, "auth/token/revoke", &format!(r#"{{"token":"{maker}"}}"#)).unwrap();
    assert!(!stands(&site, &child, "192.0.2.1"), "it outlives its maker");
}
