//! Aliases of entities and groups: what one belongs to, what frees it, and which stays in a merge.

use kallisto_core::{Error, Json, Operation};

use crate::identity_asks::{accessor, ask, id, refusal, write};
use crate::support::Site;

fn exists(site: &Site, path: &str) -> bool {
    !matches!(ask(site, Operation::Read, path, ""), Err(Error::NotFound))
}

/// The body of an alias.
fn alias(name: &str, accessor: &str, of: &str) -> String {
    format!(r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{of}"}}"#)
}

#[test]
fn an_alias_that_is_deleted_leaves_its_entity_and_is_free() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let entity = |name: &str| id(write(&site, "entity", &format!(r#"{{"name":"{name}"}}"#)));
    let (bob, ann) = (entity("bob"), entity("ann"));
    let made = id(write(&site, "entity-alias", &alias("b", &accessor, &bob)));
    let path = format!("entity-alias/id/{made}");
    assert_eq!(ask(&site, Operation::Delete, &path, ""), Ok(None));
    assert!(!exists(&site, &path) && exists(&site, &format!("entity/id/{bob}")));
    let shown = ask(&site, Operation::Read, &format!("entity/id/{bob}"), "").unwrap().unwrap();
    assert_eq!(shown["aliases"], Json::Array(Vec::new()));
    // Once more, and of what never was, is no error.
    assert_eq!(ask(&site, Operation::Delete, &path, ""), Ok(None));
    assert_eq!(ask(&site, Operation::Delete, "entity-alias/id/none", ""), Ok(None));
    let again = id(write(&site, "entity-alias", &alias("b", &accessor, &ann)));
    assert_ne!(again, made);
    let looked =
        |body: &str| write(&site, "lookup/entity", body).map(|entity| entity["id"].clone());
    assert_eq!(looked(&format!(r#"{{"alias_id":"{again}"}}"#)), Some(ann.as_str().into()));
    assert_eq!(looked(&format!(r#"{{"alias_id":"{made}"}}"#)), None);
    assert_eq!(looked(&format!(r#"{{"id":"{bob}"}}"#)), Some(bob.as_str().into()));
    assert_eq!(looked(&format!(r#"{{"id":"{made}"}}"#)), None);
}

#[test]
fn the_alias_of_a_group_moves_with_its_id_and_stays_where_nothing_changes() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let external = |name: &str| {
        id(write(&site, "group", &format!(r#"{{"name":"{name}","type":"external"}}"#)))
    };
    let (one, two) = (external("one"), external("two"));
    let made = id(write(&site, "group-alias", &alias("admins", &accessor, &one)));
    let at = || {
        let path = format!("group-alias/id/{made}");
        let shown = ask(&site, Operation::Read, &path, "").unwrap().unwrap();
        let text = |name: &str| shown[name].as_str().unwrap().to_owned();
        (text("name"), text("canonical_id"))
    };
    let same = format!("group-alias/id/{made}");
    assert_eq!(write(&site, &same, &alias("admins", &accessor, &one)), None);
    assert_eq!(id(write(&site, "group-alias", &alias("Admins", &accessor, &one))), made);
    assert_eq!(at(), ("Admins".to_owned(), one.clone()));
    assert!(refusal(&site, "group-alias", &alias("admins", &accessor, &two)).contains("in use"));
    write(&site, &same, &alias("Admins", &accessor, &two));
    assert_eq!(at(), ("Admins".to_owned(), two.clone()));
    write(&site, &same, &alias("staff", &accessor, &two));
    assert_eq!(at(), ("staff".to_owned(), two.clone()));
    // The name that was given up is free, and that of the other is not.
    let other = id(write(&site, "group-alias", &alias("admins", &accessor, &one)));
    assert_ne!(other, made);
    let path = format!("group-alias/id/{other}");
    assert!(refusal(&site, &path, &alias("STAFF", &accessor, &one)).contains("in use"));
}

#[test]
fn an_external_group_holds_no_groups() {
    let site = Site::open(1 << 20);
    let inner = id(write(&site, "group", r#"{"name":"inner"}"#));
    let external = |members: &str| {
        format!(r#"{{"name":"ext","type":"external","member_group_ids":[{members}]}}"#)
    };
    let refused = refusal(&site, "group", &external(&format!("\"{inner}\"")));
    assert_eq!(refused, "member groups can't be set for external groups");
    assert!(!exists(&site, "group/name/ext"));
    assert!(write(&site, "group", &external("")).is_some());
}

#[test]
fn of_two_aliases_of_one_method_a_merge_keeps_the_one_that_is_named() {
    for (kept, force) in
        [("own", "false"), ("theirs", "false"), ("", "true"), ("", "false"), ("both", "false")]
    {
        let site = Site::open(1 << 20);
        let accessor = accessor(&site);
        let entity = |name: &str| id(write(&site, "entity", &format!(r#"{{"name":"{name}"}}"#)));
        let (bob, ann) = (entity("bob"), entity("ann"));
        let own = id(write(&site, "entity-alias", &alias("b", &accessor, &bob)));
        let theirs = id(write(&site, "entity-alias", &alias("a", &accessor, &ann)));
        let keep = match kept {
            "own" => format!("\"{own}\""),
            "theirs" => format!("\"{theirs}\""),
            "both" => format!("\"{own}\",\"{theirs}\""),
            _ => String::new(),
        };
        let body = format!(
            r#"{{"to_entity_id":"{bob}","from_entity_ids":["{ann}"],"force":{force},"conflicting_alias_ids_to_keep":[{keep}]}}"#
        );
        let merged = ask(&site, Operation::Update, "entity/merge", &body);
        let stays = [&own, &theirs].map(|id| exists(&site, &format!("entity-alias/id/{id}")));
        match (kept, force) {
            ("theirs", _) => assert_eq!((merged, stays), (Ok(None), [false, true])),
            ("own", _) | (_, "true") => assert_eq!((merged, stays), (Ok(None), [true, false])),
            _ => assert!(merged.is_err() && stays == [true, true], "{kept}"),
        }
    }
}

#[test]
fn each_change_of_a_group_or_of_its_alias_counts() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let group = id(write(&site, "group", r#"{"name":"ext","type":"external"}"#));
    let count = || {
        let shown = ask(&site, Operation::Read, &format!("group/id/{group}"), "");
        match &shown.unwrap().unwrap()["modify_index"] {
            Json::Number(number) => number.parse::<u64>().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let first = count();
    write(&site, &format!("group/id/{group}"), r#"{"policies":"p"}"#);
    assert_eq!(count(), first + 1);
    let made = id(write(&site, "group-alias", &alias("admins", &accessor, &group)));
    assert_eq!(count(), first + 2);
    write(&site, &format!("group-alias/id/{made}"), &alias("staff", &accessor, &group));
    assert_eq!(count(), first + 3);
    ask(&site, Operation::Delete, &format!("group-alias/id/{made}"), "").unwrap();
    assert_eq!(count(), first + 4);
    let refused = refusal(&site, "group-alias", &alias("x", "none", &group));
    assert_eq!(refused, "invalid mount accessor \"none\"");
    for kind in ["entity-alias", "group-alias"] {
        assert!(refusal(&site, kind, r#"{"name":"x"}"#).contains("mount_accessor"));
        let nameless = format!(r#"{{"mount_accessor":"{accessor}","canonical_id":"{group}"}}"#);
        assert!(refusal(&site, kind, &nameless).contains("name"));
    }
}
