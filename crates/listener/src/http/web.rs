//! Headers for browsers: whether a page of another origin may ask (CORS), and what the server's own
//! pages carry.
//!
//! A request that names an origin is judged before anything else looks at it: a foreign one is
//! refused without a word about the path. One without an origin comes from no page and passes, and so
//! does one from a page of the server itself: a browser names the origin of those too.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderName, HeaderValue, ORIGIN,
    VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use kallisto_core::{Core, Origins};

use super::{HttpReply, refuse, response};

/// The methods of the API, as a preflight is told.
const METHODS: &str = "DELETE,GET,OPTIONS,POST,PUT,LIST,SCAN,PATCH,RECOVER";
/// For how long a browser need not ask again, in seconds.
const PREFLIGHT_SECS: &str = "300";
/// Where the server's own pages are.
const PAGES: &str = "/ui";

/// What an origin comes to.
pub(super) enum Crossing {
    /// The request goes on; its answer is for pages of this origin, if it names one that may ask.
    Passes(Option<HeaderValue>),
    /// This is the answer: a refusal, or that of a preflight.
    Answered(HttpReply),
}

/// Judges where a request comes from.
pub(super) fn judge(core: &Core, head: &Parts) -> Crossing {
    let Some(origin) = head.headers.get(ORIGIN).filter(|origin| !origin.is_empty()) else {
        return Crossing::Passes(None);
    };
    let Some(origins) = core.origins() else { return Crossing::Passes(None) };
    if !origins.allow(origin.as_bytes()) {
        if is_own(head, origin) {
            return Crossing::Passes(None);
        }
        return Crossing::Answered(refuse(StatusCode::FORBIDDEN, &["origin not allowed"]));
    }
    if head.method != Method::OPTIONS {
        return Crossing::Passes(Some(origin.clone()));
    }
    let mut reply = preflight(&origins, head.headers.get(ACCESS_CONTROL_REQUEST_METHOD));
    if reply.status() == StatusCode::OK {
        allow(&mut reply, origin.clone());
    }
    Crossing::Answered(reply)
}

/// Whether the origin is where the request went: host and port are the same, so nothing is crossed.
/// The scheme may differ where a proxy ends TLS.
fn is_own(head: &Parts, origin: &HeaderValue) -> bool {
    let asked = match head.uri.authority() {
        Some(authority) => Some(authority.as_str().as_bytes()),
        None => head.headers.get(HOST).map(HeaderValue::as_bytes),
    };
    let schemes: [&[u8]; 2] = [b"https://", b"http://"];
    let from = schemes.iter().find_map(|scheme| origin.as_bytes().strip_prefix(*scheme));
    match (asked, from) {
        (Some(asked), Some(from)) => !asked.is_empty() && asked.eq_ignore_ascii_case(from),
        _ => false,
    }
}

/// Answers the question of a browser whether it may send a request.
fn preflight(origins: &Origins, method: Option<&HeaderValue>) -> HttpReply {
    let is_ours = |method: &HeaderValue| METHODS.split(',').any(|known| *method == known);
    if !method.is_some_and(is_ours) {
        return response::empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let mut reply = response::empty(StatusCode::OK);
    let names: Vec<&str> = origins.headers().collect();
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECS));
    if let Ok(names) = HeaderValue::from_str(&names.join(",")) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    reply
}

/// Lets a page of this origin read the answer.
pub(super) fn allow(reply: &mut HttpReply, origin: HeaderValue) {
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    reply.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
}

/// Gives the answer at a page's address the headers that operators want there.
pub(super) fn dress(core: &Core, path: &str, reply: &mut HttpReply) {
    let below = path.strip_prefix(PAGES);
    if !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return;
    }
    for (name, values) in core.page_headers().iter() {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        reply.headers_mut().remove(&name);
        for value in values.iter().filter_map(|value| HeaderValue::from_str(value).ok()) {
            reply.headers_mut().append(&name, value);
        }
    }
}
