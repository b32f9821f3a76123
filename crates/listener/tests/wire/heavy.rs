//! What takes a processor for long is answered beside the workers, fairly, and for nobody who has gone.
//!
//! Nothing here measures time: the server counts what it hands over, and its threads for that are held by the test
//! while others are asked.

use std::net::Ipv4Addr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use kallisto_core::admission::Flow;

use super::support::{Connection, Running, TOKEN, eventually, request};

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Holds every thread for heavy requests until it is dropped.
struct Occupied {
    words: Vec<Sender<()>>,
    holders: Vec<JoinHandle<()>>,
}

impl Occupied {
    fn of(server: &Running) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (here, arrived) = channel();
        let (words, holders) = (0..threads)
            .map(|_| {
                let (word, gate) = channel::<()>();
                let (core, here) = (Arc::clone(&server.core), here.clone());
                let gate = Mutex::new(gate);
                let holder = std::thread::spawn(move || {
                    let held = core.offload(Flow::OWN, 1, async move {
                        here.send(()).unwrap();
                        let _ = gate.lock().unwrap().recv();
                    });
                    pollster::block_on(held).unwrap();
                });
                (word, holder)
            })
            .unzip();
        (0..threads).for_each(|_| arrived.recv().unwrap());
        Self { words, holders }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.words.clear();
        self.holders.drain(..).for_each(|holder| holder.join().unwrap());
    }
}

fn root() -> [(&'static str, &'static str); 1] {
    [("X-Vault-Token", TOKEN)]
}

/// A server with a transit mount, an RSA key `rsa` and an AES key `aes`.
fn with_keys() -> Running {
    let server = Running::start();
    for (path, body) in [
        ("sys/mounts/transit", r#"{"type":"transit"}"#),
        ("transit/keys/rsa", r#"{"type":"rsa-2048"}"#),
        ("transit/keys/aes", ""),
        ("transit/encrypt/aes", r#"{"plaintext":"aGk="}"#),
        ("transit/sign/rsa", r#"{"input":"aGk="}"#),
    ] {
        let reply = server.ask("POST", path, body);
        assert!(reply.status < 300, "{path}: {}", reply.text());
    }
    server
}

fn batch(items: usize, item: &str) -> String {
    format!(r#"{{"batch_input":[{}]}}"#, vec![item; items].join(","))
}

/// A policy of so many rules, as a body.
fn policy(rules: usize) -> String {
    let rule = |at| format!(r#"path \"secret/data/{at}/*\" {{ capabilities = [\"read\"] }} "#);
    format!(r#"{{"policy":"{}"}}"#, (0..rules).map(rule).collect::<String>())
}

/// What is asked, and whether it is handed over.
#[test]
fn what_takes_long_is_answered_beside_the_workers_and_nothing_else_is() {
    let server = with_keys();
    let large = "x".repeat(20 << 10);
    let large_secret = format!(r#"{{"data":{{"a":"{large}"}}}}"#);
    let longest_secret = format!(r#"{{"data":{{"a":"{}"}}}}"#, large.repeat(15));
    assert_eq!(server.ask("POST", "secret/metadata/often", r#"{"max_versions":300}"#).status, 204);
    let mut often = server.connect();
    for _ in 0..300 {
        assert_eq!(often.ask("POST", "secret/data/often", r#"{"data":{"a":"b"}}"#).status, 200);
    }
    let paths = format!(r#"{{"paths":["{}"]}}"#, ["secret/data/a"; 10].join(r#"",""#));
    for (is_heavy, method, path, body) in [
        (false, "GET", "sys/health", ""),
        (false, "GET", "sys/seal-status", ""),
        (false, "GET", "secret/data/honest", ""),
        (false, "GET", "secret/data/honest?version=1", ""),
        (false, "POST", "secret/data/small", r#"{"data":{"a":"b"}}"#),
        (true, "POST", "secret/data/large", &large_secret),
        (false, "GET", "secret/data/large", ""),
        (true, "GET", "secret/subkeys/large", ""),
        (true, "POST", "secret/data/longest", &longest_secret),
        (true, "GET", "secret/data/longest", ""),
        (true, "GET", "secret/data/longest?version=1", ""),
        (true, "POST", "secret/destroy/longest", r#"{"versions":[7]}"#),
        (true, "LIST", "secret/detailed-metadata", ""),
        (true, "GET", "secret/metadata/often", ""),
        (true, "POST", "secret/data/often", r#"{"data":{"a":"b"}}"#),
        (true, "POST", "secret/undelete/often", r#"{"versions":[1]}"#),
        (true, "POST", "secret/destroy/often", r#"{"versions":[1]}"#),
        (false, "GET", "secret/data/often", ""),
        (false, "LIST", "secret/metadata", ""),
        (false, "POST", "auth/token/create", ""),
        (false, "GET", "auth/token/lookup-self", ""),
        (true, "LIST", "auth/token/accessors", ""),
        (false, "POST", "transit/encrypt/aes", r#"{"plaintext":"aGk="}"#),
        (true, "POST", "transit/encrypt/aes", &batch(1_000, r#"{"plaintext":"aGk="}"#)),
        (true, "POST", "transit/sign/rsa", r#"{"input":"aGk="}"#),
        (true, "POST", "transit/keys/another", r#"{"type":"rsa-2048"}"#),
        (true, "POST", "transit/keys/rsa/rotate", ""),
        (false, "POST", "transit/hash", r#"{"input":"aGk="}"#),
        (true, "POST", "transit/hash", &format!(r#"{{"input":"{large}"}}"#)),
        (true, "POST", "sys/tools/hash", &format!(r#"{{"input":"{large}"}}"#)),
        (true, "PUT", "sys/policies/acl/p", &policy(2_000)),
        (true, "POST", "sys/capabilities-self", &paths),
        (true, "GET", "sys/mounts", ""),
        (true, "GET", "sys/internal/specs/openapi", ""),
        (true, "GET", "sys/internal/ui/resultant-acl", ""),
        (true, "GET", "identity/entity/id?list=true", ""),
        (true, "GET", "sys/auth", ""),
        (true, "GET", "sys/metrics", ""),
    ] {
        let before = server.core.offloaded();
        let reply = server.ask(method, path, body);
        assert!(reply.status < 300 || reply.status == 404, "{path}: {}", reply.text());
        let handed = server.core.offloaded() - before;
        assert_eq!(handed, u64::from(is_heavy), "{method} {path}");
    }
}

#[test]
fn a_token_whose_policies_have_to_be_compiled_is_judged_beside_the_workers_once() {
    let server = Running::start();
    let put = server.ask("PUT", "sys/policies/acl/many", &policy(2_000));
    assert_eq!(put.status, 204, "{}", put.text());
    let made = server.ask("POST", "auth/token/create", r#"{"policies":["many"]}"#);
    let token = made.text_at("auth/client_token");
    let token = [("X-Vault-Token", token.trim_matches('"'))];
    let handed = |path: &str| {
        let before = server.core.offloaded();
        let reply = server.connect().ask_with("GET", path, &token, "");
        assert_eq!(reply.status, if path.contains("honest") { 403 } else { 404 }, "{path}");
        server.core.offloaded() - before
    };
    let asked = ["secret/data/1/a", "secret/data/honest", "secret/data/2/a"];
    assert_eq!(asked.map(handed), [1, 0, 0]);
    server.ask("PUT", "sys/policies/acl/other", &policy(1));
    assert_eq!(asked.map(handed), [1, 0, 0]);
}

#[test]
fn a_token_with_thousands_of_patterns_side_by_side_is_always_judged_beside_the_workers() {
    let server = Running::start();
    let rule = |at| format!(r#"path \"secret/+/{at}/+/a\" {{ policy = \"read\" }} "#);
    let rules = format!(r#"{{"policy":"{}"}}"#, (0..3_000).map(rule).collect::<String>());
    assert_eq!(server.ask("PUT", "sys/policies/acl/wide", &rules).status, 204);
    let made = server.ask("POST", "auth/token/create", r#"{"policies":["wide"]}"#);
    let token = made.text_at("auth/client_token");
    let token = [("X-Vault-Token", token.trim_matches('"'))];
    for _ in 0..2 {
        let before = server.core.offloaded();
        let reply = server.connect().ask_with("GET", "secret/data/1/b/a", &token, "");
        assert_eq!((reply.status, server.core.offloaded() - before), (404, 1));
    }
}

#[test]
fn the_worker_serves_others_while_heavy_requests_wait() {
    let server = with_keys();
    let occupied = Occupied::of(&server);
    let before = server.core.offloaded();
    // Four on one connection each; those of one worker would hold it if they ran there.
    let mut asking: Vec<Connection> = (0..4)
        .map(|_| {
            let mut connection = server.connect();
            connection.send(&request("POST", "transit/sign/rsa", &root(), r#"{"input":"aGk="}"#));
            connection
        })
        .collect();
    eventually("they are handed over", || server.core.offloaded() == before + 4);
    for _ in 0..20 {
        assert_eq!(server.ask("GET", "sys/health", "").status, 200);
        assert_eq!(server.ask("GET", "secret/data/honest", "").status, 200);
    }
    drop(occupied);
    for connection in &mut asking {
        assert_eq!(connection.receive().unwrap().status, 200);
    }
}

#[test]
fn who_goes_away_is_worked_for_no_longer() {
    let server = with_keys();
    let rsa = batch(50_000, r#"{"input":"aGk="}"#);
    // A minute's work, on either way of reading requests: a long body is hyper's, a short one `direct`'s.
    let mut long = server.connect();
    long.send(&request("POST", "transit/sign/rsa", &root(), &rsa));
    let computations = &server.core.admission().computations;
    eventually("it is worked on", || computations.held() == 1);
    drop(long);
    eventually("it ends with its client", || computations.held() == 0);
    let occupied = Occupied::of(&server);
    let others = computations.held();
    let mut short = server.connect();
    short.send(&request("POST", "transit/keys/aes/rotate", &root(), ""));
    eventually("it waits", || computations.held() == others + 1);
    drop(short);
    eventually("its worker knows", || server.core.admission().requests.held() == 0);
    drop(occupied);
    eventually("nothing is left", || computations.held() == 0);
    let key = server.ask("GET", "transit/keys/aes", "");
    assert_eq!(key.text_at("data/latest_version"), "1", "nobody asked for another any more");
}

#[test]
fn what_is_asked_while_an_answer_is_waited_for_is_answered_after_it() {
    let server = with_keys();
    let occupied = Occupied::of(&server);
    let before = server.core.offloaded();
    let mut connection = server.connect();
    connection.send(&request("GET", "sys/mounts", &root(), ""));
    eventually("it is handed over", || server.core.offloaded() == before + 1);
    let read = request("GET", "secret/data/honest", &root(), "");
    let (half, rest) = read.split_at(20);
    connection.send(&[&request("GET", "sys/health", &[], ""), half].concat());
    // Others are served meanwhile, and the worker has seen what came.
    (0..20).for_each(|_| server.assert_serves());
    drop(occupied);
    assert!(connection.receive().unwrap().text().contains("secret/"));
    assert!(connection.receive().unwrap().text().contains("initialized"));
    connection.send(rest);
    assert!(connection.receive().unwrap().text().contains("still"));
}

#[test]
fn a_client_with_much_to_do_leaves_others_their_turns() {
    let server = with_keys();
    let rsa = batch(50_000, r#"{"input":"aGk="}"#);
    let noisy: Vec<Connection> = (0..8)
        .map(|_| {
            let mut connection = server.connect();
            connection.send(&request("POST", "transit/sign/rsa", &root(), &rsa));
            connection
        })
        .collect();
    let computations = &server.core.admission().computations;
    eventually("they are worked on", || computations.held() == 8);
    // The same token at another address, and another token at the same: both before a minute's work is done.
    let mut other = server.connect_from(OTHER);
    assert_eq!(other.ask("POST", "transit/sign/rsa", r#"{"input":"aGk="}"#).status, 200);
    let made = server.ask("POST", "auth/token/create", "").text_at("auth/client_token");
    let token = [("X-Vault-Token", made.trim_matches('"'))];
    let body = r#"{"input":"aGk="}"#;
    let reply = server.connect().ask_with("POST", "transit/sign/rsa", &token, body);
    assert_eq!(reply.status, 200);
    assert_eq!(computations.held(), 8, "the others are not done yet");
    drop(noisy);
    eventually("they end with their client", || computations.held() == 0);
}

#[test]
fn when_too_much_waits_a_client_is_told_to_come_again_and_another_is_not() {
    use kallisto_core::admission::AdmissionLimits;
    use kallisto_listener::Timeouts;
    let limits = AdmissionLimits { computations_max: 20, ..AdmissionLimits::default() };
    let server = Running::start_limited(Timeouts::default(), &limits);
    let occupied = Occupied::of(&server);
    let mut waiting = Vec::new();
    let refused = loop {
        let before = server.core.admission().computations.held();
        let mut connection = server.connect();
        connection.send(&request("GET", "sys/mounts", &root(), ""));
        let computations = &server.core.admission().computations;
        eventually("it has a place or is refused", || {
            computations.held() > before || computations.refused() > 0
        });
        if computations.refused() > 0 {
            break connection.receive().unwrap();
        }
        waiting.push(connection);
    };
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let mut other = server.connect_from(OTHER);
    other.send(&request("GET", "sys/mounts", &root(), ""));
    let before = waiting.len();
    drop(occupied);
    assert_eq!(other.receive().unwrap().status, 200);
    for mut connection in waiting {
        assert_eq!(connection.receive().unwrap().status, 200);
    }
    assert!(before > 2, "{before}");
}
