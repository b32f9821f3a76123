//! The web page below `/ui/`: its files by name, and its shell at every other path.
//!
//! `target` hands over what lies below `/ui` while the server has a page. The answers are bytes of the binary: nothing here asks the core, so
//! they are the same sealed and unsealed, and no request gets to data by this way. What operators add to the headers comes in `web::dress`, after this.
//!
//! Invariants:
//! - Only GET and HEAD are answered.
//! - Every answer carries the headers of [`HEADERS`], a 304 and a refusal too.
//! - The shell is sent with `no-store`; a file whose name has a digest is kept for ever. Answers of the API are never compressed, those here are.

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use kallisto_ui::Asset;

use super::stream::ReplyBody;
use super::{HttpReply, response};

/// What browsers are told about the page, each with its default.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; \
         worker-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types kallisto-worker",
    ),
    (
        "permissions-policy",
        "clipboard-write=(self), camera=(), microphone=(), geolocation=(), usb=()",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];
/// How long a file is kept whose name says what it holds.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The answer to a request for `path` below `/ui/`, which is percent-encoded as it came.
pub(super) fn answer(head: &Parts, path: &str) -> HttpReply {
    let mut reply = if head.method == Method::GET || head.method == Method::HEAD {
        match kallisto_ui::asset(path).or_else(kallisto_ui::shell) {
            Some(asset) => file(&head.headers, &asset),
            None => response::empty(StatusCode::NOT_FOUND),
        }
    } else {
        response::empty(StatusCode::METHOD_NOT_ALLOWED)
    };
    for (name, value) in HEADERS {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

fn file(headers: &HeaderMap, asset: &Asset) -> HttpReply {
    let (body, encoding) = encoded(headers, asset);
    let tag = tag(asset.digest, encoding);
    let is_known = tag.as_ref().is_some_and(|tag| names(headers, tag.as_bytes()));
    let mut reply = Response::new(if is_known { ReplyBody::empty() } else { body.into() });
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let mut reply = response::with_common_headers(reply);
    let own = reply.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    own.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(tag) = tag {
        own.insert(ETAG, tag);
    }
    if asset.is_immutable {
        own.insert(CACHE_CONTROL, FOR_EVER);
    }
    if let Some(encoding) = encoding.filter(|_| !is_known) {
        own.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    reply
}

/// The smallest form of a file that the client takes, and how it is encoded.
fn encoded(headers: &HeaderMap, asset: &Asset) -> (Bytes, Option<&'static str>) {
    for (name, packed) in [("br", asset.brotli), ("gzip", asset.gzip)] {
        if let Some(packed) = packed.filter(|_| takes(headers, name)) {
            return (Bytes::from_static(packed), Some(name));
        }
    }
    let plain = match &asset.plain {
        std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        std::borrow::Cow::Owned(bytes) => Bytes::copy_from_slice(bytes),
    };
    (plain, None)
}

/// Whether the client takes an encoding (RFC 9110, section 12.5.3): named with a quality above zero, or all by `*`.
fn takes(headers: &HeaderMap, encoding: &str) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let mut by_star = false;
    for item in lines.flat_map(|line| line.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let is_taken = quality.is_none_or(|text| text.parse::<f32>().is_ok_and(|q| q > 0.0));
        if name.eq_ignore_ascii_case(encoding) {
            return is_taken;
        }
        by_star |= name == "*" && is_taken;
    }
    by_star
}

/// The strong validator of a form of a file; `None` for one that is being worked on.
fn tag(digest: &str, encoding: Option<&str>) -> Option<HeaderValue> {
    let digest = digest.get(..32)?;
    let text = match encoding {
        Some(encoding) => format!("\"{digest}-{encoding}\""),
        None => format!("\"{digest}\""),
    };
    HeaderValue::from_str(&text).ok()
}

/// Whether the client has the form with this tag (RFC 9110, section 13.1.2: compared weakly).
fn names(headers: &HeaderMap, tag: &[u8]) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut known = lines.flat_map(|line| line.split(',')).map(str::trim);
    known.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(text: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
        headers
    }

    #[test]
    fn encodings_are_taken_as_the_client_says() {
        for (text, br, gzip) in [
            ("gzip, deflate, br", true, true),
            ("gzip", false, true),
            ("*", true, true),
            ("*;q=0", false, false),
            ("br;q=0, *", false, true),
            ("BR;Q=0.5", true, false),
            ("br;q=0.0", false, false),
            ("br;q=x", false, false),
            ("identity", false, false),
            ("", false, false),
        ] {
            let headers = accepting(text);
            assert_eq!((takes(&headers, "br"), takes(&headers, "gzip")), (br, gzip), "{text}");
        }
        assert!(!takes(&HeaderMap::new(), "gzip"));
    }

    #[test]
    fn each_form_of_a_file_has_its_own_tag() {
        let digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let (plain, br) = (tag(digest, None).unwrap(), tag(digest, Some("br")).unwrap());
        assert_ne!(plain, br);
        let mut headers = HeaderMap::new();
        headers
            .insert(IF_NONE_MATCH, format!("\"x\", W/{}", br.to_str().unwrap()).parse().unwrap());
        assert!(names(&headers, br.as_bytes()) && !names(&headers, plain.as_bytes()));
        assert!(tag("", None).is_none());
    }
}
