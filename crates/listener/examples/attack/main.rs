//! Attacks on a running server, and what somebody else notices of them.
//!
//! ```console
//! $ cargo run --release -p kallisto-listener --example attack -- PID HTTP HTTPS RESP ROOT_TOKEN [NAME...]
//! ```
//!
//! `HTTP`, `HTTPS` and `RESP` are addresses such as `127.0.0.1:8200`, `PID` the server's process. Each attack
//! lasts twelve seconds; a victim at another address of this machine reads its own secret 200 times a
//! second, before, during and after. For attacks on TLS the victim makes a new connection for each
//! request, 50 a second. A line says the victim's latencies and the server's memory.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for whoever measures")]

mod attacks;
mod client;
mod victim;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use attacks::{NAMED, NAMES, Target};
use client::{ask, request};
use victim::{Fare, Habit};

const CALM: Duration = Duration::from_secs(4);
const ATTACK: Duration = Duration::from_secs(12);
/// What the server gets to forget an attack before memory and victim are looked at again.
const REST: Duration = Duration::from_secs(6);
const VICTIM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pid, http, https, resp, root, names @ ..] = words.as_slice() else {
        eprintln!("attack PID HTTP HTTPS RESP ROOT_TOKEN [NAME...]");
        std::process::exit(1);
    };
    let address = |text: &String| -> SocketAddr { text.parse().unwrap() };
    let http = address(http);
    let (noisy, quiet) = prepare(http, root, names);
    let target = Target { http, https: address(https), resp: address(resp), token: noisy };
    let all: Vec<String> = NAMED.iter().map(|name| (*name).to_owned()).collect();
    println!(
        "attack       | victim p50/p99/max ms: before | during | after | refused before/during/after | MiB before/most/after"
    );
    for name in if names.is_empty() { &all } else { names } {
        measure(name, &target, &quiet, pid);
    }
}

/// Makes what the attacks and the victim need; their tokens.
fn prepare(http: SocketAddr, root: &str, names: &[String]) -> (String, String) {
    let put = |path: &str, body: &str| {
        let (status, reply) = ask(http, &request("POST", path, root, body)).unwrap();
        // What is mounted already is fine.
        assert!(status < 300 || status == 400, "{path}: {}", String::from_utf8_lossy(&reply));
        reply
    };
    put(
        "sys/policies/acl/all",
        r#"{"policy":"path \"secret/*\" { capabilities = [\"create\",\"read\",\"update\",\"list\"] }"}"#,
    );
    put("sys/auth/userpass", r#"{"type":"userpass"}"#);
    let large = "x".repeat(500_000);
    put("secret/data/large", &format!(r#"{{"data":{{"value":"{large}"}}}}"#));
    for name in ["noisy", "quiet"] {
        put(&format!("secret/data/{name}"), r#"{"data":{"value":"s3cr3t"}}"#);
    }
    if names.is_empty() || names.iter().any(|name| name == "lists") {
        for number in 0..NAMES / 1_000 {
            let writes: Vec<String> = (0..1_000)
                .map(|at| {
                    format!(
                        r#"{{"path":"secret/data/many/{number:03}-{at:03}","data":{{"a":"b"}}}}"#
                    )
                })
                .collect();
            let body = format!(r#"{{"writes":[{}]}}"#, writes.join(","));
            put("sys/kallisto/kv/write", &body);
        }
    }
    let token = || {
        let reply = put("auth/token/create", r#"{"policies":["all"]}"#);
        let text = String::from_utf8(reply).unwrap();
        let (_, rest) = text.split_once("\"client_token\":\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    (token(), token())
}

fn measure(name: &str, target: &Target, token: &str, pid: &str) {
    let over_tls = name.ends_with("-tls");
    let habit = Habit {
        from: VICTIM,
        to: if over_tls { target.https } else { target.http },
        request: request("GET", "secret/data/quiet", token, ""),
        rate: if over_tls { 50 } else { 200 },
        tls: over_tls.then(client::trusting),
    };
    let memory_before = resident_mib(pid);
    let before = habit.live(CALM);
    let (stop, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let during = std::thread::scope(|scope| {
        scope.spawn(|| attacks::run(name, target, &stop));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(resident_mib(pid), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let fare = habit.live(ATTACK);
        stop.store(true, Ordering::Relaxed);
        fare
    });
    std::thread::sleep(REST);
    let after = habit.live(CALM);
    let shown = |fare: &Fare| {
        let [p50, p99, max] = [500, 990, 1000].map(|per_mille| fare.millis(per_mille));
        format!("{p50:.2}/{p99:.2}/{max:.1}")
    };
    println!(
        "{name:12} | {} | {} ({} answered) | {} | {}/{}/{} | {memory_before}/{}/{}",
        shown(&before),
        shown(&during),
        during.count(),
        shown(&after),
        before.errors,
        during.errors,
        after.errors,
        most.load(Ordering::Relaxed),
        resident_mib(pid),
    );
}

/// The memory of the server in RAM.
fn resident_mib(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}
