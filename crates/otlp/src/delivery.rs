//! A batch on its way: the request that it is, and what the answer means.
//!
//! Over gRPC a message follows five bytes: whether it is compressed (never, here) and how long it is. How the call ended stands in the
//! trailers, or in the head of an answer that has nothing else (gRPC over HTTP/2, "Responses"). Which failures are worth another attempt is in
//! the specification of OTLP, "Failures".

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TE, USER_AGENT,
};
use hyper::{Request, Response, StatusCode};
use kallisto_traces::{FinishedSpan, SpanDrop};

use crate::connection::Connection;
use crate::endpoint::{CollectorEndpoint, OtlpProtocol};
use crate::message;

/// Most bytes of an answer that are read.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest that a collector is left alone because it asks for that. What it asks for is a stranger's number.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Bytes before a message of gRPC.
const PREFIX_BYTES: usize = 5;
/// What we are called.
const AGENT: &str = concat!("kallisto/", env!("CARGO_PKG_VERSION"));
/// The header that says how a call of gRPC ended.
static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Why a batch was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    /// There is no connection, or it broke.
    Lost(String),
    /// No whole answer came.
    Unanswered(String),
    /// The collector says that it may take it later, after so long if that was said.
    Later(String, Option<Duration>),
    /// It says that it never will.
    Refused(String),
}

impl DeliveryFailure {
    /// What went wrong.
    pub(crate) fn why(&self) -> &str {
        let (Self::Lost(why) | Self::Unanswered(why) | Self::Later(why, _) | Self::Refused(why)) =
            self;
        why
    }

    /// Whether the collector answered, so that the connection is as good as before.
    pub(crate) const fn is_answer(&self) -> bool {
        match self {
            Self::Later(..) | Self::Refused(_) => true,
            Self::Lost(_) | Self::Unanswered(_) => false,
        }
    }

    /// What spans are counted as that are dropped for it.
    pub(crate) const fn drop_reason(&self) -> SpanDrop {
        match self {
            Self::Refused(_) => SpanDrop::Refused,
            Self::Lost(_) | Self::Unanswered(_) | Self::Later(..) => SpanDrop::Unreachable,
        }
    }
}

/// The request that sends a batch.
///
/// # Errors
/// When something in it is no part of a request, which the settings do not let happen.
pub(crate) fn request(
    endpoint: &CollectorEndpoint,
    headers: &HeaderMap,
    resource: &[(String, String)],
    batch: &[FinishedSpan],
) -> Result<Request<Full<Bytes>>, DeliveryFailure> {
    let message = message::request(resource, batch);
    let (uri, kind, body) = match endpoint.protocol {
        OtlpProtocol::Http => (endpoint.path.clone(), "application/x-protobuf", message),
        OtlpProtocol::Grpc => {
            let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
            framed.push(0);
            framed.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
            framed.extend(message);
            (endpoint.url(), "application/grpc", framed)
        }
    };
    let mut request = Request::post(uri);
    if let Some(all) = request.headers_mut() {
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        all.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        match endpoint.protocol {
            OtlpProtocol::Grpc => drop(all.insert(TE, HeaderValue::from_static("trailers"))),
            OtlpProtocol::Http => {
                if let Ok(host) = HeaderValue::from_str(&endpoint.authority) {
                    all.insert(HOST, host);
                }
            }
        }
    }
    let no_request = |_| DeliveryFailure::Refused("the endpoint makes no request".to_owned());
    request.body(Full::new(Bytes::from(body))).map_err(no_request)
}

/// Sends a request and says how many of its spans the collector did not take.
///
/// # Errors
/// Why it took none.
pub(crate) async fn send(
    connection: &mut Connection,
    protocol: OtlpProtocol,
    request: Request<Full<Bytes>>,
) -> Result<u64, DeliveryFailure> {
    let answer = connection.ask(request).await.map_err(DeliveryFailure::Lost)?;
    judge(protocol, answer).await
}

async fn judge(protocol: OtlpProtocol, answer: Response<Incoming>) -> Result<u64, DeliveryFailure> {
    let (head, body) = answer.into_parts();
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    if !head.status.is_success() {
        return Err(of_status(head.status, &head.headers));
    }
    let whole = match read {
        Ok(whole) => whole,
        // That it was taken is said; how much of it is not.
        Err(_) if protocol == OtlpProtocol::Http => return Ok(0),
        Err(_) => {
            return Err(DeliveryFailure::Unanswered("the answer is not whole".to_owned()));
        }
    };
    match protocol {
        OtlpProtocol::Http => Ok(message::rejected(&whole.to_bytes())),
        OtlpProtocol::Grpc => {
            let trailers = whole.trailers().cloned().unwrap_or_default();
            let status = trailers.get(&GRPC_STATUS).or_else(|| head.headers.get(&GRPC_STATUS));
            let status = status.and_then(|status| status.to_str().ok()?.parse::<u32>().ok());
            match of_call(status) {
                Some(failure) => Err(failure),
                None => {
                    let framed = whole.to_bytes();
                    Ok(message::rejected(framed.get(PREFIX_BYTES..).unwrap_or_default()))
                }
            }
        }
    }
}

/// What an answer of HTTP means that is no success.
pub(crate) fn of_status(status: StatusCode, headers: &HeaderMap) -> DeliveryFailure {
    let why = format!("the collector answers with status {}", status.as_u16());
    match status.as_u16() {
        429 | 502 | 503 | 504 => DeliveryFailure::Later(why, retry_after(headers)),
        _ => DeliveryFailure::Refused(why),
    }
}

/// How long a collector asks to be left alone, at most [`RETRY_AFTER_MAX`]. Only a number of seconds is read: what a date means depends on
/// two clocks, and our own pauses grow without one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let digits = headers.get(RETRY_AFTER)?.to_str().ok()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More than fits is over the limit too.
    let seconds = digits.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// What the status of a call means; nothing for one that succeeded.
fn of_call(status: Option<u32>) -> Option<DeliveryFailure> {
    let why = |code: u32| format!("the collector answers with status {code} of gRPC");
    match status {
        Some(0) => None,
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
        Some(code @ (1 | 4 | 10 | 11 | 14 | 15)) => Some(DeliveryFailure::Later(why(code), None)),
        Some(code) => Some(DeliveryFailure::Refused(why(code))),
        None => Some(DeliveryFailure::Unanswered("the answer has no status of gRPC".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_succeed_later_is_told_from_what_will_not() {
        let with = |status: u16, after: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.extend(after.map(|after| (RETRY_AFTER, after.parse().unwrap())));
            of_status(StatusCode::from_u16(status).unwrap(), &headers)
        };
        for status in [429, 502, 503, 504] {
            assert!(matches!(with(status, None), DeliveryFailure::Later(_, None)), "{status}");
        }
        let seven = Some(Duration::from_secs(7));
        assert!(matches!(with(503, Some("7")), DeliveryFailure::Later(_, at) if at == seven));
        for status in [301, 400, 401, 403, 404, 413, 500] {
            assert!(matches!(with(status, None), DeliveryFailure::Refused(_)), "{status}");
        }
        assert_eq!(of_call(Some(0)), None);
        for code in [1, 4, 10, 11, 14, 15] {
            assert!(matches!(of_call(Some(code)), Some(DeliveryFailure::Later(..))), "{code}");
        }
        for code in [2, 3, 5, 7, 8, 12, 13, 16, 99] {
            assert!(matches!(of_call(Some(code)), Some(DeliveryFailure::Refused(_))), "{code}");
        }
        assert!(matches!(of_call(None), Some(DeliveryFailure::Unanswered(_))));
    }

    #[test]
    fn what_a_collector_asks_for_is_bounded_whatever_it_is() {
        let of = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(of(b"0"), Some(Duration::ZERO));
        assert_eq!(of(b"30"), Some(RETRY_AFTER_MAX));
        for much in ["31", "18446744073709551615", "18446744073709551616", &"9".repeat(4096)] {
            assert_eq!(of(much.as_bytes()), Some(RETRY_AFTER_MAX), "{much}");
        }
        for none in [
            "",
            " ",
            "-1",
            "-9223372036854775808",
            "+7",
            "7.5",
            "1e9",
            "0x7",
            "7, 8",
            "soon",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            assert_eq!(of(none.as_bytes()), None, "{none}");
        }
        assert_eq!(of(b"\xff7"), None);
    }
}
