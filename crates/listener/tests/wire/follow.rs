//! Answers that take time, over a socket: conditional reads, waiting reads, streams.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Running, TOKEN, request};

const AS_ROOT: (&str, &str) = ("X-Vault-Token", TOKEN);

#[test]
fn a_read_that_names_its_tag_is_answered_without_a_body() {
    let server = Running::start();
    server.ask("POST", "secret/data/a", r#"{"data":{"k":"v"}}"#);
    server.ask("POST", "sys/mounts/one", r#"{"type":"kv"}"#);
    server.ask("POST", "one/a", r#"{"k":"v"}"#);
    for path in ["secret/data/a", "secret/data/a?version=1", "one/a"] {
        let mut connection = server.connect();
        let tag = connection.ask("GET", path, "").header("etag").unwrap().to_owned();
        let mut ask = |known: &str| {
            connection.ask_with("GET", path, &[AS_ROOT, ("If-None-Match", known)], "")
        };
        let known = ask(&tag);
        assert_eq!(
            (known.status, known.header("etag"), &*known.body),
            (304, Some(&*tag), &b""[..])
        );
        assert_eq!(known.header("cache-control"), Some("no-store"));
        assert_eq!(ask(&format!("\"x\", W/{tag}")).status, 304);
        assert_eq!(ask("\"x\"").status, 200);
        // Without the right there is no telling whether the tag fits.
        let denied = connection.ask_with("GET", path, &[("If-None-Match", &tag)], "");
        assert_eq!(denied.status, 403);
    }
    // What the answer shows is in the tag: data, custom metadata, deletion.
    let mut tags = Vec::new();
    for (method, path, body) in [
        ("POST", "secret/data/a", r#"{"data":{"k":"w"}}"#),
        ("POST", "secret/metadata/a", r#"{"custom_metadata":{"a":"b"}}"#),
        ("POST", "secret/metadata/a", r#"{"delete_version_after":"1h"}"#),
        ("POST", "secret/data/a", r#"{"data":{"k":"w"}}"#),
    ] {
        server.ask(method, path, body);
        tags.push(server.ask("GET", "secret/data/a", "").header("etag").unwrap().to_owned());
    }
    let distinct: std::collections::BTreeSet<_> = tags.iter().collect();
    assert_eq!(distinct.len(), tags.len(), "{tags:?}");
    let tag = tags.last().unwrap();
    server.clock.advance(Duration::from_secs(3601));
    let mut connection = server.connect();
    let gone = connection.ask_with("GET", "secret/data/a", &[AS_ROOT, ("If-None-Match", tag)], "");
    assert_eq!((gone.status, gone.header("etag")), (404, None));
}

#[test]
fn a_waiting_read_is_answered_by_the_write_it_waits_for() {
    let server = Running::start();
    let first = server.ask("GET", "secret/data/a?wait=30s", "");
    assert_eq!(first.status, 404);
    let index = first.header("x-kallisto-index").unwrap().to_owned();
    let mut waiting = server.connect();
    let path = format!("secret/data/a?wait=30s&index={index}");
    waiting.send(&request("GET", &path, &[AS_ROOT], ""));
    let mut short = server.connect();
    let unchanged = short.ask("GET", &format!("secret/data/b?wait=50ms&index={index}"), "");
    assert_eq!(unchanged.status, 404);
    server.ask("POST", "secret/data/a", r#"{"data":{"k":"v"}}"#);
    let reply = waiting.receive().unwrap();
    assert_eq!((reply.status, reply.text_at("data/data")), (200, r#"{"k":"v"}"#.to_owned()));
    let later: u64 = reply.header("x-kallisto-index").unwrap().parse().unwrap();
    assert!(later > index.parse().unwrap());
    assert_eq!(server.ask("GET", "secret/data/a?wait=5m", "").status, 400);
    // A plain read pays for none of this.
    assert_eq!(server.ask("GET", "secret/data/a", "").header("x-kallisto-index"), None);
}

/// The bytes of a stream up to and with `end`.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(end) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

#[test]
fn a_stream_sends_each_change_as_it_comes_and_ends_with_the_server() {
    let server = Running::start();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let path = "sys/kallisto/kv/watch?path=secret/app/";
    stream.write_all(&request("GET", path, &[AS_ROOT], "")).unwrap();
    let head = read_until(&mut stream, "event: ready");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for line in ["content-type: text/event-stream\r\n", "transfer-encoding: chunked\r\n"] {
        assert!(head.to_lowercase().contains(line), "{head}");
    }
    server.ask("POST", "secret/data/other", r#"{"data":{"k":"hidden"}}"#);
    server.ask("POST", "secret/data/app/db", r#"{"data":{"k":"hidden"}}"#);
    let sent = read_until(&mut stream, "\"version\":1}\n\n");
    assert!(sent.contains("event: put\nid: "), "{sent}");
    assert!(sent.contains(r#"{"path":"secret/app/db","version":1}"#), "{sent}");
    assert!(!sent.contains("other") && !sent.contains("hidden"), "{sent}");
    let ended = std::thread::spawn(move || read_until(&mut stream, "0\r\n\r\n"));
    server.stop();
    assert!(ended.join().unwrap().contains("the server stops"));
}

#[test]
fn a_stream_with_nothing_to_say_ends_when_its_client_does() {
    let server = Running::start();
    // The second is hyper's.
    for more in [&[][..], &[("TE", "trailers")]] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // Before it says that it lives.
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let headers = [&[AS_ROOT], more].concat();
        let path = "sys/kallisto/kv/watch?path=secret/app/";
        stream.write_all(&request("GET", path, &headers, "")).unwrap();
        read_until(&mut stream, "event: ready");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(
            !matches!(ended, Err(std::io::ErrorKind::WouldBlock)),
            "it goes on for nobody: {more:?}"
        );
    }
}
