//! A machine's wall clock: it goes at the machine's rate, it may be off, and it may jump.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kallisto_lsm::clock::Clock;

use crate::clock::SimClock;

/// When the world begins: the first of January 2026.
const BEGINNING_SECS: i64 = 1_767_225_600;

/// A wall clock. It outlives the processes of its machine.
#[derive(Debug)]
pub(crate) struct Wall {
    clock: SimClock,
    /// How far it was set off, in milliseconds.
    off_ms: i64,
}

impl Wall {
    /// A clock that is so many milliseconds off.
    pub(crate) fn new(off_ms: i64, world: Duration) -> Self {
        Self { clock: SimClock::new(world, world), off_ms }
    }

    /// The time, when the world's is `world`.
    pub(crate) fn now(&self, world: Duration) -> Timestamp {
        self.clock.follow(world);
        let own = i64::try_from(self.clock.now().as_micros()).unwrap_or(i64::MAX);
        let since = SignedDuration::from_micros(own + self.off_ms * 1000);
        let beginning = Timestamp::from_second(BEGINNING_SECS).unwrap_or_default();
        beginning.saturating_add(since).unwrap_or(Timestamp::MAX)
    }

    /// Sets it to be so many milliseconds off.
    pub(crate) fn set_off(&mut self, off_ms: i64) {
        self.off_ms = off_ms;
    }

    /// Goes at another rate from now on.
    pub(crate) fn set_rate(&self, rate: u64, world: Duration) {
        self.clock.follow(world);
        self.clock.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_at_its_rate_and_jumps_when_it_is_set() {
        let secs = Duration::from_secs;
        let mut wall = Wall::new(500, secs(1));
        let began = wall.now(secs(1));
        wall.set_rate(2000, secs(1));
        assert_eq!(wall.now(secs(3)).duration_since(began), SignedDuration::from_secs(4));
        wall.set_off(-500);
        assert_eq!(wall.now(secs(3)).duration_since(began), SignedDuration::from_secs(3));
    }
}
