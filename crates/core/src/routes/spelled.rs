//! Every row of the table, asked by every spelling of its path (lesson 1): none lifts `sudo`, passes a narrower rule by, or
//! dodges a rate limit.

use kallisto_auth::Operation;

use super::tests::{ROOT, ask, open_core, request, rows, sample};
use crate::error::{Denial, Error};
use crate::quotas::{RULES, Spec};
use crate::request::Request;
use crate::response::Response;
use crate::state::{Access, Core};

/// What may stand at the end of a path and says "folder".
const ENDS: [&str; 3] = ["/", "%2f", "%2F"];
const EVERYTHING: &str = r#""create","read","update","patch","delete","list","scan""#;

type Answer = Result<Response, Error>;

/// The tokens that ask: one that may do all but what needs `sudo`, one that may do all but at the rows' own paths,
/// and root.
fn tokens(core: &Core) -> [&'static str; 3] {
    let sudo_less = format!(r#"path "*" {{ capabilities = [{EVERYTHING}] }}"#);
    let mut narrow = format!(r#"path "*" {{ capabilities = [{EVERYTHING},"sudo"] }}"#);
    for (base, route) in rows() {
        narrow += &format!("\npath \"{}\" {{ capabilities = [\"recover\"] }}", sample(base, route));
    }
    for (name, text) in [("sudo-less", sudo_less), ("narrow", narrow)] {
        let body = crate::json::Json::object([("policy", text.into())]).to_text();
        let body = String::from_utf8(body).unwrap();
        let path = format!("sys/policies/acl/{name}");
        ask(core, Some(ROOT), Operation::Update, &path, &body).unwrap();
        let body = format!(r#"{{"id":"{name}","policies":["{name}"],"no_default_policy":true}}"#);
        ask(core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
    }
    ["sudo-less", "narrow", ROOT]
}

/// What kind of answer it is.
fn shape(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    match answer {
        Ok(_) => text.split(['(', '{']).next().unwrap_or_default().to_owned(),
        Err(_) => text,
    }
}

fn is_refused_write(answer: &Answer) -> bool {
    let Err(Error::Invalid(text)) = answer else { return false };
    text.contains("cannot write to a path ending in '/'")
}

/// Whether nothing was found there, or nothing that could be meant.
fn is_nothing(answer: &Answer) -> bool {
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
fn lesson_01_a_slash_at_the_end_lifts_no_rule() {
    use Operation::{Delete, List, Patch, Read, Scan, Update};
    let core = open_core(Access::Token);
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
                    let is_well = is_nothing(&answer) || is_done || is_denied;
                    assert!(is_well, "{token}: {operation:?} {spelled}: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn lesson_01_a_rule_for_a_path_holds_for_each_spelling_of_it() {
    let core = open_core(Access::Token);
    let [sudo_less, narrow, _] = tokens(&core);
    let denied = |answer: &Answer| matches!(answer, Err(Error::Denied(Denial::Policy)));
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
    let core = open_core(Access::Token);
    let remote = Some("10.0.0.1:1".parse().unwrap());
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in [Operation::Read, Operation::Delete, Operation::List, Operation::Scan] {
            for [first, second] in [["", "/"], ["/", ""], ["%2F", "/"]] {
                // A rule that is put anew has its whole allowance again.
                let spec = Spec {
                    name: "q".to_owned(),
                    path: path.clone(),
                    rate: 1.0,
                    interval_secs: 60,
                    ..Spec::default()
                };
                let unsealed = core.unsealed.load_full().unwrap();
                assert!(unsealed.view.quotas.put(&format!("{RULES}q"), &spec.encode()));
                let asked = |end: &str| {
                    let spelled = format!("{path}{end}");
                    let request = request(Some("nobody"), operation, &spelled, "{}");
                    pollster::block_on(core.handle(&Request { remote, ..request }))
                };
                let is_list = matches!(operation, Operation::List | Operation::Scan);
                if !is_list && base != "sys/" {
                    continue;
                }
                let is_exempt = unsealed.view.quotas.settings().exempt.contains(&path);
                assert!(!matches!(asked(first), Err(Error::OverQuota(_))), "{path}{first}");
                let is_over = matches!(asked(second), Err(Error::OverQuota(_)));
                assert_eq!(is_over, !is_exempt, "{operation:?} {path}{second}");
            }
        }
    }
}

#[test]
fn what_is_kept_under_a_name_is_not_reached_by_the_folder_of_it() {
    let core = open_core(Access::Token);
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
fn lesson_01_a_slash_left_out_leads_nowhere() {
    let core = open_core(Access::Token);
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
fn lesson_01_a_slash_at_the_end_lifts_no_rule_in_a_namespace() {
    use Operation::{Delete, List, Read, Update};
    let core = open_core(Access::Token);
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
