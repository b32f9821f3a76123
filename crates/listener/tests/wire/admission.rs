//! Fewer places than clients: who gets in, who is told to come again, and what is held.
//!
//! Clients are told apart by their addresses; `127.0.0.0/8` is all on this machine, so a test has as many
//! as it likes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use kallisto_core::admission::AdmissionLimits;
use kallisto_core::json::Json;
use kallisto_listener::Timeouts;
use socket2::{Domain, Socket, Type};

use super::support::{
    Connection, Reply, Running, Silent, TOKEN, eventually, memory_growth, request,
};

const VICTIM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn root() -> [(&'static str, &'static str); 1] {
    [("X-Vault-Token", TOKEN)]
}

/// A server with few places.
fn small() -> Running {
    let limits = AdmissionLimits {
        connections_max: 100,
        connections_reserved: 10,
        requests_max: 50,
        requests_reserved: 5,
        ..AdmissionLimits::default()
    };
    Running::start_limited(Timeouts::default(), &limits)
}

/// A figure of the server, asked for from an address of its own.
fn figure(server: &Running, line: &str) -> u64 {
    let mut asking = server.connect_from(Ipv4Addr::new(127, 0, 0, 9));
    let text = asking.ask("GET", "sys/metrics?format=prometheus", "").text();
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    found.unwrap_or_else(|| panic!("no {line} in {text}")).trim().parse().unwrap()
}

#[test]
fn one_address_never_takes_every_connection() {
    let server = small();
    let mut held: Vec<Connection> = Vec::new();
    // Of the ninety that are not reserved one address gets four fifths.
    let refusal = loop {
        let mut connection = server.connect();
        connection.send(&request("GET", "sys/health", &[], ""));
        match connection.receive() {
            Some(reply) if reply.status == 200 => held.push(connection),
            refused => break refused,
        }
        assert!(held.len() < 100, "everything was taken");
    };
    assert!((70..=72).contains(&held.len()), "{}", held.len());
    if let Some(reply) = refusal {
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    }
    let mut victim = server.connect_from(VICTIM);
    assert_eq!(victim.ask("GET", "secret/data/honest", "").status, 200);
    assert!(figure(&server, "kallisto_admission_refused_total{kind=\"connections\"}") >= 1);
    drop(held);
    eventually("its places come back", || {
        figure(&server, "kallisto_admission_held{kind=\"connections\"}") <= 3
    });
    server.assert_serves();
}

#[test]
fn waiting_requests_of_one_client_leave_room_for_others_and_operators() {
    let server = small();
    let mut same = server.connect();
    let now = same.ask("GET", "secret/data/honest?wait=0s", "");
    let path =
        format!("secret/data/honest?wait=100s&index={}", now.header("x-kallisto-index").unwrap());
    // Each waits for a change that never comes, until there is no place for a write.
    let mut waiting: Vec<Connection> = Vec::new();
    let refused = loop {
        let mut connection = server.connect();
        connection.send(&request("GET", &path, &root(), ""));
        waiting.push(connection);
        // A worker may be long in reading it.
        let requests = &server.core.admission().requests;
        eventually("it waits or is refused", || {
            requests.held() >= waiting.len() || requests.refused() > 0
        });
        let reply = same.ask("POST", "secret/data/mine", r#"{"data":{}}"#);
        if reply.status != 200 {
            break reply;
        }
        assert!(waiting.len() < 60, "everything was taken");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    // Of the forty-five that are not reserved one address gets four fifths; who asks has a place too.
    let held = figure(&server, "kallisto_admission_held{kind=\"requests\"}");
    assert!((35..=38).contains(&held), "{held}");
    assert_eq!(same.ask("GET", "sys/health", "").status, 200, "operators have their own places");
    assert_eq!(same.ask("GET", "secret/data/honest", "").status, 200, "reads need none");
    let mut victim = server.connect_from(VICTIM);
    assert_eq!(victim.ask("POST", "secret/data/theirs", r#"{"data":{}}"#).status, 200);
}

#[test]
fn bodies_of_one_client_leave_room_for_those_of_others() {
    let limits = AdmissionLimits { body_bytes_max: 64 << 20, ..AdmissionLimits::default() };
    let server = Running::start_limited(Timeouts::default(), &limits);
    let part = vec![b'a'; 1 << 20];
    let mut held: Vec<TcpStream> = Vec::new();
    let grown = memory_growth(|| {
        // Four bodies of 16 MiB, of which the last MiB never comes: more than one client may hold.
        for _ in 0..4 {
            let mut writer = server.connect().writer();
            let head = format!(
                "POST /v1/secret/data/big HTTP/1.1\r\nHost: test\r\nX-Vault-Token: {TOKEN}\r\n\
                 Content-Length: {}\r\n\r\n",
                16 << 20
            );
            writer.write_all(head.as_bytes()).unwrap();
            // Fails when the server answers 429 and hangs up in the midst.
            let _ = (0..15).try_for_each(|_| writer.write_all(&part));
            held.push(writer);
        }
        let kind = "kallisto_admission_refused_total{kind=\"body_bytes\"}";
        eventually("one is refused", || figure(&server, kind) > 0);
        let mut victim = server.connect_from(VICTIM);
        let body = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(1 << 19));
        assert_eq!(victim.ask("POST", "secret/data/theirs", &body).status, 200);
    });
    assert!(grown < 256 << 20, "{grown}");
}

/// The names of a list.
fn keys(reply: &Reply) -> Vec<String> {
    let Json::Array(names) = reply.at("data/keys") else { panic!("{}", reply.text()) };
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_long_list_says_what_its_pages_say() {
    const COUNT: usize = 2_500;
    let server = Running::start();
    let mut client = server.connect();
    for number in 0..COUNT {
        let path = format!("secret/data/many/{number:05}");
        assert_eq!(client.ask("POST", &path, r#"{"data":{}}"#).status, 200);
    }
    let whole = client.ask("LIST", "secret/metadata/many", "");
    assert_eq!(whole.status, 200);
    let names = keys(&whole);
    assert_eq!(names.len(), COUNT);
    assert!(names.is_sorted());
    let path = "secret/metadata/many?list=true&after=01999&limit=600";
    assert_eq!(keys(&client.ask("GET", path, "")), names[2_000..]);
    let detailed = client.ask("LIST", "secret/detailed-metadata/many", "");
    assert_eq!(keys(&detailed).len(), COUNT);
    assert_eq!(detailed.text_at("data/key_info/01234/current_version"), "1");
    // Those, and the honest one's.
    assert_eq!(keys(&client.ask("SCAN", "secret/metadata/", "")).len(), COUNT + 1);
    let waited = client.ask("LIST", "secret/metadata/many?wait=1s", "");
    assert_eq!(waited.status, 400, "{}", waited.text());
    assert_eq!(client.ask("LIST", "secret/metadata/none", "").status, 404);
}

/// Opens a connection that takes next to nothing before it is read from.
fn narrow(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn replies_that_nobody_reads_are_held_for_all_not_for_each() {
    const BUDGET: u64 = 128 << 10;
    /// More than the budget has room for when each leaves one reply untaken.
    const CLIENTS: usize = 24;
    let limits = AdmissionLimits { reply_bytes_max: BUDGET as usize, ..AdmissionLimits::default() };
    let server = Running::start_limited(Timeouts::default(), &limits);
    let body = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(6_000));
    assert_eq!(server.ask("POST", "secret/data/usual", &body).status, 200);
    let asked: Arc<[u8]> = request("GET", "secret/data/usual", &root(), "").repeat(100).into();
    let mut silent: Vec<Silent> =
        (0..CLIENTS).map(|_| Silent::new(narrow(server.address()), &asked)).collect();
    let held = "kallisto_admission_held{kind=\"reply_bytes\"}";
    let refused = "kallisto_admission_refused_total{kind=\"reply_bytes\"}";
    eventually("somebody gets no share", || {
        silent.retain_mut(Silent::push);
        assert!(figure(&server, held) <= BUDGET);
        figure(&server, refused) > 0
    });
    eventually("whoever got none is hung up on", || {
        silent.retain_mut(Silent::push);
        silent.len() < CLIENTS
    });
    assert!(figure(&server, held) > 0);
    // Others are served meanwhile, and what the silent held comes back with them.
    let mut victim = server.connect_from(VICTIM);
    assert_eq!(victim.ask("GET", "secret/data/usual", "").status, 200);
    drop(silent);
    eventually("what they held comes back", || figure(&server, held) == 0);
    server.assert_serves();
}

#[test]
fn who_never_takes_a_reply_holds_no_more_than_its_part() {
    let limits = AdmissionLimits { reply_bytes_max: 64 << 20, ..AdmissionLimits::default() };
    let server = Running::start_limited(Timeouts::default(), &limits);
    let value = "x".repeat(1_000_000);
    let body = format!(r#"{{"data":{{"a":"{value}"}}}}"#);
    assert_eq!(server.ask("POST", "secret/data/large", &body).status, 200);
    let mut silent: Vec<TcpStream> = Vec::new();
    let grown = memory_growth(|| {
        let asked = request("GET", "secret/data/large", &root(), "").repeat(100);
        for _ in 0..100 {
            let writer = server.connect().writer();
            (&writer).write_all(&asked).unwrap();
            silent.push(writer);
        }
        let mut victim = server.connect_from(VICTIM);
        assert_eq!(victim.ask("GET", "secret/data/large", "").status, 200);
    });
    assert!(grown < 320 << 20, "{grown}");
    // There was room for some of them; whose answers came first is not said, as they are made beside the worker.
    let is_served = |stream: &mut TcpStream| {
        let mut first = [0; 12];
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // Who got no share was hung up on.
        stream.read_exact(&mut first).is_ok() && &first == b"HTTP/1.1 200"
    };
    assert!(silent.iter_mut().any(is_served));
}
