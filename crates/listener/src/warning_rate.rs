//! How often the log repeats a warning that clients, or a lack of files, may cause many times a second.
//!
//! `server` asks before it warns of a connection that it could not accept, `proxy_protocol` before it warns of one without a header: whoever
//! connects must not fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two warnings.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// Lets a warning through once in a while and counts those in between.
#[derive(Default)]
pub(crate) struct WarningRate(Mutex<(Option<Instant>, u64)>);

impl WarningRate {
    /// How many warnings were held back before this one; `None` where it is held back too.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < WARNING_PAUSE) {
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
        let (rate, start) = (WarningRate::default(), SystemClock.instant());
        assert_eq!(rate.pass(start), Some(0));
        for milliseconds in 0..1000 {
            assert_eq!(rate.pass(start + Duration::from_millis(milliseconds)), None);
        }
        assert_eq!(rate.pass(start + WARNING_PAUSE), Some(1000));
        assert_eq!(rate.pass(start + WARNING_PAUSE * 2), Some(0));
    }
}
