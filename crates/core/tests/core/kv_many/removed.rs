//! What is deleted, copied and moved together: all of it, and nothing else.

use kallisto_core::{Denial, Error, Json, Operation, Response};
use kallisto_store::Store;

use super::{ROUTES, all_names, bearer, data, own, texts};
use crate::support::{Site, TOKEN};

/// Secrets of both versions, of which one is deleted.
fn site() -> Site {
    let site = Site::open(1 << 20);
    for mount in ["one", "two"] {
        let version = if mount == "one" { 1 } else { 2 };
        let body = format!(r#"{{"type":"kv","options":{{"version":"{version}"}}}}"#);
        site.ask(Operation::Update, &format!("sys/mounts/{mount}"), &body).unwrap();
    }
    for name in ["f/a", "f/a", "f/b", "f/gone", "g"] {
        site.put(name, "v");
    }
    site.ask(Operation::Delete, "secret/data/f/gone", "").unwrap();
    for name in ["f/a", "f/b", "g"] {
        site.ask(Operation::Update, &format!("one/{name}"), r#"{"v":"1"}"#).unwrap();
    }
    site
}

fn is_live(site: &Site, path: &str) -> bool {
    matches!(site.ask(Operation::Read, path, ""), Ok(Response::Logical(_)))
}

/// The paths that are told, after a look at the count beside them.
fn deleted(site: &Site, body: &str) -> Vec<String> {
    let told = data(own(site, TOKEN, "delete", body).unwrap());
    let paths = texts(&told, "paths");
    assert_eq!(told["count"], Json::from(paths.len() as u64));
    paths
}

#[test]
fn what_is_deleted_together_is_gone_and_comes_back_unless_it_was_purged() {
    let site = site();
    let before = site.store.position();
    let dry = deleted(&site, r#"{"path":"secret/f/","dry_run":true}"#);
    assert_eq!(dry, ["secret/f/a", "secret/f/b"], "the third is deleted already");
    assert_eq!(site.store.position(), before);
    assert_eq!(deleted(&site, r#"{"path":"secret/f/","count":2}"#), dry);
    assert!(!is_live(&site, "secret/data/f/a") && !is_live(&site, "secret/data/f/b"));
    assert!(is_live(&site, "secret/data/g"));
    site.ask(Operation::Update, "secret/undelete/f/a", r#"{"versions":[2]}"#).unwrap();
    assert!(is_live(&site, "secret/data/f/a"));
    assert_eq!(deleted(&site, r#"{"path":"secret/f/a"}"#), ["secret/f/a"]);
    assert!(!is_live(&site, "secret/data/f/a"));
    let purged = deleted(&site, r#"{"path":"secret/f/","purge":true,"count":3}"#);
    assert_eq!(purged, ["secret/f/a", "secret/f/b", "secret/f/gone"]);
    assert_eq!(all_names(&site), ["g"]);
    assert!(matches!(site.ask(Operation::Read, "secret/metadata/f/a", ""), Err(Error::NotFound)));
    assert_eq!(deleted(&site, r#"{"path":"secret/g","purge":true}"#), ["secret/g"]);
    assert!(all_names(&site).is_empty());
}

#[test]
fn secrets_without_versions_are_deleted_too() {
    let site = site();
    let before = site.store.position();
    deleted(&site, r#"{"path":"one/none"}"#);
    assert_eq!(site.store.position(), before, "there was nothing to delete");
    for body in [r#"{"path":"one/f/","count":1}"#, r#"{"path":"one/f/","count":3}"#] {
        let refused = own(&site, TOKEN, "delete", body);
        assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("there are 2 secrets")));
    }
    assert_eq!(site.store.position(), before);
    assert_eq!(deleted(&site, r#"{"path":"one/f/","count":2}"#), ["one/f/a", "one/f/b"]);
    assert!(!is_live(&site, "one/f/a") && !is_live(&site, "one/f/b") && is_live(&site, "one/g"));
    assert_eq!(deleted(&site, r#"{"path":"one/g","purge":true}"#), ["one/g"]);
    assert!(!is_live(&site, "one/g"));
}

#[test]
fn a_folder_is_moved_neither_to_itself_nor_into_itself_but_beside_itself_and_to_other_mounts() {
    let refused = |from: &str, to: &str| {
        let site = site();
        let before = site.store.position();
        let body = format!(r#"{{"from":"{from}","to":"{to}"}}"#);
        let answer = own(&site, TOKEN, "move", &body);
        assert!(answer.is_ok() || site.store.position() == before);
        answer.err().map(|error| error.to_string())
    };
    for (from, to, why) in [
        ("secret/f/", "secret/f/", Some("'from' and 'to' are the same")),
        ("secret/g", "secret/g", Some("'from' and 'to' are the same")),
        ("secret/f/", "secret/f/h/", Some("a folder cannot go into itself")),
        ("secret/", "secret/h/", Some("a folder cannot go into itself")),
        ("secret/f/", "secret/fh/", None),
        ("secret/g", "secret/gh", None),
        ("secret/g", "secret/g/h", None),
        ("secret/f/", "two/f/", None),
        ("secret/f/", "two/f/h/", None),
        ("secret/g", "two/g", None),
        ("one/f/", "one/fh/", None),
        ("one/f/", "one/f/h/", Some("a folder cannot go into itself")),
    ] {
        assert_eq!(refused(from, to).as_deref(), why, "{from} to {to}");
    }
}

#[test]
fn a_deleted_version_is_moved_by_those_who_may_bring_it_back() {
    let site = site();
    let rules = |more: &str| {
        format!(
            "{ROUTES} path \"secret/data/*\" {{ capabilities = [\"create\", \"read\", \"update\"] }}
            path \"secret/metadata/*\" {{ capabilities = [\"create\", \"read\", \"update\", \"delete\"] }} {more}"
        )
    };
    let mover = bearer(&site, "mover", &rules(""));
    let restorer = bearer(
        &site,
        "restorer",
        &rules("path \"secret/undelete/*\" { capabilities = [\"update\"] }"),
    );
    let moved = |token: &str, from: &str, to: &str| {
        own(&site, token, "move", &format!(r#"{{"from":"secret/{from}","to":"secret/{to}"}}"#))
    };
    assert!(moved(&mover, "g", "h").is_ok(), "nothing of it is deleted");
    let refused = moved(&mover, "f/gone", "away");
    assert!(matches!(refused, Err(Error::Denied(Denial::Policy))), "{refused:?}");
    assert!(moved(&restorer, "f/gone", "away").is_ok());
    // What is destroyed comes back for nobody.
    site.ask(Operation::Update, "secret/destroy/away", r#"{"versions":[1]}"#).unwrap();
    site.put("away", "v");
    assert!(moved(&mover, "away", "further").is_ok());
    site.assert_holds("further", "v");
}
