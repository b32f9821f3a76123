//! HTTP/1.1 and HTTP/2: one request to the core and its answer back.
//!
//! `request` turns head and body into a core request, `response` and `error` give answers their
//! wire form. hyper frames the bytes; what it refuses (a bad length, an over-long head) it answers
//! itself with a 4xx and an empty body.

mod body;
mod error;
mod request;
mod response;
mod target;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use kallisto_core::metrics::Metrics;
use kallisto_core::{Access, Core, Error};

use crate::budget::Budget;
use crate::clock::Clock;
use crate::limits::{BODIES_BYTES_MAX, Timeouts};

/// An answer ready to be sent.
pub type Reply = Response<Full<Bytes>>;

/// What every connection of a server shares.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    bodies: Arc<Budget>,
    timeouts: Timeouts,
    metrics: Access,
}

impl Service {
    /// A service over `core` that reads the time from `clock`.
    pub fn new(core: Arc<Core>, clock: Arc<dyn Clock>) -> Self {
        let bodies = Budget::new(BODIES_BYTES_MAX);
        Self { core, clock, bodies, timeouts: Timeouts::default(), metrics: Access::Token }
    }

    /// The same with metrics for whom the listener says.
    pub fn with_metrics(self, metrics: Access) -> Self {
        Self { metrics, ..self }
    }

    /// What this listener counts.
    pub(crate) fn counters(&self) -> &Arc<Metrics> {
        self.core.metrics()
    }

    /// The same with other timeouts.
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Answers one request that came from `remote`, over a connection whose client presented these
    /// certificates. Refusals are answers too, so there is no error.
    ///
    /// # Errors
    /// None: the type says so.
    pub async fn call(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
        client_chain: &[Vec<u8>],
    ) -> Result<Reply, Infallible> {
        let now = self.clock.now();
        let (head, body) = request.into_parts();
        let headers = request::InHead(&head.headers);
        let arrival = request::Arrival { now, remote, client_chain, headers: &headers };
        let is_head = head.method == Method::HEAD;
        let reply = match target::resolve(&head) {
            target::Resolved::Reply(reply) => reply,
            target::Resolved::Api { path, method } => {
                match body::read(&head, body, &self.bodies, self.timeouts.body).await {
                    Ok(held) => {
                        let parsed = request::parse(&head, path, method, held.bytes(), arrival);
                        match parsed {
                            Ok(request) => self.answer(&request).await,
                            Err(error) => error::render(&error),
                        }
                    }
                    Err(refusal) => refusal.into_reply(),
                }
            }
        };
        let class = usize::from(reply.status().as_u16() / 100).saturating_sub(1);
        self.counters().http.replies.add(class, 1);
        Ok(if is_head { without_body(reply) } else { reply })
    }

    async fn answer(&self, request: &kallisto_core::Request<'_>) -> Reply {
        let begin = self.clock.instant();
        let is_open = self.metrics == Access::Open && Core::is_for_open_metrics(request);
        let answer =
            if is_open { self.core.open_metrics(request) } else { self.core.handle(request).await };
        let reply = match answer {
            Ok(answer) => response::render(answer, request.id),
            Err(error) => error::render(&error),
        };
        self.counters().http.durations.record(self.clock.instant().duration_since(begin));
        reply
    }
}

/// A `HEAD` is answered as a `GET` with its body left out.
fn without_body(reply: Reply) -> Reply {
    let (head, _) = reply.into_parts();
    Response::from_parts(head, Full::new(Bytes::new()))
}

/// The refusal of a request whose method the wire contract knows but does not serve.
fn refuse(status: StatusCode, messages: &[&str]) -> Reply {
    error::with_messages(status, messages)
}

/// An error that stands for "bad request, no message".
const SILENT: Error = Error::InvalidSilently;
