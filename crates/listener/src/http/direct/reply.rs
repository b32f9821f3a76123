//! How a reply is written: what [`response::render`] would say, without the types of an HTTP library where they are not
//! needed.

use std::cell::RefCell;

use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use jiff::Timestamp;
use kallisto_core::json::write_u64;
use kallisto_core::{Logical, RequestId};

use crate::buffer_pool;
use crate::http::{HttpReply, response};

/// The head and body of a read that found something: what [`response::render`] would say.
pub(super) fn write_found(logical: &Logical, id: RequestId, now: Timestamp, out: &mut Vec<u8>) {
    thread_local! {
        static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BODY.with_borrow_mut(|body| {
        body.clear();
        response::write_envelope(logical, id, b"", body);
        out.reserve(body.len() + HEAD_BYTES_USUAL);
        out.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
            strict-transport-security: max-age=31536000; includeSubDomains\r\n",
        );
        if let Some(etag) = logical.etag {
            out.extend_from_slice(b"etag: ");
            etag.write(out);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(index) = logical.index {
            out.extend_from_slice(b"x-kallisto-index: ");
            write_u64(index, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"content-length: ");
        write_u64(body.len() as u64, out);
        write_date(now, out);
        out.extend_from_slice(body);
        buffer_pool::clear(body);
    });
}

/// The head and body of a read that found bytes of a kind: what [`response::render`] would say of an answer with status 200.
pub(super) fn write_text(content_type: &str, body: &[u8], now: Timestamp, out: &mut Vec<u8>) {
    out.reserve(body.len() + HEAD_BYTES_USUAL);
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    out.extend_from_slice(content_type.as_bytes());
    out.extend_from_slice(
        b"\r\ncache-control: no-store\r\n\
        strict-transport-security: max-age=31536000; includeSubDomains\r\ncontent-length: ",
    );
    write_u64(body.len() as u64, out);
    write_date(now, out);
    out.extend_from_slice(body);
}

/// Bytes of a reply's head, as most have it.
const HEAD_BYTES_USUAL: usize = 320;

/// Status line and headers, up to and with the empty line.
pub(super) fn write_head(reply: &HttpReply, now: Timestamp, out: &mut Vec<u8>) {
    let status = reply.status();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in reply.headers() {
        // How long a body is says its framing.
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    match reply.body().size_hint().exact() {
        Some(length) if has_body => {
            out.extend_from_slice(b"content-length: ");
            write_u64(length, out);
        }
        Some(_) => {
            // What went before ends with its line.
            out.truncate(out.len() - 2);
        }
        None => out.extend_from_slice(b"transfer-encoding: chunked"),
    }
    write_date(now, out);
}

/// The date, and the end of the head. What stands before has no end of line yet.
fn write_date(now: Timestamp, out: &mut Vec<u8>) {
    thread_local! {
        static DATE: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    out.extend_from_slice(b"\r\ndate: ");
    DATE.with_borrow_mut(|(second, text)| {
        if *second != now.as_second() {
            *second = now.as_second();
            *text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
        out.extend_from_slice(text.as_bytes());
    });
    out.extend_from_slice(b"\r\n\r\n");
}
