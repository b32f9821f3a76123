//! Tokens across the border between namespaces: whose they are, where they are of use, what ends with
//! whom.

use kallisto_auth::Operation::{Delete, List, Patch, Read, Update};

use super::{ALL, Ask, make, object, open, policy, root, said, text, token, with};
use crate::api::error::{Denial, Error};
use crate::api::json::Json;
use crate::state::Core;

/// `team` with `team/kid` below, KV version 1 at `kv/` in each with `a` in it, and `other` beside.
fn family() -> Core {
    let (_, core, _) = open();
    for (above, name) in [("", "team"), ("team", "kid"), ("", "other")] {
        make(&core, above, name);
    }
    for namespace in ["team", "team/kid", "other"] {
        let here = root(namespace);
        here.get(&core, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
        here.get(&core, Update, "kv/a", &object(&[("v", namespace)]));
        policy(&core, namespace, "all", ALL);
    }
    core
}

fn is_denied(core: &Core, ask: Ask<'_>, path: &str) -> bool {
    matches!(ask.ask(core, Read, path, ""), Err(Error::Denied(_)))
}

#[test]
fn a_token_says_whose_it_is_and_is_of_use_there_and_below() {
    let core = family();
    let made = root("team").get(&core, Update, "auth/token/create", r#"{"policies":["all"]}"#);
    let id = text(&root("").get(&core, Read, "sys/namespaces/team", ""), "id");
    let own = text(&made, "client_token");
    assert!(own.ends_with(&format!(".{id}")) && text(&made, "accessor").ends_with(&id));
    assert_eq!(text(&with("team", &own).get(&core, Read, "kv/a", ""), "v"), "team");
    assert_eq!(text(&with("", &own).get(&core, Read, "team/kv/a", ""), "v"), "team");
    let looked = with("team", &own).get(&core, Read, "auth/token/lookup-self", "");
    assert_eq!(text(&looked, "namespace_path"), "team/");
    for namespace in ["", "other", "root"] {
        let ask = with(namespace, &own);
        let bad = Err(Error::Denied(Denial::BadToken));
        assert_eq!(ask.ask(&core, Read, "kv/a", "").map(drop), bad, "{namespace}");
        if !namespace.is_empty() {
            assert_eq!(ask.ask(&core, Read, "auth/token/lookup-self", "").map(drop), bad);
        }
    }
    // What it asks of itself is asked in its own namespace where none is named.
    let looked = with("", &own).get(&core, Read, "auth/token/lookup-self", "");
    assert_eq!(text(&looked, "namespace_path"), "team/");
    assert!(with("", &own).ask(&core, Update, "auth/token/renew-self", "").is_ok());
    let spare = token(&core, "team", r#"{"policies":["all"]}"#);
    assert!(with("", &spare).ask(&core, Update, "auth/token/revoke-self", "").is_ok());
    assert!(with("team", &spare).ask(&core, Read, "auth/token/lookup-self", "").is_err());
    // Spelled in any other way it is nobody's.
    let other = text(&root("").get(&core, Read, "sys/namespaces/other", ""), "id");
    let bare = own.strip_suffix(&format!(".{id}")).unwrap();
    for (namespace, forged) in
        [("", bare.to_owned()), ("team", bare.to_owned()), ("other", format!("{bare}.{other}"))]
    {
        assert!(is_denied(&core, with(namespace, &forged), "auth/token/lookup-self"));
    }
    let given = r#"{"policies":["all"],"id":"chosen"}"#;
    assert!(root("team").ask(&core, Update, "auth/token/create", given).is_err());
}

#[test]
fn a_policy_reaches_below_by_spelling_the_way() {
    let core = family();
    let spelled =
        "path \"kid/kv/*\" { capabilities = [\"read\", \"list\", \"update\", \"create\"] }
                   path \"kid/kv/secret\" { capabilities = [\"deny\"] }
                   path \"kid/sys/capabilities-self\" { capabilities = [\"update\"] }";
    policy(&core, "team", "kids", spelled);
    policy(&core, "team", "plus", "path \"+/kv/*\" { capabilities = [\"read\"] }");
    for wide in ["all", "plus", "default"] {
        let token = token(&core, "team", &format!(r#"{{"policies":["{wide}"]}}"#));
        assert!(is_denied(&core, with("team/kid", &token), "kv/a"), "{wide}");
        assert!(is_denied(&core, with("team", &token), "kid/kv/a"), "{wide}");
    }
    let token = token(&core, "team", r#"{"policies":["kids"]}"#);
    for (namespace, path) in [("team/kid", "kv/a"), ("team", "kid/kv/a"), ("", "team/kid/kv/a")] {
        let read = with(namespace, &token).get(&core, Read, path, "");
        assert_eq!(text(&read, "v"), "team/kid");
    }
    assert!(is_denied(&core, with("team/kid", &token), "kv/secret"));
    assert!(is_denied(&core, with("team/kid", &token), "kv/SECRET"));
    assert!(is_denied(&core, with("team", &token), "kv/a"));
    assert!(is_denied(&core, with("team/kid", &token), "sys/mounts"));
    let asked = r#"{"paths":["kv/a","kv/secret","kid/kv/a"]}"#;
    let may = with("team/kid", &token).get(&core, Update, "sys/capabilities-self", asked);
    assert_eq!(may["kv/a"], Json::strings(["create", "list", "read", "update"]));
    assert_eq!(may["kv/secret"], Json::strings(["deny"]));
    assert_eq!(may["kid/kv/a"], Json::strings(["deny"]));
    // What it keeps for itself it keeps in one place.
    policy(&core, "team", "kids", "path \"kid/*\" { capabilities = [\"update\", \"create\"] }");
    let cubbyhole = with("team/kid", &token).ask(&core, Update, "cubbyhole/a", r#"{"a":"b"}"#);
    assert!(matches!(cubbyhole, Err(Error::Invalid(_))), "{cubbyhole:?}");
}

/// Names of policies mean something else in each namespace, and root is the root namespace's.
#[test]
fn a_token_made_from_above_inherits_nothing() {
    let core = family();
    let made = root("team").get(&core, Update, "auth/token/create", "{}");
    assert_eq!(made["policies"], Json::strings(["default"]));
    let body = r#"{"policies":["root"]}"#;
    let answer = root("team").ask(&core, Update, "auth/token/create", body);
    assert_eq!(said(&answer), "root tokens may not be created from a parent namespace");
    let make = "path \"team/auth/token/create\" { capabilities = [\"update\"] }";
    policy(&core, "", "all", make);
    let maker = token(&core, "", r#"{"policies":["all"]}"#);
    let made = with("team", &maker).get(&core, Update, "auth/token/create", "{}");
    assert_eq!(made["policies"], Json::strings(["default"]));
    let body = r#"{"policies":["all"]}"#;
    let answer = with("team", &maker).ask(&core, Update, "auth/token/create", body);
    assert_eq!(said(&answer), "child policies must be subset of parent");
    let body = r#"{"type":"batch"}"#;
    assert!(with("team", &maker).ask(&core, Update, "auth/token/create", body).is_err());
}

#[test]
fn a_token_ends_with_the_one_above_that_made_it() {
    for orphans in [false, true] {
        let core = family();
        let make = "path \"team/auth/token/create\" { capabilities = [\"update\"] }";
        policy(&core, "", "make", make);
        let parent = token(&core, "", r#"{"policies":["make"]}"#);
        let child = with("team", &parent).get(&core, Update, "auth/token/create", "{}");
        let child = text(&child, "client_token");
        let looks = |token: &str| {
            with("team", token).ask(&core, Read, "auth/token/lookup-self", "").is_ok()
        };
        assert!(looks(&child));
        // A tick, as after a restart, finds the parent where it is.
        pollster::block_on(core.run_due_jobs(jiff::Timestamp::UNIX_EPOCH)).unwrap();
        assert!(looks(&child));
        let verb = if orphans { "revoke-orphan" } else { "revoke" };
        let path = format!("auth/token/{verb}");
        root("").get(&core, Update, &path, &object(&[("token", &parent)]));
        assert_eq!(looks(&child), orphans);
        if orphans {
            // It is one from now on: who looks for children of tokens that are gone finds none.
            let seen = with("team", &child).get(&core, Read, "auth/token/lookup-self", "");
            assert_eq!(seen["orphan"], true.into());
        }
    }
}

#[test]
fn tokens_and_accessors_are_found_from_above_and_from_nowhere_else() {
    let core = family();
    let made = root("team").get(&core, Update, "auth/token/create", r#"{"policies":["default"]}"#);
    let (victim, accessor) = (text(&made, "client_token"), text(&made, "accessor"));
    let at_root = token(&core, "", r#"{"policies":["default"]}"#);
    let strong = token(&core, "other", r#"{"policies":["all"]}"#);
    let below = token(&core, "team/kid", r#"{"policies":["all"]}"#);
    for (namespace, attacker) in [("other", &strong), ("team/kid", &below)] {
        for given in [&victim, &at_root] {
            let body = object(&[("token", given)]);
            let ask = |path: &str| with(namespace, attacker).ask(&core, Update, path, &body);
            for path in ["auth/token/lookup", "auth/token/renew"] {
                assert!(ask(path).is_err(), "{namespace} {path}");
            }
            // Whatever they say of a token that is not there: below, it lives on.
            for path in ["auth/token/revoke", "auth/token/revoke-orphan"] {
                assert!(!said(&ask(path)).contains("namespace"), "{namespace} {path}");
            }
        }
        let body = object(&[("accessor", &accessor)]);
        for verb in ["lookup", "renew"] {
            let path = format!("auth/token/{verb}-accessor");
            assert!(with(namespace, attacker).ask(&core, Update, &path, &body).is_err());
        }
        with(namespace, attacker).get(&core, Update, "auth/token/revoke-accessor", &body);
        let all = with(namespace, attacker).ask(&core, List, "auth/token/accessors", "");
        assert!(!said(&all).contains(&accessor));
    }
    let self_looks = |namespace, token: &str| {
        with(namespace, token).ask(&core, Read, "auth/token/lookup-self", "").is_ok()
    };
    assert!(self_looks("team", &victim) && self_looks("", &at_root));
    let found = root("").get(&core, Update, "auth/token/lookup", &object(&[("token", &victim)]));
    assert_eq!(text(&found, "namespace_path"), "team/");
    let body = object(&[("accessor", &accessor)]);
    let found = root("").get(&core, Update, "auth/token/lookup-accessor", &body);
    assert_eq!(text(&found, "accessor"), accessor);
    root("").get(&core, Update, "auth/token/revoke-accessor", &body);
    assert!(!self_looks("team", &victim));
}

#[test]
fn a_wrapping_token_opens_where_it_was_made() {
    let core = family();
    let wrap = || {
        let ask = Ask { wrap_ttl_secs: 60, ..root("team") };
        text(&ask.get(&core, Read, "kv/a", ""), "token")
    };
    let wrapped = wrap();
    let body = object(&[("token", &wrapped)]);
    for namespace in ["", "other", "team/kid"] {
        for path in ["sys/wrapping/lookup", "sys/wrapping/unwrap", "sys/wrapping/rewrap"] {
            assert!(root(namespace).ask(&core, Update, path, &body).is_err(), "{namespace} {path}");
        }
        assert!(with(namespace, &wrapped).ask(&core, Update, "sys/wrapping/unwrap", "").is_err());
    }
    let opened = with("team", &wrapped).get(&core, Update, "sys/wrapping/unwrap", "");
    assert_eq!(text(&opened, "v"), "team");
    let other = wrap();
    let opened =
        root("team").get(&core, Update, "sys/wrapping/unwrap", &object(&[("token", &other)]));
    assert_eq!(text(&opened, "v"), "team");
}

/// The last use of a token from above is its last everywhere.
#[test]
fn a_limited_token_is_counted_in_its_own_namespace() {
    let core = family();
    policy(&core, "", "kids", "path \"team/kv/*\" { capabilities = [\"read\"] }");
    let limited = token(&core, "", r#"{"policies":["kids"],"num_uses":2}"#);
    for left in [true, true, false] {
        assert_eq!(with("team", &limited).ask(&core, Read, "kv/a", "").is_ok(), left);
    }
}

/// Who makes and deletes namespaces is decided like all else, and one level at a time.
#[test]
fn an_administrator_of_a_namespace_has_what_is_below_and_nothing_beside() {
    let core = family();
    let admin = token(&core, "team", r#"{"policies":["all"]}"#);
    let ask = |namespace, operation, path: &str| {
        with(namespace, &admin).ask(&core, operation, path, "{}").map(drop)
    };
    assert!(ask("team", Update, "sys/namespaces/new").is_ok());
    assert!(ask("team", Patch, "sys/namespaces/new").is_ok());
    let listed = with("team", &admin).get(&core, List, "sys/namespaces", "");
    assert_eq!(listed["keys"], Json::strings(["kid/", "new/"]));
    assert!(ask("team", Delete, "sys/namespaces/new").is_ok());
    for (namespace, path) in [
        ("", "sys/namespaces/new"),
        ("other", "sys/namespaces/new"),
        ("team/kid", "sys/namespaces/new"),
        ("team", "kid/sys/namespaces/new"),
        ("team", "sys/namespaces/kid/new"),
    ] {
        assert!(ask(namespace, Update, path).is_err(), "{namespace} {path}");
    }
    for path in
        ["sys/seal", "sys/audit/file", "sys/rotate", "sys/quotas/rate-limit/a", "sys/health"]
    {
        assert!(ask("team", Update, path).is_err(), "{path}");
    }
    assert!(!core.is_sealed());
}

#[test]
fn what_a_token_may_do_in_a_namespace_below_is_told_as_it_is_judged() {
    let core = family();
    let asks = "path \"kid/sys/capabilities-self\" { capabilities = [\"update\"] }";
    let reads = "path \"kid/kv/*\" { capabilities = [\"read\"] }";
    policy(&core, "team", "spelled", &format!("{reads}\n{asks}"));
    let all = token(&core, "team", r#"{"policies":["all"]}"#);
    let spelled = token(&core, "team", r#"{"policies":["all","spelled"]}"#);
    let capabilities = |ask: Ask<'_>, path: &str| {
        let body = format!(r#"{{"paths":["{path}"]}}"#);
        let answer = ask.get(&core, Update, "sys/capabilities-self", &body);
        String::from_utf8(answer["capabilities"].to_text()).unwrap()
    };
    for (own, told, denied) in [(&all, r#"["deny"]"#, true), (&spelled, r#"["read"]"#, false)] {
        assert_eq!(capabilities(with("team", own), "kid/kv/a"), told);
        assert_eq!(is_denied(&core, with("team", own), "kid/kv/a"), denied);
        assert!(capabilities(with("team", own), "kv/a").contains("sudo"));
        assert!(capabilities(with("team", own), "kids/kv/a").contains("sudo"));
    }
    assert_eq!(capabilities(with("team/kid", &spelled), "kv/a"), r#"["read"]"#);
    assert_eq!(capabilities(root(""), "team/kid/kv/a"), r#"["root"]"#);
    // The same for who asks about another.
    let body = object(&[("token", &all), ("path", "kid/kv/a")]);
    let answer = root("team").get(&core, Update, "sys/capabilities", &body);
    assert_eq!(answer["capabilities"], Json::strings(["deny".to_owned()]));
}

/// OpenBao counts the paths that are asked for from where it is asked, whatever the token's namespace.
#[test]
fn what_a_token_of_a_namespace_below_may_do_is_told_from_above_and_from_nowhere_else() {
    let core = family();
    let rules = "path \"kv/*\" { capabilities = [\"read\"] }
                 path \"kid/kv/*\" { capabilities = [\"list\"] }";
    policy(&core, "team", "reader", rules);
    let made = root("team").get(&core, Update, "auth/token/create", r#"{"policies":["reader"]}"#);
    let (token, accessor) = (text(&made, "client_token"), text(&made, "accessor"));
    let batch = token_of(&core, r#"{"policies":["reader"],"type":"batch","no_parent":true}"#);
    let paths = r#"["team/kv/a","team/kid/kv/a","kv/a","other/kv/a"]"#;
    let given =
        [("", "token", &token), ("", "token", &batch), ("-accessor", "accessor", &accessor)];
    for (route, name, given) in given {
        let path = format!("sys/capabilities{route}");
        let body = format!(r#"{{"{name}":"{given}","paths":{paths}}}"#);
        let told = root("").get(&core, Update, &path, &body);
        let of = |path: &str| String::from_utf8(told[path].to_text()).unwrap();
        assert_eq!(of("team/kv/a"), r#"["read"]"#, "{path}");
        assert_eq!(of("team/kid/kv/a"), r#"["list"]"#, "{path}");
        assert_eq!((of("kv/a"), of("other/kv/a")), (r#"["deny"]"#.into(), r#"["deny"]"#.into()));
        let own = root("team").get(&core, Update, &path, &body.replace("team/", ""));
        assert_eq!(own["kv/a"], Json::strings(["read"]), "{path}");
        // From beside and from below it is as unknown as one that never was.
        let unknown = body.replace(given.as_str(), &format!("{given}x"));
        for here in ["other", "team/kid"] {
            if here == "team/kid" && name == "token" {
                // A token is of use below its namespace, so there it is known.
                continue;
            }
            let [told, of_nobody] =
                [&body, &unknown].map(|body| said(&root(here).ask(&core, Update, &path, body)));
            assert_eq!(told, of_nobody, "{here} {path}");
            assert!(told.contains(&format!("invalid {name}")), "{here} {path}: {told}");
        }
    }
}

/// A token of `team`.
fn token_of(core: &Core, body: &str) -> String {
    token(core, "team", body)
}
