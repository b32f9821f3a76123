//! The wire form of a core error: one exhaustive `match` (STYLE, Errors).

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use kallisto_core::admission::Crowd;
use kallisto_core::json::write_string;
use kallisto_core::{Allowance, Denial, Error, OverQuota};

use super::{HttpReply, response};
use crate::limits::RETRY_AFTER_SECS;

/// Gives a core error its status and messages.
pub(super) fn render(error: &Error) -> HttpReply {
    let (status, messages) = status_and_messages(error);
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let mut reply = with_messages(status, &messages);
    match error {
        Error::OverQuota(over) => tell_when(over, &mut reply),
        Error::TooManyTries { retry_after_secs } => {
            reply.headers_mut().insert(RETRY_AFTER, (*retry_after_secs).into());
        }
        Error::Busy(_) => {
            reply.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECS.into());
        }
        Error::Invalid(_)
        | Error::InvalidSilently
        | Error::Expected(_)
        | Error::CasMismatch
        | Error::TooLarge(_)
        | Error::UnsupportedMedia(_)
        | Error::NotFound
        | Error::NoNamespace
        | Error::NoRoute(_)
        | Error::UnsupportedPath
        | Error::UnsupportedOperation
        | Error::Denied(_)
        | Error::Sealed
        | Error::Conflict
        | Error::Stale(_)
        | Error::NotLeader
        | Error::Unavailable(_)
        | Error::Unaudited
        | Error::Internal(_) => {}
    }
    reply
}

/// The status of a core error, and what the client hears.
pub(crate) fn status_and_messages(error: &Error) -> (StatusCode, Vec<String>) {
    let text = error.to_string();
    match error {
        Error::Invalid(_) | Error::CasMismatch => (StatusCode::BAD_REQUEST, vec![text]),
        Error::InvalidSilently => (StatusCode::BAD_REQUEST, Vec::new()),
        Error::Expected(mistake) => {
            let status = StatusCode::from_u16(mistake.status()).unwrap_or(StatusCode::BAD_REQUEST);
            (status, vec![if mistake.is_counted() { counted(&text) } else { text }])
        }
        Error::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, vec![text]),
        Error::UnsupportedMedia(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![text]),
        Error::NotFound => (StatusCode::NOT_FOUND, Vec::new()),
        Error::NoNamespace | Error::NoRoute(_) => (StatusCode::NOT_FOUND, vec![text]),
        Error::UnsupportedPath => (StatusCode::NOT_FOUND, vec![counted(&text)]),
        Error::UnsupportedOperation => (StatusCode::METHOD_NOT_ALLOWED, vec![counted(&text)]),
        Error::Denied(Denial::Policy) => (StatusCode::FORBIDDEN, vec![counted(&text)]),
        Error::Denied(
            Denial::BadToken
            | Denial::UnknownToken
            | Denial::NoWrappingToken
            | Denial::At(_)
            | Denial::SecondFactor(_)
            | Denial::Preflight(_),
        ) => (StatusCode::FORBIDDEN, vec![text]),
        Error::OverQuota(_) | Error::TooManyTries { .. } | Error::Busy(Crowd::Own) => {
            (StatusCode::TOO_MANY_REQUESTS, vec![text])
        }
        Error::Sealed
        | Error::NotLeader
        | Error::Stale(_)
        | Error::Conflict
        | Error::Busy(Crowd::All)
        | Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, vec![text]),
        Error::Internal(_) | Error::Unaudited => (StatusCode::INTERNAL_SERVER_ERROR, vec![text]),
    }
}

/// Says when to come back, where the server is set to.
fn tell_when(over: &OverQuota, reply: &mut HttpReply) {
    if !over.is_told {
        return;
    }
    let nothing = Allowance { limit: over.limit, left: 0, reset_secs: over.retry_after_secs };
    response::tell_allowance(reply, nothing);
    reply.headers_mut().insert(RETRY_AFTER, over.retry_after_secs.into());
}

/// The form clients know from a list of errors with one member.
fn counted(text: &str) -> String {
    format!("1 error occurred:\n\t* {text}\n\n")
}

/// `{"errors":[…]}` under a status.
pub(super) fn with_messages(status: StatusCode, messages: &[&str]) -> HttpReply {
    let mut body = b"{\"errors\":[".to_vec();
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        write_string(message, &mut body);
    }
    body.extend_from_slice(b"]}\n");
    response::json(status, body)
}
