//! A server's clock: it goes at a rate of its own, and only while somebody moves it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use kallisto_lsm::clock::Clock;

/// A rate of this many parts in a thousand is the right one.
pub(crate) const RIGHT_RATE: u64 = 1000;

/// The slowest that any clock goes.
pub(crate) const RATE_MIN: u64 = RIGHT_RATE / 3;

/// Moments that a clock remembers.
const MOMENTS_MAX: usize = 4096;

/// What one server believes the time to be.
#[derive(Debug)]
pub(crate) struct SimClock(Mutex<ClockState>);

#[derive(Clone, Debug)]
struct ClockState {
    own: Duration,
    /// The simulation's time when `own` was last set.
    world: Duration,
    rate: u64,
    /// What it showed when, of late.
    shown: VecDeque<(Duration, Duration)>,
}

impl SimClock {
    /// A clock that starts at `own` when the world's is at `world`.
    pub(crate) fn new(own: Duration, world: Duration) -> Self {
        let shown = VecDeque::from([(own, world)]);
        Self(Mutex::new(ClockState { own, world, rate: RIGHT_RATE, shown }))
    }

    /// The world's time went on.
    pub(crate) fn follow(&self, world: Duration) {
        self.change(|state| {
            let passed = world.saturating_sub(state.world);
            state.own += passed * u32::try_from(state.rate).unwrap_or(1) / 1000;
            state.world = world;
            if passed > Duration::ZERO {
                state.shown.push_back((state.own, world));
                if state.shown.len() > MOMENTS_MAX {
                    state.shown.pop_front();
                }
            }
        });
    }

    /// The latest moment of the simulation at which it showed no more than `own`, if it remembers one.
    pub(crate) fn world_at(&self, own: Duration) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.shown.partition_point(|(shown, _)| *shown <= own);
        before.checked_sub(1).map(|last| state.shown[last].1)
    }

    /// Goes at another rate from now on.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.change(|state| state.rate = rate);
    }

    fn change(&self, change: impl FnOnce(&mut ClockState)) -> Duration {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.own
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.change(|_| {})
    }

    fn sleep(&self, duration: Duration) {
        self.change(|state| state.own += duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_at_its_rate_and_never_back() {
        let second = Duration::from_secs(1);
        let clock = SimClock::new(second, Duration::ZERO);
        clock.set_rate(500);
        clock.follow(4 * second);
        assert_eq!(clock.now(), 3 * second);
        clock.follow(2 * second);
        assert_eq!(clock.now(), 3 * second);
        assert_eq!(clock.world_at(3 * second), Some(4 * second));
        assert_eq!(clock.world_at(2 * second), Some(Duration::ZERO));
        assert_eq!(clock.world_at(second / 2), None);
    }
}
