//! Spans of requests: which trace a request belongs to, whether it is recorded, and what took its time.
//!
//! The listener begins a [`RequestSpan`] for each request and lets it run inside ([`RequestTrace::scope`]). What is called on the way, however
//! deep, finds the request that this thread works for ([`current`], [`child`]) and needs no parameter for it. Spans that have ended go to a
//! bounded queue ([`SpanReceiver`]); who takes them from there, and sends them where, is not known here.
//!
//! ```text
//! context   the header `traceparent` and what it says (W3C Trace Context)
//! sampling  which traces are recorded
//! request   a request's span, and the spans below it
//! span      a span that has ended
//! tracer    the queue, and what is counted
//! ```
//!
//! Invariants:
//! - Nothing here waits: a span that finds the queue full is dropped and counted.
//! - A request has at most [`CHILDREN_MAX`] spans below its own.
//! - Outside of a scope a look for the current request is one read of a variable of the thread.
#![forbid(unsafe_code)]

mod context;
mod request;
mod sampling;
mod span;
mod tracer;

pub use context::{PARENT_HEADER, STATE_HEADER, TraceContext};
pub use request::{
    CHILDREN_MAX, ChildSpan, RequestSpan, RequestTrace, Scoped, carry, child, current,
};
pub use sampling::{RootSampling, Sampling};
pub use span::{AttributeValue, Attributes, FinishedSpan, SpanKind, SpanStatus};
pub use tracer::{QUEUE_SPANS_MAX, SpanCounts, SpanDrop, SpanReceiver, TraceClock, Tracer};
