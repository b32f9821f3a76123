//! Clients that race, and what must be true whoever wins.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{Running, TOKEN};

/// Racing clients.
const CLIENTS: usize = 4;

#[test]
fn four_thousand_concurrent_puts_of_one_path_end_at_version_four_thousand() {
    const PUTS: usize = 1_000;
    let server = Running::start();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut connection = server.connect();
            scope.spawn(move || {
                let mut last = 0;
                for number in 0..PUTS {
                    let body = format!(r#"{{"data":{{"client":{client},"number":{number}}}}}"#);
                    let reply = connection.ask("POST", "secret/data/contended", &body);
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    let version: u64 = reply.text_at("data/version").parse().unwrap();
                    assert!(version > last, "{version} came after {last}");
                    last = version;
                }
            });
        }
    });
    let metadata = server.ask("GET", "secret/metadata/contended", "");
    assert_eq!(metadata.text_at("data/current_version"), "4000");
    assert_eq!(metadata.text_at("data/oldest_version"), "3991");
    assert_eq!(server.ask("GET", "secret/data/contended?version=3990", "").status, 404);
    assert_eq!(server.ask("GET", "secret/data/contended?version=3991", "").status, 200);
    server.assert_serves();
}

#[test]
fn a_check_and_set_race_has_exactly_one_winner() {
    const ROUNDS: usize = 300;
    let server = Running::start();
    let barrier = Barrier::new(CLIENTS);
    let wins: Vec<AtomicUsize> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut connection = server.connect();
            let (barrier, wins) = (&barrier, &wins);
            scope.spawn(move || {
                for (round, wins) in wins.iter().enumerate() {
                    let body =
                        format!(r#"{{"data":{{"winner":{client}}},"options":{{"cas":{round}}}}}"#);
                    barrier.wait();
                    let reply = connection.ask("POST", "secret/data/race", &body);
                    match reply.status {
                        200 => {
                            let version = (round + 1).to_string();
                            assert_eq!(reply.text_at("data/version"), version);
                            wins.fetch_add(1, Ordering::Relaxed);
                        }
                        400 => assert_eq!(
                            reply.text_at("errors"),
                            r#"["check-and-set parameter did not match the current version"]"#
                        ),
                        status => panic!("{status}: {}", reply.text()),
                    }
                    // Nobody may begin the next round before this one has its winner.
                    barrier.wait();
                }
            });
        }
    });
    for (round, wins) in wins.iter().enumerate() {
        assert_eq!(wins.load(Ordering::Relaxed), 1, "round {round}");
    }
    let metadata = server.ask("GET", "secret/metadata/race", "");
    assert_eq!(metadata.text_at("data/current_version"), ROUNDS.to_string());
}

/// Many fields of one version carry the same number, so a mix of two versions would show.
#[test]
fn a_reader_among_writers_sees_one_whole_version_every_time() {
    const PUTS: usize = 500;
    const FIELDS: usize = 40;
    let data = |number: usize| {
        let fields: Vec<String> =
            (10..10 + FIELDS).map(|field| format!(r#""f{field}":"{number:08}""#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    let server = Running::start();
    let put = |connection: &mut crate::support::Connection, number: usize| {
        let body = format!(r#"{{"data":{}}}"#, data(number));
        let reply = connection.ask("POST", "secret/data/read-among-writes", &body);
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    put(&mut server.connect(), 0);
    let done = AtomicBool::new(false);
    let reads = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = server.connect();
                while !done.load(Ordering::Acquire) {
                    let reply = connection.ask("GET", "secret/data/read-among-writes", "");
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    let text = reply.text_at("data/data");
                    let number = text[8..16].parse().unwrap();
                    assert_eq!(text, data(number), "fields of two versions");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let put = &put;
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for number in 0..PUTS {
                        put(&mut connection, 2 * number + writer);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
}

/// Numbers keep their text, strings their characters, and nothing is escaped that need not be.
#[test]
fn what_was_stored_comes_back() {
    let server = Running::start();
    for (name, stored, back) in [
        ("float", r#"{"n":1.0}"#, r#"{"n":1.0}"#),
        ("exponent", r#"{"n":1e3}"#, r#"{"n":1e3}"#),
        ("capital", r#"{"n":1E+3}"#, r#"{"n":1E+3}"#),
        (
            "long",
            r#"{"n":123456789012345678901234567890}"#,
            r#"{"n":123456789012345678901234567890}"#,
        ),
        ("negative-zero", r#"{"n":-0.0}"#, r#"{"n":-0.0}"#),
        ("tiny", r#"{"n":1e-400}"#, r#"{"n":1e-400}"#),
        ("unicode", r#"{"s":"пароль 密码 🔑"}"#, r#"{"s":"пароль 密码 🔑"}"#),
        ("pair", r#"{"s":"\ud83d\udd11"}"#, r#"{"s":"🔑"}"#),
        ("html", r#"{"s":"<a href='x'>&</a>"}"#, r#"{"s":"<a href='x'>&</a>"}"#),
        (
            "escapes",
            r#"{"s":"quote \" backslash \\ newline \n tab \t nul \u0000 slash \/"}"#,
            r#"{"s":"quote \" backslash \\ newline \n tab \t nul \u0000 slash /"}"#,
        ),
        (
            "fields",
            r#"{"b":[1,{"y":null,"x":true}],"a":{},"key with \"quotes\"":"v","c":""}"#,
            r#"{"a":{},"b":[1,{"x":true,"y":null}],"c":"","key with \"quotes\"":"v"}"#,
        ),
    ] {
        let path = format!("secret/data/fidelity/{name}");
        let put = server.ask("POST", &path, &format!(r#"{{"data":{stored}}}"#));
        assert_eq!(put.status, 200, "{name}: {}", put.text());
        let got = server.ask("GET", &path, "").text();
        assert!(got.contains(&format!(r#""data":{{"data":{back},"metadata""#)), "{name}: {got}");
        // An older version comes from its record and has to be the same.
        server.ask("POST", &path, r#"{"data":{"newer":true}}"#);
        let old = server.ask("GET", &format!("{path}?version=1"), "").text();
        assert!(old.contains(&format!(r#""data":{{"data":{back},"metadata""#)), "{name}: {old}");
    }
}

#[test]
fn lists_are_whole_ordered_and_paged() {
    let server = Running::start();
    let mut connection = server.connect();
    for path in ["b", "a/1", "a/2", "a/sub/x", "a", "c/1", "z z", "é"] {
        let encoded = path.replace(' ', "%20").replace('é', "%C3%A9");
        let put = connection.ask("POST", &format!("secret/data/l/{encoded}"), r#"{"data":{}}"#);
        assert_eq!(put.status, 200, "{path}");
    }
    for (query, keys) in [
        ("LIST secret/metadata/l", r#"["a","a/","b","c/","z z","é"]"#),
        ("LIST secret/metadata/l/", r#"["a","a/","b","c/","z z","é"]"#),
        ("GET secret/metadata/l?list=true", r#"["a","a/","b","c/","z z","é"]"#),
        ("LIST secret/metadata/l?limit=2", r#"["a","a/"]"#),
        ("LIST secret/metadata/l?after=a/&limit=2", r#"["b","c/"]"#),
        ("LIST secret/metadata/l?after=bb", r#"["c/","z z","é"]"#),
        ("LIST secret/metadata/l?after=z%20z&limit=-1", r#"["é"]"#),
        ("LIST secret/metadata/l/a", r#"["1","2","sub/"]"#),
    ] {
        let (method, path) = query.split_once(' ').unwrap();
        assert_eq!(connection.ask(method, path, "").text_at("data/keys"), keys, "{query}");
    }
    let all = ["a", "a/1", "a/2", "a/sub/x", "b", "c/1", "z z", "é"];
    for query in ["SCAN secret/metadata/l", "GET secret/metadata/l/?scan=true"] {
        let (method, path) = query.split_once(' ').unwrap();
        let text = connection.ask(method, path, "").text_at("data/keys");
        let mut keys: Vec<&str> = text[2..text.len() - 2].split("\",\"").collect();
        keys.sort_unstable();
        assert_eq!(keys, all, "{query}");
    }
    assert_eq!(connection.ask("LIST", "secret/metadata/l?after=%C3%A9", "").status, 404);
    assert_eq!(connection.ask("LIST", "secret/metadata/l?limit=x", "").status, 400);
}

/// Whatever goes wrong, the error never says what was sent as a value or a token. (A duration that
/// cannot be read is named: clients know those words, and it is a setting, not a secret.)
#[test]
fn errors_never_repeat_a_secret() {
    const CANARY: &str = "c4n4ry-v4lu3";
    let server = Running::start();
    let mut connection = server.connect();
    let patch = ("Content-Type", "application/merge-patch+json");
    for (method, path, body) in [
        ("POST", "secret/data/a", r#"{"data":{"k":"CANARY""#),
        ("POST", "secret/data/a", r#"{"data":{"k":CANARY}}"#),
        ("POST", "secret/data/a", r#"{"data":{"k":"CANARY\ud800"}}"#),
        ("POST", "secret/data/a", r#"CANARY"#),
        ("POST", "secret/data/a", r#"["CANARY"]"#),
        ("POST", "secret/data/a", r#""CANARY""#),
        ("POST", "secret/data/a", r#"{"data":"CANARY"}"#),
        ("POST", "secret/data/a", r#"{"data":["CANARY"]}"#),
        ("POST", "secret/data/a", r#"{"data":{"k":"CANARY"},"options":{"cas":7}}"#),
        ("POST", "secret/data/a", r#"{"data":{},"options":{"cas":"CANARY"}}"#),
        ("POST", "secret/data/a", r#"{"data":{},"options":"CANARY"}"#),
        ("POST", "secret/data/a/", r#"{"data":{"k":"CANARY"}}"#),
        ("POST", "secret/nowhere/a", r#"{"data":{"k":"CANARY"}}"#),
        ("POST", "nomount/a", r#"{"data":{"k":"CANARY"}}"#),
        ("PATCH", "secret/data/a", r#"{"data":{"k":"CANARY"}}"#),
        ("PATCH", "secret/data/a", r#"{"data":"CANARY"}"#),
        ("POST", "secret/delete/a", r#"{"versions":["CANARY"]}"#),
        ("POST", "secret/delete/a", r#"{"versions":{"CANARY":1}}"#),
        ("POST", "secret/metadata/a", r#"{"max_versions":"CANARY"}"#),
        ("POST", "secret/metadata/a", r#"{"cas_required":"CANARY"}"#),
        ("POST", "secret/metadata/a", r#"{"custom_metadata":"CANARY"}"#),
        ("POST", "secret/metadata/a", r#"{"custom_metadata":{"k":["CANARY"]}}"#),
        ("POST", "secret/metadata/a", r#"{"custom_metadata":{"k":"CANARY\u0001"}}"#),
        ("POST", "secret/config", r#"{"max_versions":"CANARY"}"#),
        ("POST", "sys/mounts/m", r#"{"type":"kv","config":"CANARY"}"#),
        ("POST", "sys/unseal", r#"{"key":{"CANARY":1}}"#),
    ] {
        let body = body.replace("CANARY", CANARY);
        let headers = [("X-Vault-Token", TOKEN), patch];
        let headers = if method == "PATCH" { &headers[..] } else { &headers[..1] };
        let reply = connection.ask_with(method, path, headers, &body);
        assert!((400..500).contains(&reply.status), "{method} {path} {body}: {}", reply.status);
        assert!(!reply.text().contains(CANARY), "{method} {path}: {}", reply.text());
        assert!(!reply.text().contains(TOKEN), "{method} {path}: {}", reply.text());
    }
    let wrong = connection.ask_with("GET", "secret/data/a", &[("X-Vault-Token", CANARY)], "");
    assert_eq!(wrong.status, 403);
    assert!(!wrong.text().contains(CANARY), "{}", wrong.text());
}
