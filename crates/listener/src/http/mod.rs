//! HTTP/1.1 and HTTP/2: one request to the core and its answer back.
//!
//! The stages of a request, each a method of [`HttpService`] that calls the next:
//!
//! ```text
//! serve > serve_observed > resolve_client > check_origin > read_request > admit > dispatch > execute, or relay_to_leader
//! ```
//!
//! `request` turns head and body into a core request, `elsewhere` has it answered on this worker or beside it, `leader` by the server that leads, `response`
//! and `error` give answers their wire form. Plain requests are read off the wire by `direct`. For all others hyper frames the bytes; what
//! it refuses (a bad length, an over-long head) it answers itself with a 4xx and an empty body.

pub(crate) mod admit;
mod body;
mod consistency;
pub(crate) mod direct;
mod elsewhere;
pub(crate) mod error;
mod forwarded;
mod head;
mod heads;
#[cfg(any(test, feature = "fuzz"))]
pub mod hostile;
mod leader;
mod observed;
mod page;
mod relay;
mod relayed;
mod request;
mod response;
mod stream;
mod target;
mod upload;
mod web;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use kallisto_core::admission::{Admission, Flow};
use kallisto_core::metrics::Metrics;
use kallisto_core::{Core, Error, RouteAccess, Waiting};
use kallisto_traces::Tracer;
use tokio::sync::watch;

use crate::client_timeouts::Underway;
use crate::clock::WallClock;
use crate::gate::{Gate, GateClient};
use crate::limits::{SMALL_REPLY_BYTES_MAX, Timeouts};
use crate::write_backpressure::WriteBackpressure;
use elsewhere::{Execution, Unfinished};
pub use stream::ReplyBody;

pub use forwarded::ForwardedFor;
pub(crate) use heads::Heads;
pub use observed::{ArrivedRequest, ObservedRequest, RequestObserver};
pub use relay::{Leader, Relay, Unrelayed};
use web::Crossing;

/// An answer ready to be sent.
pub type HttpReply = Response<ReplyBody>;

/// What every connection of a server shares.
#[derive(Clone)]
pub struct HttpService {
    core: Arc<Core>,
    clock: Arc<dyn WallClock>,
    /// The gate of the worker that serves; `None` for what no worker serves.
    gate: Option<Arc<Gate>>,
    timeouts: Timeouts,
    metrics: RouteAccess,
    /// Whose word about a client's address counts.
    forwarded: Arc<ForwardedFor>,
    relay: Option<Arc<dyn Relay>>,
    /// Who is told of requests.
    observer: Option<Arc<dyn RequestObserver>>,
    /// What records spans of requests.
    tracer: Option<Arc<Tracer>>,
    /// Says when the server stops.
    stop: watch::Receiver<bool>,
}

impl HttpService {
    /// A service over `core` that reads the time from `clock`.
    pub fn new(core: Arc<Core>, clock: Arc<dyn WallClock>) -> Self {
        // Until a server says that it stops, nobody does.
        let (_, stop) = watch::channel(false);
        Self {
            core,
            clock,
            gate: None,
            timeouts: Timeouts::default(),
            metrics: RouteAccess::Token,
            forwarded: Arc::default(),
            relay: None,
            observer: None,
            tracer: None,
            stop,
        }
    }

    /// The same with metrics for whom the listener says.
    pub fn with_metrics(self, metrics: RouteAccess) -> Self {
        Self { metrics, ..self }
    }

    /// The same, believing these about the addresses of clients.
    pub fn with_forwarded_for(self, rules: ForwardedFor) -> Self {
        Self { forwarded: Arc::new(rules), ..self }
    }

    /// The core that answers.
    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// What this listener counts.
    fn counters(&self) -> &Arc<Metrics> {
        self.core.metrics()
    }

    /// The same with other timeouts.
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// The same, which relays what belongs to another server.
    pub fn with_relay(self, relay: Arc<dyn Relay>) -> Self {
        Self { relay: Some(relay), ..self }
    }

    /// The same, which tells of its requests.
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same, which records spans of its requests.
    pub fn with_tracer(self, tracer: Arc<Tracer>) -> Self {
        Self { tracer: Some(tracer), ..self }
    }

    /// The same on a worker: behind its gate, and ending its streams when `stop` says so.
    pub(crate) fn on_worker(self, gate: Arc<Gate>, stop: watch::Receiver<bool>) -> Self {
        Self { gate: Some(gate), stop, ..self }
    }

    /// What clients make the server hold.
    fn admission(&self) -> &Arc<Admission> {
        self.core.admission()
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Serves one request that came from `remote`, over a connection whose client presented these
    /// certificates; the request is under way until its reply is sent. Refusals are answers too, so
    /// there is no error.
    ///
    /// # Errors
    /// None: the type says so.
    pub(crate) async fn serve(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
        client_chain: &[Vec<u8>],
        underway: Underway,
    ) -> Result<HttpReply, Infallible> {
        let (mut head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let has_body = !body.is_end_stream();
        let sent = SentBody::Coming(body);
        let (reply, remote) = self.serve_observed(&mut head, sent, remote, client_chain).await;
        if has_body && !reply.status().is_success() {
            underway.refuse();
        }
        let reply = if is_head { without_body(reply) } else { self.charge(reply, remote) };
        Ok(reply.map(|body| body.under(underway)))
    }

    /// The same for a request whose body is there, and small.
    async fn serve_whole(
        &self,
        head: &mut Parts,
        body: Bytes,
        remote: SocketAddr,
        client_chain: &[Vec<u8>],
        underway: Underway,
    ) -> HttpReply {
        let (reply, remote) =
            self.serve_observed(head, SentBody::Here(body), remote, client_chain).await;
        self.charge(reply, remote).map(|body| body.under(underway))
    }

    /// Whether the next few reads may be answered at once, in this turn of the worker.
    fn lets_read(&self, asker: GateClient) -> bool {
        self.gate.as_deref().is_none_or(|gate| admit::lets_read(gate, asker))
    }

    /// Waits for the turn of the next few reads; false when there is no place to wait in.
    async fn wait_to_read(&self, asker: GateClient, flow: Flow) -> bool {
        match self.gate.as_deref() {
            Some(gate) => admit::wait_to_read(&self.core, gate, asker, flow).await.is_ok(),
            None => true,
        }
    }

    /// Waits for the turn of a client that was just sent so many bytes.
    async fn settle(&self, bytes: usize, remote: SocketAddr) {
        if let Some(gate) = self.gate.as_deref() {
            admit::settle(self.admission(), gate, Flow::of_address(remote.ip()), bytes).await;
        }
    }

    /// Serves a request, and tells of it where somebody wants to hear; says who its client is.
    async fn serve_observed(
        &self,
        head: &mut Parts,
        body: SentBody,
        peer: SocketAddr,
        client_chain: &[Vec<u8>],
    ) -> (HttpReply, SocketAddr) {
        match self.observe(head, false) {
            None => self.resolve_client(head, body, peer, client_chain).await,
            // Boxed, so that the future of a request that nobody hears of stays small.
            Some(observed) => {
                let serving = self.resolve_client(head, body, peer, client_chain);
                let (reply, client) = Box::pin(observed.hearing(serving)).await;
                observed.ended(reply.status(), client);
                (reply, client)
            }
        }
    }

    /// Settles which client a peer speaks for, itself or another, and goes on for that one; says who it is.
    async fn resolve_client(
        &self,
        head: &mut Parts,
        body: SentBody,
        peer: SocketAddr,
        client_chain: &[Vec<u8>],
    ) -> (HttpReply, SocketAddr) {
        head::join_cookies(head);
        let refused = match head::refusal(head) {
            Some(reply) => reply,
            None => match self.forwarded.client(peer, &mut head.headers) {
                Ok(client) => {
                    let reply = self.check_origin(head, body, client, client_chain).await;
                    return (reply, client);
                }
                Err(refusal) => error::render(&refusal),
            },
        };
        self.count_reply(refused.status());
        (refused, peer)
    }

    /// Refuses pages of foreign origins; what may ask is told so in the reply.
    async fn check_origin(
        &self,
        head: &Parts,
        body: SentBody,
        remote: SocketAddr,
        client_chain: &[Vec<u8>],
    ) -> HttpReply {
        let reply = match web::judge(&self.core, head) {
            Crossing::Answered(reply) => reply,
            Crossing::Passes(origin) => {
                let mut reply = self.read_request(head, body, remote, client_chain).await;
                if let Some(origin) = origin {
                    web::allow(&mut reply, origin);
                }
                reply
            }
        };
        self.count_reply(reply.status());
        reply
    }

    fn count_reply(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        self.counters().http.replies.add(class, 1);
    }

    fn count_duration(&self, begin: std::time::Instant) {
        self.counters().http.durations.record(self.clock.instant().duration_since(begin));
    }

    /// Reads the body and makes a request of both; what is not for the API is answered here.
    async fn read_request(
        &self,
        head: &Parts,
        body: SentBody,
        remote: SocketAddr,
        client_chain: &[Vec<u8>],
    ) -> HttpReply {
        let now = self.clock.now();
        let headers = request::InHead(&head.headers);
        let arrival = request::Arrival { now, remote, client_chain, headers: &headers };
        let (path, method) = match target::resolve(head, self.core.serves_ui()) {
            target::ResolvedTarget::Api { path, method } => (path, method),
            target::ResolvedTarget::Reply(mut reply) => {
                web::dress(&self.core, head.uri.path(), &mut reply);
                return reply;
            }
        };
        if upload::is_upload(&path, method) {
            return Box::pin(self.serve_upload(head, &path, method, body, arrival)).await;
        }
        let held = match self.hold_body(head, body, Flow::of_address(remote.ip())).await {
            Ok(held) => held,
            Err(refusal) => return refusal,
        };
        // A body takes its time, and a token may have ended when it is there.
        let arrival = request::Arrival { now: self.clock.now(), ..arrival };
        match request::parse(head, &path, method, held.bytes(), arrival) {
            Ok(request) => {
                self.describe(head, &request);
                self.admit(head, &request, held.bytes()).await
            }
            Err(error) => error::render(&error),
        }
    }

    /// The whole body of a request, with its share of the memory for bodies; the answer where it is not taken.
    async fn hold_body(
        &self,
        head: &Parts,
        body: SentBody,
        flow: Flow,
    ) -> Result<body::BudgetedBody, HttpReply> {
        let shares = (&self.admission().body_bytes, flow);
        match body {
            SentBody::Coming(body) => {
                let read = body::read(head, body, shares, self.timeouts.body).await;
                read.map_err(|refusal| refusal.into_last_reply(head.version))
            }
            SentBody::Here(bytes) => {
                body::BudgetedBody::here(bytes, shares).map_err(body::BodyRefusal::into_reply)
            }
        }
    }

    /// Lets a request in when it is its turn.
    async fn admit(
        &self,
        head: &Parts,
        request: &kallisto_core::Request<'_>,
        body: &Bytes,
    ) -> HttpReply {
        match admit::admit(&self.core, self.gate.as_deref(), request).await {
            Ok(_place) => self.dispatch(head, request, body).await,
            Err(crowd) => error::render(&Error::Busy(crowd)),
        }
    }

    /// Counts a large reply among those that clients have not taken, until it is.
    fn charge(&self, reply: HttpReply, remote: SocketAddr) -> HttpReply {
        let Some(bytes) = reply.body().size_hint().exact() else { return reply };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes <= SMALL_REPLY_BYTES_MAX {
            return reply;
        }
        match self.admission().reply_bytes.take(Flow::of_address(remote.ip()), bytes) {
            Ok(held) => reply.map(|body| body.holding(held)),
            Err(crowd) => error::render(&Error::Busy(crowd)),
        }
    }

    /// Has a request executed here once the state is recent enough, or by the leader where only that may.
    async fn dispatch(
        &self,
        head: &Parts,
        request: &kallisto_core::Request<'_>,
        body: &Bytes,
    ) -> HttpReply {
        let begin = self.clock.instant();
        let outcome = match consistency::hold(&self.core, &head.headers, request).await {
            Ok(()) => self.execute(head, request, body).await,
            Err(None) => Execution { answer: Err(Unfinished::NotLeader), allowance: None },
            Err(Some(refusal)) => return refusal,
        };
        // What waits is boxed, so that the future of what is answered here and now stays small.
        let mut reply = match outcome.answer {
            Ok(reply) => reply,
            Err(Unfinished::Waiting(waiting)) => {
                return Box::pin(self.dispatch_after(waiting, head, request, body)).await;
            }
            Err(Unfinished::Stream(answer)) => return self.stream(answer, request.flow()),
            Err(other @ Unfinished::Upload(_)) => other.into_refusal(),
            Err(Unfinished::NotLeader) => match &self.relay {
                Some(relay) => Box::pin(self.relay_to_leader(&**relay, head, request, body)).await,
                None => error::render(&Error::NotLeader),
            },
        };
        if let Some(allowance) = outcome.allowance {
            response::tell_allowance(&mut reply, allowance);
        }
        self.count_duration(begin);
        reply
    }

    /// Sends a request again when it is time to answer it, as one that arrives then.
    async fn dispatch_after(
        &self,
        waiting: Waiting,
        head: &Parts,
        request: &kallisto_core::Request<'_>,
        body: &Bytes,
    ) -> HttpReply {
        stream::wait(waiting, self.stop.clone()).await;
        let mut request = kallisto_core::Request { now: self.clock.now(), ..request.clone() };
        for (name, value) in &mut request.query {
            if name == "wait" {
                "0".clone_into(value);
            }
        }
        self.execute(head, &request, body).await.answer.unwrap_or_else(Unfinished::into_refusal)
    }

    fn stream(&self, answer: kallisto_core::Stream, flow: Flow) -> HttpReply {
        let unread = WriteBackpressure::new(self.admission(), flow);
        let body = stream::start(answer.source, Arc::clone(&self.clock), self.stop.clone(), unread);
        response::stream(answer.content_type, body)
    }
}

/// A request's body.
enum SentBody {
    /// Still on its way.
    Coming(Incoming),
    /// Whole, and small.
    Here(Bytes),
}

/// A `HEAD` is answered as a `GET` with its body left out. Where a `GET` has nothing to say, a `HEAD` has said it all: ACME wants 204 for
/// the one and 200 for the other (RFC 8555, 7.2).
fn without_body(reply: HttpReply) -> HttpReply {
    let (mut head, _) = reply.into_parts();
    if head.status == StatusCode::NO_CONTENT {
        head.status = StatusCode::OK;
    }
    Response::from_parts(head, ReplyBody::empty())
}

/// The refusal of a request whose method the wire contract knows but does not serve.
fn refuse(status: StatusCode, messages: &[&str]) -> HttpReply {
    error::with_messages(status, messages)
}

/// An error that stands for "bad request, no message".
const SILENT: Error = Error::InvalidSilently;
