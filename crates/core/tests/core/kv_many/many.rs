//! Many paths in one request: each judged as on its own, and writes all or nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use kallisto_core::limits::{BULK_BYTES_MAX, BULK_PATHS_MAX, TOGETHER_SECRETS_MAX};
use kallisto_core::{
    BatchAnswer, BatchPart, Denial, Error, HeaderSource, Headers, Operation, Request, Response,
};

use super::{ROUTES, all_names, bearer, data, own, text};
use crate::support::{Site, TOKEN, ask_as, request_of};

fn answers(reply: Response) -> Vec<BatchAnswer> {
    match reply {
        Response::Each(answers) => answers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bulk_read_answers_for_each_path_what_a_read_of_its_own_does() {
    let site = Site::open(1 << 20);
    for path in ["open/a", "open/gone", "closed/a", "other"] {
        site.put(path, path);
    }
    site.ask(Operation::Delete, "secret/data/open/gone", "").unwrap();
    let rules = format!("{ROUTES} path \"secret/data/open/*\" {{ capabilities = [\"read\"] }}");
    let token = bearer(&site, "reader", &rules);
    let paths = [
        "secret/data/open/a",
        "secret/data/open/gone",
        "secret/data/open/none",
        "secret/data/closed/a",
        "secret/metadata/open/a",
        "secret/data/open/../closed/a",
        "secret/data/open/%2e%2e/closed/a",
        "nowhere/data/a",
        "sys/mounts",
        "auth/token/lookup-self",
    ];
    let listed: Vec<String> = paths.iter().map(|path| format!("\"{path}\"")).collect();
    for who in [token.as_str(), TOKEN] {
        let body = format!(r#"{{"paths":[{}]}}"#, listed.join(","));
        let answers = answers(own(&site, who, "read", &body).unwrap());
        assert_eq!(answers.len(), paths.len());
        for answered in answers {
            let path = answered.path.as_str();
            let alone = kallisto_core::Path::literal(path).ok().map(|_| {
                let escaped = path.replace('%', "%25");
                ask_as(&site.core, who, 0, Operation::Read, &escaped, "")
            });
            match (answered.answer, alone) {
                (Ok(BatchPart::Found(got)), Some(Ok(Response::Logical(alone))))
                | (Ok(BatchPart::Missing(got)), Some(Ok(Response::Missing(alone)))) => {
                    assert_eq!(got, alone.data, "{path}");
                }
                // What is no secret is not read in bulk, by those who may read it.
                (Err(Error::UnsupportedPath), Some(Ok(_))) => {
                    assert!(path.starts_with("sys/") || path.starts_with("auth/"), "{path}");
                }
                (Err(got), Some(Err(alone))) => assert_eq!(got, alone, "{path}"),
                (Err(Error::Invalid(_)), None) => assert!(path.contains(".."), "{path}"),
                (got, alone) => panic!("{path}: {got:?} and {alone:?}"),
            }
        }
    }
}

#[test]
fn a_bulk_read_may_name_versions() {
    let site = Site::open(1 << 20);
    for value in ["one", "two", "three"] {
        site.put("a", value);
    }
    let named = [r#""secret/data/a""#, r#"{"path":"secret/data/a"}"#];
    let versions = [r#","version":1}"#, r#","version":"2"}"#]
        .map(|version| format!(r#"{{"path":"secret/data/a"{version}"#));
    let items = [&named.map(str::to_owned)[..], &versions[..]].concat().join(",");
    let told = answers(own(&site, TOKEN, "read", &format!(r#"{{"paths":[{items}]}}"#)).unwrap());
    let read = |answer: BatchAnswer| {
        let part = answer.answer.unwrap();
        text(&kallisto_core::json::parse_object(part.data()).unwrap()["data"])
    };
    let values: Vec<String> = told.into_iter().map(read).collect();
    assert_eq!(values, ["three", "three", "one", "two"].map(|v| format!(r#"{{"v":"{v}"}}"#)));
    let pathless = own(&site, TOKEN, "read", r#"{"paths":[{"version":1}]}"#);
    assert!(matches!(pathless, Err(Error::Invalid(why)) if why == "paths[0] has no 'path'"));
}

/// A client that has the answer with this tag.
struct Knows(String);

impl HeaderSource for Knows {
    fn values(&self, name: &str) -> Vec<String> {
        if name == "if-none-match" { vec![self.0.clone()] } else { Vec::new() }
    }
}

#[test]
fn a_bulk_read_gives_the_secret_whose_tag_the_client_names() {
    let site = Site::open(1 << 20);
    site.put("a", "one");
    let asked = |tag: &str, operation, path, body| {
        let source = Knows(tag.to_owned());
        let request = request_of(TOKEN, 0, operation, path, body);
        let request = Request { headers: Headers::of(&source), ..request };
        pollster::block_on(site.core.handle(&request)).unwrap()
    };
    let read = |tag: &str| asked(tag, Operation::Read, "secret/data/a", "");
    let Response::Logical(found) = read("") else { panic!("not found") };
    let mut tag = Vec::new();
    found.etag.unwrap().write(&mut tag);
    let tag = String::from_utf8(tag).unwrap();
    assert!(matches!(read(&tag), Response::NotModified { .. }));
    let body = r#"{"paths":["secret/data/a"]}"#;
    let told = answers(asked(&tag, Operation::Update, "sys/kallisto/kv/read", body));
    let [BatchAnswer { answer: Ok(BatchPart::Found(data)), .. }] = &*told else {
        panic!("{told:?}")
    };
    assert_eq!(*data, found.data);
}

#[test]
fn a_bulk_read_answers_with_no_more_bytes_than_its_limit() {
    let site = Site::open(64 << 20);
    let secret = "x".repeat(1_000_000);
    site.put("large", &secret);
    let most = BULK_BYTES_MAX / secret.len() + 1;
    let paths = vec!["\"secret/data/large\""; most + 2].join(",");
    let told = answers(own(&site, TOKEN, "read", &format!(r#"{{"paths":[{paths}]}}"#)).unwrap());
    let is_full = |answer: &BatchAnswer| matches!(answer.answer, Err(Error::TooLarge(_)));
    assert_eq!(told.iter().position(is_full), Some(most));
    assert!(told[most..].iter().all(is_full) && !told[..most].iter().any(is_full));
}

#[test]
fn lists_of_paths_are_bounded() {
    let site = Site::open(1 << 20);
    let most = vec!["\"secret/data/a\""; BULK_PATHS_MAX].join(",");
    let told = own(&site, TOKEN, "read", &format!(r#"{{"paths":[{most}]}}"#)).unwrap();
    assert_eq!(answers(told).len(), BULK_PATHS_MAX);
    let many = vec!["\"secret/data/a\""; BULK_PATHS_MAX + 1].join(",");
    for body in ["{}", r#"{"paths":[]}"#, r#"{"paths":[1]}"#, &format!(r#"{{"paths":[{many}]}}"#)] {
        assert!(matches!(own(&site, TOKEN, "read", body), Err(Error::Invalid(_))));
    }
    let many = vec![r#"{"path":"secret/data/a","data":{}}"#; TOGETHER_SECRETS_MAX + 1].join(",");
    let twice = [r#"{"path":"secret/data/a","data":{}}"#; 2].join(",");
    for list in ["", "1", r#"{"path":"secret/data/a"}"#, r#"{"data":{}}"#, &twice, &many] {
        let body = format!(r#"{{"writes":[{list}]}}"#);
        assert!(matches!(own(&site, TOKEN, "write", &body), Err(Error::Invalid(_))));
    }
    for path in ["secret/data/a/", "secret/data/"] {
        let body = format!(r#"{{"writes":[{{"path":"{path}","data":{{}}}}]}}"#);
        let refused = own(&site, TOKEN, "write", &body);
        let Err(Error::Invalid(why)) = refused else { panic!("{path}: {refused:?}") };
        assert!(why.contains("cannot write to a path ending in '/'"), "{why}");
    }
    assert_eq!(all_names(&site), Vec::<String>::new());
}

#[test]
fn a_write_of_many_takes_every_right_a_write_of_each_takes() {
    let site = Site::open(1 << 20);
    site.put("old", "v");
    let rules = format!("{ROUTES} path \"secret/data/*\" {{ capabilities = [\"create\"] }}");
    let token = bearer(&site, "creator", &rules);
    let write = |names: &[&str]| {
        let item = |name: &&str| format!(r#"{{"path":"secret/data/{name}","data":{{"v":"n"}}}}"#);
        let items: Vec<String> = names.iter().map(item).collect();
        own(&site, &token, "write", &format!(r#"{{"writes":[{}]}}"#, items.join(",")))
    };
    let refused = write(&["new", "old"]).unwrap_err();
    assert_eq!(refused, Error::Denied(Denial::At("secret/data/old".into())));
    assert_eq!(all_names(&site), ["old"]);
    assert_eq!(answers(write(&["new", "newer"]).unwrap()).len(), 2);
    site.assert_holds("new", "n");
    site.assert_holds("old", "v");
}

#[test]
fn secrets_without_versions_are_written_and_moved_too() {
    let site = Site::open(1 << 20);
    site.ask(Operation::Update, "sys/mounts/one", r#"{"type":"kv"}"#).unwrap();
    let body = r#"{"writes":[{"path":"one/a","data":{"v":"1"}},{"path":"secret/data/a","data":{"v":"2"}}]}"#;
    assert_eq!(answers(own(&site, TOKEN, "write", body).unwrap()).len(), 2);
    own(&site, TOKEN, "move", r#"{"from":"one/a","to":"one/d/b"}"#).unwrap();
    let read = |path: &str| site.ask(Operation::Read, path, "");
    assert!(read("one/a").is_err());
    assert_eq!(text(&data(read("one/d/b").unwrap()).into()), r#"{"v":"1"}"#);
    let wrong = own(&site, TOKEN, "copy", r#"{"from":"one/d/b","to":"secret/b"}"#);
    assert!(matches!(wrong, Err(Error::Invalid(_))));
    own(&site, TOKEN, "delete", r#"{"path":"one/"}"#).unwrap();
    assert!(read("one/d/b").is_err());
}

/// Four writers raise two counters together, each on the condition that they are what it read. Were a
/// write half done, the counters would part.
#[test]
fn racing_writes_of_two_are_never_half_done() {
    const RAISES: u64 = 40;
    let site = Site::open(1 << 20);
    let lost = AtomicU64::new(0);
    let current = || match site.get("a") {
        Ok(reply) => {
            let at = reply.rfind("\"version\":").unwrap() + "\"version\":".len();
            reply[at..].trim_end_matches('}').parse::<u64>().unwrap()
        }
        Err(_) => 0,
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut raised = 0;
                while raised < RAISES {
                    let cas = current();
                    let item = |name: &str| {
                        format!(r#"{{"path":"secret/data/{name}","data":{{"v":"{cas}"}},"options":{{"cas":{cas}}}}}"#)
                    };
                    let body = format!(r#"{{"writes":[{},{}]}}"#, item("a"), item("b"));
                    match own(&site, TOKEN, "write", &body) {
                        Ok(_) => raised += 1,
                        Err(Error::Invalid(_)) => drop(lost.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    for name in ["a", "b"] {
        let metadata = site.ask(Operation::Read, &format!("secret/metadata/{name}"), "").unwrap();
        assert_eq!(text(&data(metadata)["current_version"]), (4 * RAISES).to_string());
    }
}

#[test]
fn a_folder_past_the_limit_is_refused_with_its_count() {
    let site = Site::open(1 << 24);
    for chunk in 0..2 {
        let item = |at| format!(r#"{{"path":"secret/data/f/{chunk}-{at}","data":{{}}}}"#);
        let items: Vec<String> = (0..=TOGETHER_SECRETS_MAX / 2).map(item).collect();
        own(&site, TOKEN, "write", &format!(r#"{{"writes":[{}]}}"#, items.join(","))).unwrap();
    }
    let count = TOGETHER_SECRETS_MAX + 2;
    for (route, body) in [
        ("delete", r#"{"path":"secret/f/","purge":true}"#),
        ("delete", r#"{"path":"secret/","dry_run":true}"#),
        ("move", r#"{"from":"secret/f/","to":"secret/g/"}"#),
    ] {
        match own(&site, TOKEN, route, body) {
            Err(Error::TooLarge(message)) => assert!(message.contains(&count.to_string())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(all_names(&site).len(), count);
    // A forgotten slash does not mean everything.
    for (route, body) in [
        ("delete", r#"{"path":"secret","dry_run":true}"#),
        ("copy", r#"{"from":"secret/f/","to":"secret"}"#),
    ] {
        assert!(matches!(own(&site, TOKEN, route, body), Err(Error::Invalid(_))), "{route}");
    }
    let wrong = own(&site, TOKEN, "delete", r#"{"path":"secret/f/0-1","count":2}"#);
    assert!(matches!(wrong, Err(Error::Invalid(_))));
}

/// Every right that the table of `docs/api.md` names is needed: without any one of them nothing moves.
#[test]
fn moving_takes_each_right_it_is_said_to_take() {
    let site = Site::open(1 << 20);
    site.put("from/a", "v");
    site.put("from/a", "w");
    site.ask(Operation::Update, "secret/delete/from/a", r#"{"versions":[1]}"#).unwrap();
    let rights = [
        ("secret/metadata/from", "list"),
        ("secret/data/from/a", "read"),
        ("secret/metadata/from/a", "read"),
        ("secret/undelete/from/a", "update"),
        ("secret/data/to/a", "create"),
        ("secret/metadata/to/a", "create"),
        ("secret/metadata/from/a", "delete"),
    ];
    let rules_without = |missing: usize| {
        let mut rules = ROUTES.to_owned();
        for path in [
            "secret/metadata/from",
            "secret/data/from/a",
            "secret/metadata/from/a",
            "secret/undelete/from/a",
            "secret/data/to/a",
            "secret/metadata/to/a",
        ] {
            let held =
                rights.iter().enumerate().filter(|(at, right)| *at != missing && right.0 == path);
            let held: Vec<String> = held.map(|(_, right)| format!("\"{}\"", right.1)).collect();
            rules.push_str(&format!(" path \"{path}\" {{ capabilities = [{}] }}", held.join(",")));
        }
        rules
    };
    let folders = r#"{"from":"secret/from/","to":"secret/to/"}"#;
    for (missing, (_, capability)) in rights.iter().enumerate() {
        let token = bearer(&site, &format!("without{missing}"), &rules_without(missing));
        let answer = own(&site, &token, "move", folders);
        assert!(
            matches!(answer, Err(Error::Denied(_))),
            "without {:?}: {answer:?}",
            rights[missing]
        );
        let copies = own(
            &site,
            &token,
            "copy",
            r#"{"from":"secret/from/","to":"secret/to/","dry_run":true}"#,
        );
        assert_eq!(copies.is_ok(), *capability == "delete", "without {:?}", rights[missing]);
    }
    assert_eq!(all_names(&site), ["from/a"]);
    let token = bearer(&site, "complete", &rules_without(usize::MAX));
    let told = own(&site, &token, "move", folders).unwrap();
    let Response::Logical(logical) = &told else { panic!("{told:?}") };
    assert_eq!(logical.touched.len(), 5);
    assert!(!String::from_utf8_lossy(&logical.data).contains('w'), "a value was told");
    assert_eq!(all_names(&site), ["to/a"]);
}
