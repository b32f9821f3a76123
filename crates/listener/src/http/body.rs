//! Reading a request's body: bounded in bytes, in time, and together with all others.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use kallisto_core::Error;
use kallisto_core::admission::{self, Crowd, Flow, SharedAmount};
use kallisto_core::limits::BODY_BYTES_MAX;

use super::{HttpReply, error, refuse};

/// A body in memory, and its share of the budget.
pub(super) struct BudgetedBody {
    bytes: Bytes,
    _share: admission::Held,
}

/// Why a body was not taken.
#[derive(Debug)]
pub(super) enum BodyRefusal {
    TooLarge,
    TooSlow,
    Busy(Crowd),
    Broken,
    Encoded,
}

impl BudgetedBody {
    /// A body that is there already.
    pub(super) fn here(
        bytes: Bytes,
        (shares, flow): (&Arc<SharedAmount>, Flow),
    ) -> Result<Self, BodyRefusal> {
        let mut share = shares.nothing(flow);
        share.grow(bytes.len()).map_err(BodyRefusal::Busy)?;
        Ok(Self { bytes, _share: share })
    }

    pub(super) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl BodyRefusal {
    /// The answer where the body, or the rest of it, was not read: nothing else is taken over the connection.
    pub(super) fn into_last_reply(self, version: Version) -> HttpReply {
        let mut reply = self.into_reply();
        // HTTP/2 ends the stream alone.
        if version < Version::HTTP_2 {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    pub(super) fn into_reply(self) -> HttpReply {
        let (status, message) = match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "http: request body too large"),
            Self::TooSlow => {
                (StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time")
            }
            Self::Busy(crowd) => return error::render(&Error::Busy(crowd)),
            Self::Broken => (StatusCode::BAD_REQUEST, "the request body is cut short or malformed"),
            Self::Encoded => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "request bodies must not be compressed")
            }
        };
        refuse(status, &[message])
    }
}

/// Reads the whole body, which has to arrive within `timeout`.
pub(super) async fn read(
    head: &Parts,
    body: Incoming,
    (shares, flow): (&Arc<SharedAmount>, Flow),
    timeout: Duration,
) -> Result<BudgetedBody, BodyRefusal> {
    let mut share = shares.nothing(flow);
    if body.is_end_stream() {
        return Ok(BudgetedBody { bytes: Bytes::new(), _share: share });
    }
    if head.headers.get_all(header::CONTENT_ENCODING).iter().any(is_encoding) {
        return Err(BodyRefusal::Encoded);
    }
    let declared = body.size_hint().lower();
    if declared > BODY_BYTES_MAX as u64 {
        return Err(BodyRefusal::TooLarge);
    }
    match tokio::time::timeout(timeout, collect(body, &mut share)).await {
        Ok(Ok(bytes)) => Ok(BudgetedBody { bytes, _share: share }),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(BodyRefusal::TooSlow),
    }
}

/// Whether a body is anything but what it is a form of.
fn is_encoding(name: &HeaderValue) -> bool {
    !name.is_empty() && !name.as_bytes().eq_ignore_ascii_case(b"identity")
}

async fn collect(mut body: Incoming, share: &mut admission::Held) -> Result<Bytes, BodyRefusal> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
        if first.len() + all.len() + data.len() > BODY_BYTES_MAX {
            return Err(BodyRefusal::TooLarge);
        }
        share.grow(data.len()).map_err(BodyRefusal::Busy)?;
        // The usual body is one frame, which is kept as it is.
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
                first = Bytes::new();
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
