//! The server: one listening socket and one single-threaded runtime per worker.
//!
//! All workers listen at the same place (`socket`), so the kernel spreads connections and no
//! connection ever moves between cores. [`Server::shut_down`] (or dropping the server) stops the
//! accept loops, lets open requests finish within [`SHUTDOWN_TIMEOUT`], and joins the threads.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use kallisto_core::Core;
use kallisto_core::admission::{Admission, Crowd, Flow, Held};
use kallisto_core::metrics::Metrics;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client_timeouts::{Activity, Paced};
use crate::clock::{SystemClock, WallClock};
use crate::frame_limits::FrameLimits;
use crate::gate::Gate;
use crate::http::Heads;
use crate::http::admit::admit_handshake;
use crate::http::direct::{self, Handed, WireClient};
use crate::limits::{
    ACCEPT_PAUSE, HEAD_BYTES_MAX, HEADERS_MAX, PING_INTERVAL, SHUTDOWN_TIMEOUT, STREAMS_MAX,
};
use crate::prefixed_stream::PrefixedStream;
use crate::proxy_protocol::{self, ConnectionPeer, ProxyProtocol};
use crate::resp::TurnWrites;
use crate::socket::{self, Accepted, BoundSocket, ClientStream, ListenAddress};
use crate::stop;
use crate::tls::{HandshakeOutcome, HttpVersions, ListenerTls, Shaker};
use crate::wake_queue::{TaskRing, WakeQueue};
use crate::warning_rate::WarningRate;
use crate::{http, resp};

/// Least time between two warnings of one kind about connections.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// How to listen.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Where.
    pub address: ListenAddress,
    /// Threads, each with its own socket and runtime.
    pub workers: NonZeroUsize,
    /// TLS, or plain text.
    pub tls: Option<ListenerTls>,
    /// Which proxies say for whom a connection is.
    pub proxies: ProxyProtocol,
}

/// What a server speaks.
#[derive(Clone)]
pub enum Frontend {
    /// HTTP/1.1 and HTTP/2.
    Http(http::HttpService),
    /// The Redis protocol.
    Resp(resp::RespService),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: ListenAddress,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Binds, and serves until it is shut down.
    ///
    /// # Errors
    /// What the operating system says when an address cannot be bound, is taken, or a thread cannot be
    /// started.
    pub fn start(config: ListenSettings, frontend: &Frontend) -> io::Result<Self> {
        let (address, sockets) = socket::bind(&config.address, config.workers)?;
        let (stop, stopped) = watch::channel(false);
        let workers = sockets
            .into_iter()
            .enumerate()
            .map(|(at, socket)| {
                let gate = Gate::new(Arc::clone(frontend.counters()));
                let resting = Arc::clone(&gate);
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .on_thread_park(move || resting.rest())
                    .build()?;
                let worker = ListenerWorker {
                    frontend: frontend.clone(),
                    tls: config.tls.clone(),
                    proxies: config.proxies.clone(),
                    headerless: Arc::new(WarningRate::new(WARNING_PAUSE)),
                    gate,
                    stopped: stopped.clone(),
                    graceful: GracefulShutdown::new(),
                };
                std::thread::Builder::new().name(frontend.thread_name(at)).spawn(move || {
                    runtime.block_on(worker.work(socket));
                })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { address, stop, workers })
    }

    /// Where the server listens.
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Stops accepting, lets open requests finish, and waits for the workers.
    pub fn shut_down(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        self.stop.send_replace(true);
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
        socket::unbind(&self.address);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

impl Frontend {
    fn core(&self) -> &Arc<Core> {
        match self {
            Self::Http(service) => service.core(),
            Self::Resp(service) => service.core(),
        }
    }

    fn counters(&self) -> &Arc<Metrics> {
        self.core().metrics()
    }

    fn admission(&self) -> &Arc<Admission> {
        self.core().admission()
    }

    /// What a client is told that gets no place, where that can be told before TLS.
    const fn refusal(&self) -> &'static [u8] {
        match self {
            Self::Http(_) => HTTP_REFUSAL,
            Self::Resp(_) => b"-ERR max number of clients reached\r\n",
        }
    }

    fn thread_name(&self, at: usize) -> String {
        match self {
            Self::Http(_) => format!("http-{at}"),
            Self::Resp(_) => format!("resp-{at}"),
        }
    }

    /// Serves one connection to its end.
    async fn serve<S>(
        self,
        stream: S,
        remote: SocketAddr,
        outcome: HandshakeOutcome,
        ending: ConnectionEnding,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        match self {
            Self::Http(service) => {
                let service = service.on_worker(Arc::clone(&ending.gate), ending.stopped.clone());
                serve_http(stream, remote, outcome, service, ending).await;
            }
            Self::Resp(service) => {
                // Boxed, so that a connection of the other protocol holds no room for it.
                let worker = (ending.gate, ending.writes);
                Box::pin(service.serve(stream, remote, worker, ending.stopped)).await;
            }
        }
    }
}

/// What a connection has from its worker: the gate, and how it hears that the server stops.
struct ConnectionEnding {
    gate: Arc<Gate>,
    writes: Arc<TurnWrites>,
    watcher: Watcher,
    stopped: watch::Receiver<bool>,
}

/// What a client of HTTP hears that gets no place.
const HTTP_REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
content-type: application/json\r\ncontent-length: 44\r\nconnection: close\r\n\r\n\
{\"errors\":[\"too many connections are open\"]}";

/// One thread of a server.
struct ListenerWorker {
    frontend: Frontend,
    tls: Option<ListenerTls>,
    proxies: ProxyProtocol,
    /// Warnings about proxies' connections without a header.
    headerless: Arc<WarningRate>,
    gate: Arc<Gate>,
    stopped: watch::Receiver<bool>,
    graceful: GracefulShutdown,
}

impl ListenerWorker {
    /// The accept loop.
    async fn work(self, socket: BoundSocket) {
        let listener = match socket.listen() {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "listener not registered");
                return;
            }
        };
        let turning = Arc::clone(&self.gate);
        tokio::spawn(async move { turning.turn().await });
        let wake_queue = WakeQueue::here();
        let answering = Arc::clone(&wake_queue);
        tokio::spawn(async move { answering.answer().await });
        let shared = (Arc::clone(&wake_queue), TurnWrites::new(wake_queue));
        // Nothing is sent: it closes when the last connection has dropped its end.
        let (alive, mut all_ended) = mpsc::channel::<()>(1);
        let mut stopped = self.stopped.clone();
        // Connections whose proxy has not said yet for whom they are; each has a place among the connections.
        let mut unnamed = JoinSet::new();
        let unaccepted = WarningRate::new(WARNING_PAUSE);
        loop {
            let accepted = tokio::select! {
                _ = stopped.wait_for(|&stop| stop) => break,
                accepted = listener.accept() => accepted,
                Some(named) = unnamed.join_next(), if !unnamed.is_empty() => {
                    if let Ok(Some((stream, client))) = named {
                        self.take_in(stream, client, &shared, alive.clone());
                    }
                    continue;
                }
            };
            match accepted {
                Ok(Accepted::Tcp(stream, remote)) => match self.proxies.peer(remote.ip()) {
                    ConnectionPeer::Client => {
                        self.take_in(stream, remote, &shared, alive.clone());
                    }
                    ConnectionPeer::Proxy => self.ask_proxy(stream, remote, &mut unnamed),
                    ConnectionPeer::Stranger => {
                        tracing::debug!(%remote, "a peer that is no authorized proxy was refused");
                    }
                },
                Ok(Accepted::Unix(stream, remote)) => {
                    self.take_in(stream, remote, &shared, alive.clone())
                }
                Err(error) => {
                    self.frontend.counters().listener.accept_errors.count();
                    if let Some(held_back) = unaccepted.pass(SystemClock.instant()) {
                        tracing::warn!(%error, held_back, "accept failed");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, alive));
        let ended = async {
            self.graceful.shutdown().await;
            all_ended.recv().await;
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
            tracing::warn!("open connections were cut at shutdown");
        }
    }

    /// A place among the connections; without one the peer is told so, and turned away.
    fn place(&self, stream: &impl ClientStream, remote: SocketAddr) -> Option<Held> {
        let flow = Flow::of_address(remote.ip());
        let place = self.frontend.admission().connections.take_or_reserved(flow, 1).ok();
        // In one go or not at all: nobody waits for who was turned away.
        if place.is_none() && self.tls.is_none() {
            let _ = stream.try_write(self.frontend.refusal());
        }
        place
    }

    /// Reads who the client of a proxy is, if there is a place to wait for that in.
    fn ask_proxy(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        unnamed: &mut JoinSet<Option<(TcpStream, SocketAddr)>>,
    ) {
        let Some(place) = self.place(&stream, remote) else { return };
        let headerless = Arc::clone(&self.headerless);
        unnamed.spawn(async move {
            let named = proxy_protocol::client(stream, remote, &headerless).await;
            // The connection takes a place of its own client's.
            drop(place);
            named
        });
    }

    /// Serves a connection if there is a place for it.
    fn take_in(
        &self,
        stream: impl ClientStream,
        remote: SocketAddr,
        (wake_queue, writes): &(Arc<WakeQueue>, Arc<TurnWrites>),
        alive: mpsc::Sender<()>,
    ) {
        let Some(place) = self.place(&stream, remote) else { return };
        let open = OpenConnection::new(Arc::clone(self.frontend.counters()));
        let ending = ConnectionEnding {
            gate: Arc::clone(&self.gate),
            writes: Arc::clone(writes),
            watcher: self.graceful.watcher(),
            stopped: self.stopped.clone(),
        };
        let frontend = self.frontend.clone();
        let mut ring = TaskRing::new(Arc::clone(wake_queue));
        // A task each for plain text and for TLS: one for both would be as large as the larger of them.
        match self.tls.clone() {
            None => tokio::spawn(async move {
                let mut serving =
                    pin!(frontend.serve(stream, remote, HandshakeOutcome::default(), ending));
                poll_fn(|context| ring.poll(serving.as_mut(), context)).await;
                drop((open, place, alive));
            }),
            Some(tls) => tokio::spawn(async move {
                let mut serving = pin!(serve_tls(frontend, tls, stream, remote, ending, &open));
                poll_fn(|context| ring.poll(serving.as_mut(), context)).await;
                drop((place, alive));
            }),
        };
    }
}

/// Serves a connection that begins with a handshake.
async fn serve_tls(
    frontend: Frontend,
    tls: ListenerTls,
    stream: impl ClientStream,
    remote: SocketAddr,
    ending: ConnectionEnding,
    open: &OpenConnection,
) {
    let gate = Arc::clone(&ending.gate);
    let admit = begin_handshake(frontend.admission(), &gate, remote);
    // Boxed: what a handshake takes is not held for the life of the connection.
    let speaks_http = matches!(frontend, Frontend::Http(_));
    let shaker = Shaker { core: Arc::clone(frontend.core()), remote, speaks_http };
    let shaking = Box::pin(tls.accept(stream, admit, shaker));
    let shaken = tokio::select! {
        shaken = shaking => shaken,
        // Nothing was asked yet.
        () = stop::said(ending.stopped.clone()) => return,
    };
    match shaken {
        Ok(stream) => {
            let outcome = HandshakeOutcome::of(&stream);
            // Boxed: it is large, and moves from hand to hand, each of which would have room for it.
            frontend.serve(Box::new(stream), remote, outcome, ending).await;
        }
        Err(error) => {
            open.0.listener.handshakes_failed.count();
            tracing::debug!(%error, "no TLS handshake");
        }
    }
}

/// A place among the handshakes, when it is its turn.
async fn begin_handshake(
    admission: &Admission,
    gate: &Gate,
    remote: SocketAddr,
) -> Result<Held, Crowd> {
    let place = admission.handshakes.take(Flow::of_address(remote.ip()), 1)?;
    admit_handshake(gate, remote).await;
    Ok(place)
}

/// A connection as the metrics count it: open until this is dropped.
struct OpenConnection(Arc<Metrics>);

impl OpenConnection {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.listener.accepted.count();
        Self(metrics)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.listener.closed.count();
    }
}

/// Serves one HTTP connection to its end.
async fn serve_http<S>(
    stream: S,
    remote: SocketAddr,
    HandshakeOutcome { client_chain, versions }: HandshakeOutcome,
    service: http::HttpService,
    ending: ConnectionEnding,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    // While a watcher is held, the server waits at shutdown.
    let ConnectionEnding { watcher, stopped, .. } = ending;
    let activity = Arc::<Activity>::default();
    let connections = Arc::clone(&service.core().admission().connections);
    let metrics = Arc::clone(service.core().metrics());
    let paced = Paced::new(stream, Arc::clone(&activity), service.timeouts(), connections, metrics);
    let client = WireClient { remote, client_chain, activity };
    let handed = match versions {
        HttpVersions::Two => Some(Handed { stream: paced, read: Bytes::new() }),
        HttpVersions::One | HttpVersions::Both => {
            direct::serve(paced, &client, &service, stopped).await
        }
    };
    let Some(Handed { stream, read }) = handed else { return };
    // Boxed, so that a connection that never gets here holds no room for it.
    let heads = Heads::new(FrameLimits::new(PrefixedStream::new(read, stream)));
    Box::pin(serve_by_hyper(heads, versions, client, service, watcher)).await;
}

/// Serves the rest of a connection on which something came that is not plain.
async fn serve_by_hyper<S>(
    stream: S,
    versions: HttpVersions,
    client: WireClient,
    service: http::HttpService,
    watcher: Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let WireClient { remote, client_chain, activity } = client;
    let builder = connection_builder(versions);
    let connection = builder.serve_connection(
        TokioIo::new(stream),
        service_fn(move |request| {
            let (service, chain) = (service.clone(), Arc::clone(&client_chain));
            let underway = activity.begin();
            async move { service.serve(request, remote, &chain, underway).await }
        }),
    );
    // What ends a connection early is the client's affair: resets, timeouts, bad framing.
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "connection ended early");
    }
}

/// hyper's `pipeline_flush` stays off: with it replies wait in memory without bound while requests
/// keep coming, and the refusal of a malformed request is never sent.
///
/// Its timeout for heads stays off: `client_timeouts` has the deadlines.
fn connection_builder(versions: HttpVersions) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = match versions {
        HttpVersions::Both => builder,
        HttpVersions::One => builder.http1_only(),
        HttpVersions::Two => builder.http2_only(),
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(Some(PING_INTERVAL))
        .keep_alive_timeout(PING_INTERVAL);
    builder
}
