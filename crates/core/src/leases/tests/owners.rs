//! Leases and the time of the tokens that own them.

use jiff::Timestamp;
use kallisto_auth::Operation::{Read, Update};
use kallisto_auth::Path;

use super::site::{ROOT, Site, logical, poll_some};
use super::{body, error_of};
use crate::api::request::{Request, TokenText};
use crate::api::response::Logical;
use crate::leases::work_queue;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Asks as somebody at some time of a second.
fn ask_at(site: &Site, token: &str, millis: i64, path: &str, body: &str) -> Logical {
    let operation = if body.is_empty() { Read } else { Update };
    let request = Request {
        token: Some(TokenText::new(token)),
        body: body.as_bytes(),
        ..Request::new(operation, Path::decode(path).unwrap(), at(millis))
    };
    logical(poll_some(&mut Box::pin(site.core.handle(&request))).unwrap().unwrap())
}

/// The job that ends tokens may be late; the time of a token is not.
#[test]
fn a_lease_of_a_token_that_has_expired_is_not_renewed_before_the_token_is_cleared_away() {
    let site = Site::open();
    let token = site.token(ROOT, r#"{"policies":["root"],"ttl":"60s"}"#).unwrap();
    let (id, _) = site.make(&token, 0, "r").unwrap();
    let renew = |secs| site.ask(secs, Update, "sys/leases/renew", &body(&id, ""));
    assert_eq!(logical(renew(59).unwrap()).lease_secs, 1800);
    assert_eq!(error_of(renew(60)), "invalid lease");
}

#[test]
fn the_leases_of_a_token_that_has_expired_end_although_its_record_is_there() {
    let mut site = Site::open();
    let token = site.token(ROOT, r#"{"policies":["root"],"ttl":"60s"}"#).unwrap();
    site.make(&token, 0, "r").unwrap();
    site.restart();
    let root = site.core.context.load_full().unwrap();
    for (secs, users) in [(59, 1), (60, 0)] {
        // As behind a change of leaders, where the token is not cleared away yet.
        root.view.leases.look_at_all_owners();
        poll_some(&mut Box::pin(work_queue(&root, at(secs * 1000)))).unwrap().unwrap();
        site.run_jobs();
        assert_eq!(site.far_end.users().len(), users, "{secs}");
    }
    assert_eq!(root.view.tokens.counts().1, 1);
}

#[test]
fn a_lease_of_a_batch_token_is_given_no_more_than_the_token_whenever_in_a_second() {
    let site = Site::open();
    for millis in [10_000, 10_001, 10_500, 10_999] {
        let asked = r#"{"type":"batch","policies":["far"],"ttl":"600s","no_parent":true}"#;
        let policy = r#"{"policy":"path \"far/*\" { capabilities = [\"read\"] }"}"#;
        site.ask(0, Update, "sys/policies/acl/far", policy).unwrap();
        let made = ask_at(&site, ROOT, millis, "auth/token/create", asked);
        let auth = crate::api::json::parse_object(&made.auth).unwrap();
        let token = auth["client_token"].as_str().unwrap().to_owned();
        let lease = ask_at(&site, &token, millis, "far/creds/r", "");
        assert_eq!((lease.lease_secs, auth["lease_duration"].clone()), (600, 600_u64.into()));
        let ends = site.records().last().unwrap().term.expires_ns;
        assert!(ends <= (millis + 600_000) * 1_000_000, "{millis}");
        let sync = format!(r#"{{"lease_id":"{}","sync":true}}"#, lease.lease.unwrap().id);
        site.ask(11, Update, "sys/leases/revoke", &sync).unwrap();
    }
}
