//! Rate limits across namespaces: which are counted by a rule, and which rules may be written.

use Operation::{Delete, Read, Update};

use super::*;

/// Namespaces `a/` and `a/b/`, each with a mount `kv/`, as the root namespace has one.
fn family() -> Core {
    let (_, core, _) = open();
    make(&core, "", "a");
    make(&core, "a", "b");
    for namespace in ["", "a", "a/b"] {
        root(namespace).get(&core, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
    }
    core
}

fn write(core: &Core, name: &str, rule: &str) -> Result<Response, Error> {
    root("").ask(core, Update, &format!("sys/quotas/rate-limit/{name}"), rule)
}

/// How many of ten requests in a namespace pass.
fn passed(core: &Core, namespace: &str, path: &str) -> usize {
    let is_over = |_: &i32| {
        let answer = root(namespace).ask(core, Read, path, "");
        !matches!(answer, Err(Error::OverQuota(_)))
    };
    (0..10).take_while(is_over).count()
}

#[test]
fn the_nearest_namespace_counts_and_those_below_only_if_they_inherit() {
    let core = family();
    // Or the rules would stand in their own way.
    let exempt = r#"{"rate_limit_exempt_paths":["sys/quotas/*"]}"#;
    root("").get(&core, Update, "sys/quotas/config", exempt);
    write(&core, "all", r#"{"rate":7,"interval":"1h"}"#).unwrap();
    write(&core, "a", r#"{"rate":5,"interval":"1h","path":"a"}"#).unwrap();
    write(&core, "kv", r#"{"rate":2,"interval":"1h","path":"a/kv"}"#).unwrap();
    assert_eq!(passed(&core, "a", "kv/x"), 2);
    assert_eq!(passed(&core, "a", "sys/mounts"), 5);
    assert_eq!(passed(&core, "a/b", "kv/x"), 7, "the rule for everything");
    assert_eq!(passed(&core, "", "kv/x"), 0, "shares it");

    write(&core, "a", r#"{"rate":5,"interval":"1h","path":"a/","inheritable":true}"#).unwrap();
    assert_eq!(passed(&core, "", "a/b/kv/x"), 5, "the namespace in the path");
    assert_eq!(passed(&core, "a", "sys/mounts"), 0);
    let shown = root("").get(&core, Read, "sys/quotas/rate-limit/a", "");
    assert_eq!((text(&shown, "path"), &shown["inheritable"]), ("a/".to_owned(), &true.into()));
    for name in ["a", "kv", "all"] {
        root("").get(&core, Delete, &format!("sys/quotas/rate-limit/{name}"), "");
    }
    write(&core, "top", r#"{"rate":3,"interval":"1h","inheritable":false}"#).unwrap();
    assert_eq!((passed(&core, "a", "kv/x"), passed(&core, "", "kv/x")), (10, 3));
}

#[test]
fn a_rule_is_for_a_place_that_exists_and_a_place_has_one() {
    let core = family();
    write(&core, "one", r#"{"rate":1e6,"path":"a/"}"#).unwrap();
    let refused = |rule: &str| match write(&core, "two", rule) {
        Err(Error::Invalid(why)) => why,
        other => panic!("{rule}: {other:?}"),
    };
    let twin = "quota rule with similar properties exists under the name \"one\"";
    assert_eq!(refused(r#"{"rate":1,"path":"a"}"#), twin);
    assert_eq!(refused(r#"{"rate":1,"path":"a/","inheritable":true}"#), twin);
    assert_eq!(refused(r#"{"rate":1,"path":"a/nope/"}"#), r#"invalid mount path "nope/""#);
    assert_eq!(refused(r#"{"rate":1,"path":"nope/kv/"}"#), r#"invalid mount path "nope/kv/""#);
    assert!(refused(r#"{"rate":1,"path":"a/","role":"x"}"#).contains("auth method"));
    root("a").get(&core, Update, "sys/auth/approle", r#"{"type":"approle"}"#);
    write(&core, "two", r#"{"rate":1e6,"path":"a/auth/approle","role":"x"}"#).unwrap();
    let shown = root("").get(&core, Read, "sys/quotas/rate-limit/two", "");
    assert_eq!(text(&shown, "path"), "a/auth/approle/");
    assert!(root("a").ask(&core, Update, "sys/quotas/rate-limit/in", r#"{"rate":1}"#).is_err());
}

#[test]
fn a_rule_goes_along_when_its_mount_is_moved() {
    let core = family();
    let exempt = r#"{"rate_limit_exempt_paths":["sys/"]}"#;
    root("").get(&core, Update, "sys/quotas/config", exempt);
    write(&core, "top", r#"{"rate":4,"interval":"1h","path":"kv"}"#).unwrap();
    write(&core, "some", r#"{"rate":3,"interval":"1h","path":"kv/some/*"}"#).unwrap();
    write(&core, "inner", r#"{"rate":2,"interval":"1h","path":"a/kv"}"#).unwrap();
    let leases = r#"{"max_leases":7,"path":"a/kv/x"}"#;
    root("").get(&core, Update, "sys/quotas/lease-count/leases", leases);
    for namespace in ["", "a"] {
        let before = core.store.position().0;
        root(namespace).get(&core, Update, "sys/remount", r#"{"from":"kv","to":"kv2/new"}"#);
        // As one: nobody finds the mount moved and its limits left behind.
        assert_eq!(core.store.position().0, before + 1, "{namespace:?}");
    }
    let path = |kind: &str, name: &str| {
        text(&root("").get(&core, Read, &format!("sys/quotas/{kind}/{name}"), ""), "path")
    };
    assert_eq!(path("rate-limit", "top"), "kv2/new/");
    assert_eq!(path("rate-limit", "some"), "kv2/new/some/*");
    assert_eq!(path("rate-limit", "inner"), "a/kv2/new/");
    assert_eq!(path("lease-count", "leases"), "a/kv2/new/x");
    assert_eq!(passed(&core, "", "kv2/new/some/x"), 3);
    assert_eq!(passed(&core, "", "kv2/new/x"), 4);
    assert_eq!(passed(&core, "a", "kv2/new/x"), 2);
    assert_eq!(passed(&core, "a/b", "kv/x"), 10, "a mount of that name elsewhere");
}

#[test]
fn a_slash_behind_the_path_of_a_rule_means_nothing() {
    let core = family();
    write(&core, "one", r#"{"rate":2,"interval":"1h","path":"kv/x/"}"#).unwrap();
    let shown = root("").get(&core, Read, "sys/quotas/rate-limit/one", "");
    assert_eq!(text(&shown, "path"), "kv/x");
    assert_eq!((passed(&core, "", "kv/x"), passed(&core, "", "kv/x/y")), (2, 10));
}

#[test]
fn rules_of_a_mount_or_namespace_that_goes_away_go_with_it() {
    let core = family();
    let exempt = r#"{"rate_limit_exempt_paths":["sys/"]}"#;
    root("").get(&core, Update, "sys/quotas/config", exempt);
    root("").get(&core, Update, "sys/mounts/kv2", r#"{"type":"kv"}"#);
    for (name, rule) in [
        ("all", r#"{"rate":9,"interval":"1h"}"#),
        ("top", r#"{"rate":4,"interval":"1h","path":"kv"}"#),
        ("some", r#"{"rate":3,"interval":"1h","path":"kv/some/*"}"#),
        ("near", r#"{"rate":3,"interval":"1h","path":"kv2"}"#),
        ("child", r#"{"rate":8,"interval":"1h","path":"a/b"}"#),
        ("inner", r#"{"rate":2,"interval":"1h","path":"a/b/kv"}"#),
        ("other", r#"{"rate":2,"interval":"1h","path":"a/kv"}"#),
    ] {
        write(&core, name, rule).unwrap();
    }
    for (name, path) in [("leases", "kv/x"), ("below", "a/b/"), ("stays", "a/kv")] {
        let rule = format!(r#"{{"max_leases":7,"path":"{path}"}}"#);
        root("").get(&core, Update, &format!("sys/quotas/lease-count/{name}"), &rule);
    }
    let left = |kind: &str| {
        root("").get(&core, Operation::List, &format!("sys/quotas/{kind}"), "")["keys"].clone()
    };
    let strings = |names: &[&str]| Json::strings(names.iter().map(|name| (*name).to_owned()));
    root("").get(&core, Delete, "sys/mounts/kv", "");
    assert_eq!(left("rate-limit"), strings(&["all", "child", "inner", "near", "other"]));
    assert_eq!(left("lease-count"), strings(&["below", "stays"]));
    root("").get(&core, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
    assert_eq!(passed(&core, "", "kv/some/x"), 9, "the rule for everything");
    root("a").get(&core, Delete, "sys/namespaces/b", "");
    assert_eq!(left("rate-limit"), strings(&["all", "near", "other"]));
    assert_eq!(left("lease-count"), strings(&["stays"]));
    root("a").get(&core, Delete, "sys/mounts/kv", "");
    assert_eq!(left("rate-limit"), strings(&["all", "near"]));
}
