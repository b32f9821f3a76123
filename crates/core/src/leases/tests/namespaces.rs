//! Leases on both sides of the border between namespaces.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use super::engine::FarEnd;
use super::site::{ROOT, Site, data, logical};
use super::{body, error_of};
use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::response::Response;

/// `a` with `a/kid` below, and `b` beside, each with a far end at `far/`.
fn family() -> Site {
    let site = Site::open();
    for (above, name) in [("", "a"), ("a/", "kid"), ("", "b")] {
        site.ask_as(ROOT, above, 0, Update, &format!("sys/namespaces/{name}"), "").unwrap();
        let (path, body) = ("sys/mounts/far", r#"{"type":"far"}"#);
        site.ask_as(ROOT, &format!("{above}{name}/"), 0, Update, path, body).unwrap();
    }
    site
}

/// The id of a new lease.
fn make(site: &Site, namespace: &str) -> String {
    let answer = site.ask_as(ROOT, namespace, 0, Read, "far/creds/r", "").unwrap();
    logical(answer).lease.unwrap().id
}

/// How many users there are at the far end of a namespace.
fn users(site: &Site, namespace: &str) -> usize {
    let context = site.core.namespace_context(namespace).unwrap();
    let accessor = context.view.mounts.at("far/").unwrap().entry.accessor.clone();
    FarEnd::of(&accessor).users().len()
}

/// Asks one of the routes of leases about a lease.
fn ask(site: &Site, namespace: &str, verb: &str, id: &str, more: &str) -> Result<Response, Error> {
    let path = format!("sys/leases/{verb}");
    site.ask_as(ROOT, namespace, 0, Update, &path, &body(id, more))
}

fn all(site: &Site) -> usize {
    site.core.view().unwrap().leases.table().len()
}

#[test]
fn a_namespace_knows_its_own_leases_and_those_below() {
    let mut site = family();
    let namespaces = ["", "a/", "a/kid/", "b/"];
    let ids = namespaces.map(|namespace| make(&site, namespace));
    site.restart();
    assert_eq!(all(&site), 4);
    for here in namespaces {
        for (of, id) in namespaces.into_iter().zip(&ids) {
            let known = ask(&site, here, "lookup", id, "");
            assert_eq!(known.is_ok(), of.starts_with(here), "{here} {id}");
            let Ok(known) = known else {
                for verb in ["renew", "revoke"] {
                    drop(ask(&site, here, verb, id, ""));
                }
                continue;
            };
            let told = crate::api::json::parse_object(&logical(known).data).unwrap();
            assert_eq!(told["id"], id.as_str().into());
            let path = told.get("namespace_path").and_then(Json::as_str);
            assert_eq!(path, Some(of).filter(|path| !path.is_empty()));
            let renewed = logical(ask(&site, here, "renew", id, "").unwrap());
            assert_eq!((renewed.lease.unwrap().id, renewed.lease_secs), (id.clone(), 1800));
        }
    }
    let prefix = ("sys/leases/revoke-prefix/far", r#"{"sync":true}"#);
    site.ask_as(ROOT, "a/", 0, Update, prefix.0, prefix.1).unwrap();
    assert_eq!(all(&site), 3, "a prefix is of one namespace");
    let refused = error_of(site.ask(0, Delete, "sys/namespaces/b", ""));
    assert_eq!(refused, "unable to delete namespace containing leases");
    site.settle(90_000);
    assert_eq!(all(&site), 0);
    site.ask(0, Delete, "sys/namespaces/b", "").unwrap();
}

#[test]
fn a_lease_is_revoked_from_above_by_its_id_in_the_body_or_in_the_path() {
    let site = family();
    for here in ["", "a/"] {
        for more in [r#","sync":true"#, ""] {
            let id = make(&site, "a/kid/");
            assert_eq!(users(&site, "a/kid/"), 1);
            let told = body(&id, more);
            site.ask_as(ROOT, here, 1, Update, "sys/leases/revoke", &told).unwrap();
            site.run_jobs();
            assert_eq!((users(&site, "a/kid/"), all(&site)), (0, 0), "{here} {more}");
        }
        let id = make(&site, "a/kid/");
        let path = format!("sys/leases/revoke/{id}");
        site.ask_as(ROOT, here, 0, Update, &path, r#"{"sync":true}"#).unwrap();
        assert_eq!((users(&site, "a/kid/"), all(&site)), (0, 0), "{here}");
    }
}

#[test]
fn a_lease_from_beside_or_above_is_told_from_no_unknown_one() {
    let site = family();
    let unknown = "far/creds/r/abcdefghijklmnopqrstuvwx.none";
    for (here, of) in [("b/", "a/"), ("b/", "a/kid/"), ("a/kid/", "a/"), ("a/", ""), ("b/", "")] {
        let id = make(&site, of);
        for verb in ["lookup", "renew", "revoke"] {
            let [of_other, of_nobody] =
                [id.as_str(), unknown].map(|id| ask(&site, here, verb, id, r#","sync":true"#));
            let said = |answer: &Result<Response, Error>| format!("{answer:?}");
            assert_eq!(said(&of_other), said(&of_nobody), "{here} {verb} {id}");
        }
        assert!(ask(&site, of, "lookup", &id, "").is_ok());
    }
}

#[test]
fn the_lease_of_a_token_is_known_from_above_by_the_mark_of_its_namespace() {
    let site = family();
    let make = || {
        let made = site.ask_as(ROOT, "a/", 0, Update, "auth/token/create-orphan", "{}").unwrap();
        let auth = crate::api::json::parse_object(&logical(made).auth).unwrap();
        auth["client_token"].as_str().unwrap().to_owned()
    };
    let id = || {
        let path = "sys/leases/lookup/auth/token/create-orphan";
        let Json::Array(names) = data(site.ask_as(ROOT, "a/", 0, List, path, "").unwrap(), "keys")
        else {
            panic!("no list")
        };
        assert_eq!(names.len(), 1);
        format!("auth/token/create-orphan/{}", names[0].as_str().unwrap())
    };
    let lives =
        |token: &str| site.ask_as(token, "a/", 0, Read, "auth/token/lookup-self", "").is_ok();
    for here in ["", "a/"] {
        let (token, id) = (make(), id());
        let found = logical(ask(&site, here, "lookup", &id, "").unwrap());
        let found = crate::api::json::parse_object(&found.data).unwrap();
        assert_eq!(
            (found["id"].as_str(), found["namespace_path"].as_str()),
            (Some(&*id), Some("a/"))
        );
        for beside in ["b/", "a/kid/"] {
            assert_eq!(error_of(ask(&site, beside, "lookup", &id, "")), "invalid lease");
            ask(&site, beside, "revoke", &id, "").unwrap();
        }
        assert!(lives(&token));
        // As it was spelled before, in its own namespace alone.
        let bare = id.rsplit_once('.').unwrap().0;
        assert!(ask(&site, "a/", "lookup", bare, "").is_ok());
        assert!(ask(&site, "", "lookup", bare, "").is_err());
        ask(&site, here, "revoke", &id, "").unwrap();
        assert!(!lives(&token));
    }
}

#[test]
fn a_token_of_a_namespace_above_ends_its_leases_below() {
    let site = Site::open();
    site.ask(0, Update, "sys/namespaces/a", "").unwrap();
    site.ask_as(ROOT, "a/", 0, Update, "sys/mounts/far", r#"{"type":"far"}"#).unwrap();
    let token = site.token(ROOT, r#"{"policies":["root"]}"#).unwrap();
    site.ask_as(&token, "a/", 0, Read, "far/creds/r", "").unwrap();
    assert_eq!(all(&site), 1);
    site.ask(0, Update, "auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    site.tick(1);
    assert_eq!(all(&site), 0);
}
