//! Servers whose clocks differ: what one has done holds at another that is behind.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_core::{Core, Error, Operation, Response, json};
use kallisto_store::{Records, Store};

use crate::support::{Site, TOKEN, ask_as, sealed};

/// A clock that is right, and one that is behind.
const NOW: i64 = 1000;
const BEHIND: i64 = 990;

fn shows(site: &Site, secs: i64, path: &str) -> bool {
    match ask_as(&site.core, TOKEN, secs, Operation::Read, path, "").unwrap() {
        Response::Logical(_) => true,
        Response::Missing(_) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_deleted_is_gone_by_a_clock_that_is_behind() {
    let site = Site::open(1 << 20);
    let write = |secs, operation, path, body| {
        ask_as(&site.core, TOKEN, secs, operation, path, body).unwrap();
    };
    write(BEHIND, Operation::Update, "secret/data/a", r#"{"data":{"v":"1"}}"#);
    write(NOW, Operation::Delete, "secret/data/a", "");
    assert!(!shows(&site, NOW, "secret/data/a"));
    assert!(!shows(&site, BEHIND, "secret/data/a"));
    write(NOW, Operation::Update, "secret/undelete/a", r#"{"versions":[1]}"#);
    assert!(shows(&site, BEHIND, "secret/data/a"));
}

#[test]
fn what_deletes_itself_does_so_by_the_clock_of_who_is_asked() {
    let site = Site::open(1 << 20);
    let settings = r#"{"delete_version_after":"5s"}"#;
    for (path, body) in [("secret/metadata/a", settings), ("secret/data/a", r#"{"data":{}}"#)] {
        ask_as(&site.core, TOKEN, BEHIND, Operation::Update, path, body).unwrap();
    }
    assert!(shows(&site, BEHIND + 4, "secret/data/a"));
    assert!(!shows(&site, NOW, "secret/data/a"));
}

fn tick(site: &Site, secs: i64) {
    pollster::block_on(site.core.run_due_jobs(Timestamp::from_second(secs).unwrap())).unwrap();
}

/// A batch token of root's, made at a time, that lives for a minute; in a namespace if one is named.
fn batch_token(site: &Site, namespace: &str, secs: i64) -> String {
    let body = r#"{"type":"batch","ttl":"60s","policies":["all"]}"#;
    let path = format!("{namespace}auth/token/create-orphan");
    let made = ask_as(&site.core, TOKEN, secs, Operation::Update, &path, body).unwrap();
    let Response::Logical(made) = made else { panic!("{made:?}") };
    let auth = json::parse_object(&made.auth).unwrap();
    auth["client_token"].as_str().unwrap().to_owned()
}

fn lets_in(core: &Core, token: &str, namespace: &str, secs: i64) -> bool {
    let path = format!("{namespace}auth/token/lookup-self");
    ask_as(core, token, secs, Operation::Read, &path, "").is_ok()
}

/// How far behind the clock the mark may be.
const COARSE: i64 = 11;

#[test]
fn a_batch_token_that_has_ended_stays_so_when_the_clock_is_set_back() {
    for namespace in ["", "n/"] {
        let mut site = Site::open(1 << 20);
        if !namespace.is_empty() {
            site.ask(Operation::Update, "sys/namespaces/n", "").unwrap();
        }
        tick(&site, NOW);
        let token = batch_token(&site, namespace, NOW);
        let lets_in = |core: &Core, secs| lets_in(core, &token, namespace, secs);
        (NOW + 1..NOW + 60).for_each(|secs| tick(&site, secs));
        assert!(lets_in(&site.core, NOW + 59));
        (NOW + 60..=NOW + 60 + COARSE).for_each(|secs| tick(&site, secs));
        assert!(!lets_in(&site.core, NOW), "ended, whatever a clock says");
        tick(&site, NOW + 1);
        assert!(!lets_in(&site.core, NOW + 1));
        // Not remembered in memory alone.
        pollster::block_on(site.core.seal()).unwrap();
        site.core = sealed(Arc::clone(&site.store), 1 << 20);
        site.unseal();
        tick(&site, NOW + 2);
        assert!(!lets_in(&site.core, NOW + 2));
    }
}

#[test]
fn a_server_that_does_not_lead_and_whose_clock_is_behind_hears_of_it() {
    let site = Site::open(1 << 20);
    // A store is followed by one view, here by that of a server which never ticks.
    let other = sealed(Arc::clone(&site.store), 1 << 20);
    let body = format!(r#"{{"key":"{}"}}"#, site.keys[0]);
    ask_as(&other, "", 0, Operation::Update, "sys/unseal", &body).unwrap();
    let token = batch_token(&site, "", NOW);
    (NOW..=NOW + 59).for_each(|secs| tick(&site, secs));
    assert!(lets_in(&other, &token, "", NOW));
    (NOW + 60..=NOW + 60 + COARSE).for_each(|secs| tick(&site, secs));
    assert!(!lets_in(&other, &token, "", NOW));
}

#[test]
fn a_jump_ahead_and_back_does_no_harm_to_what_is_made_later() {
    let site = Site::open(1 << 20);
    let before = batch_token(&site, "", NOW);
    tick(&site, NOW);
    tick(&site, NOW + 1_000_000_000);
    // Made before the clock of the leader was looked at again: refused rather than dead from the start.
    let body = r#"{"type":"batch","ttl":"60s","policies":["all"]}"#;
    let made = ask_as(&site.core, TOKEN, NOW + 1, Operation::Update, "auth/token/create", body);
    assert!(matches!(made, Err(Error::Unavailable(_))), "{made:?}");
    tick(&site, NOW + 2);
    assert!(!lets_in(&site.core, &before, "", NOW + 2));
    let after = batch_token(&site, "", NOW + 2);
    assert!(lets_in(&site.core, &after, "", NOW + 2));
    (NOW + 3..NOW + 90).for_each(|secs| tick(&site, secs));
    assert!(!lets_in(&site.core, &after, "", NOW + 3));
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    assert!(!lets_in(&site.core, &after, "", NOW + 3));
    let later = batch_token(&site, "", NOW + 91);
    assert!(lets_in(&site.core, &later, "", NOW + 91));
}

#[test]
fn nothing_is_written_for_the_time_while_no_batch_token_lives() {
    let site = Site::open(1 << 20);
    let position = || site.store.position();
    tick(&site, NOW);
    let before = position();
    (NOW..NOW + 100).for_each(|secs| tick(&site, secs));
    assert_eq!(position(), before);
    batch_token(&site, "", NOW + 100);
    (NOW + 100..NOW + 1000).for_each(|secs| tick(&site, secs));
    let written = position().0 - before.0;
    assert!((1..=20).contains(&written), "{written}");
}

#[test]
fn secret_ids_are_swept_although_the_clock_was_ahead() {
    let site = Site::open(1 << 20);
    let write = |secs, path: &str, body| {
        ask_as(&site.core, TOKEN, secs, Operation::Update, path, body).unwrap();
    };
    write(NOW, "sys/auth/approle", r#"{"type":"approle"}"#);
    write(NOW, "auth/approle/role/r", r#"{"secret_id_ttl":"60s"}"#);
    tick(&site, NOW + 1_000_000_000);
    let before = site.store.approximate_len();
    write(NOW, "auth/approle/role/r/secret-id", "");
    assert!(site.store.approximate_len() > before);
    tick(&site, NOW + 62);
    assert_eq!(site.store.approximate_len(), before);
}
