//! Leases against a far end that fails, hangs and lies, on a store that loses its power.

mod creation;
pub(crate) mod engine;
mod lead;
mod namespaces;
mod outage;
mod owners;
mod quota;
mod random;
mod site;

use std::sync::atomic::Ordering;

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::RoleTtl;
use kallisto_leases::LeasePhase;

use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::leases::revoke::Closing;
use crate::view::Closed;
use engine::{FarEnd, Mood};
use site::{ROOT, Site, data, logical};

fn body(id: &str, more: &str) -> String {
    format!(r#"{{"lease_id":"{id}"{more}}}"#)
}

fn revoke(site: &Site, secs: i64, id: &str, sync: bool) -> Result<Response, Error> {
    site.ask(secs, Update, "sys/leases/revoke", &body(id, &format!(r#","sync":{sync}"#)))
}

fn is_gone(site: &Site, id: &str) -> bool {
    match site.ask(0, Update, "sys/leases/lookup", &body(id, "")) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, Error::invalid("invalid lease"));
            true
        }
    }
}

fn error_of(answer: Result<Response, Error>) -> String {
    answer.unwrap_err().to_string()
}

#[test]
fn a_credential_comes_with_a_lease_that_is_known_by_its_id() {
    let site = Site::open();
    let answer = logical(site.ask(100, Read, "far/creds/r", "").unwrap());
    let lease = answer.lease.unwrap();
    assert!(lease.renewable && answer.lease_secs == 1800);
    let (path, random) = lease.id.rsplit_once('/').unwrap();
    assert!(path == "far/creds/r" && random.len() == 24);
    let known = site.ask(160, Update, "sys/leases/lookup", &body(&lease.id, "")).unwrap();
    let text = String::from_utf8(logical(known).data).unwrap();
    let expected = format!(
        r#"{{"expire_time":"1970-01-01T00:31:40Z","id":"{}","issue_time":"1970-01-01T00:01:40Z","last_renewal":null,"path":"far/creds/r","renewable":true,"ttl":1740}}"#,
        lease.id
    );
    assert_eq!(text, expected);
    let names = |path: &str| data(site.ask(0, List, path, "").unwrap(), "keys");
    assert_eq!(names("sys/leases/lookup/"), Json::strings(["far/"]));
    assert_eq!(names("sys/leases/lookup/far/creds"), Json::strings(["r/"]));
    assert_eq!(names("sys/leases/lookup/far/creds/r"), Json::strings([random]));
    site.check();
    assert_eq!(site.phases(), [LeasePhase::Live]);
}

#[test]
fn a_credential_that_ends_early_ends_its_lease_then() {
    let site = Site::open();
    let answer = logical(site.ask(100, Read, "far/creds/brief", "").unwrap());
    assert_eq!((answer.lease_secs, answer.warnings), (300, vec!["it is brief".to_owned()]));
    let id = answer.lease.unwrap().id;
    let renewed = site.ask(160, Update, "sys/leases/renew", &body(&id, r#","increment":"1h""#));
    assert_eq!(logical(renewed.unwrap()).lease_secs, 240, "and no renewal moves that");
    site.check();
}

#[test]
fn what_takes_a_credential_back_is_what_the_engine_said_last() {
    let site = Site::open();
    let (id, user) = site.make(ROOT, 0, "renamed").unwrap();
    assert!(user.ends_with("-renamed") && site.far_end.users().contains(&user));
    revoke(&site, 0, &id, true).unwrap();
    assert_eq!(site.far_end.users().len(), 0);
    // One that was made, and said that it was not: taken back at once, by what is known of it.
    site.far_end.set(Mood::Lies);
    error_of(site.make(ROOT, 0, "renamed").map(|_| Response::Empty));
    assert_eq!((site.far_end.users().len(), site.phases().len()), (0, 1));
    site.far_end.set(Mood::Healthy);
    site.check();
}

#[test]
fn a_maximum_that_became_shorter_bounds_the_renewals_of_the_leases_there_are() {
    let site = Site::open();
    let renew = |secs, id: &str, increment: &str| {
        let more = format!(r#","increment":"{increment}""#);
        site.ask(secs, Update, "sys/leases/renew", &body(id, &more)).map(logical)
    };
    let (id, _) = site.make(ROOT, 0, "r").unwrap();
    let (long, _) = site.make(ROOT, 0, "r").unwrap();
    assert_eq!(renew(0, &long, "2h").unwrap().lease_secs, 7200);
    let tuned = r#"{"default_lease_ttl":"20m","max_lease_ttl":"40m"}"#;
    site.ask(0, Update, "sys/mounts/far/tune", tuned).unwrap();
    let renewed = renew(600, &id, "1h").unwrap();
    assert_eq!((renewed.lease_secs, renewed.warnings.len()), (1800, 1));
    // One that is past it keeps what it was given.
    let refused = renew(2400, &long, "60s").unwrap_err();
    assert_eq!(refused, Error::invalid("past the max TTL, cannot renew"));
    let known = site.ask(2400, Update, "sys/leases/lookup", &body(&long, "")).unwrap();
    assert_eq!(data(known, "ttl"), 4800_u64.into());
    // A longer one changes nothing of leases that were made before.
    let tuned = r#"{"default_lease_ttl":"20m","max_lease_ttl":"1000h"}"#;
    site.ask(2400, Update, "sys/mounts/far/tune", tuned).unwrap();
    assert_eq!(renew(2400, &long, "1000h").unwrap().lease_secs, 84_000);
    site.check();
}

/// As OpenBao's engines have it, which read the role again.
#[test]
fn a_role_that_became_stricter_bounds_the_renewals_of_its_leases() {
    let site = Site::open();
    let renew = |secs, id: &str, increment: &str| {
        let more = format!(r#","increment":"{increment}""#);
        site.ask(secs, Update, "sys/leases/renew", &body(id, &more)).map(logical)
    };
    let (id, _) = site.make(ROOT, 0, "r").unwrap();
    assert_eq!(renew(0, &id, "2h").unwrap().lease_secs, 7200);
    site.far_end.set_roles(RoleTtl { default_secs: 600, max_secs: 3000 });
    assert_eq!(renew(600, &id, "0").unwrap().lease_secs, 600, "the default by now");
    let capped = renew(600, &id, "2h").unwrap();
    assert_eq!((capped.lease_secs, capped.warnings.len()), (2400, 1));
    // A longer maximum than the mount's, or than the lease was made with, bounds nothing.
    site.far_end.set_roles(RoleTtl { default_secs: 0, max_secs: 1_000_000 });
    assert_eq!(renew(2400, &id, "1000h").unwrap().lease_secs, 84_000);
    site.far_end.set_roles(RoleTtl { default_secs: 0, max_secs: 1200 });
    let refused = renew(2400, &id, "60s").unwrap_err();
    assert_eq!(refused, Error::invalid("past the max TTL, cannot renew"));
    site.check();
}

#[test]
fn a_renewal_counts_from_now_within_the_maximum_and_says_when_it_was_cut() {
    let site = Site::open();
    let (id, _) = site.make(ROOT, 0, "r").unwrap();
    let renew = |secs, id: &str, increment: &str| {
        let more = format!(r#","increment":"{increment}""#);
        site.ask(secs, Update, "sys/leases/renew", &body(id, &more)).map(logical)
    };
    let renewed = renew(60, &id, "45m").unwrap();
    assert_eq!((renewed.lease_secs, renewed.warnings.len()), (2700, 0));
    assert_eq!(renewed.lease.unwrap().id, id);
    let capped = renew(0, &id, "100h").unwrap();
    assert_eq!(capped.lease_secs, 86_400);
    assert_eq!(
        capped.warnings,
        [
            "TTL of \"100h\" exceeded the effective max_ttl of \"24h\"; TTL value is capped accordingly"
        ]
    );
    let (short, _) = site.make(ROOT, 0, "short").unwrap();
    assert_eq!(renew(0, &short, "60s").unwrap().lease_secs, 8);
    assert_eq!(renew(8, &short, "60s").unwrap_err(), Error::invalid("invalid lease"));
    let (fixed, _) = site.make(ROOT, 0, "fixed").unwrap();
    let refused = renew(0, &fixed, "60s").unwrap_err();
    assert_eq!(refused, Error::invalid("lease is not renewable"));
    site.far_end.set(Mood::Fails);
    let refused = renew(0, &id, "60s").unwrap_err();
    assert_eq!(refused, Error::invalid("failed to renew entry: ERROR: the far end is down"));
    assert!(renew(0, "far/creds/r/none", "60s").is_err());
}

#[test]
fn who_waits_for_a_revocation_hears_how_it_went() {
    let site = Site::open();
    let (id, user) = site.make(ROOT, 0, "r").unwrap();
    site.far_end.set(Mood::Fails);
    let failed = error_of(revoke(&site, 0, &id, true));
    assert_eq!(failed, "failed to revoke entry: ERROR: the far end is down");
    assert_eq!(site.phases(), [LeasePhase::Live], "the lease stays as it was");
    site.far_end.set(Mood::Healthy);
    revoke(&site, 0, &id, true).unwrap();
    assert!(is_gone(&site, &id) && !site.far_end.users().contains(&user));
    revoke(&site, 0, &id, true).unwrap();
}

#[test]
fn what_was_there_before_is_not_revoked() {
    let site = Site::open();
    site.far_end.set(Mood::HasTheName);
    let refused = site.make(ROOT, 0, "r").unwrap_err();
    assert_eq!(refused, Error::invalid("ERROR: the name is taken"));
    assert!(site.phases().is_empty(), "the lease is gone");
    site.far_end.set(Mood::Healthy);
    site.settle(100);
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 0);
}

#[test]
fn who_does_not_wait_is_answered_before_the_far_end() {
    let site = Site::open();
    let (id, user) = site.make(ROOT, 0, "r").unwrap();
    site.far_end.set(Mood::Hangs);
    revoke(&site, 1, &id, false).unwrap();
    assert_eq!(site.phases(), [LeasePhase::Revoking]);
    assert!(site.far_end.users().contains(&user));
    site.settle(2);
    assert!(is_gone(&site, &id) && site.far_end.users().is_empty());
}

#[test]
fn what_a_request_marks_is_taken_back_before_the_clock_says_so() {
    let site = Site::open();
    let (one, _) = site.make(ROOT, 0, "r").unwrap();
    let (other, _) = site.make(ROOT, 0, "r").unwrap();
    revoke(&site, 1, &one, false).unwrap();
    site.run_jobs();
    assert!(is_gone(&site, &one) && !is_gone(&site, &other));
    site.ask(1, Update, "sys/leases/revoke-prefix/far", "").unwrap();
    site.run_jobs();
    assert!(is_gone(&site, &other) && site.far_end.users().is_empty());
}

#[test]
fn a_lease_that_expires_is_revoked() {
    let site = Site::open();
    let (id, _) = site.make(ROOT, 0, "short").unwrap();
    let (longer, user) = site.make(ROOT, 0, "r").unwrap();
    site.tick(7);
    assert!(!is_gone(&site, &id));
    site.tick(8);
    assert!(is_gone(&site, &id) && !is_gone(&site, &longer));
    assert_eq!(site.far_end.users().into_iter().collect::<Vec<_>>(), [user]);
}

#[test]
fn a_prefix_is_revoked_whole_and_failures_are_counted() {
    let site = Site::open();
    let (first, _) = site.make(ROOT, 0, "r").unwrap();
    let (other, _) = site.make(ROOT, 0, "r2").unwrap();
    for _ in 0..80 {
        site.make(ROOT, 0, "r").unwrap();
    }
    site.far_end.set(Mood::Fails);
    let failed =
        error_of(site.ask(0, Update, "sys/leases/revoke-prefix/far/creds/r", r#"{"sync":true}"#));
    assert!(failed.starts_with("failed to revoke \"far/creds/r/"), "{failed}");
    assert!(
        failed.ends_with(" (81 / 81): failed to revoke entry: ERROR: the far end is down"),
        "{failed}"
    );
    site.far_end.set(Mood::Healthy);
    site.ask(0, Update, "sys/leases/revoke-prefix/far/creds/r", r#"{"sync":true}"#).unwrap();
    assert!(is_gone(&site, &first) && !is_gone(&site, &other));
    assert_eq!(site.far_end.at_once_max(), 8, "they do not wait for each other");
    site.ask(0, Update, "sys/leases/revoke-prefix/far", "").unwrap();
    assert!(!is_gone(&site, &other));
    site.tick(1);
    assert!(is_gone(&site, &other) && site.far_end.users().is_empty());
}

#[test]
fn force_forgets_leases_whatever_the_far_end_says() {
    let site = Site::open();
    let (id, user) = site.make(ROOT, 0, "r").unwrap();
    site.far_end.set(Mood::Fails);
    site.ask(0, Update, "sys/leases/revoke-force/far/creds", "").unwrap();
    assert!(is_gone(&site, &id) && site.far_end.users().contains(&user));
}

#[test]
fn a_lease_ends_with_its_token_and_with_the_token_above_it() {
    for (ended, by_restart) in [("child", false), ("parent", false), ("parent", true)] {
        let mut site = Site::open();
        let parent = site.token(ROOT, r#"{"policies":["root"]}"#).unwrap();
        let child = site.token(&parent, r#"{"policies":["root"]}"#).unwrap();
        let (id, _) = site.make(&child, 0, "r").unwrap();
        let (kept, _) = site.make(ROOT, 0, "r").unwrap();
        let token = if ended == "child" { &child } else { &parent };
        site.ask(0, Update, "auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
        assert!(site.make(&child, 0, "r").is_err());
        let renewed = site.ask(0, Update, "sys/leases/renew", &body(&id, ""));
        assert_eq!(renewed.unwrap_err(), Error::invalid("invalid lease"));
        if by_restart {
            // Nobody noted who had ended.
            site.restart();
        }
        site.tick(1);
        assert!(is_gone(&site, &id) && !is_gone(&site, &kept));
        site.check();
    }
}

#[test]
fn a_lease_of_a_batch_token_ends_with_it_or_with_its_parent() {
    let site = Site::open();
    let parent = site.token(ROOT, r#"{"policies":["root"]}"#).unwrap();
    let batch = |parent: &str, orphan: bool| {
        let body = format!(
            r#"{{"type":"batch","policies":["default","far"],"ttl":"60s","no_parent":{orphan}}}"#
        );
        site.token(parent, &body).unwrap()
    };
    let policy = r#"{"policy":"path \"far/*\" { capabilities = [\"read\"] }"}"#;
    site.ask(0, Update, "sys/policies/acl/far", policy).unwrap();
    let (of_child, _) = site.make(&batch(&parent, false), 0, "r").unwrap();
    let (of_orphan, _) = site.make(&batch(&parent, true), 0, "r").unwrap();
    let renewed = site.ask(30, Update, "sys/leases/renew", &body(&of_child, "")).unwrap();
    assert_eq!(logical(renewed).lease_secs, 30);
    site.ask(0, Update, "auth/token/revoke", &format!(r#"{{"token":"{parent}"}}"#)).unwrap();
    site.tick(31);
    assert!(is_gone(&site, &of_child) && !is_gone(&site, &of_orphan));
    site.tick(60);
    assert!(is_gone(&site, &of_orphan) && site.far_end.users().is_empty());
}

#[test]
fn the_last_use_of_a_token_hands_out_no_lease() {
    let site = Site::open();
    let token = site.token(ROOT, r#"{"policies":["root"],"num_uses":2}"#).unwrap();
    site.make(&token, 0, "r").unwrap();
    let refused = error_of(site.make(&token, 0, "r").map(|_| Response::Empty));
    assert!(refused.starts_with("Secret cannot be returned; token had one use left"), "{refused}");
    site.tick(1);
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn a_mount_goes_when_its_credentials_are_gone_unless_it_is_forced() {
    let site = Site::open();
    let (id, user) = site.make(ROOT, 0, "r").unwrap();
    site.far_end.set(Mood::Fails);
    let refused = error_of(site.ask(0, Delete, "sys/mounts/far", ""));
    assert!(refused.starts_with(&format!("failed to revoke \"{id}\"")), "{refused}");
    assert!(site.core.engine_at("far/").is_some(), "it stays");
    site.far_end.set(Mood::Healthy);
    let (second, _) = site.make(ROOT, 0, "r").unwrap();
    site.ask(0, Delete, "sys/mounts/far", "").unwrap();
    assert!(
        site.core.engine_at("far/").is_none() && is_gone(&site, &id) && is_gone(&site, &second)
    );
    assert!(!site.far_end.users().contains(&user) && site.far_end.users().is_empty());

    let site = Site::open();
    let (id, _) = site.make(ROOT, 0, "r").unwrap();
    site.far_end.set(Mood::Fails);
    site.ask(0, Delete, "sys/mounts/far?force=true", "").unwrap();
    assert!(site.core.engine_at("far/").is_none());
    assert_eq!(site.phases(), [LeasePhase::Irrevocable]);
    let counted = site.ask(0, Read, "sys/leases/count?type=irrevocable", "").unwrap();
    assert_eq!(data(counted, "lease_count"), 1_u64.into());
    site.ask(0, Update, "sys/leases/revoke-force/far", "").unwrap();
    assert!(is_gone(&site, &id));
    let wrong = site.ask(0, Delete, "sys/mounts/far?force=perhaps", "");
    assert!(wrong.is_ok(), "there is nothing there any more");
}

#[test]
fn wherever_the_power_goes_in_a_revocation_the_next_server_ends_it() {
    for sync in [true, false] {
        for commits in 0..4 {
            let mut site = Site::open();
            let (id, _) = site.make(ROOT, 0, "short").unwrap();
            site.cut_power_after(commits);
            let _ = revoke(&site, 1, &id, sync);
            site.tick(1);
            site.check();
            site.restart();
            site.settle(100);
            assert!(is_gone(&site, &id) && site.far_end.users().is_empty());
        }
    }
}

#[test]
fn a_revocation_that_somebody_waited_for_is_ended_by_the_next_server_long_before_its_lease() {
    for commits in 0..3 {
        let mut site = Site::open();
        let (id, user) = site.make(ROOT, 0, "r").unwrap();
        site.cut_power_after(commits);
        let answer = revoke(&site, 1, &id, true);
        site.check();
        site.restart();
        site.tick(2);
        site.check();
        // Where nothing was begun the lease goes on; where the far end may have been asked it ends.
        site.settle(62);
        let (is_gone, is_there) = (is_gone(&site, &id), site.far_end.users().contains(&user));
        assert_ne!(is_gone, is_there, "{commits}");
        assert_eq!(is_gone, commits > 0, "{commits}");
        assert_eq!(answer.is_ok(), commits == 2);
    }
}

#[test]
fn a_far_end_that_hangs_keeps_no_other_waiting() {
    let site = Site::open();
    site.ask(0, Update, "sys/mounts/other", r#"{"type":"far"}"#).unwrap();
    let accessor = site.core.view().unwrap().mounts.at("other/").unwrap().entry.accessor.clone();
    let other = FarEnd::of(&accessor);
    for _ in 0..40 {
        site.ask(0, Read, "far/creds/short", "").unwrap();
        site.ask(0, Read, "other/creds/short", "").unwrap();
    }
    site.far_end.set(Mood::Hangs);
    site.tick(10);
    assert!(other.users().is_empty(), "all of them in one second");
}

#[test]
fn leases_outlive_a_restart_and_a_seal() {
    let mut site = Site::open();
    let made: Vec<_> = (0..50).map(|_| site.make(ROOT, 0, "r").unwrap()).collect();
    site.restart();
    site.check();
    assert!(made.iter().all(|(id, _)| !is_gone(&site, id)));
    site.ask(0, Update, "sys/seal", "").unwrap();
    site.tick(5000);
    assert_eq!(site.far_end.users().len(), 50, "a sealed server ends nothing");
    site.unseal();
    site.settle(5000);
    site.check();
    assert!(site.far_end.users().is_empty());
}

#[test]
fn a_standby_asks_no_far_end() {
    let site = Site::open();
    let (id, _) = site.make(ROOT, 0, "short").unwrap();
    site.store.leads.store(false, Ordering::SeqCst);
    site.tick(100);
    for path in ["sys/leases/renew", "sys/leases/revoke"] {
        let refused = site.ask(0, Update, path, &body(&id, r#","sync":true"#));
        assert_eq!(refused.unwrap_err(), Error::NotLeader);
    }
    assert_eq!(site.make(ROOT, 0, "r").unwrap_err(), Error::NotLeader);
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 0);
    assert_eq!(site.far_end.users().len(), 1);
    site.store.leads.store(true, Ordering::SeqCst);
    site.tick(100);
    assert!(is_gone(&site, &id));
}

#[test]
fn after_a_restore_nothing_is_revoked_before_an_operator_says_so() {
    let mut site = Site::open();
    let (id, _) = site.make(ROOT, 0, "short").unwrap();
    let (other, _) = site.make(ROOT, 0, "r").unwrap();
    site.store.generation.store(7, Ordering::SeqCst);
    site.restart();
    site.settle(100);
    assert!(!is_gone(&site, &id));
    // Who asks for one lease gets what they ask for.
    revoke(&site, 0, &other, true).unwrap();
    assert!(is_gone(&site, &other));
    site.ask(0, Update, "sys/leases/tidy", "").unwrap();
    site.restart();
    site.settle(200);
    assert!(!is_gone(&site, &id), "the usual tidy is not meant");
    site.ask(0, Update, "sys/leases/tidy", r#"{"after_restore":true}"#).unwrap();
    site.restart();
    site.settle(300);
    assert!(is_gone(&site, &id));
}

#[test]
fn nothing_is_created_where_something_is_being_removed() {
    let site = Site::open();
    let context = site.core.context.load_full().unwrap();
    let number = context.view.mounts.at("far/").unwrap().entry.id.0;
    for place in [Closed::Mount(number), Closed::Namespace(0)] {
        let closing = Closing::begin(&context, place);
        let refused = error_of(site.ask(0, Read, "far/creds/r", ""));
        assert_eq!(refused, "the mount is being removed");
        assert!(site.phases().is_empty() && site.far_end.users().is_empty());
        drop(closing);
        let (id, _) = site.make(ROOT, 0, "r").unwrap();
        revoke(&site, 0, &id, true).unwrap();
    }
}
