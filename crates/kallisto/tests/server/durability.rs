//! Modes at run time, and clients that do nothing.
//!
//! That a save and a switch to strict bring everything to the disk first needs a disk that forgets:
//! `kallisto-store` has one and tests it there.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Directory, Server, share_of};

const POLICY: &str = r#"{"policy":"path \"sys/durability\" { capabilities = [\"read\", \"update\"] }\npath \"sys/save\" { capabilities = [\"update\"] }"}"#;
const SUDO_POLICY: &str = r#"{"policy":"path \"sys/durability\" { capabilities = [\"read\", \"update\", \"sudo\"] }\npath \"sys/save\" { capabilities = [\"update\", \"sudo\"] }"}"#;

#[test]
fn modes_change_while_it_runs_for_those_who_may() {
    let directory = Directory::new("modes");
    let config = directory.config("durability = \"strict\"");
    let server = Server::start(&directory, &config);
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let mut root = server.client(&keys.root);
    let mode = |client: &mut crate::support::Client| {
        let reply = client.get("sys/durability").good();
        [reply.at("data.mode"), reply.at("data.ops"), reply.at("data.interval_ms")].join(" ")
    };
    assert_eq!(mode(&mut root), "strict 0 0");
    // As much as the configuration takes.
    root.put("sys/durability", r#"{"mode":"batch","ops":10000000,"interval":"1h"}"#);
    assert_eq!(mode(&mut root), "batch 10000000 3600000");
    root.put("sys/durability", r#"{"mode":"batch","ops":500,"interval":"2s"}"#);
    assert_eq!(mode(&mut root), "batch 500 2000");
    root.put("sys/save", "");
    for bad in [
        r#"{"mode":"never"}"#,
        r#"{}"#,
        r#"{"mode":"batch","ops":0}"#,
        r#"{"mode":"batch","ops":10000001}"#,
        r#"{"mode":"batch","interval":"0s"}"#,
        r#"{"mode":"batch","interval":"2h"}"#,
    ] {
        assert_eq!(root.send("PUT", "sys/durability", bad).status, 400, "{bad}");
    }
    assert_eq!(mode(&mut root), "batch 500 2000");

    root.put("sys/policies/acl/some", POLICY);
    root.put("sys/policies/acl/all", SUDO_POLICY);
    let token = |client: &mut crate::support::Client, policy: &str| {
        let body = format!(r#"{{"policies":["{policy}"],"no_default_policy":true}}"#);
        client.put("auth/token/create", &body).at("auth.client_token")
    };
    let (some, all) = (token(&mut root, "some"), token(&mut root, "all"));
    let mut some = server.client(&some);
    for (method, path) in
        [("GET", "sys/durability"), ("PUT", "sys/durability"), ("PUT", "sys/save")]
    {
        assert_eq!(some.send(method, path, r#"{"mode":"strict"}"#).status, 403, "{method} {path}");
    }
    assert_eq!(mode(&mut root), "batch 500 2000");
    let mut all = server.client(&all);
    all.put("sys/save", "");
    all.put("sys/durability", r#"{"mode":"strict"}"#);
    assert_eq!(mode(&mut all), "strict 0 0");

    // The configuration says how a server starts; what an operator said ends with the process.
    all.put("sys/durability", r#"{"mode":"batch"}"#);
    server.end(Signal::KILL);
    let server = Server::start(&directory, &config);
    server.unseal(&keys);
    assert_eq!(mode(&mut server.client(&keys.root)), "strict 0 0");
}

#[test]
fn those_who_stop_in_the_middle_block_nobody() {
    /// More than the threads that serve.
    const IDLE: usize = 40;
    let directory = Directory::new("idle");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(3, 2);
    let idle: Vec<TcpStream> = (0..IDLE)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let body = share_of(&keys.shares[0]);
            let head = format!(
                "PUT /v1/sys/unseal HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let half = match number % 4 {
                0 => String::new(),
                1 => head[..head.len() / 2].to_owned(),
                2 => head,
                _ => format!("{head}{}", &body[..body.len() / 2]),
            };
            stream.write_all(half.as_bytes()).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    // One share, then a pause by another operator: who has given one holds nothing up either.
    server.anyone().put("sys/unseal", &share_of(&keys.shares[0]));
    let mut other = server.anyone();
    assert_eq!(other.get("sys/seal-status").at("progress"), "1");
    server.unseal(&keys);
    let mut root = server.client(&keys.root);
    root.put("sys/mounts/kv", r#"{"type":"kv"}"#);
    root.put("kv/a", r#"{"a":"b"}"#);
    root.put("sys/seal", "");
    server.unseal(&keys);
    assert_eq!(root.get("kv/a").at("data.a"), "b");
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    assert_eq!(idle.len(), IDLE);
    drop(idle);
    server.stop();
}
