//! The wire form of a core response: the envelope of API.md A0.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::{Response, StatusCode};
use kallisto_core::json::{write_string, write_u64};
use kallisto_core::{Logical, RequestId};

use super::Reply;

/// Bytes of an envelope beside its data and warnings, at the most.
const FRAME_BYTES: usize = 192;

/// Gives a core response its wire form.
pub(super) fn render(response: kallisto_core::Response, id: RequestId) -> Reply {
    use kallisto_core::Response as Core;
    match response {
        Core::Empty => json(StatusCode::NO_CONTENT, Vec::new()),
        Core::MissingEmpty => json(StatusCode::NOT_FOUND, Vec::new()),
        Core::Logical(logical) => json(StatusCode::OK, envelope(&logical, id, b"")),
        Core::Accepted(logical) => json(StatusCode::ACCEPTED, envelope(&logical, id, b"")),
        Core::Missing(logical) => json(StatusCode::NOT_FOUND, envelope(&logical, id, b"")),
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
        Core::Text { code, content_type, body } => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            of_kind(status, HeaderValue::from_static(content_type), body)
        }
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The envelope around `logical`, led by `members` at the top level.
fn envelope(logical: &Logical, id: RequestId, members: &[u8]) -> Vec<u8> {
    let data = or_null(&logical.data);
    let mut out = Vec::with_capacity(FRAME_BYTES + members.len() + data.len());
    out.push(b'{');
    if !members.is_empty() {
        out.extend_from_slice(members);
        out.push(b',');
    }
    out.extend_from_slice(b"\"request_id\":\"");
    // A wrapped answer has its own id inside.
    if logical.wrap_info.is_empty() {
        out.extend_from_slice(id.text().as_bytes());
    }
    out.extend_from_slice(b"\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":");
    write_u64(logical.lease_secs, &mut out);
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(data);
    out.extend_from_slice(b",\"wrap_info\":");
    out.extend_from_slice(or_null(&logical.wrap_info));
    out.extend_from_slice(b",\"warnings\":");
    write_strings(&logical.warnings, &mut out);
    out.extend_from_slice(b",\"auth\":");
    out.extend_from_slice(or_null(&logical.auth));
    out.extend_from_slice(b"}\n");
    out
}

const fn or_null(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"null" } else { text }
}

fn write_strings(texts: &[String], out: &mut Vec<u8>) {
    if texts.is_empty() {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(b'[');
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(text, out);
    }
    out.push(b']');
}

/// A reply with a JSON body, which may be empty.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Reply {
    of_kind(status, HeaderValue::from_static("application/json"), body)
}

fn of_kind(status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    with_common_headers(reply)
}

/// Adds what every reply carries.
pub(super) fn with_common_headers(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000; includeSubDomains"),
    );
    reply
}
