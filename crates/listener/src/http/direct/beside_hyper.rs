//! The second reader of plain requests, for the fuzzers: hyper, over the same bytes.
//!
//! Two readers that part in one byte of a stream answer somebody else's request. What [`super::plain`] takes from a connection is therefore
//! compared with what hyper makes of it: as many requests, and the same method, target, headers and body of each.

use std::cell::RefCell;
use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;

use super::plain::{HEADERS_MAX, HeaderRoom, PlainHead, find};

/// How often hyper is asked to go on: more often than there are requests and bodies in an input.
const POLLS_MAX: usize = 1 << 12;

/// A request as a reader has it.
#[derive(Debug, PartialEq, Eq)]
struct SeenRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// Plain requests at the start of any bytes are those that hyper reads.
pub(in crate::http) fn check(bytes: &[u8]) {
    let (mut direct, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let PlainHead::Plain(plain) = find(rest, &mut room) else { break };
        // What has a head that the HTTP library does not take is hyper's to refuse.
        let Some(parts) = plain.to_parts() else { break };
        let body = Bytes::copy_from_slice(plain.body);
        let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
        direct.push(SeenRequest { method, uri, headers, body });
        rest = &rest[plain.length..];
    }
    if !direct.is_empty() {
        assert_eq!(by_hyper(&bytes[..bytes.len() - rest.len()]), direct);
    }
}

fn by_hyper(bytes: &[u8]) -> Vec<SeenRequest> {
    let seen = RefCell::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
        seen.borrow_mut().push(SeenRequest { method, uri, headers, body });
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let io = TokioIo::new(tokio::io::join(bytes, tokio::io::sink()));
    let mut builder = http1::Builder::new();
    // What is read was sent whole; that nothing follows must not cut an answer short.
    builder.half_close(true).header_read_timeout(None);
    {
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut context = Context::from_waker(Waker::noop());
        let is_over = (0..POLLS_MAX).any(|_| connection.as_mut().poll(&mut context).is_ready());
        assert!(is_over, "hyper does not end");
    }
    seen.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyper_reads_the_requests_that_are_taken_from_it() {
        let all = b"GET /v1/a HTTP/1.1\r\nHost: h\r\n\r\nPOST /v1/b?c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";
        let read = by_hyper(all);
        let told: Vec<String> =
            read.iter().map(|it| format!("{} {} {:?}", it.method, it.uri, it.body)).collect();
        assert_eq!(told, ["GET /v1/a b\"\"", "POST /v1/b?c b\"{}\""]);
        check(all);
    }
}
