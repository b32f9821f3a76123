//! What commands answer that few clients need, and that no command is left out where all are meant.

use std::sync::Arc;

use kallisto_core::Response;
use kallisto_core::admission::AdmissionLimits;
use kallisto_core::json::{Json, member, parse};
use kallisto_store::MemoryStore;

use super::resp::{Reply, Site, bulk, bulks, encode, ok};
use super::resp_states::{READS, WRITES};

#[test]
fn a_secret_answers_as_a_string_and_as_a_hash() {
    let site = Site::start();
    let mut client = site.root();
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        let nothing = ["STRLEN a", "HLEN a", "HEXISTS a x"].map(|words| client.ask(words));
        assert_eq!(nothing, [0, 0, 0].map(Reply::Integer));
        assert_eq!(client.ask("TYPE a"), Reply::Simple("none".into()));
        assert_eq!(client.ask("HMGET a x y"), Reply::Array(vec![Reply::Null, Reply::Null]));
        assert_eq!(client.ask("HVALS a"), bulks(&[]));
        assert_eq!(client.ask("PTTL a"), Reply::Integer(-2));

        assert_eq!(client.ask_words(&["SET", "a", "z\u{fc}rich"]), ok());
        assert_eq!(client.ask("STRLEN a"), Reply::Integer(7), "in bytes");
        assert_eq!(client.ask("TYPE a"), Reply::Simple("string".into()));
        assert_eq!(client.ask("PTTL a"), Reply::Integer(-1));

        assert_eq!(client.ask("HMSET a x 1 y 2"), ok());
        assert_eq!(client.ask("TYPE a"), Reply::Simple("hash".into()));
        assert_eq!(client.ask("HLEN a"), Reply::Integer(3));
        assert_eq!(client.ask("HEXISTS a y"), Reply::Integer(1));
        assert_eq!(client.ask("HEXISTS a z"), Reply::Integer(0));
        assert_eq!(client.ask("HVALS a"), bulks(&["z\u{fc}rich", "1", "2"]));
        let some = vec![bulk("2"), Reply::Null, bulk("2"), bulk("1")];
        assert_eq!(client.ask("HMGET a y z y x"), Reply::Array(some));
        client.assert_error("HMSET a x", "ERR wrong number of arguments for 'hmset' command");
        client.assert_error("HMSET a x 1 y", "ERR wrong number of arguments for 'hmset' command");

        assert_eq!(client.ask("HSET only x 1"), Reply::Integer(1));
        assert_eq!(client.ask("TYPE only"), Reply::Simple("hash".into()));
        assert_eq!(client.ask("STRLEN only"), Reply::Integer(0), "as GET says");
        assert_eq!(client.ask("UNLINK a only nothing"), Reply::Integer(2));
        assert_eq!(client.ask("EXISTS a only"), Reply::Integer(0));
    }
}

/// A time to live in milliseconds is that in seconds, and finer.
#[test]
fn a_version_that_ends_tells_how_long_it_lives_in_both_units() {
    let site = Site::start();
    let mut client = site.root();
    assert_eq!(client.ask("SET a 1"), ok());
    site.ask("secret/metadata/a", r#"{"delete_version_after":"1h"}"#).unwrap();
    assert_eq!(client.ask("SET a 2"), ok());
    let [secs, millis] = ["TTL a", "PTTL a"].map(|words| match client.ask(words) {
        Reply::Integer(left) => left,
        other => panic!("{words}: {other:?}"),
    });
    assert!((3_500..=3_600).contains(&secs), "{secs}");
    assert!((3_500_000..=3_600_000).contains(&millis), "{millis}");
}

/// A mount below a namespace is of the version that it is, as one of the root's.
#[test]
fn mounts_in_namespaces_are_databases_too() {
    let mounts = ["team/one", "team/kid/two/", "team/none"];
    let store = Arc::new(MemoryStore::new());
    let site = Site::start_at(&mounts, store, &AdmissionLimits::default(), None);
    for (path, body) in [
        ("sys/namespaces/team", "{}"),
        ("team/sys/namespaces/kid", "{}"),
        ("team/sys/mounts/one", r#"{"type":"kv","options":{"version":"1"}}"#),
        ("team/kid/sys/mounts/two", r#"{"type":"kv","options":{"version":"2"}}"#),
        ("team/one/a", r#"{"value":"1"}"#),
        ("team/kid/two/data/a", r#"{"data":{"value":"1"}}"#),
    ] {
        site.ask(path, body).unwrap();
    }
    let mut client = site.root();
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        assert_eq!(client.ask("GET a"), bulk("1"), "{database}");
        assert_eq!(client.ask("SET d/b 2"), ok());
        assert_eq!(client.ask("HSET a x 3"), Reply::Integer(1));
        assert_eq!(client.ask("KEYS *"), bulks(&["a", "d/b"]), "{database}");
        assert_eq!(client.ask("DEL a d/b"), Reply::Integer(2));
        assert_eq!(client.ask("KEYS *"), bulks(&[]), "{database}");
    }
    assert_eq!(client.ask("SELECT 2"), ok());
    client.assert_error("GET a", "ERR no handler for route");
}

/// A token is nobody at a mount of a namespace that it is not of, which is no reason to forget it.
#[test]
fn a_database_of_another_namespace_is_denied_and_the_login_stays() {
    let mounts = ["secret", "team/kv"];
    let store = Arc::new(MemoryStore::new());
    let site = Site::start_at(&mounts, store, &AdmissionLimits::default(), None);
    for (path, body) in [
        ("sys/namespaces/team", "{}"),
        ("team/sys/mounts/kv", r#"{"type":"kv","options":{"version":"2"}}"#),
        ("team/kv/data/a", r#"{"data":{"value":"1"}}"#),
        ("secret/data/a", r#"{"data":{"value":"0"}}"#),
        ("team/sys/policies/acl/p", r#"{"policy":"path \"kv/*\" { capabilities = [\"read\"] }"}"#),
    ] {
        site.ask(path, body).unwrap();
    }
    // With the right to look itself up, and without.
    for without in ["false", "true"] {
        let body = format!(r#"{{"policies":["p"],"no_default_policy":{without}}}"#);
        let Some(Response::Logical(made)) = site.ask("team/auth/token/create", &body) else {
            panic!("no token: {without}")
        };
        let Json::String(token) = parse(member(&made.auth, "client_token").unwrap()).unwrap()
        else {
            panic!("no text")
        };
        let mut client = site.connect();
        assert_eq!(client.ask(&format!("AUTH {token}")), ok());
        for _ in 0..2 {
            assert_eq!(client.ask("SELECT 1"), ok());
            assert_eq!(client.ask("GET a"), bulk("1"), "{without}");
            assert_eq!(client.ask("SELECT 0"), ok());
            for words in ["GET a", "MGET a b", "DEL a", "KEYS *", "SET a 2", "MSET a 2 b 3"] {
                client.assert_error(words, "NOPERM permission denied");
            }
            client.send(&["SET", "SET"].map(|verb| encode(&[verb, "a", "2"])).concat());
            for _ in 0..2 {
                let denied = Reply::Error("NOPERM permission denied".to_owned());
                assert_eq!(client.receive(), Some(denied));
            }
        }
        site.ask("team/auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
        client.assert_error("GET a", "NOAUTH permission denied");
        client.assert_error("PING", "NOAUTH Authentication required.");
    }
    let mut root = site.root();
    assert_eq!(root.ask("GET a"), bulk("0"));
}

/// What is refused of many keys is refused before any of them is deleted or written.
#[test]
fn keys_that_are_none_or_not_to_be_seen_are_refused_before_others_are_deleted() {
    let site = Site::start();
    let token = site.token(
        r#"path "secret/data/mine/*" { capabilities = ["read", "create", "update", "delete"] }
           path "one/mine/*" { capabilities = ["read", "create", "update", "delete"] }"#,
    );
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        assert_eq!(client.ask("MSET mine/a 1 mine/b 1"), ok());
        for (words, start) in [
            ("DEL mine/a other", "NOPERM"),
            ("UNLINK mine/a mine/b other/a", "NOPERM"),
            ("DEL mine/a mine//b", "ERR"),
            ("DEL mine/a ../b", "ERR"),
            ("MSET mine/a 2 mine//b 2", "ERR"),
        ] {
            client.assert_error(words, start);
            assert_eq!(client.ask("MGET mine/a mine/b"), bulks(&["1", "1"]), "{words}");
        }
        client.send(b"*3\r\n$3\r\nDEL\r\n$6\r\nmine/a\r\n$1\r\n\xff\r\n");
        assert!(matches!(client.receive(), Some(Reply::Error(_))));
        assert_eq!(client.ask("EXISTS mine/a mine/b"), Reply::Integer(2));
        assert_eq!(client.ask("DEL mine/a mine/none mine/a mine/b"), Reply::Integer(2));
        assert_eq!(client.ask("EXISTS mine/a mine/b"), Reply::Integer(0));
    }
}

/// What no key can be called is found nowhere, as in Redis.
#[test]
fn a_pattern_that_no_key_matches_finds_nothing() {
    let site = Site::start();
    let mut client = site.root();
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        assert_eq!(client.ask("SET x 1"), ok());
        let long = format!("{}/*", "x/".repeat(1_000));
        for pattern in ["/*", "../*", "/x*", "./x", "a//*", "//", &long] {
            assert_eq!(client.ask(&format!("KEYS {pattern}")), bulks(&[]), "{pattern}");
            let nothing = Reply::Array(vec![bulk("0"), bulks(&[])]);
            assert_eq!(client.ask(&format!("SCAN 0 MATCH {pattern}")), nothing, "{pattern}");
        }
    }
}

/// A large command that comes in small parts is the same command.
#[test]
fn a_command_of_many_arguments_is_run_when_its_last_byte_came() {
    let site = Site::start();
    let mut client = site.root();
    assert_eq!(client.ask("SET a 1"), ok());
    let mut words = vec!["EXISTS"];
    words.resize(5_000, "a");
    let whole = [encode(&words), encode(&["GET", "a"])].concat();
    let (many, last) = whole.split_at(whole.len() - 60);
    client.send(many);
    for byte in last {
        client.send(&[*byte]);
        std::thread::yield_now();
    }
    assert_eq!(client.receive(), Some(Reply::Integer(4_999)));
    assert_eq!(client.receive(), Some(bulk("1")));
    // What it cannot become ends the connection.
    client.send(&many[..many.len() - 100]);
    client.send(b"!!!!!!!!!!!!!!!!");
    let Some(Reply::Error(text)) = client.receive() else { panic!("no error") };
    assert!(text.starts_with("ERR Protocol error"), "{text}");
    assert_eq!(client.receive(), None);
}

#[test]
fn a_scan_for_a_type_shows_only_keys_of_that_type() {
    let site = Site::start();
    let mut client = site.root();
    for database in ["0", "1"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        assert_eq!(client.ask("MSET a 1 b 2"), ok());
        assert_eq!(client.ask("HSET h x 1"), Reply::Integer(1));
        assert_eq!(client.ask("HSET b x 1"), Reply::Integer(1));
        for (words, keys) in [
            ("SCAN 0", &["a", "b", "h"][..]),
            ("SCAN 0 TYPE string", &["a"]),
            ("SCAN 0 type HASH MATCH *", &["b", "h"]),
            ("SCAN 0 TYPE list", &[]),
        ] {
            assert_eq!(client.ask(words), Reply::Array(vec![bulk("0"), bulks(keys)]), "{words}");
        }
    }
    // Of a key that may not be read nobody knows what it holds.
    let token = site.token(
        r#"path "secret/metadata/*" { capabilities = ["scan"] } path "secret/data/a" { capabilities = ["read"] }"#,
    );
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    assert_eq!(client.ask("SELECT 0"), ok());
    let all = Reply::Array(vec![bulk("0"), bulks(&["a", "b", "h"])]);
    assert_eq!(client.ask("SCAN 0"), all);
    let strings = Reply::Array(vec![bulk("0"), bulks(&["a"])]);
    assert_eq!(client.ask("SCAN 0 TYPE string"), strings);
    assert_eq!(client.ask("SCAN 0 TYPE hash"), Reply::Array(vec![bulk("0"), bulks(&[])]));
}

/// A rule that allows short pages only makes more of them, and no key is left out.
#[test]
fn all_keys_are_found_where_a_policy_allows_short_pages_only() {
    let site = Site::start();
    let keys = ["a", "b", "c", "d/1", "d/2", "d/3", "d/4", "e"].map(|key| format!("pg/{key}"));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut client = site.root();
    for key in &keys {
        assert_eq!(client.ask(&format!("SET {key} v")), ok());
    }
    for capabilities in [r#"["list", "scan"]"#, r#"["list"]"#] {
        let token = site.token(&format!(
            r#"path "secret/metadata/*" {{ capabilities = {capabilities} pagination_limit = 3 }}
               path "secret/data/pg/*" {{ capabilities = ["read"] }}"#
        ));
        let mut client = site.connect();
        assert_eq!(client.ask(&format!("AUTH {token}")), ok());
        assert_eq!(client.ask("KEYS pg/*"), bulks(&keys), "{capabilities}");
        for count in [3, 100] {
            let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
            loop {
                let reply = client.ask(&format!("SCAN {cursor} MATCH pg/* COUNT {count}"));
                let Reply::Array(page) = reply else { panic!("{reply:?}") };
                let [Reply::Bulk(next), Reply::Array(names)] = &page[..] else {
                    panic!("{page:?}")
                };
                found.extend(names.iter().map(|name| match name {
                    Reply::Bulk(name) => name.clone(),
                    other => panic!("{other:?}"),
                }));
                cursor = next.clone();
                if cursor == "0" {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, keys, "{capabilities} {count}");
        }
        site.ask("auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    }
}

/// What another engine does when it is written to is no answer to a `SET`.
#[test]
fn a_database_whose_engine_keeps_no_secrets_takes_none() {
    let store = Arc::new(MemoryStore::new());
    let site = Site::start_at(&["secret", "other"], store, &AdmissionLimits::default(), None);
    site.ask("sys/mounts/other", r#"{"type":"transit"}"#).unwrap();
    let mut client = site.root();
    assert_eq!(client.ask("SELECT 1"), ok());
    client.assert_error("SET keys/a x", "ERR unsupported path");
    client.assert_error("HSET keys/a type aes256-gcm96", "ERR unsupported path");
    client.assert_error("MSET keys/a x keys/b y", "ERR unsupported path");
    client.assert_error("KEYS *", "ERR unsupported path");
    assert!(site.ask("other/keys/b", "{}").is_some());
    client.assert_error("DEL keys/b", "ERR unsupported path");
}

/// What somebody types, or a file of commands that `redis-cli --pipe` sends, is quoted as Redis has it.
#[test]
fn commands_in_a_line_are_quoted_as_in_redis() {
    let site = Site::start();
    let mut client = site.connect();
    client.send(b"AUTH \"root\"\r\n");
    assert_eq!(client.receive(), Some(ok()));
    for (line, value) in [
        (&br#"SET a "two words""#[..], "two words"),
        (br#"SET a "a \"quoted\" word""#, "a \"quoted\" word"),
        (br#"SET a "one\ntwo\x41\\""#, "one\ntwoA\\"),
        (br"SET a 'it\'s \n'", "it's \\n"),
        (br#"SET a one" and two""#, "one and two"),
        (br#"SET "a" back\slash"#, "back\\slash"),
    ] {
        client.send(line);
        client.send(b"\r\nGET a\r\n");
        assert_eq!(client.receive(), Some(ok()), "{value}");
        assert_eq!(client.receive(), Some(bulk(value)));
    }
    // Many at once, among others.
    client
        .send(b"SET a \"1\\t\"\r\nSET b 2\r\nSET c \"3\"\nGET a\r\n*2\r\n$3\r\nGET\r\n$1\r\nc\r\n");
    for reply in [ok(), ok(), ok(), bulk("1\t"), bulk("3")] {
        assert_eq!(client.receive(), Some(reply));
    }
    client.send(b"SET a \"no end\r\n");
    let unbalanced = "ERR Protocol error: unbalanced quotes in request";
    assert_eq!(client.receive(), Some(Reply::Error(unbalanced.to_owned())));
    assert_eq!(client.receive(), None);
}

#[test]
fn a_name_that_no_user_can_have_is_a_wrong_login() {
    let site = Site::start();
    site.ask("sys/auth/userpass", r#"{"type":"userpass"}"#);
    for name in ["a/b", "a/", "../a", "", "a\u{0}"] {
        let mut client = site.connect();
        let Reply::Error(text) = client.ask_words(&["AUTH", name, "x"]) else { panic!("{name:?}") };
        assert!(text.starts_with("WRONGPASS"), "{name:?}: {text}");
    }
}

/// The lists of commands that are tried sealed, cut off, without rights and so on have every command that touches a secret.
#[test]
fn no_command_that_touches_a_secret_is_left_out() {
    let site = Site::start();
    let mut client = site.root();
    let Reply::Array(rows) = client.ask("COMMAND") else { panic!("no table") };
    let mut touching = 0;
    for row in rows {
        let Reply::Array(row) = row else { panic!("{row:?}") };
        let (Reply::Bulk(name), Reply::Array(flags)) = (&row[0], &row[2]) else {
            panic!("{row:?}");
        };
        let name = name.to_ascii_uppercase();
        let has = |flag: &str| flags.contains(&Reply::Simple(flag.into()));
        let tried =
            |list: &[&str]| list.iter().any(|words| words.split(' ').next() == Some(name.as_str()));
        match (has("write"), has("readonly")) {
            (true, _) => assert!(tried(&WRITES), "{name}"),
            (_, true) => assert!(tried(&READS) || name == "GET", "{name}"),
            (false, false) => continue,
        }
        touching += 1;
    }
    assert!(touching > 15, "{touching}");
}
