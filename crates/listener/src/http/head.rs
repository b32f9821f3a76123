//! What a request's head must be before anything is made of it, beside what the readers refuse by themselves.
//!
//! A head that two programs read differently is how one request is made to look like two, so what can be read in two
//! ways is not read (RFC 9112, sections 2.2, 3.2 and 6.3). [`refusal`] judges the head of every request, whoever read it
//! and over whichever version; [`is_ambiguous`] judges the bytes of one, for what can no longer be seen afterwards.
//!
//! Over HTTP/1.1 hyper takes a line that ends without its carriage return, a length said twice and codings before
//! `chunked`. (A length beside `chunked` it drops, and closes the connection after: section 6.3 has an order for these.)
//! `direct` answers none that is ambiguous, and `heads` replaces each of them by [`NO_HEAD`] on its way to hyper, which
//! refuses that in its own words.

use hyper::header::{COOKIE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use memchr::memchr_iter;

use super::{HttpReply, refuse};
use crate::limits::HEADERS_MAX;

/// What hyper answers with a 400 and closes the connection after.
pub(super) const NO_HEAD: &[u8] = b"\0\r\n\r\n";

/// Makes one field of the parts that HTTP/2 lets browsers cut cookies into (RFC 9113, section 8.2.3), of which there may be more than of other fields.
pub(super) fn join_cookies(head: &mut Parts) {
    let all: Vec<&[u8]> = head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if all.len() < 2 {
        return;
    }
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        head.headers.insert(COOKIE, joined);
    }
}

/// The refusal of a request of any version whose head is not one to serve.
pub(super) fn refusal(head: &Parts) -> Option<HttpReply> {
    if head.headers.len() > HEADERS_MAX {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Some(refuse(status, &["too many header fields"]));
    }
    let hosts = head.headers.get_all(HOST).iter().count();
    let least = usize::from(head.version == Version::HTTP_11);
    if hosts < least {
        return Some(refuse(StatusCode::BAD_REQUEST, &["missing required Host header"]));
    }
    if hosts > 1 {
        return Some(refuse(StatusCode::BAD_REQUEST, &["too many Host headers"]));
    }
    None
}

/// Whether every line ends as lines do.
pub(super) fn has_whole_line_ends(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r')
}

/// Whether `input` starts with a whole head of HTTP/1 that can be read in two ways: by its line ends, or by how long
/// its body is.
pub(super) fn is_ambiguous(input: &[u8]) -> bool {
    let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut room);
    let Ok(httparse::Status::Complete(length)) = request.parse(input) else { return false };
    let count = |name: &str| {
        request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).count()
    };
    let is_chunked = |header: &&httparse::Header<'_>| {
        !header.name.eq_ignore_ascii_case("transfer-encoding")
            || header.value.eq_ignore_ascii_case(b"chunked")
    };
    !has_whole_line_ends(&input[..length])
        || count("content-length") > 1
        || count("transfer-encoding") > 1
        || !request.headers.iter().all(|header| is_chunked(&header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_that_were_cut_are_one_field() {
        let head = |name: &str, count: usize| {
            let mut builder = hyper::Request::builder().header(HOST, "h");
            for at in 0..count {
                builder = builder.header(name, format!("c{at}=v"));
            }
            let mut head = builder.body(()).unwrap().into_parts().0;
            join_cookies(&mut head);
            head
        };
        assert_eq!(head("cookie", 3).headers[COOKIE], "c0=v; c1=v; c2=v");
        assert_eq!(head("cookie", 2).headers[COOKIE], "c0=v; c1=v");
        assert_eq!(head("cookie", 1).headers[COOKIE], "c0=v");
        assert!(refusal(&head("cookie", 2 * HEADERS_MAX)).is_none());
        // With the host they are as many as there may be.
        assert!(refusal(&head("x-other", HEADERS_MAX - 1)).is_none());
        assert!(refusal(&head("x-other", HEADERS_MAX)).is_some());
    }

    #[test]
    fn a_request_names_one_host_and_over_http_2_perhaps_none() {
        let is_refused = |version: Version, hosts: usize| {
            let mut builder = hyper::Request::builder().version(version);
            for _ in 0..hosts {
                builder = builder.header(HOST, "h");
            }
            refusal(&builder.body(()).unwrap().into_parts().0).is_some()
        };
        for (version, expected) in [
            (Version::HTTP_11, [true, false, true]),
            (Version::HTTP_10, [false, false, true]),
            (Version::HTTP_2, [false, false, true]),
        ] {
            assert_eq!([0, 1, 2].map(|hosts| is_refused(version, hosts)), expected, "{version:?}");
        }
    }

    #[test]
    fn what_two_programs_may_read_differently_is_ambiguous() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\nbody\nof two lines", false),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n", false),
            ("GET / HTTP/1.1\nHost: h\n\n", true),
            ("GET / HTTP/1.1\r\nHost: h\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: h\r\n\n", true),
            ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", false),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n", false),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                true,
            ),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", true),
            // What is no whole head is for hyper to say.
            ("GET / HTTP/1.1\nHost", false),
            ("PRI * HTTP/2.0\r\n\r\n", false),
        ] {
            assert_eq!(is_ambiguous(head.as_bytes()), expected, "{head:?}");
        }
    }
}
