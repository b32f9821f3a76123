//! Writes that come together, on one connection or several: each by its own rules, answered and written down in their order.

use kallisto_core::json::{self, Json};
use kallisto_core::{Operation, Path, Request, Response, TokenText};

use kallisto_listener::{SystemClock, WallClock as _};

use super::resp::{Client, Reply, Site, bulk, encode, ok};
use super::support::{Recorder, of_request};

/// As long as a few runs.
const MANY: usize = 200;

fn set(key: &str, value: &str) -> Vec<u8> {
    encode(&["SET", key, value])
}

fn assert_refused(reply: Option<Reply>, word: &str) {
    match reply {
        Some(Reply::Error(text)) if text.starts_with(word) => {}
        other => panic!("{word}: {other:?}"),
    }
}

fn authenticated(site: &Site, token: &str) -> Client {
    let mut client = site.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    client
}

#[test]
fn each_of_many_writes_is_decided_by_itself_and_answered_in_its_place() {
    let site = Site::start();
    let token = site.token(
        r#"path "secret/data/mine/*" { capabilities = ["read", "create"] }
           path "secret/data/changed" { capabilities = ["create", "update", "read"] }"#,
    );
    assert_eq!(site.root().ask("SET mine/there before"), ok());
    let mut client = authenticated(&site, &token);
    let commands = [
        set("mine/a", "1"),
        set("other", "2"),
        set("mine/there", "3"),
        set("mine//bad", "4"),
        set("changed", "5"),
        set("changed", "6"),
        encode(&["GET", "changed"]),
        set("changed", "7"),
        encode(&["GET", "mine/a"]),
        encode(&["SET", "mine/b", "8", "XX"]),
        set("mine/b", "9"),
        encode(&["GET", "mine/b"]),
        b"*3\r\n$3\r\nSET\r\n$6\r\nmine/c\r\n$1\r\n\xff\r\n".to_vec(),
        set("mine/c", "10"),
        encode(&["PING"]),
    ];
    client.send(&commands.concat());
    assert_eq!(client.receive(), Some(ok()));
    assert_refused(client.receive(), "NOPERM");
    assert_refused(client.receive(), "NOPERM");
    assert!(matches!(client.receive(), Some(Reply::Error(_))), "a path that is none");
    assert_eq!([client.receive(), client.receive()], [Some(ok()), Some(ok())]);
    assert_eq!(client.receive(), Some(bulk("6")), "written in their order");
    assert_eq!([client.receive(), client.receive()], [Some(ok()), Some(bulk("1"))]);
    assert_eq!(client.receive(), Some(Reply::Null), "nothing was there");
    assert_eq!([client.receive(), client.receive()], [Some(ok()), Some(bulk("9"))]);
    assert_refused(client.receive(), "ERR value is not valid UTF-8");
    assert_eq!(client.receive(), Some(ok()));
    assert_eq!(client.receive(), Some(Reply::Simple("PONG".into())));
    let mut root = site.root();
    assert_eq!(root.ask("GET changed"), bulk("7"));
    assert_eq!(root.ask("GET mine/there"), bulk("before"));
    assert_eq!(root.ask("GET other"), Reply::Null);
}

#[test]
fn many_writes_are_all_there_however_long_their_run() {
    let site = Site::start();
    for database in ["0", "1"] {
        let mut client = site.root();
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        let sets: Vec<u8> =
            (0..MANY).flat_map(|at| set(&format!("k{at}"), &format!("v{at}"))).collect();
        client.send(&sets);
        assert!((0..MANY).all(|_| client.receive() == Some(ok())));
        let gets: Vec<u8> = (0..MANY).flat_map(|at| encode(&["GET", &format!("k{at}")])).collect();
        client.send(&gets);
        assert!((0..MANY).all(|at| client.receive() == Some(bulk(&format!("v{at}")))));
    }
}

#[test]
fn many_keys_of_one_command_are_written_and_the_last_value_of_a_key_stays() {
    let site = Site::start();
    let token =
        site.token(r#"path "secret/data/m/*" { capabilities = ["create", "update", "read"] }"#);
    let mut client = authenticated(&site, &token);
    let keys: Vec<String> = (0..MANY).map(|at| format!("m/{}", at % (MANY - 7))).collect();
    let values: Vec<String> = (0..MANY).map(|at| at.to_string()).collect();
    let mut words = vec!["MSET"];
    for (key, value) in keys.iter().zip(&values) {
        words.extend([key.as_str(), value.as_str()]);
    }
    assert_eq!(client.ask_words(&words), ok());
    assert_eq!(client.ask("GET m/0"), bulk(&(MANY - 7).to_string()));
    assert_eq!(client.ask("GET m/100"), bulk("100"));
    client.assert_error("MSET m/0 again other v", "NOPERM");
    assert_eq!(client.ask("GET m/0"), bulk("again"), "what was let in was written");
    client.assert_error("MSET m/0", "ERR wrong number of arguments");
}

#[test]
fn a_token_with_few_uses_has_as_many_for_writes_that_come_together() {
    let site = Site::start();
    site.token(r#"path "secret/data/*" { capabilities = ["create", "update"] }"#);
    let counted = |id: &str| {
        let body = format!(r#"{{"policies":["p"],"id":"{id}","num_uses":6}}"#);
        site.ask("auth/token/create", &body).unwrap();
        authenticated(&site, id)
    };
    let is_ok = |reply: Reply| reply == ok();
    let (mut one, mut together) = (counted("one-by-one"), counted("together"));
    let expected: Vec<bool> = (0..10).map(|at| is_ok(one.ask(&format!("SET a{at} v")))).collect();
    together.send(&(0..10).flat_map(|at| set(&format!("b{at}"), "v")).collect::<Vec<u8>>());
    let told: Vec<bool> = (0..10).map(|_| is_ok(together.receive().unwrap())).collect();
    assert_eq!(told, expected);
    assert!(told.contains(&true) && told.contains(&false));
    together.assert_error("SET b v", "NOAUTH");
}

#[test]
fn writes_that_come_together_are_written_down_each_in_their_order_or_refused() {
    let (site, recorder) = (Site::start(), Recorder::start());
    let mut client = site.root();
    site.ask("sys/audit/socket", &recorder.device()).unwrap();
    let sets = |from: usize| {
        (0..40).flat_map(move |at| set(&format!("k{:02}", from + at), "v")).collect::<Vec<u8>>()
    };
    client.send(&sets(0));
    assert!((0..40).all(|_| client.receive() == Some(ok())));
    recorder.wait(|records| {
        let of_type = |kind: &str| {
            let is_of = |record: &&Json| {
                let record = record.as_object().unwrap();
                record.get("type").and_then(Json::as_str) == Some(kind)
            };
            let paths = records.iter().filter(is_of).map(|record| of_request(record, "path"));
            let paths = paths.filter(|path| path.starts_with("secret/data/k"));
            paths.map(str::to_owned).collect::<Vec<_>>()
        };
        let expected: Vec<_> = (0..40).map(|at| format!("secret/data/k{at:02}")).collect();
        let mut replies = of_type("response");
        replies.sort();
        of_type("request") == expected && replies == expected
    });
    recorder.stop();
    client.send(&sets(50));
    for _ in 0..40 {
        assert_refused(client.receive(), "ERR internal error");
    }
}

#[test]
fn values_with_escapes_come_back_by_every_command_that_reads_them() {
    let site = Site::start();
    let mut client = site.root();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ";
    let pem =
        format!("-----BEGIN PRIVATE KEY-----\n{}-----END-----\n", format!("{line}\n").repeat(30));
    for value in [
        pem.as_str(),
        "\u{1}\u{1f}\u{7f}\t\u{8}\u{c}",
        "\\",
        "\"\\\"\u{1f511}\u{e9}\n",
        "\u{ffff}\\u0041",
    ] {
        assert_eq!(client.ask_words(&["SET", "pem", value]), ok());
        let gets = encode(&["GET", "pem"]).repeat(3);
        client.send(&gets);
        assert!((0..3).all(|_| client.receive() == Some(bulk(value))));
        assert_eq!(client.ask("MGET pem"), Reply::Array(vec![bulk(value)]));
        assert_eq!(client.ask("HGET pem value"), bulk(value));
    }
}

/// A name is compared with what JSON says, not with how it is written there.
#[test]
fn a_field_is_found_by_its_own_name_alone() {
    let site = Site::start();
    let mut client = site.root();
    assert_eq!(client.ask_words(&["HSET", "h", "a\n", "1", "x", "2", "z", "3"]), Reply::Integer(3));
    assert_eq!(client.ask_words(&["HGET", "h", "a\n"]), bulk("1"));
    let none = ["a\\n", "x\":\"2\",\"z", "", "\""];
    for name in none {
        assert_eq!(client.ask_words(&["HGET", "h", name]), Reply::Null, "{name:?}");
    }
    let many = client.ask_words(&["HMGET", "h", "z", none[0], none[1], "a\n"]);
    assert_eq!(many, Reply::Array(vec![bulk("3"), Reply::Null, Reply::Null, bulk("1")]));
}

/// Clients that pipeline through `MULTI` by default send all of it at once: were only `MULTI` and `EXEC` refused, the rest would be run.
#[test]
fn a_transaction_is_refused_with_all_that_is_in_it() {
    let site = Site::start();
    let mut client = site.root();
    assert_eq!(client.ask("SET there before"), ok());
    let commands = [
        encode(&["SET", "a", "1"]),
        encode(&["MULTI"]),
        set("a", "2"),
        set("b", "2"),
        set("c", "2"),
        encode(&["GET", "there"]),
        encode(&["GET", "there"]),
        encode(&["DEL", "there"]),
        encode(&["MULTI"]),
        encode(&["EXEC"]),
        encode(&["GET", "a"]),
        set("d", "3"),
        set("e", "3"),
    ];
    client.send(&commands.concat());
    assert_eq!([client.receive(), client.receive()], [Some(ok()), Some(ok())]);
    for _ in 0..6 {
        assert_refused(client.receive(), "ERR transactions are not supported");
    }
    assert_refused(client.receive(), "ERR MULTI calls can not be nested");
    assert_refused(client.receive(), "EXECABORT");
    assert_eq!(client.receive(), Some(bulk("1")));
    assert_eq!([client.receive(), client.receive()], [Some(ok()), Some(ok())]);
    assert_eq!(client.ask("EXISTS b c"), Reply::Integer(0));
    assert_eq!(client.ask("GET there"), bulk("before"));

    client.assert_error("EXEC", "ERR EXEC without MULTI");
    client.assert_error("DISCARD", "ERR DISCARD without MULTI");
    for end in ["DISCARD", "EXEC", "RESET"] {
        assert_eq!(client.ask("MULTI"), ok());
        client.assert_error("WATCH a", "ERR");
        client.assert_error("SET a 4", "ERR");
        // Nor does anybody log in there: Redis would when it comes to `EXEC`.
        for login in ["AUTH root", "AUTH wrong", "HELLO 3 AUTH default root", "HELLO 3"] {
            client.assert_error(login, "ERR transactions are not supported");
        }
        client.assert_error("SET a 4", "ERR");
        match client.ask(end) {
            Reply::Error(text) => assert!(text.starts_with("EXECABORT"), "{text}"),
            reply => assert!(matches!(reply, Reply::Simple(_)), "{end}: {reply:?}"),
        }
        assert_eq!(client.ask("AUTH root"), ok());
        assert_eq!(client.ask("GET a"), bulk("1"), "{end}");
    }
}

/// A session whose token ends within a transaction is not kept in it by an `EXEC` that was refused.
#[test]
fn a_transaction_ends_with_its_exec_whoever_asks() {
    let site = Site::start();
    let token = site.token(r#"path "secret/*" { capabilities = ["read", "create", "update"] }"#);
    let mut client = authenticated(&site, &token);
    assert_eq!(client.ask("MULTI"), ok());
    site.seal();
    client.assert_error("SET a 1", "LOADING");
    client.assert_error("EXEC", "LOADING");
    site.unseal();
    assert_eq!(client.ask(&format!("AUTH {token}")), ok());
    assert_eq!(client.ask("SET a 1"), ok());
    let mut stranger = site.connect();
    stranger.assert_error("MULTI", "NOAUTH");
    assert_eq!(stranger.ask(&format!("AUTH {token}")), ok());
    assert_eq!(stranger.ask("GET a"), bulk("1"));
}

/// The value of a version of a secret, and who wrote it.
fn version_of(site: &Site, key: &str, version: u64) -> Option<(String, String)> {
    let version = version.to_string();
    let read = |path: String, query| {
        let request = Request {
            token: Some(TokenText::new("root")),
            query,
            ..Request::new(Operation::Read, Path::literal(&path).unwrap(), SystemClock.now())
        };
        match pollster::block_on(site.core.handle(&request)) {
            Ok(Response::Logical(found)) => Some(json::parse(&found.data).unwrap()),
            _ => None,
        }
    };
    let text = |found: Json, path: &[&str]| {
        let end = path.iter().try_fold(&found, |at, name| at.as_object()?.get(*name));
        end.and_then(Json::as_str).unwrap_or_default().to_owned()
    };
    let data = read(format!("secret/data/{key}"), vec![("version".into(), version.clone())])?;
    let metadata = read(format!("secret/metadata/{key}"), Vec::new())?;
    let author = ["versions", &version, "created_by", "display_name"];
    Some((text(data, &["data", "value"]), text(metadata, &author)))
}

/// Writes of several connections are committed together: each is still its own client's, and none is lost or overwritten by one that was decided on
/// the same version.
#[test]
fn writes_of_many_connections_to_the_same_keys_are_each_a_version_of_their_own_author() {
    const CLIENTS: usize = 6;
    const ROUNDS: usize = 12;
    const KEYS: usize = 8;
    let site = Site::start();
    site.token(r#"path "secret/data/*" { capabilities = ["create", "update"] }"#);
    site.ask("secret/config", r#"{"max_versions":1000}"#).unwrap();
    let write = |at: usize| {
        let name = format!("client{at}");
        let body = format!(r#"{{"policies":["p"],"id":"{name}","display_name":"{name}"}}"#);
        site.ask("auth/token/create", &body).unwrap();
        let mut client = authenticated(&site, &name);
        let mut written = [0; KEYS];
        for round in 0..ROUNDS {
            // Another order and number of them each time, never one twice.
            let (stride, first) = (2 * (at + round) + 1, 5 * at + 3 * round);
            let place = |step: usize| (first + step * stride) % KEYS;
            let keys: Vec<usize> = (0..=(3 * at + round) % KEYS).map(place).collect();
            let sets = keys.iter().flat_map(|key| set(&format!("shared/{key}"), &name));
            client.send(&sets.collect::<Vec<u8>>());
            for key in keys {
                assert_eq!(client.receive(), Some(ok()));
                written[key] += 1;
            }
        }
        written
    };
    let written = std::thread::scope(|scope| {
        let write = &write;
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || write(at))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    for key in 0..KEYS {
        let versions: u64 = written.iter().map(|of_client| of_client[key]).sum();
        let newest = version_of(&site, &format!("shared/{key}"), versions);
        assert!(newest.is_some(), "{versions} versions of {key}");
        assert_eq!(version_of(&site, &format!("shared/{key}"), versions + 1), None);
        for version in 1..=versions {
            let (value, author) = version_of(&site, &format!("shared/{key}"), version).unwrap();
            assert_eq!(author, format!("token-{value}"));
        }
    }
}
