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
use hyper::http::uri::Scheme;
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
    let host = head.headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    if ![host, authority].into_iter().flatten().all(names_host) {
        return Some(refuse(StatusCode::BAD_REQUEST, &["malformed Host header"]));
    }
    // HTTP/1.1 has an order for the two: what the target says is the host (RFC 9112, section 3.2.2).
    if head.version == Version::HTTP_2
        && let (Some(host), Some(authority)) = (host, authority)
        && !is_same_host(host, authority, head.uri.scheme())
    {
        return Some(refuse(StatusCode::BAD_REQUEST, &["Host header and :authority differ"]));
    }
    None
}

/// Whether these bytes are a host with or without a port, and nothing else (RFC 9110, section 7.2; RFC 3986, section 3.2.2). An empty
/// one is that of a target that has none.
pub(super) fn names_host(bytes: &[u8]) -> bool {
    let is_of_name = |byte: &u8| IS_OF_NAME[usize::from(*byte)];
    let end = match bytes {
        [b'[', literal @ ..] => {
            let is_of_literal = |byte: &u8| *byte == b':' || is_of_name(byte);
            match literal.iter().position(|byte| !is_of_literal(byte)) {
                Some(end @ 1..) if literal[end] == b']' => end + 2,
                _ => return false,
            }
        }
        name => name.iter().position(|byte| !is_of_name(byte)).unwrap_or(name.len()),
    };
    match &bytes[end..] {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Bytes that may stand in the name of a host. A table, since every request has one.
static IS_OF_NAME: [bool; 256] = {
    let mut is_of_name = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_of_name[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&'..=b',')
            || matches!(byte, b';' | b'=');
        byte += 1;
    }
    is_of_name
};

/// Whether both name one host and port; the one that a scheme has by itself may be left out.
fn is_same_host(host: &[u8], authority: &[u8], scheme: Option<&Scheme>) -> bool {
    let default: &[u8] = if scheme == Some(&Scheme::HTTPS) { b":443" } else { b":80" };
    let bare = |name| <[u8]>::strip_suffix(name, default).unwrap_or(name);
    bare(host).eq_ignore_ascii_case(bare(authority))
}

/// Whether every line ends as lines do.
pub(super) fn has_whole_line_ends(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r')
}

/// Whether `input` starts with a whole head of HTTP/1 that can be read in two ways: by its line ends, by how long its body is, or
/// by where its target ends: hyper drops a fragment, which no request has (RFC 9112, section 3.2).
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
        || request.path.is_some_and(|target| target.contains('#'))
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
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for host in
            ["", "h", "localhost:8200", "a-b.c_d", "127.0.0.1:1", "[::1]", "[::1]:80", "a:", "%41"]
        {
            assert!(names_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a b@c/", "a b", "u@h", "u:p@h", "h/", "h?", "h#", "h:1a", "h:1:2", "[]", "[::1",
            "::1", "[::1]x", "[a/b]", "h\\", "\"h\"", "h,i ", "h\u{e9}", "http://h",
        ] {
            assert!(!names_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn over_http_2_the_host_is_the_authority() {
        let is_refused = |version: Version, uri: &str, host: &str| {
            let builder = hyper::Request::builder().version(version).uri(uri).header(HOST, host);
            refusal(&builder.body(()).unwrap().into_parts().0).is_some()
        };
        for (uri, host, expected) in [
            ("http://h:8200/", "h:8200", false),
            ("http://h:8200/", "H:8200", false),
            ("http://h:8200/", "h", true),
            ("http://h:8200/", "evil", true),
            ("http://h/", "h:80", false),
            ("https://h:443/", "h", false),
            ("https://h/", "h:80", true),
            ("http://u@h/", "u@h", true),
            ("/", "h", false),
        ] {
            assert_eq!(is_refused(Version::HTTP_2, uri, host), expected, "{uri} {host}");
        }
        // Its target says which host, whatever the header.
        assert!(!is_refused(Version::HTTP_11, "http://h/", "other"));
        assert!(is_refused(Version::HTTP_11, "http://h/", "a b@c/"));
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
            ("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", true),
            ("GET /?a=#b HTTP/1.1\r\nHost: h\r\n\r\n", true),
            ("GET /a%23b HTTP/1.1\r\nReferer: /#\r\n\r\n", false),
            // What is no whole head is for hyper to say.
            ("GET / HTTP/1.1\nHost", false),
            ("PRI * HTTP/2.0\r\n\r\n", false),
        ] {
            assert_eq!(is_ambiguous(head.as_bytes()), expected, "{head:?}");
        }
    }
}
