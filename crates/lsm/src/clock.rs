//! The clock seam: time is an argument.
//!
//! Only the sync mode "every T milliseconds" and the back-pressure of writers look at time. A test hands in its own
//! [`Clock`] and never sleeps.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// A monotonic clock that can wait.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed point; never goes back.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// The clock of this machine.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that starts at zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock seam")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
