//! How often the log repeats a warning that clients, or a lack of files, may cause many times a second.
//!
//! `server` asks before it warns of a connection that it could not accept, `proxy_protocol` before it warns of one without a header, `resp`
//! before it warns of one that speaks HTTP: whoever connects must not fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets a warning through once in a while and counts those in between.
pub(crate) struct WarningRate {
    /// Least time between two warnings.
    pause: Duration,
    /// When the last one passed, and how many were held back since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl WarningRate {
    /// Nothing was warned of yet; `pause` is the least time between two warnings.
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::default() }
    }

    /// How many warnings were held back before this one; `None` where it is held back too.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.pause) {
            *held_back += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, WallClock};

    #[test]
    fn a_flood_of_warnings_is_one_line_in_a_while() {
        let pause = Duration::from_secs(10);
        let (rate, start) = (WarningRate::new(pause), SystemClock.instant());
        assert_eq!(rate.pass(start), Some(0));
        for milliseconds in 0..1000 {
            assert_eq!(rate.pass(start + Duration::from_millis(milliseconds)), None);
        }
        assert_eq!(rate.pass(start + pause), Some(1000));
        assert_eq!(rate.pass(start + pause * 2), Some(0));
    }
}
