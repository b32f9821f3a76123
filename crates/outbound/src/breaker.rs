//! When a far end that failed is asked again.
//!
//! Called for each call over pooled sessions. After a few failures in a row calls are refused at once, in the words of the last failure,
//! for a time that doubles with each further failure; whoever comes after that time tries.

use std::time::Duration;

use kallisto_engine::FarEndFailure;
use tokio::time::Instant;

/// Failures in a row before calls are refused.
const FAILURES_MAX: u32 = 3;
/// The first time for which they are, in seconds.
const PAUSE_FIRST_SECS: u64 = 1;
/// The longest, in seconds: how long a far end that is back may go unnoticed.
const PAUSE_SECS_MAX: u64 = 4;

/// The failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    closed_from: Option<Instant>,
    last: Option<FarEndFailure>,
}

impl Breaker {
    /// Lets a call through.
    ///
    /// # Errors
    /// The last failure, while it is open.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), FarEndFailure> {
        let Some(until) = self.closed_from.filter(|until| now < *until) else { return Ok(()) };
        let left = (until - now).as_secs() + 1;
        let last = self.last.clone().unwrap_or(FarEndFailure::Busy);
        let words = format!("{last} (it is asked again in {left}s)");
        Err(FarEndFailure::Paused(Box::new(last.map(|_| words))))
    }

    /// Whether calls are refused.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.admit(now).is_err()
    }

    pub(crate) fn succeed(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn fail(&mut self, now: Instant, failure: &FarEndFailure) {
        self.failures = self.failures.saturating_add(1);
        self.last = Some(failure.clone());
        if self.failures >= FAILURES_MAX {
            let doubled = (self.failures - FAILURES_MAX).min(16);
            let pause = (PAUSE_FIRST_SECS << doubled).min(PAUSE_SECS_MAX);
            self.closed_from = Some(now + Duration::from_secs(pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_some_failures_nothing_is_asked_for_a_time_that_grows() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let failure = FarEndFailure::Unreachable("connection refused".into());
        for _ in 1..FAILURES_MAX {
            breaker.fail(start, &failure);
            assert_eq!(breaker.admit(start), Ok(()));
        }
        breaker.fail(start, &failure);
        let refused = breaker.admit(start).unwrap_err();
        assert!(refused.words().starts_with("connection refused"), "{refused}");
        assert!(matches!(refused, FarEndFailure::Paused(_)) && !refused.is_wrong_password());
        let second = Duration::from_secs(1);
        assert_eq!(breaker.admit(start + second), Ok(()));
        breaker.fail(start, &failure);
        assert!(breaker.is_open(start + second));
        assert!(!breaker.is_open(start + 2 * second));
        for _ in 0..100 {
            breaker.fail(start, &failure);
        }
        assert!(!breaker.is_open(start + PAUSE_SECS_MAX as u32 * second));
        breaker.succeed();
        assert!(!breaker.is_open(start));
    }

    #[test]
    fn what_is_not_asked_is_no_refusal_of_the_far_end() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES_MAX {
            breaker.fail(start, &FarEndFailure::LoginRefused("no such password".into()));
        }
        let refused = breaker.admit(start).unwrap_err();
        assert!(refused.is_wrong_password(), "whoever has another password tries it");
    }
}
