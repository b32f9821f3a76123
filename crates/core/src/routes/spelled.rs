//! Every row of the table, asked by every spelling of its path: none lifts `sudo`, passes a narrower rule by, or
//! dodges a rate limit.

use kallisto_auth::Operation;
use kallisto_engine::Admits;

use super::tests::{ROOT, ask, open_core, request, rows, sample};
use crate::api::error::{Denial, Error};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::platform::server_info::RouteAccess;
use crate::quotas::scope::QuotaScope;
use crate::quotas::{RULES, RuleSpec};
use crate::state::Core;

/// What may stand at the end of a path and says "folder".
const ENDS: [&str; 3] = ["/", "%2f", "%2F"];
const EVERYTHING: &str = r#""create","read","update","patch","delete","list","scan""#;

type SpelledAnswer = Result<Response, Error>;

/// The tokens that ask: one that may do all but what needs `sudo`, one that may do all but at the rows' own paths,
/// and root.
fn tokens(core: &Core) -> [&'static str; 3] {
    let sudo_less = format!(r#"path "*" {{ capabilities = [{EVERYTHING}] }}"#);
    let mut narrow = format!(r#"path "*" {{ capabilities = [{EVERYTHING},"sudo"] }}"#);
    for (base, route) in rows() {
        narrow += &format!("\npath \"{}\" {{ capabilities = [\"recover\"] }}", sample(base, route));
    }
    for (name, text) in [("sudo-less", sudo_less), ("narrow", narrow)] {
        let body = crate::api::json::Json::object([("policy", text.into())]).to_text();
        let body = String::from_utf8(body).unwrap();
        let path = format!("sys/policies/acl/{name}");
        ask(core, Some(ROOT), Operation::Update, &path, &body).unwrap();
        let body = format!(r#"{{"id":"{name}","policies":["{name}"],"no_default_policy":true}}"#);
        ask(core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
    }
    ["sudo-less", "narrow", ROOT]
}

/// What kind of answer it is.
fn shape(answer: &SpelledAnswer) -> String {
    let text = format!("{answer:?}");
    match answer {
        Ok(_) => text.split(['(', '{']).next().unwrap_or_default().to_owned(),
        Err(_) => text,
    }
}

fn is_refused_write(answer: &SpelledAnswer) -> bool {
    let Err(Error::Invalid(text)) = answer else { return false };
    text.contains("cannot write to a path ending in '/'")
}

/// Whether nothing was found there, or nothing that could be meant.
fn is_nothing(answer: &SpelledAnswer) -> bool {
    matches!(
        answer,
        Err(Error::NotFound | Error::UnsupportedPath | Error::UnsupportedOperation)
            | Ok(Response::Missing(_))
    )
}

fn is_secrets(base: &str) -> bool {
    ["cubbyhole/", "one/", "secret/"].contains(&base)
}

#[test]
fn a_slash_at_the_end_lifts_no_rule() {
    use Operation::{Delete, List, Patch, Read, Scan, Update};
    let core = open_core(RouteAccess::Token);
    let tokens = tokens(&core);
    for (base, route) in rows() {
        let path = sample(base, route);
        for token in tokens {
            for end in ENDS {
                let spelled = format!("{path}{end}");
                let asked = |operation, path: &str| ask(&core, Some(token), operation, path, "{}");
                for operation in [Update, Patch] {
                    let answer = asked(operation, &spelled);
                    assert!(is_refused_write(&answer), "{operation:?} {spelled}: {answer:?}");
                }
                for operation in [List, Scan] {
                    let (one, other) = (asked(operation, &path), asked(operation, &spelled));
                    assert_eq!(shape(&one), shape(&other), "{token}: {operation:?} {spelled}");
                }
                for operation in [Read, Delete] {
                    let answer = asked(operation, &spelled);
                    if base == "sys/" {
                        let plain = asked(operation, &path);
                        assert_eq!(
                            shape(&plain),
                            shape(&answer),
                            "{token}: {operation:?} {spelled}"
                        );
                        continue;
                    }
                    // Deleting what cannot be there is done already.
                    let is_done = is_secrets(base) && operation == Delete && answer.is_ok();
                    let is_denied = matches!(answer, Err(Error::Denied(Denial::Policy)));
                    // The slash is of the parameter, where that is open to anyone: a digit of base 64.
                    let is_part = route.pattern.ends_with("..}")
                        && route.admits == Admits::Anyone
                        && matches!(answer, Ok(Response::Text { code: 400, .. }));
                    let is_well = is_nothing(&answer) || is_done || is_denied || is_part;
                    assert!(is_well, "{token}: {operation:?} {spelled}: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn a_rule_for_a_path_holds_for_each_spelling_of_it() {
    let core = open_core(RouteAccess::Token);
    let [sudo_less, narrow, _] = tokens(&core);
    let denied = |answer: &SpelledAnswer| matches!(answer, Err(Error::Denied(Denial::Policy)));
    for (base, route) in rows().filter(|(_, route)| route.admits == super::Admits::Policy) {
        let path = sample(base, route);
        for &(operation, _) in route.does {
            let answer = ask(&core, Some(narrow), operation, &path, "{}");
            assert!(denied(&answer), "{operation:?} {path}: {answer:?}");
            if !route.rights.need_sudo(operation) {
                continue;
            }
            for end in ["", "/", "%2F"] {
                let spelled = format!("{path}{end}");
                let answer = ask(&core, Some(sudo_less), operation, &spelled, "{}");
                let is_well = denied(&answer) || is_refused_write(&answer);
                assert!(is_well, "{operation:?} {spelled}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_rate_limit_for_a_path_holds_for_each_spelling_of_it() {
    let core = open_core(RouteAccess::Token);
    let remote = Some("10.0.0.1:1".parse().unwrap());
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in [Operation::Read, Operation::Delete, Operation::List, Operation::Scan] {
            for [first, second] in [["", "/"], ["/", ""], ["%2F", "/"]] {
                // A rule that is put anew has its whole allowance again.
                let spec = RuleSpec {
                    name: "q".to_owned(),
                    scope: QuotaScope { path: path.clone(), ..QuotaScope::default() },
                    rate: 1.0,
                    interval_secs: 60,
                    ..RuleSpec::default()
                };
                let context = core.context.load_full().unwrap();
                assert!(context.view.quotas.put(&format!("{RULES}q"), &spec.encode()));
                let asked = |end: &str| {
                    let spelled = format!("{path}{end}");
                    let request = request(Some("nobody"), operation, &spelled, "{}");
                    pollster::block_on(core.handle(&Request { remote, ..request }))
                };
                let is_list = matches!(operation, Operation::List | Operation::Scan);
                if !is_list && base != "sys/" {
                    continue;
                }
                let is_exempt = context.view.quotas.settings().exempt.contains(&path);
                assert!(!matches!(asked(first), Err(Error::OverQuota(_))), "{path}{first}");
                let is_over = matches!(asked(second), Err(Error::OverQuota(_)));
                assert_eq!(is_over, !is_exempt, "{operation:?} {path}{second}");
            }
        }
    }
}

#[test]
fn what_is_kept_under_a_name_is_not_reached_by_the_folder_of_it() {
    let core = open_core(RouteAccess::Token);
    let root = |operation, path: &str, body: &str| ask(&core, Some(ROOT), operation, path, body);
    let put = |path: &str, body: &str| root(Operation::Update, path, body).unwrap();
    put("one/a", r#"{"k":"v"}"#);
    put("secret/data/a", r#"{"data":{"k":"v"}}"#);
    put("cubbyhole/a", r#"{"k":"v"}"#);
    put("transit/keys/k", "{}");
    put("auth/userpass/users/bob", r#"{"password":"one"}"#);
    put("auth/approle/role/r1", "{}");
    let kept = [
        "one/a",
        "secret/data/a",
        "secret/metadata/a",
        "cubbyhole/a",
        "transit/keys/k",
        "auth/userpass/users/bob",
        "auth/approle/role/r1",
    ];
    for path in kept {
        for end in ENDS {
            let spelled = format!("{path}{end}");
            let read = root(Operation::Read, &spelled, "");
            assert!(is_nothing(&read), "{spelled}: {read:?}");
            let deleted = root(Operation::Delete, &spelled, "");
            let is_done = matches!(deleted, Ok(Response::Empty));
            assert!(is_nothing(&deleted) || is_done, "{spelled}: {deleted:?}");
            assert!(is_refused_write(&root(Operation::Update, &spelled, r#"{"password":"two"}"#)));
        }
    }
    for path in kept {
        let answer = root(Operation::Read, path, "");
        assert!(matches!(answer, Ok(Response::Logical(_))), "{path}: {answer:?}");
    }
    let login = |password: &str| {
        let body = format!(r#"{{"password":"{password}"}}"#);
        ask(&core, None, Operation::Update, "auth/userpass/login/bob", &body)
    };
    assert!(login("one").is_ok());
    assert!(login("two").is_err());
}

/// A path without one of its slashes is another path, not another spelling.
#[test]
fn a_slash_left_out_leads_nowhere() {
    let core = open_core(RouteAccess::Token);
    for (base, route) in rows().filter(|(base, _)| !is_secrets(base)) {
        let inside = sample("", route);
        for (at, _) in inside.match_indices('/') {
            let glued = format!("{}{}", &inside[..at], &inside[at + 1..]);
            let family = super::tests::families().into_iter().find(|(_, found)| *found == base);
            // Below `namespaces/` all that is left is a name, which is judged as it is given.
            if family.unwrap().0.find(&glued).is_some() || glued.starts_with("namespaces/") {
                continue;
            }
            for &(operation, _) in route.does {
                let path = format!("{base}{glued}");
                let answer = ask(&core, Some(ROOT), operation, &path, "{}");
                let leads_nowhere =
                    matches!(answer, Err(Error::UnsupportedPath | Error::UnsupportedOperation));
                assert!(leads_nowhere, "{operation:?} {path}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_slash_at_the_end_lifts_no_rule_in_a_namespace() {
    use Operation::{Delete, List, Read, Update};
    let core = open_core(RouteAccess::Token);
    let tokens = tokens(&core);
    ask(&core, Some(ROOT), Update, "sys/namespaces/team", "{}").unwrap();
    for (base, route) in rows().filter(|(base, _)| *base == "sys/") {
        let path = sample(base, route);
        for token in tokens {
            let asked = |operation, namespace, path: &str| {
                let request = request(Some(token), operation, path, "{}");
                pollster::block_on(core.handle(&Request { namespace, ..request }))
            };
            let inside = format!("team/{path}");
            for operation in [Read, Delete, List] {
                for (namespace, path) in [("", &inside), ("team", &path), ("/team/", &path)] {
                    let plain = asked(operation, namespace, path);
                    let answer = asked(operation, namespace, &format!("{path}/"));
                    let about = format!("{token}: {operation:?} {namespace} {path}/");
                    assert_eq!(shape(&answer), shape(&plain), "{about}");
                }
            }
            for (namespace, path) in [("", &inside), ("team", &path), ("team/", &path)] {
                let answer = asked(Update, namespace, &format!("{path}%2F"));
                assert!(is_refused_write(&answer), "{token}: {namespace} {path}: {answer:?}");
            }
        }
    }
}

/// The spellings of a path whose name has no case, and the path itself; `None` for other paths.
fn cases(core: &Core, path: &str) -> Option<[String; 3]> {
    let context = core.context.load_full().unwrap();
    crate::caller::spelling::caseless(path, &context.view)?;
    let folders =
        ["acl", "policy", "headers", "request-headers", "unlock", "name", "login", "users"];
    let name = folders.iter().chain(&["role", "certs", "crls"]).find_map(|folder| {
        let folder = format!("/{folder}/");
        Some(path.find(&folder)? + folder.len())
    })?;
    let end = path[name..].find('/').map_or(path.len(), |slash| name + slash);
    let (before, name, after) = (&path[..name], &path[name..end], &path[end..]);
    let mixed: String = name
        .char_indices()
        .map(|(at, char)| if at % 2 == 0 { char.to_ascii_uppercase() } else { char })
        .collect();
    let spell = |name: &str| format!("{before}{name}{after}");
    Some([path.to_owned(), spell(&name.to_ascii_uppercase()), spell(&mixed)])
}

/// Every row below which names have no case, with the spellings of its sample.
fn caseless_rows(core: &Core) -> Vec<(&'static str, &'static super::Route, [String; 3])> {
    let spelled = |(base, route)| Some((base, route, cases(core, &sample(base, route))?));
    rows().filter_map(spelled).collect()
}

#[test]
fn a_rule_for_a_name_without_case_holds_in_every_case() {
    let core = open_core(RouteAccess::Token);
    let rows = caseless_rows(&core);
    let mut bases: Vec<_> = rows.iter().map(|(base, ..)| *base).collect();
    bases.dedup();
    assert!(bases.len() >= 7, "{bases:?}");
    for spelled in 0..3 {
        let mut narrow = format!(r#"path "*" {{ capabilities = [{EVERYTHING},"sudo"] }}"#);
        for (_, _, paths) in &rows {
            let line = format!("\npath \"{}\" {{ capabilities = [\"recover\"] }}", paths[spelled]);
            if !narrow.contains(&line) {
                narrow += &line;
            }
        }
        let body = crate::api::json::Json::object([("policy", narrow.into())]).to_text();
        let body = String::from_utf8(body).unwrap();
        let name = format!("case{spelled}");
        ask(&core, Some(ROOT), Operation::Update, &format!("sys/policies/acl/{name}"), &body)
            .unwrap();
        let body = format!(r#"{{"id":"{name}","policies":["{name}"],"no_default_policy":true}}"#);
        ask(&core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
        for (_, route, paths) in &rows {
            if route.admits != super::Admits::Policy {
                continue;
            }
            for (path, &(operation, _)) in
                paths.iter().flat_map(|path| route.does.iter().map(move |does| (path, does)))
            {
                let answer = ask(&core, Some(&name), operation, path, "{}");
                let is_denied = matches!(answer, Err(Error::Denied(Denial::Policy)));
                assert!(is_denied, "rule {}: {operation:?} {path}: {answer:?}", paths[spelled]);
            }
        }
    }
}

#[test]
fn a_rate_limit_for_a_name_without_case_holds_in_every_case() {
    let core = open_core(RouteAccess::Token);
    let remote = Some("10.0.0.1:1".parse().unwrap());
    for (_, route, paths) in caseless_rows(&core) {
        for (limited, &(operation, _)) in
            paths.iter().flat_map(|path| route.does.iter().map(move |does| (path, does)))
        {
            let spec = RuleSpec {
                name: "q".to_owned(),
                scope: QuotaScope { path: limited.clone(), ..QuotaScope::default() },
                rate: 1.0,
                interval_secs: 60,
                ..RuleSpec::default()
            };
            let context = core.context.load_full().unwrap();
            assert!(context.view.quotas.put(&format!("{RULES}q"), &spec.encode()));
            let is_over = |path: &str| {
                let request = request(Some("nobody"), operation, path, "{}");
                let answer = pollster::block_on(core.handle(&Request { remote, ..request }));
                matches!(answer, Err(Error::OverQuota(_)))
            };
            let over = [0, 1, 2, 0].map(|at: usize| is_over(&paths[at]));
            assert_eq!(over, [false, true, true, true], "{operation:?} {limited}");
        }
    }
}

#[test]
fn a_rule_for_one_case_grants_it_as_it_is_written() {
    let core = open_core(RouteAccess::Token);
    let text = r#"path "auth/approle/role/Web" { capabilities = ["create", "read", "update"] }
        path "auth/approle/role/db*" { capabilities = ["read"] }"#;
    let body = crate::api::json::Json::object([("policy", text.into())]).to_text();
    let body = String::from_utf8(body).unwrap();
    ask(&core, Some(ROOT), Operation::Update, "sys/policies/acl/web", &body).unwrap();
    let body = r#"{"id":"web","policies":["web"],"no_default_policy":true}"#;
    ask(&core, Some(ROOT), Operation::Update, "auth/token/create", body).unwrap();
    let update = |name: &str| {
        ask(&core, Some("web"), Operation::Update, &format!("auth/approle/role/{name}"), "{}")
    };
    assert!(update("Web").is_ok());
    for other in ["web", "WEB"] {
        assert!(matches!(update(other), Err(Error::Denied(Denial::Policy))), "{other}");
    }
    let read = |name: &str| {
        ask(&core, Some("web"), Operation::Read, &format!("auth/approle/role/{name}"), "")
    };
    assert!(read("Web").is_ok());
    assert!(matches!(read("DB1"), Err(Error::Denied(Denial::Policy))));
}

/// Policies and limits that know a user and an entity by one spelling, asked for by others, in a namespace and in none.
#[test]
fn case_and_blanks_lift_no_rule_in_a_namespace_either() {
    let core = open_core(RouteAccess::Token);
    let remote = Some("10.0.0.1:1".parse().unwrap());
    ask(&core, Some(ROOT), Operation::Update, "sys/namespaces/team", "{}").unwrap();
    for (namespace, token) in [("", "outside"), ("team/", "inside")] {
        let mount = format!("{namespace}sys/auth/people");
        ask(&core, Some(ROOT), Operation::Update, &mount, r#"{"type":"userpass"}"#).unwrap();
        let text = format!(
            r#"path "{namespace}*" {{ capabilities = [{EVERYTHING}] }}
            path "{namespace}auth/people/users/bob" {{ capabilities = ["read"] }}
            path "{namespace}identity/entity/name/Bob" {{ capabilities = ["read"] }}"#
        );
        let body = crate::api::json::Json::object([("policy", text.into())]).to_text();
        let body = String::from_utf8(body).unwrap();
        let policy = format!("sys/policies/acl/{token}");
        ask(&core, Some(ROOT), Operation::Update, &policy, &body).unwrap();
        let body = format!(r#"{{"id":"{token}","policies":["{token}"],"no_default_policy":true}}"#);
        ask(&core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
        for (path, is_denied) in [
            ("auth/people/users/bob", true),
            ("auth/people/users/BOB", true),
            ("auth/people/users/bobby", false),
            ("identity/entity/name/Bob", true),
            ("identity/entity/name/bob", true),
            ("identity/entity/name/%20bob", true),
            ("identity/entity/name/BOB%20", true),
            ("identity/entity/name/bobby", false),
        ] {
            let path = format!("{namespace}{path}");
            let body = r#"{"password":"a long one"}"#;
            let answer = ask(&core, Some(token), Operation::Update, &path, body);
            let was_denied = matches!(answer, Err(Error::Denied(Denial::Policy)));
            assert_eq!(was_denied, is_denied, "{path}: {answer:?}");
        }
        let spec = RuleSpec {
            name: "q".to_owned(),
            scope: QuotaScope {
                path: format!("{namespace}auth/people/login/bob"),
                namespace: namespace.to_owned(),
                ..QuotaScope::default()
            },
            rate: 1.0,
            interval_secs: 60,
            ..RuleSpec::default()
        };
        let context = core.context.load_full().unwrap();
        assert!(context.view.quotas.put(&format!("{RULES}q"), &spec.encode()));
        let over = ["Bob", "BOB", "bob"].map(|name| {
            let path = format!("{namespace}auth/people/login/{name}");
            let request = request(None, Operation::Update, &path, r#"{"password":"x"}"#);
            let answer = pollster::block_on(core.handle(&Request { remote, ..request }));
            matches!(answer, Err(Error::OverQuota(_)))
        });
        assert_eq!(over, [false, true, true], "{namespace}");
    }
    let body = r#"{"paths":["auth/people/users/BOB","auth/people/users/bobby"]}"#;
    let held =
        ask(&core, Some("outside"), Operation::Update, "sys/capabilities-self", body).unwrap();
    let Response::Merged(held) = held else { panic!("{held:?}") };
    let held = crate::api::json::parse_object(&held.data).unwrap();
    assert_eq!(held["auth/people/users/BOB"], crate::api::json::Json::strings(["read".to_owned()]));
    assert_ne!(held["auth/people/users/bobby"], held["auth/people/users/BOB"]);
    for (path, is_allowed) in [("auth/people/users/BOB", false), ("auth/people/users/bobby", true)]
    {
        let body = format!(r#"{{"path":"{path}","capability":"update"}}"#);
        let told = ask(&core, Some("outside"), Operation::Update, "sys/policies/explain", &body);
        let Ok(Response::Logical(told)) = told else { panic!("{told:?}") };
        let told = crate::api::json::parse_object(&told.data).unwrap();
        assert_eq!(told["allowed"], crate::api::json::Json::Bool(is_allowed), "{path}");
    }
}
