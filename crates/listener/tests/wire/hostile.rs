//! What no honest client sends: each gets a clear refusal, costs little, and the next honest
//! request is served as if nothing had happened.

use std::io::Write;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kallisto_listener::Timeouts;

use crate::support::{Connection, Reply, Running, TOKEN, memory_growth, request, use_much_memory};

const MIB: usize = 1 << 20;
/// What a test may let the memory of this process grow by beside what it asks for itself; other
/// tests run in it at the same time.
const MEMORY_SLACK_BYTES: u64 = 96 << 20;
/// Timeouts short enough to be waited for, and longer than an honest client is kept from sending on a busy machine.
const SHORT: Timeouts = Timeouts { head: SOON, idle: SOON, body: SOON };
/// One of them.
const SOON: Duration = Duration::from_secs(1);

/// Holds a reply to the form of a refusal: this status, and a list of errors or nothing.
fn assert_refused(what: &str, reply: Option<Reply>, status: u16) {
    let reply = reply.unwrap_or_else(|| panic!("{what}: no reply"));
    assert_eq!(reply.status, status, "{what}: {}", reply.text());
    let empty = reply.body.is_empty();
    assert!(empty || reply.text().starts_with(r#"{"errors":["#), "{what}: {}", reply.text());
}

/// The head of a write of `secret/data/x`, with these header lines and no length of its own.
fn put_head(lines: &str) -> Vec<u8> {
    let head = "POST /v1/secret/data/x HTTP/1.1\r\nHost: test\r\nX-Vault-Token: ";
    format!("{head}{TOKEN}\r\n{lines}\r\n").into_bytes()
}

fn put_with(lines: &str, body: &str) -> Vec<u8> {
    let mut bytes = put_head(lines);
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

#[test]
fn json_nested_too_deep_is_refused() {
    let server = Running::start();
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let nested = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        let body = format!(r#"{{"data":{{"a":{nested}}}}}"#);
        let reply = server.ask("POST", "secret/data/deep", &body);
        assert_refused(open, Some(reply), 400);
        let unclosed = format!(r#"{{"data":{}"#, open.repeat(100_000));
        assert_refused(open, Some(server.ask("POST", "secret/data/deep", &unclosed)), 400);
    }
    assert_eq!(server.ask("GET", "secret/data/deep", "").status, 404);
    server.assert_serves();
}

#[test]
fn a_body_over_the_limit_is_refused_and_costs_bounded_memory() {
    const BODY_BYTES: usize = 33 * MIB;
    let server = Running::start();
    let piece = vec![b' '; 64 << 10];
    let growth = memory_growth(|| {
        // With a length: refused before a byte of it is read.
        let head = put_head(&format!("Content-Length: {BODY_BYTES}\r\n"));
        assert_refused("declared", server.tell(&head), 413);
        // In chunks, whose sum nobody declared, three of them at a time.
        thread::scope(|scope| {
            for _ in 0..3 {
                let mut connection = server.connect();
                let piece = &piece;
                scope.spawn(move || {
                    connection.send(&put_head("Transfer-Encoding: chunked\r\n"));
                    let mut writer = connection.writer();
                    for _ in 0..BODY_BYTES / piece.len() + 1 {
                        let size = format!("{:x}\r\n", piece.len());
                        let sent = writer
                            .write_all(size.as_bytes())
                            .and_then(|()| writer.write_all(piece))
                            .and_then(|()| writer.write_all(b"\r\n"));
                        if sent.is_err() {
                            break;
                        }
                    }
                    assert_refused("chunked", connection.receive(), 413);
                });
            }
        });
    });
    // A body that grows to its limit is copied once on the way: twice the limit, three times.
    let bound = 3 * 2 * (32 << 20) + MEMORY_SLACK_BYTES;
    assert!(growth < bound, "grew by {growth} bytes");
    // A stored entry has a limit of its own.
    let entry = format!(r#"{{"data":{{"k":"{}"}}}}"#, "v".repeat(2 * MIB));
    assert_refused("entry", Some(server.ask("POST", "secret/data/x", &entry)), 413);
    server.assert_serves();
}

/// D16: most clients send everything before they read anything.
#[test]
fn who_sends_a_body_over_the_limit_whole_hears_that_it_was() {
    const BODY_BYTES: usize = 33 * MIB;
    let _alone = use_much_memory();
    let server = Running::start();
    let body = " ".repeat(BODY_BYTES);
    let length = format!("Content-Length: {BODY_BYTES}\r\n");
    let chunked = format!("{BODY_BYTES:x}\r\n{body}\r\n0\r\n\r\n");
    for (lines, body) in [
        (length.clone(), &body),
        // Asks whether it may, and does not wait for the answer.
        (format!("{length}Expect: 100-continue\r\n"), &body),
        ("Transfer-Encoding: chunked\r\n".to_owned(), &chunked),
    ] {
        let mut connection = server.connect();
        let mut writer = connection.writer();
        writer.write_all(&put_head(&lines)).unwrap();
        writer.write_all(body.as_bytes()).unwrap_or_else(|error| panic!("{lines}: {error}"));
        let mut reply = connection.receive();
        if reply.as_ref().is_some_and(|reply| reply.status == 100) {
            reply = connection.receive();
        }
        let says_close =
            reply.as_ref().and_then(|reply| reply.header("connection")) == Some("close");
        assert!(says_close, "{lines}: {reply:?}");
        assert_refused(&lines, reply, 413);
    }
    // And whoever is refused before the body is looked at, or whose head is no head.
    for (head, status) in [
        (format!("POST /v2/a HTTP/1.1\r\nHost: test\r\n{length}\r\n"), 404),
        (format!("POST /v1/a//b HTTP/1.1\r\nHost: test\r\n{length}\r\n"), 307),
        (format!("POST /v1/a HTTP/1.1\r\nHost: test\r\nbad line\r\n{length}\r\n"), 400),
        (format!("POST /v1/a HTTP/1.1\r\nHost: test\r\n{}\r\n", "A: b\r\n".repeat(70)), 431),
    ] {
        let mut connection = server.connect();
        let mut writer = connection.writer();
        writer.write_all(head.as_bytes()).unwrap();
        writer.write_all(body.as_bytes()).unwrap_or_else(|error| panic!("{head}: {error}"));
        assert_eq!(connection.receive().map(|reply| reply.status), Some(status), "{head}");
    }
    server.assert_serves();
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let server = Running::start();
    for path in [
        "secret/data/../x",
        "secret/data/..",
        "../v1/sys/mounts",
        "secret/data/%2e%2e/x",
        "secret/data/%2E%2e%2Fx",
        "secret/data/./x",
        "secret/data/a%2f%2fb",
        "secret/data/a%00b",
        "secret/data/a%0d%0ab",
        "secret/data/%7f",
        "secret/data/a%5cb",
        "secret/data/%ff",
        "secret/data/%c0%ae%c0%ae/x",
        "secret/data/%ed%a0%80",
        "secret/data/%zz",
        "secret/data/%",
        "%2e%2e/%2e%2e/etc/passwd",
    ] {
        assert_refused(path, Some(server.ask("GET", path, "")), 400);
        assert_refused(path, Some(server.ask("POST", path, r#"{"data":{}}"#)), 400);
    }
    let reply = server.ask("POST", "secret/data/a//b", r#"{"data":{}}"#);
    assert_eq!((reply.status, reply.header("location")), (307, Some("/v1/secret/data/a/b")));
    // Bytes no target may hold; the framing refuses them.
    for byte in [b"\0", b"\x01", b"\x7f"] {
        let mut bytes = b"GET /v1/secret/data/a".to_vec();
        bytes.extend_from_slice(byte);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_refused("raw byte", server.tell(&bytes), 400);
    }
    for bytes in [&b"GET /v1/secret/data/\xff\xfe"[..], b"GET /v1/secret/data/\xc3\x28"] {
        let rest = format!(" HTTP/1.1\r\nHost: test\r\nX-Vault-Token: {TOKEN}\r\n\r\n");
        let reply = server.tell(&[bytes, rest.as_bytes()].concat());
        assert_refused("raw bytes that are not UTF-8", reply, 400);
    }
    server.assert_serves();
}

#[test]
fn long_paths_and_floods_of_headers_are_refused() {
    let server = Running::start();
    for (bytes, statuses) in [(1_100, [400, 400]), (30_000, [400, 400]), (100_000, [414, 431])] {
        let path = format!("secret/data/{}", "a".repeat(bytes));
        let status = server.ask("GET", &path, "").status;
        assert!(statuses.contains(&status), "{bytes}: {status}");
    }
    let many: String = (0..1_000).map(|at| format!("X-H{at}: v\r\n")).collect();
    assert_refused("many headers", server.tell(&put_head(&many)), 431);
    let long = format!("X-Long: {}\r\n", "v".repeat(100_000));
    assert_refused("a long header", server.tell(&put_head(&long)), 431);
    let query = format!("secret/metadata/?{}", "a=b&".repeat(2_000));
    assert_refused("many parameters", Some(server.ask("LIST", &query, "")), 400);
    server.assert_serves();
}

#[test]
fn verbs_and_request_lines_that_are_not_ours_are_refused() {
    let server = Running::start();
    for verb in ["TRACE", "FOO", "PROPFIND", "get", "CONNECTX", "HEAD"] {
        let mut connection = server.connect();
        connection.send(&request(verb, "secret/data/a", &[("X-Vault-Token", TOKEN)], ""));
        assert_refused(verb, connection.receive_for(verb), 405);
    }
    for line in [
        "GET",
        "GET /v1/secret/data/a",
        "GET /v1/secret/data/a HTTP/9.9",
        "GET  /v1/secret/data/a  HTTP/1.1",
        "G\0T /v1/x HTTP/1.1",
        "GET /v1/x HTTP/1.1\r\nNo colon here",
        "GET /v1/x HTTP/1.1\r\nBad Name: v",
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03",
    ] {
        let reply = server.tell(format!("{line}\r\n\r\n").as_bytes());
        assert_refused(line, reply, 400);
    }
    server.assert_serves();
}

#[test]
fn hosts_and_targets_that_can_be_read_in_two_ways_are_refused() {
    let server = Running::start();
    let head = |target: &str, host: &str, more: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Vault-Token: {TOKEN}\r\n{more}\r\n")
    };
    // For both readers of HTTP/1.1.
    for more in ["", "TE: trailers\r\n"] {
        for (target, host, status) in [
            ("/v1/secret/data/none", "h:8200", 404),
            ("/v1/secret/data/none", "[::1]:8200", 404),
            ("/v1/secret/data/none", "a b@c/", 400),
            ("/v1/secret/data/none", "u@h", 400),
            ("/v1/secret/data/none", "h:port", 400),
            ("/v1/secret/data/none#part", "h", 400),
            ("/v1/secret/data/none?version=1#part", "h", 400),
            ("//\\evil.com//x", "h", 400),
            ("/v1//secret\\data/none", "h", 400),
            ("/v1//secret/data/none", "h", 307),
        ] {
            let reply = server.tell(head(target, host, more).as_bytes()).expect("a reply");
            assert_eq!(reply.status, status, "{target} {host}: {}", reply.text());
        }
    }
    let asked = server.tell(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").expect("a reply");
    assert_eq!((asked.status, asked.body.len()), (204, 0));
    server.assert_serves();
}

#[test]
fn lengths_that_lie_are_refused() {
    let server = Running::start();
    let body = r#"{"data":{"k":"v"}}"#;
    for lines in [
        "Content-Length: abc\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +18\r\n",
        "Content-Length: 18, 19\r\n",
        "Content-Length: 0x12\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 18\r\nContent-Length: 19\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
    ] {
        assert_refused(lines, server.tell(&put_with(lines, body)), 400);
    }
    for chunks in ["zz\r\nabc\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "3\r\nabcdef\r\n"] {
        let bytes = put_with("Transfer-Encoding: chunked\r\n", chunks);
        assert_refused(chunks, server.tell(&bytes), 400);
    }
    assert_eq!(server.ask("GET", "secret/data/x", "").status, 404, "nothing was written");
    server.assert_serves();
}

/// The chunks are the body, as RFC 9112 (section 6.3) orders, and the connection ends after the
/// reply: what follows the body in anybody's reading is no request here.
#[test]
fn chunks_outrank_a_length_and_nothing_is_smuggled() {
    let server = Running::start();
    let smuggled = request("DELETE", "secret/data/x", &[("X-Vault-Token", TOKEN)], "");
    let chunked = "12\r\n{\"data\":{\"k\":\"v\"}}\r\n0\r\n\r\n";
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(&[put_with(lines, chunked), smuggled.clone()].concat());
        assert_eq!(connection.receive().unwrap().status, 200);
        assert!(connection.receive().is_none(), "the connection is closed");
        let got = server.ask("GET", "secret/data/x", "");
        assert_eq!((got.status, got.text_at("data/data").as_str()), (200, r#"{"k":"v"}"#));
    }
    server.assert_serves();
}

#[test]
fn chunked_bodies_and_expectations_are_served() {
    let server = Running::start();
    let mut connection = server.connect();
    for chunks in [
        "12\r\n{\"data\":{\"k\":\"v\"}}\r\n0\r\n\r\n",
        "1\r\n{\r\n8;name=value\r\n\"data\":{\r\n9\r\n\"k\":\"v\"}}\r\n0\r\nTrailer: t\r\n\r\n",
    ] {
        connection.send(&put_with("Transfer-Encoding: chunked\r\n", chunks));
        assert_eq!(connection.receive().unwrap().status, 200, "{chunks}");
        let got = connection.ask("GET", "secret/data/x", "");
        assert_eq!(got.text_at("data/data"), r#"{"k":"v"}"#);
    }
    // The body is sent only when it is asked for.
    connection.send(&put_head("Content-Length: 18\r\nExpect: 100-continue\r\n"));
    assert_eq!(connection.receive().unwrap().status, 100);
    connection.send(br#"{"data":{"k":"w"}}"#);
    assert_eq!(connection.receive().unwrap().status, 200);
    assert_eq!(connection.ask("GET", "secret/data/x", "").text_at("data/data"), r#"{"k":"w"}"#);
    // And it is not asked for when it would be too large.
    let lines = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 33 * MIB);
    assert_refused("too large to expect", server.tell(&put_head(&lines)), 413);
    // A body in an encoding nobody decodes.
    let gzip = put_with("Content-Length: 3\r\nContent-Encoding: gzip\r\n", "abc");
    assert_refused("gzip", server.tell(&gzip), 415);
    // None at all, however that is said.
    for none in ["identity", "Identity", ""] {
        let lines = format!("Content-Length: 18\r\nContent-Encoding: {none}\r\n");
        let reply = server.tell(&put_with(&lines, r#"{"data":{"k":"w"}}"#)).unwrap();
        assert_eq!(reply.status, 200, "{none:?}");
    }
    server.assert_serves();
}

#[test]
fn requests_sent_by_half_are_ended_by_their_timeout() {
    let server = Running::start_with(SHORT);
    // Nothing, or what may still become a head: the connection ends without a reply.
    for half in [
        &b""[..],
        b"P",
        b"PRI * HTT",
        b"GET /v1/sec",
        b"GET /v1/secret/data/a HTTP/1.1\r\nHost: te",
    ] {
        let mut connection = server.connect();
        connection.send(half);
        assert!(connection.receive().is_none(), "{}", String::from_utf8_lossy(half));
    }
    // Half a body: there is a request to answer.
    let half = put_with("Content-Length: 18\r\n", r#"{"data":"#);
    assert_refused("half a body", server.tell(&half), 408);
    let half = put_with("Transfer-Encoding: chunked\r\n", "12\r\n{\"data\":");
    assert_refused("half a chunk", server.tell(&half), 408);
    // The other side hung up in the middle of it.
    let mut connection = server.connect();
    connection.send(&put_with("Content-Length: 18\r\n", r#"{"data":"#));
    connection.finish();
    if let Some(reply) = connection.receive() {
        assert_refused("cut body", Some(reply), 400);
    }
    assert_eq!(server.ask("GET", "secret/data/x", "").status, 404, "nothing was written");
    server.assert_serves();
}

#[test]
fn a_token_that_ends_while_a_body_is_on_its_way_is_not_taken() {
    let server = Running::start();
    let made = server.ask("POST", "auth/token/create", r#"{"ttl":"30s"}"#);
    let token = made.text_at("auth/client_token").trim_matches('"').to_owned();
    let body = r#"{"data":{"k":"v"}}"#;
    let head = format!(
        "PUT /v1/secret/data/x HTTP/1.1\r\nHost: test\r\nX-Vault-Token: {token}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    for (wait, status) in [(20, 200), (20, 403)] {
        let mut connection = server.connect();
        connection.send(head.as_bytes());
        // The server has begun with the request and waits for its body.
        assert_eq!(connection.receive().unwrap().status, 100);
        server.clock.advance(Duration::from_secs(wait));
        connection.send(body.as_bytes());
        assert_eq!(connection.receive().unwrap().status, status);
    }
}

#[test]
fn a_connection_is_used_again_and_closed_on_request() {
    let server = Running::start();
    let mut connection = server.connect();
    for number in 0..100 {
        let body = format!(r#"{{"data":{{"n":{number}}}}}"#);
        assert_eq!(connection.ask("POST", "secret/data/kept", &body).status, 200);
        // Refusals do not cost the connection.
        assert_eq!(connection.ask("POST", "secret/data/kept", "{").status, 400);
        let got = connection.ask("GET", "secret/data/kept", "");
        assert_eq!(got.text_at("data/data"), format!(r#"{{"n":{number}}}"#));
    }
    let headers = [("X-Vault-Token", TOKEN), ("Connection", "close")];
    assert_eq!(connection.ask_with("GET", "secret/data/kept", &headers, "").status, 200);
    assert!(connection.receive().is_none(), "the connection is closed");
    server.assert_serves();
}

/// A thousand requests at once from a client that reads none of the replies until all are sent.
/// All are answered in order, and unread replies (256 KiB each) do not pile up in memory.
#[test]
fn a_thousand_pipelined_requests_with_a_slow_reader_are_answered_in_order() {
    const REQUESTS: usize = 1_000;
    const VALUE_BYTES: usize = 256 << 10;
    let server = Running::start();
    for number in 0..10 {
        let value = number.to_string().repeat(VALUE_BYTES);
        let body = format!(r#"{{"data":{{"v":"{value}"}}}}"#);
        assert_eq!(server.ask("POST", &format!("secret/data/big/{number}"), &body).status, 200);
    }
    let growth = memory_growth(|| {
        let mut connection = server.connect();
        let mut writer = connection.writer();
        let sender = thread::spawn(move || {
            for number in 0..REQUESTS {
                let path = format!("secret/data/big/{}", number % 10);
                writer.write_all(&request("GET", &path, &[("X-Vault-Token", TOKEN)], "")).unwrap();
            }
        });
        // The requests fit the buffers of the kernel and the server, so the sender comes to its
        // end while nobody reads.
        sender.join().unwrap();
        for number in 0..REQUESTS {
            let reply = connection.receive().unwrap();
            assert_eq!(reply.status, 200);
            assert_eq!(reply.body.len() / VALUE_BYTES, 1);
            let digit = b'0' + u8::try_from(number % 10).unwrap();
            assert_eq!(reply.body[reply.body.len() / 2], digit, "reply {number}");
        }
    });
    // All replies together would be 250 MiB.
    assert!(growth < MEMORY_SLACK_BYTES, "grew by {growth} bytes");
    server.assert_serves();
}

#[test]
fn tokens_namespaces_and_wrapping_are_taken_or_refused() {
    let server = Running::start();
    let bearer = format!("Bearer {TOKEN}");
    let long = "t".repeat(10_000);
    for (headers, status) in [
        (&[("Authorization", bearer.as_str())][..], 200),
        (&[("Authorization", bearer.as_str()), ("X-Vault-Token", "wrong")], 403),
        (&[("Authorization", TOKEN)], 403),
        (&[("Authorization", "Bearer")], 403),
        (&[("Authorization", "Basic dDp0")], 403),
        (&[("X-Vault-Token", "")], 403),
        (&[("X-Vault-Token", long.as_str())], 403),
        (&[("X-Vault-Token", "\u{e9}")], 403),
        (&[], 403),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "root")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "root/")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "/")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "team")], 404),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "../root")], 404),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "\u{e9}")], 404),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Wrap-TTL", "0")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Wrap-TTL", "60")], 200),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Wrap-TTL", "-1")], 400),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Wrap-TTL", "soon")], 400),
        (&[("X-Vault-Token", TOKEN), ("X-Vault-Wrap-TTL", "99999999999999999999h")], 400),
    ] {
        let mut connection: Connection = server.connect();
        let reply = connection.ask_with("GET", "secret/data/honest", headers, "");
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
    }
    server.assert_serves();
}

#[test]
fn http_2_with_prior_knowledge_is_served() {
    let server = Running::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let driver = tokio::spawn(connection);
        let base = format!("http://{}/v1/", server.address());
        for (method, path, body, status, part) in [
            ("POST", "secret/data/h2", r#"{"data":{"over":"h2"}}"#, 200, r#""version":1"#),
            ("GET", "secret/data/h2", "", 200, r#""data":{"over":"h2"}"#),
            ("LIST", "secret/metadata", "", 200, r#""h2""#),
            ("POST", "secret/data/h2", "{", 400, "failed to decode JSON input"),
            ("FOO", "secret/data/h2", "", 405, r#"{"errors":[]}"#),
            ("DELETE", "secret/data/h2", "", 204, ""),
        ] {
            let request = hyper::Request::builder()
                .method(method)
                .uri(format!("{base}{path}"))
                .header("X-Vault-Token", TOKEN)
                .body(Full::new(Bytes::from(body)))
                .unwrap();
            let reply = client.send_request(request).await.unwrap();
            assert_eq!(reply.status(), status, "{method} {path}");
            assert_eq!(reply.headers()["cache-control"], "no-store");
            let bytes = reply.into_body().collect().await.unwrap().to_bytes();
            assert!(String::from_utf8_lossy(&bytes).contains(part), "{method} {path}: {bytes:?}");
        }
        // The limits of a head are those of HTTP/1.1.
        for (name, count, status) in [("a", 60, 200), ("a", 65, 431), ("host", 2, 400)] {
            let mut request = hyper::Request::builder().uri(format!("{base}sys/health"));
            for _ in 0..count {
                request = request.header(name, "b");
            }
            let request = request.body(Full::new(Bytes::new())).unwrap();
            let reply = client.send_request(request).await.unwrap();
            assert_eq!(reply.status(), status, "{count} of {name}");
        }
        // A body over the limit, announced by nobody.
        let body = Full::new(Bytes::from(vec![b' '; 33 * MIB]));
        let request = hyper::Request::builder()
            .method("POST")
            .uri(format!("{base}secret/data/h2"))
            .header("X-Vault-Token", TOKEN)
            .body(body)
            .unwrap();
        let reply = client.send_request(request).await.unwrap();
        assert_eq!(reply.status(), 413);
        drop(client);
        driver.abort();
    });
    server.assert_serves();
}
