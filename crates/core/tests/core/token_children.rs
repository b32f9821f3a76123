//! What a token hands on to those it makes: no more life, no more uses and no more places than it has.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Operation, Request, Response};

use crate::support::{Site, ask_as, request_of};

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

#[test]
fn of_a_role_and_a_request_the_shorter_period_and_maximum_count() {
    let site = site(r#"{"token_period":"1h","token_explicit_max_ttl":"5h"}"#);
    for (body, secs, warnings) in [
        ("{}", 3600_u64, 0),
        (r#"{"period":"30m"}"#, 1800, 1),
        (r#"{"period":"2h"}"#, 3600, 1),
        (r#"{"explicit_max_ttl":"20m"}"#, 1200, 2),
        (r#"{"explicit_max_ttl":"9h","period":7200}"#, 3600, 2),
    ] {
        let (auth, told) = make(&site, "root", "auth/token/create/r", body, None).unwrap();
        assert_eq!(auth["lease_duration"], Json::from(secs), "{body}");
        assert_eq!(told.len(), warnings, "{body}: {told:?}");
    }
}

/// A periodic token lives on for as long as it is renewed, but never longer at a time than the mount lets a token live.
#[test]
fn a_period_is_no_longer_than_the_mount_lets_a_token_live() {
    let site = site("{}");
    let tuned = r#"{"default_lease_ttl":"1h","max_lease_ttl":"2h"}"#;
    site.ask(Update, "sys/auth/token/tune", tuned).unwrap();
    let body = r#"{"policies":["maker"],"period":"5h"}"#;
    let (auth, warnings) = make(&site, "root", CREATE, body, None).unwrap();
    assert_eq!(auth["lease_duration"], 7200_u64.into());
    let expected = "period of \"5h\" exceeded the effective max_ttl of \"2h\"; period value is \
                    capped accordingly";
    assert_eq!(warnings, [expected]);
    let token = text(&auth);
    for now in [7000, 14_000, 21_000] {
        let renewed = ask_as(&site.core, &token, now, Update, "auth/token/renew-self", "{}");
        let Response::Logical(renewed) = renewed.unwrap() else { panic!("no lease") };
        let auth = json::parse(&renewed.auth).unwrap();
        assert_eq!(auth.as_object().unwrap()["lease_duration"], 7200_u64.into(), "{now}");
        assert_eq!(renewed.warnings, [expected]);
    }
}

#[test]
fn a_renewal_follows_the_role_as_it_is_then() {
    let site = site(r#"{"allowed_policies":"maker","token_period":"1h"}"#);
    let token = text(&make(&site, "root", "auth/token/create/r", "{}", None).unwrap().0);
    let renew = |secs: i64| {
        let answer = ask_as(&site.core, &token, secs, Update, "auth/token/renew-self", "{}")?;
        let Response::Logical(reply) = answer else { panic!("{answer:?}") };
        let auth = json::parse(&reply.auth).unwrap();
        Ok::<_, Error>(auth.as_object().unwrap()["lease_duration"].clone())
    };
    assert_eq!(renew(10).unwrap(), 3600_u64.into());
    site.ask(Update, "auth/token/roles/r", r#"{"token_period":"20m"}"#).unwrap();
    assert_eq!(renew(20).unwrap(), 1200_u64.into());
    let bounded = r#"{"token_explicit_max_ttl":"100s"}"#;
    site.ask(Update, "auth/token/roles/r", bounded).unwrap();
    assert_eq!(renew(30).unwrap(), 70_u64.into());
    // What bounds a token once goes on to.
    site.ask(Update, "auth/token/roles/r", r#"{"token_explicit_max_ttl":0}"#).unwrap();
    assert_eq!(renew(40).unwrap(), 60_u64.into());
    // It keeps what it has when no more can be given.
    site.ask(Update, "auth/token/roles/r", r#"{"token_explicit_max_ttl":"45s"}"#).unwrap();
    assert_eq!(renew(50).unwrap_err().to_string(), "past the max TTL, cannot renew");
    assert!(stands(&site, &token, "192.0.2.1"));
    site.ask(Operation::Delete, "auth/token/roles/r", "").unwrap();
    let refused = renew(50).unwrap_err().to_string();
    assert_eq!(refused, "original token role \"r\" could not be found, not renewing");
    assert!(stands(&site, &token, "192.0.2.1"));
}

#[test]
fn null_says_nothing_of_a_role() {
    let site = site(r#"{"token_period":"1h","token_explicit_max_ttl":"2h"}"#);
    let nulls = r#"{"token_period":null,"token_explicit_max_ttl":null,"token_bound_cidrs":null}"#;
    site.ask(Update, "auth/token/roles/r", nulls).unwrap();
    let shown = |role: &str| {
        let answer = site.ask(Read, &format!("auth/token/roles/{role}"), "").unwrap();
        let Response::Logical(reply) = answer else { panic!("{answer:?}") };
        let Json::Object(map) = json::parse(&reply.data).unwrap() else { panic!("no role") };
        [&map["token_period"], &map["token_explicit_max_ttl"]].map(Clone::clone)
    };
    assert_eq!(shown("r"), [3600_u64.into(), 7200_u64.into()]);
    // Clients that send every field they know send those they do not mean as null.
    let old = r#"{"token_period":null,"period":"3h","explicit_max_ttl":null}"#;
    site.ask(Update, "auth/token/roles/old", old).unwrap();
    assert_eq!(shown("old"), [10_800_u64.into(), 0_u64.into()]);
}
