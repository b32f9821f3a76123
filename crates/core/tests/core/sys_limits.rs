//! Limits of the routes of the system, each at its edge, and what they refuse by name.

use kallisto_core::json::{Json, Map, parse_object};
use kallisto_core::{Error, Operation, Response};

use crate::support::Site;

fn ask(site: &Site, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
    site.ask(operation, &format!("sys/{path}"), body)
}

/// Nothing, or why a write was refused.
fn refused(site: &Site, path: &str, body: &str) -> Option<String> {
    match ask(site, Operation::Update, path, body) {
        Ok(_) => None,
        Err(Error::Invalid(why)) => Some(why),
        Err(other) => panic!("{path}: {other:?}"),
    }
}

fn data(site: &Site, path: &str, body: &str) -> Map {
    match ask(site, Operation::Update, path, body).unwrap() {
        Response::Logical(reply) | Response::Merged(reply) => parse_object(&reply.data).unwrap(),
        other => panic!("{path}: {other:?}"),
    }
}

fn read(site: &Site, path: &str) -> Map {
    match ask(site, Operation::Read, path, "").unwrap() {
        Response::Logical(reply) | Response::Merged(reply) => parse_object(&reply.data).unwrap(),
        other => panic!("{path}: {other:?}"),
    }
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn paths_and_descriptions_of_mounts_are_as_long_as_they_may() {
    let site = Site::open(1 << 20);
    let kv =
        |description: usize| format!(r#"{{"type":"kv","description":"{}"}}"#, long(description));
    assert_eq!(refused(&site, &format!("mounts/{}", long(256)), &kv(0)), None);
    let over = refused(&site, &format!("mounts/{}", long(257)), &kv(0)).unwrap();
    assert!(over.ends_with(": the path is longer than 256 bytes"), "{over}");
    assert_eq!(refused(&site, "mounts/a", &kv(4096)), None);
    let over = Some("description is longer than 4096 bytes".to_owned());
    assert_eq!(refused(&site, "mounts/b", &kv(4097)), over);
    let tune =
        |bytes| refused(&site, "mounts/a/tune", &format!(r#"{{"description":"{}"}}"#, long(bytes)));
    assert_eq!((tune(4096), tune(4097)), (None, over));
}

#[test]
fn times_of_leases_are_within_those_of_the_mount_and_of_the_server() {
    let site = Site::open(1 << 20);
    let mount = |path: &str, config: &str| {
        refused(&site, &format!("mounts/{path}"), &format!(r#"{{"type":"kv","config":{config}}}"#))
    };
    let longest = 768 * 60 * 60;
    let of = |default: u64| format!(r#"{{"default_lease_ttl":"{default}s"}}"#);
    assert_eq!(mount("a", &of(longest)), None);
    let over = mount("b", &of(longest + 1)).unwrap();
    assert!(over.contains("greater than system max lease TTL"), "{over}");
    let both = |default: u64, max: u64| {
        format!(r#"{{"default_lease_ttl":"{default}s","max_lease_ttl":"{max}s"}}"#)
    };
    assert_eq!(mount("c", &both(longest + 1, longest + 1)), None, "it has its own");
    let over = "given default lease TTL greater than given max lease TTL";
    assert_eq!(mount("d", &both(61, 60)).as_deref(), Some(over));
    assert_eq!(refused(&site, "mounts/a/tune", &both(60, 60)), None);
    assert_eq!(refused(&site, "mounts/a/tune", &both(61, 60)).as_deref(), Some(over));
}

#[test]
fn a_mount_is_tuned_by_what_it_can_be_tuned_by() {
    let site = Site::open(1 << 20);
    let tune = |path: &str, body: &str| refused(&site, &format!("mounts/{path}/tune"), body);
    let kind = r#"{"token_type":"service"}"#;
    let only = Some("'token_type' can only be modified on auth mounts".to_owned());
    assert_eq!(tune("secret", kind), only);
    let fixed = tune("identity", r#"{"max_lease_ttl":"1h"}"#).unwrap();
    assert!(fixed.starts_with("cannot tune parameter max_lease_ttl of identity"), "{fixed}");
    assert_eq!(tune("identity", r#"{"audit_non_hmac_request_keys":["a"]}"#), None);
    assert_eq!(tune("secret", r#"{"max_lease_ttl":"1h"}"#), None);
    let of_tokens = refused(&site, "auth/token/tune", kind);
    assert!(of_tokens.is_some_and(|why| why.starts_with("'token_type' cannot be set")));
    ask(&site, Operation::Update, "auth/userpass", r#"{"type":"userpass"}"#).unwrap();
    assert_eq!(refused(&site, "auth/userpass/tune", kind), None);
}

#[test]
fn a_mount_lies_where_nothing_else_is() {
    let site = Site::open(1 << 20);
    let kv = r#"{"type":"kv"}"#;
    let mount = |path: &str| refused(&site, &format!("mounts/{path}"), kv);
    assert_eq!(mount("a/b"), None);
    for path in ["a", "a/b", "a/b/c", "auth/x", "sys/x", "identity", "cubbyhole/y"] {
        assert!(mount(path).is_some(), "{path}");
    }
    let method = |path: &str| refused(&site, &format!("auth/{path}"), r#"{"type":"userpass"}"#);
    assert_eq!(method("sys"), None, "it lies below auth/");
}

#[test]
fn names_and_metadata_of_namespaces_are_as_long_as_they_may() {
    let site = Site::open(1 << 20);
    let make = |name: &str, body: &str| refused(&site, &format!("namespaces/{name}"), body);
    assert_eq!(make(&long(64), "{}"), None);
    assert_eq!(make(&long(65), "{}").as_deref(), Some("a namespace name is at most 64 bytes long"));
    let custom = |pairs: &[(String, String)]| {
        let pairs = pairs.iter().map(|(name, value)| format!("\"{name}\":\"{value}\""));
        format!(r#"{{"custom_metadata":{{{}}}}}"#, pairs.collect::<Vec<_>>().join(","))
    };
    let one = |name: usize, value: usize| custom(&[(long(name), long(value))]);
    assert_eq!(make("a", &one(128, 512)), None);
    assert!(make("b", &one(129, 1)).unwrap().contains("1 to 128 bytes"));
    assert!(make("b", &one(0, 1)).unwrap().contains("1 to 128 bytes"));
    assert!(make("b", &one(1, 513)).unwrap().contains("at most 512 bytes"));
    let many = |count: usize| {
        custom(&(0..count).map(|at| (format!("k{at}"), "v".to_owned())).collect::<Vec<_>>())
    };
    assert_eq!(make("c", &many(64)), None);
    assert_eq!(make("d", &many(65)).as_deref(), Some("more than 64 keys in custom_metadata"));
    for name in ["sys", "auth", "root", "a%20b", "a+b"] {
        assert!(make(name, "{}").is_some(), "{name}");
    }
}

#[test]
fn quotas_take_rates_and_spans_up_to_their_limits() {
    let site = Site::open(1 << 20);
    let rule = |body: &str| refused(&site, "quotas/rate-limit/r", body);
    let rate = |rate: &str| rule(&format!(r#"{{"rate":{rate}}}"#));
    assert_eq!(rate("1000000000000"), None);
    assert_eq!(rate("0.001"), None);
    for wrong in ["0", "-1", "1000000000001", "\"x\"", "\"\""] {
        assert!(rate(wrong).is_some(), "{wrong}");
    }
    let year = 365 * 24 * 60 * 60;
    let span = |secs: i64| {
        rule(&format!(r#"{{"rate":5,"interval":"{secs}s","block_interval":"{secs}s"}}"#))
    };
    assert_eq!(span(year), None);
    let shown = read(&site, "quotas/rate-limit/r");
    assert_eq!(shown["interval"], Json::from(u64::try_from(year).unwrap()));
    assert!(span(year + 1).unwrap().contains("expected 0 to 31536000 seconds"));
    assert!(span(-1).is_some());
    let none = r#"{"rate":5,"block_interval":"0s"}"#;
    assert_eq!(rule(none), None);
    assert_eq!(read(&site, "quotas/rate-limit/r")["block_interval"], 0_u64.into());
    ask(&site, Operation::Update, "auth/approle", r#"{"type":"approle"}"#).unwrap();
    let role = |bytes| {
        let role = long(bytes);
        rule(&format!(r#"{{"rate":5,"path":"auth/approle","role":"{role}"}}"#))
    };
    assert_eq!((role(256), role(257)), (None, Some("role: longer than 256 bytes".to_owned())));
    let exempt = |count: usize| {
        let paths = (0..count).map(|at| format!("\"sys/{at}\"")).collect::<Vec<_>>().join(",");
        refused(&site, "quotas/config", &format!(r#"{{"rate_limit_exempt_paths":[{paths}]}}"#))
    };
    assert_eq!(exempt(256), None);
    assert_eq!(exempt(257).as_deref(), Some("rate_limit_exempt_paths: at most 256 paths"));
}

#[test]
fn there_are_as_many_rules_of_a_quota_as_there_may_be() {
    let site = Site::open(1 << 20);
    ask(&site, Operation::Update, "mounts/m", r#"{"type":"kv"}"#).unwrap();
    let rule = |at: usize| {
        let body = format!(r#"{{"rate":5,"path":"m/p{at}"}}"#);
        refused(&site, &format!("quotas/rate-limit/r{at}"), &body)
    };
    assert!((0..256).all(|at| rule(at).is_none()));
    assert!(rule(256).unwrap().starts_with("there are 256 rules"));
    assert_eq!(rule(255), None, "it is there already");
}

#[test]
fn what_browsers_are_told_is_as_long_as_it_may() {
    let site = Site::open(1 << 20);
    let list = |count: usize, bytes: usize| {
        let items = (0..count).map(|_| format!("\"{}\"", long(bytes)));
        items.collect::<Vec<_>>().join(",")
    };
    let cors = |origins: &str, headers: &str| {
        let body = format!(r#"{{"allowed_origins":[{origins}],"allowed_headers":[{headers}]}}"#);
        ask(&site, Operation::Update, "config/cors", &body).is_ok()
    };
    assert!(cors(&list(256, 256), &list(256, 256)));
    assert!(!cors(&list(257, 1), ""));
    assert!(!cors(&list(1, 257), ""));
    assert!(!cors(&list(1, 1), &list(257, 1)));
    assert!(!cors(&list(1, 1), &list(1, 257)));
    let header = |name: &str, values: &str| {
        let path = format!("config/ui/headers/{name}");
        refused(&site, &path, &format!(r#"{{"values":[{values}]}}"#))
    };
    assert_eq!(header(&long(256), &list(1, 4096)), None);
    assert_eq!(header("x-b", &list(256, 1)), None);
    assert!(header(&long(257), &list(1, 1)).is_some());
    assert!(header("x-c", &list(1, 4097)).is_some());
    assert!(header("x-c", &list(257, 1)).is_some());
    assert!(header("a%20b", &list(1, 1)).is_some(), "no name of a header");
    assert!(header("x-c", "\"a\\u0001\"").is_some() && header("x-c", "").is_some());
    // Two are there.
    assert!((0..62).all(|at| header(&format!("x-n{at}"), &list(1, 1)).is_none()));
    assert_eq!(header("x-last", &list(1, 1)).as_deref(), Some("more than 64 headers"));
    assert_eq!(header("x-b", &list(1, 1)), None, "it is there already");
}

#[test]
fn settings_of_the_page_are_as_long_as_they_may() {
    let site = Site::open(1 << 20);
    let set = |body: &str| refused(&site, "config/ui/settings", body);
    let banner = |bytes: usize| set(&format!(r#"{{"banner":{{"text":"{}"}}}}"#, long(bytes)));
    assert_eq!((banner(1), banner(1_024)), (None, None));
    assert!(banner(0).is_some() && banner(1_025).is_some());
    let logins = |count: usize| {
        let names = (0..count).map(|at| format!("\"m{at}\"")).collect::<Vec<_>>().join(",");
        set(&format!(r#"{{"logins":[{names}]}}"#))
    };
    assert_eq!(logins(64), None);
    assert!(logins(65).unwrap().contains("may name 64 login methods"));
}

#[test]
fn names_of_audited_headers_are_as_long_as_they_may() {
    let site = Site::open(1 << 20);
    let header = |name: &str, body: &str| {
        refused(&site, &format!("config/auditing/request-headers/{name}"), body)
    };
    assert_eq!(header(&long(128), "{}"), None);
    assert_eq!(header(&long(129), "{}").as_deref(), Some("that is no name of a header"));
    assert_eq!(header("a%20b", "{}").as_deref(), Some("that is no name of a header"));
    assert!(header("cookie", "{}").is_some() && header("cookie", r#"{"hmac":true}"#).is_none());
    // Two are there.
    assert!((0..62).all(|at| header(&format!("x-n{at}"), "{}").is_none()));
    assert_eq!(header("x-last", "{}").as_deref(), Some("more than 64 audited headers"));
    assert_eq!(header("x-n3", r#"{"hmac":true}"#), None, "it is there already");
}

#[test]
fn durability_takes_bounds_that_are_some() {
    let site = Site::open(1 << 20);
    let set = |body: &str| refused(&site, "durability", body);
    let shown = || {
        let shown = read(&site, "durability");
        ["mode", "ops", "interval_ms"].map(|name| shown[name].clone())
    };
    let batch = |ops: &str, interval: &str| {
        set(&format!(r#"{{"mode":"batch","ops":{ops},"interval":"{interval}"}}"#))
    };
    assert_eq!(batch("1", "1ms"), None);
    assert_eq!(shown(), ["batch".into(), 1_u64.into(), 1_u64.into()]);
    assert_eq!(batch("10000000", "1h"), None);
    assert_eq!(shown(), ["batch".into(), 10_000_000_u64.into(), 3_600_000_u64.into()]);
    for (ops, interval) in [("0", "1s"), ("-1", "1s"), ("10000001", "1s"), ("5", "0s")] {
        assert!(batch(ops, interval).is_some(), "{ops} {interval}");
    }
    assert!(batch("5", "3601s").is_some() && batch("5", "-1s").is_some());
    assert!(set(r#"{"mode":"none"}"#).is_some() && set("{}").is_some());
    assert_eq!(shown()[0], "batch".into(), "what is refused changes nothing");
    assert_eq!(set(r#"{"mode":"strict"}"#), None);
    assert_eq!(shown(), ["strict".into(), 0_u64.into(), 0_u64.into()]);
}

#[test]
fn a_policy_has_a_text_and_old_clients_may_call_it_rules() {
    let site = Site::open(1 << 20);
    let text = r#"path \"a\" { capabilities = [\"read\"] }"#;
    let needed = Some("'policy' parameter not supplied or empty".to_owned());
    let as_rules = format!(r#"{{"rules":"{text}"}}"#);
    assert_eq!(refused(&site, "policies/acl/p", &as_rules), needed);
    assert_eq!(refused(&site, "policy/p", r#"{"rules":""}"#), needed);
    match ask(&site, Operation::Update, "policy/p", &as_rules).unwrap() {
        Response::Logical(reply) | Response::Merged(reply) => {
            assert!(reply.warnings[0].starts_with("'rules' is deprecated"));
        }
        other => panic!("{other:?}"),
    }
    let rules = read(&site, "policy/p")["rules"].clone();
    assert_eq!(read(&site, "policies/acl/p")["policy"], rules);
    assert_eq!(read(&site, "policies/acl/root")["policy"], "".into());
    let unknown = ask(&site, Operation::Read, "policies/acl/q", "");
    assert!(matches!(unknown, Err(Error::NotFound)));
    let paths = |body: &str| match ask(&site, Operation::Update, "capabilities-self", body) {
        Ok(Response::Logical(reply) | Response::Merged(reply)) => {
            Some(parse_object(&reply.data).unwrap())
        }
        Err(Error::Invalid(_)) => None,
        other => panic!("{other:?}"),
    };
    assert!(paths(r#"{"paths":["a"]}"#).unwrap().contains_key("a"));
    assert!(paths(r#"{"paths":[],"path":"b"}"#).unwrap().contains_key("b"));
    assert!(paths("{}").is_none());
}

#[test]
fn tools_make_as_many_bytes_as_they_may_and_know_every_sum() {
    let site = Site::open(1 << 20);
    let bytes = |count: usize| refused(&site, "tools/random", &format!(r#"{{"bytes":{count}}}"#));
    assert_eq!((bytes(1), bytes(128 << 10)), (None, None));
    assert!(bytes(0).is_some() && bytes((128 << 10) + 1).is_some());
    let sum = |algorithm: &str, format: &str| {
        let body = format!(r#"{{"input":"YQ==","algorithm":"{algorithm}","format":"{format}"}}"#);
        data(&site, "tools/hash", &body)["sum"].as_str().unwrap().to_owned()
    };
    for (algorithm, digits, begins) in [
        ("sha2-224", 56, "abd37534"),
        ("sha2-256", 64, "ca978112"),
        ("sha2-384", 96, "54a59b9f"),
        ("sha2-512", 128, "1f40fc92"),
        ("sha3-256", 64, "80084bf2"),
        ("sha3-384", 96, "1815f774"),
        ("sha3-512", 128, "697f2d85"),
        ("", 64, "ca978112"),
    ] {
        let hex = sum(algorithm, "hex");
        assert!(hex.starts_with(begins) && hex.len() == digits, "{algorithm}: {hex}");
    }
    assert!(sum("sha2-256", "base64").starts_with("ypeBEsobvcr6wjGzmiPcTaeG7"));
    assert!(refused(&site, "tools/hash", r#"{"input":"YQ==","algorithm":"md5"}"#).is_some());
}

#[test]
fn keys_of_holders_are_as_many_as_shares_and_of_the_operation() {
    let site = Site::open(1 << 20);
    let rekey = |body: &str| refused(&site, "rekey/init", body).unwrap_or_default();
    let shares = r#""secret_shares":2,"secret_threshold":2"#;
    let one = rekey(&format!(r#"{{{shares},"pgp_keys":["a"]}}"#));
    assert!(one.contains("count mismatch") && one.contains("(pgp_keys: 1)"), "{one}");
    let bad = rekey(&format!(r#"{{{shares},"pgp_keys":["a","b"]}}"#));
    assert!(bad.starts_with("pgp_keys, key 1"), "{bad}");
    let blank = rekey(&format!(r#"{{{shares},"pgp_keys":" , "}}"#));
    assert_eq!(blank, "pgp_keys: no key is in it");
    let root = refused(&site, "generate-root/attempt", r#"{"pgp_key":"a"}"#).unwrap_or_default();
    assert!(root.starts_with("pgp_key"), "{root}");
}

/// The policies, drafts, paths and capabilities that one question may be about.
#[test]
fn a_question_about_a_policy_is_as_long_as_it_may() {
    let site = Site::open(1 << 20);
    let list = |count: usize, name: &str| {
        (0..count).map(|at| format!("\"{name}{at}\"")).collect::<Vec<_>>().join(",")
    };
    let explain = |body: &str| refused(&site, "policies/explain", body).unwrap_or_default();
    let named = |count| format!(r#"{{"path":"a","policies":[{}]}}"#, list(count, "p"));
    let most = 128;
    assert_eq!(explain(&named(most)), "");
    assert_eq!(explain(&named(most + 1)), format!("'policies' may have {most} names"));
    let drafts = |count: usize| {
        let drafts = (0..count).map(|at| format!("\"p{at}\":\"\"")).collect::<Vec<_>>().join(",");
        format!(r#"{{"path":"a","draft":{{{drafts}}}}}"#)
    };
    assert_eq!(explain(&drafts(most)), "");
    assert_eq!(explain(&drafts(most + 1)), format!("'draft' may have {most} policies"));
}

#[test]
fn a_review_of_access_names_everybody_who_may_and_by_which_line() {
    let site = Site::open(1 << 20);
    let write = |path: &str, body: &str| site.ask(Operation::Update, path, body).unwrap();
    let id = |answer: Response| match answer {
        Response::Logical(reply) => parse_object(&reply.data).unwrap()["id"].clone(),
        other => panic!("{other:?}"),
    };
    write(
        "sys/policies/acl/p",
        r#"{"policy":"path \"secret/data/a\" { capabilities = [\"read\"] }"}"#,
    );
    write(
        "sys/policies/acl/q",
        r#"{"policy":"path \"secret/data/b\" { capabilities = [\"read\"] }"}"#,
    );
    let own = r#"{"policy":"path \"secret/data/{{identity.entity.name}}\" { capabilities = [\"read\"] }"}"#;
    write("sys/policies/acl/own", own);
    let entity = |name: &str, policy: &str| {
        id(write("identity/entity", &format!(r#"{{"name":"{name}","policies":["{policy}"]}}"#)))
    };
    let bob = entity("bob", "p");
    entity("ann", "q");
    entity("a", "own");
    // What a template comes to is another's own.
    entity("c", "own");
    entity("d", "own");
    entity("gone", "p");
    write("identity/entity/name/gone", r#"{"disabled":true}"#);
    let group = id(write("identity/group", r#"{"name":"readers","policies":["p"]}"#));
    write("identity/group", r#"{"name":"others","policies":["q"]}"#);
    write("sys/auth/userpass", r#"{"type":"userpass"}"#);
    write("sys/auth/approle", r#"{"type":"approle"}"#);
    write("auth/approle/role/web", r#"{"token_policies":["p"]}"#);
    write("auth/approle/role/other", r#"{"token_policies":["q"]}"#);
    write("auth/userpass/users/bob", r#"{"password":"pw","token_policies":["p"]}"#);
    write("auth/token/create", r#"{"policies":["p"],"display_name":"job","ttl":"1h"}"#);
    write("auth/token/create", r#"{"policies":["q"]}"#);
    let who = |body: &str| match site.ask(Operation::Update, "sys/kallisto/access/who", body) {
        Ok(Response::Logical(reply)) => parse_object(&reply.data).unwrap(),
        other => panic!("{other:?}"),
    };
    let whole = who(r#"{"path":"secret/data/a"}"#);
    assert_eq!(whole["next"], Json::Null);
    let Json::Array(subjects) = &whole["subjects"] else { panic!("{whole:?}") };
    let subjects: Vec<&Map> = subjects.iter().map(|one| one.as_object().unwrap()).collect();
    let text = |one: &Map, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = subjects.iter().map(|one| (text(one, "kind"), text(one, "name"))).collect();
    let is_found = |kind: &str, name: &str| found.contains(&(kind.to_owned(), name.to_owned()));
    for (kind, name) in [
        ("entity", "bob"),
        ("entity", "a"),
        ("group", "readers"),
        ("role", "web"),
        ("role", "bob"),
        ("token", "token-job"),
        ("token", "root"),
    ] {
        assert!(is_found(kind, name), "{kind} {name} is not in {found:?}");
    }
    assert_eq!(found.len(), 7, "{found:?}");
    let kinds: Vec<&str> = found.iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(kinds.is_sorted(), "{kinds:?}");
    for one in &subjects {
        let via = &one["via"];
        match one.get("root") {
            Some(_) => assert_eq!(*via, Json::Null),
            None => {
                let via = via.as_object().unwrap();
                let policy = if text(one, "name") == "a" { "own" } else { "p" };
                assert_eq!((text(via, "policy"), &via["line"]), (policy.to_owned(), &1_u64.into()));
            }
        }
    }
    let of = |kind: &str, name: &str| {
        subjects.iter().find(|one| text(one, "kind") == kind && text(one, "name") == name).unwrap()
    };
    assert_eq!(of("entity", "bob")["id"], bob);
    assert_eq!(of("group", "readers")["id"], group);
    assert_eq!(text(of("role", "web"), "mount"), "auth/approle/");
    assert_eq!(text(of("role", "bob"), "mount"), "auth/userpass/");
    assert_eq!(text(of("token", "token-job"), "mount"), "auth/token/");
    assert!(text(of("token", "token-job"), "expires").starts_with("1970-01-01T01:00:00"));
    assert_eq!(of("token", "root")["root"], true.into());
    assert_eq!(of("token", "root")["expires"], Json::Null);
    // Whoever goes on sees what comes behind.
    for next in ["group:", "role:", "token:"] {
        let rest = who(&format!(r#"{{"path":"secret/data/a","next":"{next}"}}"#));
        let Json::Array(rest) = &rest["subjects"] else { panic!("{rest:?}") };
        let kind = next.trim_end_matches(':');
        let expected = kinds.iter().filter(|known| **known >= kind).count();
        assert_eq!(rest.len(), expected, "{next}");
    }
    let behind = r#"{"path":"secret/data/a","next":"role:auth/approle/\u0000role/web"}"#;
    let Json::Array(rest) = &who(behind)["subjects"] else { panic!("no list") };
    assert_eq!(rest.len(), 3, "the user and two tokens");
    for body in [r#"{"path":"a","next":"nobody:"}"#, r#"{"path":"a","next":"x"}"#] {
        let refused = site.ask(Operation::Update, "sys/kallisto/access/who", body);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{body}");
    }
    let update = who(r#"{"path":"secret/data/a","capability":"update"}"#);
    let Json::Array(update) = &update["subjects"] else { panic!("no list") };
    assert_eq!(update.len(), 1, "the root token alone");
    // The policy that is given besides, unless a role says that it is not.
    let body = r#"{"token_policies":["q"],"token_no_default_policy":true}"#;
    write("auth/approle/role/bare", body);
    let own = who(r#"{"path":"auth/token/lookup-self"}"#);
    let Json::Array(own) = &own["subjects"] else { panic!("no list") };
    let roles = own.iter().map(|one| one.as_object().unwrap());
    let roles = roles.filter(|one| text(one, "kind") == "role").map(|one| text(one, "name"));
    assert_eq!(roles.collect::<Vec<_>>(), ["other", "web", "bob"]);
}

#[test]
fn a_grid_of_questions_is_as_large_as_it_may() {
    let site = Site::open(1 << 20);
    let list =
        |count: usize| (0..count).map(|at| format!("\"p{at}\"")).collect::<Vec<_>>().join(",");
    let grid = |paths: usize, capabilities: &str| {
        let paths = list(paths);
        let body = format!(
            r#"{{"policies":["default"],"paths":[{paths}],"capabilities":[{capabilities}]}}"#
        );
        refused(&site, "policies/explain", &body)
    };
    let two = r#""read","list""#;
    assert_eq!(grid(1_024, r#""read""#), None);
    assert_eq!(grid(512, two), None);
    for (paths, capabilities) in [(1_025, r#""read""#), (513, two)] {
        let over = grid(paths, capabilities).unwrap();
        assert!(over.ends_with("one request may ask 1024"), "{over}");
    }
}

#[test]
fn what_is_not_shown_of_a_grid_is_counted() {
    let site = Site::open(1 << 20);
    let path = "a".repeat(80);
    let explained = |rules: usize| {
        let rule = |at: usize| {
            let pattern = &path[..at];
            format!(r#"path \"{pattern}*\" {{ capabilities = [\"read\"] }} "#)
        };
        let text: String = (0..rules).map(rule).collect();
        let body = format!(r#"{{"policies":["p"],"draft":{{"p":"{text}"}},"paths":["{path}"]}}"#);
        let told = data(&site, "policies/explain", &body);
        let Json::Array(grid) = &told["grid"] else { panic!("no grid") };
        let cell = grid[0].as_object().unwrap();
        let Json::Array(lost) = &cell["lost"] else { panic!("no list") };
        (lost.len(), cell.get("lost_more").cloned())
    };
    assert_eq!(explained(10), (9, None));
    assert_eq!(explained(65), (64, None));
    assert_eq!(explained(66), (64, Some(1_u64.into())));
}

/// As in OpenBao: the settings are replaced, not merged.
#[test]
fn what_a_write_of_the_settings_of_quotas_leaves_out_is_off_or_empty() {
    let site = Site::open(1 << 20);
    let shown = || Json::Object(read(&site, "quotas/config")).to_text();
    let of = |audits: bool, headers: bool, exempt: &str| {
        let text = format!(
            r#"{{"enable_rate_limit_audit_logging":{audits},"enable_rate_limit_response_headers":{headers},"rate_limit_exempt_paths":[{exempt}]}}"#
        );
        text.into_bytes()
    };
    let all = of(true, true, r#""a/b""#);
    assert_eq!(refused(&site, "quotas/config", std::str::from_utf8(&all).unwrap()), None);
    assert_eq!(shown(), all);
    let headers = r#"{"enable_rate_limit_response_headers":true}"#;
    assert_eq!(refused(&site, "quotas/config", headers), None);
    assert_eq!(shown(), of(false, true, ""));
    assert_eq!(refused(&site, "quotas/config", "{}"), None);
    assert_eq!(shown(), of(false, false, ""));
}
