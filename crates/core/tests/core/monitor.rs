//! The log as operators follow it and choose how much of it there is, and what else a server says of itself.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kallisto_core::json::{Map, parse_object};
use kallisto_core::{
    ChangeFuture, Core, Error, Host, HostMachine, HostProcess, Json, LogForm, LogLevel, NextPiece,
    Operation, Request, Response, ServerInfo, Source, Stream,
};
use kallisto_store::MemoryStore;

use crate::support::{TOKEN, ask, request_of, whole_core};

/// A host with two loggers, whose log is one line.
#[derive(Default)]
struct TwoLoggers {
    followed: Mutex<Option<(LogLevel, LogForm)>>,
    set: Mutex<Vec<(Option<String>, Option<LogLevel>)>>,
    is_full: Mutex<bool>,
}

struct OneLine(Option<Vec<u8>>);

impl Source for OneLine {
    fn next(&mut self, _: Timestamp) -> NextPiece {
        self.0.take().map_or(NextPiece::Wait, NextPiece::Bytes)
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        Box::pin(std::future::ready(()))
    }

    fn heartbeat(&self) -> &'static [u8] {
        b"beat"
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        Some(b"the end".to_vec())
    }
}

impl Host for TwoLoggers {
    fn machine(&self) -> Option<HostMachine> {
        None
    }

    fn process(&self) -> Option<HostProcess> {
        None
    }

    fn follow_log(&self, level: LogLevel, form: LogForm) -> Option<Box<dyn Source>> {
        *self.followed.lock().unwrap() = Some((level, form));
        (!*self.is_full.lock().unwrap()).then(|| Box::new(OneLine(Some(b"line".to_vec()))) as _)
    }

    fn log_levels(&self) -> Vec<(String, LogLevel)> {
        vec![("core".to_owned(), LogLevel::Info), ("store".to_owned(), LogLevel::Debug)]
    }

    fn set_log_level(&self, logger: Option<&str>, level: Option<LogLevel>) -> bool {
        self.set.lock().unwrap().push((logger.map(str::to_owned), level));
        logger.is_none_or(|logger| ["core", "store"].contains(&logger))
    }
}

fn site() -> (Core, Arc<TwoLoggers>) {
    let host = Arc::<TwoLoggers>::default();
    let core = whole_core(Arc::new(MemoryStore::new()), ServerInfo::default());
    let core = core.with_host(Arc::clone(&host) as _);
    let root = Some(TOKEN.to_owned().into());
    pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
    (core, host)
}

/// Follows the log with these parameters.
fn follow(core: &Core, token: &str, query: &[(&str, &str)], wrap: u64) -> Result<Stream, Error> {
    let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let request = Request {
        query: pairs.collect(),
        wrap_ttl_secs: wrap,
        ..request_of(token, 0, Operation::Read, "sys/monitor", "")
    };
    match pollster::block_on(core.handle(&request))? {
        Response::Stream(stream) => Ok(stream),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_log_is_followed_in_the_form_and_from_the_level_that_is_asked_for() {
    let (core, host) = site();
    let asked = |query: &[(&str, &str)]| {
        let opened = follow(&core, TOKEN, query, 0);
        opened.map(|stream| (stream.content_type, host.followed.lock().unwrap().take().unwrap()))
    };
    let (text, lines) = ("text/plain; charset=utf-8", "application/x-ndjson");
    for (query, kind, level, is_json) in [
        (&[][..], text, LogLevel::Info, false),
        (&[("log_format", "standard"), ("log_level", "debug")], text, LogLevel::Debug, false),
        (&[("log_format", "json"), ("log_level", "error")], lines, LogLevel::Error, true),
    ] {
        let (content_type, (heard, form)) = asked(query).unwrap();
        assert_eq!(content_type, kind);
        assert!(heard.name() == level.name() && matches!(form, LogForm::Json) == is_json);
    }
    for wrong in [("log_format", "xml"), ("log_level", "loud")] {
        assert!(matches!(asked(&[wrong]), Err(Error::Invalid(_))), "{wrong:?}");
    }
    assert!(matches!(follow(&core, TOKEN, &[], 60), Err(Error::Invalid(_))), "wrapped");
    *host.is_full.lock().unwrap() = true;
    assert!(matches!(asked(&[]), Err(Error::Unavailable(_))), "one too many");
}

#[test]
fn the_log_is_handed_on_as_it_comes_until_its_reader_may_no_more() {
    let (core, _) = site();
    let body = r#"{"id":"follower","policies":["root"]}"#;
    ask(&core, Operation::Update, "auth/token/create", body).unwrap();
    let mut stream = follow(&core, "follower", &[], 0).unwrap();
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(stream.source.next(now), NextPiece::Bytes(b"line".to_vec()));
    assert_eq!(stream.source.next(now), NextPiece::Wait);
    assert_eq!(stream.source.heartbeat(), b"beat");
    assert_eq!(stream.source.farewell(), Some(b"the end".to_vec()));
    ask(&core, Operation::Update, "auth/token/revoke", r#"{"token":"follower"}"#).unwrap();
    assert_eq!(stream.source.next(now), NextPiece::End(Vec::new()));
}

fn data(answer: Result<Response, Error>) -> Map {
    match answer.unwrap() {
        Response::Logical(reply) | Response::Merged(reply) => parse_object(&reply.data).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn loggers_are_shown_and_set_by_their_names() {
    let (core, host) = site();
    let read = |path: &str| data(ask(&core, Operation::Read, path, ""));
    let all: Map =
        [("core".to_owned(), "info".into()), ("store".to_owned(), "debug".into())].into();
    assert_eq!(read("sys/loggers"), all);
    let one: Map = [("store".to_owned(), Json::from("debug"))].into();
    assert_eq!(read("sys/loggers/store"), one);
    assert_eq!(read("sys/loggers/other"), Map::new());
    let write = |path: &str, body: &str| ask(&core, Operation::Update, path, body).map(|_| ());
    assert_eq!(write("sys/loggers/store", r#"{"level":"warn"}"#), Ok(()));
    assert_eq!(write("sys/loggers", r#"{"level":"trace"}"#), Ok(()));
    assert!(ask(&core, Operation::Delete, "sys/loggers/core", "").is_ok());
    let set = host.set.lock().unwrap().drain(..).collect::<Vec<_>>();
    let names: Vec<_> = set.iter().map(|(name, _)| name.as_deref()).collect();
    assert_eq!(names, [Some("store"), None, Some("core")]);
    let levels: Vec<_> = set.iter().map(|(_, level)| level.map(LogLevel::name)).collect();
    assert_eq!(levels, [Some("warn"), Some("trace"), None]);
    let unknown = write("sys/loggers/other", r#"{"level":"warn"}"#);
    assert_eq!(unknown, Err(Error::invalid("logger \"other\" not found")));
    for body in ["{}", r#"{"level":"loud"}"#] {
        assert!(matches!(write("sys/loggers", body), Err(Error::Invalid(_))), "{body}");
    }
}

#[test]
fn the_engines_that_are_built_in_are_listed_by_their_class() {
    let (core, _) = site();
    let read = |path: &str| data(ask(&core, Operation::Read, path, ""));
    let catalog = read("sys/plugins/catalog");
    let names = |list: &Json| match list {
        Json::Array(names) => {
            names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
        }
        other => panic!("{other:?}"),
    };
    let auth: Vec<String> = names(&catalog["auth"]);
    let secret: Vec<String> = names(&catalog["secret"]);
    assert!(auth.contains(&"userpass".to_owned()) && !auth.contains(&"kv".to_owned()));
    assert!(secret.contains(&"kv".to_owned()) && !secret.contains(&"userpass".to_owned()));
    assert!(auth.is_sorted() && secret.is_sorted());
    let Json::Array(detailed) = &catalog["detailed"] else { panic!("no list") };
    assert_eq!(detailed.len(), auth.len() + secret.len());
    for (kind, list) in [("auth", auth), ("secret", secret), ("database", Vec::new())] {
        let listed = ask(&core, Operation::List, &format!("sys/plugins/catalog/{kind}"), "");
        let keys: Vec<String> = names(&data(listed)["keys"]);
        assert_eq!(keys, list, "{kind}");
    }
    let unknown = ask(&core, Operation::List, "sys/plugins/catalog/shell", "");
    assert!(matches!(unknown, Err(Error::Invalid(_))));
    let other = ask(&core, Operation::Read, "sys/plugins/catalog/auth/kv", "");
    assert!(matches!(other, Err(Error::NotFound)));
    assert!(ask(&core, Operation::Read, "sys/plugins/catalog/secret/kv", "").is_ok());
}
