//! Tokens and policies through the pipeline.

use kallisto_core::json::{self, Json};
use kallisto_core::{Denial, Error, Operation, Response};
use kallisto_store::{Records, Store};

use crate::support::{Site, ask_as};

use Operation::{Delete, List, Read, Update};

const POLICY: &str = r#"path "secret/data/app/*" { capabilities = ["create", "read"] }
path "secret/data/app/hidden" { capabilities = ["deny"] }
path "auth/token/create" { capabilities = ["update"] }"#;

fn site() -> Site {
    let site = Site::open(1 << 20);
    let body = Json::object([("policy", POLICY.into())]).to_text();
    let body = String::from_utf8(body).unwrap();
    site.ask(Update, "sys/policies/acl/app", &body).unwrap();
    site.put("app/one", "1");
    site.put("app/hidden", "2");
    site.put("other", "3");
    site
}

/// The text of a new token made by `maker`.
fn create(site: &Site, maker: &str, body: &str) -> Result<String, Error> {
    match ask_as(&site.core, maker, 0, Update, "auth/token/create", body)? {
        Response::Logical(reply) => {
            let auth = json::parse(&reply.auth).unwrap();
            Ok(auth.as_object().unwrap()["client_token"].as_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

fn can_read(site: &Site, token: &str, path: &str, secs: i64) -> bool {
    match ask_as(&site.core, token, secs, Read, path, "") {
        Ok(_) => true,
        Err(Error::Denied(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_token_may_what_its_policies_say_and_nothing_else() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
    assert!(can_read(&site, &token, "secret/data/app/one", 0));
    assert!(!can_read(&site, &token, "secret/data/app/hidden", 0));
    assert!(!can_read(&site, &token, "secret/data/APP/hidden", 0));
    assert!(!can_read(&site, &token, "secret/data/other", 0));
    let write =
        |path: &str| ask_as(&site.core, &token, 0, Update, path, r#"{"data":{"v":"x"}}"#).is_ok();
    assert!(write("secret/data/app/new"), "create is granted");
    assert!(!write("secret/data/app/new"), "update is not");
    assert!(!write("secret/data/elsewhere"));
    for path in ["sys/mounts", "sys/seal", "sys/policies/acl/app", "sys/durability"] {
        assert!(!can_read(&site, &token, path, 0), "{path}");
    }
    assert!(can_read(&site, &token, "auth/token/lookup-self", 0), "the default policy");
    // What mounts there are is not told to those without a right to any of it.
    let unknown = ask_as(&site.core, &token, 0, Read, "nomount/x", "").unwrap_err();
    assert_eq!(unknown, Error::Denied(Denial::Policy));
}

#[test]
fn a_policy_counts_from_when_it_is_written_and_no_longer_than_it_is_there() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["late"]}"#).unwrap();
    assert!(!can_read(&site, &token, "secret/data/other", 0));
    let body = r#"{"policy":"path \"secret/data/other\" { capabilities = [\"read\"] }"}"#;
    site.ask(Update, "sys/policies/acl/late", body).unwrap();
    assert!(can_read(&site, &token, "secret/data/other", 0));
    site.ask(Delete, "sys/policies/acl/late", "").unwrap();
    assert!(!can_read(&site, &token, "secret/data/other", 0));
}

#[test]
fn nothing_attaches_root_but_root_itself() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
    for name in ["root", "ROOT", " root", "root\\t", "Root", "r\\u043eot", "root\\u200b"] {
        let body = format!(r#"{{"policies":["{name}"]}}"#);
        assert!(create(&site, &token, &body).is_err(), "{name} by a token with policies");
    }
    for name in ["ROOT", "Root", "r\\u043eot", "root\\u200b"] {
        let body = format!(r#"{{"policies":["{name}"]}}"#);
        assert!(create(&site, "root", &body).is_err(), "{name} by root");
        let write =
            site.ask(Update, "auth/token/roles/r", &format!(r#"{{"allowed_policies":"{name}"}}"#));
        assert!(write.is_err(), "{name} in a role");
    }
    let child = create(&site, "root", "{}").unwrap();
    assert!(can_read(&site, &child, "sys/mounts", 0), "root makes root");
    assert!(create(&site, &token, r#"{"policies":["other"]}"#).is_err(), "more than its maker has");
}

#[test]
fn a_token_ends_with_its_maker_unless_it_is_an_orphan() {
    let site = site();
    let parent = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
    let child = create(&site, &parent, "{}").unwrap();
    let grandchild = create(&site, &child, "{}").unwrap();
    let orphan = create(&site, "root", r#"{"policies":["app"],"no_parent":true}"#).unwrap();
    for token in [&parent, &child, &grandchild, &orphan] {
        assert!(can_read(&site, token, "secret/data/app/one", 0));
    }
    site.ask(Update, "auth/token/revoke", &format!(r#"{{"token":"{parent}"}}"#)).unwrap();
    for token in [&parent, &child, &grandchild] {
        assert!(!can_read(&site, token, "secret/data/app/one", 0));
    }
    assert!(can_read(&site, &orphan, "secret/data/app/one", 0));
}

#[test]
fn children_of_a_token_that_is_revoked_as_an_orphan_live_on() {
    let site = site();
    let parent = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
    let child = create(&site, &parent, "{}").unwrap();
    let body = format!(r#"{{"token":"{parent}"}}"#);
    site.ask(Update, "auth/token/revoke-orphan", &body).unwrap();
    assert!(!can_read(&site, &parent, "secret/data/app/one", 0));
    assert!(can_read(&site, &child, "secret/data/app/one", 0));
}

#[test]
fn a_token_ends_at_its_time_and_what_hangs_on_it_with_the_next_tick() {
    let site = site();
    let parent = create(&site, "root", r#"{"policies":["app"],"ttl":"60s"}"#).unwrap();
    let child = create(&site, &parent, r#"{"ttl":"1h"}"#).unwrap();
    assert!(can_read(&site, &parent, "secret/data/app/one", 59));
    assert!(!can_read(&site, &parent, "secret/data/app/one", 60));
    pollster::block_on(site.core.run_due_jobs(jiff::Timestamp::from_second(62).unwrap())).unwrap();
    assert!(!can_read(&site, &child, "secret/data/app/one", 62));
}

#[test]
fn a_limited_token_serves_so_many_requests_granted_or_not() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["app"],"num_uses":3}"#).unwrap();
    assert!(can_read(&site, &token, "secret/data/app/one", 0));
    assert!(!can_read(&site, &token, "secret/data/other", 0), "refused, and it took a use");
    assert!(can_read(&site, &token, "secret/data/app/one", 0));
    assert!(!can_read(&site, &token, "secret/data/app/one", 0));
}

/// Whether its last use was granted or not: nothing of the token is left, and nothing of what hung on it.
#[test]
fn a_limited_token_ends_with_its_last_use_be_it_refused_or_failed() {
    let site = site();
    let accessors = |site: &Site| match site.ask(List, "auth/token/accessors", "").unwrap() {
        Response::Logical(reply) => {
            let data = json::parse(&reply.data).unwrap();
            let Json::Array(keys) = &data.as_object().unwrap()["keys"] else { panic!("no list") };
            keys.len()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(accessors(&site), 1, "root");
    let before = site.store.approximate_len();
    for (operation, path, body) in [
        (Read, "secret/data/app/one", ""),
        (Read, "secret/data/app/none", ""),
        (Read, "secret/data/other", ""),
        (Update, "secret/data/app/one", "no object"),
        (Update, "sys/mounts/more", "{}"),
        (Read, "nomount/x", ""),
        (Delete, "auth/token/lookup-self", ""),
    ] {
        let token = create(&site, "root", r#"{"policies":["app"],"num_uses":2}"#).unwrap();
        let kept = r#"{"a":"b"}"#;
        ask_as(&site.core, &token, 0, Update, "cubbyhole/a", kept).unwrap();
        assert_eq!(accessors(&site), 2);
        let answer = ask_as(&site.core, &token, 0, operation, path, body);
        assert_eq!(accessors(&site), 1, "{path}: {answer:?}");
        assert_eq!(site.store.approximate_len(), before, "{path} leaves nothing");
    }
}

#[test]
fn of_many_racing_requests_a_token_serves_exactly_its_number() {
    let site = site();
    for _ in 0..20 {
        let token = create(&site, "root", r#"{"policies":["app"],"num_uses":5}"#).unwrap();
        let served: usize = std::thread::scope(|scope| {
            let race =
                || (0..10).filter(|_| can_read(&site, &token, "secret/data/app/one", 0)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(race)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(served, 5);
    }
}

#[test]
fn tokens_and_policies_survive_a_seal() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["app"],"ttl":"1h"}"#).unwrap();
    let child = create(&site, &token, "{}").unwrap();
    site.ask(Update, "auth/token/roles/r", r#"{"allowed_policies":["app"],"orphan":true}"#)
        .unwrap();
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    assert!(can_read(&site, &child, "secret/data/app/one", 0));
    assert!(site.ask(List, "auth/token/roles", "").is_ok());
    site.ask(Update, "auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    assert!(!can_read(&site, &child, "secret/data/app/one", 0));
}

#[test]
fn renewal_needs_a_renewable_token_and_keeps_to_its_maximum() {
    let site = site();
    let body = r#"{"policies":["app"],"ttl":"100s","explicit_max_ttl":"150s"}"#;
    let token = create(&site, "root", body).unwrap();
    ask_as(&site.core, &token, 90, Update, "auth/token/renew-self", r#"{"increment":"1h"}"#)
        .unwrap();
    assert!(can_read(&site, &token, "secret/data/app/one", 149));
    assert!(!can_read(&site, &token, "secret/data/app/one", 150));
    let fixed = create(&site, "root", r#"{"policies":["app"],"ttl":"100s","renewable":false}"#);
    let renewed = ask_as(&site.core, &fixed.unwrap(), 1, Update, "auth/token/renew-self", "{}");
    assert_eq!(renewed.unwrap_err().to_string(), "lease is not renewable");
}

#[test]
fn the_preflight_is_for_those_who_reach_something_of_the_mount() {
    let site = site();
    let token = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
    let bare = create(&site, "root", r#"{"policies":["nothing"]}"#).unwrap();
    assert!(can_read(&site, &token, "sys/internal/ui/mounts/secret/app/one", 0));
    assert!(!can_read(&site, &bare, "sys/internal/ui/mounts/secret/app/one", 0));
}

#[test]
fn no_child_that_is_made_while_its_maker_is_revoked_outlives_it() {
    let site = site();
    for _ in 0..200 {
        let parent = create(&site, "root", r#"{"policies":["app"]}"#).unwrap();
        let children: Vec<String> = std::thread::scope(|scope| {
            let make = || -> Vec<String> {
                std::iter::from_fn(|| create(&site, &parent, "{}").ok()).take(50).collect()
            };
            let makers: Vec<_> = (0..2).map(|_| scope.spawn(make)).collect();
            site.ask(Update, "auth/token/revoke", &format!(r#"{{"token":"{parent}"}}"#)).unwrap();
            makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect()
        });
        for child in &children {
            assert!(!can_read(&site, child, "secret/data/app/one", 0), "a child lives on");
        }
    }
}

#[test]
fn children_are_made_while_their_maker_is_renewed() {
    let site = site();
    let parent = create(&site, "root", r#"{"policies":["app"],"ttl":"1h"}"#).unwrap();
    std::thread::scope(|scope| {
        let renew = || {
            for _ in 0..300 {
                ask_as(&site.core, &parent, 0, Update, "auth/token/renew-self", "{}").unwrap();
            }
        };
        scope.spawn(renew);
        for _ in 0..300 {
            create(&site, &parent, "{}").unwrap();
        }
    });
}

#[test]
fn a_cubbyhole_is_its_tokens_alone_and_ends_with_it() {
    let site = site();
    let [mine, other] = [(); 2].map(|()| create(&site, "root", "{}").unwrap());
    let ask = |token: &str, operation, body: &str| {
        ask_as(&site.core, token, 0, operation, "cubbyhole/a/b", body)
    };
    ask(&mine, Update, r#"{"k":"v"}"#).unwrap();
    match ask(&mine, Read, "").unwrap() {
        Response::Logical(reply) => assert_eq!(reply.data, br#"{"k":"v"}"#),
        reply => panic!("{reply:?}"),
    }
    assert_eq!(ask(&other, Read, "").unwrap_err(), Error::NotFound);
    let listed = ask_as(&site.core, &mine, 0, List, "cubbyhole/", "").unwrap();
    assert!(matches!(listed, Response::Logical(reply) if reply.data == br#"{"keys":["a/"]}"#));
    let records = || site.store.stats().records;
    let before = records();
    let body = format!(r#"{{"token":"{mine}"}}"#);
    site.ask(Update, "auth/token/revoke", &body).unwrap();
    assert_eq!(before - records(), 2, "the token and what it kept");
    assert!(matches!(ask(&mine, Read, ""), Err(Error::Denied(Denial::BadToken))));
}

#[test]
fn login_methods_have_a_listing_of_their_own() {
    let site = site();
    let shown = |path: &str| match site.ask(Read, path, "").unwrap() {
        Response::Merged(reply) => {
            let names = json::parse(&reply.data).unwrap();
            names.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        }
        reply => panic!("{reply:?}"),
    };
    assert_eq!(shown("sys/auth"), ["token/"]);
    assert_eq!(shown("sys/mounts"), ["cubbyhole/", "identity/", "secret/", "sys/"]);
    let refused = site.ask(Delete, "sys/auth/token", "").unwrap_err();
    assert_eq!(refused, Error::invalid("token credential backend cannot be disabled"));
    let refused = site.ask(Update, "sys/auth/kv", r#"{"type":"kv"}"#).unwrap_err();
    assert_eq!(refused, Error::invalid("plugin not found in the catalog: kv"));
    let refused = site.ask(Update, "sys/mounts/auth/x", r#"{"type":"kv"}"#).unwrap_err();
    assert_eq!(refused, Error::invalid("cannot mount \"auth/x/\""));
}

/// A role that says nothing of policies does not lift the rule that nobody hands out what they do
/// not hold, and one that says something gives no more than that, whoever asks.
#[test]
fn a_role_is_no_way_to_what_its_user_does_not_hold() {
    let site = site();
    let policy = r#"{"policy":"path \"auth/token/create/*\" { capabilities = [\"update\"] }"}"#;
    site.ask(Update, "sys/policies/acl/maker", policy).unwrap();
    for (role, body) in [
        ("timed", r#"{"token_period":"1h","token_num_uses":3}"#),
        ("globs", r#"{"allowed_policies_glob":["web-*"]}"#),
    ] {
        site.ask(Update, &format!("auth/token/roles/{role}"), body).unwrap();
    }
    let maker = create(&site, "root", r#"{"policies":["maker"]}"#).unwrap();
    let make = |bearer: &str, role: &str, body: &str| {
        ask_as(&site.core, bearer, 0, Update, &format!("auth/token/create/{role}"), body)
    };
    let policies = |reply: Result<Response, Error>| match reply.unwrap() {
        Response::Logical(reply) => {
            let auth = json::parse(&reply.auth).unwrap();
            let auth = auth.as_object().unwrap();
            String::from_utf8(auth["policies"].to_text()).unwrap()
        }
        other => panic!("{other:?}"),
    };
    let refused = make(&maker, "timed", r#"{"policies":["app"]}"#).unwrap_err();
    assert_eq!(refused, Error::invalid("child policies must be subset of parent"));
    assert_eq!(policies(make(&maker, "timed", "{}")), r#"["default","maker"]"#);
    assert_eq!(policies(make("root", "globs", "{}")), r#"["default"]"#);
    assert_eq!(
        policies(make(&maker, "globs", r#"{"policies":["web-a"]}"#)),
        r#"["default","web-a"]"#
    );
    // A list of empty names asks for nothing; it is not the wish for all that its maker holds.
    let empty = ask_as(&site.core, "root", 0, Update, "auth/token/create", r#"{"policies":[""]}"#);
    assert_eq!(policies(empty), r#"["default"]"#);
    // More uses than the role gives are not to be had.
    let many = make(&maker, "timed", r#"{"num_uses":9}"#).unwrap();
    let Response::Logical(many) = many else { panic!("{many:?}") };
    assert!(String::from_utf8(many.auth).unwrap().contains(r#""num_uses":3"#));
}

#[test]
fn a_root_token_with_a_longest_life_ends_with_it() {
    let site = site();
    let bounded = r#"{"policies":["root"],"explicit_max_ttl":"1h"}"#;
    let bounded = create(&site, "root", bounded).unwrap();
    assert!(can_read(&site, &bounded, "auth/token/lookup-self", 3599));
    assert!(!can_read(&site, &bounded, "auth/token/lookup-self", 3600));
    let endless = create(&site, "root", r#"{"policies":["root"]}"#).unwrap();
    assert!(can_read(&site, &endless, "auth/token/lookup-self", 1 << 33));
}

#[test]
fn a_lifetime_below_a_second_is_one_and_never_no_limit() {
    let site = site();
    for short in ["1ms", "500ms", "0.5s"] {
        for field in ["ttl", "explicit_max_ttl", "period"] {
            let body = format!(r#"{{"{field}":"{short}"}}"#);
            let token = create(&site, crate::support::TOKEN, &body).unwrap();
            assert!(can_read(&site, &token, "secret/data/other", 0));
            assert!(!can_read(&site, &token, "secret/data/other", 2), "{body}");
            let negative = body.replace(short, &format!("-{short}"));
            assert!(create(&site, crate::support::TOKEN, &negative).is_err(), "{negative}");
        }
    }
    let body = r#"{"type":"batch","policies":["app"],"ttl":"500ms"}"#;
    let token = create(&site, crate::support::TOKEN, body).unwrap();
    assert!(can_read(&site, &token, "secret/data/app/one", 0));
    assert!(!can_read(&site, &token, "secret/data/app/one", 2));
}
