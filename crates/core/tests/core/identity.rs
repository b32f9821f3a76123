//! Entities, aliases and groups, through the pipeline.

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
fn no_spelling_of_root_is_attached() {
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

/// What lies in a group counts together with what it lies in.
#[test]
fn two_nests_of_groups_become_one_up_to_the_limit_alone() {
    let site = site();
    // The innermost and the outermost of so many.
    let nest = |name: &str, depth: usize| {
        let innermost = group(&site, &format!("{name}0"), "{}");
        let wrap = |inside: String, level| {
            let body = format!(r#"{{"member_group_ids":["{inside}"]}}"#);
            group(&site, &format!("{name}{level}"), &body)
        };
        let outermost = (1..depth).fold(innermost.clone(), wrap);
        (innermost, outermost)
    };
    let (around, (_, inside), (_, one_more)) = (nest("a", 16).0, nest("b", 16), nest("c", 17));
    let put = |inside: &str| format!(r#"{{"member_group_ids":["{inside}"]}}"#);
    let refused = refusal(&site, &format!("group/id/{around}"), &put(&one_more));
    assert!(refused.contains("nested more than 32 deep"), "{refused}");
    write(&site, &format!("group/id/{around}"), &put(&inside));
    assert_eq!(texts(&read(&site, "group/name/b15"), "parent_group_ids"), [around]);
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
fn a_merge_takes_aliases_and_groups_but_no_rights() {
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

/// A site with a user at each of two login methods, `up` and `other`.
fn site_with_users() -> Site {
    let site = site();
    for method in ["up", "other"] {
        site.ask(Operation::Update, &format!("sys/auth/{method}"), r#"{"type":"userpass"}"#)
            .unwrap();
        for user in ["bob", "ann"] {
            let path = format!("auth/{method}/users/{user}");
            site.ask(Operation::Update, &path, r#"{"password":"secret-of-theirs"}"#).unwrap();
        }
    }
    site
}

/// The `auth` object of a login, or its refusal.
fn log_in(site: &Site, method: &str, user: &str) -> Result<Map, Error> {
    let path = format!("auth/{method}/login/{user}");
    let body = r#"{"password":"secret-of-theirs"}"#;
    match crate::support::ask_as(&site.core, "", 0, Operation::Update, &path, body)? {
        Response::Logical(reply) => Ok(parse_object(&reply.auth).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn may_read(site: &Site, token: &str, path: &str) -> bool {
    let path = format!("secret/data/{path}");
    match crate::support::ask_as(&site.core, token, 0, Operation::Read, &path, "") {
        Ok(_) => true,
        Err(Error::Denied(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn policy(site: &Site, name: &str, path: &str) {
    let rule = format!(r#"path "{path}" {{ capabilities = ["read"] }}"#);
    let body = Json::object([("policy", rule.into())]).to_text();
    let body = std::str::from_utf8(&body).unwrap();
    site.ask(Operation::Update, &format!("sys/policies/acl/{name}"), body).unwrap();
}

#[test]
fn what_a_token_may_do_follows_its_entity_and_groups_at_once() {
    let site = site_with_users();
    for name in ["own", "grp", "bob-x"] {
        site.put(name, "v");
    }
    policy(&site, "own", "secret/data/own");
    policy(&site, "grp", "secret/data/grp");
    policy(&site, "tpl", "secret/data/{{identity.entity.name}}-x");
    let auth = log_in(&site, "up", "bob").unwrap();
    let (token, id) = (text(&auth, "client_token"), text(&auth, "entity_id"));
    assert!(!may_read(&site, &token, "own"));
    let path = format!("entity/id/{id}");
    write(&site, &path, r#"{"policies":"own,tpl"}"#);
    assert!(may_read(&site, &token, "own") && !may_read(&site, &token, "bob-x"));
    write(&site, &path, r#"{"name":"bob"}"#);
    assert!(may_read(&site, &token, "bob-x"));
    let inner = group(&site, "inner", &format!(r#"{{"member_entity_ids":["{id}"]}}"#));
    let outer = format!(r#"{{"member_group_ids":["{inner}"],"policies":"grp"}}"#);
    group(&site, "outer", &outer);
    assert!(may_read(&site, &token, "grp"));
    let again = log_in(&site, "up", "bob").unwrap();
    assert_eq!(texts(&again, "identity_policies"), ["grp", "own", "tpl"]);
    assert_eq!(texts(&again, "policies"), ["default", "grp", "own", "tpl"]);
    assert_eq!((texts(&again, "token_policies").len(), text(&again, "entity_id")), (1, id));
    write(&site, "group/name/outer", r#"{"policies":""}"#);
    assert!(!may_read(&site, &token, "grp"));
    write(&site, &path, r#"{"policies":[]}"#);
    assert!(!may_read(&site, &token, "own") && !may_read(&site, &token, "bob-x"));
}

#[test]
fn tokens_of_an_entity_that_is_disabled_or_gone_do_nothing() {
    let site = site_with_users();
    site.put("own", "v");
    policy(&site, "own", "secret/data/own");
    let auth = log_in(&site, "up", "bob").unwrap();
    let (token, id) = (text(&auth, "client_token"), text(&auth, "entity_id"));
    let path = format!("entity/id/{id}");
    write(&site, &path, r#"{"policies":"own"}"#);
    assert!(may_read(&site, &token, "own"));
    write(&site, &path, r#"{"disabled":true}"#);
    assert!(!may_read(&site, &token, "own"));
    let own = |token: &str| {
        crate::support::ask_as(&site.core, token, 0, Operation::Read, "auth/token/lookup-self", "")
    };
    assert!(matches!(own(&token), Err(Error::Denied(_))));
    assert!(matches!(log_in(&site, "up", "bob"), Err(Error::Denied(_))));
    write(&site, &path, r#"{"disabled":false}"#);
    assert!(may_read(&site, &token, "own"));
    // Another's change is nothing to this token, and its own end is.
    let other = text(&log_in(&site, "up", "ann").unwrap(), "entity_id");
    site.ask(Operation::Delete, &format!("identity/entity/id/{other}"), "").unwrap();
    assert!(may_read(&site, &token, "own"));
    site.ask(Operation::Delete, &format!("identity/{path}"), "").unwrap();
    assert!(!may_read(&site, &token, "own") && own(&token).is_err());
    assert_ne!(text(&log_in(&site, "up", "bob").unwrap(), "entity_id"), id);
    // After a restart as before.
    site.ask(Operation::Update, "sys/seal", "").unwrap();
    site.unseal();
    assert!(own(&token).is_err());
}

#[test]
fn racing_first_logins_make_one_entity() {
    let site = site_with_users();
    let ids: Vec<String> = std::thread::scope(|threads| {
        let login = || text(&log_in(&site, "up", "bob").unwrap(), "entity_id");
        let all: Vec<_> = (0..8).map(|_| threads.spawn(login)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let listed = data(site.ask(Operation::List, "identity/entity/id", ""));
    assert_eq!(texts(&listed, "keys"), slice::from_ref(&ids[0]));
    assert_ne!(text(&log_in(&site, "other", "bob").unwrap(), "entity_id"), ids[0]);
}

#[test]
fn a_merged_entitys_tokens_are_the_others() {
    let site = site_with_users();
    site.put("own", "v");
    policy(&site, "own", "secret/data/own");
    let (one, two) = (log_in(&site, "up", "bob").unwrap(), log_in(&site, "other", "bob").unwrap());
    let (from, to) = (text(&one, "entity_id"), text(&two, "entity_id"));
    let token = text(&one, "client_token");
    assert!(!may_read(&site, &token, "own"));
    write(
        &site,
        "entity/merge",
        &format!(r#"{{"from_entity_ids":"{from}","to_entity_id":"{to}"}}"#),
    );
    write(&site, &format!("entity/id/{to}"), r#"{"policies":"own"}"#);
    assert!(may_read(&site, &token, "own"));
    assert_eq!(text(&log_in(&site, "up", "bob").unwrap(), "entity_id"), to);
    write(&site, &format!("entity/id/{to}"), r#"{"disabled":true}"#);
    assert!(!may_read(&site, &token, "own"));
}

#[test]
fn a_template_asks_one_login_methods_alias() {
    let site = site_with_users();
    let (up, other) = (accessor(&site, "up/"), accessor(&site, "other/"));
    for name in ["bob", "ann", "c-d"] {
        site.put(name, "v");
    }
    let auth = log_in(&site, "up", "bob").unwrap();
    let (token, id) = (text(&auth, "client_token"), text(&auth, "entity_id"));
    let second = format!(
        r#"{{"name":"ann","mount_accessor":"{other}","canonical_id":"{id}",
            "custom_metadata":{{"k":"c-d","wide":"*"}}}}"#
    );
    write(&site, "entity-alias", &second);
    policy(&site, "by-up", &format!("secret/data/{{{{identity.entity.aliases.{up}.name}}}}"));
    write(&site, &format!("entity/id/{id}"), r#"{"policies":"by-up"}"#);
    assert!(may_read(&site, &token, "bob") && !may_read(&site, &token, "ann"));
    let of_other = format!("identity.entity.aliases.{other}.custom_metadata");
    policy(&site, "by-up", &format!("secret/data/{{{{{of_other}.k}}}}"));
    assert!(may_read(&site, &token, "c-d") && !may_read(&site, &token, "bob"));
    policy(&site, "by-up", &format!("secret/data/{{{{{of_other}.wide}}}}"));
    assert!(!may_read(&site, &token, "c-d"));
}

#[test]
fn a_template_asks_for_any_of_many_groups_and_for_no_other() {
    let site = site_with_users();
    let auth = log_in(&site, "up", "bob").unwrap();
    let (token, id) = (text(&auth, "client_token"), text(&auth, "entity_id"));
    let member = format!(r#"{{"member_entity_ids":["{id}"],"metadata":{{"team":"of"}}}}"#);
    let ids: Vec<String> = (0..20).map(|at| group(&site, &format!("g{at}"), &member)).collect();
    let other = group(&site, "not-theirs", "{}");
    let mut rules = String::new();
    for (at, id) in ids.iter().chain([&other]).enumerate() {
        let name = if at < ids.len() { format!("g{at}") } else { "not-theirs".to_owned() };
        for path in [
            format!("by-id/{{{{identity.groups.ids.{id}.name}}}}"),
            format!("by-name/{{{{identity.groups.names.{name}.id}}}}"),
            format!("{at}/{{{{identity.groups.ids.{id}.metadata.team}}}}"),
            format!("{at}/{{{{identity.groups.names.{name}.metadata.team}}}}-name"),
        ] {
            rules += &format!("path \"secret/data/{path}\" {{ capabilities = [\"read\"] }}\n");
        }
        for path in [format!("by-id/{name}"), format!("by-name/{id}")] {
            site.put(&path, "v");
        }
        site.put(&format!("{at}/of"), "v");
        site.put(&format!("{at}/of-name"), "v");
    }
    let body = Json::object([("policy", rules.as_str().into())]).to_text();
    site.ask(Operation::Update, "sys/policies/acl/tpl", std::str::from_utf8(&body).unwrap())
        .unwrap();
    write(&site, &format!("entity/id/{id}"), r#"{"policies":"tpl"}"#);
    for (at, id) in ids.iter().enumerate() {
        for path in [
            format!("by-id/g{at}"),
            format!("by-name/{id}"),
            format!("{at}/of"),
            format!("{at}/of-name"),
        ] {
            assert!(may_read(&site, &token, &path), "{path}");
        }
    }
    for path in ["by-id/not-theirs", &format!("by-name/{other}"), "20/of", "20/of-name"] {
        assert!(!may_read(&site, &token, path), "{path}");
    }
}

fn accessor(site: &Site, method: &str) -> String {
    let mounts = data(site.ask(Operation::Read, "sys/auth", ""));
    text(mounts[method].as_object().unwrap(), "accessor")
}

#[test]
fn children_are_their_parents_entitys_and_orphans_nobodys() {
    let site = site_with_users();
    let rule = r#"path "auth/token/*" { capabilities = ["create","update","sudo"] }"#;
    let body = Json::object([("policy", rule.into())]).to_text();
    let body = std::str::from_utf8(&body).unwrap();
    site.ask(Operation::Update, "sys/policies/acl/default", body).unwrap();
    let auth = log_in(&site, "up", "bob").unwrap();
    let (token, id) = (text(&auth, "client_token"), text(&auth, "entity_id"));
    let make = |path: &str, body: &str| {
        let path = format!("auth/token/{path}");
        match crate::support::ask_as(&site.core, &token, 0, Operation::Update, &path, body)? {
            Response::Logical(reply) => Ok(parse_object(&reply.auth).unwrap()),
            other => panic!("{other:?}"),
        }
    };
    let of = |auth: Result<Map, Error>| text(&auth.unwrap(), "entity_id");
    assert_eq!(of(make("create", "{}")), id);
    assert_eq!(of(make("create", r#"{"type":"batch"}"#)), id);
    assert_eq!(of(make("create-orphan", "{}")), "");
    let refused = |answer: Result<Map, Error>| answer.unwrap_err().to_string();
    let alone = refused(make("create", r#"{"entity_alias":"web-1"}"#));
    assert_eq!(alone, "'entity_alias' is only allowed in combination with token role");
    let role = r#"{"allowed_entity_aliases":["Web-*","exact"]}"#;
    site.ask(Operation::Update, "auth/token/roles/r", role).unwrap();
    let web = of(make("create/r", r#"{"entity_alias":"web-1"}"#));
    assert!(!web.is_empty() && web != id);
    assert_eq!(of(make("create/r", r#"{"entity_alias":"WEB-1"}"#)), web);
    assert_ne!(of(make("create/r", r#"{"entity_alias":"exact"}"#)), web);
    assert!(refused(make("create/r", r#"{"entity_alias":"other"}"#)).contains("entity_alias"));
    write(&site, &format!("entity/id/{web}"), r#"{"disabled":true}"#);
    assert!(matches!(make("create/r", r#"{"entity_alias":"web-1"}"#), Err(Error::Denied(_))));
}
