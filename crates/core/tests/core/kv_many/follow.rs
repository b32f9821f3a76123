//! Following changes: nothing missed, nothing twice, nothing to those who may not hear it.

use fastrand::Rng;
use jiff::Timestamp;
use kallisto_core::limits::{
    FEED_CHANGES_MAX, STREAMS_PER_TOKEN_MAX, TOGETHER_SECRETS_MAX, WAIT_SECS_MAX,
};
use kallisto_core::{Error, Json, NextPiece, Operation, Response, Stream};

use super::{ROUTES, bearer, own, policy, query, query_for};
use crate::support::{Site, TOKEN, ask_as};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    name: String,
    id: String,
    data: String,
}

impl Event {
    fn path(&self) -> String {
        let data = kallisto_core::json::parse_object(self.data.as_bytes()).unwrap();
        data.get("path").and_then(Json::as_str).unwrap_or_default().to_owned()
    }
}

fn parse(bytes: &[u8]) -> Vec<Event> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.ends_with("\n\n"));
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let event = |block: &str| Event {
        name: field(block, "event: "),
        id: field(block, "id: "),
        data: field(block, "data: "),
    };
    text.split("\n\n").filter(|block| !block.is_empty()).map(event).collect()
}

fn open(site: &Site, token: &str, path: &str, index: Option<&str>) -> Stream {
    let mut pairs = vec![("path", path)];
    pairs.extend(index.map(|index| ("index", index)));
    match query(site, token, "sys/kallisto/kv/watch", &pairs).unwrap() {
        Response::Stream(stream) => stream,
        other => panic!("{other:?}"),
    }
}

/// What a stream has to say now, and whether it ended.
fn drain(stream: &mut Stream, secs: i64) -> (Vec<Event>, bool) {
    let mut events = Vec::new();
    loop {
        match stream.source.next(Timestamp::from_second(secs).unwrap()) {
            NextPiece::Bytes(bytes) => events.extend(parse(&bytes)),
            NextPiece::Wait => return (events, false),
            NextPiece::Cut => panic!("what is followed ends with a word"),
            NextPiece::End(bytes) => {
                events.extend(parse(&bytes));
                return (events, true);
            }
        }
    }
}

fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.name, event.path())).collect()
}

/// Random changes, some many at once, followed by a client that hangs up in the midst of events and
/// comes back with the last id it saw.
#[test]
fn a_client_that_comes_back_misses_nothing_and_hears_nothing_twice() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let site = Site::open(1 << 20);
        let (mut expected, mut heard) = (Vec::new(), Vec::new());
        let mut last = drain(&mut open(&site, TOKEN, "secret/f/", None), 0).0[0].id.clone();
        for at in 0..40 {
            for _ in 0..random.u8(..4) {
                expected.extend(change(&site, &mut random, at));
            }
            let mut stream = open(&site, TOKEN, "secret/f/", Some(&last));
            let (events, _) = drain(&mut stream, 0);
            assert_eq!(events[0].name, "ready");
            let seen = random.usize(..events.len());
            for event in &events[1..=seen] {
                heard.push(format!("{} {}", event.name, event.path()));
                event.id.clone_into(&mut last);
            }
        }
        let mut stream = open(&site, TOKEN, "secret/f/", Some(&last));
        heard.extend(names(&drain(&mut stream, 0).0[1..]));
        assert_eq!(heard, expected, "seed {seed}");
        assert!(expected.len() > 20);
    }
}

fn is_live(site: &Site, name: &str) -> bool {
    let read = site.ask(Operation::Read, &format!("secret/data/{name}"), "");
    matches!(read, Ok(Response::Logical(_)))
}

/// Changes something below `f/` or beside it; returns the events to expect.
fn change(site: &Site, random: &mut Rng, at: usize) -> Vec<String> {
    let name = ["f/a", "f/b", "f/g/a", "e", "f"][random.usize(..5)];
    let is_in = |name: &str| name.starts_with("f/");
    let told = |verb: &str, names: &[&str]| -> Vec<String> {
        let inside = names.iter().filter(|name| is_in(name));
        inside.map(|name| format!("{verb} secret/{name}")).collect()
    };
    let exists = super::all_names(site).iter().any(|found| found == name);
    match random.u8(..6) {
        0 if exists => {
            site.ask(Operation::Delete, &format!("secret/metadata/{name}"), "").unwrap();
            told("remove", &[name])
        }
        1 => {
            let all = ["f/a", "e", "f/b", "f/g/a"];
            let item = |name| format!(r#"{{"path":"secret/data/{name}","data":{{"v":"{at}"}}}}"#);
            let items: Vec<String> = all.iter().map(item).collect();
            own(site, TOKEN, "write", &format!(r#"{{"writes":[{}]}}"#, items.join(","))).unwrap();
            told("put", &all)
        }
        2 if is_live(site, name) => {
            site.ask(Operation::Delete, &format!("secret/data/{name}"), "").unwrap();
            told("delete", &[name])
        }
        _ => {
            site.put(name, "v");
            told("put", &[name])
        }
    }
}

#[test]
fn a_client_from_before_the_history_is_told_to_start_over() {
    let site = Site::open(1 << 26);
    let first = drain(&mut open(&site, TOKEN, "secret/", None), 0).0[0].id.clone();
    let mut behind = open(&site, TOKEN, "secret/", None);
    let item = |at| format!(r#"{{"path":"secret/data/n{at}","data":{{}}}}"#);
    let items: Vec<String> = (0..TOGETHER_SECRETS_MAX).map(item).collect();
    let body = format!(r#"{{"writes":[{}]}}"#, items.join(","));
    for _ in 0..=FEED_CHANGES_MAX / TOGETHER_SECRETS_MAX {
        own(&site, TOKEN, "write", &body).unwrap();
    }
    for mut stream in [open(&site, TOKEN, "secret/", Some(&first)), {
        drain_greeting(&mut behind);
        behind
    }] {
        let (events, has_ended) = drain(&mut stream, 0);
        let resync = events.iter().find(|event| event.name != "ready").unwrap();
        assert_eq!(resync.name, "resync");
        assert!(!has_ended);
        site.put("after", "v");
        assert_eq!(names(&drain(&mut stream, 0).0), ["put secret/after"]);
        // And the id it was told leads on without a gap.
        let mut again = open(&site, TOKEN, "secret/", Some(&resync.id));
        assert!(names(&drain(&mut again, 0).0).contains(&"put secret/after".to_owned()));
    }
    // Within the history nothing is lost, and a place from the future is none of ours.
    let (latest, _) = drain(&mut open(&site, TOKEN, "secret/", None), 0);
    let beyond: u64 = latest[0].id.parse::<u64>().unwrap() + 1;
    let (events, _) = drain(&mut open(&site, TOKEN, "secret/", Some(&beyond.to_string())), 0);
    assert_eq!(events[1].name, "resync");
    let wrong =
        query(&site, TOKEN, "sys/kallisto/kv/watch", &[("path", "secret/"), ("index", "x")]);
    assert!(matches!(wrong, Err(Error::Invalid(_))));
    // An empty one, as of a variable that is not set yet, is none.
    let (events, _) = drain(&mut open(&site, TOKEN, "secret/", Some("")), 0);
    assert_eq!(events[0].id, latest[0].id);
}

fn drain_greeting(stream: &mut Stream) {
    assert!(matches!(stream.source.next(Timestamp::UNIX_EPOCH), NextPiece::Bytes(_)));
}

#[test]
fn who_loses_the_right_hears_nothing_more() {
    let site = Site::open(1 << 20);
    let rules = |inner: &str| format!("{ROUTES} {inner}");
    let all = rules(r#"path "secret/data/*" { capabilities = ["read"] }"#);
    let half = rules(r#"path "secret/data/a" { capabilities = ["read"] }"#);
    let token = bearer(&site, "follower", &all);
    let mut stream = open(&site, &token, "secret/", None);
    site.put("a", "1");
    site.put("b", "1");
    let heard = names(&drain(&mut stream, 0).0);
    assert_eq!(heard, ["ready secret/", "put secret/a", "put secret/b"]);
    // What happened before the right was lost and was not sent yet is not sent any more.
    site.put("b", "2");
    site.put("a", "2");
    policy(&site, "follower", &half);
    assert_eq!(names(&drain(&mut stream, 0).0), ["put secret/a"]);
    // Metadata alone is enough, and so is the right to it alone.
    policy(&site, "follower", &rules(r#"path "secret/metadata/b" { capabilities = ["read"] }"#));
    site.put("a", "3");
    site.put("b", "3");
    assert_eq!(names(&drain(&mut stream, 0).0), ["put secret/b"]);
    site.put("b", "4");
    policy(&site, "follower", r#"path "secret/*" { capabilities = ["read"] }"#);
    let (events, has_ended) = drain(&mut stream, 0);
    assert_eq!((names(&events), has_ended), (vec!["end ".to_owned()], true), "without the route");
}

#[test]
fn a_rule_on_parameters_is_judged_of_a_stream_as_of_its_request() {
    let site = Site::open(1 << 20);
    let rules = |names: &str| {
        format!(
            r#"path "sys/kallisto/kv/watch" {{ capabilities = ["read"] allowed_parameters = {{ {names} }} }}
               path "secret/*" {{ capabilities = ["read"] }}"#
        )
    };
    let token = bearer(&site, "follower", &rules(r#""path" = ["secret/"]"#));
    let mut stream = open(&site, &token, "secret/", None);
    site.put("a", "v");
    assert_eq!(names(&drain(&mut stream, 0).0), ["ready secret/", "put secret/a"]);
    policy(&site, "follower", &rules(r#""path" = ["secret/b/"]"#));
    assert!(drain(&mut stream, 0).1);
    let refused = query(&site, &token, "sys/kallisto/kv/watch", &[("path", "secret/")]);
    assert!(matches!(refused, Err(Error::Denied(_))));
}

#[test]
fn a_stream_ends_with_its_token_its_mount_and_the_keys() {
    let site = Site::open(1 << 20);
    let rules = format!("{ROUTES} path \"secret/*\" {{ capabilities = [\"read\"] }}");
    let token = bearer(&site, "follower", &rules);
    let opened = |token: &str| {
        let mut stream = open(&site, token, "secret/", None);
        drain_greeting(&mut stream);
        site.put("a", "v");
        stream
    };
    let ends = |stream: &mut Stream, secs: i64| {
        let (events, has_ended) = drain(stream, secs);
        assert!(has_ended && events.len() == 1 && events[0].name == "end", "{events:?}");
    };
    let body = r#"{"id":"short","policies":["follower"],"ttl":"60s","no_default_policy":true}"#;
    site.ask(Operation::Update, "auth/token/create", body).unwrap();
    let mut stream = opened("short");
    assert_eq!(drain(&mut stream, 59).0.len(), 1);
    site.put("a", "w");
    ends(&mut stream, 60);
    let mut stream = opened(&token);
    site.ask(Operation::Update, "auth/token/revoke", r#"{"token":"follower"}"#).unwrap();
    ends(&mut stream, 0);
    let mut stream = opened(TOKEN);
    site.ask(Operation::Update, "sys/remount", r#"{"from":"secret","to":"else"}"#).unwrap();
    ends(&mut stream, 0);
    site.ask(Operation::Update, "sys/remount", r#"{"from":"else","to":"secret"}"#).unwrap();
    let mut stream = opened(TOKEN);
    pollster::block_on(site.core.seal()).unwrap();
    ends(&mut stream, 0);
    site.unseal();
    ends(&mut stream, 0);
}

#[test]
fn a_version_that_deletes_itself_is_deleted_from_that_moment_on() {
    let site = Site::open(1 << 20);
    let life = r#"{"delete_version_after":"10s"}"#;
    site.ask(Operation::Update, "secret/metadata/a", life).unwrap();
    let first = drain(&mut open(&site, TOKEN, "secret/", None), 0).0[0].id.clone();
    site.put("a", "v");
    for (secs, name) in [(0, "put"), (9, "put"), (10, "delete"), (11, "delete")] {
        let mut stream = open(&site, TOKEN, "secret/", Some(&first));
        assert_eq!(stream.source.heartbeat(), b":\n\n", "a comment, which is no event");
        let events = names(&drain(&mut stream, secs).0[1..]);
        assert_eq!(events, [format!("{name} secret/a")], "{secs}");
    }
}

#[test]
fn who_asks_to_wait_is_told_the_index_and_nobody_else() {
    let site = Site::open(1 << 20);
    site.put("a", "v");
    for (pairs, has_index) in [
        (vec![("version", "1")], false),
        (vec![("version", "1"), ("wait", "0s")], true),
        (vec![("wait", "0s")], true),
        (vec![], false),
    ] {
        match query(&site, TOKEN, "secret/data/a", &pairs).unwrap() {
            Response::Logical(logical) => assert_eq!(logical.index.is_some(), has_index),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_waits_as_long_as_it_may_and_not_longer() {
    let site = Site::open(1 << 20);
    site.put("a", "v");
    let wait = |secs: u64| {
        let wait = format!("{secs}s");
        query(&site, TOKEN, "secret/data/a", &[("wait", &wait), ("index", "1-1")])
    };
    assert!(!matches!(wait(WAIT_SECS_MAX), Err(Error::Invalid(why)) if why.contains("'wait'")));
    assert!(matches!(wait(WAIT_SECS_MAX + 1), Err(Error::Invalid(why)) if why.contains("'wait'")));
}

#[test]
fn streams_are_counted_per_token() {
    let site = Site::open(1 << 20);
    let watch = || query(&site, TOKEN, "sys/kallisto/kv/watch", &[("path", "secret/")]);
    let held: Vec<_> = (0..STREAMS_PER_TOKEN_MAX).map(|_| watch().unwrap()).collect();
    assert!(matches!(watch(), Err(Error::Unavailable(_))));
    drop(held);
    assert!(watch().is_ok());
    let body = r#"{"id":"twice","policies":["root"],"num_uses":2}"#;
    site.ask(Operation::Update, "auth/token/create", body).unwrap();
    let limited = query(&site, "twice", "sys/kallisto/kv/watch", &[("path", "secret/")]);
    assert!(matches!(limited, Err(Error::Invalid(_))));
}

fn index_of(answer: Result<Response, Error>) -> u64 {
    match answer.unwrap() {
        Response::Logical(logical) | Response::Missing(logical) => logical.index.unwrap(),
        Response::NotModified { index, .. } => index.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_waiting_read_hears_of_its_own_path_only() {
    let site = Site::open(1 << 20);
    let read = |path: &str, pairs: &[(&str, &str)]| query(&site, TOKEN, path, pairs);
    let index = index_of(read("secret/data/a", &[("wait", "30s")])).to_string();
    let wait = [("wait", "30s"), ("index", index.as_str())];
    let Response::Waiting(mut waiting) = read("secret/data/a", &wait).unwrap() else { panic!() };
    let listing = query_for(&site, TOKEN, Operation::List, "secret/metadata/d", &wait).unwrap();
    let Response::Waiting(mut listing) = listing else { panic!() };
    assert_eq!(waiting.longest.as_secs(), 30);
    site.put("b", "v");
    assert!(!waiting.has_news());
    site.put("d/x", "v");
    assert!(!waiting.has_news() && listing.has_news());
    site.put("a", "v");
    assert!(waiting.has_news());
    // Something has happened since: an answer at once, and a later place.
    let later = index_of(read("secret/data/a", &wait));
    assert!(later > index.parse().unwrap());
    // So does one that asks for a place that is not known.
    assert!(index_of(read("secret/data/a", &[("wait", "30s"), ("index", "999999")])) == later);
    for pairs in [
        [("wait", "121s"), ("index", "1")],
        [("wait", "-1s"), ("index", "1")],
        [("wait", "x"), ("index", "1")],
        [("wait", "1s"), ("index", "x")],
    ] {
        assert!(matches!(read("secret/data/a", &pairs), Err(Error::Invalid(_))), "{pairs:?}");
    }
    assert!(matches!(read("secret/config", &wait), Err(Error::Invalid(_))));
    assert!(index_of(read("secret/data/a", &[("wait", "30s"), ("index", "")])) == later);
}

#[test]
fn a_waiting_read_is_answered_when_its_token_or_the_keys_are_gone() {
    let site = Site::open(1 << 20);
    let rules = r#"path "secret/*" { capabilities = ["read"] }"#;
    let token = bearer(&site, "waiter", rules);
    let index = index_of(query(&site, &token, "secret/data/a", &[("wait", "0")])).to_string();
    let wait = [("wait", "30s"), ("index", index.as_str())];
    for ends_by_seal in [false, true] {
        let who = if ends_by_seal { TOKEN } else { &token };
        let Response::Waiting(mut waiting) = query(&site, who, "secret/data/a", &wait).unwrap()
        else {
            panic!()
        };
        assert!(!waiting.has_news());
        if ends_by_seal {
            pollster::block_on(site.core.seal()).unwrap();
        } else {
            site.ask(Operation::Update, "auth/token/revoke", r#"{"token":"waiter"}"#).unwrap();
        }
        assert!(waiting.has_news());
    }
    let denied = ask_as(&site.core, &token, 0, Operation::Read, "secret/data/a", "");
    assert!(denied.is_err());
}
