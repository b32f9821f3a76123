//! Probes over real sockets: where they go, and where they do not. Servers and a name server of a test's own, at addresses of 127/8 and free ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, OpCode};
use hickory_resolver::proto::rr::rdata::{A, TXT};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use kallisto_engine::probe::PROBE_BODY_BYTES_MAX;
use kallisto_engine::{
    AddressRange, AllowedAddresses, Probe, ProbeAnswer, ProbeFailure, ProbeHost, ProbeKind,
    ProbeRunner, ProbeState,
};
use kallisto_probes::{Ports, Prober};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long a test waits for an outcome.
const PATIENCE: Duration = Duration::from_secs(30);
const HERE: &str = "127.0.0.1";
/// Another address of this machine, which no test permits.
const THERE: &str = "127.0.0.2";

type Outcome = Result<ProbeAnswer, ProbeFailure>;

/// A port where nobody listens, below those that the system gives to whoever asks for none or calls somebody (`ip_local_port_range` begins at 32768): it
/// is to be free at other addresses, and a moment later, too.
fn free_port() -> u16 {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let start = std::process::id() as usize * 97;
    let ports = std::iter::repeat_with(|| {
        let at = start + GIVEN.fetch_add(1, Ordering::Relaxed);
        u16::try_from(20_000 + at % 12_000).unwrap()
    });
    let mut free = ports.filter(|port| TcpListener::bind((HERE, *port)).is_ok());
    free.next().unwrap()
}

/// What is asked: a server, the ports, and the name server.
struct Place {
    prober: Prober,
    ports: Ports,
    resolver: Option<SocketAddr>,
}

impl Place {
    fn new() -> Self {
        let ports = Ports { http: free_port(), https: free_port() };
        Self { prober: Prober::at(ports), ports, resolver: None }
    }

    /// Says what names stand for: by the number of the question, and what is asked.
    fn with_names(
        mut self,
        answer: impl Fn(usize, &str, RecordType) -> Vec<RData> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        self.resolver = Some(socket.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut room = [0; 4096];
            let mut asked = 0;
            while let Ok((len, peer)) = socket.recv_from(&mut room) {
                let Ok(question) = Message::from_vec(&room[..len]) else { continue };
                let Some(query) = question.queries.first().cloned() else { continue };
                let mut reply = Message::response(question.metadata.id, OpCode::Query);
                let name = query.name().to_ascii().to_lowercase();
                for data in answer(asked, name.trim_end_matches('.'), query.query_type()) {
                    reply.add_answer(Record::from_rdata(query.name().clone(), 0, data));
                }
                if query.query_type() == RecordType::A {
                    asked += 1;
                }
                reply.add_query(query);
                let _ = socket.send_to(&reply.to_vec().unwrap(), peer);
            }
        });
        self
    }

    fn look(&self, id: &str, host: ProbeHost, what: ProbeKind, permitted: &[&str]) -> Outcome {
        let ranges = permitted.iter().map(|text| AddressRange::parse(text).unwrap()).collect();
        let destinations = AllowedAddresses { permitted: ranges, excluded: Vec::new() };
        let probe = Probe { host, what, resolver: self.resolver, destinations };
        assert!(self.prober.begin(id, probe));
        let begin = std::time::Instant::now();
        loop {
            match self.prober.take(id) {
                ProbeState::Done(outcome) => return outcome,
                ProbeState::UnderWay => assert!(begin.elapsed() < PATIENCE, "no outcome"),
                ProbeState::Unknown => panic!("it was begun"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn get(&self, id: &str, host: &str, permitted: &[&str]) -> Outcome {
        let host = match host.parse() {
            Ok(address) => ProbeHost::Address(address),
            Err(_) => ProbeHost::Name(host.to_owned()),
        };
        self.look(id, host, ProbeKind::Http { path: "/token".to_owned() }, permitted)
    }

    /// Serves at an address; how many connections there were.
    fn serve(
        &self,
        address: &str,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> Arc<AtomicUsize> {
        let listener = TcpListener::bind((address, self.ports.http)).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                converse(stream, &answer);
            }
        });
        count
    }
}

fn converse(mut stream: impl Read + Write, answer: &impl Fn(&str) -> String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let _ = stream.write_all(answer(&String::from_utf8_lossy(&head)).as_bytes());
    let _ = stream.flush();
}

fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

fn a(address: &str) -> RData {
    RData::A(A(address.parse::<Ipv4Addr>().unwrap()))
}

fn body(text: &str) -> Outcome {
    Ok(ProbeAnswer::Body(text.as_bytes().to_vec()))
}

#[test]
fn loopback_is_not_looked_at_without_leave_in_any_spelling() {
    let place = Place::new().with_names(|_, _, kind| match kind {
        RecordType::A => vec![a(HERE)],
        _ => Vec::new(),
    });
    let count = place.serve(HERE, |_| page("inside"));
    for (at, host) in
        [HERE, "::ffff:127.0.0.1", "64:ff9b::7f00:1", "here.test", "localhost"].iter().enumerate()
    {
        assert_eq!(place.get(&format!("a/{at}"), host, &[]), Err(ProbeFailure::Refused), "{host}");
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert_eq!(place.get("b", "here.test", &[HERE]), body("inside"));
    assert_eq!(place.get("c", HERE, &[HERE]), body("inside"));
}

#[test]
fn a_name_that_alternates_never_leads_to_where_it_may_not() {
    let place = Place::new().with_names(|asked, _, kind| match kind {
        RecordType::A if asked % 2 == 0 => vec![a(HERE)],
        RecordType::A => vec![a(THERE)],
        _ => Vec::new(),
    });
    place.serve(HERE, |_| page("here"));
    let there = place.serve(THERE, |_| page("there"));
    let outcomes: Vec<Outcome> =
        (0..20).map(|at| place.get(&format!("a/{at}"), "flip.test", &[HERE])).collect();
    assert!(outcomes.contains(&body("here")), "{outcomes:?}");
    assert!(outcomes.contains(&Err(ProbeFailure::Refused)), "{outcomes:?}");
    let is_either =
        |outcome: &Outcome| [body("here"), Err(ProbeFailure::Refused)].contains(outcome);
    assert!(outcomes.iter().all(is_either), "{outcomes:?}");
    assert_eq!(there.load(Ordering::Relaxed), 0);
}

#[test]
fn a_name_that_is_half_where_it_may_not_be_is_not_looked_at_at_all() {
    let place = Place::new().with_names(|_, _, kind| match kind {
        RecordType::A => vec![a(HERE), a("169.254.169.254")],
        _ => Vec::new(),
    });
    let count = place.serve(HERE, |_| page("here"));
    assert_eq!(place.get("a", "half.test", &[HERE]), Err(ProbeFailure::Refused));
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_redirect_leads_to_no_other_port_scheme_or_forbidden_address() {
    let place = Place::new().with_names(|_, name, kind| match (name, kind) {
        ("there.test", RecordType::A) => vec![a(THERE)],
        (_, RecordType::A) => vec![a(HERE)],
        _ => Vec::new(),
    });
    let there = place.serve(THERE, |_| page("there"));
    let own = TcpListener::bind((HERE, 0)).unwrap();
    let own_port = own.local_addr().unwrap().port();
    own.set_nonblocking(true).unwrap();
    let port = place.ports.http;
    let targets = [
        ("http://169.254.169.254/latest/meta-data", ProbeFailure::Refused),
        ("http://[::ffff:169.254.169.254]/", ProbeFailure::Refused),
        ("https://169.254.169.254/", ProbeFailure::Refused),
        ("http://there.test/", ProbeFailure::Refused),
        ("//there.test/", ProbeFailure::Refused),
        ("http://user@here.test/", ProbeFailure::BadRedirect),
        ("file:///etc/passwd", ProbeFailure::BadRedirect),
        ("gopher://here.test/", ProbeFailure::BadRedirect),
        ("http://", ProbeFailure::BadRedirect),
        ("", ProbeFailure::BadRedirect),
    ];
    let mut all: Vec<(String, ProbeFailure)> =
        targets.iter().map(|(to, failure)| ((*to).to_owned(), *failure)).collect();
    all.push((format!("http://127.0.0.1:{own_port}/v1/sys/seal"), ProbeFailure::BadRedirect));
    all.push((format!("https://here.test:{port}/"), ProbeFailure::BadRedirect));
    let told = all.clone();
    let next = AtomicUsize::new(0);
    place.serve(HERE, move |_| redirect(&told[next.fetch_add(1, Ordering::Relaxed)].0));
    for (at, (to, failure)) in all.iter().enumerate() {
        let outcome = place.get(&format!("a/{at}"), "here.test", &[HERE]);
        assert_eq!(outcome, Err(*failure), "{to}");
    }
    assert_eq!(there.load(Ordering::Relaxed), 0);
    assert!(own.accept().is_err(), "nobody knocked at another port");
}

#[test]
fn a_redirect_without_a_host_is_read_beside_where_it_was_found() {
    let place = Place::new();
    let targets = [
        ("b", "/b"),
        ("./b/c", "/b/c"),
        ("../b?c=/d:e", "/b?c=/d:e"),
        ("b/", "/b/"),
        ("b/..", "/"),
        ("?c", "/token?c"),
        ("/a/./b/../c", "/a/c"),
        ("/a:b", "/a:b"),
        ("HTTP://127.0.0.1/b", "/b"),
    ];
    let next = AtomicUsize::new(0);
    place.serve(HERE, move |head| match next.fetch_add(1, Ordering::Relaxed) {
        at if at % 2 == 0 => redirect(targets[at / 2].0),
        _ => page(head.split(' ').nth(1).unwrap_or_default()),
    });
    for (at, (to, path)) in targets.iter().enumerate() {
        assert_eq!(place.get(&format!("a/{at}"), HERE, &[HERE]), body(path), "{to}");
    }
}

#[test]
fn redirects_are_followed_ten_times_and_no_more() {
    let place = Place::new();
    let count = place.serve(HERE, |_| redirect("/again"));
    assert_eq!(place.get("a", HERE, &[HERE]), Err(ProbeFailure::TooManyRedirects));
    assert_eq!(count.load(Ordering::Relaxed), 11);
}

#[test]
fn what_is_too_long_or_no_page_is_a_failure_of_its_own() {
    let place = Place::new();
    let next = AtomicUsize::new(0);
    place.serve(HERE, move |_| match next.fetch_add(1, Ordering::Relaxed) {
        0 => page(&"x".repeat(PROBE_BODY_BYTES_MAX)),
        1 => page(&"x".repeat(PROBE_BODY_BYTES_MAX + 1)),
        2 => format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20)),
        3 => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        4 => format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
        _ => "SSH-2.0-OpenSSH\r\n".to_owned(),
    });
    assert_eq!(place.get("0", HERE, &[HERE]), body(&"x".repeat(PROBE_BODY_BYTES_MAX)));
    assert_eq!(place.get("1", HERE, &[HERE]), Err(ProbeFailure::TooLong));
    assert_eq!(place.get("2", HERE, &[HERE]), Err(ProbeFailure::TooLong));
    assert_eq!(place.get("3", HERE, &[HERE]), Err(ProbeFailure::Status(404)));
    assert_eq!(place.get("4", HERE, &[HERE]), Err(ProbeFailure::NoHttp));
    assert_eq!(place.get("5", HERE, &[HERE]), Err(ProbeFailure::NoHttp));
    assert_eq!(place.get("6", THERE, &[THERE]), Err(ProbeFailure::NoConnection));
}

#[test]
fn an_ipv6_address_stands_in_brackets_where_a_host_is_named() {
    let place = Place::new();
    let Ok(listener) = TcpListener::bind(("::1", place.ports.http)) else {
        eprintln!("no IPv6 here");
        return;
    };
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        converse(stream, &|head: &str| page(head));
    });
    let Ok(ProbeAnswer::Body(head)) = place.get("a", "::1", &["::1"]) else { panic!("no body") };
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.contains("host: [::1]\r\n"), "{head}");
    serving.join().unwrap();
}

/// A TLS server's settings, with a certificate that signs itself.
fn tls(protocols: &[&[u8]]) -> (Arc<ServerConfig>, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["here.test".to_owned()]).unwrap();
    let der = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![der.clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    (Arc::new(config), der.to_vec())
}

fn serve_tls(port: u16, config: Arc<ServerConfig>, text: &'static str) {
    let listener = TcpListener::bind((HERE, port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream: StreamOwned<ServerConnection, TcpStream> =
                StreamOwned::new(connection, stream);
            converse(stream, &|_: &str| page(text));
        }
    });
}

#[test]
fn a_redirect_to_https_is_followed_though_its_certificate_signs_itself() {
    let place = Place::new().with_names(|_, _, kind| match kind {
        RecordType::A => vec![a(HERE)],
        _ => Vec::new(),
    });
    place.serve(HERE, |_| redirect("https://here.test/token"));
    serve_tls(place.ports.https, tls(&[b"http/1.1"]).0, "by https");
    assert_eq!(place.get("a", "here.test", &[HERE]), body("by https"));
}

#[test]
fn the_certificate_of_tls_alpn_is_taken_from_who_speaks_it_alone() {
    let look = |place: &Place, id: &str| {
        let host = ProbeHost::Address(IpAddr::from([127, 0, 0, 1]));
        let what = ProbeKind::TlsAlpn { server_name: "here.test".to_owned() };
        place.look(id, host, what, &[HERE])
    };
    let place = Place::new();
    let (config, der) = tls(&[b"acme-tls/1"]);
    serve_tls(place.ports.https, config, "");
    assert_eq!(look(&place, "a"), Ok(ProbeAnswer::Certificate(der)));
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let place = Place::new();
        serve_tls(place.ports.https, tls(protocols).0, "");
        assert_eq!(look(&place, "b"), Err(ProbeFailure::NoTls));
    }
}

#[test]
fn the_texts_of_a_name_are_read_whole_and_as_the_name_stands() {
    let place = Place::new().with_names(|_, name, kind| match (name, kind) {
        ("_acme-challenge.here.test", RecordType::TXT) => vec![
            RData::TXT(TXT::new(vec!["one".to_owned()])),
            RData::TXT(TXT::new(vec!["two, ".to_owned(), "in parts".to_owned()])),
        ],
        _ => Vec::new(),
    });
    let texts = |id: &str, name: &str| {
        place.look(id, ProbeHost::Name(name.to_owned()), ProbeKind::Texts, &[])
    };
    let found = vec![b"one".to_vec(), b"two, in parts".to_vec()];
    assert_eq!(texts("a", "_acme-challenge.here.test"), Ok(ProbeAnswer::Texts(found)));
    assert_eq!(texts("b", "_acme-challenge.there.test"), Err(ProbeFailure::NoName));
}

#[test]
fn one_account_leaves_room_for_others_and_one_mount_for_other_mounts() {
    let place = Place::new();
    // It takes connections and says nothing.
    let _silent = TcpListener::bind((HERE, place.ports.http)).unwrap();
    let begin = |id: &str| {
        let probe = Probe {
            host: ProbeHost::Address(IpAddr::from([127, 0, 0, 1])),
            what: ProbeKind::Http { path: "/".to_owned() },
            resolver: None,
            destinations: AllowedAddresses {
                permitted: vec![AddressRange::parse(HERE).unwrap()],
                excluded: Vec::new(),
            },
        };
        place.prober.begin(id, probe)
    };
    let begun = |mount: &str, account: usize| {
        (0..20).filter(|at| begin(&format!("{mount}/{account}/{at}"))).count()
    };
    assert_eq!(begun("one", 0), 8);
    assert_eq!(begun("one", 1), 8);
    assert_eq!((2..20).map(|account| begun("one", account)).sum::<usize>(), 32);
    assert_eq!((0..20).map(|account| begun("two", account)).sum::<usize>(), 16);
    assert!(begin("one/0/0"), "it is under way");
}
