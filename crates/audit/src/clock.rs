//! The clocks of this room: when a record is written, and how long a device has been at it.

use std::time::{Instant, SystemTime};

use jiff::Timestamp;

/// A point of a clock that only goes forward.
#[expect(clippy::disallowed_methods, reason = "the seam: deadlines of devices are real time")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// The time of day that records carry.
#[expect(clippy::disallowed_methods, reason = "the seam: a record says when it was written")]
pub(crate) fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_today() {
        let written: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert!(now() > written);
        let before = monotonic();
        assert!(monotonic() >= before);
    }
}
