//! How long a collector that fails is left alone.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pause after the first failure, and the longest; each is twice that before it.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// When the collector may be asked again: later with each failure, whichever batch it was, until it takes one.
#[derive(Debug)]
pub(crate) struct Backoff {
    pause: Duration,
    next: Option<Instant>,
}

impl Default for Backoff {
    /// At once.
    fn default() -> Self {
        Self { pause: PAUSE_MIN, next: None }
    }
}

impl Backoff {
    /// The collector failed at `now`; `asked` is how long it wants to be left alone.
    pub(crate) fn fail(&mut self, now: Instant, asked: Option<Duration>) {
        // Servers that lost a collector together do not all come back to it at once.
        let own = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = Some(now + own.max(asked.unwrap_or_default()));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Waits until it may be asked.
    pub(crate) async fn wait(&self) {
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
    }

    /// Whether it may not be asked before `end`.
    pub(crate) fn lasts_until(&self, end: Instant) -> bool {
        self.next.is_some_and(|next| next >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause_after(backoff: &mut Backoff, asked: Option<Duration>) -> Duration {
        let now = Instant::now();
        backoff.fail(now, asked);
        backoff.next.unwrap() - now
    }

    #[test]
    fn pauses_grow_to_the_longest_and_start_anew_with_a_success() {
        let mut backoff = Backoff::default();
        assert!(!backoff.lasts_until(Instant::now()));
        for whole in [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000] {
            let whole = Duration::from_millis(whole);
            let pause = pause_after(&mut backoff, None);
            assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
        }
        backoff = Backoff::default();
        assert!(pause_after(&mut backoff, None) <= PAUSE_MIN);
    }

    #[test]
    fn what_a_collector_asks_for_makes_a_pause_longer_and_never_shorter() {
        let mut backoff = Backoff::default();
        let long = PAUSE_MAX * 3;
        assert_eq!(pause_after(&mut backoff, Some(long)), long);
        assert!(pause_after(&mut backoff, Some(Duration::ZERO)) >= PAUSE_MIN);
        let now = Instant::now();
        backoff.fail(now, Some(long));
        assert!(backoff.lasts_until(now + long) && !backoff.lasts_until(now + long * 2));
    }
}
