//! From request target and method to a route: what is ours, what is redirected, what is refused
//! before it reaches the core.

use std::borrow::Cow;

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode, header};

use super::stream::ReplyBody;
use super::{HttpReply, page, refuse, response};

/// How the path of a fresh nonce of ACME ends, which clients ask for by `HEAD` (RFC 8555, 7.2).
const NEW_NONCE: &str = "/acme/new-nonce";

/// A verb of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVerb {
    Get,
    Write,
    Patch,
    Delete,
    List,
    Scan,
    Recover,
}

/// Where a request goes.
pub(super) enum ResolvedTarget<'a> {
    /// To the core, with the percent-encoded path below `/v1/`.
    Api { path: Cow<'a, str>, method: HttpVerb },
    /// Nowhere: this is the answer.
    Reply(HttpReply),
}

/// Resolves a request's target; `has_page` says whether this server has a web page.
pub(super) fn resolve(head: &Parts, has_page: bool) -> ResolvedTarget<'_> {
    let path = head.uri.path();
    if let Some(path) = ocsp_by_get(head) {
        return ResolvedTarget::Api { path: Cow::Owned(path), method: HttpVerb::Get };
    }
    if head.method == Method::OPTIONS && path == "*" {
        // Whoever asks about the server as a whole hears that it is there (RFC 9110, section 9.3.7).
        return ResolvedTarget::Reply(response::empty(StatusCode::NO_CONTENT));
    }
    if path.contains("//") {
        return ResolvedTarget::Reply(redirect(head, &collapse_slashes(path)));
    }
    if has_page {
        if path == "/" || path == "/ui" {
            return ResolvedTarget::Reply(redirect(head, "/ui/"));
        }
        if let Some(path) = path.strip_prefix("/ui/") {
            return ResolvedTarget::Reply(page::answer(head, path));
        }
    }
    let Some(path) = path.strip_prefix("/v1/") else {
        return ResolvedTarget::Reply(refuse(StatusCode::NOT_FOUND, &[]));
    };
    let method = match head.method.as_str() {
        "GET" => HttpVerb::Get,
        "HEAD" if path == "sys/health" || path.ends_with(NEW_NONCE) => HttpVerb::Get,
        "POST" | "PUT" => HttpVerb::Write,
        "PATCH" => HttpVerb::Patch,
        "DELETE" => HttpVerb::Delete,
        "LIST" => HttpVerb::List,
        "SCAN" => HttpVerb::Scan,
        "RECOVER" => HttpVerb::Recover,
        "OPTIONS" => {
            let message = "cannot handle internal-only request operation";
            return ResolvedTarget::Reply(refuse(StatusCode::BAD_REQUEST, &[message]));
        }
        _ => return ResolvedTarget::Reply(refuse(StatusCode::METHOD_NOT_ALLOWED, &[])),
    };
    ResolvedTarget::Api { path: Cow::Borrowed(path), method }
}

/// Fewest characters of an OCSP request in base 64: one about one certificate by SHA-1 has 66 bytes (RFC 6960, 4.1.1).
const OCSP_CHARACTERS_MIN: usize = 88;

/// The path of an OCSP request by GET (RFC 6960, A.1) that could not stand in a path, the same in the alphabet of URLs: base 64 may have two slashes in a
/// row and end with one, which a path must not and which makes it a folder. `None` for all others, and for what no request is: folders may be called `ocsp`.
fn ocsp_by_get(head: &Parts) -> Option<String> {
    if head.method != Method::GET || head.uri.query().is_some() {
        return None;
    }
    let (mount, asked) = head.uri.path().strip_prefix("/v1/")?.split_once("/ocsp/")?;
    // The first byte of a request says that it is a sequence, which is an M in base 64.
    if !asked.starts_with('M') || mount.starts_with('/') || mount.contains("//") {
        return None;
    }
    let asked = ["%2f", "%2F"].iter().fold(asked.to_owned(), |text, from| text.replace(from, "/"));
    let asked = ["%2b", "%2B"].iter().fold(asked, |text, from| text.replace(from, "+"));
    let asked = ["%3d", "%3D"].iter().fold(asked, |text, from| text.replace(from, "="));
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let is_request = asked.len() >= OCSP_CHARACTERS_MIN && asked.bytes().all(is_base64);
    if !is_request || !(asked.contains("//") || asked.ends_with('/')) {
        return None;
    }
    Some(format!("{mount}/ocsp/{}", asked.replace('/', "_").replace('+', "-")))
}

fn collapse_slashes(path: &str) -> String {
    let mut cleaned = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !cleaned.ends_with('/') {
            cleaned.push(character);
        }
    }
    cleaned
}

/// A 307 to `path`, which repeats the method and body; the note for people goes with a `GET`.
fn redirect(head: &Parts, path: &str) -> HttpReply {
    // To a browser a backslash is a slash, and `/\host` is another server.
    if path.contains('\\') {
        return refuse(StatusCode::BAD_REQUEST, &["malformed request target"]);
    }
    let location = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut reply = Response::builder()
        .status(StatusCode::TEMPORARY_REDIRECT)
        .header(header::LOCATION, &location);
    let mut body = String::new();
    if head.method == Method::GET || head.method == Method::HEAD {
        reply = reply.header(header::CONTENT_TYPE, "text/html; charset=utf-8");
        body = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", escape_html(&location));
    }
    match reply.body(ReplyBody::from(body.into_bytes())) {
        Ok(reply) => response::with_common_headers(reply),
        // A target that cannot stand in a header is no target of ours.
        Err(_) => refuse(StatusCode::BAD_REQUEST, &["malformed request target"]),
    }
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, uri: &str) -> Parts {
        hyper::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0
    }

    fn status(method: &str, uri: &str) -> Option<u16> {
        match resolve(&parts(method, uri), true) {
            ResolvedTarget::Api { .. } => None,
            ResolvedTarget::Reply(reply) => Some(reply.status().as_u16()),
        }
    }

    #[test]
    fn only_a_server_with_a_page_leads_there() {
        for uri in ["/", "/ui", "/ui/", "/ui/s/secret/a", "/ui/assets/x.js"] {
            let ResolvedTarget::Reply(reply) = resolve(&parts("GET", uri), false) else {
                panic!("{uri}")
            };
            assert_eq!(reply.status(), StatusCode::NOT_FOUND, "{uri}");
        }
        for (method, uri, expected) in [
            ("GET", "/ui", 307),
            ("GET", "/ui/", 200),
            ("HEAD", "/ui/s/kv/a%2Fb", 200),
            ("POST", "/ui/", 405),
            ("LIST", "/ui/", 405),
            ("GET", "/ui/a//b", 307),
            ("GET", "/uix", 404),
            ("GET", "/UI/", 404),
        ] {
            assert_eq!(status(method, uri), Some(expected), "{method} {uri}");
        }
    }

    #[test]
    fn targets_resolve_as_the_wire_contract_says() {
        for (method, uri, expected) in [
            ("GET", "/v1/secret/data/a", None),
            ("LIST", "/v1/secret/metadata", None),
            ("HEAD", "/v1/sys/health", None),
            ("HEAD", "/v1/secret/data/a", Some(405)),
            ("OPTIONS", "/v1/a", Some(400)),
            ("OPTIONS", "*", Some(204)),
            ("GET", "*", Some(404)),
            ("GET", "//\\evil.com//x", Some(400)),
            ("GET", "/v1//a\\b", Some(400)),
            ("RECOVER", "/v1/a", None),
            ("recover", "/v1/a", Some(405)),
            ("TRACE", "/v1/a", Some(405)),
            ("FOO", "/v1/a", Some(405)),
            ("GET", "/", Some(307)),
            ("GET", "/v1", Some(404)),
            ("GET", "/v2/a", Some(404)),
            ("POST", "/v1/a//b", Some(307)),
            ("GET", "/v1/pki/ocsp/MEow//a+b//", Some(307)),
            ("GET", "/v1/secret/data/ocsp/a//b", Some(307)),
            ("GET", "/v1/pki/ocsp//a", Some(307)),
            ("GET", "/v1//pki/ocsp/a//b", Some(307)),
            ("POST", "/v1/pki/ocsp/a//b", Some(307)),
        ] {
            assert_eq!(status(method, uri), expected, "{method} {uri}");
        }
        // What stands before and after the middle of an OCSP request.
        let between = |from: &str, to: &str| format!("{from}{}{to}", "A".repeat(88));
        for (uri, expected) in [
            (between("/v1/pki/ocsp/M//a+b", "//="), between("pki/ocsp/M__a-b", "__=")),
            (between("/v1/ns/pki/ocsp/M%2F%2fa%2B/", "%3d"), between("ns/pki/ocsp/M__a-_", "=")),
            (between("/v1/pki/ocsp/M", "/"), between("pki/ocsp/M", "_")),
            (between("/v1/pki/ocsp/M+/", "%2F"), between("pki/ocsp/M-_", "_")),
            (between("/v1/pki/ocsp/M/a+b", ""), between("pki/ocsp/M/a+b", "")),
            (between("/v1/kv/metadata/ocsp/M", "/?list=true"), between("kv/metadata/ocsp/M", "/")),
            (between("/v1/kv/metadata/ocsp/N", "/"), between("kv/metadata/ocsp/N", "/")),
            (between("/v1/kv/metadata/ocsp/M-", "/"), between("kv/metadata/ocsp/M-", "/")),
        ] {
            let parts = parts("GET", &uri);
            let ResolvedTarget::Api { path, .. } = resolve(&parts, true) else { panic!("{uri}") };
            assert_eq!(path, expected);
        }
        for (uri, expected) in [
            ("/v1/kv/metadata/ocsp/Mine/", "kv/metadata/ocsp/Mine/"),
            ("/v1/secret/data/ocsp/a%2Fb", "secret/data/ocsp/a%2Fb"),
            ("/v1/secret/data/ocsp/a%2F%2F..", "secret/data/ocsp/a%2F%2F.."),
        ] {
            let parts = parts("GET", uri);
            let ResolvedTarget::Api { path, .. } = resolve(&parts, true) else { panic!("{uri}") };
            assert_eq!(path, expected);
        }
        let ResolvedTarget::Reply(reply) = resolve(&parts("GET", "/v1/a//b///c?x=%3C"), true)
        else {
            panic!("expected a redirect");
        };
        assert_eq!(reply.headers()[header::LOCATION], "/v1/a/b/c?x=%3C");
    }
}
