//! The lives of tokens as leases, and what a crash leaves of them.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_core::json::{self, Json};
use kallisto_core::{Error, Operation};
use kallisto_store::{Batch, MemoryStore, Records, Store, StoreOp, Visit};

use crate::support::{Site, ask_as, logical};

use Operation::{List, Read, Update};

fn create(site: &Site, maker: &str, body: &str) -> String {
    let made = logical(ask_as(&site.core, maker, 0, Update, "auth/token/create", body).unwrap());
    let auth = json::parse(&made.auth).unwrap();
    auth.as_object().unwrap()["client_token"].as_str().unwrap().to_owned()
}

/// The keys of a list; none when there is nothing to list.
fn keys(site: &Site, path: &str) -> Vec<String> {
    let answer = match site.ask(List, path, "") {
        Ok(answer) => logical(answer),
        Err(Error::NotFound) => return Vec::new(),
        Err(other) => panic!("{other:?}"),
    };
    let data = json::parse(&answer.data).unwrap();
    let Json::Array(keys) = &data.as_object().unwrap()["keys"] else { panic!("no keys") };
    keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect()
}

fn lives(site: &Site, token: &str) -> bool {
    ask_as(&site.core, token, 0, Read, "auth/token/lookup-self", "").is_ok()
}

fn site() -> Site {
    Site::open(1 << 20)
}

const DEFAULT: &str = r#"{"policies":["default"],"ttl":"1h"}"#;

#[test]
fn a_token_is_a_lease_at_the_path_it_was_made_at() {
    let site = site();
    let token = create(&site, "root", DEFAULT);
    site.ask(Update, "auth/token/roles/r", r#"{"path_suffix":"sfx"}"#).unwrap();
    site.ask(Update, "auth/token/create/r", DEFAULT).unwrap();
    site.ask(Update, "auth/token/create-orphan", DEFAULT).unwrap();
    assert_eq!(keys(&site, "sys/leases/lookup/"), ["auth/"]);
    assert_eq!(keys(&site, "sys/leases/lookup/auth/token"), ["create-orphan/", "create/"]);
    let made = keys(&site, "sys/leases/lookup/auth/token/create");
    assert_eq!((made.len(), made[1].as_str()), (2, "r/"));
    assert_eq!(keys(&site, "sys/leases/lookup/auth/token/create/r/"), ["sfx/"]);
    assert!(keys(&site, "sys/leases/lookup/none").is_empty());
    let id = format!("auth/token/create/{}", made[0]);
    let body = format!(r#"{{"lease_id":"{id}"}}"#);
    let data = logical(site.ask(Update, "sys/leases/lookup", &body).unwrap()).data;
    let data = json::parse(&data).unwrap();
    let data = data.as_object().unwrap();
    assert!(data["id"] == id.as_str().into() && data["ttl"] == 3600_u64.into());
    let renewed = site.ask(Update, "sys/leases/renew", &body).unwrap_err();
    assert_eq!(renewed, Error::invalid("tokens cannot be renewed through this endpoint"));
    site.ask(Update, "sys/leases/revoke", &body).unwrap();
    assert!(!lives(&site, &token));
    site.ask(Update, "sys/leases/revoke", &body).unwrap();
    let gone = site.ask(Update, "sys/leases/lookup", &body).unwrap_err();
    assert_eq!(gone, Error::invalid("invalid lease"));
    for verb in ["lookup", "renew", "revoke"] {
        let nothing = site.ask(Update, &format!("sys/leases/{verb}"), "").unwrap_err();
        assert_eq!(nothing, Error::invalid("lease_id must be specified"), "{verb}");
    }
}

#[test]
fn a_prefix_is_whole_segments_and_the_first_root_token_has_no_lease() {
    let site = site();
    let one = create(&site, "root", DEFAULT);
    let body = r#"{"policies":["default"],"id":"other"}"#;
    site.ask(Update, "auth/token/create-orphan", body).unwrap();
    site.ask(Update, "sys/leases/revoke-prefix/auth/token/crea", "").unwrap();
    assert!(lives(&site, &one));
    site.ask(Update, "sys/leases/revoke-prefix/auth/token/create", "").unwrap();
    assert!(!lives(&site, &one) && lives(&site, "other"));
    site.ask(Update, "sys/leases/revoke-force/auth", "").unwrap();
    assert!(!lives(&site, "other") && lives(&site, "root"));
    assert!(keys(&site, "sys/leases/lookup/").is_empty());
}

#[test]
fn a_large_family_ends_with_its_head_in_steps() {
    const CHILDREN: usize = 1000;
    let site = site();
    let body = r#"{"policies":["root"],"id":"head"}"#;
    site.ask(Update, "auth/token/create", body).unwrap();
    let children: Vec<String> =
        (0..CHILDREN).map(|_| create(&site, "head", r#"{"policies":["default"]}"#)).collect();
    assert!(lives(&site, &children[CHILDREN - 1]));
    ask_as(&site.core, "head", 0, Update, "auth/token/revoke-self", "").unwrap();
    assert!(children.iter().all(|child| !lives(&site, child)));
    assert_eq!(keys(&site, "auth/token/accessors").len(), 1, "root alone");
}

/// Takes the record of the only token but root out of the store, as a crash in the middle of its end
/// leaves it: the token is gone, what it kept is there.
fn end_without_sweep(store: &Arc<MemoryStore>, before: &[Vec<u8>]) {
    let mut batch = Batch::new();
    for key in token_keys(store) {
        if !before.contains(&key) {
            batch.delete(key);
        }
    }
    assert_eq!(batch.ops().iter().filter(|op| matches!(op, StoreOp::Delete { .. })).count(), 1);
    pollster::block_on(store.commit(batch)).unwrap();
}

fn token_keys(store: &Arc<MemoryStore>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let scanned = store.scan(&[4], &mut |key, _| {
        keys.push(key.to_vec());
        Visit::Continue
    });
    scanned.unwrap();
    keys
}

#[test]
fn what_a_token_kept_goes_although_a_crash_came_between() {
    let site = site();
    create(&site, "root", r#"{"policies":["default"],"id":"stays"}"#);
    let before = token_keys(&site.store);
    create(&site, "root", r#"{"policies":["default"],"id":"goes"}"#);
    for token in ["stays", "goes"] {
        let kept = ask_as(&site.core, token, 0, Update, "cubbyhole/a/b", r#"{"v":1}"#);
        kept.unwrap();
    }
    pollster::block_on(site.core.seal()).unwrap();
    end_without_sweep(&site.store, &before);
    let left = site.store.approximate_len();
    site.unseal();
    pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(site.store.approximate_len(), left - 1);
    assert!(ask_as(&site.core, "stays", 0, Read, "cubbyhole/a/b", "").is_ok());
}
