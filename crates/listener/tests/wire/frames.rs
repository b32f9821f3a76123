//! HTTP/2 by its frames, and which version of HTTP a connection is spoken to in.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kallisto_listener::Timeouts;
use kallisto_tls_client::ServerTrust;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::support::{Running, TOKEN, request};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Of a frame of headers: no body follows, and all of them are in it.
const WHOLE: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Fields as they are, none of them remembered (RFC 7541, section 6.2.2).
fn fields(all: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in all {
        bytes.push(0);
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).unwrap());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

fn begin(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// The payload of the next frame of headers: its first byte is the status, where a table has that.
fn next_headers(stream: &mut impl Read) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == HEADERS {
            return payload;
        }
    }
}

/// What HPACK has for `:status: 200` and `:status: 400` (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;
const STATUS_400: u8 = 0x8c;

#[test]
fn who_sends_frames_and_no_requests_is_ended() {
    // Longer than is waited for.
    let head = Duration::from_secs(60);
    let server = Running::start_with(Timeouts { head, ..Timeouts::default() });
    for (what, bytes) in [
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("pings", frame(PING, 0, 0, b"12345678")),
        ("priorities", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
    ] {
        let mut stream = begin(server.address());
        let mut replies = stream.try_clone().unwrap();
        let reading = thread::spawn(move || {
            let mut room = [0; 1 << 16];
            loop {
                match replies.read(&mut room) {
                    Ok(1..) => {}
                    Ok(0) => return true,
                    Err(error) => return error.kind() != ErrorKind::WouldBlock,
                }
            }
        });
        // Some of it may be with the kernel still when the connection ends.
        let many = bytes.repeat(1_000);
        let _ = (0..100).try_for_each(|_| stream.write_all(&many));
        assert!(reading.join().unwrap(), "{what}");
    }
    server.assert_serves();
}

#[test]
fn requests_with_frames_of_their_own_are_served_however_many_there_are() {
    let server = Running::start();
    let mut stream = begin(server.address());
    let head = fields(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/v1/sys/health"),
        (":authority", "h"),
    ]);
    let of_request = [
        frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]),
        frame(PING, 0, 0, b"12345678"),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
    ]
    .concat();
    for at in 0..3_000 {
        stream.write_all(&frame(HEADERS, WHOLE, 2 * at + 1, &head)).unwrap();
        stream.write_all(&of_request).unwrap();
        assert_eq!(next_headers(&mut stream)[0], STATUS_200, "{at}");
    }
}

#[test]
fn a_body_in_parts_is_taken() {
    let server = Running::start();
    let mut stream = begin(server.address());
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1/secret/data/parts"),
        (":authority", "h"),
        ("x-vault-token", TOKEN),
    ]);
    stream.write_all(&frame(HEADERS, 4, 1, &head)).unwrap();
    for part in [&br#"{"data":{"a":""#[..], &[b'x'; 40_000], br#""}}"#] {
        for part in part.chunks(100) {
            stream.write_all(&frame(DATA, 0, 1, part)).unwrap();
        }
    }
    stream.write_all(&frame(DATA, 1, 1, &[])).unwrap();
    assert_eq!(next_headers(&mut stream)[0], STATUS_200);
}

#[test]
fn a_host_that_is_none_or_another_than_the_authority_is_refused() {
    let server = Running::start();
    let mut stream = begin(server.address());
    for (at, (authority, host, expected)) in [
        (Some("h:1"), None, STATUS_200),
        (Some("h:1"), Some("H:1"), STATUS_200),
        (None, Some("h"), STATUS_200),
        (Some("h:1"), Some("evil"), STATUS_400),
        (None, Some("a b@c/"), STATUS_400),
        (Some("u@h"), None, STATUS_400),
    ]
    .into_iter()
    .enumerate()
    {
        let mut all = vec![(":method", "GET"), (":scheme", "http"), (":path", "/v1/sys/health")];
        all.extend(authority.map(|authority| (":authority", authority)));
        all.extend(host.map(|host| ("host", host)));
        let stream_id = 2 * u32::try_from(at).unwrap() + 1;
        stream.write_all(&frame(HEADERS, WHOLE, stream_id, &fields(&all))).unwrap();
        let status = next_headers(&mut stream)[0];
        assert_eq!(status, expected, "{authority:?} {host:?}");
    }
}

/// What comes first within TLS, up to nine bytes, when a client agrees on one of these and says that.
fn told(address: SocketAddr, protocols: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut config = ServerTrust::Anyone.client_config(None).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(bytes).unwrap();
    let mut came = Vec::new();
    match stream.take(9).read_to_end(&mut came) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("{protocols:?}: no answer"),
        Err(_) => {}
    }
    came
}

#[test]
fn within_tls_the_version_that_was_agreed_on_is_spoken_and_no_other() {
    let server = Running::start().within_tls();
    let address = server.address();
    let two = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    // Of both readers of HTTP/1.1.
    let plain = request("GET", "sys/health", &[], "");
    let other = request("GET", "sys/health", &[("TE", "trailers")], "");
    let is_one = |came: &[u8]| came == b"HTTP/1.1 ";
    let is_two = |came: &[u8]| came.len() == 9 && came[3] == SETTINGS;
    for (protocols, speaks_one, speaks_two) in [
        (&["h2"][..], false, true),
        (&["h2", "http/1.1"], false, true),
        (&["http/1.1"], true, false),
        (&[], true, false),
    ] {
        for bytes in [&plain, &other] {
            assert_eq!(is_one(&told(address, protocols, bytes)), speaks_one, "{protocols:?}");
        }
        assert_eq!(is_two(&told(address, protocols, &two)), speaks_two, "{protocols:?}");
    }
}
