//! The wire form of a core error: one exhaustive `match` (STYLE, Errors).

use hyper::StatusCode;
use kallisto_core::json::write_string;
use kallisto_core::{Denial, Error, OverQuota};

use super::{Reply, response};

/// Gives a core error its status and messages.
pub(super) fn render(error: &Error) -> Reply {
    let text = error.to_string();
    match error {
        Error::Invalid(_) => with_messages(StatusCode::BAD_REQUEST, &[&text]),
        Error::InvalidSilently => with_messages(StatusCode::BAD_REQUEST, &[]),
        Error::TooLarge(_) => with_messages(StatusCode::PAYLOAD_TOO_LARGE, &[&text]),
        Error::UnsupportedMedia(_) => with_messages(StatusCode::UNSUPPORTED_MEDIA_TYPE, &[&text]),
        Error::NotFound => with_messages(StatusCode::NOT_FOUND, &[]),
        Error::NoNamespace | Error::NoRoute(_) => with_messages(StatusCode::NOT_FOUND, &[&text]),
        Error::UnsupportedPath => with_messages(StatusCode::NOT_FOUND, &[&counted(&text)]),
        Error::UnsupportedOperation => {
            with_messages(StatusCode::METHOD_NOT_ALLOWED, &[&counted(&text)])
        }
        Error::Denied(Denial::Policy) => with_messages(StatusCode::FORBIDDEN, &[&counted(&text)]),
        Error::Denied(
            Denial::BadToken
            | Denial::UnknownToken
            | Denial::NoWrappingToken
            | Denial::Preflight(_),
        ) => with_messages(StatusCode::FORBIDDEN, &[&text]),
        Error::OverQuota(over) => over_quota(over, &text),
        Error::Sealed | Error::NotLeader | Error::Conflict | Error::Unavailable(_) => {
            with_messages(StatusCode::SERVICE_UNAVAILABLE, &[&text])
        }
        Error::Internal(_) | Error::Unaudited => {
            with_messages(StatusCode::INTERNAL_SERVER_ERROR, &[&text])
        }
    }
}

/// A refusal for now; when to come back is told where the server is set to.
fn over_quota(over: &OverQuota, text: &str) -> Reply {
    let mut reply = with_messages(StatusCode::TOO_MANY_REQUESTS, &[text]);
    if over.is_told {
        for (name, value) in [
            ("retry-after", over.retry_after_secs),
            ("x-ratelimit-limit", over.limit),
            ("x-ratelimit-remaining", 0),
            ("x-ratelimit-reset", over.retry_after_secs),
        ] {
            reply.headers_mut().insert(name, value.into());
        }
    }
    reply
}

/// The form clients know from a list of errors with one member.
fn counted(text: &str) -> String {
    format!("1 error occurred:\n\t* {text}\n\n")
}

/// `{"errors":[…]}` under a status.
pub(super) fn with_messages(status: StatusCode, messages: &[&str]) -> Reply {
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
