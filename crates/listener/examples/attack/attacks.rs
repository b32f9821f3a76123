//! The attacks: each runs until it is told to stop, from `127.0.0.1`.

use std::io::{BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{self, connect, request};

/// Connections of those that hold many.
const MANY: usize = 12_000;
/// Connections of those that ask as fast as they can, and the threads that drive them.
const BUSY: usize = 1_000;
const THREADS: usize = 4;
/// Names in the folder that is listed.
pub(crate) const NAMES: usize = 100_000;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    pub(crate) resp: SocketAddr,
    /// A token that may read.
    pub(crate) token: String,
}

/// The names of all attacks.
pub(crate) const NAMED: [&str; 9] = [
    "slowloris",
    "silent-tls",
    "half-tls",
    "resp-unread",
    "http-unread",
    "logins",
    "paths",
    "lists",
    "tenant",
];

/// Runs an attack until `stop`.
pub(crate) fn run(name: &str, target: &Target, stop: &AtomicBool) {
    let token = &target.token;
    match name {
        "slowloris" => slowloris(target, stop),
        "silent-tls" => hold(target.https, b"", stop),
        // The first bytes of a hello, whose rest never comes.
        "half-tls" => hold(target.https, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], stop),
        "resp-unread" => {
            let auth = format!("AUTH {token}\r\n");
            let asked = "GET large\r\n".repeat(1_000);
            unread(target.resp, auth.as_bytes(), asked.as_bytes(), stop);
        }
        "http-unread" => {
            let asked = request("GET", "secret/data/large", token, "").repeat(100);
            unread(target.http, b"", &asked, stop);
        }
        "logins" => busy(target.http, stop, |_| {
            request("POST", "auth/userpass/login/nobody", "", r#"{"password":"wrong"}"#)
        }),
        "paths" => busy(target.http, stop, |turn| {
            let path = format!("secret/data/flood/{:x}", turn.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            request("POST", &path, token, r#"{"data":{"a":"b"}}"#)
        }),
        "lists" => busy(target.http, stop, |_| request("LIST", "secret/metadata/many", token, "")),
        "tenant" => {
            busy(target.http, stop, |_| request("GET", "secret/data/noisy", token, ""));
        }
        other => eprintln!("no attack is called {other}"),
    }
}

fn is_over(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Opens as many connections as the server takes.
fn open_many(to: SocketAddr, first: &[u8], stop: &AtomicBool) -> Vec<TcpStream> {
    let mut held = Vec::new();
    while held.len() < MANY && !is_over(stop) {
        let Ok(mut stream) = connect(Ipv4Addr::LOCALHOST, to) else { break };
        let _ = stream.write_all(first);
        held.push(stream);
    }
    held
}

/// Holds connections and opens those anew that the server ended.
fn hold(to: SocketAddr, first: &[u8], stop: &AtomicBool) {
    let mut held = open_many(to, first, stop);
    while !is_over(stop) {
        for stream in &mut held {
            let _ = stream.set_nonblocking(true);
            let ended = match stream.peek(&mut [0]) {
                Ok(_) => true,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if ended && let Ok(mut anew) = connect(Ipv4Addr::LOCALHOST, to) {
                let _ = anew.write_all(first);
                *stream = anew;
            }
            if is_over(stop) {
                return;
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Sends heads byte by byte.
fn slowloris(target: &Target, stop: &AtomicBool) {
    let begin = b"GET /v1/secret/data/noisy HTTP/1.1\r\nHost: a\r\nX: ";
    let mut held = open_many(target.http, begin, stop);
    while !is_over(stop) {
        for stream in &mut held {
            if stream.write_all(b"a").is_err()
                && let Ok(mut anew) = connect(Ipv4Addr::LOCALHOST, target.http)
            {
                let _ = anew.write_all(begin);
                *stream = anew;
            }
            if is_over(stop) {
                return;
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Asks for more and more, and reads none of it.
fn unread(to: SocketAddr, first: &[u8], asked: &[u8], stop: &AtomicBool) {
    let mut held = Vec::new();
    while !is_over(stop) {
        while held.len() < BUSY {
            let Ok(mut stream) = connect(Ipv4Addr::LOCALHOST, to) else { break };
            let _ = stream.write_all(first);
            let _ = stream.set_nonblocking(true);
            held.push(stream);
        }
        held.retain_mut(|stream| match stream.write(asked) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks as fast as it is answered, on all connections.
fn busy(to: SocketAddr, stop: &AtomicBool, asked: impl Fn(u64) -> Vec<u8> + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let asked = &asked;
            scope.spawn(move || {
                let mut turn = thread as u64;
                let mut held: Vec<Option<BufReader<TcpStream>>> =
                    (0..BUSY / THREADS).map(|_| None).collect();
                while !is_over(stop) {
                    for place in &mut held {
                        if place.is_none() {
                            *place = connect(Ipv4Addr::LOCALHOST, to).ok().map(BufReader::new);
                        }
                        turn += THREADS as u64;
                        let bytes = asked(turn);
                        if let Some(reader) = place
                            && reader.get_mut().write_all(&bytes).is_err()
                        {
                            *place = None;
                        }
                    }
                    for place in &mut held {
                        if is_over(stop) {
                            return;
                        }
                        if let Some(reader) = place
                            && client::reply(reader).is_err()
                        {
                            *place = None;
                        }
                    }
                }
            });
        }
    });
}
