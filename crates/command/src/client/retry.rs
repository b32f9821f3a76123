//! Whether a request is sent again, and after how long.
//!
//! A pure decision: the client acts on it. Vault's client repeats anything; we repeat a write only
//! when the server surely did not run it, because a second `kv put` is a second version.
//!
//! | what happened | reads | writes |
//! |---|---|---|
//! | no connection | again | again |
//! | connection broken, time out | again | no |
//! | 412 (state not there yet), 429, 503 | again | again |
//! | other 5xx except 501 | again | no |

use std::time::Duration;

use super::Method;
use super::error::TransportKind;

/// Shortest and longest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(1000);
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Longest pause a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// What came of one try.
#[derive(Clone, Copy, Debug)]
pub enum Try {
    /// An answer.
    Answered {
        /// Its HTTP status.
        status: u16,
        /// What `Retry-After` asked for.
        retry_after: Option<Duration>,
    },
    /// No answer.
    Failed(TransportKind),
}

/// The pause before the next try, or `None` to leave it at this one.
///
/// `attempt` counts from 0; `jitter` is a random number from 0 to 1.
pub fn pause_before_retry(
    method: Method,
    attempt: u32,
    retries_max: u32,
    last: Try,
    jitter: f64,
) -> Option<Duration> {
    if attempt >= retries_max || !worth_repeating(method, last) {
        return None;
    }
    if let Try::Answered { status: 429 | 503, retry_after: Some(asked) } = last {
        return Some(asked.min(RETRY_AFTER_MAX));
    }
    let spread = (PAUSE_MAX - PAUSE_MIN).mul_f64(jitter.clamp(0.0, 1.0));
    Some((PAUSE_MIN + spread) * (attempt + 1))
}

const fn worth_repeating(method: Method, last: Try) -> bool {
    match last {
        Try::Failed(TransportKind::Connect) | Try::Answered { status: 412 | 429 | 503, .. } => true,
        Try::Failed(TransportKind::Broken | TransportKind::Timeout) => method.only_reads(),
        Try::Answered { status: 501, .. } => false,
        Try::Answered { status: 500..=599, .. } => method.only_reads(),
        Try::Failed(TransportKind::Tls | TransportKind::Other) | Try::Answered { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn answered(status: u16) -> Try {
        Try::Answered { status, retry_after: None }
    }

    fn retried(method: Method, last: Try) -> bool {
        pause_before_retry(method, 0, 2, last, 0.5).is_some()
    }

    #[test]
    fn reads_are_repeated_when_it_may_help() {
        let table = [
            (answered(200), false),
            (answered(400), false),
            (answered(403), false),
            (answered(404), false),
            (answered(412), true),
            (answered(429), true),
            (answered(500), true),
            (answered(501), false),
            (answered(502), true),
            (answered(503), true),
            (Try::Failed(TransportKind::Connect), true),
            (Try::Failed(TransportKind::Broken), true),
            (Try::Failed(TransportKind::Timeout), true),
            (Try::Failed(TransportKind::Tls), false),
            (Try::Failed(TransportKind::Other), false),
        ];
        for (last, wanted) in table {
            assert_eq!(retried(Method::Get, last), wanted, "{last:?}");
        }
    }

    #[test]
    fn writes_are_repeated_only_if_they_did_not_run() {
        for method in [Method::Put, Method::Post, Method::Patch, Method::Delete] {
            for status in [412, 429, 503] {
                assert!(retried(method, answered(status)), "{method:?} {status}");
            }
            for status in [200, 400, 500, 501, 502, 504] {
                assert!(!retried(method, answered(status)), "{method:?} {status}");
            }
            assert!(retried(method, Try::Failed(TransportKind::Connect)));
            assert!(!retried(method, Try::Failed(TransportKind::Broken)));
        }
    }

    #[test]
    fn tries_are_counted() {
        for retries_max in 0..4 {
            let tries = (0..10)
                .take_while(|&n| {
                    pause_before_retry(Method::Get, n, retries_max, answered(500), 0.0).is_some()
                })
                .count();
            assert_eq!(u32::try_from(tries), Ok(retries_max));
        }
    }

    #[test]
    fn pauses_grow_and_obey_the_server_within_reason() {
        let pause = |n, jitter| pause_before_retry(Method::Get, n, 9, answered(500), jitter);
        assert_eq!(pause(0, 0.0), Some(Duration::from_millis(1000)));
        assert_eq!(pause(0, 1.0), Some(Duration::from_millis(1500)));
        assert_eq!(pause(2, 0.0), Some(Duration::from_millis(3000)));
        let asked = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            pause_before_retry(Method::Put, 0, 1, Try::Answered { status: 429, retry_after }, 0.5)
        };
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(86_400), Some(RETRY_AFTER_MAX));
    }
}
