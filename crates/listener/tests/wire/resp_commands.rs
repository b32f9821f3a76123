//! What commands answer that few clients need, and that no command is left out where all are meant.

use std::sync::Arc;

use kallisto_core::admission::AdmissionLimits;
use kallisto_store::MemoryStore;

use super::resp::{Reply, Site, bulk, bulks, ok};
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
