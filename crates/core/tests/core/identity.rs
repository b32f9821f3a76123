//! Entities, aliases and groups, through the door.

use std::slice;

use kallisto_core::json::parse_object;
use kallisto_core::{Error, Json, Map, Operation, Response};

use crate::support::Site;

fn site() -> Site {
    Site::open(1 << 20)
}

/// The data of a reply; empty when there is none to give.
fn data(answer: Result<Response, Error>) -> Map {
    match answer.unwrap() {
        Response::Logical(reply) | Response::Merged(reply) => parse_object(&reply.data).unwrap(),
        Response::Empty => Map::new(),
        other => panic!("{other:?}"),
    }
}

fn write(site: &Site, path: &str, body: &str) -> Map {
    data(site.ask(Operation::Update, &format!("identity/{path}"), body))
}

fn read(site: &Site, path: &str) -> Map {
    data(site.ask(Operation::Read, &format!("identity/{path}"), ""))
}

#[track_caller]
fn refusal(site: &Site, path: &str, body: &str) -> String {
    match site.ask(Operation::Update, &format!("identity/{path}"), body) {
        Err(Error::Invalid(message)) => message,
        other => panic!("{path} {body}: {other:?}"),
    }
}

fn gone(site: &Site, path: &str) -> bool {
    let answer = site.ask(Operation::Read, &format!("identity/{path}"), "");
    matches!(answer, Err(Error::NotFound))
}

fn text(map: &Map, name: &str) -> String {
    map[name].as_str().unwrap().to_owned()
}

fn texts(map: &Map, name: &str) -> Vec<String> {
    match &map[name] {
        Json::Array(items) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
        Json::Null => Vec::new(),
        other => panic!("{name}: {other:?}"),
    }
}

fn entity(site: &Site, name: &str) -> String {
    text(&write(site, &format!("entity/name/{name}"), "{}"), "id")
}

/// A group of this name with more in its body; its id.
fn group(site: &Site, name: &str, body: &str) -> String {
    text(&write(site, &format!("group/name/{name}"), body), "id")
}

/// The accessors of two mounts.
fn accessors(site: &Site) -> [String; 2] {
    let mounts = data(site.ask(Operation::Read, "sys/auth", ""));
    let token = text(mounts["token/"].as_object().unwrap(), "accessor");
    let mounts = data(site.ask(Operation::Read, "sys/mounts", ""));
    [token, text(mounts["secret/"].as_object().unwrap(), "accessor")]
}

#[test]
fn a_name_is_one_entitys_in_every_spelling() {
    let site = site();
    let bob = entity(&site, "bob");
    assert!(write(&site, "entity", r#"{"name":"BOB","policies":"b,A"}"#).is_empty());
    let read_back = read(&site, "entity/name/bOb");
    assert_eq!((text(&read_back, "id"), text(&read_back, "name")), (bob.clone(), "BOB".into()));
    assert_eq!(texts(&read_back, "policies"), ["a", "b"]);
    let ann = entity(&site, "ann");
    let taken = "entity name is already in use";
    assert_eq!(refusal(&site, &format!("entity/id/{ann}"), r#"{"name":"Bob"}"#), taken);
    // A name that was given up is free.
    write(&site, &format!("entity/id/{bob}"), r#"{"name":"rob"}"#);
    write(&site, &format!("entity/id/{ann}"), r#"{"name":"bob"}"#);
    assert_eq!(text(&read(&site, "entity/name/bob"), "id"), ann);
    assert_eq!(refusal(&site, "entity/id/nobody", "{}"), "entity not found from id");
}

#[test]
fn lesson_6_no_spelling_of_root_is_attached() {
    let site = site();
    let gang = group(&site, "gang", "{}");
    for name in ["root", "ROOT", " root", "root\\t", "Root "] {
        let body = format!(r#"{{"policies":["a","{name}"]}}"#);
        for path in ["entity", "group", &format!("group/id/{gang}"), "entity/name/x"] {
            assert_eq!(refusal(&site, path, &body), "policies cannot contain root", "{name}");
        }
    }
    assert!(!refusal(&site, "entity", r#"{"policies":["ｒoot"]}"#).is_empty());
}

#[test]
fn an_alias_is_one_entitys_and_an_entity_has_one_per_login_method() {
    let site = site();
    let [one, two] = accessors(&site);
    let (bob, ann) = (entity(&site, "bob"), entity(&site, "ann"));
    let body = |name: &str, accessor: &str, entity: &str| {
        format!(r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{entity}"}}"#)
    };
    let made = write(&site, "entity-alias", &body("b", &one, &bob));
    let alias = text(&made, "id");
    write(&site, "entity-alias", &body("b", &two, &bob));
    let second = refusal(&site, "entity-alias", &body("c", &one, &bob));
    assert_eq!(second, "Alias already exists for requested entity and mount accessor");
    // The same alias in another spelling moves.
    assert_eq!(text(&write(&site, "entity-alias", &body("B", &one, &ann)), "id"), alias);
    assert_eq!(text(&read(&site, &format!("entity-alias/id/{alias}")), "canonical_id"), ann);
    write(&site, "entity-alias", &body("d", &one, &bob));
    let path = format!("entity-alias/id/{alias}");
    assert!(refusal(&site, &path, r#"{"name":"D"}"#).contains("already exists"));
    let bobs = format!(r#"{{"canonical_id":"{bob}"}}"#);
    assert!(refusal(&site, &path, &bobs).contains("already has an alias"));
    assert!(refusal(&site, "entity-alias", &body("x", "none", &bob)).contains("mount accessor"));
    // Who is deleted leaves its aliases to others.
    site.ask(Operation::Delete, &format!("identity/entity/id/{ann}"), "").unwrap();
    assert!(gone(&site, &path));
    let again = write(&site, "entity-alias", &body("b", &one, &entity(&site, "cid")));
    assert_ne!(text(&again, "id"), alias);
}

#[test]
fn membership_follows_groups_of_groups() {
    let site = site();
    let bob = entity(&site, "bob");
    let inner = group(&site, "inner", &format!(r#"{{"member_entity_ids":["{bob}"]}}"#));
    let outer = group(&site, "outer", &format!(r#"{{"member_group_ids":["{inner}"]}}"#));
    let shown = read(&site, "entity/name/bob");
    assert_eq!(texts(&shown, "direct_group_ids"), slice::from_ref(&inner));
    assert_eq!(texts(&shown, "inherited_group_ids"), slice::from_ref(&outer));
    assert_eq!(
        texts(&read(&site, "group/name/inner"), "parent_group_ids"),
        slice::from_ref(&outer)
    );
    let cycle = refusal(
        &site,
        &format!("group/id/{inner}"),
        &format!(r#"{{"member_group_ids":["{outer}"]}}"#),
    );
    assert!(cycle.starts_with("cyclic relationship detected"), "{cycle}");
    write(&site, "group/name/inner", r#"{"member_entity_ids":[]}"#);
    assert!(texts(&read(&site, "entity/name/bob"), "group_ids").is_empty());
    site.ask(Operation::Delete, "identity/group/name/inner", "").unwrap();
    assert!(texts(&read(&site, "group/name/outer"), "member_group_ids").is_empty());
    let body = format!(r#"{{"member_group_ids":["{inner}"]}}"#);
    assert!(refusal(&site, "group/name/outer", &body).contains("invalid member group ID"));
}

#[test]
fn groups_lie_inside_each_other_to_a_limit_and_in_no_circle() {
    let site = site();
    let mut chain = vec![group(&site, "g0", "{}")];
    let wrap = |chain: &[String]| {
        let inside = chain.last().unwrap();
        format!(r#"{{"member_group_ids":["{inside}"]}}"#)
    };
    for level in 1..32 {
        chain.push(group(&site, &format!("g{level}"), &wrap(&chain)));
    }
    let deep = refusal(&site, "group/name/g32", &wrap(&chain));
    assert!(deep.contains("nested more than 32 deep"), "{deep}");
    let (first, last) = (&chain[0], &chain[31]);
    let body = format!(r#"{{"member_group_ids":["{last}"]}}"#);
    assert!(refusal(&site, &format!("group/id/{first}"), &body).contains("cyclic"));
}

#[test]
fn an_external_group_is_filled_by_no_operator() {
    let site = site();
    let [one, _] = accessors(&site);
    let bob = entity(&site, "bob");
    let ext = group(&site, "ext", r#"{"type":"external"}"#);
    let path = format!("group/id/{ext}");
    let members = format!(r#"{{"member_entity_ids":["{bob}"]}}"#);
    assert!(refusal(&site, &path, &members).contains("external groups"));
    assert_eq!(refusal(&site, &path, r#"{"type":"internal"}"#), "group type cannot be changed");
    let alias = |name: &str, group: &str| {
        format!(r#"{{"name":"{name}","mount_accessor":"{one}","canonical_id":"{group}"}}"#)
    };
    let made = text(&write(&site, "group-alias", &alias("admins", &ext)), "id");
    assert_eq!(text(&read(&site, &format!("group-alias/id/{made}")), "canonical_id"), ext);
    let other = group(&site, "other", r#"{"type":"external"}"#);
    assert!(refusal(&site, "group-alias", &alias("ADMINS", &other)).contains("already in use"));
    let internal = group(&site, "internal", "{}");
    let refused = refusal(&site, "group-alias", &alias("x", &internal));
    assert_eq!(refused, "alias can't be set on an internal group");
}

#[test]
fn lesson_15_a_merge_takes_aliases_and_groups_but_no_rights() {
    let site = site();
    let [one, two] = accessors(&site);
    let (bob, ann) = (entity(&site, "bob"), entity(&site, "ann"));
    write(&site, "entity/name/ann", r#"{"policies":"power","metadata":{"a":"1"}}"#);
    let gang = group(&site, "gang", &format!(r#"{{"member_entity_ids":["{ann}"]}}"#));
    let alias = |name: &str, accessor: &str, entity: &str| {
        let body = format!(
            r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{entity}"}}"#
        );
        text(&write(&site, "entity-alias", &body), "id")
    };
    let (own, theirs) = (alias("b", &one, &bob), alias("a", &one, &ann));
    let free = alias("a", &two, &ann);
    let merge =
        |more: &str| format!(r#"{{"from_entity_ids":["{ann}"],"to_entity_id":"{bob}"{more}}}"#);
    assert!(refusal(&site, "entity/merge", &merge("")).contains("same mount accessor"));
    assert!(!gone(&site, &format!("entity/id/{ann}")));
    write(
        &site,
        "entity/merge",
        &merge(&format!(r#","conflicting_alias_ids_to_keep":"{theirs}""#)),
    );
    let shown = read(&site, "entity/name/bob");
    assert!(texts(&shown, "policies").is_empty());
    assert_eq!(shown["metadata"], Json::Null);
    assert_eq!(texts(&shown, "merged_entity_ids"), slice::from_ref(&ann));
    assert_eq!(texts(&shown, "group_ids"), [gang]);
    for (id, stays) in [(&own, false), (&theirs, true), (&free, true)] {
        assert_eq!(gone(&site, &format!("entity-alias/id/{id}")), !stays, "{id}");
    }
    assert!(gone(&site, &format!("entity/id/{ann}")));
    assert!(gone(&site, "entity/name/ann"));
}

#[test]
fn racing_writers_make_one_entity_of_a_name() {
    let site = site();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for number in 0..8 {
                    let body = format!(r#"{{"name":"e{number}"}}"#);
                    site.ask(Operation::Update, "identity/entity", &body).unwrap();
                }
            });
        }
    });
    let listed = data(site.ask(Operation::List, "identity/entity/name", ""));
    assert_eq!(texts(&listed, "keys").len(), 8);
    let listed = data(site.ask(Operation::List, "identity/entity/id", ""));
    assert_eq!(texts(&listed, "keys").len(), 8);
}

#[test]
fn what_was_written_is_there_after_a_seal() {
    let site = site();
    let [one, _] = accessors(&site);
    let bob = entity(&site, "bob");
    let body = format!(r#"{{"name":"b","mount_accessor":"{one}","canonical_id":"{bob}"}}"#);
    write(&site, "entity-alias", &body);
    let inner = group(&site, "inner", &format!(r#"{{"member_entity_ids":["{bob}"]}}"#));
    group(&site, "outer", &format!(r#"{{"member_group_ids":["{inner}"]}}"#));
    let all = ["entity/name/bob", "group/name/inner", "group/name/outer"];
    let before = all.map(|path| read(&site, path));
    site.ask(Operation::Update, "sys/seal", "").unwrap();
    site.unseal();
    assert!(before == all.map(|path| read(&site, path)));
    // Writes of groups go on counting where they stopped.
    group(&site, "another", "{}");
    let looked = write(
        &site,
        "lookup/entity",
        &format!(r#"{{"alias_name":"B","alias_mount_accessor":"{one}"}}"#),
    );
    assert_eq!(text(&looked, "id"), bob);
}
