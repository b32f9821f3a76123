//! Sends the spans of requests to a collector of OpenTelemetry (OTLP 1.x), over HTTP or gRPC.
//!
//! One thread with a runtime of its own takes spans from the queue ([`kallisto_traces::SpanReceiver`]) and sends them in batches. Requests
//! never wait for it: while a collector is slow or gone the queue fills, and what does not fit is dropped and counted.
//!
//! ```text
//! endpoint    where the collector is, and how it is spoken to
//! message     spans in the messages of OTLP
//! wire        what a connection goes over: so much is read of it
//! connection  a connection with it, with or without TLS
//! delivery    a batch: its request, and what the answer means
//! backoff     how long a collector that fails is left alone
//! exporter    the thread: gathering, trying again, the end
//! fuzz        what a collector answers as any bytes, for the fuzzers
//! ```
//!
//! The messages are encoded by prost; HTTP/1.1 and HTTP/2 are hyper's. What gRPC adds to a request with one message and an answer with one
//! is five bytes before each and a status behind them, which `delivery` has (docs/decisions/0551-traces.md).
//!
//! Invariants:
//! - An attempt to send, the time a batch is tried again, all that comes for it and the time at the end are bounded, whatever a collector says
//!   and however long a name is looked up.
//! - A collector that fails is left alone before it is asked again, longer each time.
//! - No header's value is in an error, an event or `Debug`.
#![forbid(unsafe_code)]

mod backoff;
mod connection;
mod delivery;
mod endpoint;
mod exporter;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod message;
mod wire;

pub use endpoint::{CollectorEndpoint, OtlpProtocol};
pub use exporter::{Exporter, ExporterSettings, SHUTDOWN_MAX};
