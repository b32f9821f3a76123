//! How namespaces begin, change, are locked and end.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::Operation::{Delete, List, Patch, Read, Scan, Update};
use kallisto_store::{Batch, Store};

use super::{
    ALL, make, number, object, open, policy, records_below, root, said, text, token, with,
};
use crate::api::error::Error;
use crate::api::json::Json;
use crate::limits::NAMESPACES_MAX;
use crate::platform::lockout::NameOwner;
use crate::platform::server_info::ServerInfo;
use crate::records::lockout_rules::LockoutRules;
use crate::state::Core;
use crate::storage::keys::{self, MountId, NamespaceNumber, kind};

fn tick(core: &Core) {
    pollster::block_on(core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
}

/// Another core over the same store: a restart.
fn restart(store: &Arc<impl Store + 'static>, key: &str) -> Core {
    let core = Core::new(Arc::clone(store) as _, ServerInfo::default());
    root("").get_bare(&core, key);
    core
}

impl super::Ask<'_> {
    fn get_bare(self, core: &Core, key: &str) {
        self.ask(core, Update, "sys/unseal", &object(&[("key", key)])).unwrap();
        assert!(!core.is_sealed());
    }
}

#[test]
fn one_namespace_more_than_there_may_be_is_refused_as_a_wrong_request() {
    let (_, core, _) = open();
    for at in 0..NAMESPACES_MAX {
        make(&core, "", &format!("n{at}"));
    }
    // No server will ever have room for it: clients must not send it again.
    let refused = root("").ask(&core, Update, "sys/namespaces/over", "{}");
    let why = "there are 1000 namespaces, as many as there may be".to_owned();
    assert_eq!(refused.err(), Some(Error::Invalid(why.clone())));
    assert_eq!(
        root("n0").ask(&core, Update, "sys/namespaces/over", "{}").err(),
        Some(Error::Invalid(why))
    );
    make(&core, "", "n7");
}

#[test]
fn names_and_metadata_are_checked() {
    let (_, core, _) = open();
    for (name, body) in [
        ("sys", "{}"),
        ("root", "{}"),
        ("auth", "{}"),
        ("cubbyhole", "{}"),
        ("identity", "{}"),
        ("audit", "{}"),
        ("a b", "{}"),
        ("a/b", "{}"),
        ("+", "{}"),
        ("a*", "{}"),
        ("{{a}}", "{}"),
        ("secret", "{}"),
        ("n", r#"{"custom_metadata":{"a":1}}"#),
        ("n", r#"{"custom_metadata":"a"}"#),
        ("n", r#"{"custom_metadata":{"":"a"}}"#),
    ] {
        let answer = root("").ask(&core, Update, &format!("sys/namespaces/{name}"), body);
        assert!(matches!(answer, Err(Error::Invalid(_))), "{name} {body}: {answer:?}");
    }
    assert_eq!(root("").ask(&core, List, "sys/namespaces", "").map(drop), Err(Error::NotFound));
    let made = root("").get(
        &core,
        Update,
        "sys/namespaces/team",
        r#"{"custom_metadata":{"a":"b","c":"d"}}"#,
    );
    assert_eq!((text(&made, "path"), text(&made, "id").len()), ("team/".into(), 6));
    let changed = root("").get(
        &core,
        Patch,
        "sys/namespaces/team",
        r#"{"custom_metadata":{"a":null,"e":"f"}}"#,
    );
    assert_eq!(changed["custom_metadata"], Json::object([("c", "d".into()), ("e", "f".into())]));
    let patched = root("").ask(&core, Patch, "sys/namespaces/none", "{}");
    assert_eq!(patched.map(drop), Err(Error::NoNamespace));
    make(&core, "team", "kid");
    let all = root("").get(&core, Scan, "sys/namespaces", "");
    assert_eq!(all["keys"], Json::strings(["team/", "team/kid/"]));
    let one = root("").get(&core, List, "sys/namespaces", "");
    assert_eq!(one["keys"], Json::strings(["team/"]));
    // Neither hides the other.
    for path in ["team", "team/a", "team/kid"] {
        let answer = root("").ask(&core, Update, &format!("sys/mounts/{path}"), r#"{"type":"kv"}"#);
        assert!(answer.is_err(), "{path}");
    }
    let moved = r#"{"from":"secret","to":"team/secret"}"#;
    assert!(root("").ask(&core, Update, "sys/remount", moved).is_err());
    let mut deep = "team".to_owned();
    for _ in 2..=crate::limits::NAMESPACE_DEPTH_MAX {
        make(&core, &deep, "d");
        deep.push_str("/d");
    }
    assert!(root(&deep).ask(&core, Update, "sys/namespaces/d", "{}").is_err());
}

/// Everything there is comes back with a restart, each in its place.
#[test]
fn namespaces_come_back_with_a_restart() {
    let (store, core, key) = open();
    make(&core, "", "team");
    make(&core, "team", "kid");
    for namespace in ["team", "team/kid"] {
        policy(&core, namespace, "all", ALL);
        root(namespace).get(&core, Update, "sys/mounts/kv", r#"{"type":"kv-v2"}"#);
        let body = format!(r#"{{"data":{{"v":"{namespace}"}}}}"#);
        root(namespace).get(&core, Update, "kv/data/a", &body);
    }
    let of_team = token(&core, "team", r#"{"policies":["all"]}"#);
    drop(core);
    let core = restart(&store, &key);
    for namespace in ["team", "team/kid"] {
        let read = root(namespace).ask(&core, Read, "kv/data/a", "");
        assert!(said(&read).contains(&format!("\"v\":\"{namespace}\"")), "{read:?}");
    }
    assert!(with("team", &of_team).ask(&core, Read, "kv/data/a", "").is_ok());
    assert!(with("team/kid", &of_team).ask(&core, Read, "kv/data/a", "").is_err());
    // The two mounts have ids of their own.
    let ids: Vec<MountId> = ["team/", "team/kid/"]
        .map(|path| {
            let context = core.namespace_context(path).unwrap();
            context.view.mounts.at("kv/").unwrap().entry.id
        })
        .into();
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn what_is_deleted_is_gone_at_once_and_cleared_in_steps() {
    let (store, core, key) = open();
    make(&core, "", "team");
    make(&core, "team", "kid");
    let refused = root("").ask(&core, Delete, "sys/namespaces/team", "");
    assert_eq!(said(&refused), "unable to delete namespace containing child namespaces");
    let kid = root("team").get(&core, Read, "sys/namespaces/kid", "");
    let number = number(&core, "team/kid/");
    root("team/kid").get(&core, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
    // More than one step has to take.
    let context = core.namespace_context("team/kid/").unwrap();
    let many = crate::limits::SWEEP_RECORDS_MAX + 10;
    for chunk in 0..many.div_ceil(1000) {
        let mut batch = Batch::new();
        for at in 0..1000 {
            batch.put(keys::storage(MountId(900), &format!("{chunk}/{at}")), Vec::new());
        }
        pollster::block_on(context.store.commit(batch)).unwrap();
    }
    let of_kid = token(&core, "team/kid", r#"{"policies":["default"]}"#);
    let answer = root("team").get(&core, Delete, "sys/namespaces/kid", "");
    assert_eq!(text(&answer, "status"), "in-progress");
    for ask in [root("team/kid"), with("team/kid", &of_kid)] {
        let answer = ask.ask(&core, Read, "auth/token/lookup-self", "");
        assert_eq!(answer.map(drop), Err(Error::NoNamespace));
    }
    // Who had begun before can write nothing any more.
    let mut late = Batch::new();
    late.put(keys::storage(MountId(900), "late"), Vec::new());
    assert!(pollster::block_on(context.store.commit(late)).is_err());
    drop(context);
    let tainted = root("team").get(&core, Read, "sys/namespaces/kid", "");
    assert_eq!(tainted["tainted"], Json::from(true));
    assert!(root("team").ask(&core, Update, "sys/namespaces/kid", "{}").is_err());
    let again = root("team").get(&core, Delete, "sys/namespaces/kid", "");
    assert_eq!(text(&again, "status"), "in-progress");
    // A restart in the middle of it.
    drop(core);
    let core = restart(&store, &key);
    assert!(!records_below(&core, &keys::inside(number, &[])).is_empty());
    let answer = root("team/kid").ask(&core, Read, "auth/token/lookup-self", "");
    assert_eq!(answer.map(drop), Err(Error::NoNamespace));
    tick(&core);
    assert!(records_below(&core, &keys::inside(number, &[])).is_empty());
    let gone = root("team").ask(&core, Read, "sys/namespaces/kid", "");
    assert_eq!(gone.map(drop), Err(Error::NotFound));
    assert_eq!(records_below(&core, &[kind::NAMESPACE]).len(), 1);
    // The same name is another namespace, in which the old token is nobody's.
    let new = make(&core, "team", "kid");
    assert_ne!(text(&new, "id"), text(&kid, "id"));
    assert_ne!(text(&new, "uuid"), text(&kid, "uuid"));
    assert!(with("team/kid", &of_kid).ask(&core, Read, "auth/token/lookup-self", "").is_err());
    assert!(root("team/kid").ask(&core, Read, "kv/a", "").is_err());
    assert_ne!(super::number(&core, "team/kid/"), number);
    assert_ne!(number, NamespaceNumber::ROOT);
}

#[test]
fn a_locked_namespace_answers_nobody_until_it_is_unlocked() {
    let (_, core, _) = open();
    make(&core, "", "team");
    make(&core, "team", "kid");
    let lock = "sys/namespaces/api-lock/lock";
    let unlock = "sys/namespaces/api-lock/unlock";
    assert!(root("").ask(&core, Update, lock, "").is_err());
    let key = text(&root("team").get(&core, Update, lock, ""), "unlock_key");
    for namespace in ["team", "team/kid"] {
        let answer = root(namespace).ask(&core, Read, "sys/mounts", "");
        assert!(said(&answer).contains("\"team/\" must be unlocked"), "{answer:?}");
    }
    let shown = root("").get(&core, Read, "sys/namespaces/team", "");
    assert_eq!(shown["locked"], Json::from(true));
    let nobody = super::Ask { token: None, ..root("team") };
    let body = object(&[("unlock_key", &key)]);
    assert!(nobody.ask(&core, Update, unlock, &body).is_err());
    assert!(root("team").ask(&core, Update, unlock, r#"{"unlock_key":"wrong"}"#).is_err());
    root("team").get(&core, Update, unlock, &body);
    assert!(root("team/kid").ask(&core, Read, "sys/mounts", "").is_ok());
    root("").get(&core, Update, &format!("{lock}/team/kid"), "");
    assert!(root("team").ask(&core, Read, "sys/mounts", "").is_ok());
    assert!(root("team/kid").ask(&core, Read, "sys/mounts", "").is_err());
    let opened = root("").ask(&core, Update, &format!("{unlock}/team/kid"), "");
    assert_eq!(said(&opened), "Namespace unlocked using sudo capabilities");
    assert!(root("team/kid").ask(&core, Read, "sys/mounts", "").is_ok());
}

/// Header and path are one path, and a header names a namespace and nothing else.
#[test]
fn header_and_path_are_joined_once() {
    let (_, core, _) = open();
    make(&core, "", "team");
    make(&core, "team", "kid");
    root("team/kid").get(&core, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
    root("team/kid").get(&core, Update, "kv/a", r#"{"a":"b"}"#);
    for (header, path) in [
        ("team/kid", "kv/a"),
        ("/team/kid/", "kv/a"),
        ("team", "kid/kv/a"),
        ("", "team/kid/kv/a"),
        ("root", "team/kid/kv/a"),
        ("", "team%2Fkid/kv%2Fa"),
    ] {
        assert!(root(header).ask(&core, Read, path, "").is_ok(), "{header} {path}");
    }
    for (header, path) in [
        ("team/kid/kv", "a"),
        ("none", "kv/a"),
        ("team/none", "kv/a"),
        ("team/../team/kid", "kv/a"),
        ("team//kid", "kv/a"),
        ("team%2Fkid", "kv/a"),
        ("Team/kid", "kv/a"),
        ("kid", "kv/a"),
    ] {
        assert!(root(header).ask(&core, Read, path, "").is_err(), "{header} {path}");
    }
    for path in ["sys/seal-status", "sys/leader"] {
        assert!(root("team").ask(&core, Read, path, "").is_ok(), "{path}");
    }
    pollster::block_on(core.seal()).unwrap();
    assert!(root("team").ask(&core, Read, "sys/seal-status", "").is_ok());
    assert_eq!(root("team").ask(&core, Read, "kv/a", "").map(drop), Err(Error::Sealed));
}

#[test]
fn who_is_locked_out_is_told_with_those_of_the_namespaces_below() {
    let (_, core, _) = open();
    make(&core, "", "a");
    make(&core, "a", "b");
    make(&core, "", "c");
    for (namespace, names) in [("", 1), ("a", 0), ("a/b", 2), ("c", 1)] {
        root(namespace).get(&core, Update, "sys/auth/approle", r#"{"type":"approle"}"#);
        let path = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let context = core.namespace_context(&path).unwrap();
        let mount = context.view.mounts.at("auth/approle/").unwrap().entry.id;
        let rules = LockoutRules { threshold: 1, ..LockoutRules::default() };
        for name in 0..names {
            let name = format!("{name}");
            let now = Timestamp::UNIX_EPOCH;
            core.services.lockouts.failed(mount, &name, NameOwner::User, rules, now);
        }
    }
    let seen = |namespace: &str| {
        let seen = root(namespace).get(&core, Read, "sys/locked-users", "");
        let Json::Array(spaces) = &seen["by_namespace"] else { panic!("{seen:?}") };
        let spaces: Vec<String> = spaces
            .iter()
            .map(|space| {
                let space = space.as_object().unwrap();
                let counts = String::from_utf8(space["counts"].to_text()).unwrap();
                format!("{}={counts}", text(space, "namespace_path"))
            })
            .collect();
        (seen["total"].clone(), spaces.join(" "))
    };
    assert_eq!(seen(""), (4_u64.into(), "a/b/=2 =1 c/=1 a/=0".to_owned()));
    assert_eq!(seen("a"), (2_u64.into(), "a/b/=2 a/=0".to_owned()));
    assert_eq!(seen("c"), (1_u64.into(), "c/=1".to_owned()));
}

#[test]
fn entities_and_groups_say_of_which_namespace_they_are() {
    let (_, core, _) = open();
    let id = text(&make(&core, "", "team"), "id");
    for (namespace, id) in [("", "root"), ("team", id.as_str())] {
        let here = root(namespace);
        let put = |path: &str, body: &str| here.get(&core, Update, path, body);
        put("sys/auth/approle", r#"{"type":"approle"}"#);
        let mount = here.get(&core, Read, "sys/auth/approle", "");
        let accessor = text(&mount, "accessor");
        let alias = object(&[("name", "bob"), ("mount_accessor", accessor.as_str())]);
        let made = put("identity/entity-alias", &alias);
        let (alias, entity) = (text(&made, "id"), text(&made, "canonical_id"));
        let group = text(&put("identity/group", "{}"), "id");
        for path in [
            format!("identity/entity/id/{entity}"),
            format!("identity/entity-alias/id/{alias}"),
            format!("identity/group/id/{group}"),
        ] {
            let said = here.get(&core, Read, &path, "");
            assert_eq!(text(&said, "namespace_id"), id, "{namespace} {path}");
        }
    }
}

#[test]
fn a_deleted_namespace_that_cannot_be_cleared_keeps_no_other_waiting() {
    let (store, core, _) = open();
    for name in ["a", "b"] {
        make(&core, "", name);
    }
    let [first, second] = ["a/", "b/"].map(|path| number(&core, path));
    let mut damage = Batch::new();
    damage.put(keys::inside(first, b"zz"), b"damaged".to_vec());
    // On the disk: the view does not hear of it.
    damage.set_companion(Arc::new(crate::view::WrittenSecrets::new(&core.view().unwrap())));
    pollster::block_on(store.commit(damage)).unwrap();
    for name in ["a", "b"] {
        root("").ask(&core, Delete, &format!("sys/namespaces/{name}"), "").unwrap();
    }
    let ran = pollster::block_on(core.run_due_jobs(Timestamp::UNIX_EPOCH));
    assert!(ran.is_err(), "what is damaged is told of");
    let context = core.context.load_full().unwrap();
    let is_known = |number| context.view.namespaces.with_number(number).is_some();
    assert!(is_known(first) && !is_known(second));
}
