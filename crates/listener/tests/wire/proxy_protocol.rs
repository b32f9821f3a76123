//! Clients behind a proxy that passes bytes on: the address of its header is theirs.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use kallisto_core::AddressRange;
use kallisto_core::admission::AdmissionLimits;
use kallisto_listener::{ProxyProtocol, Timeouts};
use socket2::{Domain, Socket, Type};

use crate::support::{Running, TOKEN};

/// The test's own address is the proxy's; this one is not.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn proxies(refuses_others: bool) -> ProxyProtocol {
    let authorized = [AddressRange::parse("127.0.0.1").unwrap()].into();
    ProxyProtocol { authorized, refuses_others }
}

/// A server behind proxies, and a token that is good at 203.0.113.0/24 alone.
fn start(refuses_others: bool) -> (Running, String) {
    let server = Running::start();
    let root = [("X-Vault-Token", TOKEN)];
    let mut connection = server.connect();
    let policy = r#"{"policy":"path \"*\" { capabilities = [\"read\"] }"}"#;
    assert_eq!(connection.ask_with("PUT", "sys/policy/all", &root, policy).status, 204);
    let role = r#"{"token_bound_cidrs":"203.0.113.0/24","allowed_policies":"all"}"#;
    assert_eq!(connection.ask_with("PUT", "auth/token/roles/r", &root, role).status, 204);
    let made = connection.ask_with("PUT", "auth/token/create/r", &root, r#"{"policies":["all"]}"#);
    let token = made.at("auth/client_token").as_str().unwrap().to_owned();
    drop(connection);
    (server.asking_proxies(proxies(refuses_others)), token)
}

/// What is answered to these bytes and a read with the token behind them, from an address of this machine.
fn ask(server: &Running, from: Ipv4Addr, header: &[u8], token: &str) -> String {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&server.address().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = format!(
        "GET /v1/auth/token/lookup-self HTTP/1.1\r\nhost: x\r\nx-vault-token: {token}\r\nconnection: close\r\n\r\n"
    );
    // A server that refuses a connection may close it before everything is sent.
    let _ = stream.write_all(&[header, request.as_bytes()].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

/// A header of version 2 for TCP over IPv4.
fn version_2(source: [u8; 4]) -> Vec<u8> {
    let addresses = [source.as_slice(), &[127, 0, 0, 1, 0x1f, 0x90, 0x20, 0x08]].concat();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &addresses].concat()
}

#[test]
fn the_address_in_the_header_of_a_proxy_is_the_clients() {
    let (server, token) = start(false);
    let own = Ipv4Addr::LOCALHOST;
    for (header, status) in [
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 8200\r\n".to_vec(), "HTTP/1.1 200 OK"),
        (b"PROXY TCP4 192.0.2.1 127.0.0.1 40000 8200\r\n".to_vec(), "HTTP/1.1 403 Forbidden"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "HTTP/1.1 403 Forbidden"),
        (version_2([203, 0, 113, 7]), "HTTP/1.1 200 OK"),
        (version_2([192, 0, 2, 1]), "HTTP/1.1 403 Forbidden"),
        // Without a header nobody is served.
        (Vec::new(), ""),
    ] {
        assert_eq!(ask(&server, own, &header, &token), status, "{header:?}");
    }
    // Somebody else says the same, and is not believed; without it, it speaks for itself.
    let said = ask(&server, STRANGER, b"PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n", &token);
    assert_eq!(said, "HTTP/1.1 400 Bad Request");
    assert_eq!(ask(&server, STRANGER, b"", &token), "HTTP/1.1 403 Forbidden");
    assert_eq!(ask(&server, STRANGER, b"", TOKEN), "HTTP/1.1 200 OK");
}

#[test]
fn who_is_no_proxy_is_not_served_where_only_proxies_are() {
    let (server, token) = start(true);
    let header = version_2([203, 0, 113, 7]);
    assert_eq!(ask(&server, Ipv4Addr::LOCALHOST, &header, &token), "HTTP/1.1 200 OK");
    assert_eq!(ask(&server, STRANGER, &header, &token), "");
    assert_eq!(ask(&server, STRANGER, b"", TOKEN), "");
}

#[test]
fn a_proxy_that_says_nothing_keeps_no_other_waiting_and_no_stop() {
    let (server, token) = start(false);
    let silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let header = version_2([203, 0, 113, 7]);
    assert_eq!(ask(&server, Ipv4Addr::LOCALHOST, &header, &token), "HTTP/1.1 200 OK");
    server.stop();
    drop(silent);
}

/// Whoever is named as a proxy, or stands behind its address, opens no more connections than anybody else, header or none.
#[test]
fn a_connection_that_waits_for_its_header_takes_a_place() {
    let limits = AdmissionLimits {
        connections_max: 50,
        connections_reserved: 5,
        ..AdmissionLimits::default()
    };
    let server = Running::start_limited(Timeouts::default(), &limits);
    let server = server.asking_proxies(proxies(false));
    let silent: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    silent.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    // One address gets four fifths of those that are not reserved. Who waits for a header is closed without a word after a while.
    let refused = loop {
        let (mut refused, mut waiting) = (0, 0);
        let mut told = [0; 12];
        for stream in &silent {
            match stream.peek(&mut told) {
                Ok(_) if told == *b"HTTP/1.1 503" => refused += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => waiting += 1,
                Ok(_) | Err(_) => {}
            }
            told = [0; 12];
        }
        if refused >= 24 || waiting == 0 {
            break refused;
        }
        std::thread::yield_now();
    };
    assert!(refused >= 24, "{refused}");
}
