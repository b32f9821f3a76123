//! The wire form of a core response: Vault's envelope (`docs/api.md`, Conventions).

use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use kallisto_core::json::{write_string, write_strings, write_u64};
use kallisto_core::{
    Allowance, BatchAnswer, BatchPart, ETAG_BYTES_MAX, Error, Etag, Logical, RequestId,
    Response as Core,
};

use super::stream::ReplyBody;
use super::{HttpReply, error};

/// Up to where an answer is known to go, for a request that comes back to wait.
const INDEX: HeaderName = HeaderName::from_static("x-kallisto-index");

/// Statuses of answers without a body (RFC 9110, 15.3.5, 15.3.6, 15.4.5).
const NO_BODY: [StatusCode; 3] =
    [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];

/// Bytes of an envelope beside its data and warnings, at the most.
const FRAME_BYTES: usize = 192;

/// Gives a core response its wire form.
pub(super) fn render(response: Core, id: RequestId) -> HttpReply {
    match response {
        Core::Empty => json(StatusCode::NO_CONTENT, Vec::new()),
        Core::MissingEmpty => json(StatusCode::NOT_FOUND, Vec::new()),
        Core::NotModified { etag, index } => with_index(not_modified(etag), index),
        Core::Logical(logical) => {
            let reply = json(StatusCode::OK, envelope(&logical, id, b""));
            let reply = match logical.etag {
                Some(etag) => with_etag(reply, etag),
                None => reply,
            };
            with_index(reply, logical.index)
        }
        Core::Missing(logical) => {
            with_index(json(StatusCode::NOT_FOUND, envelope(&logical, id, b"")), logical.index)
        }
        Core::Each(answers) => {
            let logical = Logical { data: each(&answers), ..Logical::default() };
            json(StatusCode::OK, envelope(&logical, id, b""))
        }
        // All are driven by the service, which does not ask for the form of a wait.
        Core::Stream(_) | Core::Upload(_) | Core::Waiting(_) => {
            error::render(&Error::internal(&"an answer that takes time came where none may"))
        }
        Core::Accepted(logical) => json(StatusCode::ACCEPTED, envelope(&logical, id, b"")),
        Core::WithStatus { code, logical } => json(status(code), envelope(&logical, id, b"")),
        Core::Merged(logical) => {
            let members = logical.data.strip_prefix(b"{").and_then(|data| data.strip_suffix(b"}"));
            json(StatusCode::OK, envelope(&logical, id, members.unwrap_or_default()))
        }
        Core::Bare { code, body } => {
            let mut text = body.to_text();
            text.push(b'\n');
            json(status(code), text)
        }
        Core::Challenge { challenge, body } => {
            let mut text = body.to_text();
            text.push(b'\n');
            let reply = json(StatusCode::UNAUTHORIZED, text);
            with_headers(reply, vec![("www-authenticate", challenge)])
        }
        Core::Text { code, content_type, body } => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            of_kind(status, HeaderValue::from_static(content_type), body)
        }
        Core::Page { code, body } => page(status(code), body),
        Core::SeeOther { location } => match HeaderValue::try_from(location) {
            Ok(location) => {
                let mut reply = empty(StatusCode::SEE_OTHER);
                reply.headers_mut().insert(LOCATION, location);
                reply
                    .headers_mut()
                    .insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
                reply
            }
            Err(_) => error::render(&Error::internal(&"a location that no header can have")),
        },
        Core::Foreign { code, content_type, headers, body } => {
            let reply = match content_type {
                "" => empty(status(code)),
                kind => of_kind(status(code), HeaderValue::from_static(kind), body),
            };
            with_headers(reply, headers)
        }
    }
}

/// Adds headers of an answer. A value that cannot stand in a header is our mistake, and no reply.
fn with_headers(mut reply: HttpReply, headers: Vec<(&'static str, String)>) -> HttpReply {
    for (name, value) in headers {
        let Ok(value) = HeaderValue::try_from(value) else {
            return error::render(&Error::internal(&format_args!("no value of the header {name}")));
        };
        reply.headers_mut().append(HeaderName::from_static(name), value);
    }
    reply
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The envelope around `logical`, led by `members` at the top level.
fn envelope(logical: &Logical, id: RequestId, members: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_BYTES + members.len() + logical.data.len());
    write_envelope(logical, id, members, &mut out);
    out
}

/// Appends the same to `out`.
pub(super) fn write_envelope(logical: &Logical, id: RequestId, members: &[u8], out: &mut Vec<u8>) {
    logical.write_envelope(id, members, out);
    out.push(b'\n');
}

/// `{"results":[…]}`: for each path what a request of its own would have been answered.
fn each(answers: &[BatchAnswer]) -> Vec<u8> {
    let mut out = b"{\"results\":[".to_vec();
    for (at, answered) in answers.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"path\":");
        write_string(&answered.path, &mut out);
        let status = match &answered.answer {
            Ok(BatchPart::Empty) => StatusCode::NO_CONTENT,
            Ok(BatchPart::Found(_)) => StatusCode::OK,
            Ok(BatchPart::Missing(_)) => StatusCode::NOT_FOUND,
            Err(error) => {
                let (status, messages) = error::status_and_messages(error);
                out.extend_from_slice(b",\"errors\":");
                write_strings(&messages, &mut out);
                status
            }
        };
        if let Ok(part) = &answered.answer
            && !part.data().is_empty()
        {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(part.data());
        }
        out.extend_from_slice(b",\"status\":");
        write_u64(u64::from(status.as_u16()), &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

/// Says what a rate limit leaves to the client.
pub(super) fn tell_allowance(reply: &mut HttpReply, allowance: Allowance) {
    for (name, value) in [
        ("x-ratelimit-limit", allowance.limit),
        ("x-ratelimit-remaining", allowance.left),
        ("x-ratelimit-reset", allowance.reset_secs),
    ] {
        reply.headers_mut().insert(name, value.into());
    }
}

/// A reply whose body is still being made.
pub(super) fn stream(content_type: &'static str, body: ReplyBody) -> HttpReply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    with_common_headers(reply)
}

fn with_index(mut reply: HttpReply, index: Option<u64>) -> HttpReply {
    if let Some(index) = index {
        reply.headers_mut().insert(INDEX, HeaderValue::from(index));
    }
    reply
}

/// The client has what it asks for.
fn not_modified(etag: Etag) -> HttpReply {
    with_etag(empty(StatusCode::NOT_MODIFIED), etag)
}

fn with_etag(mut reply: HttpReply, etag: Etag) -> HttpReply {
    let mut text = Vec::with_capacity(ETAG_BYTES_MAX);
    etag.write(&mut text);
    // Made of digits, dots and quotes, which all may stand in a header.
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        reply.headers_mut().insert(ETAG, value);
    }
    reply
}

/// A reply of nothing, which is of no kind.
pub(super) fn empty(status: StatusCode) -> HttpReply {
    let mut reply = Response::new(ReplyBody::empty());
    *reply.status_mut() = status;
    with_common_headers(reply)
}

/// A reply with a JSON body, which may be empty.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> HttpReply {
    of_kind(status, HeaderValue::from_static("application/json"), body)
}

/// The body of a reply with this status, which may be one that has none.
pub(super) fn body_of(status: StatusCode, body: impl Into<ReplyBody>) -> ReplyBody {
    if NO_BODY.contains(&status) { ReplyBody::empty() } else { body.into() }
}

fn of_kind(status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> HttpReply {
    // Clients choose the status of some answers. What follows one that has no body would be read as the next answer.
    let mut reply = Response::new(body_of(status, body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    with_common_headers(reply)
}

/// A page for a browser, which runs no script, loads nothing, stands in no frame, sends forms to this server alone, and tells nobody where
/// it was: its address may have a code in it.
fn page(status: StatusCode, body: Vec<u8>) -> HttpReply {
    let mut reply = of_kind(status, HeaderValue::from_static("text/html; charset=utf-8"), body);
    for (name, value) in [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Adds what every reply carries.
pub(super) fn with_common_headers(mut reply: HttpReply) -> HttpReply {
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000; includeSubDomains"),
    );
    reply
}
