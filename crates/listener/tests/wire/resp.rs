//! The Redis protocol over real sockets: commands, rights, limits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::support::whole_core;

use kallisto_core::admission::AdmissionLimits;
use kallisto_core::json::Json;
use kallisto_core::{Core, Initialized, Operation, Path, Request, Response, ServerInfo, TokenText};
use kallisto_listener::{
    Frontend, ListenSettings, ProxyProtocol, Server, SystemClock, WallClock, resp,
};
use kallisto_store::{MemoryStore, Store};
use kallisto_traces::Tracer;

use super::support::{Recorder, Silent, eventually, of_request};

const PATIENCE: Duration = Duration::from_secs(20);

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Null,
    Array(Vec<Self>),
    Map(Vec<Self>),
}

pub(crate) struct Site {
    pub(crate) core: Arc<Core>,
    server: Server,
    /// What unseals it.
    share: String,
}

pub(crate) struct Client(BufReader<TcpStream>);

impl Site {
    pub(crate) fn start() -> Self {
        Self::start_limited(&AdmissionLimits::default())
    }

    /// One that holds no more for its clients than this.
    fn start_limited(limits: &AdmissionLimits) -> Self {
        Self::start_over(Arc::new(MemoryStore::new()), limits, None)
    }

    /// One with a store of the test's own, which records spans if there is a tracer.
    pub(crate) fn start_over(
        store: Arc<dyn Store>,
        limits: &AdmissionLimits,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        Self::start_at(&["secret", "one/"], store, limits, tracer)
    }

    pub(crate) fn start_at(
        mounts: &[&str],
        store: Arc<dyn Store>,
        limits: &AdmissionLimits,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        let core = Arc::new(whole_core(store, ServerInfo::default()).with_limits(limits));
        let root = Some("root".to_owned().into());
        let made = pollster::block_on(core.initialize_dev(root, SystemClock.now())).unwrap();
        let share = Initialized::hex(&made.keys).remove(0);
        let mounts: Vec<String> = mounts.iter().map(|&mount| mount.to_owned()).collect();
        let clock = Arc::new(SystemClock);
        let service = resp::RespService::new(Arc::clone(&core), clock, &mounts, "userpass");
        let service = match tracer {
            None => service,
            Some(tracer) => service.with_tracer(tracer),
        };
        let config = ListenSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            workers: NonZeroUsize::MIN,
            tls: None,
            proxies: ProxyProtocol::default(),
        };
        let server = Server::start(config, &Frontend::Resp(service)).unwrap();
        let site = Self { core, server, share };
        site.ask("sys/mounts/one", r#"{"type":"kv","options":{"version":"1"}}"#);
        site
    }

    /// A write as root, past the listener.
    pub(crate) fn ask(&self, path: &str, body: &str) -> Option<Response> {
        let request = Request {
            token: Some(TokenText::new("root")),
            body: body.as_bytes(),
            ..Request::new(Operation::Update, Path::literal(path).unwrap(), SystemClock.now())
        };
        pollster::block_on(self.core.handle(&request)).ok()
    }

    /// Stops it: connections are closed, and what was begun for them has ended.
    pub(crate) fn stop(self) {
        self.server.shut_down();
    }

    /// Seals it.
    pub(crate) fn seal(&self) {
        self.ask("sys/seal", "{}").unwrap();
    }

    /// Unseals it again.
    pub(crate) fn unseal(&self) {
        self.ask("sys/unseal", &format!(r#"{{"key":"{}"}}"#, self.share)).unwrap();
    }

    /// A token with one policy.
    pub(crate) fn token(&self, policy: &str) -> String {
        let policy = Json::object([("policy", policy.into())]).to_text();
        self.ask("sys/policies/acl/p", std::str::from_utf8(&policy).unwrap()).unwrap();
        match self.ask("auth/token/create", r#"{"policies":["p"],"id":"limited"}"#) {
            Some(Response::Logical(_)) => "limited".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.server.address().tcp().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn root(&self) -> Client {
        let mut client = self.connect();
        assert_eq!(client.ask("AUTH root"), Reply::Simple("OK".into()));
        client
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends words as an array and takes the reply.
    pub(crate) fn ask(&mut self, words: &str) -> Reply {
        let words: Vec<&str> = words.split(' ').collect();
        self.ask_words(&words)
    }

    pub(crate) fn ask_words(&mut self, words: &[&str]) -> Reply {
        self.send(&encode(words));
        self.receive().expect("a reply")
    }

    /// `None` when the server hung up.
    pub(crate) fn receive(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let (mark, rest) = line.trim_end_matches("\r\n").split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        Some(match mark {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(count()),
            "_" => Reply::Null,
            "$" if count() < 0 => Reply::Null,
            "$" => {
                let mut bytes = vec![0; usize::try_from(count()).unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(String::from_utf8(bytes).unwrap())
            }
            "*" => Reply::Array((0..count()).map(|_| self.receive().unwrap()).collect()),
            "%" => Reply::Map((0..2 * count()).map(|_| self.receive().unwrap()).collect()),
            _ => panic!("{line:?}"),
        })
    }

    pub(crate) fn assert_error(&mut self, words: &str, start: &str) {
        match self.ask(words) {
            Reply::Error(text) => assert!(text.starts_with(start), "{words}: {text}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

pub(crate) fn encode(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

pub(crate) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.to_owned())
}

pub(crate) fn bulks(texts: &[&str]) -> Reply {
    Reply::Array(texts.iter().map(|text| bulk(text)).collect())
}

pub(crate) fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

#[test]
fn nothing_runs_before_a_client_says_who_it_is() {
    let site = Site::start();
    let mut client = site.connect();
    for words in ["GET a", "PING", "KEYS *", "INFO", "COMMAND", "HELLO 3"] {
        client.assert_error(words, "NOAUTH");
    }
    client.assert_error("AUTH wrong", "WRONGPASS");
    client.assert_error("AUTH nobody wrong", "WRONGPASS");
    client.assert_error("GET a", "NOAUTH");
    assert_eq!(client.ask("AUTH default root"), ok());
    client.assert_error("AUTH wrong", "WRONGPASS");
    assert_eq!(client.ask("SET a 1"), ok(), "still who it was");
    assert_eq!(client.ask("RESET"), Reply::Simple("RESET".into()));
    client.assert_error("PING", "NOAUTH");
    assert_eq!(client.ask("QUIT"), ok());
    assert_eq!(client.receive(), None);
}

#[test]
fn both_versions_of_the_engine_are_hashes_of_fields() {
    let site = Site::start();
    let mut client = site.root();
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        assert_eq!(client.ask("GET a"), Reply::Null);
        assert_eq!(client.ask("SET a 1"), ok());
        assert_eq!(client.ask("GET a"), bulk("1"));
        assert_eq!(client.ask("SET a 2 GET"), bulk("1"));
        assert_eq!(client.ask("SET a 3 NX"), Reply::Null);
        assert_eq!(client.ask("SET b 3 XX"), Reply::Null);
        assert_eq!(client.ask("SET b 3 NX"), ok());
        assert_eq!(client.ask("HSET h x 1 y 2"), Reply::Integer(2));
        assert_eq!(client.ask("HSET h x 9 z 3"), Reply::Integer(1));
        assert_eq!(client.ask("HGETALL h"), bulks(&["x", "9", "y", "2", "z", "3"]));
        assert_eq!(client.ask("HKEYS h"), bulks(&["x", "y", "z"]));
        assert_eq!(client.ask("HGET h y"), bulk("2"));
        assert_eq!(client.ask("GET h"), Reply::Null);
        assert_eq!(client.ask("EXISTS a h nothing a"), Reply::Integer(3));
        assert_eq!(client.ask("HDEL h x nothing"), Reply::Integer(1));
        assert_eq!(client.ask("HDEL h y z"), Reply::Integer(2));
        assert_eq!(client.ask("EXISTS h"), Reply::Integer(0));
        assert_eq!(client.ask("HSET h x 1"), Reply::Integer(1));
        assert_eq!(client.ask("MSET d/1 p d/e/2 q"), ok());
        let values = vec![bulk("p"), Reply::Null, bulk("q")];
        assert_eq!(client.ask("MGET d/1 nothing d/e/2"), Reply::Array(values));
        assert_eq!(client.ask("KEYS *"), bulks(&["a", "b", "d/1", "d/e/2", "h"]));
        assert_eq!(client.ask("KEYS d/?"), bulks(&["d/1"]));
        assert_eq!(client.ask("TTL a"), Reply::Integer(-1));
        assert_eq!(client.ask("TTL nothing"), Reply::Integer(-2));
        assert_eq!(client.ask("DEL a b nothing"), Reply::Integer(2));
        assert_eq!(client.ask("KEYS *"), bulks(&["d/1", "d/e/2", "h"]));
    }
    client.assert_error("SELECT 2", "ERR DB index is out of range");
    assert_eq!(client.ask_words(&["SET", "q", "a \"quoted\"\r\n\\ text \u{1f511}"]), ok());
    assert_eq!(client.ask("GET q"), bulk("a \"quoted\"\r\n\\ text \u{1f511}"));
    site.ask("one/other", r#"{"value":{"n":[1,null]},"t":true}"#).unwrap();
    assert_eq!(client.ask("GET other"), bulk(r#"{"n":[1,null]}"#));
    assert_eq!(client.ask("HGET other t"), bulk("true"));
}

/// A lock of Redis: of many who set what is not there yet, one has it. Version 1 of the engine has no such expectation.
#[test]
fn of_many_who_set_what_is_not_there_at_once_one_does() {
    const CLIENTS: usize = 8;
    let site = Site::start();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| site.root()).collect();
    for round in 0..40 {
        let key = format!("lock/{round}");
        let begin = std::sync::Barrier::new(CLIENTS);
        let set = |(at, client): (usize, &mut Client)| {
            begin.wait();
            client.ask(&format!("SET {key} {at} NX"))
        };
        let set = &set;
        let told: Vec<Reply> = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter_mut()
                .enumerate()
                .map(|client| scope.spawn(move || set(client)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let won: Vec<usize> = (0..CLIENTS).filter(|at| told[*at] == ok()).collect();
        let lost = told.iter().filter(|reply| **reply == Reply::Null).count();
        assert_eq!((won.len(), lost), (1, CLIENTS - 1), "{told:?}");
        assert_eq!(clients[0].ask(&format!("GET {key}")), bulk(&won[0].to_string()));
    }
}

/// Who takes the last field out of a hash deletes the secret, but not what another put into it meanwhile.
#[test]
fn a_field_that_is_set_while_the_last_one_is_deleted_stays() {
    const ROUNDS: usize = 300;
    let site = Site::start();
    let (mut one, mut other) = (site.root(), site.root());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let lost: Vec<usize> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                other.ask("HSET h theirs 1");
                other.ask("HDEL h theirs");
            }
        });
        let mut lost = Vec::new();
        for round in 0..ROUNDS {
            one.ask(&format!("HSET h own {round}"));
            if one.ask("HGET h own") != bulk(&round.to_string()) {
                lost.push(round);
            }
            one.ask("HDEL h own");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        lost
    });
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_scan_meets_every_key_once() {
    let site = Site::start();
    let mut client = site.root();
    let expected: Vec<String> = (0..57).map(|at| format!("k/{at:02}")).collect();
    for key in &expected {
        assert_eq!(client.ask(&format!("SET {key} v")), ok());
    }
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let Reply::Array(page) = client.ask(&format!("SCAN {cursor} MATCH k/* COUNT 10")) else {
            panic!("no page");
        };
        let [Reply::Bulk(next), Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
        found.extend(keys.iter().map(|key| match key {
            Reply::Bulk(key) => key.clone(),
            other => panic!("{other:?}"),
        }));
        cursor.clone_from(next);
        if cursor == "0" {
            break;
        }
        // Clients with a pool go on elsewhere.
        client = site.root();
    }
    assert_eq!(found, expected);
}

#[test]
fn a_token_may_what_its_policies_say() {
    let site = Site::start();
    let token = site.token(
        r#"path "secret/data/mine/*" { capabilities = ["read", "create", "update"] }
           path "secret/metadata/mine/*" { capabilities = ["list"] }"#,
    );
    let mut root = site.root();
    for key in ["mine/a", "mine/deep/b", "other"] {
        assert_eq!(root.ask(&format!("SET {key} v")), ok());
    }
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    assert_eq!(client.ask("GET mine/a"), bulk("v"));
    assert_eq!(client.ask("SET mine/a w"), ok());
    client.assert_error("GET other", "NOPERM");
    client.assert_error("DEL mine/a", "NOPERM");
    client.assert_error("KEYS *", "NOPERM");
    assert_eq!(client.ask("KEYS mine/*"), bulks(&["mine/a", "mine/deep/b"]), "by listing");
    assert_eq!(client.ask("MGET mine/a other"), Reply::Array(vec![bulk("w"), Reply::Null]));
    let body = format!(r#"{{"token":"{token}"}}"#);
    site.ask("auth/token/revoke", &body).unwrap();
    client.assert_error("GET mine/a", "NOAUTH");
}

#[test]
fn racing_changes_of_a_hash_lose_no_field() {
    let site = Site::start();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let mut client = site.root();
            scope.spawn(move || {
                for at in 0..25 {
                    let reply = client.ask(&format!("HSET h w{writer}f{at} v"));
                    assert_eq!(reply, Reply::Integer(1));
                }
            });
        }
    });
    let mut client = site.root();
    assert!(matches!(client.ask("HKEYS h"), Reply::Array(names) if names.len() == 100));
}

#[test]
fn pipelined_commands_are_answered_in_order_however_they_are_cut() {
    let site = Site::start();
    let mut client = site.root();
    let mut bytes = Vec::new();
    for at in 0..50 {
        bytes.extend(encode(&["SET", &format!("p{at}"), &at.to_string()]));
        bytes.extend(encode(&["GET", &format!("p{at}")]));
    }
    bytes.extend_from_slice(b"\r\nping\r\n");
    for piece in bytes.chunks(7) {
        client.send(piece);
    }
    for at in 0..50 {
        assert_eq!(client.receive(), Some(ok()));
        assert_eq!(client.receive(), Some(bulk(&at.to_string())));
    }
    assert_eq!(client.receive(), Some(Reply::Simple("PONG".into())));
}

#[test]
fn what_one_connection_asks_is_written_in_its_order() {
    let (site, recorder) = (Site::start(), Recorder::start());
    let mut client = site.root();
    assert_eq!(client.ask("SET k one"), ok());
    site.ask("sys/audit/socket", &recorder.device()).unwrap();
    let words: [&[&str]; 4] =
        [&["GET", "k"], &["SET", "k", "two"], &["GET", "k"], &["GET", "none"]];
    client.send(&words.map(encode).concat());
    for expected in [bulk("one"), ok(), bulk("two"), Reply::Null] {
        assert_eq!(client.receive(), Some(expected));
    }
    let operations = |records: &[Json]| {
        let is_ours = |record: &&Json| of_request(record, "path").starts_with("secret/data/");
        let ours = records.iter().filter(is_ours);
        ours.map(|record| of_request(record, "operation").to_owned()).collect::<Vec<_>>()
    };
    let expected = ["read", "read", "update", "update", "read", "read", "read", "read"];
    recorder.wait(|records| operations(records) == expected);
}

#[test]
fn gets_are_written_down_before_they_are_answered_or_not_answered() {
    let (site, recorder) = (Site::start(), Recorder::start());
    let mut client = site.root();
    for key in 0..40 {
        assert_eq!(client.ask(&format!("SET k{key} v{key}")), ok());
    }
    assert_eq!(client.ask("SELECT 1"), ok());
    assert_eq!(client.ask("SET k0 one"), ok());
    assert_eq!(client.ask("SELECT 0"), ok());
    site.ask("sys/audit/socket", &recorder.device()).unwrap();
    let many: Vec<u8> = (0..40)
        .flat_map(|key| encode(&["GET", &format!("k{key}")]))
        .chain(encode(&["GET", "none"]))
        .chain(encode(&["PING"]))
        .collect();
    client.send(&many);
    for key in 0..40 {
        assert_eq!(client.receive(), Some(bulk(&format!("v{key}"))));
    }
    assert_eq!(client.receive(), Some(Reply::Null));
    assert_eq!(client.receive(), Some(Reply::Simple("PONG".into())));
    recorder.wait(|records| {
        let of =
            |path: &str| records.iter().filter(|record| of_request(record, "path") == path).count();
        (0..40).all(|key| of(&format!("secret/data/k{key}")) == 2) && of("secret/data/none") == 2
    });
    client.ask("SELECT 1");
    assert_eq!(client.ask("GET k0"), bulk("one"));
    recorder.stop();
    client.send(&[encode(&["GET", "k0"]), encode(&["PING"]), encode(&["GET", "k0"])].concat());
    let refused = Some(Reply::Error("ERR internal error".into()));
    assert_eq!(client.receive(), refused);
    assert_eq!(client.receive(), Some(Reply::Simple("PONG".into())));
    assert_eq!(client.receive(), refused);
}

#[test]
fn a_client_of_version_three_gets_maps_and_its_own_null() {
    let site = Site::start();
    let mut client = site.connect();
    let Reply::Map(told) = client.ask("HELLO 3 AUTH default root SETNAME t") else {
        panic!("no map");
    };
    assert_eq!(told[4..6], [bulk("proto"), Reply::Integer(3)]);
    assert_eq!(client.ask("CLIENT GETNAME"), bulk("t"));
    assert_eq!(client.ask("HSET h a 1"), Reply::Integer(1));
    assert_eq!(client.ask("HGETALL h"), Reply::Map(vec![bulk("a"), bulk("1")]));
    client.send(&encode(&["GET", "nothing"]));
    let mut line = String::new();
    client.0.read_line(&mut line).unwrap();
    assert_eq!(line, "_\r\n");
    client.assert_error("HELLO 4", "NOPROTO");
}

#[test]
fn who_did_not_say_who_it_is_sends_nothing_large() {
    let site = Site::start();
    for (bytes, error) in [
        (&b"*11\r\n"[..], "ERR Protocol error: unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "ERR Protocol error: unauthenticated bulk length"),
    ] {
        let mut client = site.connect();
        client.send(bytes);
        assert_eq!(client.receive(), Some(Reply::Error(error.to_owned())));
        assert_eq!(client.receive(), None);
    }
    let mut client = site.connect();
    client.assert_error(&format!("AUTH {}", "x".repeat(16_384)), "WRONGPASS");
    // From the login on, in one piece with it.
    let large = "x".repeat(60_000);
    let many: Vec<&str> = ["MSET"].into_iter().chain(["k", &large].repeat(10)).collect();
    client.send(&[encode(&["AUTH", "root"]), encode(&many)].concat());
    assert_eq!((client.receive(), client.receive()), (Some(ok()), Some(ok())));
    // And not any more once it is nobody again.
    assert_eq!(client.ask("RESET"), Reply::Simple("RESET".into()));
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000\r\n");
    let error = "ERR Protocol error: unauthenticated bulk length";
    assert_eq!(client.receive(), Some(Reply::Error(error.to_owned())));
}

#[test]
fn what_is_no_command_ends_the_connection_after_an_error() {
    let site = Site::start();
    for (bytes, error) in [
        (&b"*1\r\n:1\r\n"[..], "ERR Protocol error: expected '$'"),
        (b"*99999999\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$99999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"GET 'a\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = site.root();
        client.send(bytes);
        assert_eq!(client.receive(), Some(Reply::Error(error.to_owned())));
        assert_eq!(client.receive(), None);
    }
    let mut client = site.root();
    client.assert_error("FLUSHALL now", "ERR unknown command 'flushall'");
    client.assert_error("GET", "ERR wrong number of arguments for 'get' command");
    client.assert_error("MSET a", "ERR wrong number of arguments for 'mset' command");
    client.assert_error("SET a b EX 10", "ERR a lifetime is not set");
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n\xff\r\n");
    let refused = Reply::Error("ERR value is not valid UTF-8".into());
    assert_eq!(client.receive(), Some(refused));
    client.assert_error("GET ../sys/mounts", "ERR");
    assert_eq!(client.ask("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn a_large_value_goes_in_and_comes_back_and_one_over_the_limit_does_not() {
    let site = Site::start();
    let mut client = site.root();
    let large = "x".repeat(1_000_000);
    assert_eq!(client.ask_words(&["SET", "large", &large]), ok());
    assert_eq!(client.ask("GET large"), bulk(&large));
    let over = "x".repeat(2_000_000);
    assert!(matches!(client.ask_words(&["SET", "over", &over]), Reply::Error(_)));
    let many = vec!["large"; 40];
    let Reply::Array(values) = client.ask_words(&[&["MGET"], &many[..]].concat()) else {
        panic!("no values");
    };
    assert!(values.len() == 40 && values.iter().all(|value| *value == bulk(&large)));
}

#[test]
fn an_address_that_is_served_is_not_served_twice() {
    let site = Site::start();
    let service = resp::RespService::new(Arc::clone(&site.core), Arc::new(SystemClock), &[], "x");
    let config = ListenSettings {
        address: site.server.address().clone(),
        workers: NonZeroUsize::MIN,
        tls: None,
        proxies: ProxyProtocol::default(),
    };
    let error = Server::start(config, &Frontend::Resp(service)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn replies_that_nobody_reads_are_held_for_all_not_for_each() {
    const BUDGET: usize = 1 << 20;
    /// More than the budget has room for, of those that leave tens of KiB untaken.
    const CLIENTS: usize = 40;
    let limits = AdmissionLimits { reply_bytes_max: BUDGET, ..AdmissionLimits::default() };
    let site = Site::start_limited(&limits);
    let value = "x".repeat(2_000);
    assert_eq!(site.root().ask_words(&["SET", "small", &value]), ok());
    let asked: Arc<[u8]> = encode(&["GET", "small"]).repeat(20).into();
    let mut silent: Vec<Silent> =
        (0..CLIENTS).map(|_| Silent::new(site.root().0.into_inner(), &asked)).collect();
    let held = &site.core.admission().reply_bytes;
    eventually("somebody gets no share and is hung up on", || {
        silent.retain_mut(Silent::push);
        assert!(held.held() <= BUDGET);
        silent.len() < CLIENTS && held.refused() > 0
    });
    assert!(held.held() > 0);
    assert_eq!(site.root().ask("GET small"), bulk(&value));
    drop(silent);
    eventually("what they held comes back", || held.held() == 0);
}
