//! Limits of groups, merges and rules of the second factor, and what lists and methods show of them.

use kallisto_core::{Error, Json, Map, Operation};

use crate::identity_asks::{accessor, ask, id, refusal, text, write};
use crate::support::Site;

/// Ids of nobody, as a list of JSON.
fn strangers(count: usize) -> String {
    let ids = (0..count).map(|n| format!("\"00000000-0000-4000-8000-{n:012x}\""));
    ids.collect::<Vec<_>>().join(",")
}

#[test]
fn lists_of_a_request_are_as_long_as_their_limits_let_them() {
    let site = Site::open(1 << 20);
    let bob = id(write(&site, "entity", r#"{"name":"bob"}"#));
    let group = |field: &str, count| {
        refusal(&site, "group", &format!(r#"{{"name":"g","{field}":[{}]}}"#, strangers(count)))
    };
    assert!(group("member_group_ids", 1024).starts_with("invalid member group ID"));
    assert_eq!(group("member_group_ids", 1025), "more than 1024 member groups");
    assert!(group("member_entity_ids", 4096).starts_with("invalid entity ID"));
    let over = "more than 4096 members added or removed at once";
    assert_eq!(group("member_entity_ids", 4097), over);
    let merge = |count| {
        let from = strangers(count);
        let body = format!(r#"{{"to_entity_id":"{bob}","from_entity_ids":[{from}]}}"#);
        refusal(&site, "entity/merge", &body)
    };
    assert!(!merge(256).starts_with("more than"), "{}", merge(256));
    assert_eq!(merge(257), "more than 256 entities to merge");
    let made = write(&site, "mfa/method/totp", r#"{"issuer":"K"}"#).unwrap();
    let method = text(&made, "method_id");
    let rule = |count| {
        let ids = strangers(count);
        let body = format!(r#"{{"mfa_method_ids":["{method}"],"identity_entity_ids":[{ids}]}}"#);
        refusal(&site, "mfa/login-enforcement/r", &body)
    };
    assert!(rule(256).starts_with("identity_entity_ids: there is no"));
    assert_eq!(rule(257), "more than 256 identity_entity_ids");
}

#[test]
fn there_are_as_many_methods_and_rules_as_there_may_be() {
    let site = Site::open(1 << 20);
    let method = || ask(&site, Operation::Update, "mfa/method/totp", r#"{"issuer":"K"}"#);
    let first = text(&method().unwrap().unwrap(), "method_id");
    (1..256).for_each(|_| _ = method().unwrap());
    assert_eq!(method(), Err(Error::invalid("more than 256 methods")));
    write(&site, &format!("mfa/method/totp/{first}"), r#"{"issuer":"L"}"#);
    let bob = id(write(&site, "entity", r#"{"name":"bob"}"#));
    let body = format!(r#"{{"mfa_method_ids":["{first}"],"identity_entity_ids":["{bob}"]}}"#);
    let rule =
        |n: usize| ask(&site, Operation::Update, &format!("mfa/login-enforcement/r{n}"), &body);
    (0..256).for_each(|n| assert_eq!(rule(n), Ok(None)));
    assert_eq!(rule(256), Err(Error::invalid("more than 256 login enforcements")));
    assert_eq!(rule(255), Ok(None), "it is there already");
}

#[test]
fn what_is_the_servers_to_say_of_a_method_is_not_the_clients() {
    let site = Site::open(1 << 20);
    let body = r#"{"issuer":"K","id":"mine","type":"duo","name":"mine"}"#;
    let made = text(&write(&site, "mfa/method/totp", body).unwrap(), "method_id");
    assert_ne!(made, "mine");
    let path = format!("mfa/method/totp/{made}");
    let shown = ask(&site, Operation::Read, &path, "").unwrap().unwrap();
    assert_eq!(["id", "type", "name"].map(|name| text(&shown, name)), [&*made, "totp", ""]);
}

#[test]
fn a_key_comes_with_a_picture_where_the_method_gives_it_a_size() {
    let site = Site::open(1 << 20);
    let bob = id(write(&site, "entity", r#"{"name":"bob"}"#));
    for (size, has_picture) in [(0, false), (200, true)] {
        let body = format!(r#"{{"issuer":"K","qr_size":{size}}}"#);
        let method = text(&write(&site, "mfa/method/totp", &body).unwrap(), "method_id");
        let body = format!(r#"{{"method_id":"{method}","entity_id":"{bob}"}}"#);
        let made = write(&site, "mfa/method/totp/admin-generate", &body).unwrap();
        assert_eq!(made.contains_key("barcode"), has_picture, "{size}");
        assert!(text(&made, "url").starts_with("otpauth://"));
    }
}

#[test]
fn an_alias_says_where_its_login_method_is_wherever_it_is_shown() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let [bob, ann, tom] = ["bob", "ann", "tom"]
        .map(|name| id(write(&site, "entity", &format!(r#"{{"name":"{name}"}}"#))));
    let alias = |name: &str, of: &str| {
        let body =
            format!(r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{of}"}}"#);
        id(write(&site, "entity-alias", &body))
    };
    let made = alias("b", &bob);
    alias("a", &ann);
    let placed = |alias: &Map| {
        assert_eq!(text(alias, "mount_accessor"), accessor);
        assert_eq!(text(alias, "mount_path"), "auth/token/");
        assert_eq!(text(alias, "mount_type"), "token");
    };
    let shown = ask(&site, Operation::Read, &format!("entity-alias/id/{made}"), "").unwrap();
    placed(&shown.unwrap());
    let first = |aliases: &Json| match aliases {
        Json::Array(aliases) => aliases[0].as_object().unwrap().clone(),
        other => panic!("{other:?}"),
    };
    let entity = ask(&site, Operation::Read, &format!("entity/id/{bob}"), "").unwrap().unwrap();
    placed(&first(&entity["aliases"]));
    let list = ask(&site, Operation::List, "entity/id", "").unwrap().unwrap();
    let known = list["key_info"].as_object().unwrap();
    placed(&first(&known[&bob].as_object().unwrap()["aliases"]));
    assert!(!known[&tom].as_object().unwrap().contains_key("aliases"), "it has none");
    let body = format!(r#"{{"to_entity_id":"{bob}","from_entity_ids":["{ann}"]}}"#);
    let refused = refusal(&site, "entity/merge", &body);
    assert!(refused.contains("(token at auth/token/)"), "{refused}");
}

#[test]
fn an_alias_that_is_renamed_stays_with_its_entity() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let bob = id(write(&site, "entity", r#"{"name":"bob"}"#));
    let alias = |name: &str| {
        format!(r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{bob}"}}"#)
    };
    let made = id(write(&site, "entity-alias", &alias("b")));
    write(&site, &format!("entity-alias/id/{made}"), &alias("bo"));
    let shown = ask(&site, Operation::Read, &format!("entity-alias/id/{made}"), "").unwrap();
    let shown = shown.unwrap();
    assert_eq!((text(&shown, "name"), text(&shown, "canonical_id")), ("bo".to_owned(), bob));
    let needed = "'id' or 'mount_accessor' and 'name' must be provided";
    for body in [r#"{"name":"c"}"#.to_owned(), format!(r#"{{"mount_accessor":"{accessor}"}}"#)] {
        assert_eq!(refusal(&site, "entity-alias", &body), needed);
    }
}

#[test]
fn an_entity_is_found_by_the_id_of_a_body_and_made_without_one() {
    let site = Site::open(1 << 20);
    let bob = id(write(&site, "entity", r#"{"name":"bob","id":""}"#));
    write(&site, "entity", &format!(r#"{{"id":"{bob}","name":"robert"}}"#));
    let shown = ask(&site, Operation::Read, &format!("entity/id/{bob}"), "").unwrap().unwrap();
    assert_eq!(text(&shown, "name"), "robert");
}

#[test]
fn another_name_at_the_same_login_method_is_another_alias_of_a_group() {
    let site = Site::open(1 << 20);
    let accessor = accessor(&site);
    let group = id(write(&site, "group", r#"{"name":"g","type":"external"}"#));
    let alias = |name: &str| {
        let body = format!(
            r#"{{"name":"{name}","mount_accessor":"{accessor}","canonical_id":"{group}"}}"#
        );
        id(write(&site, "group-alias", &body))
    };
    let one = alias("admins");
    assert_eq!(alias("ADMINS"), one, "the same name");
    assert_ne!(alias("staff"), one);
}
