//! What a request and its answer are, apart from what answers: the JSON tree, the fields of requests, errors, streams.
//!
//! Listeners make a [`Request`] of what they read and give a [`Response`] or an [`Error`] its form on the wire. Engines take the one and
//! return the other. Nothing here reads a clock, a store or a socket.
#![forbid(unsafe_code)]

pub mod crowd;
pub mod error;
pub mod etag;
pub mod expected;
pub mod fields;
pub mod flow;
pub mod json;
pub mod request;
pub mod request_id;
pub mod response;
pub mod stream;

pub use crowd::Crowd;
pub use error::{Denial, Error, OverQuota, Stale};
pub use etag::{ETAG_BYTES_MAX, Etag};
pub use expected::Expected;
pub use fields::{Fields, parse_bool};
pub use flow::Flow;
pub use json::{Json, Map};
pub use kallisto_duration::Span;
pub use request::{
    BodyKind, HeaderSource, Headers, QUERY_PAIRS_MAX, Request, TokenText, parse_query,
};
pub use request_id::RequestId;
pub use response::{BatchAnswer, LeaseHandle, Logical, Response, TouchedPath, Upload};
pub use stream::{Awaited, ChangeFuture, NextPiece, Source, Stream, Waiting};

use std::future::Future;
use std::pin::Pin;

/// A future whose type is not named: what a table of functions returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
