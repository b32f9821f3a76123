//! Who is told of each request once it was answered: the log of requests.
//!
//! The listener says that a request came and with what status it was answered; the process says what comes of it. A
//! request that another server relayed is told on both: on the one it came to, and on the one that answered it.
//!
//! Invariants:
//! - While nobody wants to hear of requests, one costs a branch and a load.
//! - What is told of a request holds no token, no header, no parameter of its query and nothing of its body.

use std::net::SocketAddr;
use std::time::Instant;

use hyper::http::request::Parts;
use jiff::Timestamp;

use super::{HttpReply, HttpService};

/// Hears of requests.
pub trait RequestObserver: Send + Sync {
    /// Whether it wants to hear of any.
    fn is_on(&self) -> bool;

    /// A request came. `None` when nobody wants to hear of this one.
    fn observe(&self, request: &ArrivedRequest<'_>) -> Option<Box<dyn ObservedRequest>>;
}

/// A request that somebody wants to hear of. Dropped without an end, its client went away.
pub trait ObservedRequest: Send {
    /// It was answered: with this status, and to this client.
    fn ended(self: Box<Self>, status: u16, client: SocketAddr);
}

/// What is known of a request before it is answered.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedRequest<'a> {
    /// The method, as it was sent.
    pub method: &'a str,
    /// The path, as it was sent: percent-encoded, with `/v1/`, without a query.
    pub path: &'a str,
    /// When it came.
    pub at: Timestamp,
    /// The same on the clock that is never set.
    pub begin: Instant,
    /// Whether another server relayed it.
    pub is_relayed: bool,
}

impl HttpService {
    /// Tells of a request that came; `None` when nobody wants to hear of it.
    pub(super) fn observe(
        &self,
        head: &Parts,
        is_relayed: bool,
    ) -> Option<Box<dyn ObservedRequest>> {
        let observer = self.observer.as_deref().filter(|observer| observer.is_on())?;
        let Parts { method, uri, .. } = head;
        let (at, begin) = (self.clock.now(), self.clock.instant());
        let (method, path) = (method.as_str(), uri.path());
        let request = ArrivedRequest { method, path, at, begin, is_relayed };
        observer.observe(&request)
    }

    /// The same for a read of the API whose head says nothing but who asks; `path` stands below `/v1/`.
    pub(super) fn observe_read(
        &self,
        path: &str,
        at: Timestamp,
        begin: Instant,
    ) -> Option<Box<dyn ObservedRequest>> {
        let observer = self.observer.as_deref().filter(|observer| observer.is_on())?;
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let path = &format!("/v1/{path}");
        let request = ArrivedRequest { method: "GET", path, at, begin, is_relayed: false };
        observer.observe(&request)
    }
}

/// Tells how a request was answered.
pub(super) fn end(
    observed: Box<dyn ObservedRequest>,
    (reply, client): (HttpReply, SocketAddr),
) -> (HttpReply, SocketAddr) {
    observed.ended(reply.status().as_u16(), client);
    (reply, client)
}
