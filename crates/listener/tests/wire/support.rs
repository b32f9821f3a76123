//! A server of a test's own on a free port, and a client that sends bytes as they are given.
//!
//! The client speaks HTTP/1.1 over a plain socket: no method, path or length is corrected on the
//! way, and no reply is hidden.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kallisto_core::admission::AdmissionLimits;
use kallisto_core::json::{self, Json};
use kallisto_core::{Core, EngineSet, RouteAccess, ServerInfo, set_engines};
use kallisto_listener::http::{ForwardedFor, HttpService};
use kallisto_listener::{
    ClientAuth, Frontend, ListenSettings, ListenerTls, ProxyProtocol, Server, Timeouts, TlsFiles,
    TlsVersions, WallClock,
};
use kallisto_store::{MemoryStore, Store};
use socket2::{Domain, Socket, Type};

/// The root token of every server here.
pub(crate) const TOKEN: &str = "the-root-token-of-these-tests";
/// Longest a reply may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the clock of every server starts: some second of 2026.
const START_SECS: i64 = 1_795_290_463;

/// A clock that moves when it is told to.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    /// Moves the clock on.
    pub(crate) fn advance(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl WallClock for ManualClock {
    fn now(&self) -> Timestamp {
        let nanos = self.0.load(Ordering::Relaxed);
        Timestamp::from_second(START_SECS).unwrap() + SignedDuration::from_nanos(nanos)
    }

    #[expect(clippy::disallowed_methods, reason = "how long requests take is not what is tested")]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// A core with the engines of the server.
pub(crate) fn whole_core(store: Arc<dyn Store>, info: ServerInfo) -> Core {
    set_engines(EngineSet {
        engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
        identity_oidc: &kallisto_engines::IDENTITY_OIDC,
    });
    Core::new(store, info)
}

/// A free port of this machine, and two workers.
fn settings() -> ListenSettings {
    ListenSettings {
        address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        workers: NonZeroUsize::new(2).unwrap(),
        tls: None,
        proxies: ProxyProtocol::default(),
    }
}

/// A running server and its clock.
pub(crate) struct Running {
    server: Server,
    /// What answers.
    pub(crate) core: Arc<Core>,
    /// What the server takes for the time.
    pub(crate) clock: Arc<ManualClock>,
}

impl Running {
    /// A dev server: KV v2 at `secret/`, the root token is [`TOKEN`].
    pub(crate) fn start() -> Self {
        Self::start_with(Timeouts::default())
    }

    /// The same with timeouts of the test's choice.
    pub(crate) fn start_with(timeouts: Timeouts) -> Self {
        Self::start_limited(timeouts, &AdmissionLimits::default())
    }

    /// The same, holding no more for its clients than this.
    pub(crate) fn start_limited(timeouts: Timeouts, limits: &AdmissionLimits) -> Self {
        let running = Self::launch(timeouts, limits, |core, now| {
            pollster::block_on(core.initialize_dev(Some(TOKEN.to_owned().into()), now)).unwrap();
        });
        running.assert_serves();
        running
    }

    /// One that believes these about where its clients are.
    pub(crate) fn start_behind(rules: ForwardedFor) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self::start_over(store, |service| service.with_forwarded_for(rules))
    }

    /// One that was told under which URL clients reach it.
    pub(crate) fn start_reached_at(url: &str) -> Self {
        let info = ServerInfo { api_addr: Some(url.to_owned()), ..ServerInfo::default() };
        Self::start_as(whole_core(Arc::new(MemoryStore::new()), info), |service| service)
    }

    /// One with a store of the test's own, and what its listener does besides.
    pub(crate) fn start_over(
        store: Arc<dyn Store>,
        with: impl FnOnce(HttpService) -> HttpService,
    ) -> Self {
        Self::start_as(whole_core(store, ServerInfo::default()), with)
    }

    /// A core of the test's own, initialised as a dev server's, and what its listener does besides.
    pub(crate) fn start_as(core: Core, with: impl FnOnce(HttpService) -> HttpService) -> Self {
        let clock = Arc::new(ManualClock(AtomicI64::new(0)));
        let root = Some(TOKEN.to_owned().into());
        pollster::block_on(core.initialize_dev(root, clock.now())).unwrap();
        let core = Arc::new(core);
        let service = HttpService::new(Arc::clone(&core), Arc::clone(&clock) as Arc<dyn WallClock>);
        Self::serve(with(service), core, clock)
    }

    /// A server that was never initialised.
    pub(crate) fn start_uninitialized() -> Self {
        Self::launch(Timeouts::default(), &AdmissionLimits::default(), |_, _| {})
    }

    fn launch(
        timeouts: Timeouts,
        limits: &AdmissionLimits,
        prepare: impl FnOnce(&Core, Timestamp),
    ) -> Self {
        let info = ServerInfo {
            version: "1.18.0".to_owned(),
            build_date: "2026-11-01T00:00:00Z".to_owned(),
            unauthenticated_rekey: RouteAccess::Open,
            serves_ui: true,
            ..ServerInfo::default()
        };
        let core = whole_core(Arc::new(MemoryStore::new()), info).with_limits(limits);
        let clock = Arc::new(ManualClock(AtomicI64::new(0)));
        prepare(&core, clock.now());
        let core = Arc::new(core);
        let service = HttpService::new(Arc::clone(&core), Arc::clone(&clock) as Arc<dyn WallClock>)
            .with_timeouts(timeouts);
        Self::serve(service, core, clock)
    }

    /// The same, believing these about where its clients are, and asking them anew.
    pub(crate) fn asking_proxies(self, proxies: ProxyProtocol) -> Self {
        self.listening_anew(ListenSettings { proxies, ..settings() })
    }

    /// The same within TLS, with one worker and the certificate of `localhost`.
    pub(crate) fn within_tls(self) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/certificates");
        let files = TlsFiles {
            certificate: folder.join("localhost.pem"),
            key: folder.join("localhost.key.pem"),
            client_auth: ClientAuth::None,
            versions: TlsVersions::From12,
        };
        let tls = Some(ListenerTls::load(files, None).unwrap());
        self.listening_anew(ListenSettings { workers: NonZeroUsize::MIN, tls, ..settings() })
    }

    fn listening_anew(self, settings: ListenSettings) -> Self {
        let Self { server, core, clock } = self;
        server.shut_down();
        let wall = Arc::clone(&clock) as Arc<dyn WallClock>;
        let service = HttpService::new(Arc::clone(&core), wall);
        Self { server: Server::start(settings, &Frontend::Http(service)).unwrap(), core, clock }
    }

    fn serve(service: HttpService, core: Arc<Core>, clock: Arc<ManualClock>) -> Self {
        Self { server: Server::start(settings(), &Frontend::Http(service)).unwrap(), core, clock }
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.address().tcp().unwrap()
    }

    /// Stops the server; streams end and connections are closed.
    pub(crate) fn stop(self) {
        self.server.shut_down();
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address())
    }

    /// Opens a connection from another address of this machine.
    pub(crate) fn connect_from(&self, from: Ipv4Addr) -> Connection {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&self.address().into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection { reader: BufReader::new(stream) }
    }

    /// Asks once, as root, on a connection of its own.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        self.connect().ask(method, path, body)
    }

    /// Sends bytes on a connection of their own and takes the first reply; `None` when the
    /// server hangs up without one.
    pub(crate) fn tell(&self, bytes: &[u8]) -> Option<Reply> {
        let mut connection = self.connect();
        connection.send(bytes);
        connection.receive()
    }

    /// An honest client is served.
    pub(crate) fn assert_serves(&self) {
        let mut connection = self.connect();
        let put = connection.ask("POST", "secret/data/honest", r#"{"data":{"still":"here"}}"#);
        assert_eq!(put.status, 200, "{}", put.text());
        let got = connection.ask("GET", "secret/data/honest", "");
        assert_eq!(got.status, 200);
        assert!(got.text().contains(r#""data":{"still":"here"}"#), "{}", got.text());
    }
}

/// Takes the records of an audit device, until it is told to stop.
pub(crate) struct Recorder {
    address: SocketAddr,
    kept: Arc<Mutex<Vec<u8>>>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    is_over: Arc<AtomicBool>,
    taking: JoinHandle<()>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (kept, streams) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let ours = (Arc::clone(&kept), Arc::clone(&streams), Arc::clone(&is_over));
        let taking = std::thread::spawn(move || {
            let (kept, streams, is_over): (_, Arc<Mutex<Vec<TcpStream>>>, _) = ours;
            for stream in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        kept.lock().unwrap().extend_from_slice(&bytes[..count]);
                    }
                });
            }
        });
        Self { address, kept, streams, is_over, taking }
    }

    /// The body that makes this a device, at `sys/audit/:path`.
    pub(crate) fn device(&self) -> String {
        let address = self.address;
        format!(r#"{{"type":"socket","options":{{"address":"{address}","socket_type":"tcp"}}}}"#)
    }

    /// Waits until `is_enough` holds of the records of requests, which may still be on their way when the device is done. Checkpoints, which come
    /// between them in a test that takes long, are left out.
    pub(crate) fn wait(&self, is_enough: impl Fn(&[Json]) -> bool) {
        const LOOKS_MAX: usize = 10_000;
        for _ in 0..LOOKS_MAX {
            let kept = self.kept.lock().unwrap().clone();
            let lines = kept.split_inclusive(|&byte| byte == b'\n');
            let whole = lines.filter(|line| line.ends_with(b"\n"));
            let records = whole.map(|line| json::parse(line).unwrap());
            let records: Vec<Json> = records.filter(is_of_request).collect();
            if is_enough(&records) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the records do not come");
    }

    /// Takes no more records, and nobody else does at its address.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.taking.join().unwrap();
        for stream in self.streams.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn is_of_request(record: &Json) -> bool {
    record.as_object().is_some_and(|record| record.get("request").is_some())
}

/// What the request of a record has under a name.
pub(crate) fn of_request<'r>(record: &'r Json, name: &str) -> &'r str {
    let request = record.as_object().and_then(|record| record.get("request"));
    let text = request.and_then(|request| request.as_object()?.get(name));
    text.and_then(Json::as_str).unwrap()
}

/// One connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Opens one.
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Sends bytes. A server that hung up already will say so when its reply is taken.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Says that nothing more is sent.
    pub(crate) fn finish(&mut self) {
        let _ = self.reader.get_mut().shutdown(Shutdown::Write);
    }

    /// Another handle to the same connection.
    pub(crate) fn writer(&self) -> TcpStream {
        self.reader.get_ref().try_clone().unwrap()
    }

    /// Asks as root and takes the reply.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Reply {
        self.ask_with(method, path, &[("X-Vault-Token", TOKEN)], body)
    }

    /// Asks with headers of the test's choice and takes the reply.
    pub(crate) fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.send(&request(method, path, headers, body));
        let reply = self.receive_for(method);
        reply.unwrap_or_else(|| panic!("no reply to {method} {path}"))
    }

    /// Takes one reply; `None` when the server hung up instead.
    pub(crate) fn receive(&mut self) -> Option<Reply> {
        self.receive_for("GET")
    }

    /// Takes the reply to a request with this method.
    pub(crate) fn receive_for(&mut self, method: &str) -> Option<Reply> {
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None if line.is_empty() => break,
                None => panic!("malformed header line {line:?}"),
            }
        }
        let mut reply = Reply { status, headers, body: Vec::new() };
        assert_eq!(reply.header("transfer-encoding"), None, "replies have a length");
        if method != "HEAD" {
            let length = reply.header("content-length").map_or(0, |text| text.parse().unwrap());
            reply.body = vec![0; length];
            self.reader.read_exact(&mut reply.body).ok()?;
        }
        Some(reply)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).ok()?;
        let line = line.strip_suffix("\r\n").filter(|_| count > 0)?;
        Some(line.to_owned())
    }
}

/// The bytes of a request; a path that starts with a slash stands as it is.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let prefix = if path.starts_with('/') { "" } else { "/v1/" };
    let mut text = format!("{method} {prefix}{path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status code.
    pub(crate) status: u16,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Json {
        json::parse(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// What stands at a place of the body, such as `data/metadata/version`.
    pub(crate) fn at(&self, place: &str) -> Json {
        let mut value = self.json();
        for name in place.split('/') {
            let found = value.as_object().and_then(|map| map.get(name)).cloned();
            value = found.unwrap_or_else(|| panic!("no {place} in {}", self.text()));
        }
        value
    }

    /// The text of what stands at a place of the body.
    pub(crate) fn text_at(&self, place: &str) -> String {
        String::from_utf8(self.at(place).to_text()).unwrap()
    }
}

/// A client that asks for the same again and again, and reads nothing.
pub(crate) struct Silent {
    stream: TcpStream,
    asked: Arc<[u8]>,
    /// How much of what it asks is on its way.
    at: usize,
}

impl Silent {
    /// One that asks this over a connection.
    pub(crate) fn new(stream: TcpStream, asked: &Arc<[u8]>) -> Self {
        stream.set_nonblocking(true).unwrap();
        Self { stream, asked: Arc::clone(asked), at: 0 }
    }

    /// Sends as much as is taken just now; false when the server hung up.
    pub(crate) fn push(&mut self) -> bool {
        match self.stream.write(&self.asked[self.at..]) {
            Ok(taken) => {
                self.at = (self.at + taken) % self.asked.len();
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Looks again until it is so; nothing is waited for longer than a test may take.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "the patience of a test")]
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// Held by tests that watch the memory of this process, so that no two of them blame each other.
static MEMORY: Mutex<()> = Mutex::new(());

/// Held by a test that takes much memory itself, and is not to be seen by those that watch it.
pub(crate) fn use_much_memory() -> MutexGuard<'static, ()> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes by which the resident memory of this process grew at the most while `work` ran.
pub(crate) fn memory_growth(work: impl FnOnce()) -> u64 {
    let _alone = use_much_memory();
    let before = status_bytes("VmRSS:");
    reset_high_water_mark();
    work();
    status_bytes("VmHWM:").saturating_sub(before)
}

/// Makes the high-water mark what is resident now (proc(5), clear_refs).
#[expect(clippy::disallowed_methods, reason = "the kernel is asked, not a disk")]
fn reset_high_water_mark() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
