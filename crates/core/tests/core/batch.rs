//! Batch tokens through the pipeline.

use jiff::Timestamp;
use kallisto_core::json::{self, Json};
use kallisto_core::{Denial, Error, Operation, Request, Response};
use kallisto_store::Records;

use crate::support::{Site, ask_as, request_of};

use Operation::{Read, Update};

/// The `auth` object of a reply.
fn auth(response: Response) -> json::Map {
    match response {
        Response::Logical(reply) => json::parse(&reply.auth).unwrap().as_object().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

fn create(site: &Site, maker: &str, path: &str, body: &str) -> Result<String, Error> {
    let auth = auth(ask_as(&site.core, maker, 0, Update, path, body)?);
    Ok(auth["client_token"].as_str().unwrap().to_owned())
}

fn site() -> Site {
    let site = Site::open(1 << 20);
    let policy =
        Json::object([("policy", r#"path "*" { capabilities = ["read", "update"] }"#.into())]);
    let body = String::from_utf8(policy.to_text()).unwrap();
    site.ask(Update, "sys/policies/acl/all", &body).unwrap();
    site.put("a", "1");
    site
}

fn reads(site: &Site, token: &str, secs: i64) -> bool {
    ask_as(&site.core, token, secs, Read, "secret/data/a", "").is_ok()
}

#[test]
fn a_batch_token_works_and_nothing_is_written_for_it() {
    let site = site();
    let before = site.store.approximate_len();
    let body = r#"{"type":"batch","policies":["all"],"ttl":"60s","meta":{"a":"b"}}"#;
    let made = auth(site.ask(Update, "auth/token/create", body).unwrap());
    assert_eq!(site.store.approximate_len(), before);
    assert!(made["accessor"] == "".into() && made["token_type"] == "batch".into());
    assert!(made["renewable"] == false.into() && made["lease_duration"] == 60_u64.into());
    let token = made["client_token"].as_str().unwrap();
    assert!(token.starts_with("hvb."));
    for _ in 0..2 {
        assert!(reads(&site, token, 59));
    }
    assert!(!reads(&site, token, 60));
    // It outlives what is in memory, and a rotation of the keys.
    pollster::block_on(site.core.seal()).unwrap();
    assert!(!reads(&site, token, 1));
    site.unseal();
    assert!(reads(&site, token, 1));
    site.ask(Update, "sys/rotate", "").unwrap();
    assert!(reads(&site, token, 1));
}

#[test]
fn a_batch_token_lives_as_long_as_was_asked_and_no_longer_whenever_in_a_second_it_is_made() {
    let site = site();
    for millis in [10_000, 10_001, 10_999] {
        let body = r#"{"type":"batch","policies":["all"],"ttl":"1s"}"#;
        let asked = request_of("root", 10, Update, "auth/token/create", body);
        let now = Timestamp::from_millisecond(millis).unwrap();
        let made = pollster::block_on(site.core.handle(&Request { now, ..asked }));
        let made = auth(made.unwrap());
        assert_eq!(made["lease_duration"], 1_u64.into(), "{millis}");
        let token = made["client_token"].as_str().unwrap();
        let reads_at = |millis| {
            let asked = request_of(token, 10, Read, "secret/data/a", "");
            let now = Timestamp::from_millisecond(millis).unwrap();
            pollster::block_on(site.core.handle(&Request { now, ..asked })).is_ok()
        };
        assert!(reads_at(millis + 999) && !reads_at(millis + 1000), "{millis}");
    }
}

#[test]
fn what_needs_a_stored_token_is_refused_to_a_batch_token() {
    let site = site();
    let batch =
        create(&site, "root", "auth/token/create", r#"{"type":"batch","policies":["all"]}"#);
    let batch = batch.unwrap();
    let given = format!(r#"{{"token":"{batch}"}}"#);
    for (path, body, message) in [
        ("auth/token/renew-self", "", "batch tokens cannot be renewed"),
        ("auth/token/renew", given.as_str(), "batch tokens cannot be renewed"),
        ("auth/token/revoke-self", "", "batch tokens cannot be revoked"),
        ("auth/token/revoke", &given, "batch tokens cannot be revoked"),
        ("auth/token/create", "", "batch tokens cannot create more tokens"),
        (
            "cubbyhole/a",
            r#"{"a":1}"#,
            "cubbyhole operations are only supported by 'service' type tokens",
        ),
    ] {
        let refused = ask_as(&site.core, &batch, 0, Update, path, body).unwrap_err();
        assert_eq!(refused, Error::invalid(message), "{path}");
    }
    assert!(reads(&site, &batch, 0));
    for (field, message) in [
        (r#""policies":["all"],"num_uses":2"#, "batch tokens cannot have \"num_uses\" set"),
        (r#""policies":["all"],"period":"1h""#, "batch tokens cannot have \"period\" set"),
        (
            r#""policies":["all"],"explicit_max_ttl":"1h""#,
            "batch tokens cannot have \"explicit_max_ttl\" set",
        ),
        (r#""policies":["root"]"#, "batch tokens cannot be root tokens"),
    ] {
        let body = format!(r#"{{"type":"batch",{field}}}"#);
        let refused = create(&site, "root", "auth/token/create", &body);
        assert_eq!(refused.unwrap_err(), Error::invalid(message), "{field}");
    }
}

#[test]
fn a_batch_token_ends_with_its_parent_unless_it_is_an_orphan() {
    let site = site();
    let parent = create(&site, "root", "auth/token/create", r#"{"policies":["all"]}"#).unwrap();
    let body = r#"{"type":"batch","policies":["all"]}"#;
    let child = create(&site, &parent, "auth/token/create", body).unwrap();
    let orphan = create(&site, &parent, "auth/token/create-orphan", body).unwrap();
    assert!(reads(&site, &child, 0) && reads(&site, &orphan, 0));
    ask_as(&site.core, &parent, 0, Update, "auth/token/revoke-self", "").unwrap();
    let ended = ask_as(&site.core, &child, 0, Read, "secret/data/a", "").unwrap_err();
    assert_eq!(ended, Error::Denied(Denial::BadToken));
    assert!(reads(&site, &orphan, 0));
}

/// No job has run: the parent is there still, and its time is over.
#[test]
fn a_batch_token_ends_with_the_time_of_its_parent() {
    let site = site();
    let body = r#"{"policies":["all"],"ttl":"60s"}"#;
    let parent = create(&site, "root", "auth/token/create", body).unwrap();
    let body = r#"{"type":"batch","policies":["all"],"ttl":"1h"}"#;
    let child = create(&site, &parent, "auth/token/create", body).unwrap();
    let asks = |secs| {
        let given = format!(r#"{{"token":"{child}","path":"secret/data/a"}}"#);
        let asked = |path: &str| ask_as(&site.core, "root", secs, Update, path, &given).is_ok();
        let looked = [asked("auth/token/lookup"), asked("sys/capabilities")];
        assert_eq!(looked, [reads(&site, &child, secs); 2], "{secs}");
        looked[0]
    };
    assert!(asks(0) && asks(59) && !asks(60));
    // A renewal of its parent gives it the time.
    ask_as(&site.core, &parent, 59, Update, "auth/token/renew-self", "").unwrap();
    assert!(asks(60) && asks(118) && !asks(119));
}

#[test]
fn a_role_decides_the_kind_of_its_tokens() {
    let site = site();
    let role = |body: &str| site.ask(Update, "auth/token/roles/r", body);
    let refused = role(r#"{"token_type":"batch","orphan":true}"#).unwrap_err();
    assert!(refused.to_string().contains("renewable tokens"), "{refused}");
    role(r#"{"token_type":"batch","orphan":true,"renewable":false,"allowed_policies":"all"}"#)
        .unwrap();
    let made = |body: &str| create(&site, "root", "auth/token/create/r", body).unwrap();
    assert!(made(r#"{"type":"service"}"#).starts_with("hvb."));
    role(r#"{"token_type":"default-batch"}"#).unwrap();
    assert!(made("").starts_with("hvb."));
    assert!(made(r#"{"type":"service"}"#).starts_with("hvs."));
}

/// Nothing extends a batch token: the maximum bounds the lifetime that it has, and a period gives none.
#[test]
fn a_role_with_a_maximum_or_a_period_gives_batch_tokens_within_them() {
    let site = site();
    let role = r#"{"token_explicit_max_ttl":"1h","token_period":"30m"}"#;
    site.ask(Update, "auth/token/roles/web", role).unwrap();
    for (body, secs) in [
        (r#"{"type":"batch","policies":"all"}"#, 3600_u64),
        (r#"{"type":"batch","policies":"all","ttl":"10m"}"#, 600),
        (r#"{"type":"batch","policies":"all","ttl":"9h"}"#, 3600),
    ] {
        let made = auth(site.ask(Update, "auth/token/create/web", body).unwrap());
        let shown = (made["token_type"].clone(), made["lease_duration"].clone());
        assert_eq!(shown, ("batch".into(), secs.into()), "{body}");
    }
    for asked in ["period", "explicit_max_ttl", "num_uses"] {
        let body = format!(r#"{{"type":"batch","policies":"all","{asked}":60}}"#);
        let refused = site.ask(Update, "auth/token/create/web", &body).unwrap_err().to_string();
        assert_eq!(refused, format!("batch tokens cannot have \"{asked}\" set"));
    }
    site.ask(Update, "sys/auth/userpass", r#"{"type":"userpass","config":{"token_type":"batch"}}"#)
        .unwrap();
    for (times, secs) in [
        (r#""token_explicit_max_ttl":"1h""#, 3600_u64),
        (r#""token_period":"30m""#, 1800),
        (r#""token_period":"30m","token_explicit_max_ttl":"10m""#, 600),
    ] {
        let body = format!(r#"{{"password":"pw",{times}}}"#);
        let user = format!("auth/userpass/users/u{secs}");
        site.ask(Update, &user, &body).unwrap();
        let login = format!("auth/userpass/login/u{secs}");
        let made = auth(site.ask(Update, &login, r#"{"password":"pw"}"#).unwrap());
        let shown = (made["token_type"].clone(), made["lease_duration"].clone());
        assert_eq!(shown, ("batch".into(), secs.into()), "{times}");
    }
}
