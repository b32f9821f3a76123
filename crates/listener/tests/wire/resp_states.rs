//! The Redis protocol when there is no answer to give: what one command says all say, and nothing is remembered of
//! clients that it should not be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_core::admission::AdmissionLimits;
use kallisto_core::limits::MAX_STALENESS_DEFAULT;
use kallisto_store::{Batch, Commit, Error as StoreError, MemoryStore, Need, Store, StoreLayer};

use super::aged::AgedStore;
use super::resp::{Client, Reply, Site, bulk, encode, ok};
use super::support::Recorder;

/// Every command that reads a key, of one key and of more.
pub(super) const READS: [&str; 18] = [
    "MGET a",
    "MGET a b",
    "EXISTS a",
    "EXISTS a b",
    "HGET a value",
    "HGETALL a",
    "HKEYS a",
    "HMGET a value other",
    "HEXISTS a value",
    "HLEN a",
    "HVALS a",
    "STRLEN a",
    "TYPE a",
    "TTL a",
    "PTTL a",
    "KEYS a*",
    "SCAN 0",
    "SET a 2 NX",
];

/// Every command that writes, one key and more; they change what is there, and make what is not.
pub(super) const WRITES: [&str; 12] = [
    "SET a 2",
    "SET new 2 NX",
    "SET a 2 XX",
    "MSET a 2",
    "MSET a 2 new 3",
    "HSET a f w",
    "HMSET a f w",
    "HDEL a value",
    "DEL a",
    "DEL a b",
    "UNLINK a",
    "UNLINK a b",
];

/// What every command of [`READS`] and [`WRITES`] is answered with that `GET` is.
fn assert_all_say(client: &mut Client, start: &str) {
    for words in ["GET a"].iter().chain(&READS).chain(&WRITES) {
        client.assert_error(words, start);
    }
}

/// A store that refuses what it is told to: all writes, or those that take nothing away.
#[derive(Default)]
struct RefusingStore {
    inner: MemoryStore,
    refusal: Mutex<Option<StoreError>>,
}

impl StoreLayer for RefusingStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        match &*self.refusal.lock().unwrap() {
            Some(StoreError::NotLeader) => Commit::decided(Err(StoreError::NotLeader)),
            Some(error) if batch.need() != Need::Essential => Commit::decided(Err(error.clone())),
            _ => self.inner.commit(batch),
        }
    }

    fn leads(&self) -> bool {
        !matches!(*self.refusal.lock().unwrap(), Some(StoreError::NotLeader))
    }
}

#[test]
fn what_get_cannot_answer_nobody_answers() {
    let (site, recorder) = (Site::start(), Recorder::start());
    let mut client = site.root();
    assert_eq!(client.ask("MSET a 1 b 2"), ok());
    // Nobody.
    assert_all_say(&mut site.connect(), "NOAUTH");
    // Over its quota.
    site.ask("sys/quotas/rate-limit/all", r#"{"rate":1,"interval":"1h"}"#).unwrap();
    client.ask("GET a");
    assert_all_say(&mut client, "ERR request path");
    site.ask("sys/quotas/rate-limit/all", r#"{"rate":1000000}"#).unwrap();
    assert_eq!(client.ask("MGET a none b"), Reply::Array(vec![bulk("1"), Reply::Null, bulk("2")]));
    // What is no key.
    client.assert_error("GET ../a", "ERR");
    client.assert_error("MGET a ../a", "ERR");
    client.assert_error("EXISTS a ../a", "ERR");
    // No audit device takes it.
    site.ask("sys/audit/socket", &recorder.device()).unwrap();
    assert_eq!(client.ask("GET a"), bulk("1"));
    recorder.stop();
    assert_all_say(&mut client, "ERR internal error");
}

#[test]
fn a_token_that_may_do_nothing_here_is_told_so_by_every_command() {
    let site = Site::start();
    assert_eq!(site.root().ask("MSET a 1 b 2"), ok());
    let none = site.token(r#"path "secret/other/*" { capabilities = ["read", "list", "scan"] }"#);
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {none}")), ok());
    let is_alone = |words: &&&str| !words.starts_with("MGET");
    for words in ["GET a"].iter().chain(&READS).chain(&WRITES).filter(is_alone) {
        client.assert_error(words, "NOPERM");
    }
    // Among many values one that is kept from it is as one that is not there.
    assert_eq!(client.ask("MGET a b"), Reply::Array(vec![Reply::Null, Reply::Null]));
    // One that reads writes nothing.
    site.ask("auth/token/revoke", &format!(r#"{{"token":"{none}"}}"#)).unwrap();
    let reads = site.token(r#"path "secret/*" { capabilities = ["read", "list", "scan"] }"#);
    assert_eq!(client.ask(&format!("AUTH {reads}")), ok());
    for words in WRITES {
        client.assert_error(words, "NOPERM");
    }
    assert_eq!(client.ask("MGET a b new"), Reply::Array(vec![bulk("1"), bulk("2"), Reply::Null]));
}

#[test]
fn a_server_that_another_leads_reads_on_and_names_every_write_as_redis_does() {
    let store = Arc::new(RefusingStore::default());
    let limits = AdmissionLimits::default();
    let site = Site::start_over(Arc::clone(&store) as Arc<dyn Store>, &limits, None);
    let mut client = site.root();
    assert_eq!(client.ask("MSET a 1 b 2"), ok());
    *store.refusal.lock().unwrap() = Some(StoreError::NotLeader);
    let before = store.position();
    for words in WRITES {
        client.assert_error(words, "READONLY");
    }
    assert_eq!(store.position(), before);
    assert_eq!(site.connect().ask("AUTH root"), ok(), "a token needs no leader");
    assert_eq!(client.ask("MGET a b new"), Reply::Array(vec![bulk("1"), bulk("2"), Reply::Null]));
    // It leads again, and nothing is left of what was refused.
    *store.refusal.lock().unwrap() = None;
    assert_eq!(client.ask("SET a 3"), ok());
    assert_eq!(client.ask("MGET a b new"), Reply::Array(vec![bulk("3"), bulk("2"), Reply::Null]));
}

#[test]
fn a_server_says_whether_it_leads_as_redis_says_of_its_replicas() {
    let store = Arc::new(AgedStore::default());
    let limits = AdmissionLimits::default();
    let site = Site::start_over(Arc::clone(&store) as Arc<dyn Store>, &limits, None);
    let mut client = site.root();
    let mut told = || {
        let Reply::Bulk(info) = client.ask("INFO") else { panic!("no text") };
        let lines = info.lines().skip_while(|line| *line != "# Replication").skip(1);
        let lines = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let Reply::Array(hello) = client.ask("HELLO 2") else { panic!("no array") };
        let at = hello.iter().position(|one| *one == bulk("role")).unwrap();
        (lines, hello[at + 1] == bulk("master"), hello[at + 1] == bulk("replica"))
    };
    assert_eq!(told(), ("role:master".to_owned(), true, false));
    store.follow();
    assert_eq!(told(), ("role:slave master_link_status:up".to_owned(), false, true));
    store.lose_leader();
    assert_eq!(told(), ("role:slave master_link_status:down".to_owned(), false, true));
}

#[test]
fn a_full_disk_refuses_every_write_but_what_takes_something_away() {
    let store = Arc::new(RefusingStore::default());
    let limits = AdmissionLimits::default();
    let site = Site::start_over(Arc::clone(&store) as Arc<dyn Store>, &limits, None);
    let mut client = site.root();
    assert_eq!(client.ask("MSET a 1 b 2"), ok());
    *store.refusal.lock().unwrap() = Some(StoreError::Unavailable("no space is left".into()));
    let before = store.position();
    // `HDEL` of the last field deletes.
    let adds = |words: &&&str| !words.contains("DEL") && !words.starts_with("UNLINK");
    for words in WRITES.iter().filter(adds) {
        client.assert_error(words, "ERR no space is left");
    }
    assert_eq!(store.position(), before);
    assert_eq!(client.ask("MGET a b new"), Reply::Array(vec![bulk("1"), bulk("2"), Reply::Null]));
    assert_eq!(client.ask("DEL a"), Reply::Integer(1));
    assert_eq!(client.ask("HDEL b value"), Reply::Integer(1));
    assert_eq!(client.ask("MGET a b"), Reply::Array(vec![Reply::Null, Reply::Null]));
    *store.refusal.lock().unwrap() = None;
    assert_eq!(client.ask("SET a 3"), ok());
}

#[test]
fn a_server_that_was_told_nothing_for_too_long_says_so_to_every_command() {
    let store = Arc::new(AgedStore::default());
    let limits = AdmissionLimits::default();
    let site = Site::start_over(Arc::clone(&store) as Arc<dyn Store>, &limits, None);
    let mut client = site.root();
    assert_eq!(client.ask("MSET a 1 b 2"), ok());
    store.age(MAX_STALENESS_DEFAULT);
    assert_eq!(client.ask("GET a"), bulk("1"), "at the bound");
    store.age(MAX_STALENESS_DEFAULT + Duration::from_nanos(1));
    assert_all_say(&mut client, "MASTERDOWN");
    for words in ["SET a 2", "HSET a f v", "DEL a", "AUTH root", "AUTH user password"] {
        client.assert_error(words, "MASTERDOWN");
    }
    // Who asks for nothing from its view is answered.
    assert_eq!(client.ask("PING"), Reply::Simple("PONG".into()));
    store.know_nothing();
    assert_all_say(&mut client, "MASTERDOWN");
}

#[test]
fn an_error_among_many_values_is_the_answer_and_a_reply_that_has_begun_is_cut() {
    let site = Site::start();
    let mut client = site.root();
    let large = "x".repeat(60_000);
    assert_eq!(client.ask_words(&["SET", "large", &large]), ok());
    client.assert_error("MGET large ..", "ERR");
    assert_eq!(client.ask("GET large"), bulk(&large), "the connection is in order");
    client.send(&encode(&["MGET", "large", "large", "large", ".."]));
    let took = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.receive()));
    assert!(took.is_err(), "a whole reply came: {took:?}");
}

#[test]
fn a_token_that_ended_is_forgotten() {
    let site = Site::start();
    let policy =
        r#"path "secret/*" { capabilities = ["read", "list", "scan", "create", "update"] }"#;
    let token = site.token(policy);
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    assert_eq!(client.ask("SET a 1"), ok());
    assert_eq!(client.ask("GET a"), bulk("1"));
    site.ask("auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    assert_all_say(&mut client, "NOAUTH");
    // One of the same name is another.
    assert_eq!(site.token(policy), token);
    assert_all_say(&mut client, "NOAUTH");
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    assert_eq!(client.ask("GET a"), bulk("1"));
}

/// What was asked before a token ended is all that its session gets: nothing is pushed, and nothing waits.
#[test]
fn a_silent_session_of_a_token_that_ended_gets_nothing() {
    let site = Site::start();
    let token = site.token(r#"path "secret/*" { capabilities = ["read", "list", "scan"] }"#);
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    let mut writer = site.root();
    for at in 0..20 {
        assert_eq!(writer.ask(&format!("SET k{at} 1")), ok());
    }
    let Reply::Array(scanned) = client.ask("SCAN 0 COUNT 5") else { panic!("no scan") };
    let Reply::Bulk(cursor) = &scanned[0] else { panic!("no cursor: {scanned:?}") };
    assert_ne!(cursor, "0");
    for words in [
        "SUBSCRIBE a",
        "PSUBSCRIBE *",
        "MONITOR",
        "BLPOP a 0",
        "XREAD BLOCK 0 STREAMS a 0",
        "WAIT 1 0",
        "WATCH a",
        "CLIENT TRACKING ON",
    ] {
        client.assert_error(words, "ERR");
    }
    site.ask("auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    assert_eq!(writer.ask("SET k0 2"), ok());
    // The first bytes that come are the answer to the next command.
    client.assert_error(&format!("SCAN {cursor}"), "NOAUTH");
    client.assert_error("GET k0", "NOAUTH");
    // Nor do scans outlive the keys: where they stood is forgotten when the server is sealed.
    let Reply::Array(scanned) = writer.ask("SCAN 0 COUNT 5") else { panic!("no scan") };
    let Reply::Bulk(cursor) = &scanned[0] else { panic!("no cursor: {scanned:?}") };
    site.seal();
    writer.assert_error("PING", "LOADING");
    site.unseal();
    let mut again = site.root();
    // An end would say that all keys were told.
    again.assert_error(&format!("SCAN {cursor}"), "ERR the cursor is not known any more");
}

#[test]
fn a_sealed_server_says_that_it_is_not_ready_and_knows_nobody_afterwards() {
    let site = Site::start();
    let [mut client, mut silent, mut cut] = [site.root(), site.root(), site.root()];
    assert_eq!(client.ask("SET a 1"), ok());
    // With it comes a part of another, which may be a secret.
    cut.send(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\nsec");
    assert_eq!(cut.receive(), Some(Reply::Simple("PONG".into())));
    site.seal();
    assert_eq!(cut.receive(), None);
    assert_all_say(&mut client, "LOADING");
    client.assert_error("PING", "LOADING");
    client.assert_error("AUTH root", "LOADING");
    client.assert_error("HELLO 3", "LOADING");
    // What is wrong on any server is told first, as in Redis.
    client.assert_error("FROB a", "ERR unknown command 'frob'");
    client.assert_error("GET", "ERR wrong number of arguments for 'get' command");
    site.unseal();
    // Who said nothing meanwhile as well.
    assert_all_say(&mut client, "NOAUTH");
    assert_all_say(&mut silent, "NOAUTH");
    assert_eq!(client.ask("AUTH root"), ok());
    assert_eq!(client.ask("GET a"), bulk("1"));
    site.seal();
    assert_all_say(&mut client, "LOADING");
}

#[test]
fn http_is_hung_up_on_before_its_body_is_read() {
    let site = Site::start();
    let mut root = site.root();
    for line in
        ["POST / HTTP/1.1", "post / HTTP/1.1", "GET / HTTP/1.1\r\nHost: x", "OPTIONS\r\nhost: x"]
    {
        let mut client = site.root();
        let body = "\r\nSET stolen 1\r\n".repeat(2);
        client.send(format!("{line}\r\nContent-Length: 9\r\n{body}").as_bytes());
        // What came before is refused as no command is; then there is nothing.
        while let Some(reply) = client.receive() {
            assert!(matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
        assert_eq!(root.ask("GET stolen"), Reply::Null, "{line}");
    }
    // As arrays too, and before anybody said who it is.
    let mut client = site.connect();
    client.send(&[encode(&["POST", "/"]), encode(&["AUTH", "root"])].concat());
    assert_eq!(client.receive(), None);
}
