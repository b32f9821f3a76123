//! Who is told of each request once it was answered: the log of requests, and traces.
//!
//! The listener says that a request came and with what status it was answered; the process says what comes of it. A
//! request that another server relayed is told on both: on the one it came to, and on the one that answered it.
//!
//! Invariants:
//! - While nobody wants to hear of requests, one costs a branch and a load.
//! - What is told of a request holds no token, no header, no parameter of its query and nothing of its body.

use std::net::SocketAddr;
use std::time::Instant;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use jiff::Timestamp;

use super::{HttpReply, HttpService};
use crate::limits::HEADERS_MAX;

/// Hears of requests.
pub trait RequestObserver: Send + Sync {
    /// Whether it wants to hear of any.
    fn is_on(&self) -> bool;

    /// A request came. `headers` are its own, where it has any that matter: what is put there is relayed with it. `None`
    /// when nobody wants to hear of this one.
    fn observe(
        &self,
        request: &ArrivedRequest<'_>,
        headers: Option<TravellingHeaders<'_>>,
    ) -> Option<Box<dyn ObservedRequest>>;
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

/// The headers of a request, of which those that say of which trace it is may be read and set.
#[derive(Debug)]
pub struct TravellingHeaders<'a>(&'a mut HeaderMap);

impl TravellingHeaders<'_> {
    /// The value of a header that is there once, as text.
    pub fn value(&self, name: &'static str) -> Option<&str> {
        let mut all = self.0.get_all(name).iter();
        let only = all.next().filter(|_| all.next().is_none());
        only?.to_str().ok()
    }

    /// Sets a header, unless the request has as many as one may have or the value is none.
    pub fn set(&mut self, name: &'static str, value: &str) {
        let is_room = self.0.contains_key(name) || self.0.len() < HEADERS_MAX;
        if let Ok(value) = HeaderValue::from_str(value)
            && is_room
        {
            self.0.insert(HeaderName::from_static(name), value);
        }
    }
}

impl HttpService {
    /// Whether anybody wants to hear of requests.
    pub(super) fn is_observed(&self) -> bool {
        self.observer.as_deref().is_some_and(|observer| observer.is_on())
    }

    /// Tells of a request that came; `None` when nobody wants to hear of it.
    pub(super) fn observe(
        &self,
        head: &mut Parts,
        is_relayed: bool,
    ) -> Option<Box<dyn ObservedRequest>> {
        let observer = self.observer.as_deref().filter(|observer| observer.is_on())?;
        let Parts { method, uri, headers, .. } = head;
        let (at, begin) = (self.clock.now(), self.clock.instant());
        let (method, path) = (method.as_str(), uri.path());
        let request = ArrivedRequest { method, path, at, begin, is_relayed };
        observer.observe(&request, Some(TravellingHeaders(headers)))
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
        observer.observe(&request, None)
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
