//! What the input of a connection starts with: a plain request, a part of one, or something that is not served here.

use std::mem::MaybeUninit;

use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};

use crate::http::head::{has_whole_line_ends, names_host};

/// Most bytes of input kept for one connection; a request that does not fit is hyper's.
pub(super) const INPUT_BYTES_MAX: usize = 32 << 10;
/// Header fields of a plain request.
pub(super) const HEADERS_MAX: usize = 32;
/// Largest body of a plain request: larger ones have to take their share of a budget.
const BODY_BYTES_MAX: usize = 16 << 10;

const _: () = assert!(BODY_BYTES_MAX < INPUT_BYTES_MAX);

/// What the input starts with.
#[derive(Debug)]
pub(super) enum PlainHead<'h, 'b> {
    /// A whole plain request.
    Plain(PlainRequest<'h, 'b>),
    /// A part of what may become one.
    Part,
    /// Something that is not served here.
    Other,
}

/// A request that has no say in its framing but the length of its body.
#[derive(Debug)]
pub(super) struct PlainRequest<'h, 'b> {
    pub(super) method: &'b str,
    pub(super) target: &'b str,
    pub(super) headers: &'h [httparse::Header<'b>],
    pub(super) body: &'b [u8],
    /// Bytes of the whole request.
    pub(super) length: usize,
    pub(super) token: Option<&'b [u8]>,
    /// No header means anything but for the token.
    pub(super) is_simple: bool,
}

/// Room for the headers of one request.
pub(super) type HeaderRoom<'b> = [MaybeUninit<httparse::Header<'b>>; HEADERS_MAX];

/// What a header is to whoever frames and reads a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Token,
    Length,
    Host,
    /// Says how the connection or the body is framed, or asks for what is not done here.
    Framing,
    /// None for a read.
    Nothing,
    /// Something to the service.
    Other,
}

fn meaning(header: &httparse::Header<'_>) -> Meaning {
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    match header.name.len() {
        2 if is("te") => Meaning::Framing,
        4 if is("host") => Meaning::Host,
        6 if is("expect") => Meaning::Framing,
        6 if is("accept") => Meaning::Nothing,
        7 if is("upgrade") || is("trailer") => Meaning::Framing,
        10 if is("connection") => {
            // What every connection is by itself.
            let stays = header.value.eq_ignore_ascii_case(b"keep-alive");
            if stays { Meaning::Nothing } else { Meaning::Framing }
        }
        10 if is("user-agent") => Meaning::Nothing,
        // Which trace it belongs to (W3C Trace Context): it is asked for once it was answered, where anybody wants to know.
        10 if is("tracestate") => Meaning::Nothing,
        11 if is("traceparent") => Meaning::Nothing,
        12 if is("content-type") => Meaning::Nothing,
        13 if is("x-vault-token") => Meaning::Token,
        14 if is("content-length") => Meaning::Length,
        14 if is("http2-settings") => Meaning::Framing,
        15 if is("accept-encoding") || is("accept-language") || is("x-vault-request") => {
            Meaning::Nothing
        }
        16 if is("content-encoding") || is("proxy-connection") => Meaning::Framing,
        17 if is("transfer-encoding") => Meaning::Framing,
        _ => Meaning::Other,
    }
}

/// Looks at what `input` starts with.
pub(super) fn find<'h, 'b>(input: &'b [u8], room: &'h mut HeaderRoom<'b>) -> PlainHead<'h, 'b> {
    let mut request = httparse::Request::new(&mut []);
    let head = match request.parse_with_uninit_headers(input, room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < INPUT_BYTES_MAX => return PlainHead::Part,
        Ok(httparse::Status::Partial) | Err(_) => return PlainHead::Other,
    };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version)
    else {
        return PlainHead::Other;
    };
    if !target.starts_with('/') || matches!(method, "HEAD" | "CONNECT") {
        return PlainHead::Other;
    }
    let headers: &'h [httparse::Header<'b>] = request.headers;
    let (mut token, mut body, mut is_simple, mut hosts) = (None, None, true, 0);
    for header in headers {
        match meaning(header) {
            Meaning::Framing => return PlainHead::Other,
            Meaning::Nothing => {}
            Meaning::Host if names_host(header.value) => hosts += 1,
            // Whoever refuses it says so.
            Meaning::Host => return PlainHead::Other,
            Meaning::Token if token.is_none() => token = Some(header.value),
            Meaning::Length if body.is_none() => match length(header.value) {
                Some(bytes) => body = Some(bytes),
                None => return PlainHead::Other,
            },
            Meaning::Length => return PlainHead::Other,
            Meaning::Token | Meaning::Other => is_simple = false,
        }
    }
    if hosts != 1 || !has_whole_line_ends(&input[..head]) {
        return PlainHead::Other;
    }
    let length = head + body.unwrap_or_default();
    match input.get(head..length) {
        Some(body) => PlainHead::Plain(PlainRequest {
            method,
            target,
            headers,
            body,
            length,
            token,
            is_simple,
        }),
        // A body has a time of its own to come in.
        None => PlainHead::Other,
    }
}

/// Whether a byte stands for itself in the path of a read, or begins an escape. Base 64 has a plus sign and an equals sign.
const fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'+' | b'=' | b'%')
}

/// A length in digits and nothing else, of a body that is small.
fn length(digits: &[u8]) -> Option<usize> {
    // No small body has a longer one.
    const DIGITS_MAX: usize = 6;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let bytes = digits.iter().try_fold(0, |sum: usize, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    });
    bytes.filter(|&bytes| bytes <= BODY_BYTES_MAX)
}

impl<'b> PlainRequest<'_, 'b> {
    /// Path and token of a read that asks for nothing else.
    pub(super) fn as_read(&self) -> Option<(&'b str, Option<&'b str>)> {
        let is_read = self.is_simple && self.method == "GET" && self.body.is_empty();
        let path = self.target.strip_prefix("/v1/").filter(|_| is_read)?;
        let token = match self.token {
            None => None,
            Some(token) => {
                let is_text = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
                Some(std::str::from_utf8(token).ok().filter(|_| is_text)?)
            }
        };
        let is_clean = path.bytes().all(is_of_path) && !self.target.contains("//");
        // What ends as a folder may be an OCSP request, which is told from one where targets are resolved.
        let is_folder = path.ends_with('/') || path.ends_with("%2F") || path.ends_with("%2f");
        (is_clean && !is_folder).then_some((path, token))
    }

    /// The head in the types of the HTTP library; `None` for what it does not take.
    pub(super) fn to_parts(&self) -> Option<Parts> {
        let (mut parts, ()) = Request::new(()).into_parts();
        // The HTTP library drops a fragment; whoever reads the head next refuses it.
        if self.target.contains('#') {
            return None;
        }
        parts.method = Method::from_bytes(self.method.as_bytes()).ok()?;
        parts.uri = Uri::try_from(self.target).ok()?;
        parts.headers.reserve(self.headers.len());
        for header in self.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            parts.headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
        }
        Some(parts)
    }
}

/// What holds of any bytes: requests lie within them, a part of one is never a whole one, and what is
/// taken for a read is what the HTTP library would read too.
#[cfg(any(test, feature = "fuzz"))]
pub(in crate::http) fn check(bytes: &[u8]) {
    // Cuts looked at of each request.
    const CUTS_MAX: usize = 256;
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let PlainHead::Plain(plain) = find(rest, &mut room) else { return };
        assert!(plain.length > plain.body.len() && plain.length <= rest.len());
        assert!(plain.body.len() <= BODY_BYTES_MAX);
        if let Some((path, token)) = plain.as_read() {
            let parts = plain.to_parts().expect("a read has a method and path of letters");
            assert_eq!(parts.uri.path(), plain.target);
            assert_eq!(parts.uri.query(), None);
            assert!(parts.uri.path().ends_with(path));
            let first = parts.headers.get("x-vault-token");
            assert_eq!(first.map(HeaderValue::to_str).transpose().ok(), Some(token));
        }
        for cut in 0..plain.length.min(CUTS_MAX) {
            let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let found = find(&rest[..cut], &mut room);
            let is_head = cut < plain.length - plain.body.len();
            assert_eq!(matches!(found, PlainHead::Part), is_head, "{cut}");
            assert_eq!(matches!(found, PlainHead::Other), !is_head, "{cut}");
        }
        rest = &rest[plain.length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(input: &[u8]) -> &'static str {
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        check(input);
        match find(input, &mut room) {
            PlainHead::Plain(plain) if plain.as_read().is_some() => "read",
            PlainHead::Plain(_) => "plain",
            PlainHead::Part => "part",
            PlainHead::Other => "other",
        }
    }

    #[test]
    fn only_what_says_nothing_of_its_framing_is_plain() {
        let get = |headers: &str| {
            format!(
                "GET /v1/secret/data/a HTTP/1.1\r\nHost: h\r\nX-Vault-Token: t\r\n{headers}\r\n"
            )
        };
        for (headers, expected) in [
            ("", "read"),
            ("Connection: Keep-Alive\r\nAccept: */*\r\n", "read"),
            ("Content-Length: 0\r\n", "read"),
            ("X-Vault-Namespace: a\r\n", "plain"),
            ("X-Vault-Token: u\r\n", "plain"),
            ("Content-Length: 1\r\n", "other"),
            ("Connection: close\r\n", "other"),
            ("Transfer-Encoding: chunked\r\n", "other"),
            ("Transfer-Encoding: identity\r\n", "other"),
            ("Content-Length: 0\r\nContent-Length: 0\r\n", "other"),
            ("Host: h\r\n", "other"),
            ("Accept: a\n", "other"),
            ("Content-Length: +1\r\n", "other"),
            ("Content-Length: 0x1\r\n", "other"),
            ("Content-Length: 16385\r\n", "other"),
            ("Content-Length:\r\n", "other"),
            ("Expect: 100-continue\r\n", "other"),
            ("Upgrade: h2c\r\n", "other"),
            ("A: b\r\n c\r\n", "other"),
            ("A : b\r\n", "other"),
        ] {
            assert_eq!(kind(get(headers).as_bytes()), expected, "{headers}");
        }
        for (line, expected) in [
            ("GET /v1/a?list=true HTTP/1.1", "plain"),
            ("GET /v1/a%20b HTTP/1.1", "read"),
            ("GET /v1/pki/ocsp/MEow/a+b%2B= HTTP/1.1", "read"),
            ("GET /v1/a~b HTTP/1.1", "plain"),
            ("GET /v1//a HTTP/1.1", "plain"),
            ("GET /ui/ HTTP/1.1", "plain"),
            ("POST /v1/a HTTP/1.1", "plain"),
            ("HEAD /v1/a HTTP/1.1", "other"),
            ("GET http://h/v1/a HTTP/1.1", "other"),
            ("GET /v1/a#b HTTP/1.1", "plain"),
            ("GET /v1/a HTTP/1.0", "other"),
            ("PRI * HTTP/2.0", "other"),
            ("GET /v1/a", "other"),
        ] {
            let head = format!("{line}\r\nHost: h\r\nX-Vault-Token: t\r\n\r\n");
            assert_eq!(kind(head.as_bytes()), expected, "{line}");
            assert_eq!(kind(head.replace("Host: h\r\n", "").as_bytes()), "other", "{line}");
            assert_eq!(kind(head.replace(": h\r\n", ": a b@c/\r\n").as_bytes()), "other", "{line}");
        }
    }

    #[test]
    fn each_field_is_taken_for_what_it_means_and_others_are_for_the_service() {
        let with = |name: &str, value: &str| {
            kind(format!("GET /v1/a HTTP/1.1\r\nHost: h\r\n{name}: {value}\r\n\r\n").as_bytes())
        };
        for name in [
            "TE",
            "Expect",
            "Upgrade",
            "Trailer",
            "Connection",
            "HTTP2-Settings",
            "Content-Encoding",
            "Proxy-Connection",
            "Transfer-Encoding",
        ] {
            assert_eq!(with(name, "x"), "other", "{name}");
        }
        for name in [
            "Accept",
            "User-Agent",
            "Tracestate",
            "Traceparent",
            "Content-Type",
            "Accept-Encoding",
            "Accept-Language",
            "X-Vault-Request",
        ] {
            assert_eq!(with(name, "x"), "read", "{name}");
        }
        // Of each length that a name above has.
        for length in 1..=18 {
            assert_eq!(with(&"z".repeat(length), "x"), "plain", "{length}");
        }
    }

    #[test]
    fn bodies_and_heads_are_as_long_as_they_may() {
        let post = |length: &str, body: usize| {
            let head =
                format!("POST /v1/a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
            let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let input = head + &"x".repeat(body);
            matches!(find(input.as_bytes(), &mut room), PlainHead::Plain(plain) if plain.body.len() == body)
        };
        assert!(post("16384", 16_384) && post("016384", 16_384) && post("10", 10));
        assert!(!post("16385", 16_385) && !post("0016384", 16_384) && !post("10", 9));
        for (bytes, expected) in [(INPUT_BYTES_MAX - 1, "part"), (INPUT_BYTES_MAX, "other")] {
            let begins = format!("GET /{}", "a".repeat(bytes - 5));
            let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let found = match find(begins.as_bytes(), &mut room) {
                PlainHead::Part => "part",
                PlainHead::Other => "other",
                PlainHead::Plain(_) => "plain",
            };
            assert_eq!(found, expected, "{bytes}");
        }
        let many = |count: usize| {
            let fields = "A: b\r\n".repeat(count);
            kind(format!("GET /v1/a HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes())
        };
        assert_eq!((many(HEADERS_MAX - 1), many(HEADERS_MAX)), ("plain", "other"));
    }

    #[test]
    fn targets_that_others_answer_are_theirs() {
        let of = |method: &str, target: &str, more: &str| {
            kind(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{more}\r\n").as_bytes())
        };
        assert_eq!(of("CONNECT", "/v1/a", ""), "other");
        // What ends as a folder may be more than a read, and so may what brings a body.
        for target in ["/v1/a/", "/v1/a%2F", "/v1/a%2f", "/v1/a//b", "/v2/a", "/v1/a;b", "/v1/a,b"]
        {
            assert_eq!(of("GET", target, ""), "plain", "{target}");
        }
        assert_eq!(of("GET", "/v1/aZ0/-_.+=%41", ""), "read");
        assert_eq!(of("GET", "/v1/a", "Content-Length: 1\r\n\r\nx"), "plain");
        let of_two = of("GET", "/v1/a", "X-Vault-Token: t\r\nx-vault-token: u\r\n");
        assert_eq!(of_two, "plain");
    }

    #[test]
    fn a_read_has_the_first_token_and_the_path_behind_the_version() {
        let head = b"GET /v1/secret/a HTTP/1.1\r\nHost: h\r\nX-Vault-Token: t\r\n\r\n";
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let PlainHead::Plain(plain) = find(head, &mut room) else { panic!("a plain request") };
        assert_eq!(plain.as_read(), Some(("secret/a", Some("t"))));
        assert_eq!((plain.method, plain.target), ("GET", "/v1/secret/a"));
        let parts = plain.to_parts().unwrap();
        assert_eq!((parts.method, parts.uri.path()), (Method::GET, "/v1/secret/a"));
        assert_eq!(parts.headers["x-vault-token"], "t");
    }

    #[test]
    fn a_target_with_a_fragment_is_no_head() {
        for (target, is_one) in [("/v1/a#b", false), ("/v1/a?b#", false), ("/v1/a?b%23", true)] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let PlainHead::Plain(plain) = find(head.as_bytes(), &mut room) else { panic!() };
            assert_eq!((plain.to_parts().is_some(), plain.as_read()), (is_one, None), "{target}");
        }
    }

    #[test]
    fn a_read_shows_a_token_or_none_and_nothing_that_is_no_text() {
        let kind =
            |token: &str| kind(format!("GET /v1/a HTTP/1.1\r\nHost: h\r\n{token}\r\n").as_bytes());
        assert_eq!(kind(""), "read");
        assert_eq!(kind("X-Vault-Token: t\r\n"), "read");
        assert_eq!(kind("X-Vault-Token:\r\n"), "plain");
        assert_eq!(kind("X-Vault-Token: t u\r\n"), "plain");
        assert_eq!(kind("Authorization: Bearer t\r\n"), "plain");
    }

    #[test]
    fn bodies_belong_to_their_requests() {
        let post = b"POST /v1/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /";
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let PlainHead::Plain(plain) = find(post, &mut room) else { panic!("a plain request") };
        assert_eq!((plain.body, plain.length), (b"abc".as_slice(), post.len() - 5));
    }
}
