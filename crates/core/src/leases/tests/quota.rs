//! Lease counts: one more lease than there may be is refused, whoever asks for it.

use jiff::Timestamp;
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_auth::Path;

use super::engine::Mood;
use super::error_of;
use super::site::{ROOT, Site, data, logical, poll_some};
use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::request::{Request, TokenText};

fn rule(site: &Site, name: &str, body: &str) -> Result<crate::Response, Error> {
    site.ask(0, Update, &format!("sys/quotas/lease-count/{name}"), body)
}

fn counter(site: &Site, name: &str) -> Json {
    data(site.ask(0, Read, &format!("sys/quotas/lease-count/{name}"), "").unwrap(), "counter")
}

#[test]
fn credentials_of_a_mount_are_refused_beyond_their_number_until_one_ends() {
    let mut site = Site::open();
    let (id, _) = site.make(ROOT, 0, "r").unwrap();
    rule(&site, "far", r#"{"path":"far","max_leases":3}"#).unwrap();
    site.make(ROOT, 0, "r").unwrap();
    site.make(ROOT, 0, "r2").unwrap();
    let refused = site.make(ROOT, 0, "r").unwrap_err();
    assert!(matches!(refused, Error::OverQuota(_)));
    assert_eq!(refused.to_string(), "request path \"far/creds/r\": lease count quota exceeded");
    assert_eq!((site.far_end.users().len(), counter(&site, "far")), (3, 3_u64.into()));
    site.restart();
    assert!(site.make(ROOT, 0, "r").is_err(), "it is counted from what is stored");
    let body = format!(r#"{{"lease_id":"{id}","sync":true}}"#);
    site.ask(0, Update, "sys/leases/revoke", &body).unwrap();
    site.make(ROOT, 0, "r").unwrap();
    assert!(site.make(ROOT, 0, "r").is_err());
    // One role by itself, and the tokens of the server, are none of that rule's business.
    rule(&site, "role", r#"{"path":"far/creds/r2","max_leases":2}"#).unwrap();
    site.make(ROOT, 0, "r2").unwrap();
    assert!(site.make(ROOT, 0, "r2").is_err());
    site.token(ROOT, "{}").unwrap();
    site.ask(0, Delete, "sys/quotas/lease-count/role", "").unwrap();
    site.ask(0, Delete, "sys/quotas/lease-count/far", "").unwrap();
    site.make(ROOT, 0, "r2").unwrap();
    site.check();
}

#[test]
fn a_creation_that_fails_gives_its_place_back() {
    let site = Site::open();
    rule(&site, "far", r#"{"path":"far/","max_leases":1}"#).unwrap();
    site.far_end.set(Mood::Fails);
    assert!(site.make(ROOT, 0, "r").is_err());
    site.settle(1);
    assert_eq!(counter(&site, "far"), 0_u64.into());
    site.make(ROOT, 0, "r").unwrap();
    // One that is under way counts as one that is there.
    let site = Site::open();
    rule(&site, "far", r#"{"path":"far/","max_leases":1}"#).unwrap();
    site.far_end.set(Mood::Hangs);
    assert!(site.make(ROOT, 0, "r").is_err());
    assert!(matches!(site.make(ROOT, 0, "r").unwrap_err(), Error::OverQuota(_)));
}

#[test]
fn tokens_count_where_they_were_made_and_batch_tokens_nowhere() {
    let site = Site::open();
    rule(&site, "tokens", r#"{"path":"auth/token/","max_leases":2}"#).unwrap();
    let batch = r#"{"type":"batch","policies":["default"],"ttl":"60s"}"#;
    for _ in 0..2 {
        site.token(ROOT, "{}").unwrap();
        site.token(ROOT, batch).unwrap();
    }
    let refused = error_of(site.token(ROOT, "{}").map(|_| crate::Response::Empty));
    assert_eq!(refused, "request path \"auth/token/create\": lease count quota exceeded");
    site.token(ROOT, batch).unwrap();
    site.make(ROOT, 0, "r").unwrap();
    rule(&site, "all", r#"{"max_leases":3}"#).unwrap();
    assert_eq!(counter(&site, "all"), 3_u64.into());
    assert!(site.make(ROOT, 0, "r").is_err());
}

#[test]
fn a_rule_of_a_namespace_counts_its_own_leases_and_one_for_everything_counts_all() {
    let site = Site::open();
    site.ask(0, Update, "sys/namespaces/a", "").unwrap();
    let mount = ("sys/mounts/far", r#"{"type":"far"}"#);
    site.ask_as(ROOT, "a/", 0, Update, mount.0, mount.1).unwrap();
    let make = |namespace: &str| site.ask_as(ROOT, namespace, 0, Read, "far/creds/r", "");
    rule(&site, "a", r#"{"path":"a/","max_leases":2}"#).unwrap();
    for _ in 0..2 {
        make("a/").unwrap();
        make("").unwrap();
    }
    assert!(matches!(make("a/"), Err(Error::OverQuota(_))) && make("").is_ok());
    rule(&site, "all", r#"{"max_leases":6}"#).unwrap();
    assert_eq!((counter(&site, "a"), counter(&site, "all")), (2_u64.into(), 5_u64.into()));
    make("").unwrap();
    assert!(matches!(make(""), Err(Error::OverQuota(_))));
    let inside = ("sys/quotas/lease-count/in", r#"{"max_leases":1}"#);
    assert!(site.ask_as(ROOT, "a/", 0, Update, inside.0, inside.1).is_err());
}

#[test]
fn a_rule_is_shown_listed_and_refused_where_it_makes_no_sense() {
    let site = Site::open();
    assert_eq!(site.ask(0, List, "sys/quotas/lease-count", "").unwrap_err(), Error::NotFound);
    for (wrong, why) in [
        ("{}", "'max_leases' is invalid"),
        (r#"{"max_leases":0}"#, "'max_leases' is invalid"),
        (r#"{"max_leases":-1}"#, "'max_leases' is invalid"),
        (r#"{"max_leases":1,"path":"none"}"#, "invalid mount path \"none/\""),
        (
            r#"{"max_leases":1,"role":"x","path":"auth/token/"}"#,
            "role: the leases of one role are not counted apart",
        ),
    ] {
        assert_eq!(error_of(rule(&site, "x", wrong)), why);
    }
    rule(&site, "x", r#"{"max_leases":7,"path":"far"}"#).unwrap();
    let twin = error_of(rule(&site, "y", r#"{"max_leases":9,"path":"far/"}"#));
    assert_eq!(twin, "quota rule with similar properties exists under the name \"x\"");
    let shown = logical(site.ask(0, Read, "sys/quotas/lease-count/x", "").unwrap());
    let expected = r#"{"counter":0,"inheritable":false,"max_leases":7,"name":"x","path":"far/","role":"","type":"lease-count"}"#;
    assert_eq!(String::from_utf8(shown.data).unwrap(), expected);
    let names = data(site.ask(0, List, "sys/quotas/lease-count", "").unwrap(), "keys");
    assert_eq!(names, Json::strings(["x"]));
}

/// A request for a credential, by root.
fn creds_request<'r>() -> Request<'r> {
    let path = Path::decode("far/creds/r").unwrap();
    let token = Some(TokenText::new(ROOT));
    Request { token, ..Request::new(Read, path, Timestamp::UNIX_EPOCH) }
}

#[test]
fn of_many_who_ask_at_once_no_more_get_one_than_there_may_be() {
    let site = Site::open();
    rule(&site, "far", r#"{"path":"far/","max_leases":4}"#).unwrap();
    let request = creds_request();
    site.far_end.set(Mood::Waits);
    let mut asked: Vec<_> = (0..9).map(|_| Box::pin(site.core.handle(&request))).collect();
    let answers: Vec<_> = asked.iter_mut().map(poll_some).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_none()).count(), 4);
    let is_refused =
        |answer: &Option<Result<_, Error>>| matches!(answer, Some(Err(Error::OverQuota(_))));
    assert_eq!(answers.iter().filter(|answer| is_refused(answer)).count(), 5);
}
