//! Who is told of each request once it was answered: the log of requests, and the spans of traces.
//!
//! The listener says that a request came and with what status it was answered; the process says what comes of it. A
//! request that another server relayed is told on both: on the one it came to, and on the one that answered it. There its span is below that
//! of the relaying, which travels with the request ([`ForwardSpan`]).
//!
//! Invariants:
//! - While nobody wants to hear of requests, one costs two branches and a load.
//! - What is told of a request holds no token, no header, no parameter of its query and nothing of its body. A span holds nothing of its path
//!   either, but for the row that answers it ([`kallisto_core::RouteFacts`]).
//! - What a client says of its trace and is malformed counts as nothing, and is no error.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use jiff::Timestamp;
use kallisto_core::{Core, RouteFacts};
use kallisto_traces::{
    ChildSpan, PARENT_HEADER, RequestSpan, RequestTrace, STATE_HEADER, SpanKind, SpanStatus,
    TraceContext,
};

use super::HttpService;

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

/// Methods that a span says; any other is told as one word, since a client can make up many.
const METHODS: [&str; 11] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "LIST", "SCAN", "RECOVER",
    "CONNECT",
];
/// That word.
const OTHER_METHOD: &str = "_OTHER";

/// A request of which somebody wants to hear.
pub(super) struct Observation {
    log: Option<Box<dyn ObservedRequest>>,
    span: Option<RequestSpan>,
}

impl Observation {
    /// Serves the request, as work for it.
    pub(super) fn hearing<F: Future>(
        &self,
        serving: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let trace = self.span.as_ref().map(|span| Arc::clone(span.trace()));
        kallisto_traces::carry(trace, serving)
    }

    /// This server does not answer it, since another one leads: whoever relayed it asks there, and has the span of that.
    pub(super) fn turned_away(self, client: SocketAddr) {
        if let Some(log) = self.log {
            log.ended(StatusCode::SERVICE_UNAVAILABLE.as_u16(), client);
        }
        if let Some(span) = self.span {
            span.leave_out();
        }
    }

    /// It was answered.
    pub(super) fn ended(self, status: StatusCode, client: SocketAddr) {
        if let Some(log) = self.log {
            log.ended(status.as_u16(), client);
        }
        let Some(span) = self.span else { return };
        let mut outcome = SpanStatus::Unset;
        if span.trace().is_recorded() {
            span.trace().note("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                span.trace().note("error.type", status.as_str().to_owned());
                outcome = SpanStatus::Failed(status.canonical_reason().unwrap_or("server error"));
            }
        }
        span.end(outcome);
    }
}

impl HttpService {
    /// Tells of a request that came; `None` when nobody wants to hear of it.
    pub(super) fn observe(&self, head: &Parts, is_relayed: bool) -> Option<Observation> {
        let observer = self.observer.as_deref().filter(|observer| observer.is_on());
        if observer.is_none() && self.tracer.is_none() {
            return None;
        }
        let Parts { method, uri, headers, .. } = head;
        let log = observer.and_then(|observer| {
            let (at, begin) = (self.clock.now(), self.clock.instant());
            let (method, path) = (method.as_str(), uri.path());
            observer.observe(&ArrivedRequest { method, path, at, begin, is_relayed })
        });
        let span = self.tracer.as_ref().map(|tracer| tracer.begin(context_of(headers)));
        if let Some(span) = span.as_ref().filter(|span| span.trace().is_recorded()) {
            let method = known(method.as_str());
            span.trace().note("http.request.method", method);
            // Until it is known what it asks for.
            span.trace().set_name(name_of(method));
            if is_relayed {
                span.trace().note("kallisto.relayed", true);
            }
        }
        Some(Observation { log, span })
    }

    /// The same for a read of the API that was answered, whose head says nothing but who asks; `path` stands below `/v1/`.
    pub(super) fn observe_read(
        &self,
        path: &str,
        begin: Instant,
        request: &kallisto_core::Request<'_>,
        headers: &[httparse::Header<'_>],
    ) -> Option<Observation> {
        let observer = self.observer.as_deref().filter(|observer| observer.is_on());
        if observer.is_none() && self.tracer.is_none() {
            return None;
        }
        let log = observer.and_then(|observer| {
            let path = path.split_once('?').map_or(path, |(path, _)| path);
            let path = &format!("/v1/{path}");
            let at = request.now;
            observer.observe(&ArrivedRequest { method: "GET", path, at, begin, is_relayed: false })
        });
        let span = self.tracer.as_ref().and_then(|tracer| {
            let ago = self.clock.instant().saturating_duration_since(begin);
            tracer.begin_answered(context_of_plain(headers), ago)
        });
        if let Some(span) = &span {
            span.trace().note("http.request.method", "GET");
            note_route(span.trace(), &self.core, "GET", request);
        }
        (log.is_some() || span.is_some()).then_some(Observation { log, span })
    }

    /// Says of the request that is served what traces tell of it, where it is recorded.
    pub(super) fn describe(&self, head: &Parts, request: &kallisto_core::Request<'_>) {
        if self.tracer.is_none() {
            return;
        }
        if let Some(trace) = kallisto_traces::current().filter(|trace| trace.is_recorded()) {
            note_route(&trace, &self.core, known(head.method.as_str()), request);
        }
    }
}

/// The span of a request's way to the leader, with the wait for one, where the request is recorded.
///
/// It is left out where no other server is asked after all: this one stands in, leads by then, or sends the client elsewhere.
pub(super) struct ForwardSpan {
    span: Option<ChildSpan>,
    /// The place in the trace that the request is relayed with, where requests are traced.
    context: Option<TraceContext>,
    is_told: bool,
}

impl ForwardSpan {
    /// Begins it.
    pub(super) fn begin() -> Self {
        let trace = kallisto_traces::current();
        let span = trace.as_ref().and_then(|trace| trace.child("forward", SpanKind::Client));
        let of_request = || trace.as_ref().map(|trace| trace.context().clone());
        let context = span.as_ref().map(|span| span.context().clone()).or_else(of_request);
        Self { span, context, is_told: false }
    }

    /// The place in the trace that the request is relayed with.
    pub(super) const fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Another server is asked.
    pub(super) const fn note_asked(&mut self) {
        self.is_told = true;
    }

    /// It failed: a word of a fixed set.
    pub(super) fn fail(&mut self, why: &'static str) {
        self.is_told = true;
        if let Some(span) = &mut self.span {
            span.fail(why);
        }
    }
}

impl Drop for ForwardSpan {
    fn drop(&mut self) {
        if let Some(span) = self.span.take()
            && !self.is_told
        {
            span.leave_out();
        }
    }
}

/// The place in a trace that a client names, once.
fn context_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(PARENT_HEADER).iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?;
    let states = headers.get_all(STATE_HEADER).iter();
    TraceContext::parse(parent.as_bytes(), states.map(HeaderValue::as_bytes))
}

/// The same of a head that no library has read.
fn context_of_plain(headers: &[httparse::Header<'_>]) -> Option<TraceContext> {
    let all = |name: &'static str| {
        headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name))
    };
    let mut parents = all(PARENT_HEADER);
    let parent = parents.next().filter(|_| parents.next().is_none())?;
    TraceContext::parse(parent.value, all(STATE_HEADER).map(|header| header.value))
}

/// A method as it is told.
fn known(method: &str) -> &'static str {
    METHODS.iter().find(|known| **known == method).copied().unwrap_or(OTHER_METHOD)
}

/// What the span of a method is called, as the conventions have it.
fn name_of(method: &'static str) -> &'static str {
    if method == OTHER_METHOD { "HTTP" } else { method }
}

fn note_route(
    trace: &RequestTrace,
    core: &Core,
    method: &'static str,
    request: &kallisto_core::Request<'_>,
) {
    let RouteFacts { route, mount, mount_type, namespace, operation } = core.route_facts(request);
    if let Some(route) = route {
        trace.set_name(format!("{} {route}", name_of(method)));
        trace.note("http.route", route);
    }
    trace.note("kallisto.operation", operation);
    trace.note("kallisto.request_id", request.id.text());
    if let Some(namespace) = namespace {
        trace.note("kallisto.namespace", namespace);
    }
    if let Some(mount) = mount {
        trace.note("kallisto.mount.path", mount);
    }
    if let Some(mount_type) = mount_type {
        trace.note("kallisto.mount.type", mount_type);
    }
}
