//! A collector that records: HTTP/1.1 and gRPC at one address, in the clear or by TLS. It reads messages by the rules of Protocol Buffers alone
//! and the numbers of the published definitions, and shares nothing with what sends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::oneshot;

/// Longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const HTTP_PATH: &str = "/v1/traces";
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// What it does with what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It takes all.
    Takes,
    /// It answers with this status of HTTP.
    Answers(u16),
    /// It answers that it is busy, and for how long.
    AnswersBusy(&'static str),
    /// It answers with this status of gRPC.
    Ends(u32),
    /// It answers with this status of gRPC and nothing else, in the head.
    EndsAtOnce(u32),
    /// It takes all but so many spans, and says so.
    Rejects(u8),
    /// It does not answer.
    Hangs,
    /// It answers with this status of HTTP and a body without an end.
    NeverEnds(u16),
    /// It takes all, and ends the connection each time.
    Closes,
}

/// A span as it was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecordedSpan {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// Empty for the first of a trace.
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    /// 1 inside of a server, 2 one that answers, 3 one that asks.
    pub(crate) kind: u64,
    pub(crate) start_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) flags: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// What it says of a failure.
    pub(crate) failed: Option<String>,
    /// What is told of its server.
    pub(crate) resource: BTreeMap<String, String>,
}

impl RecordedSpan {
    /// An attribute, or nothing.
    pub(crate) fn at(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What it was sent.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<RecordedSpan>,
    /// The heads of the requests.
    pub(crate) headers: Vec<HeaderMap>,
    /// Every byte of every body.
    pub(crate) bodies: Vec<u8>,
    /// Requests, answered or not.
    pub(crate) requests: usize,
    /// Connections that were opened.
    pub(crate) connections: usize,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    received: Mutex<Received>,
}

/// A collector; it ends with the value.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

impl Collector {
    /// Starts one in the clear.
    pub(crate) fn start() -> Self {
        Self::listen(None)
    }

    /// Starts one by TLS, if that is said.
    pub(crate) fn listen(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (behaviour, received) = (Mutex::new(Behaviour::Takes), Mutex::default());
        let shared = Arc::new(Shared { behaviour, received });
        let (stop, stopped) = oneshot::channel();
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! {
                    () = accept(listener, of_thread, tls) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, shared, _stop: stop }
    }

    /// What others are told to send to.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    pub(crate) fn received(&self) -> MutexGuard<'_, Received> {
        self.shared.received.lock().unwrap()
    }

    pub(crate) fn spans(&self) -> Vec<RecordedSpan> {
        self.received().spans.clone()
    }

    /// Waits until `holds` of what it was sent.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Received) -> bool) {
        let start = Instant::now();
        while !holds(&self.received()) {
            assert!(
                start.elapsed() < PATIENCE,
                "waited in vain for {what}: {:#?}",
                self.received()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The spans of a trace, once there are so many.
    #[track_caller]
    pub(crate) fn trace(&self, trace_id: &str, count: usize) -> Vec<RecordedSpan> {
        let of = |received: &Received| -> Vec<RecordedSpan> {
            let is_meant = |span: &&RecordedSpan| span.trace_id == trace_id;
            received.spans.iter().filter(is_meant).cloned().collect()
        };
        self.until(&format!("{count} spans of {trace_id}"), |received| of(received).len() >= count);
        of(&self.received())
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    tls: Option<Arc<rustls::ServerConfig>>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        shared.received.lock().unwrap().connections += 1;
        tokio::spawn(async move {
            match tls {
                None => serve(TokioIo::new(stream), shared).await,
                Some(tls) => {
                    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(TokioIo::new(stream), shared).await;
                    }
                }
            }
        });
    }
}

async fn serve<S>(stream: S, shared: Arc<Shared>)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = service_fn(|request| answer(request, Arc::clone(&shared)));
    // A client that went away has its own test.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(stream, service).await;
}

type Answer = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Answer, Infallible> {
    let behaviour = *shared.behaviour.lock().unwrap();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let is_grpc = head.headers[CONTENT_TYPE] == "application/grpc";
    let (path, message) = match is_grpc {
        false => (HTTP_PATH, body.clone()),
        true => {
            let length = u32::from_be_bytes(body[1..5].try_into().unwrap());
            assert_eq!((body[0], length as usize), (0, body.len() - 5));
            assert_eq!(head.headers["te"], "trailers");
            (GRPC_PATH, body.slice(5..))
        }
    };
    assert_eq!((head.method.as_str(), head.uri.path()), ("POST", path));
    if behaviour == Behaviour::Hangs {
        shared.received.lock().unwrap().requests += 1;
        std::future::pending::<()>().await;
    }
    let mut received = shared.received.lock().unwrap();
    received.requests += 1;
    received.bodies.extend_from_slice(&body);
    received.headers.push(head.headers);
    if behaviour.takes() {
        received.spans.extend(spans(&message));
    }
    drop(received);
    if let Behaviour::NeverEnds(status) = behaviour {
        return Ok(endless(status));
    }
    let reply = match behaviour {
        // `partial_success { rejected_spans }`
        Behaviour::Rejects(count) => vec![0x0a, 2, 0x08, count],
        _ => Vec::new(),
    };
    let status = if let Behaviour::Ends(status) = behaviour { status } else { 0 };
    let mut response = if let Behaviour::EndsAtOnce(status) = behaviour {
        let mut response = Response::new(Full::default().boxed());
        response.headers_mut().insert("grpc-status", HeaderValue::from(status));
        response
    } else if is_grpc {
        let mut framed = vec![0];
        framed.extend(u32::try_from(reply.len()).unwrap().to_be_bytes());
        framed.extend(reply);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(status));
        let body = Full::new(Bytes::from(framed));
        let body = body.with_trailers(async { Some(Ok::<_, Infallible>(trailers)) }).boxed();
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    } else {
        Response::new(Full::new(Bytes::from(reply)).boxed())
    };
    match behaviour {
        Behaviour::Answers(status) => *response.status_mut() = status.try_into().unwrap(),
        Behaviour::AnswersBusy(after) => {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(after));
        }
        _ => {}
    }
    if behaviour == Behaviour::Closes && !is_grpc {
        response.headers_mut().insert("connection", HeaderValue::from_static("close"));
    }
    Ok(response)
}

impl Behaviour {
    /// Whether it keeps what it is sent.
    fn takes(self) -> bool {
        matches!(self, Self::Takes | Self::Rejects(_) | Self::Closes)
    }
}

/// An answer whose body has no end.
fn endless(status: u16) -> Answer {
    struct Endless;
    impl hyper::body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 4096])))))
        }
    }
    let mut response = Response::new(Endless.boxed());
    *response.status_mut() = status.try_into().unwrap();
    response
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("{number} instead of bytes"),
        }
    }

    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => panic!("bytes instead of a number"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The fields of a message, by the rules of Protocol Buffers ("Encoding").
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => Field::Number(u64::from_le_bytes(take(&mut message, 8).try_into().unwrap())),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                Field::Bytes(take(&mut message, length))
            }
            5 => {
                Field::Number(u32::from_le_bytes(take(&mut message, 4).try_into().unwrap()).into())
            }
            other => panic!("a field of wire type {other}"),
        };
        all.push((tag >> 3, field));
    }
    all
}

fn take<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut number = 0;
    for at in 0..10 {
        let byte = take(message, 1)[0];
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a number without an end");
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(message: &[u8]) -> Vec<RecordedSpan> {
    let mut all = Vec::new();
    for (number, of_server) in fields(message) {
        assert_eq!(number, 1, "resource_spans");
        let of_server = fields(of_server.bytes());
        let mut resource = BTreeMap::new();
        for (_, field) in of_server.iter().filter(|(number, _)| *number == 1) {
            let attributes = fields(field.bytes()).into_iter().filter(|(number, _)| *number == 1);
            resource.extend(attributes.map(|(_, field)| attribute(field.bytes())));
        }
        for (_, scope) in of_server.iter().filter(|(number, _)| *number == 2) {
            let spans = fields(scope.bytes()).into_iter().filter(|(number, _)| *number == 2);
            all.extend(spans.map(|(_, field)| span(field.bytes(), &resource)));
        }
    }
    all
}

fn span(message: &[u8], resource: &BTreeMap<String, String>) -> RecordedSpan {
    let mut span = RecordedSpan { resource: resource.clone(), ..RecordedSpan::default() };
    for (number, field) in fields(message) {
        match number {
            1 => span.trace_id = field.hex(),
            2 => span.span_id = field.hex(),
            3 => span.state = field.text(),
            4 => span.parent = field.hex(),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start_nanos = field.number(),
            8 => span.end_nanos = field.number(),
            9 => span.attributes.extend([attribute(field.bytes())]),
            15 => {
                let status = fields(field.bytes());
                assert!(status.iter().any(|(number, field)| *number == 3 && field.number() == 2));
                let why = status.iter().find(|(number, _)| *number == 2);
                span.failed = Some(why.map_or(String::new(), |(_, field)| field.text()));
            }
            16 => span.flags = field.number(),
            other => panic!("field {other} of a span"),
        }
    }
    assert_eq!((span.trace_id.len(), span.span_id.len()), (32, 16));
    assert!(span.start_nanos > 1_600_000_000_000_000_000 || span.start_nanos < 1_000_000);
    assert!(span.start_nanos <= span.end_nanos, "{span:?}");
    span
}

/// A `KeyValue`.
fn attribute(message: &[u8]) -> (String, String) {
    let (mut name, mut value) = (String::new(), String::new());
    for (number, field) in fields(message) {
        match number {
            1 => name = field.text(),
            2 => {
                value = match fields(field.bytes()).first() {
                    Some((1, text)) => text.text(),
                    Some((2, truth)) => (truth.number() == 1).to_string(),
                    Some((3, whole)) => (whole.number() as i64).to_string(),
                    other => panic!("a value {other:?}"),
                }
            }
            other => panic!("field {other} of an attribute"),
        }
    }
    (name, value)
}
