//! The log of completed requests: a line for each, at the level that `log_requests_level` says, in the words of Vault's.
//!
//! Called by the listener through [`RequestObserver`] for requests of the HTTP API. SIGHUP has the level read anew.
//!
//! Invariants:
//! - A line holds no token, no header, nothing of a body and nothing of a query: a path as it was sent, without the parts of
//!   it that look like a token.
//! - While the level is off, nothing is measured and nothing made.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kallisto_listener::http::{ArrivedRequest, ObservedRequest, RequestObserver};
use kallisto_listener::{SystemClock, WallClock};
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

use crate::percent;

/// How tokens begin, here and elsewhere.
const TOKEN_PREFIXES: [&str; 3] = ["hvs.", "hvb.", "hvr."];
/// How older ones do, which are told by their length besides.
const OLD_TOKEN_PREFIXES: [&str; 3] = ["s.", "b.", "r."];
const OLD_TOKEN_BYTES_MIN: usize = 26;
/// What is in the place of a part that looks like a token.
const HIDDEN: &str = "(token)";
/// Bytes of a path that are told.
const PATH_BYTES_MAX: usize = 1024;
/// The levels, by what is kept of them.
const LEVELS: [Option<Level>; 6] = [
    None,
    Some(Level::ERROR),
    Some(Level::WARN),
    Some(Level::INFO),
    Some(Level::DEBUG),
    Some(Level::TRACE),
];

/// The level at which completed requests are logged, which may change while the server runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestLog(Arc<AtomicU8>);

impl RequestLog {
    /// A log at `level`.
    pub(super) fn at(level: LevelFilter) -> Self {
        let log = Self::default();
        log.set(level);
        log
    }

    /// Logs requests at `level` from now on.
    pub(super) fn set(&self, level: LevelFilter) {
        let place = LEVELS.iter().position(|known| *known == level.into_level()).unwrap_or(0);
        self.0.store(u8::try_from(place).unwrap_or(0), Ordering::Relaxed);
    }

    fn level(&self) -> Option<Level> {
        LEVELS.get(usize::from(self.0.load(Ordering::Relaxed))).copied().flatten()
    }
}

impl RequestObserver for RequestLog {
    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn observe(&self, request: &ArrivedRequest<'_>) -> Option<Box<dyn ObservedRequest>> {
        Some(Box::new(LoggedRequest {
            level: self.level()?,
            method: shown(request.method).into_owned(),
            path: shown(request.path).into_owned(),
            at: request.at,
            begin: request.begin,
        }))
    }
}

/// A request that is logged when it is answered.
struct LoggedRequest {
    level: Level,
    method: String,
    path: String,
    at: Timestamp,
    begin: Instant,
}

/// Logs at a level that is known when the program runs: each has a place of its own in the code.
macro_rules! completed {
    ($level:expr, $($field:tt)*) => {
        match $level {
            Level::ERROR => tracing::error!(target: "kallisto_core", $($field)*),
            Level::WARN => tracing::warn!(target: "kallisto_core", $($field)*),
            Level::INFO => tracing::info!(target: "kallisto_core", $($field)*),
            Level::DEBUG => tracing::debug!(target: "kallisto_core", $($field)*),
            Level::TRACE => tracing::trace!(target: "kallisto_core", $($field)*),
        }
    };
}

impl ObservedRequest for LoggedRequest {
    fn ended(self: Box<Self>, status: u16, client: SocketAddr) {
        let took = SystemClock.instant().saturating_duration_since(self.begin);
        completed!(
            self.level,
            start_time = %self.at,
            duration = %millis(took),
            client_address = %client,
            status_code = status,
            request_path = %self.path,
            request_method = %self.method,
            "completed_request"
        );
    }
}

/// A duration as Vault writes it, to the microsecond.
fn millis(took: Duration) -> String {
    let micros = took.as_micros();
    format!("{}.{:03}ms", micros / 1_000, micros % 1_000)
}

/// A path as it may be shown: without what looks like a token, and not longer than a line should be.
pub(super) fn shown(path: &str) -> Cow<'_, str> {
    let is_plain = !path.split('/').any(holds_token);
    if is_plain && path.len() <= PATH_BYTES_MAX {
        return Cow::Borrowed(path);
    }
    let parts = path.split('/').map(|part| if holds_token(part) { HIDDEN } else { part });
    let mut text = parts.collect::<Vec<_>>().join("/");
    if text.len() > PATH_BYTES_MAX {
        let end = (0..=PATH_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    Cow::Owned(text)
}

/// Whether a part of a path has what looks like a token anywhere in it, however it is spelled: behind other characters, in
/// capitals, with percent signs and those once more.
fn holds_token(part: &str) -> bool {
    let once = decoded(part);
    let text = decoded(&once).to_ascii_lowercase();
    let is_old = |word: &str| {
        word.len() >= OLD_TOKEN_BYTES_MIN
            && OLD_TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
    };
    let is_outside = |of: char| !of.is_ascii_alphanumeric() && !"._-".contains(of);
    TOKEN_PREFIXES.iter().any(|prefix| text.contains(prefix)) || text.split(is_outside).any(is_old)
}

/// A part of a path without percent signs, as far as it is text.
fn decoded(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    Cow::Owned(String::from_utf8_lossy(&percent::decoded(part)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_without_tokens_and_not_longer_than_a_line() {
        for (path, expected) in [
            ("/v1/secret/data/a", "/v1/secret/data/a"),
            ("/v1/auth/token/lookup/hvs.CAESIabc", "/v1/auth/token/lookup/(token)"),
            ("/v1/a/%68vs.CAESIabc/b", "/v1/a/(token)/b"),
            ("/v1/auth/token/lookup%2Fhvs.CAESIabc", "/v1/auth/token/(token)"),
            ("/v1/a/%2568vs.CAESIabc/b", "/v1/a/(token)/b"),
            ("/v1/a/x=hvs.CAESIabc", "/v1/a/(token)"),
            ("/v1/a/%20HVB.CAESIabc", "/v1/a/(token)"),
            ("/v1/a/b;s.0123456789abcdefghijklmn", "/v1/a/(token)"),
            ("/v1/a/apps.0123456789abcdefghijklmn", "/v1/a/apps.0123456789abcdefghijklmn"),
            ("/v1/a/s.0123456789abcdefghijklmn", "/v1/a/(token)"),
            ("/v1/a/s.short", "/v1/a/s.short"),
            ("/v1/a/%zz%4", "/v1/a/%zz%4"),
        ] {
            assert_eq!(shown(path), expected);
        }
        let long = format!("/v1/{}", "a".repeat(2 * PATH_BYTES_MAX));
        assert_eq!(shown(&long).len(), PATH_BYTES_MAX + 3);
    }

    #[test]
    fn the_level_is_what_was_set_last() {
        let log = RequestLog::at(LevelFilter::OFF);
        assert!(!log.is_on() && log.level().is_none());
        for level in [LevelFilter::ERROR, LevelFilter::INFO, LevelFilter::TRACE] {
            log.set(level);
            assert!(log.is_on());
            assert_eq!(log.level(), level.into_level());
        }
        log.set(LevelFilter::OFF);
        assert!(!log.is_on());
    }

    #[test]
    fn durations_are_in_milliseconds() {
        assert_eq!(millis(Duration::from_micros(1_234_005)), "1234.005ms");
    }
}
